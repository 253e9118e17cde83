//! TLS records (RFC 8446 §5, RFC 5246 §6.2): handshake phases, then turns of application data.
//!
//! Record headers are readable whatever the snap length is, and are mostly sufficient. Besides them only the hellos
//! are read: they show whether TLS 1.3 resumes a session ([`ServerHello`]), and whether the content is HTTP/2, whose
//! settings are no exchange ([`http2`]). Opened records show what else follows from their size ([`inside`]).
//! - A ClientHello may have the format of SSL 2.0 (RFC 5246 §E.2).
//! - TLS 1.3 is recognised by encrypted server records before the client's Finished.
//! - A TLS 1.3 session is resumed if its ServerHello chooses a pre-shared key; if that cannot be
//!   read, if these records are too short for a certificate. A TLS 1.2 session is resumed if the
//!   server changes ciphers first.
//! - A Finished is recognised by its size, and in a full handshake up to TLS 1.2 by its place (RFC 5246 §7.4.9).
//! - A TLS 1.3 client that has to show a certificate sends its flight (RFC 8446 §4.4: Certificate,
//!   CertificateVerify, Finished) at once, in a record for each message or all in one. So the first
//!   record ends the handshake, and what follows is the rest of the flight only if it has its size.
//!
//! ```text
//! ClientHello ─► server's flight ─► client's flight ─┬─ Finished ────────────────────► application
//!                                                    └─ Certificate ─► [CertificateVerify]
//!                                                                        ─► [Finished] ─► application
//! ```

mod http2;
mod inside;
mod messages;
mod opening;

pub(super) use http2::NAME as HTTP2;
pub(super) use inside::Inside;
pub use inside::Opening;

use super::error_code::ErrorCode;
use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::hello::{ClientHello, ServerHello};
use super::kind::digest;
use crate::wire::{BySide, Side};
use http2::Http2;

const HEADER_BYTES: usize = 5;
/// Maximum length of a record, bytes: RFC 5246 §6.2.3, the larger of the versions' limits.
const RECORD_MAX: u16 = (1 << 14) + 2048;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;

/// Size of an alert that is not encrypted: level and description.
const ALERT_BYTES: u16 = 2;

/// Size of an encrypted TLS 1.3 alert: two bytes, the content type, a 16-byte tag (RFC 8446 §5.2).
const ALERT_RECORD: u16 = 2 + 1 + 16;
/// Sizes of an encrypted TLS 1.3 Finished with SHA-256 and with SHA-384.
const FINISHED_RECORDS: [u16; 2] = [4 + 32 + 1 + 16, 4 + 48 + 1 + 16];
/// Bytes of a TLS 1.3 handshake record around its messages: content type and tag (RFC 8446 §5.2).
const RECORD_OVERHEAD: u16 = 1 + 16;
/// Bytes of a Certificate without certificates (RFC 8446 §4.4.2): header, context, list.
const EMPTY_CERTIFICATE: u16 = 4 + 1 + 3;
/// Bytes of a CertificateVerify around its signature (RFC 8446 §4.4.3): header, algorithm, length.
const VERIFY_OVERHEAD: u16 = 4 + 2 + 2;
/// Sizes of signatures: Ed25519 and Ed448, ECDSA with P-256, P-384 and P-521 (in DER, with up to four
/// bytes less for values with leading zeros), RSA with 2,048, 3,072 and 4,096 bits.
const SIGNATURES: [std::ops::RangeInclusive<u16>; 8] =
    [64..=64, 114..=114, 68..=72, 100..=104, 135..=139, 256..=256, 384..=384, 512..=512];
