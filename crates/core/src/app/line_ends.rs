//! Finds line ends eight bytes at a time: headers have many short lines, and starting a search for
//! each costs more than examining its bytes.

/// Number of bytes examined at once.
const WORD_BYTES: usize = 8;

/// Iterator over the positions of line feeds, in order.
pub(super) struct LineEnds<'a> {
    bytes: &'a [u8],
    words: std::slice::Iter<'a, [u8; WORD_BYTES]>,
    /// End position of the word of `found`.
    end: usize,
    /// Remaining bits of [`candidates`].
    found: u64,
}

impl<'a> LineEnds<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, words: bytes.as_chunks().0.iter(), end: 0, found: 0 }
    }

    /// Returns the candidates of the next word that has any; zero at the end.
    #[inline]
    fn next_candidates(&mut self) -> u64 {
        for word in self.words.by_ref() {
            self.end += WORD_BYTES;
            let found = candidates(u64::from_le_bytes(*word));
            if found != 0 {
                return found;
            }
        }
        let rest = self.bytes.get(self.end..).unwrap_or_default();
        self.end += WORD_BYTES;
        candidates(rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
    }
}

impl Iterator for LineEnds<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            while self.found == 0 {
                if self.end >= self.bytes.len() {
                    return None;
                }
                self.found = self.next_candidates();
            }
            let at = self.end - WORD_BYTES + self.found.trailing_zeros() as usize / 8;
            self.found &= self.found - 1;
            if self.bytes.get(at) == Some(&b'\n') {
                return Some(at);
            }
        }
    }
}

/// Sets the highest bit of each byte that is a line feed, and sometimes of one that follows it.
#[inline]
fn candidates(word: u64) -> u64 {
    let zero_for_line_feed = word ^ u64::from_ne_bytes([b'\n'; WORD_BYTES]);
    let borrowed = zero_for_line_feed.wrapping_sub(u64::from_ne_bytes([1; WORD_BYTES]));
    borrowed & !zero_for_line_feed & u64::from_ne_bytes([0x80; WORD_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_line_feed_is_found_and_nothing_else(
            bytes in prop::collection::vec(prop_oneof![8u8..12, any::<u8>()], 0..99),
        ) {
            let expected: Vec<_> =
                bytes.iter().enumerate().filter(|it| *it.1 == b'\n').map(|it| it.0).collect();
            prop_assert_eq!(LineEnds::new(&bytes).collect::<Vec<_>>(), expected);
        }
    }
}
