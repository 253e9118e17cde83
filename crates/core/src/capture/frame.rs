//! Captured frames: bytes, a time and a number, not parsed yet.

use std::fmt;

/// Identifies a frame of the input: the file, and the 1-based number in it, as counted by
/// Wireshark. Ordered by file, then number.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Deserialize, serde::Serialize,
)]
pub struct FrameId(u64);

impl FrameId {
    /// Bits of a frame's number: a file of so many frames (2^40) takes at least 17 TB.
    const NUMBER_BITS: u32 = 40;

    /// Number of files that an identifier can express.
    pub const FILES_MAX: usize = 1 << (u64::BITS - Self::NUMBER_BITS);

    /// Creates the identifier of frame `number` (1-based) of input file `file` (its index in the
    /// report's `inputs`).
    pub fn new(file: u32, number: u64) -> Self {
        Self(u64::from(file) << Self::NUMBER_BITS | number & ((1 << Self::NUMBER_BITS) - 1))
    }

    /// Returns the identifier of the next frame in the file.
    #[inline(always)]
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the index of the input file in the report's `inputs`.
    pub fn file(self) -> u32 {
        (self.0 >> Self::NUMBER_BITS) as u32
    }

    /// Returns the 1-based number of the frame in its file.
    pub fn number(self) -> u64 {
        self.0 & ((1 << Self::NUMBER_BITS) - 1)
    }
}

impl fmt::Debug for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}:{}", self.file(), self.number())
    }
}

/// A link-layer header type as registered at tcpdump.org (`LINKTYPE_…` numbers).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Deserialize, serde::Serialize,
)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a 4-byte address family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// IEEE 802.3 Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// PPP, with or without HDLC framing.
    pub const PPP: Self = Self(9);
    /// FDDI, with LLC.
    pub const FDDI: Self = Self(10);
    /// PPP in HDLC-like framing, or Cisco HDLC.
    pub const PPP_HDLC: Self = Self(50);
    /// Raw IP with the number used by some BSDs.
    pub const RAW_BSD: Self = Self(12);
    /// PPP over Ethernet session frames without the Ethernet header.
    pub const PPP_ETHER: Self = Self(51);
    /// Raw IPv4 or IPv6.
    pub const RAW: Self = Self(101);
    /// Cisco HDLC.
    pub const CISCO_HDLC: Self = Self(104);
    /// OpenBSD loopback: a 4-byte address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture, version 1 (`-i any`).
    pub const LINUX_SLL: Self = Self(113);
    /// Per-Packet Information, which states the link type of the frame that follows.
    pub const PPI: Self = Self(192);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux netfilter log messages.
    pub const NFLOG: Self = Self(239);
    /// A link type of a snoop file that has no number in the registry, or none that is supported.
    pub const UNKNOWN: Self = Self(u16::MAX);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

/// One captured frame: a view into a [`Block`].
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Identifier of the frame.
    pub id: FrameId,
    /// Capture time, nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Length on the wire, bytes; more than `bytes.len()` if the snap length cut it.
    pub original_len: u32,
    /// Link type, which determines the first header.
    pub link: LinkType,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// Index entry of one frame in a [`Block`].
#[derive(Clone, Copy, Debug)]
pub struct FrameEntry {
    /// Capture time, nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Identifier of the frame.
    pub id: FrameId,
    /// Start of the frame's bytes in [`Block::bytes`].
    pub offset: u32,
    /// Captured length, bytes.
    pub captured_len: u32,
    /// Length on the wire, bytes.
    pub original_len: u32,
    /// Link type, which determines the first header.
    pub link: LinkType,
    /// Changes whenever the clock of the capture was set: the time between two frames with
    /// different values is unknown.
    pub clock_set: bool,
}

/// Complete frames in input order, with the buffer that holds their bytes. Reused between reads.
#[derive(Default)]
pub struct Block {
    /// Raw bytes; those between frames have no meaning.
    pub bytes: Vec<u8>,
    /// One entry per frame, in input order.
    pub entries: Vec<FrameEntry>,
}

impl Block {
    /// Returns the frames, in input order.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        self.entries.iter().filter_map(|entry| self.frame(entry))
    }

    /// Returns the frame of an entry.
    #[inline]
    pub fn frame(&self, entry: &FrameEntry) -> Option<Frame<'_>> {
        let start = entry.offset as usize;
        let bytes = self.bytes.get(start..start + entry.captured_len as usize)?;
        Some(Frame {
            id: entry.id,
            time_ns: entry.time_ns,
            original_len: entry.original_len,
            link: entry.link,
            bytes,
        })
    }
}
