//! The content of TLS records, where the secrets of their connection are known.
//!
//! Read first: RFC 8446 §4.4.4, §4.5, §4.6.3 and §7.1 (which messages change the keys), RFC 5246 §7.1.
//!
//! ```text
//! TLS 1.3  hello ─► [early data ─► EndOfEarlyData] ─► handshake ─► Finished ─► application ⟲ KeyUpdate
//! TLS 1.2  hello ─► ChangeCipherSpec ─► application
//! ```
//!
//! A record is opened once its last byte has come. Its application data goes to a framer of its own,
//! as if it had been sent in clear. Where the messages that change keys are not in the capture, the next
//! keys are tried: a record that they open shows that they are right.

use super::messages::Messages;
use super::{APPLICATION_DATA, HANDSHAKE, HEADER_BYTES};
use crate::app::exchanges::Feed;
use crate::app::framer::Framer;
use crate::app::hello::{ServerHello, client_random};
use crate::keys::{
    Keyring, Label, PlainRecord, Protection, Random, Secrets, Suite, Tls12, Version,
};
use crate::wire::{BySide, Side};
use std::ops::Range;
use zeroize::Zeroize;

/// Types of handshake messages that change keys (RFC 8446 §4).
const END_OF_EARLY_DATA: u8 = 5;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;

/// Whether what a TLS connection carries can be read, where keys were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// It carries no TLS, or no keys were given.
    #[default]
    NotTried,
    /// The keys are known.
    Open,
    /// There were keys, and a part of the capture is missing from which on nothing could be opened.
    OpenToHole,
    /// The handshake is not in the capture, or not all of it.
    NoHandshake,
    /// No secret of this connection was given.
    NoKey,
    /// The cipher suite or the version is not supported.
    Suite,
    /// A record could not be opened with the secrets that were given.
    WrongKey,
}

/// The content of a record.
pub(in crate::app) enum Content {
    /// A handshake record that is not encrypted.
    Clear,
    /// Handshake messages.
    Handshake {
        /// The last one is the Finished of its sender.
        is_finished: bool,
    },
    /// Application data, at this place in the record's body.
    Application(Range<usize>),
    /// An alert, or something else that belongs to no exchange.
    Aside,
}

/// The keys of a direction in the order of their use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Epoch {
    Clear,
    Early,
    Handshake,
    Application,
}

impl Epoch {
    /// Returns the epochs that may follow.
    fn following(self) -> &'static [Self] {
        match self {
            Self::Clear => &[Self::Early, Self::Handshake, Self::Application],
            Self::Early => &[Self::Handshake, Self::Application],
            Self::Handshake => &[Self::Application],
            Self::Application => &[],
        }
    }
}

/// One direction.
#[derive(Clone)]
struct Direction {
    /// The bytes so far of the record in progress.
    record: Vec<u8>,
    /// Length of that record with its header; 0 if there is none.
    record_bytes: usize,
    /// Place of its first byte in the push, 0 if it is in an earlier one.
    start: usize,
    epoch: Epoch,
    protection: Option<Protection>,
    messages: Messages,
}

impl Default for Direction {
    fn default() -> Self {
        Self {
            record: Vec::new(),
            record_bytes: 0,
            start: 0,
            epoch: Epoch::Clear,
            protection: None,
            messages: Messages::default(),
        }
    }
}

/// Opened records are wiped, also where the connection ends within one.
impl Drop for Direction {
    fn drop(&mut self) {
        self.record.zeroize();
    }
}

/// A connection whose secrets are known, or may be once its hellos have passed.
#[derive(Clone)]
pub(in crate::app) struct Inside {
    keys: Keyring,
    client_random: Option<Random>,
    server_hello: Option<ServerHello>,
    suite: Option<Suite>,
    directions: BySide<Direction>,
    /// The client's early data turned out to be rejected: it goes out again.
    repeats_early_data: bool,
    /// The framer of the application data.
    pub framer: Framer,
}

impl Inside {
    /// Creates the state for a connection whose ClientHello follows. `framer` gets its content.
    pub fn new(keys: Keyring, framer: Framer) -> Self {
        Self {
            keys,
            client_random: None,
            server_hello: None,
            suite: None,
            directions: Default::default(),
            repeats_early_data: false,
            framer,
        }
    }

    /// Returns the bytes of heap memory in use, with those of its ciphers.
    pub fn heap_bytes(&self) -> usize {
        /// The greatest cipher state: the round keys of AES-256 and the powers of GHASH's key.
        const CIPHER_BYTES: usize = 2048;
        let records = self.directions.iter().map(|it| it.record.capacity() + CIPHER_BYTES);
        records.sum::<usize>() + self.framer.heap_bytes()
    }

    /// Returns the ServerHello, once it has passed.
    pub fn server_hello(&self) -> Option<&ServerHello> {
        self.server_hello.as_ref()
    }

    /// Returns whether the version is TLS 1.3, as far as it is known.
    pub fn is_tls13(&self) -> bool {
        self.suite.map(Suite::version) != Some(Version::Tls12)
    }

