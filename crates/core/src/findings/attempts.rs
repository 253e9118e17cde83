//! Connection attempts that failed, compared with those to the same server that succeeded
//! meanwhile. A property that all SYNs without an answer have, and no answered one, shows what
//! drops them.

mod chance;
mod signs;

use crate::capture::FrameId;
use crate::findings::causes::receive_window::DROPPED;
use crate::findings::causes::set_up;
use crate::findings::tally::{CauseTally, Key, Tally};
use crate::model::{Cause, Culprit, Fact, Role, Vantage};
use crate::tcp::{Connection, Syn, SynMarks};
use crate::wire::{Endpoint, Side};
use signs::{Contrast, Sign};
use std::collections::BTreeMap;

/// Number of SYNs kept of either kind. These are the earliest; later ones are not compared.
const KEPT_MAX: usize = 1 << 12;
/// Number of those of a shard, which has a sixteenth of all connections.
const SHARD_KEPT_MAX: usize = KEPT_MAX / 16;

/// Least number of SYNs kept of an interval, however many intervals there are.
const INTERVAL_MIN: usize = 1 << 6;

/// Name of the fact: something tells the attempts apart from those that succeeded.
const TOLD: &str = "told";

/// Name of the fact: number of SYNs that were answered, and lack what all others have.
pub(super) const SPARED: &str = "spared";

/// Name of the fact: number of SYNs that the capture at their server has, and no answer to them.
pub(super) const ARRIVED: &str = "arrived";
/// Fact: the host whose port is silent has other connections, so it is up.
pub(super) const HOST_ANSWERS: &str = "host_answers";

/// Name of the fact: number of attempts whose SYN-ACK came to the client, which ignored it.
pub(super) const IGNORED_ANSWERS: &str = "ignored_answers";

/// A SYN of one attempt, with its result.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct SeenSyn {
    client: Endpoint,
    server: Endpoint,
    /// First frame of the connection.
    attempt: FrameId,
    syn: Syn,
    /// Time of the answer to the attempt or of its last SYN, ns; of an answered SYN, of the last
    /// segment of its connection.
    until_ns: u64,
    vantage: Vantage,
}

impl SeenSyn {
    fn rank(&self) -> (u64, FrameId) {
        (self.syn.time_ns, self.syn.frame)
    }
}

/// A connection attempt whose SYN had to be repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    /// Address of the client.
    pub client: [u8; 16],
    /// The server.
    pub server: Endpoint,
    /// Time of the first SYN, ns.
    pub first_ns: u64,
    /// Time of the answer, or of the last SYN, ns.
    pub until_ns: u64,
}

/// The SYNs of a capture.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Syns {
    /// SYNs that were repeated, because no answer came.
    failed: Vec<SeenSyn>,
    /// SYNs that the server answered by a SYN-ACK.
    answered: Vec<SeenSyn>,
}

impl Syns {
    /// Keeps the SYNs of `connection`.
    pub(super) fn connection(&mut self, connection: &Connection) {
        let setup = &connection.setup;
        if setup.syns == 0 || connection.view().sends_probes() {
            return;
        }
        let seen = |syn: Syn, until_ns: u64| SeenSyn {
            client: connection.client(),
            server: connection.server(),
            attempt: connection.first_frame,
            syn,
            until_ns,
            vantage: connection.path.vantage(),
        };
        match setup.answered_syn(&connection.path) {
            Some(answered) => {
                self.answered.push(seen(answered, connection.last.time_ns));
                // A SYN that a timer repeated too early was not lost.
                if setup.repeated_ns(&connection.path) > 0 && !has_other_answers(connection) {
                    let until_ns = setup.syn_ack_first_ns().unwrap_or(answered.time_ns);
                    let before = setup.syns_before_answer();
                    let before = before.filter(|syn| syn.time_ns < answered.time_ns);
                    self.failed.extend(before.map(|syn| seen(syn, until_ns)));
                }
            }
            None if setup.syns > 1 && !is_heard(connection) => {
                let until_ns = setup.syn_last_ns();
                self.failed.extend(setup.syns_before_answer().map(|syn| seen(syn, until_ns)));
            }
            None => {}
        }
        self.bound(SHARD_KEPT_MAX);
    }

