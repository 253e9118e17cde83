//! EtherNet/IP: CIP over TCP.
//!
//! Read first: "The CIP Networks Library", volume 2, §2-3 (encapsulation header), §2-4 (commands), §2-6
//! (common packet format). A reply has the context of its request, and in a connection the sequence number
//! of the data. Part of no exchange: NOP, and the end of a session, which has no reply.

use super::bytes::{Byte, at, like, name, u16_le, u32_le};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

const PORT: u16 = 44818;
/// Command and length.
const HEADER_BYTES: usize = 4;
/// Session, status, context and options, which the length does not count.
const UNCOUNTED_BYTES: u64 = 20;
const STATUS_AT: usize = 4;
const CONTEXT_AT: usize = 8;
/// Place of the sequence number in the data of a connection: after the interface, the timeout, the number of
/// items, the item with the connection, and the header of the item with the data.
const SEQUENCE_AT: usize = 20 + 4 + 2 + 2 + 8 + 4;
const PEEK: usize = SEQUENCE_AT + 2;

const SEND_UNIT_DATA: u8 = 0x70;
/// Distinguishes sequence numbers from contexts.
const CONNECTED: u64 = 1 << 63;

const COMMANDS: [(u8, &str); 6] = [
    (0x04, "ListServices"),
    (0x63, "ListIdentity"),
    (0x64, "ListInterfaces"),
    (0x65, "RegisterSession"),
    (0x6f, "SendRRData"),
    (SEND_UNIT_DATA, "SendUnitData"),
];

pub(super) struct EthernetIp;

impl Grammar for EthernetIp {
    fn begins(&self, _: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is};
        // Command, length, session, status.
        let pattern = [Any, Is(0), Any, Any, Any, Any, Any, Any, Is(0), Is(0), Is(0), Is(0)];
        match prefix.first() {
            Some(&command) if hint.server_port == PORT && name(&COMMANDS, command).is_some() => {
                like(prefix, &pattern)
            }
            _ => Verdict::No,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u16_le(header, 2).ok_or(Lost)?;
        Ok(Shape { length: UNCOUNTED_BYTES + u64::from(length), peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let (&[command, 0, ..], Some(context)) = (message.header, at(message.head, CONTEXT_AT))
        else {
            return Said::Aside;
        };
        let id = match u16_le(message.head, SEQUENCE_AT) {
            Some(sequence) if command == SEND_UNIT_DATA => CONNECTED | u64::from(sequence),
            _ => u64::from_le_bytes(context) & !CONNECTED,
        };
        match (from, name(&COMMANDS, command)) {
            (Side::Client, Some(kind)) => Said::Call { id, kind, more: false },
            (Side::Server, Some(_)) => {
                let status = u32_le(message.head, STATUS_AT).unwrap_or_default();
                let status = u8::try_from(status).unwrap_or(u8::MAX);
                let error = (status != 0).then_some(ErrorCode::EthernetIp(status));
                Said::Reply { id, error, more: false }
            }
            _ => Said::Aside,
        }
    }
}
