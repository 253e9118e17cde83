//! The secrets that an analysis may use: all known in advance, or coming in while it runs.

use super::{KEYS_MAX, Keys, Label, Random, Secret, Secrets};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Secrets of TLS connections, as an analysis uses them. Copies share them.
#[derive(Clone, Debug)]
pub enum Keyring {
    /// All secrets that there will be.
    Whole(Arc<Keys>),
    /// Secrets that come while the analysis runs, each before what it opens.
    Growing(GrowingKeys),
}

impl Default for Keyring {
    fn default() -> Self {
        Self::Whole(Arc::default())
    }
}

impl From<Arc<Keys>> for Keyring {
    fn from(keys: Arc<Keys>) -> Self {
        Self::Whole(keys)
    }
}

impl Keyring {
    /// Returns a copy of the secrets of the connection whose ClientHello has this random value.
    pub fn secrets(&self, client_random: &Random) -> Option<Secrets> {
        match self {
            Self::Whole(keys) => keys.get(client_random).cloned(),
            Self::Growing(keys) => keys.secrets(client_random),
        }
    }

    /// Returns whether the secrets of a connection may come after its ClientHello.
    pub fn grows(&self) -> bool {
        matches!(self, Self::Growing(_))
    }

    /// Returns whether it opens nothing and never will.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Whole(keys) if keys.is_empty())
    }

    /// Adds copies of all secrets of `more`. Where the secrets are known in advance, other copies of the
    /// ring do not get them.
    pub fn merge(&mut self, more: &Keys) {
        match self {
            Self::Whole(keys) => Arc::make_mut(keys).merge(more),
            Self::Growing(keys) => keys.change(|keys| keys.merge(more)),
        }
    }
}

/// Secrets of connections that are being made: those of a client's own, or of a key log that a program
/// goes on writing. The oldest are forgotten, since a connection needs its secrets at its beginning.
#[derive(Clone, Default)]
pub struct GrowingKeys(Arc<RwLock<Generations>>);

/// The secrets of the last connections, and of those before. Together they are at most [`KEYS_MAX`].
#[derive(Default)]
struct Generations {
    young: Keys,
    old: Keys,
}

impl GrowingKeys {
    /// Adds the secrets of a part of a key log, which ends with a line; returns how many lines had one.
    pub fn add_log(&self, lines: &[u8]) -> usize {
        self.change(|keys| keys.add_log(lines))
    }

    /// Adds one secret, by the label and the random value of a key log. What has no known label, or is no
    /// secret of TLS 1.2 or 1.3, is passed over.
    pub fn add(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let known = (Label::named(label.as_bytes()), client_random.try_into(), Secret::new(secret));
        if let (Some(label), Ok(random), Some(secret)) = known {
            self.change(|keys| keys.add(random, label, secret));
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Keys) -> T) -> T {
        // A thread that panicked while it held the lock has left out one secret at most.
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.young.of.len() >= KEYS_MAX / 2 {
            all.old = std::mem::take(&mut all.young);
        }
        change(&mut all.young)
    }

    fn secrets(&self, client_random: &Random) -> Option<Secrets> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match (all.young.get(client_random), all.old.get(client_random)) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(one.clone()),
            (Some(young), Some(old)) => {
                let secret = |label| young.get(label).or_else(|| old.get(label)).cloned();
                Some(Secrets(Label::ALL.map(|(label, _)| secret(label))))
            }
        }
    }
}

/// Two are equal if they share their secrets.
impl PartialEq for GrowingKeys {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for GrowingKeys {}

impl fmt::Debug for GrowingKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "keys that may grow")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, connection: u32) -> String {
        format!("{name} {connection:064x} 07ff\n")
    }

    fn random(connection: u32) -> Random {
        let mut random = Random::default();
        random[28..].copy_from_slice(&connection.to_be_bytes());
        random
    }

    #[test]
    fn secrets_come_while_others_are_used_and_the_oldest_are_forgotten() {
        let keys = GrowingKeys::default();
        let ring = Keyring::Growing(keys.clone());
        assert!(!ring.is_empty() && ring.secrets(&random(1)).is_none());
        keys.add_log(line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 1).as_bytes());
        let bytes = |label, of| {
            ring.secrets(&random(of))?.get(label).map(Secret::bytes).map(<[u8]>::to_vec)
        };
        assert_eq!(bytes(Label::ClientHandshake, 1), Some(vec![7, 0xff]));
        let half = KEYS_MAX as u32 / 2;
        for connection in 2..=half {
            keys.add_log(line("CLIENT_RANDOM", connection).as_bytes());
        }
        // The next secret of the first connection is in another generation than the one before.
        keys.add_log(line("CLIENT_TRAFFIC_SECRET_0", 1).as_bytes());
        assert!(bytes(Label::ClientHandshake, 1).is_some() && bytes(Label::Client, 1).is_some());
        for connection in half + 1..=2 * half {
            keys.add_log(line("CLIENT_RANDOM", connection).as_bytes());
        }
        assert!(bytes(Label::Master, 2).is_none(), "the oldest");
        assert!(bytes(Label::Master, 2 * half).is_some());
    }
}
