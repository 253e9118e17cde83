//! The fixed-width record of one TCP segment, which `wire` passes to `tcp`.

use crate::capture::FrameId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// One end of a flow. IPv4 addresses are stored IPv4-mapped (RFC 4291 §2.5.5.2).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Deserialize, serde::Serialize,
)]
#[repr(C)]
pub struct Endpoint {
    /// The address, network byte order, IPv4-mapped for IPv4.
    pub address: [u8; 16],
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// Returns the address as users write it.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }

    /// Returns whether the address is one of the public internet, and not one of a private network
    /// (RFC 1918, RFC 6598, RFC 4193), of the link, of the host, or of a group.
    pub fn is_public(&self) -> bool {
        match self.ip() {
            IpAddr::V4(ip) => {
                let is_carriers = matches!(ip.octets(), [100, 64..128, ..]);
                let is_near = ip.is_private() || ip.is_link_local() || ip.is_loopback();
                let is_one = !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast();
                is_one && !is_near && !is_carriers
            }
            IpAddr::V6(ip) => {
                let is_near = ip.is_unique_local() || ip.is_unicast_link_local();
                !is_near && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
            }
        }
    }

    /// Returns whether a datagram to this address goes to a group or to all hosts of the link.
    pub fn is_group(&self) -> bool {
        match self.ip() {
            IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_multicast(),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self { address: ip.octets(), port: address.port() }
    }
}

impl Hash for Endpoint {
    /// Hashes two numbers: bytes would be hashed one by one.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(u128::from_ne_bytes(self.address));
        state.write_u16(self.port);
    }
}

impl fmt::Display for Endpoint {
    /// Formats as `10.0.0.1:80` or `[2001:db8::1]:80`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::SocketAddr::new(self.ip(), self.port).fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A connection's four-tuple in canonical order: `low < high`, whichever end sent the packet. VLAN
/// and tunnel identifiers are not part of it: a packet captured inside and outside of a tunnel is
/// the same packet twice, which the tracker recognises.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Deserialize,
    serde::Serialize,
)]
#[repr(C)]
pub struct FlowKey {
    /// The lesser endpoint.
    pub low: Endpoint,
    /// The greater endpoint.
    pub high: Endpoint,
}

/// The TCP header's control bits (RFC 9293 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[repr(transparent)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// Urgent.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;

    /// Returns whether all bits of `mask` are set.
    pub fn has(self, mask: u8) -> bool {
        self.0 & mask == mask
    }
}

/// Facts about a [`Segment`] besides its header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[repr(transparent)]
pub struct SegmentFlags(pub u32);

impl SegmentFlags {
    /// Sent by `flow.high` (else by `flow.low`).
    pub const FROM_HIGH: u32 = 1 << 0;
    /// `tsval` and `tsecr` are set (RFC 7323 §3).
    pub const TIMESTAMPS: u32 = 1 << 1;
    /// `mss` is set.
    pub const MSS: u32 = 1 << 2;
    /// `window_scale` is set.
    pub const WINDOW_SCALE: u32 = 1 << 3;
    /// SACK-permitted was offered (RFC 2018 §2).
    pub const SACK_PERMITTED: u32 = 1 << 4;
    /// Carried by IPv4 (`ip_id` is set).
    pub const IPV4: u32 = 1 << 5;
    /// The capture cut the TCP header: options may be missing.
    pub const TRUNCATED_HEADER: u32 = 1 << 6;
    /// Found inside a tunnel.
    pub const TUNNELLED: u32 = 1 << 7;
    /// Reassembled from IP fragments.
    pub const REASSEMBLED: u32 = 1 << 8;
    /// Congestion experienced was marked on the path (RFC 3168 §5).
    pub const ECN_CE: u32 = 1 << 9;
    /// The IP total length was zero (TSO at capture); the length comes from the frame.
    pub const LENGTH_FROM_FRAME: u32 = 1 << 10;
    /// [`FrameEntry::clock_set`](crate::capture::FrameEntry::clock_set) of its frame.
    pub const CLOCK_SET: u32 = 1 << 11;
    /// A SYN that asks for or carries a Fast Open cookie (RFC 7413 §4.1.1).
    pub const FAST_OPEN: u32 = 1 << 12;
    /// A SYN that offers Multipath TCP (RFC 8684 §3.1).
    pub const MULTIPATH: u32 = 1 << 13;
    /// The UDP checksum of the tunnel around it is wrong.
    pub const WRONG_TUNNEL_CHECKSUM: u32 = 1 << 14;
    /// A host received it on the interface of a cooked capture (`-i any`), and did not send it.
    pub const RECEIVED: u32 = 1 << 15;
    /// Its Ethernet frame is shorter than an interface sends it (IEEE 802.3 §3.2.8): it has passed
    /// none since its sender made it, or a device that padding does not pass.
    pub const UNPADDED: u32 = 1 << 16;
    /// Its Ethernet frame was padded to the least length.
    pub const PADDED: u32 = 1 << 17;
    /// The host of a cooked capture sent it: its own, or what it forwards.
    pub const SENT: u32 = 1 << 18;

