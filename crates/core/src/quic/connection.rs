//! One connection: its connection IDs, the keys of its Initial packets, and the datagrams of its handshake.

use super::carried::Carried;
use super::connection_id::ConnectionId;
use super::crypto_stream::{Brings, CryptoStream};
use super::frames::{Frame, frames};
use super::spin::Spin;
use super::split::{self, Kinds, Sent};
use crate::app::{ClientHello, ServerHello};
use crate::keys::{InitialKeys, QuicVersion};
use crate::model::quic::{Close, Handshake, Outcome};
use crate::wire::quic::{
    INITIAL_DATAGRAM_MIN_BYTES, LongHeader, LongKind, QuicPacket, RETRY_TAG_BYTES, packets,
};
use crate::wire::{BySide, Endpoint, Side, digest};

/// Least length of the connection ID that a client chooses for its first packets, bytes (RFC 9000
/// §7.2).
const FIRST_ID_MIN_BYTES: usize = 8;
/// Maximum number of datagrams of a handshake that are kept: the initial flight of a server has
/// 10 (RFC 9002 §7.2), and each side repeats some.
const DATAGRAMS_MAX: usize = 96;

/// A connection.
#[derive(Clone)]
pub(super) struct Connection {
    client: Endpoint,
    server: Endpoint,
    version: u32,
    version_first: u32,
    /// The destination ID of the client's first packets, and of those behind a Retry: the keys follow
    /// from it.
    key_id: ConnectionId,
    /// The IDs that each side chose for itself.
    own_ids: BySide<Option<ConnectionId>>,
    keys: Option<Box<(QuicVersion, InitialKeys)>>,
    crypto: BySide<CryptoStream>,
    /// Number that the next Initial packet of each side has, if none is missing.
    next_number: BySide<u64>,
    hello: Option<ClientHello>,
    answer: Option<ServerHello>,
    asks_hello_again: bool,
    datagrams: Vec<Sent>,
    legs_ns: BySide<Option<u64>>,
    has_retry: bool,
    is_negotiated: bool,
    pub is_refused: bool,
    /// The client sent what only an answer makes possible, though none was captured.
    goes_on: bool,
    close: Option<(Close, bool)>,
    spin: Spin,
    short_datagrams: u64,
    pub last_ns: u64,
}

impl Connection {
    /// Begins a connection with the datagram of a client whose first packet is `packet`; `None` if that
    /// is no first packet. An Initial packet that was captured whole has to open.
    pub fn begin(carried: &Carried, packet: QuicPacket<'_>, scratch: &mut Vec<u8>) -> Option<Self> {
        let (version, id, own) = match packet {
            QuicPacket::Long(header) if header.kind == LongKind::Initial => {
                (header.version.number(), header.destination_id, header.source_id)
            }
            QuicPacket::OtherVersion { version, destination_id, source_id } => {
                (version, destination_id, source_id)
            }
            _ => return None,
        };
        let is_cut = carried.payload.len() < carried.payload_bytes as usize;
        let may_begin = carried.payload_bytes >= INITIAL_DATAGRAM_MIN_BYTES
            && (id.len() >= FIRST_ID_MIN_BYTES || has_token(packet));
        let mut begun = Self {
            client: carried.source,
            server: carried.destination,
            version,
            version_first: version,
            key_id: ConnectionId::new(id),
            own_ids: [Some(ConnectionId::new(own)), None],
            keys: None,
            crypto: Default::default(),
            next_number: [0; 2],
            hello: None,
            answer: None,
            asks_hello_again: false,
            datagrams: Vec::new(),
            legs_ns: [None; 2],
            has_retry: false,
            is_negotiated: false,
            is_refused: false,
            goes_on: false,
            close: None,
            spin: Spin::default(),
            short_datagrams: 0,
            last_ns: carried.time_ns,
        };
        let QuicPacket::Long(header) = packet else { return may_begin.then_some(begun) };
        if is_cut {
            return may_begin.then_some(begun);
        }
        let bytes = carried.payload.get(..header.length)?;
        begun.open(Side::Client, &header, bytes, scratch)?;
        Some(begun)
    }

    /// Returns the side that sends from `endpoint`.
    fn side(&self, endpoint: &Endpoint) -> Side {
        if *endpoint == self.client { Side::Client } else { Side::Server }
    }

