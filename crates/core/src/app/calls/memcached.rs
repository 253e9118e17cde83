//! memcached's binary protocol.
//!
//! Read first: memcached's wiki, "BinaryProtocolRevamped": header, opcodes, response status. A response has
//! the opaque value of its request. Part of no exchange: quiet commands, which are answered only if something
//! was found or failed; a NOOP behind them is answered.

use super::bytes::{Byte, like, name, u16_be, u32_be};
use super::{Grammar, Message, Said};
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Magic number, opcode, length of the key, length of extras, data type, status, length of the body.
const HEADER_BYTES: usize = 12;
/// Opaque value and CAS, which the length does not count.
const UNCOUNTED_BYTES: u64 = 12;
const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const EXTRAS_MAX: u8 = 24;
const STAT: u8 = 0x10;

/// Commands with a response in any case.
const COMMANDS: [(u8, &str); 19] = [
    (0x00, "Get"),
    (0x01, "Set"),
    (0x02, "Add"),
    (0x03, "Replace"),
    (0x04, "Delete"),
    (0x05, "Increment"),
    (0x06, "Decrement"),
    (0x07, "Quit"),
    (0x08, "Flush"),
    (0x0a, "No-op"),
    (0x0b, "Version"),
    (0x0c, "GetK"),
    (0x0e, "Append"),
    (0x0f, "Prepend"),
    (STAT, "Stat"),
    (0x1c, "Touch"),
    (0x1d, "GAT"),
    (0x20, "SASL list mechanisms"),
    (0x21, "SASL auth"),
];

/// Commands that store, which have flags and an expiration (8 bytes), and those that count (20 bytes), each
/// with its quiet form.
const STORING: [u8; 6] = [0x01, 0x02, 0x03, 0x11, 0x12, 0x13];
const COUNTING: [u8; 4] = [0x05, 0x06, 0x15, 0x16];

pub(super) struct Memcached;

/// Returns whether the lengths in `header` agree with each other, and in a request with its opcode.
fn fits(header: &[u8; HEADER_BYTES]) -> bool {
    let [magic, opcode, k1, k2, extras, _, _, _, b1, b2, b3, b4] = *header;
    let key = u32::from(u16::from_be_bytes([k1, k2]));
    let body = u32::from_be_bytes([b1, b2, b3, b4]);
    let is_whole = key + u32::from(extras) <= body;
    let expected = match opcode {
        _ if magic == RESPONSE => return is_whole,
        _ if STORING.contains(&opcode) => 8,
        _ if COUNTING.contains(&opcode) => 20,
        // Flush and the commands that set an expiration may have 4 bytes.
        0x08 | 0x18 | 0x1c..=0x1e if extras == 4 => 4,
        _ => 0,
    };
    is_whole && extras == expected
}

impl Grammar for Memcached {
    fn begins(&self, from: Side, prefix: &[u8], _: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let magic = if from == Side::Client { REQUEST } else { RESPONSE };
        // Keys have at most 250 bytes, and the body below 16 MiB as a rule.
        let extras = Within(0, EXTRAS_MAX);
        let pattern = [Is(magic), Within(0, 0x22), Is(0), Any, extras, Is(0), Is(0), Any, Is(0)];
        match prefix.first_chunk::<HEADER_BYTES>() {
            // SPDY begins with the same byte.
            Some(header) if !fits(header) => Verdict::No,
            Some(_) => like(prefix, &pattern),
            None if like(prefix, &pattern) == Verdict::No => Verdict::No,
            None => Verdict::Maybe,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, from: Side, header: &[u8]) -> Result<Shape, Lost> {
        let magic = if from == Side::Client { REQUEST } else { RESPONSE };
        match (header.first(), u32_be(header, 8)) {
            (Some(first), Some(length)) if *first == magic => {
                Ok(Shape { length: UNCOUNTED_BYTES + u64::from(length), peek: 4 })
            }
            _ => Err(Lost),
        }
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let (&[_, opcode, ..], Some(id)) = (message.header, u32_be(message.head, 0)) else {
            return Said::Aside;
        };
        let id = u64::from(id);
        match (from, name(&COMMANDS, opcode)) {
            (Side::Client, Some(kind)) => Said::Call { id, kind, more: false },
            (Side::Server, _) => {
                let status = u16_be(message.header, 6).unwrap_or_default();
                // One response for each statistic; that without a key is the last.
                let more = opcode == STAT && u16_be(message.header, 2) != Some(0);
                Said::Reply { id, error: super::status::memcached(status), more }
            }
            _ => Said::Aside,
        }
    }
}
