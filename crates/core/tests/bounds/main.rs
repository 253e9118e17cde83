//! Work and memory are bounded for every input: hostile captures, for each protocol, block type,
//! encapsulation, table and bound, are analysed at sizes 1, 4 and 16.
//!
//! Memory stays below the promised bound. Memory, allocations and work do not grow faster than the
//! input, and a hostile byte costs at most a stated multiple of what ordinary traffic costs. Memory
//! and allocations are counted. Work is the CPU time of the thread; where it seems too much, it is
//! measured again, and the least counts.

mod complete;
mod failures;
mod files;
mod meter;
mod names;
mod quic;
mod streams;
mod tables;
mod wire;

use meter::{Taken, measure};
use std::sync::OnceLock;
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::pipeline::{Analysis, Options, Sliding};
use tcpwhy_core::survey;

/// A generator of hostile input.
struct Hostile {
    name: String,
    /// Makes the input at a size.
    make: Box<dyn Fn(usize) -> Vec<Source>>,
    /// Connections that are open at the same time, by size.
    open: fn(usize) -> usize,
    /// Memory that the rest may take, bytes.
    room: u64,
    /// Multiple of the CPU time of ordinary traffic that it may take, frame by frame and byte by
    /// byte.
    cost: u64,
    way: Way,
}

/// The way in which the input is analysed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A pass over files.
    File,
    /// A watch, with an interval for each block.
    Watch,
}

impl Hostile {
    fn new(name: impl Into<String>, make: impl Fn(usize) -> Vec<Source> + 'static) -> Self {
        let (name, make) = (name.into(), Box::new(make));
        Self { name, make, open: |_| 64, room: MEMORY_MAX, cost: COST_MAX, way: Way::File }
    }

    /// One capture.
    fn one(name: impl Into<String>, make: impl Fn(usize) -> wire::Pcap + 'static) -> Self {
        Self::new(name, move |size| vec![make(size).source("capture")])
    }

    fn open(self, open: fn(usize) -> usize) -> Self {
        Self { open, ..self }
    }

    /// States a bound below the promise, of which this kind of input may take only a part.
    fn within(self, room: u64) -> Self {
        Self { room, ..self }
    }

    fn watched(self) -> Self {
        Self { name: format!("{}, watched", self.name), way: Way::Watch, ..self }
    }
}

/// Sizes of each input.
const SIZES: [usize; 3] = [1, 4, 16];

/// Memory besides open connections, bytes: the promise.
const MEMORY_MAX: u64 = 64 << 20;

/// Memory of an open connection, with its part of the table, bytes: the promise, and a third more
/// for an exchange in progress.
const CONNECTION_BYTES: u64 = 1_400;

/// Growth of memory, allocations or CPU time from size 4 to size 16 that is still taken for that of
/// the input, which grows by four: in proportion to its square it would be sixteen.
const GROWTH_MAX: u64 = 9;

/// Amounts below which growth is not judged: they are those of set-up.
const MEMORY_MIN: u64 = 4 << 20;
const ALLOCATIONS_MIN: u64 = 5_000;
const CPU_MIN_NS: u64 = 20_000_000;

/// Multiple of the CPU time of ordinary traffic that hostile input may take.
const COST_MAX: u64 = 12;

/// The same of streams, where two bytes may be a message.
const STREAM_COST_MAX: u64 = 300;

/// The same of packets that are opened with keys of their own (RFC 9001 §5.2): ten HMACs and the AEAD of 1,200 bytes.
const OPENED_COST_MAX: u64 = 100;

/// Number of times that CPU time is measured if it seems too much.
const RUNS: usize = 5;

/// The size of an input, and the memory and time that it took.
#[derive(Clone, Copy, Default)]
struct Outcome {
    frames: u64,
    bytes: u64,
    taken: Taken,
}

/// CPU time of ordinary traffic, ns: of a frame, and of 64 bytes that are read.
struct Ordinary {
    frame_ns: u64,
    line_ns: u64,
}

fn ordinary() -> &'static Ordinary {
    static ORDINARY: OnceLock<Ordinary> = OnceLock::new();
    ORDINARY.get_or_init(|| {
        let least = |hostile: &Hostile| {
            (0..RUNS).map(|_| run(hostile, 8).taken.cpu_ns).min().unwrap_or_default()
        };
        let (requests, text) = (tables::ordinary(), streams::ordinary());
        let [frames, bytes] = [run(&requests, 8).frames, run(&text, 8).bytes];
        Ordinary {
            frame_ns: least(&requests) / frames,
            line_ns: (64 * least(&text) / bytes).max(1),
        }
    })
}

impl Outcome {
    /// CPU time that ordinary traffic of as many frames and bytes takes, ns.
    fn ordinary_ns(&self) -> u64 {
        let Ordinary { frame_ns, line_ns } = ordinary();
        self.frames * frame_ns + self.bytes / 64 * line_ns
    }
}

fn run(hostile: &Hostile, size: usize) -> Outcome {
    let sources = (hostile.make)(size);
    let again = if sources.len() > 1 { (hostile.make)(size) } else { Vec::new() };
    let analyse = || match hostile.way {
        Way::File => whole(sources, again),
        Way::Watch => watch(sources),
    };
    let ((frames, bytes), taken) = measure(analyse);
    Outcome { frames, bytes, taken }
}

