//! SMB 1, 2 and 3 over TCP or NetBIOS.
//!
//! Read first: MS-SMB2 §2.1 (transport), §2.2.1 (header), §3.3.4.2 (interim responses); MS-CIFS
//! §2.2.3.1 (header of SMB 1); RFC 1002 §4.3 (session service).
//!
//! ```text
//! session request         positive or negative response
//! NEGOTIATE               NEGOTIATE, of SMB 1 or 2
//! command, MessageId      response with the MessageId
//! a compound of commands  a compound of responses; the first stands for all
//! ```
//!
//! A server that may have to wait for others answers by an interim response (§3.3.4.2): the exchange ends
//! with it, and the response that comes some time is an event. Part of no exchange: CHANGE_NOTIFY, which
//! waits for an event; CANCEL; oplock breaks, which the server sends by itself, and a client's answer to
//! one in SMB 1, which has none; and keep-alives of NetBIOS. In encrypted or compressed messages no id can
//! be read: from the first one on, the connection is not followed.

use super::bytes::{Byte, at, like, name, u16_le, u32_le};
use super::status::smb as error;
use super::{Grammar, Message, Said};
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Bytes of an SMB 2 header; in an SMB 1 message the function of NT_TRANSACT ends a little later.
const PEEK: usize = 72;
/// Types of the session service.
const MESSAGE: u8 = 0;
const SESSION_REQUEST: u8 = 0x81;
const POSITIVE_RESPONSE: u8 = 0x82;
const NEGATIVE_RESPONSE: u8 = 0x83;
const RETARGET: u8 = 0x84;
const KEEP_ALIVE: u8 = 0x85;

/// Ids of calls that have none of their own: they are the only ones of their time.
const SESSION_ID: u64 = u64::MAX;
const NEGOTIATE_ID: u64 = u64::MAX - 1;

const SMB2_NEGOTIATE: u8 = 0;
const SMB2_CANCEL: u8 = 12;
const SMB2_CHANGE_NOTIFY: u8 = 15;
const SMB2_IOCTL: u8 = 11;
/// FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 §2.2.31.4), the place of the function of an IOCTL, and that of the
/// dialect in the response to NEGOTIATE (§2.2.4). A server of a dialect below 3.0 refuses that function, and its
/// signature under the refusal shows the client that nobody changed the negotiation (§3.2.5.14.12).
const VALIDATE_NEGOTIATE: u32 = 0x0014_0204;
const FUNCTION_OF_IOCTL_AT: usize = 64 + 4;
const DIALECT_AT: usize = 64 + 4;
const DIALECT_3_0: u16 = 0x0300;
/// SMB2_FLAGS_SERVER_TO_REDIR.
const SMB2_RESPONSE: u32 = 1;

/// Commands of SMB 2 (MS-SMB2 §2.2.1.2).
const SMB2_COMMANDS: [(u8, &str); 17] = [
    (0, "NEGOTIATE"),
    (1, "SESSION_SETUP"),
    (2, "LOGOFF"),
    (3, "TREE_CONNECT"),
    (4, "TREE_DISCONNECT"),
    (5, "CREATE"),
    (6, "CLOSE"),
    (7, "FLUSH"),
    (8, "READ"),
    (9, "WRITE"),
    (10, "LOCK"),
    (11, "IOCTL"),
    (13, "ECHO"),
    (14, "QUERY_DIRECTORY"),
    (16, "QUERY_INFO"),
    (17, "SET_INFO"),
    (18, "OPLOCK_BREAK"),
];

const SMB1_NEGOTIATE: u8 = 0x72;
const SMB1_NT_TRANSACT: u8 = 0xa0;
const SMB1_NT_CANCEL: u8 = 0xa4;
/// NT_TRANSACT_NOTIFY_CHANGE (MS-CIFS §2.2.7.4).
const NOTIFY_CHANGE: u16 = 4;
/// Place of the function of NT_TRANSACT, after header, counts and offsets.
const FUNCTION_AT: usize = 32 + 1 + 1 + 2 + 32 + 1;
const SMB1_LOCKING: u8 = 0x24;
/// OPLOCK_RELEASE, and the places of the type of lock and of the number of locks (MS-CIFS §2.2.4.32).
const OPLOCK_RELEASE: u8 = 2;
const LOCK_TYPE_AT: usize = 32 + 1 + 4 + 2;
const LOCKS_AT: usize = LOCK_TYPE_AT + 2 + 4;
/// SMB_FLAGS_REPLY, SMB_FLAGS2_NT_STATUS.
const SMB1_REPLY: u8 = 0x80;
const SMB1_NT_STATUS: u16 = 0x4000;

/// Commands of SMB 1 (MS-CIFS §2.2.2.1). Those that only continue a request have no reply.
const SMB1_COMMANDS: [(u8, &str); 28] = [
    (0x00, "CREATE_DIRECTORY"),
    (0x01, "DELETE_DIRECTORY"),
    (0x04, "CLOSE"),
    (0x05, "FLUSH"),
    (0x06, "DELETE"),
    (0x07, "RENAME"),
    (0x08, "QUERY_INFORMATION"),
    (0x09, "SET_INFORMATION"),
    (0x0a, "READ"),
    (0x0b, "WRITE"),
    (0x10, "CHECK_DIRECTORY"),
    (0x22, "SET_INFORMATION2"),
    (0x23, "QUERY_INFORMATION2"),
    (0x24, "LOCKING_ANDX"),
    (0x25, "TRANSACTION"),
    (0x2b, "ECHO"),
    (0x2d, "OPEN_ANDX"),
    (0x2e, "READ_ANDX"),
    (0x2f, "WRITE_ANDX"),
    (0x32, "TRANSACTION2"),
    (0x34, "FIND_CLOSE2"),
    (0x71, "TREE_DISCONNECT"),
    (0x72, "NEGOTIATE"),
    (0x73, "SESSION_SETUP_ANDX"),
    (0x74, "LOGOFF_ANDX"),
    (0x75, "TREE_CONNECT_ANDX"),
    (0xa0, "NT_TRANSACT"),
    (0xa2, "NT_CREATE_ANDX"),
];

