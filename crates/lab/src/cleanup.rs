//! Removes namespaces, processes and files of a run. They are registered here, so that Ctrl-C can
//! remove them too (a panic or a return does so through `Drop`). [`clean`] finds what a killed run
//! left behind, and what was kept up on purpose, by its name.
//!
//! Directories are below the system's directory for temporary files, in which everybody may create
//! names: only a private directory of this user is taken for one of the lab.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

use tcpwhy_live::folder::Folder;
use tcpwhy_live::nameless::random;
use tcpwhy_live::process::{running, start_ticks};
use tcpwhy_live::sys::{options::send_signal, pidfd_open};

use crate::error::{Doing, LabError};
use crate::sys;

/// Prefix of every namespace and directory of the lab.
const PREFIX: &str = "tcpwhy-lab-";

/// Returns the beginning of the name of every namespace and directory of this process: the prefix,
/// its id, and the time of its start, by which it differs from a later process with the same id.
pub fn own_prefix() -> &'static str {
    static OWN: LazyLock<String> = LazyLock::new(|| {
        let pid = process::id();
        format!("{PREFIX}{pid}.{}-", start_ticks(pid).unwrap_or(0))
    });
    &OWN
}

/// The process that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    pid: u32,
    start_ticks: u64,
}

impl Owner {
    /// Reads the owner from the name of a namespace or directory.
    fn of(name: &str) -> Option<Self> {
        let (owner, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let (pid, start_ticks) = owner.split_once('.')?;
        Some(Self { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
    }

    /// Returns a descriptor of the process; `None` if it has ended.
    fn running(self) -> Option<OwnedFd> {
        running(self.pid, self.start_ticks)
    }
}

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

/// Creates a private directory of this run, registered until [`remove_dir`].
///
/// # Errors The system refuses.
pub fn temporary_dir() -> Result<PathBuf, LabError> {
    let above = std::env::temp_dir();
    loop {
        // A name that nobody can guess; whatever has it already is not used.
        let name = format!("{}{:016x}", own_prefix(), random());
        let dir = above.join(&name);
        remember_dir(dir.clone());
        match Folder::create_new(&above, &name) {
            Ok(_) => return Ok(dir),
            Err(error) => {
                forget_dir(&dir);
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(error).doing(format!("make {}", dir.display()));
                }
            }
        }
    }
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
    let is_own = |name: &String| name.starts_with(own_prefix());
    netns.extend(names_in(Path::new("/run/netns")).into_iter().filter(is_own));
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
pub fn keep(dir: &Path, case: &str) -> io::Result<()> {
    Folder::open(dir)?.write(KEPT, case.as_bytes())
}

/// Removes what crashed runs left behind and what was kept up; returns what it removed. A run in
/// progress keeps its own, and what others have put under such a name stays.
///
/// # Errors Not root.
pub fn clean() -> Result<Vec<String>, LabError> {
    if !sys::is_root() {
        return Err(LabError::NotRoot);
    }
    let tmp = std::env::temp_dir();
    let mut removed = end_kept(&tmp);
    for name in names_in(Path::new("/run/netns")) {
        if is_orphan(&name) {
            kill_inside(&name);
            remove_netns(&name);
            removed.push(format!("namespace {name}"));
        }
    }
    removed.extend(remove_orphans(&tmp));
    Ok(removed)
}

/// Removes the lab's directories in `tmp` whose process has ended.
fn remove_orphans(tmp: &Path) -> Vec<String> {
    let dirs = own_dirs(tmp).into_iter().filter(|(name, _)| is_orphan(name));
    let remove = |(_, folder): (String, Folder)| {
        let dir = folder.path().to_owned();
        remove_dir(&dir);
        format!("directory {}", dir.display())
    };
    dirs.map(remove).collect()
}

/// Ends the processes that hold kept stages; each removes its own stage.
fn end_kept(tmp: &Path) -> Vec<String> {
    let kept = own_dirs(tmp).into_iter().filter_map(|(name, folder)| {
        let case = io::read_to_string(folder.read(KEPT).ok()?).ok()?;
        let owner = Owner::of(&name)?;
        Some((folder.path().to_owned(), owner, owner.running()?, case))
    });
    let mut ended = Vec::new();
    for (dir, owner, process, case) in kept {
        if send_signal(process.as_fd(), libc::SIGTERM).is_err() {
            continue;
        }
        let started = Instant::now();
        // The directory is removed last.
        while started.elapsed() < 3 * PATIENCE && dir.exists() {
            thread::sleep(Duration::from_millis(20));
        }
        ended.push(format!("{case}, which was kept up by process {}", owner.pid));
    }
    ended
}

/// Returns the names of the lab's directories in `tmp`, with the directories. A directory is one of them if
/// only this user may look into it; nobody else can have made it.
fn own_dirs(tmp: &Path) -> Vec<(String, Folder)> {
    let names = names_in(tmp).into_iter().filter(|name| Owner::of(name).is_some());
    let folders = names.filter_map(|name| Some((Folder::existing(tmp, &name).ok()?, name)));
    let private = folders.filter(|(folder, _)| folder.is_private().unwrap_or(false));
    private.map(|(folder, name)| (name, folder)).collect()
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns whether the process has ended that created the namespace or directory with this name.
fn is_orphan(name: &str) -> bool {
    Owner::of(name).is_some_and(|owner| owner.running().is_none())
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
        for pid in others() {
            // The descriptor holds the process while it is looked at again: another one may have
            // its number by now.
            let process = pidfd_open(*pid).ok().filter(|_| is_inside(*pid, netns));
            process.map(|it| send_signal(it.as_fd(), libc::SIGKILL));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn is_inside(pid: u32, netns: &str) -> bool {
    let inode = |path: String| fs::metadata(path).ok().map(|it| it.ino());
    let of_process = inode(format!("/proc/{pid}/ns/net"));
    of_process.is_some() && of_process == inode(format!("/run/netns/{netns}"))
}

#[cfg(test)]
mod tests;
