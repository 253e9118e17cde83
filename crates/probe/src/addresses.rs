//! Tries all addresses of a host. Read first: RFC 8305 (Happy Eyeballs): a client tries the
//! addresses in an order in which the families alternate, each a moment after the one before or
//! as soon as that has failed, and uses the first connection that is established.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::budget::{Budget, Exceeded, Limits};
use crate::nanoseconds;

/// Greatest number of addresses that are tried.
pub const ADDRESSES_MAX: u64 = 8;
/// Time after which the next address is tried, if the one before has not answered: the Connection
/// Attempt Delay of RFC 8305 §5, ns.
pub const ATTEMPT_DELAY_NS: u64 = 250_000_000;
/// Longest wait for an answer. The first SYN is sent again after 1 s and 3 s (RFC 6298 §2.1), so an
/// address of which two SYNs are lost is not taken for a silent one.
const WAIT_MAX: Duration = Duration::from_millis(3_300);
/// `SO_RCVBUF` of these connections, bytes, and the most that a peer can send on one of them.
const BUFFER_BYTES: usize = 4 << 10;
const CONNECTION_BYTES: u64 = 64 << 10;

/// The outcome of the attempt to connect to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt {
    /// It accepts connections.
    Connected,
    /// It refuses them with a RST.
    Refused,
    /// No answer came.
    Silent,
    /// A router or filter reports by ICMP, or this host knows, that it cannot be reached.
    Unreachable,
}

/// An address that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Tried {
    /// The address and port.
    pub address: SocketAddr,
    /// The outcome.
    pub attempt: Attempt,
    /// Time from the SYN to the outcome, ns; of a silent address the time that was waited.
    pub after_ns: u64,
}

/// Returns the most that trying the addresses of one host sends.
pub fn limits() -> Limits {
    Limits {
        requests: 0,
        connections: ADDRESSES_MAX,
        connections_at_once: ADDRESSES_MAX,
        bytes: ADDRESSES_MAX * CONNECTION_BYTES,
    }
}

/// Tries addresses at the same time, in the order in which a client of RFC 8305 would. The order of
/// the argument is that of the system (RFC 6724). Addresses for which the budget has no connection
/// are left out.
pub fn attempt_all(addresses: &[SocketAddr], timeout: Duration, budget: &Budget) -> Vec<Tried> {
    let mut ordered = alternating(addresses);
    ordered.truncate(usize::try_from(ADDRESSES_MAX).unwrap_or(usize::MAX));
    let wait = timeout.min(WAIT_MAX);
    thread::scope(|scope| {
        let tried: Vec<_> = ordered
            .into_iter()
            .map(|address| scope.spawn(move || attempt(address, wait, budget)))
            .collect();
        let ended = tried.into_iter().map(thread::ScopedJoinHandle::join);
        ended.filter_map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Returns the address on which a client of RFC 8305 has its connection first; `None` if none
/// accepts one.
pub fn chosen(tried: &[Tried]) -> Option<SocketAddr> {
    let mut begin_ns = 0_u64;
    let mut first: Option<(u64, SocketAddr)> = None;
    for it in tried {
        let end_ns = begin_ns + it.after_ns;
        if it.attempt == Attempt::Connected && first.is_none_or(|(before, _)| end_ns < before) {
            first = Some((end_ns, it.address));
        }
        begin_ns = match it.attempt {
            Attempt::Refused | Attempt::Unreachable => end_ns.min(begin_ns + ATTEMPT_DELAY_NS),
            Attempt::Connected | Attempt::Silent => begin_ns + ATTEMPT_DELAY_NS,
        };
    }
    first.map(|(_, address)| address)
}

/// Returns the addresses with the families in turn, beginning with that of the first one (RFC 8305
/// §4), each once.
fn alternating(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else { return Vec::new() };
    let of = |is_first: bool| {
        let mut all: Vec<SocketAddr> = Vec::new();
        for it in addresses.iter().filter(|it| (it.is_ipv4() == first.is_ipv4()) == is_first) {
            if !all.contains(it) {
                all.push(*it);
            }
        }
        all
    };
    let (own, other) = (of(true), of(false));
    let longest = own.len().max(other.len());
    (0..longest).flat_map(|at| [own.get(at), other.get(at)]).flatten().copied().collect()
}

fn attempt(address: SocketAddr, wait: Duration, budget: &Budget) -> Option<Tried> {
    let mut began = Instant::now();
    let opened = budget.connect(Duration::ZERO, || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
        began = Instant::now();
        socket.connect_timeout(&address.into(), wait)?;
        Ok(TcpStream::from(socket))
    });
    let attempt = match opened {
        Ok(_) => Attempt::Connected,
        Err(error) if Exceeded::of(&error).is_some() => return None,
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => Attempt::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Attempt::Silent,
            _ => Attempt::Unreachable,
        },
    };
    Some(Tried { address, attempt, after_ns: nanoseconds(began.elapsed()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const MS: u64 = 1_000_000;

    fn tried(address: &str, attempt: Attempt, after_ms: u64) -> Tried {
        Tried { address: address.parse().unwrap(), attempt, after_ns: after_ms * MS }
    }

    #[test]
    fn families_alternate_and_the_first_one_begins() {
        let all = ["[::1]:1", "[::2]:1", "10.0.0.1:1", "[::1]:1", "10.0.0.2:1", "10.0.0.3:1"];
        let all = all.map(|it| it.parse().unwrap());
        let ordered: Vec<String> = alternating(&all).iter().map(ToString::to_string).collect();
        let expected = ["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1", "10.0.0.3:1"];
        assert_eq!(ordered, expected);
    }

    #[test]
    fn the_first_connection_that_is_established_is_used() {
        use Attempt::{Connected, Refused, Silent, Unreachable};
        let second = Some("10.0.0.2:1".parse().unwrap());
        for failing in [Refused, Silent, Unreachable] {
            let all = [tried("[::1]:1", failing, 30), tried("10.0.0.2:1", Connected, 900)];
            assert_eq!(chosen(&all), second, "{failing:?}");
        }
        // The second one begins 250 ms later.
        let slow = |ms| [tried("[::1]:1", Connected, ms), tried("10.0.0.2:1", Connected, 10)];
        assert_eq!(chosen(&slow(240)), Some("[::1]:1".parse().unwrap()));
        assert_eq!(chosen(&slow(270)), second);
        assert_eq!(chosen(&[tried("[::1]:1", Silent, 3_000)]), None);
    }

    #[test]
    fn each_address_is_tried_within_the_budget() {
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let open_at = open.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let budget = Budget::new(limits());
        let tried = attempt_all(&[closed, open_at], Duration::from_secs(5), &budget);
        let attempts: Vec<Attempt> = tried.iter().map(|it| it.attempt).collect();
        assert_eq!(attempts, [Attempt::Refused, Attempt::Connected]);
        assert_eq!((chosen(&tried), budget.spent().connections), (Some(open_at), 2));
        let nothing = Budget::new(Limits::NOTHING);
        assert_eq!(attempt_all(&[open_at], Duration::from_secs(5), &nothing), []);
    }
}
