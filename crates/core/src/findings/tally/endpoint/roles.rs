//! What shows that an endpoint is a server, or that it may be a client.

use crate::tcp::Connection;
use crate::wire::Endpoint;

/// The client of the connections whose roles were guessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum GuessedClient {
    /// There are none.
    #[default]
    None,
    /// All of them have this one.
    One(Endpoint),
    /// They have several.
    Several,
}

impl GuessedClient {
    fn merge(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::None, one) | (one, Self::None) => one,
            (one, two) if one == two => one,
            _ => Self::Several,
        };
    }
}

/// What shows that an endpoint is a server.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Roles {
    /// It answered a SYN with a SYN-ACK: it listens (RFC 9293 §3.10.7.2).
    pub listens: bool,
    /// A handshake or a message of a connection shows it.
    pub shown: bool,
    /// The client of its connections that show neither.
    pub guessed: GuessedClient,
    /// Number of connections with exchanges that are not counted, because either end may be the client.
    pub undirected: u64,
}

impl Roles {
    /// Adds what `connection` shows.
    pub(super) fn connection(&mut self, connection: &Connection) {
        let shown = connection.shows_roles();
        self.merge(&Self {
            listens: connection.setup.syn_acks > 0,
            shown,
            guessed: match shown {
                true => GuessedClient::None,
                false => GuessedClient::One(connection.client()),
            },
            undirected: u64::from(connection.is_undirected()),
        });
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.listens |= other.listens;
        self.shown |= other.shown;
        self.guessed.merge(other.guessed);
        self.undirected += other.undirected;
    }
}
