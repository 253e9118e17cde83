//! Options of sockets that can be set and restored.

use std::io;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use tcpwhy_live::sys;
use tcpwhy_live::sys::options::{congestion_control, set_congestion_control, set_int_option};

/// `SO_BUF_LOCK` of asm-generic/socket.h (Linux 5.14), and its two bits.
const SO_BUF_LOCK: i32 = 72;
const SOCK_SNDBUF_LOCK: i32 = 1;
const SOCK_RCVBUF_LOCK: i32 = 2;

/// Initial size of a receive buffer that the kernel sizes: the default of `tcp_rmem`.
const RCVBUF_START_BYTES: u32 = 131_072;
/// The largest window there is (RFC 7323 §2.3).
const WINDOW_MAX_BYTES: u32 = 65_535 << 14;

/// An option and what it is set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "option", rename_all = "snake_case")]
pub enum Setting {
    /// `TCP_NODELAY` on: small segments are sent at once.
    Nodelay,
    /// `TCP_QUICKACK`, set repeatedly because the kernel disables it by itself.
    Quickack,
    /// Sizes of the buffers; `None` leaves a side unchanged.
    Buffers {
        /// The send buffer.
        send: Option<Buffer>,
        /// The receive buffer.
        receive: Option<Buffer>,
    },
    /// `TCP_CONGESTION`.
    CongestionControl {
        /// The kernel's name for it.
        name: String,
    },
}

/// Size of a buffer after the treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Buffer {
    /// The kernel sizes it by what the path carries.
    Autotuned,
    /// Fixed: `SO_SNDBUF` or `SO_RCVBUF`, bytes. The kernel doubles it for its bookkeeping.
    Bytes(u32),
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// A name.
    Name(String),
    /// Both buffers.
    Buffers(Buffers),
}

/// The buffers of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffers {
    /// Size as `SO_SNDBUF` returns it, bytes: twice the size that an application asked for.
    pub sndbuf_bytes: u32,
    /// `true` if the send buffer is fixed.
    pub sndbuf_locked: bool,
    /// Size of the receive buffer as `SO_RCVBUF` returns it, bytes.
    pub rcvbuf_bytes: u32,
    /// `true` if the receive buffer is fixed.
    pub rcvbuf_locked: bool,
    /// Bound of the window that is offered (`TCP_WINDOW_CLAMP`), bytes: a small receive buffer sets
    /// it when a connection is established, and it outlasts the buffer.
    #[serde(default)]
    pub window_clamp_bytes: u32,
}

impl Buffers {
    /// Describes the send buffer, for example "16 KiB fixed".
    pub fn send_words(&self) -> String {
        words(self.sndbuf_bytes, self.sndbuf_locked)
    }

    /// Returns a description of the receive buffer.
    pub fn receive_words(&self) -> String {
        words(self.rcvbuf_bytes, self.rcvbuf_locked)
    }
}

fn words(bytes: u32, locked: bool) -> String {
    let by = if locked { "fixed" } else { "autotuned" };
    format!("{} {by}", tcpwhy_core::model::units::bytes(bytes.into()))
}

impl Setting {
    /// Returns the name on the command line.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Nodelay => "nodelay",
            Self::Quickack => "quickack",
            Self::Buffers { .. } => "buffers",
            Self::CongestionControl { .. } => "congestion-control",
        }
    }

    /// Returns the name that the kernel uses.
    pub fn option(&self) -> &'static str {
        match self {
            Self::Nodelay => "TCP_NODELAY",
            Self::Quickack => "TCP_QUICKACK",
            Self::Buffers { send: None, .. } => "SO_RCVBUF",
            Self::Buffers { receive: None, .. } => "SO_SNDBUF",
            Self::Buffers { .. } => "SO_SNDBUF and SO_RCVBUF",
            Self::CongestionControl { .. } => "TCP_CONGESTION",
        }
    }

    /// Reads the value of a socket.
    ///
    /// # Errors
    /// The kernel does not know the option.
    pub(super) fn read(&self, socket: BorrowedFd<'_>) -> io::Result<Value> {
        let tcp = |option| sys::int_option(socket, libc::IPPROTO_TCP, option);
        let base = |option| sys::int_option(socket, libc::SOL_SOCKET, option);
        Ok(match self {
            Self::Nodelay => Value::Switch(tcp(libc::TCP_NODELAY)? != 0),
            Self::Quickack => Value::Switch(tcp(libc::TCP_QUICKACK)? != 0),
            Self::CongestionControl { .. } => Value::Name(congestion_control(socket)?),
            Self::Buffers { .. } => {
                let locks = base(SO_BUF_LOCK)?;
                Value::Buffers(Buffers {
                    sndbuf_bytes: base(libc::SO_SNDBUF)?.unsigned_abs(),
                    sndbuf_locked: locks & SOCK_SNDBUF_LOCK != 0,
                    rcvbuf_bytes: base(libc::SO_RCVBUF)?.unsigned_abs(),
                    rcvbuf_locked: locks & SOCK_RCVBUF_LOCK != 0,
                    window_clamp_bytes: tcp(libc::TCP_WINDOW_CLAMP)?.unsigned_abs(),
                })
            }
        })
    }

    /// Returns the new value for a socket whose old value is `before`.
    pub(super) fn wanted(&self, before: &Value) -> Value {
        match (self, before) {
            (Self::Nodelay | Self::Quickack, _) => Value::Switch(true),
            (Self::CongestionControl { name }, _) => Value::Name(name.clone()),
            (Self::Buffers { send, receive }, Value::Buffers(before)) => {
                let mut wanted = *before;
                let side = |buffer: Option<Buffer>, bytes: &mut u32, locked: &mut bool| match buffer
                {
                    None => {}
                    Some(Buffer::Autotuned) => *locked = false,
                    Some(Buffer::Bytes(asked)) => {
                        (*bytes, *locked) = (asked.saturating_mul(2), true);
                    }
                };
                side(*send, &mut wanted.sndbuf_bytes, &mut wanted.sndbuf_locked);
                side(*receive, &mut wanted.rcvbuf_bytes, &mut wanted.rcvbuf_locked);
                if *receive == Some(Buffer::Autotuned) && before.rcvbuf_locked {
                    // The kernel sizes a buffer by what comes in a round trip, and no more comes
                    // than the window lets in: from a small one it would never grow.
                    wanted.rcvbuf_bytes = before.rcvbuf_bytes.max(RCVBUF_START_BYTES);
                    wanted.window_clamp_bytes = WINDOW_MAX_BYTES;
                }
                Value::Buffers(wanted)
            }
            (Self::Buffers { .. }, other) => other.clone(),
        }
    }
}

