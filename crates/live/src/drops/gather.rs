//! Merges the records of the hook and the counters into lines.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use tcpwhy_core::model::units::counted;

use super::Watch;
use super::counters::{self, Key, Snapshot};
use super::line::{AcceptQueue, FLOWS_MAX, FlowDrops, Increase, Line};
use super::owners::{self, Owner, Sockets};
use super::subject::{COUNTERS, Harm, Subject};
use crate::hooks::{Drop, Flow};
use crate::process::{Holders, Process};

const IPPROTO_TCP: u8 = 6;

/// Key by which drops are grouped into one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DropKey {
    netns: u64,
    subject: Subject,
    reason: Option<String>,
    function: Option<String>,
    socket: Option<SocketAddr>,
    /// The process that holds the socket, where hooks saw the packets.
    pid: Option<u32>,
    interface: Option<String>,
}

impl DropKey {
    fn new(netns: u64, subject: Subject) -> Self {
        Self {
            netns,
            subject,
            reason: None,
            function: None,
            socket: None,
            pid: None,
            interface: None,
        }
    }
}

/// Data gathered for one line.
#[derive(Debug, Default)]
struct Found {
    packets: u64,
    by_hook: bool,
    /// `true` if a socket waits for one of the packets.
    wanted: bool,
    /// `true` if one of the packets was not merely a multicast or broadcast announcement.
    is_addressed: bool,
    process: Option<Process>,
    /// The interface that a counter names.
    interface: Option<String>,
    accept_queue: Option<AcceptQueue>,
    flows: Vec<FlowDrops>,
    counters: Vec<Increase>,
}

/// Counters that grew between two looks, with by how much.
pub(super) fn increases(then: &Snapshot, now: &Snapshot) -> BTreeMap<String, u64> {
    let grown = now.counters.iter().filter_map(|(name, value)| {
        let by = value.saturating_sub(then.counters.of(name));
        (by > 0).then(|| (name.to_owned(), by))
    });
    grown.collect()
}

/// Returns all lines, the most harmful first, then by number of packets.
pub(super) fn lines(watch: &Watch, now: &BTreeMap<u64, Snapshot>, drops: &[Drop]) -> Vec<Line> {
    let mut found: BTreeMap<DropKey, Found> = BTreeMap::new();
    let grown: BTreeMap<u64, BTreeMap<String, u64>> = now
        .iter()
        .map(|(&inode, now)| (inode, increases(&watch.namespaces[&inode].1, now)))
        .collect();
    let sockets = sockets(watch, now, drops, &grown);
    let holders = if sockets.is_empty() {
        Holders::default()
    } else {
        Holders::read(watch.pid.as_ref().map(std::slice::from_ref))
    };
    let none = BTreeMap::new();
    for drop in drops {
        let netns = u64::from(drop.netns);
        let grown = grown.get(&netns).unwrap_or(&none);
        let owner = drop.flow.as_ref().and_then(|flow| sockets.get(&netns)?.of(flow));
        let is_from_here = drop.flow.is_some_and(|flow| {
            now.get(&netns).is_some_and(|now| now.addresses.contains(&flow.source.ip()))
        });
        let process = owner.and_then(|owner| owners::process(&holders, owner.inode));
        add_drop(drop, grown, owner, process, is_from_here, &mut found);
    }
    for (&netns, grown) in &grown {
        add_sockets(
            (&watch.namespaces[&netns].1, &now[&netns]),
            netns,
            grown,
            &holders,
            &mut found,
        );
        add_counters(netns, grown, &mut found);
    }
    if watch.is_all {
        let by = counters::softnet().saturating_sub(watch.softnet_dropped);
        add_counter(0, "softnet.dropped", Subject::CpuBacklog, None, by, &mut found);
    }
    let mut lines: Vec<Line> =
        found.into_iter().map(|(place, found)| line(watch, place, found)).collect();
    if watch.pid.is_some() {
        lines.retain(|line| line.process.is_some());
    }
    lines.sort_by_key(|line| (line.harm, std::cmp::Reverse(line.packets)));
    lines
}

