//! Measures a run in stages beside one process: CPU time, and the bytes that are moved.
//!
//! `stages BUCKETS CAPTURE…`: all in memory, on one thread. Fails if the reports differ.

use std::error::Error;
use std::sync::Arc;
use tcpwhy_core::capture::{CaptureSet, Plan, Source, peek};
use tcpwhy_core::dns::Lookup;
use tcpwhy_core::model::{ConnectionReport, Report};
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::report::json;
use tcpwhy_core::stages::{For, Run};
use tcpwhy_core::tables::{Rows, Stall, TableExchange};

/// The targets: CPU time of the stages and bytes that are moved, in parts of one process and of the
/// input.
const CPU_MAX: f64 = 2.0;
const MOVED_MAX: f64 = 1.15;

/// The bytes of a capture, with its name.
type File = (String, Arc<[u8]>);

fn source((name, bytes): &File) -> Source {
    Source::memory(name.clone(), Arc::clone(bytes))
}

/// CPU time of this process, s: its own, and the system's for it, which depends on how the memory for
/// the blobs is had.
#[derive(Clone, Copy)]
struct Cpu {
    user_s: f64,
    system_s: f64,
}

impl Cpu {
    /// Reads utime and stime of proc_pid_stat(5), in ticks of 10 ms.
    fn now() -> Result<Self, Box<dyn Error>> {
        const TICKS_PER_S: f64 = 100.0;
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let fields = stat.rsplit_once(") ").ok_or("an unknown format")?.1;
        let mut ticks = fields.split(' ').skip(11).map(str::parse::<f64>);
        let mut next = || ticks.next().ok_or("an unknown format");
        Ok(Self { user_s: next()?? / TICKS_PER_S, system_s: next()?? / TICKS_PER_S })
    }
}

/// Returns the result of `work` and its CPU time.
fn timed<T>(work: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<(T, Cpu), Box<dyn Error>> {
    let before = Cpu::now()?;
    let done = work()?;
    let after = Cpu::now()?;
    let user_s = after.user_s - before.user_s;
    Ok((done, Cpu { user_s, system_s: after.system_s - before.system_s }))
}

fn in_one(files: &[File]) -> Result<Report, Box<dyn Error>> {
    let mut set = CaptureSet::new(files.iter().map(source).collect())?;
    let first_ns = set.first_ns().unwrap_or(0);
    let mut analysis = Analysis::new(Options { first_ns, ..Options::default() });
    analysis.run(&mut set, &mut |_| true)?;
    Ok(analysis.finish(set.inputs()))
}

/// Rows are not wanted.
struct NoRows;

impl Rows for NoRows {
    fn connection(&mut self, _: &ConnectionReport) {}
    fn exchange(&mut self, _: &TableExchange, _: &[Stall]) {}
    fn lookup(&mut self, _: &Lookup) {}
}

fn bytes(blobs: &[Vec<u8>]) -> usize {
    blobs.iter().map(Vec::len).sum()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [buckets, paths @ ..] = &arguments[..] else {
        return Err("usage: stages BUCKETS CAPTURE…".into());
    };
    let buckets: usize = buckets.parse()?;
    let read = |path: &String| Ok((path.clone(), std::fs::read(path)?.into()));
    let files: Vec<File> = paths.iter().map(read).collect::<std::io::Result<_>>()?;
    let input: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let (one, of_one) = timed(|| in_one(&files))?;

    let plan = Plan::new(files.iter().map(|file| peek(source(file))).collect())?;
    let run = Run::new(Options { first_ns: plan.first_ns, ..Options::default() }, buckets)?;
    let mut chunks = vec![Vec::new(); buckets];
    let (mut of_control, mut totals) = (Vec::new(), Vec::new());
    let ((), scatter) = timed(|| {
        for (number, peeked) in plan.files.iter().enumerate() {
            let file = files.iter().find(|(name, _)| *name == peeked.path).ok_or("no such file")?;
            for piece in run.scatter(number as u32, source(file)) {
                match piece.to {
                    For::Bucket(bucket) => chunks[bucket as usize].push(piece.bytes),
                    For::Control => of_control.push(piece.bytes),
                    For::Totals => totals.push(piece.bytes),
                }
            }
        }
        Ok(())
    })?;
    let moved_to_buckets: usize = chunks.iter().map(|chunks| bytes(chunks)).sum();
    let moved_to_control = bytes(&of_control);
    let largest = chunks.iter().map(|chunks| bytes(chunks)).max().unwrap_or(0);
    let (control, of_control_stage) = timed(|| Ok(run.control(of_control)?))?;
    let (partials, of_buckets) = timed(|| {
        let bucket = |(bucket, chunks)| {
            let done = run.bucket(bucket as u32, chunks, &control.told, None::<NoRows>);
            done.map(|(partial, _)| partial)
        };
        Ok(chunks.into_iter().enumerate().map(bucket).collect::<Result<Vec<_>, _>>()?)
    })?;
    let (report, settle) = timed(|| Ok(run.settle(&partials, &control.lookups, &totals)?))?;
    if json::render(&one, "")? != json::render(&report, "")? {
        return Err("the stages give another report than one process".into());
    }

    let packets: u64 = one.inputs.iter().map(|input| input.packets).sum();
    let stages = [scatter, of_control_stage, of_buckets, settle];
    let user_s: f64 = stages.iter().map(|it| it.user_s).sum();
    let system_s: f64 = stages.iter().map(|it| it.system_s).sum();
    let moved = (moved_to_buckets + moved_to_control) as f64 / input as f64;
    let mb = |bytes: usize| bytes as f64 / 1e6;
    println!("{packets} packets, {:.0} MB, {buckets} buckets; the reports are equal", mb(input));
    let [scatter_s, control_s, buckets_s, settle_s] = stages.map(|it| it.user_s);
    println!(
        "user CPU: one process {:.2} s, stages {user_s:.2} s, {:.2} x (target {CPU_MAX}): scatter \
         {scatter_s:.2}, control {control_s:.2}, buckets {buckets_s:.2}, settle {settle_s:.2}; system \
         {:.2} s and {system_s:.2} s",
        of_one.user_s,
        user_s / of_one.user_s,
        of_one.system_s,
    );
    println!(
        "moved {moved:.3} x the input (target {MOVED_MAX}): {:.1} MB to buckets, {:.1} % of it to the \
         largest; {:.1} MB to the control; partials {:.2} MB, look-ups {:.2} MB, told {:.2} MB",
        mb(moved_to_buckets),
        100.0 * largest as f64 / moved_to_buckets.max(1) as f64,
        mb(moved_to_control),
        mb(bytes(&partials)),
        mb(control.lookups.len()),
        mb(control.told.len()),
    );
    Ok(())
}