impl Value {
    /// Returns whether a socket that has `self` now still has the value that a treatment `set`; the
    /// size of an autotuned buffer is the kernel's and may differ.
    pub(super) fn is_still(&self, set: &Self) -> bool {
        let (Self::Buffers(now), Self::Buffers(set)) = (self, set) else { return self == set };
        let side =
            |now: (u32, bool), set: (u32, bool)| now.1 == set.1 && (!set.1 || now.0 == set.0);
        side((now.sndbuf_bytes, now.sndbuf_locked), (set.sndbuf_bytes, set.sndbuf_locked))
            && side((now.rcvbuf_bytes, now.rcvbuf_locked), (set.rcvbuf_bytes, set.rcvbuf_locked))
    }

    /// Sets the value on a socket; `from` is its present value, and equal parts are not set.
    ///
    /// # Errors
    /// The kernel does not know the option, or refuses the value.
    pub(super) fn write(
        &self,
        socket: BorrowedFd<'_>,
        setting: &Setting,
        from: &Self,
    ) -> io::Result<()> {
        match (self, setting) {
            (Self::Switch(on), Setting::Quickack) => {
                set_int_option(socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, i32::from(*on))
            }
            (Self::Switch(on), _) => {
                set_int_option(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(*on))
            }
            (Self::Name(name), _) => set_congestion_control(socket, name),
            (Self::Buffers(to), _) => {
                let Self::Buffers(from) = from else { return Ok(()) };
                write_buffers(socket, from, to)
            }
        }
    }

    /// Returns a description of the value.
    pub fn words(&self) -> String {
        match self {
            Self::Switch(true) => "on".into(),
            Self::Switch(false) => "off".into(),
            Self::Name(name) => name.clone(),
            Self::Buffers(buffers) => {
                let (send, receive) = (buffers.send_words(), buffers.receive_words());
                format!("send {send}, receive {receive}")
            }
        }
    }
}

/// Sizes first: setting one fixes it. The bits that say whether they are fixed come last.
fn write_buffers(socket: BorrowedFd<'_>, from: &Buffers, to: &Buffers) -> io::Result<()> {
    let force = |option, plain, bytes: u32| {
        let half = i32::try_from(bytes / 2).unwrap_or(i32::MAX / 2);
        // Above wmem_max or rmem_max it needs CAP_NET_ADMIN.
        set_int_option(socket, libc::SOL_SOCKET, option, half)
            .or_else(|_| set_int_option(socket, libc::SOL_SOCKET, plain, half))
    };
    if from.sndbuf_bytes != to.sndbuf_bytes {
        force(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, to.sndbuf_bytes)?;
    }
    if from.rcvbuf_bytes != to.rcvbuf_bytes {
        force(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, to.rcvbuf_bytes)?;
    }
    if from.window_clamp_bytes != to.window_clamp_bytes && to.window_clamp_bytes > 0 {
        let clamp = i32::try_from(to.window_clamp_bytes).unwrap_or(i32::MAX);
        set_int_option(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, clamp)?;
    }
    let bit = |locked: bool, bit: i32| if locked { bit } else { 0 };
    let locks = bit(to.sndbuf_locked, SOCK_SNDBUF_LOCK) | bit(to.rcvbuf_locked, SOCK_RCVBUF_LOCK);
    set_int_option(socket, libc::SOL_SOCKET, SO_BUF_LOCK, locks)
}
