//! A short load with several connections: whether the server answers ten clients as fast as one, and
//! as many as `--load` names.

use super::Opened;
use super::args::Doctor;
use super::asked::RequestResults;
use super::steps::Steps;
use crate::tap::Tap;
use crate::terminal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tcpwhy_core::experiment::shows_more;
use tcpwhy_core::keys::GrowingKeys;
use tcpwhy_core::model::{Report, units};
use tcpwhy_core::report::Look;
use tcpwhy_privileged::Helper;
use tcpwhy_probe::budget::{Limits, NO_LIMIT};
use tcpwhy_probe::experiment::{Connection, Settings, Subject};
use tcpwhy_probe::http::Request;
use tcpwhy_probe::load::{End, Guard, LoadOutcome, Plan, Quantile, Uneven, run as generate};
use tcpwhy_probe::tls::TlsOptions;
use tcpwhy_probe::{Scheme, Target};

/// Number of concurrent connections of the load that nobody asked for.
const CONNECTIONS: u32 = 10;
/// Its duration. A dropped SYN is sent again after 1 s (RFC 6298 §2.1), so a shorter load would not
/// show it.
const LASTS: Duration = Duration::from_secs(2);
/// Its number of requests, which are spread over its time.
const REQUESTS: u64 = 1_000;
/// Bytes of these requests and their answers.
const BYTES: u64 = 8 << 20;
/// Latency under load, as a multiple of that of single requests, from which on the load is too
/// large, if it is also this much longer, ns: shorter waits come from the scheduler of this host.
const SLOW_TIMES: u64 = 3;
const SLOW_NS_MIN: u64 = 5_000_000;
/// 99th percentile under a load from which on late answers are worth a sentence, ns: what a busy machine
/// adds is shorter.
const LATE_NS: u64 = 100_000_000;
/// Up to this many connections, all packets are captured without a budget: a sample of so few
/// connections would be too small.
const WHOLE_MAX: usize = 10;
/// Time after which an outstanding response makes a load fail, or is no longer waited for before
/// the next load.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Growth of the rate of answers with more connections below which the server has no more to give.
const GROWTH_MIN: f64 = 1.3;
/// Least latency of a request alone, ns, that workers may be counted by: shorter ones are as much of
/// the client as of the server.
const ALONE_NS_MIN: u64 = 1_000_000;

/// The result of the load with one number of connections.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loaded {
    /// Number of concurrent connections.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub connections: usize,
    /// Number of requests answered.
    pub requests: u64,
    /// Duration of the load, ns.
    pub elapsed_ns: u64,
    /// Requests answered a second; without --load it is no measure of the server, because the
    /// requests are spread over the time.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub requests_per_second: f64,
    /// Number of requests without an answer, which are among the latencies at their age.
    pub unanswered: u64,
    /// Median latency, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// The fields that are lower bounds, because requests without an answer may change them.
    #[cfg_attr(test, schemars(extend("items" = { "type": "string", "enum": ["p50_ns", "p99_ns"] })))]
    pub at_least: Vec<&'static str>,
    /// Number of answers by status.
    #[cfg_attr(test, schemars(with = "BTreeMap<u16, std::num::NonZeroU64>", extend("propertyNames" = { "pattern": "^[0-9]{3,5}$" })))]
    pub statuses: BTreeMap<u16, u64>,
    /// Number of failed requests.
    pub errors: u64,
    /// Tails and standstills, a sentence each.
    pub uneven: Vec<String>,
    /// Why the load ended before its time; `None`: it did not.
    pub stopped: Option<Stopped>,
}

/// The reason why a load ended before its time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stopped {
    /// The kind of the reason.
    #[cfg_attr(test, schemars(extend("enum" = ["status", "limit", "failure", "unanswered", "latency", "budget"])))]
    pub reason: &'static str,
    /// The reason as a sentence.
    pub why: String,
}

/// Returns the numbers of concurrent connections, one load for each.
fn sizes(wanted: &Doctor) -> Vec<u32> {
    match wanted.load {
        None => vec![CONNECTIONS],
        // A small load shows what a large one would bury.
        Some(more) if more > CONNECTIONS => vec![CONNECTIONS, more],
        Some(few) => vec![few],
    }
}

/// Returns the duration of each load.
pub fn lasts(wanted: &Doctor) -> Duration {
    match wanted.load {
        None => LASTS,
        Some(_) => Duration::from_secs(wanted.load_seconds.into()),
    }
}

