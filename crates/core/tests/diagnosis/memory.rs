//! Memory grows with open connections, never with what was.

use crate::language::{Place, parse};
use crate::network::{EPOCH_NS, capture, packets};
use tcpwhy_core::capture::{Block, CaptureSet, Frame, FrameId, LinkType, Source};
use tcpwhy_core::findings::Tally;
use tcpwhy_core::internals::{Sink, Tracker};
use tcpwhy_core::wire::{FlowHasher, Packet, Segment, decode};

/// A tracker that has seen these frames.
pub fn track(tracker: &mut Tracker, tally: &mut impl Sink, frames: &[(u64, Vec<u8>)]) {
    let hasher = FlowHasher::new(7);
    let mut segment = Segment::default();
    for (index, (time_ns, bytes)) in frames.iter().enumerate() {
        let frame = Frame {
            id: FrameId::new(0, index as u64 + 1),
            time_ns: *time_ns,
            original_len: bytes.len() as u32,
            link: LinkType::ETHERNET,
            bytes,
        };
        if let Packet::Tcp = decode(&frame, &hasher, &mut segment) {
            let start = segment.payload_offset as usize;
            let payload = &bytes[start..start + segment.captured_len as usize];
            tracker.segment(&segment, payload, tally);
        }
    }
}

pub fn frames(text: &str, after_ns: u64, port: u16) -> Vec<(u64, Vec<u8>)> {
    packets(&parse(text), Place::Client)
        .into_iter()
        .map(|(time_ns, mut packet)| {
            for end in [&mut packet.source, &mut packet.destination] {
                if end.port() == 40_000 {
                    end.set_port(port);
                }
            }
            (time_ns + after_ns, packet.frame())
        })
        .collect()
}

const CLOSED: &str = r#"
0     > S
+0.06 < S.
+0.06 > .
+0.1  > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
+0.5  < P. "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
+0.06 > F.
+0.06 < F.
+0.06 > .
"#;

#[test]
fn closed_connections_are_let_go() {
    let (mut tracker, mut tally) = (Tracker::default(), Tally::default());
    for index in 0..5_000_u64 {
        let port = 10_000 + (index % 50_000) as u16;
        track(&mut tracker, &mut tally, &frames(CLOSED, index * 10_000_000, port));
        assert!(tracker.open_connections() <= 320, "{}", tracker.open_connections());
    }
    tracker.finish(&mut tally);
    assert_eq!(tracker.open_connections(), 0);
    assert_eq!(tally.connections, 5_000);
}

const OPENED: &str = r#"
0     > S
+0.06 < S.
+0.06 > .
"#;

const ASKED: &str = r#"
+0.1  > P. "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: browser/1.0\r\n\r\n"
"#;

const ANSWERED: &str = r#"
+0.5  < P. "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nContent-Length: 5\r\n\r\nhello"
"#;

/// Memory of an open HTTP connection with a request in progress and both sides named, bytes.
const CONNECTION_BYTES_MAX: usize = 1_400;

#[test]
fn open_connections_take_little_and_no_more_the_longer_they_last() {
    let (mut tracker, mut tally) = (Tracker::default(), Tally::default());
    let text = [OPENED, &[ASKED, ANSWERED].concat().repeat(40), ASKED].concat();
    let ports = 10_000..10_200;
    let conversations: Vec<_> =
        ports.map(|port| frames(&text, u64::from(port) * 1_000, port)).collect();
    let mut bytes = Vec::new();
    for step in 0..conversations[0].len() {
        let frames: Vec<_> = conversations.iter().map(|frames| frames[step].clone()).collect();
        track(&mut tracker, &mut tally, &frames);
        bytes.push(tracker.memory_bytes() / tracker.open_connections());
    }
    let (early, late) = (bytes[5], bytes[bytes.len() - 1]);
    assert!(late <= CONNECTION_BYTES_MAX, "{late} bytes");
    assert_eq!(early, late, "the second request's and the last one's: {bytes:?}");
}

