//! Counts and times of all frames, whatever they carry.

use super::Batch;
use crate::capture::Block;
use crate::findings::{Numbers, Stamps};
use crate::wire::DecodeCounts;

/// Counts and times of all frames of a part of the input.
#[derive(Clone, Default, serde::Deserialize, serde::Serialize)]
pub(crate) struct Overview {
    pub counts: DecodeCounts,
    pub stamps: Stamps,
    pub numbers: Numbers,
    /// Capture time of the earliest block's first frame, ns; `None` if there is no frame.
    pub first_ns: Option<u64>,
    /// Capture time of the latest frame, ns.
    pub last_ns: u64,
}

impl Overview {
    /// Adds the frames of a block.
    pub fn take(&mut self, batch: &Batch, block: &Block) {
        self.stamps.take(block.entries.iter().map(|entry| entry.time_ns));
        self.numbers.take(batch.decoded().iter());
        self.counts.merge(&batch.counts);
        self.span(batch.first_ns, batch.last_ns);
    }

    /// Adds the times and counts of another part. Its [`stamps`](Self::stamps) replace these: they
    /// are those of all frames so far.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.stamps = other.stamps;
        self.numbers.merge(&other.numbers);
        self.span(other.first_ns, other.last_ns);
    }

    /// Removes and returns the counts since the last call; the stamps and the last time stay.
    pub fn split(&mut self) -> Self {
        let (counts, first_ns) = (std::mem::take(&mut self.counts), self.first_ns.take());
        Self { counts, first_ns, ..self.clone() }
    }

    fn span(&mut self, first_ns: Option<u64>, last_ns: u64) {
        self.first_ns = match (self.first_ns, first_ns) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.last_ns = self.last_ns.max(last_ns);
    }
}
