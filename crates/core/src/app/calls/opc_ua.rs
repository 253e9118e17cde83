//! OPC UA over TCP.
//!
//! Read first: OPC 10000-6 §6.7.2 (message chunks), §7.1.2 (connection protocol), §5.2.2.9 (NodeId), and
//! `NodeIds.csv`; OPC 10000-4 §7.33 (ResponseHeader). A response has the request id of its request. Part of no
//! exchange: Publish, which waits for an event, and messages of a channel that is encrypted: their ids are,
//! too.

use super::bytes::{Byte, at, like, u16_le, u32_le};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Type, chunk, size.
const HEADER_BYTES: usize = 8;
/// Channel, token, sequence number, request id; type of the message; time, handle and result.
const PEEK: usize = 36;
const REQUEST_ID_AT: usize = 12;
const TYPE_AT: usize = 16;
const RESULT_AT: usize = 32;
/// Greatest size of a chunk that is accepted; both sides agree on one, 64 KiB as a rule.
const CHUNK_MAX: u32 = 16 << 20;

/// Ids of the messages that have none, or none at a fixed place: they come one at a time.
const HELLO: u64 = 1 << 32;
const OPEN: u64 = 2 << 32;

const PUBLISH: u16 = 826;

const SERVICES: [(u16, &str); 20] = [
    (422, "FindServers"),
    (428, "GetEndpoints"),
    (461, "CreateSession"),
    (467, "ActivateSession"),
    (473, "CloseSession"),
    (527, "Browse"),
    (533, "BrowseNext"),
    (554, "TranslateBrowsePathsToNodeIds"),
    (560, "RegisterNodes"),
    (631, "Read"),
    (664, "HistoryRead"),
    (673, "Write"),
    (712, "Call"),
    (751, "CreateMonitoredItems"),
    (763, "ModifyMonitoredItems"),
    (781, "DeleteMonitoredItems"),
    (787, "CreateSubscription"),
    (793, "ModifySubscription"),
    (832, "Republish"),
    (847, "DeleteSubscriptions"),
];

pub(super) struct OpcUa;

impl Grammar for OpcUa {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let sized = |[t1, t2, t3]: [u8; 3], chunk: Byte| {
            let pattern = [
                Is(t1),
                Is(t2),
                Is(t3),
                chunk,
                Any,
                Any,
                Within(0, (CHUNK_MAX >> 16) as u8),
                Is(0),
            ];
            like(prefix, &pattern)
        };
        match (from, prefix.first()) {
            (Side::Client, Some(b'H')) => sized(*b"HEL", Is(b'F')),
            (_, Some(b'M')) if hint.mid_stream => sized(*b"MSG", Within(b'A', b'F')),
            _ => Verdict::No,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u32_le(header, 4).filter(|it| *it <= CHUNK_MAX).ok_or(Lost)?;
        let length = u64::from(length).checked_sub(HEADER_BYTES as u64).ok_or(Lost)?;
        Ok(Shape { length, peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        const MORE: u8 = b'C';
        let &[t1, t2, t3, chunk, ..] = message.header else { return Said::Aside };
        let more = chunk == MORE;
        match (from, [t1, t2, t3]) {
            (Side::Client, [b'H', b'E', b'L']) => Said::Call { id: HELLO, kind: "hello", more },
            (Side::Server, [b'A', b'C', b'K']) => Said::Reply { id: HELLO, error: None, more },
            (Side::Client, [b'O', b'P', b'N']) => {
                Said::Call { id: OPEN, kind: "open channel", more }
            }
            (Side::Server, [b'O', b'P', b'N']) => Said::Reply { id: OPEN, error: None, more },
            (_, [b'M', b'S', b'G']) if message.amid => Said::More { more },
            (_, [b'M', b'S', b'G']) => service(from, message.head, more),
            _ => Said::Aside,
        }
    }
}

/// Interprets the first chunk of a message, if it is not encrypted.
fn service(from: Side, head: &[u8], more: bool) -> Said {
    // A NodeId of four bytes in the namespace of OPC UA.
    let (Some(id), Some([1, 0]), Some(number)) =
        (u32_le(head, REQUEST_ID_AT), at(head, TYPE_AT), u16_le(head, TYPE_AT + 2))
    else {
        return Said::Aside;
    };
    let id = u64::from(id);
    match (from, number) {
        (Side::Client, PUBLISH) => Said::Aside,
        (Side::Client, _) => {
            let kind = SERVICES.iter().find(|(it, _)| *it == number);
            Said::Call { id, kind: kind.map_or("other", |(_, name)| name), more }
        }
        (Side::Server, _) => {
            let is_bad = |result: &u32| result >> 30 == 2;
            let error = u32_le(head, RESULT_AT).filter(is_bad).map(ErrorCode::OpcUa);
            Said::Reply { id, error, more }
        }
    }
}