    /// Returns whether a datagram from `source` that begins with `packet`, of these bytes, belongs to it.
    pub fn owns(&self, source: &Endpoint, packet: &QuicPacket<'_>, bytes: &[u8]) -> bool {
        let from = self.side(source);
        let own = |side: Side| self.own_ids[side].as_ref().map(ConnectionId::bytes);
        let (to_id, from_id) = match packet {
            QuicPacket::Long(header) => (header.destination_id, header.source_id),
            QuicPacket::VersionNegotiation { destination_id, source_id, .. }
            | QuicPacket::OtherVersion { destination_id, source_id, .. } => {
                (*destination_id, *source_id)
            }
            QuicPacket::Short { .. } => {
                let rest = bytes.get(1..).unwrap_or_default();
                return own(from.peer()).is_some_and(|id| rest.starts_with(id));
            }
        };
        match from {
            // The first packets of a client have the IDs that it chose; a second attempt has others.
            Side::Client => {
                own(Side::Client) == Some(from_id)
                    && (to_id == self.key_id.bytes()
                        || own(Side::Server).map_or(self.is_negotiated, |id| id == to_id))
            }
            Side::Server => {
                own(Side::Client) == Some(to_id)
                    && (own(Side::Server).is_none_or(|id| id == from_id) || self.has_retry)
            }
        }
    }

