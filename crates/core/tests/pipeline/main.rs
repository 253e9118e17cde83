//! The result does not depend on the number of threads or on how the capture is cut into blocks.

mod sliding;
mod steady;
mod wire;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use std::thread;
use tcpwhy_core::capture::{CaptureSet, Source};
use tcpwhy_core::filter::Filter;
use tcpwhy_core::model::{Owner, Report};
use tcpwhy_core::pipeline::{Analysis, Options, Pass};

const CONNECTIONS: u32 = 300;
const TURNS: u32 = 12;

/// Requests in turn on many connections, every fifth of which waits 40 ms for its answers.
fn capture() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for step in 0..3 + 2 * TURNS {
        for connection in 0..CONNECTIONS {
            let slow_ns = if connection % 5 == 0 { 40_000_000 } else { 0 };
            let time_ns = step * 90_000_000 + connection * 10_000 + slow_ns * (step % 2);
            packet(&mut bytes, time_ns, connection, step);
        }
    }
    bytes
}

fn packet(bytes: &mut Vec<u8>, time_ns: u32, connection: u32, step: u32) {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let response = [&b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"[..], &[7; 900]].concat();
    let turn = step.saturating_sub(3) / 2;
    let asked = 1 + turn * request.len() as u32;
    let answered = 1 + turn * response.len() as u32;
    let from_client = step != 1 && (step < 3 || step % 2 == 1);
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (source, destination) = if from_client { (client, server) } else { (server, client) };
    let port = 20_000 + connection as u16;
    let ports = if from_client { (port, 80) } else { (80, port) };
    let (seq, ack, payload): (u32, u32, &[u8]) = match step {
        0 => (0, 0, b""),
        1 => (0, 1, b""),
        2 => (1, 1, b""),
        _ if from_client => (asked, answered, request),
        _ => (answered, asked + request.len() as u32, &response),
    };
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(source, destination, 64);
    let mut tcp = builder.tcp(ports.0, ports.1, seq, 60_000);
    if step < 2 {
        tcp = tcp.syn();
    }
    if step > 0 {
        tcp = tcp.ack(ack);
    }
    let mut frame = Vec::new();
    tcp.write(&mut frame, payload).expect("a packet in memory");
    let len = frame.len() as u32;
    for word in [1 + time_ns / 1_000_000_000, time_ns % 1_000_000_000, len, len] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&frame);
}

fn report(capture: &[u8], threads: usize, block_bytes: usize, seed: u64) -> Report {
    report_with(capture, threads, block_bytes, Options { seed, ..Options::default() })
}

fn report_with(capture: &[u8], threads: usize, block_bytes: usize, options: Options) -> Report {
    let source = Source::memory("capture", capture);
    let mut set = CaptureSet::new(vec![source]).expect("a capture");
    set.set_block_bytes(block_bytes);
    let mut analysis = Analysis::new(options);
    let mut go_on = |_: &CaptureSet| true;
    let complete = if threads == 0 {
        analysis.run(&mut set, &mut go_on)
    } else {
        let pass = Pass::new(&mut analysis, &mut set, &mut go_on);
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| pass.work()))));
        pass.finish()
    };
    assert!(complete.expect("a readable capture"));
    analysis.finish(set.inputs())
}

#[test]
fn threads_and_blocks_do_not_show_in_the_answer() {
    let capture = capture();
    let alone = report(&capture, 0, 1 << 20, 0);
    assert_eq!(alone.totals.connections, u64::from(CONNECTIONS));
    assert_eq!(alone.totals.exchanges, u64::from(CONNECTIONS * TURNS));
    for (threads, block_bytes) in [(0, 64 << 10), (1, 64 << 10), (2, 64 << 10), (5, 100_000)] {
        let other = report(&capture, threads, block_bytes, 0);
        assert_eq!(format!("{other:?}"), format!("{alone:?}"), "{threads} threads");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn the_seed_of_the_flow_hash_does_not_show_in_the_answer(seed: u64) {
        let capture = capture();
        let expected = report(&capture, 0, 1 << 20, 0);
        let other = report(&capture, 2, 100_000, seed);
        prop_assert_eq!(format!("{other:?}"), format!("{expected:?}"));
    }
}

#[test]
fn a_pass_ends_after_the_block_that_was_the_last_one_wanted() {
    let capture = capture();
    let mut set =
        CaptureSet::new(vec![Source::memory("capture", &capture[..])]).expect("a capture");
    set.set_block_bytes(64 << 10);
    let mut analysis = Analysis::new(Options::default());
    let mut blocks = 0;
    let mut go_on = |_: &CaptureSet| {
        blocks += 1;
        blocks < 3
    };
    let pass = Pass::new(&mut analysis, &mut set, &mut go_on);
    thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(|| pass.work()))));
    assert!(!pass.finish().expect("a readable capture"));
    let segments = analysis.finish(set.inputs()).totals.segments;
    assert!(segments > 0 && segments < u64::from(CONNECTIONS * (3 + 2 * TURNS)));
    assert_eq!(blocks, 3);
}

/// The report of what happened in a part of the capture.
fn within(capture: &[u8], filter: &str) -> Report {
    let filter = Filter::parse(filter).expect("a filter");
    let options = Options { filter, first_ns: 1_000_000_000, ..Options::default() };
    report_with(capture, 0, 1 << 20, options)
}

#[test]
fn a_time_range_reports_its_exchanges_as_the_whole_capture_does() {
    let capture = capture();
    let whole = report(&capture, 0, 1 << 20, 0);
    // Between two exchanges of each connection.
    let (before, after) = (within(&capture, "before +445ms"), within(&capture, "after +445ms"));
    assert_eq!(before.totals.exchanges, u64::from(CONNECTIONS));
    assert_eq!(before.totals.exchanges + after.totals.exchanges, whole.totals.exchanges);
    assert_eq!(before.totals.segments + after.totals.segments, whole.totals.segments);
    for &owner in Owner::ALL {
        let told = before.ledger.of(owner) + after.ledger.of(owner);
        assert_eq!(told, whole.ledger.of(owner), "{}", owner.id());
    }
    assert_eq!(after.totals.connections, u64::from(CONNECTIONS));
    assert!(after.observations.iter().all(|it| it.id != "mid_stream_start"));
    assert!(whole.totals.window.is_none() && after.totals.window.is_some());
}

#[test]
fn what_is_under_way_at_the_edge_of_a_time_range_counts_as_a_whole() {
    let capture = capture();
    // In the middle of the second exchange of each connection.
    let (before, after) = (within(&capture, "before +500ms"), within(&capture, "after +500ms"));
    assert_eq!(before.totals.exchanges, u64::from(2 * CONNECTIONS));
    assert_eq!(after.totals.exchanges, u64::from((TURNS - 1) * CONNECTIONS));
    let nothing = within(&capture, "after +1h");
    assert_eq!((nothing.totals.connections, nothing.totals.exchanges), (0, 0));
}
