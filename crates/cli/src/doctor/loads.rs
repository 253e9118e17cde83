//! Short loads with several connections: whether the server answers ten and a hundred clients as
//! fast as one.

use super::args::Doctor;
use super::asked::Asked;
use super::steps::Steps;
use crate::tap::Tap;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tcpwhy_core::experiment::shows_more;
use tcpwhy_core::model::{Report, units};
use tcpwhy_probe::Scheme;
use tcpwhy_probe::experiment::{Connection, Settings, Subject};
use tcpwhy_probe::load::{Outcome, Plan, run as generate};

/// Numbers of concurrent connections, one load for each.
const CONNECTIONS: [usize; 3] = [1, 10, 100];
/// Duration of each load. A dropped SYN is sent again after 1 s (RFC 6298 §2.1), so a shorter load
/// would not show it.
const LASTS: Duration = Duration::from_millis(1_300);
/// Up to this many connections, all packets are captured without a budget: a sample of so few
/// connections would be too small.
const WHOLE_MAX: usize = 10;
/// Time after which an outstanding response makes a load fail, or is no longer waited for before
/// the next load.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The result of the load with one number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// Number of concurrent connections.
    pub connections: usize,
    /// Number of requests answered.
    pub requests: u64,
    /// Requests answered a second.
    pub requests_per_second: f64,
    /// Median latency, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Number of failed requests.
    pub errors: u64,
}

/// Describes what the load will send, for the announcement.
pub fn announcement() -> String {
    let each = units::duration(LASTS.as_nanos() as u64);
    format!(", and as many as it answers on 1, 10 and 100 connections for {each} each (--no-load)")
}

/// The results of all loads.
#[derive(Default)]
pub struct Loads {
    /// The measurements, fewest connections first.
    pub measured: Vec<Loaded>,
    /// Reports on the packets of loads with more than one connection, by number of connections.
    pub reports: Vec<(u64, Report)>,
    /// Number of requests sent between the loads.
    pub between: u64,
}

/// Runs loads with more and more connections, while all requests are answered and no fault appears
/// that the single requests (`alone`) do not have. Packets are captured if those of the single
/// requests were.
pub fn run(
    wanted: &Doctor,
    asked: &Asked,
    subject: &Subject,
    alone: Option<&Report>,
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
    let subject = &Subject { timeout: subject.timeout.min(TIMEOUT), ..subject.clone() };
    for connections in CONNECTIONS {
        if !all.measured.is_empty() {
            all.between += settle(subject);
        }
        let began = Instant::now();
        // A load on one connection shows nothing that single requests do not.
        let alone = alone.filter(|_| connections > 1);
        let tap = alone.and_then(|_| tap(subject.server, connections));
        let plan = plan(wanted, subject, connections);
        let outcome = generate(&plan, &AtomicBool::new(false), |_| ());
        let loaded = tap.map(|tap| tap.finish().report);
        let shows_more =
            alone.zip(loaded.as_ref()).is_some_and(|(alone, it)| shows_more(alone, it));
        all.reports.extend(loaded.map(|it| (connections as u64, it)));
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
        if shows_more && Some(&connections) != CONNECTIONS.last() {
            let fewer = units::counted(connections as u64, "connection", "connections");
            steps.skipped("load", format!("{fewer} show a fault; more would meet it first"));
            break;
        }
    }
    all
}

/// Waits until the server has worked off the connections that the previous load left in its accept
/// queue; otherwise the next load would begin with a full queue. Returns the number of requests
/// that this took. The queue is first-in, first-out, so a response on a new connection comes after
/// all others.
fn settle(subject: &Subject) -> u64 {
    // If the server no longer answers, the next load fails and reports it.
    let Ok(mut connection) = Connection::open(subject, Settings::default()) else { return 0 };
    let _ = connection.ask();
    1
}

fn plan(wanted: &Doctor, subject: &Subject, connections: usize) -> Plan {
    Plan {
        request: subject.request.clone(),
        connections,
        duration: Some(LASTS),
        timeout: subject.timeout,
        tls: wanted.trust.tls(true),
        ..Plan::new(subject.target.clone(), vec![subject.server])
    }
}

/// Starts a capture of a load; `None` if the kernel refuses it.
fn tap(server: SocketAddr, connections: usize) -> Option<Tap> {
    let tap = match connections <= WHOLE_MAX {
        true => Tap::whole(server, None),
        false => Tap::of_load(&[server]),
    };
    tap.ok()
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

/// Describes the result of one load in one line.
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
