//! ONC RPC over TCP, with NFS and what belongs to it.
//!
//! Read first: RFC 5531 §9 (messages), §11 (record marking); RFC 1813 (NFS 3), RFC 8881 (NFS 4), RFC
//! 1833 (rpcbind).
//!
//! A record is one or more fragments; only the first has a header, with the id (xid) by which a reply is
//! found. Replies come in any order. What the server asks of its client (RFC 8881 §2.10.3) is part of
//! no exchange.

use super::bytes::{Byte, like, name, u32_be};
use super::{Grammar, Message, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// A call up to its procedure; a reply up to its state, with a verifier of the usual length.
const PEEK: usize = 24;
/// Bit of the record mark: the fragment is the last of its record. The others are the length.
const LAST: u8 = 0x80;

const CALL: u32 = 0;
const REPLY: u32 = 1;
const MSG_DENIED: u32 = 1;

const RPCBIND: u32 = 100_000;
const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const LOCK: u32 = 100_021;

/// Procedures of NFS 3 (RFC 1813 §3).
const NFS3: [(u8, &str); 22] = [
    (0, "NULL"),
    (1, "GETATTR"),
    (2, "SETATTR"),
    (3, "LOOKUP"),
    (4, "ACCESS"),
    (5, "READLINK"),
    (6, "READ"),
    (7, "WRITE"),
    (8, "CREATE"),
    (9, "MKDIR"),
    (10, "SYMLINK"),
    (11, "MKNOD"),
    (12, "REMOVE"),
    (13, "RMDIR"),
    (14, "RENAME"),
    (15, "LINK"),
    (16, "READDIR"),
    (17, "READDIRPLUS"),
    (18, "FSSTAT"),
    (19, "FSINFO"),
    (20, "PATHCONF"),
    (21, "COMMIT"),
];

pub(super) struct OncRpc;

/// Returns the kind of a call by program, version and procedure.
fn kind(program: u32, version: u32, procedure: u32) -> &'static str {
    match (program, version, procedure) {
        (NFS, 4, 1) => "COMPOUND",
        (NFS, 3, 0..=255) => name(&NFS3, procedure as u8).unwrap_or("NFS"),
        (_, _, 0) => "NULL",
        (NFS, ..) => "NFS",
        (RPCBIND, ..) => "rpcbind",
        (MOUNT, ..) => "MOUNT",
        (LOCK, ..) => "NLM",
        _ => "call",
    }
}

/// Returns the error of a reply (RFC 5531 §9): the call was rejected, or not executed.
fn error(head: &[u8]) -> Option<ErrorCode> {
    const DENIED: u8 = 0xff;
    if u32_be(head, 8)? == MSG_DENIED {
        return Some(ErrorCode::OncRpc(DENIED));
    }
    // The verifier has its length in its second word.
    let state = match u32_be(head, 16)? {
        0 => u32_be(head, 20)?,
        _ => 0,
    };
    u8::try_from(state).ok().filter(|state| *state != 0).map(ErrorCode::OncRpc)
}

impl Grammar for OncRpc {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let kind = match from {
            Side::Client => CALL as u8,
            Side::Server => REPLY as u8,
        };
        // A mark, an id, the kind, and the version of RPC or the state of the reply.
        let end = match from {
            Side::Client => Is(2),
            Side::Server => Within(0, 1),
        };
        let pattern = [
            Within(LAST, LAST),
            Within(0, 0x1f),
            Any,
            Any,
            Any,
            Any,
            Any,
            Any,
            Is(0),
            Is(0),
            Is(0),
            Is(kind),
            Is(0),
            Is(0),
            Is(0),
            end,
        ];
        match from {
            Side::Server if !hint.mid_stream => Verdict::No,
            _ => like(prefix, &pattern),
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        4
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u32_be(header, 0).ok_or(Lost)? & !(u32::from(LAST) << 24);
        Ok(Shape { length: length.into(), peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let more = message.header.first().is_some_and(|mark| mark & LAST == 0);
        if message.amid {
            return Said::More { more };
        }
        let word = |number: usize| u32_be(message.head, 4 * number);
        let (Some(id), Some(direction)) = (word(0), word(1)) else { return Said::Aside };
        match (from, direction, word(3), word(4), word(5)) {
            (Side::Client, CALL, Some(program), Some(version), Some(procedure)) => {
                Said::Call { id: id.into(), kind: kind(program, version, procedure), more }
            }
            (Side::Server, REPLY, ..) => {
                Said::Reply { id: id.into(), error: error(message.head), more }
            }
            // An aside has no further parts: the record's rest would be taken for a message.
            _ => Said::More { more },
        }
    }
}
