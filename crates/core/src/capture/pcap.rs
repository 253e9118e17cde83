//! The pcap file format (draft-ietf-opsawg-pcap): a 24-byte header, then records.

use super::order::ByteOrder;
use super::reader::{Chunk, Halt};
use super::summary::Tally;
use super::{FRAME_BYTES_MAX, FrameEntry, LinkType, Problem};

/// Length of the file header, bytes.
pub(super) const HEADER_BYTES: usize = 24;

const RECORD_HEADER_BYTES: usize = 16;
/// Alexey Kuznetzov's variant, which adds interface, protocol and packet type to each record.
const MODIFIED_RECORD_HEADER_BYTES: usize = 24;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

const NS_PER_S: u64 = 1_000_000_000;

/// The properties of a pcap file's records, from its header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pcap {
    order: ByteOrder,
    fraction_ns: u64,
    record_header_bytes: usize,
    link: LinkType,
    /// `true` if a record may have its two lengths in reverse order: always before version 2.3,
    /// sometimes in 2.3.
    either_order: bool,
}

/// Content found at the position of a record.
enum Record {
    /// A frame, and the start of the next record.
    Frame(FrameEntry, usize),
    /// The header of another capture.
    Header(Pcap),
}

impl Pcap {
    /// Returns whether a file that begins with `head` is pcap.
    pub(super) fn recognises(head: &[u8]) -> bool {
        magic(head).is_some()
    }

    /// Parses the file header; `None` if `head` is not a complete pcap header.
    pub(super) fn parse(head: &[u8]) -> Option<Result<Self, Problem>> {
        let (order, magic) = magic(head)?;
        let (major, minor) = (order.u16(head, 4)?, order.u16(head, 6)?);
        // The upper bits contain the length of a frame check sequence.
        let link = LinkType((order.u32(head, 20)? & 0xffff) as u16);
        if major != 2 || minor > 4 {
            return Some(Err(Problem::Version { format: "pcap", major, minor }));
        }
        let modified = magic == MAGIC_MODIFIED;
        Some(Ok(Self {
            order,
            fraction_ns: if magic == MAGIC_NANOSECONDS { 1 } else { 1_000 },
            record_header_bytes: if modified {
                MODIFIED_RECORD_HEADER_BYTES
            } else {
                RECORD_HEADER_BYTES
            },
            link,
            either_order: minor < 4,
        }))
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
        let indexed = entries.len();
        let halt = loop {
            // One instance for each byte order, so that it need not be tested for every word.
            at = match self.order {
                ByteOrder::Little => self.run(ByteOrder::Little, chunk, at, entries, tally),
                ByteOrder::Big => self.run(ByteOrder::Big, chunk, at, entries, tally),
            };
            match self.record(chunk, at, tally) {
                Ok(Record::Frame(entry, end)) => {
                    entries.push(entry);
                    at = end;
                }
                Ok(Record::Header(appended)) => {
                    self.note_link(entries.len() > indexed, tally);
                    *self = appended;
                    tally.append(chunk.offset + at as u64);
                    at += HEADER_BYTES;
                }
                Err(halt) => break halt,
            }
        };
        self.note_link(entries.len() > indexed, tally);
        (at, halt)
    }

