//! Look-ups of a server while its client waits for it.

use crate::dns::Lookup;
use crate::findings::tally::{First, Tally, Wait};
use crate::judge::thresholds::AT_ONCE_PART;
use crate::wire::Endpoint;
use std::collections::HashMap;

/// Servers that have exchanges which took long, by host.
type ByHost = HashMap<[u8; 16], Vec<Endpoint>>;

/// An exchange whose server waited for a look-up of its own.
pub(super) struct Held {
    pub server: Endpoint,
    /// Digest of the kind of request.
    pub kind: u64,
    pub wall_ns: u64,
}

impl Held {
    pub fn of_first(first: &First) -> Self {
        Self { server: first.server, kind: first.kind, wall_ns: first.wall_ns }
    }
}

/// Returns the exchange of a server that looked something up itself (the name of its client, for
/// example) while the client waited for it.
pub(super) fn held_up_server<'a>(lookup: &Lookup, firsts: &'a [First]) -> Option<&'a First> {
    let end = firsts.partition_point(|first| first.start_ns <= lookup.start_ns);
    firsts[..end].iter().rev().take(256).find(|first| {
        first.server.address == lookup.client && lookup.end_ns <= first.end_ns() + first.rtt_base_ns
    })
}

/// Returns the servers that have exchanges which took long, by host.
pub(super) fn servers_by_host(tally: &Tally) -> ByHost {
    let mut by_host = ByHost::new();
    for (&server, endpoint) in &tally.endpoints {
        if !endpoint.waits.all().is_empty() {
            by_host.entry(server.address).or_default().push(server);
        }
    }
    by_host.values_mut().for_each(|servers| servers.sort_unstable());
    by_host
}

/// Returns the exchange of a server that looked up the name of an address (its client's, for a log or an
/// access list) after the request, and answered at once when that was over.
pub(super) fn held_up_answer(lookup: &Lookup, by_host: &ByHost, tally: &Tally) -> Option<Held> {
    let servers = by_host.get(&lookup.client).filter(|_| lookup.is_reverse)?;
    let looked_up_ns = lookup.end_ns - lookup.start_ns;
    let is_around = |wait: &&Wait| {
        let until_ns = wait.answered_ns.checked_sub(lookup.end_ns);
        wait.asked_ns <= lookup.start_ns
            && wait.client != lookup.client
            && until_ns.is_some_and(|ns| ns <= looked_up_ns / AT_ONCE_PART)
    };
    servers.iter().find_map(|&server| {
        let waits = tally.endpoints.get(&server)?.waits.all();
        let wait = waits.iter().filter(is_around).min_by_key(|wait| wait.owed_ns())?;
        let wall_ns = wait.ended_ns.saturating_sub(wait.began_ns);
        Some(Held { server, kind: wait.kind, wall_ns })
    })
}
