//! Link layers: the headers before the IP header.

use super::walk::Walk;
use super::{DecodeError, SegmentFlags};
use crate::capture::LinkType;

/// EtherTypes (IEEE) that are decoded.
pub(super) mod ether_type {
    pub const IPV4: u16 = 0x0800;
    pub const VLAN: u16 = 0x8100;
    pub const IPV6: u16 = 0x86dd;
    pub const MPLS: u16 = 0x8847;
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    pub const PPPOE_SESSION: u16 = 0x8864;
    pub const PROVIDER_BRIDGE: u16 = 0x88a8;
    pub const QINQ_LEGACY: u16 = 0x9100;
    /// Transparent Ethernet bridging: in GRE and Geneve, an Ethernet frame.
    pub const ETHERNET: u16 = 0x6558;
}

/// Returns whether the payload that `ether_type` announces is decoded.
pub(super) fn is_read(ether_type: u16) -> bool {
    use ether_type::*;
    let tags = [VLAN, PROVIDER_BRIDGE, QINQ_LEGACY];
    let carriers = [ETHERNET, MPLS, MPLS_UPSTREAM, PPPOE_SESSION];
    matches!(ether_type, IPV4 | IPV6)
        || tags.contains(&ether_type)
        || carriers.contains(&ether_type)
}

/// Maximum number of VLAN tags or MPLS labels in a row; real networks use two or three.
const STACK_MAX: usize = 16;

/// The layer with which bytes begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layer {
    /// An Ethernet header (IEEE 802.3 §3).
    Ethernet,
    /// The header announced by this EtherType.
    EtherType(u16),
    /// Linux cooked capture, version 1.
    Sll,
    /// Linux cooked capture, version 2.
    Sll2,
    /// A BSD loopback header: an address family, in the byte order of the capturing host.
    Loopback,
    /// A PPP frame (RFC 1661, RFC 1662).
    Ppp,
    /// A PPPoE header (RFC 2516).
    Pppoe,
    /// A Cisco HDLC frame.
    CiscoHdlc,
    /// PPP in HDLC-like framing, or Cisco HDLC.
    Hdlc,
    /// An FDDI frame.
    Fddi,
    /// Per-Packet Information, followed by a frame.
    Ppi,
    /// A message of the Linux netfilter log.
    Nflog,
    /// An IP header.
    Ip,
}

impl Layer {
    /// Returns the first layer of frames of a link type, if it is supported.
    pub fn of(link: LinkType) -> Option<Self> {
        /// Raw IP with the number used by OpenBSD.
        const RAW_OPENBSD: LinkType = LinkType(14);
        Some(match link {
            LinkType::ETHERNET => Self::Ethernet,
            LinkType::LINUX_SLL => Self::Sll,
            LinkType::LINUX_SLL2 => Self::Sll2,
            LinkType::RAW | LinkType::RAW_BSD | RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
                Self::Ip
            }
            LinkType::NULL | LinkType::LOOP => Self::Loopback,
            LinkType::PPP => Self::Ppp,
            LinkType::PPP_ETHER => Self::Pppoe,
            LinkType::CISCO_HDLC => Self::CiscoHdlc,
            LinkType::PPP_HDLC => Self::Hdlc,
            LinkType::FDDI => Self::Fddi,
            LinkType::PPI => Self::Ppi,
            LinkType::NFLOG => Self::Nflog,
            _ => return None,
        })
    }
}

/// Position of the packet type in a cooked header of version 2.
const SLL2_TYPE_AT: usize = 10;

/// Returns the fact that the packet type of a cooked header states: 0 is a packet that came to this
/// host, 4 one that this host sent (`PACKET_HOST`, `PACKET_OUTGOING` of Linux).
#[inline(always)]
fn direction(packet_type: u16) -> u32 {
    match packet_type {
        0 => SegmentFlags::RECEIVED,
        4 => SegmentFlags::SENT,
        _ => 0,
    }
}

/// Returns the facts that the link header of `bytes` states, if it is a cooked one.
#[inline(always)]
pub(super) fn facts(link: LinkType, bytes: &[u8]) -> u32 {
    match (link, bytes) {
        (LinkType::LINUX_SLL, &[high, low, ..]) => direction(u16::from_be_bytes([high, low])),
        (LinkType::LINUX_SLL2, _) => {
            bytes.get(SLL2_TYPE_AT).map_or(0, |&packet_type| direction(packet_type.into()))
        }
        _ => 0,
    }
}

