//! ZooKeeper's client protocol.
//!
//! Read first: `zookeeper-jute/src/main/resources/zookeeper.jute` (ConnectRequest, RequestHeader,
//! ReplyHeader) and `ZooDefs.java` (operations) of Apache ZooKeeper. A reply has the id of its request. Part
//! of no exchange: pings, and events of watches, which come when something changes.

use super::bytes::{Byte, like, name, u32_be};
use super::{Grammar, Message, Said};
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

const PORT: u16 = 2181;
/// Greatest length of a message (`jute.maxbuffer` is 1 MiB unless it is set higher).
const LENGTH_MAX: u32 = 64 << 20;
/// Id, transaction and error.
const PEEK: usize = 16;

/// Ids of events, pings: -1, -2.
const EVENT: u32 = u32::MAX;
const PING: u32 = u32::MAX - 1;
/// A request and a reply to connect have the version of the protocol, 0, in place of an id, which counts
/// from 1.
const CONNECT: u32 = 0;

/// The operation that closes a session: -11.
const CLOSE: u32 = u32::MAX - 10;

const OPERATIONS: [(u8, &str); 24] = [
    (1, "create"),
    (2, "delete"),
    (3, "exists"),
    (4, "getData"),
    (5, "setData"),
    (6, "getACL"),
    (7, "setACL"),
    (8, "getChildren"),
    (9, "sync"),
    (12, "getChildren2"),
    (13, "check"),
    (14, "multi"),
    (15, "create2"),
    (16, "reconfig"),
    (19, "createContainer"),
    (20, "deleteContainer"),
    (21, "createTTL"),
    (22, "multiRead"),
    (100, "auth"),
    (101, "setWatches"),
    (102, "sasl"),
    (103, "getEphemerals"),
    (104, "getAllChildrenNumber"),
    (106, "addWatch"),
];

pub(super) struct Zookeeper;

impl Grammar for Zookeeper {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        // The length and the version of a request to connect, without and with its last field.
        let connect = [Is(0), Is(0), Is(0), Within(44, 45), Is(0), Is(0), Is(0), Is(0)];
        let small_length = [Is(0), Within(0, 0x0f), Any, Any];
        let operation = [Any, Any, Any, Any, Is(0), Is(0), Is(0), Within(1, 107)];
        match (from, hint.mid_stream) {
            (Side::Client, false) => like(prefix, &connect),
            (Side::Client, true) if hint.server_port == PORT => {
                let pattern: Vec<Byte> = small_length.into_iter().chain(operation).collect();
                like(prefix, &pattern)
            }
            _ => Verdict::No,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        4
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u32_be(header, 0).filter(|it| *it <= LENGTH_MAX).ok_or(Lost)?;
        Ok(Shape { length: length.into(), peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let Some(id) = u32_be(message.head, 0) else { return Said::Aside };
        let operation = u32_be(message.head, 4).unwrap_or_default();
        match (from, id) {
            (_, EVENT | PING) => Said::Aside,
            (Side::Client, _) => {
                let kind = match (id, operation) {
                    (CONNECT, _) => "connect",
                    (_, CLOSE) => "closeSession",
                    _ => u8::try_from(operation)
                        .ok()
                        .and_then(|it| name(&OPERATIONS, it))
                        .unwrap_or("other"),
                };
                Said::Call { id: id.into(), kind, more: false }
            }
            (Side::Server, CONNECT) => Said::Reply { id: id.into(), error: None, more: false },
            (Side::Server, _) => {
                let error = u32_be(message.head, 12).and_then(super::status::zookeeper);
                Said::Reply { id: id.into(), error, more: false }
            }
        }
    }
}