pub(super) struct Smb;

/// Interprets a message of SMB 2, from its header on.
fn smb2(from: Side, head: &[u8]) -> Option<Said> {
    let status = u32_le(head, 8)?;
    let [command, high] = at(head, 12)?;
    let flags = u32_le(head, 16)?;
    let id = u64::from_le_bytes(at(head, 24)?);
    let id = if command == SMB2_NEGOTIATE { NEGOTIATE_ID } else { id };
    if high != 0 || (flags & SMB2_RESPONSE != 0) != (from == Side::Server) {
        return None;
    }
    Some(match (from, command) {
        (_, SMB2_CANCEL | SMB2_CHANGE_NOTIFY) => Said::Aside,
        (Side::Client, SMB2_IOCTL)
            if u32_le(head, FUNCTION_OF_IOCTL_AT) == Some(VALIDATE_NEGOTIATE) =>
        {
            Said::Probe { id, kind: name(&SMB2_COMMANDS, command)? }
        }
        (Side::Client, _) => Said::Call { id, kind: name(&SMB2_COMMANDS, command)?, more: false },
        (Side::Server, SMB2_NEGOTIATE) => {
            let is_old = u16_le(head, DIALECT_AT).is_some_and(|it| it < DIALECT_3_0);
            Said::Version { id, error: error(status), is_old }
        }
        (Side::Server, _) => Said::Reply { id, error: error(status), more: false },
    })
}

/// Interprets a message of SMB 1, from its header on.
fn smb1(from: Side, head: &[u8]) -> Option<Said> {
    let command = *head.get(4)?;
    let status = u32_le(head, 5)?;
    let flags = *head.get(9)?;
    let has_status = u16_le(head, 10)? & SMB1_NT_STATUS != 0;
    let id = match command {
        SMB1_NEGOTIATE => NEGOTIATE_ID,
        // The process and the multiplex id.
        _ => u64::from(u16_le(head, 26)?) << 16 | u64::from(u16_le(head, 30)?),
    };
    if (flags & SMB1_REPLY != 0) != (from == Side::Server) || command == SMB1_NT_CANCEL {
        return None;
    }
    let is_unanswered = match command {
        SMB1_NT_TRANSACT => u16_le(head, FUNCTION_AT) == Some(NOTIFY_CHANGE),
        SMB1_LOCKING => {
            let releases = head.get(LOCK_TYPE_AT).is_some_and(|it| it & OPLOCK_RELEASE != 0);
            releases && u32_le(head, LOCKS_AT) == Some(0)
        }
        _ => false,
    };
    Some(match from {
        Side::Client if is_unanswered => Said::Aside,
        Side::Client => Said::Call { id, kind: name(&SMB1_COMMANDS, command)?, more: false },
        Side::Server => {
            Said::Reply { id, error: error(status).filter(|_| has_status), more: false }
        }
    })
}

impl Grammar for Smb {
    fn begins(&self, from: Side, prefix: &[u8], _: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        const NAME_BYTES: u8 = 32;
        let session: &[Byte] = match from {
            // Two names (RFC 1002 §4.3.2).
            Side::Client => &[Is(SESSION_REQUEST), Is(0), Is(0), Any, Is(NAME_BYTES)],
            Side::Server => &[Is(POSITIVE_RESPONSE), Is(0), Is(0), Is(0)],
        };
        let message =
            [Is(0), Within(0, 1), Any, Any, Within(0xfe, 0xff), Is(b'S'), Is(b'M'), Is(b'B')];
        match (like(prefix, &message), like(prefix, session)) {
            (Verdict::Yes, _) | (_, Verdict::Yes) => Verdict::Yes,
            (Verdict::No, Verdict::No) => Verdict::No,
            _ => Verdict::Maybe,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        4
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let &[kind, high, middle, low] = header else { return Err(Lost) };
        let length = u64::from(u32::from_be_bytes([0, high, middle, low]));
        match kind {
            MESSAGE => Ok(Shape { length, peek: PEEK }),
            SESSION_REQUEST | NEGATIVE_RESPONSE | RETARGET => Ok(Shape { length, peek: 1 }),
            POSITIVE_RESPONSE | KEEP_ALIVE => Ok(Shape { length, peek: 0 }),
            _ => Err(Lost),
        }
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let said = match (from, message.header, message.head) {
            (Side::Client, [SESSION_REQUEST, ..], _) => {
                Some(Said::Call { id: SESSION_ID, kind: "session request", more: false })
            }
            (Side::Server, [POSITIVE_RESPONSE | NEGATIVE_RESPONSE | RETARGET, ..], _) => {
                Some(Said::Reply { id: SESSION_ID, error: None, more: false })
            }
            (_, _, [0xfe, b'S', b'M', b'B', ..]) => smb2(from, message.head),
            (_, _, [0xff, b'S', b'M', b'B', ..]) => smb1(from, message.head),
            (_, _, [0xfc | 0xfd, b'S', b'M', b'B', ..]) => Some(Said::Unreadable),
            _ => None,
        };
        said.unwrap_or(Said::Aside)
    }
}
