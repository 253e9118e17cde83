//! State of a sender since its last data segment.

use crate::app::Side;
use crate::judge::{Acks, MissingPackets, WindowProbes};
use crate::model::Sighting;
use crate::wire::Segment;

/// Effects of ACKs, and other events, since the sender's last departure.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinceDeparture {
    /// The ACKs that advanced SND.UNA or the right edge of the window.
    pub acks: Acks,
    /// Flight just before the first ACK, bytes.
    pub flight_first: u64,
    /// Flight just before the last ACK, bytes.
    pub flight_before: u64,
    /// Room in the offered window just before the last ACK, bytes; `None` if unknown.
    pub room_before: Option<i64>,
    /// Window offered just before the last ACK, bytes; `None` if unknown.
    pub window_before: Option<u64>,
    /// Time for which the receiver kept the window (almost) closed, ns.
    pub closed_ns: u64,
    /// Window probes that the sender sent.
    pub probes: WindowProbes,
    /// Packets of the sender that did not pass the vantage.
    pub missing: MissingPackets,
    /// Data in between is missing in the capture.
    pub misses_data: bool,
    /// ACKs cover data of the sender that is missing in the capture.
    pub has_sent_unseen: bool,
    /// Time at which the timer last repeated acknowledged data, ns; 0 if it did not.
    pub repeated_ns: u64,
    /// Timestamp value of the peer's last packet at the vantage.
    pub peer_tsval: u32,
    /// The sender sent a tail loss probe with old data, because it had no new data.
    pub probed_tail: bool,
}

impl SinceDeparture {
    /// Discards missing packets: data is missing in the capture itself, so that they show nothing
    /// about the path.
    pub fn excuse_missing(&mut self) {
        self.missing.count = 0;
        self.misses_data = true;
    }

    /// Records a probe of a closed window.
    pub fn probed(&mut self, from: Side, segment: &Segment) {
        self.probes.sent += 1;
        self.probes.first.get_or_insert(Sighting::of(from, segment));
    }
}
