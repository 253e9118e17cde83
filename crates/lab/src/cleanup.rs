//! Removes namespaces, processes and files of a run. They are registered here, so that Ctrl-C can
//! remove them too (a panic or a return does so through `Drop`). [`clean`] finds what a killed run
//! left behind, and what was kept up on purpose, by its name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

use crate::error::{Doing, LabError};
use crate::sys;

/// Prefix of every namespace and directory of the lab, followed by the owner's process id.
pub const PREFIX: &str = "tcpwhy-lab-";

struct Registry {
    children: BTreeSet<u32>,
    netns: BTreeSet<String>,
    dirs: BTreeSet<PathBuf>,
    /// `true` while the process ends; nothing may be registered any more.
    ending: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    children: BTreeSet::new(),
    netns: BTreeSet::new(),
    dirs: BTreeSet::new(),
    ending: false,
});

fn with<T>(f: impl FnOnce(&mut Registry) -> T) -> T {
    f(&mut REGISTRY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Changes the registry before something is created; does not return if the process is ending.
fn remember(f: impl FnOnce(&mut Registry) -> bool) {
    let ending = with(|registry| {
        f(registry);
        registry.ending
    });
    if ending {
        sleep_until_the_end();
    }
}

/// Called by a thread that removes its own stage, which fails if its programs were ended. While
/// everything is removed, this thread must not end the process.
pub fn give_way() {
    if with(|registry| registry.ending) {
        sleep_until_the_end();
    }
}

/// Sleeps for ever, because another thread is about to end the process.
pub fn sleep_until_the_end() -> ! {
    loop {
        thread::park();
    }
}

/// Registers a child process until [`forget_child`].
pub fn remember_child(pid: u32) {
    remember(|r| r.children.insert(pid));
}

/// Removes a child process that has ended from the registry.
pub fn forget_child(pid: u32) {
    with(|r| r.children.remove(&pid));
}

/// Registers a named namespace until [`remove_netns`].
pub fn remember_netns(name: &str) {
    remember(|r| r.netns.insert(name.to_owned()));
}

/// Deletes a named namespace.
pub fn remove_netns(name: &str) {
    // If that fails, the namespace does not exist any more.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
    with(|r| r.netns.remove(name));
}

/// Registers a directory until [`remove_dir`].
pub fn remember_dir(path: PathBuf) {
    remember(|r| r.dirs.insert(path));
}

/// Creates a directory of this run, registered until [`remove_dir`].
///
/// # Errors The system refuses.
pub fn temporary_dir() -> Result<PathBuf, LabError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("{PREFIX}{}-{count}", process::id()));
    remember_dir(dir.clone());
    fs::create_dir_all(&dir).doing(format!("make {}", dir.display()))?;
    Ok(dir)
}

/// Removes a directory from the registry; it remains on disk.
pub fn forget_dir(path: &PathBuf) {
    with(|r| r.dirs.remove(path));
}

/// Deletes a directory and everything in it.
pub fn remove_dir(path: &PathBuf) {
    let _ = fs::remove_dir_all(path);
    with(|r| r.dirs.remove(path));
}

/// Starts the thread that handles Ctrl-C and termination. Call it before any other thread starts.
pub fn on_interrupt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        sys::block_stop_signals();
        thread::spawn(|| {
            end(128 + sys::wait_for_stop());
        });
    });
}

/// Removes everything and ends the process.
pub fn end(status: i32) -> ! {
    everything();
    process::exit(status);
}

/// Time that programs get to end, for example PostgreSQL to remove its shared memory.
const PATIENCE: Duration = Duration::from_secs(2);

fn everything() {
    // Copied, because holding the lock during removal would deadlock with the remove functions.
    let (children, mut netns, dirs) = with(|r| {
        r.ending = true;
        (r.children.clone(), r.netns.clone(), r.dirs.clone())
    });
    let is_running = |pid: &u32| fs::exists(format!("/proc/{pid}/exe")).unwrap_or(false);
    for signal in [libc::SIGINT, libc::SIGKILL] {
        children.iter().filter(|pid| is_running(pid)).for_each(|pid| sys::kill(*pid, signal));
        let started = Instant::now();
        while started.elapsed() < PATIENCE && children.iter().any(is_running) {
            thread::sleep(Duration::from_millis(10));
        }
    }
    // Includes a namespace that was created a moment ago.
    let own = format!("{PREFIX}{}-", process::id());
    netns.extend(names_in("/run/netns").into_iter().filter(|name| name.starts_with(&own)));
    netns.iter().for_each(|name| {
        kill_inside(name);
        remove_netns(name);
    });
    dirs.iter().for_each(remove_dir);
}

/// File in the directory of a stage that was kept up on purpose; it contains the name of the case.
const KEPT: &str = "kept";

/// Marks the stage with this directory as kept up on purpose.
///
/// # Errors The mark cannot be written.
pub fn keep(dir: &Path, case: &str) -> std::io::Result<()> {
    fs::write(dir.join(KEPT), case)
}

/// Removes what crashed runs left behind and what was kept up; returns what it removed. A run in
/// progress keeps its own.
///
/// # Errors Not root.
pub fn clean() -> Result<Vec<String>, LabError> {
    if !sys::is_root() {
        return Err(LabError::NotRoot);
    }
    let mut removed = end_kept();
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
    Ok(removed)
}

/// Ends the processes that hold kept stages; each removes its own stage.
fn end_kept() -> Vec<String> {
    let tmp = std::env::temp_dir();
    let names = names_in(&tmp.to_string_lossy());
    let kept = names.iter().filter_map(|name| {
        let case = fs::read_to_string(tmp.join(name).join(KEPT)).ok()?;
        let owner = owner(name).filter(|pid| is_alive(*pid))?;
        Some((tmp.join(name), owner, case))
    });
    let mut ended = Vec::new();
    for (dir, owner, case) in kept {
        sys::kill(owner, libc::SIGTERM);
        let started = Instant::now();
        // The directory is removed last.
        while started.elapsed() < 3 * PATIENCE && dir.exists() {
            thread::sleep(Duration::from_millis(20));
        }
        ended.push(format!("{case}, which was kept up by process {owner}"));
    }
    ended
}

fn names_in(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns the id of the process that created the namespace or directory with this name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(true)
}

fn is_orphan(name: &str) -> bool {
    owner(name).is_some_and(|pid| !is_alive(pid))
}

/// Kills the processes in a namespace, and waits until they have ended.
fn kill_inside(netns: &str) {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let Ok(out) = Command::new("ip").args(["netns", "pids", netns]).output() else {
            return;
        };
        let text = String::from_utf8_lossy(&out.stdout);
        let pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        // Threads of this process may be in the namespace.
        let others = || pids.iter().filter(|pid| **pid != process::id());
        if others().next().is_none() {
            return;
        }
        others().for_each(|pid| sys::kill(*pid, libc::SIGKILL));
        thread::sleep(Duration::from_millis(10));
    }
}
