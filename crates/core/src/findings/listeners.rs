//! Connections whose roles were guessed, and whose supposed client listens: it sent a SYN-ACK on another
//! connection (RFC 9293 §3.10.7.2), so it is the server of this one as well.

use crate::findings::notes::Noticed;
use crate::findings::tally::Tally;
use crate::tcp::Connection;
use crate::wire::Endpoint;
use std::collections::BTreeMap;

/// Number of supposed servers that are remembered; those with the least addresses are, in any order.
const GUESSED_MAX: usize = 1 << 6;

/// The connections to an endpoint that show neither by a handshake nor by a message that it is a server.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
struct Guess {
    /// Their client; `None` if they have several.
    client: Option<Endpoint>,
    connections: u64,
    /// Number of those with exchanges that are not counted, because either end may be the client.
    undirected: u64,
}

/// Endpoints that were taken for servers.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Guessed(BTreeMap<Endpoint, Guess>);

impl Guessed {
    /// Counts a connection whose roles nothing shows.
    pub fn connection(&mut self, connection: &Connection) {
        if connection.shows_roles() {
            return;
        }
        let undirected = u64::from(connection.is_undirected());
        let client = Some(connection.client());
        self.add(connection.server(), Guess { client, connections: 1, undirected });
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        other.0.into_iter().for_each(|(server, guess)| self.add(server, guess));
    }

    fn add(&mut self, server: Endpoint, guess: Guess) {
        if let Some(known) = self.0.get_mut(&server) {
            known.client = known.client.filter(|client| guess.client == Some(*client));
            known.connections += guess.connections;
            known.undirected += guess.undirected;
            return;
        }
        self.0.insert(server, guess);
        if self.0.len() > GUESSED_MAX {
            self.0.pop_last();
        }
    }
}

/// Leaves out what was counted in the wrong direction: its requests are answers, and what followed
/// them was not waited for.
pub(super) fn settle(tally: &mut Tally) {
    let listens = |client: Endpoint| {
        tally.endpoints.get(&client).is_some_and(|it| it.set_ups.established > 0)
    };
    let turned = tally.guessed.0.iter().filter(|(server, guess)| {
        let all = tally.endpoints.get(*server).map(|it| it.connections);
        all == Some(guess.connections) && guess.client.is_some_and(listens)
    });
    let turned: Vec<_> = turned.map(|(server, guess)| (*server, *guess)).collect();
    for (server, guess) in turned {
        let Some(endpoint) = tally.endpoints.remove(&server) else { continue };
        tally.notes.undirected += guess.connections.saturating_sub(guess.undirected);
        for sender in &endpoint.senders {
            // Nothing shows any more what waited for these.
            let noticed = sender.noticed;
            let uncounted = noticed.uncounted + noticed.retransmissions;
            tally.notes.noticed.merge(&Noticed { retransmissions: 0, uncounted, ..noticed });
        }
        tally.causes.take_all(|key, _| key.server == server);
        tally.slowest.leave_out(server);
        tally.worst.leave_out(server);
    }
}
