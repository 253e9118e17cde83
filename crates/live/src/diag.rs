//! The kernel's list of TCP sockets, by netlink (`sock_diag(7)`). Read first: linux/inet_diag.h,
//! linux/sock_diag.h, linux/netlink.h. A dump is a request and a series of datagrams with one
//! message a socket; the messages are read in place, without a copy.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::LiveError;
use crate::tcp_info::TcpInfo;

const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;
/// The kernel fills datagrams up to 32 KiB where the reader's buffer has the room.
const BUFFER_BYTES: usize = 128 << 10;

/// A state of TCP (RFC 9293 §3.3.2), by the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum TcpState {
    /// Data may flow both ways.
    Established = 1,
    /// A SYN was sent, and has no answer yet.
    SynSent = 2,
    /// A SYN has arrived and its SYN-ACK is not acknowledged: a half-open connection.
    #[cfg_attr(feature = "schemas", schemars(skip))]
    SynReceived = 3,
    /// This side has closed; its FIN is not acknowledged.
    FinWait1 = 4,
    /// This side has closed; its FIN is acknowledged.
    FinWait2 = 5,
    /// Closed on both sides; waits for late segments.
    #[cfg_attr(feature = "schemas", schemars(skip))]
    TimeWait = 6,
    /// Closed.
    Close = 7,
    /// The peer has closed, and the application here has not.
    CloseWait = 8,
    /// Closed on both sides; the last FIN is not acknowledged.
    LastAck = 9,
    /// Waits for connections.
    Listen = 10,
    /// Both sides have closed at once.
    Closing = 11,
}

impl TcpState {
    pub(crate) fn from_kernel(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Established,
            2 => Self::SynSent,
            // State 12 is a half-open connection that has no socket of its own yet.
            3 | 12 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Close,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            _ => return None,
        })
    }

    /// Returns the name of the state, as `ss` and RFC 9293 write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTABLISHED",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::TimeWait => "TIME-WAIT",
            Self::Close => "CLOSED",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
        }
    }
}

/// One socket as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// State of the connection.
    pub state: TcpState,
    /// Local address.
    pub local: SocketAddr,
    /// The other end; port 0 where the socket listens.
    pub peer: SocketAddr,
    /// The kernel's number for the socket; 0 for a half-open or TIME-WAIT one.
    pub cookie: u64,
    /// Inode of the socket, by which `/proc/PID/fd` names it; 0 if no process holds it.
    pub inode: u32,
    /// User id of its owner.
    pub uid: u32,
    /// Received bytes that the application has not read. Of a listener: connections that wait to
    /// be accepted.
    pub recv_queue: u32,
    /// Bytes sent or waiting that are not acknowledged. Of a listener: its backlog, the largest
    /// accept queue.
    pub send_queue: u32,
    /// Time until its timer expires, ms; in TIME-WAIT, time until its port is free again.
    pub timer_ms: u32,
    /// `TCP_INFO`; `None` for half-open and TIME-WAIT ones.
    pub tcp_info: Option<TcpInfo>,
    /// Memory; `None` if the kernel does not report it.
    pub memory: Option<Memory>,
    /// Congestion control, by the kernel's name.
    pub congestion_control: Option<String>,
}

/// Memory of a socket (`SK_MEMINFO_VARS`), bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Memory {
    /// Held by what was received.
    pub rmem_alloc_bytes: u64,
    /// Size of the receive buffer as `SO_RCVBUF` returns it, bytes: twice the size that was asked
    /// for.
    pub rcvbuf_bytes: u64,
    /// Size of the send buffer as `SO_SNDBUF` returns it, bytes: twice the size that was asked for.
    pub sndbuf_bytes: u64,
    /// Held by what waits to be acknowledged.
    pub wmem_queued_bytes: u64,
    /// Packets that the socket dropped for lack of memory, or because its backlog was full.
    pub drops: u64,
}

/// A connection to the kernel's list of sockets, of the namespace in which it was opened.
#[derive(Debug)]
pub struct Diag {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens the connection in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel has no `sock_diag`, or a sandbox forbids it.
    pub fn open() -> Result<Self, LiveError> {
        let protocol = Some(Protocol::from(NETLINK_SOCK_DIAG));
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, protocol)
            .map_err(LiveError::Diag)?;
        socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(LiveError::Diag)?;
        Ok(Self { socket, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Lists the TCP sockets of both IP versions that are in one of `states`.
    ///
    /// # Errors
    /// The kernel refuses, or breaks off.
    pub fn dump(
        &mut self,
        states: &[TcpState],
        mut take: impl FnMut(Entry),
    ) -> Result<(), LiveError> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.socket.write_all(&request(family as u8, states)).map_err(LiveError::Diag)?;
            loop {
                let length = match self.socket.read(&mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    other => other.map_err(LiveError::Dump)?,
                };
                let more = messages(&self.buffer[..length], |message| {
                    if let Some(entry) = parse(message) {
                        take(entry);
                    }
                });
                match more {
                    Ok(true) => {}
                    Ok(false) => break,
                    // A kernel without IPv6 has no sockets of it.
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
                    Err(error) => return Err(LiveError::Dump(error)),
                }
            }
        }
        Ok(())
    }
}

/// Returns a request: `struct nlmsghdr` and `struct inet_diag_req_v2`.
fn request(family: u8, states: &[TcpState]) -> Vec<u8> {
    let mut message = vec![0; HEADER_BYTES + 56];
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    message[16] = family;
    message[17] = libc::IPPROTO_TCP as u8;
    message[18] =
        1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1) | 1 << (INET_DIAG_SKMEMINFO - 1);
    let mut mask = states.iter().fold(0u32, |mask, &state| mask | 1 << state as u8);
    if states.contains(&TcpState::SynReceived) {
        mask |= 1 << 12;
    }
    message[20..24].copy_from_slice(&mask.to_ne_bytes());
    message
}

