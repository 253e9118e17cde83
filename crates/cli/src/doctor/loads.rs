//! Many requests at a time, for a moment: whether the server answers ten and a hundred clients as
//! it does one.

use super::args::Doctor;
use super::asked::Asked;
use super::steps::Steps;
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tcpwhy_core::report::units;
use tcpwhy_probe::Scheme;
use tcpwhy_probe::experiment::Subject;
use tcpwhy_probe::load::{Outcome, Plan, run as generate};
use tcpwhy_probe::tls::TlsOptions;

/// Connections at a time.
const CONNECTIONS: [usize; 3] = [1, 10, 100];
/// How long each lasts.
const LASTS: Duration = Duration::from_millis(800);

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

/// Asks with more and more connections, as long as all is answered.
pub fn run(wanted: &Doctor, asked: &Asked, subject: &Subject, steps: &mut Steps) -> Vec<Loaded> {
    if wanted.no_load {
        steps.skipped("load", "--no-load");
        return Vec::new();
    }
    if subject.target.scheme == Scheme::Tcp || !asked.is_answered() || asked.error.is_some() {
        steps.skipped("load", "what is not answered alone is not asked a hundred times");
        return Vec::new();
    }
    if !subject.request.is_idempotent() {
        steps.skipped("load", "requests of this method are not repeated; tcpwhy load does that");
        return Vec::new();
    }
    let mut all: Vec<Loaded> = Vec::new();
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
        match generate(&plan, &AtomicBool::new(false), |_| ()) {
            Ok(outcome) => {
                let loaded = of(connections, &outcome);
                steps.done("load", began, words(&loaded));
                let is_over = loaded.errors > 0;
                all.push(loaded);
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
