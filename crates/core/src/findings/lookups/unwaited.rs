//! Servers whose silence nobody is seen to wait for.

use crate::dns::{Lookup, LookupOutcome};
use crate::wire::Endpoint;
use std::collections::{HashMap, HashSet};

/// The servers at which most look-ups with one query and no answer were abandoned. Where a client begins
/// something else within the time of a resolver's timer after such a query, that is chance there: look-ups
/// alike have ends alike.
pub(super) struct Unwaited(HashSet<Endpoint>);

impl Unwaited {
    pub fn of(lookups: &[Lookup]) -> Self {
        let mut all: HashMap<Endpoint, [u64; 2]> = HashMap::new();
        for lookup in lookups.iter().filter(|it| is_single_timeout(it)) {
            all.entry(lookup.queries[0].server).or_default()[usize::from(lookup.is_abandoned)] += 1;
        }
        let is_unwaited = |&(_, [waited, abandoned]): &(Endpoint, [u64; 2])| abandoned > waited;
        Self(all.into_iter().filter(is_unwaited).map(|(server, _)| server).collect())
    }

    /// Returns whether the only query of the look-up got no answer from such a server, or none that the
    /// capture has, which lacks packets between these two hosts.
    pub fn has(&self, lookup: &Lookup) -> bool {
        is_single_timeout(lookup)
            && (lookup.lacks_packets || self.0.contains(&lookup.queries[0].server))
    }
}

/// Returns whether the only query has no answer, and its client was not seen to close the connection for it.
fn is_single_timeout(lookup: &Lookup) -> bool {
    let [query] = lookup.queries.as_slice() else { return false };
    lookup.outcome == LookupOutcome::Timeout && query.closed.is_none()
}
