//! Puts a stream in order for the framer: early segments are kept, and data that never arrives is
//! skipped.

use super::early::{EarlyBytes, Piece};
use crate::wire::Side;
use std::collections::VecDeque;
use std::num::NonZeroU64;

/// Greatest amount of payload kept per direction while a hole is open, bytes. Anything beyond it is
/// passed to the framer as missing.
const WAITING_BYTES_MAX: usize = 64 << 10;
/// Greatest number of out-of-order ranges kept; each ends at a hole or where bytes are missing.
/// Beyond it ranges are merged.
const WAITING_MAX: usize = 256;

/// An out-of-order range of the stream: segments without a hole between them.
#[derive(Clone, Debug)]
struct Early {
    start: u64,
    len: u32,
    /// Number of bytes kept, from the beginning of the range; the rest was not captured or exceeded
    /// the limits.
    kept: u32,
    /// The piece that holds the bytes, unless it was discarded.
    piece: Option<Piece>,
}

impl Early {
    fn new(start: u64, len: u32, bytes: &[u8], room: &mut EarlyBytes) -> Self {
        let piece = (!bytes.is_empty()).then(|| room.keep(bytes));
        Self { start, len, kept: bytes.len() as u32, piece }
    }

    fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Returns whether `len` bytes at `start`, of which `kept` are kept, can be appended. Bytes can
    /// be appended only if all bytes of the range are kept.
    fn can_append(&self, start: u64, len: u32, kept: u32) -> bool {
        let fits = self.len.checked_add(len).is_some();
        self.end() == start && fits && (self.kept == self.len || kept == 0)
    }

    fn append(&mut self, len: u32, bytes: &[u8], room: &mut EarlyBytes) {
        let is_kept = bytes.is_empty() || self.piece.is_some_and(|piece| room.append(piece, bytes));
        self.len += len;
        self.kept += if is_kept { bytes.len() as u32 } else { 0 };
    }

    /// Merges `next`, which lies behind this range, and the hole between them. Only a prefix of the
    /// range can have its bytes kept.
    fn merge(&mut self, next: &Self, room: &mut EarlyBytes) {
        let bytes = next.piece.map(|piece| room.take(piece)).unwrap_or_default();
        if self.can_append(next.start, next.len, bytes.len() as u32) {
            return self.append(next.len, &bytes, room);
        }
        let end = self.end().max(next.end());
        self.len = u32::try_from(end - self.start).unwrap_or(u32::MAX);
    }
}

/// Puts the payload of one direction in order.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    /// Position up to which everything was passed to the framer.
    next: Option<NonZeroU64>,
    /// Out-of-order data, if there is any.
    waiting: Option<Box<Waiting>>,
}

/// Out-of-order ranges in the order of the stream.
#[derive(Clone, Debug, Default)]
struct Waiting {
    early: VecDeque<Early>,
    /// Number of bytes kept in all ranges.
    bytes: usize,
}

/// Receives in-order bytes: the side that sent them, the captured bytes, the number of bytes after
/// these that were not captured, and the position behind them all.
pub type Consumer<'a> = &'a mut dyn FnMut(Side, &[u8], u32, u64);

impl Reassembly {
    /// Sets the position at which the stream begins, unless it is known.
    pub fn start(&mut self, position: u64) {
        if self.next.is_none() {
            self.next = NonZeroU64::new(position);
        }
    }

    fn next_or(&self, position: u64) -> u64 {
        self.next.map_or(position, NonZeroU64::get)
    }

    /// Returns whether `start` is the next position and no out-of-order data is kept.
    #[inline]
    pub fn is_next(&self, start: u64) -> bool {
        self.waiting.is_none() && self.next.map(NonZeroU64::get) == Some(start)
    }

    /// Records that everything up to `end` was passed to the framer.
    #[inline]
    pub fn pass(&mut self, end: u64) {
        self.next = NonZeroU64::new(end);
    }

    /// Processes `len` bytes of the stream at `start`, of which `bytes` were captured.
    #[inline]
    pub fn push(
        &mut self,
        side: Side,
        (start, len): (u64, u32),
        bytes: &[u8],
        room: &mut EarlyBytes,
        on: Consumer<'_>,
    ) {
        if start == self.next_or(start) && self.waiting.is_none() {
            let end = start + u64::from(len);
            self.next = NonZeroU64::new(end);
            on(side, bytes, len - bytes.len() as u32, end);
            return;
        }
        self.start(start);
        self.push_out_of_order(side, (start, len), bytes, room, on);
    }

    fn push_out_of_order(
        &mut self,
        side: Side,
        (start, len): (u64, u32),
        bytes: &[u8],
        room: &mut EarlyBytes,
        on: Consumer<'_>,
    ) {
        let next = self.next_or(start);
        let end = start + u64::from(len);
        if end <= next {
            return;
        }
        if start > next {
            self.waiting.get_or_insert_default().keep(start, len, bytes, room);
            return;
        }
        self.deliver(side, next, (start, len), bytes, on);
        self.drain(side, room, on);
    }

