//! ACKs on their way to the sender: seen at the vantage, not yet known where they matter.

use crate::capture::FrameId;
use std::collections::VecDeque;

/// One ACK as it passed the vantage.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it passed the vantage, ns.
    pub seen_ns: u64,
    /// The frame.
    pub frame: FrameId,
    /// The position it acknowledges (SND.UNA to be).
    pub una: u64,
    /// Right edge of the window it offers (`una` plus scaled window); `None` if unscaled.
    pub right_edge: Option<u64>,
    /// Carried no data.
    pub pure: bool,
    /// Carried SACK blocks above `una`, or was a duplicate ACK.
    pub duplicate: bool,
}

/// Most ACKs kept; beyond it the two oldest are merged, which loses timing, not state.
const PENDING_MAX: usize = 512;

/// ACKs in the order they passed the vantage, waiting for their arrival at the sender.
#[derive(Debug, Default)]
pub struct PendingAcks(VecDeque<Ack>);

impl PendingAcks {
    /// An ACK passed the vantage.
    pub fn push(&mut self, ack: Ack) {
        if self.0.len() >= PENDING_MAX {
            self.0.pop_front();
        }
        self.0.push_back(ack);
    }

    /// The oldest ACK if it passed the vantage at or before `seen_ns`.
    #[inline]
    pub fn pop_until(&mut self, seen_ns: u64) -> Option<Ack> {
        if self.0.front()?.seen_ns > seen_ns {
            return None;
        }
        self.0.pop_front()
    }

    /// Whether an ACK of `position` is on its way to the sender: it passed the vantage by
    /// `seen_ns`, and only the estimate of the round trip says that it has not arrived.
    pub fn covers(&self, position: u64, seen_ns: u64) -> bool {
        self.0.iter().any(|ack| ack.una >= position && ack.seen_ns <= seen_ns)
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Ack>()
    }
}
