//! Scans of a network: one client that tries many hosts, of which none accepts.
//!
//! A program that needs a server knows its name, and comes back if it gets no answer. A scan tries
//! addresses for which no name was looked up, each about once, on few ports. Hosts that stay silent
//! look like a way that is interrupted, so the client must have got other answers meanwhile: a RST of
//! one of these hosts, a connection that was set up, or an answer of a name server.

use super::{FRAMES_MAX, Host, is_once, name};
use crate::capture::FrameId;
use crate::findings::causes::set_up;
use crate::findings::refusals::client;
use crate::findings::tally::{CauseTally, First, Key, Part, Tally};
use crate::findings::thresholds::SCANNED_HOSTS_MIN;
use crate::judge::thresholds::ALIKE_PART;
use crate::model::{Cause, Fact, Observation};
use crate::wire::Endpoint;
use std::collections::{BTreeMap, BTreeSet};

/// The attempts of one client to connect to hosts for which no name was looked up.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweep {
    hosts: BTreeSet<Host>,
    ports: BTreeSet<u16>,
    /// Number of pairs of a host and a port.
    places: u64,
    /// Number of attempts that the hosts refused.
    refused: u64,
    /// Number of attempts without a SYN-ACK and a RST of the host.
    silent: u64,
    /// Time from one attempt to the next, ns, if a timer sent them.
    every_ns: Option<u64>,
    /// The first attempts.
    frames: Vec<FrameId>,
}

impl Sweep {
    fn attempts(&self) -> u64 {
        self.refused + self.silent
    }

    /// Returns whether the client tried `host`.
    pub fn has(&self, host: Host) -> bool {
        self.hosts.contains(&host)
    }

    /// Returns the observation about this scan of `client`, and its number of attempts.
    pub fn observe(&self, client: &Host) -> (u64, Observation) {
        let mut facts = vec![
            ("scanner", name(client)),
            ("hosts", Fact::Count(self.hosts.len() as u64)),
            ("ports", Fact::Count(self.ports.len() as u64)),
            ("refused", Fact::Count(self.refused)),
            ("silent", Fact::Count(self.silent)),
        ];
        facts.extend(self.every_ns.map(|ns| ("every_ns", Fact::Ns(ns))));
        let frames = self.frames.clone();
        (self.attempts(), Observation { id: "network_scan", facts, frames })
    }

    /// Returns whether these attempts of `client` are a scan.
    fn is_scan(&self, client: Host, tally: &Tally) -> bool {
        // A client that finds some of its hosts on different ports knows them, as a peer does.
        let has_few_ports = 2 * self.ports.len() as u64 <= self.places;
        self.hosts.len() >= SCANNED_HOSTS_MIN
            && is_once(self.attempts(), self.places)
            && (self.silent == 0
                || has_few_ports && !self.has_peers(client, tally) && self.is_heard(client, tally))
    }

    /// Returns whether `client` has connections to the same ports of other hosts whose names it did not
    /// look up.
    fn has_peers(&self, client: Host, tally: &Tally) -> bool {
        tally.firsts.iter().any(|first| {
            first.client == client
                && first.established
                && self.ports.contains(&first.server.port)
                && !tally.answers.may_name(first.server.address)
        })
    }

    /// Returns whether `client` got answers from others while it made these attempts.
    fn is_heard(&self, client: Host, tally: &Tally) -> bool {
        let of_client = || tally.firsts.iter().filter(|first| first.client == client);
        let tried =
            of_client().filter(|first| !first.established && self.has(first.server.address));
        let times_ns = tried.map(|first| first.start_ns);
        let (from_ns, to_ns) = times_ns
            .fold((u64::MAX, 0), |(from_ns, to_ns), at_ns| (at_ns.min(from_ns), at_ns.max(to_ns)));
        let is_meanwhile = |at_ns: u64| (from_ns..=to_ns).contains(&at_ns);
        let connects = |first: &First| first.established && is_meanwhile(first.start_ns);
        self.refused > 0 || of_client().any(connects) || tally.answers.of(client).any(is_meanwhile)
    }

    /// Adds the frames of the first attempts, and the time between them if that is always the same.
    fn time(&mut self, client: Host, firsts: &[First]) {
        let of_scan = |it: &&First| it.client == client && self.has(it.server.address);
        let mut tried: Vec<_> = firsts.iter().filter(of_scan).map(First::rank).collect();
        tried.sort_unstable();
        let mut apart_ns: Vec<_> = tried.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        apart_ns.sort_unstable();
        let usual_ns = apart_ns.get(apart_ns.len() / 2).copied().unwrap_or(0);
        let is_usual = |ns: &&u64| ns.abs_diff(usual_ns) <= usual_ns / ALIKE_PART;
        let usual = apart_ns.iter().filter(is_usual).count();
        self.every_ns = (usual_ns > 0 && 2 * usual > apart_ns.len()).then_some(usual_ns);
        self.frames = tried.iter().take(FRAMES_MAX).map(|&(_, frame)| frame).collect();
    }
}

/// Returns whether no host of `key` accepted, as far as the attempts of `cause` show: either it refused
/// them itself, or sent no SYN-ACK. A router that refuses all attempts, since it has no route, shows
/// nothing about the client.
fn is_in_vain(key: &Key, cause: &CauseTally) -> bool {
    match key.cause {
        Cause::Refused => key.culprit.endpoint.address == key.server.address,
        Cause::SynRetransmit => set_up::are_all_unanswered(cause),
        _ => false,
    }
}

/// Returns the clients that scan a network, each with what it tried.
pub(super) fn find(tally: &Tally) -> BTreeMap<Host, Sweep> {
    let mut all: BTreeMap<Host, Sweep> = BTreeMap::new();
    let parts = tally.causes.iter().filter(|(key, cause)| is_in_vain(key, cause));
    let mut places: BTreeSet<(Host, Endpoint)> = BTreeSet::new();
    for (key, cause) in parts.filter(|(key, _)| !tally.answers.may_name(key.server.address)) {
        let Some(client) = client(cause) else { continue };
        let sweep = all.entry(client).or_default();
        sweep.hosts.insert(key.server.address);
        sweep.ports.insert(key.server.port);
        sweep.places += u64::from(places.insert((client, key.server)));
        match key.cause {
            Cause::Refused => sweep.refused += cause.exchanges,
            _ => sweep.silent += cause.exchanges,
        }
    }
    all.retain(|&client, sweep| sweep.is_scan(client, tally));
    all.iter_mut().for_each(|(&client, sweep)| sweep.time(client, &tally.firsts));
    all
}

/// Returns whether the attempts of a part are among those of the scans in `all`.
pub(super) fn explain((key, cause): Part<'_>, all: &BTreeMap<Host, Sweep>) -> bool {
    let Some(sweep) = client(cause).and_then(|client| all.get(&client)) else { return false };
    match key.cause {
        Cause::Refused => true,
        _ => is_in_vain(key, cause) && sweep.has(key.server.address),
    }
}
