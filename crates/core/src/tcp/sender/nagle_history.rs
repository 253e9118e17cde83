//! Evidence that a sender held data back: by Nagle's algorithm, because of late ACKs, or by a full
//! send buffer.

use super::waits::Waits;
use crate::judge::thresholds::HABIT_MIN;
use crate::judge::{LateAcks, NagleEvidence};
use crate::model::{Cause, Owner};
use crate::tcp::exchange::Chain;

/// Time in finished exchanges for which a sender held data back, ns. It may still turn out to be
/// the application's time.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct Held {
    /// Time for which Nagle's algorithm held data.
    nagle_ns: u64,
    /// Time for which a full send buffer held data.
    buffer_ns: u64,
    /// Time for which data was held until a late ACK.
    late_ack_ns: u64,
}

impl Held {
    const NONE: Self = Self { nagle_ns: 0, buffer_ns: 0, late_ack_ns: 0 };

    /// Returns the time held for `owner`, if `owner` is one of these causes.
    pub fn of(&mut self, owner: Owner) -> Option<&mut u64> {
        match owner {
            Owner::NagleDelayedAck => Some(&mut self.nagle_ns),
            Owner::SendBuffer => Some(&mut self.buffer_ns),
            Owner::DelayedAck => Some(&mut self.late_ack_ns),
            _ => None,
        }
    }

    /// Time for which Nagle's algorithm held data, ns.
    pub fn nagle_ns(&self) -> u64 {
        self.nagle_ns
    }

    /// Adds the time of `chain` to its cause.
    pub fn add(&mut self, chain: &Chain) {
        match chain.cause {
            Cause::NagleDelayedAck => self.nagle_ns += chain.ns,
            Cause::SendBuffer => self.buffer_ns += chain.ns,
            Cause::DelayedAck => self.late_ack_ns += chain.ns,
            _ => {}
        }
    }
}

/// A sender's small segments, waits for ACKs and pauses.
#[derive(Clone, Copy, Debug)]
pub struct NagleHistory {
    /// Evidence for and against Nagle's algorithm.
    pub evidence: NagleEvidence,
    /// Number of requests that were sent, while no response was awaited, at once with the late ACK
    /// of the previous data, and number of those sent some time after it.
    idle_holds: [u32; 2],
    /// How the sender continued after late ACKs.
    pub late_acks: LateAcks,
    /// Apparent waits of the sender for late ACKs.
    pub waits: Waits,
    /// Number of times that the sender continued a message after a pause of its application,
    /// without an ACK.
    pub own_pauses: u32,
    /// Time for which data was held back.
    pub held: Held,
}

impl NagleHistory {
    pub const NONE: Self = Self {
        evidence: NagleEvidence::NONE,
        idle_holds: [0; 2],
        late_acks: LateAcks::NONE,
        waits: Waits::NONE,
        own_pauses: 0,
        held: Held::NONE,
    };

    /// Counts a request that was sent while no response was awaited. If `held`, it was sent at once
    /// with the late ACK of the previous data. Returns whether the request is known to have waited
    /// for that ACK: it may coincide with an ACK by chance.
    pub fn note_idle_request(&mut self, held: bool) -> bool {
        let [held_count, missed_count] = self.idle_holds;
        self.idle_holds[usize::from(!held)] += 1;
        held && held_count >= HABIT_MIN && held_count > missed_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_after_several_that_left_with_acks_has_waited() {
        let mut history = NagleHistory::NONE;
        let mut note = |held| history.note_idle_request(held);
        assert_eq!([note(true), note(true), note(true), note(true)], [false, false, false, true]);
        assert!(!note(false), "it left some time after the ACK");
    }
}
