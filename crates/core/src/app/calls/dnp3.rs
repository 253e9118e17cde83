//! DNP3 over TCP.
//!
//! Read first: IEEE 1815-2012 §9 (data link), §8 (transport function), §4 (application layer).
//!
//! ```text
//! master: READ, WRITE, OPERATE, … with a sequence number     outstation: RESPONSE with it
//! ```
//!
//! Part of no exchange: CONFIRM, which acknowledges; unsolicited responses, which an outstation sends by
//! itself, and their confirmations; functions without a response; what goes to all outstations; and frames of
//! the link layer alone.

use super::bytes::{Byte, like, name};
use super::{Grammar, Message, Said};
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Start, length, control, destination, source and checksum.
const HEADER_BYTES: usize = 10;
/// Transport header, application control, function.
const PEEK: usize = 3;
/// Bytes of the header that its length counts, and of a block of user data with its own checksum.
const COUNTED_BYTES: u64 = 5;
const BLOCK_BYTES: u64 = 16;
const CHECKSUM_BYTES: u64 = 2;

/// Bits of the transport header: the first, the last segment of a fragment.
const TRANSPORT_FIRST: u8 = 0x40;
const TRANSPORT_LAST: u8 = 0x80;
/// Bits of the application control: the last fragment of a message; unsolicited; the sequence number.
const LAST: u8 = 0x40;
const UNSOLICITED: u8 = 0x10;
const SEQUENCE: u8 = 0x0f;

/// Least of the addresses of all outstations, which do not answer what is sent there (IEEE 1815 §9).
const BROADCAST_MIN: u16 = 0xfffd;

const RESPONSE: u8 = 129;
const AUTHENTICATE_RESPONSE: u8 = 131;

/// Functions with a response (IEEE 1815 table 4-2).
const FUNCTIONS: [(u8, &str); 23] = [
    (1, "READ"),
    (2, "WRITE"),
    (3, "SELECT"),
    (4, "OPERATE"),
    (5, "DIRECT_OPERATE"),
    (7, "IMMED_FREEZE"),
    (9, "FREEZE_CLEAR"),
    (11, "FREEZE_AT_TIME"),
    (13, "COLD_RESTART"),
    (14, "WARM_RESTART"),
    (16, "INITIALIZE_APPL"),
    (17, "START_APPL"),
    (18, "STOP_APPL"),
    (20, "ENABLE_UNSOLICITED"),
    (21, "DISABLE_UNSOLICITED"),
    (22, "ASSIGN_CLASS"),
    (23, "DELAY_MEASURE"),
    (24, "RECORD_CURRENT_TIME"),
    (25, "OPEN_FILE"),
    (26, "CLOSE_FILE"),
    (27, "DELETE_FILE"),
    (28, "GET_FILE_INFO"),
    (32, "AUTHENTICATE_REQ"),
];

pub(super) struct Dnp3;

impl Grammar for Dnp3 {
    fn begins(&self, _: Side, prefix: &[u8], _: Hint) -> Verdict {
        use Byte::{Is, Within};
        like(prefix, &[Is(0x05), Is(0x64), Within(COUNTED_BYTES as u8, 255)])
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let &[0x05, 0x64, length, ..] = header else { return Err(Lost) };
        let user = u64::from(length).checked_sub(COUNTED_BYTES).ok_or(Lost)?;
        let length = user + CHECKSUM_BYTES * user.div_ceil(BLOCK_BYTES);
        Ok(Shape { length, peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let &[transport, control, function] = message.head else { return Said::Aside };
        let ends_fragment = transport & TRANSPORT_LAST != 0;
        if transport & TRANSPORT_FIRST == 0 {
            // The control of its fragment was in another frame: a message of several fragments goes on
            // until the next reply.
            return Said::More { more: !ends_fragment };
        }
        let more = !ends_fragment || control & LAST == 0;
        let id = u64::from(control & SEQUENCE);
        let &[.., low, high, _, _, _, _] = message.header else { return Said::Aside };
        let is_broadcast = u16::from_le_bytes([low, high]) >= BROADCAST_MIN;
        match (from, name(&FUNCTIONS, function)) {
            _ if control & UNSOLICITED != 0 => Said::Aside,
            (Side::Client, _) if is_broadcast => Said::Aside,
            (Side::Client, Some(kind)) => Said::Call { id, kind, more },
            (Side::Server, _) if [RESPONSE, AUTHENTICATE_RESPONSE].contains(&function) => {
                Said::Reply { id, error: None, more }
            }
            _ => Said::Aside,
        }
    }
}