    /// Gives up the holes up to `position`: passes them to the framer as missing.
    pub fn skip_to(&mut self, side: Side, position: u64, room: &mut EarlyBytes, on: Consumer<'_>) {
        self.drain(side, room, on);
        loop {
            let Some(next) = self.next.map(NonZeroU64::get).filter(|&next| next < position) else {
                return;
            };
            let first = self.waiting.as_ref().and_then(|waiting| waiting.early.front());
            let until = first.map_or(position, |early| early.start.min(position));
            let mut missing = until.saturating_sub(next);
            while missing > 0 {
                let step = missing.min(1 << 30) as u32;
                let at = self.next_or(next) + u64::from(step);
                self.next = NonZeroU64::new(at);
                on(side, &[], step, at);
                missing -= u64::from(step);
            }
            self.drain(side, room, on);
        }
    }

    /// Ends the stream and releases the memory of data that is still kept.
    pub fn discard_waiting(&mut self, room: &mut EarlyBytes) {
        let waiting = self.waiting.take();
        for piece in waiting.iter().flat_map(|it| &it.early).filter_map(|early| early.piece) {
            room.take(piece);
        }
    }

    fn drain(&mut self, side: Side, room: &mut EarlyBytes, on: Consumer<'_>) {
        while let Some(waiting) = &mut self.waiting {
            let Some(first) = waiting.early.front() else {
                self.waiting = None;
                return;
            };
            let next = self.next.map_or(first.start, NonZeroU64::get);
            if first.start > next {
                return;
            }
            let Some(early) = waiting.early.pop_front() else { return };
            waiting.bytes = waiting.bytes.saturating_sub(early.kept as usize);
            let bytes = early.piece.map(|piece| room.take(piece)).unwrap_or_default();
            if early.end() > next {
                self.deliver(side, next, (early.start, early.len), &bytes, on);
            }
        }
    }

    /// Passes the part at or after `next` to the framer.
    fn deliver(
        &mut self,
        side: Side,
        next: u64,
        (start, len): (u64, u32),
        bytes: &[u8],
        on: Consumer<'_>,
    ) {
        let known = (next - start) as usize;
        let fresh = bytes.get(known..).unwrap_or(&[]);
        let total = len - known as u32;
        let end = start + u64::from(len);
        self.next = NonZeroU64::new(end);
        on(side, fresh, total - fresh.len() as u32, end);
    }

    /// Bytes of memory beside the struct itself and the payload that is kept.
    pub fn heap_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| {
            size_of::<Waiting>() + waiting.early.capacity() * size_of::<Early>()
        })
    }
}

impl Waiting {
    /// Keeps data that came early. If there is no room for its bytes, its length is kept
    /// nevertheless: otherwise later data would wait for ever behind a hole that does not exist.
    fn keep(&mut self, start: u64, len: u32, bytes: &[u8], room: &mut EarlyBytes) {
        let own_room = WAITING_BYTES_MAX.saturating_sub(self.bytes);
        let kept = &bytes[..bytes.len().min(own_room)];
        self.bytes += kept.len();
        let index = self.early.partition_point(|early| early.start <= start);
        match index.checked_sub(1).and_then(|before| self.early.get_mut(before)) {
            Some(before) if before.can_append(start, len, kept.len() as u32) => {
                before.append(len, kept, room);
            }
            _ => self.early.insert(index, Early::new(start, len, kept, room)),
        }
        if self.early.len() > WAITING_MAX {
            self.merge_adjacent(room);
        }
    }

