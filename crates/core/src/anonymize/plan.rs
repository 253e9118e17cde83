//! The bytes that replace those of a stream: pieces with their positions, and filler everywhere
//! else.

use super::FILLER;

/// Replacements in one direction of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Position in the stream and start in `bytes` of each piece; in order.
    pieces: Vec<(u64, usize)>,
    bytes: Vec<u8>,
}

impl Plan {
    /// Adds the bytes at `position`, which is not before the last piece.
    pub fn add(&mut self, position: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let continues = self
            .pieces
            .last()
            .is_some_and(|&(begin, at)| begin + (self.bytes.len() - at) as u64 == position);
        if !continues {
            self.pieces.push((position, self.bytes.len()));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes the bytes from `position` on.
    pub fn cut(&mut self, position: u64) {
        while let Some(&(begin, at)) = self.pieces.last() {
            let kept = position.saturating_sub(begin).min((self.bytes.len() - at) as u64) as usize;
            self.bytes.truncate(at + kept);
            if kept > 0 {
                return;
            }
            self.pieces.pop();
        }
    }

    /// Overwrites `payload` with the bytes at `position` and after it.
    pub fn write(&self, position: u64, payload: &mut [u8]) {
        payload.fill(FILLER);
        let end = position + payload.len() as u64;
        let first = self.pieces.partition_point(|(begin, _)| *begin <= position).saturating_sub(1);
        for (index, &(begin, at)) in self.pieces.iter().enumerate().skip(first) {
            if begin >= end {
                return;
            }
            let piece_end = self.pieces.get(index + 1).map_or(self.bytes.len(), |(_, next)| *next);
            let piece = &self.bytes[at..piece_end];
            let (from, to) = (begin.max(position), (begin + piece.len() as u64).min(end));
            if from < to {
                payload[(from - position) as usize..(to - position) as usize]
                    .copy_from_slice(&piece[(from - begin) as usize..(to - begin) as usize]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_without_a_plan_become_filler() {
        let mut plan = Plan::default();
        plan.add(3, b"abc");
        plan.add(6, b"d");
        plan.add(9, b"xyz");
        let at = |position: u64, length: usize| {
            let mut payload = vec![7; length];
            plan.write(position, &mut payload);
            String::from_utf8(payload).unwrap()
        };
        assert_eq!(at(0, 14), "...abcd..xyz..");
        assert_eq!((at(5, 5), at(10, 1), at(20, 2)), ("cd..x".into(), "y".into(), "..".into()));
    }

    #[test]
    fn a_plan_is_cut_at_any_position() {
        for cut in 0..14 {
            let mut plan = Plan::default();
            plan.add(3, b"abcd");
            plan.add(9, b"xyz");
            plan.cut(cut);
            let mut payload = vec![7; 14];
            plan.write(0, &mut payload);
            let whole = "...abcd..xyz..";
            let left = format!("{:.<14}", &whole[..cut as usize]);
            assert_eq!(String::from_utf8(payload).unwrap(), left);
            plan.add(20, b"e");
        }
    }
}
