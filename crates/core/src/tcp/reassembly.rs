//! Bytes in order for the framer: what came too early waits, what never came is skipped.

use crate::app::Side;
use std::num::NonZeroU64;

/// Most payload bytes kept per direction while a hole is open; what comes beyond is handed to
/// the framer as missing.
const WAITING_BYTES_MAX: usize = 64 << 10;
/// Most stretches kept: each ends at a hole, or where bytes are missing. More are put together.
const WAITING_MAX: usize = 256;

/// A stretch of the stream that came before its turn: segments that followed each other without a hole.
#[derive(Debug)]
struct Early {
    start: u64,
    len: u32,
    /// Of its beginning; the rest was not captured, or found no room.
    bytes: Vec<u8>,
}

impl Early {
    fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Whether all of its bytes are kept.
    fn is_whole(&self) -> bool {
        self.bytes.len() == self.len as usize
    }

    /// Whether `len` bytes of the stream at `start`, of which `kept` are kept, can be put behind it.
    fn goes_on(&self, start: u64, len: u32, kept: &[u8]) -> bool {
        let fits = self.len.checked_add(len).is_some();
        self.end() == start && fits && (self.is_whole() || kept.is_empty())
    }

    fn append(&mut self, len: u32, kept: &[u8]) {
        self.len += len;
        self.bytes.extend_from_slice(kept);
    }

    /// Takes in what lies behind it, and what lies between. Bytes are kept of a beginning only.
    fn take_in(&mut self, next: &Self) {
        if self.goes_on(next.start, next.len, &next.bytes) {
            return self.append(next.len, &next.bytes);
        }
        let end = self.end().max(next.end());
        self.len = u32::try_from(end - self.start).unwrap_or(u32::MAX);
    }
}

/// Puts one direction's payload in order.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Position up to which the framer was given everything.
    next: Option<NonZeroU64>,
    /// What waits, where anything does.
    waiting: Option<Box<Waiting>>,
}

/// What came before its turn, in the order of the stream.
#[derive(Debug, Default)]
struct Waiting {
    early: Vec<Early>,
    bytes: usize,
}

/// A consumer of bytes in order: who sent them, the captured ones, how many more were not
/// captured, and the position after them.
pub type Consumer<'a> = &'a mut dyn FnMut(Side, &[u8], u32, u64);

impl Reassembly {
    /// The stream begins at `position`.
    pub fn start(&mut self, position: u64) {
        if self.next.is_none() {
            self.next = NonZeroU64::new(position);
        }
    }

    fn next_or(&self, position: u64) -> u64 {
        self.next.map_or(position, NonZeroU64::get)
    }

    /// Whether what begins at `start` comes next, and nothing waits.
    #[inline]
    pub fn is_next(&self, start: u64) -> bool {
        self.waiting.is_none() && self.next.map(NonZeroU64::get) == Some(start)
    }

    /// The framer was given everything up to `end`.
    #[inline]
    pub fn pass(&mut self, end: u64) {
        self.next = NonZeroU64::new(end);
    }

    /// Takes `len` bytes of stream at `start`, of which `bytes` were captured.
    #[inline]
    pub fn push(&mut self, side: Side, start: u64, len: u32, bytes: &[u8], on: Consumer<'_>) {
        if start == self.next_or(start) && self.waiting.is_none() {
            let end = start + u64::from(len);
            self.next = NonZeroU64::new(end);
            on(side, bytes, len - bytes.len() as u32, end);
            return;
        }
        self.start(start);
        self.push_out_of_turn(side, start, len, bytes, on);
    }

    fn push_out_of_turn(
        &mut self,
        side: Side,
        start: u64,
        len: u32,
        bytes: &[u8],
        on: Consumer<'_>,
    ) {
        let next = self.next_or(start);
        let end = start + u64::from(len);
        if end <= next {
            return;
        }
        if start > next {
            self.waiting.get_or_insert_default().keep(start, len, bytes);
            return;
        }
        self.deliver(side, next, start, len, bytes, on);
        self.drain(side, on);
    }

    /// The hole up to `position` will not be filled: the framer is told how much is missing.
    pub fn skip_to(&mut self, side: Side, position: u64, on: Consumer<'_>) {
        self.drain(side, on);
        loop {
            let Some(next) = self.next.map(NonZeroU64::get).filter(|&next| next < position) else {
                return;
            };
            let first = self.waiting.as_ref().and_then(|waiting| waiting.early.first());
            let until = first.map_or(position, |early| early.start.min(position));
            let mut missing = until.saturating_sub(next);
            while missing > 0 {
                let step = missing.min(1 << 30) as u32;
                let at = self.next_or(next) + u64::from(step);
                self.next = NonZeroU64::new(at);
                on(side, &[], step, at);
                missing -= u64::from(step);
            }
            self.drain(side, on);
        }
    }

    fn drain(&mut self, side: Side, on: Consumer<'_>) {
        while let Some(waiting) = &mut self.waiting {
            let Some(first) = waiting.early.first() else {
                self.waiting = None;
                return;
            };
            let next = self.next.map_or(first.start, NonZeroU64::get);
            if first.start > next {
                return;
            }
            let early = waiting.early.remove(0);
            waiting.bytes -= early.bytes.len();
            if early.start + u64::from(early.len) > next {
                self.deliver(side, next, early.start, early.len, &early.bytes, on);
            }
        }
    }

