//! Local ports: each connection to one destination needs its own (tcp(7), ip(7)).

use std::collections::BTreeMap;

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::count;

use super::Check;
use crate::entry::{Entry, Layer, Rank};
use crate::facts::{Facts, reported, state};
use crate::sockets::{Destination, program};
use crate::sysctl::Sysctls;
use tcpwhy_live::diag::TcpState;

pub const CHECKS: &[Check] = &[
    Check { id: "ip_local_port_range", layer: Layer::Socket, judge: range },
    Check { id: "time_wait", layer: Layer::Socket, judge: time_wait },
    Check { id: "orphans", layer: Layer::Socket, judge: orphans },
];

const RANGE: &str = "net.ipv4.ip_local_port_range";
/// The range that is proposed.
const WIDE: (u64, u64) = (1_024, 65_535);

/// The local ports that connections may use.
struct Ports {
    first: u64,
    last: u64,
    reserved: Vec<(u64, u64)>,
}

impl Ports {
    fn of(sysctls: &Sysctls) -> Option<Self> {
        let [first, last] = sysctls.numbers(RANGE)[..] else { return None };
        let reserved = sysctls.text("net.ipv4.ip_local_reserved_ports").unwrap_or_default();
        let reserved = reserved.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
        });
        Some(Self { first, last, reserved: reserved.collect() })
    }

    fn has(&self, port: u16) -> bool {
        let port = u64::from(port);
        (self.first..=self.last).contains(&port)
            && !self.reserved.iter().any(|&(first, last)| (first..=last).contains(&port))
    }

    fn number(&self) -> u64 {
        let reserved = self
            .reserved
            .iter()
            .map(|&(first, last)| (last.min(self.last) + 1).saturating_sub(first.max(self.first)));
        (self.last + 1).saturating_sub(self.first).saturating_sub(reserved.sum())
    }
}

/// Use of the ports towards one destination.
struct Taken {
    /// Number of ports in use by open connections.
    open: u64,
    /// Number of ports in use by connections that this side has closed and the peer has not.
    closing: u64,
    /// Number of ports in use by connections in TIME-WAIT that a new one may not replace.
    waiting: u64,
}

fn taken(destination: &Destination, ports: &Ports, sysctls: &Sysctls) -> Taken {
    let reuse = match sysctls.number("net.ipv4.tcp_tw_reuse") {
        Some(1) => true,
        Some(2) => destination.local.is_loopback() && destination.peer.ip().is_loopback(),
        _ => false,
    };
    let has_stamps = sysctls.number("net.ipv4.tcp_timestamps").unwrap_or(1) > 0;
    let after_ms = sysctls.number("net.ipv4.tcp_tw_reuse_delay").unwrap_or(1_000);
    let count = |all: &[u16]| all.iter().filter(|&&port| ports.has(port)).count() as u64;
    let waiting = destination
        .time_wait
        .iter()
        .filter(|&&(port, age_ms)| ports.has(port) && !(reuse && has_stamps && age_ms >= after_ms));
    Taken {
        open: count(&destination.ports),
        closing: count(&destination.closing),
        waiting: waiting.count() as u64,
    }
}

fn range(check: &Check, facts: &Facts) -> Vec<Entry> {
    let Some(ports) = Ports::of(&facts.sysctls) else { return Vec::new() };
    let why = "each connection to the same address and port takes a local port of its own, and \
               keeps it for 60 s after this side has closed it (TIME-WAIT); without a free one, \
               connect(2) fails with EADDRNOTAVAIL";
    let all = ports.number();
    let mut entries = Vec::new();
    let mut most = 0;
    for destination in fullest(facts, &ports) {
        let taken = taken(destination, &ports, &facts.sysctls);
        let sum = taken.open + taken.closing + taken.waiting;
        // The last ports are found by chance only: with a fiftieth left there are practically none.
        let is_full = all > 0 && sum + all / 50 >= all;
        let findings = facts
            .own_findings(&[Cause::PortExhaustion])
            .filter(|finding| finding.ip() == Some(destination.local));
        let findings = if sum * 2 >= all { reported(findings) } else { Vec::new() };
        most = most.max(sum);
        if is_full || !findings.is_empty() {
            let mut evidence = findings;
            if is_full {
                evidence.push(state(format!(
                    "{} of {} local ports are taken towards {}: {} by open connections, {} by \
                     connections that the peer has not closed (FIN-WAIT), {} in TIME-WAIT",
                    count(sum),
                    count(all),
                    destination.peer,
                    count(taken.open),
                    count(taken.closing),
                    count(taken.waiting),
                )));
            }
            entries.push(
                exhausted(check, facts, &ports, destination, &taken)
                    .explains(&[Cause::PortExhaustion], evidence),
            );
        }
    }
    if entries.is_empty() {
        let value = format!(
            "{} to {}: {} ports; the busiest destination takes {}",
            ports.first,
            ports.last,
            count(all),
            count(most)
        );
        entries.push(check.entry(RANGE, value, why));
    } else {
        entries.iter_mut().for_each(|entry| entry.why = why.to_owned());
    }
    entries
}

