//! The kernel's own word on every TCP socket of a namespace, sampled while the load runs
//! (`sock_diag(7)`): what limited each sender, and by which congestion control it sent. It covers
//! the sockets of real programs, which the lab cannot ask for `TCP_INFO`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Doing, LabError};
use crate::netns::Netns;
use crate::sys::{TcpInfo, parse_tcp_info};

/// A socket as the last sample saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SocketSample {
    /// `client` or `server`: whose namespace.
    pub vantage: &'static str,
    /// Its own address and port.
    pub local: String,
    /// The peer's.
    pub remote: String,
    /// Its congestion control, by the kernel's name.
    pub congestion_control: String,
    /// How often it was seen.
    pub samples: u64,
    /// Its `TCP_INFO`.
    #[serde(flatten)]
    pub tcp_info: TcpInfo,
}

/// What was seen in one namespace.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    /// The sockets that were connected, without those over loopback.
    pub sockets: Vec<SocketSample>,
    /// Most connections that were half open (`SYN_RECV`) at the same time.
    pub half_open_max: u64,
}

/// Between two samples. What a socket does after its last one is not known.
const INTERVAL: Duration = Duration::from_millis(40);
/// More sockets than this say nothing that these do not.
const SOCKETS_MAX: usize = 2_000;

/// Samples a namespace until it is stopped or dropped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Sampled>>,
}