/// Lists the sockets of the namespaces in which packets for a process may have been dropped.
fn sockets(
    watch: &Watch,
    now: &BTreeMap<u64, Snapshot>,
    drops: &[Drop],
    grown: &BTreeMap<u64, BTreeMap<String, u64>>,
) -> HashMap<u64, Sockets> {
    let mut found = HashMap::new();
    for (&inode, snapshot) in now {
        let dropped = drops.iter().any(|drop| {
            let harm = Subject::of_reason(&drop.reason).harm(true);
            u64::from(drop.netns) == inode && harm != Harm::Harmless
        });
        if dropped || grown[&inode].keys().any(|name| subject_of(name).is_some()) {
            let udp = snapshot.sockets.iter().filter(|(key, _)| matches!(key, Key::Udp(_)));
            let udp = udp.map(|(_, socket)| (socket.local, socket.inode)).collect();
            if let Ok(sockets) = watch.namespaces[&inode].0.inside(|| Sockets::read(udp)) {
                found.insert(inode, sockets);
            }
        }
    }
    found
}

fn add_drop(
    drop: &Drop,
    grown: &BTreeMap<String, u64>,
    owner: Option<Owner>,
    process: Option<&Process>,
    is_from_here: bool,
    found: &mut BTreeMap<DropKey, Found>,
) {
    let mut subject = Subject::of(&drop.reason, drop.function.as_deref());
    // The packet filter's hook drops for connection tracking too.
    let tracked = drop.function.as_deref().is_some_and(|name| name.contains("conntrack"));
    if subject == Subject::Filter && (tracked || drop.function.as_deref() == Some("nf_hook_slow")) {
        subject = tracked_subject(grown).unwrap_or(subject);
    }
    let place = DropKey {
        reason: Some(drop.reason.clone()),
        function: drop.function.clone(),
        socket: owner.and_then(|owner| owner.service),
        pid: process.map(|process| process.pid),
        ..DropKey::new(drop.netns.into(), subject)
    };
    let line = found.entry(place).or_default();
    line.by_hook = true;
    line.packets += drop.packets;
    line.process = process.cloned();
    // SYNs and datagrams from outside for which there is no socket (scans) arrive at every host; no
    // application here waits for them.
    line.is_addressed |= drop.flow.is_none_or(|flow| !is_announcement(&flow));
    let is_ours = owner.is_some() || is_from_here;
    line.wanted |= match drop.protocol {
        IPPROTO_TCP => drop.with_data > 0 || (drop.syns > 0 && is_ours),
        _ => is_ours && drop.flow.is_some_and(|flow| !is_announcement(&flow)),
    };
    if let Some(flow) = drop.flow {
        let (packets, syns, with_data) = (drop.packets, drop.syns, drop.with_data);
        line.flows.push(FlowDrops { flow, packets, syns, with_data });
    }
}

/// Returns the reason for which connection tracking dropped. The kernel counts a drop after a
/// failed insertion twice, as `insert_failed` and as `drop`; with a full table only as `drop`.
fn tracked_subject(grown: &BTreeMap<String, u64>) -> Option<Subject> {
    let by = |name: &str| grown.get(name).copied().unwrap_or(0);
    let (dropped, failed) = (by("nf_conntrack.drop"), by("nf_conntrack.insert_failed"));
    if dropped > failed {
        Some(Subject::ConntrackFull)
    } else if failed > 0 {
        Some(Subject::ConntrackInsert)
    } else {
        None
    }
}

fn is_announcement(flow: &Flow) -> bool {
    let ip = flow.destination.ip();
    ip.is_multicast() || ip == std::net::IpAddr::V4(std::net::Ipv4Addr::BROADCAST)
}

