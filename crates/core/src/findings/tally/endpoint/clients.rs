//! Clients that connect to an endpoint again although an earlier connection would have served them.

use crate::findings::tally::affected_clients::CALLERS_MAX;
use crate::model::Fact;
use crate::tcp::{Connection, Exchange};

/// The clients with the least addresses, in order of address and of the name of the server that they ask for:
/// a server may have several names, and a connection serves requests for one of them (RFC 9110 §4.3.3). The
/// result does not depend on the order in which connections are counted.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Clients(Vec<Client>);

/// The connections of one client to one name of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
struct Client {
    address: [u8; 16],
    /// A hash of the name; 0 if that is unknown.
    name: u64,
    /// Number of its connections that were set up.
    connections: u64,
    /// Time at which a connection was opened that carried a request, ns: that of the last one.
    opened_ns: Option<u64>,
    /// Time at which an answer was complete, ns: that of the first one.
    answered_ns: Option<u64>,
    /// Time of the last packet of a connection that the server closed for idleness, ns: the first.
    closed_ns: Option<u64>,
}

impl Client {
    fn of(connection: &Connection) -> Self {
        Self::named(connection.client().address, connection.framer.server_name())
    }

    fn named(address: [u8; 16], name: u64) -> Self {
        Self { address, name, connections: 0, opened_ns: None, answered_ns: None, closed_ns: None }
    }

    fn merge(&mut self, other: &Self) {
        let first = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        self.connections += other.connections;
        self.opened_ns = self.opened_ns.max(other.opened_ns);
        self.answered_ns = first(self.answered_ns, other.answered_ns);
        self.closed_ns = first(self.closed_ns, other.closed_ns);
    }

    /// Returns whether it opened a connection for a request after `ns`.
    fn came_after(&self, ns: Option<u64>) -> bool {
        ns.is_some_and(|ns| self.opened_ns > Some(ns))
    }
}

impl Clients {
    /// Counts `connection`, if it was set up; `is_closed_idle` if its server closed it because nobody
    /// used it.
    pub(super) fn connection(&mut self, connection: &Connection, is_closed_idle: bool) {
        if connection.mid_stream || connection.setup.established_ns().is_some() {
            let closed_ns = is_closed_idle.then_some(connection.last.time_ns);
            self.add(&Client { connections: 1, closed_ns, ..Client::of(connection) });
        }
    }

    /// Notes when the connection of a request was opened, and when the request was answered.
    pub(super) fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        if exchange.request_seen {
            let opened_ns = (!connection.mid_stream).then_some(connection.first_ns);
            let answered_ns = exchange.outcome.is_complete().then_some(exchange.end_ns);
            self.add(&Client { opened_ns, answered_ns, ..Client::of(connection) });
        }
    }

    /// Returns the greatest number of connections of one client that opened one for a request when
    /// another request had been answered already: the connection of that would have served it.
    pub(in crate::findings) fn reconnects(&self) -> Option<(&'static str, Fact)> {
        let reconnects = |it: &&Client| it.connections > 1 && it.came_after(it.answered_ns);
        let most = self.0.iter().filter(reconnects).map(|it| it.connections).max()?;
        Some(("reconnects", Fact::Count(most)))
    }

    /// Returns whether `client` had an answer.
    pub(in crate::findings) fn answers(&self, client: [u8; 16]) -> bool {
        self.0.iter().any(|it| it.address == client && it.answered_ns.is_some())
    }

    /// Returns whether a client opened a connection for a request after the server had closed one of
    /// its connections for idleness.
    pub(in crate::findings) fn needs_closed(&self) -> bool {
        self.0.iter().any(|it| it.came_after(it.closed_ns))
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|client| self.add(client));
    }

    fn add(&mut self, client: &Client) {
        let key = |client: &Client| (client.address, client.name);
        match self.0.binary_search_by_key(&key(client), key) {
            Ok(at) => self.0[at].merge(client),
            Err(at) => {
                // Most endpoints of a capture with many have one client.
                if self.0.is_empty() {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, *client);
                self.0.truncate(CALLERS_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_comes_back_is_found_among_many_in_any_order() {
        let connection = |address: u8, opened_ns, answered_ns| Client {
            connections: 1,
            opened_ns: Some(opened_ns),
            answered_ns: Some(answered_ns),
            ..Client::named([address; 16], 0)
        };
        let all = [(7, 1, 2), (1, 1, 2), (2, 1, 2), (9, 1, 2), (1, 3, 4), (1, 5, 6), (3, 1, 2)];
        for cut in 0..all.len() {
            let mut clients = Clients::default();
            all[cut..].iter().chain(&all[..cut]).for_each(|&(address, opened_ns, answered_ns)| {
                clients.add(&connection(address, opened_ns, answered_ns));
            });
            assert_eq!(clients.reconnects(), Some(("reconnects", Fact::Count(3))), "cut at {cut}");
        }
        let mut strangers = Clients::default();
        (0..9).for_each(|address| strangers.add(&connection(address, 1, 2)));
        assert_eq!(strangers.reconnects(), None);
        // Two that were open at the same time, before either was answered.
        let mut together = Clients::default();
        [(1, 7), (6, 9)]
            .iter()
            .for_each(|&(opened, end)| together.add(&connection(1, opened, end)));
        assert_eq!(together.reconnects(), None);
        // To two names of one server.
        let mut names = Clients::default();
        [(1, 1), (2, 3)].iter().for_each(|&(name, opened)| {
            names.add(&Client { name, ..connection(1, opened, opened + 1) });
        });
        assert_eq!(names.reconnects(), None);
    }

    #[test]
    fn a_connection_closed_for_idleness_is_missed_only_by_a_client_that_comes_later() {
        let closed = Client { closed_ns: Some(5), ..Client::named([1; 16], 0) };
        let opened = |opened_ns| Client { opened_ns: Some(opened_ns), ..Client::named([1; 16], 0) };
        for (opened_ns, needs) in [(4, false), (6, true)] {
            let mut clients = Clients::default();
            [closed, opened(opened_ns)].iter().for_each(|it| clients.add(it));
            assert_eq!(clients.needs_closed(), needs, "{opened_ns}");
        }
    }
}
