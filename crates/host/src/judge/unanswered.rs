//! Peers that do not answer: neighbours whose link address is not found, SYNs and data that are sent
//! again. Read first: arp(7), RFC 826, RFC 4861 §7.2, RFC 6298 §5.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{count, counted, duration};

use super::{Check, discarded, listen};
use crate::entry::{Change, Entry, Evidence, Layer, Rank};
use crate::facts::{Facts, state};
use crate::sockets::{Attempts, Connection, program};
use tcpwhy_live::route::{Neighbour, NextHop};

pub const CHECKS: &[Check] = &[
    Check { id: "neighbour_failed", layer: Layer::Network, judge: neighbours },
    Check { id: "unanswered", layer: Layer::Transport, judge: unanswered },
];

/// Peers that are named.
const NAMED_MAX: usize = 3;
/// Connections of one client from which on it is named as one that does not answer.
const CLIENTS_MIN: usize = 3;

/// What was tried with one peer.
#[derive(Default)]
struct Tried<'a> {
    attempts: Vec<&'a Attempts>,
    connections: Vec<&'a Connection>,
}

impl Tried<'_> {
    fn is_empty(&self) -> bool {
        self.attempts.is_empty() && self.connections.is_empty()
    }

    fn causes(&self) -> Vec<Cause> {
        let connects = (!self.attempts.is_empty()).then_some(Cause::SynRetransmit);
        let sends = (!self.connections.is_empty()).then_some(Cause::RetransmissionTimeout);
        connects.into_iter().chain(sends).collect()
    }

    fn evidence(&self) -> Vec<Evidence> {
        let attempts = self.attempts.iter().map(|it| state(connecting(it)));
        let connections = self.connections.iter().map(|it| state(sending(it)));
        attempts.chain(connections).take(NAMED_MAX).collect()
    }
}

fn connecting(it: &Attempts) -> String {
    let who = match &it.process {
        Some(process) => program(Some(process)),
        None => "a program that has ended or may not be looked into".to_owned(),
    };
    let again = match it.syn_retransmits_max {
        0 => String::new(),
        times => format!(", with a SYN that was sent again {}", counted(times, "time", "times")),
    };
    let attempts = counted(it.attempts, "attempt", "attempts");
    format!("{who} tries to connect to {}: {attempts} in SYN-SENT{again}", it.peer)
}

fn sending(it: &Connection) -> String {
    format!(
        "{} gets no ACK from {}: sent again {} since the last one, {} ago",
        it.program(),
        it.peer,
        counted(it.after.tcpi_retransmits, "time", "times"),
        duration(it.after.tcpi_last_ack_recv_ms * 1_000_000),
    )
}

fn hop(facts: &Facts, peer: IpAddr) -> Option<&NextHop> {
    facts.next_hops.get(&peer.to_canonical())
}

/// Returns what was tried with peers behind an unresolved neighbour. A neighbour that is being asked
/// for may answer at once, unless an attempt waits for it.
fn behind<'a>(facts: &'a Facts, neighbour: &Neighbour) -> Tried<'a> {
    let is_behind = |peer: SocketAddr| {
        let hop = hop(facts, peer.ip());
        hop.is_some_and(|hop| (hop.address, hop.link) == (neighbour.address, neighbour.link))
    };
    let waits = |it: &&Attempts| neighbour.is_failed || it.is_unanswered();
    let attempts = facts.sockets.attempts.iter().filter(|it| is_behind(it.peer)).filter(waits);
    let connections = facts.sockets.held.iter();
    let connections = connections.filter(|it| it.is_unanswered() && is_behind(it.peer));
    Tried { attempts: attempts.collect(), connections: connections.collect() }
}

/// Returns the nameservers behind a neighbour that was not found.
fn nameservers(facts: &Facts, neighbour: &Neighbour) -> Vec<IpAddr> {
    let all = facts.resolver.nameservers.iter().copied();
    let is_behind = |it: &IpAddr| hop(facts, *it).is_some_and(|it| it.address == neighbour.address);
    all.filter(|it| neighbour.is_failed && is_behind(it)).collect()
}

