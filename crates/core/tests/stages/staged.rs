//! Runs captures in one process and in stages.

use std::sync::Arc;
use tcpwhy_core::capture::{Block, CaptureSet, Frame, Plan, Source, pcap_frame, pcap_header, peek};
use tcpwhy_core::dns::Lookup;
use tcpwhy_core::model::{ConnectionReport, Report};
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::report::json;
use tcpwhy_core::stages::{Controlled, For, Order, Run};
use tcpwhy_core::tables::{self, Rows, Stall, TableExchange};

/// A capture file.
#[derive(Clone)]
pub struct File {
    pub name: String,
    pub bytes: Arc<[u8]>,
}

impl File {
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), bytes: bytes.into() }
    }

    pub fn source(&self) -> Source {
        Source::memory(self.name.clone(), Arc::clone(&self.bytes))
    }
}

/// Rows as text, without order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

impl Rows for Texts {
    fn connection(&mut self, connection: &ConnectionReport) {
        self.0.push(format!("{connection:?}"));
    }

    fn exchange(&mut self, exchange: &TableExchange, stalls: &[Stall]) {
        self.0.push(format!("{exchange:?} {stalls:?}"));
    }

    fn lookup(&mut self, lookup: &Lookup) {
        self.0.push(format!("{lookup:?}"));
    }
}

/// Returns the report as JSON.
fn rendered(report: &Report) -> String {
    json::render(report, "test").expect("JSON")
}

/// The report and the rows of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub json: String,
    pub rows: Vec<String>,
}

fn sources(files: &[File]) -> Vec<Source> {
    files.iter().map(File::source).collect()
}

fn options(first_ns: u64) -> Options {
    Options { first_ns, seed: 7, ..Options::default() }
}

/// Returns what one process finds in `files`.
pub fn in_one(files: &[File]) -> Outcome {
    let mut set = CaptureSet::new(sources(files)).expect("a readable capture");
    let options = options(set.first_ns().unwrap_or(0));
    let mut analysis = Analysis::new(options.clone());
    analysis.run(&mut set, &mut |_| true).expect("a readable capture");
    let report = analysis.finish(set.inputs());
    let mut again = CaptureSet::new(sources(files)).expect("a readable capture");
    let mut pass = tables::Pass::new(&options, Texts::default());
    let mut block = Block::default();
    while again.next_block(&mut block).expect("readable") {
        pass.take(&block);
    }
    let Texts(mut rows) = pass.finish();
    rows.sort_unstable();
    Outcome { json: rendered(&report), rows }
}

/// The blobs of the first stages of a run.
pub struct Scattered {
    pub run: Run,
    pub chunks: Vec<(u32, Vec<u8>)>,
    pub control: Vec<Vec<u8>>,
    pub totals: Vec<Vec<u8>>,
}

/// Scatters `files` into so many buckets, and shuffles the chunks.
pub fn scatter(files: &[File], buckets: usize, seed: u64) -> Scattered {
    let plan =
        Plan::new(files.iter().map(|file| peek(file.source())).collect()).expect("few files");
    let run = Run::new(options(plan.first_ns), buckets).expect("a run");
    let mut all = Scattered { run, chunks: Vec::new(), control: Vec::new(), totals: Vec::new() };
    for (number, peeked) in plan.files.iter().enumerate() {
        let file = files.iter().find(|file| file.name == peeked.path).expect("a file of the plan");
        let mut last = Order::default();
        for piece in all.run.scatter(number as u32, file.source()) {
            match piece.to {
                For::Bucket(bucket) => all.chunks.push((bucket, piece.bytes)),
                For::Control => all.control.push(piece.bytes),
                For::Totals => all.totals.push(piece.bytes),
            }
            last = last.max(piece.order);
        }
        assert_eq!(last.file as usize, if last == Order::default() { 0 } else { number });
    }
    shuffle(&mut all.chunks, seed);
    shuffle(&mut all.control, seed);
    shuffle(&mut all.totals, seed);
    all
}

/// Shuffles by a generator of Knuth's (MMIX).
fn shuffle<T>(all: &mut [T], mut seed: u64) {
    for at in (1..all.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.swap(at, (seed >> 33) as usize % (at + 1));
    }
}

impl Scattered {
    pub fn control(&self) -> Controlled {
        self.run.control(self.control.iter().cloned()).expect("chunks of this run")
    }

    pub fn of_bucket(&self, bucket: u32) -> impl Iterator<Item = Vec<u8>> {
        self.chunks.iter().filter(move |it| it.0 == bucket).map(|it| it.1.clone())
    }

    /// Returns the partials of all buckets, and the rows.
    pub fn buckets(&self, told: &[u8]) -> (Vec<Vec<u8>>, Vec<String>) {
        let (mut partials, mut rows) = (Vec::new(), Vec::new());
        for bucket in (0..self.run.buckets()).rev() {
            let of_bucket = self.of_bucket(bucket);
            let done = self.run.bucket(bucket, of_bucket, told, Some(Texts::default()));
            let (partial, texts) = done.expect("chunks of this bucket");
            partials.push(partial);
            rows.extend(texts.expect("rows").0);
        }
        rows.sort_unstable();
        (partials, rows)
    }

    /// Runs the other stages; with `lookups` and what is `told` of the control.
    pub fn finish(&self, control: &Controlled) -> Outcome {
        self.finish_merged(control, 1)
    }

    /// Does the same, and merges the partials in groups of this size.
    pub fn finish_merged(
        &self,
        Controlled { told, lookups }: &Controlled,
        group: usize,
    ) -> Outcome {
        let (partials, mut rows) = self.buckets(told);
        let mut texts = Texts::default();
        self.run.lookup_rows(lookups, &mut texts).expect("the control's blob");
        rows.extend(texts.0);
        rows.sort_unstable();
        let groups = partials.chunks(group).map(|it| self.run.merge(it).expect("partials"));
        let merged: Vec<_> = groups.collect();
        let report = self.run.settle(&merged, lookups, &self.totals).expect("all blobs");
        Outcome { json: rendered(&report), rows }
    }
}

/// Returns what the stages find in `files`.
pub fn in_stages(files: &[File], buckets: usize, seed: u64) -> Outcome {
    let scattered = scatter(files, buckets, seed);
    scattered.finish(&scattered.control())
}

/// Returns `frames` as a capture file of one link type.
pub fn pcap(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pcap_header(frames.first().map(|it| it.link).unwrap_or_default(), &mut bytes);
    frames.iter().for_each(|frame| pcap_frame(frame, &mut bytes));
    bytes
}

/// Cuts frames into so many files, one after the other; fewer if there are few frames.
pub fn cut(frames: &[Frame<'_>], files: usize) -> Vec<File> {
    let parts = frames.chunks(frames.len().div_ceil(files).max(1)).enumerate();
    parts.map(|(part, frames)| File::new(format!("part{part}.pcap"), pcap(frames))).collect()
}

/// Asserts that two outcomes are equal; shows the first difference.
pub fn assert_equal(what: &str, one: &Outcome, other: &Outcome) {
    if one.json != other.json {
        let mut lines = one.json.lines().zip(other.json.lines()).enumerate();
        let differ = lines.find(|(_, (left, right))| left != right);
        panic!("{what}: the reports differ: {differ:?}");
    }
    assert_eq!(one.rows.len(), other.rows.len(), "{what}: number of rows");
    for (left, right) in one.rows.iter().zip(&other.rows) {
        assert_eq!(left, right, "{what}: rows");
    }
}
