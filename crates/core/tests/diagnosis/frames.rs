//! Segments as Ethernet frames, and frames as a capture file.

use etherparse::{
    EtherType, Ethernet2Header, IpEcn, IpNumber, Ipv4Header, Ipv6Header, SingleVlanHeader,
    TcpHeader, TcpOptionElement, VlanId,
};
use std::net::{IpAddr, SocketAddr};

/// One segment with everything its headers say.
#[derive(Clone, Debug)]
pub struct Packet {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub vlan: bool,
    /// A short frame was padded to the least length (IEEE 802.3 §3.2.8).
    pub padded: bool,
    pub ip_id: u16,
    /// Marked with congestion experienced (RFC 3168 §5).
    pub marked: bool,
    /// The TCP checksum; 0 leaves it to an offload.
    pub checksum: u16,
    pub ttl: u8,
    /// tcpdump's letters: `S F R P . U`.
    pub flags: String,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub sack: Vec<(u32, u32)>,
    pub timestamps: Option<(u32, u32)>,
    pub payload: Vec<u8>,
    /// IPv4 total length as damaged after the TCP checksum was computed.
    pub total_len: Option<u16>,
    /// A tool has removed the payload, so that the frame ends with the TCP header.
    pub without_payload: bool,
    /// The ICMP error that is sent instead of a segment.
    pub icmp: Option<Error>,
}

/// An ICMP error (RFC 792; the MTU by RFC 1191 §4).
#[derive(Clone, Debug)]
pub struct Error {
    /// Type and code.
    pub kind: [u8; 2],
    pub mtu: u16,
    pub about: Box<Packet>,
}

impl Packet {
    /// The ICMP error of `kind` that `by` sends about this packet.
    pub fn error(&self, kind: [u8; 2], mtu: u16, by: SocketAddr) -> Self {
        let icmp = Some(Error { kind, mtu, about: Box::new(self.clone()) });
        Self { source: by, destination: self.source, icmp, payload: Vec::new(), ..self.clone() }
    }

    /// Changes it, and with it the packet that it is about.
    pub fn change(&mut self, how: &dyn Fn(&mut Self)) {
        how(self);
        if let Some(error) = &mut self.icmp {
            error.about.change(how);
        }
    }