/// Returns the most that loads send; the receive buffer of a connection has `buffer_bytes`.
pub fn limits(wanted: &Doctor, target: &Target, request: &Request, buffer_bytes: u64) -> Limits {
    if wanted.no_load || target.scheme == Scheme::Tcp || !request.is_idempotent() {
        return Limits::NOTHING;
    }
    let connections_at_once = sizes(wanted).into_iter().max().unwrap_or(CONNECTIONS).into();
    match wanted.load {
        None => Limits {
            requests: REQUESTS,
            // A server may close each connection after one answer.
            connections: REQUESTS + connections_at_once,
            connections_at_once,
            bytes: BYTES + connections_at_once * buffer_bytes,
        },
        Some(_) => Limits {
            requests: NO_LIMIT,
            connections: NO_LIMIT,
            connections_at_once,
            bytes: NO_LIMIT,
        },
    }
}

/// The results of all loads.
#[derive(Default)]
pub struct Loads {
    /// The measurements, fewest connections first.
    pub measured: Vec<Loaded>,
    /// Reports on the packets of loads with more than one connection, by number of connections.
    pub reports: Vec<(u64, Report)>,
}

impl Loads {
    /// Records the reason for which no load is sent.
    pub fn skipped(why: String, steps: &mut Steps) -> Loads {
        steps.skipped("load", why);
        Loads::default()
    }
}

/// Runs loads with more and more connections, while all requests are answered and no fault appears
/// that the single requests (`alone`) do not have. Packets are captured if those of the single
/// requests were.
pub fn run(
    wanted: &Doctor,
    opened: &Opened,
    asked: &RequestResults,
    subject: &Subject,
    alone: Option<&Report>,
    steps: &mut Steps,
) -> Loads {
    if let Some(why) = unwanted(wanted, asked, subject) {
        return Loads::skipped(why, steps);
    }
    let mut all = Loads::default();
    let subject = &Subject { timeout: subject.timeout.min(TIMEOUT), ..subject.clone() };
    let sizes = sizes(wanted);
    for &connections in &sizes {
        let plan = match plan(wanted, &opened.tls, asked, subject, connections) {
            Ok(plan) => plan,
            Err(why) => {
                steps.skipped("load", why);
                break;
            }
        };
        if !all.measured.is_empty() {
            settle(subject);
        }
        let began = Instant::now();
        // A load on one connection shows nothing that single requests do not.
        let alone = alone.filter(|_| connections > 1);
        let secrets = opened.tls.secrets.as_ref().filter(|_| subject.tls.is_some());
        let tap =
            alone.and_then(|_| tap(&opened.helper, subject.server, plan.connections, secrets));
        let outcome = generate(&plan, &AtomicBool::new(false), |_| ());
        let loaded = tap.map(|tap| tap.finish().report);
        let shows_more =
            alone.zip(loaded.as_ref()).is_some_and(|(alone, it)| shows_more(alone, it));
        all.reports.extend(loaded.map(|it| (connections.into(), it)));
        match outcome {
            Ok(LoadOutcome { ended: Some(End::Budget(exceeded)), requests: 0, .. }) => {
                steps.skipped(
                    "load",
                    format!("no answer fits beside its receive buffers: {exceeded}"),
                );
                break;
            }
            Ok(outcome) => {
                let limited = match &outcome.ended {
                    Some(End::Limit(limited)) => Some(*limited),
                    _ => None,
                };
                subject.answers.add_load(&outcome.statuses, &outcome.health, limited);
                let alone_ns = asked.layers().request_ns;
                let loaded = of(&plan, &outcome, alone_ns);
                let look = terminal::look(&wanted.display, wanted.all);
                steps.done("load", began, words(&loaded, &look));
                let is_over = loaded.errors > 0 || loaded.stopped.is_some();
                all.measured.push(loaded);
                if is_over {
                    break;
                }
            }
            Err(error) => steps.failed("load", began, error.to_string()),
        }
        if shows_more && Some(&connections) != sizes.last() {
            let fewer = units::counted(connections.into(), "connection", "connections");
            steps.skipped("load", format!("{fewer} show a fault; more would meet it first"));
            break;
        }
    }
    all
}

/// Returns the reason for which no load is sent, if there is one.
fn unwanted(wanted: &Doctor, asked: &RequestResults, subject: &Subject) -> Option<String> {
    if wanted.no_load {
        return Some("--no-load".to_owned());
    }
    if subject.target.scheme == Scheme::Tcp || !asked.is_answered() || asked.error.is_some() {
        return Some("what is not answered alone is not asked many times".to_owned());
    }
    if !subject.request.is_idempotent() {
        return Some("requests of this method are not repeated; tcpwhy load does that".to_owned());
    }
    let status = asked.unsuccessful.filter(|_| wanted.load.is_none())?;
    let answer = match asked.unhealthy {
        Some(health) => format!("the answer is {health}"),
        None => format!("the answer has status {status}"),
    };
    Some(format!("{answer}, and a load follows success only; see --load"))
}

