//! Cost of a listener's queue that overflows. It is not the time until the set-up was repeated:
//! with space in the queue the connection would have waited in it, as others did, until the
//! listener accepted it.

use crate::findings::causes::syn_flood::is_flooded;
use crate::findings::tally::moves::move_cause;
use crate::findings::tally::{CauseTally, First, Key, Tally};
use crate::findings::thresholds::ACCEPTED_TOGETHER_NS;
use crate::model::{Cause, Histogram, Owner, Vantage};
use crate::wire::{Endpoint, Side};
use std::ops::Range;

/// Maximum number of answers examined for one connection.
const ANSWERS_MAX: usize = 4096;

/// Name of the fact: SYNs that came to a full queue.
pub(super) const FULL: &str = "queue_full";

/// Name of the fact: SYNs that were not answered although no connection waited in the queue.
pub(super) const EMPTY: &str = "queue_empty";

/// Name of the fact: SYNs that were not answered although later ones got into the queue.
pub(super) const OPEN: &str = "queue_open";

/// Sorts the first exchanges by server and time.
pub(super) fn by_server(firsts: &mut [First]) {
    firsts.sort_unstable_by_key(|first| (first.server, first.start_ns, first.frame));
}

/// Returns the range of the first exchanges with `server` in that order.
fn with(firsts: &[First], server: Endpoint) -> Range<usize> {
    let begin = firsts.partition_point(|first| first.server < server);
    begin..begin + firsts[begin..].partition_point(|first| first.server == server)
}

/// Number of SYNs that were answered only when repeated, by what is known about the listener's
/// queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fullness {
    /// Number of SYNs at which the queue may have been full.
    pub full: u64,
    /// Number of SYNs that came while no captured connection waited in the queue.
    pub empty: u64,
    /// Number of these that were captured at the server, where no connection is missing.
    pub empty_at_server: u64,
    /// Number of SYNs during whose wait others got into the queue.
    pub open: u64,
}

/// Counts the SYNs to `server` that were answered only when repeated. A full queue contains
/// connections that are set up and wait for their response, and the next SYN that gets into it
/// comes after one of them has left it.
pub(super) fn fullness(firsts: &[First], server: Endpoint) -> Fullness {
    let firsts = &firsts[with(firsts, server)];
    let mut counts = Fullness::default();
    for unheard in firsts.iter().filter(|first| first.is_syn_answered_late) {
        // Times are on the server's clock, moved to when the server's answer would have been seen
        // at the vantage.
        let came_ns = unheard.start_ns + unheard.rtt_server_ns;
        let waits = |other: &&First| {
            let set_up_ns = other.start_ns + other.rtt_base_ns + other.set_up_again_ns;
            other.established
                && set_up_ns <= unheard.start_ns
                && (other.answered_ns > came_ns || !other.answered)
        };
        let before = firsts.partition_point(|other| other.start_ns < unheard.start_ns);
        let waiting = firsts[before.saturating_sub(ANSWERS_MAX)..before].iter().filter(waits);
        let left_ns =
            waiting.map(|other| if other.answered { other.answered_ns } else { u64::MAX });
        let Some(left_ns) = left_ns.min() else {
            let has_all = matches!(unheard.vantage, Vantage::Server | Vantage::Local);
            counts.empty += 1;
            counts.empty_at_server += u64::from(has_all);
            continue;
        };
        let after =
            firsts[before..].iter().take(ANSWERS_MAX).filter(|other| !other.is_syn_answered_late);
        let mut got_in = after.filter(|other| {
            other.established
                && other.start_ns > unheard.start_ns
                && other.start_ns < unheard.start_ns + unheard.set_up_again_ns
                && other.start_ns + other.rtt_server_ns < left_ns
        });
        match got_in.next() {
            Some(_) => counts.open += 1,
            None => counts.full += 1,
        }
    }
    counts
}

impl Fullness {
    /// Returns whether these counts are those of a queue that overflows: a single SYN may be lost
    /// while other connections wait for their responses.
    pub(super) fn is_overflow(self) -> bool {
        self.full >= 2 && self.full > self.empty + self.open
    }
}