    /// The frame as captured.
    pub fn frame(&self) -> Vec<u8> {
        if let Some(error) = &self.icmp {
            return self.icmp_frame(error);
        }
        let mut tcp = self.tcp();
        let len = tcp.header_len() + self.payload.len();
        let mut bytes = Vec::new();
        self.link(&mut bytes);
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let (source, destination) = (source.octets(), destination.octets());
                let mut ip =
                    Ipv4Header::new(len as u16, self.ttl, IpNumber::TCP, source, destination)
                        .expect("a length that fits");
                ip.identification = self.ip_id;
                if let Some(total_len) = self.total_len {
                    let checksum = tcp.calc_checksum_ipv4(&ip, &self.payload);
                    tcp.checksum = checksum.expect("a length that fits");
                    ip.total_len = total_len;
                }
                ip.ecn = IpEcn::try_new(if self.marked { 3 } else { 0 }).expect("two bits");
                ip.header_checksum = ip.calc_header_checksum();
                bytes.extend_from_slice(&ip.to_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ip = Ipv6Header {
                    payload_length: len as u16,
                    next_header: IpNumber::TCP,
                    hop_limit: self.ttl,
                    source: source.octets(),
                    destination: destination.octets(),
                    ..Ipv6Header::default()
                };
                bytes.extend_from_slice(&ip.to_bytes());
            }
            _ => panic!("both ends speak the same version of IP"),
        }
        bytes.extend_from_slice(&tcp.to_bytes());
        if !self.without_payload {
            bytes.extend_from_slice(&self.payload);
        }
        if self.padded {
            bytes.resize(bytes.len().max(60), 0);
        }
        bytes
    }

    fn icmp_frame(&self, error: &Error) -> Vec<u8> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) =
            (self.source.ip(), self.destination.ip())
        else {
            panic!("ICMP errors are those of IPv4")
        };
        // The IP header and eight bytes.
        let quoted = Self { vlan: false, ..(*error.about).clone() }.frame();
        let quoted = &quoted[14..14 + 20 + 8];
        let mut bytes = Vec::new();
        self.link(&mut bytes);
        let len = 8 + quoted.len() as u16;
        let (source, destination) = (source.octets(), destination.octets());
        let ip = Ipv4Header::new(len, 64, IpNumber::ICMP, source, destination);
        bytes.extend_from_slice(&ip.expect("a length that fits").to_bytes());
        bytes.extend_from_slice(&error.kind);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&error.mtu.to_be_bytes());
        bytes.extend_from_slice(quoted);
        bytes
    }

    fn link(&self, bytes: &mut Vec<u8>) {
        let ip = if self.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        let ether_type = if self.vlan { EtherType::VLAN_TAGGED_FRAME } else { ip };
        let (source, destination) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ethernet = Ethernet2Header { source, destination, ether_type };
        bytes.extend_from_slice(&ethernet.to_bytes());
        if self.vlan {
            let tag = SingleVlanHeader {
                vlan_id: VlanId::try_new(42).expect("12 bits"),
                ether_type: ip,
                ..SingleVlanHeader::default()
            };
            bytes.extend_from_slice(&tag.to_bytes());
        }
    }

    fn tcp(&self) -> TcpHeader {
        use TcpOptionElement::{
            MaximumSegmentSize, Noop, SelectiveAcknowledgement, SelectiveAcknowledgementPermitted,
            Timestamp, WindowScale,
        };
        let (source, destination) = (self.source.port(), self.destination.port());
        let mut tcp = TcpHeader::new(source, destination, self.seq, self.window);
        let has = |flag: char| self.flags.contains(flag);
        (tcp.syn, tcp.fin, tcp.rst) = (has('S'), has('F'), has('R'));
        (tcp.psh, tcp.ack, tcp.urg) = (has('P'), has('.'), has('U'));
        (tcp.ece, tcp.cwr) = (has('E'), has('W'));
        tcp.checksum = self.checksum;
        tcp.acknowledgment_number = if tcp.ack { self.ack } else { 0 };
        let mut options = Vec::new();
        options.extend(self.mss.map(MaximumSegmentSize));
        options.extend(self.sack_permitted.then_some(SelectiveAcknowledgementPermitted));
        if let Some((tsval, tsecr)) = self.timestamps {
            options.extend([Noop, Noop, Timestamp(tsval, tsecr)]);
        }
        options.extend(self.window_scale.map(WindowScale));
        if let Some((first, rest)) = self.sack.split_first() {
            let mut more = [None; 3];
            more.iter_mut().zip(rest).for_each(|(place, block)| *place = Some(*block));
            options.extend([Noop, Noop, SelectiveAcknowledgement(*first, more)]);
        }
        tcp.set_options(&options).expect("options that fit");
        tcp
    }
}

/// A capture file with nanosecond times.
pub fn pcap(packets: &[(u64, Packet)], snap_len: usize) -> Vec<u8> {
    let frames: Vec<_> = packets.iter().map(|(at_ns, packet)| (*at_ns, packet.frame())).collect();
    pcap_of(&frames, snap_len)
}

/// A capture file of Ethernet frames.
pub fn pcap_of(frames: &[(u64, Vec<u8>)], snap_len: usize) -> Vec<u8> {
    pcap_with_link(frames, snap_len, 1)
}

/// A capture file of frames of this link type.
pub fn pcap_with_link(frames: &[(u64, Vec<u8>)], snap_len: usize, link: u32) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    file.extend_from_slice(&[2, 0, 4, 0]);
    file.extend_from_slice(&[0; 8]);
    file.extend_from_slice(&(snap_len as u32).to_le_bytes());
    file.extend_from_slice(&link.to_le_bytes());
    for (at_ns, frame) in frames {
        let captured = &frame[..frame.len().min(snap_len)];
        let header = [
            (at_ns / 1_000_000_000) as u32,
            (at_ns % 1_000_000_000) as u32,
            captured.len() as u32,
            frame.len() as u32,
        ];
        header.iter().for_each(|field| file.extend_from_slice(&field.to_le_bytes()));
        file.extend_from_slice(captured);
    }
    file
}
