//! Sequence numbers that do not wrap: 32-bit header fields as 64-bit stream positions.

/// Position of the first sequence number seen. Earlier sequence numbers have positions below it.
pub const ORIGIN: u64 = 1 << 32;

/// Maps one direction's 32-bit sequence numbers (RFC 9293 §3.4) to 64-bit positions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequence {
    /// Header value at [`ORIGIN`].
    pub first: u32,
}

impl Sequence {
    /// Starts at `number`.
    pub fn new(number: u32) -> Self {
        Self { first: number }
    }

    /// Returns the position of header value `number`, which lies within 2 GiB of position `near`.
    pub fn position(self, number: u32, near: u64) -> u64 {
        // The lower half of [`ORIGIN`] is zero.
        widen(number.wrapping_sub(self.first), near)
    }
}

/// Returns the position within 2 GiB of `near` whose lower half is `low`.
pub fn widen(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(i64::from(distance))
}

/// Range of the sequence numbers that one side has sent on a connection that is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    next: u32,
    len: u32,
}

impl Numbers {
    /// Creates the range from `first`, if known, to `next`, which follows the FIN. It covers at
    /// most half of the number space, because a number farther behind counts as ahead (RFC 9293
    /// §3.4).
    pub fn new(next: u32, first: Option<u32>) -> Self {
        Self { next, len: first.map_or(1 << 31, |first| next.wrapping_sub(first)) }
    }

    /// Returns whether `number` lies in the range or repeats its end, as a late segment does. A
    /// later connection with the same addresses and ports has numbers beyond these where its host
    /// takes initial numbers from a clock (RFC 9293 §3.4.1).
    pub fn contains(self, number: u32) -> bool {
        self.next.wrapping_sub(number) <= self.len
    }

    /// Returns whether the range begins with `number`.
    pub fn began_with(self, number: u32) -> bool {
        self.next.wrapping_sub(number) == self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_on_where_numbers_wrap() {
        let sequence = Sequence::new(u32::MAX - 9);
        assert_eq!(sequence.position(10, ORIGIN), ORIGIN + 20);
        let mut position = ORIGIN;
        for _ in 0..5 {
            let number = sequence.first.wrapping_add(position as u32).wrapping_add(1 << 30);
            position = sequence.position(number, position);
        }
        assert_eq!(position, ORIGIN + 5 * (1 << 30));
    }

    #[test]
    fn the_range_contains_the_numbers_that_were_sent() {
        let numbers = Numbers::new(9, Some(u32::MAX - 10));
        assert!(numbers.began_with(u32::MAX - 10));
        assert!([u32::MAX - 10, 0, 9].into_iter().all(|number| numbers.contains(number)));
        assert!([u32::MAX - 11, 10].into_iter().all(|number| !numbers.contains(number)));
        let of_more = Numbers::new(9, None);
        assert!(of_more.contains(u32::MAX - 11) && !of_more.contains(10));
    }

    #[test]
    fn a_number_before_the_first_has_a_position() {
        assert_eq!(Sequence::new(5).position(u32::MAX, ORIGIN), ORIGIN - 6);
    }
}