/// Returns each destination at the moment at which most of its ports were in use.
fn fullest<'a>(facts: &'a Facts, ports: &Ports) -> Vec<&'a Destination> {
    let sum = |it: &Destination| {
        let taken = taken(it, ports, &facts.sysctls);
        taken.open + taken.closing + taken.waiting
    };
    let mut found: BTreeMap<_, (u64, &Destination)> = BTreeMap::new();
    for it in &facts.sockets.destinations {
        let sum = sum(it);
        let place = found.entry((it.local, it.peer)).or_insert((sum, it));
        if sum > place.0 {
            *place = (sum, it);
        }
    }
    found.into_values().map(|(_, destination)| destination).collect()
}

fn exhausted(
    check: &Check,
    facts: &Facts,
    ports: &Ports,
    destination: &Destination,
    taken: &Taken,
) -> Entry {
    let what = format!("local ports from {} to {}", destination.local, destination.peer);
    let is_same = |it: &&Destination| (it.local, it.peer) == (destination.local, destination.peer);
    let mut same = facts.sockets.destinations.iter().filter(is_same);
    let by = match same.find_map(|it| it.process.as_ref()) {
        Some(process) => format!("; {} holds one of them", program(Some(process))),
        None => String::new(),
    };
    let value =
        format!("range {} to {}: {} ports{by}", ports.first, ports.last, count(ports.number()));
    let entry = check.entry(what, value, "").ranked(Rank::Limit);
    let wide = WIDE.1 - WIDE.0 + 1;
    if ports.number() * 2 <= wide {
        let value = format!("{} {}", WIDE.0, WIDE.1);
        let what = if taken.closing > taken.open.max(taken.waiting) {
            "let the peer close what this side has closed (tcp_fin_timeout ends the wait for it); \
             until then widen the range"
        } else if taken.waiting > taken.open {
            "keep connections open and use them again (most of these are closed already); until \
             then widen the range"
        } else {
            "widen the range; more addresses on either side multiply it"
        };
        let risk = "a service that starts later may find its port taken: put such ports into \
                    net.ipv4.ip_local_reserved_ports";
        return entry.change(facts.sysctls.change(RANGE, &value, what, risk));
    }
    let what = "keep connections open and use them again; until then let new connections take \
                ports in TIME-WAIT after 1 s";
    let risk = "needs TCP timestamps at both ends; safe for clients";
    entry.change(facts.sysctls.change("net.ipv4.tcp_tw_reuse", "1", what, risk))
}

fn time_wait(check: &Check, facts: &Facts) -> Vec<Entry> {
    let waiting = facts.sockets.states.get(&TcpState::TimeWait).copied().unwrap_or(0);
    let setting = |name: &str| facts.sysctls.text(name).unwrap_or("unknown").to_owned();
    let value = format!(
        "{} of at most {}; tcp_tw_reuse {}; tcp_fin_timeout {} s",
        count(waiting),
        setting("net.ipv4.tcp_max_tw_buckets"),
        setting("net.ipv4.tcp_tw_reuse"),
        setting("net.ipv4.tcp_fin_timeout"),
    );
    let why = "the side that closes first keeps the connection's ports for 60 s; it costs little \
               unless one client runs out of ports (tcp_fin_timeout does not shorten it)";
    let entry = check.entry("connections in TIME-WAIT", value, why);
    // Documentation/networking/ip-sysctl.rst, tcp_max_tw_buckets: above it they are destroyed.
    let buckets = "net.ipv4.tcp_max_tw_buckets";
    let overflow = facts.grew("TcpExt.TCPTimeWaitOverflow");
    let (Some(overflow), Some(most)) = (overflow, facts.sysctls.number(buckets)) else {
        return vec![entry];
    };
    let evidence = vec![
        overflow,
        state(
            "connections that were closed are forgotten at once: a late segment or FIN of the peer \
             is answered with a RST, and a new connection with the same ports may get old segments",
        ),
    ];
    let more = (most * 4).max(65_536).to_string();
    let what = "keep connections open and use them again; until then allow more";
    let risk = "about 250 bytes of kernel memory each";
    let change = facts.sysctls.change(buckets, &more, what, risk);
    vec![entry.explains(&[Cause::Reset], evidence).ranked(Rank::Limit).change(change)]
}

