//! The counts that tshark and tcptrace also make, on the same captures: equal, or different for a
//! reason that `docs/agreement.md` explains. `testdata/oracle.sh` keeps what they said.

mod differences;

use differences::{DIFFERENCES, ROUND_TRIPS};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tcpwhy_core::capture::{CaptureSet, Source};
use tcpwhy_core::model::DirectionReport;
use tcpwhy_core::pipeline::{Analysis, Options};

/// File, sender and receiver of a direction.
type Direction = (String, String, String);

/// A tool's counts by their names in `testdata/oracle/`.
type Counts = HashMap<String, f64>;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// Returns the counts of another tool.
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

/// Returns the counts of the reports for every direction.
fn ours() -> HashMap<Direction, DirectionReport> {
    let mut directions = HashMap::new();
    let captures = std::fs::read_dir(testdata().join("captures")).expect("captures");
    for entry in captures {
        let path = entry.expect("a capture").path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = Source::memory(file.clone(), std::fs::read(&path).expect("a capture"));
        let mut capture = CaptureSet::new(vec![source]).expect("a capture");
        let mut analysis = Analysis::new(Options::default());
        analysis.run(&mut capture, &mut |_| true).expect("a readable capture");
        for connection in analysis.finish(capture.inputs()).connections {
            let (client, server) = (connection.client.to_string(), connection.server.to_string());
            let there = (file.clone(), client.clone(), server.clone());
            directions.insert(there, connection.client_to_server);
            directions.insert((file.clone(), server, client), connection.server_to_client);
        }
    }
    directions
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

#[test]
fn least_round_trips_agree_with_tcptrace() {
    let (theirs, ours) = (oracle("tcptrace"), ours());
    let (mut different, mut compared) = (Vec::new(), 0);
    for (direction, theirs) in &theirs {
        let (Some(ours), Some(least_ms)) = (ours.get(direction), theirs.get("rtt_min_ms")) else {
            continue;
        };
        // tcptrace prints tenths of a millisecond.
        let tenths = (ours.rtt_min_ns + 50_000) / 100_000;
        let their_tenths = (least_ms * 10.0).round() as u64;
        compared += 1;
        if tenths != their_tenths {
            different.push((direction.0.as_str(), tenths, their_tenths));
        }
    }
    different.sort_unstable();
    assert!(compared > 100, "{compared}");
    assert_eq!(different, ROUND_TRIPS);
}
