//! Whole packets from fragments, within bounds of number, bytes and age.

use super::fragment::{Fragment, FragmentKey, Reassembled};
use super::ip::Network;
use super::walk::Origin;
use super::{DecodeError, SegmentFlags};
use std::collections::{BTreeMap, HashMap};

/// Fragments per packet: a 64 KiB packet over the smallest usual MTU (576) makes 120.
const PIECES_MAX: usize = 256;
/// What keeping a fragment costs beside its bytes, about.
const PIECE_OVERHEAD: usize = 64;

/// How much an unfinished reassembly may hold.
#[derive(Clone, Copy, Debug)]
pub struct ReassemblyLimits {
    /// Packets in the making.
    pub packets: usize,
    /// Captured bytes of all of them.
    pub bytes: usize,
    /// Age of the oldest fragment in capture time, nanoseconds.
    pub age_ns: u64,
}

impl Default for ReassemblyLimits {
    /// 1,024 packets, 4 MiB and 30 s (Linux's `ipfrag_time`).
    fn default() -> Self {
        Self { packets: 1024, bytes: 4 << 20, age_ns: 30_000_000_000 }
    }
}

/// What became of a fragment.
#[derive(Debug)]
pub enum Reassembly {
    /// Others are missing.
    Pending,
    /// It was the last that was missing.
    Complete(Reassembled),
    /// It contradicts the others; the packet is given up.
    Refused(DecodeError),
}

/// Puts packets together from their fragments, within limits; the oldest is given up first.
#[derive(Default)]
pub struct Reassembler {
    limits: ReassemblyLimits,
    /// Serial numbers of the packets in the making.
    index: HashMap<FragmentKey, u64>,
    /// By serial number, which is the order in which they began.
    partials: BTreeMap<u64, Partial>,
    next_serial: u64,
    /// Bytes held, with overhead.
    bytes: usize,
    given_up: Vec<Reassembled>,
    incomplete_count: u64,
}

impl Reassembler {
    /// A reassembler that holds no more than `limits`.
    pub fn new(limits: ReassemblyLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes a fragment, in order of capture.
    pub fn insert(&mut self, fragment: &Fragment<'_>) -> Reassembly {
        self.give_up_old(fragment.origin.time_ns);
        let next_serial = self.next_serial;
        let serial = *self.index.entry(fragment.key).or_insert(next_serial);
        self.next_serial += u64::from(serial == next_serial);
        let partial = self.partials.entry(serial).or_insert_with(|| Partial::new(fragment));
        if partial.refused {
            return Reassembly::Pending;
        }
        let held_before = partial.held();
        let outcome = partial.add(fragment);
        let held = partial.held();
        self.bytes = self.bytes + held - held_before;
        match outcome {
            Err(error) => Reassembly::Refused(error),
            Ok(false) => {
                self.give_up_excess();
                Reassembly::Pending
            }
            Ok(true) => self.complete(serial, fragment.origin),
        }
    }

    /// Ends all that is unfinished, at the end of the capture.
    pub fn finish(&mut self) {
        while self.give_up_oldest() {}
    }

    /// The first fragments of packets that were given up, for what their headers say. They come
    /// late: when the others were no longer waited for, or captured at all (a filter by port lets
    /// only first fragments pass).
    pub fn take_given_up(&mut self) -> Vec<Reassembled> {
        std::mem::take(&mut self.given_up)
    }

    /// How many packets were given up ([`DecodeError::FragmentIncomplete`]).
    pub fn incomplete_count(&self) -> u64 {
        self.incomplete_count
    }

    fn complete(&mut self, serial: u64, origin: Origin) -> Reassembly {
        match self.remove(serial).and_then(|partial| partial.into_reassembled(origin)) {
            Some(reassembled) => Reassembly::Complete(reassembled),
            None => Reassembly::Pending,
        }
    }

    fn remove(&mut self, serial: u64) -> Option<Partial> {
        let partial = self.partials.remove(&serial)?;
        self.index.remove(&partial.key);
        self.bytes -= partial.held();
        Some(partial)
    }

    fn give_up_old(&mut self, now_ns: u64) {
        while let Some((_, oldest)) = self.partials.first_key_value() {
            if now_ns.saturating_sub(oldest.origin.time_ns) <= self.limits.age_ns {
                return;
            }
            self.give_up_oldest();
        }
    }

    fn give_up_excess(&mut self) {
        while self.partials.len() > self.limits.packets || self.bytes > self.limits.bytes {
            if !self.give_up_oldest() {
                return;
            }
        }
    }

    fn give_up_oldest(&mut self) -> bool {
        let Some((&serial, _)) = self.partials.first_key_value() else { return false };
        let Some(partial) = self.remove(serial) else { return false };
        if !partial.refused {
            self.incomplete_count += 1;
            let origin = partial.origin;
            // Bounded like the rest, should nobody take them.
            if self.given_up.len() < self.limits.packets {
                self.given_up.extend(partial.into_reassembled(origin));
            }
        }
        true
    }
}

/// A packet in the making.
struct Partial {
    key: FragmentKey,
    /// Of the fragment that arrived first.
    origin: Origin,
    /// Of the fragment at offset 0.
    network: Option<Network>,
    /// By offset, without overlap.
    pieces: Vec<Piece>,
    captured_bytes: usize,
    /// Length of the whole, once the last fragment is there.
    len: Option<u32>,
    /// Congestion experienced by any of them is experienced by the whole (RFC 3168 §5.3).
    congestion: u16,
    /// Contradictory: what else arrives of it is ignored.
    refused: bool,
}

struct Piece {
    start: u32,
    end: u32,
    bytes: Vec<u8>,
}

impl Partial {
    fn new(fragment: &Fragment<'_>) -> Self {
        Self {
            key: fragment.key,
            origin: fragment.origin,
            network: None,
            pieces: Vec::new(),
            captured_bytes: 0,
            len: None,
            congestion: 0,
            refused: false,
        }
    }

