//! Exchanges with one server that followed each other back to back, whose round trips add up.

use crate::findings::thresholds::SEQUENCE_MIN;
use crate::tcp::Row;
use std::cmp::Reverse;

/// Number of exchanges of the shortest sequence, which is one and another behind it.
const PAIR: u32 = 2;

/// Sequences of back-to-back exchanges with one endpoint.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Rows {
    /// Number of exchanges in all sequences.
    pub count: u64,
    /// Time of all these exchanges on the path, ns.
    pub path_ns: u64,
    /// Number of times that an exchange followed another back to back that followed none.
    pub pairs: u64,
    /// The longest sequence.
    pub longest: Row,
}

impl Rows {
    /// Counts the last exchange of `row`, of whose time `path_ns` were on the path, if `row` is a
    /// sequence or has just become a pair.
    pub fn add(&mut self, row: &Row, path_ns: u64) {
        if row.count == PAIR {
            self.pairs += 1;
            return;
        }
        if row.count == SEQUENCE_MIN {
            self.count += 1;
            self.path_ns = self.path_ns.saturating_add(row.path_ns);
        } else if row.count > SEQUENCE_MIN {
            self.path_ns = self.path_ns.saturating_add(path_ns);
        }
        self.offer(row);
    }

    /// Returns whether `row` counts for [`Self::add`].
    #[inline]
    pub fn takes(row: &Row) -> bool {
        row.count == PAIR || row.count >= SEQUENCE_MIN
    }

    /// Keeps the longest sequence; the first of equals.
    fn offer(&mut self, row: &Row) {
        let rank =
            |row: &Row| (row.count, Reverse(row.began_ns), row.path_ns, Reverse(row.ended_ns));
        if rank(row) > rank(&self.longest) {
            self.longest = *row;
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.pairs += other.pairs;
        self.path_ns = self.path_ns.saturating_add(other.path_ns);
        self.offer(&other.longest);
    }
}
