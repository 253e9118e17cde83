//! Handshakes as text: each datagram is built and sealed as its sender does it.

mod hostile;
mod ledgers;
mod reading;

use super::carried::Carried;
use super::tracker::Tracker;
use crate::capture::FrameId;
use crate::keys::{InitialKeys, QuicVersion};
use crate::model::quic::{Handshake, Part};
use crate::wire::{Endpoint, Side};

const MS: u64 = 1_000_000;
/// The connection ID that the client chooses for the server at first.
const FIRST_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
const CLIENT_ID: [u8; 4] = [0xc1; 4];
const SERVER_ID: [u8; 8] = [0x5e; 8];

fn endpoint(last: u8, port: u16) -> Endpoint {
    let mut address = [0; 16];
    address[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, last]);
    Endpoint { address, port }
}

fn client() -> Endpoint {
    endpoint(1, 50_000)
}

fn server() -> Endpoint {
    endpoint(2, 443)
}

/// A ClientHello that names `example.org` and offers h3.
fn client_hello() -> Vec<u8> {
    let extensions = [
        &b"\0\0\0\x10\0\x0e\0\0\x0bexample.org"[..],
        b"\0\x10\0\x05\0\x03\x02h3",
        b"\0\x2b\0\x03\x02\x03\x04",
    ]
    .concat();
    let fixed = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    message(1, &[&fixed[..], &(extensions.len() as u16).to_be_bytes(), &extensions].concat())
}

fn server_hello() -> Vec<u8> {
    message(2, &[&[3, 3][..], &[9; 32], &[0, 0x13, 1, 0, 0, 6, 0, 43, 0, 2, 3, 4]].concat())
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

fn crypto(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let wide = |number: usize| (number as u16 | 0x4000).to_be_bytes();
    [&[6][..], &wide(offset), &wide(bytes.len()), bytes].concat()
}

fn ack(first: u8, last: u8) -> Vec<u8> {
    vec![2, last, 0, 0, last - first]
}

/// A conversation, whose datagrams are added in the order of their capture.
struct Talk {
    version: QuicVersion,
    /// The ID from which the keys follow.
    key_id: Vec<u8>,
    /// The ID of the server for its client.
    to_server: Vec<u8>,
    token: Vec<u8>,
    datagrams: Vec<Carried>,
}

impl Talk {
    fn new() -> Self {
        Self {
            version: QuicVersion::V1,
            key_id: FIRST_ID.to_vec(),
            to_server: FIRST_ID.to_vec(),
            token: Vec::new(),
            datagrams: Vec::new(),
        }
    }

    /// A long header up to the length field.
    fn header(&self, from: Side, kind: u8) -> Vec<u8> {
        let place = match self.version {
            QuicVersion::V1 => kind,
            QuicVersion::V2 => (kind + 1) & 3,
        };
        let (to, own): (&[u8], &[u8]) = match from {
            Side::Client => (&self.to_server, &CLIENT_ID),
            Side::Server => (&CLIENT_ID, &SERVER_ID),
        };
        let mut header = vec![0xc0 | place << 4];
        header.extend(self.version.number().to_be_bytes());
        header.push(to.len() as u8);
        header.extend(to);
        header.push(own.len() as u8);
        header.extend(own);
        header
    }

    /// An Initial packet, padded to `bytes` in all.
    fn initial(&self, from: Side, number: u8, frames: &[u8], bytes: usize) -> Vec<u8> {
        let mut packet = self.header(from, 0);
        let token = if from == Side::Client { &self.token[..] } else { &[] };
        packet.push(token.len() as u8);
        packet.extend(token);
        let room = bytes.saturating_sub(packet.len() + 2 + 1 + 16).max(frames.len()).max(4);
        packet.extend((0x4000 | (room + 17) as u16).to_be_bytes());
        let number_at = packet.len();
        packet.push(number);
        packet.extend(frames);
        packet.resize(number_at + 1 + room + 16, 0);
        let keys = InitialKeys::new(self.version, &self.key_id).expect("keys");
        let keys = if from == Side::Client { keys.client } else { keys.server };
        keys.seal(&mut packet, number_at, u64::from(number)).expect("room");
        packet
    }

    /// A Handshake packet of `bytes` in all.
    fn handshake(&self, from: Side, bytes: usize) -> Vec<u8> {
        let mut packet = self.header(from, 2);
        let rest = bytes - packet.len() - 2;
        packet.extend((0x4000 | rest as u16).to_be_bytes());
        packet.resize(bytes, 0x5a);
        packet
    }

    /// A packet with a short header of `bytes` in all.
    fn short(&self, from: Side, bytes: usize) -> Vec<u8> {
        let id: &[u8] = if from == Side::Client { &SERVER_ID } else { &CLIENT_ID };
        let mut packet = [&[0x41], id].concat();
        packet.resize(bytes, 0x3c);
        packet
    }

    /// Adds a datagram of these packets.
    fn send(&mut self, from: Side, time_ns: u64, packets: &[Vec<u8>]) {
        let payload = packets.concat();
        let (source, destination) = match from {
            Side::Client => (client(), server()),
            Side::Server => (server(), client()),
        };
        self.datagrams.push(Carried {
            time_ns,
            frame: FrameId::new(0, self.datagrams.len() as u64 + 1),
            source,
            destination,
            payload_bytes: payload.len() as u32,
            payload: payload.into(),
        });
    }

    /// The client's first datagram, or its repetition.
    fn hello(&mut self, time_ns: u64, number: u8) {
        let packet = self.initial(Side::Client, number, &crypto(0, &client_hello()), 1200);
        self.send(Side::Client, time_ns, &[packet]);
    }

    /// The server's first datagram: ServerHello with an ACK of one packet, and the rest in Handshake packets.
    fn answer(&mut self, time_ns: u64, number: u8, acked: u8, bytes: usize) {
        let frames = [ack(acked, acked), crypto(0, &server_hello())].concat();
        let initial = self.initial(Side::Server, number, &frames, 0);
        let rest = bytes - initial.len();
        let handshake = self.handshake(Side::Server, rest);
        self.send(Side::Server, time_ns, &[initial, handshake]);
    }

    /// The end: the client acknowledges packet 0, finishes, and sends a first request.
    fn finish(&mut self, time_ns: u64) {
        self.to_server = SERVER_ID.to_vec();
        let initial = self.initial(Side::Client, 9, &ack(0, 0), 0);
        let handshake = self.handshake(Side::Client, 90);
        let short = self.short(Side::Client, 1100);
        self.send(Side::Client, time_ns, &[initial, handshake, short]);
    }

    fn handshakes(&self) -> Vec<Handshake> {
        let mut tracker = Tracker::new(true);
        self.datagrams.iter().for_each(|it| tracker.datagram(it));
        tracker.take_all()
    }

    /// The only handshake, whose parts sum to its time.
    fn result(&self) -> Handshake {
        let [handshake] = &self.handshakes()[..] else { panic!("not one connection") };
        assert_eq!(handshake.parts.total_ns(), handshake.wall_ns(), "{handshake:?}");
        handshake.clone()
    }
}

/// The parts in ms that are not zero.
fn parts(handshake: &Handshake) -> Vec<(Part, u64)> {
    let of = |part| (part, handshake.parts.of(part) / MS);
    Part::ALL.into_iter().map(of).filter(|(_, ms)| *ms > 0).collect()
}