fn neighbours(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "packets for a host on the same link need its link address; while nobody answers \
               for it, the kernel drops them, and after 3 questions a second apart connect(2) \
               fails with EHOSTUNREACH";
    let mut entries = Vec::new();
    for neighbour in &facts.neighbours.unresolved {
        let tried = behind(facts, neighbour);
        let nameservers = nameservers(facts, neighbour);
        if entries.len() == NAMED_MAX || tried.is_empty() && nameservers.is_empty() {
            continue;
        }
        let address = neighbour.address;
        let links = facts.links.iter();
        let link = links.filter(|it| it.index == neighbour.link).map(|it| it.name.as_str()).next();
        let link = link.unwrap_or("an interface");
        let protocol = if address.is_ipv4() { "ARP" } else { "neighbour discovery" };
        let peers = tried.attempts.iter().map(|it| it.peer);
        let mut peers = peers.chain(tried.connections.iter().map(|it| it.peer));
        let is_gateway = peers.any(|it| it.ip().to_canonical() != address)
            || nameservers.iter().any(|it| *it != address);
        let role = if is_gateway { "gateway " } else { "" };
        let value = match neighbour.is_failed {
            true => format!("FAILED: nobody on {link} answered for it"),
            false => format!("INCOMPLETE: asked for on {link} now, and not answered"),
        };
        let mut evidence = vec![state(format!("{address} at {link} is {value}"))];
        evidence.extend(tried.evidence());
        evidence.extend(nameservers.iter().map(|it| state(format!("it leads to nameserver {it}"))));
        let mut causes = tried.causes();
        causes.extend((!nameservers.is_empty()).then_some(Cause::DnsTimeout));
        let change = Change::look(format!(
            "the host is down, unplugged, in another VLAN, or has another address: `ip neigh show \
             {address}`, `arping -I {link} {address}`; else correct the address that the program \
             uses"
        ));
        let what = format!("{role}{address} on {link} does not answer {protocol}");
        let entry = check.entry(what, value, why).explains(&causes, evidence);
        entries.push(entry.ranked(Rank::Limit).change(change));
    }
    if entries.is_empty() {
        let number = count(facts.neighbours.unresolved.len() as u64);
        let value = format!("{number}, and nothing here waits for one of them");
        entries.push(check.entry("neighbours without a link address", value, why));
    }
    entries
}

