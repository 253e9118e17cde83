//! Congestion windows that a long silence resets (RFC 5681 §4.1).

use crate::judge::Gap;
use crate::judge::thresholds::{INITIAL_WINDOW_SEGMENTS, LINUX_RTO_MIN_NS};
use crate::model::{Cause, Class, Slices};
use crate::tcp::sender::Sender;
use crate::tcp::sender::bulk::Bulk;
use crate::tcp::sequence::ORIGIN;
use crate::tcp::thresholds::BUFFER_SHORT_PART;

/// A fault that kept a sender silent for so long that its congestion window was reset.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// The fault.
    cause: Cause,
    /// Congestion window before the fault, bytes.
    window: u64,
}

impl Sender {
    /// Congestion window at the start of a connection or after a restart, bytes.
    pub fn initial_window(&self) -> u64 {
        INITIAL_WINDOW_SEGMENTS * self.smss()
    }

    /// Congestion window of a sender with no other limit after it has sent `bytes` without a loss,
    /// bytes. It grows by as much as is acknowledged (RFC 5681 §3.1, RFC 3465 §2.1).
    pub fn window_opened_by(&self, bytes: u64) -> u64 {
        self.initial_window() + bytes
    }

    /// Number of bytes of its next `message` that such a sender sends at once, as the window and
    /// the send buffer limit them. The buffer grows too, but only while the writer waits for room:
    /// Linux then sets it to twice the congestion window (`tcp_new_space`, `tcp_sndbuf_expand`) and
    /// wakes the writer when a third is free. So the rest of the message finds the buffer large
    /// enough for between two thirds and all of the bytes sent until then; for less if the message
    /// is written in pieces, each of which takes more room than its bytes. The window of a pacing
    /// sender is well above its flight.
    pub fn burst_opened_by(&self, bytes: u64, message: u64) -> u64 {
        let window = self.window_opened_by(bytes);
        let in_pieces = |bulk: &&Bulk| bulk.pieces.are_many_in(message) && !bulk.pacer.is_pacing();
        match self.bulk.as_deref().filter(in_pieces) {
            Some(_) => (window - window / BUFFER_SHORT_PART).max(self.initial_window()),
            None => window,
        }
    }

    /// Records a fault that kept the sender silent for longer than its RTO with nothing in flight,
    /// and so reset its congestion window.
    pub fn restart(&mut self, gap: &Gap, slices: &Slices) {
        let idle = !gap.repair.is_retransmission() && gap.acks.last.is_none_or(|ack| ack.acked_all);
        let rto_ns = LINUX_RTO_MIN_NS + gap.rtt.base_ns;
        let fault = slices.iter().find_map(|slice| {
            let fault = slice.cause.filter(|cause| cause.class() == Class::Fault)?;
            (slice.ns >= rto_ns).then_some(fault)
        });
        let Some(cause) = fault.filter(|_| idle) else { return };
        let window = self.window_opened_by(self.space.una().saturating_sub(ORIGIN));
        self.history_mut().restarted = Some(Restart { cause, window });
        if let Some(bulk) = &mut self.bulk {
            bulk.rounds.reset();
        }
    }

    /// Attributes waits for the congestion window to that fault until the window is as large as
    /// before.
    pub fn attribute_to_restart(&mut self, gap: &Gap, slices: &mut Slices) {
        let Some(Restart { cause, window }) = self.history().restarted else { return };
        if gap.losses.occurred || gap.flight.before + gap.smss > window {
            self.history_mut().restarted = None;
            return;
        }
        slices.rename(Cause::SlowStart, cause);
    }
}
