//! Leaves nothing behind: namespaces, processes and files of this run are known here, so that
//! Ctrl-C can remove them too (a panic or a return does so through `Drop`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, Once, PoisonError};
use std::{fs, process, thread};

use crate::sys;

/// How every namespace and directory of the lab begins; the owner's process id follows.
pub const PREFIX: &str = "tcpwhy-lab-";

#[derive(Default)]
struct Registry {
    children: BTreeSet<u32>,
    netns: BTreeSet<String>,
    dirs: BTreeSet<PathBuf>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    children: BTreeSet::new(),
    netns: BTreeSet::new(),
    dirs: BTreeSet::new(),
});

fn with<T>(f: impl FnOnce(&mut Registry) -> T) -> T {
    f(&mut REGISTRY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Remembers a child process until [`forget_child`].
pub fn remember_child(pid: u32) {
    with(|r| r.children.insert(pid));
}

/// The child is gone.
pub fn forget_child(pid: u32) {
    with(|r| r.children.remove(&pid));
}

/// Remembers a named namespace until [`remove_netns`].
pub fn remember_netns(name: &str) {
    with(|r| r.netns.insert(name.to_owned()));
}

/// Deletes a named namespace.
pub fn remove_netns(name: &str) {
    // A refusal means that it is gone already.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
    with(|r| r.netns.remove(name));
}

/// Remembers a directory until [`remove_dir`].
pub fn remember_dir(path: PathBuf) {
    with(|r| r.dirs.insert(path));
}

/// Deletes a directory with all in it.
pub fn remove_dir(path: &PathBuf) {
    let _ = fs::remove_dir_all(path);
    with(|r| r.dirs.remove(path));
}

/// Starts the thread that takes Ctrl-C and termination. Call before any other thread starts.
pub fn on_interrupt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        sys::block_stop_signals();
        thread::spawn(|| {
            let signal = sys::wait_for_stop();
            everything();
            process::exit(128 + signal);
        });
    });
}

fn everything() {
    // Taken out first: holding the lock while removing would deadlock with remove_*.
    let left = with(std::mem::take);
    for pid in &left.children {
        sys::kill(*pid, libc::SIGKILL);
    }
    left.netns.iter().for_each(|name| remove_netns(name));
    left.dirs.iter().for_each(remove_dir);
}

/// Removes what crashed runs left behind and returns what it removed. A run that is still alive
/// keeps what is its own.
pub fn clean() -> Vec<String> {
    let mut removed = Vec::new();
    for name in names_in("/run/netns") {
        if is_orphan(&name) {
            kill_inside(&name);
            remove_netns(&name);
            removed.push(format!("namespace {name}"));
        }
    }
    let tmp = std::env::temp_dir();
    for name in names_in(&tmp.to_string_lossy()) {
        if is_orphan(&name) {
            remove_dir(&tmp.join(&name));
            removed.push(format!("directory {}", tmp.join(&name).display()));
        }
    }
    removed
}

fn names_in(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

fn is_orphan(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return false;
    };
    let owner = rest.split('-').next().unwrap_or_default();
    owner.parse::<u32>().is_ok() && !fs::exists(format!("/proc/{owner}")).unwrap_or(true)
}

fn kill_inside(netns: &str) {
    let Ok(out) = Command::new("ip").args(["netns", "pids", netns]).output() else {
        return;
    };
    for pid in String::from_utf8_lossy(&out.stdout).lines().filter_map(|l| l.parse().ok()) {
        sys::kill(pid, libc::SIGKILL);
    }
}
