//! Measurements that a busy machine may spoil, and the witness that tells whether it did.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Number of attempts on a busy machine.
const ATTEMPTS: u32 = 8;

/// Time between two looks of the witness.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Longest delay of the witness on a machine with a free core.
const DELAY_MAX: Duration = Duration::from_millis(3);

/// Runs `measure`, which panics if what it measured is wrong. If it panics and a witness saw that the
/// machine was busy meanwhile, runs it again, up to eight times in all. On a machine with a free core
/// the first result counts.
pub fn undisturbed<T>(mut measure: impl FnMut() -> T) -> T {
    for attempt in 1.. {
        let (result, was_busy) = witnessed(|| catch_unwind(AssertUnwindSafe(&mut measure)));
        match result {
            Ok(measured) => return measured,
            Err(panic) if !was_busy || attempt == ATTEMPTS => resume_unwind(panic),
            Err(_) => eprintln!("the machine was busy: attempt {attempt} does not count"),
        }
    }
    unreachable!("the last attempt returns or panics")
}

/// Runs `work`, and returns whether the machine was busy meanwhile: more threads wanted to run than
/// it has cores, or a thread that only slept woke up late.
fn witnessed<T>(work: impl FnOnce() -> T) -> (T, bool) {
    let is_over = AtomicBool::new(false);
    let mut looked = Instant::now();
    thread::scope(|scope| {
        let witness = scope.spawn(|| {
            // The witness itself may start late, even when the work is over.
            let mut was_busy = false;
            loop {
                thread::sleep(LOOK_INTERVAL);
                was_busy |= looked.elapsed() > LOOK_INTERVAL + DELAY_MAX || is_crowded();
                looked = Instant::now();
                if is_over.load(Ordering::Relaxed) {
                    return was_busy;
                }
            }
        });
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        (result, witness.join().expect("the witness ends"))
    })
}

/// Returns whether more threads want to run at this moment than there are cores.
fn is_crowded() -> bool {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running = load.split(' ').nth(3).and_then(|it| it.split('/').next()?.parse().ok());
    running.is_some_and(|running: usize| running > cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` beside twice as many busy loops as there are cores.
    fn beside_busy_loops<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
        let is_over = AtomicBool::new(false);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..2 * cores {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let result = catch_unwind(AssertUnwindSafe(work));
            is_over.store(true, Ordering::Relaxed);
            result
        })
    }

    #[test]
    fn a_measurement_that_is_wrong_on_a_busy_machine_is_repeated_a_bounded_number_of_times() {
        for (right_from, expected) in [(3, Some(3)), (u32::MAX, None)] {
            let mut count = 0;
            let measured = beside_busy_loops(|| {
                undisturbed(|| {
                    count += 1;
                    thread::sleep(Duration::from_millis(30));
                    assert!(count >= right_from, "wrong");
                    count
                })
            });
            assert_eq!(measured.ok(), expected);
            assert_eq!(count, expected.unwrap_or(ATTEMPTS));
        }
    }

    #[test]
    fn a_measurement_that_is_right_is_made_once() {
        let mut count = 0;
        undisturbed(|| count += 1);
        assert_eq!(count, 1);
    }
}
