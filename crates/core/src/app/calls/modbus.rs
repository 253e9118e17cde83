//! Modbus/TCP.
//!
//! Read first: "MODBUS Messaging on TCP/IP Implementation Guide" V1.0b §3.1.3 (header), "MODBUS
//! Application Protocol Specification" V1.1b3 §6 (functions), §7 (exceptions). A response has the
//! transaction id of its request. First bytes like these are common elsewhere: only the registered port
//! tells.

use super::bytes::{Byte, like, name, u16_be};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

const PORT: u16 = 502;
/// Transaction, protocol, length.
const HEADER_BYTES: usize = 6;
/// Unit, function, and the code of an exception.
const PEEK: usize = 3;
/// Greatest length: a unit and a PDU of 253 bytes.
const LENGTH_MAX: u16 = 254;
/// Bit of the function in an exception.
const EXCEPTION: u8 = 0x80;

const FUNCTIONS: [(u8, &str); 19] = [
    (1, "read coils"),
    (2, "read discrete inputs"),
    (3, "read holding registers"),
    (4, "read input registers"),
    (5, "write single coil"),
    (6, "write single register"),
    (7, "read exception status"),
    (8, "diagnostics"),
    (11, "get comm event counter"),
    (12, "get comm event log"),
    (15, "write multiple coils"),
    (16, "write multiple registers"),
    (17, "report server id"),
    (20, "read file record"),
    (21, "write file record"),
    (22, "mask write register"),
    (23, "read/write multiple registers"),
    (24, "read FIFO queue"),
    (43, "encapsulated interface transport"),
];

pub(super) struct Modbus;

impl Grammar for Modbus {
    fn begins(&self, _: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        match hint.server_port {
            PORT => {
                like(prefix, &[Any, Any, Is(0), Is(0), Is(0), Within(2, LENGTH_MAX as u8), Any])
            }
            _ => Verdict::No,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u16_be(header, 4).filter(|it| (2..=LENGTH_MAX).contains(it)).ok_or(Lost)?;
        match u16_be(header, 2) {
            Some(0) => Ok(Shape { length: length.into(), peek: PEEK }),
            _ => Err(Lost),
        }
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let (Some(id), &[_, function, ref rest @ ..]) = (u16_be(message.header, 0), message.head)
        else {
            return Said::Aside;
        };
        let id = u64::from(id);
        match (from, rest) {
            (Side::Client, _) => {
                Said::Call { id, kind: name(&FUNCTIONS, function).unwrap_or("other"), more: false }
            }
            (Side::Server, [code]) if function & EXCEPTION != 0 => {
                Said::Reply { id, error: Some(ErrorCode::Modbus(*code)), more: false }
            }
            (Side::Server, _) => Said::Reply { id, error: None, more: false },
        }
    }
}
