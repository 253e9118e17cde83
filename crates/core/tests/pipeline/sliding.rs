//! A diagnosis without end says of all it saw what a diagnosis of the capture says, and of its window
//! only what is in the window.

use super::{CONNECTIONS, capture};
use std::path::{Path, PathBuf};
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::model::{Cause, Report};
use tcpwhy_core::pipeline::{Analysis, Options, Pass, Sliding};

/// The stored captures of nameable troubles and their healthy twins.
fn stored() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let files = std::fs::read_dir(folder).expect("the folder of captures");
    let mut paths: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "pcap" || it == "pcapng"));
    paths.sort();
    assert!(paths.len() > 20, "the stored captures are there");
    paths
}

fn open(bytes: &[u8]) -> CaptureSet {
    let mut set = CaptureSet::new(vec![Source::memory("capture", bytes)]).expect("a capture");
    set.set_block_bytes(1 << 14);
    set
}

fn at_once(bytes: &[u8]) -> Report {
    let mut set = open(bytes);
    let mut analysis = Analysis::new(Options::default());
    let mut go_on = |_: &CaptureSet| true;
    let pass = Pass::new(&mut analysis, &mut set, &mut go_on);
    pass.work();
    pass.finish().expect("a capture that can be read");
    analysis.finish(set.inputs())
}

/// The capture taken block by block and cut after every `blocks_per_cut`, with windows of `intervals`.
fn sliding(bytes: &[u8], intervals: usize, blocks_per_cut: usize) -> (Sliding, CaptureSet) {
    let mut set = open(bytes);
    let mut sliding = Sliding::new(Options::default(), intervals);
    let (mut block, mut blocks) = (Block::default(), 0);
    while set.next_block(&mut block).expect("a capture that can be read") {
        sliding.take(&block);
        blocks += 1;
        if blocks % blocks_per_cut == 0 {
            sliding.cut();
            // Asking changes nothing.
            sliding.report(set.inputs());
        }
    }
    if blocks_per_cut < usize::MAX {
        sliding.cut();
    }
    (sliding, set)
}

/// Returns what a user acts on: causes, culprits, costs and confidence.
fn essence(report: &Report) -> String {
    let found = report.findings.iter().map(|it| {
        let affected = (it.affected.exchanges, it.affected.of_exchanges, it.affected.connections);
        format!("{:?} {:?} {} {affected:?} {:?}\n", it.cause, it.culprit, it.lost_ns, it.confidence)
    });
    let totals = &report.totals;
    let counts = (totals.connections, totals.exchanges, totals.lookups, totals.segments);
    let found: String = found.collect();
    format!("{counts:?} {:?} {:?}\n{found}", report.ledger, report.latency)
}

#[test]
fn intervals_add_up_to_the_capture() {
    for path in stored() {
        let bytes = std::fs::read(&path).expect("a capture");
        let expected = essence(&at_once(&bytes));
        for blocks_per_cut in [1, 7] {
            let (sliding, set) = sliding(&bytes, 1 << 20, blocks_per_cut);
            let name = path.display();
            assert_eq!(essence(&sliding.whole(set.inputs())), expected, "the whole of {name}");
            assert_eq!(essence(&sliding.report(set.inputs())), expected, "the window of {name}");
        }
        let (never_cut, set) = sliding(&bytes, 1, usize::MAX);
        assert_eq!(essence(&never_cut.whole(set.inputs())), expected, "{}", path.display());
    }
}

#[test]
fn what_left_the_window_still_counts_in_the_whole() {
    for path in stored() {
        let bytes = std::fs::read(&path).expect("a capture");
        let expected = at_once(&bytes);
        let (sliding, set) = sliding(&bytes, 2, 3);
        let whole = sliding.whole(set.inputs());
        let name = path.display();
        assert_eq!(whole.totals.segments, expected.totals.segments, "segments of {name}");
        assert_eq!(whole.totals.connections, expected.totals.connections, "connections of {name}");
        assert_eq!(whole.totals.lookups, expected.totals.lookups, "look-ups of {name}");
    }
}