    /// Returns whether all bits of `mask` are set.
    pub fn has(self, mask: u32) -> bool {
        self.0 & mask == mask
    }
}

/// One SACK block: `left..right` in sequence space (RFC 2018 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[repr(C)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub left: u32,
    /// The sequence number following the last of the block.
    pub right: u32,
}

impl SackBlock {
    /// A block without data.
    pub const NONE: Self = Self { left: 0, right: 0 };
}

/// One TCP segment: a fixed-width record without pointers.
///
/// `payload_offset` and `captured_len` are the position of its payload in the accompanying buffer
/// (a [`Block`](crate::capture::Block) inside one process, a binary column elsewhere).
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
#[repr(C)]
pub struct Segment {
    /// Capture time, nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// The frame that carried it.
    pub frame: FrameId,
    /// Hash of `flow`, the same for both directions; seeded per run.
    pub flow_hash: u64,
    /// The connection.
    pub flow: FlowKey,
    /// Facts besides the header fields.
    pub facts: SegmentFlags,
    /// Sequence number of the first payload byte (of the SYN, if set).
    pub seq: u32,
    /// Acknowledgment number; meaningful with ACK.
    pub ack: u32,
    /// Payload length on the wire, bytes (a super-packet's whole length).
    pub payload_len: u32,
    /// Start of the captured payload in the accompanying buffer.
    pub payload_offset: u32,
    /// Captured payload, bytes; less than `payload_len` if the snap length cut it.
    pub captured_len: u32,
    /// Timestamp value (RFC 7323 §3.2).
    pub tsval: u32,
    /// Timestamp echo reply.
    pub tsecr: u32,
    /// The first `sack_count` SACK blocks of the segment; a D-SACK comes first (RFC 2883).
    pub sack: [SackBlock; 3],
    /// MSS option, bytes.
    pub mss: u16,
    /// Window scale option's shift count (RFC 7323 §2).
    pub window_scale: u8,
    /// Number of valid blocks in `sack`.
    pub sack_count: u8,
    /// The window field, unscaled.
    pub window: u16,
    /// IPv4 identification.
    pub ip_id: u16,
    /// Control bits.
    pub flags: TcpFlags,
    /// Time to live or hop limit as captured.
    pub ttl: u8,
    /// Difference between the checksum that a SYN should have and the one that it has; 0 if that is
    /// right, left to an offload, or unknown.
    pub checksum_error: u16,
}

impl Segment {
    /// Returns the endpoint that sent it.
    pub fn source(&self) -> &Endpoint {
        if self.from_high() { &self.flow.high } else { &self.flow.low }
    }

    /// Returns the endpoint that it was sent to.
    pub fn destination(&self) -> &Endpoint {
        if self.from_high() { &self.flow.low } else { &self.flow.high }
    }

    /// Returns whether `flow.high` sent it.
    pub fn from_high(&self) -> bool {
        self.facts.has(SegmentFlags::FROM_HIGH)
    }

