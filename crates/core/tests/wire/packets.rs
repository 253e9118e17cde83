//! Packets from a grid of headers, built outside in, with the place of the innermost IP header.

use etherparse::{
    IpAuthHeader, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6FlowLabel,
    Ipv6Header, Ipv6RawExtHeader, Ipv6RoutingExtensions, TcpHeader, TcpOptionElement,
};
use proptest::prelude::*;
use tcpwhy_core::capture::{Frame, FrameId, LinkType};
use tcpwhy_core::wire::{FlowHasher, Packet, Segment, decode};

pub const IPV4: [u8; 2] = [0x08, 0x00];
pub const IPV6: [u8; 2] = [0x86, 0xdd];

/// The headers in front of the outermost IP header.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    Ethernet,
    Vlan,
    QinQ,
    QinQLegacy,
    Mpls,
    PppoeInEthernet,
    Sll,
    Sll2,
    NullLittleEndian,
    LoopBigEndian,
    Raw,
    PppHdlc,
    PppCompressed,
    PppEther,
    CiscoHdlc,
    PppInHdlc,
    CiscoInHdlc,
    Fddi,
    PpiEthernet,
    NflogLittleEndian,
    NflogBigEndian,
    NflogBridge,
}

/// The protocol that carries the inner packet.
#[derive(Clone, Copy, Debug)]
pub enum Tunnel {
    IpInIpv4,
    IpInIpv6,
    Gre { optional: u8 },
    GreEthernet,
    Erspan3 { is_long: bool },
    Vxlan { port: u16 },
    Geneve { options: u8 },
}

/// Additional headers of the innermost IP header.
#[derive(Clone, Debug)]
pub enum Ip {
    V4 { option_words: u8, auth: bool },
    V6 { hop_by_hop: bool, routing: bool, destination: bool, auth: bool },
}

#[derive(Clone, Debug)]
pub struct Spec {
    pub link: Link,
    pub tunnels: Vec<Tunnel>,
    pub ip: Ip,
    pub ecn: u8,
    pub tcp: TcpHeader,
    pub payload: Vec<u8>,
    pub padding: usize,
}

/// A built packet, and where its innermost IP header begins.
pub struct Built {
    pub bytes: Vec<u8>,
    pub ip_at: usize,
    pub link: LinkType,
}

pub fn links() -> impl Strategy<Value = Link> {
    use Link::*;
    proptest::sample::select(vec![
        Ethernet,
        Vlan,
        QinQ,
        QinQLegacy,
        Mpls,
        PppoeInEthernet,
        Sll,
        Sll2,
        NullLittleEndian,
        LoopBigEndian,
        Raw,
        PppHdlc,
        PppCompressed,
        PppEther,
        CiscoHdlc,
        PppInHdlc,
        CiscoInHdlc,
        Fddi,
        PpiEthernet,
        NflogLittleEndian,
        NflogBigEndian,
        NflogBridge,
    ])
}

fn tunnels() -> impl Strategy<Value = Tunnel> {
    prop_oneof![
        Just(Tunnel::IpInIpv4),
        Just(Tunnel::IpInIpv6),
        (0..8_u8).prop_map(|optional| Tunnel::Gre { optional }),
        Just(Tunnel::GreEthernet),
        any::<bool>().prop_map(|is_long| Tunnel::Erspan3 { is_long }),
        proptest::sample::select(vec![4789, 8472]).prop_map(|port| Tunnel::Vxlan { port }),
        (0..4_u8).prop_map(|options| Tunnel::Geneve { options }),
    ]
}

fn ips() -> impl Strategy<Value = Ip> {
    prop_oneof![
        (0..=10_u8, prop::bool::weighted(0.2))
            .prop_map(|(option_words, auth)| Ip::V4 { option_words, auth }),
        any::<[bool; 4]>().prop_map(|[hop_by_hop, routing, destination, auth]| Ip::V6 {
            hop_by_hop,
            routing,
            destination,
            auth
        }),
    ]
}

