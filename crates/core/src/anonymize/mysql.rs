//! Packets of MySQL.

use super::mask::{blank_text, sql};
use crate::wire::Side;

const QUERY: u8 = 0x03;
const FIELD_LIST: u8 = 0x04;
const STMT_PREPARE: u8 = 0x16;
const STMT_FETCH: u8 = 0x1c;
/// First bytes of the server's packets.
const OK: u8 = 0;
const TWO_BYTES: u8 = 0xfc;
const EOF: u8 = 0xfe;
/// The number of the error follows.
const ERR: u8 = 0xff;
const EOF_BYTES: usize = 5;
const STATUS_BYTES: usize = 2;
/// The client's capabilities, up to the extended ones of MariaDB; the maximum packet size, the
/// character set and reserved bytes lie between.
const LOGIN_BYTES: usize = 32;

/// The state of a MySQL connection that decides how its packets are read.
#[derive(Default)]
pub(super) struct Commands {
    /// The client has logged in.
    is_open: bool,
    /// The client's last command.
    last: u8,
}

impl Commands {
    /// Masks a packet with the number `sequence`. Bytes that are not kept become zero, so that
    /// unknown flags are not set.
    pub(super) fn mask(&mut self, side: Side, sequence: Option<u8>, head: &mut [u8]) {
        let first = head.first().copied().unwrap_or_default();
        let kept = match (side, sequence) {
            (Side::Client, Some(0)) => {
                self.last = first;
                if matches!(first, QUERY | STMT_PREPARE) {
                    let attributes = if head[1..].starts_with(&[0, 1]) { 3 } else { 1 };
                    return sql(&mut head[attributes..]);
                }
                1
            }
            (Side::Client, Some(1)) if !self.is_open => {
                self.is_open = true;
                LOGIN_BYTES
            }
            (Side::Client, _) => 1,
            // The greeting: protocol version and first digit of the server version.
            (Side::Server, Some(0)) => 2,
            (Side::Server, _) if first == EOF => return ending(head),
            (Side::Server, _) if first == ERR => 3,
            (Side::Server, Some(1)) if matches!(self.last, FIELD_LIST | STMT_FETCH) => 1,
            (Side::Server, Some(1)) if first == OK && self.last == STMT_PREPARE => {
                return prepared(head);
            }
            (Side::Server, _) if first == OK => return ending(head),
            (Side::Server, Some(1)) if first == TWO_BYTES => 3,
            // The number of columns, and whether their definitions follow (MariaDB).
            (Side::Server, Some(1)) if matches!(head, [_, 0 | 1]) => 2,
            (Side::Server, _) => 1,
        };
        let kept = kept.min(head.len());
        blank_text(&mut head[..kept]);
        head[kept..].fill(0);
    }
}

/// Keeps the numbers of columns and parameters of a prepared statement.
fn prepared(head: &mut [u8]) {
    const STATEMENT_ID: std::ops::Range<usize> = 1..5;
    const COUNTS_END: usize = 9;
    let end = head.len().min(COUNTS_END);
    head[end..].fill(0);
    head[..end].iter_mut().take(STATEMENT_ID.end).skip(STATEMENT_ID.start).for_each(|it| *it = 0);
    blank_text(head);
}

/// Keeps the status of an OK or EOF packet; the numbers of rows and of the last row keep their
/// sizes.
fn ending(head: &mut [u8]) {
    let mut at = 1;
    if head.len() == EOF_BYTES {
        // The number of warnings.
        at += 2;
        head[1..at].fill(0);
    } else {
        for _ in 0..2 {
            let Some(size) = head.get_mut(at) else { return };
            let bytes = match *size {
                TWO_BYTES => 2,
                0xfd => 3,
                EOF => 8,
                _ => {
                    *size = 0;
                    0
                }
            };
            let end = head.len().min(at + 1 + bytes);
            head[at + 1..end].fill(0);
            at = end;
        }
    }
    let end = head.len().min(at + STATUS_BYTES);
    head[end..].fill(0);
}
