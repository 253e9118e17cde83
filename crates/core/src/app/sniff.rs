//! Recognises the protocol of a message byte by byte, so that the result never depends on segment
//! sizes.

use super::amqp::PROTOCOL_HEADER;
use super::calls::GRAMMARS;
use super::http_header::is_method_byte;
use super::postgres::{is_startup_code, is_version_3};
use super::protocol::Protocol;
use crate::wire::Side;

/// Number of bytes that suffice to recognise any protocol but HTTP/1.x.
const PREFIX_BYTES: usize = 24;
/// Greatest length of a line that shows by its version alone that it is a request of HTTP/1.x, bytes.
pub(super) const LINE_BYTES: usize = 256;

/// The first bytes of a message whose protocol is not known yet.
#[derive(Clone, Copy)]
pub(super) struct Sniffer {
    /// The side that sends the message.
    pub from: Side,
    len: usize,
    prefix: [u8; LINE_BYTES],
}

/// The result of a test on a prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    No,
    /// More bytes are needed.
    Maybe,
}

/// Hints for the sniffer besides the bytes.
#[derive(Clone, Copy)]
pub(super) struct Hint {
    /// The server's port, which breaks ties only.
    pub server_port: u16,
    /// The message is not the first of the connection.
    pub mid_stream: bool,
}

/// Tests whether a prefix begins a message of a protocol.
pub(super) type Test = fn(&[u8], Hint) -> Verdict;

/// Tests in order of precedence: the first positive test decides once none before it is undecided.
const CLIENT_TESTS: &[(Protocol, Test)] = &[
    (Protocol::Http2, http2_preface),
    (Protocol::Http1, http_request),
    (Protocol::Tls, tls_record),
    (Protocol::Tls, tls_hello_of_version_2),
    (Protocol::Mqtt, mqtt_connect),
    (Protocol::Amqp, amqp_header),
    (Protocol::Amqp, amqp_frame),
    (Protocol::Postgres, postgres_startup),
    (Protocol::Postgres, postgres_message),
    (Protocol::Dns, dns_query),
    (Protocol::Redis, redis_command),
];

const SERVER_TESTS: &[(Protocol, Test)] = &[
    (Protocol::Http1, http_response),
    (Protocol::Tls, tls_record),
    (Protocol::Mysql, mysql_greeting),
    (Protocol::Mysql, mysql_refusal),
    (Protocol::Amqp, amqp_frame),
    (Protocol::Http2, http2_settings),
];

impl Sniffer {
    pub fn new(from: Side) -> Self {
        Self { from, len: 0, prefix: [0; LINE_BYTES] }
    }

    /// Returns the bytes seen so far.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix[..self.len]
    }

    /// Returns whether the message begins like a TLS handshake record, or a ClientHello in the format
    /// of SSL 2.0.
    pub fn is_handshake_record(&self) -> bool {
        self.prefix().first().is_some_and(|&first| first == 22 || first & 0x80 != 0)
    }

    /// Processes one more byte. Returns `Some` once the protocol is decided, with
    /// [`Protocol::Turns`] for none.
    pub fn decide(&mut self, byte: u8, hint: Hint) -> Option<Protocol> {
        if let Some(slot) = self.prefix.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
        let is_full = |protocol| match protocol {
            Protocol::Http1 => self.len == LINE_BYTES,
            _ => self.len >= PREFIX_BYTES,
        };
        let tests = if self.from == Side::Client { CLIENT_TESTS } else { SERVER_TESTS };
        let calls = GRAMMARS
            .iter()
            .map(|(protocol, grammar)| (*protocol, grammar.begins(self.from, self.prefix(), hint)));
        let tests = tests.iter().map(|(protocol, test)| (*protocol, test(self.prefix(), hint)));
        for (protocol, verdict) in tests.chain(calls) {
            match verdict {
                Verdict::Yes => return Some(protocol),
                Verdict::Maybe if !is_full(protocol) => return None,
                _ => {}
            }
        }
        Some(Protocol::Turns)
    }
}

