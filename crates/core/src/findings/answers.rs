//! Answers of name servers, as far as connection attempts are judged by them: the hosts whose names were
//! looked up, and when a client was answered.

use crate::dns::Lookup;
use std::collections::HashSet;

/// Number of hosts kept, and of answers.
const KEPT_MAX: usize = 1 << 14;

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
        self.name(addresses.filter(|address| tried.contains(address)));
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
        self.name(other.named);
        let room = KEPT_MAX.saturating_sub(self.times.len());
        self.times.extend(other.times.into_iter().take(room));
    }

    fn name(&mut self, hosts: impl IntoIterator<Item = [u8; 16]>) {
        for host in hosts {
            if self.named.len() < KEPT_MAX {
                self.named.insert(host);
            }
        }
    }

    /// Returns whether a name may have been looked up whose answer has `host`: of more hosts than are kept
    /// nothing is known.
    pub(super) fn may_name(&self, host: [u8; 16]) -> bool {
        self.named.len() >= KEPT_MAX || self.named.contains(&host)
    }

    /// Returns the times at which name servers outside the network of `client` answered it, ns.
    pub(super) fn of(&self, client: [u8; 16]) -> impl Iterator<Item = u64> {
        self.times.iter().filter(move |(of, _)| *of == client).map(|&(_, at_ns)| at_ns)
    }
}