fn tcp_options() -> impl Strategy<Value = Vec<TcpOptionElement>> {
    use TcpOptionElement::*;
    prop_oneof![
        Just(vec![]),
        any::<(u32, u32)>().prop_map(|(v, e)| vec![Noop, Noop, Timestamp(v, e)]),
        any::<(u16, u8, u32)>().prop_map(|(mss, shift, v)| vec![
            MaximumSegmentSize(mss),
            SelectiveAcknowledgementPermitted,
            Timestamp(v, 0),
            Noop,
            WindowScale(shift % 20),
        ]),
        any::<(u32, u32, u8)>().prop_map(|(v, edge, more)| {
            let block = |n: u32| (edge.wrapping_add(n), edge.wrapping_add(n + 1));
            let rest = [more > 60, more > 160, false].map(|is| is.then(|| block(7)));
            vec![
                Noop,
                Noop,
                Timestamp(v, edge),
                Noop,
                Noop,
                SelectiveAcknowledgement(block(1), rest),
            ]
        }),
        any::<(u32, u32)>().prop_map(|(l, r)| {
            let block = Some((l, r));
            vec![Noop, SelectiveAcknowledgement((r, l), [block, block, block])]
        }),
    ]
}

fn tcp_headers() -> impl Strategy<Value = TcpHeader> {
    let numbers = any::<(u16, u16, u32, u32, u16)>();
    (numbers, any::<[bool; 8]>(), tcp_options()).prop_map(|(numbers, flags, options)| {
        let (source, destination, seq, ack, window) = numbers;
        let mut header = TcpHeader::new(source, destination, seq, window);
        header.acknowledgment_number = ack;
        [header.fin, header.syn, header.rst, header.psh] = [flags[0], flags[1], flags[2], flags[3]];
        [header.ack, header.urg, header.ece, header.cwr] = [flags[4], flags[5], flags[6], flags[7]];
        header.set_options(&options).unwrap();
        header
    })
}

pub fn specs() -> impl Strategy<Value = Spec> {
    let payload = proptest::collection::vec(any::<u8>(), 0..300);
    let tunnels = proptest::collection::vec(tunnels(), 0..=3);
    (links(), tunnels, ips(), 0..4_u8, tcp_headers(), payload, 0..20_usize).prop_map(
        |(link, tunnels, ip, ecn, tcp, payload, padding)| Spec {
            link,
            tunnels,
            ip,
            ecn,
            tcp,
            payload,
            padding,
        },
    )
}

impl Spec {
    pub fn build(&self) -> Built {
        let mut bytes = self.innermost();
        let mut is_v6 = matches!(self.ip, Ip::V6 { .. });
        let len = bytes.len();
        for tunnel in &self.tunnels {
            (bytes, is_v6) = tunnel.wrap(&bytes, is_v6);
        }
        let (mut bytes, link) = self.link.wrap(&bytes, is_v6);
        let ip_at = bytes.len() - len;
        bytes.extend(vec![0xee; self.padding]);
        Built { bytes, ip_at, link }
    }

    fn innermost(&self) -> Vec<u8> {
        let mut ip = match self.ip {
            Ip::V4 { option_words, auth } => {
                let (from, to) = ([10, 0, 0, 1], [192, 168, 3, 4]);
                let mut header = Ipv4Header::new(0, 63, IpNumber::TCP, from, to).unwrap();
                header.identification = 0xbeef;
                header.ecn = self.ecn.try_into().unwrap();
                header.options =
                    vec![1; usize::from(option_words) * 4].as_slice().try_into().unwrap();
                IpHeaders::Ipv4(header, Ipv4Extensions { auth: auth.then(authentication) })
            }
            Ip::V6 { hop_by_hop, routing, destination, auth } => {
                let header = Ipv6Header {
                    traffic_class: self.ecn,
                    flow_label: Ipv6FlowLabel::try_new(0x54321).unwrap(),
                    payload_length: 0,
                    next_header: IpNumber::TCP,
                    hop_limit: 61,
                    source: [0x20; 16],
                    destination: [0x10; 16],
                };
                let raw = |len| Ipv6RawExtHeader::new_raw(IpNumber::TCP, &vec![0; len]).unwrap();
                let routing = routing.then(|| Ipv6RoutingExtensions {
                    routing: raw(6),
                    final_destination_options: destination.then(|| raw(22)),
                });
                IpHeaders::Ipv6(
                    header,
                    Ipv6Extensions {
                        hop_by_hop_options: hop_by_hop.then(|| raw(14)),
                        destination_options: destination.then(|| raw(6)),
                        routing,
                        fragment: None,
                        auth: auth.then(authentication),
                    },
                )
            }
        };
        ip.set_next_headers(IpNumber::TCP);
        ip.set_payload_len(self.tcp.header_len() + self.payload.len()).unwrap();
        let mut bytes = Vec::new();
        ip.write(&mut bytes).unwrap();
        self.tcp.write(&mut bytes).unwrap();
        bytes.extend(&self.payload);
        bytes
    }
}

fn authentication() -> IpAuthHeader {
    IpAuthHeader::new(IpNumber::TCP, 1, 2, &[0; 12]).unwrap()
}

