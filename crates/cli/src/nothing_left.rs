//! Suggestions if a filter leaves nothing: the time that the capture covers, or hosts and ports in
//! it.

use crate::analysis::{self, Wanted};
use crate::args::Analysing;
use crate::error::Error;
use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::atomic::AtomicBool;
use tcpwhy_core::capture::{Open, Source};
use tcpwhy_core::filter::{Filter, utc};
use tcpwhy_core::model::{ConnectionReport, NothingToJudge, Report, units};

/// Number of hosts and ports suggested.
const NAMED_MAX: usize = 5;

/// Checks that `report` has a connection or a look-up. `open` opens its captures once more, to find
/// out what a filter could have matched.
///
/// # Errors [`Error::Nothing`] if it has neither.
pub fn check(
    asked: &Analysing,
    report: &Report,
    open: &dyn Fn() -> Result<Vec<Source>, Error>,
    interrupted: &AtomicBool,
) -> Result<(), Error> {
    let Some(nothing) = NothingToJudge::of(report) else { return Ok(()) };
    let Some(filter) = &asked.reporting.filter else { return Err(nothing.into()) };
    let hint = hint(filter, report, open, interrupted);
    Err(NothingToJudge::Filtered { hint }.into())
}

/// Returns one sentence on a filter that would match.
fn hint(
    filter: &Filter,
    report: &Report,
    open: &dyn Fn() -> Result<Vec<Source>, Error>,
    interrupted: &AtomicBool,
) -> String {
    let times = report.inputs.iter().filter_map(|input| Some((input.first_ns?, input.last_ns?)));
    let first_ns = times.clone().map(|(first_ns, _)| first_ns).min();
    let last_ns = times.map(|(_, last_ns)| last_ns).max();
    if let (Some(first_ns), Some(last_ns)) = (first_ns, last_ns)
        && !filter.window(first_ns).overlaps(first_ns, last_ns)
    {
        return covered(first_ns, last_ns);
    }
    busiest(open, interrupted).unwrap_or_else(|| "try without it, or a wider one".into())
}

/// Returns the time that a capture covers, in the syntax of filters.
fn covered(first_ns: u64, last_ns: u64) -> String {
    // Rounded up, so that the last packet is included.
    let length_ms = (last_ns - first_ns) / 1_000_000 + 1;
    format!(
        "the capture covers +0s..+{length_ms}ms, which is {}..{}: write a time in it",
        utc(first_ns),
        utc(last_ns + 1_000_000_000)
    )
}

/// Returns the hosts and server ports with the most packets, by a second pass over the capture
/// without the filter. A stream cannot be read again.
fn busiest(
    open: &dyn Fn() -> Result<Vec<Source>, Error>,
    interrupted: &AtomicBool,
) -> Option<String> {
    let sources = open().ok()?;
    if sources.iter().any(|source| matches!(source.open, Open::Once(_))) {
        return None;
    }
    let wanted = Wanted::every_connection(&Analysing::default());
    let answer = analysis::analyse(sources, open, wanted, |_| (), interrupted).ok()?;
    let packets = |it: &ConnectionReport| it.client_to_server.packets + it.server_to_client.packets;
    let connections = || answer.report.connections.iter().map(|it| (it, packets(it)));
    let hosts = connections()
        .flat_map(|(it, packets)| [(it.client.ip(), packets), (it.server.ip(), packets)]);
    let hosts = most(hosts)?;
    let ports = most(connections().map(|(it, packets)| (it.server.port, packets)))?;
    Some(format!("the busiest hosts are {hosts}; the busiest server ports are {ports}"))
}

/// Returns the most frequent values with their counts.
fn most<T: Display + Hash + Ord + Copy>(all: impl Iterator<Item = (T, u64)>) -> Option<String> {
    let mut sums: HashMap<T, u64> = HashMap::new();
    for (one, packets) in all {
        *sums.entry(one).or_default() += packets;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|&(one, packets)| (std::cmp::Reverse(packets), one));
    let named = sums.iter().take(NAMED_MAX);
    let named = named
        .map(|(one, packets)| format!("{one} ({})", units::counted(*packets, "packet", "packets")));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(", "))
}
