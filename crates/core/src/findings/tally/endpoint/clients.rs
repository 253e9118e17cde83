//! Clients that connect to an endpoint more than once.

use crate::findings::tally::affected_clients::CALLERS_MAX;
use crate::model::Fact;
use crate::tcp::Connection;

/// Numbers of connections of the clients with the least addresses, in order of address. The result
/// does not depend on the order in which connections are counted.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Clients {
    connections: Vec<([u8; 16], u64)>,
}

impl Clients {
    /// Counts `connection`, if it was set up.
    pub(super) fn connection(&mut self, connection: &Connection) {
        if connection.mid_stream || connection.setup.established_ns().is_some() {
            self.add(connection.client().address, 1);
        }
    }

    /// Returns the greatest number of connections of one client, if one came back: a connection that
    /// was kept open would have saved it another.
    pub(in crate::findings) fn reconnects(&self) -> Option<(&'static str, Fact)> {
        let most = self.connections.iter().map(|(_, count)| *count).max()?;
        (most > 1).then_some(("reconnects", Fact::Count(most)))
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        other.connections.iter().for_each(|&(client, count)| self.add(client, count));
    }

    fn add(&mut self, client: [u8; 16], count: u64) {
        match self.connections.binary_search_by_key(&client, |(known, _)| *known) {
            Ok(at) => self.connections[at].1 += count,
            Err(at) => {
                self.connections.insert(at, (client, count));
                self.connections.truncate(CALLERS_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_comes_back_is_found_among_many_in_any_order() {
        let all = [(7, 2), (1, 1), (2, 1), (9, 5), (3, 1), (1, 2)];
        for cut in 0..all.len() {
            let mut clients = Clients::default();
            all[cut..].iter().chain(&all[..cut]).for_each(|&(client, count)| {
                clients.add([client; 16], count);
            });
            assert_eq!(clients.reconnects(), Some(("reconnects", Fact::Count(3))), "cut at {cut}");
        }
        let mut strangers = Clients::default();
        (0..9).for_each(|client| strangers.add([client; 16], 1));
        assert_eq!(strangers.reconnects(), None);
    }
}