    fn bound(&mut self, room: usize) {
        for kept in [&mut self.failed, &mut self.answered] {
            if kept.len() >= room + room / 4 {
                keep_earliest(kept, room);
            }
        }
    }

    /// Adds all of another shard.
    pub(super) fn merge(&mut self, other: Self) {
        self.failed.extend(other.failed);
        self.answered.extend(other.answered);
        self.bound(KEPT_MAX);
    }

    /// Keeps the earliest SYNs of one of `intervals` intervals that have to share the room for them.
    pub(super) fn keep_of_interval(&mut self, intervals: usize) {
        let room = (KEPT_MAX / intervals.max(1)).max(INTERVAL_MIN);
        for kept in [&mut self.failed, &mut self.answered] {
            keep_earliest(kept, room);
            kept.shrink_to_fit();
        }
    }

    fn sort(&mut self) {
        for kept in [&mut self.failed, &mut self.answered] {
            keep_earliest(kept, KEPT_MAX);
            kept.sort_unstable_by_key(SeenSyn::rank);
        }
    }

    /// Returns the attempts to connect to `server` whose SYNs had to be repeated.
    pub(super) fn unanswered_to(&self, server: Endpoint) -> Vec<Unanswered> {
        let mut attempts: BTreeMap<FrameId, Unanswered> = BTreeMap::new();
        for seen in self.failed.iter().filter(|it| it.server == server) {
            let SeenSyn { until_ns, syn, .. } = *seen;
            let new = Unanswered {
                client: seen.client.address,
                server,
                first_ns: syn.time_ns,
                until_ns: until_ns.max(syn.time_ns),
            };
            let attempt = attempts.entry(seen.attempt).or_insert(new);
            attempt.first_ns = attempt.first_ns.min(syn.time_ns);
        }
        attempts.into_values().collect()
    }

    /// Returns whether the capture was taken at the host with this address: connections with it
    /// show that.
    fn is_captured_at(&self, host: [u8; 16]) -> bool {
        let with_host = self.answered.iter().filter(|it| it.server.address == host);
        let mut vantages = with_host.map(|it| it.vantage).filter(|&it| it != Vantage::Unknown);
        vantages.next() == Some(Vantage::Server) && vantages.all(|it| it == Vantage::Server)
    }
}

fn keep_earliest(kept: &mut Vec<SeenSyn>, room: usize) {
    if kept.len() > room {
        kept.select_nth_unstable_by_key(room, SeenSyn::rank);
        kept.truncate(room);
        kept.shrink_to(room + room / 4);
    }
}

/// Returns whether something other than a SYN-ACK answered a SYN of `connection`.
fn has_other_answers(connection: &Connection) -> bool {
    let setup = &connection.setup;
    connection.cold.icmp_report().is_some()
        || setup.other_connection_segments() > 0
        || setup.has_rejected()
}

/// Returns whether anything answered a SYN of `connection`.
pub(super) fn is_heard(connection: &Connection) -> bool {
    let server = &connection.senders[Side::Server];
    let setup = &connection.setup;
    server.space.started()
        || setup.refused
        || setup.has_heard_answer()
        || has_other_answers(connection)
}

/// Compares the attempts to each server.
pub(super) fn settle(tally: &mut Tally) {
    let is_unexplained = |key: &&Key| {
        key.cause == Cause::SynRetransmit
            && key.culprit.role == Role::Network
            && key.culprit.endpoint == key.server
    };
    let keys: Vec<_> = tally.causes.keys().filter(is_unexplained).cloned().collect();
    if keys.is_empty() {
        return;
    }
    let mut syns = std::mem::take(&mut tally.syns);
    syns.sort();
    for key in &keys {
        if let Some((sign, contrast)) = Contrast::of(key.server, &syns).and_then(Contrast::sign) {
            show(tally, key, &sign, &contrast);
        }
    }
    tally.syns = syns;
}