    /// Processes a datagram between its ends that belongs to no known connection: to an ID that only an answer
    /// has told, Handshake or 1-RTT packets go on with the connection.
    pub fn take_unknown(&mut self, carried: &Carried) {
        let needs_answer = |packet: QuicPacket<'_>| match packet {
            QuicPacket::Long(header) => header.kind == LongKind::Handshake,
            QuicPacket::Short { .. } => true,
            _ => false,
        };
        let mut all = packets(&carried.payload, carried.payload_bytes as usize);
        let is_of_client = self.side(&carried.source) == Side::Client;
        self.goes_on |= is_of_client && all.any(|(_, packet)| needs_answer(packet));
    }

    /// Processes a datagram of the connection.
    pub fn take(&mut self, carried: &Carried, scratch: &mut Vec<u8>) {
        let from = self.side(&carried.source);
        self.last_ns = carried.time_ns.max(self.last_ns);
        let mut sent = Sent {
            time_ns: carried.time_ns,
            frame: carried.frame,
            from,
            bytes: carried.payload_bytes,
            kinds: Kinds::default(),
            numbers: None,
            brings: Brings::Nothing,
            is_acked: false,
            has_token: false,
        };
        for (at, packet) in packets(&carried.payload, carried.payload_bytes as usize) {
            match packet {
                QuicPacket::Long(header) => {
                    let rest = carried.payload.get(at..).unwrap_or_default();
                    self.long(&header, rest, &mut sent, scratch);
                }
                QuicPacket::VersionNegotiation { .. } if from == Side::Server => {
                    sent.kinds.0 |= Kinds::NEGOTIATION;
                    self.is_negotiated = true;
                    self.begin_anew();
                }
                QuicPacket::OtherVersion { .. } => sent.kinds.0 |= Kinds::INITIAL,
                QuicPacket::VersionNegotiation { .. } => {}
                QuicPacket::Short { spin } => {
                    sent.kinds.0 |= Kinds::ONE_RTT;
                    self.short_datagrams += u64::from(at == 0);
                    self.spin.packet(from, spin, carried.time_ns);
                }
            }
        }
        self.keep(sent);
    }

    fn keep(&mut self, sent: Sent) {
        if self.is_over() || self.datagrams.len() >= DATAGRAMS_MAX {
            return;
        }
        self.datagrams.push(sent);
        if self.is_over() {
            // Nothing that follows needs them.
            self.crypto = Default::default();
            self.datagrams.shrink_to_fit();
        }
    }

    /// Returns whether the client has sent a 1-RTT packet.
    fn is_over(&self) -> bool {
        let last = self.datagrams.last();
        last.is_some_and(|it| it.from == Side::Client && it.kinds.has(Kinds::ONE_RTT))
    }

    /// Processes a packet with a long header at the beginning of `bytes`.
    fn long(
        &mut self,
        header: &LongHeader<'_>,
        bytes: &[u8],
        sent: &mut Sent,
        scratch: &mut Vec<u8>,
    ) {
        let from = sent.from;
        match header.kind {
            LongKind::Initial => {
                sent.kinds.0 |= Kinds::INITIAL;
                sent.has_token |= !header.token.is_empty();
                if from == Side::Client && self.is_negotiated && !self.has_answer() {
                    self.key_id = ConnectionId::new(header.destination_id);
                    self.version = header.version.number();
                }
                let range = bytes.get(..header.length);
                let opened = range.and_then(|packet| self.open(from, header, packet, scratch));
                if let Some((number, frames)) = opened {
                    self.opened(number, frames, header, sent);
                }
            }
            LongKind::ZeroRtt => sent.kinds.0 |= Kinds::ZERO_RTT,
            LongKind::Handshake => sent.kinds.0 |= Kinds::HANDSHAKE,
            LongKind::Retry => {
                if from == Side::Server && self.is_retry(header, bytes) {
                    sent.kinds.0 |= Kinds::RETRY;
                    self.has_retry = true;
                    // RFC 9000 §17.2.5.2: the client goes on with the ID that the server chose.
                    self.key_id = ConnectionId::new(header.source_id);
                    self.begin_anew();
                }
            }
        }
    }

    /// Returns whether an Initial packet of the server was opened.
    fn has_answer(&self) -> bool {
        self.own_ids[Side::Server].is_some()
    }

    /// Returns whether a Retry answers the client's first packet (RFC 9000 §17.2.5.2: only one does).
    fn is_retry(&self, header: &LongHeader<'_>, bytes: &[u8]) -> bool {
        let retry = bytes.get(..header.length.saturating_sub(RETRY_TAG_BYTES));
        let is_first = !self.has_retry && !self.has_answer();
        let tag = retry.and_then(|it| header.version.retry_tag(self.key_id.bytes(), it));
        is_first && tag.is_some_and(|tag| tag[..] == *header.tag)
    }

    /// Forgets what the client sent: it begins with the same ClientHello again.
    fn begin_anew(&mut self) {
        self.keys = None;
        self.crypto = Default::default();
    }

    /// Opens an Initial packet; returns its number and its frames.
    fn open<'s>(
        &mut self,
        from: Side,
        header: &LongHeader<'_>,
        packet: &[u8],
        scratch: &'s mut Vec<u8>,
    ) -> Option<(u64, &'s [u8])> {
        // Either side may change to another version behind the client's first packet (RFC 9368 §2.3).
        if self.keys.as_ref().is_none_or(|keys| keys.0 != header.version) {
            let keys = InitialKeys::new(header.version, self.key_id.bytes())?;
            self.keys = Some(Box::new((header.version, keys)));
        }
        let (_, keys) = &**self.keys.as_ref()?;
        let keys = if from == Side::Client { &keys.client } else { &keys.server };
        scratch.clear();
        scratch.extend_from_slice(packet);
        let opened = keys.open(scratch, header.number_at, self.next_number[from])?;
        Some((opened.number, scratch.get(opened.payload)?))
    }

    /// Processes the frames of an Initial packet.
    fn opened(&mut self, number: u64, payload: &[u8], header: &LongHeader<'_>, sent: &mut Sent) {
        let side = sent.from as usize;
        self.version = header.version.number();
        self.own_ids[side] = Some(ConnectionId::new(header.source_id));
        self.next_number[side] = self.next_number[side].max(number.saturating_add(1));
        let numbers = sent.numbers.take().unwrap_or(number..=number);
        sent.numbers = Some(number.min(*numbers.start())..=number.max(*numbers.end()));
        for frame in frames(payload) {
            match frame {
                Frame::Ack(ranges) => self.acknowledged(&ranges, sent),
                Frame::Crypto { offset, bytes } => {
                    sent.brings = self.crypto[side].add(offset, bytes).max(sent.brings);
                }
                Frame::Close(close) => {
                    self.close.get_or_insert((close, sent.from == Side::Client));
                }
                Frame::Other => {}
            }
        }
        self.read_hellos();
    }

    fn read_hellos(&mut self) {
        let [client, server] = &self.crypto;
        if self.hello.is_none() {
            self.hello = ClientHello::read(client.beginning());
        }
        if self.answer.is_none() {
            self.answer = ServerHello::read(server.beginning());
            self.asks_hello_again |= self.answer.as_ref().is_some_and(|it| it.is_retry);
        }
    }

    /// Marks the datagrams of the other side that an ACK frame in `sent` acknowledges. The time since the
    /// last of them is a round trip, since Initial packets are acknowledged at once (RFC 9000 §13.2.1).
    fn acknowledged(&mut self, ranges: &[std::ops::RangeInclusive<u64>], sent: &Sent) {
        let mut newest_ns = None;
        for earlier in self.datagrams.iter_mut().filter(|it| it.from != sent.from) {
            let Some(numbers) = &earlier.numbers else { continue };
            let is_within = |range: &std::ops::RangeInclusive<u64>| {
                range.start() <= numbers.end() && numbers.start() <= range.end()
            };
            if !earlier.is_acked && ranges.iter().any(is_within) {
                earlier.is_acked = true;
                newest_ns = Some(earlier.time_ns);
            }
        }
        let sample_ns = newest_ns.map(|newest_ns| sent.time_ns.saturating_sub(newest_ns));
        let least_ns = &mut self.legs_ns[sent.from];
        *least_ns = match (*least_ns, sample_ns) {
            (Some(least_ns), Some(ns)) => Some(ns.min(least_ns)),
            (least_ns, ns) => least_ns.or(ns),
        };
    }

    /// Returns the least round trip between vantage and each side. Those that the handshake shows contain the
    /// work of the ends.
    fn legs_ns(&self) -> BySide<Option<u64>> {
        let by_spin = self.spin.legs_ns();
        std::array::from_fn(|side| match (self.legs_ns[side], by_spin[side]) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        })
    }

    /// Returns the connection as the report has it; with `keeps_names` with the name of the server.
    /// `None` if it turned out to be no QUIC: a version that is not read, and no answer.
    pub fn handshake(&self, keeps_names: bool) -> Option<Handshake> {
        let (first, last) = self.datagrams.first().zip(self.datagrams.last())?;
        let is_read = QuicVersion::of(self.version).is_some();
        if !is_read && !self.is_negotiated {
            return None;
        }
        let from_server = self.datagrams.iter().any(|it| it.from == Side::Server);
        let end = split::end(&self.datagrams).filter(|_| from_server);
        let end_place = end.unwrap_or(self.datagrams.len() - 1);
        let legs_ns = self.legs_ns();
        let found = split::split(&self.datagrams, end_place, legs_ns);
        let ended = self.datagrams.get(end_place).unwrap_or(last);
        let repeats = |it: &&Sent| it.from == Side::Client && it.brings == Brings::Again;
        let repeated = self.datagrams[..end_place + 1].iter().filter(repeats);
        let outcome = match end {
            Some(_) => Outcome::Completed,
            None if self.is_refused && !from_server => Outcome::Refused,
            // A client repeats its ClientHello until it is answered, and goes on then (RFC 9002 §6.2); only its
            // packets may have been captured. One that gives up may say so to the server that never answered.
            None if !from_server && !self.goes_on && repeated.clone().next().is_some() => {
                Outcome::Unanswered
            }
            None if self.close.is_some() => Outcome::Closed,
            None => Outcome::Unfinished,
        };
        let hello = self.hello.as_ref();
        let name = hello.and_then(|it| it.server_name.as_ref());
        let [of_client, of_server] = legs_ns;
        let rtt_min_ns = of_client.zip(of_server).map(|(one, other)| one + other);
        Some(Handshake {
            client: self.client,
            server: self.server,
            version: self.version,
            version_first: Some(self.version_first).filter(|it| *it != self.version),
            server_name: name.filter(|_| keeps_names).cloned(),
            name_digest: name.map(|name| digest_of(name)),
            alpn: hello.map(|it| shown(&it.alpn, keeps_names)).unwrap_or_default(),
            tls_versions: hello.map(|it| it.versions.clone()).unwrap_or_default(),
            start_ns: first.time_ns,
            end_ns: ended.time_ns,
            first: first.frame,
            last: ended.frame,
            repeated: repeated.clone().next().map(|it| (it.time_ns, it.frame)),
            repetitions: repeated.count() as u32,
            outcome,
            parts: found.parts,
            has_retry: self.has_retry,
            is_negotiated: self.is_negotiated,
            asks_hello_again: self.asks_hello_again,
            is_resumed: self.answer.as_ref().and_then(ServerHello::resumes_session),
            early_datagrams: self
                .datagrams
                .iter()
                .filter(|it| it.kinds.has(Kinds::ZERO_RTT))
                .count() as u32,
            amplification: found.amplification,
            close: self.close,
            rtt_min_ns,
            spin: self.spin.rtt(),
            short_datagrams: self.short_datagrams,
        })
    }
}

