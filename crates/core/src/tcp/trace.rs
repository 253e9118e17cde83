//! What is noted of a connection that somebody wants drawn. Nothing of it exists otherwise.

use crate::capture::FrameId;
use crate::cause::Slice;
use crate::tcp::gap::Gap;
use crate::tcp::sender::Kind;

/// A silence and its owners, as the ledger got them.
#[derive(Clone, Debug)]
pub struct TracedGap {
    /// When it began, ns.
    pub start_ns: u64,
    /// The frame that ended it.
    pub next_frame: FrameId,
    /// Its parts.
    pub slices: Vec<Slice>,
}

/// Silences in the order they were judged, and what the last segment was to its stream.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The silences.
    pub gaps: Vec<TracedGap>,
    pub(super) kind: Option<Kind>,
}

/// Silences kept.
const GAPS_MAX: usize = 1 << 18;

impl Trace {
    pub(super) fn gap<'a>(&mut self, gap: &Gap, slices: impl Iterator<Item = &'a Slice>) {
        if self.gaps.len() < GAPS_MAX {
            let slices = slices.copied().collect();
            self.gaps.push(TracedGap {
                start_ns: gap.start_ns,
                next_frame: gap.next.frame,
                slices,
            });
        }
    }

    /// What the last segment with payload was to its stream.
    pub fn take_kind(&mut self) -> Option<Kind> {
        self.kind.take()
    }
}
