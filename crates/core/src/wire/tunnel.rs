//! Tunnels: GRE (RFC 2784, RFC 2890), VXLAN (RFC 7348), Geneve (RFC 8926).

use super::DecodeError;
use super::link::Layer;
use super::walk::{Step, Walk};
use super::{Other, Packet};

/// GRE protocol of a mirrored Ethernet frame (ERSPAN types I and II).
const ERSPAN: u16 = 0x88be;
const VXLAN_HEADER_LEN: usize = 8;
const GENEVE_HEADER_LEN: usize = 8;

impl<'a> Walk<'a> {
    /// Parses GRE version 0 with any of its optional fields; version 1 (PPTP) is only counted.
    pub(super) fn gre(&mut self) -> Result<Step<'a>, DecodeError> {
        const CHECKSUM: u8 = 0x80;
        const ROUTING: u8 = 0x40;
        const KEY: u8 = 0x20;
        const SEQUENCE: u8 = 0x10;
        let [flags, version, high, low] = *self.header(DecodeError::TunnelTruncated)?;
        if version & 7 != 0 || flags & ROUTING != 0 {
            return Ok(Step::Done(Packet::Other(Other::Ip)));
        }
        let optional = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize;
        self.skip(4 + optional * 4, DecodeError::TunnelTruncated)?;
        match u16::from_be_bytes([high, low]) {
            ERSPAN => {
                // Type II has sequence numbers and a header of its own; type I has neither.
                let header_len = if flags & SEQUENCE != 0 { 8 } else { 0 };
                self.skip(header_len, DecodeError::TunnelTruncated)?;
                Ok(Step::Tunnel(Layer::Ethernet))
            }
            ether_type => Ok(Step::Tunnel(Layer::EtherType(ether_type))),
        }
    }

    /// Parses VXLAN after its UDP header, if it is VXLAN: the port alone is no proof.
    pub(super) fn vxlan(&mut self) -> Result<Option<Layer>, DecodeError> {
        const IDENTIFIER_PRESENT: u8 = 0x08;
        if self.end - self.at < VXLAN_HEADER_LEN {
            return Ok(None);
        }
        let header: &[u8; VXLAN_HEADER_LEN] = self.header(DecodeError::TunnelTruncated)?;
        if header[0] & IDENTIFIER_PRESENT == 0 || header[7] != 0 {
            return Ok(None);
        }
        self.skip(VXLAN_HEADER_LEN, DecodeError::TunnelTruncated)?;
        Ok(Some(Layer::Ethernet))
    }

    /// Parses Geneve after its UDP header, if it is Geneve.
    pub(super) fn geneve(&mut self) -> Result<Option<Layer>, DecodeError> {
        if self.end - self.at < GENEVE_HEADER_LEN {
            return Ok(None);
        }
        let header: &[u8; GENEVE_HEADER_LEN] = self.header(DecodeError::TunnelTruncated)?;
        if header[0] >> 6 != 0 || header[7] != 0 {
            return Ok(None);
        }
        let options_len = usize::from(header[0] & 0x3f) * 4;
        self.skip(GENEVE_HEADER_LEN + options_len, DecodeError::TunnelTruncated)?;
        Ok(Some(Layer::EtherType(u16::from_be_bytes([header[2], header[3]]))))
    }
}
