//! The counts that tshark and tcptrace also make, on the same captures: equal, or different for a
//! reason that `docs/agreement.md` explains. `testdata/oracle.sh` keeps what they said.

mod differences;

use differences::DIFFERENCES;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tcpwhy_core::app::Side;
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::report::DirectionReport;
use tcpwhy_core::tcp::{Connection, Exchange, Sink, Tracker};
use tcpwhy_core::wire::{FlowHasher, Packet, Segment, decode};

/// File, sender and receiver of a direction.
type Direction = (String, String, String);

/// A tool's counts by their names in `testdata/oracle/`.
type Counts = HashMap<String, f64>;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// What a tool said.
fn oracle(tool: &str) -> HashMap<Direction, Counts> {
    let path = testdata().join(format!("oracle/{tool}.txt"));
    let text = std::fs::read_to_string(path).expect("the oracle's file");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| direction(line).expect("a direction and its counts")).collect()
}

fn direction(line: &str) -> Option<(Direction, Counts)> {
    let mut words = line.split(' ').map(str::to_owned);
    let direction = (words.next()?, words.next()?, words.next()?);
    let counts = words.map(|word| {
        let (name, count) = word.split_once('=')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    Some((direction, counts.collect::<Option<_>>()?))
}

/// Keeps the counts of every connection.
#[derive(Default)]
struct Ours {
    file: String,
    directions: HashMap<Direction, DirectionReport>,
}

impl Sink for Ours {
    fn exchange(&mut self, _: &Connection, _: &Exchange) {}

    fn connection(&mut self, connection: &Connection) {
        let (client, server) = (connection.client().to_string(), connection.server().to_string());
        let both = [(Side::Client, &client, &server), (Side::Server, &server, &client)];
        for (side, sender, receiver) in both {
            // What its ACKs said is kept with the data that they were for.
            let acks = connection.halves[side.peer() as usize].counts;
            let counts = DirectionReport {
                duplicate_acks: acks.duplicate_acks,
                zero_window_advertisements: acks.zero_window_advertisements,
                ..connection.halves[side as usize].counts
            };
            let direction = (self.file.clone(), sender.clone(), receiver.clone());
            self.directions.insert(direction, counts);
        }
    }
}

fn ours() -> HashMap<Direction, DirectionReport> {
    let mut sink = Ours::default();
    let captures = std::fs::read_dir(testdata().join("captures")).expect("captures");
    for entry in captures {
        let path = entry.expect("a capture").path();
        sink.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).expect("a capture");
        let source = Source::memory(sink.file.clone(), bytes);
        follow(&mut CaptureSet::new(vec![source]).expect("a capture"), &mut sink);
    }
    sink.directions
}

fn follow(capture: &mut CaptureSet, sink: &mut Ours) {
    let (hasher, mut tracker) = (FlowHasher::new(1), Tracker::default());
    let (mut block, mut segment) = (Block::default(), Segment::default());
    while capture.next_block(&mut block).expect("a readable capture") {
        for frame in block.frames() {
            if let Packet::Tcp = decode(&frame, &hasher, &mut segment) {
                let start = segment.payload_offset as usize;
                let payload = &frame.bytes[start..start + segment.captured_len as usize];
                tracker.segment(&segment, payload, sink);
            }
        }
    }
    tracker.finish(sink);
}

/// A count of ours, and the tool's that must equal it.
type Comparison = (&'static str, fn(&DirectionReport) -> u64, &'static str);

const TSHARK: &[Comparison] = &[
    ("packets", |ours| ours.packets, "packets"),
    ("bytes", |ours| ours.actual_data_bytes, "bytes"),
    ("retransmitted", |ours| ours.rexmt_data_packets, "retransmission"),
    ("fast", |ours| ours.fast_retransmissions, "fast_retransmission"),
    ("spurious", |ours| ours.spurious_retransmissions, "spurious_retransmission"),
    ("out_of_order", |ours| ours.out_of_order_packets, "out_of_order"),
    ("duplicate_acks", |ours| ours.duplicate_acks, "duplicate_ack"),
    ("zero_windows", |ours| ours.zero_window_advertisements, "zero_window"),
];

const TCPTRACE: &[Comparison] = &[
    ("packets", |ours| ours.packets, "packets"),
    ("bytes", |ours| ours.actual_data_bytes, "bytes"),
    ("unique_bytes", |ours| ours.unique_bytes, "unique_bytes"),
    ("retransmitted", |ours| ours.rexmt_data_packets, "rexmt"),
    ("out_of_order", |ours| ours.out_of_order_packets, "out_of_order"),
    ("zero_windows", |ours| ours.zero_window_advertisements, "zero_window"),
];

/// File, tool, count, ours, theirs.
type Different = (String, &'static str, &'static str, u64, u64);

/// All differences, in a fixed order.
fn differences(tool: &'static str, comparisons: &[Comparison]) -> Vec<Different> {
    let (theirs, ours) = (oracle(tool), ours());
    let mut different = Vec::new();
    for (direction, theirs) in &theirs {
        let Some(ours) = ours.get(direction) else {
            different.push((direction.0.clone(), tool, "connections", 0, 1));
            continue;
        };
        for (name, count, their_name) in comparisons {
            let (ours, theirs) = (count(ours), theirs.get(*their_name).copied().unwrap_or(0.0));
            if ours != theirs as u64 {
                different.push((direction.0.clone(), tool, *name, ours, theirs as u64));
            }
        }
    }
    different.sort();
    different
}

#[test]
fn every_difference_is_explained() {
    let found = [differences("tcptrace", TCPTRACE), differences("tshark", TSHARK)].concat();
    let found: Vec<_> = found
        .iter()
        .map(|(file, tool, name, ours, theirs)| (file.as_str(), *tool, *name, *ours, *theirs))
        .collect();
    let explained: Vec<_> = DIFFERENCES.iter().flat_map(|(_, list)| *list).copied().collect();
    for one in &found {
        assert!(explained.contains(one), "not in docs/agreement.md: {one:?}");
    }
    for one in &explained {
        assert!(found.contains(one), "no longer different: {one:?}");
    }
}

/// tcptrace prints tenths of a millisecond, and takes the handshake's sample and the FIN's, too;
/// ours are of data alone. So ours is never the lesser, and greater only where data was answered
/// later than those.
#[test]
fn round_trips_of_data_agree_with_tcptrace() {
    let (theirs, ours) = (oracle("tcptrace"), ours());
    let (mut equal, mut greater) = (0, 0);
    for (direction, theirs) in &theirs {
        let (Some(ours), Some(least)) = (ours.get(direction), theirs.get("rtt_min_ms")) else {
            continue;
        };
        let tenths = (ours.rtt_min_ns + 50_000) / 100_000;
        let their_tenths = (least * 10.0).round() as u64;
        assert!(tenths >= their_tenths || tenths == 0, "{direction:?}: {tenths} {their_tenths}");
        equal += u32::from(tenths == their_tenths);
        greater += u32::from(tenths > their_tenths);
    }
    assert!(equal > 3 * greater, "equal {equal}, greater {greater}");
}
