//! Tunnels: GRE (RFC 2784, RFC 2890), VXLAN (RFC 7348), Geneve (RFC 8926).

use super::DecodeError;
use super::link::{Layer, is_read};
use super::walk::{ParsedHeader, Walk};
use super::{Other, Packet};

/// GRE protocol of a mirrored Ethernet frame (ERSPAN types I and II).
const ERSPAN: u16 = 0x88be;
/// GRE protocol of a mirrored frame with a time (ERSPAN type III, draft-foschiano-erspan-03 §4.3).
const ERSPAN_III: u16 = 0x22eb;
/// GRE protocols of messages between the ends of a tunnel: none (keep-alive), NHRP (RFC 2332 §4.2).
const GRE_CONTROL: [u16; 2] = [0, 0x2001];
const VXLAN_HEADER_LEN: usize = 8;
const GENEVE_HEADER_LEN: usize = 8;

impl<'a> Walk<'a> {
    /// Parses GRE version 0 with any of its optional fields. Other content than IP and Ethernet, and
    /// version 1 (PPTP), are only counted.
    pub(super) fn gre(&mut self) -> Result<ParsedHeader<'a>, DecodeError> {
        const CHECKSUM: u8 = 0x80;
        const ROUTING: u8 = 0x40;
        const KEY: u8 = 0x20;
        const SEQUENCE: u8 = 0x10;
        let [flags, version, high, low] = *self.header(DecodeError::TunnelTruncated)?;
        if version & 7 != 0 || flags & ROUTING != 0 {
            return Err(DecodeError::TunnelUnsupported);
        }
        let optional = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize;
        self.skip(4 + optional * 4, DecodeError::TunnelTruncated)?;
        match u16::from_be_bytes([high, low]) {
            ERSPAN => {
                // Type II has sequence numbers and a header of its own; type I has neither.
                let header_len = if flags & SEQUENCE != 0 { 8 } else { 0 };
                self.skip(header_len, DecodeError::TunnelTruncated)?;
                Ok(ParsedHeader::Tunnel(Layer::Ethernet))
            }
            ERSPAN_III => self.erspan_iii(),
            kind if GRE_CONTROL.contains(&kind) => Ok(ParsedHeader::Done(Packet::Other(Other::Ip))),
            ether_type if is_read(ether_type) => {
                Ok(ParsedHeader::Tunnel(Layer::EtherType(ether_type)))
            }
            _ => Err(DecodeError::TunnelUnsupported),
        }
    }

    /// Parses the header of ERSPAN type III, and the platform's own header that may follow it.
    fn erspan_iii(&mut self) -> Result<ParsedHeader<'a>, DecodeError> {
        const HEADER_LEN: usize = 12;
        const PLATFORM_HEADER_LEN: usize = 8;
        const HAS_PLATFORM_HEADER: u8 = 1;
        let header: &[u8; HEADER_LEN] = self.header(DecodeError::TunnelTruncated)?;
        let (frame_type, flags) = (header[10] >> 2 & 0x1f, header[11]);
        let more = if flags & HAS_PLATFORM_HEADER != 0 { PLATFORM_HEADER_LEN } else { 0 };
        self.skip(HEADER_LEN + more, DecodeError::TunnelTruncated)?;
        match frame_type {
            0 => Ok(ParsedHeader::Tunnel(Layer::Ethernet)),
            2 => Ok(ParsedHeader::Tunnel(Layer::Ip)),
            _ => Err(DecodeError::TunnelUnsupported),
        }
    }

    /// Parses VXLAN after its UDP header, if it is VXLAN: the port alone is no proof. With
    /// `is_strict`, every reserved bit has to be 0.
    pub(super) fn vxlan(&mut self, is_strict: bool) -> Result<Option<Layer>, DecodeError> {
        const IDENTIFIER_PRESENT: u8 = 0x08;
        if self.end - self.at < VXLAN_HEADER_LEN {
            return Ok(None);
        }
        let header: &[u8; VXLAN_HEADER_LEN] = self.header(DecodeError::TunnelTruncated)?;
        let is_plain = header[..4] == [IDENTIFIER_PRESENT, 0, 0, 0];
        if header[0] & IDENTIFIER_PRESENT == 0 || header[7] != 0 || is_strict && !is_plain {
            return Ok(None);
        }
        self.skip(VXLAN_HEADER_LEN, DecodeError::TunnelTruncated)?;
        Ok(Some(Layer::Ethernet))
    }

    /// Parses Geneve after its UDP header, if it is Geneve. With `is_strict`, every reserved bit has
    /// to be 0, and the content one that is read.
    pub(super) fn geneve(&mut self, is_strict: bool) -> Result<Option<Layer>, DecodeError> {
        const RESERVED: u8 = 0x3f;
        if self.end - self.at < GENEVE_HEADER_LEN {
            return Ok(None);
        }
        let header: &[u8; GENEVE_HEADER_LEN] = self.header(DecodeError::TunnelTruncated)?;
        let ether_type = u16::from_be_bytes([header[2], header[3]]);
        let is_plain = header[1] & RESERVED == 0 && is_read(ether_type);
        if header[0] >> 6 != 0 || header[7] != 0 || is_strict && !is_plain {
            return Ok(None);
        }
        let options_len = usize::from(header[0] & 0x3f) * 4;
        self.skip(GENEVE_HEADER_LEN + options_len, DecodeError::TunnelTruncated)?;
        Ok(Some(Layer::EtherType(ether_type)))
    }
}