fn orphans(check: &Check, facts: &Facts) -> Vec<Entry> {
    let Some(most) = facts.sysctls.number("net.ipv4.tcp_max_orphans") else { return Vec::new() };
    let now = facts.sockstat.of("TCP.orphan");
    let value = format!("{} of at most {}", count(now), count(most));
    let why = "connections that their program has closed and that still have data to send; above \
               the limit the kernel resets them";
    let entry = check.entry("orphaned connections", value, why);
    if now * 2 < most {
        return vec![entry];
    }
    let evidence = facts.grew("TcpExt.TCPAbortOnMemory").into_iter().collect();
    let what = "find the peers that do not take what was sent; allow more until then";
    let risk = "up to 64 KiB of memory each, which cannot be swapped";
    let change =
        facts.sysctls.change("net.ipv4.tcp_max_orphans", &(most * 2).to_string(), what, risk);
    vec![entry.explains(&[Cause::Reset], evidence).ranked(Rank::Limit).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{grow, idle, loud, only};

    fn facts(open: u16, waiting: u16, age_ms: u64) -> Facts {
        let mut facts = idle();
        facts.sysctls.set(RANGE, "40000 40063");
        facts.sockets.destinations.push(Destination {
            local: "10.0.0.2".parse().unwrap(),
            peer: "10.0.0.1:80".parse().unwrap(),
            ports: (40_000..40_000 + open).collect(),
            closing: Vec::new(),
            time_wait: (40_000 + open..40_000 + open + waiting).map(|it| (it, age_ms)).collect(),
            process: None,
        });
        facts
    }

    #[test]
    fn a_range_that_is_used_up_is_named_with_its_destination() {
        let entry = only(&facts(2, 62, 5_000));
        assert_eq!(entry.explains, [Cause::PortExhaustion]);
        assert!(entry.what.contains("10.0.0.1:80"));
        let change = entry.change.unwrap();
        let command = "sysctl -w net.ipv4.ip_local_port_range='1024 65535'";
        assert_eq!(change.command.as_deref(), Some(command));
        assert_eq!(change.undo, "sysctl -w net.ipv4.ip_local_port_range='40000 40063'");
        assert_eq!(loud(&facts(2, 50, 5_000)), [], "12 are free");
    }

    #[test]
    fn ports_that_may_be_used_again_are_not_taken() {
        let mut old = facts(2, 62, 5_000);
        old.sysctls.set("net.ipv4.tcp_tw_reuse", "1");
        assert_eq!(loud(&old), []);
        let mut young = facts(2, 62, 300);
        young.sysctls.set("net.ipv4.tcp_tw_reuse", "1");
        assert_eq!(loud(&young).len(), 1, "not before a second is over");
        old.sysctls.set("net.ipv4.tcp_timestamps", "0");
        assert_eq!(loud(&old).len(), 1, "it needs timestamps");
    }

    #[test]
    fn the_moment_with_the_most_ports_counts_once() {
        let mut early = facts(2, 62, 5_000);
        early.sockets.destinations.extend(facts(2, 10, 5_000).sockets.destinations);
        assert_eq!(loud(&early).len(), 1);
        early.sockets.destinations.reverse();
        assert_eq!(loud(&early).len(), 1);
    }

    #[test]
    fn closed_connections_that_are_forgotten_at_once_are_named() {
        let mut facts = idle();
        facts.sysctls.set("net.ipv4.tcp_max_tw_buckets", "8192");
        assert_eq!(loud(&facts), []);
        grow(&mut facts, "TcpExt.TCPTimeWaitOverflow", 40);
        let entry = only(&facts);
        assert_eq!((&*entry.check, &entry.explains[..]), ("time_wait", &[Cause::Reset][..]));
        let change = entry.change.unwrap();
        assert_eq!(change.command.unwrap(), "sysctl -w net.ipv4.tcp_max_tw_buckets=65536");
        assert_eq!(change.undo, "sysctl -w net.ipv4.tcp_max_tw_buckets=8192");
    }

    #[test]
    fn reserved_ports_are_not_there_to_take() {
        let mut facts = facts(30, 0, 0);
        facts.sysctls.set("net.ipv4.ip_local_reserved_ports", "40030-40063,80");
        assert_eq!(only(&facts).explains, [Cause::PortExhaustion]);
    }
}
