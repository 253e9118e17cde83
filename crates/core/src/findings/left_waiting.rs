//! Requests whose client waited in vain for a response, until it left or the capture ended. A long
//! poll ends in this way by design, and nothing distinguishes a single one from a server that
//! hangs. It is a failure if other requests of its kind are answered far sooner, or if none is answered
//! and their clients leave again and again after as long, by a timer.

use crate::capture::FrameId;
use crate::findings::tally::{Instance, Key, Tally};
use crate::judge::thresholds::{ALIKE_PART, APPLICATION_TIMEOUT_MIN_NS, AT_ONCE_PART, HABIT_MIN};
use crate::model::{Fact, Ledger, Outcome, OutcomeKind, Owner};
use crate::wire::{Endpoint, Side};
use hashbrown::{HashMap, HashSet};
use std::hash::Hash;

/// Number of such requests kept. These are the earliest; the others remain costs.
pub(super) const KEPT_MAX: usize = 1 << 10;
/// Number of those of a shard, which has a sixteenth of all connections, and of an interval of a
/// watch.
pub(super) const SHARD_KEPT_MAX: usize = KEPT_MAX / 16;

/// Name of the number of ClientHellos that were not answered as long as their clients waited.
pub(super) const HELLOS: &str = "hellos";

/// How the wait for a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum Ended {
    /// The client left.
    Left,
    /// The capture ended.
    Open,
    /// The capture ended, and it was the answer to a ClientHello that was waited for.
    OpenHello,
    /// The server closed. The client had closed its side right behind its message, in a protocol that
    /// does not show whether a response was due.
    HalfClosed {
        /// Time from the message to the server's FIN, ns.
        waited_ns: u64,
    },
}

/// A request that was not answered as long as its client waited.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct LeftWaiting {
    /// Key under which it counts if it is a failure.
    pub key: Key,
    /// Digest of the kind of request.
    pub kind: u64,
    /// Time at which it began, ns.
    pub start_ns: u64,
    /// Its first frame.
    pub frame: FrameId,
    /// Address of its server.
    pub host: [u8; 16],
    /// It is contained in the sums of its server.
    pub is_counted: bool,
    /// How the wait ended.
    pub ended: Ended,
    /// Its wall time, as far as packets of its connection show it, ns.
    pub wall_ns: u64,
    /// Part of the wall time that the server owns, ns.
    pub server_ns: u64,
    /// Its evidence.
    pub instance: Instance,
}

impl LeftWaiting {
    fn rank(&self) -> (u64, FrameId) {
        (self.start_ns, self.frame)
    }
}

/// Drops the latest requests beyond `room`, once they exceed it by a quarter.
pub(super) fn bound(left: &mut Vec<LeftWaiting>, room: usize) {
    if left.len() >= room + room / 4 {
        keep_earliest(left, room);
    }
}

fn keep_earliest(left: &mut Vec<LeftWaiting>, room: usize) {
    if left.len() > room {
        left.select_nth_unstable_by_key(room, LeftWaiting::rank);
        left.truncate(room);
        left.shrink_to(room + room / 4);
    }
}

/// Counts the requests that failed.
pub(super) fn settle(tally: &mut Tally) {
    let mut left = std::mem::take(&mut tally.left_waiting);
    keep_earliest(&mut left, KEPT_MAX);
    left.sort_unstable_by_key(LeftWaiting::rank);
    let timers = Timers::of(tally, &left);
    for it in left {
        match it.ended {
            Ended::Left if timers.ended(&it) => settle_timed_out(tally, it),
            Ended::HalfClosed { waited_ns } => settle_half_closed(tally, it, waited_ns),
            Ended::OpenHello => settle_hello(tally, it),
            _ => settle_one(tally, it),
        }
    }
}

/// Requests that were never answered, and whose clients gave up each time after as long: by a timer.
struct Timers {
    /// Servers and kinds of requests of which none was answered.
    unanswered: HashSet<(Endpoint, u64)>,
    /// Those of them that were given up after as long.
    kinds: HashSet<(Endpoint, u64)>,
    /// Servers and clients that gave up after as long, whatever they asked for.
    clients: HashSet<(Endpoint, [u8; 16])>,
}

impl Timers {
    fn of(tally: &mut Tally, left: &[LeftWaiting]) -> Self {
        let left = || left.iter().filter(|it| it.ended == Ended::Left);
        let mut unanswered: HashSet<_> = left().map(|it| (it.key.server, it.kind)).collect();
        unanswered.retain(|&(server, kind)| {
            let endpoint = tally.endpoints.get_mut(&server);
            let group = endpoint.and_then(|endpoint| endpoint.kind_with_digest(kind));
            group.is_none_or(|group| {
                let complete = [OutcomeKind::Answered, OutcomeKind::Error];
                complete.iter().all(|&kind| group.outcomes.of(kind) == 0)
            })
        });
        let left = || left().filter(|it| unanswered.contains(&(it.key.server, it.kind)));
        let kinds = always_as_long(left().map(|it| ((it.key.server, it.kind), it.wall_ns)));
        let of_client = |it: &LeftWaiting| (it.key.server, it.instance.client.address);
        let clients = always_as_long(left().map(|it| (of_client(it), it.wall_ns)));
        Self { unanswered, kinds, clients }
    }

    /// Returns whether a timer of its client ended the request.
    fn ended(&self, it: &LeftWaiting) -> bool {
        let kind = (it.key.server, it.kind);
        let client = (it.key.server, it.instance.client.address);
        self.unanswered.contains(&kind)
            && (self.kinds.contains(&kind) || self.clients.contains(&client))
    }
}

