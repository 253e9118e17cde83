//! Two places at which the same packets were captured.

/// One of two places, as an index: the first is nearer the clients.
pub type Place = usize;

/// The difference between the clocks of two places.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clocks {
    /// Time by which the second clock is ahead of the first, ns; that at the beginning, if the
    /// clocks drift. It is exact if the fastest packets took equally long both ways; the error is
    /// never more than half of `rtt_min_ns`.
    pub offset_ns: i64,
    /// Excess of the second clock's rate over the first's, parts per million; `None` if it cannot
    /// be determined.
    pub drift_ppm: Option<f64>,
    /// Minimum round trip between the two places, ns.
    pub rtt_min_ns: u64,
}

/// Packets of one direction between two places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Crossing {
    /// Packets seen at both places, as counted at the sender's place.
    pub packets: u64,
    /// Packets with data, SYN, FIN or RST, seen at the sender's place and not at the receiver's.
    pub lost_packets: u64,
    /// Payload bytes of the lost packets.
    pub lost_bytes: u64,
    /// Pure ACKs seen at the sender's place and not at the receiver's.
    pub lost_acks: u64,
    /// Packets seen at the receiver's place and not at the sender's: they are missing in the
    /// capture there, or a host between the two sent them.
    pub appeared_packets: u64,
    /// Packets seen at one place before the capture of the other began or after it ended.
    #[serde(skip)]
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