/// Listeners and UDP sockets that dropped by their own count.
fn add_sockets(
    (then, now): (&Snapshot, &Snapshot),
    netns: u64,
    grown: &BTreeMap<String, u64>,
    holders: &Holders,
    found: &mut BTreeMap<DropKey, Found>,
) {
    let overflows = grown.contains_key("TcpExt.ListenOverflows");
    for (key, socket) in &now.sockets {
        let before = then.sockets.get(key).map_or(0, |socket| socket.drops);
        let by = socket.drops.saturating_sub(before);
        let subject = match key {
            Key::Listener(_) if overflows => Subject::AcceptQueue,
            Key::Listener(_) => continue,
            Key::Udp(_) => Subject::ReceiveBuffer,
        };
        if by > 0 {
            let line = line_of_socket(netns, subject, socket.local, found);
            // The socket's counter includes the packets that the hook recorded.
            line.packets = line.packets.max(by);
            line.wanted = true;
            line.process = owners::process(holders, socket.inode).cloned();
            line.accept_queue = socket.queue;
            line.counters.push(Increase { name: "socket.sk_drops".into(), by });
        }
    }
}

/// Returns the line of a socket that the hook has already made, or a new one.
fn line_of_socket(
    netns: u64,
    subject: Subject,
    local: SocketAddr,
    found: &mut BTreeMap<DropKey, Found>,
) -> &mut Found {
    let wanted = (netns, subject, Some(local));
    let place = found.keys().find(|it| (it.netns, it.subject, it.socket) == wanted).cloned();
    let fresh = DropKey { socket: Some(local), ..DropKey::new(netns, subject) };
    found.entry(place.unwrap_or(fresh)).or_default()
}

fn add_counters(netns: u64, grown: &BTreeMap<String, u64>, found: &mut BTreeMap<DropKey, Found>) {
    for (name, &by) in grown {
        if let Some((mut subject, interface)) = subject_of(name) {
            if name == "nf_conntrack.drop" {
                subject = tracked_subject(grown).unwrap_or(subject);
            }
            add_counter(netns, name, subject, interface, by, found);
        }
    }
}

/// Returns the subject that a counter counts, and the interface if it is of one.
fn subject_of(name: &str) -> Option<(Subject, Option<String>)> {
    let mut words = name.split(' ');
    match (words.next(), words.next()) {
        (Some("dev"), Some(interface)) => Some((Subject::Interface, Some(interface.to_owned()))),
        (Some("qdisc"), Some(interface)) => Some((Subject::Qdisc, Some(interface.to_owned()))),
        _ => COUNTERS.iter().find(|(known, _)| *known == name).map(|(_, subject)| (*subject, None)),
    }
}

/// Adds a counter to the lines that the hook or sockets made of the same kind, or as a line.
fn add_counter(
    netns: u64,
    name: &str,
    subject: Subject,
    interface: Option<String>,
    by: u64,
    found: &mut BTreeMap<DropKey, Found>,
) {
    if by == 0 {
        return;
    }
    let increase = Increase { name: name.to_owned(), by };
    let same = found.iter_mut().filter(|(place, _)| {
        let here = place.netns == netns || netns == 0;
        here && place.subject == subject
            && (place.interface == interface || place.interface.is_none())
    });
    if let Some((_, line)) = same.max_by_key(|(_, line)| line.packets) {
        line.counters.push(increase);
        line.interface = line.interface.take().or(interface);
        return;
    }
    let place = DropKey { interface, ..DropKey::new(netns, subject) };
    let line = found.entry(place).or_default();
    // Entries evicted for a new flow are not packets.
    line.packets = if name == "nf_conntrack.early_drop" { 0 } else { by };
    line.wanted = subject.is_waited_for();
    line.counters.push(increase);
}

