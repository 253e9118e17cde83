//! Attempts to connect to the servers that a report names.

use super::flow::Seg;
use super::{Answer, Case, holds, undecided};
use crate::model::Fact;
use crate::wire::{Endpoint, Segment, TcpFlags};
use std::collections::{BTreeMap, HashMap};

/// Number of attempts that are kept of all servers together.
const ATTEMPTS_MAX: usize = 1 << 16;

/// One attempt: the SYNs with one initial sequence number from one port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempt {
    /// Initial sequence number of the client.
    isn: u32,
    /// Number of SYNs.
    pub syns: u64,
    /// Capture time of the first SYN-ACK, ns.
    pub syn_ack_ns: Option<u64>,
    /// Capture time of the client's first ACK without SYN or RST, ns.
    pub ack_ns: Option<u64>,
    /// The server sent a RST before anything was established.
    pub is_refused: bool,
}

impl Attempt {
    /// Returns whether the handshake was completed.
    pub fn is_established(&self) -> bool {
        self.syn_ack_ns.is_some() && self.ack_ns.is_some() && !self.is_refused
    }
}

/// Attempts by server and client.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    servers: HashMap<Endpoint, BTreeMap<Endpoint, Vec<Attempt>>>,
    kept: usize,
    /// Attempts were left out.
    is_cut: bool,
}

impl Attempts {
    pub fn of(servers: impl Iterator<Item = Endpoint>) -> Self {
        Self { servers: servers.map(|it| (it, BTreeMap::new())).collect(), ..Self::default() }
    }

    pub fn take(&mut self, segment: &Segment) {
        let (source, destination) = (*segment.source(), *segment.destination());
        let flags = segment.flags;
        if let Some(clients) = self.servers.get_mut(&destination) {
            let attempts = clients.entry(source);
            if flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK) {
                let attempts = attempts.or_default();
                match attempts.last_mut().filter(|it| it.isn == segment.seq) {
                    Some(again) => again.syns += 1,
                    None if self.kept >= ATTEMPTS_MAX => self.is_cut = true,
                    None => {
                        self.kept += 1;
                        attempts.push(Attempt { isn: segment.seq, syns: 1, ..Attempt::default() });
                    }
                }
            } else if flags.has(TcpFlags::ACK)
                && !flags.has(TcpFlags::RST)
                && let Some(last) = attempts.or_default().last_mut()
            {
                last.ack_ns.get_or_insert(segment.time_ns);
            }
        }
        if let Some(clients) = self.servers.get_mut(&source)
            && let Some(last) = clients.get_mut(&destination).and_then(|it| it.last_mut())
        {
            if flags.has(TcpFlags::SYN | TcpFlags::ACK) {
                last.syn_ack_ns.get_or_insert(segment.time_ns);
            }
            last.is_refused |= flags.has(TcpFlags::RST) && last.ack_ns.is_none();
        }
    }

    /// Returns whether a host with `address` tried to connect to the server with this name; `None` if
    /// no attempts to it are kept.
    pub fn has_tried(&self, address: [u8; 16], server: &str) -> Option<bool> {
        let mut servers = self.servers.iter().filter(|_| !self.is_cut);
        let (_, clients) = servers.find(|(it, _)| it.to_string() == server)?;
        Some(clients.keys().any(|it| it.address == address))
    }

    /// Returns the attempts to connect to `server`; `None` if not all are kept.
    pub fn to(&self, server: Endpoint) -> Option<impl Iterator<Item = &Attempt> + Clone> {
        let clients = self.servers.get(&server).filter(|_| !self.is_cut)?;
        Some(clients.values().flatten())
    }
}

/// The answer to a SYN came that long after the last SYN before it.
pub(super) fn late_answer(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let Some((_, answer)) = case.link(&["syn_ack"]) else {
        return undecided("a frame is not named");
    };
    let is_syn = |it: &&Seg| it.has(TcpFlags::SYN) && !it.has(TcpFlags::ACK);
    let before = case.flow.segs.iter().take_while(|it| it.time_ns < answer.time_ns);
    let Some(last) = before.filter(is_syn).last() else {
        return undecided("no SYN is before it");
    };
    let ns = answer.time_ns.saturating_sub(last.time_ns);
    holds(matches!(fact, Fact::Ns(stated) if *stated == ns), format!("it took {ns} ns"))
}

/// So many attempts to the server, or SYNs of them, had no SYN-ACK.
pub(super) fn unanswered(case: &Case<'_>, name: &str, fact: &Fact) -> Answer {
    let (_, server) = case.finding.evidence_flow.unwrap_or_default();
    let is_other = case.finding.culprit.endpoint != server;
    let Some(attempts) = case.packets.attempts.to(server).filter(|_| !is_other) else {
        return undecided("the attempts to other servers count as well");
    };
    let silent = attempts.filter(|it| it.syn_ack_ns.is_none() && it.syns > 0);
    let seen: u64 = silent.map(|it| if name == "silent_syns" { it.syns } else { 1 }).sum();
    let Fact::Count(stated) = fact else { return holds(false, format!("{name} is no count")) };
    holds(*stated <= seen, format!("{seen} of them have no SYN-ACK"))
}

/// So many attempts to the server were accepted.
pub(super) fn accepted(case: &Case<'_>, name: &str, fact: &Fact) -> Answer {
    let Some(attempts) = case.attempts() else { return undecided("too many attempts to keep") };
    let seen = attempts.filter(|it| it.is_established()).count() as u64;
    let Fact::Count(stated) = fact else { return holds(false, format!("{name} is no count")) };
    holds(*stated <= seen, format!("{seen} attempts were accepted"))
}

/// The host of the finding's culprit tried to connect to the server.
pub(super) fn tried(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let Fact::Text(server) = fact else { return holds(false, "it is no server") };
    let address = case.finding.culprit.endpoint.address;
    match case.packets.attempts.has_tried(address, server) {
        Some(has) => holds(has, format!("it did not try {server}")),
        None => undecided("attempts to that server are not kept"),
    }
}