fn unanswered(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "a SYN or data without an answer is sent again after 1 s, 2 s, 4 s …, until the \
               program gives up or the kernel does (tcp_syn_retries, tcp_retries2)";
    let is_without_neighbour = |peer: SocketAddr| {
        let hop = hop(facts, peer.ip());
        let mut unresolved = facts.neighbours.unresolved.iter();
        unresolved.any(|it| hop.is_some_and(|hop| hop.address == it.address))
    };
    let mut peers: BTreeMap<SocketAddr, Tried> = BTreeMap::new();
    let attempts = facts.sockets.attempts.iter().filter(|it| it.is_unanswered());
    for it in attempts.filter(|it| !is_without_neighbour(it.peer)) {
        peers.entry(it.peer).or_default().attempts.push(it);
    }
    let held = facts.sockets.held.iter().filter(|it| it.is_unanswered());
    for it in held.filter(|it| !is_without_neighbour(it.peer)) {
        // Clients have ports of their own: those of one host are one peer.
        let peer = if it.is_server { SocketAddr::new(it.peer.ip(), 0) } else { it.peer };
        peers.entry(peer).or_default().connections.push(it);
    }
    // Clients go away without a word every day: one or two of them are no fault.
    let is_named = |tried: &Tried| {
        let mut connections = tried.connections.iter();
        !tried.attempts.is_empty()
            || connections.any(|it| !it.is_server)
            || tried.connections.len() >= CLIENTS_MIN
    };
    let peers = peers.into_iter().filter(|(_, tried)| is_named(tried));
    let mut peers: Vec<_> = peers.collect();
    peers.sort_by_key(|(_, tried)| {
        let attempts: u64 = tried.attempts.iter().map(|it| it.attempts).sum();
        std::cmp::Reverse(attempts + tried.connections.len() as u64)
    });
    let named = peers.iter().take(NAMED_MAX).map(|(peer, tried)| {
        let at = match peer.port() {
            0 => peer.ip().to_string(),
            _ => peer.to_string(),
        };
        let connections = tried.connections.len() as u64;
        let attempts = tried.attempts.iter().map(|it| it.attempts).sum();
        let mut value = Vec::new();
        if attempts > 0 {
            value.push(counted(attempts, "attempt to connect", "attempts to connect"));
        }
        if connections > 0 {
            value.push(counted(connections, "open connection", "open connections"));
        }
        let mut evidence = tried.evidence();
        let (rank, reason) = reason(facts, *peer);
        evidence.extend(reason.map(state));
        let change = Change::look(format!(
            "see whether {} is up and the path lets this through: `tcpwhy {at}`; a refused \
             connection would be answered, so the host is gone, or a filter or a full queue \
             drops packets",
            peer.ip()
        ));
        let what = format!("{at} does not answer");
        let entry = check.entry(what, format!("{} without an answer", value.join(", ")), why);
        entry.explains(&tried.causes(), evidence).ranked(rank).change(change)
    });
    let mut entries: Vec<_> = named.collect();
    if entries.is_empty() {
        let trying: u64 = facts.sockets.attempts.iter().map(|it| it.attempts).sum();
        let value = format!("none; {} seen in SYN-SENT", counted(trying, "attempt", "attempts"));
        entries.push(check.entry("peers that do not answer", value, why));
    }
    entries
}

