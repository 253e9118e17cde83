//! What look-ups show about connection attempts: for which hosts a name was looked up, and when name
//! servers answered a client.

use crate::dns::Lookup;
use std::collections::HashSet;

/// Number of answers kept.
const KEPT_MAX: usize = 1 << 12;

/// Answers of name servers.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Hosts of attempts to connect that were in an answer.
    named: HashSet<[u8; 16]>,
    /// Clients to which answers came, and their times, ns.
    times: Vec<([u8; 16], u64)>,
}

impl Answers {
    /// Adds what `lookups` show about attempts to connect to the hosts that were `tried`.
    pub(super) fn add(&mut self, lookups: &[Lookup], tried: &HashSet<[u8; 16]>) {
        let addresses = lookups.iter().flat_map(|it| &it.addresses).copied();
        self.named.extend(addresses.filter(|address| tried.contains(address)));
        for lookup in lookups {
            let room = KEPT_MAX.saturating_sub(self.times.len());
            let answered = lookup.queries.iter().filter(|query| {
                // A name server in the network of its client may answer while the way out is interrupted.
                query.server.is_public() && query.server.address != lookup.client
            });
            let times_ns = answered.filter_map(|query| query.answered_ns);
            self.times.extend(times_ns.map(|at_ns| (lookup.client, at_ns)).take(room));
        }
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        self.named.extend(other.named);
        let room = KEPT_MAX.saturating_sub(self.times.len());
        self.times.extend(other.times.into_iter().take(room));
    }

    /// Returns whether a name was looked up whose answer has `host`.
    pub(super) fn names(&self, host: [u8; 16]) -> bool {
        self.named.contains(&host)
    }

    /// Returns the times at which name servers outside the network of `client` answered it, ns.
    pub(super) fn of(&self, client: [u8; 16]) -> impl Iterator<Item = u64> {
        self.times.iter().filter(move |(of, _)| *of == client).map(|&(_, at_ns)| at_ns)
    }
}
