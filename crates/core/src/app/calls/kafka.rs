//! Kafka's protocol.
//!
//! Read first: kafka.apache.org/protocol, "Request Header", "Response Header", and Produce. A response
//! has the correlation id of its request, and responses come in the order of the requests.
//!
//! Part of no exchange: Fetch, which waits up to `max_wait_ms` for data; JoinGroup and SyncGroup, which
//! wait for the other members of a group; and Produce with `acks` 0, which has no response.

use super::bytes::{Byte, at, like, name, u16_be, u32_be};
use super::{Grammar, Message, Said};
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Greatest size of a message (`socket.request.max.bytes`, 100 MiB).
const SIZE_MAX: u32 = 100 << 20;
/// Key, version, correlation id, and a name of the client and a transaction before `acks`.
const PEEK: usize = 300;
const PRODUCE: u8 = 0;
const FETCH: u8 = 1;
const JOIN_GROUP: u8 = 11;
const SYNC_GROUP: u8 = 14;

const KINDS: [(u8, &str); 30] = [
    (PRODUCE, "Produce"),
    (FETCH, "Fetch"),
    (2, "ListOffsets"),
    (3, "Metadata"),
    (4, "LeaderAndIsr"),
    (5, "StopReplica"),
    (6, "UpdateMetadata"),
    (8, "OffsetCommit"),
    (9, "OffsetFetch"),
    (10, "FindCoordinator"),
    (JOIN_GROUP, "JoinGroup"),
    (12, "Heartbeat"),
    (13, "LeaveGroup"),
    (SYNC_GROUP, "SyncGroup"),
    (15, "DescribeGroups"),
    (16, "ListGroups"),
    (17, "SaslHandshake"),
    (18, "ApiVersions"),
    (19, "CreateTopics"),
    (20, "DeleteTopics"),
    (22, "InitProducerId"),
    (24, "AddPartitionsToTxn"),
    (25, "AddOffsetsToTxn"),
    (26, "EndTxn"),
    (32, "DescribeConfigs"),
    (33, "AlterConfigs"),
    (36, "SaslAuthenticate"),
    (37, "CreatePartitions"),
    (47, "OffsetDelete"),
    (60, "DescribeCluster"),
];

pub(super) struct Kafka;

/// Returns whether a Produce request asks for no response. `body` follows the correlation id.
fn has_no_response(version: u16, body: &[u8]) -> bool {
    const ABSENT: u16 = u16::MAX;
    let text = |at: usize| {
        let length = u16_be(body, at)?;
        Some(at + 2 + if length == ABSENT { 0 } else { usize::from(length) })
    };
    let acks_at = || {
        let at = text(0)?;
        match version {
            0..=2 => Some(at),
            3..=8 => text(at),
            // Tagged fields, none as a rule, and a compact transaction, whose length is one more.
            _ => match *body.get(at..)? {
                [0, 0, ..] => Some(at + 2),
                [0, length @ 1..0x80, ..] => Some(at + 1 + usize::from(length)),
                _ => None,
            },
        }
    };
    acks_at().and_then(|at| u16_be(body, at)) == Some(0)
}

impl Grammar for Kafka {
    fn begins(&self, from: Side, prefix: &[u8], _: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        // Size, key, version, correlation id, and the length of the client's name.
        let named = [
            Within(0, 6),
            Any,
            Any,
            Any,
            Is(0),
            Within(0, 74),
            Is(0),
            Within(0, 20),
            Within(0, 0x7f),
            Any,
            Any,
            Any,
            Is(0),
            Within(1, 127),
            Within(b'!', b'~'),
            Within(b'!', b'~'),
        ];
        match from {
            // A size that a message of this kind cannot have.
            Side::Client if u32_be(prefix, 0).is_some_and(|it| !(14..=SIZE_MAX).contains(&it)) => {
                Verdict::No
            }
            Side::Client => like(prefix, &named),
            Side::Server => Verdict::No,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        4
    }

    fn shape(&self, from: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u32_be(header, 0).filter(|it| *it <= SIZE_MAX).ok_or(Lost)?;
        Ok(Shape { length: length.into(), peek: if from == Side::Client { PEEK } else { 4 } })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let head = message.head;
        if from == Side::Server {
            return match u32_be(head, 0) {
                Some(id) => Said::Reply { id: id.into(), error: None, more: false },
                None => Said::Aside,
            };
        }
        let (Some([0, key]), Some(version), Some(id)) =
            (at(head, 0), u16_be(head, 2), u32_be(head, 4))
        else {
            return Said::Aside;
        };
        match key {
            FETCH | JOIN_GROUP | SYNC_GROUP => Said::Aside,
            PRODUCE if has_no_response(version, head.get(8..).unwrap_or_default()) => Said::Aside,
            _ => Said::Call {
                id: id.into(),
                kind: name(&KINDS, key).unwrap_or("other"),
                more: false,
            },
        }
    }
}