/// Passes the body of each message on; returns `false` at the end of the dump.
fn messages(mut bytes: &[u8], mut take: impl FnMut(&[u8])) -> io::Result<bool> {
    while let Some(&[a, b, c, d, kind_low, kind_high]) = bytes.first_chunk::<6>() {
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let Some(body) = bytes.get(HEADER_BYTES..length) else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        };
        match u16::from_ne_bytes([kind_low, kind_high]) {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let code = body.first_chunk::<4>().map_or(0, |code| i32::from_ne_bytes(*code));
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => take(body),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// Parses `struct inet_diag_msg` and its attributes; returns `None` if the message is truncated.
fn parse(message: &[u8]) -> Option<Entry> {
    let fixed = message.get(..MESSAGE_BYTES)?;
    let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| fixed[at + i]));
    let port = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let address = |at: usize| -> Option<IpAddr> {
        if i32::from(fixed[0]) == libc::AF_INET {
            return Some(Ipv4Addr::from(*fixed[at..].first_chunk::<4>()?).into());
        }
        Some(Ipv6Addr::from(*fixed[at..].first_chunk::<16>()?).to_canonical())
    };
    let mut entry = Entry {
        state: TcpState::from_kernel(fixed[1])?,
        local: SocketAddr::new(address(8)?, port(4)),
        peer: SocketAddr::new(address(24)?, port(6)),
        cookie: u64::from(word(44)) | u64::from(word(48)) << 32,
        timer_ms: word(52),
        recv_queue: word(56),
        send_queue: word(60),
        uid: word(64),
        inode: word(68),
        tcp_info: None,
        memory: None,
        congestion_control: None,
    };
    let mut rest = &message[MESSAGE_BYTES..];
    while let Some(&[length_low, length_high, kind_low, kind_high]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([length_low, length_high]));
        let value = rest.get(4..length)?;
        match u16::from_ne_bytes([kind_low, kind_high]) {
            INET_DIAG_INFO if !value.is_empty() => entry.tcp_info = Some(TcpInfo::parse(value)),
            INET_DIAG_SKMEMINFO => entry.memory = Some(memory(value)),
            INET_DIAG_CONG => {
                let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
                entry.congestion_control = Some(String::from_utf8_lossy(name).into_owned());
            }
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(entry)
}

/// Parses `SK_MEMINFO_*` of linux/sock_diag.h: rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc,
/// wmem_queued, optmem, backlog, drops.
fn memory(value: &[u8]) -> Memory {
    let word = |index: usize| {
        let octets = value.get(4 * index..4 * index + 4).and_then(|octets| octets.try_into().ok());
        u64::from(octets.map_or(0, u32::from_ne_bytes))
    };
    Memory {
        rmem_alloc_bytes: word(0),
        rcvbuf_bytes: word(1),
        sndbuf_bytes: word(3),
        wmem_queued_bytes: word(5),
        drops: word(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an established IPv4 socket 10.0.0.1:80 with peer 10.0.0.2:81, without `TCP_INFO`.
    fn message() -> Vec<u8> {
        let mut body = vec![0; MESSAGE_BYTES];
        body[0] = libc::AF_INET as u8;
        body[1] = 1;
        body[4..8].copy_from_slice(&[0, 80, 0, 81]);
        body[8..12].copy_from_slice(&[10, 0, 0, 1]);
        body[24..28].copy_from_slice(&[10, 0, 0, 2]);
        body[44..52].copy_from_slice(&7u64.to_ne_bytes());
        body.extend(10u16.to_ne_bytes());
        body.extend(INET_DIAG_CONG.to_ne_bytes());
        body.extend(b"cubic\0\0\0");
        body
    }

    #[test]
    fn a_message_has_both_ends_and_the_congestion_control() {
        let entry = parse(&message()).unwrap();
        assert_eq!(entry.local, "10.0.0.1:80".parse().unwrap());
        assert_eq!(entry.peer, "10.0.0.2:81".parse().unwrap());
        assert_eq!((entry.cookie, entry.congestion_control.as_deref()), (7, Some("cubic")));
        assert_eq!((entry.state, entry.tcp_info), (TcpState::Established, None));
    }

    #[test]
    fn a_message_of_any_length_is_survived() {
        let whole = message();
        for length in 0..whole.len() {
            let _ = parse(&whole[..length]);
        }
        assert!(parse(&whole[..60]).is_none());
    }

    #[test]
    fn a_dump_ends_with_its_done_message() {
        let header = |kind: u16, body: &[u8]| {
            let mut bytes = vec![0; HEADER_BYTES];
            bytes[..4].copy_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes.extend(body);
            bytes
        };
        let mut bytes = header(SOCK_DIAG_BY_FAMILY, &message());
        let mut taken = 0;
        assert!(messages(&bytes, |_| taken += 1).unwrap());
        bytes.extend(header(NLMSG_DONE, &[0; 4]));
        assert!(!messages(&bytes, |_| taken += 1).unwrap());
        assert_eq!(taken, 2);
        let refused = header(NLMSG_ERROR, &(-libc::EPERM).to_ne_bytes());
        let error = messages(&refused, |_| {}).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        assert!(messages(&refused[..18], |_| {}).is_err());
    }
}
