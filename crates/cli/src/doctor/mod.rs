//! `tcpwhy URL`: from the outside in and from the top to the bottom, to one verdict.
//!
//! ```text
//! resolve ─► path ─► connect, TLS, requests alone ─► load ─► experiments ─► sockets ─► verdict
//!                    own traffic captured,                                  of the same machine
//!                    or TCP_INFO of own sockets
//! ```

mod args;
mod asked;
mod error;
mod loads;
mod local;
mod names;
mod steps;
mod text;
mod way;

pub use args::{Doctor, EXAMPLES};
pub use error::DoctorError;

use crate::error::Error;
use crate::tap::{Tap, Tapped};
use crate::{output, terminal};
use asked::{Asked, CONNECTIONS, Layers, REQUESTS};
use loads::Loaded;
use names::Resolved;
use serde::Serialize;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use steps::{Step, Steps};
use tcpwhy_core::experiment::{add_load, sentence, unresolved, weigh};
use tcpwhy_core::model::experiment::Experiment;
use tcpwhy_core::model::units::duration;
use tcpwhy_core::model::{Class, Finding, Report};
use tcpwhy_core::report::json;
use tcpwhy_live::host::Entry;
use tcpwhy_probe::dns;
use tcpwhy_probe::experiment::{Bounds, Coin, Kind, Others, Skipped, Subject, make};
use tcpwhy_probe::tls::client_config;
use tcpwhy_probe::{Scheme, Target};

/// Exit status if there is a fault.
const EXIT_FAULTS: u8 = 1;
/// Exit status if the target could not be examined.
const EXIT_UNEXAMINED: u8 = 2;

/// Time limit of one experiment.
const EXPERIMENT_LASTS: Duration = Duration::from_secs(4);
/// Largest number of pairs in one experiment. Eight pairs that agree are enough, as are twenty with
/// three exceptions.
const PAIRS_MAX: u64 = 24;
/// From this request time on, ns, several pairs run at the same time: four clients do not disturb a
/// server that answers so slowly.
const LONG_NS: u64 = 20_000_000;
const PAIRS_AT_ONCE: usize = 4;
/// The smallest effect that is reported, ns, and as a share of the request time; users do not
/// notice less.
const FLOOR_NS: u64 = 1_000_000;
const FLOOR_PART: u64 = 10;

/// From this request time on, ns, requests may wait for packets that are too large for the path: a
/// sender discovers the path MTU by timers of 200 ms and more, which double.
const SLOW_NS: u64 = 1_000_000_000;

/// The additional part of a target's report: docs/report.schema.json, `doctor`.
#[derive(Serialize)]
struct Beside<'a> {
    doctor: Walk<'a>,
}

/// The examination: its target, the traffic it sent, time by layer, and its steps.
#[derive(Serialize)]
struct Walk<'a> {
    target: String,
    address: Option<String>,
    requests: u64,
    layers: Layers,
    loads: Vec<Loaded>,
    /// Audit entries that explain findings, if the server is on this machine.
    host: Vec<Entry>,
    verdict: String,
    steps: &'a [Step],
}

/// Examines the target and prints the verdict; the exit status says whether there are faults.
///
/// # Errors The target is invalid or does not resolve, or the report cannot be written.
pub fn run(asked_for: &Doctor) -> Result<ExitCode, Error> {
    let target = Target::parse(&asked_for.target).map_err(DoctorError::from)?;
    let mut steps = Steps::new(!asked_for.display.no_progress);
    let (addresses, lookup_ns, named) = match names::resolve(&target, &mut steps)? {
        Resolved::Found { addresses, lookup_ns, findings } => (addresses, lookup_ns, findings),
        Resolved::Failed { lookup_ns, findings } => {
            let report = unresolved(lookup_ns, findings);
            return tell_unresolved(asked_for, report, &target, steps.taken());
        }
    };
    let subject = subject(asked_for, target, addresses[0])?;
    let kinds = asked_for.experiments(subject.tls.is_some());
    steps.announce(&announcement(&subject, &kinds, !asked_for.no_load));
    way::examine(asked_for, subject.server, &mut steps);
    let tap = open_tap(&subject, asked_for.bundle.is_some(), &mut steps);
    let began = Instant::now();
    let asked = Asked::ask(&subject, lookup_ns);
    tell_asked(&asked, &subject, began, &mut steps);
    let tapped = tap.and_then(|tap| end_tap(tap, &mut steps));
    let alone = tapped.as_ref().map(|it| &it.report);
    let loads = loads::run(asked_for, &asked, &subject, alone, &mut steps);
    let others = others(asked_for, &subject, &addresses)?;
    let kinds = worth_making(kinds, &asked, &subject, lookup_ns, &others);
    let experiments = experiments(&asked, &subject, kinds, &others, &mut steps);
    let loaded = loads.between + loads.measured.iter().map(|it| it.requests).sum::<u64>();
    let requests = asked.sent + loaded + experiments.iter().map(|it| it.requests).sum::<u64>();
    let (mut report, packets) = diagnose(&asked, named, experiments, tapped, &subject);
    for (connections, loaded) in loads.reports {
        add_load(&mut report, connections, loaded);
    }
    let is_answered = asked.is_answered();
    let place = is_answered.then(|| local::weigh(&mut report, &subject, &mut steps)).flatten();
    let host = place.map_or_else(Vec::new, |place| local::explain(&report, &place, &mut steps));
    let verdict = text::verdict(&report, &asked, &subject);
    let walk = Walk {
        target: subject.target.to_string(),
        address: Some(subject.server.to_string()),
        requests,
        layers: asked.layers(),
        loads: loads.measured,
        host,
        verdict,
        steps: steps.taken(),
    };
    tell(asked_for, &report, walk, &asked, packets.as_deref())?;
    let has_faults = report.findings.iter().any(|it| it.cause.class() == Class::Fault);
    Ok(match (has_faults, asked.is_answered()) {
        (true, _) => ExitCode::from(EXIT_FAULTS),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(EXIT_UNEXAMINED),
    })
}

