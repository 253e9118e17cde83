//! DCE/RPC over TCP, as Windows speaks it.
//!
//! Read first: The Open Group C706 §12.6 (connection-oriented PDUs); MS-RPCE §2.2.2. A call is one or
//! more fragments with the same call id. Part of no exchange: auth3, which has no reply, cancel, and
//! orphaned calls.

use super::bytes::{Byte, at, like, name};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Version, type, flags, data representation, lengths, call id.
const HEADER_BYTES: usize = 16;
/// The status of a fault, after three fields of a request's or response's header.
const PEEK: usize = 12;
const STATUS_AT: usize = 8;
/// PFC_LAST_FRAG.
const LAST: u8 = 2;
/// Bit of the data representation: numbers have their least byte first.
const LITTLE: u8 = 0x10;

const RESPONSE: u8 = 2;
const FAULT: u8 = 3;
const BIND_ACK: u8 = 12;
const BIND_NAK: u8 = 13;
const ALTER_RESPONSE: u8 = 15;

const CALLS: [(u8, &str); 3] = [(0, "request"), (11, "bind"), (14, "alter context")];

pub(super) struct DceRpc;

impl Grammar for DceRpc {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let types = match from {
            Side::Client if hint.mid_stream => Within(0, 19),
            Side::Client => Is(11),
            Side::Server if hint.mid_stream => Within(RESPONSE, ALTER_RESPONSE),
            Side::Server => return Verdict::No,
        };
        let order = Within(0, LITTLE);
        like(prefix, &[Is(5), Within(0, 1), types, Any, order, Within(0, 3), Is(0), Is(0)])
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let &[5, _, _, _, order, _, _, _, ref rest @ ..] = header else { return Err(Lost) };
        let bytes = at(rest, 0).ok_or(Lost)?;
        let length =
            if order & LITTLE != 0 { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) };
        let length = usize::from(length).checked_sub(HEADER_BYTES).ok_or(Lost)?;
        Ok(Shape { length: length as u64, peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let (Some([kind, flags, order]), Some(id)) =
            (at(message.header, 2), at(message.header, 12))
        else {
            return Said::Aside;
        };
        let number = |bytes: [u8; 4]| match order & LITTLE {
            0 => u32::from_be_bytes(bytes),
            _ => u32::from_le_bytes(bytes),
        };
        let (id, more) = (u64::from(number(id)), flags & LAST == 0);
        match (from, name(&CALLS, kind)) {
            (Side::Client, Some(kind)) => Said::Call { id, kind, more },
            (Side::Server, _) => match kind {
                FAULT => {
                    let status = at(message.head, STATUS_AT).map(number);
                    Said::Reply { id, error: status.map(ErrorCode::DceRpc), more }
                }
                RESPONSE | BIND_ACK | BIND_NAK | ALTER_RESPONSE => {
                    Said::Reply { id, error: None, more }
                }
                _ => Said::Aside,
            },
            _ => Said::Aside,
        }
    }
}
