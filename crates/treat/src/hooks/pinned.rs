//! The BPF file system: objects pinned there outlast the process, and are gone after a reboot.
//!
//! It is mounted where it is missing, as `ip` and `bpftool` do, but not among mounts that this
//! process has to itself, as under `ip netns exec`: these end with the process. A mount of tcpwhy has
//! its name as the source; it is unmounted when nothing is pinned there any more.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tcpwhy_live::hooks::Lack;
use tcpwhy_live::process::ports::parent;
use tcpwhy_live::sys::{mount, process};

/// Mount point of the BPF file system on Linux.
const MOUNT: &str = "/sys/fs/bpf";
/// The directory above it, which is locked.
const ABOVE: &str = "/sys/fs";
/// Tries to lock the place, one every 10 ms, while another process mounts there.
const TRIES: u32 = 200;

/// Returns the path at which an object of this name is pinned.
pub fn path(name: &str) -> PathBuf {
    Path::new(MOUNT).join("tcpwhy").join(name)
}

/// Held while an object is being pinned: nobody unmounts the file system meanwhile.
pub(super) struct Prepared(
    #[expect(dead_code, reason = "the lock lasts as long as the file is open")] File,
);

/// Mounts the file system where it is missing, and makes the directory of [`path`].
///
/// # Errors
/// It cannot be mounted or written to.
pub(super) fn prepare() -> Result<Prepared, Lack> {
    let refused = |error: io::Error| Lack::NoBpfFileSystem(error.to_string());
    let prepared = locked().and_then(|lock| mounted().and_then(|()| made()).map(|()| lock));
    prepared.map(Prepared).map_err(refused)
}

/// Removes what [`prepare`] made, unless something is pinned there.
pub(super) fn release() {
    let Ok(_lock) = locked() else { return };
    // A directory that is not empty stays.
    let _ = fs::remove_dir(path(""));
    let is_kernels = |name: &std::ffi::OsStr| name == "maps.debug" || name == "progs.debug";
    let is_empty = fs::read_dir(MOUNT)
        .is_ok_and(|entries| entries.flatten().all(|entry| is_kernels(&entry.file_name())));
    if is_empty && is_own() {
        let _ = mount::unmount(MOUNT);
    }
}

/// Returns whether tcpwhy has mounted the file system.
fn is_own() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let here = mounts.lines().rfind(|line| line.split(' ').nth(1) == Some(MOUNT));
    here.is_some_and(|line| line.starts_with(&format!("{} ", mount::BPF_SOURCE)))
}

/// Lets one process at a time mount and unmount: a second mount would hide what the first process has
/// pinned.
fn locked() -> io::Result<File> {
    let place = File::open(ABOVE)?;
    for _ in 0..TRIES {
        match process::lock_file(place.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(10));
            }
            other => return other.map(|()| place),
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Mounts the file system unless it is mounted.
fn mounted() -> io::Result<()> {
    if mount::is_bpf(MOUNT)? {
        return Ok(());
    }
    if has_own_mounts() {
        return Err(io::Error::other(
            "the mounts of this process end with it; name the network namespace with --netns, \
             without `ip netns exec`",
        ));
    }
    mount::bpf()
}

/// Returns whether an ancestor of this process has another mount namespace.
fn has_own_mounts() -> bool {
    let mounts = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let own = mounts(std::process::id());
    let ancestors = std::iter::successors(parent(std::process::id()), |&pid| parent(pid));
    // Ancestors whose link may not be read are skipped: they belong to the system's own mounts.
    let mut theirs = ancestors.take_while(|&pid| pid > 0).filter_map(mounts);
    theirs.any(|its| Some(its) != own)
}

fn made() -> io::Result<()> {
    let directory = path("");
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::metadata(&directory).map(|_| ()),
    }
}