/// Returns those that waited again and again for as long as a timer, and each time for as long.
fn always_as_long<K: Hash + Eq>(waits_ns: impl Iterator<Item = (K, u64)>) -> HashSet<K> {
    let mut ranges: HashMap<K, (u32, u64, u64)> = HashMap::new();
    for (key, ns) in waits_ns {
        let (count, least_ns, most_ns) = ranges.entry(key).or_insert((0, ns, ns));
        (*count, *least_ns, *most_ns) = (*count + 1, ns.min(*least_ns), ns.max(*most_ns));
    }
    ranges.retain(|_, (count, least_ns, most_ns)| {
        *count >= HABIT_MIN
            && *least_ns >= APPLICATION_TIMEOUT_MIN_NS
            && *most_ns - *least_ns < *most_ns / ALIKE_PART
    });
    ranges.into_keys().collect()
}

/// Counts a request that its client gave up by a timer.
fn settle_timed_out(tally: &mut Tally, mut it: LeftWaiting) {
    let waited_ns = it.wall_ns;
    it.instance.proof.add_fact("timer_ns", Fact::Ns(waited_ns));
    tally.causes.at(&it.key).shown.add("timed_out", 1);
    count(tally, it, waited_ns, Outcome::Open, "silent");
}

fn settle_one(tally: &mut Tally, mut it: LeftWaiting) {
    let Some(usual_ns) = usual_ns(tally, &it) else { return };
    let waited_ns = waited_ns(tally, &it);
    if waited_ns < APPLICATION_TIMEOUT_MIN_NS.max(AT_ONCE_PART * usual_ns) {
        return;
    }
    it.instance.proof.add_fact("usual_ns", Fact::Ns(usual_ns));
    tally.notes.count_answerless(u64::from(it.ended == Ended::Open));
    count(tally, it, waited_ns, Outcome::Open, "silent");
}

/// Counts a ClientHello that was not answered, which a server does at once. What passed before it had
/// arrived is no part of the wait.
fn settle_hello(tally: &mut Tally, mut it: LeftWaiting) {
    let waited_ns = waited_ns(tally, &it);
    let handshakes = tally.endpoints.get(&it.key.server).map(|it| &it.handshakes);
    let completed = handshakes.map_or(0, |it| it.full + it.resumed);
    if completed > 0 {
        it.instance.proof.add_fact("completed", Fact::Count(completed));
    }
    if waited_ns - it.wall_ns >= APPLICATION_TIMEOUT_MIN_NS {
        count(tally, it, waited_ns, Outcome::Open, HELLOS);
    }
}

/// Counts a message behind which its client closed its side as a failure if the server answers others
/// of this kind.
fn settle_half_closed(tally: &mut Tally, it: LeftWaiting, waited_ns: u64) {
    let Some(endpoint) = tally.endpoints.get_mut(&it.key.server) else { return };
    let answered = endpoint.half_closed;
    if answered < HABIT_MIN.into() {
        return;
    }
    let closed = Outcome::Closed { by: Side::Server };
    endpoint.clear_up(it.kind, it.is_counted.then_some(closed));
    let mut it = it;
    it.instance.proof.add_fact("half_closed", Fact::Count(answered));
    count(tally, it, waited_ns, closed, "closed");
}

/// Counts a failure, under the name `shown`, whose client waited for `waited_ns`; `outcome` is that of
/// an exchange that is not yet contained in the sums.
fn count(
    tally: &mut Tally,
    it: LeftWaiting,
    waited_ns: u64,
    outcome: Outcome,
    shown: &'static str,
) {
    let LeftWaiting { key, kind, is_counted, wall_ns, server_ns, instance, .. } = it;
    let mut more = Ledger::default();
    let known_ns = if is_counted { wall_ns } else { 0 };
    more.add(Owner::Server, waited_ns.saturating_sub(known_ns));
    if let Some(endpoint) = tally.endpoints.get_mut(&key.server) {
        match is_counted {
            true => endpoint.prepend(kind, wall_ns, &more),
            false => endpoint.add_late(kind, &more, outcome),
        }
    }
    let cause = tally.causes.at(&key);
    cause.add_one(waited_ns, waited_ns);
    cause.connections += 1;
    cause.covers.merge(&more);
    cause.covers.add(Owner::Server, if is_counted { server_ns } else { 0 });
    cause.shown.add(shown, 1);
    cause.offer(instance);
}

/// Returns for how long the client waited, ns. A client that still waited when the capture ended
/// has waited at least until its server was last heard on any connection.
fn waited_ns(tally: &Tally, it: &LeftWaiting) -> u64 {
    let heard_ns =
        tally.heard.get(&it.host).filter(|_| matches!(it.ended, Ended::Open | Ended::OpenHello));
    let alive_ns = heard_ns.map_or(0, |heard_ns| heard_ns.saturating_sub(it.start_ns));
    alive_ns.max(it.wall_ns)
}

/// Returns the longest time in which requests of the kind of `it` are answered, ns; `None` if too
/// few are, or if some take so long that they may wait for an event.
fn usual_ns(tally: &mut Tally, it: &LeftWaiting) -> Option<u64> {
    let group = tally.endpoints.get_mut(&it.key.server)?.kind_with_digest(it.kind)?;
    let [answered, errors] =
        [OutcomeKind::Answered, OutcomeKind::Error].map(|kind| group.outcomes.of(kind));
    let complete = answered + errors;
    // Those without an answer took longer than the others, or are no failures.
    let share = (complete as f64 - 0.5) / group.exchanges.max(1) as f64;
    let usual_ns = group.latency.quantile_ns(share);
    let is_known = complete >= u64::from(HABIT_MIN) && usual_ns < APPLICATION_TIMEOUT_MIN_NS;
    is_known.then_some(usual_ns)
}