    /// Merges ranges without a hole between them, which exist if only the beginnings of packets
    /// were captured or if segments arrived in reverse order. If there are none, the last hole is
    /// given up: data for it comes too late.
    fn merge_adjacent(&mut self, room: &mut EarlyBytes) {
        let many = self.early.len();
        let mut merged: VecDeque<Early> = VecDeque::with_capacity(many);
        for next in self.early.drain(..) {
            match merged.back_mut() {
                Some(early) if next.start <= early.end() => early.merge(&next, room),
                _ => merged.push_back(next),
            }
        }
        self.early = merged;
        if self.early.len() == many
            && let Some(last) = self.early.pop_back()
            && let Some(early) = self.early.back_mut()
        {
            early.merge(&last, room);
        }
        self.bytes = self.early.iter().map(|early| early.kept as usize).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::sequence::ORIGIN;

    fn run(pieces: &[(u64, &[u8])]) -> Vec<u8> {
        let (mut reassembly, mut room) = (Reassembly::default(), EarlyBytes::default());
        reassembly.start(ORIGIN);
        let mut out = Vec::new();
        for (start, bytes) in pieces {
            reassembly.push(
                Side::Client,
                (ORIGIN + *start, bytes.len() as u32),
                bytes,
                &mut room,
                &mut |_, b, missing, _| {
                    out.extend_from_slice(b);
                    out.extend(std::iter::repeat_n(b'?', missing as usize));
                },
            );
        }
        reassembly.skip_to(Side::Client, ORIGIN + 9, &mut room, &mut |_, b, missing, _| {
            out.extend_from_slice(b);
            out.extend(std::iter::repeat_n(b'?', missing as usize));
        });
        out
    }

    #[test]
    fn segments_in_any_order_give_the_stream_once() {
        assert_eq!(run(&[(3, b"def"), (6, b"ghi"), (0, b"abc"), (0, b"abcdef")]), b"abcdefghi");
        assert_eq!(run(&[(0, b"abcd"), (2, b"cdefg"), (7, b"hi")]), b"abcdefghi");
    }

    #[test]
    fn data_that_never_arrived_is_missing() {
        assert_eq!(run(&[(0, b"abc"), (6, b"ghi")]), b"abc???ghi");
    }

    #[test]
    fn a_filled_hole_releases_the_stream_however_much_came_early() {
        const SEGMENT: u32 = 1448;
        let segments = 4 * WAITING_MAX as u64;
        let position = |index: u64| ORIGIN + index * u64::from(SEGMENT);
        let (mut reassembly, mut given, mut whole) = (Reassembly::default(), 0, 0);
        let mut room = EarlyBytes::default();
        reassembly.start(ORIGIN);
        for index in (1..segments).chain([0, segments]) {
            let on: Consumer<'_> = &mut |_, bytes, missing, end| {
                whole += bytes.len();
                given = end;
                assert!(
                    missing == 0 || index < segments,
                    "all earlier bytes come before the next ones"
                );
            };
            let bytes = [7; SEGMENT as usize];
            reassembly.push(Side::Server, (position(index), SEGMENT), &bytes, &mut room, on);
        }
        assert_eq!(given, position(segments + 1));
        assert_eq!(whole, WAITING_BYTES_MAX + 2 * SEGMENT as usize);
        assert!(reassembly.is_next(given));
    }

    /// Pushes segments of which the first bytes were captured, first those at `starts`, then all
    /// from the beginning of the stream to the last of them. Returns by how much the delivered
    /// position differs from the end of the stream, and the number of captured bytes delivered.
    fn counts(starts: impl Iterator<Item = u64>) -> (u64, usize) {
        const SEGMENT: u64 = 1448;
        let (mut reassembly, mut given, mut captured) = (Reassembly::default(), ORIGIN, 0);
        let mut room = EarlyBytes::default();
        reassembly.start(ORIGIN);
        let mut last = 0;
        let mut push = |index: u64| {
            let on: Consumer<'_> = &mut |_, bytes, missing, end| {
                assert_eq!(given + bytes.len() as u64 + u64::from(missing), end, "each byte once");
                (given, captured) = (end, captured + bytes.len());
            };
            let start = ORIGIN + index * SEGMENT;
            reassembly.push(Side::Server, (start, SEGMENT as u32), &[7; 30], &mut room, on);
        };
        for index in starts {
            push(index);
            last = last.max(index);
        }
        (0..=last + 1).for_each(&mut push);
        (given - ORIGIN - (last + 2) * SEGMENT, captured)
    }

    #[test]
    fn a_filled_hole_releases_the_stream_if_only_beginnings_of_packets_were_captured() {
        let (beyond, captured) = counts(1..4 * WAITING_MAX as u64);
        assert_eq!(beyond, 0);
        assert!(captured > 2 * 30, "bytes are kept while there is room: {captured}");
    }

    #[test]
    fn many_filled_holes_release_the_stream() {
        assert_eq!(counts((1..4 * WAITING_MAX as u64).step_by(2)).0, 0);
        assert_eq!(counts((1..2 * WAITING_MAX as u64).rev().map(|index| 2 * index)).0, 0);
    }

    /// Segments arrive in reverse order, with and without holes between them: each step examines a
    /// bounded number of ranges.
    #[test]
    fn in_reverse_order_few_ranges_are_kept() {
        for step in [1, 2] {
            let (mut reassembly, mut room) = (Reassembly::default(), EarlyBytes::default());
            reassembly.start(ORIGIN);
            for index in (1..100 * WAITING_MAX as u64).rev() {
                let start = ORIGIN + 10 * step * index;
                reassembly.push(
                    Side::Server,
                    (start, 10),
                    &[7; 10],
                    &mut room,
                    &mut |_, _, _, _| {},
                );
                let waiting = reassembly.waiting.as_ref().expect("a hole");
                assert!(waiting.early.len() <= WAITING_MAX, "{}", waiting.early.len());
                assert!(waiting.bytes <= WAITING_BYTES_MAX, "{} bytes", waiting.bytes);
            }
            reassembly.discard_waiting(&mut room);
            assert_eq!(room.heap_bytes(), 0, "no memory is left of a stream that has ended");
        }
    }
}
