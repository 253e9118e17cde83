//! Clients that connected and then sent nothing for long. No latency contains that time: no request was
//! waiting. Who asks why a page came late still wants to know of it.

use crate::model::Fact;
use crate::tcp::{Connection, Exchange};

/// Connections on which the client let more time pass between the handshake and its first request than
/// the whole exchange then took.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub(super) struct FirstRequests {
    late: u64,
    /// Longest time between a handshake and a first request, ns.
    longest_ns: u64,
    /// Sum of these times, ns.
    total_ns: u64,
}

impl FirstRequests {
    /// Adds `exchange` if it is the first of its connection.
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let is_first = connection.totals.exchanges == 1 && !exchange.connects;
        let asks = exchange.request_seen || exchange.handshake.is_some();
        let established_ns = connection.setup.established_ns();
        let Some(established_ns) = established_ns.filter(|_| is_first && asks) else { return };
        let unused_ns = exchange.start_ns.saturating_sub(established_ns);
        if unused_ns > exchange.wall_ns() {
            self.late += 1;
            self.longest_ns = self.longest_ns.max(unused_ns);
            self.total_ns = self.total_ns.saturating_add(unused_ns);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.late += other.late;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }

    /// Returns the facts of the observation, if there is anything to observe.
    pub fn facts(&self) -> Option<Vec<(&'static str, Fact)>> {
        (self.late > 0).then(|| {
            vec![
                ("connections", Fact::Count(self.late)),
                ("longest_ns", Fact::Ns(self.longest_ns)),
                ("total_ns", Fact::Ns(self.total_ns)),
            ]
        })
    }
}
