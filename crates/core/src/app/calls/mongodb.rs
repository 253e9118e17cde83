//! MongoDB's wire protocol.
//!
//! Read first: MongoDB manual, "MongoDB Wire Protocol": message header, OP_MSG and its flag bits;
//! "OP_MSG" of the driver specifications; bsonspec.org. `responseTo` of a reply is the id of its request.
//!
//! Part of no exchange: requests without a reply (`moreToCome`); `hello` with `maxAwaitTimeMS` and
//! `getMore` with `maxTimeMS`, which wait for an event; and replies of a stream (`exhaustAllowed`).

use super::bytes::{Byte, has, like, u32_le};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Length, id, id of the request, operation.
const HEADER_BYTES: usize = 16;
/// Number of bytes in which the fields of a command or a result are looked for.
const PEEK: usize = 600;
/// Greatest length (`maxMessageSizeBytes`).
const MESSAGE_MAX: u32 = 48_000_000;

const OP_REPLY: u32 = 1;
const OP_QUERY: u32 = 2004;
const OP_GET_MORE: u32 = 2005;
const OP_COMPRESSED: u32 = 2012;
const OP_MSG: u32 = 2013;
const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;

/// Place of the name of the first field: after the flags, the kind of section, the length of the
/// document, and the type of the field.
const COMMAND_AT: usize = 4 + 1 + 4 + 1;

/// Names of commands (MongoDB manual, "Database Commands"); others are values.
const COMMANDS: [&str; 42] = [
    "aggregate",
    "abortTransaction",
    "authenticate",
    "buildInfo",
    "collStats",
    "commitTransaction",
    "connectionStatus",
    "count",
    "create",
    "createIndexes",
    "dbStats",
    "delete",
    "distinct",
    "drop",
    "dropDatabase",
    "dropIndexes",
    "endSessions",
    "explain",
    "find",
    "findAndModify",
    "getMore",
    "getParameter",
    "hello",
    "hostInfo",
    "insert",
    "isMaster",
    "ismaster",
    "killCursors",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "logout",
    "ping",
    "replSetGetStatus",
    "replSetHeartbeat",
    "saslContinue",
    "saslStart",
    "serverStatus",
    "startSession",
    "update",
    "validate",
    "whatsmyuri",
];

pub(super) struct Mongodb;

/// Returns the name of the command whose document begins in `head`.
fn command(head: &[u8]) -> &'static str {
    let name = head.get(COMMAND_AT..).unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    COMMANDS.iter().find(|it| it.as_bytes() == name).copied().unwrap_or("command")
}

/// Returns the error of a result: `ok` is 0, a double, and `code` a number.
fn error(head: &[u8]) -> Option<ErrorCode> {
    const FAILED: &[u8] = b"\x01ok\0\0\0\0\0\0\0\0\0";
    const CODE: &[u8] = b"\x10code\0";
    memchr::memmem::find(head, FAILED)?;
    let code = memchr::memmem::find(head, CODE).and_then(|at| u32_le(head, at + CODE.len()));
    Some(ErrorCode::Mongodb(code.unwrap_or_default()))
}

impl Grammar for Mongodb {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let high = Within(0, (MESSAGE_MAX >> 24) as u8);
        let asked = || if from == Side::Client { Is(0) } else { Any };
        // 2004, 2012 and 2013 in little endian.
        let kind = Within(OP_QUERY as u8, OP_MSG as u8);
        let id = [Any, Any, Any, Any];
        let pattern: Vec<Byte> = [Any, Any, Any, high]
            .into_iter()
            .chain(id)
            .chain([asked(), asked(), asked(), asked(), kind, Is(7), Is(0), Is(0)])
            .collect();
        match from {
            Side::Server if !hint.mid_stream => Verdict::No,
            _ => like(prefix, &pattern),
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u32_le(header, 0).filter(|it| *it <= MESSAGE_MAX).ok_or(Lost)?;
        let length = u64::from(length).checked_sub(HEADER_BYTES as u64).ok_or(Lost)?;
        Ok(Shape { length, peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let word = |at| u32_le(message.header, at);
        let (Some(id), Some(asked), Some(kind)) = (word(4), word(8), word(12)) else {
            return Said::Aside;
        };
        let flags = u32_le(message.head, 0).filter(|_| kind == OP_MSG).unwrap_or_default();
        let (id, asked) = (u64::from(id), u64::from(asked));
        match (from, kind) {
            (Side::Client, OP_MSG) => {
                let kind = command(message.head);
                let waits = match kind {
                    "hello" | "isMaster" | "ismaster" => has(message.head, b"maxAwaitTimeMS"),
                    "getMore" => has(message.head, b"maxTimeMS"),
                    _ => false,
                };
                if waits || flags & (MORE_TO_COME | EXHAUST_ALLOWED) != 0 {
                    return Said::Aside;
                }
                Said::Call { id, kind, more: false }
            }
            (Side::Client, OP_QUERY) => Said::Call { id, kind: "query", more: false },
            (Side::Client, OP_GET_MORE) => Said::Call { id, kind: "getMore", more: false },
            (Side::Client, OP_COMPRESSED) => Said::Call { id, kind: "compressed", more: false },
            (Side::Server, OP_MSG) if flags & MORE_TO_COME == 0 => {
                Said::Reply { id: asked, error: error(message.head), more: false }
            }
            (Side::Server, OP_REPLY | OP_COMPRESSED) => {
                Said::Reply { id: asked, error: None, more: false }
            }
            _ => Said::Aside,
        }
    }
}
