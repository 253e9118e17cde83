//! One packet in the making: which of its fragments are there, and what they contradict.

use super::super::fragment::{Fragment, FragmentKey, Reassembled};
use super::super::ip::Network;
use super::super::walk::Origin;
use super::super::{DecodeError, SegmentFlags};

/// Fragments per packet: a 64 KiB packet over the smallest usual MTU (576) makes 120.
const PIECES_MAX: usize = 256;
/// What keeping a fragment costs beside its bytes, about.
const PIECE_OVERHEAD: usize = 64;

/// A packet in the making.
#[derive(Clone)]
pub(super) struct Partial {
    pub key: FragmentKey,
    /// Of the fragment that arrived first.
    pub origin: Origin,
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
    pub refused: bool,
}

#[derive(Clone)]
struct Piece {
    start: u32,
    end: u32,
    bytes: Vec<u8>,
    fingerprint: u64,
}

impl Partial {
    pub fn new(fragment: &Fragment<'_>) -> Self {
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

    pub fn held(&self) -> usize {
        self.captured_bytes + self.pieces.len() * PIECE_OVERHEAD
    }

    /// Whether the fragment at offset 0 is there.
    pub fn has_beginning(&self) -> bool {
        self.network.is_some()
    }

    /// Of each of the fragments.
    pub fn fingerprints(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.iter().map(|piece| piece.fingerprint)
    }

    /// Adds a fragment; true when it was the last that was missing.
    pub fn add(&mut self, fragment: &Fragment<'_>) -> Result<bool, DecodeError> {
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
        let (bytes, fingerprint) = (fragment.payload.to_vec(), fragment.fingerprint());
        self.pieces.insert(position, Piece { start, end, bytes, fingerprint });
        Ok(self.len == Some(self.contiguous_len()))
    }

    /// How far the fragments reach from offset 0 without a hole, bytes.
    fn contiguous_len(&self) -> u32 {
        let next = |reach, piece: &Piece| if piece.start == reach { piece.end } else { reach };
        self.pieces.iter().fold(0, next)
    }

    pub fn into_reassembled(self, origin: Origin) -> Option<Reassembled> {
        let mut network = self.network?;
        network.facts |= SegmentFlags::REASSEMBLED | self.congestion;
        let len = self.len?;
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
