//! Diameter.
//!
//! Read first: RFC 6733 §3 (header), §4.1 (AVPs), §5.5 (watchdog), §7.1 (results). An answer has the
//! hop-by-hop identifier of its request. Part of no exchange: the watchdog, and requests of the side that
//! accepted the connection.

use super::bytes::{Byte, at, like, u32_be};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

const PORT: u16 = 3868;
/// Up to the hop-by-hop identifier; the end-to-end identifier follows.
const HEADER_BYTES: usize = 16;
const END_TO_END_BYTES: usize = 4;
/// Number of bytes in which the result of an answer is looked for.
const PEEK: usize = 600;
/// Bit of the flags: a request.
const REQUEST: u8 = 0x80;
const WATCHDOG: u32 = 280;
/// The code and the header of Result-Code, without and with the mandatory bit.
const RESULT_CODE: u32 = 268;
/// Results from here on are errors (§7.1.3 to §7.1.5).
const ERROR_MIN: u32 = 3000;

const COMMANDS: [(u32, &str); 18] = [
    (257, "Capabilities-Exchange"),
    (258, "Re-Auth"),
    (265, "AA"),
    (268, "Diameter-EAP"),
    (271, "Accounting"),
    (272, "Credit-Control"),
    (274, "Abort-Session"),
    (275, "Session-Termination"),
    (282, "Disconnect-Peer"),
    (300, "User-Authorization"),
    (301, "Server-Assignment"),
    (302, "Location-Info"),
    (303, "Multimedia-Auth"),
    (306, "User-Data"),
    (316, "Update-Location"),
    (318, "Authentication-Information"),
    (321, "Purge-UE"),
    (8_388_635, "Spending-Limit"),
];

pub(super) struct Diameter;

/// Returns the result that the AVPs of an answer report.
fn result(mut avps: &[u8]) -> Option<u32> {
    loop {
        let code = u32_be(avps, 0)?;
        let [flags, high, middle, low] = at(avps, 4)?;
        let length = u32::from_be_bytes([0, high, middle, low]);
        if code == RESULT_CODE && flags & 0x80 == 0 {
            return u32_be(avps, 8);
        }
        let next = usize::try_from(length.max(8)).ok()?.next_multiple_of(4);
        avps = avps.get(next..)?;
    }
}

impl Grammar for Diameter {
    fn begins(&self, _: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        // Version, length, flags, command.
        match (hint.mid_stream, hint.server_port) {
            (true, PORT) => like(prefix, &[Is(1), Is(0), Any, Any, Any, Within(0, 0x80), Any, Any]),
            (true, _) => Verdict::No,
            _ => like(prefix, &[Is(1), Is(0), Any, Any, Is(REQUEST), Is(0), Is(1), Is(1), Is(0)]),
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let Some([1, high, middle, low]) = at(header, 0) else { return Err(Lost) };
        let length = u64::from(u32::from_be_bytes([0, high, middle, low]));
        let rest = length.checked_sub(HEADER_BYTES as u64).ok_or(Lost)?;
        Ok(Shape { length: rest, peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let (Some([flags, high, middle, low]), Some(id)) =
            (at(message.header, 4), u32_be(message.header, 12))
        else {
            return Said::Aside;
        };
        let id = u64::from(id);
        let command = u32::from_be_bytes([0, high, middle, low]);
        match (from, flags & REQUEST != 0) {
            _ if command == WATCHDOG => Said::Aside,
            (Side::Client, true) => {
                let kind = COMMANDS.iter().find(|(it, _)| *it == command);
                Said::Call { id, kind: kind.map_or("other", |(_, name)| name), more: false }
            }
            (Side::Server, false) => {
                let avps = message.head.get(END_TO_END_BYTES..).unwrap_or_default();
                let result = result(avps).filter(|it| *it >= ERROR_MIN);
                let error = result.and_then(|it| u16::try_from(it).ok()).map(ErrorCode::Diameter);
                Said::Reply { id, error, more: false }
            }
            _ => Said::Aside,
        }
    }
}
