//! Work without the interpreter's lock that Ctrl-C can end.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Interval at which signals are looked for. Python's handlers run in its main thread only.
pub const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// The flag that ends the work in progress.
pub type Interrupted = Arc<AtomicBool>;

/// What became of the work.
pub struct Done<T> {
    /// Its result.
    pub result: T,
    /// `KeyboardInterrupt`, if that ended it early.
    pub interrupt: Option<PyErr>,
}

/// Does `work` on another thread without the interpreter's lock. The first `KeyboardInterrupt` sets
/// `interrupted`, and the result is that of the work so far.
///
/// # Errors
/// A second `KeyboardInterrupt`, or another exception of a signal handler.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    interrupted: &Interrupted,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<Done<T>> {
    let (give, mut done) = mpsc::sync_channel(1);
    let worker = thread::spawn(move || {
        // Nobody waits for it any more after a second interrupt.
        let _ = give.send(work());
    });
    let mut interrupt = None;
    loop {
        let result;
        (done, result) = py.detach(move || {
            let result = done.recv_timeout(LOOKS_EVERY);
            (done, result)
        });
        match result {
            Ok(result) => return Ok(Done { result, interrupt }),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a worker that ends without a panic has given its result"),
            },
        }
        if let Err(raised) = py.check_signals() {
            interrupted.store(true, Ordering::Relaxed);
            if interrupt.is_some() || !raised.is_instance_of::<PyKeyboardInterrupt>(py) {
                return Err(raised);
            }
            interrupt = Some(raised);
        }
    }
}
