//! Sends probes with a hop limit, and receives the answers of the target and the errors of routers,
//! which Linux queues at the socket that sent the packet (`IP_RECVERR`). All probes of a sender
//! have the same addresses and ports.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tcpwhy_live::sys::clock::realtime_ns;
use tcpwhy_live::sys::datagram::{QueuedError, receive, wait};
use tcpwhy_live::sys::options::set_int_option;

use super::packet::{self, PAYLOAD_BYTES, SynAnswer};
use super::{Method, PathMeasurement};
use crate::budget::Budget;

// Options of linux/in.h and linux/in6.h.
const IPPROTO_IP: i32 = 0;
const IPPROTO_IPV6: i32 = 41;
const IP_TTL: i32 = 2;
const IP_MTU_DISCOVER: i32 = 10;
const IP_RECVERR: i32 = 11;
const IPV6_UNICAST_HOPS: i32 = 16;
const IPV6_MTU_DISCOVER: i32 = 23;
const IPV6_RECVERR: i32 = 25;
const IPV6_DONTFRAG: i32 = 62;
/// Sets the DF bit, and ignores the path MTU in the kernel's cache.
const PMTUDISC_PROBE: i32 = 3;
const SOL_SOCKET: i32 = 1;
const SO_TIMESTAMPNS: i32 = 35;
/// First port of traceroute(8), at which normally no socket listens.
const UDP_PORT: u16 = 33_434;
const BUFFER_BYTES: usize = 65_536;
/// Number of attempts to send a probe while the socket reports errors about earlier ones.
const SEND_TRIES: u32 = 4;

/// The kind of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The target accepts connections at the port.
    Accepted,
    /// The target refuses connections at the port.
    Refused,
    /// The target answered an echo request.
    Echo,
    /// No socket listens at the port of the datagram, which therefore reached the target.
    PortClosed,
    /// The hop limit was used up at this router.
    Expired,
    /// The packet is larger than the MTU of the router's next link, bytes; 0 if the router does not
    /// state it.
    TooLarge(u32),
    /// A router or the target refuses to forward the packet.
    Unreachable {
        /// Code of the ICMP error.
        code: u8,
    },
}

/// An answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Number of the probe; `None` if the answer does not contain it.
    pub number: Option<u16>,
    /// Time of arrival by `CLOCK_REALTIME`, ns.
    pub at_ns: u64,
    /// Sender of the answer; `None` for this host itself.
    pub from: Option<IpAddr>,
    /// Kind of the answer.
    pub what: What,
}

/// A socket that sends probes to one target.
#[derive(Debug)]
pub(super) struct Sender {
    method: Method,
    socket: Socket,
    source: SocketAddr,
    target: SocketAddr,
    /// Reserves the source port of SYNs, so that no connection of this host uses it. No socket
    /// listens at it, so the kernel answers each SYN-ACK with a RST, which closes the connection
    /// that the SYN opened.
    _port: Option<Socket>,
    /// Identifier of echo requests; `None` if the kernel sets it and only delivers the replies of
    /// this socket.
    id: Option<u16>,
    is_raw: bool,
    /// The high half of sequence numbers, which distinguishes them from those of another run.
    key: u16,
    budget: Budget,
}

/// Returns the local address and port for packets to `target`; no packet is sent.
pub(super) fn source_of(target: SocketAddr) -> io::Result<SocketAddr> {
    let socket = UdpSocket::bind((any(target), 0))?;
    socket.connect(SocketAddr::new(target.ip(), target.port().max(1)))?;
    socket.local_addr()
}

