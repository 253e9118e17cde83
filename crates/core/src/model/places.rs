//! Two places at which the same packets were captured.

/// One of two places, as an index: the first is nearer the clients.
pub type Place = usize;

/// How the clocks of two places differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clocks {
    /// By how much the second is ahead of the first, ns; where they drift, at the beginning. Right
    /// where the fastest packets took the same both ways, and never wrong by more than half of
    /// `rtt_min_ns`.
    pub offset_ns: i64,
    /// How much faster the second runs, parts per million, where that shows.
    pub drift_ppm: Option<f64>,
    /// The least round trip between the two places, ns.
    pub rtt_min_ns: u64,
}

/// Packets of one direction between two places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossing {
    /// Seen on both sides, as the sender's place counts them.
    pub packets: u64,
    /// With data, or of the set-up: seen where they were sent from, and not where they went.
    pub lost_packets: u64,
    /// The bytes of these.
    pub lost_bytes: u64,
    /// Pure ACKs that went the same way.
    pub lost_acks: u64,
    /// Seen where they went, and not where they came from: the capture there has holes, or somebody
    /// between the two sent them.
    pub appeared_packets: u64,
    /// Seen at one place while the other's capture had not begun, or had ended.
    pub uncovered_packets: u64,
}

impl Crossing {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.lost_packets += other.lost_packets;
        self.lost_bytes += other.lost_bytes;
        self.lost_acks += other.lost_acks;
        self.appeared_packets += other.appeared_packets;
        self.uncovered_packets += other.uncovered_packets;
    }
}