/// Returns the entry of this host that explains why a peer does not answer, in words.
fn reason(facts: &Facts, peer: SocketAddr) -> (Rank, Option<String>) {
    if let Some(full) = listen::listener(facts, peer)
        && facts.addresses.contains(&peer.ip())
        && listen::overflows(facts, full)
    {
        let words = format!("the full accept queue of {} drops SYNs: see its entry", full.local);
        return (Rank::Consequence, Some(words));
    }
    if discarded::is_filtering(facts) {
        let words = "rules of the packet filter drop packets meanwhile: see their entry";
        return (Rank::Consequence, Some(words.to_owned()));
    }
    (Rank::Limit, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{idle, loud, only};
    use tcpwhy_live::diag::{Memory, TcpState};
    use tcpwhy_live::link::Link;
    use tcpwhy_live::options::Options;
    use tcpwhy_live::process::Process;
    use tcpwhy_live::tcp_info::TcpInfo;

    const PEER: &str = "10.0.0.9:5432";

    fn attempts(attempts: u64, syn_retransmits_max: u64) -> Attempts {
        Attempts {
            peer: PEER.parse().unwrap(),
            attempts,
            syn_retransmits_max,
            has_connection: false,
            process: Some(Process {
                pid: 7,
                command: "app".into(),
                container: None,
                runtime: None,
            }),
        }
    }

    /// Returns a host that tries to connect to a peer behind `hop`, which was not found.
    fn dead(tried: Attempts, hop: &str, is_failed: bool) -> Facts {
        let mut facts = idle();
        let address: IpAddr = hop.parse().unwrap();
        facts.links.push(Link { index: 2, name: "eth0".into(), ..Link::default() });
        facts.next_hops.insert(tried.peer.ip(), NextHop { address, link: 2 });
        facts.neighbours.unresolved.push(Neighbour { address, link: 2, is_failed });
        facts.sockets.attempts.push(tried);
        facts
    }

    #[test]
    fn a_dead_host_on_the_link_is_named_with_who_tries() {
        let entry = only(&dead(attempts(1, 0), "10.0.0.9", true));
        assert_eq!(entry.check, "neighbour_failed");
        assert_eq!(entry.what, "10.0.0.9 on eth0 does not answer ARP");
        assert_eq!(entry.explains, [Cause::SynRetransmit]);
        let Evidence::State { sentence } = &entry.evidence[1] else { panic!("{entry:?}") };
        assert!(
            sentence.starts_with("app (pid 7) tries to connect to 10.0.0.9:5432"),
            "{sentence}"
        );
        let asked = only(&dead(attempts(1, 1), "10.0.0.9", false));
        assert!(asked.value.starts_with("INCOMPLETE"));
        assert_eq!(loud(&dead(attempts(1, 0), "10.0.0.9", false)), [], "it may answer yet");
        let gateway = only(&dead(attempts(1, 0), "10.0.0.1", true));
        assert_eq!(gateway.what, "gateway 10.0.0.1 on eth0 does not answer ARP");
    }

    #[test]
    fn a_neighbour_that_nobody_wants_is_silent() {
        let mut facts = dead(attempts(1, 0), "10.0.0.9", true);
        facts.sockets.attempts.clear();
        assert_eq!(loud(&facts), []);
        facts.resolver.nameservers.push("10.0.0.9".parse().unwrap());
        assert_eq!(only(&facts).explains, [Cause::DnsTimeout], "names are asked for there");
    }

    #[test]
    fn a_peer_that_does_not_answer_is_named_after_a_second_or_many_attempts() {
        let tried = |tried: Attempts| {
            let mut facts = idle();
            facts.sockets.attempts.push(tried);
            facts
        };
        assert_eq!(loud(&tried(attempts(4, 0))), [], "a round trip takes its time");
        let entry = only(&tried(attempts(1, 2)));
        assert_eq!((&*entry.check, &*entry.what), ("unanswered", "10.0.0.9:5432 does not answer"));
        assert_eq!(entry.value, "1 attempt to connect without an answer");
        assert_eq!(entry.rank, Rank::Limit);
        assert_eq!(loud(&tried(attempts(5, 0))).len(), 1);
        let some = Attempts { has_connection: true, ..attempts(50, 0) };
        assert_eq!(loud(&tried(some)), [], "others were answered");
    }
    /// Returns an open connection with `peer` whose data was sent again so often without an ACK.
    fn waiting(peer: &str, is_server: bool, tcpi_retransmits: u64) -> Connection {
        Connection {
            local: "10.0.0.2:80".parse().unwrap(),
            peer: peer.parse().unwrap(),
            is_server,
            state: TcpState::Established,
            process: Some(Process {
                pid: 7,
                command: "app".into(),
                container: None,
                runtime: None,
            }),
            before: TcpInfo::default(),
            after: TcpInfo { tcpi_retransmits, tcpi_unacked: 3, ..TcpInfo::default() },
            memory: Memory::default(),
            unread_bytes: 0,
            holds: 0,
            looks: 20,
            options: Options::default(),
            inode: 1,
            cookie: 1,
        }
    }

    #[test]
    fn data_without_an_ack_is_named_unless_a_client_just_went_away() {
        let mut facts = idle();
        facts.sockets.held.push(waiting(PEER, false, 1));
        assert_eq!(loud(&facts), [], "once is a loss");
        facts.sockets.held[0] = waiting(PEER, false, 3);
        assert_eq!(only(&facts).explains, [Cause::RetransmissionTimeout]);
        facts.sockets.held = vec![waiting("192.0.2.1:50000", true, 3)];
        assert_eq!(loud(&facts), []);
        let ports = ["192.0.2.1:50001", "192.0.2.1:50002"];
        facts.sockets.held.extend(ports.map(|peer| waiting(peer, true, 3)));
        let entry = only(&facts);
        assert_eq!(entry.what, "192.0.2.1 does not answer");
        assert_eq!(entry.value, "3 open connections without an answer");
    }
}
