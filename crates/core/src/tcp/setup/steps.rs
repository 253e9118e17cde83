//! The first frame of each step of a three-way handshake, stored compactly.

use crate::app::Side;
use crate::capture::FrameId;
use crate::model::Sighting;

/// A step of the three-way handshake.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The first SYN.
    Syn,
    /// The first SYN-ACK.
    SynAck,
    /// The client's first ACK after it.
    Ack,
}

/// First sighting of each step; every open connection has these.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps {
    frames: [FrameId; 3],
    times_ns: [u64; 3],
    /// Saturates at [`u16::MAX`].
    payload_bytes: [u16; 3],
    /// By side: its SYN offered SACK.
    pub offers_sack: [bool; 2],
}

impl Steps {
    /// The first sighting of `step`, if it was seen.
    pub fn get(&self, step: Step) -> Option<Sighting> {
        let place = step as usize;
        let sighting = Sighting {
            frame: self.frames[place],
            time_ns: self.times_ns[place],
            payload_bytes: self.payload_bytes[place].into(),
            from: if matches!(step, Step::SynAck) { Side::Server } else { Side::Client },
        };
        sighting.known()
    }

    /// Time of `step`, ns; 0 if it was not seen.
    pub fn time_ns(&self, step: Step) -> u64 {
        self.times_ns[step as usize]
    }

    /// Returns whether `step` was seen.
    pub fn has(&self, step: Step) -> bool {
        self.frames[step as usize] != FrameId::default()
    }

    /// Forgets all steps but the SYN.
    pub fn forget_answer(&mut self) {
        for step in [Step::SynAck, Step::Ack] {
            let place = step as usize;
            self.frames[place] = FrameId::default();
            (self.times_ns[place], self.payload_bytes[place]) = (0, 0);
        }
    }

    /// Records `step`, unless it was seen before.
    pub fn note(&mut self, step: Step, here: Sighting) {
        if !self.has(step) {
            let place = step as usize;
            self.frames[place] = here.frame;
            self.times_ns[place] = here.time_ns;
            self.payload_bytes[place] = u16::try_from(here.payload_bytes).unwrap_or(u16::MAX);
        }
    }
}
