//! Options, flags and checksum of a SYN, by which one SYN may be told from another.

use crate::capture::FrameId;
use crate::wire::{Segment, SegmentFlags, TcpFlags};

/// The properties of a SYN that a device or host may treat differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct SynMarks {
    /// Timestamp value, if it has [`SynMarks::TIMESTAMPS`].
    pub tsval: u32,
    /// See [`Segment::checksum_error`]; 0 if it is not known.
    pub checksum_error: u16,
    /// Properties, one bit each.
    pub traits: u16,
    /// Time to live or hop limit as captured.
    pub ttl: u8,
}

impl SynMarks {
    /// It asks for ECN (RFC 3168 §6.1.1).
    pub const ECN: u16 = 1 << 0;
    /// It carries data.
    pub const DATA: u16 = 1 << 1;
    /// It also ends the connection.
    pub const FIN: u16 = 1 << 2;
    /// It has timestamps.
    pub const TIMESTAMPS: u16 = 1 << 3;
    /// It offers window scaling.
    pub const WINDOW_SCALE: u16 = 1 << 4;
    /// It offers SACK.
    pub const SACK: u16 = 1 << 5;
    /// See [`SegmentFlags::FAST_OPEN`].
    pub const FAST_OPEN: u16 = 1 << 6;
    /// See [`SegmentFlags::MULTIPATH`].
    pub const MULTIPATH: u16 = 1 << 7;
    /// See [`SegmentFlags::WRONG_TUNNEL_CHECKSUM`].
    pub const WRONG_TUNNEL_CHECKSUM: u16 = 1 << 8;
    /// See [`SegmentFlags::RECEIVED`].
    pub const RECEIVED: u16 = 1 << 9;
    /// The options were truncated.
    pub const OPTIONS_CUT: u16 = 1 << 10;
    /// Its checksum is wrong. (Of a first SYN, the difference is not kept.)
    pub const WRONG_CHECKSUM: u16 = 1 << 11;
    /// The answer to it arrived, as a later segment of the client shows.
    pub(super) const HEARD: u16 = 1 << 13;
    /// The server offers SACK.
    pub(super) const SERVER_SACK: u16 = 1 << 14;
    /// One side does not offer window scaling.
    pub(super) const UNSCALED: u16 = 1 << 15;

    /// Returns the properties of `syn`.
    pub fn of(syn: &Segment) -> Self {
        let facts = [
            (SegmentFlags::TIMESTAMPS, Self::TIMESTAMPS),
            (SegmentFlags::WINDOW_SCALE, Self::WINDOW_SCALE),
            (SegmentFlags::SACK_PERMITTED, Self::SACK),
            (SegmentFlags::FAST_OPEN, Self::FAST_OPEN),
            (SegmentFlags::MULTIPATH, Self::MULTIPATH),
            (SegmentFlags::WRONG_TUNNEL_CHECKSUM, Self::WRONG_TUNNEL_CHECKSUM),
            (SegmentFlags::RECEIVED, Self::RECEIVED),
            (SegmentFlags::TRUNCATED_HEADER, Self::OPTIONS_CUT),
        ];
        let flags = [
            (syn.flags.has(TcpFlags::ECE | TcpFlags::CWR), Self::ECN),
            (syn.payload_len > 0, Self::DATA),
            (syn.checksum_error != 0, Self::WRONG_CHECKSUM),
            (syn.flags.has(TcpFlags::FIN), Self::FIN),
        ];
        let facts = facts.into_iter().map(|(fact, it)| (syn.facts.has(fact), it));
        let traits = facts.chain(flags).filter(|(has, _)| *has).fold(0, |all, (_, it)| all | it);
        let Segment { tsval, checksum_error, ttl, .. } = *syn;
        Self { tsval, checksum_error, traits, ttl }
    }

    /// Returns whether it has all of these properties.
    pub fn has(&self, traits: u16) -> bool {
        self.traits & traits == traits
    }
}

/// A SYN of a handshake.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Syn {
    /// Capture time, ns.
    pub time_ns: u64,
    pub frame: FrameId,
    /// Its properties.
    pub marks: SynMarks,
}