impl<'a> Walk<'a> {
    /// Parses the link layers up to an IP header; returns `false` if they carry something else.
    pub(super) fn link(&mut self, layer: Layer) -> Result<bool, DecodeError> {
        match layer {
            Layer::Ethernet => self.ethernet(),
            Layer::EtherType(ether_type) => self.ether_type(ether_type),
            Layer::Sll => {
                let header: [u8; 16] = *self.link_header()?;
                self.facts |= direction(u16::from_be_bytes([header[0], header[1]]));
                self.ether_type(u16::from_be_bytes([header[14], header[15]]))
            }
            Layer::Sll2 => {
                let header: [u8; 20] = *self.link_header()?;
                self.facts |= direction(header[SLL2_TYPE_AT].into());
                self.ether_type(u16::from_be_bytes([header[0], header[1]]))
            }
            Layer::Loopback => self.loopback(),
            Layer::Ppp => self.ppp(),
            Layer::Pppoe => self.pppoe(),
            Layer::CiscoHdlc => self.cisco_hdlc(),
            Layer::Hdlc => self.hdlc(),
            Layer::Fddi => self.fddi(),
            Layer::Ppi => self.ppi(),
            Layer::Nflog => self.nflog(),
            Layer::Ip => Ok(true),
        }
    }

    pub(super) fn link_header<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let header = self.header(DecodeError::LinkTruncated)?;
        self.skip(N, DecodeError::LinkTruncated)?;
        Ok(header)
    }

    fn ethernet(&mut self) -> Result<bool, DecodeError> {
        let header: &[u8; 14] = self.link_header()?;
        self.ether_type(u16::from_be_bytes([header[12], header[13]]))
    }

    /// Parses the headers that an EtherType announces. Values below 0x0600 are lengths of LLC
    /// frames, which carry no IP in today's networks.
    pub(super) fn ether_type(&mut self, ether_type: u16) -> Result<bool, DecodeError> {
        use ether_type::*;
        let mut ether_type = ether_type;
        for _ in 0..STACK_MAX {
            match ether_type {
                IPV4 | IPV6 => return Ok(true),
                VLAN | PROVIDER_BRIDGE | QINQ_LEGACY => {
                    let [_, _, high, low] = *self.link_header()?;
                    ether_type = u16::from_be_bytes([high, low]);
                }
                ETHERNET => {
                    let header: &[u8; 14] = self.link_header()?;
                    ether_type = u16::from_be_bytes([header[12], header[13]]);
                }
                MPLS | MPLS_UPSTREAM => return self.mpls(),
                PPPOE_SESSION => return self.pppoe(),
                _ => return Ok(false),
            }
        }
        Err(DecodeError::LinkTooDeep)
    }

    /// Parses labels up to the bottom of the stack (RFC 3032 §2.1). The type of the payload is not
    /// announced: IP is recognised by its version; a pseudowire's control word begins with zero
    /// (RFC 4385 §3).
    fn mpls(&mut self) -> Result<bool, DecodeError> {
        for _ in 0..STACK_MAX {
            let [_, _, label_end, _] = *self.link_header()?;
            if label_end & 1 != 0 {
                let [first] = *self.header(DecodeError::LinkTruncated)?;
                return Ok(matches!(first >> 4, 4 | 6));
            }
        }
        Err(DecodeError::LinkTooDeep)
    }

    fn loopback(&mut self) -> Result<bool, DecodeError> {
        let family = u32::from_le_bytes(*self.link_header()?);
        // A family is a small number, which is large in the wrong byte order.
        let family = if family > 0xffff { family.swap_bytes() } else { family };
        // AF_INET; AF_INET6 of Linux, NetBSD and OpenBSD, FreeBSD, macOS.
        Ok(matches!(family, 2 | 10 | 24 | 28 | 30))
    }

    fn pppoe(&mut self) -> Result<bool, DecodeError> {
        const SESSION: [u8; 2] = [0x11, 0];
        let [first, second, _, _, l, n] = *self.link_header()?;
        if [first, second] != SESSION {
            return Ok(false);
        }
        // Bytes after it are padding of an Ethernet frame.
        self.hold(u16::from_be_bytes([l, n]).into());
        self.ppp()
    }

    /// Parses a PPP header. Address and control bytes, and the protocol field's first byte (RFC
    /// 1661 §6.5), may be left out.
    pub(super) fn ppp(&mut self) -> Result<bool, DecodeError> {
        // The all-stations address (RFC 1662 §3.1); no protocol number begins with it.
        if let Ok([0xff]) = self.header(DecodeError::LinkTruncated) {
            self.skip(2, DecodeError::LinkTruncated)?;
        }
        let [first] = *self.link_header()?;
        let protocol = if first & 1 != 0 {
            u16::from(first)
        } else {
            let [second] = *self.link_header()?;
            u16::from_be_bytes([first, second])
        };
        match protocol {
            0x0021 | 0x0057 => Ok(true),
            0x0281 | 0x0283 => self.mpls(),
            _ => Ok(false),
        }
    }
}
