//! How many TLS connections the keys that were given open, and why not the others.

use crate::app::Opening;
use crate::model::Fact;
use crate::tcp::Connection;

/// Counts of TLS connections, where keys were given.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Opened {
    all: u64,
    open: u64,
    to_hole: u64,
    no_handshake: u64,
    no_key: u64,
    suite: u64,
    wrong_key: u64,
}

impl Opened {
    /// Counts a connection that is over.
    pub fn connection(&mut self, connection: &Connection) {
        let count = match connection.framer.opening() {
            Opening::NotTried => return,
            Opening::Open => &mut self.open,
            Opening::OpenToHole => &mut self.to_hole,
            Opening::NoHandshake => &mut self.no_handshake,
            Opening::NoKey => &mut self.no_key,
            Opening::Suite => &mut self.suite,
            Opening::WrongKey => &mut self.wrong_key,
        };
        *count += 1;
        self.all += 1;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.all += other.all;
        self.open += other.open;
        self.to_hole += other.to_hole;
        self.no_handshake += other.no_handshake;
        self.no_key += other.no_key;
        self.suite += other.suite;
        self.wrong_key += other.wrong_key;
    }

    /// Returns the observation and its facts, if there were keys and TLS connections.
    pub fn facts(&self) -> Option<(&'static str, Vec<(&'static str, Fact)>)> {
        let parts = [
            ("cut", self.to_hole),
            ("unknown", self.no_key),
            ("begun", self.no_handshake),
            ("unsupported", self.suite),
            ("wrong", self.wrong_key),
        ];
        let mut facts = vec![
            ("opened", Fact::Count(self.open + self.to_hole)),
            ("connections", Fact::Count(self.all)),
        ];
        let parts = parts.into_iter().filter(|(_, count)| *count > 0);
        facts.extend(parts.map(|(name, count)| (name, Fact::Count(count))));
        let id = if self.open == self.all { "tls_opened" } else { "tls_keys" };
        (self.all > 0).then_some((id, facts))
    }
}
