//! Apparent waits for late ACKs that the sender's later behaviour may refute.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{Gap, Turn};
use crate::tcp::sender::Sender;

/// Behaviour of a sender that seemed to wait for late ACKs.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Least flight that it would have had without waiting, bytes; 0 if it never waited.
    least_bytes: u64,
    /// Number of apparent waits.
    met: u32,
    /// Number of times it went on after a pause, with that much in flight and without an ACK.
    free: u32,
}

impl Waits {
    pub(super) const NONE: Self = Self { least_bytes: 0, met: 0, free: 0 };

    /// Counts `gap` as an apparent wait. Waits that an offered window or an earlier loss explains
    /// are certain, and are not counted.
    fn wait(&mut self, gap: &Gap) {
        if gap.losses.occurred || gap.flight.steps || gap.window.limits(gap.next_segment()) {
            return;
        }
        let height = gap.height();
        self.least_bytes = if self.met == 0 { height } else { self.least_bytes.min(height) };
        self.met += 1;
    }

    /// Counts `gap`, which ended without an ACK. Data that follows at once was written together
    /// with earlier data, and is no evidence.
    fn go_on(&mut self, gap: &Gap) {
        let free = gap.turn == Turn::Continues
            && !gap.repair.is_retransmission()
            && gap.flight.before > 0
            && gap.len_ns() >= HOST_DELAY_MAX_NS
            && gap.height() >= self.least_bytes;
        self.free += u32::from(free);
    }

    /// Returns whether the apparent waits are chance: the sender went on without the ACK as often.
    pub fn are_chance(&self) -> bool {
        self.met > 0 && self.free >= self.met
    }
}

impl Sender {
    /// Processes an explained gap; `waited`: for a late ACK.
    pub fn follow_waits(&mut self, gap: &Gap, waited: bool) {
        if waited {
            self.history_mut().nagle.waits.wait(gap);
        } else if gap.acks.last.is_none()
            && let Some(history) = &mut self.history
            && history.nagle.waits.met > 0
        {
            history.nagle.waits.go_on(gap);
        }
    }
}
