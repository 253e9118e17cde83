//! The threads on which the core runs.

use std::thread;
use tcpwhy_core::capture::{CaptureError, CaptureSet};
use tcpwhy_core::pipeline::{Analysis, BLOCK_BYTES_THREADED, GoOn, Pass};

/// Runs `analysis` over `capture` on `threads` threads, and calls `go_on` after each block to
/// decide whether to continue. Returns whether it reached the end. The result does not depend on
/// `threads`.
///
/// # Errors [`CaptureError`] if nothing can be read.
pub fn run(
    analysis: &mut Analysis,
    capture: &mut CaptureSet,
    threads: usize,
    go_on: GoOn<'_>,
) -> Result<bool, CaptureError> {
    if threads <= 1 {
        return analysis.run(capture, go_on);
    }
    capture.set_block_bytes(BLOCK_BYTES_THREADED);
    let pass = Pass::new(analysis, capture, go_on);
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| pass.work());
        }
        pass.work();
    });
    pass.finish()
}

/// Number of cores that this process may use.
pub fn available() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
