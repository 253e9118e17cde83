//! One incomplete packet: its fragments so far, and contradictions between them.

use super::super::fragment::{Fragment, FragmentKey, Reassembled};
use super::super::ip::Network;
use super::super::walk::Origin;
use super::super::{DecodeError, SegmentFlags};

/// Maximum number of fragments per packet: 64 KiB with the smallest usual MTU (576) make 120.
const PIECES_MAX: usize = 256;
/// Approximate memory cost of a fragment besides its bytes.
const PIECE_OVERHEAD: usize = 64;

/// An incomplete packet.
#[derive(Clone)]
pub(super) struct Partial {
    pub key: FragmentKey,
    /// Origin of the fragment that arrived first.
    pub origin: Origin,
    /// Header fields of the fragment at offset 0.
    network: Option<Network>,
    /// The fragments by offset, without overlap.
    pieces: Vec<Piece>,
    captured_bytes: usize,
    /// Length of the whole packet, once the last fragment has arrived.
    len: Option<u32>,
    /// Congestion experienced by any fragment applies to the whole packet (RFC 3168 §5.3).
    congestion: u32,
    /// `true` if fragments contradict each other: later ones are ignored.
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

    /// Returns whether the fragment at offset 0 has arrived.
    pub fn has_beginning(&self) -> bool {
        self.network.is_some()
    }

    /// Returns the fingerprints of the fragments.
    pub fn fingerprints(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.iter().map(|piece| piece.fingerprint)
    }

    /// Adds a fragment; returns `true` if the packet is complete.
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

    /// Returns the length of the contiguous data from offset 0, bytes.
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
