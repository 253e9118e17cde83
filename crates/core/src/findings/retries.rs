//! Requests that failed on a connection closed for idleness and were sent again on a new
//! connection: their client waited until the latter was answered.

use crate::capture::FrameId;
use crate::findings::tally::{First, Key, Tally};
use crate::judge::thresholds::APPLICATION_TIMEOUT_MIN_NS;
use crate::model::{Cause, Fact, Ledger, Owner, Sighting};
use crate::wire::Endpoint;

/// Number of failed requests kept. These are the earliest; the retries of others are not counted.
const KEPT_MAX: usize = 1 << 10;

/// A request that failed.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct FailedRequest {
    /// Key under which the request is counted.
    pub key: Key,
    /// Address of the client.
    pub client: [u8; 16],
    /// Server to which the request was sent.
    pub server: Endpoint,
    /// Digest of the kind of request.
    pub kind: u64,
    /// Time at which the request was first sent, ns.
    pub start_ns: u64,
    /// Time until the request failed, ns.
    pub wall_ns: u64,
    /// Time for which the connection was idle before the request, ns.
    pub idle_ns: u64,
    /// The frame that ended the request.
    pub end: Sighting,
}

impl FailedRequest {
    fn rank(&self) -> (u64, FrameId) {
        (self.start_ns, self.end.frame)
    }

    fn end_ns(&self) -> u64 {
        self.start_ns + self.wall_ns
    }

    /// Time until which the request may have been retried, ns. A client that sends the same request
    /// occasionally comes back after about the time for which it had been idle before.
    fn retry_until_ns(&self) -> u64 {
        self.end_ns() + APPLICATION_TIMEOUT_MIN_NS.min(self.idle_ns / 2)
    }

    /// Returns whether `first` is the retry of this request.
    fn is_retry(&self, first: &First) -> bool {
        let same =
            (first.client, first.server, first.kind) == (self.client, self.server, self.kind);
        same && first.answered && first.answered_ns > first.start_ns
    }
}

/// Drops the requests beyond the maximum. They are the same ones, whatever shard they were in.
pub(super) fn bound(failed_requests: &mut Vec<FailedRequest>) {
    if failed_requests.len() >= KEPT_MAX + KEPT_MAX / 4 {
        keep_earliest(failed_requests);
    }
}

fn keep_earliest(failed_requests: &mut Vec<FailedRequest>) {
    if failed_requests.len() > KEPT_MAX {
        failed_requests.select_nth_unstable_by_key(KEPT_MAX, FailedRequest::rank);
        failed_requests.truncate(KEPT_MAX);
    }
}

/// Adds to the cost of each failed request the time until its client retried it, and the time to
/// set up a new connection.
pub(super) fn settle(tally: &mut Tally) {
    let mut failed_requests = std::mem::take(&mut tally.failed_requests);
    if failed_requests.is_empty() {
        return;
    }
    keep_earliest(&mut failed_requests);
    failed_requests.sort_unstable_by_key(FailedRequest::rank);
    let firsts = tally.take_firsts();
    let mut taken = vec![false; firsts.len()];
    for it in &failed_requests {
        let from = firsts.partition_point(|first| first.start_ns < it.end_ns());
        let to = firsts.partition_point(|first| first.start_ns < it.retry_until_ns());
        let next = (from..to).find(|&at| !taken[at] && it.is_retry(&firsts[at]));
        if let Some(at) = next {
            taken[at] = true;
            add_retry(it, &firsts[at], tally);
        }
    }
    tally.firsts = firsts;
}

/// Adds the cost of `first`, the retry of `it`. Its own time, without the set-up, would have been
/// needed in any case.
fn add_retry(it: &FailedRequest, first: &First, tally: &mut Tally) {
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
        worst.proof.add_fact("retried_ns", Fact::Ns(answered_ns));
        worst.proof.add_fact("again_ns", Fact::Ns(pause_ns));
    }
    debug_assert_eq!(it.key.cause, Cause::IdleReset);
}
