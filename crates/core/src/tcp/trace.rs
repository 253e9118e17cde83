//! Recording of the gaps and the kinds of segments of a connection that is to be drawn or
//! explained. It is made for no other connection.

use crate::capture::FrameId;
use crate::judge::Gap;
use crate::model::Slice;
use crate::tcp::sender::Kind;

/// A gap with its slices, as they were added to the ledger.
#[derive(Clone, Debug)]
pub struct RecordedGap {
    /// Start of the gap, ns.
    pub start_ns: u64,
    /// Frame that ended it.
    pub next_frame: FrameId,
    /// The parts of the gap, each with its owner.
    pub slices: Vec<Slice>,
}

/// The gaps in the order in which they were judged, and the kind of the last segment.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The gaps.
    pub gaps: Vec<RecordedGap>,
    pub(super) kind: Option<Kind>,
    /// The gaps with everything that was known of them, if they are to be explained.
    pub decided: Option<Vec<Gap>>,
}

/// Greatest number of gaps kept.
const GAPS_MAX: usize = 1 << 18;

/// Greatest number of gaps kept with everything that was known of them; each takes some 600 bytes.
const DECIDED_MAX: usize = 1 << 16;

impl Trace {
    pub(super) fn gap<'a>(&mut self, gap: &Gap, slices: impl Iterator<Item = &'a Slice>) {
        if let Some(decided) = self.decided.as_mut().filter(|it| it.len() < DECIDED_MAX) {
            decided.push(*gap);
        }
        if self.gaps.len() < GAPS_MAX {
            let slices = slices.copied().collect();
            self.gaps.push(RecordedGap {
                start_ns: gap.start_ns,
                next_frame: gap.next.frame,
                slices,
            });
        }
    }

    /// Removes and returns the kind of the last segment with payload.
    pub fn take_kind(&mut self) -> Option<Kind> {
        self.kind.take()
    }
}
