//! Sequence numbers that do not wrap: 32-bit header fields as 64-bit stream positions.

/// Position of the first sequence number seen; leaves room for what lies before it.
pub const ORIGIN: u64 = 1 << 32;

/// Maps one direction's 32-bit sequence numbers (RFC 9293 §3.4) to 64-bit positions.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// Header value at `position`.
    number: u32,
    /// The highest position seen: numbers are taken to lie within 2 GiB of it.
    position: u64,
}

impl Sequence {
    /// Starts at `number`.
    pub fn new(number: u32) -> Self {
        Self { number, position: ORIGIN }
    }

    /// The position of header value `number`.
    pub fn position(&self, number: u32) -> u64 {
        let distance = number.wrapping_sub(self.number) as i32;
        self.position.wrapping_add_signed(i64::from(distance))
    }

    /// Moves the reference forward to `position`, never back.
    pub fn advance(&mut self, position: u64) {
        if position > self.position {
            self.number = self.number.wrapping_add((position - self.position) as u32);
            self.position = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_on_where_numbers_wrap() {
        let mut sequence = Sequence::new(u32::MAX - 9);
        let before = sequence.position(u32::MAX);
        let after = sequence.position(10);
        assert_eq!(after - before, 11);
        for _ in 0..5 {
            let next = sequence.position(sequence.number.wrapping_add(1 << 30));
            sequence.advance(next);
        }
        assert_eq!(sequence.position, ORIGIN + 5 * (1 << 30));
    }

    #[test]
    fn a_number_before_the_first_has_a_position() {
        assert_eq!(Sequence::new(5).position(u32::MAX), ORIGIN - 6);
    }
}
