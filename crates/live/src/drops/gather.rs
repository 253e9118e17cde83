//! Puts what the hook saw and what the counters show together into lines.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use tcpwhy_core::report::units::counted;

use super::Watch;
use super::counters::{self, Counting, Key, Snapshot};
use super::line::{AcceptQueue, FLOWS_MAX, FlowDrops, Increase, Line};
use super::owners::{self, Sockets};
use super::subject::{COUNTERS, Subject};
use crate::hooks::{Drop, Flow};
use crate::process::Holders;

const IPPROTO_TCP: u8 = 6;

/// What makes drops one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    netns: u64,
    subject: Subject,
    reason: Option<String>,
    function: Option<String>,
    /// The local socket, or the interface.
    socket: Option<SocketAddr>,
    interface: Option<String>,
}

/// What is known of one line.
#[derive(Debug, Default)]
struct Found {
    packets: u64,
    by_hook: bool,
    /// Something waits for one of the packets.
    wanted: bool,
    inode: Option<u32>,
    accept_queue: Option<AcceptQueue>,
    flows: Vec<FlowDrops>,
    counters: Vec<Increase>,
}

/// Counters that grew between two looks, with by how much.
pub(super) fn increases(then: &Snapshot, now: &Snapshot) -> BTreeMap<String, u64> {
    let grown = now.counters.iter().filter_map(|(name, &value)| {
        let by = value.saturating_sub(then.counters.get(name).copied().unwrap_or(0));
        (by > 0).then(|| (name.clone(), by))
    });
    grown.collect()
}

/// All lines, those that hurt first, then by number.
pub(super) fn lines(watch: &Watch, now: &BTreeMap<u64, Snapshot>, drops: &[Drop]) -> Vec<Line> {
    let mut found: BTreeMap<Place, Found> = BTreeMap::new();
    let grown: BTreeMap<u64, BTreeMap<String, u64>> = now
        .iter()
        .map(|(&inode, now)| (inode, increases(&watch.namespaces[&inode].1, now)))
        .collect();
    let sockets = sockets(watch, now, drops, &grown);
    for drop in drops {
        let none = BTreeMap::new();
        let netns = u64::from(drop.netns);
        let grown = grown.get(&netns).unwrap_or(&none);
        add_drop(drop, grown, sockets.get(&netns), &mut found);
    }
    for (&netns, grown) in &grown {
        add_sockets(netns, &watch.namespaces[&netns].1, &now[&netns], grown, &mut found);
        add_counters(netns, grown, &mut found);
    }
    if watch.watched.netns.is_none() && watch.watched.pid.is_none() {
        let by = counters::softnet().saturating_sub(watch.softnet_dropped);
        add_counter(0, "softnet:dropped", Subject::CpuBacklog, None, by, &mut found);
    }
    let holders = if found.values().any(|it| it.inode.is_some()) {
        Holders::read(watch.watched.pid.as_ref().map(std::slice::from_ref))
    } else {
        Holders::default()
    };
    let mut lines: Vec<Line> =
        found.into_iter().map(|(place, found)| line(watch, place, found, &holders)).collect();
    if watch.watched.pid.is_some() {
        lines.retain(|line| line.process.is_some());
    }
    lines.sort_by_key(|line| (line.harm, std::cmp::Reverse(line.packets)));
    lines
}

