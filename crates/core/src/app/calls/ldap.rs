//! LDAP 3.
//!
//! Read first: RFC 4511 §4.1.1 (message envelope), §4.2 to §4.14 (operations), §5.1 (BER).
//!
//! ```text
//! bindRequest               bindResponse
//! searchRequest             searchResEntry* searchResRef* searchResDone
//! modify, add, del, …       their response
//! extendedReq               intermediateResponse* extendedResp; behind StartTLS (§4.14) follows TLS
//! unbindRequest, abandonRequest
//! ```
//!
//! Part of no exchange: requests without a response; searches that stay open for changes; notices that
//! the server sends by itself (message id 0, §4.4); and messages in a SASL security layer (§5.2.1),
//! which begin with their length and cannot be read.

use super::bytes::{Byte, has, like, u32_be};
use super::status::ldap as error;
use super::{Grammar, Message, Said};
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Number of bytes of a request in which the control of a lasting search is looked for.
const PEEK: usize = 600;
/// Tags (RFC 4511 §4.2 to §4.13, in the order of their numbers).
const SEQUENCE: u8 = 0x30;
const UNBIND: u8 = 0x42;
const SEARCH: u8 = 0x63;
const EXTENDED: u8 = 0x77;
const REQUESTS: [(u8, &str); 9] = [
    (0x60, "bind"),
    (SEARCH, "search"),
    (0x66, "modify"),
    (0x68, "add"),
    (0x4a, "delete"),
    (0x6c, "modify DN"),
    (0x6e, "compare"),
    (EXTENDED, "extended"),
    (0x50, ""),
];
/// Entries, references and intermediate responses, which more messages follow.
const PARTS: [u8; 3] = [0x64, 0x73, 0x79];
const RESPONSES: [u8; 8] = [0x61, 0x65, 0x67, 0x69, 0x6b, 0x6d, 0x6f, 0x78];

/// Name of StartTLS (§4.14.1).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// Controls of searches that stay open: LDAP_SERVER_NOTIFICATION_OID (MS-ADTS §3.1.1.3.4.1.9), sync
/// request (RFC 4533 §2.2), persistent search (draft-ietf-ldapext-psearch).
const LASTING: [&[u8]; 3] =
    [b"1.2.840.113556.1.4.528", b"1.3.6.1.4.1.4203.1.9.1.1", b"2.16.840.1.113730.3.4.3"];

pub(super) struct Ldap;

/// Returns the message id, the tag of the operation, and its content after its length.
fn envelope(head: &[u8]) -> Option<(u64, u8, &[u8])> {
    let &[0x02, id_bytes, ref rest @ ..] = head else { return None };
    let (id, rest) = rest.split_at_checked(usize::from(id_bytes)).filter(|_| id_bytes <= 4)?;
    let id = id.iter().fold(0, |id, byte| id << 8 | u64::from(*byte));
    let (&[tag, length], rest) = rest.split_first_chunk()?;
    let more = if length & 0x80 == 0 { 0 } else { usize::from(length & 0x7f) };
    Some((id, tag, rest.get(more..).unwrap_or_default()))
}

