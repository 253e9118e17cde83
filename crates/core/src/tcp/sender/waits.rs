//! Waits for late ACKs that the same sender shows later to have been none.

use super::*;
use crate::tcp::gap::{Gap, Turn};

/// What a sender that seemed to wait for late ACKs did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    /// The least that would have been under way, had it not waited, bytes; 0 while it never did.
    least_bytes: u64,
    /// How often it seemed to wait.
    met: u32,
    /// How often it went on later, after a pause, with that much under way and no ACK.
    free: u32,
}

impl Waits {
    pub(super) const NONE: Self = Self { least_bytes: 0, met: 0, free: 0 };

    /// `gap` ended with an ACK that its sender seemed to wait for. What an offered window or a loss before
    /// explains is certain.
    fn wait(&mut self, gap: &Gap) {
        if gap.after_loss || gap.steps || gap.window_limited() {
            return;
        }
        let height = gap.height();
        self.least_bytes = if self.met == 0 { height } else { self.least_bytes.min(height) };
        self.met += 1;
    }

    /// Its sender went on in `gap` without an ACK. What follows at once was written with what was there
    /// before, and tells nothing.
    fn go_on(&mut self, gap: &Gap) {
        let free = gap.turn == Turn::Continues
            && gap.retransmission.is_none()
            && gap.flight_before > 0
            && gap.len_ns() >= PAUSE_NS
            && gap.height() >= self.least_bytes;
        self.free += u32::from(free);
    }

    /// Whether what looked like waits was chance: as often its sender went on without the ACK.
    pub fn are_chance(&self) -> bool {
        self.met > 0 && self.free >= self.met
    }
}

impl Sender {
    /// Takes in a silence of its sender that is explained: `waited` for a late ACK.
    pub fn follow_waits(&mut self, gap: &Gap, waited: bool) {
        if waited {
            self.trouble_mut().waits.wait(gap);
        } else if gap.ack.is_none()
            && let Some(trouble) = &mut self.trouble
            && trouble.waits.met > 0
        {
            trouble.waits.go_on(gap);
        }
    }
}
