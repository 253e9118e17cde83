//! Ends of the process while an output is written: nothing may remain of it.

use super::place::{Made, Mounts, names, outputs, said, tcpwhy};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tcpwhy_testing::Folder;

/// Time that something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Signals in a row.
const ENDS: [&[Signal]; 6] = [
    &[Signal::INT],
    &[Signal::INT, Signal::INT],
    &[Signal::TERM],
    &[Signal::HUP, Signal::HUP],
    &[Signal::QUIT],
    &[Signal::KILL],
];

/// Makes a capture that takes minutes to read: the zeros of a hole in the file are empty frames.
fn endless(place: &Folder) {
    const HEADER: [u8; 24] =
        [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 1, 0, 0, 0];
    fs::write(place.join("endless.pcap"), HEADER).expect("a file");
    let file = fs::OpenOptions::new().write(true).open(place.join("endless.pcap"));
    file.and_then(|it| it.set_len(64 << 30)).expect("a file with a hole");
}

/// Waits until the capture is being read, which is when the process has confined itself.
fn is_under_way(child: &mut Child) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        if status.is_ok_and(|it| it.contains("Seccomp:\t2")) {
            return true;
        }
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
    false
}

/// Ends `command`, which writes into `folder`, by each signal. `seen` is called before, with
/// the names in the folder.
fn end(made: &Made, folder: &Path, command: impl Fn() -> Command, seen: impl Fn(usize)) {
    let target = folder.join(made.file());
    for signals in ENDS {
        for is_there in [true, false] {
            let _ = fs::remove_file(&target);
            if is_there {
                fs::write(&target, "old").expect("a file");
            }
            let before = names(folder);
            let mut child = command().stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
            let child = child.as_mut().expect("tcpwhy runs");
            if !is_under_way(child) {
                let _ = child.kill();
                panic!("{} was not under way", made.name());
            }
            seen(names(folder).len() - before.len());
            for signal in signals {
                // If it has ended already, the second signal comes too late.
                let _ = kill_process(Pid::from_child(child), *signal);
            }
            let began = Instant::now();
            while child.try_wait().expect("a child").is_none() {
                if began.elapsed() > PATIENCE {
                    let _ = child.kill();
                    panic!("{} goes on after {signals:?}", made.name());
                }
                sleep(Duration::from_millis(5));
            }
            let after = names(folder);
            assert!(after == before, "{} left {after:?} after {signals:?}", made.name());
            let old = fs::read(&target).unwrap_or_default();
            assert!(old == if is_there { &b"old"[..] } else { b"" }, "{}", made.name());
        }
    }
}

/// Returns the outputs that are made from a capture; the others are written at once.
fn slow() -> impl Iterator<Item = Made> {
    outputs().filter(|it| it.0.command != "man")
}

fn is_confined() -> bool {
    let has_calls = fs::read_to_string("/proc/self/status").is_ok_and(|it| it.contains("Seccomp:"));
    let has_filter = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    if !(has_calls && has_filter) {
        tcpwhy_testing::skip_in_ci_too("without seccomp, nothing shows that the work has begun");
    }
    has_calls && has_filter
}

#[test]
fn nothing_remains_of_an_output_however_the_process_ends() {
    if !is_confined() {
        return;
    }
    for made in slow() {
        let place = Folder::passable();
        endless(&place);
        let folder = place.folder("out");
        let words = made.words(&place.join("endless.pcap"), &folder);
        let has_nameless = rustix::fs::open(
            &folder,
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR,
            rustix::fs::Mode::RUSR,
        );
        if has_nameless.is_err() {
            return tcpwhy_testing::skip_in_ci_too("the file system has no files without a name");
        }
        end(
            &made,
            &folder,
            || tcpwhy(&words, ""),
            |more| {
                assert_eq!(more, 0, "{}: a temporary file has a name", made.name());
            },
        );
    }
}

#[test]
fn without_nameless_files_no_signal_but_kill_leaves_a_temporary_file() {
    // Without /proc, a file without a name cannot get one.
    let Some(mounts) = Mounts::new("mount -t tmpfs tmpfs /proc") else { return };
    if !is_confined() {
        return;
    }
    for made in slow() {
        let place = Folder::passable();
        endless(&place);
        let folder = place.folder("out");
        let words = made.words(&place.join("endless.pcap"), &folder);
        let clean = || {
            // A file that SIGKILL left, which nothing can prevent, does not hinder the next run.
            for name in names(&folder) {
                if name.to_string_lossy().starts_with(".tcpwhy-") {
                    fs::remove_file(folder.join(name)).expect("a file");
                }
            }
        };
        let ends = ENDS.iter().filter(|it| !it.contains(&Signal::KILL));
        for signals in ends {
            clean();
            let before = names(&folder);
            let mut child = mounts.tcpwhy(&words, "");
            let child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
            let mut child = child.expect("tcpwhy runs");
            let is_under_way = is_under_way(&mut child);
            let during = names(&folder);
            for signal in *signals {
                let _ = kill_process(Pid::from_child(&child), *signal);
            }
            let output = child.wait_with_output().expect("it ends");
            assert!(is_under_way, "{}: {}", made.name(), said(&output));
            assert!(during.len() > before.len(), "{}: its file has a name", made.name());
            let after = names(&folder);
            assert!(after == before, "{} left {after:?} after {signals:?}", made.name());
        }
    }
}