/// Returns the result code at the beginning of an LDAPResult (§4.1.9).
fn result_code(content: &[u8]) -> u16 {
    match content {
        [0x0a, 1, code, ..] => u16::from(*code),
        [0x0a, 2, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}

/// Returns the number of bytes that follow, which is 0, if `bytes`, a whole message of a client, are an
/// UnbindRequest (§4.3): it has no response, and both sides close behind it.
pub(in crate::app) fn unbind(bytes: &[u8]) -> Option<u64> {
    let [SEQUENCE, length, 0x02, id_bytes, rest @ ..] = bytes else { return None };
    let id_bytes = usize::from(*id_bytes);
    let is_unbind = (1..=4).contains(&id_bytes)
        && usize::from(*length) == bytes.len() - 2
        && rest.get(id_bytes..) == Some(&[UNBIND, 0]);
    is_unbind.then_some(0)
}

impl Grammar for Ldap {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is};
        if from == Side::Server && !hint.mid_stream {
            return Verdict::No;
        }
        let &[SEQUENCE, ref rest @ ..] = prefix else { return Verdict::No };
        let lengths = match rest.first() {
            None => return Verdict::Maybe,
            Some(length) if *length < 0x80 => 0,
            Some(length @ 0x81..=0x84) => usize::from(length & 0x7f),
            Some(_) => return Verdict::No,
        };
        let envelope = rest.get(1 + lengths..).unwrap_or_default();
        let (verdict, id_bytes) = match envelope {
            [_, id_bytes @ 1..=4, ..] => (like(envelope, &[Is(2), Any]), usize::from(*id_bytes)),
            [_, _, ..] => (Verdict::No, 0),
            _ => (like(envelope, &[Is(2), Any]), 0),
        };
        match (verdict, envelope.get(2 + id_bytes)) {
            (Verdict::Yes, Some(tag)) => {
                let tag = *tag;
                let is_known = match from {
                    Side::Client => tag == UNBIND || REQUESTS.iter().any(|(it, _)| *it == tag),
                    Side::Server => PARTS.contains(&tag) || RESPONSES.contains(&tag),
                };
                if is_known { Verdict::Yes } else { Verdict::No }
            }
            (Verdict::Yes, None) => Verdict::Maybe,
            (verdict, _) => verdict,
        }
    }

    fn header_bytes(&self, header: &[u8]) -> usize {
        match header {
            [SEQUENCE, length @ 0x81..=0x84, ..] => 2 + usize::from(length & 0x7f),
            [SEQUENCE, ..] => 2,
            _ => 4,
        }
    }

    fn shape(&self, from: Side, header: &[u8]) -> Result<Shape, Lost> {
        let peek = if from == Side::Client { PEEK } else { 32 };
        match header {
            [SEQUENCE, length] if *length < 0x80 => Ok(Shape { length: (*length).into(), peek }),
            [SEQUENCE, _, lengths @ ..] if !lengths.is_empty() => {
                let length = lengths.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                Ok(Shape { length, peek })
            }
            [0, ..] => Ok(Shape { length: u32_be(header, 0).ok_or(Lost)?.into(), peek: 0 }),
            _ => Err(Lost),
        }
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let Some((id, tag, content)) = envelope(message.head) else { return Said::Aside };
        match from {
            Side::Client if tag == EXTENDED && has(content, START_TLS) => {
                Said::Upgrade { id, kind: "StartTLS" }
            }
            Side::Client if tag == SEARCH && LASTING.iter().any(|it| has(content, it)) => {
                Said::Aside
            }
            Side::Client => match REQUESTS.iter().find(|(it, _)| *it == tag) {
                Some((_, kind)) if !kind.is_empty() => Said::Call { id, kind, more: false },
                _ => Said::Aside,
            },
            Side::Server if PARTS.contains(&tag) => Said::Reply { id, error: None, more: true },
            Side::Server if RESPONSES.contains(&tag) => {
                Said::Reply { id, error: error(result_code(content)), more: false }
            }
            Side::Server => Said::Aside,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unbind_request_is_recognised_and_no_other_message() {
        for message in [&b"\x30\x05\x02\x01\x03\x42\x00"[..], b"\x30\x06\x02\x02\x01\x03\x42\x00"] {
            assert_eq!(unbind(message), Some(0), "{message:?}");
        }
        // A bind, a part, an unbind behind another message, and other lengths.
        for other in [
            &b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00"[..],
            b"\x30\x05\x02\x01\x03\x42",
            b"\x30\x06\x02\x01\x02\x50\x01\x01\x30\x05\x02\x01\x03\x42\x00",
            b"\x30\x06\x02\x01\x03\x42\x00",
            b"\x30\x04\x02\x00\x42\x00",
            b"",
        ] {
            assert_eq!(unbind(other), None, "{other:?}");
        }
    }
}
