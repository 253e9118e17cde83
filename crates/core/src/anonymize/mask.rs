//! Masks the bytes that parsers read, in place: length, framing and kind are preserved.

use super::mysql::Commands;
use super::{FILLER, Names, http, redis};
use crate::app::{Protocol, hello_skeleton, verb_range};
use crate::wire::Side;

/// The place of a line in its message, as the lines around it show it.
#[derive(Clone, Copy, Default)]
pub(super) struct LinePlace {
    /// Number of the word of a command (Redis).
    pub word: Option<u8>,
    /// The line is the size of a chunk (HTTP).
    pub is_chunk_size: bool,
}

/// Number of printable bytes in a row that can hold a name or a secret.
const TEXT_MIN: usize = 4;

/// Sets to zero all text in the bytes of a header, which has none if it is a header.
pub(super) fn blank_text(header: &mut [u8]) {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~');
    header
        .chunk_by_mut(|one, other| is_text(one) && is_text(other))
        .filter(|run| run.len() >= TEXT_MIN)
        .for_each(|run| run.fill(0));
}

/// Masks a complete line, including its end, sent by `side`.
pub(super) fn line(
    protocol: Protocol,
    side: Side,
    place: LinePlace,
    line: &mut [u8],
    names: &Names,
) {
    let end = line.trim_ascii_end().len();
    let text = &mut line[..end];
    match protocol {
        Protocol::Redis => redis::line(side, place.word, text, names),
        _ => http::line(text, place.is_chunk_size, names),
    }
}

/// Masks the beginning of a message of `side`, which follows the header `framing`.
pub(super) fn head(
    protocol: Protocol,
    side: Side,
    framing: &[u8],
    commands: &mut Commands,
    head: &mut [u8],
    names: &Names,
) {
    match (protocol, side) {
        (Protocol::Tls, _) => {
            hello_skeleton(head);
            blank_text(head);
        }
        (Protocol::Postgres, Side::Server) => postgres_error(head),
        (Protocol::Postgres, _) => {
            let statement = match framing.iter().rev().nth(4) {
                // Parse begins with the name of the prepared statement.
                Some(b'P') => {
                    head.iter().position(|&byte| byte == 0).map_or(head.len(), |end| end + 1)
                }
                _ => 0,
            };
            let (name, text) = head.split_at_mut(statement);
            names.words(name);
            sql(text);
        }
        (Protocol::Mysql, _) => commands.mask(side, framing.last().copied(), head),
        (Protocol::Dns, _) => super::dns::mask(head, names),
        (Protocol::Amqp, _) => crate::app::amqp_skeleton(side, framing, head),
        // Numbers of packets, streams and errors.
        (Protocol::Mqtt, _) => {}
        (Protocol::Http2, _) if is_frame_of_numbers(framing) => {}
        (Protocol::Diameter, _) => avps(head),
        _ => fill(head.get_mut(numbers(protocol, side, framing, head)..).unwrap_or_default()),
    }
}

/// Keeps the identifier before the AVPs of Diameter, the headers of AVPs without a vendor, and the result
/// (RFC 6733 §4.1, §7.1).
fn avps(head: &mut [u8]) {
    const IDENTIFIER_BYTES: usize = 4;
    const HEADER_BYTES: usize = 8;
    const RESULT: [u8; 4] = [0, 0, 1, 12];
    let mut rest = head.get_mut(IDENTIFIER_BYTES..).unwrap_or_default();
    while rest.len() >= HEADER_BYTES {
        let (header, values) = std::mem::take(&mut rest).split_at_mut(HEADER_BYTES);
        let &mut [c1, c2, c3, c4, flags, high, middle, low] = header else { return };
        let is_result = [c1, c2, c3, c4] == RESULT && flags & 0x80 == 0;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let value = length.saturating_sub(HEADER_BYTES).next_multiple_of(4).min(values.len());
        let (value, next) = values.split_at_mut(value);
        if !is_result {
            fill(value);
        }
        rest = next;
    }
    fill(rest);
}

/// Returns the number of bytes at the beginning of a message, behind the header with which `framing` ends,
/// that are numbers: ids, commands, states, lengths. Where values stand among them, there are none.
fn numbers(protocol: Protocol, side: Side, framing: &[u8], head: &[u8]) -> usize {
    let from_end = |bytes: usize| framing.iter().rev().nth(bytes - 1).copied();
    match protocol {
        // Up to the message id (MS-SMB2 §2.2.1.2), or the multiplex id (MS-CIFS §2.2.3.1).
        Protocol::Smb => 32,
        // Id, kind, version, program, version, procedure (RFC 5531 §9).
        Protocol::OncRpc => 24,
        // The status of a fault (C706 §12.6.4.7), with what is before it; the header has 16 bytes.
        Protocol::DceRpc if from_end(14) == Some(3) => 12,
        // Transport, control and function; unit, function and exception.
        Protocol::Dnp3 | Protocol::Modbus => 3,
        // The code of an error, whose operation is 0.
        Protocol::Cassandra if from_end(5) == Some(0) => 4,
        // The first option of PRELOGIN, or the header of a TLS record; the number of an error.
        Protocol::Tds if from_end(8) == Some(18) => 5,
        Protocol::Tds if head.first() == Some(&0xaa) => 9,
        // The opaque value.
        Protocol::Memcached => 4,
        // Id and operation; id, transaction and error.
        Protocol::Zookeeper if side == Side::Client => 8,
        Protocol::Zookeeper => 16,
        // Version, type and the length of the name.
        Protocol::Thrift => 8,
        // The transaction id, and behind it an error.
        Protocol::Stun if matches!(head.get(12..14), Some([0, 9])) => 20,
        Protocol::Stun => 12,
        // Channel, token, sequence number, request id, type, and of a response time, handle and result.
        Protocol::OpcUa if from_end(8) == Some(b'M') && side == Side::Server => 36,
        Protocol::OpcUa if from_end(8) == Some(b'M') => 20,
        // Session, status and context; in a connection up to the sequence number.
        Protocol::EthernetIp if from_end(4) == Some(0x70) => 42,
        Protocol::EthernetIp => 20,
        // The unit of the transport; with S7 in it, up to the type of user data, or the function.
        Protocol::IsoOnTcp => match head {
            [_, 0xe0, ..] => 7,
            [2, 0xf0, _, 0x32, 7, ..] => 19,
            [2, 0xf0, _, 0x32, ..] => 14,
            _ => 3,
        },
        _ => 0,
    }
}