/// Maximum size of an encrypted TLS 1.2 Finished with any cipher suite, if it is not padded further; a
/// ClientHello is longer.
const FINISHED_TLS12_MAX: u16 = 96;
/// Maximum number of bytes read of a hello: with a key share of 1,216 bytes (X25519MLKEM768) and an encrypted
/// hello within (RFC 9849), that of a client has 2.3 KB.
const HELLO_MAX_BYTES: usize = 4096;
/// Size limit of a server's encrypted flight that resumes a session: EncryptedExtensions and
/// Finished alone are shorter, the smallest certificate with its CertificateVerify is longer.
const RESUMED_MAX_BYTES: u32 = 400;
/// Sizes of a NewSessionTicket's record, and the maximum number that a server sends.
const TICKET_RECORDS: std::ops::RangeInclusive<u16> = 40..=600;
const TICKETS_MAX: u8 = 4;
/// Ports on which servers send a greeting after the handshake (RFC 8314 and others), which may have
/// the size of a ticket.
const GREETING_PORTS: [u16; 6] = [465, 563, 990, 992, 993, 995];
/// Maximum number of records of a client's certificate flight.
const CLIENT_FLIGHT_MAX: u8 = 4;

/// Returns whether `bytes` begin a ClientHello that is alone in its record, or goes on in the next
/// (RFC 8446 §4, §5.1).
pub(super) fn begins_with_hello(bytes: &[u8]) -> bool {
    const CLIENT_HELLO: u8 = 1;
    const MESSAGE_HEADER_BYTES: u32 = 4;
    match *bytes {
        [HANDSHAKE, 3, 0..=4, high, low, CLIENT_HELLO, 0, mid, least, ..] => {
            let record = u32::from(u16::from_be_bytes([high, low]));
            u32::from(u16::from_be_bytes([mid, least])) + MESSAGE_HEADER_BYTES >= record
        }
        _ => false,
    }
}

/// Returns whether `bytes` are a record that ends a connection, and so belongs to no exchange.
pub(super) fn begins_with_alert(bytes: &[u8]) -> bool {
    match *bytes {
        [ALERT, 3, ..] => true,
        [APPLICATION_DATA, 3, _, high, low, ..] => u16::from_be_bytes([high, low]) == ALERT_RECORD,
        _ => false,
    }
}

/// Returns how many bytes follow `header` in a ClientHello in the format of SSL 2.0, of which it is the
/// beginning (RFC 5246 §E.2). Its length has the first bit set, which no content type has.
fn rest_of_old_hello(header: &[u8; HEADER_BYTES]) -> Option<u64> {
    let [high, low, kind, major, _] = *header;
    let length = u64::from(u16::from_be_bytes([high & 0x7f, low]));
    (high & 0x80 != 0 && kind == 1 && major == 3).then(|| length.saturating_sub(3))
}

/// Returns whether a record of `length` bytes holds a Certificate with a certificate, and perhaps what
/// follows it: it is longer than each other record of a client's flight, and no part of a message
/// that needs several records.
fn holds_certificate(length: u16) -> bool {
    let longest_other = FINISHED_RECORDS[1] + EMPTY_CERTIFICATE;
    (longest_other + 1..(1 << 14) + RECORD_OVERHEAD).contains(&length)
}

/// Returns whether a record of `length` bytes may be a CertificateVerify.
fn is_verify(length: u16) -> bool {
    let signature = length.saturating_sub(VERIFY_OVERHEAD + RECORD_OVERHEAD);
    SIGNATURES.iter().any(|sizes| sizes.contains(&signature))
}

/// Returns whether a record of `length` bytes may end with a Finished, alone or behind an empty
/// Certificate.
fn is_finished(length: u16) -> bool {
    FINISHED_RECORDS.iter().any(|&one| length == one || length == one + EMPTY_CERTIFICATE)
}

/// Both directions of a TLS connection.
#[derive(Clone, Default)]
pub(super) struct Tls {
    readers: BySide<RecordReader>,
    done: bool,
    tls13: bool,
    /// Both streams were captured from their beginning.
    whole: bool,
    /// The server changed ciphers first: the handshake is abbreviated.
    server_first: bool,
    /// The client sent its key before it changed ciphers: the handshake is a full one up to TLS 1.2.
    key_exchanged: bool,
    /// Bytes of the server's records before the client answered them.
    server_flight_bytes: u32,
    /// Part of `server_flight_bytes` in encrypted records.
    server_encrypted_bytes: u32,
    client_encrypted_records: u8,
    /// The message that the client's flight may continue with after its first record.
    flight: Flight,
    tickets: Tickets,
    /// The records that begin with a hello, while they are being read.
    reading: BySide<Option<Box<Reading>>>,
    http2: Http2,
    /// A hash of the name of the server that the client asks for (RFC 6066 §3); 0 if it is unknown.
    pub server_name: u64,
    /// The server's TLS 1.3 ServerHello resumes a session; `None` if it was not read.
    resumes_session: Option<bool>,
    /// The server asked for another ClientHello, which has not come yet.
    wants_hello: bool,
    /// The server sent something other than tickets before the first request.
    greets: bool,
    /// The content of the records, if there are keys.
    inside: Option<Box<Inside>>,
    /// Whether the content can be read, and if not, why.
    opening: Opening,
}

