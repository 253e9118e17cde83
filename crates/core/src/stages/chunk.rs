//! Chunks: frames of one capture that go to one bucket, or to the control.
//!
//! A chunk has the content of a capture file in less space: times and numbers are differences, and
//! lengths have as many bytes as they need.
//!
//! ```text
//! chunk   latest time so far, bucket, order of the first frame, frames
//! frame   flags, time, [latest time], [number], captured length, [length on the wire], [link type], bytes
//! ```

use super::blob::{self, Kind};
use super::{Order, StageError};
use crate::capture::{FRAME_BYTES_MAX, FrameEntry, FrameId, LATEST_NS, LinkType};

/// [`FrameEntry::clock_set`].
const CLOCK_SET: u8 = 1 << 0;
/// The link type follows: it differs from that of the frame before.
const LINK: u8 = 1 << 1;
/// The length on the wire follows: it differs from the captured length.
const CUT: u8 = 1 << 2;
/// The number follows: it is not that after the frame before.
const NUMBER: u8 = 1 << 3;
/// The time is before that of the frame before.
const BACK: u8 = 1 << 4;
/// The frame is a sample of [`Translated`](crate::pipeline::Translated) that follows an answer.
const ANSWERED: u8 = 1 << 5;

/// The latest time of its file follows, as difference from what the frames of the chunk show: a frame
/// of another chunk had a later one.
const LATER: u8 = 1 << 6;

/// Maximum length of the fields of a frame.
const FIELDS_MAX: usize = 1 + 10 + 10 + 10 + 5 + 5 + 3;

/// Number of frames at the beginning of each capture whose times the control gets: enough to see
/// whether the times of the whole input were measured.
pub(super) const TIMES_MAX: u64 = 512;

/// The numbers of the frame before.
#[derive(Clone, Copy, Default)]
struct Before {
    time_ns: u64,
    /// [`Order::time_ns`].
    latest_ns: u64,
    number: u64,
    link: LinkType,
}

impl Before {
    /// Returns the values from which the first frame of a chunk states its differences.
    fn first(Order { time_ns, number, .. }: Order) -> Self {
        Self { time_ns, latest_ns: time_ns, number, link: LinkType::ETHERNET }
    }
}

/// A chunk being written.
pub(super) struct Writer {
    /// Digest of the run's options.
    run: u64,
    pub bucket: u32,
    /// The blob; empty before the first frame.
    blob: Vec<u8>,
    /// Length of the last chunk, bytes.
    usual_bytes: usize,
    before: Before,
    order: Order,
    /// Number of chunks written.
    pub written: u64,
}

impl Writer {
    /// Writes chunks of the run whose options have the digest `run`.
    pub fn new(run: u64, bucket: u32) -> Self {
        Self {
            run,
            bucket,
            blob: Vec::new(),
            usual_bytes: 0,
            before: Before::default(),
            order: Order::default(),
            written: 0,
        }
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> usize {
        self.blob.len()
    }

    /// Appends a frame with the first `bytes` that are needed of it; `order` is its place among all
    /// frames, and `is_answered` marks a sample that follows an answer.
    #[inline]
    pub fn push(&mut self, order: Order, entry: &FrameEntry, bytes: &[u8], is_answered: bool) {
        if self.blob.is_empty() {
            self.begin(order);
        }
        let mut fields = Fields::default();
        let mut flags = 0;
        let mut flag = |bit: u8, is_set: bool| flags |= if is_set { bit } else { 0 };
        let (before, number) = (self.before, entry.id.number());
        let shown_ns = entry.time_ns.max(before.latest_ns);
        flag(LATER, order.time_ns != shown_ns);
        flag(CLOCK_SET, entry.clock_set);
        flag(BACK, entry.time_ns < before.time_ns);
        flag(NUMBER, number != before.number + 1);
        flag(CUT, entry.original_len as usize != bytes.len());
        flag(LINK, entry.link != before.link);
        flag(ANSWERED, is_answered);
        fields.byte(flags);
        fields.number(entry.time_ns.abs_diff(before.time_ns));
        if flags & LATER != 0 {
            fields.number(order.time_ns - shown_ns);
        }
        if flags & NUMBER != 0 {
            fields.number(number - before.number);
        }
        fields.number(bytes.len() as u64);
        if flags & CUT != 0 {
            fields.number(u64::from(entry.original_len));
        }
        if flags & LINK != 0 {
            fields.number(u64::from(entry.link.0));
        }
        self.blob.extend_from_slice(fields.written());
        self.blob.extend_from_slice(bytes);
        let (time_ns, latest_ns, link) = (entry.time_ns, order.time_ns, entry.link);
        self.before = Before { time_ns, latest_ns, number, link };
    }

    #[cold]
    fn begin(&mut self, order: Order) {
        self.blob = blob::begin(Kind::Chunk, self.run);
        self.blob.reserve(self.usual_bytes);
        self.blob.extend([0; LAST_BYTES]);
        let Order { time_ns, file, number } = order;
        for value in [u64::from(self.bucket), time_ns, u64::from(file), number] {
            let mut field = Fields::default();
            field.number(value);
            self.blob.extend_from_slice(field.written());
        }
        self.order = order;
        self.before = Before::first(order);
    }

    /// Takes the chunk, if there are frames in it; `last_ns` is the latest time of its file so far.
    pub fn take(&mut self, last_ns: u64) -> Option<(Order, Vec<u8>)> {
        if self.blob.is_empty() {
            return None;
        }
        let mut blob = std::mem::take(&mut self.blob);
        let at = blob::HEADER_BYTES;
        blob[at..at + LAST_BYTES].copy_from_slice(&last_ns.to_le_bytes());
        self.usual_bytes = blob.len();
        self.written += 1;
        Some((self.order, blob::seal(blob, self.run)))
    }
}

/// Length of the latest time in a chunk, which is known when the chunk is complete.
const LAST_BYTES: usize = size_of::<u64>();

/// Numbers in as many bytes as they need, seven bits in each, the lowest first.
struct Fields {
    bytes: [u8; FIELDS_MAX],
    len: usize,
}

impl Default for Fields {
    fn default() -> Self {
        Self { bytes: [0; FIELDS_MAX], len: 0 }
    }
}

impl Fields {
    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline(always)]
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A frame of a chunk; its bytes are in that of the chunk.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub order: Order,
    pub entry: FrameEntry,
    /// It is a sample that follows an answer.
    pub is_answered: bool,
}

