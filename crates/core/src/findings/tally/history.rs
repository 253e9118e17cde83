//! Bounds for the results of a continuous diagnosis from before its window, which would otherwise
//! grow with every server, client and path. The least important entries are joined with similar
//! ones, or dropped.

use crate::findings::tally::{CauseTally, ENDPOINTS_MAX, FIRSTS_MAX, Key, Tally};
use crate::wire::Endpoint;
use std::cmp::Reverse;

/// Number of causes and culprits kept separately.
const CAUSES_MAX: usize = 1 << 11;

/// Returns whether `count` exceeds `limit` by so much that entries have to be dropped, so that this
/// is rarely done.
pub(super) fn are_too_many(count: usize, limit: usize) -> bool {
    count >= limit + limit / 4
}

impl Tally {
    /// Keeps room for later results in the history of an endless diagnosis. Known first exchanges
    /// are dropped once half of their room is taken.
    pub(crate) fn bound_history(&mut self) {
        if self.firsts.len() > FIRSTS_MAX / 2 {
            (self.firsts, self.last_first) = (Vec::new(), None);
        }
        if are_too_many(self.endpoints.len(), ENDPOINTS_MAX) {
            self.join_small_servers();
        }
        if are_too_many(self.causes.len(), CAUSES_MAX) {
            self.drop_slight_causes();
        }
        self.endpoints.values_mut().for_each(|endpoint| endpoint.bound_kinds());
        self.legs.bound();
    }

    /// Joins the servers with the fewest exchanges, as those for which a shard has no room are
    /// joined.
    fn join_small_servers(&mut self) {
        let mut ranked: Vec<_> = self
            .endpoints
            .iter()
            .map(|(server, tally)| (Reverse((tally.all.exchanges, tally.connections)), *server))
            .filter(|(_, server)| *server != Endpoint::default())
            .collect();
        ranked.sort_unstable();
        for (_, server) in ranked.into_iter().skip(ENDPOINTS_MAX) {
            let Some(small) = self.endpoints.remove(&server) else { continue };
            self.notes.crowded += small.connections;
            self.endpoints.entry(Endpoint::default()).or_default().merge(*small);
            let keys: Vec<_> = self.causes.of(server).map(|(key, _)| key.clone()).collect();
            for key in keys {
                let Some(cause) = self.causes.remove(&key) else { continue };
                self.causes.at(&key.within(Endpoint::default())).merge(&cause);
            }
        }
        self.endpoints.shrink_to_fit();
    }

    /// Drops the causes that cost least; the time that they took stays with its owners.
    fn drop_slight_causes(&mut self) {
        let weight = |(key, cause): (&Key, &CauseTally)| {
            (Reverse((cause.lost_ns, cause.count)), key.clone())
        };
        let mut ranked: Vec<_> = self.causes.iter().map(weight).collect();
        ranked.sort_unstable();
        for (_, key) in ranked.into_iter().skip(CAUSES_MAX) {
            self.causes.remove(&key);
        }
    }
}