fn line(watch: &Watch, place: DropKey, mut found: Found) -> Line {
    found.flows.sort_by_key(|flow| (std::cmp::Reverse(flow.packets), flow.flow));
    let flows_omitted = found.flows.len().saturating_sub(FLOWS_MAX) as u64;
    found.flows.truncate(FLOWS_MAX);
    let own = |netns: u64| {
        netns == 0 || watch.namespaces.get(&netns).is_some_and(|(it, _)| it.name.is_none())
    };
    let netns = match watch.namespaces.get(&place.netns) {
        Some((netns, _)) => netns.name.clone(),
        None if own(place.netns) => None,
        None => Some(format!("net:[{}]", place.netns)),
    };
    let harm = if found.by_hook && !found.is_addressed {
        Harm::Harmless
    } else {
        place.subject.harm(found.wanted)
    };
    Line {
        harm,
        subject: place.subject,
        cause: place.subject.cause(),
        packets: found.packets,
        by_hook: found.by_hook,
        sentence: sentence(&place, &found),
        change: if harm == Harm::Harmless { "" } else { place.subject.change() },
        process: found.process,
        reason: place.reason,
        function: place.function,
        netns,
        socket: place.socket,
        accept_queue: found.accept_queue,
        interface: place.interface.or(found.interface),
        flows: found.flows,
        flows_omitted,
        counters: found.counters,
    }
}

fn sentence(place: &DropKey, found: &Found) -> String {
    let packets = match place.subject {
        Subject::AcceptQueue => counted(found.packets, "connection attempt", "connection attempts"),
        Subject::SynCookies => counted(found.packets, "SYN", "SYNs"),
        _ => counted(found.packets, "packet", "packets"),
    };
    let mut text = match place.subject {
        Subject::ConntrackFull if found.packets == 0 => {
            let removed = found.counters.iter().map(|counter| counter.by).sum();
            let entries = counted(removed, "entry was", "entries were");
            format!("{entries} removed to make room: {}", place.subject.why())
        }
        Subject::SynCookies => format!("{packets} met a full queue: {}", place.subject.why()),
        _ => format!("{packets} dropped: {}", place.subject.why()),
    };
    if let Some(AcceptQueue { waiting, backlog }) = found.accept_queue {
        text += &format!(" ({waiting} wait, the backlog is {backlog})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(counters: &[(&str, u64)]) -> BTreeMap<String, u64> {
        counters.iter().map(|&(name, by)| (name.to_owned(), by)).collect()
    }

    #[test]
    fn a_full_table_is_distinguished_from_a_failed_insertion() {
        let full = grown(&[("nf_conntrack.drop", 24)]);
        assert_eq!(tracked_subject(&full), Some(Subject::ConntrackFull));
        let failed = grown(&[("nf_conntrack.drop", 3), ("nf_conntrack.insert_failed", 3)]);
        assert_eq!(tracked_subject(&failed), Some(Subject::ConntrackInsert));
        assert_eq!(tracked_subject(&grown(&[("nf_conntrack.invalid", 3)])), None);
    }

    #[test]
    fn counters_alone_make_a_line_of_their_own() {
        let mut found = BTreeMap::new();
        let counters = [
            ("dev eth0 rx_dropped", 5),
            ("qdisc eth0 fq drops", 7),
            ("nf_conntrack.early_drop", 2),
        ];
        add_counters(1, &grown(&counters), &mut found);
        let lines: Vec<_> = found
            .iter()
            .map(|(place, line)| (place.subject, place.interface.as_deref(), line.packets))
            .collect();
        let wanted = [
            (Subject::ConntrackFull, None, 0),
            (Subject::Qdisc, Some("eth0"), 7),
            (Subject::Interface, Some("eth0"), 5),
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn what_connection_tracking_drops_is_not_a_rule_of_the_filter() {
        let mut found = BTreeMap::new();
        let drop = Drop {
            reason: "NETFILTER_DROP".into(),
            function: Some("nf_hook_slow".into()),
            flow: None,
            protocol: IPPROTO_TCP,
            ethertype: 0x0800,
            netns: 1,
            packets: 24,
            bytes: 1_440,
            syns: 24,
            with_data: 0,
            first_ns: 1,
            last_ns: 2,
        };
        let counters = grown(&[("nf_conntrack.drop", 24)]);
        add_drop(&drop, &counters, None, None, false, &mut found);
        add_counters(1, &counters, &mut found);
        let (place, line) = found.first_key_value().expect("a line");
        assert_eq!((found.len(), place.subject), (1, Subject::ConntrackFull));
        assert_eq!((line.packets, line.wanted, line.counters.len()), (24, false, 1));
    }
}