/// Waits until the server has worked off the connections that the previous load left in its accept
/// queue; otherwise the next load would begin with a full queue. The queue is first-in, first-out,
/// so a response on a new connection comes after all others.
fn settle(subject: &Subject) {
    // If the server no longer answers, the next load fails and reports it.
    if let Ok(mut connection) = Connection::open(subject, Settings::default()) {
        let _ = connection.ask();
    }
}

/// Returns the plan of a load, or why there is none: its answers are so large that each connection cannot
/// have one within the budget, or that all cannot come within the timeout at the rate of one alone, which
/// may be that of the path.
fn plan(
    wanted: &Doctor,
    tls: &TlsOptions,
    asked: &RequestResults,
    subject: &Subject,
    connections: u32,
) -> Result<Plan, String> {
    let single_ns = asked.layers().request_ns;
    let slow_ns = (SLOW_TIMES * single_ns).max(single_ns + SLOW_NS_MIN);
    let answer_bytes = asked.exchange_bytes_max(subject);
    let all_ns = u64::from(connections) * asked.answer_ns();
    let timeout_ns = u64::try_from(subject.timeout.as_nanos()).unwrap_or(u64::MAX);
    if asked.exceeds_first_flight(subject) && all_ns > timeout_ns {
        return Err(format!(
            "{connections} answers of {} take {} at the rate of one alone, longer than its timeout of {}; \
             tcpwhy load --timeout waits longer",
            units::bytes(answer_bytes),
            units::duration(all_ns),
            units::duration(timeout_ns)
        ));
    }
    let status = asked.status.ok_or("no answer has a status")?;
    let guard = Guard { status, slow_ns: wanted.load.is_none().then_some(slow_ns) };
    let plan = Plan {
        request: subject.request.clone(),
        connections: connections as usize,
        duration: Some(lasts(wanted)),
        timeout: subject.timeout,
        tls: TlsOptions { versions: subject.versions, ..tls.clone() },
        guard: Some(guard),
        heeds_limits: true,
        budget: subject.budget.clone(),
        ..Plan::new(subject.target.clone(), vec![subject.server])
    };
    if wanted.load.is_some() {
        return Ok(plan);
    }
    // Half of the bytes are left for receive buffers that grow.
    let fitting = BYTES / 2 / answer_bytes.max(1);
    let requests = REQUESTS.min(fitting);
    let spacing = LASTS.mul_f64(f64::from(connections) / requests.max(1) as f64);
    if requests < connections.into() {
        let size = units::bytes(answer_bytes);
        return Err(format!("with {size} for each answer it would exceed the budget; see --load"));
    }
    Ok(Plan { requests: Some(requests), spacing, ..plan })
}

/// Starts a capture of a load; `None` if the kernel refuses it.
fn tap(
    helper: &Helper,
    server: SocketAddr,
    connections: usize,
    secrets: Option<&GrowingKeys>,
) -> Option<Tap> {
    let socket = helper.packet_socket().ok()?;
    let tap = match connections <= WHOLE_MAX {
        true => Tap::whole(socket, server, secrets, None),
        false => Tap::of_load(socket, &[server], secrets),
    };
    tap.ok()
}

fn of(plan: &Plan, outcome: &LoadOutcome, alone_ns: u64) -> Loaded {
    let mut uneven: Vec<String> = Uneven::of(plan, outcome).words().collect();
    let p99_ns = outcome.latency.quantile(0.99).ns;
    if uneven.is_empty() && p99_ns >= LATE_NS && matches!(outcome.ended, Some(End::Slow { .. })) {
        uneven.push(format!(
            "With {} connections at a time most answers come late, p99 {}, where a request alone takes {}: \
             requests wait for each other, or some are slow",
            plan.connections,
            units::duration(p99_ns),
            units::duration(alone_ns)
        ));
    }
    let quantiles =
        [("p50_ns", outcome.latency.quantile(0.5)), ("p99_ns", outcome.latency.quantile(0.99))];
    let bounds = quantiles.iter().filter(|(_, it)| it.at_least);
    Loaded {
        connections: plan.connections,
        requests: outcome.requests,
        elapsed_ns: outcome.elapsed_ns,
        requests_per_second: outcome.requests_per_second(),
        unanswered: outcome.latency.unanswered(),
        p50_ns: quantiles[0].1.ns,
        p99_ns: quantiles[1].1.ns,
        at_least: bounds.map(|(name, _)| *name).collect(),
        statuses: outcome.statuses.clone(),
        errors: outcome.error_count(),
        uneven,
        stopped: outcome
            .ended
            .as_ref()
            .map(|it| Stopped { reason: it.name(), why: it.to_string() }),
    }
}

