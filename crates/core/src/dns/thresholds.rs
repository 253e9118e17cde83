//! Every number that decides how look-ups are grouped and judged, with its unit and its source.

use crate::judge::thresholds::{ACK_TRAIN_NS, HOST_DELAY_MAX_NS};

/// A query that follows its answer later than this is another, ns. Source: derivation; two
/// interfaces of a host are served that far apart.
pub const EARLY_QUERY_MAX_NS: u64 = ACK_TRAIN_NS;

/// Longest time between an answer and the query or connection that follows from it, ns. Source:
/// judgement; an application that needs the answer goes on at once, but path and load need some
/// room; what a person does next takes longer.
pub const SEQUEL_MAX_NS: u64 = 250_000_000;

/// The same query within this time is the same packet captured twice, ns. Source: judgement; no
/// library repeats a query sooner.
pub const QUERY_RETRY_MIN_NS: u64 = 100_000_000;

/// A faster answer is never slow, ns. Source: judgement; a resolver that has to ask others takes as
/// long, and one that knows the answer does not.
pub const SLOW_MIN_NS: u64 = 60_000_000;

/// A slow answer takes at least so many times the baseline of its server. Source: judgement;
/// answers of one server vary by a factor of two, and asking another server is one of ten.
pub const SLOW_FACTOR: u64 = 3;

/// Longest fastest answer of a server that is a baseline, ns. Source: judgement; a resolver in the
/// same city answers sooner, and one that is always slow is not excused by that.
pub const BASELINE_MAX_NS: u64 = 10_000_000;

/// Predicted time of an answer from a cache nearby, where neither the server nor the path has shown
/// better, ns. Source: derivation; a process that only has to be woken up answers.
pub const NEARBY_CACHE_NS: u64 = HOST_DELAY_MAX_NS;

/// Longest time that a resolver takes to ask one authoritative server after the other, ns. Source:
/// judgement; a name has some four authoritative servers to ask, each within a quarter of a second,
/// and clients wait for several seconds.
pub const UNCACHED_NS: u64 = 1_000_000_000;

/// Time after which a client gives up on its only query, if the capture does not show it, ns.
/// Source: resolv.conf(5).
pub const RESOLVER_TIMEOUT_NS: u64 = 5_000_000_000;

/// Silence after which a look-up has ended, ns. Source: judgement; three default timeouts of
/// resolv.conf(5): clients that double their wait have waited for two. It allows longer ones, but
/// nobody waits for them.
pub const SILENCE_MAX_NS: u64 = 3 * RESOLVER_TIMEOUT_NS;

/// Shortest timeout of a resolver, ns; others are multiples of it. A query seen later than this
/// after the same one is another. Source: resolv.conf(5).
pub const RESOLVER_TIMEOUT_MIN_NS: u64 = 1_000_000_000;