    /// Returns whether a record of `from` is being collected.
    pub fn is_collecting(&self, from: Side) -> bool {
        self.directions[from].record_bytes > 0
    }

    /// Number of bytes that the record of `from` in progress lacks.
    pub fn lacking_bytes(&self, from: Side) -> u64 {
        let Direction { record, record_bytes, .. } = &self.directions[from];
        record_bytes.saturating_sub(record.len()) as u64
    }

    /// Returns the content type in the header of the record of `from` in progress, and its length.
    pub fn header(&self, from: Side) -> (u8, u16) {
        match self.directions[from].record.first_chunk() {
            Some(&[content, _, _, high, low]) => (content, u16::from_be_bytes([high, low])),
            None => (0, 0),
        }
    }

    /// Returns whether records of `from` with this content type are encrypted.
    pub fn is_protected(&self, from: Side, content: u8) -> bool {
        match self.is_tls13() {
            true => content == APPLICATION_DATA,
            false => self.directions[from].epoch == Epoch::Application,
        }
    }

    /// Begins to collect a record of `from` with this `header`, which begins at `start` of the push.
    pub fn begin(&mut self, from: Side, header: &[u8; HEADER_BYTES], start: usize) {
        let direction = &mut self.directions[from];
        direction.record.zeroize();
        direction.record.extend_from_slice(header);
        let [.., high, low] = *header;
        direction.record_bytes = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        direction.start = start;
    }

    /// Records that what follows of `from` is in another push than the beginning of its record.
    pub fn continue_push(&mut self, from: Side) {
        self.directions[from].start = 0;
    }

    /// Takes bytes of the record in progress; returns whether it is complete.
    pub fn collect(&mut self, from: Side, feed: &mut Feed<'_>) -> bool {
        let lacking = self.lacking_bytes(from) as usize;
        let bytes = feed.rest();
        let bytes = &bytes[..bytes.len().min(lacking)];
        self.directions[from].record.extend_from_slice(bytes);
        feed.pos += bytes.len();
        bytes.len() == lacking
    }

    /// Processes the ChangeCipherSpec of `from`.
    pub fn change_cipher_spec(&mut self, from: Side) -> Result<(), Opening> {
        if !self.is_tls13() {
            let next = self.protections(from, Epoch::Application).into_iter().next();
            let direction = &mut self.directions[from];
            direction.protection = Some(next.ok_or(Opening::NoKey)?);
            direction.epoch = Epoch::Application;
        }
        Ok(())
    }

    /// Opens the record of `from`, which is complete.
    ///
    /// # Errors
    /// The reason why nothing more of the connection can be opened.
    pub fn take(&mut self, from: Side) -> Result<Content, Opening> {
        self.directions[from].record_bytes = 0;
        let (content, _) = self.header(from);
        if !self.is_protected(from, content) {
            self.read_hello(from)?;
            return Ok(Content::Clear);
        }
        let PlainRecord { content, range } = self.open(from).ok_or(Opening::WrongKey)?;
        match content {
            APPLICATION_DATA => Ok(Content::Application(range)),
            HANDSHAKE => Ok(Content::Handshake { is_finished: self.follow(from, range)? }),
            _ => Ok(Content::Aside),
        }
    }

