//! The threads that the core is lent.

use std::thread;
use tcpwhy_core::capture::{CaptureError, CaptureSet};
use tcpwhy_core::pipeline::{Analysis, BLOCK_BYTES_THREADED, GoOn, Pass};

/// Runs `analysis` over `capture` on `threads` threads, as long as `go_on` says so after each
/// block. Answers whether it came to the end; what is found does not depend on `threads`.
///
/// # Errors
/// [`CaptureError`] where nothing can be read.
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

/// One per core that this process may use.
pub fn available() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