/// A record whose first bytes have to be read.
#[derive(Clone)]
struct Reading {
    bytes: Vec<u8>,
    wanted: usize,
    record_bytes: usize,
}

/// Reads the records of one direction.
#[derive(Clone, Default)]
struct RecordReader {
    header: [u8; HEADER_BYTES],
    have: u8,
    changed_cipher: bool,
    finished: bool,
    /// The handshake is complete once the current record has passed.
    ends_handshake: bool,
    /// An alert that is being read: its level, once that has passed.
    alert: Option<Option<u8>>,
}

/// The messages that a TLS 1.3 client may still send before its handshake is complete, after its
/// certificate (RFC 8446 §2).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Flight {
    /// Nothing.
    #[default]
    Over,
    /// Perhaps a CertificateVerify, or a Finished behind one in the record before.
    Verify,
    /// Perhaps a Finished.
    Finished,
}

/// The NewSessionTickets that a TLS 1.3 server sends after the client's Finished (RFC 8446 §4.6.1).
/// They look like application data; nearly every server sends them, all of the same size.
#[derive(Clone, Copy, Default)]
enum Tickets {
    #[default]
    None,
    Expected,
    Seen {
        record_bytes: u16,
        count: u8,
        /// A request was under way when the last one came.
        behind_request: bool,
    },
}

impl Tls {
    /// Creates the state. With `handshake_seen` the following bytes begin with a ClientHello;
    /// otherwise the connection began before the capture. If the streams are not `whole`, the first bytes
    /// of the server that were captured need not begin its answer.
    pub fn new(handshake_seen: bool, whole: bool) -> Self {
        // Without a handshake the version is unknown. No request is as short as an alert.
        Self { done: !handshake_seen, tls13: !handshake_seen, whole, ..Self::default() }
    }

    /// Returns whether the next byte of `from` is read although it is not part of a header.
    pub fn is_reading(&self, from: Side) -> bool {
        self.reading[from].is_some()
    }

    /// Returns whether the handshake is complete once the current record of `from` has passed.
    #[inline]
    pub fn ends_handshake(&self, from: Side) -> bool {
        self.readers[from].ends_handshake
    }

    /// Returns whether `bytes`, the next of the client, are one record that ends the connection.
    pub fn is_goodbye(&self, bytes: &[u8]) -> bool {
        let [content, major, _, high, low, ..] = *bytes else { return false };
        let length = u16::from_be_bytes([high, low]);
        let is_alert =
            content == ALERT || content == APPLICATION_DATA && self.tls13 && length == ALERT_RECORD;
        self.done
            && self.readers[Side::Client].have == 0
            && is_alert
            && major == 3
            && bytes.len() == HEADER_BYTES + usize::from(length)
    }