    /// Reads what the keys depend on in the first handshake record of `from`.
    fn read_hello(&mut self, from: Side) -> Result<(), Opening> {
        let body = self.directions[from].record.get(HEADER_BYTES..).unwrap_or_default();
        match from {
            Side::Client if self.client_random.is_none() => {
                let random = client_random(body).ok_or(Opening::NoHandshake)?;
                self.client_random = Some(random);
                if !self.keys.grows() {
                    self.secrets().ok_or(Opening::NoKey)?;
                }
            }
            Side::Server if self.server_hello.is_none_or(|hello| hello.is_retry) => {
                let hello = ServerHello::read(body).ok_or(Opening::NoHandshake)?;
                self.server_hello = Some(hello);
                if !hello.is_retry {
                    self.suite = Some(suite_of(&hello).ok_or(Opening::Suite)?);
                    if hello.is_tls13 {
                        self.secrets().ok_or(Opening::NoKey)?;
                        self.advance(Side::Server, Epoch::Handshake);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn secrets(&self) -> Option<Secrets> {
        self.keys.secrets(self.client_random.as_ref()?)
    }

    /// Returns the protections that `from` may use in `epoch`: one, or none if no secret is known. The
    /// suite of early data may be one of two.
    fn protections(&self, from: Side, epoch: Epoch) -> Vec<Protection> {
        let (Some(secrets), Some(client_random)) = (self.secrets(), &self.client_random) else {
            return Vec::new();
        };
        let label = match (from, epoch) {
            (Side::Client, Epoch::Early) => Label::ClientEarly,
            (Side::Client, Epoch::Handshake) => Label::ClientHandshake,
            (Side::Client, Epoch::Application) => Label::Client,
            (Side::Server, Epoch::Handshake) => Label::ServerHandshake,
            (Side::Server, Epoch::Application) => Label::Server,
            _ => return Vec::new(),
        };
        match (self.suite, &self.server_hello, secrets.get(label)) {
            (Some(suite), Some(hello), _) if suite.version() == Version::Tls12 => {
                let server_random = &hello.random;
                let encrypt_then_mac = hello.has_encrypt_then_mac;
                let of = Tls12 { client_random, server_random, encrypt_then_mac };
                Protection::tls12(suite, &secrets, of, from == Side::Client).into_iter().collect()
            }
            (_, _, None) => Vec::new(),
            (_, _, Some(secret)) if epoch == Epoch::Early => {
                let suites = Suite::with_secrets_of(secret.bytes().len());
                suites.filter_map(|suite| Protection::tls13(suite, secret)).collect()
            }
            (Some(suite), _, Some(secret)) => {
                Protection::tls13(suite, secret).into_iter().collect()
            }
            (None, _, Some(_)) => Vec::new(),
        }
    }

    /// Changes the keys of `from` to those of `epoch`, if they are known.
    fn advance(&mut self, from: Side, epoch: Epoch) {
        let protection = self.protections(from, epoch).into_iter().next();
        let direction = &mut self.directions[from];
        (direction.epoch, direction.protection) = (epoch, protection);
        direction.messages = Messages::default();
    }

    /// Opens the record of `from` in place with the keys in use, or with later ones.
    fn open(&mut self, from: Side) -> Option<PlainRecord> {
        let Direction { record, protection, epoch, .. } = &mut self.directions[from];
        let (header, body) = record.split_first_chunk_mut()?;
        if let Some(opened) = protection.as_mut().and_then(|it| it.open(header, body)) {
            return Some(opened);
        }
        let before = *epoch;
        for &next in before.following() {
            for mut protection in self.protections(from, next) {
                let direction = &mut self.directions[from];
                let (header, body) = direction.record.split_first_chunk_mut()?;
                if let Some(opened) = protection.open(header, body) {
                    (direction.epoch, direction.protection) = (next, Some(protection));
                    direction.messages = Messages::default();
                    // RFC 8446 §4.2.10: no EndOfEarlyData ended it.
                    self.repeats_early_data = before == Epoch::Early;
                    return Some(opened);
                }
            }
        }
        None
    }

    /// Follows the handshake messages in `range` of the record of `from`; returns whether the last is
    /// its Finished.
    fn follow(&mut self, from: Side, range: Range<usize>) -> Result<bool, Opening> {
        let Direction { record, messages, epoch, .. } = &mut self.directions[from];
        let bytes = record.get(HEADER_BYTES..).and_then(|body| body.get(range));
        let (epoch, mut last) = (*epoch, None);
        messages.take(bytes.unwrap_or_default(), |kind| last = Some(kind));
        match (last, epoch) {
            (Some(END_OF_EARLY_DATA), Epoch::Early) => self.advance(from, Epoch::Handshake),
            (Some(FINISHED), Epoch::Handshake) => {
                self.advance(from, Epoch::Application);
                self.directions[from].protection.as_ref().ok_or(Opening::NoKey)?;
                return Ok(true);
            }
            (Some(KEY_UPDATE), Epoch::Application) if self.is_tls13() => {
                self.directions[from].protection.iter_mut().for_each(Protection::update);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Passes the application data at `range` of the body of the record of `from` to the framer.
    pub fn pass(&mut self, from: Side, range: Range<usize>, feed: &mut Feed<'_>) {
        if from == Side::Client && std::mem::take(&mut self.repeats_early_data) {
            self.framer.restart();
            feed.expect_repetition();
        }
        let Self { directions, framer, .. } = self;
        let Direction { record, start, .. } = &mut directions[from];
        let bytes = record.get(HEADER_BYTES..).and_then(|body| body.get(range));
        framer.parse_carried(from, bytes.unwrap_or_default(), 0, *start, feed);
        record.zeroize();
    }

    /// Processes the loss of the record of `from` in progress, of which bytes are missing.
    ///
    /// # Errors
    /// The reason why nothing more of the connection can be opened.
    pub fn lose(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<(), Opening> {
        let (content, length) = self.header(from);
        let is_protected = self.is_protected(from, content);
        let Self { directions, framer, .. } = self;
        let Direction { record, record_bytes, protection, epoch, messages, .. } =
            &mut directions[from];
        (*record_bytes, *messages) = (0, Messages::default());
        record.zeroize();
        let protection = protection.as_mut().filter(|_| is_protected);
        let protection = protection.ok_or(Opening::NoHandshake)?;
        protection.pass_over(1);
        if *epoch == Epoch::Application {
            let missing = u64::from(length).saturating_sub(protection.overhead_bytes()) as u32;
            framer.parse_carried(from, &[], missing, feed.pos, feed);
        }
        Ok(())
    }
}

/// Returns the suite that a ServerHello chooses, if it and the version are supported.
fn suite_of(hello: &ServerHello) -> Option<Suite> {
    const TLS12: [u8; 2] = [3, 3];
    let suite = Suite::of(hello.suite).filter(|_| hello.is_plain && hello.version == TLS12)?;
    let is_tls13 = suite.version() == Version::Tls13;
    (is_tls13 == hello.is_tls13).then_some(suite)
}
