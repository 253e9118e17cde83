//! Queries asked again, and look-ups that were given up: who keeps an identifier, who does not.

use super::{Asked, Open, is_timeout};
use crate::dns::lookup::Query;

impl Open {
    /// Whether `asked` comes in place of `last`, which was in vain, and not for another look-up
    /// of the same name. glibc, musl, c-ares, systemd-resolved and Windows send the same message
    /// once more. Go and Netty number it anew, and then it is told by its time: after a whole
    /// timeout, or at once after a failure.
    pub(super) fn asks_again(&self, asked: &Asked<'_>, last: &Query) -> bool {
        let waited_ns = asked.query.sent_ns.saturating_sub(last.sent_ns);
        let in_time = last.is_failure() || is_timeout(waited_ns);
        self.knows(asked.id) || in_time && !self.keeps_ids(asked.query.client_port)
    }

    /// How long the client waited before it asked for the same once more.
    pub fn waited_ns(&self, asked: &Asked<'_>) -> Option<u64> {
        let attempts = self.attempts(asked.query.qtype);
        let last = attempts.last().filter(|last| last.answered_ns.is_none())?;
        let again = self.name == asked.name && self.knows(asked.id);
        again.then(|| asked.query.sent_ns.saturating_sub(last.sent_ns))
    }

    /// Its client begins another look-up. If that is for the same, it does not wait for this one
    /// any more.
    pub fn supersede(&mut self, asked: &Asked<'_>) {
        self.went_on_ns.get_or_insert(asked.query.sent_ns);
        if self.name == asked.name
            && let [only] = self.attempts(asked.query.qtype)[..]
            && only.answered_ns.is_none()
        {
            self.superseded_ns.get_or_insert(asked.query.sent_ns);
        }
    }

    /// Whether this look-up's resolver library keeps the identifier of a query that it repeats: it
    /// has done so, or it asked for both types from one socket, which is not `port`. Who makes a
    /// socket for each look-up, makes the messages with it.
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
