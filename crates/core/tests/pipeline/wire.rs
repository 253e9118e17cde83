//! Packets of connections between a client and a server, as a capture has them.

use etherparse::{PacketBuilder, TcpOptionElement};

/// A packet, client's (`side` 0) or server's (1).
#[derive(Clone, Debug)]
pub struct Packet {
    pub time_ns: u64,
    pub side: usize,
    /// The client's port and the server's.
    pub ports: [u16; 2],
    pub seq: u32,
    pub ack: u32,
    pub payload: Vec<u8>,
    /// `S`, `A`, `P`, `F`.
    pub flags: &'static str,
    pub window: u16,
    /// The identification field.
    pub number: u16,
}

/// The header of a capture file.
pub fn pcap_header() -> Vec<u8> {
    let words = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65_535, 1];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

impl Packet {
    /// Writes it to a capture.
    pub fn write(&self, capture: &mut Vec<u8>) {
        let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let (source, destination) = (addresses[self.side], addresses[1 - self.side]);
        let (from, to) = (self.ports[self.side], self.ports[1 - self.side]);
        let mut ip =
            etherparse::Ipv4Header::new(0, 64, 6.into(), source, destination).expect("a header");
        ip.identification = self.number;
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6])
            .ip(etherparse::IpHeaders::Ipv4(ip, Default::default()));
        let mut tcp = builder.tcp(from, to, self.seq, self.window);
        let ticks = (self.time_ns / 1_000_000) as u32;
        let mut options = vec![TcpOptionElement::Timestamp(5_000 + ticks, 5_000 + ticks)];
        for flag in self.flags.chars() {
            tcp = match flag {
                'S' => {
                    options.push(TcpOptionElement::MaximumSegmentSize(1_460));
                    options.push(TcpOptionElement::WindowScale(7));
                    tcp.syn()
                }
                'P' => tcp.psh(),
                'F' => tcp.fin(),
                _ => tcp.ack(self.ack),
            };
        }
        let tcp = tcp.options(&options).expect("few options");
        let mut frame = Vec::new();
        tcp.write(&mut frame, &self.payload).expect("a packet in memory");
        let seconds = 1 + (self.time_ns / 1_000_000_000) as u32;
        let len = frame.len() as u32;
        for word in [seconds, (self.time_ns % 1_000_000_000) as u32, len, len] {
            capture.extend_from_slice(&word.to_le_bytes());
        }
        capture.extend_from_slice(&frame);
    }
}