/// Adds `sign`, by which the SYNs without an answer differ, to the sums of `key`.
fn show(tally: &mut Tally, key: &Key, sign: &Sign, contrast: &Contrast<'_>) {
    let cause = tally.causes.at(key);
    cause.shown.add(sign.name, contrast.failed.len() as u64);
    cause.shown.add(TOLD, 1);
    if contrast.is_apart_from_successes {
        cause.shown.add(SPARED, contrast.answered.len() as u64);
    }
    if let Some(worst) = &mut cause.worst {
        worst.proof.facts.retain(|(name, _)| *name != "side");
        if let Some((name, words)) = &sign.words {
            worst.proof.add_fact(name, Fact::Text(words.clone()));
        }
    }
    if sign.by_server {
        blame(tally, key, Culprit { role: Role::Server, endpoint: key.server });
    }
}

/// Returns whether the attempts of `cause` were told apart from those that succeeded.
pub(super) fn is_told(cause: &CauseTally) -> bool {
    cause.shown.count(TOLD) > 0
}

/// Attributes attempts to the host that shows in the capture: that of the server, which has the
/// SYNs and does not answer, or that of the client, which has the SYN-ACKs or uses its ports again
/// too early.
pub(super) fn place(tally: &mut Tally) {
    let is_dropped = |(key, cause): &(&Key, &CauseTally)| {
        let facts = cause.worst.iter().flat_map(|worst| &worst.proof.facts);
        key.cause == Cause::ReceiveWindow && facts.into_iter().any(|(name, _)| *name == DROPPED)
    };
    let dropped: Vec<_> = tally.causes.iter().filter(is_dropped).map(|it| it.0.clone()).collect();
    for key in dropped {
        blame(tally, &key, Culprit { role: Role::Server, endpoint: key.server });
    }
    let of_cause = |key: &&Key| key.cause == Cause::SynRetransmit;
    let keys: Vec<_> = tally.causes.keys().filter(of_cause).cloned().collect();
    for key in keys {
        let client = tally.causes.get(&key).and_then(|cause| cause.affected_clients.main());
        if client.is_some_and(|client| tally.lacks_answers_to(&client)) {
            set_up::forget_silence(tally.causes.at(&key));
        }
        if key.culprit.endpoint != key.server {
            continue;
        }
        let Some(cause) = tally.causes.get(&key) else { continue };
        let all = |name: &str| cause.shown.count(name) == cause.exchanges;
        if all(set_up::OLDER_CONNECTIONS) || all(IGNORED_ANSWERS) {
            if let Some(address) = client {
                let endpoint = Endpoint { address, port: 0 };
                blame(tally, &key, Culprit { role: Role::Client, endpoint });
            }
            continue;
        }
        if set_up::are_all_silent(cause) && tally.hosts.know(key.server.address) {
            tally.causes.at(&key).shown.add(HOST_ANSWERS, 1);
        }
        let arrived = arrived(tally, &key);
        if arrived > 0 {
            let cause = tally.causes.at(&key);
            cause.shown.add(ARRIVED, arrived);
            if let Some(worst) = &mut cause.worst {
                worst.proof.facts.retain(|(name, _)| *name != "side");
                worst.proof.ruled_out.retain(|it| it.why != "sent_again");
            }
            blame(tally, &key, Culprit { role: Role::Server, endpoint: key.server });
        }
    }
}

/// Returns the number of SYNs that came to the host of the server and have no answer, if these are
/// all that the attempts of `key` waited for.
fn arrived(tally: &Tally, key: &Key) -> u64 {
    let failed = || tally.syns.failed.iter().filter(|it| it.server == key.server);
    let attempts: std::collections::BTreeSet<_> = failed().map(|it| it.attempt).collect();
    let exchanges = tally.causes.get(key).map_or(0, |cause| cause.exchanges);
    let answered = tally.syns.answered.iter().filter(|it| it.server == key.server);
    let mut all = failed().chain(answered);
    let was_received = all.all(|it| it.syn.marks.has(SynMarks::RECEIVED));
    let is_here = was_received || tally.syns.is_captured_at(key.server.address);
    if is_here && attempts.len() as u64 == exchanges { failed().count() as u64 } else { 0 }
}

/// Moves the sums of `key` to another culprit.
pub(super) fn blame(tally: &mut Tally, key: &Key, culprit: Culprit) {
    if key.culprit == culprit {
        return;
    }
    let Some(moved) = tally.causes.remove(key) else { return };
    tally.causes.at(&Key { culprit, ..key.clone() }).merge(&moved);
}
