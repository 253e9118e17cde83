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

impl Restart {
    /// Returns the restart after `gap`, if its `slices` show a fault that kept the sender silent for
    /// longer than its RTO with nothing in flight. Its congestion window was `window` bytes.
    fn after(gap: &Gap, slices: &Slices, window: u64) -> Option<Self> {
        let idle = !gap.repair.is_retransmission() && gap.acks.last.is_none_or(|ack| ack.acked_all);
        let rto_ns = LINUX_RTO_MIN_NS + gap.rtt.base_ns;
        let fault = slices.iter().find_map(|slice| {
            let fault = slice.cause.filter(|cause| cause.class() == Class::Fault)?;
            (slice.ns >= rto_ns).then_some(fault)
        });
        fault.filter(|_| idle).map(|cause| Self { cause, window })
    }

    /// Attributes waits for the congestion window in `gap` to the fault. Returns `false` if the
    /// window is as large as before the fault, or there was a loss, which limits it.
    pub(super) fn attribute(&self, gap: &Gap, slices: &mut Slices) -> bool {
        if gap.losses.occurred || gap.flight.before + gap.smss > self.window {
            return false;
        }
        slices.rename(Cause::SlowStart, self.cause);
        true
    }
}

/// Congestion window at the start of a connection or after a restart, bytes.
fn initial_window(smss: u64) -> u64 {
    INITIAL_WINDOW_SEGMENTS * smss
}

/// Congestion window of a sender with no other limit after it has sent `bytes` without a loss,
/// bytes. It grows by as much as is acknowledged (RFC 5681 §3.1, RFC 3465 §2.1).
pub fn window_opened_by(smss: u64, bytes: u64) -> u64 {
    initial_window(smss) + bytes
}

/// Number of bytes of its next `message` that such a sender sends at once, as the window and the
/// send buffer limit them; `bulk` is its state if it has sent much. The buffer grows too, but only
/// while the writer waits for room: Linux then sets it to twice the congestion window
/// (`tcp_new_space`, `tcp_sndbuf_expand`) and wakes the writer when a third is free. So the rest of
/// the message finds the buffer large enough for between two thirds and all of the bytes sent until
/// then; for less if the message is written in pieces, each of which takes more room than its
/// bytes. The window of a pacing sender is well above its flight.
pub fn burst_opened_by(smss: u64, bytes: u64, message: u64, bulk: Option<&Bulk>) -> u64 {
    let window = window_opened_by(smss, bytes);
    let in_pieces = |bulk: &&Bulk| bulk.pieces.are_many_in(message) && !bulk.pacer.is_pacing();
    match bulk.filter(in_pieces) {
        Some(_) => (window - window / BUFFER_SHORT_PART).max(initial_window(smss)),
        None => window,
    }
}

impl Sender {
    /// Records a fault in `gap` that kept the sender silent for longer than its RTO with nothing in
    /// flight, and so reset its congestion window.
    pub fn restart(&mut self, gap: &Gap, slices: &Slices) {
        let sent = self.space.una().saturating_sub(ORIGIN);
        let window = window_opened_by(self.sizes.smss(), sent);
        let Some(restart) = Restart::after(gap, slices, window) else { return };
        self.history_mut().restarted = Some(restart);
        if let Some(bulk) = &mut self.bulk {
            bulk.rounds.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CauseSet;
    use crate::model::{Owner, Slice};

    fn slices(owner: Owner, cause: Cause, ns: u64) -> Slices {
        let mut slices = Slices::new(ns);
        slices.take(Slice::of(owner, cause, ns));
        slices
    }

    #[test]
    fn a_fault_longer_than_the_rto_resets_the_window_of_an_idle_sender() {
        let gap = Gap::default();
        let after = |ns| {
            let fault = slices(Owner::ZeroWindow, Cause::ZeroWindow, ns);
            Restart::after(&gap, &fault, 20_000).is_some()
        };
        assert!(after(LINUX_RTO_MIN_NS) && !after(LINUX_RTO_MIN_NS - 1));
        let own = slices(Owner::Server, Cause::ServerThink, LINUX_RTO_MIN_NS);
        assert!(Restart::after(&gap, &own, 20_000).is_none(), "no fault");
    }

    #[test]
    fn the_fault_owns_the_opening_of_the_window_until_it_is_as_large_as_before() {
        let restart = Restart { cause: Cause::ZeroWindow, window: 20_000 };
        let mut gap = Gap { smss: 1_000, ..Gap::default() };
        let mut waits = slices(Owner::CongestionWindow, Cause::SlowStart, 7);
        gap.flight.before = 19_000;
        assert!(restart.attribute(&gap, &mut waits));
        assert_eq!(waits.causes(), CauseSet::of(&[Cause::ZeroWindow]));
        gap.flight.before = 19_001;
        assert!(!restart.attribute(&gap, &mut waits));
    }

    #[test]
    fn a_message_in_pieces_finds_less_room_than_its_window() {
        let mut bulk = Bulk::default();
        let burst = |bulk: &Bulk| burst_opened_by(1_000, 50_000, 9_000, Some(bulk));
        assert_eq!(burst(&bulk), window_opened_by(1_000, 50_000));
        bulk.pieces.end(3_000);
        assert!(burst(&bulk) < window_opened_by(1_000, 50_000));
    }
}
