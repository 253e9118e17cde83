//! A place for outputs, and the commands that make them.

use super::paths::{PATHS, PathArgument, Use};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use tcpwhy_testing::Folder;

/// A user without rights.
pub const NOBODY: u32 = 65_534;
/// The umask of the commands, and what it leaves of the mode of a new file.
const UMASK: &str = "027";
pub const NEW_MODE: u32 = 0o640;

/// The capture from which outputs are made.
pub fn capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures/nginx_nodelay_off.pcap")
}

/// A way to make an output.
#[derive(Clone, Copy)]
pub struct Made(pub PathArgument);

/// Returns all outputs that users name and that do not hold packets captured by tcpwhy itself.
/// `lab man` writes its pages as `man` does.
pub fn outputs() -> impl Iterator<Item = Made> {
    let named = PATHS.iter().filter(|it| matches!(it.used, Use::File | Use::Folder));
    named.filter(|it| it.command != "lab man").copied().map(Made)
}

impl Made {
    pub fn name(&self) -> String {
        format!("{} --{}", self.0.command, self.0.argument)
    }

    /// Returns the words of the command that makes the output from `input` in `folder`.
    pub fn words(&self, input: &Path, folder: &Path) -> Vec<OsString> {
        let to = match self.0.used {
            Use::Folder => folder.to_owned(),
            _ => folder.join(self.file()),
        };
        self.words_to(input, &to)
    }

    /// Returns the words of the command that writes to `to`.
    pub fn words_to(&self, input: &Path, to: &Path) -> Vec<OsString> {
        let (command, input, to) = (self.0.command, input.as_os_str(), to.as_os_str());
        let words = match (command, self.0.argument) {
            ("", "parquet") => vec![input, "--parquet".as_ref(), to],
            ("explain", "parquet") => vec!["explain".as_ref(), input, "--parquet".as_ref(), to],
            ("annotate" | "report", "output") => vec![command.as_ref(), input, "-o".as_ref(), to],
            ("anonymize", "output") => {
                vec![command.as_ref(), input, "--seed".as_ref(), "1".as_ref(), "-o".as_ref(), to]
            }
            ("compare", "output") => {
                let other = capture();
                let words = ["compare".into(), input.into(), other.into(), "-o".into(), to.into()];
                return words.into();
            }
            ("man", "folder") => vec!["man".as_ref(), to],
            _ => panic!("{} is an output: say here how it is made", self.name()),
        };
        words.into_iter().map(OsString::from).collect()
    }

    /// Returns the name of the file that is looked at.
    pub fn file(&self) -> &'static str {
        match self.0.argument {
            "parquet" => "connections.parquet",
            "folder" => "tcpwhy.1",
            _ => "target",
        }
    }

    /// Returns whether the output may be named by itself, not by its folder.
    pub fn is_file(&self) -> bool {
        self.0.used == Use::File
    }
}

/// Returns the command `tcpwhy WORDS…`; `more` is what the shell does besides, such as redirections.
/// It has the same process number, and handles signals as if it had been started by a user.
pub fn tcpwhy(words: &[OsString], more: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", "sh", "-c"]);
    command.arg(format!("umask {UMASK}; exec \"$0\" \"$@\" {more}"));
    command.arg(env!("CARGO_BIN_EXE_tcpwhy")).args(words).stdin(Stdio::null());
    command
}

/// Runs to its end.
pub fn run(words: &[OsString]) -> Output {
    tcpwhy(words, "").output().expect("tcpwhy runs")
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The output of a command in a new folder, and its exit status.
type Expected = (Vec<u8>, Option<i32>);

/// Returns the output in a new folder, which is always the same.
pub fn expected(made: &Made) -> Expected {
    static KNOWN: Mutex<BTreeMap<String, Expected>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let find = || {
        let place = Folder::passable();
        let output = run(&made.words(&capture(), &place));
        let bytes = fs::read(place.join(made.file()));
        let bytes = bytes.unwrap_or_else(|error| panic!("{}: {error}: {output:?}", made.name()));
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{}: {output:?}", made.name());
        (bytes, output.status.code())
    };
    known.entry(made.name()).or_insert_with(find).clone()
}

/// Returns the sorted names in a folder.
pub fn names(folder: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries.map(|it| it.expect("an entry").file_name()).collect();
    names.sort();
    names
}

/// A mount namespace in which a script was run; it ends with this value.
pub struct Mounts(Child);

impl Mounts {
    /// `None`, and the test is skipped, where root may not mount.
    pub fn new(script: &str) -> Option<Self> {
        if !tcpwhy_testing::privileged("mount namespaces") {
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
        command.arg(format!("{script}\necho ready; exec cat"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("unshare runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        if line != "ready\n" {
            let output = child.wait_with_output().expect("it ends");
            tcpwhy_testing::skip_in_ci_too(&format!("mounts: {}", said(&output)));
            return None;
        }
        Some(Self(child))
    }

    /// Returns the path in the namespace as it is seen from outside.
    pub fn at(&self, path: &Path) -> PathBuf {
        let root = format!("/proc/{}/root", self.0.id());
        Path::new(&root).join(path.strip_prefix("/").expect("an absolute path"))
    }

    /// Returns the command `tcpwhy WORDS…` in the namespace.
    pub fn tcpwhy(&self, words: &[OsString], more: &str) -> Command {
        let inner = tcpwhy(words, more);
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.0.id())).arg("--");
        command.arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
        command
    }
}

/// Where a command that may name what is in /dev is run: a mistake there would harm the whole
/// machine, so root has a /dev of its own.
pub enum Devices {
    Own(Mounts),
    /// This user can harm nothing.
    Harmless,
}

impl Devices {
    /// `None`, and the test is skipped, where root may not mount.
    pub fn new(place: &Folder) -> Option<Self> {
        if !tcpwhy_testing::is_root() {
            return Some(Self::Harmless);
        }
        let script = format!(
            "cd {}; mkdir dev; mount -t tmpfs -o mode=755 tmpfs dev\n\
             cp -a /dev/stdin /dev/stdout /dev/stderr /dev/fd dev/\n\
             for it in null zero full random urandom; do cp -a /dev/$it dev/; done\n\
             mount --bind dev /dev",
            place.display()
        );
        Mounts::new(&script).map(Self::Own)
    }

    /// Returns the command `tcpwhy WORDS…` there.
    pub fn tcpwhy(&self, words: &[OsString], more: &str) -> Command {
        match self {
            Self::Own(mounts) => mounts.tcpwhy(words, more),
            Self::Harmless => tcpwhy(words, more),
        }
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