/// Prints the report for a target that could not be resolved because of its name servers.
fn tell_unresolved(
    asked_for: &Doctor,
    mut report: Report,
    target: &Target,
    steps: &[Step],
) -> Result<ExitCode, Error> {
    report.asked.target = Some(target.to_string());
    let walk = Walk {
        target: target.to_string(),
        address: None,
        requests: 0,
        layers: Layers::default(),
        loads: Vec::new(),
        host: Vec::new(),
        verdict: format!("{} does not resolve: name servers are at fault.", target.host),
        steps,
    };
    tell(asked_for, &report, walk, &Asked::default(), None)?;
    Ok(ExitCode::from(EXIT_FAULTS))
}

/// Prints the report, and stores it if a bundle is asked for.
fn tell(
    asked_for: &Doctor,
    report: &Report,
    doctor: Walk<'_>,
    asked: &Asked,
    packets: Option<&[u8]>,
) -> Result<(), Error> {
    let beside = Beside { doctor };
    let document = json::render_with(report, env!("CARGO_PKG_VERSION"), &beside)?;
    let look = terminal::look(&asked_for.display, asked_for.all);
    let page = text::page(report, &beside.doctor, asked, &look);
    if let Some(folder) = &asked_for.bundle {
        keep(folder, &document, &page, packets)?;
        let html = crate::page::of_packets(report, packets)?;
        let path = folder.display().to_string();
        fs::write(folder.join("report.html"), html)
            .map_err(|source| DoctorError::Bundle { path, source })?;
    }
    output::print(if asked_for.json { &document } else { &page })
}

fn subject(asked: &Doctor, target: Target, server: SocketAddr) -> Result<Subject, DoctorError> {
    let body = match asked.body.as_deref() {
        None => Vec::new(),
        Some(text) => match text.strip_prefix('@') {
            None => text.as_bytes().to_vec(),
            Some(path) => fs::read(path)
                .map_err(|source| DoctorError::Body { path: path.to_owned(), source })?,
        },
    };
    let tls = match target.scheme {
        Scheme::Https => Some(client_config(&asked.trust.tls(false))?),
        Scheme::Http | Scheme::Tcp => None,
    };
    let timeout = Duration::from_nanos(asked.timeout);
    Ok(Subject { target, server, request: asked.request(body), tls, timeout })
}

/// Describes the largest amount of traffic that will be sent.
fn announcement(subject: &Subject, kinds: &[Kind], loads: bool) -> String {
    let at = subject.server;
    if subject.target.scheme == Scheme::Tcp {
        return format!("{at} is connected to {CONNECTIONS} times; no request is known to ask it");
    }
    let alone = (CONNECTIONS * REQUESTS) as u64;
    let more: u64 = kinds.iter().map(most_requests).sum();
    let method = &subject.request.method;
    let load = if loads { loads::announcement() } else { String::new() };
    format!("{at} is sent up to {alone} {method} requests alone, up to {more} in experiments{load}")
}

fn most_requests(kind: &Kind) -> u64 {
    kind.requests_beside() + PAIRS_MAX * kind.requests_of_pair()
}

fn open_tap(subject: &Subject, keeps: bool, steps: &mut Steps) -> Option<Tap> {
    match Tap::whole(subject.server, keeps.then_some("tcpwhy doctor")) {
        Ok(tap) => Some(tap),
        Err(error) => {
            steps.skipped("capture", format!("{error}; own sockets and experiments tell instead"));
            None
        }
    }
}

fn end_tap(tap: Tap, steps: &mut Steps) -> Option<Tapped> {
    let began = Instant::now();
    let tapped = tap.finish();
    if let Some(error) = &tapped.refused {
        steps.failed("capture", began, error.to_string());
        return None;
    }
    let packets: u64 = tapped.report.inputs.iter().map(|it| it.packets).sum();
    let exchanges = tapped.report.totals.exchanges;
    steps.done("capture", began, format!("{packets} packets, {exchanges} exchanges"));
    Some(tapped)
}

