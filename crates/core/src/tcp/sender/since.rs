//! State of a sender since its last data segment.

use crate::app::Side;
use crate::judge::AckTrigger;
use crate::model::Sighting;
use crate::wire::Segment;

/// Effects of ACKs, and other events, since the sender's last departure.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinceDeparture {
    /// Time at which the first ACK that moved SND.UNA or the window's right edge took effect, ns.
    pub first_ack_ns: Option<u64>,
    /// The last ACK that moved SND.UNA or the window's right edge.
    pub trigger: Option<AckTrigger>,
    /// Number of such ACKs.
    pub acks: u32,
    /// Flight just before the first of them, bytes.
    pub flight_first: u64,
    /// Flight just before the last of them, bytes.
    pub flight_before: u64,
    /// Room in the offered window just before the last of them, bytes; `None` if unknown.
    pub room_before: Option<i64>,
    /// Window offered just before the last of them, bytes; `None` if unknown.
    pub window_before: Option<u64>,
    /// Time for which the receiver kept the window (almost) closed, ns.
    pub closed_ns: u64,
    /// Number of window probes sent.
    pub probes: u32,
    /// Number of these answered without opening the window.
    pub probes_answered: u32,
    /// The first window probe.
    pub probe: Option<Sighting>,
    /// Packets of this sender missing by their IP identification.
    pub missing_packets: u32,
    /// Identification of the first of these.
    pub missing_from: u16,
    /// The capture has a hole here.
    pub holed: bool,
    /// Time at which the timer last repeated acknowledged data, ns; 0 if it did not.
    pub repeated_ns: u64,
    /// An ACK that passed the vantage was lost on its way to the sender.
    pub ack_lost: bool,
    /// Timestamp of the peer's last packet at the vantage.
    pub peer_tsval: u32,
    /// The sender sent a tail loss probe with old data, for want of new.
    pub probed_tail: bool,
}

impl SinceDeparture {
    /// Discards missing packets: the capture itself has a hole, so that they show nothing about
    /// the path.
    pub fn excuse_missing(&mut self) {
        self.missing_packets = 0;
        self.holed = true;
    }

    /// Records a probe of a closed window.
    pub fn probed(&mut self, from: Side, segment: &Segment) {
        self.probes += 1;
        self.probe.get_or_insert(Sighting::of(from, segment));
    }
}
