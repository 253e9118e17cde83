//! Look-ups that were captured at two places.

use super::Lookup;
use crate::dns::thresholds::RESOLVER_TIMEOUT_MIN_NS;
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// Returns those of `more`, seen at the second place, that were not seen at the first.
pub(crate) fn unknown_to(all: &[Lookup], more: Vec<Lookup>) -> Vec<Lookup> {
    let mut known: HashMap<Question, Vec<u64>> = HashMap::new();
    for (question, sent_ns) in all.iter().flat_map(questions) {
        known.entry(question).or_default().push(sent_ns);
    }
    let is_known = |(question, sent_ns): (Question, u64)| {
        let times = known.get(&question).map_or(&[][..], Vec::as_slice);
        times.iter().any(|time_ns| time_ns.abs_diff(sent_ns) < RESOLVER_TIMEOUT_MIN_NS)
    };
    more.into_iter().filter(|lookup| !questions(lookup).any(is_known)).collect()
}

/// Client's address and port, name server, and query type.
type Question = ([u8; 16], u16, Endpoint, u16);

fn questions(lookup: &Lookup) -> impl Iterator<Item = (Question, u64)> + '_ {
    lookup
        .queries
        .iter()
        .map(|query| ((lookup.client, query.client_port, query.server, query.qtype), query.sent_ns))
}
