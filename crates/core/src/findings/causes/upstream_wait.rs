//! A server that waits for another one.
//!
//! Found in `findings/upstream_wait.rs`, which compares what a server owes with what its host has in
//! progress elsewhere: no silence shows it alone. The evidence is that of the server's wait.

use crate::model::{Fact, Finding, Role};
use crate::wire::Endpoint;

/// The wait of a server for another one.
pub(in crate::findings) struct Wait {
    /// The server that waits.
    pub waiting: Endpoint,
    /// The one that it waits for.
    pub behind: Endpoint,
    /// Further servers that it waits for.
    pub others: Vec<Endpoint>,
    /// Time for which an answer is awaited there, of the time of one request (the means), ns.
    pub part_ns: u64,
    pub of_ns: u64,
    /// Number of requests there for one request.
    pub asked: u64,
    /// Number of requests that the waiting server has in progress there at a time, if others queue for it.
    pub pool: Option<u64>,
    /// Number of answers there that came piece by piece, and which the waiting server had to its end before it
    /// answered; 0 unless these are most.
    pub gathered: u64,
}

impl Wait {
    /// Adds to `finding` for whom its server waits.
    pub fn explain(&self, finding: &mut Finding) {
        finding.culprit.role = Role::Server;
        finding.culprit.endpoint = self.behind;
        finding.software = None;
        let facts = &mut finding.facts;
        facts.push(("waiting", Fact::Text(self.waiting.to_string())));
        facts.push(("part_ns", Fact::Ns(self.part_ns)));
        facts.push(("of_ns", Fact::Ns(self.of_ns)));
        facts.extend((self.asked > 1).then_some(("asked", Fact::Count(self.asked))));
        facts.extend(self.pool.map(|pool| ("pool", Fact::Count(pool))));
        facts.extend((self.gathered > 0).then_some(("gathered", Fact::Count(self.gathered))));
        if !self.others.is_empty() {
            let others: Vec<_> = self.others.iter().map(Endpoint::to_string).collect();
            facts.push(("further_servers", Fact::Text(others.join(" and "))));
        }
    }
}
