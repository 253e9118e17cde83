//! `tcpwhy treat` on real servers, in namespaces of its own. It needs root; without, the tests say
//! that they are skipped.

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_live::netns::Netns;
use tcpwhy_testing::Folder;

mod elsewhere;
mod host;
mod lab;
mod matrix;
mod nginx;
mod servers;
mod sockets;
mod weather;

/// A network namespace and a journal; both go with it.
struct Place {
    name: String,
    folder: Folder,
}

impl Place {
    /// `None` without root, which is said.
    fn new(test: &str) -> Option<Self> {
        if !tcpwhy_testing::privileged("network namespaces") {
            return None;
        }
        let name = format!("tw-treat-{test}-{}", std::process::id());
        // Other users run programs that are copied into it.
        let folder = Folder::passable();
        fs::create_dir(folder.join("journal")).expect("a folder");
        ip(&["netns", "add", &name]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        Some(Self { name, folder })
    }

    fn tcpwhy(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.arg("treat").args(arguments);
        command.env("TCPWHY_TREAT_DIR", self.folder.join("journal"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.tcpwhy(arguments).output().expect("tcpwhy runs")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let out = self.run(&[arguments, &["--json"]].concat());
        checked(&out.stdout, &String::from_utf8_lossy(&out.stderr))
    }

    /// Starts a treatment, and returns when it has changed what is there.
    fn treat(&self, arguments: &[&str]) -> Child {
        self.treat_in(&self.name, arguments)
    }

    /// Starts the treatment in another namespace.
    fn treat_in(&self, netns: &str, arguments: &[&str]) -> Child {
        let arguments = [arguments, &["--netns", netns, "--no-measure"]].concat();
        let child = self.tcpwhy(&arguments).stdout(Stdio::piped()).spawn();
        until_changed(child.expect("tcpwhy runs")).0
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        Netns::find(&self.name).expect("the namespace").inside(work).expect("entered")
    }

    fn journal_is_empty(&self) -> bool {
        let entries = fs::read_dir(self.folder.join("journal")).expect("a journal");
        let mut names = entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned());
        !names.any(|name| name.ends_with(".json"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().expect("ip is installed");
    assert!(status.success() || thread::panicking(), "ip {arguments:?}");
}

/// Returns when a treatment has changed what is there, with what it said until then.
fn until_changed(mut child: Child) -> (Child, String) {
    let mut said = Vec::new();
    let out = child.stdout.as_mut().expect("a pipe");
    while !String::from_utf8_lossy(&said).contains("  undo ") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).expect("readable"), 1, "it goes on");
        said.push(byte[0]);
    }
    // Lines are broken for a terminal.
    let words = String::from_utf8_lossy(&said).into_owned();
    (child, words.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the output in one line.
fn said(out: &Output) -> String {
    let words = String::from_utf8_lossy(&out.stdout).into_owned();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The document, valid by its schema.
fn checked(bytes: &[u8], said: &str) -> Value {
    let value = serde_json::from_slice(bytes).unwrap_or_else(|_| panic!("JSON: {said}"));
    let schema = include_str!("../../../../docs/treat.schema.json");
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    value
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("it runs");
}

/// A listener of this process in the namespace, with connections to it.
fn connected(place: &Place, number: usize) -> (TcpListener, Vec<(TcpStream, TcpStream)>) {
    place.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:7070").expect("a port");
        let connect = |_| {
            let client = TcpStream::connect("127.0.0.1:7070").expect("a connection");
            (client, listener.accept().expect("a connection").0)
        };
        let all = (0..number).map(connect).collect();
        (listener, all)
    })
}

fn end(mut child: Child) {
    signal(&child, rustix::process::Signal::TERM);
    assert!(child.wait().expect("it ends").success());
}

/// Prints what `bench/treat.sh` looks for.
fn told(before: Duration, treated: Duration) {
    let test = thread::current().name().unwrap_or_default().to_owned();
    println!("figure: {test}: median {before:.2?}, treated {treated:.2?}");
}