/// Returns the numbers of frames and bytes.
fn whole(mut sources: Vec<Source>, again: Vec<Source>) -> (u64, u64) {
    if !again.is_empty()
        && let Ok(survey) = survey::survey(again, false, &|| true)
    {
        sources = survey.assign_sites(sources);
    }
    let mut capture = CaptureSet::new(sources).expect("readable");
    let mut analysis = Analysis::new(Options::default());
    analysis.run(&mut capture, &mut |_| true).expect("readable");
    let report = analysis.finish(capture.inputs());
    report.inputs.iter().fold((0, 0), |(frames, bytes), it| (frames + it.packets, bytes + it.bytes))
}

fn watch(sources: Vec<Source>) -> (u64, u64) {
    let mut capture = CaptureSet::new(sources).expect("readable");
    let (mut sliding, mut block) = (Sliding::new(Options::default(), 10), Block::default());
    let (mut frames, mut blocks) = (0, 0);
    while capture.next_block(&mut block).expect("readable") {
        frames += block.entries.len() as u64;
        blocks += 1;
        sliding.take(&block);
        if blocks % 4 == 0 {
            sliding.cut();
        }
    }
    sliding.report(&[]);
    (frames, capture.inputs().iter().map(|input| input.bytes).sum())
}

/// Returns what is wrong with the memory and the work of an input, the latter as measured.
fn faults(hostile: &Hostile, [_, four, sixteen]: [Outcome; 3]) -> [Vec<String>; 2] {
    let (mut memory, mut work) = (Vec::new(), Vec::new());
    let open = (hostile.open)(SIZES[2]) as u64;
    let [before, after] = [four.taken, sixteen.taken];
    let bound = hostile.room + open * CONNECTION_BYTES;
    if after.peak_bytes > bound {
        memory.push(format!("{} KiB of memory, more than {}", after.peak_bytes >> 10, bound >> 10));
    }
    let grow = |faults: &mut Vec<String>, what: &str, [from, to]: [u64; 2], least: u64| {
        if to > GROWTH_MAX * from.max(least / GROWTH_MAX) {
            faults.push(format!("{what} grows from {from} to {to}"));
        }
    };
    grow(&mut memory, "memory", [before.peak_bytes, after.peak_bytes], MEMORY_MIN);
    grow(&mut memory, "allocations", [before.allocations, after.allocations], ALLOCATIONS_MIN);
    grow(&mut work, "CPU time", [before.cpu_ns, after.cpu_ns], CPU_MIN_NS);
    let cost = after.cpu_ns / sixteen.ordinary_ns().max(1);
    if after.cpu_ns > CPU_MIN_NS && cost > hostile.cost {
        work.push(format!("{cost} times the CPU time of ordinary traffic"));
    }
    [memory, work]
}

/// Returns what is wrong with a generator's input, if there is anything.
fn judge(hostile: &Hostile) -> Option<String> {
    let mut outcomes = SIZES.map(|size| run(hostile, size));
    let mut found = faults(hostile, outcomes);
    for _ in 1..RUNS {
        if found[1].is_empty() {
            break;
        }
        for (outcome, size) in outcomes.iter_mut().zip(SIZES).skip(1) {
            outcome.taken.cpu_ns = run(hostile, size).taken.cpu_ns.min(outcome.taken.cpu_ns);
        }
        found = faults(hostile, outcomes);
    }
    let [_, _, last] = outcomes;
    println!(
        "{:52} {:8} frames {:7} KiB {:8} allocations {:8} us, {:3} times ordinary",
        hostile.name,
        last.frames,
        last.taken.peak_bytes >> 10,
        last.taken.allocations,
        last.taken.cpu_ns / 1_000,
        last.taken.cpu_ns / last.ordinary_ns().max(1)
    );
    let found = found.concat();
    (!found.is_empty()).then(|| format!("{}: {}", hostile.name, found.join("; ")))
}

/// Judges all generators, or those whose name contains `BOUNDS_ONLY`.
fn check(all: Vec<Hostile>) {
    let only = std::env::var("BOUNDS_ONLY").unwrap_or_default();
    let failed: Vec<_> =
        all.iter().filter(|it| it.name.contains(&only)).filter_map(judge).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// All generators.
fn all() -> Vec<Hostile> {
    let connections = [tables::connections(), failures::all()].into_iter().flatten();
    let others = [streams::all(), names::all(), quic::all(), tables::packets(), files::all()];
    connections.chain(others.into_iter().flatten()).collect()
}

#[test]
fn streams_of_each_protocol() {
    check(streams::all());
}

#[test]
fn look_ups() {
    check(names::all());
    check(quic::all());
}

#[test]
fn attempts_and_connections() {
    check(tables::connections());
}

#[test]
fn requests_that_fail() {
    check(failures::all());
}

#[test]
fn segments_and_other_packets() {
    check(tables::packets());
}

#[test]
fn blocks_and_files() {
    check(files::all());
}

/// Less than the sum of what each takes, since all together keep the promise.
#[test]
fn everything_at_once() {
    check(vec![tables::everything(), tables::everything().watched()]);
}
