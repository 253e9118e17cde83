//! Servers queried at the same time: musl sends a query to every server of resolv.conf(5) and takes
//! the first conclusive answer.

use super::lookup::Query;
use crate::dns::thresholds::QUERY_RETRY_MIN_NS;

/// Queries for one type that were sent at the same time and count as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    /// Time of the first of these queries, ns.
    pub sent_ns: u64,
    /// The query on whose answer the wait depended.
    pub query: &'a Query,
}

/// Groups the `queries` for one type, in the order sent, into attempts.
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

/// Returns whether `later` was sent to another server before `query` was answered, and sooner than
/// any client's timeout.
fn is_at_once(query: &Query, later: &Query) -> bool {
    query.server != later.server
        && query.client_port == later.client_port
        && later.sent_ns.saturating_sub(query.sent_ns) < QUERY_RETRY_MIN_NS
        && query.answered_ns.is_none_or(|at_ns| at_ns > later.sent_ns)
}

/// Returns the query with the first conclusive answer; if there is none, an unanswered one, since a
/// failure does not count while another server may still answer.
fn decisive<'a>(one: &'a Query, other: &'a Query) -> &'a Query {
    let rank = |query: &Query| {
        let silent = query.answered_ns.is_none();
        (!query.is_conclusive(), !silent, query.answered_ns)
    };
    if rank(other) < rank(one) { other } else { one }
}