    /// Parses the bytes of `feed` from one side.
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        self.end_handshake_behind(from, feed);
        if let Some(inside) = &mut self.inside {
            inside.continue_push(from);
        }
        loop {
            if let Some(inside) = self.inside.as_mut().filter(|it| it.is_collecting(from)) {
                if !inside.collect(from, feed) {
                    return Ok(Next::More);
                }
                self.take_record(from, feed)?;
                continue;
            }
            if self.reading[from].is_some() {
                match self.read(from, feed) {
                    None => return Ok(Next::More),
                    Some(0) => {}
                    Some(rest) => return Ok(Next::Skip(rest)),
                }
            }
            let reader = &mut self.readers[from];
            while let Some(level) = reader.alert {
                let Some(byte) = feed.byte() else { return Ok(Next::More) };
                reader.alert = level.is_none().then_some(Some(byte));
                if let Some(code) = level.and_then(|level| ErrorCode::of_alert(from, level, byte)) {
                    feed.handshake_error(code);
                }
            }
            while usize::from(reader.have) < HEADER_BYTES {
                let Some(byte) = feed.byte() else {
                    return Ok(Next::More);
                };
                reader.header[usize::from(reader.have)] = byte;
                reader.have += 1;
            }
            reader.have = 0;
            if let Some(length) = rest_of_old_hello(&reader.header)
                && from == Side::Client
                && !self.done
                && self.server_flight_bytes == 0
            {
                feed.handshake_start();
                return Ok(Next::Skip(length));
            }
            let [content, major, _, length @ ..] = reader.header;
            let length = u16::from_be_bytes(length);
            if major != 3 || length > RECORD_MAX {
                // Zeros are padding that a tool took for data.
                let is_answer = from == Side::Server
                    && self.whole
                    && !self.done
                    && self.server_flight_bytes == 0
                    && reader.header != [0; HEADER_BYTES];
                if is_answer && !(CHANGE_CIPHER_SPEC..=HEARTBEAT).contains(&content) {
                    feed.handshake_error(ErrorCode::NoTls);
                }
                return Err(Lost);
            }
            if self.begins_to_collect(from, feed)? {
                continue;
            }
            self.record(from, content, length, feed)?;
            let is_read = self.reading[from].is_some() || self.readers[from].alert.is_some();
            if length > 0 && !is_read {
                return Ok(Next::Skip(u64::from(length)));
            }
        }
    }

    /// Ends the handshake if the record of `from` that has passed completes it.
    fn end_handshake_behind(&mut self, from: Side, feed: &mut Feed<'_>) {
        if std::mem::take(&mut self.readers[from].ends_handshake) {
            self.handshake_end(feed);
        }
    }

    /// Begins to read the hello that the next record of `from` may be.
    fn begin_reading(&mut self, from: Side, length: u16) {
        if self.inside.is_none() && length > 0 {
            let record_bytes = usize::from(length);
            let wanted = record_bytes.min(HELLO_MAX_BYTES);
            self.reading[from] =
                Some(Box::new(Reading { bytes: Vec::new(), wanted, record_bytes }));
        }
    }

    /// Reads the hello of `from`. Once it is complete, returns the number of bytes of its record that
    /// are still missing.
    fn read(&mut self, from: Side, feed: &mut Feed<'_>) -> Option<u64> {
        let reading = self.reading[from].as_mut()?;
        let lacks = reading.wanted - reading.bytes.len();
        let taken = feed.rest();
        let taken = &taken[..taken.len().min(lacks)];
        reading.bytes.extend_from_slice(taken);
        feed.pos += taken.len();
        if taken.len() < lacks {
            return None;
        }
        let Reading { bytes, wanted, record_bytes } = *self.reading[from].take()?;
        match from {
            Side::Client => {
                if let Some(hello) = ClientHello::read(&bytes) {
                    self.http2.offered(&hello);
                    self.server_name = hello
                        .server_name
                        .map_or(0, |name| digest(name.to_ascii_lowercase().as_bytes()));
                }
            }
            Side::Server => {
                if let Some(hello) = ServerHello::read(&bytes) {
                    self.server_hello(&hello);
                }
            }
        }
        Some((record_bytes - wanted) as u64)
    }

    /// Returns whether the client named no version of HTTP.
    pub fn lacks_http(&self) -> bool {
        self.http2.lacks_http()
    }

    /// Processes a ServerHello.
    fn server_hello(&mut self, hello: &ServerHello) {
        self.resumes_session = hello.resumes_session().or(self.resumes_session);
        self.wants_hello |= hello.is_retry;
        self.http2.chosen(hello);
    }

    /// Processes missing bytes: hellos and an alert are dispensable.
    #[cold]
    #[inline(never)]
    pub fn gap(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        if let Some(rest) = self.lose_record(from, feed) {
            return Ok(Next::Skip(rest));
        }
        if let Some(level) = self.readers[from].alert.take() {
            return Ok(Next::Skip(u64::from(ALERT_BYTES) - u64::from(level.is_some())));
        }
        let reading = self.reading[from].take().ok_or(Lost)?;
        Ok(Next::Skip((reading.record_bytes - reading.bytes.len()) as u64))
    }

    fn record(
        &mut self,
        from: Side,
        content: u8,
        length: u16,
        feed: &mut Feed<'_>,
    ) -> Result<(), Lost> {
        match content {
            CHANGE_CIPHER_SPEC if !self.done => self.change_cipher_spec(from),
            HANDSHAKE if !self.done => self.handshake(from, length, feed),
            APPLICATION_DATA if !self.done => self.encrypted_handshake(from, length, feed),
            APPLICATION_DATA => self.application_data(from, length, feed),
            ALERT if !self.done && length == ALERT_BYTES => {
                feed.aside();
                self.readers[from].alert = Some(None);
            }
            CHANGE_CIPHER_SPEC | ALERT | HANDSHAKE | HEARTBEAT => feed.aside(),
            _ => return Err(Lost),
        }
        Ok(())
    }

    fn change_cipher_spec(&mut self, from: Side) {
        self.readers[from].changed_cipher = true;
        if from == Side::Server && !self.readers[Side::Client].changed_cipher {
            self.server_first = true;
        }
    }

    /// Processes the second ClientHello. What came before it, such as the change of ciphers that old middleboxes
    /// expect (RFC 8446 §D.4), is no part of the server's answer.
    fn begin_again(&mut self, feed: &mut Feed<'_>) {
        feed.hello_again();
        self.server_first = false;
        self.server_flight_bytes = 0;
        self.readers.iter_mut().for_each(|reader| reader.changed_cipher = false);
    }

    fn handshake(&mut self, from: Side, length: u16, feed: &mut Feed<'_>) {
        if from == Side::Client && self.server_flight_bytes == 0 {
            feed.handshake_start();
            self.begin_reading(from, length);
        }
        if from == Side::Client && std::mem::take(&mut self.wants_hello) {
            return self.begin_again(feed);
        }
        let answered = self.readers[Side::Client].changed_cipher;
        if from == Side::Client && !answered && self.server_flight_bytes > 0 {
            self.key_exchanged = true;
        }
        if from == Side::Server && !answered {
            self.server_flight_bytes += u32::from(length) + HEADER_BYTES as u32;
            if self.resumes_session.is_none() {
                self.begin_reading(from, length);
            }
        }
        let reader = &mut self.readers[from];
        if reader.changed_cipher && (length <= FINISHED_TLS12_MAX || self.key_exchanged) {
            reader.finished = true;
            let both = self.readers.iter().all(|reader| reader.finished);
            self.readers[from].ends_handshake = both;
        }
    }

    /// Processes application data before the handshake is known to be over.
    fn encrypted_handshake(&mut self, from: Side, length: u16, feed: &mut Feed<'_>) {
        let changed_cipher = self.readers[from].changed_cipher;
        match from {
            // The client's flight contained no record that looks like a Finished.
            Side::Server if self.client_encrypted_records > 0 => {
                self.handshake_end(feed);
                self.application_data(from, length, feed);
            }
            Side::Server => self.count_encrypted_flight(length),
            Side::Client if self.tls13 => {
                self.client_encrypted_records += 1;
                let last = self.client_encrypted_records == CLIENT_FLIGHT_MAX;
                let certificate = self.client_encrypted_records == 1 && holds_certificate(length);
                if certificate {
                    self.flight = Flight::Verify;
                }
                let ends = last || certificate || is_finished(length);
                self.readers[from].ends_handshake = ends;
            }
            // Early data (RFC 8446 §2.3), or a TLS 1.2 client that does not wait for the
            // server's Finished (RFC 7918).
            Side::Client => {
                self.tls13 = self.server_flight_bytes == 0 || !changed_cipher;
                self.handshake_end(feed);
                self.application_data(from, length, feed);
            }
        }
    }

    /// Counts an encrypted record of the server's flight, which only TLS 1.3 has.
    fn count_encrypted_flight(&mut self, length: u16) {
        self.tls13 = true;
        let bytes = u32::from(length) + HEADER_BYTES as u32;
        self.server_flight_bytes = self.server_flight_bytes.saturating_add(bytes);
        self.server_encrypted_bytes = self.server_encrypted_bytes.saturating_add(bytes);
    }

    fn handshake_end(&mut self, feed: &mut Feed<'_>) {
        self.done = true;
        let resumed = if self.tls13 {
            self.resumes_session.unwrap_or(self.server_encrypted_bytes < RESUMED_MAX_BYTES)
        } else {
            self.server_first
        };
        if self.tls13 {
            self.tickets = Tickets::Expected;
        }
        let bytes = if resumed { 0 } else { self.server_flight_bytes };
        feed.handshake_end(resumed, bytes, self.tls13);
    }

    fn application_data(&mut self, from: Side, length: u16, feed: &mut Feed<'_>) {
        let alert = self.tls13 && length == ALERT_RECORD;
        if alert && from == Side::Server && self.ends_with_answer(feed) {
            return feed.turn(from);
        }
        if alert || self.continues_flight(from, length) {
            feed.aside();
            return;
        }
        if from == Side::Client {
            // If the end of the handshake was not recognised, the first application record shows
            // it.
            feed.handshake_end(false, 0, self.tls13);
        }
        if self.http2.is_control(from, length, feed) {
            // Tickets end the handshake, and come before what a server sends behind it.
            if from == Side::Server {
                self.tickets = Tickets::None;
            }
            feed.aside();
            return;
        }
        if from == Side::Server && self.is_ticket(length, feed) {
            feed.aside();
            return;
        }
        self.http2.passed(from);
        feed.turn(from);
    }

    /// Returns whether a record after the one with the client's certificate belongs to its flight.
    fn continues_flight(&mut self, from: Side, length: u16) -> bool {
        let (continues, next) = match (from, self.flight) {
            (Side::Client, Flight::Verify) if is_verify(length) => (true, Flight::Finished),
            (Side::Client, Flight::Verify | Flight::Finished) => {
                (FINISHED_RECORDS.contains(&length), Flight::Over)
            }
            _ => (false, Flight::Over),
        };
        self.flight = next;
        continues
    }

    /// Returns whether the server says goodbye right behind a record that looked like a ticket, while
    /// a request waits: that was the response then, of a server that sends no tickets.
    fn ends_with_answer(&self, feed: &Feed<'_>) -> bool {
        let answers = matches!(self.tickets, Tickets::Seen { count: 1, behind_request: true, .. });
        answers && feed.is_waiting() && !feed.exchanges.late
    }

    /// Returns whether the server has sent only session tickets and settings since the handshake, for which
    /// a client does not wait.
    pub fn has_sent_tickets_only(&self, server_port: u16) -> bool {
        let sent =
            matches!(self.tickets, Tickets::Seen { .. }) || self.http2.has_sent_settings_only();
        sent && !self.greets && !GREETING_PORTS.contains(&server_port)
    }

    /// Returns whether a record of the server is a session ticket, not part of a response.
    fn is_ticket(&mut self, length: u16, feed: &Feed<'_>) -> bool {
        let behind_request = feed.has_begun();
        let (ticket, next) = match self.tickets {
            Tickets::None => (false, Tickets::None),
            // A server sends its tickets as soon as it has the client's Finished, which was sent
            // before the first request; in HTTP/2 its settings come before its first answer.
            _ if feed.has_begun() && feed.exchanges.late && !self.http2.owes_settings() => {
                (false, Tickets::None)
            }
            Tickets::Expected if TICKET_RECORDS.contains(&length) => {
                (true, Tickets::Seen { record_bytes: length, count: 1, behind_request })
            }
            Tickets::Seen { record_bytes, count, .. }
                if record_bytes == length && count < TICKETS_MAX =>
            {
                (true, Tickets::Seen { record_bytes, count: count + 1, behind_request })
            }
            // Before the first request, no record is a response.
            unsolicited if !feed.has_begun() => {
                self.greets = true;
                (true, unsolicited)
            }
            _ => (false, Tickets::None),
        };
        self.tickets = next;
        ticket
    }
}
