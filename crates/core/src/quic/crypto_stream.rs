//! The bytes of CRYPTO frames of one side at one encryption level, in any order (RFC 9000 §7.5, §19.6).

use std::ops::Range;

/// Maximum number of bytes that are kept: implementations must buffer at least 4,096 (RFC 9000 §7.5), and a
/// ClientHello with post-quantum key shares has 1.8 KB.
const CRYPTO_BYTES_MAX: usize = 4096;

/// Maximum number of pieces of a CRYPTO stream that are kept apart: a browser that shuffles its
/// ClientHello sends up to 20.
const CRYPTO_PIECES_MAX: usize = 64;

/// Whether the bytes of a CRYPTO frame were seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Brings {
    /// Nothing: there is no such frame.
    #[default]
    Nothing,
    /// Only bytes that were seen before.
    Again,
    /// Bytes that are new.
    New,
}

/// A stream of bounded length.
#[derive(Clone, Debug, Default)]
pub(super) struct CryptoStream {
    bytes: Vec<u8>,
    /// The parts of `bytes` that are known, in order, not adjacent.
    known: Vec<Range<usize>>,
}

impl CryptoStream {
    /// Adds the bytes at `offset`. Bytes beyond the bound are new and not kept.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) -> Brings {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = begin.saturating_add(bytes.len());
        if bytes.is_empty() || self.known.iter().any(|it| it.start <= begin && end <= it.end) {
            return Brings::Again;
        }
        if end <= CRYPTO_BYTES_MAX && self.known.len() < CRYPTO_PIECES_MAX {
            if self.bytes.len() < end {
                self.bytes.resize(end, 0);
            }
            self.bytes[begin..end].copy_from_slice(bytes);
            self.join(begin..end);
        }
        Brings::New
    }

    fn join(&mut self, mut added: Range<usize>) {
        self.known.retain(|it| {
            let touches = it.start <= added.end && added.start <= it.end;
            if touches {
                added = it.start.min(added.start)..it.end.max(added.end);
            }
            !touches
        });
        let place = self.known.partition_point(|it| it.start < added.start);
        self.known.insert(place, added);
    }

    /// Returns the bytes from the beginning up to the first that is missing.
    pub fn beginning(&self) -> &[u8] {
        let first = self.known.first().filter(|it| it.start == 0);
        first.and_then(|it| self.bytes.get(it.clone())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_in_any_order() {
        let mut stream = CryptoStream::default();
        assert_eq!(stream.add(3, b"def"), Brings::New);
        assert_eq!(stream.beginning(), b"");
        assert_eq!(stream.add(7, b"h"), Brings::New);
        assert_eq!(stream.add(0, b"abcd"), Brings::New);
        assert_eq!(stream.beginning(), b"abcdef");
        assert_eq!(stream.add(1, b"bcde"), Brings::Again);
        assert_eq!(stream.add(6, b"g"), Brings::New);
        assert_eq!(stream.beginning(), b"abcdefgh");
    }

    #[test]
    fn what_is_beyond_the_bounds_is_not_kept() {
        let mut stream = CryptoStream::default();
        assert_eq!(stream.add(u64::MAX, b"x"), Brings::New);
        assert_eq!(stream.add(CRYPTO_BYTES_MAX as u64, b"x"), Brings::New);
        for piece in 0..1000 {
            stream.add(2 * piece, b"x");
        }
        assert_eq!(stream.known.len(), CRYPTO_PIECES_MAX);
        assert!(stream.bytes.len() <= CRYPTO_BYTES_MAX);
    }
}
