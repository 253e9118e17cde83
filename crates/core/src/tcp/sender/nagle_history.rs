//! What a sender has shown of holding data back that it has: Nagle's algorithm, late ACKs, a full
//! send buffer.

use super::waits::Waits;
use crate::judge::thresholds::HABIT_MIN;
use crate::judge::{LateAcks, NagleEvidence};
use crate::model::{Cause, Owner};
use crate::tcp::exchange::Chain;

/// Time in finished exchanges for which a sender held data back, ns; it may yet turn out to be the
/// application's.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Held by Nagle's algorithm.
    nagle_ns: u64,
    /// Held by a full send buffer.
    buffer_ns: u64,
    /// Held until a late ACK.
    late_ack_ns: u64,
}

impl Held {
    const NONE: Self = Self { nagle_ns: 0, buffer_ns: 0, late_ack_ns: 0 };

    /// Time held for `owner`, if that is one of these causes.
    pub fn of(&mut self, owner: Owner) -> Option<&mut u64> {
        match owner {
            Owner::NagleDelayedAck => Some(&mut self.nagle_ns),
            Owner::SendBuffer => Some(&mut self.buffer_ns),
            Owner::DelayedAck => Some(&mut self.late_ack_ns),
            _ => None,
        }
    }

    /// Adds the time of `chain`.
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
    /// Number of requests sent, while no response was awaited, at once with the late ACK of the
    /// previous data, and number of those sent some time after it.
    idle_holds: [u32; 2],
    /// How it went on after late ACKs.
    pub late_acks: LateAcks,
    /// Apparent waits for late ACKs.
    pub waits: Waits,
    /// Number of times it continued a message after a pause of its application, without an ACK.
    pub own_pauses: u32,
    /// Time held back.
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

    /// Counts a request that was sent while no response was awaited; `held`: at once with the late
    /// ACK of the previous data. Returns whether it is known to have waited for that: a request may
    /// coincide with an ACK by chance.
    pub fn note_idle_request(&mut self, held: bool) -> bool {
        let [met, missed] = self.idle_holds;
        self.idle_holds[usize::from(!held)] += 1;
        held && met >= HABIT_MIN && met > missed
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
