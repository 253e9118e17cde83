//! Kerberos 5 over TCP.
//!
//! Read first: RFC 4120 §7.2.2 (a length before each message), §5.4, §5.9 (messages). There is one
//! request at a time, which has no id; the nonce in it is encrypted in the reply.

use super::bytes::{Byte, like, name};
use super::status::kerberos as error;
use super::{Grammar, Message, Said};
use crate::app::exchanges::Lost;
use crate::app::packets::Shape;
use crate::app::sniff::{Hint, Verdict};
use crate::wire::Side;

/// Enough of a KRB-ERROR for its code, which has four times before it.
const PEEK: usize = 100;
/// The code in a KRB-ERROR: its tag, and an integer of one byte.
const ERROR_CODE: [u8; 4] = [0xa6, 3, 2, 1];
/// First bytes of messages: their types are application tags (RFC 4120 §5.10).
const REQUESTS: [(u8, &str); 2] = [(0x6a, "AS-REQ"), (0x6c, "TGS-REQ")];
const AS_REP: u8 = 0x6b;
const TGS_REP: u8 = 0x6d;
const KRB_ERROR: u8 = 0x7e;

pub(super) struct Kerberos;

impl Grammar for Kerberos {
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict {
        use Byte::{Any, Is, Within};
        let pattern = |tag| [Is(0), Is(0), Any, Any, tag, Within(0x81, 0x82)];
        match from {
            Side::Client => {
                let verdict = like(prefix, &pattern(Within(0x6a, 0x6c)));
                if prefix.get(4) == Some(&AS_REP) { Verdict::No } else { verdict }
            }
            Side::Server if hint.mid_stream => like(prefix, &pattern(Within(AS_REP, TGS_REP))),
            Side::Server => Verdict::No,
        }
    }

    fn header_bytes(&self, _: &[u8]) -> usize {
        4
    }

    fn shape(&self, _: Side, header: &[u8]) -> Result<Shape, Lost> {
        match header {
            // The highest bit is reserved; no message is nearly as long as this.
            &[0, high, middle, low] => {
                Ok(Shape { length: u32::from_be_bytes([0, high, middle, low]).into(), peek: PEEK })
            }
            _ => Err(Lost),
        }
    }

    fn read(&self, from: Side, message: &Message<'_>) -> Said {
        let Some(&tag) = message.head.first() else { return Said::Aside };
        match (from, name(&REQUESTS, tag), tag) {
            (Side::Client, Some(kind), _) => Said::Call { id: 0, kind, more: false },
            (Side::Server, _, AS_REP | TGS_REP) => Said::Reply { id: 0, error: None, more: false },
            (Side::Server, _, KRB_ERROR) => {
                let place = memchr::memmem::find(message.head, &ERROR_CODE);
                let code = place.and_then(|at| message.head.get(at + ERROR_CODE.len()));
                Said::Reply { id: 0, error: code.and_then(|it| error(*it)), more: false }
            }
            _ => Said::Aside,
        }
    }
}
