//! Many requests at a time, for a moment: whether the server answers ten and a hundred clients as
//! it does one.

use super::args::Doctor;
use super::asked::Asked;
use super::steps::Steps;
use crate::tap::Tap;
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tcpwhy_core::report::{Report, units};
use tcpwhy_probe::Scheme;
use tcpwhy_probe::experiment::Subject;
use tcpwhy_probe::load::{Outcome, Plan, run as generate};
use tcpwhy_probe::tls::TlsOptions;

/// Connections at a time.
const CONNECTIONS: [usize; 3] = [1, 10, 100];
/// How long each lasts. A SYN that was dropped is sent again after 1 s (RFC 6298 §2.1): a load that
/// is over before does not show it.
const LASTS: Duration = Duration::from_millis(1_300);

/// What one number of connections showed.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// Connections at the same time.
    pub connections: usize,
    /// Requests answered.
    pub requests: u64,
    /// Requests answered a second.
    pub requests_per_second: f64,
    /// Median latency, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Failures.
    pub errors: u64,
}

/// What the load sends, for the announcement.
pub fn announcement() -> String {
    let each = units::duration(LASTS.as_nanos() as u64);
    format!(", and as many as it answers on 1, 10 and 100 connections for {each} each (--no-load)")
}

/// What the loads showed.
#[derive(Default)]
pub struct Loads {
    /// The measurements, fewest connections first.
    pub measured: Vec<Loaded>,
    /// What their packets show, by connections: of those with more than one.
    pub reports: Vec<(u64, Report)>,
}

/// Asks with more and more connections, as long as all is answered; captures meanwhile, where it
/// `may_capture`.
pub fn run(
    wanted: &Doctor,
    asked: &Asked,
    subject: &Subject,
    may_capture: bool,
    steps: &mut Steps,
) -> Loads {
    if wanted.no_load {
        steps.skipped("load", "--no-load");
        return Loads::default();
    }
    if subject.target.scheme == Scheme::Tcp || !asked.is_answered() || asked.error.is_some() {
        steps.skipped("load", "what is not answered alone is not asked a hundred times");
        return Loads::default();
    }
    if !subject.request.is_idempotent() {
        steps.skipped("load", "requests of this method are not repeated; tcpwhy load does that");
        return Loads::default();
    }
    let mut all = Loads::default();
    for connections in CONNECTIONS {
        let began = Instant::now();
        let plan = Plan {
            request: subject.request.clone(),
            connections,
            duration: Some(LASTS),
            timeout: subject.timeout.min(Duration::from_secs(2)),
            tls: TlsOptions { insecure: wanted.insecure, resume: true },
            ..Plan::new(subject.target.clone(), vec![subject.server])
        };
        // One connection shows what requests alone do.
        let captures = may_capture && connections > 1;
        let tap = captures.then(|| Tap::of_load(&[subject.server]).ok()).flatten();
        let outcome = generate(&plan, &AtomicBool::new(false), |_| ());
        if let Some(tap) = tap {
            all.reports.push((connections as u64, tap.finish().report));
        }
        match outcome {
            Ok(outcome) => {
                let loaded = of(connections, &outcome);
                steps.done("load", began, words(&loaded));
                let is_over = loaded.errors > 0;
                all.measured.push(loaded);
                if is_over {
                    break;
                }
            }
            Err(error) => steps.failed("load", began, error.to_string()),
        }
    }
    all
}

fn of(connections: usize, outcome: &Outcome) -> Loaded {
    Loaded {
        connections,
        requests: outcome.requests,
        requests_per_second: outcome.requests_per_second(),
        p50_ns: outcome.latency.quantile_ns(0.5),
        p99_ns: outcome.latency.quantile_ns(0.99),
        errors: outcome.error_count(),
    }
}

/// In one line.
pub fn words(it: &Loaded) -> String {
    let errors = match it.errors {
        0 => String::new(),
        some => format!(", {}", units::counted(some, "failure", "failures")),
    };
    format!(
        "{}: {} requests/s, p50 {}, p99 {}{errors}",
        units::counted(it.connections as u64, "connection", "connections"),
        units::count(it.requests_per_second as u64),
        units::duration(it.p50_ns),
        units::duration(it.p99_ns),
    )
}
