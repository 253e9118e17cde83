//! What clients did after they had been idle: one of them may have held what requests of others waited
//! for.

use crate::app::Label;
use crate::findings::thresholds::COST_MIN_NS;
use crate::tcp::{Connection, Exchange};
use crate::wire::{Endpoint, Side};
use hashbrown::HashMap;
use std::cmp::Reverse;

/// Number of acts kept per server. These are the ones after the longest idleness.
const ACTS_MAX: usize = 16;

/// A request after idleness, or the end of an idle connection by its client.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct Act {
    /// Time at which it passed the vantage, ns.
    pub time_ns: u64,
    /// Time at which the server had done with it: it answered, or closed the connection as well, ns.
    pub done_ns: u64,
    /// Time without data on its connection before that, ns.
    pub idle_ns: u64,
    /// The client's end of its connection.
    pub client: Endpoint,
    /// Kind of the request; `None` if the client ended the connection.
    pub kind: Option<Label>,
}

/// Number of servers whose clients' acts are kept: the first that have any.
const SERVERS_MAX: usize = 1 << 10;

/// Acts of the clients of each server, those after the longest idleness first. Most servers have none.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Acts(HashMap<Endpoint, Vec<Act>>);

impl Acts {
    /// Returns whether the request of `exchange` came after idleness.
    #[inline]
    pub fn has_rested(exchange: &Exchange) -> bool {
        exchange.request_seen && exchange.idle_ns >= COST_MIN_NS
    }

    /// Records the request of `exchange`.
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        self.insert(
            connection.server(),
            Act {
                time_ns: exchange.first.time_ns,
                done_ns: exchange.answered_ns.max(exchange.first.time_ns),
                idle_ns: exchange.idle_ns,
                client: connection.client(),
                kind: Some(exchange.kind),
            },
        );
    }

    /// Records the end of `connection`, if its client ended it while it was idle.
    pub fn connection(&mut self, connection: &Connection) {
        let Some((Side::Client, idle_ns)) = connection.view().ended_first() else { return };
        let ends = connection.cold.ending();
        let ended = ends.fin[Side::Client].or(ends.reset);
        let Some(ended) = ended.filter(|_| connection.setup.is_established()) else { return };
        let idle_ns = idle_ns.min(ended.time_ns.saturating_sub(connection.first_ns));
        if idle_ns >= COST_MIN_NS {
            let closed_ns = ends.fin_ns[Side::Server].unwrap_or(0);
            let (time_ns, client) = (ended.time_ns, connection.client());
            let done_ns = closed_ns.max(time_ns);
            let act = Act { time_ns, done_ns, idle_ns, client, kind: None };
            self.insert(connection.server(), act);
        }
    }

    /// Records `act` of a client of `server`, if its client was idle for long enough.
    pub fn insert(&mut self, server: Endpoint, act: Act) {
        if self.0.len() >= SERVERS_MAX && !self.0.contains_key(&server) {
            return;
        }
        let acts = self.0.entry(server).or_default();
        let place = acts.partition_point(|other| rank(other) <= rank(&act));
        acts.insert(place, act);
        acts.truncate(ACTS_MAX);
    }

    /// Returns the acts of the clients of `server` after at least `idle_ns` without data, and the ends of
    /// its idle connections; `None` if there may have been more than are kept.
    pub fn after(&self, server: Endpoint, idle_ns: u64) -> Option<Vec<Act>> {
        let acts = self.0.get(&server)?;
        let count = acts.partition_point(|act| act.idle_ns >= idle_ns);
        let (after, sooner) = acts.split_at(count);
        let ends = sooner.iter().filter(|act| act.kind.is_none() && acts.len() < ACTS_MAX);
        (count < ACTS_MAX).then(|| after.iter().chain(ends).copied().collect())
    }

    /// Adds all acts of `other`.
    pub fn merge(&mut self, other: Self) {
        let mut servers: Vec<_> = other.0.into_iter().collect();
        servers.sort_unstable_by_key(|(server, _)| *server);
        for (server, acts) in servers {
            acts.into_iter().for_each(|act| self.insert(server, act));
        }
    }
}

fn rank(act: &Act) -> impl Ord + use<> {
    (Reverse(act.idle_ns), act.time_ns, act.client)
}