    /// Indexes records from `at` on as long as they are simple: complete, with a frame of possible
    /// length, and with a time not before that of the preceding frame, nor long after it. Returns
    /// the start of the first other record, which is left to [`record`](Self::record); that gives
    /// the same results for simple records.
    #[inline(always)]
    fn run(
        &self,
        order: ByteOrder,
        chunk: Chunk<'_>,
        at: usize,
        entries: &mut Vec<FrameEntry>,
        tally: &mut Tally,
    ) -> usize {
        if self.record_header_bytes != RECORD_HEADER_BYTES {
            return at;
        }
        let Some(mut run) = tally.begin_run(chunk) else { return at };
        let (fraction_ns, link) = (self.fraction_ns, self.link);
        let fraction_end = (NS_PER_S / fraction_ns) as u32;
        let mut rest = chunk.bytes.get(at..).unwrap_or_default();
        while let Some((header, behind)) = rest.split_first_chunk() {
            let [seconds, fraction, captured_len, original_len] = fields(order, header);
            let Some(next) = behind.get(captured_len as usize..) else { break };
            let time_ns = u64::from(seconds) * NS_PER_S + u64::from(fraction) * fraction_ns;
            let is_usual = fraction < fraction_end
                && run.goes_on(time_ns)
                && (1..=FRAME_BYTES_MAX as u32).contains(&captured_len)
                && captured_len <= original_len;
            if !is_usual {
                break;
            }
            let id = run.next(time_ns);
            let offset = chunk.position(chunk.bytes.len() - behind.len());
            let clock_set = false;
            entries.push(FrameEntry {
                time_ns,
                id,
                offset,
                captured_len,
                original_len,
                link,
                clock_set,
            });
            rest = next;
        }
        tally.end_run(run);
        chunk.bytes.len() - rest.len()
    }

    /// Parses the record at `at`.
    fn record(&self, chunk: Chunk<'_>, at: usize, tally: &mut Tally) -> Result<Record, Halt> {
        let rest = chunk.bytes.get(at..).unwrap_or_default();
        let Some(header) = rest.first_chunk() else {
            return Err(Halt::Needs(self.record_header_bytes));
        };
        let [seconds, fraction, mut captured_len, mut original_len] = fields(self.order, header);
        if self.either_order && captured_len > original_len {
            std::mem::swap(&mut captured_len, &mut original_len);
        }
        if captured_len == 0 && original_len == 0 && Self::recognises(rest) {
            // The seconds of a frame's time never equal a magic number: this is a header of a
            // capture appended with `cat`.
            match Self::parse(rest) {
                None => return Err(Halt::Needs(HEADER_BYTES)),
                Some(Ok(appended)) => return Ok(Record::Header(appended)),
                Some(Err(_)) => {}
            }
        }
        if captured_len as usize > FRAME_BYTES_MAX {
            return Err(Halt::Ended(Problem::Damaged {
                offset: chunk.offset + at as u64,
                what: "a packet is longer than packets can be",
                length: captured_len.into(),
            }));
        }
        let data = at + self.record_header_bytes;
        let end = data + captured_len as usize;
        if end > chunk.bytes.len() {
            return Err(Halt::Needs(end - at));
        }
        let time_ns = self.time_ns(seconds, fraction, tally);
        let entry = FrameEntry {
            time_ns,
            id: chunk.frame(tally.frame(time_ns)),
            offset: chunk.position(data),
            captured_len,
            original_len: original_len.max(captured_len),
            link: self.link,
            clock_set: false,
        };
        Ok(Record::Frame(entry, end))
    }

    fn time_ns(&self, seconds: u32, fraction: u32, tally: &mut Tally) -> u64 {
        let fraction_ns = u64::from(fraction) * self.fraction_ns;
        if fraction_ns >= NS_PER_S {
            return tally.impossible_time();
        }
        u64::from(seconds) * NS_PER_S + fraction_ns
    }

    fn note_link(&self, seen: bool, tally: &mut Tally) {
        if seen {
            tally.link(self.link);
        }
    }
}

/// Returns seconds, fraction of a second, captured and original length.
#[inline(always)]
fn fields(order: ByteOrder, header: &[u8; RECORD_HEADER_BYTES]) -> [u32; 4] {
    [order.word(header, 0), order.word(header, 4), order.word(header, 8), order.word(header, 12)]
}

fn magic(head: &[u8]) -> Option<(ByteOrder, u32)> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
        let magic = order.u32(head, 0)?;
        matches!(magic, MAGIC_MICROSECONDS | MAGIC_NANOSECONDS | MAGIC_MODIFIED)
            .then_some((order, magic))
    })
}
