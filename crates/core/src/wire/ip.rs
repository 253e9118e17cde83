//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, and the extension headers between them and the
//! transport.

use super::fragment::{Fragment, FragmentKey};
use super::walk::Walk;
use super::{DecodeError, SegmentFlags};

/// Protocol numbers (IANA) that are decoded.
pub(crate) mod protocol {
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMP: u8 = 1;
    pub const IPV4: u8 = 4;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const IPV6: u8 = 41;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const AUTHENTICATION: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const DESTINATION_OPTIONS: u8 = 60;
    pub const MOBILITY: u8 = 135;
    pub const HOST_IDENTITY: u8 = 139;
    pub const SHIM6: u8 = 140;
}

/// `::ffff:0:0/96` (RFC 4291 §2.5.5.2).
pub(crate) const IPV4_MAPPED: u128 = 0xffff_0000_0000;
/// Maximum number of extension headers. RFC 8200 §4.1 defines seven; longer chains are an attack.
const EXTENSIONS_MAX: usize = 10;
/// The ECN field's value for congestion experienced (RFC 3168 §5).
const ECN_CE: u8 = 0b11;

/// The relevant fields of an IP header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Network {
    pub source: u128,
    pub destination: u128,
    /// Protocol of the next header.
    pub protocol: u8,
    /// [`SegmentFlags`] so far.
    pub facts: u32,
    pub ip_id: u16,
    pub ttl: u8,
}

impl Network {
    /// Creates it from an IPv4 header's fixed part.
    #[inline(always)]
    pub fn from_ipv4(header: &[u8; 20], facts: u32) -> Self {
        let source = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        Self {
            source: IPV4_MAPPED | u128::from(source),
            destination: IPV4_MAPPED | u128::from(destination),
            protocol: header[9],
            facts: facts | SegmentFlags::IPV4 | congestion(header[1]),
            ip_id: u16::from_be_bytes([header[4], header[5]]),
            ttl: header[8],
        }
    }

    /// Creates it from an IPv6 header; the protocol is that of the next header, which may be an
    /// extension header.
    #[inline(always)]
    pub fn from_ipv6(header: &[u8; 40], facts: u32) -> Self {
        let (fixed, addresses) = header.split_at(8);
        let (source, destination) = addresses.split_at(16);
        Self {
            source: address(source),
            destination: address(destination),
            protocol: fixed[6],
            facts: facts | congestion(fixed[1] >> 4),
            ip_id: 0,
            ttl: fixed[7],
        }
    }

    fn is_ipv4(&self) -> bool {
        self.facts & SegmentFlags::IPV4 != 0
    }
}

#[inline(always)]
fn congestion(traffic_class: u8) -> u32 {
    if traffic_class & ECN_CE == ECN_CE { SegmentFlags::ECN_CE } else { 0 }
}

/// The content after an IP header.
pub(super) enum Inner<'a> {
    /// The payload of a complete packet; its protocol is in [`Network`].
    Whole(Network),
    /// A fragment.
    Piece(Fragment<'a>),
}