fn has_token(packet: QuicPacket<'_>) -> bool {
    matches!(packet, QuicPacket::Long(header) if !header.token.is_empty())
}

/// Returns the names of application protocols; `other` for one that is not registered for QUIC (IANA's TLS ALPN
/// Protocol IDs) nor a draft of one that is, unless values are shown.
fn shown(alpn: &[String], keeps_names: bool) -> Vec<String> {
    const REGISTERED: [&str; 5] = ["h3", "hq-interop", "doq", "smb", "ntske/1"];
    const DRAFTS: [&str; 4] = ["h3-", "hq-", "doq-i", "h3-Q"];
    let is_draft = |name: &str| {
        let numbers = DRAFTS.iter().filter_map(|draft| name.strip_prefix(draft));
        numbers
            .into_iter()
            .any(|it| (1..=3).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit()))
    };
    let one = |name: &String| match &**name {
        name if keeps_names || REGISTERED.contains(&name) || is_draft(name) => name.to_owned(),
        _ => "other".to_owned(),
    };
    alpn.iter().map(one).collect()
}

/// Returns a hash of a name, without regard to case.
fn digest_of(name: &str) -> u64 {
    name.bytes()
        .fold(name.len() as u64, |hash, byte| digest([hash, u64::from(byte.to_ascii_lowercase())]))
}