    /// Returns whether it is an ACK with a zero window, without SYN, FIN or RST.
    pub fn closes_window(&self) -> bool {
        let ends = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        self.window == 0 && self.flags.0 & (ends | TcpFlags::ACK) == TcpFlags::ACK
    }

    /// Returns whether a connection that is not known yet is followed from this segment on. A FIN without
    /// an ACK belongs to none: hosts drop it (RFC 9293 §3.10.7.4).
    pub fn may_begin(&self) -> bool {
        let is_of_any = self.flags.0 & (TcpFlags::ACK | TcpFlags::RST) != 0;
        self.flags.has(TcpFlags::SYN)
            || self.payload_len > 0
            || self.closes_window()
            || self.only_ends() && is_of_any
    }

    /// Returns whether it ends a connection (FIN or RST) and carries no data.
    pub fn only_ends(&self) -> bool {
        self.flags.0 & (TcpFlags::FIN | TcpFlags::RST) != 0
            && !self.flags.has(TcpFlags::SYN)
            && self.payload_len == 0
    }

    /// Returns the timestamp that it echoes, if any: that of the last in-order segment received by
    /// its sender (RFC 7323 §4.3). Zero is ignored, as in Linux: middleboxes that keep the option
    /// and clear its content leave zero.
    pub fn echoes(&self) -> Option<u32> {
        let echoes = self.facts.has(SegmentFlags::TIMESTAMPS) && self.flags.has(TcpFlags::ACK);
        Some(self.tsecr).filter(|&tsecr| echoes && tsecr != 0)
    }

    /// Returns whether `flow.high` opened the connection, as far as this segment shows: only SYNs
    /// do.
    pub fn is_client_high(&self) -> bool {
        match (self.flags.has(TcpFlags::SYN), self.flags.has(TcpFlags::ACK)) {
            (true, false) => self.from_high(),
            (true, true) => !self.from_high(),
            // A client has a port of those that its system gives away; else the server usually has
            // the lower number.
            _ => {
                let [high, low] = [self.flow.high.port, self.flow.low.port];
                match [high, low].map(may_be_ephemeral) {
                    [true, false] => true,
                    [false, true] => false,
                    _ => high > low,
                }
            }
        }
    }

    /// Returns SEG.LEN of RFC 9293 §3.3.1: payload plus one each for SYN and FIN.
    pub fn seg_len(&self) -> u32 {
        let control =
            u32::from(self.flags.has(TcpFlags::SYN)) + u32::from(self.flags.has(TcpFlags::FIN));
        self.payload_len.wrapping_add(control)
    }
}

/// Services whose connections last, so that a capture often begins amid them, at ports that systems
/// also give to clients. Source: IANA Service Name and Transport Protocol Port Number Registry
/// (OpenVPN, SQL Server, Oracle, H.323, MQTT, SCCP, NFS, iSCSI, MySQL, RDP, NATS, EtherNet/IP).
const LASTING_SERVICES: [u16; 12] =
    [1_194, 1_433, 1_521, 1_720, 1_883, 2_000, 2_049, 3_260, 3_306, 3_389, 4_222, 44_818];

/// Returns whether a client may have been given `port` by its system: from 32768 by Linux, from 49152
/// by others (RFC 6335 §6), from 1025 to 5000 by Windows before Vista.
pub fn may_be_ephemeral(port: u16) -> bool {
    (port >= 32_768 || (1_025..=5_000).contains(&port)) && !LASTING_SERVICES.contains(&port)
}

/// Returns whether packets with these TTLs may come from one host: they have passed equally many
/// routers since they had one of the usual first values (64, 128, 255). A program may set that of its
/// own packets (GTSM, RFC 5082); one that sets 1 wants no router at all.
pub fn may_be_of_one_host(ttl: u8, other: u8) -> bool {
    let passed = |ttl: u8| match ttl {
        0..=64 => 64 - ttl,
        65..=128 => 128 - ttl,
        _ => 255 - ttl,
    };
    ttl == other || ttl == 1 || other == 1 || passed(ttl) == passed(other)
}