/// Says how many requests the server works on at a time, if more connections have no more answers: by
/// Little's law their number is the rate of answers times the latency of a request alone. A load that
/// ended because most answers were late is compared with the request alone.
pub fn saturation(loads: &[Loaded], alone_ns: u64) -> Option<String> {
    if alone_ns < ALONE_NS_MIN {
        return None;
    }
    let is_slow = |it: &Loaded| it.stopped.as_ref().is_some_and(|it| it.reason == End::SLOW);
    let (few, many, is_full) = match loads {
        [few, many] => {
            let few = (few.connections, few.requests_per_second);
            (few, many, many.requests_per_second < GROWTH_MIN * few.1)
        }
        [many] if is_slow(many) => {
            // A tail of slow answers leaves the others as quick as they are alone.
            let all_wait = many.p50_ns as f64 >= GROWTH_MIN * alone_ns as f64;
            ((1, 1e9 / alone_ns as f64), many, all_wait)
        }
        _ => return None,
    };
    let at_once = many.requests_per_second * alone_ns as f64 / 1e9;
    (is_full && many.errors == 0 && at_once < many.connections as f64 / 2.0).then(|| {
        format!(
            "It works on about {:.0} requests at a time, and the others wait for a worker or a CPU: {} {} {:.0} \
             answers a second, {} have {:.0} (Little's law: {:.0}/s × {} alone)",
            at_once.max(1.0),
            units::counted(few.0 as u64, "connection", "connections"),
            if few.0 == 1 { "has" } else { "have" },
            few.1,
            many.connections,
            many.requests_per_second,
            many.requests_per_second,
            units::duration(alone_ns)
        )
    })
}

/// Describes the result of one load in one line.
pub fn words(it: &Loaded, look: &Look) -> String {
    let errors = match it.errors {
        0 => String::new(),
        some => format!(", {}", units::counted(some, "failure", "failures")),
    };
    let unanswered = match it.unanswered {
        0 => String::new(),
        some => format!(", {} without an answer", units::count(some)),
    };
    let stopped = it.stopped.as_ref();
    let stopped = stopped.map_or_else(String::new, |it| format!("; stopped: {}", it.why));
    let quantile = |name: &str, ns: u64| {
        crate::load::quantile(Quantile { ns, at_least: it.at_least.contains(&name) }, look)
    };
    format!(
        "{}: {} in {}, p50 {}, p99 {}{errors}{unanswered}{stopped}",
        units::counted(it.connections as u64, "connection", "connections"),
        units::counted(it.requests, "request", "requests"),
        units::duration(it.elapsed_ns),
        quantile("p50_ns", it.p50_ns),
        quantile("p99_ns", it.p99_ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(connections: usize, requests_per_second: f64) -> Loaded {
        Loaded {
            connections,
            requests: 400,
            elapsed_ns: 2_000_000_000,
            requests_per_second,
            unanswered: 0,
            p50_ns: 0,
            p99_ns: 0,
            at_least: Vec::new(),
            statuses: BTreeMap::new(),
            errors: 0,
            uneven: Vec::new(),
            stopped: None,
        }
    }

    #[test]
    fn workers_are_counted_where_more_connections_have_no_more_answers() {
        const ALONE_NS: u64 = 20_000_000;
        let full = [loaded(10, 198.0), loaded(100, 201.0)];
        let words = saturation(&full, ALONE_NS).expect("words");
        assert!(words.starts_with("It works on about 4 requests at a time"), "{words}");
        // Waves of four: half of the requests wait for one or two others.
        let slow = Stopped { reason: End::SLOW, why: String::new() };
        let waves = |p50_ns| Loaded { p50_ns, stopped: Some(slow.clone()), ..loaded(10, 198.0) };
        let words = saturation(&[waves(2 * ALONE_NS)], ALONE_NS).expect("words");
        assert!(words.contains("1 connection has 50 answers a second, 10 have 198"), "{words}");
        let tail = [waves(ALONE_NS)];
        for (loads, alone_ns) in [
            (&tail[..], ALONE_NS),
            (&full[..1], ALONE_NS),
            (&[loaded(10, 198.0), loaded(100, 900.0)], ALONE_NS),
            (&full, 50_000),
            (&[loaded(2, 100.0), loaded(4, 110.0)], ALONE_NS),
        ] {
            assert_eq!(saturation(loads, alone_ns), None);
        }
    }
}
