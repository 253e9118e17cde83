//! TDS, the protocol of Microsoft SQL Server.
//!
//! Read first: MS-TDS §2.2.3.1 (packet header), §2.2.6.5 (PRELOGIN), §2.2.7.10 (ERROR), §3.2.5 (states of
//! the client). Messages have no ids: a connection has one request at a time, whose packets and those of
//! its response end with a status bit. The TLS handshake is carried in PRELOGIN packets; what follows it is
//! TLS without a header around it. Part of no exchange: an attention, which cancels a request.

use super::bytes::{Byte, like, name, u16_be, u32_le};
use super::{Grammar, Message, Said};
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

const PORT: u16 = 1433;
/// Type, status, length, process, packet, window.
const HEADER_BYTES: usize = 8;
/// The token of an error up to its severity.
const PEEK: usize = 9;
/// Greatest length of a packet, with its header (MS-TDS §2.2.3.1.3).
const LENGTH_MAX: u16 = 32_767;

/// Bit of the status: the last packet of its message.
const LAST: u8 = 1;
const RESULT: u8 = 4;
const PRELOGIN: u8 = 18;
const LOGIN: u8 = 16;
const SSPI: u8 = 17;
/// The token of an error.
const ERROR: u8 = 0xaa;
/// Content types of TLS in a handshake.
const TLS_HANDSHAKE: [u8; 2] = [20, 22];

/// One request at a time.
const ID: u64 = 0;

const REQUESTS: [(u8, &str); 8] = [
    (1, "SQL batch"),
    (3, "RPC"),
    (7, "bulk load"),
    (8, "federated login"),
    (14, "transaction"),
    (LOGIN, "login"),
    (SSPI, "SSPI"),
    (PRELOGIN, "prelogin"),
];

pub(super) struct Tds;

impl Grammar for Tds {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let header = |kind: Byte| {
            [kind, Within(0, 9), Within(0, 0x7f), Any, Any, Any, Any, Is(0)].into_iter()
        };
        let known = hint.server_port == PORT;
        match (from, prefix.first()) {
            // The first option of PRELOGIN is the version: token, offset, length. A handshake record of TLS
            // may stand in its place.
            (Side::Client, Some(&PRELOGIN)) => match prefix.get(HEADER_BYTES) {
                Some(&(20 | 22)) => {
                    let record = [Within(20, 22), Is(3), Within(0, 4)];
                    like(prefix, &header(Is(PRELOGIN)).chain(record).collect::<Vec<_>>())
                }
                _ => {
                    let version = [Is(0), Is(0), Within(6, 0x40), Is(0), Is(6)];
                    like(prefix, &header(Is(PRELOGIN)).chain(version).collect::<Vec<_>>())
                }
            },
            (Side::Client, Some(kind)) if known && name(&REQUESTS, *kind).is_some() => {
                like(prefix, &header(Any).collect::<Vec<_>>())
            }
            (Side::Server, _) if known && hint.mid_stream => {
                like(prefix, &header(Is(RESULT)).collect::<Vec<_>>())
            }
            _ => Verdict::No,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        HEADER_BYTES
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        let length = u16_be(header, 2).filter(|it| *it <= LENGTH_MAX).ok_or(Lost)?;
        let length = u64::from(length).checked_sub(HEADER_BYTES as u64).ok_or(Lost)?;
        Ok(Shape { length, peek: PEEK })
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let &[kind, status, ..] = message.header else { return Said::Aside };
        let more = status & LAST == 0;
        let is_handshake =
            matches!(message.head, [content, 3, ..] if TLS_HANDSHAKE.contains(content));
        match (from, name(&REQUESTS, kind)) {
            (Side::Client, Some(_)) if kind == PRELOGIN && is_handshake && !more => {
                Said::Upgrade { id: ID, kind: "TLS handshake" }
            }
            (Side::Client, Some(kind)) => Said::Call { id: ID, kind, more },
            // Handshakes of TLS and of SSPI go on in packets of the client's type.
            (Side::Server, _) if [RESULT, PRELOGIN, SSPI].contains(&kind) => {
                let number = match message.head {
                    [ERROR, ..] => u32_le(message.head, 3),
                    _ => None,
                };
                let error = number.filter(|_| !message.amid).map(crate::app::ErrorCode::Tds);
                Said::Reply { id: ID, error, more }
            }
            _ => Said::Aside,
        }
    }
}
