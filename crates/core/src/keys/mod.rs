//! Secrets of TLS connections that their owner has handed over, and the records that they open; the keys
//! of QUIC's Initial packets, which are no secret ([`quic`]).
//!
//! Read first: RFC 9850 (the format of key logs, `SSLKEYLOGFILE`), RFC 8446 §5 and §7 (records and keys
//! of TLS 1.3), RFC 5246 §6 (the same of TLS 1.2).
//!
//! ```text
//! key log ─► Keys ─► Secrets of one connection ─► Protection of one direction ─► plain record
//! ```
//!
//! No secret has a `Debug` form or is serialized, and each is wiped when it is dropped.

mod log;
mod protection;
mod quic;
mod ring;
mod schedule;
mod secret;
mod suite;

pub use protection::{HEADER_BYTES, PlainRecord, Protection, Tls12};
pub use quic::{InitialKeys, OpenedPacket, PacketKeys, QuicVersion};
pub use ring::{GrowingKeys, Keyring};
pub use secret::Secret;
pub use suite::{Suite, Version};

use std::collections::HashMap;
use std::fmt;

/// The random value of a ClientHello, by which a key log names a connection (RFC 9850 §2).
pub type Random = [u8; 32];

/// Maximum number of connections whose secrets are kept. They take 400 bytes each, so 26 MB together;
/// [`Keys::left_out`] counts the rest.
pub const KEYS_MAX: usize = 1 << 16;

/// The purpose of a secret, as the label in a key log states it (RFC 9850 §2.1, §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The master secret of TLS 1.2.
    Master,
    /// The client's early data.
    ClientEarly,
    /// The client's handshake messages.
    ClientHandshake,
    /// The server's handshake messages.
    ServerHandshake,
    /// The client's application data, up to the first key update.
    Client,
    /// The server's application data, up to the first key update.
    Server,
}

impl Label {
    const ALL: [(Self, &'static [u8]); 6] = [
        (Self::Master, b"CLIENT_RANDOM"),
        (Self::ClientEarly, b"CLIENT_EARLY_TRAFFIC_SECRET"),
        (Self::ClientHandshake, b"CLIENT_HANDSHAKE_TRAFFIC_SECRET"),
        (Self::ServerHandshake, b"SERVER_HANDSHAKE_TRAFFIC_SECRET"),
        (Self::Client, b"CLIENT_TRAFFIC_SECRET_0"),
        (Self::Server, b"SERVER_TRAFFIC_SECRET_0"),
    ];

    fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(label, _)| label)
    }
}

/// The secrets of one connection.
#[derive(Clone, Default)]
pub struct Secrets([Option<Secret>; Label::ALL.len()]);

impl Secrets {
    /// Returns the secret with this label.
    pub fn get(&self, label: Label) -> Option<&Secret> {
        self.0[label as usize].as_ref()
    }
}

/// The secrets of many connections.
#[derive(Clone, Default)]
pub struct Keys {
    /// In boxes: a table that grows leaves no copies of them behind.
    of: HashMap<Random, Box<Secrets>>,
    /// Number of secrets.
    count: u64,
    left_out: u64,
}

impl Keys {
    /// Returns the secrets of the connection whose ClientHello has this random value.
    pub fn get(&self, client_random: &Random) -> Option<&Secrets> {
        self.of.get(client_random).map(|secrets| &**secrets)
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Number of secrets.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds copies of all secrets of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (client_random, secrets) in &other.of {
            for (label, _) in Label::ALL {
                if let Some(secret) = secrets.get(label) {
                    self.add(*client_random, label, secret.clone());
                }
            }
        }
        self.left_out += other.left_out;
    }

    /// Number of secrets that were left out, of connections beyond [`KEYS_MAX`].
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn add(&mut self, client_random: Random, label: Label, secret: Secret) {
        if self.of.len() >= KEYS_MAX && !self.of.contains_key(&client_random) {
            self.left_out += 1;
            return;
        }
        let place = &mut self.of.entry(client_random).or_default().0[label as usize];
        self.count += u64::from(place.is_none());
        *place = Some(secret);
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "keys of {} connections", self.of.len())
    }
}
