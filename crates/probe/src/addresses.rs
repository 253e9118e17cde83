//! Tries all addresses of a host. Read first: RFC 8305 (Happy Eyeballs): a client tries the
//! addresses in an order in which the families alternate, each a moment after the one before or
//! as soon as that has failed, and uses the first connection that is established.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tcpwhy_core::model::units::duration;

use crate::budget::{Budget, Exceeded, Limits};
use crate::nanoseconds;

/// Greatest number of addresses that are tried.
const ADDRESSES_MAX: u64 = 8;
/// Time after which the next address is tried, if the one before has not answered: the Connection
/// Attempt Delay of RFC 8305 §5, ns.
const ATTEMPT_DELAY_NS: u64 = 250_000_000;
/// Longest wait for an answer. The first SYN is sent again after 1 s and 3 s (RFC 6298 §2.1), so an
/// address of which two SYNs are lost is not taken for a silent one.
const WAIT_MAX: Duration = Duration::from_millis(3_300);
/// `SO_RCVBUF` of these connections, bytes, and the most that a peer can send on one of them.
const BUFFER_BYTES: usize = 4 << 10;
const CONNECTION_BYTES: u64 = 64 << 10;

/// The outcome of the attempt to connect to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
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
fn attempt_all(addresses: &[SocketAddr], timeout: Duration, budget: &Budget) -> Vec<Tried> {
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
fn chosen(tried: &[Tried]) -> Option<SocketAddr> {
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

/// The time after which Linux gives up a connection attempt without an answer
/// (`net.ipv4.tcp_syn_retries` of 6: tcp(7)), as words.
const SYN_LIMIT: &str = "127 s";

/// The addresses of a host.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// The address that is measured.
    pub used: SocketAddr,
    /// Those that were tried, in the order in which a client tries them; none if there is only one.
    pub tried: Vec<Tried>,
}

impl Addresses {
    /// Tries all addresses, if there are several; `None` if there is none.
    pub fn choose(all: &[SocketAddr], timeout: Duration, budget: &Budget) -> Option<Addresses> {
        let &first = all.first()?;
        if all.len() == 1 {
            return Some(Addresses { used: first, tried: Vec::new() });
        }
        let tried = attempt_all(all, timeout, budget);
        Some(Addresses { used: chosen(&tried).unwrap_or(first), tried })
    }

    /// Returns the addresses that accept connections, the one that is measured first, or that one
    /// alone if none was tried.
    pub fn connecting(&self) -> Vec<SocketAddr> {
        let accepts = |it: &&Tried| it.attempt == Attempt::Connected && it.address != self.used;
        let others = self.tried.iter().filter(accepts).map(|it| it.address);
        std::iter::once(self.used).chain(others).collect()
    }

    /// Describes the outcome of all attempts.
    pub fn described(&self) -> String {
        let each: Vec<String> = self.tried.iter().map(words).collect();
        format!("{}; {} is measured", each.join(", "), self.used)
    }

    /// Describes the addresses that accept no connection where another does, and what this costs
    /// clients; `None` if there are none.
    pub fn words(&self) -> Option<String> {
        let is_first = |it: &Tried| it.address != self.used;
        let before: Vec<&Tried> = self.tried.iter().take_while(|it| is_first(it)).collect();
        let fails = |it: &&Tried| it.attempt != Attempt::Connected;
        let failing: Vec<String> = self.tried.iter().filter(fails).map(words).collect();
        if failing.is_empty() || failing.len() == self.tried.len() {
            return None;
        }
        let waits = before.iter().any(|it| it.attempt == Attempt::Silent);
        let lost_ns: u64 = before.iter().filter(|it| fails(it)).map(|it| it.after_ns).sum();
        let delay = duration(ATTEMPT_DELAY_NS);
        let lost = match (waits, before.iter().any(fails)) {
            (true, _) => format!(
                "clients that try addresses at the same time (RFC 8305) lose {delay} for it on each new \
                 connection, others their connect timeout ({SYN_LIMIT} by default on Linux)"
            ),
            (false, true) => format!(
                "clients that go on to the next address lose {}, those that try only the first one \
                 fail",
                duration(lost_ns)
            ),
            (false, false) => "clients reach it only after one that accepts connections".to_owned(),
        };
        Some(format!("{}, while {} accepts connections: {lost}", failing.join(", "), self.used))
    }

    /// Returns whether an address that others can have fails: on loopback a host's own names have
    /// two, of which a service often uses one, and an address that this host cannot reach may be
    /// in order for others.
    pub fn has_fault(&self) -> bool {
        let is_fault = |it: &Tried| match it.attempt {
            Attempt::Silent => true,
            Attempt::Refused => !it.address.ip().is_loopback(),
            Attempt::Connected | Attempt::Unreachable => false,
        };
        self.words().is_some() && self.tried.iter().any(is_fault)
    }
}

fn words(it: &Tried) -> String {
    let after = duration(it.after_ns);
    match it.attempt {
        Attempt::Connected => format!("{} connects in {after}", it.address),
        Attempt::Refused => format!("{} refuses connections", it.address),
        Attempt::Silent => format!("{} does not answer within {after}", it.address),
        Attempt::Unreachable => format!("{} cannot be reached from this host", it.address),
    }
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

    fn of(tried: &[(&str, Attempt, u64)]) -> Addresses {
        let tried = tried.iter().map(|&(address, attempt, after_ms)| Tried {
            address: address.parse().unwrap(),
            attempt,
            after_ns: after_ms * 1_000_000,
        });
        let tried: Vec<Tried> = tried.collect();
        Addresses { used: chosen(&tried).unwrap_or(tried[0].address), tried }
    }

    #[test]
    fn a_first_address_that_fails_is_a_fault_with_what_it_costs() {
        use Attempt::{Connected, Refused, Silent};
        let good = ("10.0.0.2:1", Connected, 5);
        for (tried, cost, is_fault) in [
            (("[2001:db8::1]:1", Silent, 3_300), "lose 250 ms for it", true),
            (("[2001:db8::1]:1", Refused, 30), "lose 30 ms, those that try only", true),
            (("[::1]:1", Refused, 1), "those that try only the first one fail", false),
        ] {
            let addresses = of(&[tried, good]);
            assert_eq!(addresses.used.to_string(), "10.0.0.2:1");
            let words = addresses.words().expect("words");
            assert!(words.contains(cost), "{words}");
            assert_eq!(addresses.has_fault(), is_fault, "{words}");
        }
        let last = of(&[good, ("10.0.0.3:1", Silent, 3_300)]);
        assert!(last.has_fault() && last.words().is_some_and(|it| it.contains("only after one")));
    }

    #[test]
    fn addresses_that_all_connect_or_all_fail_need_no_words() {
        let connected = ("10.0.0.2:1", Attempt::Connected, 5);
        for attempt in [Attempt::Connected, Attempt::Refused] {
            let first = ("10.0.0.1:1", attempt, 5);
            let both = of(&[first, (connected.0, attempt, 5)]);
            assert!(both.words().is_none() && !both.has_fault());
        }
    }
}
