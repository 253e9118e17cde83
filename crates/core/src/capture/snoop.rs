//! The snoop file format (RFC 1761) of Solaris: a 16-byte header, then records, all in network byte
//! order.

use super::order::ByteOrder;
use super::reader::{Chunk, Halt};
use super::summary::Tally;
use super::{FRAME_BYTES_MAX, FrameEntry, LinkType, Problem};

/// Length of the file header, bytes.
pub(super) const HEADER_BYTES: usize = 16;

const MAGIC: &[u8] = b"snoop\0\0\0";
/// The version of RFC 1761; others were written by analysers of one vendor.
const VERSION: u32 = 2;
const RECORD_HEADER_BYTES: usize = 24;
/// Maximum length of a record: frame, header and padding.
const RECORD_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;

const NS_PER_S: u64 = 1_000_000_000;

/// The state of the file being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snoop {
    link: LinkType,
    /// Number of frames that the capturing host had lost when the last one was written.
    drops: u32,
}

/// Content found at the position of a record.
enum Record {
    /// A frame, and the start of the next record.
    Frame(FrameEntry, usize),
    /// The header of another capture.
    Header(Snoop),
}

impl Snoop {
    /// Returns whether a file that begins with `head` is snoop.
    pub(super) fn recognises(head: &[u8]) -> bool {
        head.starts_with(MAGIC)
    }

    /// Parses the file header; `None` if `head` is not a complete one.
    pub(super) fn parse(head: &[u8]) -> Option<Result<Self, Problem>> {
        let order = ByteOrder::Big;
        let (version, link) = (order.u32(head, MAGIC.len())?, order.u32(head, MAGIC.len() + 4)?);
        if version != VERSION {
            let major = u16::try_from(version).unwrap_or(u16::MAX);
            return Some(Err(Problem::Version { format: "snoop", major, minor: 0 }));
        }
        Some(Ok(Self { link: link_type(link), drops: 0 }))
    }

    /// Indexes the complete records of `chunk`; returns their length in bytes, and why the walk
    /// ended.
    pub(super) fn walk(
        &mut self,
        chunk: Chunk<'_>,
        entries: &mut Vec<FrameEntry>,
        tally: &mut Tally,
    ) -> (usize, Halt) {
        let mut at = 0;
        loop {
            match self.record(chunk, at, tally) {
                Ok(Record::Frame(entry, end)) => {
                    tally.link(self.link);
                    entries.push(entry);
                    at = end;
                }
                Ok(Record::Header(appended)) => {
                    *self = appended;
                    tally.append(chunk.offset + at as u64);
                    at += HEADER_BYTES;
                }
                Err(halt) => return (at, halt),
            }
        }
    }

    /// Parses the record at `at`.
    fn record(&mut self, chunk: Chunk<'_>, at: usize, tally: &mut Tally) -> Result<Record, Halt> {
        let order = ByteOrder::Big;
        let rest = chunk.bytes.get(at..).unwrap_or_default();
        if Self::recognises(rest) {
            match Self::parse(rest) {
                None => return Err(Halt::Needs(HEADER_BYTES)),
                Some(Ok(appended)) => return Ok(Record::Header(appended)),
                Some(Err(_)) => {}
            }
        }
        let Some(header) = rest.first_chunk::<RECORD_HEADER_BYTES>() else {
            return Err(Halt::Needs(RECORD_HEADER_BYTES));
        };
        let [original_len, captured_len, record_len] =
            [0, 4, 8].map(|field| order.word(header, field));
        let [drops, seconds, microseconds] = [12, 16, 20].map(|field| order.word(header, field));
        let damaged = |what, length: u32| {
            let (offset, length) = (chunk.offset + at as u64, length.into());
            Err(Halt::Ended(Problem::Damaged { offset, what, length }))
        };
        if captured_len as usize > FRAME_BYTES_MAX {
            return damaged("a packet is longer than packets can be", captured_len);
        }
        let frame_end = RECORD_HEADER_BYTES + captured_len as usize;
        if !(frame_end..=RECORD_BYTES_MAX).contains(&(record_len as usize)) {
            return damaged("a record's length contradicts its packet's", record_len);
        }
        if rest.len() < record_len as usize {
            return Err(Halt::Needs(record_len as usize));
        }
        tally.drops += u64::from(drops.saturating_sub(self.drops));
        self.drops = self.drops.max(drops);
        let fraction_ns = u64::from(microseconds) * 1_000;
        if fraction_ns >= NS_PER_S {
            tally.time_range.note(tally.number + 1);
        }
        let time_ns = u64::from(seconds) * NS_PER_S + fraction_ns;
        let entry = FrameEntry {
            time_ns,
            id: chunk.frame(tally.frame(time_ns)),
            offset: chunk.position(at + RECORD_HEADER_BYTES),
            captured_len,
            original_len: original_len.max(captured_len),
            link: self.link,
            clock_set: false,
        };
        Ok(Record::Frame(entry, at + record_len as usize))
    }
}

/// Converts a datalink type of RFC 1761 §4, or one that Solaris added.
fn link_type(datalink: u32) -> LinkType {
    match datalink {
        // IEEE 802.3 and Ethernet.
        0 | 4 => LinkType::ETHERNET,
        8 => LinkType::FDDI,
        _ => LinkType::UNKNOWN,
    }
}