impl Sampler {
    /// Starts to sample `netns`, whose sockets are those at `vantage`.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the kernel has no `sock_diag`.
    pub fn start(netns: &Netns, vantage: &'static str) -> Result<Sampler, LabError> {
        let diag = Some(Protocol::from(NETLINK_SOCK_DIAG));
        let open = || Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, diag);
        let mut socket = netns.inside(open)?.doing("open a sock_diag socket")?;
        let _ = socket.set_read_timeout(Some(Duration::from_secs(1)));
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut seen = Seen::default();
            while !flag.load(Ordering::Relaxed) {
                // A dump that fails is a sample less.
                let _ = seen.sample(&mut socket, vantage);
                thread::sleep(INTERVAL);
            }
            seen.into_sampled()
        });
        Ok(Sampler { stop, thread: Some(thread) })
    }

    /// Stops and returns what was seen.
    pub fn stop(&mut self) -> Sampled {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

// The parts of linux/sock_diag.h, linux/inet_diag.h and linux/netlink.h that are needed.
const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const SYN_RECV: u8 = 3;
/// All states but TIME_WAIT, CLOSE and LISTEN; bit 12 is a half-open connection without a socket.
const STATES: u32 =
    1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11 | 1 << 12;
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;

#[derive(Default)]
struct Seen {
    /// By the kernel's cookie, which no two sockets share.
    sockets: BTreeMap<u64, SocketSample>,
    half_open_max: u64,
}

impl Seen {
    fn sample(&mut self, socket: &mut Socket, vantage: &'static str) -> io::Result<()> {
        let mut half_open = 0;
        for family in [libc::AF_INET, libc::AF_INET6] {
            socket.write_all(&request(family as u8))?;
            let mut buf = vec![0; 65_536];
            let mut is_done = false;
            while !is_done {
                let length = socket.read(&mut buf)?;
                is_done = messages(&buf[..length], |message| {
                    if message.get(1) == Some(&SYN_RECV) {
                        half_open += 1;
                    } else {
                        self.note(message, vantage);
                    }
                });
            }
        }
        self.half_open_max = self.half_open_max.max(half_open);
        Ok(())
    }

    fn note(&mut self, message: &[u8], vantage: &'static str) {
        let Some((cookie, sample)) = parse(message, vantage) else {
            return;
        };
        let is_full = self.sockets.len() >= SOCKETS_MAX;
        if let Some(known) = self.sockets.get_mut(&cookie) {
            *known = SocketSample { samples: known.samples + 1, ..sample };
        } else if !is_full {
            self.sockets.insert(cookie, sample);
        }
    }

    fn into_sampled(self) -> Sampled {
        let sockets = self.sockets.into_values().collect();
        Sampled { sockets, half_open_max: self.half_open_max }
    }
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`.
fn request(family: u8) -> Vec<u8> {
    let mut message = vec![0; HEADER_BYTES + 56];
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    message[16] = family;
    message[17] = libc::IPPROTO_TCP as u8;
    message[18] = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
    message[20..24].copy_from_slice(&STATES.to_ne_bytes());
    message
}

/// Hands over each message's body; whether the dump is over.
fn messages(mut bytes: &[u8], mut take: impl FnMut(&[u8])) -> bool {
    while let Some(&[a, b, c, d, kind_low, kind_high]) = bytes.first_chunk::<6>() {
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let kind = u16::from_ne_bytes([kind_low, kind_high]);
        let Some(body) = bytes.get(HEADER_BYTES..length) else {
            return true;
        };
        if kind == NLMSG_DONE || kind == NLMSG_ERROR {
            return true;
        }
        take(body);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

fn parse(message: &[u8], vantage: &'static str) -> Option<(u64, SocketSample)> {
    let id = message.get(4..52)?;
    let address = |at: usize| -> Option<IpAddr> {
        if message[0] == libc::AF_INET as u8 {
            let octets: [u8; 4] = id.get(at..at + 4)?.try_into().ok()?;
            return Some(Ipv4Addr::from(octets).into());
        }
        let octets: [u8; 16] = id.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Addr::from(octets).to_canonical())
    };
    let port = |at: usize| u16::from_be_bytes([id[at], id[at + 1]]);
    let local = SocketAddr::new(address(4)?, port(0));
    let remote = SocketAddr::new(address(20)?, port(2));
    if local.ip().is_loopback() {
        return None;
    }
    let cookie = u64::from_ne_bytes(id.get(40..48)?.try_into().ok()?);
    let mut sample = SocketSample {
        vantage,
        local: local.to_string(),
        remote: remote.to_string(),
        congestion_control: String::new(),
        samples: 1,
        tcp_info: TcpInfo::default(),
    };
    let mut rest = message.get(MESSAGE_BYTES..)?;
    while let Some(&[length_low, length_high, kind_low, kind_high]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([length_low, length_high]));
        let value = rest.get(4..length)?;
        match u16::from_ne_bytes([kind_low, kind_high]) {
            INET_DIAG_INFO => sample.tcp_info = parse_tcp_info(value),
            INET_DIAG_CONG => {
                let name = String::from_utf8_lossy(value);
                sample.congestion_control = name.trim_end_matches('\0').to_owned();
            }
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some((cookie, sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 socket 10.0.0.1:80 to 10.0.0.2:81 with a congestion control and no `TCP_INFO`.
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
    fn a_socket_tells_its_ends_and_its_congestion_control() {
        let (cookie, sample) = parse(&message(), "server").unwrap_or_else(|| unreachable!());
        assert_eq!((cookie, sample.congestion_control.as_str()), (7, "cubic"));
        assert_eq!((sample.local.as_str(), sample.remote.as_str()), ("10.0.0.1:80", "10.0.0.2:81"));
    }

    #[test]
    fn a_message_that_is_cut_short_is_no_socket() {
        assert!(parse(&message()[..60], "client").is_none());
        let mut dump = request(2);
        dump.truncate(20);
        assert!(messages(&dump, |_| unreachable!()));
    }

    #[test]
    fn a_dump_ends_with_its_done_message() {
        let mut done = vec![0; HEADER_BYTES + 4];
        done[..4].copy_from_slice(&20u32.to_ne_bytes());
        done[4..6].copy_from_slice(&NLMSG_DONE.to_ne_bytes());
        let mut taken = 0;
        let mut dump = request(2);
        assert!(!messages(&dump, |_| taken += 1));
        dump.extend(done);
        assert!(messages(&dump, |_| taken += 1));
        assert_eq!(taken, 2);
    }
}
