//! ISO transport over TCP, with Siemens' S7 in it.
//!
//! Read first: RFC 1006 §6 (TPKT); ISO 8073 §13 (connection request and confirm, data). S7 is described by
//! Wireshark's `packet-s7comm.c`; a response has the reference of its request. Another protocol may follow the
//! confirmation, such as TLS in RDP (MS-RDPBCGR §1.3.1.1), whose server may refuse what the client offers
//! (§2.2.1.2.2). Part of no exchange: what a controller sends by
//! itself, and S7 "plus", of which the ids are at no fixed place.

use super::bytes::{Byte, at, like, name, u16_be};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Version, reserved, length.
const HEADER_BYTES: usize = 4;
/// The data unit of the transport, and the header and the first parameters of S7.
const PEEK: usize = 24;

/// Data units of the transport.
const CONNECTION_REQUEST: u8 = 0xe0;
const CONNECTION_CONFIRM: u8 = 0xd0;
const DATA: u8 = 0xf0;
/// References count from 0 to 65,535.
const CONNECTION: u64 = 1 << 16;

/// Kinds of messages of S7: request, acknowledgment without and with data, user data.
const JOB: u8 = 1;
const ACK: u8 = 2;
const ACK_DATA: u8 = 3;
const USER_DATA: u8 = 7;
/// Upper half of the type of user data: a request, a response. Without both the sender was not asked.
const ASKS: u8 = 4;
const ANSWERS: u8 = 8;

const FUNCTIONS: [(u8, &str); 11] = [
    (0x04, "read variables"),
    (0x05, "write variables"),
    (0x1a, "request download"),
    (0x1b, "download block"),
    (0x1c, "download ended"),
    (0x1d, "start upload"),
    (0x1e, "upload"),
    (0x1f, "end upload"),
    (0x28, "PLC control"),
    (0x29, "PLC stop"),
    (0xf0, "setup communication"),
];

pub(super) struct IsoOnTcp;

impl Grammar for IsoOnTcp {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let request = [Is(3), Is(0), Is(0), Any, Any, Is(CONNECTION_REQUEST), Is(0), Is(0)];
        let data = [Is(3), Is(0), Within(0, 0x20), Any, Is(2), Is(DATA), Within(0, 0x80)];
        let s7: Vec<Byte> = data.into_iter().chain([Is(0x32), Within(JOB, USER_DATA)]).collect();
        match (from, hint.mid_stream) {
            (Side::Client, false) => like(prefix, &request),
            _ => like(prefix, &s7),
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        match (header, u16_be(header, 2)) {
            ([3, ..], Some(length)) => {
                let length = u64::from(length).checked_sub(HEADER_BYTES as u64).ok_or(Lost)?;
                Ok(Shape { length, peek: PEEK })
            }
            _ => Err(Lost),
        }
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        match (from, message.head) {
            (Side::Client, [_, CONNECTION_REQUEST, ..]) => {
                Said::Upgrade { id: CONNECTION, kind: "transport connection" }
            }
            (Side::Server, [_, CONNECTION_CONFIRM, _, _, _, _, _, negotiation @ ..]) => {
                let error = refusal(negotiation).map(ErrorCode::Rdp);
                Said::Reply { id: CONNECTION, error, more: false }
            }
            (Side::Server, [_, CONNECTION_CONFIRM, ..]) => {
                Said::Reply { id: CONNECTION, error: None, more: false }
            }
            (_, [2, DATA, _, 0x32, kind, rest @ ..]) => s7(from, *kind, rest),
            _ => Said::Aside,
        }
    }
}

/// Returns the code of RDP_NEG_FAILURE: type, flags, length, code (MS-RDPBCGR §2.2.1.2.2).
fn refusal(negotiation: &[u8]) -> Option<u8> {
    match negotiation {
        [3, _, 8, 0, code, 0, 0, 0] => Some(*code),
        _ => None,
    }
}

/// Interprets a message of S7; `rest` follows its kind: reserved, reference, lengths of parameters and data.
fn s7(from: Side, kind: u8, rest: &[u8]) -> Said {
    const PARAMETERS_AT: usize = 8;
    let Some(id) = u16_be(rest, 2).map(u64::from) else { return Said::Aside };
    // Head of three bytes, length, method, type and group.
    let user = rest.get(PARAMETERS_AT + 5).map_or(0, |it| it >> 4);
    match (from, kind) {
        (Side::Client, JOB) => {
            let function = rest.get(PARAMETERS_AT).copied().unwrap_or_default();
            Said::Call { id, kind: name(&FUNCTIONS, function).unwrap_or("other"), more: false }
        }
        (Side::Client, USER_DATA) if user == ASKS => {
            Said::Call { id, kind: "user data", more: false }
        }
        (Side::Server, ACK | ACK_DATA) => {
            let code = at(rest, PARAMETERS_AT).map(u16::from_be_bytes).unwrap_or_default();
            let error = (code != 0).then_some(ErrorCode::S7(code));
            Said::Reply { id, error, more: false }
        }
        (Side::Server, USER_DATA) if user == ANSWERS => {
            Said::Reply { id, error: None, more: false }
        }
        _ => Said::Aside,
    }
}
