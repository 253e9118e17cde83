//! Name servers that forward queries: if both legs were captured, it is known which server caused
//! the delay.

use crate::dns::{Lookup, Query};
use crate::wire::Endpoint;
use std::collections::BTreeMap;

/// Queries of name servers on behalf of their clients, by the queried name, see [`Lookup::digest`].
#[derive(Clone)]
pub(super) struct Forwarded(BTreeMap<u64, Vec<([u8; 16], Query)>>);

impl Forwarded {
    /// Returns the forwarded queries among `lookups`.
    pub fn of(lookups: &[Lookup]) -> Self {
        let mut queries: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for lookup in lookups.iter().filter(|lookup| lookup.by_resolver) {
            let own = lookup.queries.iter().map(|query| (lookup.client, query.clone()));
            queries.entry(lookup.digest).or_default().extend(own);
        }
        Self(queries)
    }

    /// Returns the query for which the server of `query`, a query of `lookup`, waited most of the
    /// time itself: the last of its queries to the server that was silent or slow most often.
    pub fn waited_for(&self, lookup: &Lookup, query: &Query) -> Option<&Query> {
        let end_ns = query.answered_ns.unwrap_or(lookup.end_ns);
        let taken_ns = end_ns.saturating_sub(query.sent_ns);
        let of_server =
            |client: &[u8; 16]| *client == query.server.address || query.server.ip().is_loopback();
        let asked = self.0.get(&lookup.digest)?.iter();
        let slow = asked.filter(|(client, _)| of_server(client)).map(|(_, it)| it).filter(|it| {
            let waited_ns = it.answered_ns.unwrap_or(end_ns).saturating_sub(it.sent_ns);
            let meanwhile = (query.sent_ns..end_ns).contains(&it.sent_ns);
            meanwhile && (it.answered_ns.is_none() || 2 * waited_ns >= taken_ns)
        });
        let mut by_server: BTreeMap<Endpoint, Vec<&Query>> = BTreeMap::new();
        slow.for_each(|it| by_server.entry(it.server).or_default().push(it));
        let (_, queries) = by_server.into_iter().max_by_key(|(_, queries)| queries.len())?;
        queries.into_iter().max_by_key(|it| (it.answered_ns.is_none(), it.sent_ns))
    }
}
