//! Answers without their queries: the capture lacks packets between these two hosts, so that an answer that
//! it does not have may have come all the same.

use super::lookup::Lookup;
use crate::dns::thresholds::RESOLVER_TIMEOUT_NS;
use std::collections::BTreeMap;

/// Maximum number of pairs that are remembered.
const PAIRS_MAX: usize = 1 << 8;

/// A client and a name server.
type Pair = [[u8; 16]; 2];

/// Clients and name servers with such answers.
#[derive(Clone, Default)]
pub(super) struct Unasked {
    /// Number of answers of each pair.
    answers: BTreeMap<Pair, u32>,
    /// Time of the first DNS message, ns.
    began_ns: Option<u64>,
}

impl Unasked {
    /// Notes that a DNS message was captured at `time_ns`.
    pub fn begin(&mut self, time_ns: u64) {
        self.began_ns.get_or_insert(time_ns);
    }

    /// Notes an answer at `time_ns` without its query. What was asked before the capture began is not
    /// missing in it.
    pub fn add(&mut self, time_ns: u64, pair: Pair) {
        let is_new = self.began_ns.is_none_or(|began_ns| time_ns < began_ns + RESOLVER_TIMEOUT_NS);
        let has_room = self.answers.len() < PAIRS_MAX || self.answers.contains_key(&pair);
        if !is_new && has_room {
            *self.answers.entry(pair).or_default() += 1;
        }
    }

    /// Takes back an answer whose query was captured behind it.
    pub fn take_back(&mut self, pair: Pair) {
        if let Some(count) = self.answers.get_mut(&pair) {
            *count = count.saturating_sub(1);
        }
    }

    /// Marks the look-ups of such pairs.
    pub fn mark(&self, lookups: &mut [Lookup]) {
        if self.answers.is_empty() {
            return;
        }
        for lookup in lookups {
            let mut pairs = lookup.queries.iter().map(|it| [lookup.client, it.server.address]);
            let is_partial = pairs.any(|pair| self.answers.get(&pair).is_some_and(|&it| it > 0));
            lookup.lacks_packets |= is_partial;
        }
    }
}
