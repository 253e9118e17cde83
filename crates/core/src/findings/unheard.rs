//! Requests that were sent again and again and never acknowledged. One connection shows only that
//! packets are lost. Other connections of the same hosts show why: a new one that works, after the
//! connection was idle, shows that a device on the path has forgotten it; if all of a server's
//! connections fall silent at the same moment, the server or its route is gone.

use crate::capture::FrameId;
use crate::findings::tally::moves::move_cause;
use crate::findings::tally::{CauseTally, First, Key, Tally};
use crate::findings::thresholds::SILENT_FLOWS_MIN;
use crate::judge::thresholds::APPLICATION_TIMEOUT_MIN_NS;
use crate::model::{Cause, Fact, Owner, Sighting};
use crate::tcp::{Connection, Exchange};
use crate::wire::{Endpoint, Side};
use std::collections::BTreeMap;

/// Number of such requests kept. These are the earliest; the others remain with their cause.
pub(super) const KEPT_MAX: usize = 1 << 10;
/// Number of those of a shard, which has a sixteenth of all connections, and of an interval of a
/// watch.
pub(super) const SHARD_KEPT_MAX: usize = KEPT_MAX / 16;

/// A request that was never acknowledged.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct Unheard {
    /// Key under which the request is counted.
    pub key: Key,
    /// Address of the client.
    pub client: [u8; 16],
    /// Server to which the request was sent.
    pub server: Endpoint,
    /// First transmission of the request.
    pub sent: Sighting,
    /// Frame of its last transmission.
    pub last: FrameId,
    /// Time of its last transmission, or at which the client closed, ns.
    pub until_ns: u64,
    /// Round trip between the two, ns.
    pub rtt_ns: u64,
    /// Digest of the kind of request.
    pub kind: u64,
    /// Wall time of the exchange, until `until_ns`, ns.
    pub wall_ns: u64,
}

impl Unheard {
    fn rank(&self) -> (u64, FrameId) {
        (self.sent.time_ns, self.sent.frame)
    }

    /// Returns whether `first` is on a new connection of the same client and server, which works
    /// while this one does not. A client that gives up may open it only then. Before the next copy
    /// the timer would wait for as long as for all copies together (RFC 6298 §5.5).
    fn is_outlived_by(&self, first: &First) -> bool {
        let waited_ns = self.until_ns.saturating_sub(self.sent.time_ns);
        let until_ns = self.until_ns + waited_ns.max(APPLICATION_TIMEOUT_MIN_NS);
        (first.client, first.server) == (self.client, self.server)
            && first.answered
            && (self.sent.time_ns..until_ns).contains(&first.start_ns)
    }
}

/// Returns the cause under which a request of `connection` that was never acknowledged is counted
/// until [`settle`] decides; `None` if a host rejected it.
pub(super) fn provisional(connection: &Connection, exchange: &Exchange) -> Option<Cause> {
    let was_idle = exchange.idle_ns >= APPLICATION_TIMEOUT_MIN_NS;
    let cause = if was_idle { Cause::IdleFlowDropped } else { Cause::NoAnswer };
    connection.cold.icmp_report().filter(|it| it.rejects(Side::Client)).is_none().then_some(cause)
}

/// Drops the latest requests beyond `room`, once they exceed it by a quarter.
pub(super) fn bound(unheard: &mut Vec<Unheard>, room: usize) {
    if unheard.len() >= room + room / 4 {
        keep_earliest(unheard, room);
    }
}

fn keep_earliest(unheard: &mut Vec<Unheard>, room: usize) {
    if unheard.len() > room {
        unheard.select_nth_unstable_by_key(room, Unheard::rank);
        unheard.truncate(room);
        unheard.shrink_to(room + room / 4);
    }
}

/// Decides what the requests that were never acknowledged show.
pub(super) fn settle(tally: &mut Tally) {
    let mut unheard = std::mem::take(&mut tally.unheard);
    keep_earliest(&mut unheard, KEPT_MAX);
    unheard.sort_unstable_by_key(Unheard::rank);
    let is_provisional = |key: &Key| {
        key.cause == Cause::IdleFlowDropped
            || key.cause == Cause::NoAnswer && key.sender == Side::Client
    };
    let mut silent: BTreeMap<[u8; 16], Vec<Key>> = BTreeMap::new();
    for key in keys_of(tally, is_provisional) {
        let of_key: Vec<_> = unheard.iter().filter(|it| it.key == key).collect();
        let works = of_key.iter().any(|it| outliving(it, &tally.firsts).is_some());
        match works {
            true if key.cause == Cause::IdleFlowDropped => {
                show_newer(tally, &key, &of_key);
                end_with_retries(tally, &key, &of_key);
            }
            true => lose(tally, &key),
            false => silent.entry(key.server.address).or_default().push(key),
        }
    }
    for (host, keys) in silent {
        settle_host(tally, host, &keys, &unheard);
    }
}

/// Attributes the requests of `key` to losses, among which their connections are counted already.
fn lose(tally: &mut Tally, key: &Key) {
    let cause = tally.causes.at(key);
    cause.connections = 0;
    // No answer came, so nothing shows how long one would have taken.
    cause.without = cause.now.clone();
    move_cause(tally, key, Cause::RetransmissionTimeout, None);
}

