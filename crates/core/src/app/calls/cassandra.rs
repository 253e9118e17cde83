//! Cassandra's native protocol, versions 3 and 4.
//!
//! Read first: apache/cassandra `doc/native_protocol_v4.spec` §2 (header), §4 (messages), §9 (errors).
//! A response has the stream of its request, and responses come in any order. Events have stream -1 and
//! are part of no exchange. Version 5 puts frames into segments of their own, and is not followed.

use super::bytes::{Byte, at, like, name, u32_be};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Version, flags, stream, opcode, length.
const HEADER_BYTES: usize = 9;
/// The code of an error.
const PEEK: usize = 4;
/// Greatest length of a frame (§2.5).
const FRAME_MAX: u32 = 256 << 20;
/// Bit of the version in a response.
const RESPONSE: u8 = 0x80;

const ERROR: u8 = 0;
const EVENT: u8 = 12;
const REQUESTS: [(u8, &str); 8] = [
    (1, "STARTUP"),
    (5, "OPTIONS"),
    (7, "QUERY"),
    (9, "PREPARE"),
    (10, "EXECUTE"),
    (11, "REGISTER"),
    (13, "BATCH"),
    (15, "AUTH_RESPONSE"),
];

pub(super) struct Cassandra;

impl Grammar for Cassandra {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let first = match from {
            Side::Client if hint.mid_stream => Within(1, 15),
            // OPTIONS and STARTUP begin a connection.
            Side::Client if prefix.get(4) == Some(&1) => Is(1),
            Side::Client => Is(5),
            Side::Server => Within(ERROR, 16),
        };
        let bit = if from == Side::Client { 0 } else { RESPONSE };
        let version = Within(bit | 3, bit | 4);
        match from {
            Side::Server if !hint.mid_stream => Verdict::No,
            _ => like(prefix, &[version, Within(0, 0x0f), Any, Any, first, Is(0), Any, Any, Any]),
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, from: Side, header: &[u8]) -> Result<Shape, Lost> {
        let is_response = header.first().is_some_and(|version| version & RESPONSE != 0);
        let length = u32_be(header, 5).filter(|it| *it <= FRAME_MAX).ok_or(Lost)?;
        if is_response != (from == Side::Server) {
            return Err(Lost);
        }
        Ok(Shape { length: length.into(), peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let (Some(stream), Some(&opcode)) = (at(message.header, 2), message.header.get(4)) else {
            return Said::Aside;
        };
        let id = u64::from(u16::from_be_bytes(stream));
        match (from, name(&REQUESTS, opcode)) {
            (Side::Client, Some(kind)) => Said::Call { id, kind, more: false },
            (Side::Server, _) if opcode == ERROR => {
                let code = u32_be(message.head, 0).and_then(|code| u16::try_from(code).ok());
                Said::Reply { id, error: code.map(ErrorCode::Cassandra), more: false }
            }
            (Side::Server, _) if opcode != EVENT => Said::Reply { id, error: None, more: false },
            _ => Said::Aside,
        }
    }
}
