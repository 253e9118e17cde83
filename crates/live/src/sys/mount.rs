//! Mounts: file systems of the kernel that are mounted when they are needed; files that change places.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{io, ptr};

/// `BPF_FS_MAGIC` of linux/magic.h.
const BPF_FS_MAGIC: u32 = 0xcafe_4a11;

/// Moves the thread into a mount namespace of its own and mounts `/sys` there: it shows the network
/// namespace of the thread, as with `ip netns exec` (ip-netns(8)). The mount ends with the thread.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn own_sysfs() -> io::Result<()> {
    // SAFETY: unshare takes flags alone; CLONE_FS ends what the thread shares of working folder
    // and root with the others of the process.
    check(unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE, None)?;
    mount(c"sysfs", c"/sys", Some(c"sysfs"), libc::MS_RDONLY | libc::MS_NOSUID, None)
}

/// Source of the mount that [`bpf`] makes, which tells it from those of other programs.
pub const BPF_SOURCE: &str = "tcpwhy";

/// Mounts the BPF file system at `/sys/fs/bpf`.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn bpf() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let source = CString::new(BPF_SOURCE)?;
    mount(&source, c"/sys/fs/bpf", Some(c"bpf"), flags, Some(c"mode=700"))
}

/// Unmounts what is mounted there (umount2(2)).
///
/// # Errors
/// `EBUSY` where it is used, `EPERM` without `CAP_SYS_ADMIN`.
pub fn unmount(path: &str) -> io::Result<()> {
    let path = CString::new(path)?;
    // SAFETY: the path is a C string that lives through the call.
    check(unsafe { libc::umount2(path.as_ptr(), libc::UMOUNT_NOFOLLOW) })
}

/// Returns whether a path is in a BPF file system.
///
/// # Errors
/// The path does not exist, or it may not be read.
pub fn is_bpf(path: &str) -> io::Result<bool> {
    let path = CString::new(path)?;
    let mut about = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path is a C string, and the kernel fills in the structure.
    check(unsafe { libc::statfs(path.as_ptr(), about.as_mut_ptr()) })?;
    // SAFETY: all its bytes were zero, which is a value of each field, before the kernel wrote it.
    Ok(unsafe { about.assume_init() }.f_type as u32 == BPF_FS_MAGIC)
}

/// Exchanges two files of one file system (renameat2(2)).
///
/// # Errors
/// `EBUSY` where one is a mount point, `EINVAL` where the file system cannot do it.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (one, other, here) = (name(one)?, name(other)?, libc::AT_FDCWD);
    let (from, to) = (one.as_ptr(), other.as_ptr());
    // musl has no function for it.
    // SAFETY: both names are C strings that live through the call.
    let result =
        unsafe { libc::syscall(libc::SYS_renameat2, here, from, here, to, libc::RENAME_EXCHANGE) };
    check(result as libc::c_int)
}

fn mount(
    source: &CStr,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    let options = options.map_or(ptr::null(), CStr::as_ptr).cast();
    // SAFETY: all pointers are null or C strings that live through the call.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, options) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