    fn held(&self) -> usize {
        self.captured_bytes + self.pieces.len() * PIECE_OVERHEAD
    }

    /// Adds a fragment; true when it was the last that was missing.
    fn add(&mut self, fragment: &Fragment<'_>) -> Result<bool, DecodeError> {
        let added = self.try_add(fragment);
        if added.is_err() {
            self.refused = true;
            self.pieces = Vec::new();
            self.captured_bytes = 0;
        }
        added
    }

    fn try_add(&mut self, fragment: &Fragment<'_>) -> Result<bool, DecodeError> {
        let (start, end) = (fragment.offset, fragment.offset + fragment.payload_len);
        let position = self.pieces.partition_point(|piece| piece.start < start);
        if self.pieces.get(position).is_some_and(|piece| (piece.start, piece.end) == (start, end)) {
            return Ok(false);
        }
        let before = position.checked_sub(1).and_then(|index| self.pieces.get(index));
        let overlaps = before.is_some_and(|piece| piece.end > start)
            || self.pieces.get(position).is_some_and(|piece| piece.start < end)
            || self.len.is_some_and(|len| end > len || !fragment.more)
            || (!fragment.more && position < self.pieces.len());
        if overlaps {
            return Err(DecodeError::FragmentOverlap);
        }
        if self.pieces.len() == PIECES_MAX {
            return Err(DecodeError::FragmentsTooMany);
        }
        if !fragment.more {
            self.len = Some(end);
        }
        if start == 0 {
            self.network = Some(fragment.network);
        }
        self.congestion |= fragment.network.facts & SegmentFlags::ECN_CE;
        self.captured_bytes += fragment.payload.len();
        self.pieces.insert(position, Piece { start, end, bytes: fragment.payload.to_vec() });
        Ok(self.len == Some(self.contiguous_len()))
    }

    /// How far the fragments reach from offset 0 without a hole, bytes.
    fn contiguous_len(&self) -> u32 {
        let next = |reach, piece: &Piece| if piece.start == reach { piece.end } else { reach };
        self.pieces.iter().fold(0, next)
    }

    fn into_reassembled(self, origin: Origin) -> Option<Reassembled> {
        let mut network = self.network?;
        network.facts |= SegmentFlags::REASSEMBLED | self.congestion;
        let len = self.len.unwrap_or_else(|| self.contiguous_len());
        let mut bytes = Vec::with_capacity(self.captured_bytes);
        for piece in &self.pieces {
            if piece.start as usize != bytes.len() {
                break;
            }
            bytes.extend_from_slice(&piece.bytes);
        }
        Some(Reassembled { origin, network, bytes, len })
    }
}