/// Returns the earliest first exchange on a connection that works while that of `it` does not.
fn outliving(it: &Unheard, firsts: &[First]) -> Option<First> {
    let newer = firsts.iter().filter(|first| it.is_outlived_by(first));
    newer.min_by_key(|first| (first.start_ns, first.frame)).copied()
}

/// Adds to the proof of `key` the connection that works while the one shown does not.
fn show_newer(tally: &mut Tally, key: &Key, of_key: &[&Unheard]) {
    let shown = tally.causes.get(key).and_then(|cause| cause.worst.as_ref());
    let Some((_, frame)) = shown.map(|worst| worst.rank.1.0) else { return };
    let Some(it) = of_key.iter().find(|it| it.last == frame) else { return };
    let Some(first) = outliving(it, &tally.firsts) else { return };
    let after_ns = first.start_ns.saturating_sub(it.sent.time_ns);
    if let Some(worst) = tally.causes.at(key).worst.as_mut() {
        worst.proof.add_fact("new_after_ns", Fact::Ns(after_ns));
        worst.proof.rule_out(Cause::RetransmissionTimeout, "new_works", true);
        worst.proof.rule_out(Cause::NoAnswer, "new_works", true);
    }
}

/// Ends each exchange when its client asks for the same again over a new connection: by then it had
/// given up. Its kernel still sends copies, and no FIN before them.
fn end_with_retries(tally: &mut Tally, key: &Key, of_key: &[&Unheard]) {
    let firsts = tally.take_firsts();
    let mut taken = vec![false; firsts.len()];
    for it in of_key {
        let is_retry = |first: &First| first.kind == it.kind && it.is_outlived_by(first);
        let Some(at) = (0..firsts.len()).find(|&at| !taken[at] && is_retry(&firsts[at])) else {
            continue;
        };
        taken[at] = true;
        let asked_ns = (it.wall_ns + firsts[at].start_ns).saturating_sub(it.until_ns);
        if let Some(endpoint) = tally.endpoints.get_mut(&key.server) {
            let walls_ns = (it.wall_ns, asked_ns);
            endpoint.set_wall(it.kind, walls_ns, Owner::RetransmissionTimeout);
        }
        let cause = tally.causes.at(key);
        cause.lost_ns = (cause.lost_ns + asked_ns).saturating_sub(it.wall_ns);
        cause.now.replace(it.wall_ns, asked_ns);
    }
    tally.firsts = firsts;
}

/// Decides about the requests to `host`, counted under `keys`, none of which a new connection
/// outlived.
fn settle_host(tally: &mut Tally, host: [u8; 16], keys: &[Key], unheard: &[Unheard]) {
    let flows = || unheard.iter().filter(|it| keys.contains(&it.key));
    let began_ns = flows().map(|it| it.sent.time_ns).min().unwrap_or(0);
    let rtt_ns = flows().map(|it| it.rtt_ns).max().unwrap_or(0);
    let heard_ns = tally.heard.get(&host).copied().unwrap_or(u64::MAX);
    let is_attempt = |first: &&First| {
        first.server.address == host && !first.established && first.start_ns >= heard_ns
    };
    let attempts = tally.firsts.iter().filter(is_attempt).count() as u64;
    let count = flows().count() as u64;
    let is_silent =
        count + attempts >= SILENT_FLOWS_MIN && heard_ns <= began_ns.saturating_add(rtt_ns);
    if !is_silent {
        for key in keys {
            lose(tally, key);
        }
        return;
    }
    for key in keys.iter().filter(|key| key.cause != Cause::NoAnswer) {
        move_cause(tally, key, Cause::NoAnswer, None);
    }
    let is_of = |key: &Key, cause: Cause| key.server.address == host && key.cause == cause;
    for key in keys_of(tally, |key| is_of(key, Cause::SynRetransmit)) {
        let of_server = tally.firsts.iter().filter(|first| first.server == key.server);
        let all = of_server.filter(is_attempt).count() as u64;
        if tally.causes.get(&key).is_some_and(|cause| cause.exchanges == all) {
            move_cause(tally, &key, Cause::NoAnswer, None);
        }
    }
    for key in keys_of(tally, |key| is_of(key, Cause::NoAnswer) && key.sender == Side::Client) {
        show_silence(tally.causes.at(&key), count, attempts);
    }
}

fn keys_of(tally: &Tally, is: impl Fn(&Key) -> bool) -> Vec<Key> {
    tally.causes.keys().filter(|key| is(key)).cloned().collect()
}

/// Adds the number of connections and of attempts that met a host's silence.
fn show_silence(cause: &mut CauseTally, flows: u64, attempts: u64) {
    cause.shown.add("flows", flows);
    cause.shown.add("attempts", attempts);
    if let Some(worst) = &mut cause.worst {
        worst.proof.ruled_out.clear();
        worst.proof.rule_out(Cause::RetransmissionTimeout, "all_silent", true);
        worst.proof.rule_out(Cause::IdleFlowDropped, "none_works", attempts > 0);
    }
}
