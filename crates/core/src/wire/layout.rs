//! The positions of a frame's headers, for code that changes frames. The layers are parsed by the
//! same steps that decode them.

use super::icmp;
use super::ip::{Inner, protocol};
use super::link::{Layer, ether_type};
use super::udp;
use super::walk::{Origin, ParsedHeader, TUNNELS_MAX, Walk};
use super::{DecodeError, Packet};
use crate::capture::Frame;

/// The type of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderKind {
    /// A header that begins with two MAC addresses.
    Ethernet,
    /// Linux cooked capture, version 1.
    Sll,
    /// Linux cooked capture, version 2.
    Sll2,
    /// A link or tunnel header without addresses.
    Plain,
    Ipv4,
    /// IPv6 with its extension headers.
    Ipv6,
    Tcp,
    Udp,
    Icmp,
}

/// The position of a header in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub kind: HeaderKind,
    pub begin: usize,
    /// End of the header, limited to the captured bytes.
    pub end: usize,
    /// End of the packet that begins with the header, limited to the captured bytes.
    pub packet_end: usize,
}

/// The content after the last header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The payload of TCP.
    Tcp,
    /// The payload of a UDP datagram from or to port 53.
    Dns,
    /// The payload of a protocol that is not decoded, or the rest of a packet quoted by an ICMP
    /// error.
    Other,
    /// The content after an unknown link type or protocol, or of a damaged frame.
    Unknown,
}

/// The headers of a frame from the outermost to the innermost.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub headers: Vec<Header>,
    pub content: Content,
    /// Begin and end of the content; bytes after it are padding.
    pub begin: usize,
    pub end: usize,
}

struct Laying<'a> {
    walk: Walk<'a>,
    headers: Vec<Header>,
}

/// Returns the layout of `frame`, as far as it can be parsed.
pub(crate) fn layout(frame: &Frame<'_>) -> Layout {
    let end = frame.bytes.len().max(frame.original_len as usize);
    let origin = Origin { time_ns: frame.time_ns, frame: frame.id };
    let walk = Walk { origin, bytes: frame.bytes, at: 0, end, claimed_end: 0, facts: 0 };
    let mut laying = Laying { walk, headers: Vec::new() };
    let content = match Layer::of(frame.link) {
        // Their headers contain more than addresses, in a variable number of fields.
        None | Some(Layer::Ppi | Layer::Nflog | Layer::Fddi) => Content::Unknown,
        Some(layer) => laying.layers(layer).unwrap_or(Content::Unknown),
    };
    let Laying { walk, headers } = laying;
    let end = walk.end.min(frame.bytes.len());
    // A damaged header is content, from its first byte on.
    let begin = headers.last().map_or(0, |header| header.end).min(end);
    Layout { headers, content, begin, end }
}

impl Laying<'_> {
    fn layers(&mut self, first: Layer) -> Result<Content, DecodeError> {
        let mut layer = first;
        for _ in 0..=TUNNELS_MAX {
            let begin = self.walk.at;
            let is_ip = self.walk.link(layer);
            let kind = match layer {
                Layer::Ethernet | Layer::EtherType(ether_type::ETHERNET) => HeaderKind::Ethernet,
                Layer::Sll => HeaderKind::Sll,
                Layer::Sll2 => HeaderKind::Sll2,
                _ => HeaderKind::Plain,
            };
            self.add(kind, begin);
            if !is_ip? {
                return Ok(Content::Unknown);
            }
            let Some(protocol) = self.ip()? else { return Ok(Content::Other) };
            match self.transport(protocol)? {
                Ok(content) => return Ok(content),
                Err(next) => layer = next,
            }
        }
        Err(DecodeError::TunnelTooDeep)
    }

    fn add(&mut self, kind: HeaderKind, begin: usize) {
        if self.walk.at > begin {
            let captured = self.walk.bytes.len();
            let packet_end = self.walk.end.min(captured);
            self.headers.push(Header { kind, begin, end: self.walk.at, packet_end });
        }
    }

    /// Parses an IP header; returns the protocol that follows, unless this is a later fragment.
    fn ip(&mut self) -> Result<Option<u8>, DecodeError> {
        let begin = self.walk.at;
        let kind = match self.walk.rest().first().map(|first| first >> 4) {
            Some(6) => HeaderKind::Ipv6,
            _ => HeaderKind::Ipv4,
        };
        let inner = self.walk.ip()?;
        self.add(kind, begin);
        Ok(match inner {
            Inner::Whole(network) => Some(network.protocol),
            Inner::Piece(piece) if piece.offset == 0 => Some(piece.network.protocol),
            Inner::Piece(_) => None,
        })
    }

    /// Parses the header after an IP header: returns the content after it, or the first layer in a
    /// tunnel.
    fn transport(&mut self, of: u8) -> Result<Result<Content, Layer>, DecodeError> {
        let begin = self.walk.at;
        let step = match of {
            protocol::TCP => {
                self.tcp();
                return Ok(Ok(Content::Tcp));
            }
            protocol::UDP => {
                let network = super::ip::Network::default();
                let mut beyond = self.walk;
                let step = udp::datagram(&mut beyond, &network)?;
                self.walk.skip(udp::HEADER_LEN, DecodeError::UdpTruncated)?;
                // The length in a first fragment is that of the whole datagram.
                self.walk.end = self.walk.end.min(beyond.end);
                self.add(HeaderKind::Udp, begin);
                let tunnel_begin = self.walk.at;
                self.walk.at = beyond.at;
                self.add(HeaderKind::Plain, tunnel_begin);
                step
            }
            protocol::ICMP | protocol::ICMPV6 => return Ok(Ok(self.icmp(of)?)),
            protocol::IPV4 | protocol::IPV6 => ParsedHeader::Tunnel(Layer::Ip),
            protocol::GRE => {
                let step = self.walk.gre()?;
                self.add(HeaderKind::Plain, begin);
                step
            }
            _ => return Ok(Ok(Content::Unknown)),
        };
        Ok(match step {
            ParsedHeader::Tunnel(layer) => Err(layer),
            ParsedHeader::Done(Packet::Udp(_)) => Ok(Content::Dns),
            ParsedHeader::Done(Packet::Other(_)) if of == protocol::GRE => Ok(Content::Unknown),
            ParsedHeader::Done(_) => Ok(Content::Other),
        })
    }

    /// Parses a TCP header, or its available part: an ICMP error quotes only the beginning.
    fn tcp(&mut self) {
        const DATA_OFFSET_AT: usize = 12;
        let (begin, rest) = (self.walk.at, self.walk.rest());
        let words = rest.get(DATA_OFFSET_AT).map_or(5, |byte| usize::from(byte >> 4)).max(5);
        self.walk.at += (words * 4).min(rest.len());
        self.add(HeaderKind::Tcp, begin);
    }

    fn icmp(&mut self, of: u8) -> Result<Content, DecodeError> {
        let begin = self.walk.at;
        let header = *self.walk.header(DecodeError::IcmpTruncated)?;
        self.walk.skip(header.len(), DecodeError::IcmpTruncated)?;
        self.add(HeaderKind::Icmp, begin);
        if !icmp::is_error(of, &header) {
            return Ok(Content::Other);
        }
        match self.ip()? {
            Some(protocol::TCP) => self.tcp(),
            Some(protocol::UDP) => {
                let begin = self.walk.at;
                self.walk.skip(udp::HEADER_LEN, DecodeError::IcmpTruncated)?;
                self.add(HeaderKind::Udp, begin);
            }
            _ => {}
        }
        Ok(Content::Other)
    }
}
