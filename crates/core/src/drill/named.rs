//! Frames that a drawing shows, whatever else it leaves out: the evidence of findings.

use crate::capture::{Block, FrameId};
use crate::report::Named;

/// Named frames with their capture times, ns.
#[derive(Default)]
pub(crate) struct NamedFrames(Vec<(Named, Option<u64>)>);

impl NamedFrames {
    pub fn of(named: Vec<Named>) -> Self {
        Self(named.into_iter().map(|it| (it, None)).collect())
    }

    /// Notes the times of the frames that are in `block`.
    pub fn take(&mut self, block: &Block) {
        if self.is_complete() {
            return;
        }
        for frame in block.frames() {
            let of_frame = self.0.iter_mut().filter(|(named, _)| named.frame == frame.id);
            of_frame.for_each(|(_, time_ns)| *time_ns = Some(frame.time_ns));
        }
    }

    /// Returns whether all times are known.
    pub fn is_complete(&self) -> bool {
        self.0.iter().all(|(_, time_ns)| time_ns.is_some())
    }

    pub fn has(&self, frame: FrameId) -> bool {
        self.frames().any(|it| it == frame)
    }

    pub fn frames(&self) -> impl Iterator<Item = FrameId> {
        self.0.iter().map(|(named, _)| named.frame)
    }

    /// Returns the frames that were seen, with their times.
    pub fn timed(&self) -> impl Iterator<Item = (&Named, u64)> {
        self.0.iter().filter_map(|(named, time_ns)| Some((named, (*time_ns)?)))
    }
}