/// A chunk being read.
pub(super) struct Reader {
    /// The blob.
    pub bytes: Vec<u8>,
    at: usize,
    before: Before,
    /// Order of the frame before; of the first at the start.
    pub order: Order,
    pub bucket: u32,
    pub last_ns: u64,
}

const DAMAGED: StageError = StageError::Damaged { what: "chunk" };

impl Reader {
    /// Opens a chunk.
    pub fn new(bytes: Vec<u8>, run: u64) -> Result<Self, StageError> {
        let mut at = blob::open(&bytes, Kind::Chunk, run)?;
        let &last_ns = bytes[at..].first_chunk::<LAST_BYTES>().ok_or(DAMAGED)?;
        let last_ns = u64::from_le_bytes(last_ns);
        at += LAST_BYTES;
        let mut next = || number(&bytes, &mut at);
        let bucket = u32::try_from(next()?).map_err(|_| DAMAGED)?;
        let (time_ns, file) = (next()?, u32::try_from(next()?).map_err(|_| DAMAGED)?);
        let number = next()?;
        let order = Order { time_ns, file, number };
        let is_file = usize::try_from(file).is_ok_and(|file| file < FrameId::FILES_MAX);
        if !is_file || time_ns.max(last_ns) > LATEST_NS {
            return Err(DAMAGED);
        }
        Ok(Self { bytes, at, before: Before::first(order), order, bucket, last_ns })
    }

    /// Reads the next frame; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Read>, StageError> {
        let Some(&flags) = self.bytes.get(self.at) else { return Ok(None) };
        self.at += 1;
        let mut next = || number(&self.bytes, &mut self.at);
        let has = |bit: u8| flags & bit != 0;
        let apart_ns = next()?;
        let time_ns = match has(BACK) {
            true => self.before.time_ns.checked_sub(apart_ns),
            false => self.before.time_ns.checked_add(apart_ns),
        };
        let time_ns = time_ns.filter(|&time_ns| time_ns <= LATEST_NS).ok_or(DAMAGED)?;
        let later_ns = if has(LATER) { next()? } else { 0 };
        let latest_ns = time_ns.max(self.before.latest_ns).checked_add(later_ns);
        let latest_ns = latest_ns.filter(|&latest_ns| latest_ns <= LATEST_NS).ok_or(DAMAGED)?;
        let apart = if has(NUMBER) { next()? } else { 1 };
        let number = self.before.number.checked_add(apart).ok_or(DAMAGED)?;
        let captured = next()?;
        let original = if has(CUT) { next()? } else { captured };
        let link = match has(LINK) {
            true => LinkType(u16::try_from(next()?).map_err(|_| DAMAGED)?),
            false => self.before.link,
        };
        let start = self.at;
        let captured = usize::try_from(captured).ok().filter(|&it| it <= FRAME_BYTES_MAX);
        let end = captured.and_then(|captured| start.checked_add(captured)).ok_or(DAMAGED)?;
        let original = u32::try_from(original).map_err(|_| DAMAGED)?;
        let position = u32::try_from(start).ok().filter(|_| end <= self.bytes.len());
        let position = position.ok_or(DAMAGED)?;
        let file = self.order.file;
        let id = FrameId::new(file, number);
        if id.number() != number {
            return Err(DAMAGED);
        }
        self.at = end;
        self.before = Before { time_ns, latest_ns, number, link };
        self.order = Order { time_ns: latest_ns, file, number };
        let entry = FrameEntry {
            time_ns,
            id,
            offset: position,
            captured_len: (end - start) as u32,
            original_len: original,
            link,
            clock_set: has(CLOCK_SET),
        };
        Ok(Some(Read { order: self.order, entry, is_answered: has(ANSWERED) }))
    }
}

/// Reads a number.
#[inline(always)]
fn number(bytes: &[u8], at: &mut usize) -> Result<u64, StageError> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let &byte = bytes.get(*at).ok_or(DAMAGED)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).ok_or(DAMAGED)?;
        if byte < 0x80 {
            return Ok(value);
        }
        shift += 7;
        if shift >= u64::BITS {
            return Err(DAMAGED);
        }
    }
}
