//! Congestion windows that a long silence closes again (RFC 5681 §4.1).

use super::*;
use crate::cause::{Cause, Class, Slices};
use crate::tcp::gap::Gap;

/// Segments that a connection begins with (RFC 6928).
pub const INITIAL_WINDOW_SEGMENTS: u64 = 10;

/// The least retransmission timeout beyond the round trip, ns: Linux's `TCP_RTO_MIN`. A sender
/// that was idle for that long starts over.
pub const IDLE_NS: u64 = 200_000_000;

/// The part of a window by which the buffer behind it is short of it where a message is written in pieces: by
/// so much or more in four of five transfers in the lab.
const BUFFER_SHORT: u64 = 16;

impl Sender {
    /// The congestion window that a connection or a restart begins with, bytes.
    pub fn initial_window(&self) -> u64 {
        INITIAL_WINDOW_SEGMENTS * self.smss()
    }

    /// The congestion window of a sender with nothing else in its way once it has sent `bytes`
    /// without a loss, bytes: by as much as is acknowledged it grows (RFC 5681 §3.1, RFC 3465
    /// §2.1).
    pub fn window_opened_by(&self, bytes: u64) -> u64 {
        self.initial_window() + bytes
    }

    /// How much of its next `message` such a sender lets go at once, bytes: what its window lets through, and its
    /// host's buffer holds. That one grows as well, but only while the writer waits for room in it: Linux makes
    /// it twice the congestion window then (`tcp_new_space`, `tcp_sndbuf_expand`), and wakes the writer where a
    /// third is free. So what is left to write finds it large enough for two thirds of all that was sent until
    /// then, up to all of it; for less where it is written in pieces, for each of them takes more room than its
    /// bytes. A sender that spaces what it sends has a window well beyond its flight.
    pub fn burst_opened_by(&self, bytes: u64, message: u64) -> u64 {
        let window = self.window_opened_by(bytes);
        let in_pieces = |bulk: &&Bulk| bulk.pieces.are_many_in(message) && !bulk.pacer.spaces();
        match self.bulk.as_deref().filter(in_pieces) {
            Some(_) => (window - window / BUFFER_SHORT).max(self.initial_window()),
            None => window,
        }
    }

    /// A fault that kept the sender silent with nothing under way, longer than its retransmission
    /// timeout, has closed its window as well.
    pub fn restart(&mut self, gap: &Gap, slices: &Slices) {
        let idle = gap.retransmission.is_none() && gap.ack.is_none_or(|ack| ack.acked_all);
        let rto_ns = IDLE_NS + gap.rtt_base_ns;
        let fault = slices.iter().find_map(|slice| {
            let fault = slice.cause.filter(|cause| cause.class() == Class::Fault)?;
            (slice.ns >= rto_ns).then_some(fault)
        });
        let Some(cause) = fault.filter(|_| idle) else { return };
        let window = self.window_opened_by(self.una().saturating_sub(ORIGIN));
        self.trouble_mut().restarted = Some((cause, window));
        if let Some(bulk) = &mut self.bulk {
            bulk.rounds.reset();
        }
    }

    /// Until the window is as open as it was, waiting for it to open is that fault's doing.
    pub fn blame_restart(&mut self, gap: &Gap, slices: &mut Slices) {
        let Some((cause, window)) = self.trouble().restarted else { return };
        if gap.after_loss || gap.flight_before + gap.smss > window {
            self.trouble_mut().restarted = None;
            return;
        }
        slices.rename(Cause::SlowStart, cause);
    }
}