#[test]
fn a_flood_of_half_open_connections_is_bounded() {
    let (mut tracker, mut tally) = (Tracker::default(), Tally::default());
    let established = frames(CLOSED, 0, 9_999);
    track(&mut tracker, &mut tally, &established[..4]);
    for index in 0..20_000_u64 {
        let port = 10_000 + index as u16;
        track(&mut tracker, &mut tally, &frames("0 > S", index * 100_000, port));
        assert!(tracker.open_connections() <= 300);
    }
    let late: Vec<_> =
        established[4..].iter().map(|(at, bytes)| (at + 2_000_000_000, bytes.clone())).collect();
    track(&mut tracker, &mut tally, &late);
    tracker.finish(&mut tally);
    assert_eq!(tally.connections, 20_001, "the legitimate client is still followed");
}

/// Each of many connections has one hole, and 60 KiB behind it.
#[test]
fn payload_behind_holes_has_a_bound_over_all_connections() {
    const SHARE_BYTES: usize = 512 << 10;
    let hole = r#"
        0     > S
        +0.06 < S.
        +0.06 > .
        +0.1  > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        +0.5  < . len 1448 unseen
        +0.01 < . len 60000 each 1500
    "#;
    let (mut tracker, mut tally) = (Tracker::default(), Tally::default());
    tracker.share_early_bytes(16);
    let (mut others, mut held) = (0, 0);
    for index in 0..300_u64 {
        let behind = frames(hole, index * 1_000_000, 10_000 + index as u16);
        track(&mut tracker, &mut tally, &behind);
        if index == 3 {
            assert_eq!(tracker.discarded_bytes(), 0, "4 holes have room");
            held = tracker.memory_bytes();
        }
        others = tracker.open_connections() * 8_192;
    }
    assert!(held > 4 * 60_000, "{held} bytes");
    assert!(tracker.memory_bytes() < SHARE_BYTES + others, "{} bytes", tracker.memory_bytes());
    let given_up = tracker.discarded_bytes() as usize;
    assert!(given_up >= 300 * 60_000 - SHARE_BYTES, "{given_up} bytes were given up");
    tracker.finish(&mut tally);
    assert_eq!(tracker.memory_bytes() / SHARE_BYTES, 0, "nothing is left of what is over");
}

/// Each port is a server, and a report has room for a limited number.
#[test]
fn too_many_servers_share_a_row() {
    const SERVERS: u16 = 5_000;
    let (mut tracker, mut tally) = (Tracker::default(), Tally::default());
    for index in 0..SERVERS {
        let refused = packets(&parse("0 > S\n+0.06 < R."), Place::Client).into_iter();
        let refused: Vec<_> = refused
            .map(|(time_ns, mut packet)| {
                for end in [&mut packet.source, &mut packet.destination] {
                    if end.port() != 40_000 {
                        end.set_port(index + 1);
                    }
                }
                (time_ns + u64::from(index) * 10_000_000, packet.frame())
            })
            .collect();
        track(&mut tracker, &mut tally, &refused);
    }
    tracker.finish(&mut tally);
    let (attempts, told) = (u64::from(SERVERS), tally.endpoints.len() as u64);
    assert!(told < attempts / 2, "{told} servers");
    assert_eq!(tally.connections, attempts);
    let lost = tally.causes.iter().map(|(_, cause)| cause.exchanges).sum::<u64>();
    assert_eq!(lost, attempts, "none of them is lost");
    assert_eq!(tally.notes.crowded, attempts - (told - 1), "and it is said");
}

#[test]
fn frames_of_a_written_trace_are_read_back() {
    let file = capture(&parse(CLOSED), Place::Client);
    let mut set = CaptureSet::new(vec![Source::memory("a", file)]).expect("readable");
    let mut block = Block::default();
    assert!(set.next_block(&mut block).expect("readable"));
    assert_eq!(block.entries.len(), 8);
    assert_eq!(block.entries[0].time_ns, EPOCH_NS);
}
