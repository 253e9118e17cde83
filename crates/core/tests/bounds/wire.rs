//! Writes captures byte by byte: raw IP in pcap.

use tcpwhy_core::capture::Source;

pub const SYN: u8 = 2;
pub const ACK: u8 = 16;
pub const PSH: u8 = 8;
pub const FIN: u8 = 1;
pub const RST: u8 = 4;

/// Link type of frames that are IP packets.
const RAW: u32 = 101;
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// Greatest payload of one segment, bytes: what receive offload merges.
pub const SEGMENT_MAX: usize = 60_000;

/// Address and port.
pub type End = (u32, u16);

/// A pcap file with times in nanoseconds.
pub struct Pcap {
    pub bytes: Vec<u8>,
    pub frames: u64,
    /// Time of the next frame, ns since the epoch.
    pub time_ns: u64,
    /// Time between frames, ns.
    pub step_ns: u64,
    /// Header before each IP packet.
    pub head: Vec<u8>,
}

impl Pcap {
    pub fn new() -> Self {
        Self::of_link(RAW)
    }

    pub fn of_link(link: u32) -> Self {
        let mut bytes = Vec::new();
        for word in [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 1 << 20, link] {
            bytes.extend(u32::to_le_bytes(word));
        }
        Self { bytes, frames: 0, time_ns: EPOCH_NS, step_ns: 10_000, head: Vec::new() }
    }

    pub fn source(self, name: &str) -> Source {
        Source::memory(name, self.bytes)
    }

    pub fn frame(&mut self, packet: &[u8]) {
        let length = (self.head.len() + packet.len()) as u32;
        let (seconds, ns) = (self.time_ns / 1_000_000_000, self.time_ns % 1_000_000_000);
        for word in [seconds as u32, ns as u32, length, length] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend_from_slice(&self.head);
        self.bytes.extend_from_slice(packet);
        self.time_ns += self.step_ns;
        self.frames += 1;
    }

    pub fn ip(&mut self, protocol: u8, from: u32, to: u32, payload: &[u8]) {
        self.frame(&ip(protocol, from, to, payload));
    }

    pub fn udp(&mut self, from: (u32, u16), to: (u32, u16), payload: &[u8]) {
        self.ip(17, from.0, to.0, &udp(from.1, to.1, payload));
    }

    pub fn tcp(&mut self, segment: &Tcp<'_>) {
        self.ip(6, segment.from.0, segment.to.0, &segment.bytes());
    }
}

pub fn ip(protocol: u8, from: u32, to: u32, payload: &[u8]) -> Vec<u8> {
    ip_fragment(protocol, from, to, (0, 0), payload)
}

/// An IPv4 packet with this identification, and this field of flags and fragment offset.
pub fn ip_fragment(
    protocol: u8,
    from: u32,
    to: u32,
    (id, fragment): (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(((20 + payload.len()) as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(from.to_be_bytes());
    packet.extend(to.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

pub fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for field in [from, to, (8 + payload.len()) as u16, 0] {
        datagram.extend(field.to_be_bytes());
    }
    datagram.extend_from_slice(payload);
    datagram
}

#[derive(Clone, Copy)]
pub struct Tcp<'a> {
    pub from: (u32, u16),
    pub to: (u32, u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub options: &'a [u8],
    pub payload: &'a [u8],
}

impl Tcp<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        assert!(self.options.len().is_multiple_of(4), "options fill words");
        let mut bytes = Vec::with_capacity(60 + self.payload.len());
        bytes.extend(self.from.1.to_be_bytes());
        bytes.extend(self.to.1.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([((20 + self.options.len()) / 4 * 16) as u8, self.flags, 0xff, 0xff]);
        bytes.extend([0, 0, 0, 0]);
        bytes.extend_from_slice(self.options);
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    Client,
    Server,
}
pub use By::{Client, Server};

/// One connection of a capture.
pub struct Talk {
    pub client: (u32, u16),
    pub server: (u32, u16),
    /// Next sequence numbers of client and server.
    pub next: [u32; 2],
}

impl Talk {
    /// A connection whose handshake was captured.
    pub fn open(pcap: &mut Pcap, client: (u32, u16), server: (u32, u16)) -> Self {
        Self::open_at(pcap, client, server, [1_000, 9_000])
    }

    /// The same, with these initial sequence numbers.
    pub fn open_at(
        pcap: &mut Pcap,
        client: (u32, u16),
        server: (u32, u16),
        next: [u32; 2],
    ) -> Self {
        let mut talk = Self { client, server, next };
        const SCALE: [u8; 4] = [3, 3, 7, 0];
        talk.send(pcap, Client, SYN, &SCALE, b"");
        talk.send(pcap, Server, SYN | ACK, &SCALE, b"");
        talk.send(pcap, Client, ACK, b"", b"");
        talk
    }

    pub fn send(&mut self, pcap: &mut Pcap, by: By, flags: u8, options: &[u8], payload: &[u8]) {
        self.send_at(pcap, by, 0, flags, options, payload);
        let of_flags = u32::from(flags & (SYN | FIN) != 0);
        self.next[by as usize] =
            self.next[by as usize].wrapping_add(payload.len() as u32 + of_flags);
    }

    /// Sends a segment that begins `ahead` bytes beyond the next one.
    pub fn send_at(
        &self,
        pcap: &mut Pcap,
        by: By,
        ahead: u32,
        flags: u8,
        options: &[u8],
        payload: &[u8],
    ) {
        let (from, to) = match by {
            Client => (self.client, self.server),
            Server => (self.server, self.client),
        };
        let seq = self.next[by as usize].wrapping_add(ahead);
        let ack = if flags & ACK > 0 { self.next[1 - by as usize] } else { 0 };
        pcap.tcp(&Tcp { from, to, seq, ack, flags, options, payload });
    }

    /// Sends `bytes` in segments that are as large as they can be.
    pub fn say(&mut self, pcap: &mut Pcap, by: By, bytes: &[u8]) {
        self.say_in(pcap, by, bytes, SEGMENT_MAX);
    }

    pub fn say_in(&mut self, pcap: &mut Pcap, by: By, bytes: &[u8], segment: usize) {
        for part in bytes.chunks(segment) {
            self.send(pcap, by, PSH | ACK, b"", part);
        }
    }

    pub fn ack(&mut self, pcap: &mut Pcap, by: By) {
        self.send(pcap, by, ACK, b"", b"");
    }
}

/// Repeats `unit` up to `bytes` bytes.
pub fn fill(unit: &[u8], bytes: usize) -> Vec<u8> {
    unit.repeat(bytes / unit.len().max(1) + 1)
}
