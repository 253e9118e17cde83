//! Blobs between the stages of a run: any bytes, and any content behind a header that is right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpwhy_core::model::ConnectionReport;
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::stages::Run;
use tcpwhy_core::stages::internals::sealed;
use tcpwhy_core::tables::{Rows, Stall, TableExchange};

const NONE: &[&[u8]] = &[];

/// Rows are not looked at.
struct NoRows;

impl Rows for NoRows {
    fn connection(&mut self, _: &ConnectionReport) {}
    fn exchange(&mut self, _: &TableExchange, _: &[Stall]) {}
    fn lookup(&mut self, _: &tcpwhy_core::dns::Lookup) {}
}

// The first byte chooses the stage and the number of blobs, which share the rest.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, content)) = input.split_first() else { return };
    let run = Run::new(Options::default(), 1).expect("one bucket");
    let nothing = run.control([]).expect("no chunks");
    let parts = content.chunks(content.len().div_ceil(1 + usize::from(choice >> 6)).max(1));
    let chunks = || parts.clone().map(|part| sealed(&run, true, part));
    match choice & 7 {
        0 => drop(run.bucket(0, chunks(), &nothing.told, Some(NoRows))),
        1 => drop(run.control(chunks())),
        2 => {
            let told = sealed(&run, false, content);
            drop(run.bucket(0, [], &told, Some(NoRows)));
        }
        3 => assert!(run.bucket(0, [content.to_vec()], &nothing.told, None::<NoRows>).is_err()),
        4 => assert!(run.control([content.to_vec()]).is_err()),
        5 => assert!(run.merge(&[content]).is_err()),
        6 => assert!(run.settle(NONE, content, NONE).is_err()),
        _ => assert!(run.settle(NONE, &nothing.lookups, &[content]).is_err()),
    }
});
