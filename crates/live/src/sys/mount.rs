//! A `/sys` of the calling thread's own: it shows the network namespace of the thread that mounts
//! it, as `ip netns exec` does (ip-netns(8)). The mount ends with the thread.

use std::ffi::CStr;
use std::io;
use std::ptr;

/// Moves the thread into a mount namespace of its own and mounts `/sys` there.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn own_sysfs() -> io::Result<()> {
    // SAFETY: unshare takes flags alone; CLONE_FS ends what the thread shares of working folder
    // and root with the others of the process.
    check(unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    mount(c"sysfs", c"/sys", Some(c"sysfs"), libc::MS_RDONLY | libc::MS_NOSUID)
}

fn mount(
    source: &CStr,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: all pointers are null or C strings that live through the call.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, ptr::null()) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
