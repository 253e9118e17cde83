//! Connections of ever new hosts.

use etherparse::PacketBuilder;
use tcpwhy_core::capture::{Block, FrameEntry, FrameId, LinkType};

/// Property that is new in each connection, or fault that occurs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The path that is asked for, of one server.
    Path,
    /// The server, which works for 40 ms.
    Server,
    /// The client, which is refused.
    Refused,
    /// Both; the handshake was not captured.
    MidStream,
    /// The client, which closes its window for 300 ms.
    ZeroWindow,
    /// The resolver that is asked for a name.
    Resolver,
}

/// All kinds.
pub const KINDS: [Kind; 6] =
    [Kind::Path, Kind::Server, Kind::Refused, Kind::MidStream, Kind::ZeroWindow, Kind::Resolver];

const MS: u64 = 1_000_000;
const RESPONSE_BYTES: usize = 900;

/// A segment: when after the connection's begin it passes, ns, whether the client sends it, flags as tcpdump has
/// them, sequence and acknowledgment number, and window.
type Segment<'a> = (u64, bool, &'a str, [u32; 2], u16);

/// The traffic so far.
pub struct Traffic {
    kind: Kind,
    count: u32,
    frames: u64,
    frames_of_interval: Vec<(u64, Vec<u8>)>,
}

impl Traffic {
    pub fn new(kind: Kind) -> Self {
        Self { kind, count: 0, frames: 0, frames_of_interval: Vec::new() }
    }

    /// Fills `block` with this number of connections.
    pub fn fill(&mut self, connections: u32, block: &mut Block) {
        for _ in 0..connections {
            self.connection();
            self.count += 1;
        }
        let mut frames = std::mem::take(&mut self.frames_of_interval);
        frames.sort_by_key(|(time_ns, _)| *time_ns);
        (block.bytes, block.entries) = (Vec::new(), Vec::new());
        for (time_ns, bytes) in frames {
            self.frames += 1;
            block.entries.push(FrameEntry {
                clock_set: false,
                time_ns,
                id: FrameId::new(0, self.frames),
                offset: block.bytes.len() as u32,
                captured_len: bytes.len() as u32,
                original_len: bytes.len() as u32,
                link: LinkType::ETHERNET,
            });
            block.bytes.extend(bytes);
        }
    }

    fn connection(&mut self) {
        match self.kind {
            Kind::Path => self.exchange("S", 0, 0),
            Kind::Server => self.exchange("S", 40 * MS, 0),
            Kind::MidStream => self.exchange("", 40 * MS, 0),
            Kind::ZeroWindow => self.exchange("S", 0, 300 * MS),
            Kind::Refused => {
                self.send((0, true, "S", [0, 0], 60_000), b"");
                self.send((MS, false, "RA", [0, 1], 0), b"");
            }
            Kind::Resolver => self.look_up(),
        }
    }

    /// A request, and its answer after `work_ns`, in the midst of which the client reads nothing for
    /// `unread_ns`.
    fn exchange(&mut self, begin: &str, work_ns: u64, unread_ns: u64) {
        let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", self.word());
        let asked = 1 + request.len() as u32;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {RESPONSE_BYTES}\r\n\r\n");
        let answered = 1 + (head.len() + RESPONSE_BYTES) as u32;
        if begin == "S" {
            self.send((0, true, "S", [0, 0], 60_000), b"");
            self.send((MS / 10, false, "SA", [0, 1], 60_000), b"");
            self.send((MS / 5, true, "A", [1, 1], 60_000), b"");
        }
        self.send((MS, true, "PA", [1, 1], 60_000), request.as_bytes());
        let mut at_ns = 2 * MS + work_ns;
        let half = RESPONSE_BYTES / 2;
        let first = [head.as_bytes(), &[7; RESPONSE_BYTES / 2]].concat();
        let middle = 1 + first.len() as u32;
        self.send((at_ns, false, "PA", [1, asked], 60_000), &first);
        if unread_ns > 0 {
            self.send((at_ns + MS / 10, true, "A", [asked, middle], 0), b"");
            at_ns += unread_ns;
            self.send((at_ns, true, "A", [asked, middle], 60_000), b"");
        }
        at_ns += MS / 10;
        self.send((at_ns, false, "PA", [middle, asked], 60_000), &vec![7; RESPONSE_BYTES - half]);
        self.send((at_ns + MS / 10, true, "FA", [asked, answered], 60_000), b"");
        self.send((at_ns + MS / 5, false, "FA", [answered, asked + 1], 60_000), b"");
        self.send((at_ns + MS / 2, true, "A", [asked + 1, answered + 1], 60_000), b"");
    }

    /// A name that is looked up, and found.
    fn look_up(&mut self) {
        let resolver = self.address(11);
        let id = (self.count as u16).to_be_bytes();
        let question = [&b"\x01a\x04test\x00"[..], &[0, 1, 0, 1]].concat();
        let query = [&id[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &question].concat();
        let found = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 9];
        let answer = [&id[..], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0], &question, &found].concat();
        let us = [10, 0, 0, 1];
        for (at_ns, hosts, ports, payload) in [
            (0, [us, resolver], (self.port(), 53), query),
            (30 * MS, [resolver, us], (53, self.port()), answer),
        ] {
            let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(hosts[0], hosts[1], 64);
            let mut frame = Vec::new();
            let builder = builder.udp(ports.0, ports.1);
            builder.write(&mut frame, &payload).expect("a packet in memory");
            self.frames_of_interval.push((self.begin_ns() + at_ns, frame));
        }
    }

    fn send(&mut self, (at_ns, is_of_client, flags, numbers, window): Segment<'_>, payload: &[u8]) {
        let fixed = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let [client, server] = match self.kind {
            Kind::Path | Kind::Resolver => fixed,
            Kind::Server => [fixed[0], self.address(11)],
            Kind::MidStream => [self.address(11), self.address(12)],
            Kind::Refused | Kind::ZeroWindow => [self.address(11), fixed[1]],
        };
        let (from, to, ports) = match is_of_client {
            true => (client, server, (self.port(), 80)),
            false => (server, client, (80, self.port())),
        };
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(from, to, 64);
        let mut tcp = builder.tcp(ports.0, ports.1, numbers[0], window);
        for flag in flags.chars() {
            tcp = match flag {
                'S' => tcp.syn(),
                'F' => tcp.fin(),
                'R' => tcp.rst(),
                'P' => tcp.psh(),
                _ => tcp.ack(numbers[1]),
            };
        }
        let mut frame = Vec::new();
        tcp.write(&mut frame, payload).expect("a packet in memory");
        self.frames_of_interval.push((self.begin_ns() + at_ns, frame));
    }

    fn begin_ns(&self) -> u64 {
        1_700_000_000_000_000_000 + u64::from(self.count) * 20 * MS
    }

    fn port(&self) -> u16 {
        10_000 + (self.count % 50_000) as u16
    }

    /// The address of a host of that network which was not there before.
    fn address(&self, network: u8) -> [u8; 4] {
        let [_, high, middle, low] = self.count.to_be_bytes();
        [network, high, middle, low]
    }

    /// A word that was not asked for before: digits would be taken for values.
    fn word(&self) -> String {
        let letter = |place: u32| char::from(b'a' + (self.count / 26_u32.pow(place) % 26) as u8);
        (0..5).map(letter).collect()
    }
}
