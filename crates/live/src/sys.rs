//! The system calls that the standard library lacks; all `unsafe` of the crate is here.

pub mod clock;
pub mod datagram;
pub mod ethtool;
pub mod fork;
pub mod mount;
pub mod options;
pub mod packet;
pub mod process;
pub mod shared;
pub mod unfinished;
pub mod wait;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Opens a descriptor that names the process `pid` (pidfd_open(2)).
///
/// # Errors
/// The process is gone, or the kernel is older than Linux 5.3.
pub fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two plain integers.
    descriptor(unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) })
}

/// Duplicates descriptor `fd` of another process into this one (pidfd_getfd(2)). Both share the
/// socket: an option set here is set there.
///
/// # Errors
/// `EPERM` without `CAP_SYS_PTRACE` over the process, `EBADF` where it has closed the descriptor.
pub fn pidfd_getfd(process: BorrowedFd<'_>, fd: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_getfd takes plain integers, and the process descriptor is open.
    descriptor(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// Duplicates descriptor `number` of this process.
///
/// # Errors
/// `EBADF` if it is not open.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl takes plain integers, and checks the number.
    descriptor(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) }.into())
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}

/// Reads a socket option whose value is an `int`.
///
/// # Errors
/// The descriptor is no socket, or the kernel does not know the option.
pub fn int_option(socket: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` and `length` describe the same local integer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Reads what the kernel says of a connection of this process (`TCP_INFO`).
///
/// # Errors
/// The descriptor is no TCP socket.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<crate::tcp_info::TcpInfo> {
    let mut bytes = [0_u8; 256];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: `bytes` and `length` describe the same local array.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(crate::tcp_info::TcpInfo::parse(&bytes[..length as usize]))
}

/// Reads the kernel's number for a socket (`SO_COOKIE`); no two sockets share one while the system
/// runs.
///
/// # Errors
/// The descriptor is no socket.
pub fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value: u64 = 0;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `value` and `length` describe the same local integer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Returns the name of an interface of the calling thread's network namespace by its number.
///
/// # Errors
/// There is no such interface.
pub fn interface_name(index: u32) -> io::Result<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the function writes a C string of at most `IF_NAMESIZE` bytes.
    let result = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    if result.is_null() {
        return Err(io::Error::last_os_error());
    }
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Moves the calling thread into a network namespace (setns(2)).
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter_netns(netns: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for the duration of the call.
    let result = unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