fn ether_type(is_v6: bool) -> [u8; 2] {
    if is_v6 { IPV6 } else { IPV4 }
}

pub fn ethernet(ether_type: [u8; 2], inner: &[u8]) -> Vec<u8> {
    [&[2; 12], &ether_type[..], inner].concat()
}

/// `inner` in IPv4.
pub fn in_ipv4(protocol: u8, inner: &[u8]) -> Vec<u8> {
    let (from, to) = ([172, 16, 0, 1], [172, 16, 0, 2]);
    let header = Ipv4Header::new(inner.len() as u16, 60, IpNumber(protocol), from, to).unwrap();
    [&header.to_bytes()[..], inner].concat()
}

/// `inner` in IPv6.
pub fn in_ipv6(protocol: u8, inner: &[u8]) -> Vec<u8> {
    let header = Ipv6Header {
        payload_length: inner.len() as u16,
        next_header: IpNumber(protocol),
        hop_limit: 60,
        source: [0xfd; 16],
        destination: [0xfc; 16],
        ..Ipv6Header::default()
    };
    [&header.to_bytes()[..], inner].concat()
}

/// `inner` in UDP; the checksum is left out.
pub fn in_udp(source: u16, destination: u16, inner: &[u8]) -> Vec<u8> {
    let len = inner.len() as u16 + 8;
    let words = [source, destination, len, 0].map(u16::to_be_bytes);
    [words.as_flattened(), inner].concat()
}

impl Tunnel {
    /// The packet in the tunnel, and whether the outer one is IPv6.
    fn wrap(self, inner: &[u8], is_v6: bool) -> (Vec<u8>, bool) {
        let ip_protocol = if is_v6 { 41 } else { 4 };
        let ether_type = ether_type(is_v6);
        match self {
            Self::IpInIpv4 => (in_ipv4(ip_protocol, inner), false),
            Self::IpInIpv6 => (in_ipv6(ip_protocol, inner), true),
            Self::Gre { optional } => {
                let flags = [0x80, 0x20, 0x10];
                let present = |bit: usize| optional & 1 << bit != 0;
                let first: u8 = (0..3).filter(|&bit| present(bit)).map(|bit| flags[bit]).sum();
                let fields = vec![0x55; optional.count_ones() as usize * 4];
                let gre = [&[first, 0], &ether_type[..], &fields, inner].concat();
                (in_ipv4(47, &gre), false)
            }
            Self::GreEthernet => {
                let gre = [&[0, 0, 0x65, 0x58], &ethernet(ether_type, inner)[..]].concat();
                (in_ipv6(47, &gre), true)
            }
            Self::Erspan3 { is_long } => {
                let erspan = [0x20, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, u8::from(is_long)];
                let platform = vec![0x55; if is_long { 8 } else { 0 }];
                let gre = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 1];
                let mirrored = ethernet(ether_type, inner);
                (in_ipv4(47, &[&gre[..], &erspan, &platform, &mirrored].concat()), false)
            }
            Self::Vxlan { port } => {
                let vxlan = [&[8, 0, 0, 0, 0, 0, 9, 0], &ethernet(ether_type, inner)[..]].concat();
                (in_ipv4(17, &in_udp(50_000, port, &vxlan)), false)
            }
            Self::Geneve { options } => {
                let fields = vec![0; usize::from(options) * 4];
                let header = [options, 0, 0x65, 0x58, 0, 0, 9, 0];
                let geneve = [&header[..], &fields, &ethernet(ether_type, inner)].concat();
                (in_ipv6(17, &in_udp(50_000, 6081, &geneve)), true)
            }
        }
    }
}

