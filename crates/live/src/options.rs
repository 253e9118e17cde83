//! Options of sockets that other processes hold. They are read from the socket itself, through a
//! duplicate of the process's descriptor (`pidfd_getfd(2)`, Linux 5.6): without ptrace, without
//! pausing the process, and without any effect that it could notice.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::Serialize;

use crate::sys;

/// `SO_BUF_LOCK` of asm-generic/socket.h (Linux 5.14), and its two bits.
const SO_BUF_LOCK: i32 = 72;
const SOCK_SNDBUF_LOCK: i32 = 1;
const SOCK_RCVBUF_LOCK: i32 = 2;

/// The options that affect latency. Each is `None` if the kernel does not have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Options {
    /// `TCP_NODELAY`: a small segment is sent at once (RFC 1122 §4.2.3.4 calls its absence Nagle's
    /// algorithm).
    pub nodelay: Option<bool>,
    /// `TCP_QUICKACK`: data is acknowledged at once, for now.
    pub quickack: Option<bool>,
    /// `TCP_CORK`: a small segment waits until it is full, the cork is pulled, or 200 ms are over.
    pub cork: Option<bool>,
    /// `true` if the application has fixed the send buffer (`SO_SNDBUF`), which ends its
    /// autotuning.
    pub sndbuf_locked: Option<bool>,
    /// `true` if the application has fixed the receive buffer (`SO_RCVBUF`).
    pub rcvbuf_locked: Option<bool>,
    /// `SO_KEEPALIVE`: an idle connection is probed.
    pub keepalive: Option<bool>,
}

/// A process whose sockets can be asked.
#[derive(Debug)]
pub struct InspectedProcess(OwnedFd);

impl InspectedProcess {
    /// Opens the process.
    ///
    /// # Errors
    /// It is gone.
    pub fn open(pid: u32) -> io::Result<Self> {
        sys::pidfd_open(pid).map(Self)
    }

    /// Reads the options of the socket behind descriptor `fd` of the process, provided that it is
    /// still the socket that the kernel numbers `cookie`: the process may have closed it since, and
    /// opened another under the same descriptor.
    ///
    /// # Errors
    /// No permission; or the descriptor is closed or names another socket now (`NotFound`).
    pub fn options(&self, fd: u32, cookie: u64) -> io::Result<Options> {
        let socket = sys::pidfd_getfd(self.0.as_fd(), fd)?;
        let socket = socket.as_fd();
        if sys::cookie(socket)? != cookie {
            return Err(io::ErrorKind::NotFound.into());
        }
        let tcp = |option| sys::int_option(socket, libc::IPPROTO_TCP, option).ok();
        let base = |option| sys::int_option(socket, libc::SOL_SOCKET, option).ok();
        let locks = base(SO_BUF_LOCK);
        Ok(Options {
            nodelay: tcp(libc::TCP_NODELAY).map(|value| value != 0),
            quickack: tcp(libc::TCP_QUICKACK).map(|value| value != 0),
            cork: tcp(libc::TCP_CORK).map(|value| value != 0),
            sndbuf_locked: locks.map(|bits| bits & SOCK_SNDBUF_LOCK != 0),
            rcvbuf_locked: locks.map(|bits| bits & SOCK_RCVBUF_LOCK != 0),
            keepalive: base(libc::SO_KEEPALIVE).map(|value| value != 0),
        })
    }
}