/// Returns whether `bytes`, sent by `from`, are recognised as HTTP/1.x at any place where a message
/// of any protocol may begin. This test and those before it do not depend on a [`Hint`].
pub(super) fn begins_http(from: Side, bytes: &[u8]) -> bool {
    let prefix = &bytes[..bytes.len().min(LINE_BYTES)];
    let hint = Hint { server_port: 0, mid_stream: false };
    match from {
        Side::Client => {
            http2_preface(prefix, hint) == Verdict::No && http_request(prefix, hint) == Verdict::Yes
        }
        Side::Server => http_response(prefix, hint) == Verdict::Yes,
    }
}

/// Returns whether `bytes` begin a request with a usual method, or are too few to tell.
pub(super) fn may_begin_request(bytes: &[u8]) -> bool {
    let prefix = &bytes[..bytes.len().min(PREFIX_BYTES)];
    usual_request(prefix) != Verdict::No
}

/// Returns the length of the header with which a proxy tells the address of its client before the
/// first message, whatever the protocol of that is (HAProxy, "The PROXY protocol" §2).
pub(super) fn proxy_header(bytes: &[u8]) -> Option<u64> {
    const LINE_BYTES: usize = 107;
    const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
    const FIXED_BYTES: u64 = 16;
    if bytes.starts_with(b"PROXY ") {
        let line = &bytes[..bytes.len().min(LINE_BYTES)];
        let end = line.windows(2).position(|end| end == b"\r\n")?;
        return u64::try_from(end + 2).ok();
    }
    match bytes.strip_prefix(&SIGNATURE)? {
        [_, _, high, low, ..] => Some(FIXED_BYTES + u64::from(u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}

/// Returns whether `bytes` begin a message of a protocol without requests. Each side of BGP sends
/// routes and keep-alives when it has some, or when its own timer expires; its messages begin with a
/// marker of ones, a length and a type (RFC 4271 §4, RFC 2918). A connection of OpenFlow shows it only in its
/// first bytes (`is_first`).
pub(super) fn asks_nothing(bytes: &[u8], is_first: bool) -> bool {
    const MARKER: [u8; 16] = [0xff; 16];
    const HEADER_BYTES: u16 = 19;
    match bytes.strip_prefix(&MARKER) {
        Some([high, low, kind, ..]) => {
            u16::from_be_bytes([*high, *low]) >= HEADER_BYTES && (1..=5).contains(kind)
        }
        _ => is_first && opens_flow(bytes),
    }
}

/// Returns whether `bytes`, the first of a connection, begin with a hello of OpenFlow, in which a switch connects
/// and the controller asks it; what a switch sends unasked are events and heartbeats. A hello is of a version,
/// and without content or with the bitmap of versions (OpenFlow 1.3.1 §6.3.1, §A.1, §A.5.1).
fn opens_flow(bytes: &[u8]) -> bool {
    match bytes {
        [1..=6, 0, 0, 8, _, _, _, _] => true,
        [1..=6, 0, 0, 16, _, _, _, _, 0, 1, 0, 8, _, _, _, _] => true,
        &[version @ 1..=6, 0, 0, 8, _, _, _, _, next, 0..=35, ..] => version == next,
        _ => false,
    }
}

/// Compares `prefix` with `text` up to the shorter length.
fn begins(prefix: &[u8], text: &[u8]) -> Verdict {
    let common = prefix.len().min(text.len());
    match prefix[..common] == text[..common] {
        false => Verdict::No,
        true if common == text.len() => Verdict::Yes,
        true => Verdict::Maybe,
    }
}

/// Accepts a handshake record as the first message, and records of any type later.
fn tls_record(prefix: &[u8], hint: Hint) -> Verdict {
    let kinds = if hint.mid_stream { 20..=23 } else { 22..=22 };
    match *prefix {
        [kind, ..] if !kinds.contains(&kind) => Verdict::No,
        [_, major, ..] if major != 3 => Verdict::No,
        [_, _, minor, ..] if minor > 4 => Verdict::No,
        [_, _, _, length, ..] if length > 0x48 => Verdict::No,
        [_, _, _, _, ..] => Verdict::Yes,
        _ => Verdict::Maybe,
    }
}

/// Accepts a ClientHello for SSL 3.0 or TLS in the format of SSL 2.0 (RFC 5246 §E.2): its length with
/// the first bit set, its type, the version, the lengths of the ciphers, the session id and the
/// challenge, which add up.
fn tls_hello_of_version_2(prefix: &[u8], hint: Hint) -> Verdict {
    match *prefix {
        _ if hint.mid_stream => Verdict::No,
        [high, ..] if high & 0x80 == 0 => Verdict::No,
        [_, _, kind, ..] if kind != 1 => Verdict::No,
        [_, _, _, major, ..] if major != 3 => Verdict::No,
        [_, _, _, _, minor, ..] if minor > 3 => Verdict::No,
        [high, low, _, _, _, c1, c2, s1, s2, n1, n2, ..] => {
            let [ciphers, session, challenge] =
                [[c1, c2], [s1, s2], [n1, n2]].map(|it| u32::from(u16::from_be_bytes(it)));
            let length = u32::from(u16::from_be_bytes([high & 0x7f, low]));
            let fits = 9 + ciphers + session + challenge == length;
            let is_hello = ciphers > 0 && ciphers % 3 == 0 && (16..=32).contains(&challenge);
            if fits && is_hello { Verdict::Yes } else { Verdict::No }
        }
        _ => Verdict::Maybe,
    }
}

/// Recognises HTTP/2 with prior knowledge (RFC 9113 §3.3).
pub(super) fn http2_preface(prefix: &[u8], _: Hint) -> Verdict {
    begins(prefix, b"PRI * HTTP/2.0")
}

/// Recognises the server's preface, a SETTINGS frame (RFC 9113 §3.4, §6.5), which may come before
/// the client's.
pub(super) fn http2_settings(prefix: &[u8], hint: Hint) -> Verdict {
    match *prefix {
        _ if hint.mid_stream => Verdict::No,
        [high, ..] if high > 0 => Verdict::No,
        [_, b1, b2, ..] if u16::from_be_bytes([b1, b2]) % 6 != 0 => Verdict::No,
        [_, _, _, ref rest @ ..] => begins(rest, &[4, 0, 0, 0, 0, 0]),
        _ => Verdict::Maybe,
    }
}

/// Methods that identify a request before its version: those of RFC 9110 §9, RFC 5789, WebDAV (RFC 4918,
/// RFC 3253, RFC 5323) and caches.
const USUAL_METHODS: [&[u8]; 19] = [
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"CONNECT",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"REPORT",
    b"SEARCH",
    b"PURGE",
];

/// Recognises a request by its usual method, or by the form of its line.
pub(super) fn http_request(prefix: &[u8], _: Hint) -> Verdict {
    match usual_request(prefix) {
        Verdict::No => request_of_any_method(prefix),
        verdict => verdict,
    }
}

/// Recognises a usual method and the beginning of a target.
fn usual_request(prefix: &[u8]) -> Verdict {
    let Some(space) = prefix.iter().position(|&byte| byte == b' ') else {
        let possible = USUAL_METHODS.iter().any(|method| method.starts_with(prefix));
        return if possible { Verdict::Maybe } else { Verdict::No };
    };
    let method = &prefix[..space];
    // `GET key` is a Redis inline command: HTTP needs a path, a URI, `*`, or an authority.
    // Several spaces divide a request line like one (RFC 9112 §3).
    match prefix[space..].iter().find(|&&byte| byte != b' ') {
        _ if !USUAL_METHODS.contains(&method) => Verdict::No,
        None => Verdict::Maybe,
        Some(b'/' | b'*' | b'h' | b'H') => Verdict::Yes,
        Some(_) if method == b"CONNECT" => Verdict::Yes,
        Some(_) => Verdict::No,
    }
}

/// Recognises a line of a method, which may be any (RFC 9110 §9.1, §16.1), a path or a URI, and the version
/// (RFC 9112 §3). Commands of other protocols, such as `CWD /files`, lack the version.
fn request_of_any_method(prefix: &[u8]) -> Verdict {
    let mut words = prefix.splitn(3, |&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    if !method.iter().all(|&byte| is_method_byte(byte)) {
        return Verdict::No;
    }
    let Some(target) = words.next().filter(|_| !method.is_empty()) else {
        return if method.is_empty() { Verdict::No } else { Verdict::Maybe };
    };
    let is_path = matches!(target, [] | [b'/', ..]);
    let is_uri =
        || [&b"http://"[..], b"https://"].iter().any(|it| begins(target, it) != Verdict::No);
    let is_visible = target.iter().all(u8::is_ascii_graphic);
    match words.next() {
        _ if !is_visible || !is_path && !is_uri() => Verdict::No,
        None => Verdict::Maybe,
        Some(_) if target.is_empty() => Verdict::No,
        Some(version) => begins(version, b"HTTP/1."),
    }
}

/// Recognises CONNECT, a length of one to four bytes, and the protocol's name with its length.
pub(super) fn mqtt_connect(prefix: &[u8], _: Hint) -> Verdict {
    let [0x10, rest @ ..] = prefix else { return Verdict::No };
    let Some(last) = rest.iter().take(4).position(|byte| byte & 0x80 == 0) else {
        return if rest.len() < 4 { Verdict::Maybe } else { Verdict::No };
    };
    let name = &rest[last + 1..];
    match (begins(name, b"\0\x04MQTT"), begins(name, b"\0\x06MQIsdp")) {
        (Verdict::Yes, _) | (_, Verdict::Yes) => Verdict::Yes,
        (Verdict::No, Verdict::No) => Verdict::No,
        _ => Verdict::Maybe,
    }
}

/// Recognises the protocol header of a client.
fn amqp_header(prefix: &[u8], _: Hint) -> Verdict {
    begins(prefix, PROTOCOL_HEADER)
}

/// Returns whether `bytes` begin with a frame of a method that AMQP has, which may ask for nothing (a
/// published message).
pub(super) fn begins_amqp_method(bytes: &[u8]) -> bool {
    const CLASSES: [u8; 8] = [10, 20, 40, 50, 60, 85, 90, 30];
    // Type, channel, size below 64 KiB, class, method.
    matches!(*bytes, [1, _, _, 0, 0, _, _, 0, class, 0, method, ..]
        if CLASSES.contains(&class) && (10..=120).contains(&method))
}

/// Recognises a heartbeat, or a method of a class that AMQP has, if the protocol header was not
/// captured.
fn amqp_frame(prefix: &[u8], hint: Hint) -> Verdict {
    match *prefix {
        _ if !hint.mid_stream => Verdict::No,
        [8, ..] => begins(prefix, b"\x08\0\0\0\0\0\0\xce"),
        [1, _, _, 0, 0, _, _, 0, _, 0, _, ..] => match begins_amqp_method(prefix) {
            true => Verdict::Yes,
            false => Verdict::No,
        },
        [1] | [1, _] | [1, _, _] | [1, _, _, 0] => Verdict::Maybe,
        [1, _, _, 0, 0, ref rest @ ..]
            if rest.len() < 6 && rest.get(2).is_none_or(|it| *it == 0) =>
        {
            Verdict::Maybe
        }
        _ => Verdict::No,
    }
}

pub(super) fn http_response(prefix: &[u8], _: Hint) -> Verdict {
    begins(prefix, b"HTTP/1.")
}

/// Recognises a start-up packet: its length, its code, and the name of its first parameter. (A
/// request for metadata of Kafka has the same code; a correlation id follows it.)
pub(super) fn postgres_startup(prefix: &[u8], _: Hint) -> Verdict {
    match *prefix {
        [0, 0, l1, l2, c1, c2, c3, c4, ref rest @ ..] => {
            let length = u16::from_be_bytes([l1, l2]);
            match (u32::from_be_bytes([c1, c2, c3, c4]), rest) {
                (code, _) if !is_startup_code(code) => Verdict::No,
                (code, _) if !is_version_3(code) => Verdict::Yes,
                (_, []) => Verdict::Maybe,
                (_, [0, ..]) if length == 9 => Verdict::Yes,
                (_, [first, ..]) if !is_name(*first) => Verdict::No,
                (_, [_]) => Verdict::Maybe,
                (_, [_, second, ..]) if is_name(*second) => Verdict::Yes,
                _ => Verdict::No,
            }
        }
        [0] | [0, 0, ..] => Verdict::Maybe,
        _ => Verdict::No,
    }
}

/// Returns whether `byte` may be part of the name of a parameter (`user`, `_pq_.option`).
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Recognises a query or the start of a batch, if the start-up was not captured.
fn postgres_message(prefix: &[u8], hint: Hint) -> Verdict {
    match *prefix {
        [kind, ..] if !hint.mid_stream || !b"QPB".contains(&kind) => Verdict::No,
        [_, high, ..] if high > 0 => Verdict::No,
        [_, _, high, ..] if high > 0 && hint.server_port != 5432 => Verdict::No,
        [_, _, _, ..] => Verdict::Yes,
        _ => Verdict::Maybe,
    }
}

/// Recognises length, id, flags of a standard query, one question and no answer (RFC 1035 §4.1.1).
pub(super) fn dns_query(prefix: &[u8], hint: Hint) -> Verdict {
    const SHORTEST: u16 = 12 + 1 + 4;
    match *prefix {
        [_] => Verdict::Maybe,
        [high, low, ..] if u16::from_be_bytes([high, low]) < SHORTEST => Verdict::No,
        // On port 53 any length is accepted; on other ports only short queries are.
        [high, _, ..] if high > 1 && hint.server_port != 53 => Verdict::No,
        [_, _, _, _, flags, ..] if flags & 0xf8 != 0 => Verdict::No,
        [_, _, _, _, _, _, 0, 1, 0, 0, 0, 0, ..] => Verdict::Yes,
        [_, _, _, _, _, _, ref counts @ ..] => begins(counts, &[0, 1, 0, 0, 0, 0]),
        _ => Verdict::Maybe,
    }
}

/// Recognises an array of bulk strings; inline commands only on Redis' own port.
fn redis_command(prefix: &[u8], hint: Hint) -> Verdict {
    match *prefix {
        [first, ..] if hint.server_port == 6379 && first.is_ascii_alphabetic() => Verdict::Yes,
        [b'*'] => Verdict::Maybe,
        [b'*', b'1'..=b'9'] => Verdict::Maybe,
        [b'*', b'1'..=b'9', b'0'..=b'9' | b'\r', ..] => Verdict::Yes,
        _ => Verdict::No,
    }
}

/// Recognises an initial handshake packet, protocol version 10, and a version that begins with a
/// digit.
pub(super) fn mysql_greeting(prefix: &[u8], hint: Hint) -> Verdict {
    match *prefix {
        _ if hint.mid_stream => Verdict::No,
        [_, high, ..] if high > 1 => Verdict::No,
        [_, _, high, ..] if high > 0 => Verdict::No,
        [_, _, _, sequence, ..] if sequence > 0 => Verdict::No,
        [_, _, _, _, version, ..] if version != 10 => Verdict::No,
        [_, _, _, _, _, digit, ..] if digit.is_ascii_digit() => Verdict::Yes,
        [_, _, _, _, _, _, ..] => Verdict::No,
        _ => Verdict::Maybe,
    }
}

/// Recognises an ERR packet in place of the greeting, with the number of an error of the server and a
/// text (MySQL, "Connection Phase", "ERR_Packet"; "Error Message Components").
pub(super) fn mysql_refusal(prefix: &[u8], hint: Hint) -> Verdict {
    const NUMBERS: std::ops::Range<u16> = 1000..5000;
    match *prefix {
        _ if hint.mid_stream => Verdict::No,
        [_, high, ..] if high > 1 => Verdict::No,
        [_, _, high, ..] if high > 0 => Verdict::No,
        [_, _, _, sequence, ..] if sequence > 0 => Verdict::No,
        [_, _, _, _, kind, ..] if kind != 0xff => Verdict::No,
        [_, _, _, _, _, low, high, ..] if !NUMBERS.contains(&u16::from_le_bytes([low, high])) => {
            Verdict::No
        }
        [_, _, _, _, _, _, _, text, ..] => match text == b'#' || text.is_ascii_alphabetic() {
            true => Verdict::Yes,
            false => Verdict::No,
        },
        _ => Verdict::Maybe,
    }
}
