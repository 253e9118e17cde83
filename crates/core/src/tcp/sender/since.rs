//! What happened to a sender since it last sent data.

use super::*;

/// What ACKs did to the sender since its last departure.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinceDeparture {
    /// When the first ACK that moved `una` or the window's right edge took effect, ns.
    pub first_ack_ns: Option<u64>,
    /// The last ACK that moved `una` or the window's right edge.
    pub trigger: Option<AckTrigger>,
    /// How many did.
    pub acks: u32,
    /// Flight just before the first of them.
    pub flight_first: u64,
    /// Flight just before the last of them.
    pub flight_before: u64,
    /// Room in the offered window just before the last of them.
    pub room_before: Option<i64>,
    /// Window offered just before the last of them.
    pub window_before: Option<u64>,
    /// How long the receiver kept the window (almost) closed.
    pub closed_ns: u64,
    /// Window probes sent.
    pub probes: u32,
    /// Of them answered, without the window having opened.
    pub probes_answered: u32,
    /// The first of them.
    pub probe: Option<Sighting>,
    /// Packets of this sender missing by the IP identification counter.
    pub missing_packets: u32,
    /// The identification of the first of them.
    pub missing_from: u16,
    /// The capture has a hole here.
    pub holed: bool,
    /// When its timer last repeated what had been acknowledged, ns; 0 if it did not.
    pub repeated_ns: u64,
    /// An ACK that passed here was lost on its way to it.
    pub ack_lost: bool,
    /// The last timestamp of its peer that has passed here.
    pub peer_tsval: u32,
    /// It probed for a lost tail and had nothing new to do that with.
    pub probed_tail: bool,
}

impl SinceDeparture {
    /// The capture itself has a hole: packets that are missing there tell nothing of the path.
    pub fn excuse_missing(&mut self) {
        self.missing_packets = 0;
        self.holed = true;
    }

    /// The sender probed a closed window.
    pub fn probed(&mut self, from: Side, segment: &Segment) {
        self.probes += 1;
        self.probe.get_or_insert(Sighting::of(from, segment));
    }
}
