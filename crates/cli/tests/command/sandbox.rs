//! Before a byte is parsed, the process gives up what parsing does not need.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A capture without frames.
const HEADER: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 1, 0, 0, 0];

fn has_landlock() -> bool {
    use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::ReadFile).and_then(|rules| rules.create()).is_ok()
}

fn status(process: &Path, field: &str) -> Option<u32> {
    let text = fs::read_to_string(process.join("status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line?.trim().parse().ok()
}

/// Reads standard input, on which the capture has begun.
fn under_way(more: &[&Path]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.arg("-").args(more).args(["--threads", "3"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tcpwhy runs");
    child.stdin.as_mut().expect("a pipe").write_all(&HEADER).expect("a reader");
    child
}

/// Waits until the sandbox is on, at most a few seconds.
fn is_confined(child: &Child) -> bool {
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    (0..500).any(|_| {
        sleep(Duration::from_millis(10));
        status(&process, "Seccomp") == Some(2)
    })
}

fn end(mut child: Child) -> Output {
    drop(child.stdin.take());
    child.wait_with_output().expect("it ends")
}

/// Returns whether the kernel has seccomp; without it, the status file has no such line.
fn has_seccomp() -> bool {
    status(Path::new("/proc/self"), "Seccomp").is_some()
}

#[test]
fn every_thread_that_parses_is_confined() {
    if !has_seccomp() {
        return;
    }
    let child = under_way(&[]);
    assert!(is_confined(&child));
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).expect("a running process");
    for task in tasks {
        let task = task.expect("a thread").path();
        assert_eq!((status(&task, "Seccomp"), status(&task, "NoNewPrivs")), (Some(2), Some(1)));
    }
    let output = end(child);
    // A header alone: it was read, and there was nothing to judge.
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("nothing to judge"), "{error}");
}

#[test]
fn only_the_captures_named_can_be_opened() {
    if !has_seccomp() || !has_landlock() {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
    fs::create_dir_all(&folder).expect("a folder");
    let (named, other) = (folder.join("named.pcap"), folder.join("other.pcap"));
    for replaced in [false, true] {
        fs::write(&named, HEADER).expect("a file");
        fs::write(&other, HEADER).expect("a file");
        let child = under_way(&[&named]);
        assert!(is_confined(&child));
        if replaced {
            fs::rename(&other, &named).expect("the same folder");
        }
        let output = end(child);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.contains("ermi"), replaced, "{text}");
    }
}
