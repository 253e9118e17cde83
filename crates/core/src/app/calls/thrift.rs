//! Thrift's binary protocol in frames.
//!
//! Read first: `doc/specs/thrift-binary-protocol.md` ("Message", strict encoding, "Framed vs. unframed
//! transport") of Apache Thrift. A reply has the sequence id of its call; clients that send one call at a
//! time may leave it 0. Part of no exchange: calls without a reply (one way).

use super::bytes::{Byte, at, like, u32_be};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Greatest length of a frame (`TConfiguration.DEFAULT_MAX_MESSAGE_SIZE`, 100 MiB).
const LENGTH_MAX: u32 = 100 << 20;
/// Greatest length of a method's name that is skipped to find the sequence id.
const NAME_MAX: u8 = 100;
/// Version and type, the length of the name, the name, the sequence id.
const PEEK: usize = 4 + 4 + NAME_MAX as usize + 4;

const CALL: u8 = 1;
const REPLY: u8 = 2;
const EXCEPTION: u8 = 3;
const ONE_WAY: u8 = 4;

pub(super) struct Thrift;

impl Grammar for Thrift {
    fn begins(&self, from: Side, prefix: &[u8], _: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let kind = match from {
            Side::Client => [Within(CALL, ONE_WAY)],
            Side::Server => [Within(REPLY, EXCEPTION)],
        };
        let pattern: Vec<Byte> = [Within(0, 6), Any, Any, Any, Is(0x80), Is(1), Is(0)]
            .into_iter()
            .chain(kind)
            .chain([Is(0), Is(0), Is(0), Within(1, NAME_MAX)])
            .collect();
        like(prefix, &pattern)
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        4
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u32_be(header, 0).filter(|it| *it <= LENGTH_MAX).ok_or(Lost)?;
        Ok(Shape { length: length.into(), peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let head = message.head;
        let name_bytes = u32_be(head, 4).filter(|it| *it <= NAME_MAX.into());
        let sequence = name_bytes.and_then(|it| u32_be(head, 8 + usize::try_from(it).ok()?));
        let (Some([0x80, 1, 0, kind]), Some(sequence)) = (at(head, 0), sequence) else {
            return Said::Aside;
        };
        let id = u64::from(sequence);
        match (from, kind) {
            (Side::Client, CALL) => Said::Call { id, kind: "call", more: false },
            (Side::Server, REPLY) => Said::Reply { id, error: None, more: false },
            (Side::Server, EXCEPTION) => {
                Said::Reply { id, error: Some(ErrorCode::Thrift), more: false }
            }
            _ => Said::Aside,
        }
    }
}