/// Compares the waits at overflowing queues with those that would remain if the queues had room.
pub(super) fn compare(tally: &mut Tally) {
    let overflows = |key: &&Key| key.cause == Cause::AcceptQueueOverflow;
    // Under a flood, the queue of established connections is not the full one.
    let flooded = |key: &&Key| tally.endpoints.get(&key.server).is_some_and(|it| is_flooded(it));
    let keys = tally.causes.keys().filter(overflows).filter(|key| !flooded(key));
    let keys: Vec<_> = keys.cloned().collect();
    if !keys.is_empty() {
        by_server(&mut tally.firsts);
    }
    for key in keys {
        join_ignored(tally, &key);
        let firsts = &tally.firsts[with(&tally.firsts, key.server)];
        let answers = Answers::of(firsts);
        let Some(cause) = tally.causes.get_mut(&key) else { continue };
        let (mut without, mut again_ns, mut lost_ns) = (Histogram::default(), 0, 0);
        for first in firsts.iter().filter(|first| first.set_up_again_ns > 0) {
            let lost = answers.lost_ns(first).unwrap_or(first.set_up_again_ns).min(first.wall_ns);
            again_ns += first.set_up_again_ns;
            lost_ns += lost;
            without.record(first.wall_ns - lost);
        }
        cause.lost_ns = cause.lost_ns.saturating_sub(again_ns) + lost_ns;
        if without.count() == cause.exchanges {
            cause.without = without;
        }
    }
}

/// If a listener's queue overflows, a first request that the server ignored has the same cause: the
/// client considered the connection established.
fn join_ignored(tally: &mut Tally, overflow: &Key) {
    let range = with(&tally.firsts, overflow.server);
    let firsts = &tally.firsts[range.clone()];
    let unheard = firsts.iter().filter(|first| first.ignored_ns > 0).count() as u64;
    let by_timer = |(key, cause): &(&Key, &CauseTally)| {
        key.cause == Cause::RetransmissionTimeout
            && key.sender == Side::Client
            && cause.exchanges == unheard
    };
    let waits = tally.causes.of(overflow.server).find(by_timer);
    if let Some(key) = waits.map(|(key, _)| key.clone()) {
        let both = |first: &&First| first.ignored_ns > 0 && first.set_up_again_ns > 0;
        let both = firsts.iter().filter(both).count() as u64;
        let owners = Some((Owner::RetransmissionTimeout, Owner::Connect));
        move_cause(tally, &key, Cause::AcceptQueueOverflow, owners);
        if let Some(cause) = tally.causes.get_mut(overflow) {
            cause.exchanges -= both.min(cause.exchanges);
            cause.connections -= both.min(cause.connections);
        }
        for first in &mut tally.firsts[range] {
            first.set_up_again_ns += first.ignored_ns;
        }
    }
}

/// First responses on the connections of one listener, by time.
struct Answers<'a> {
    firsts: Vec<&'a First>,
    /// For each connection, the earliest start among it and all later ones whose set-up was not
    /// repeated, ns.
    began_ns: Vec<u64>,
    /// Least round trip to the listener, ns.
    rtt_ns: u64,
}

impl<'a> Answers<'a> {
    fn of(firsts: &'a [First]) -> Self {
        let rtts_ns = firsts.iter().map(|first| first.rtt_base_ns).filter(|&rtt_ns| rtt_ns > 0);
        let rtt_ns = rtts_ns.min().unwrap_or(0);
        let mut firsts: Vec<_> = firsts.iter().filter(|first| first.answered).collect();
        firsts.sort_by_key(|first| first.end_ns());
        let mut began_ns = vec![u64::MAX; firsts.len() + 1];
        for (at, first) in firsts.iter().enumerate().rev() {
            let queued = first.set_up_again_ns == 0;
            began_ns[at] = began_ns[at + 1].min(if queued { first.start_ns } else { u64::MAX });
        }
        Self { firsts, began_ns, rtt_ns }
    }

    /// Time that `first` lost, ns: from the moment at which the listener answered a connection that
    /// began later (the queue is first-in, first-out), or at which the queue was empty, until
    /// `first` was answered. `None` if there was no such moment.
    fn lost_ns(&self, first: &First) -> Option<u64> {
        let (there_ns, end_ns) = (first.start_ns + self.rtt_ns, first.end_ns());
        let from = self.firsts.partition_point(|other| other.end_ns() < there_ns);
        let to = self.firsts.partition_point(|other| other.end_ns() < end_ns);
        let before = self.firsts.get(from..to)?.iter().enumerate().take(ANSWERS_MAX);
        let mut taken = before.filter(|(offset, other)| {
            other.start_ns >= first.start_ns || self.empties_queue(from + offset)
        });
        taken.next().filter(|_| first.answered).map(|(_, other)| end_ns - other.end_ns())
    }

    /// Returns whether no connection was left in the queue when the one at `at` was answered.
    fn empties_queue(&self, at: usize) -> bool {
        let end_ns = self.firsts[at].end_ns();
        let next =
            self.firsts.partition_point(|other| other.end_ns() <= end_ns + ACCEPTED_TOGETHER_NS);
        self.began_ns[next].saturating_add(self.rtt_ns) >= end_ns
    }
}