fn any(target: SocketAddr) -> IpAddr {
    if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

impl Sender {
    /// Opens a sender for this kind of probes.
    ///
    /// # Errors
    /// `PermissionDenied` if this user may not send such packets.
    pub fn open(method: Method, asked: &PathMeasurement<'_>) -> io::Result<Sender> {
        let (target, budget) = (asked.address, asked.plan.budget.clone());
        let domain = Domain::for_address(target);
        let source = source_of(target)?;
        let key = (realtime_ns() >> 12) as u16;
        let mut sender = match method {
            Method::Tcp => {
                let socket = asked.raw_socket(method)?;
                let port = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
                port.bind(&SocketAddr::new(source.ip(), 0).into())?;
                let source = port.local_addr()?.as_socket().ok_or(ErrorKind::Unsupported)?;
                let _port = Some(port);
                Sender {
                    method,
                    socket,
                    source,
                    target,
                    _port,
                    id: None,
                    is_raw: true,
                    key,
                    budget,
                }
            }
            Method::Udp => {
                let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
                let target = SocketAddr::new(target.ip(), UDP_PORT);
                Sender {
                    method,
                    socket,
                    source,
                    target,
                    _port: None,
                    id: None,
                    is_raw: false,
                    key,
                    budget,
                }
            }
            Method::Icmp => {
                let protocol = if target.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
                let (socket, is_raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
                    Ok(socket) => (socket, false),
                    // Outside of net.ipv4.ping_group_range only root may send echo requests.
                    Err(_) => (asked.raw_socket(method)?, true),
                };
                let id = is_raw.then_some(key);
                Sender { method, socket, source, target, _port: None, id, is_raw, key, budget }
            }
        };
        sender.configure()?;
        if method == Method::Udp {
            sender.source = sender.socket.local_addr()?.as_socket().unwrap_or(sender.source);
        }
        Ok(sender)
    }

    fn configure(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)?;
        let (level, errors) = match self.target {
            SocketAddr::V4(_) => (IPPROTO_IP, IP_RECVERR),
            SocketAddr::V6(_) => (IPPROTO_IPV6, IPV6_RECVERR),
        };
        set_int_option(self.socket.as_fd(), level, errors, 1)?;
        set_int_option(self.socket.as_fd(), SOL_SOCKET, SO_TIMESTAMPNS, 1)?;
        // Raw sockets and ICMP sockets have no port.
        let port = if self.method == Method::Udp { UDP_PORT } else { 0 };
        self.socket.connect(&SocketAddr::new(self.target.ip(), port).into())
    }

    /// Forbids fragmentation of packets, regardless of the path MTU in the kernel's cache.
    pub fn forbid_fragments(&self) -> io::Result<()> {
        match self.target {
            SocketAddr::V4(_) => self.set(IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_PROBE),
            SocketAddr::V6(_) => {
                self.set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_PROBE)?;
                self.set(IPPROTO_IPV6, IPV6_DONTFRAG, 1)
            }
        }
    }

    fn set(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        set_int_option(self.socket.as_fd(), level, option, value)
    }

    /// Sends probe `number` with the hop limit `hops`, or the default one, and returns the time of
    /// sending by `CLOCK_REALTIME`, ns.
    ///
    /// # Errors
    /// The budget is spent; `EMSGSIZE` if the packet is larger than the MTU of this host's link; otherwise the kernel's
    /// error.
    pub fn send(&self, number: u16, hops: Option<u8>, payload_bytes: usize) -> io::Result<u64> {
        let (level, limit) = match self.target {
            SocketAddr::V4(_) => (IPPROTO_IP, IP_TTL),
            SocketAddr::V6(_) => (IPPROTO_IPV6, IPV6_UNICAST_HOPS),
        };
        // -1 stands for the default hop limit of the system.
        self.set(level, limit, hops.map_or(-1, i32::from))?;
        let bytes = match self.method {
            Method::Tcp => packet::syn(self.source, self.target, self.seq(number)),
            Method::Udp => packet::datagram(number, payload_bytes),
            Method::Icmp => {
                let id = self.id.unwrap_or(0);
                packet::echo_request(self.target.ip(), id, number, payload_bytes)
            }
        };
        self.budget.request()?;
        let mut tries = 0;
        loop {
            let at_ns = realtime_ns();
            match self.socket.send(&bytes) {
                Ok(_) => return Ok(at_ns),
                // The kernel reports an error about an earlier probe at the next call.
                Err(error) if is_earlier(&error) && tries < SEND_TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a probe with the usual payload.
    pub fn probe(&self, number: u16, hops: Option<u8>) -> io::Result<u64> {
        self.send(number, hops, PAYLOAD_BYTES)
    }

    fn seq(&self, number: u16) -> u32 {
        u32::from(self.key) << 16 | u32::from(number)
    }

    /// Waits at most `timeout` for an answer.
    pub fn wait(&self, timeout: Duration) {
        let timeout_ms = timeout.as_nanos().div_ceil(1_000_000).min(60_000) as i32;
        // A signal ends the wait, as an answer does.
        let _ = wait(self.socket.as_fd(), timeout_ms);
    }

    /// Returns all answers that have arrived.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let mut all = Vec::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        let socket = self.socket.as_fd();
        while let Ok(received) = receive(socket, &mut buffer, true) {
            let at_ns = received.stamp_ns.unwrap_or_else(realtime_ns);
            let quoted = &buffer[..received.length];
            all.extend(received.error.and_then(|error| self.error(&error, quoted, at_ns)));
        }
        loop {
            match receive(socket, &mut buffer, false) {
                Ok(received) => {
                    let at_ns = received.stamp_ns.unwrap_or_else(realtime_ns);
                    all.extend(self.answer(&buffer[..received.length], at_ns));
                }
                Err(error) if is_earlier(&error) => {}
                Err(_) => return all,
            }
        }
    }

    fn answer(&self, packet: &[u8], at_ns: u64) -> Option<Arrival> {
        let from = Some(self.target.ip());
        let (number, what) = match self.method {
            Method::Tcp => {
                let ends = (self.source, self.target);
                let (seq, answer) = packet::syn_answer(packet, ends)?;
                let what = match answer {
                    SynAnswer::Accepted => What::Accepted,
                    SynAnswer::Refused => What::Refused,
                };
                (Some(self.number(seq)?), what)
            }
            // A socket listens at the port after all.
            Method::Udp => (packet::quoted_datagram(packet), What::PortClosed),
            Method::Icmp => {
                let is_whole = self.is_raw && self.target.is_ipv4();
                let message = if is_whole { packet::behind_ipv4(packet)? } else { packet };
                let (id, number) = packet::echo_reply(message, self.target.ip())?;
                if self.id.is_some_and(|own| own != id) {
                    return None;
                }
                (Some(number), What::Echo)
            }
        };
        Some(Arrival { number, at_ns, from, what })
    }

    fn number(&self, seq: u32) -> Option<u16> {
        ((seq >> 16) as u16 == self.key).then_some(seq as u16)
    }

    fn error(&self, error: &QueuedError, quoted: &[u8], at_ns: u64) -> Option<Arrival> {
        let number = match self.method {
            Method::Tcp => Some(packet::quoted_seq(quoted).and_then(|seq| self.number(seq))?),
            Method::Udp => packet::quoted_datagram(quoted),
            Method::Icmp => {
                let (id, number) = packet::quoted_echo(quoted)?;
                if self.id.is_some_and(|own| own != id) {
                    return None;
                }
                Some(number)
            }
        };
        let what = what(error, self.target.is_ipv4());
        Some(Arrival { number, at_ns, from: error.offender, what })
    }

    /// Returns the source address and port of the probes.
    pub fn source(&self) -> SocketAddr {
        self.source
    }
}

/// Returns the meaning of an ICMP error (RFC 792, RFC 4443 §3).
pub(super) fn what(error: &QueuedError, is_v4: bool) -> What {
    const EMSGSIZE: i32 = 90;
    let (expired, unreachable, port) = if is_v4 { (11, 3, 3) } else { (3, 1, 4) };
    if error.errno == EMSGSIZE {
        What::TooLarge(error.info)
    } else if error.kind == expired {
        What::Expired
    } else if error.kind == unreachable && error.code == port {
        What::PortClosed
    } else {
        What::Unreachable { code: error.code }
    }
}

/// Returns whether an ICMP error about an earlier probe caused `error`.
fn is_earlier(error: &io::Error) -> bool {
    const EPROTO: i32 = 71;
    const EMSGSIZE: i32 = 90;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::PermissionDenied
    ) || matches!(error.raw_os_error(), Some(EPROTO | EMSGSIZE))
}
