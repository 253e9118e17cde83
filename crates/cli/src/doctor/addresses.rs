//! Chooses the address of the server: the one that a client uses which tries all of them.

use super::steps::Steps;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tcpwhy_core::model::units::duration;
use tcpwhy_probe::addresses::{ATTEMPT_DELAY_NS, Attempt, Tried, attempt_all, chosen};
use tcpwhy_probe::budget::Budget;

/// The time after which Linux gives up a connection attempt without an answer
/// (`net.ipv4.tcp_syn_retries` of 6: tcp(7)), as words.
const SYN_LIMIT: &str = "127 s";

/// The addresses of the server.
pub struct Addresses {
    /// The address that is measured.
    pub used: SocketAddr,
    /// Those that were tried, in the order in which a client tries them; none if there is only one.
    pub tried: Vec<Tried>,
}

impl Addresses {
    /// Tries all addresses of the target, if it has several.
    pub fn choose(
        all: &[SocketAddr],
        timeout: Duration,
        budget: &Budget,
        steps: &mut Steps,
    ) -> Option<Addresses> {
        let &first = all.first()?;
        if all.len() == 1 {
            return Some(Addresses { used: first, tried: Vec::new() });
        }
        let began = Instant::now();
        let tried = attempt_all(all, timeout, budget);
        let used = chosen(&tried).unwrap_or(first);
        let each: Vec<String> = tried.iter().map(words).collect();
        steps.done("addresses", began, format!("{}; {used} is measured", each.join(", ")));
        Some(Addresses { used, tried })
    }

    /// Returns the addresses that accept connections, or all that are known if none was tried.
    pub fn connecting(&self) -> Vec<SocketAddr> {
        if self.tried.is_empty() {
            return vec![self.used];
        }
        let accepts = |it: &&Tried| it.attempt == Attempt::Connected;
        self.tried.iter().filter(accepts).map(|it| it.address).collect()
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
        let lost = match (waits, before.iter().any(|it| fails(&it))) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
