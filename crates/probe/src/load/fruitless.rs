//! Connections that end before they bring an answer. A server that ends each of them is not asked
//! without end, and another one is opened again after a pause only.

/// Number of connections in a row without an answer, each opened after the end of the one before it,
/// after which there is no hope for a load that was never answered: the first one and three more tries.
const IN_A_ROW: u32 = 4;

/// The connections without an answer since the last answer.
#[derive(Debug, Default)]
pub(super) struct Fruitless {
    in_a_row: u32,
    last_ns: u64,
}

impl Fruitless {
    /// Adds a connection or a stream, begun at `begun_ns`, that has ended now without an answer. Those
    /// that one event ended together, such as the restart of a server, count as one. Returns whether the
    /// next one is to be tried after a pause: all but the first are.
    pub fn add(&mut self, begun_ns: u64, now_ns: u64) -> bool {
        let is_next = self.in_a_row == 0 || begun_ns >= self.last_ns;
        if is_next {
            (self.in_a_row, self.last_ns) = (self.in_a_row.saturating_add(1), now_ns);
        }
        !(is_next && self.in_a_row == 1)
    }

    /// Notes an answer.
    pub fn answered(&mut self) {
        self.in_a_row = 0;
    }

    /// Returns whether there were so many in a row that the next one has no hope either.
    pub fn is_hopeless(&self) -> bool {
        self.in_a_row >= IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_one_event_ends_count_as_one() {
        let mut lost = Fruitless::default();
        assert!(!lost.add(0, 10));
        assert!((0..100).all(|_| lost.add(5, 10)) && !lost.is_hopeless());
        assert!(lost.add(11, 12) && lost.add(11, 13) && lost.add(13, 14) && !lost.is_hopeless());
        assert!(lost.add(15, 16) && lost.is_hopeless());
    }

    #[test]
    fn an_answer_between_them_is_hope() {
        let mut lost = Fruitless::default();
        for at_ns in 0..100 {
            lost.add(2 * at_ns, 2 * at_ns + 1);
            if at_ns % 3 == 2 {
                lost.answered();
            }
            assert!(!lost.is_hopeless());
        }
    }
}