#[test]
fn a_trouble_that_is_over_leaves_the_window() {
    let nagle = std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../testdata/captures/nginx_nodelay_off.pcap"),
    );
    let (nagle, healthy) = (nagle.expect("a capture"), later(capture()));
    let mut sliding = Sliding::new(Options::default(), 2);
    let mut block = Block::default();
    let mut take = |sliding: &mut Sliding, bytes: &[u8]| {
        let mut set = open(bytes);
        while set.next_block(&mut block).expect("a capture that can be read") {
            sliding.take(&block);
        }
        sliding.cut();
    };
    let blamed =
        |report: &Report| report.findings.iter().any(|it| it.cause == Cause::NagleDelayedAck);
    take(&mut sliding, &nagle);
    assert!(blamed(&sliding.report(&[])));
    take(&mut sliding, &healthy);
    assert!(blamed(&sliding.report(&[])), "it is in the window still");
    sliding.cut();
    let window = sliding.report(&[]);
    assert!(!blamed(&window), "{}", essence(&window));
    // The last connection of the other capture is counted when late segments of it are not expected any more.
    assert_eq!(window.totals.connections, u64::from(CONNECTIONS) + 1);
    assert!(blamed(&sliding.whole(&[])), "it happened all the same");
    sliding.cut();
    sliding.cut();
    let window = sliding.report(&[]);
    assert_eq!((window.totals.connections, window.totals.exchanges), (0, 0), "nothing passes");
    assert!(blamed(&sliding.whole(&[])), "it happened all the same");
}

#[test]
fn connections_that_are_not_captured_any_more_end_as_at_the_end_of_a_capture() {
    for path in stored() {
        let bytes = std::fs::read(&path).expect("a capture");
        let (mut sliding, set) = sliding(&bytes, 1 << 20, 7);
        let expected = essence(&sliding.whole(set.inputs()));
        sliding.keep_only(|_| true);
        sliding.keep_only(|_| false);
        assert_eq!(sliding.open_connections(), 0);
        let name = path.display();
        assert_eq!(essence(&sliding.whole(set.inputs())), expected, "{name}");
    }
}

/// Returns the capture with later times, long after the stored ones.
fn later(mut bytes: Vec<u8>) -> Vec<u8> {
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    let mut at = 24;
    while at < bytes.len() {
        let seconds = word(&bytes, at) + 2_000_000_000;
        bytes[at..at + 4].copy_from_slice(&seconds.to_le_bytes());
        at += 16 + word(&bytes, at + 8) as usize;
    }
    bytes
}

#[test]
fn the_last_interval_has_its_own_exchanges_and_the_causes_in_it() {
    let nagle = |path: &PathBuf| at_once(&std::fs::read(path).expect("a capture")).findings;
    let is_nagle = |path: &PathBuf| {
        path.to_string_lossy().contains("nagle")
            && nagle(path).iter().any(|it| it.cause == Cause::NagleDelayedAck)
    };
    let path = stored().into_iter().find(is_nagle);
    let bytes = std::fs::read(path.expect("a capture of it")).expect("a capture");
    let (mut all, set) = sliding(&bytes, 1 << 20, usize::MAX);
    all.cut();
    let report = all.report(set.inputs());
    let last = all.last(&report.findings, set.inputs());
    assert!(last.exchanges > 0 && last.exchanges <= report.totals.exchanges);
    assert!(last.causes.contains(&Cause::NagleDelayedAck), "{:?}", last.causes);
    assert!(last.slowest.is_sorted_by(|one, next| one.wall_ns >= next.wall_ns));
    assert!(last.slowest.iter().any(|it| it.cause == Some(Cause::NagleDelayedAck)));
    assert!(
        all.last(&[], set.inputs()).slowest.iter().all(|it| it.cause.is_none()),
        "nothing is found"
    );
    all.cut();
    let none = all.last(&report.findings, set.inputs());
    assert_eq!((none.exchanges, none.slowest.len(), none.causes.len()), (0, 0, 0));
}
