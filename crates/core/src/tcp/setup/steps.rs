//! The first frame of each step of a three-way handshake, stored compactly.

use crate::capture::FrameId;
use crate::model::Sighting;
use crate::wire::Side;

/// A step of the three-way handshake.
#[derive(Clone, Copy, Debug)]
pub(super) enum HandshakeStep {
    /// The first SYN.
    Syn,
    /// The first SYN-ACK.
    SynAck,
    /// The client's first ACK after the SYN-ACK.
    Ack,
}

/// Relation of the client's first segment after the SYN-ACK to the handshake's ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FirstSegment {
    /// It may be that ACK.
    #[default]
    Acknowledges,
    /// It is not: it came later than any host holds an ACK back, or after data of the server that the
    /// capture lacks.
    FollowsAck,
    /// It is not: the client had sent data before it that the capture lacks.
    FollowsData,
}

/// First frame of each step. Every open connection stores them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps {
    frames: [FrameId; 3],
    times_ns: [u64; 3],
    /// Their payload lengths, saturated at [`u16::MAX`].
    bytes: [u16; 3],
    /// See [`super::SynMarks`], of the first SYN, and what is known of the negotiation.
    pub traits: u16,
    /// Timestamp of the first SYN.
    pub syn_tsval: u32,
    /// Whether [`HandshakeStep::Ack`] is the ACK of the handshake.
    pub first: FirstSegment,
}

impl Steps {
    /// Returns the first frame of `step`, if it was seen.
    pub fn get(&self, step: HandshakeStep) -> Option<Sighting> {
        let index = step as usize;
        let sighting = Sighting {
            frame: self.frames[index],
            time_ns: self.times_ns[index],
            payload_bytes: self.bytes[index].into(),
            from: if matches!(step, HandshakeStep::SynAck) { Side::Server } else { Side::Client },
        };
        sighting.known()
    }

    /// Time of `step`, ns; 0 if it was not seen.
    pub fn time_ns(&self, step: HandshakeStep) -> u64 {
        self.times_ns[step as usize]
    }

    /// Returns whether `step` was seen.
    pub fn has(&self, step: HandshakeStep) -> bool {
        self.frames[step as usize] != FrameId::default()
    }

    /// Removes all steps but the SYN.
    pub fn forget_answer(&mut self) {
        for step in [HandshakeStep::SynAck, HandshakeStep::Ack] {
            let index = step as usize;
            self.frames[index] = FrameId::default();
            self.times_ns[index] = 0;
        }
    }

    /// Records `step`, unless it was seen before.
    pub fn note(&mut self, step: HandshakeStep, here: Sighting) {
        if !self.has(step) {
            let index = step as usize;
            self.frames[index] = here.frame;
            self.times_ns[index] = here.time_ns;
            self.bytes[index] = u16::try_from(here.payload_bytes).unwrap_or(u16::MAX);
        }
    }
}