impl<'a> Walk<'a> {
    /// Parses an IPv4 or IPv6 header, according to the version nibble.
    #[inline(always)]
    pub(super) fn ip(&mut self) -> Result<Inner<'a>, DecodeError> {
        let [first] = self.header(DecodeError::IpTruncated)?;
        match first >> 4 {
            4 => self.ipv4(),
            6 => self.ipv6(),
            _ => Err(DecodeError::IpVersion),
        }
    }

    #[inline(always)]
    fn ipv4(&mut self) -> Result<Inner<'a>, DecodeError> {
        let header: &[u8; 20] = self.header(DecodeError::IpTruncated)?;
        let header_len = usize::from(header[0] & 0xf) * 4;
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header_len < 20 || (total_len != 0 && total_len < header_len) {
            return Err(DecodeError::IpHeaderLength);
        }
        let mut network = Network::from_ipv4(header, self.facts);
        self.set_end(total_len, &mut network);
        self.skip(header_len, DecodeError::IpTruncated)?;

        let fragment = u16::from_be_bytes([header[6], header[7]]);
        let (offset, more) = (u32::from(fragment & 0x1fff) * 8, fragment & 0x2000 != 0);
        if offset == 0 && !more {
            return self.extensions(network);
        }
        let key = FragmentKey::new(&network, u32::from(network.ip_id), network.protocol);
        self.piece(network, key, offset, more)
    }

    #[inline(always)]
    fn ipv6(&mut self) -> Result<Inner<'a>, DecodeError> {
        let header: &[u8; 40] = self.header(DecodeError::IpTruncated)?;
        let mut network = Network::from_ipv6(header, self.facts);
        let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        // Zero means a jumbogram (RFC 2675) or a super-packet, unless nothing follows at all.
        let total_len = if payload_len == 0 { 0 } else { payload_len + 40 };
        self.set_end(total_len, &mut network);
        self.skip(40, DecodeError::IpTruncated)?;
        self.extensions(network)
    }

    /// Sets the end of the packet: the end stated in its header, or that of the frame that carries
    /// it. A total length of zero is a super-packet captured before TSO split it: it ends with the
    /// frame.
    #[inline(always)]
    fn set_end(&mut self, total_len: usize, network: &mut Network) {
        if total_len == 0 {
            network.facts |= SegmentFlags::LENGTH_FROM_FRAME;
        } else {
            let claimed = self.at + total_len;
            // What ends the packet is the frame itself, not a layer inside it.
            let is_beyond = claimed > self.end && self.end >= self.bytes.len();
            self.claimed_end = if is_beyond { claimed } else { 0 };
            self.hold(total_len);
        }
    }

    /// Skips the extension headers (RFC 8200 §4) and AH (RFC 4302) before the transport.
    #[inline(always)]
    pub(super) fn extensions(&mut self, network: Network) -> Result<Inner<'a>, DecodeError> {
        match network.protocol {
            protocol::TCP | protocol::UDP => Ok(Inner::Whole(network)),
            _ => self.skip_extensions(network),
        }
    }

    #[inline(never)]
    fn skip_extensions(&mut self, mut network: Network) -> Result<Inner<'a>, DecodeError> {
        use protocol::*;
        for _ in 0..EXTENSIONS_MAX {
            let len = match network.protocol {
                TCP | UDP => return Ok(Inner::Whole(network)),
                AUTHENTICATION => {
                    let [_, words] = *self.header(DecodeError::ExtensionTruncated)?;
                    (usize::from(words) + 2) * 4
                }
                _ if network.is_ipv4() => return Ok(Inner::Whole(network)),
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HOST_IDENTITY | SHIM6 => {
                    let [_, units] = *self.header(DecodeError::ExtensionTruncated)?;
                    (usize::from(units) + 1) * 8
                }
                FRAGMENT => {
                    let header: [u8; 8] = *self.header(DecodeError::ExtensionTruncated)?;
                    let field = u16::from_be_bytes([header[2], header[3]]);
                    let (offset, more) = (u32::from(field & !7), field & 1 != 0);
                    if offset != 0 || more {
                        network.protocol = header[0];
                        self.skip(8, DecodeError::ExtensionTruncated)?;
                        let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                        let key = FragmentKey::new(&network, id, 0);
                        return self.piece(network, key, offset, more);
                    }
                    8
                }
                _ => return Ok(Inner::Whole(network)),
            };
            let [next] = *self.header(DecodeError::ExtensionTruncated)?;
            network.protocol = next;
            self.skip(len, DecodeError::ExtensionTruncated)?;
        }
        Err(DecodeError::ExtensionsTooMany)
    }

    #[inline(never)]
    fn piece(
        &self,
        network: Network,
        key: FragmentKey,
        offset: u32,
        more: bool,
    ) -> Result<Inner<'a>, DecodeError> {
        let payload = self.rest();
        let payload_len = self.end - self.at;
        // RFC 791 §3.2: all but the last are a multiple of eight bytes, and none ends after byte
        // 65535.
        let aligned = !more || payload_len.is_multiple_of(8);
        if payload_len == 0 || !aligned || payload_len > usize::from(u16::MAX) - offset as usize {
            return Err(DecodeError::FragmentImpossible);
        }
        let (origin, payload_len) = (self.origin, payload_len as u32);
        Ok(Inner::Piece(Fragment { origin, network, key, offset, more, payload, payload_len }))
    }
}

fn address(bytes: &[u8]) -> u128 {
    bytes.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes))
}
