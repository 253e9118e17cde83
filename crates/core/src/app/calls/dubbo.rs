//! Dubbo's protocol, version 2.
//!
//! Read first: dubbo.apache.org, "Dubbo2 protocol specification": header, flags and status. A response
//! has the id of its request. Part of no exchange: requests without a response (one way), and events,
//! which are heartbeats.

use super::bytes::{Byte, at, like};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Magic number, flags, status, id, length.
const HEADER_BYTES: usize = 16;

/// Bits of the flags.
const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
const EVENT: u8 = 0x20;

const OK: u8 = 20;

pub(super) struct Dubbo;

impl Grammar for Dubbo {
    fn begins(&self, _: Side, prefix: &[u8], _: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let [id, length] = [[Any, Any, Any, Any], [Within(0, 0x7f), Any, Any, Any]];
        let other_half = [Any, Any, Any, Any];
        let pattern: Vec<Byte> = [Is(0xda), Is(0xbb), Any, Within(0, 100)]
            .into_iter()
            .chain(id)
            .chain(other_half)
            .chain(length)
            .collect();
        like(prefix, &pattern)
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        match (header, at::<4>(header, 12)) {
            ([0xda, 0xbb, ..], Some(length)) => {
                Ok(Shape { length: u32::from_be_bytes(length).into(), peek: 0 })
            }
            _ => Err(Lost),
        }
    }

    fn read(&self, _: Side, message: &Message<'_>) -> Said {
        let (&[_, _, flags, status, ..], Some(id)) = (message.header, at(message.header, 4)) else {
            return Said::Aside;
        };
        let id = u64::from_be_bytes(id);
        match flags {
            _ if flags & EVENT != 0 => Said::Aside,
            _ if flags & REQUEST == 0 => {
                let error = (status != OK).then_some(ErrorCode::Dubbo(status));
                Said::Reply { id, error, more: false }
            }
            _ if flags & TWO_WAY != 0 => Said::Call { id, kind: "invocation", more: false },
            _ => Said::Aside,
        }
    }
}