impl Link {
    pub fn wrap(self, ip: &[u8], is_v6: bool) -> (Vec<u8>, LinkType) {
        let ether_type = ether_type(is_v6);
        let tag = |id: u8, next: [u8; 2]| [0x60, id, next[0], next[1]];
        let ppp = [0, if is_v6 { 0x57 } else { 0x21 }];
        let [high, low] = (2 + ip.len() as u16).to_be_bytes();
        let session = [&[0x11, 0, 0, 1, high, low][..], &ppp, ip].concat();
        let hdlc = [&[0x0f, 0][..], &ether_type, ip].concat();
        let family = if is_v6 { 30 } else { 2 };
        let family_linux = if is_v6 { 10 } else { 2 };
        let tagged = |outer: [u8; 2], inner: [u8; 2]| {
            ethernet(outer, &[&tag(1, inner)[..], &tag(2, ether_type), ip].concat())
        };
        let bytes = match self {
            Self::Ethernet => ethernet(ether_type, ip),
            Self::Vlan => ethernet([0x81, 0], &[&tag(1, ether_type)[..], ip].concat()),
            Self::QinQ => tagged([0x88, 0xa8], [0x81, 0]),
            Self::QinQLegacy => tagged([0x91, 0], [0x81, 0]),
            Self::Mpls => ethernet([0x88, 0x47], &[&[0, 1, 0, 9, 0, 2, 1, 9], ip].concat()),
            Self::PppoeInEthernet => ethernet([0x88, 0x64], &session),
            Self::Sll => {
                [&[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0], &ether_type[..], ip].concat()
            }
            Self::Sll2 => [&ether_type[..], &[0; 18], ip].concat(),
            Self::NullLittleEndian => [&[family, 0, 0, 0], ip].concat(),
            Self::LoopBigEndian => [&[0, 0, 0, family], ip].concat(),
            Self::Raw => ip.to_vec(),
            Self::PppHdlc => [&[0xff, 0x03], &ppp[..], ip].concat(),
            Self::PppCompressed => [&ppp[1..], ip].concat(),
            Self::PppEther => session,
            Self::CiscoHdlc | Self::CiscoInHdlc => hdlc,
            Self::PppInHdlc => [&[0xff, 0x03], &ppp[..], ip].concat(),
            Self::Fddi => {
                let snap = [0xaa, 0xaa, 3, 0, 0, 0];
                [&[0x51][..], &[2; 12], &snap, &ether_type, ip].concat()
            }
            Self::PpiEthernet => {
                let header = [0, 0, 12, 0, 1, 0, 0, 0, 0xee, 0xee, 0, 0];
                [&header[..], &ethernet(ether_type, ip)].concat()
            }
            Self::NflogLittleEndian => nflog(u16::to_le_bytes, family_linux, ether_type, ip),
            Self::NflogBigEndian => nflog(u16::to_be_bytes, family_linux, ether_type, ip),
            Self::NflogBridge => nflog(u16::to_le_bytes, AF_BRIDGE, ether_type, ip),
        };
        (bytes, self.link_type())
    }

    pub fn link_type(self) -> LinkType {
        match self {
            Self::Sll => LinkType::LINUX_SLL,
            Self::Sll2 => LinkType::LINUX_SLL2,
            Self::NullLittleEndian => LinkType::NULL,
            Self::LoopBigEndian => LinkType::LOOP,
            Self::Raw => LinkType::RAW,
            Self::PppHdlc | Self::PppCompressed => LinkType::PPP,
            Self::PppEther => LinkType::PPP_ETHER,
            Self::CiscoHdlc => LinkType::CISCO_HDLC,
            Self::PppInHdlc | Self::CiscoInHdlc => LinkType::PPP_HDLC,
            Self::Fddi => LinkType::FDDI,
            Self::PpiEthernet => LinkType::PPI,
            Self::NflogLittleEndian | Self::NflogBigEndian | Self::NflogBridge => LinkType::NFLOG,
            _ => LinkType::ETHERNET,
        }
    }
}

/// The address family of a bridge's netfilter log in Linux.
const AF_BRIDGE: u8 = 7;

/// A message of the netfilter log: a packet header, a prefix that has to be padded, and the packet.
fn nflog(order: fn(u16) -> [u8; 2], family: u8, ether_type: [u8; 2], ip: &[u8]) -> Vec<u8> {
    let attribute = |kind: u16, value: &[u8]| {
        let padded = value.len().next_multiple_of(4) - value.len();
        [&order(4 + value.len() as u16)[..], &order(kind), value, &vec![0; padded]].concat()
    };
    let header = [family, 0, 0, 5];
    let packet_header = [ether_type, [1, 0]].concat();
    let before = [attribute(1, &packet_header), attribute(10, b"drop:\0")].concat();
    let packet = [order(4 + ip.len() as u16), order(9)].concat();
    [&header[..], &before, &packet, ip].concat()
}

pub fn hasher() -> FlowHasher {
    FlowHasher::new(11)
}

/// Frame 7, of `bytes` that were all captured.
pub fn frame(link: LinkType, bytes: &[u8]) -> Frame<'_> {
    let id = FrameId::new(0, 7);
    Frame { id, time_ns: 1_000, original_len: bytes.len() as u32, link, bytes }
}

/// Decodes a frame that should be TCP.
pub fn tcp(frame: &Frame<'_>) -> Segment {
    let mut segment = Segment::default();
    match decode(frame, &hasher(), &mut segment) {
        Packet::Tcp => segment,
        other => panic!("not TCP but {other:?}"),
    }
}
