//! Sends SYNs without privilege: the kernel sends one for each connect(2), with the hop limit of
//! the socket, and queues the error of the router that dropped it. All connections use the same
//! local port, so that only one can be open at a time.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tcpwhy_live::sys::clock::realtime_ns;
use tcpwhy_live::sys::datagram::{receive, wait_for_end};
use tcpwhy_live::sys::options::set_int_option;

use super::hops::Probes;
use super::sender::{Arrival, What, source_of, what};
use crate::budget::Budget;

const IPPROTO_IP: i32 = 0;
const IPPROTO_IPV6: i32 = 41;
const IP_RECVERR: i32 = 11;
const IPV6_RECVERR: i32 = 25;

/// Opens connections to one target, one after the other.
#[derive(Debug)]
pub(super) struct Connecting {
    target: SocketAddr,
    source: SocketAddr,
    under_way: Option<(u16, Socket)>,
    budget: Budget,
}

impl Connecting {
    /// Chooses the local port of all connections.
    pub fn open(target: SocketAddr, budget: &Budget) -> io::Result<Connecting> {
        let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&SocketAddr::new(source_of(target)?.ip(), 0).into())?;
        let source = socket.local_addr()?.as_socket().ok_or(ErrorKind::Unsupported)?;
        Ok(Connecting { target, source, under_way: None, budget: budget.clone() })
    }
}

impl Probes for Connecting {
    fn send(&mut self, number: u16, hops: u8) -> io::Result<u64> {
        // The previous socket must release the port before the next one binds it.
        self.under_way = None;
        let domain = Domain::for_address(self.target);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        // Closing with a RST avoids TIME-WAIT, in which the port could not be used again.
        SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
        socket.bind(&self.source.into())?;
        socket.set_nonblocking(true)?;
        match self.target {
            SocketAddr::V4(_) => {
                set_int_option(socket.as_fd(), IPPROTO_IP, IP_RECVERR, 1)?;
                socket.set_ttl_v4(u32::from(hops))?;
            }
            SocketAddr::V6(_) => {
                set_int_option(socket.as_fd(), IPPROTO_IPV6, IPV6_RECVERR, 1)?;
                socket.set_unicast_hops_v6(u32::from(hops))?;
            }
        }
        self.budget.request()?;
        let at_ns = realtime_ns();
        match socket.connect(&self.target.into()) {
            Err(error) if !is_under_way(&error) => return Err(error),
            _ => {}
        }
        self.under_way = Some((number, socket));
        Ok(at_ns)
    }

    fn wait(&self, timeout: Duration) {
        let timeout_ms = timeout.as_nanos().div_ceil(1_000_000).min(60_000) as i32;
        match &self.under_way {
            Some((_, socket)) => {
                let _ = wait_for_end(socket.as_fd(), timeout_ms);
            }
            None => std::thread::sleep(timeout),
        }
    }

    fn arrivals(&mut self) -> Vec<Arrival> {
        let Some((number, socket)) = self.under_way.take() else { return Vec::new() };
        let mut quoted = [0; 256];
        let now_ns = realtime_ns();
        let arrived = |from, what, at_ns| vec![Arrival { number: Some(number), at_ns, from, what }];
        if let Ok(received) = receive(socket.as_fd(), &mut quoted, true)
            && let Some(error) = received.error
        {
            let what = what(&error, self.target.is_ipv4());
            return arrived(error.offender, what, received.stamp_ns.unwrap_or(now_ns));
        }
        let from = Some(self.target.ip());
        match socket.take_error() {
            Ok(Some(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                arrived(from, What::Refused, now_ns)
            }
            Ok(None) if socket.peer_addr().is_ok() => arrived(from, What::Accepted, now_ns),
            Ok(None) => {
                self.under_way = Some((number, socket));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn source_port(&self) -> u16 {
        self.source.port()
    }

    fn is_sequential(&self) -> bool {
        true
    }
}

fn is_under_way(error: &io::Error) -> bool {
    const EINPROGRESS: i32 = 115;
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(EINPROGRESS)
}
