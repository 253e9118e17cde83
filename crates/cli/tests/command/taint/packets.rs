//! Captures of conversations: whole, from the middle, truncated, with holes, of one direction.

use tcpwhy_core::wire::Side;

pub type Said = (Side, Vec<u8>);

/// How a conversation is captured.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    pub name: &'static str,
    /// Maximum size of a segment.
    pub piece: usize,
    /// Number of first segments that are missing, with the handshake, and of bytes of the next.
    pub begins: Option<(usize, usize)>,
    /// Number of captured bytes of a packet.
    pub snap: usize,
    /// Only what this side sends was captured.
    pub only: Option<Side>,
    /// Each segment of this number is missing.
    pub loses: Option<usize>,
}

const WHOLE: Capture =
    Capture { name: "whole", piece: 1400, begins: None, snap: 65_535, only: None, loses: None };

pub const CAPTURES: [Capture; 10] = [
    WHOLE,
    Capture { name: "pieces", piece: 7, ..WHOLE },
    Capture { name: "middle-5", begins: Some((0, 5)), ..WHOLE },
    Capture { name: "middle-1", begins: Some((1, 0)), ..WHOLE },
    Capture { name: "middle-1-30", begins: Some((1, 30)), ..WHOLE },
    Capture { name: "middle-pieces", piece: 11, begins: Some((3, 2)), ..WHOLE },
    Capture { name: "snap", snap: 100, ..WHOLE },
    Capture { name: "client", only: Some(Side::Client), ..WHOLE },
    Capture { name: "server", only: Some(Side::Server), ..WHOLE },
    Capture { name: "holes", piece: 40, loses: Some(3), ..WHOLE },
];

/// A packet with its time.
pub struct Packet {
    pub time_us: u64,
    pub bytes: Vec<u8>,
}

const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

/// Returns the packets of a conversation of the client `number` with `port`.
pub fn packets(number: u8, port: u16, said: &[Said], how: &Capture) -> Vec<Packet> {
    // Equal numbers would look like one connection before and behind an address translation.
    let first = [1, 2].map(|side| u32::from(number) * 7_654_321 + side * 1_234_567);
    let mut next = first;
    let mut all = Vec::new();
    let mut time_us = 1_000_000 + u64::from(number) * 1_000;
    let mut send = |side: Side, flags: u8, numbers: [u32; 2], time_us: u64, payload: &[u8]| {
        if how.only.is_none_or(|only| only == side) {
            all.push(Packet { time_us, bytes: tcp(number, port, side, flags, numbers, payload) });
        }
    };
    if how.begins.is_none() {
        let [client, server] = first;
        send(Side::Client, SYN, [client - 1, 0], time_us, b"");
        send(Side::Server, SYN | ACK, [server - 1, client], time_us + 10_000, b"");
        send(Side::Client, ACK, [client, server], time_us + 10_100, b"");
    }
    let (skipped, cut) = how.begins.unwrap_or_default();
    let mut count = 0;
    for (side, bytes) in said {
        let (this, peer) = (*side as usize, side.peer() as usize);
        // The server answers after a wait that is worth a finding.
        time_us += if *side == Side::Server { 400_000 } else { 20_000 };
        for piece in bytes.chunks(how.piece) {
            let begin = if count == skipped { cut.min(piece.len()) } else { 0 };
            let is_lost = how.loses.is_some_and(|every| count % every == every - 1);
            if count >= skipped && !is_lost {
                let numbers = [next[this].wrapping_add(begin as u32), next[peer]];
                send(*side, PUSH | ACK, numbers, time_us, &piece[begin..]);
            }
            next[this] = next[this].wrapping_add(piece.len() as u32);
            time_us += 50;
            count += 1;
        }
        send(side.peer(), ACK, [next[peer], next[this]], time_us + 100, b"");
    }
    all
}

fn sum(bytes: &[u8]) -> u32 {
    let words =
        bytes.chunks(2).map(|it| u32::from(it[0]) << 8 | it.get(1).map_or(0, |&low| low.into()));
    words.sum()
}

