//! Out-of-order payload of all streams of a shard, kept within a common bound.

use std::collections::BTreeMap;

/// Greatest amount of payload kept for all shards together, bytes: 10 MiB.
const ALL_BYTES_MAX: usize = 10 << 20;

/// Share of it that DNS over TCP may take, bytes.
const DNS_BYTES_MAX: usize = 2 << 20;

/// Cost of a piece besides its bytes: its map entry and its allocation, bytes.
const PIECE_COST_BYTES: usize = 64;

/// Number of one piece of [`EarlyBytes`]; pieces are numbered in the order of their creation.
pub type Piece = u64;

/// Pieces of streams that wait until the hole before them is filled. Beyond the bound the oldest
/// are discarded; their streams continue as if these bytes had not been captured.
#[derive(Clone, Debug)]
pub struct EarlyBytes {
    pieces: BTreeMap<Piece, Vec<u8>>,
    next: Piece,
    /// Memory that all pieces take, bytes.
    cost_bytes: usize,
    limit_bytes: usize,
    /// Bytes that were discarded.
    pub discarded_bytes: u64,
}

impl Default for EarlyBytes {
    /// Creates an empty store with the bound for a user outside the shards: that of DNS over TCP.
    fn default() -> Self {
        Self::limited_to(DNS_BYTES_MAX)
    }
}

impl EarlyBytes {
    fn limited_to(limit_bytes: usize) -> Self {
        let pieces = BTreeMap::new();
        Self { pieces, next: 0, cost_bytes: 0, limit_bytes, discarded_bytes: 0 }
    }

    /// Creates an empty store with the bound for one of `users` users that share the memory
    /// equally.
    pub fn share_of(users: usize) -> Self {
        Self::limited_to((ALL_BYTES_MAX - DNS_BYTES_MAX) / users.max(1))
    }

    /// Stores `bytes` as a new piece.
    pub fn keep(&mut self, bytes: &[u8]) -> Piece {
        self.next += 1;
        let kept = bytes.to_vec();
        self.cost_bytes += cost_bytes(&kept);
        self.pieces.insert(self.next, kept);
        self.bound();
        self.next
    }

    /// Appends `bytes` to `piece`; returns `false` if `piece` was discarded.
    pub fn append(&mut self, piece: Piece, bytes: &[u8]) -> bool {
        let Some(kept) = self.pieces.get_mut(&piece) else { return false };
        self.cost_bytes -= cost_bytes(kept);
        kept.extend_from_slice(bytes);
        self.cost_bytes += cost_bytes(kept);
        self.bound();
        self.pieces.contains_key(&piece)
    }

    /// Removes `piece` and returns its bytes, which are empty if it was discarded.
    pub fn take(&mut self, piece: Piece) -> Vec<u8> {
        let Some(bytes) = self.pieces.remove(&piece) else { return Vec::new() };
        self.cost_bytes -= cost_bytes(&bytes);
        bytes
    }

    fn bound(&mut self) {
        while self.cost_bytes > self.limit_bytes
            && let Some((_, oldest)) = self.pieces.pop_first()
        {
            self.cost_bytes -= cost_bytes(&oldest);
            self.discarded_bytes += oldest.len() as u64;
        }
    }

    /// Memory in use, with the spare capacity of the pieces, bytes.
    pub fn heap_bytes(&self) -> usize {
        self.cost_bytes
    }
}

/// Memory that one piece takes, with its spare capacity, bytes.
fn cost_bytes(piece: &Vec<u8>) -> usize {
    piece.capacity() + PIECE_COST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_the_oldest_pieces_are_discarded() {
        let mut early = EarlyBytes::limited_to(10 * (1_000 + PIECE_COST_BYTES));
        let pieces: Vec<_> = (0..15).map(|number| early.keep(&[number; 1_000])).collect();
        assert_eq!(early.discarded_bytes, 5_000);
        assert!(!early.append(pieces[4], b"more"), "discarded");
        let kept: Vec<_> = pieces.iter().map(|&piece| early.take(piece).len()).collect();
        assert_eq!(kept, [[0; 5], [1_000; 5], [1_000; 5]].concat());
        assert_eq!((early.cost_bytes, early.pieces.len()), (0, 0));
    }

    #[test]
    fn all_users_together_keep_no_more_than_10_mib() {
        let all = 16 * EarlyBytes::share_of(16).limit_bytes + EarlyBytes::default().limit_bytes;
        assert_eq!(all, 10 << 20);
    }
}
