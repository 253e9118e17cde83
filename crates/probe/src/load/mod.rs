//! Generates load for HTTP/1.1 and HTTP/2, plain and over TLS, in a closed or an open loop.
//!
//! ```text
//! Plan ─► Worker (one a thread: event loop, connections, schedule) ─► Outcome, merged
//! ```
//!
//! In an open loop, latency counts from the time at which a request was *planned* to be sent, so a
//! server that stalls cannot hide the requests that could not be sent meanwhile (coordinated
//! omission). In both loops, requests without an answer count at the age that they reached
//! ([`Times`]), and a load waits for the answers to what it has sent.

mod alarm;
mod connection;
mod failure;
mod fruitless;
mod guard;
mod outcome;
mod plan;
mod schedule;
mod stream;
mod streams;
mod uneven;
mod worker;

pub use failure::FailureKind;
pub use guard::{End, Guard};
pub use outcome::{LoadOutcome, Quantile, Second, Times};
pub use plan::{Pace, Plan, PlanError};
pub use uneven::{LateConnects, Standstill, Tail, Uneven};

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::target::Scheme;
use crate::tls;
use worker::{Shared, Worker};

/// Time between two progress reports.
const PROGRESS: Duration = Duration::from_millis(100);

/// The progress of a load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Running {
    /// Time since the load began.
    pub elapsed: Duration,
    /// Number of answered requests.
    pub answered: u64,
    /// Number of failures.
    pub failed: u64,
}

/// Runs a load to its end, or until `stop` is set; `progress` is called on the calling thread ten times a
/// second. Failures of requests and connections are part of the outcome.
///
/// # Errors
/// The load cannot begin as planned.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Running),
) -> Result<LoadOutcome, PlanError> {
    plan.check()?;
    let tls = match plan.target.scheme {
        Scheme::Https => {
            Some((tls::client_config(&plan.tls)?, tls::server_name(&plan.target.host)?))
        }
        _ => None,
    };
    let shared = Shared {
        plan,
        request: plan.bytes(None),
        prepared: plan.prepared()?,
        tls,
        stop,
        address: AtomicUsize::new(0),
        has_connected: AtomicBool::new(false),
        has_answered: AtomicBool::new(false),
        hopeless: AtomicUsize::new(0),
        answered: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        ended: OnceLock::new(),
        began: Instant::now(),
    };
    let threads = plan.threads();
    let workers: Vec<Worker<'_>> =
        (0..threads).map(|index| Worker::new(&shared, index, threads)).collect::<Result<_, _>>()?;
    let caller = thread::current();
    let work = |worker: Worker<'_>| {
        let done = worker.run();
        caller.unpark();
        done
    };
    let parts: Vec<Result<LoadOutcome, PlanError>> = thread::scope(|scope| {
        let work = &work;
        let spawned: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(move || work(worker))).collect();
        while spawned.iter().any(|it| !it.is_finished()) {
            thread::park_timeout(PROGRESS);
            progress(&Running {
                elapsed: shared.began.elapsed(),
                answered: shared.answered.load(Ordering::Relaxed),
                failed: shared.failed.load(Ordering::Relaxed),
            });
        }
        let joined = spawned.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut outcome = LoadOutcome { threads, ..LoadOutcome::default() };
    let mut standstills: Option<Vec<Standstill>> = None;
    for part in parts {
        let part = part?;
        standstills = Some(match standstills {
            None => part.standstills.clone(),
            Some(all) => Standstill::common(&all, &part.standstills),
        });
        outcome.merge(part);
    }
    outcome.standstills = standstills.unwrap_or_default();
    let index = shared.address.load(Ordering::Relaxed).min(plan.addresses.len() - 1);
    outcome.ended = shared.ended.into_inner();
    outcome.address = Some(plan.addresses[index]);
    Ok(outcome)
}