fn folded(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn tcp(client: u8, port: u16, from: Side, flags: u8, numbers: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let ports = [40_000 + u16::from(client), port];
    let (one, other) = if from == Side::Client { (0, 1) } else { (1, 0) };
    let mut segment = [ports[one].to_be_bytes(), ports[other].to_be_bytes()].concat();
    segment.extend(numbers.iter().flat_map(|it| it.to_be_bytes()));
    segment.extend([5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    ip(client, from, 6, 16, segment)
}

/// Returns a datagram between the client and `port`.
pub fn udp(client: u8, port: u16, from: Side, payload: &[u8]) -> Vec<u8> {
    let ports = [40_000 + u16::from(client), port];
    let (one, other) = if from == Side::Client { (0, 1) } else { (1, 0) };
    let mut datagram = [ports[one].to_be_bytes(), ports[other].to_be_bytes()].concat();
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ip(client, from, 17, 6, datagram)
}

/// Returns an IPv4 packet, with the checksum of its content at `sum_at`.
pub fn ip(client: u8, from: Side, protocol: u8, sum_at: usize, mut content: Vec<u8>) -> Vec<u8> {
    let ends = [[10, 1, 0, client], [10, 2, 0, client]];
    let (one, other) = if from == Side::Client { (0, 1) } else { (1, 0) };
    let addresses = [ends[one], ends[other]].concat();
    let pseudo = if protocol == 1 {
        0
    } else {
        sum(&addresses) + u32::from(protocol) + content.len() as u32
    };
    let checksum = folded(pseudo + sum(&content));
    content[sum_at..sum_at + 2].copy_from_slice(&checksum);
    let total = (20 + content.len() as u16).to_be_bytes();
    let mut header = vec![0x45, 0, total[0], total[1], 0, 1, 0x40, 0, 64, protocol, 0, 0];
    header.extend(addresses);
    let checksum = folded(sum(&header));
    header[10..12].copy_from_slice(&checksum);
    [header, content].concat()
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = (12 + padded as u32).to_le_bytes();
    let mut block = [&kind.to_le_bytes()[..], &length, body].concat();
    block.resize(8 + padded, 0);
    block.extend(length);
    block
}

fn option(code: u16, text: &str) -> Vec<u8> {
    let mut option = [code.to_le_bytes(), (text.len() as u16).to_le_bytes()].concat();
    option.extend(text.bytes());
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

/// Writes packets of raw IP as pcapng, with `texts` as the comments, the programs and the names that
/// its blocks may carry.
pub fn pcapng(packets: &[Packet], snap: usize, texts: &[String; 4]) -> Vec<u8> {
    let [comment, program, interface, packet_comment] = texts;
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let mut file = block(0x0a0d_0d0a, &[section, option(1, comment), option(4, program)].concat());
    let link = [101, 0, 0, 0, 0, 0, 0, 0];
    file.extend(block(1, &[&link[..], &option(2, interface), &option(3, interface)].concat()));
    for Packet { time_us, bytes } in packets {
        let kept = bytes.len().min(snap);
        let words = [0, (time_us >> 32) as u32, *time_us as u32, kept as u32, bytes.len() as u32];
        let mut body: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
        body.extend(&bytes[..kept]);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(option(1, packet_comment));
        file.extend(block(6, &body));
    }
    file
}

/// Returns what a pcapng file holds beside the bytes of the packets.
pub fn beside_packets(file: &[u8]) -> Vec<u8> {
    let word =
        |at: usize| file.get(at..).and_then(<[u8]>::first_chunk).map(|it| u32::from_le_bytes(*it));
    let (mut at, mut rest) = (0, Vec::new());
    while let (Some(kind), Some(length)) = (word(at), word(at + 4)) {
        let end = at + length as usize;
        let kept = if kind == 6 {
            word(at + 20).map_or(0, |it| it as usize).next_multiple_of(4)
        } else {
            0
        };
        let begin = if kind == 6 { at + 28 + kept } else { at };
        rest.extend(&file[begin..end]);
        at = end;
    }
    rest
}
