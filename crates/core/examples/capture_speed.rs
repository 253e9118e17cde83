//! How fast captures are read: `cargo run --release --example capture_speed -- FILE…`
//!
//! Prints frames, bytes and the best of several passes; the first pass warms the page cache.

use std::fs::File;
use std::time::Instant;
use tcpwhy_core::capture::{Block, CaptureSet, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let mut best_ms = f64::MAX;
    for pass in 0..10 {
        let sources = paths.iter().map(|path| {
            let bytes = std::fs::metadata(path).ok().map(|metadata| metadata.len());
            let opened = path.clone();
            Source::file(path, bytes, move || File::open(&opened))
        });
        let start = Instant::now();
        let mut set = CaptureSet::new(sources.collect())?;
        let mut block = Block::default();
        let (mut frames, mut captured_bytes) = (0_u64, 0_u64);
        while set.next_block(&mut block)? {
            frames += block.entries.len() as u64;
            captured_bytes +=
                block.entries.iter().map(|entry| u64::from(entry.captured_len)).sum::<u64>();
        }
        best_ms = best_ms.min(start.elapsed().as_secs_f64() * 1e3);
        if pass == 0 {
            println!("{frames} frames, {captured_bytes} captured bytes, {:?}", set.progress());
            for input in set.inputs() {
                for problem in &input.problems {
                    println!("{} {problem}", input.path);
                }
            }
        }
    }
    println!("best of 10: {best_ms:.1} ms");
    Ok(())
}
