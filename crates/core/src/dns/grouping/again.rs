//! Repeated queries and abandoned look-ups: resolvers that keep an identifier, and those that do
//! not.

use super::{NewQuery, Open, is_timeout};
use crate::dns::lookup::Query;
use crate::dns::thresholds::QUERY_RETRY_MIN_NS;
use crate::judge::thresholds::ALIKE_PART;

impl Open {
    /// Returns whether `asked` repeats the unsuccessful query `last`, instead of belonging to
    /// another look-up of the same name. glibc, musl, c-ares, systemd-resolved and Windows send the
    /// same message again. Others (Go, Netty, browsers, forwarding resolvers) use a new identifier;
    /// their repetition is recognised by its time: after a whole timeout, immediately after a
    /// failure, or when their timer expires again.
    pub(super) fn asks_again(&self, asked: &NewQuery<'_>, last: &Query) -> bool {
        let waited_ns = asked.query.sent_ns.saturating_sub(last.sent_ns);
        let in_time = last.is_failure() || is_timeout(waited_ns) || self.times_out(asked);
        self.knows(asked.id) || in_time && !self.keeps_ids(asked.query.client_port)
    }

    /// Returns whether `asked` was sent by a timer: at least two earlier attempts are unanswered,
    /// and the time since the last one equals the previous wait or twice that.
    fn times_out(&self, asked: &NewQuery<'_>) -> bool {
        let mut attempts = self.attempts(asked.query.qtype);
        let (Some(last), Some(before)) = (attempts.next_back(), attempts.next_back()) else {
            return false;
        };
        let silent = self.attempts(asked.query.qtype).all(Query::is_silent);
        silent && is_timer([before.sent_ns, last.sent_ns, asked.query.sent_ns])
    }

    /// Returns whether `later`, so far another look-up, and `asked` repeat the only query of this
    /// one at the times of a timer. Independent programs that query the same name do so at
    /// arbitrary times.
    pub fn is_repeated_by(&self, later: &Self, asked: &NewQuery<'_>) -> bool {
        let only = |open: &Self| match &open.lookup.queries[..] {
            [query] if query.is_silent() && !query.flags.over_tcp => Some(query.sent_ns),
            _ => None,
        };
        let types =
            [self, later].map(|open| open.lookup.qtypes.first() == Some(&asked.query.qtype));
        let same = self.name == asked.name && later.name == asked.name && types == [true; 2];
        let (Some(first_ns), Some(again_ns)) = (only(self), only(later)) else { return false };
        same && !asked.query.flags.over_tcp && is_timer([first_ns, again_ns, asked.query.sent_ns])
    }

    /// Adds the queries of `later` to this look-up.
    pub fn absorb(&mut self, later: Self) {
        self.lookup.queries.extend(later.lookup.queries);
        self.ids.extend(later.ids);
        self.last_activity_ns = later.last_activity_ns;
        (self.superseded_ns, self.next_lookup_ns) = (None, later.next_lookup_ns);
    }

    /// Returns how long the client waited before it repeated the query `asked`.
    pub fn waited_ns(&self, asked: &NewQuery<'_>) -> Option<u64> {
        let last = self.attempts(asked.query.qtype).next_back();
        let last = last.filter(|last| last.answered_ns.is_none())?;
        let again = self.name == asked.name && self.knows(asked.id);
        again.then(|| asked.query.sent_ns.saturating_sub(last.sent_ns))
    }

    /// Records that the client begins another look-up. If that is for the same name and type, it no
    /// longer waits for this one.
    pub fn supersede(&mut self, asked: &NewQuery<'_>) {
        let mut attempts = self.attempts(asked.query.qtype);
        let only = attempts.next().filter(|_| attempts.next().is_none());
        let is_open = only.is_some_and(|only| only.answered_ns.is_none());
        drop(attempts);
        if is_open && self.name == asked.name {
            self.superseded_ns.get_or_insert(asked.query.sent_ns);
        }
    }

    /// Returns whether this look-up's resolver library keeps the identifier of a repeated query: it
    /// has done so, or it queried both types from one socket other than `port`. A library that
    /// creates a socket for each look-up also creates new messages.
    fn keeps_ids(&self, port: u16) -> bool {
        let queries = || self.lookup.queries.iter().zip(&self.ids);
        let kept = queries().enumerate().any(|(at, (query, id))| {
            queries().skip(at + 1).any(|(later, same)| same == id && later.qtype == query.qtype)
        });
        let is_pair = |one: &Query, other: &Query| {
            one.client_port == other.client_port && one.qtype != other.qtype
        };
        let on_socket = |query: &&Query| query.client_port != port;
        let others = || self.lookup.queries.iter().filter(on_socket);
        kept || others().any(|one| others().any(|other| is_pair(one, other)))
    }
}

/// Returns whether three queries at these times have the intervals of a timer, which waits for the
/// same time again or doubles it (RFC 1035 §4.2.1).
fn is_timer([first_ns, again_ns, now_ns]: [u64; 3]) -> bool {
    let (before_ns, waited_ns) =
        (again_ns.saturating_sub(first_ns), now_ns.saturating_sub(again_ns));
    let is_due = |due_ns: u64| waited_ns.abs_diff(due_ns) <= due_ns / ALIKE_PART;
    before_ns >= QUERY_RETRY_MIN_NS && (is_due(before_ns) || is_due(2 * before_ns))
}