/// Keeps size, key, version and correlation id of Kafka, by which it was recognised with the name of the
/// client.
pub(super) fn kafka_beginning(bytes: &mut [u8]) {
    const FIXED_BYTES: usize = 4 + 2 + 2 + 4;
    bytes.iter_mut().skip(FIXED_BYTES).for_each(|byte| *byte = 0);
}

/// Returns whether `framing` ends with the header of an RST_STREAM, SETTINGS, GOAWAY or WINDOW_UPDATE frame
/// (RFC 9113 §4.1, §6.4, §6.5, §6.8, §6.9).
pub(super) fn is_frame_of_numbers(framing: &[u8]) -> bool {
    matches!(framing, [.., 3 | 4 | 7 | 8, _, _, _, _, _])
}

/// Keeps the protocol header of AMQP, or else the header of a frame and the class and method in it, by
/// which AMQP was recognised.
pub(super) fn amqp_beginning(bytes: &mut [u8]) {
    const FRAME_AND_METHOD_BYTES: usize = 7 + 4;
    if !bytes.starts_with(b"AMQP") {
        bytes.iter_mut().skip(FRAME_AND_METHOD_BYTES).for_each(|byte| *byte = 0);
    }
}

/// Keeps the types of the fields of an ErrorResponse.
fn postgres_error(fields: &mut [u8]) {
    let fields = fields.split_mut(|&byte| byte == 0);
    fields.for_each(|field| field.iter_mut().skip(1).for_each(|byte| *byte = FILLER));
}

/// Keeps a statement's verb, if it is listed, and the characters that determine its position:
/// comments and parentheses.
pub(super) fn sql(statement: &mut [u8]) {
    let verb = verb_range(statement);
    let is_end = statement.last() == Some(&0);
    // A statement without a word has no verb, listed or not.
    let begins = statement.get(verb.start).is_some_and(u8::is_ascii_alphabetic);
    let letter = if begins { b'x' } else { FILLER };
    for (at, byte) in statement.iter_mut().enumerate() {
        let may_stay = at < verb.end && !byte.is_ascii_alphanumeric() && byte.is_ascii();
        if !verb.contains(&at) && !may_stay {
            *byte = if at < verb.start { b'x' } else { letter };
        }
    }
    if let Some(last) = statement.last_mut().filter(|_| is_end) {
        *last = 0;
    }
    // The byte after the verb must not extend it.
    if let Some(next) =
        statement.get_mut(verb.end).filter(|next| **next == b'x' && !verb.is_empty())
    {
        *next = b' ';
    }
}

/// The end of the preface of HTTP/2 (RFC 9113 §3.4).
pub(super) const PREFACE_END: &[u8] = b"\r\n\r\nSM\r\n\r\n";

/// Returns the number of bytes after a header ending with `framing` that identify the side or the
/// next message, although no stream parser reads them.
pub(super) fn kept_after(protocol: Protocol, framing: &[u8]) -> usize {
    match (protocol, framing) {
        // The type of the handshake message.
        (Protocol::Tls, [.., 22, 3, _, _, _]) => 1,
        // ReadyForQuery: the transaction status.
        (Protocol::Postgres, [.., b'Z', 0, 0, 0, 5]) => 1,
        // The end of the preface, which is a constant.
        (Protocol::Http2, [.., b'H', b'T', b'T', b'P', b'/', b'2', b'.', b'0']) => {
            PREFACE_END.len()
        }
        _ => 0,
    }
}

pub(super) fn fill(bytes: &mut [u8]) {
    bytes.fill(FILLER);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_fields_without_their_text() {
        let mut fields = *b"SERROR\0C42P01\0Mrelation \"users\"\0\0";
        postgres_error(&mut fields);
        assert_eq!(&fields, b"S.....\0C.....\0M................\0\0");
    }

    #[test]
    fn the_verb_of_a_statement_is_kept() {
        for (statement, masked) in [
            ("SELECT name FROM users\0", "SELECT xxxxxxxxxxxxxxx\0"),
            ("/* a */ (UPDATE t", "/* x */ (UPDATE x"),
            ("COMMIT", "COMMIT"),
        ] {
            let mut bytes = statement.as_bytes().to_vec();
            sql(&mut bytes);
            let text = String::from_utf8(bytes).unwrap();
            assert_eq!(text.replace(' ', "x"), masked.replace(' ', "x"));
            assert_eq!(verb_range(text.as_bytes()), verb_range(statement.as_bytes()));
        }
    }
}