    /// Hands on what lies at or after `next`.
    fn deliver(
        &mut self,
        side: Side,
        next: u64,
        start: u64,
        len: u32,
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

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| {
            let bytes: usize = waiting.early.iter().map(|early| early.bytes.capacity()).sum();
            size_of::<Waiting>() + bytes + waiting.early.capacity() * size_of::<Early>()
        })
    }
}

impl Waiting {
    /// Keeps what came early. Without room for its bytes its length is kept all the same: what comes after
    /// it has its place by that, and would else wait for ever behind a hole that was none.
    fn keep(&mut self, start: u64, len: u32, bytes: &[u8]) {
        let room = WAITING_BYTES_MAX.saturating_sub(self.bytes);
        let kept = &bytes[..bytes.len().min(room)];
        self.bytes += kept.len();
        let index = self.early.partition_point(|early| early.start <= start);
        match index.checked_sub(1).map(|before| &mut self.early[before]) {
            Some(before) if before.goes_on(start, len, kept) => before.append(len, kept),
            _ => self.early.insert(index, Early { start, len, bytes: kept.into() }),
        }
        if self.early.len() > WAITING_MAX {
            self.put_together();
        }
    }

    /// Makes one of stretches without a hole between them, as they are where only the beginnings of packets
    /// were captured. Where there are none, the last hole is given up: what fills it comes too late.
    fn put_together(&mut self) {
        let many = self.early.len();
        self.early.dedup_by(|next, early| {
            let follows = next.start <= early.end();
            if follows {
                early.take_in(next);
            }
            follows
        });
        if self.early.len() == many
            && let Some(last) = self.early.pop()
            && let Some(early) = self.early.last_mut()
        {
            early.take_in(&last);
        }
        self.bytes = self.early.iter().map(|early| early.bytes.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::sequence::ORIGIN;

    fn run(pieces: &[(u64, &[u8])]) -> Vec<u8> {
        let mut reassembly = Reassembly::default();
        reassembly.start(ORIGIN);
        let mut out = Vec::new();
        for (start, bytes) in pieces {
            reassembly.push(
                Side::Client,
                ORIGIN + *start,
                bytes.len() as u32,
                bytes,
                &mut |_, b, missing, _| {
                    out.extend_from_slice(b);
                    out.extend(std::iter::repeat_n(b'?', missing as usize));
                },
            );
        }
        reassembly.skip_to(Side::Client, ORIGIN + 9, &mut |_, b, missing, _| {
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
    fn what_never_came_is_missing() {
        assert_eq!(run(&[(0, b"abc"), (6, b"ghi")]), b"abc???ghi");
    }

    #[test]
    fn behind_a_hole_the_stream_goes_on_however_much_has_come_early() {
        const SEGMENT: u32 = 1448;
        let segments = 4 * WAITING_MAX as u64;
        let position = |index: u64| ORIGIN + index * u64::from(SEGMENT);
        let (mut reassembly, mut given, mut whole) = (Reassembly::default(), 0, 0);
        reassembly.start(ORIGIN);
        for index in (1..segments).chain([0, segments]) {
            let on: Consumer<'_> = &mut |_, bytes, missing, end| {
                whole += bytes.len();
                given = end;
                assert!(missing == 0 || index < segments, "all is told before what is next");
            };
            reassembly.push(Side::Server, position(index), SEGMENT, &[7; SEGMENT as usize], on);
        }
        assert_eq!(given, position(segments + 1));
        assert_eq!(whole, WAITING_BYTES_MAX + 2 * SEGMENT as usize);
        assert!(reassembly.is_next(given));
    }

    /// Of segments of which the first bytes were captured, given out of turn at `starts` and then from the
    /// stream's beginning to the last of them: up to where the stream was told, and the bytes captured.
    fn told(starts: impl Iterator<Item = u64>) -> (u64, usize) {
        const SEGMENT: u64 = 1448;
        let (mut reassembly, mut given, mut captured) = (Reassembly::default(), ORIGIN, 0);
        reassembly.start(ORIGIN);
        let mut last = 0;
        let mut push = |index: u64| {
            let on: Consumer<'_> = &mut |_, bytes, missing, end| {
                assert_eq!(given + bytes.len() as u64 + u64::from(missing), end, "each byte once");
                (given, captured) = (end, captured + bytes.len());
            };
            let start = ORIGIN + index * SEGMENT;
            reassembly.push(Side::Server, start, SEGMENT as u32, &[7; 30], on);
        };
        for index in starts {
            push(index);
            last = last.max(index);
        }
        (0..=last + 1).for_each(&mut push);
        (given - ORIGIN - (last + 2) * SEGMENT, captured)
    }

    #[test]
    fn behind_a_hole_the_stream_goes_on_where_only_beginnings_of_packets_were_captured() {
        let (beyond, captured) = told(1..4 * WAITING_MAX as u64);
        assert_eq!(beyond, 0);
        assert!(captured > 2 * 30, "what there is room for is kept: {captured}");
    }

    #[test]
    fn behind_many_holes_the_stream_goes_on() {
        assert_eq!(told((1..4 * WAITING_MAX as u64).step_by(2)).0, 0);
        assert_eq!(told((1..2 * WAITING_MAX as u64).rev().map(|index| 2 * index)).0, 0);
    }
}