/// Sockets of the namespaces in which something may have been dropped that a process misses.
fn sockets(
    watch: &Watch,
    now: &BTreeMap<u64, Snapshot>,
    drops: &[Drop],
    grown: &BTreeMap<u64, BTreeMap<String, u64>>,
) -> HashMap<u64, Sockets> {
    let mut found = HashMap::new();
    for (&inode, snapshot) in now {
        let dropped = drops.iter().any(|drop| u64::from(drop.netns) == inode);
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
    sockets: Option<&Sockets>,
    found: &mut BTreeMap<Place, Found>,
) {
    let mut subject = Subject::of_reason(&drop.reason);
    // The packet filter's hook drops for connection tracking too.
    let tracked = drop.function.as_deref().is_some_and(|name| name.contains("conntrack"));
    if subject == Subject::Filter && (tracked || drop.function.as_deref() == Some("nf_hook_slow")) {
        subject = tracked_subject(grown).unwrap_or(subject);
    }
    let owner = drop.flow.as_ref().and_then(|flow| sockets?.of(flow));
    let place = Place {
        netns: drop.netns.into(),
        subject,
        reason: Some(drop.reason.clone()),
        function: drop.function.clone(),
        socket: owner.map(|(local, _)| local),
        interface: None,
    };
    let line = found.entry(place).or_default();
    line.by_hook = true;
    line.packets += drop.packets;
    line.inode = line.inode.or(owner.map(|(_, inode)| inode));
    line.wanted |= match drop.protocol {
        IPPROTO_TCP => drop.syns + drop.with_data > 0,
        // Multicast is announced to whoever may listen.
        _ => drop.flow.is_some_and(|flow| !is_announcement(&flow)),
    };
    if let Some(flow) = drop.flow {
        let (packets, syns, with_data) = (drop.packets, drop.syns, drop.with_data);
        line.flows.push(FlowDrops { flow, packets, syns, with_data });
    }
}

/// Why connection tracking dropped. A drop after a failed insertion is counted twice by the kernel:
/// as `insert_failed` and as `drop`. Where the table is full, as `drop` alone.
fn tracked_subject(grown: &BTreeMap<String, u64>) -> Option<Subject> {
    let by = |name: &str| grown.get(name).copied().unwrap_or(0);
    let (dropped, failed) = (by("conntrack:drop"), by("conntrack:insert_failed"));
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
    netns: u64,
    then: &Snapshot,
    now: &Snapshot,
    grown: &BTreeMap<String, u64>,
    found: &mut BTreeMap<Place, Found>,
) {
    let overflows = grown.contains_key("TcpExt:ListenOverflows");
    for (key, socket) in &now.sockets {
        let before = then.sockets.get(key).map_or(0, |socket| socket.drops);
        let by = socket.drops.saturating_sub(before);
        let subject = match key {
            Key::Listener(_) if overflows => Subject::AcceptQueue,
            Key::Listener(_) => continue,
            Key::Udp(_) => Subject::ReceiveBuffer,
        };
        if by > 0 {
            add_socket(netns, subject, socket, by, found);
        }
    }
}

fn add_socket(
    netns: u64,
    subject: Subject,
    socket: &Counting,
    by: u64,
    found: &mut BTreeMap<Place, Found>,
) {
    let is_same = |place: &Place| {
        (place.netns, place.subject, place.socket) == (netns, subject, Some(socket.local))
    };
    let place = found.keys().find(|place| is_same(place)).cloned();
    let place = place.unwrap_or(Place {
        netns,
        subject,
        reason: None,
        function: None,
        socket: Some(socket.local),
        interface: None,
    });
    let line = found.entry(place).or_default();
    // What the hook saw is part of what the socket counted.
    line.packets = line.packets.max(by);
    line.wanted = true;
    line.inode = Some(socket.inode);
    line.accept_queue = socket.queue;
    line.counters.push(Increase { name: format!("drops of socket {}", socket.local), by });
}

fn add_counters(netns: u64, grown: &BTreeMap<String, u64>, found: &mut BTreeMap<Place, Found>) {
    for (name, &by) in grown {
        if let Some((mut subject, interface)) = subject_of(name) {
            if name == "conntrack:drop" {
                subject = tracked_subject(grown).unwrap_or(subject);
            }
            add_counter(netns, name, subject, interface, by, found);
        }
    }
}

/// What a counter counts, and of which interface.
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
    found: &mut BTreeMap<Place, Found>,
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
        return;
    }
    let place = Place { netns, subject, reason: None, function: None, socket: None, interface };
    let line = found.entry(place).or_default();
    // Entries that make room for a new flow are no packets.
    line.packets = if name == "conntrack:early_drop" { 0 } else { by };
    line.wanted = true;
    line.counters.push(increase);
}

fn line(watch: &Watch, place: Place, mut found: Found, holders: &Holders) -> Line {
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
    Line {
        harm: place.subject.harm(found.wanted),
        subject: place.subject,
        cause: place.subject.cause(),
        packets: found.packets,
        by_hook: found.by_hook,
        sentence: sentence(&place, &found),
        change: place.subject.change(),
        process: found.inode.and_then(|inode| owners::process(holders, inode)),
        reason: place.reason,
        function: place.function,
        netns,
        socket: place.socket,
        accept_queue: found.accept_queue,
        interface: place.interface,
        flows: found.flows,
        flows_omitted,
        counters: found.counters,
    }
}

fn sentence(place: &Place, found: &Found) -> String {
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
