//! STUN and TURN over TCP.
//!
//! Read first: RFC 8489 §5 (header, classes), §6.2.2 (over TCP), §14.8 (ERROR-CODE); RFC 8656 §12.4
//! (ChannelData). A response has the transaction id of its request. Part of no exchange: indications, and the
//! data of channels.

use super::bytes::{Byte, at, like, u16_be};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Type, length, magic cookie.
const HEADER_BYTES: usize = 8;
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
/// Channel and length; the first byte of a channel's number.
const CHANNEL_BYTES: usize = 4;
const CHANNELS: std::ops::RangeInclusive<u8> = 0x40..=0x7f;
/// Transaction id, and the attributes among which that of an error is.
const ID_BYTES: usize = 12;
const PEEK: usize = ID_BYTES + 64;
/// ERROR-CODE.
const ERROR: u16 = 9;
/// Unauthorized and Stale Nonce ask the client for its next step (RFC 8489 §9.2.5).
const NEXT_STEPS: [u16; 2] = [401, 438];

const METHODS: [(u8, &str); 8] = [
    (1, "Binding"),
    (3, "Allocate"),
    (4, "Refresh"),
    (8, "CreatePermission"),
    (9, "ChannelBind"),
    (10, "Connect"),
    (11, "ConnectionBind"),
    (6, "Send"),
];

pub(super) struct Stun;

/// Returns the error among the attributes of an error response.
fn error(mut attributes: &[u8]) -> Option<ErrorCode> {
    loop {
        let (kind, length) = (u16_be(attributes, 0)?, u16_be(attributes, 2)?);
        if kind == ERROR {
            let [class, number] = at(attributes, 6)?;
            let code = u16::from(class & 7) * 100 + u16::from(number);
            return (!NEXT_STEPS.contains(&code)).then_some(ErrorCode::Stun(code));
        }
        attributes = attributes.get(4 + usize::from(length).next_multiple_of(4)..)?;
    }
}

impl Grammar for Stun {
    fn begins(&self, _: Side, prefix: &[u8], _: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let [c1, c2, c3, c4] = COOKIE.map(Is);
        like(prefix, &[Within(0, 0x3f), Any, Any, Any, c1, c2, c3, c4])
    }

    fn header_bytes(&self, header: &[u8]) -> usize {
        match header {
            [first, ..] if CHANNELS.contains(first) => CHANNEL_BYTES,
            _ => HEADER_BYTES,
        }
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u64::from(u16_be(header, 2).ok_or(Lost)?);
        match (header.first(), at(header, 4)) {
            (Some(first), None) if CHANNELS.contains(first) => {
                Ok(Shape { length: length.next_multiple_of(4), peek: 0 })
            }
            (_, Some(COOKIE)) => Ok(Shape { length: ID_BYTES as u64 + length, peek: PEEK }),
            _ => Err(Lost),
        }
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        const REQUEST: u16 = 0;
        const SUCCESS: u16 = 0x100;
        const FAILURE: u16 = 0x110;
        let (Some(kind), Some(id)) = (u16_be(message.header, 0), at(message.head, 4)) else {
            return Said::Aside;
        };
        // The end of the id, which is random.
        let id = u64::from_be_bytes(id);
        match (from, kind & 0x110) {
            (Side::Client, REQUEST) => {
                let method = name_of(kind);
                Said::Call { id, kind: method, more: false }
            }
            (Side::Server, SUCCESS) => Said::Reply { id, error: None, more: false },
            (Side::Server, FAILURE) => {
                let error = message.head.get(ID_BYTES..).and_then(error);
                Said::Reply { id, error, more: false }
            }
            _ => Said::Aside,
        }
    }
}

/// Returns the name of the method in the type of a request.
fn name_of(kind: u16) -> &'static str {
    let method = u8::try_from(kind).ok();
    method.and_then(|it| super::bytes::name(&METHODS, it)).unwrap_or("other")
}
