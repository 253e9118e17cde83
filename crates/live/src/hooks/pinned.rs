//! The BPF file system: objects pinned there outlast the process, and are gone after a reboot.
//!
//! It is mounted where it is missing, as `ip` and `bpftool` do, but not among mounts that this
//! process has to itself, as under `ip netns exec`: these end with the process.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::unavailable::Lack;
use crate::process::ports::parent;
use crate::sys::{mount, process};

/// Mount point of the BPF file system on Linux.
const MOUNT: &str = "/sys/fs/bpf";
/// Tries to lock the place, one every 10 ms, while another process mounts there.
const TRIES: u32 = 200;

/// Returns the path at which an object of this name is pinned.
pub fn path(name: &str) -> PathBuf {
    Path::new(MOUNT).join("tcpwhy").join(name)
}

/// Mounts the file system where it is missing, and makes the directory of [`path`].
///
/// # Errors
/// It cannot be mounted or written to.
pub(super) fn prepare() -> Result<(), Lack> {
    let refused = |error: io::Error| Lack::NoBpfFileSystem(error.to_string());
    mounted().and_then(|()| made()).map_err(refused)
}

/// Mounts the file system unless it is mounted. A lock ensures that one process does so at a time,
/// since a second mount would hide what the first process has pinned.
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
    let place = File::open(MOUNT)?;
    for _ in 0..TRIES {
        match process::lock_file(place.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error),
            Ok(()) if mount::is_bpf(MOUNT)? => return Ok(()),
            Ok(()) => return mount::bpf(),
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
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
