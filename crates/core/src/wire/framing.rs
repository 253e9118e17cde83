//! Rare link layers: Cisco HDLC, FDDI, PPI and NFLOG. The formats are those of the registry of link
//! types at tcpdump.org.

use super::DecodeError;
use super::link::Layer;
use super::walk::Walk;
use crate::capture::LinkType;

impl<'a> Walk<'a> {
    /// Cisco HDLC: an address, a control byte and an EtherType.
    pub(super) fn cisco_hdlc(&mut self) -> Result<bool, DecodeError> {
        let [_, _, high, low] = *self.link_header()?;
        self.ether_type(u16::from_be_bytes([high, low]))
    }

    /// PPP in HDLC-like framing, or Cisco HDLC if the address is one of Cisco's: unicast or
    /// broadcast.
    pub(super) fn hdlc(&mut self) -> Result<bool, DecodeError> {
        match *self.header(DecodeError::LinkTruncated)? {
            [0x0f | 0x8f] => self.cisco_hdlc(),
            _ => self.ppp(),
        }
    }

    /// FDDI: frame control and two addresses. LLC frames carry IP (RFC 1390).
    pub(super) fn fddi(&mut self) -> Result<bool, DecodeError> {
        let header: &[u8; 13] = self.link_header()?;
        // The class bit, which distinguishes synchronous and asynchronous frames, and the
        // priorities are ignored.
        let is_llc = header[0] & 0x70 == 0x50;
        if is_llc { self.llc() } else { Ok(false) }
    }

    /// LLC (IEEE 802.2) with SNAP, which names an EtherType (RFC 1042).
    fn llc(&mut self) -> Result<bool, DecodeError> {
        const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];
        let [sap, ..] = *self.header::<3>(DecodeError::LinkTruncated)?;
        if sap != SNAP[0] {
            return Ok(false);
        }
        let header: &[u8; 8] = self.link_header()?;
        if header[..6] != SNAP {
            return Ok(false);
        }
        self.ether_type(u16::from_be_bytes([header[6], header[7]]))
    }

    /// Per-Packet Information: a little-endian header with its length and the link type that
    /// follows.
    pub(super) fn ppi(&mut self) -> Result<bool, DecodeError> {
        let [_, _, l, n, t, y, p, e] = *self.header(DecodeError::LinkTruncated)?;
        let (len, inner) = (u16::from_le_bytes([l, n]), u32::from_le_bytes([t, y, p, e]));
        self.skip(usize::from(len).max(8), DecodeError::LinkTruncated)?;
        let layer = u16::try_from(inner).ok().and_then(|inner| Layer::of(LinkType(inner)));
        match layer {
            // No program nests PPI.
            None | Some(Layer::Ppi) => Err(DecodeError::LinkTypeUnsupported),
            Some(layer) => self.link(layer),
        }
    }

    /// NFLOG: an address family, then attributes in the byte order of the capturing host; one of
    /// them is the packet.
    pub(super) fn nflog(&mut self) -> Result<bool, DecodeError> {
        const PACKET_HEADER: u16 = 1;
        const PAYLOAD: u16 = 9;
        const ATTRIBUTE_LEN: usize = 4;
        let [family, version, _, _] = *self.link_header()?;
        if version != 0 {
            return Ok(false);
        }
        let mut announced = None;
        loop {
            if self.rest().is_empty() && self.at >= self.end {
                return Ok(false);
            }
            let [l, n, t, y]: [u8; ATTRIBUTE_LEN] = *self.header(DecodeError::LinkTruncated)?;
            let (len, kind) = (u16::from_le_bytes([l, n]), u16::from_le_bytes([t, y]));
            // Types are small numbers, which are large in the wrong byte order.
            let (len, kind) =
                if kind > 0xff { (len.swap_bytes(), kind.swap_bytes()) } else { (len, kind) };
            let len = usize::from(len);
            if len < ATTRIBUTE_LEN {
                return Err(DecodeError::LinkTruncated);
            }
            if kind == PAYLOAD {
                self.hold(len);
                self.skip(ATTRIBUTE_LEN, DecodeError::LinkTruncated)?;
                // AF_INET and AF_INET6 of Linux. In other families, such as that of a bridge, the
                // packet header states the EtherType of the payload.
                return match (family, announced) {
                    (2 | 10, _) => Ok(true),
                    (_, Some(ether_type)) => self.ether_type(ether_type),
                    (_, None) => Ok(false),
                };
            }
            if let (PACKET_HEADER, Some(&[_, _, _, _, high, low])) =
                (kind, self.rest().first_chunk())
            {
                announced = Some(u16::from_be_bytes([high, low]));
            }
            let padded = len.next_multiple_of(ATTRIBUTE_LEN).min(self.end - self.at);
            self.skip(padded, DecodeError::LinkTruncated)?;
        }
    }
}
