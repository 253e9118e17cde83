//! What a host has in progress elsewhere: a request to another server, or a series of short ones.

use crate::findings::tally::Wait;
use crate::judge::thresholds::AT_ONCE_PART;
use crate::wire::Endpoint;

/// A request of a host to another server, or a series of short ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Work {
    pub began_ns: u64,
    /// Time at which the response began, ns.
    pub answered_ns: u64,
    pub ended_ns: u64,
    /// Time in which a request was in progress, ns.
    pub busy_ns: u64,
    /// Its answer came over most of its time.
    pub streams: bool,
    /// Number of requests.
    pub count: u64,
    pub to: Endpoint,
    /// Address of the host.
    pub client: [u8; 16],
    /// Its port there; 0 if unknown.
    pub port: u16,
}

impl Work {
    pub(super) fn of(wait: &Wait, to: Endpoint) -> Self {
        Self {
            began_ns: wait.began_ns,
            answered_ns: wait.answered_ns,
            ended_ns: wait.ended_ns.max(wait.answered_ns),
            busy_ns: wait.busy_ns,
            streams: wait.streams,
            count: wait.count.into(),
            to,
            client: wait.client,
            port: wait.client_port,
        }
    }

    /// Returns the part of its time in which a request was in progress, of `whole`.
    pub(super) fn weight(&self, whole: u64) -> u64 {
        let length_ns = u128::from((self.ended_ns - self.began_ns).max(1));
        let part = u128::from(self.busy_ns) * u128::from(whole) / length_ns;
        u64::try_from(part).unwrap_or(whole).min(whole)
    }

    /// Returns the time at which the work was over for an answer at `answered_ns`, if it was: a response
    /// that is passed on as it comes may end later.
    fn end_before(&self, answered_ns: u64) -> Option<u64> {
        [self.ended_ns, self.answered_ns].into_iter().find(|end_ns| *end_ns <= answered_ns)
    }

    /// Returns the time at which it was over for `wait`, if it lies within that.
    pub(super) fn end_within(&self, wait: &Wait) -> Option<u64> {
        let is_other = self.client != wait.client && self.began_ns >= wait.asked_ns;
        self.end_before(wait.worked_until_ns()).filter(|_| is_other)
    }

    /// Returns whether `wait` lasted until the end of its answer, although that came over most of its time: it
    /// was not passed on piece by piece.
    pub(super) fn is_gathered_for(&self, wait: &Wait) -> bool {
        self.streams && !wait.streams && self.end_within(wait) == Some(self.ended_ns)
    }

    /// Returns whether it is on the same connection and follows `before` at once.
    pub(super) fn continues(&self, before: &Self) -> bool {
        let longest_ns = (self.ended_ns - self.began_ns).max(before.ended_ns - before.began_ns);
        let pause_ns = self.began_ns.checked_sub(before.ended_ns);
        (self.to, self.port) == (before.to, before.port)
            && pause_ns.is_some_and(|ns| ns <= longest_ns / AT_ONCE_PART)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::findings::upstream_wait) const MS: u64 = 1_000_000;

    /// Returns a wait for the server, from and to these times, ms.
    pub(in crate::findings::upstream_wait) fn wait((from_ms, to_ms): (u64, u64)) -> Wait {
        Wait {
            began_ns: from_ms * MS,
            asked_ns: from_ms * MS,
            answered_ns: to_ms * MS,
            ended_ns: to_ms * MS,
            busy_ns: (to_ms - from_ms) * MS,
            count: 1,
            client: [1; 16],
            kind: 0,
            client_port: 1,
            streams: false,
            at_server: true,
            at_client: false,
        }
    }

    /// Returns work of the server's host, from and to these times, ms.
    pub(in crate::findings::upstream_wait) fn work(times_ms: (u64, u64)) -> Work {
        Work { client: [2; 16], ..Work::of(&wait(times_ms), Endpoint::default()) }
    }
}
