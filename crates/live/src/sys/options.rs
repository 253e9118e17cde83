//! Socket options that are set, names that are read, and a signal to a process by its descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a congestion control's name with its end (`TCP_CA_NAME_MAX`).
const NAME_BYTES: usize = 16;
/// `SO_NETNS_COOKIE` of asm-generic/socket.h (Linux 5.14).
const SO_NETNS_COOKIE: i32 = 71;

/// Sets a socket option whose value is an `int`.
///
/// # Errors
/// The kernel does not know the option, or refuses the value.
pub fn set_int_option(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
    value: i32,
) -> io::Result<()> {
    set(socket, (level, option), &value.to_ne_bytes())
}

/// Sets the congestion control by its name (`TCP_CONGESTION`).
///
/// # Errors
/// `ENOENT` where the kernel has none of this name, `EPERM` where only root may choose it.
pub fn set_congestion_control(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    set(socket, (libc::IPPROTO_TCP, libc::TCP_CONGESTION), name.as_bytes())
}

fn set(socket: BorrowedFd<'_>, (level, option): (i32, i32), value: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe the same slice, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads the name of a socket's congestion control.
///
/// # Errors
/// The descriptor is no TCP socket.
pub fn congestion_control(socket: BorrowedFd<'_>) -> io::Result<String> {
    let mut name = [0u8; NAME_BYTES];
    let mut length = NAME_BYTES as libc::socklen_t;
    // SAFETY: `name` has room for `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Reads the kernel's number for the network namespace of a socket; kernel hooks know it by that.
///
/// # Errors
/// The kernel is older than Linux 5.14.
pub fn netns_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value: u64 = 0;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `value` and `length` describe the same local integer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Sends SIGTERM to the process that a descriptor names (pidfd_send_signal(2)).
///
/// # Errors
/// It has ended, or belongs to another user.
pub fn terminate(process: BorrowedFd<'_>) -> io::Result<()> {
    send_signal(process, libc::SIGTERM)
}

/// Sends a signal to the process that a descriptor names (pidfd_send_signal(2)).
///
/// # Errors
/// It has ended, or belongs to another user.
pub fn send_signal(process: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: plain integers, and no information beside the signal.
    let result =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, none, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
