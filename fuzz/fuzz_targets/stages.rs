//! Blobs between the stages of a run: any bytes are refused, and none panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::stages::Run;

const NONE: &[&[u8]] = &[];

// The first byte chooses the stage.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, content)) = input.split_first() else { return };
    let run = Run::new(Options::default(), 1).expect("one bucket");
    let nothing = run.control([]).expect("no chunks");
    match choice & 3 {
        0 => assert!(run.control([content.to_vec()]).is_err()),
        1 => assert!(run.merge(&[content]).is_err()),
        2 => assert!(run.settle(NONE, content, NONE).is_err()),
        _ => assert!(run.settle(NONE, &nothing.lookups, &[content]).is_err()),
    }
});
