//! Writes large captures to standard output, to see how time and memory grow.
//!
//! `multiply repeat CAPTURE PACKETS`: the capture over and over, later and from other clients.
//! `multiply open CONNECTIONS PACKETS`: so many connections open at once, with requests in turn.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, StdoutLock, Write, stdout};
use tcpwhy_core::capture::{Block, CaptureSet, LinkType, Source};

const NS_PER_S: u64 = 1_000_000_000;
const ETHERNET_LEN: usize = 14;
/// Ethernet, IPv4 and TCP headers without options.
const HEADERS_LEN: usize = ETHERNET_LEN + 20 + 20;
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nHost: server\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour";

/// A pcap file with nanoseconds under way.
struct Pcap {
    out: BufWriter<StdoutLock<'static>>,
    packets: u64,
}

impl Pcap {
    fn new(link: LinkType) -> Result<Self, Box<dyn Error>> {
        let mut out = BufWriter::with_capacity(1 << 20, stdout().lock());
        let header: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 262_144, link.0.into()];
        for word in header {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Self { out, packets: 0 })
    }

    fn packet(&mut self, time_ns: u64, parts: &[&[u8]], len: u32) -> Result<(), Box<dyn Error>> {
        let captured: usize = parts.iter().map(|part| part.len()).sum();
        let (seconds, fraction) = (time_ns / NS_PER_S, time_ns % NS_PER_S);
        for word in [seconds as u32, fraction as u32, captured as u32, len] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        for part in parts {
            self.out.write_all(part)?;
        }
        self.packets += 1;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["repeat", capture, packets] => repeat(capture, packets.parse()?),
        ["open", connections, packets] => open(connections.parse()?, packets.parse()?),
        _ => {
            Err("usage: multiply repeat CAPTURE PACKETS | multiply open CONNECTIONS PACKETS".into())
        }
    }
}

fn repeat(capture: &str, packets: u64) -> Result<(), Box<dyn Error>> {
    let open = || {
        let opened = capture.to_owned();
        CaptureSet::new(vec![Source::file(capture, None, move || File::open(&opened))])
    };
    let mut block = Block::default();
    open()?.next_block(&mut block)?;
    let link = block.frames().next().ok_or("the capture has no frame")?.link;
    let ip_at = match link {
        LinkType::ETHERNET => ETHERNET_LEN,
        LinkType::RAW => 0,
        LinkType(other) => {
            return Err(format!("captures of link type {other} are not repeated").into());
        }
    };
    let mut pcap = Pcap::new(link)?;
    let (mut shift_ns, mut round) = (0, 0_u8);
    loop {
        let mut set = open()?;
        let mut last_ns = 0;
        let first_ns = set.first_ns().unwrap_or(0);
        while set.next_block(&mut block)? {
            for frame in block.frames() {
                if pcap.packets == packets {
                    return Ok(());
                }
                let mut head = [0; HEADERS_LEN];
                let head_len = frame.bytes.len().min(HEADERS_LEN);
                head[..head_len].copy_from_slice(&frame.bytes[..head_len]);
                move_client(&mut head[ip_at..], round);
                let parts = [&head[..head_len], &frame.bytes[head_len..]];
                pcap.packet(frame.time_ns + shift_ns, &parts, frame.original_len)?;
                last_ns = last_ns.max(frame.time_ns);
            }
        }
        shift_ns += last_ns - first_ns + NS_PER_S;
        // The client of 256 rounds before has closed its connections long ago.
        round = round.wrapping_add(1);
    }
}

/// Gives the end with the greater port another address in each round. `head` begins with an IPv4 header
/// without options.
fn move_client(head: &mut [u8], round: u8) {
    let from_client = head[20..22] > head[22..24];
    let address = if from_client { 12 } else { 16 };
    head[address + 2] = head[address + 2].wrapping_add(round);
}

/// One side's next segment.
struct ScriptedSegment {
    from_client: bool,
    flags: u8,
    seq: u32,
    ack: u32,
    payload: &'static [u8],
}

/// Connections with a request under way at once; the others are open and idle.
const BUSY: u32 = 1_000;

/// All are set up, one after the other; then each asks, is answered and acknowledges that, in
/// turn.
fn open(connections: u32, packets: u64) -> Result<(), Box<dyn Error>> {
    let mut pcap = Pcap::new(LinkType::ETHERNET)?;
    let (request_len, response_len) = (REQUEST.len() as u32, RESPONSE.len() as u32);
    let mut time_ns = 1_700_000_000 * NS_PER_S;
    let mut say = |connection: u32, step: &ScriptedSegment| -> Result<bool, Box<dyn Error>> {
        time_ns += 1_000;
        let headers = headers(connection, step);
        let len = HEADERS_LEN + step.payload.len();
        pcap.packet(time_ns, &[&headers, step.payload], len as u32)?;
        Ok(pcap.packets == packets)
    };
    let step = |from_client, flags, seq, ack, payload| ScriptedSegment {
        from_client,
        flags,
        seq,
        ack,
        payload,
    };
    for connection in 0..connections {
        for step in [
            step(true, SYN, 0, 0, &[]),
            step(false, SYN | ACK, 0, 1, &[]),
            step(true, ACK, 1, 1, &[]),
        ] {
            if say(connection, &step)? {
                return Ok(());
            }
        }
    }
    for turn in 0_u32.. {
        let (asked, answered) = (1 + turn * request_len, 1 + turn * response_len);
        let exchange = [
            step(true, PSH | ACK, asked, answered, REQUEST),
            step(false, PSH | ACK, answered, asked + request_len, RESPONSE),
            step(true, ACK, asked + request_len, answered + response_len, &[]),
        ];
        for first in (0..connections).step_by(BUSY as usize) {
            let busy = first..connections.min(first + BUSY);
            for (step, connection) in
                exchange.iter().flat_map(|step| busy.clone().map(move |it| (step, it)))
            {
                if say(connection, step)? {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn headers(connection: u32, step: &ScriptedSegment) -> [u8; HEADERS_LEN] {
    let [high, low] = ((connection >> 15) as u16).to_be_bytes();
    let client = ([10, 1, high, low], 0x8000 | (connection & 0x7fff) as u16);
    let server = ([10, 0, 0, 1], 80_u16);
    let (source, destination) = if step.from_client { (client, server) } else { (server, client) };
    let total_len = (HEADERS_LEN - 14 + step.payload.len()) as u16;
    let mut headers = [0; HEADERS_LEN];
    headers[12..14].copy_from_slice(&[0x08, 0x00]);
    headers[14] = 0x45;
    headers[16..18].copy_from_slice(&total_len.to_be_bytes());
    headers[22..24].copy_from_slice(&[64, 6]);
    headers[26..30].copy_from_slice(&source.0);
    headers[30..34].copy_from_slice(&destination.0);
    headers[34..36].copy_from_slice(&source.1.to_be_bytes());
    headers[36..38].copy_from_slice(&destination.1.to_be_bytes());
    headers[38..42].copy_from_slice(&step.seq.to_be_bytes());
    headers[42..46].copy_from_slice(&step.ack.to_be_bytes());
    headers[46] = 5 << 4;
    headers[47] = step.flags;
    headers[48..50].copy_from_slice(&60_000_u16.to_be_bytes());
    headers
}
