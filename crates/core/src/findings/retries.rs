//! Requests that met a connection closed for idleness and were sent again on a new one: their
//! client waited until that was answered.

use crate::capture::FrameId;
use crate::findings::tally::{First, Key, Tally};
use crate::findings::thresholds::APPLICATION_TIMEOUT_MIN_NS;
use crate::model::{Cause, Fact, Ledger, Owner, Sighting};
use crate::wire::Endpoint;

/// Number of failed requests kept, the earliest ones; the retries of others are not counted.
const KEPT_MAX: usize = 1 << 10;

/// A request that failed.
#[derive(Clone, Debug)]
pub struct InVain {
    /// Key under which it is counted.
    pub key: Key,
    /// The client's address.
    pub client: [u8; 16],
    /// The server that it was sent to.
    pub server: Endpoint,
    /// Digest of the kind of request.
    pub kind: u64,
    /// Time at which it was first sent, ns.
    pub start_ns: u64,
    /// Time until it failed, ns.
    pub wall_ns: u64,
    /// Idle time of its connection before it, ns.
    pub idle_ns: u64,
    /// The frame that ended it.
    pub end: Sighting,
}

impl InVain {
    fn rank(&self) -> (u64, FrameId) {
        (self.start_ns, self.end.frame)
    }

    fn end_ns(&self) -> u64 {
        self.start_ns + self.wall_ns
    }

    /// Until when it may have been asked again. A client that asks the same now and then comes back
    /// after such a while as it had been idle before.
    fn again_until_ns(&self) -> u64 {
        self.end_ns() + APPLICATION_TIMEOUT_MIN_NS.min(self.idle_ns / 2)
    }

    /// Returns whether `first` is the same once more.
    fn is_again(&self, first: &First) -> bool {
        let same =
            (first.client, first.server, first.kind) == (self.client, self.server, self.kind);
        same && first.answered && first.answered_ns > first.start_ns
    }
}

/// Drops those that are too many: the same ones, whatever shard they were in.
pub(super) fn bound(in_vain: &mut Vec<InVain>) {
    if in_vain.len() >= KEPT_MAX + KEPT_MAX / 4 {
        keep_earliest(in_vain);
    }
}

fn keep_earliest(in_vain: &mut Vec<InVain>) {
    if in_vain.len() > KEPT_MAX {
        in_vain.select_nth_unstable_by_key(KEPT_MAX, InVain::rank);
        in_vain.truncate(KEPT_MAX);
    }
}

/// Adds to the cost of each failed request the time until its client asked again, and the time to
/// set up a new connection.
pub(super) fn settle(tally: &mut Tally) {
    let mut in_vain = std::mem::take(&mut tally.in_vain);
    if in_vain.is_empty() {
        return;
    }
    keep_earliest(&mut in_vain);
    in_vain.sort_unstable_by_key(InVain::rank);
    let firsts = tally.take_firsts();
    let mut taken = vec![false; firsts.len()];
    for it in &in_vain {
        let from = firsts.partition_point(|first| first.start_ns < it.end_ns());
        let to = firsts.partition_point(|first| first.start_ns < it.again_until_ns());
        let next = (from..to).find(|&at| !taken[at] && it.is_again(&firsts[at]));
        if let Some(at) = next {
            taken[at] = true;
            ask_again(it, &firsts[at], tally);
        }
    }
    tally.firsts = firsts;
}

/// Handles `first`, the repetition of `it`. Its own time, without the set-up, would have been
/// needed in any case.
fn ask_again(it: &InVain, first: &First, tally: &mut Tally) {
    let pause_ns = first.start_ns - it.end_ns();
    let set_up_ns = first.rtt_base_ns.min(first.wall_ns);
    let mut ledger = Ledger::default();
    ledger.add(Owner::Client, pause_ns);
    // The sums of the exchange do not show where in it the time lies.
    let endpoint = tally.endpoints.entry(it.key.server).or_default();
    endpoint.prepend(it.kind, it.wall_ns, &ledger);
    let cause = tally.causes.at(&it.key);
    cause.lost_ns = cause.lost_ns.saturating_add(pause_ns + set_up_ns);
    cause.now.replace(it.wall_ns, it.wall_ns + pause_ns);
    cause.now.record(first.wall_ns);
    cause.without.record(first.wall_ns - set_up_ns);
    cause.covers.merge(&ledger);
    cause.covers.add(Owner::Connect, set_up_ns);
    cause.note_share(it.wall_ns + pause_ns, it.wall_ns + pause_ns);
    let ended = (it.end.time_ns, it.end.frame);
    if let Some(worst) = cause.worst.as_mut().filter(|worst| worst.rank.1.0 == ended) {
        let answered_ns = first.answered_ns.saturating_sub(it.start_ns);
        worst.proof.fact("retried_ns", Fact::Ns(answered_ns));
        worst.proof.fact("again_ns", Fact::Ns(pause_ns));
    }
    debug_assert_eq!(it.key.cause, Cause::IdleReset);
}
