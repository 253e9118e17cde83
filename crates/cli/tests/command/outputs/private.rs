//! Folders for captured packets: refused where somebody else could have prepared them, or could read
//! what comes into them.

use super::paths::{PATHS, PathArgument, Use};
use super::place::{NOBODY, names};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use tcpwhy_testing::{Folder, privileged};

/// Returns the words of a command that captures into `folder`; `None` if it captures nothing.
fn words(path: &PathArgument, folder: &Path) -> Option<Vec<OsString>> {
    let words = match (path.command, path.argument) {
        ("doctor", "bundle") => vec!["doctor", "http://127.0.0.1:9/", "--no-load", "--bundle"],
        ("watch", "write") => vec!["watch", "--for", "1s", "--write"],
        ("lab run", "out") => vec!["lab", "run", "refused", "--requests", "2", "--out"],
        ("lab verify", "out") => vec!["lab", "verify", "--only", "refused", "--out"],
        // Takes the arguments of `lab run`, and captures nothing.
        ("lab hold", "out") => return None,
        other => panic!("{other:?} is an output of packets: say here how they are captured"),
    };
    let words = words.into_iter().map(OsString::from);
    Some(words.chain([folder.as_os_str().to_owned()]).collect())
}

/// Runs a command in its own network namespace, and returns what it printed.
fn refusal(words: &[OsString]) -> String {
    let mut command = Command::new("unshare");
    command.args(["--net", env!("CARGO_BIN_EXE_tcpwhy")]).args(words).stdin(Stdio::null());
    let output = command.output().expect("tcpwhy runs");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}: {output:?}");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn packets_are_kept_in_no_folder_that_others_could_have_prepared() {
    if !privileged("folders of other users") {
        return;
    }
    for path in PATHS.iter().filter(|it| it.used == Use::Private) {
        let place = Folder::passable();
        let [foreign, shared, own] = ["foreign", "shared", "own"].map(|it| place.folder(it));
        let link = place.join("link");
        symlink(&own, &link).expect("a link");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("a mode");
        for path in [&foreign, &link] {
            lchown(path, Some(NOBODY), Some(NOBODY)).expect("another owner");
        }
        let refused = [
            (&foreign, "belongs to user 65534"),
            (&shared, "everybody may write to it"),
            (&link, "a symbolic link on the way to it belongs to user 65534"),
        ];
        for (folder, reason) in refused {
            let Some(words) = words(path, folder) else { continue };
            let said = refusal(&words);
            assert!(said.contains(reason), "{words:?}: {said}");
        }
        for folder in [&foreign, &shared, &own] {
            assert!(names(folder).is_empty(), "{path:?}: {:?}", names(folder));
        }
    }
}

/// Asserts that nobody but the owner may look into a folder and the files in it.
pub fn is_kept_privately(folder: &Path) {
    let mode = |path: &Path| fs::symlink_metadata(path).expect("a file").mode() & 0o7777;
    assert_eq!(mode(folder), 0o700, "{}", folder.display());
    assert!(!names(folder).is_empty(), "{}", folder.display());
    for path in names(folder).iter().map(|name| folder.join(name)) {
        match path.is_dir() {
            true => is_kept_privately(&path),
            false => assert_eq!(mode(&path), 0o600, "{}", path.display()),
        }
    }
}
