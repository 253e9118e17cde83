//! Servers asked at once: musl sends a query to every server of resolv.conf(5) and takes the first
//! answer that decides.

use super::lookup::Query;
use crate::dns::thresholds::QUERY_RETRY_MIN_NS;

/// Queries for one type that were sent together, in place of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    /// When the first of them was sent, ns.
    pub sent_ns: u64,
    /// The one that the wait depended on.
    pub query: &'a Query,
}

/// The attempts that `queries` for one type, in the order sent, make up.
pub(super) fn attempts<'a>(queries: &[&'a Query]) -> Vec<Attempt<'a>> {
    let mut attempts: Vec<Attempt<'a>> = Vec::with_capacity(queries.len());
    let mut from = 0;
    for (at, query) in queries.iter().enumerate() {
        let together = at > from && queries[from..at].iter().all(|it| is_at_once(it, query));
        match attempts.last_mut().filter(|_| together) {
            Some(last) => last.query = decisive(last.query, query),
            None => {
                from = at;
                attempts.push(Attempt { sent_ns: query.sent_ns, query });
            }
        }
    }
    attempts
}

/// Whether `later` went to another server before `query` was answered, and sooner than anybody gives
/// up waiting.
fn is_at_once(query: &Query, later: &Query) -> bool {
    query.server != later.server
        && query.client_port == later.client_port
        && later.sent_ns.saturating_sub(query.sent_ns) < QUERY_RETRY_MIN_NS
        && query.answered_ns.is_none_or(|at_ns| at_ns > later.sent_ns)
}

/// The first answer that decides; without one, silence, for failures are not taken while another server
/// may still answer.
fn decisive<'a>(one: &'a Query, other: &'a Query) -> &'a Query {
    let rank = |query: &Query| {
        let silent = query.answered_ns.is_none();
        (!query.is_conclusive(), !silent, query.answered_ns)
    };
    if rank(other) < rank(one) { other } else { one }
}