fn tell_asked(asked: &Asked, subject: &Subject, began: Instant, steps: &mut Steps) {
    let layers = asked.layers();
    if asked.is_answered() {
        let rtt = duration(layers.path_ns);
        let what =
            format!("{} in the median, a round trip takes {rtt}", duration(layers.connect_ns));
        steps.done("connect", began, what);
        if subject.tls.is_some() {
            let (all, first) = (duration(layers.tls_ns), duration(layers.tls_first_byte_ns));
            let what = format!("{all} in the median, {first} until the server's first bytes");
            steps.done("tls", began, what);
        }
    }
    match (&asked.error, asked.is_answered()) {
        (Some(error), _) => steps.failed("request", began, text::in_words(error, subject)),
        (None, true) if subject.target.scheme == Scheme::Tcp => {
            steps.skipped("request", "of HOST:PORT no request is known; name a URL to ask one");
        }
        (None, _) => steps.done("request", began, asked.words()),
    }
}

/// Finds what experiments can use for comparison: another address of the server, the host's name
/// servers, and TLS with resumed sessions.
fn others(
    asked_for: &Doctor,
    subject: &Subject,
    addresses: &[SocketAddr],
) -> Result<Others, DoctorError> {
    let family = addresses.iter().find(|it| it.is_ipv4() != subject.server.is_ipv4()).copied();
    let resolvers = dns::Config::system().map(|it| it.servers).unwrap_or_default();
    let is_tls = subject.tls.is_some();
    let resuming = is_tls.then(|| client_config(&asked_for.trust.tls(true))).transpose()?;
    Ok(Others { family, resolvers, resuming })
}

/// Selects from the `wanted` experiments those that this target permits, and adds those that slow
/// requests and look-ups suggest.
fn worth_making(
    wanted: Vec<Kind>,
    asked: &Asked,
    subject: &Subject,
    lookup_ns: u64,
    others: &Others,
) -> Vec<Kind> {
    if wanted.is_empty() || subject.target.scheme == Scheme::Tcp {
        return Vec::new();
    }
    if asked.is_stuck {
        // If no response ever ends, only the effect of large packets can be tested.
        return vec![Kind::Mss];
    }
    if !asked.is_answered() {
        return Vec::new();
    }
    let mut kinds = wanted;
    let mut suggest = |kind, is_suggested| {
        if is_suggested && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    };
    suggest(Kind::Mss, asked.slowest_ns() >= SLOW_NS);
    suggest(Kind::Resolver, lookup_ns >= names::SLOW_NS && others.resolvers.len() > 1);
    kinds
}

/// Runs the experiments.
fn experiments(
    asked: &Asked,
    subject: &Subject,
    kinds: Vec<Kind>,
    others: &Others,
    steps: &mut Steps,
) -> Vec<Experiment> {
    let mut coin = Coin::new(RandomState::new().hash_one(subject.server));
    let mut made = Vec::new();
    for kind in kinds {
        let began = Instant::now();
        let floor_ns = FLOOR_NS.max(asked.layers().request_ns / FLOOR_PART);
        let until = began + EXPERIMENT_LASTS;
        let is_long = asked.layers().request_ns >= LONG_NS;
        let at_once = if is_long { PAIRS_AT_ONCE } else { 1 };
        let bounds = Bounds { pairs_max: PAIRS_MAX, until, floor_ns, at_once };
        match make(kind, subject, others, &bounds, &mut coin) {
            Ok(experiment) => {
                steps.done(kind.name(), began, sentence(&experiment));
                made.push(experiment);
            }
            Err(Skipped::DoesNotApply(why)) => steps.skipped(kind.name(), why),
            Err(failed) => steps.failed(kind.name(), began, failed.to_string()),
        }
    }
    made
}

/// Merges the report on packets (or on own sockets, if there are no packets) with findings about
/// name servers and experiments. Returns it with the packets.
fn diagnose(
    asked: &Asked,
    named: Vec<Finding>,
    experiments: Vec<Experiment>,
    tapped: Option<Tapped>,
    subject: &Subject,
) -> (Report, Option<Vec<u8>>) {
    let is_captured = |it: &Tapped| it.report.totals.connections > 0;
    let (mut report, packets) = match tapped.filter(is_captured) {
        Some(Tapped { report, packets, .. }) => (report, packets),
        None => (asked.measured.report(&experiments), None),
    };
    report.asked.target = Some(subject.target.to_string());
    names::add(&mut report, named);
    weigh(&mut report, experiments);
    (report, packets)
}

/// Writes the bundle's files.
fn keep(folder: &Path, json: &str, text: &str, packets: Option<&[u8]>) -> Result<(), DoctorError> {
    let path = folder.display().to_string();
    let refused = |source| DoctorError::Bundle { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(refused)?;
    fs::write(folder.join("report.json"), json).map_err(refused)?;
    fs::write(folder.join("report.txt"), text).map_err(refused)?;
    if let Some(packets) = packets {
        fs::write(folder.join("packets.pcapng"), packets).map_err(refused)?;
    }
    Ok(())
}
