//! `tcpwhy URL`: from the outside in and from the top to the bottom, to one verdict.
//!
//! ```text
//! resolve, ─► connect, TLS, requests alone ─► path ─► experiments ─► load ─► sockets ─► verdict
//! choose an   own traffic captured,                                      of the same machine
//! address     or TCP_INFO of own sockets
//!    ▲                    │
//!    └──── a redirect ────┘
//! ```

mod args;
mod asked;
mod error;
mod experimenting;
mod faults;
mod http2;
mod loads;
mod local;
mod names;
mod place;
mod redirects;
mod steps;
mod text;
mod traffic;
mod way;

pub use args::{Doctor, EXAMPLES};
use error::DoctorError;

use crate::error::Error;
use crate::tap::{Tap, Tapped};
use crate::{output, proxy, sandbox, terminal};
use asked::{Layers, RequestResults};
use faults::OutsideFault;
use http2::Http2;
use loads::Loaded;
use place::{Place, Places};
use redirects::{Redirect, Redirects};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use steps::{ExaminationStep, Steps};
use tcpwhy_core::experiment::{add_load, unresolved, weigh};
use tcpwhy_core::keys::GrowingKeys;
use tcpwhy_core::model::experiment::Experiment;
use tcpwhy_core::model::units::{counted, duration};
use tcpwhy_core::model::{Cause, Class, Finding, Report, Role};
use tcpwhy_core::report::json;
use tcpwhy_host::Entry;
use tcpwhy_live::folder::Folder;
use tcpwhy_privileged::{Helper, Permitted};
use tcpwhy_probe::addresses::Tried;
use tcpwhy_probe::budget::{Limits, Spent};
use tcpwhy_probe::experiment::{Occasion, Subject};
use tcpwhy_probe::target::Ask;
use tcpwhy_probe::tls::TlsOptions;
use tcpwhy_probe::{Scheme, Target};
use traffic::{Amount, Traffic};

/// Exit status if there is a fault.
const EXIT_FAULTS: u8 = 1;
/// Exit status if the target could not be examined.
const EXIT_UNEXAMINED: u8 = 2;

/// From this request time on, ns, requests may wait for packets that are too large for the path: a
/// sender discovers the path MTU by timers of 200 ms and more, which double.
const SLOW_NS: u64 = 1_000_000_000;

/// The additional part of a target's report: docs/report.schema.json, `doctor`, which is made of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Beside<'a> {
    /// The walk to a URL or HOST:PORT; absent from reports on files.
    doctor: Walk<'a>,
}

/// The examination: its target, the traffic it sent, time by layer, and its steps.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Walk<'a> {
    /// As it was named.
    target: String,
    /// The address and port that were asked; null: the name has no address.
    address: Option<String>,
    /// Requests sent.
    requests: u64,
    /// Number of answers by their status: of requests alone, experiments and loads.
    #[cfg_attr(test, schemars(with = "BTreeMap<u16, std::num::NonZeroU64>", extend("propertyNames" = { "pattern": "^[0-9]{3,5}$" })))]
    statuses: BTreeMap<u16, u64>,
    /// The answers to health checks of gRPC, as SERVING; null: none was asked for.
    #[cfg_attr(test, schemars(with = "Option<BTreeMap<String, std::num::NonZeroU64>>"))]
    health: Option<BTreeMap<String, u64>>,
    /// The redirects that were followed; the rest of the walk is about the last target.
    redirects: &'a [Redirect],
    /// The addresses of the name, in the order in which a client tries them (RFC 8305); empty if there
    /// is only one.
    addresses: &'a [Tried],
    /// Faults that answers, redirects and addresses show, and that no finding states.
    faults: &'a [OutsideFault],
    /// Further observations, a sentence each.
    notes: Vec<String>,
    /// The most that the walk may send, stated before it sends anything. null: no limit, because
    /// --load asks for as many requests as are answered.
    budget: Amount<Limits>,
    /// The requests and bytes that the walk sent, and its budget.
    sent: Amount<Spent>,
    layers: Layers,
    /// Facts about the server that HTTP/2 shows; null if it was not spoken.
    http2: Option<Http2>,
    /// Many requests at a time, for a moment each, in a closed loop. Only --load asks for more than
    /// ten connections.
    loads: Vec<Loaded>,
    /// Entries of an audit of this machine that explain a finding, the most direct first; none where
    /// the server is on another.
    #[cfg_attr(test, schemars(length(max = 3)))]
    host: Vec<Entry>,
    /// One sentence.
    verdict: String,
    /// The steps of the walk, in order.
    steps: &'a [ExaminationStep],
}

/// Examines the target and prints the verdict; the exit status says whether there are faults.
///
/// # Errors The target is invalid or does not resolve, or the report cannot be written.
pub fn run(asked_for: &Doctor) -> Result<ExitCode, Error> {
    let target = Target::parse(&asked_for.target).map_err(DoctorError::from)?;
    let opened = Opened::before_sending(asked_for, &target)?;
    let mut steps = Steps::new(!asked_for.display.no_progress);
    let request = asked_for.request(opened.body.clone());
    let follows = redirects::are_followed(asked_for, &target, &request);
    // A redirect may lead to TLS.
    let most_kinds = asked_for.experiments(target.scheme == Scheme::Https || follows);
    let traffic = Traffic::new(asked_for, &target, &request, &most_kinds);
    steps.announce(&traffic.announcement(asked_for, &target, &request.method));
    if let Some(note) = proxy::note(&target) {
        steps.skipped("proxy", note);
    }
    let mut redirects = Redirects::new(follows, &target);
    let mut places = Places::new(asked_for, &opened, &traffic);
    let Some(mut place) = places.find(target.clone(), request, &mut steps)? else {
        let report = unresolved(places.lookup_ns, places.named);
        return tell_unresolved(asked_for, &opened, report, &target, &traffic, steps.taken());
    };
    let (asked, tapped) = loop {
        let tap = open_tap(&place.subject, &opened, &mut steps);
        let began = Instant::now();
        let follows = redirects.is_followed();
        let asked = RequestResults::ask(&place.subject, place.lookup_ns, follows);
        match redirects.next(&asked, &place.subject, began, &mut steps) {
            Some((to, request)) => match places.find(to, request, &mut steps) {
                Ok(Some(next)) => place = next,
                Ok(None) => redirects.stop("redirects to a name that does not resolve".to_owned()),
                Err(error) => redirects.stop(format!("redirects to no server: {error}")),
            },
            // The answers that lead nowhere are examined.
            None if follows && !redirects.is_followed() => {}
            None => {
                tell_asked(&asked, &place.subject, began, &mut steps);
                break (asked, tap.and_then(|tap| end_tap(tap, &mut steps)));
            }
        }
    };
    let (named, Place { subject, lookup_ns, addresses }) = (places.named, place);
    way::examine(asked_for, subject.server, &opened.helper, traffic.probes(), &mut steps);
    let kinds = asked_for.experiments(subject.tls.is_some());
    let alone = tapped.as_ref().map(|it| &it.report);
    let others =
        experimenting::others(&opened.tls, &subject, &addresses.connecting(), traffic.queries())?;
    let has_small_window = alone.is_none() && asked.has_small_window();
    let occasions = [
        // An answer of many windows has come in full segments.
        (Occasion::SlowRequests, asked.slowest_ns() >= SLOW_NS && !has_small_window),
        (Occasion::SlowAnswers, alone.is_none() && asked.answer_ns() >= experimenting::LONG_NS),
        (Occasion::SmallWindow, has_small_window),
        (Occasion::SlowLookups, lookup_ns >= names::SLOW_NS && others.resolvers.len() > 1),
    ];
    let kinds = experimenting::worth_making(kinds, &asked, &subject, &occasions, &mut steps);
    let usual_status = asked.status;
    let changing = Subject { budget: traffic.experiments(), usual_status, ..subject.clone() };
    let (experiments, refused) = experimenting::run(&asked, &changing, kinds, &others, &mut steps);
    let mut http2 = Http2::of(&asked);
    let welcomes = refused.is_none() && asked.welcomes_streams(asked_for, &subject);
    if let Some(http2) = http2.as_mut().filter(|_| welcomes) {
        http2.ask_at_once(&changing, asked.exchange_bytes_max(&subject), &mut steps);
    }
    let loading = Subject { budget: traffic.load(), ..subject.clone() };
    let loads = match refused {
        Some(why) => loads::Loads::skipped(why, &mut steps),
        None => loads::run(asked_for, &opened, &asked, &loading, alone, &mut steps),
    };
    let (mut report, packets) = diagnose(&asked, named, experiments, tapped, &target);
    for (connections, loaded) in loads.reports {
        add_load(&mut report, connections, loaded);
    }
    report.findings.retain(|it| !is_explained(it, &asked));
    let is_answered = asked.is_answered();
    let seen = Subject { budget: traffic.sockets(), ..subject.clone() };
    let helper = &opened.helper;
    // The helper may read the sockets of the port that was named.
    let is_named = subject.target.port == target.port;
    let place = (is_answered && is_named)
        .then(|| local::weigh(&mut report, &seen, helper, &mut steps))
        .flatten();
    let host =
        place.map_or_else(Vec::new, |place| local::explain(&report, &place, helper, &mut steps));
    let mut faults = faults::of(&report, &subject, &asked, &redirects, &addresses, &loads.measured);
    let of_http2 = http2.iter().flat_map(|it| it.faults(&subject, asked.layers().request_ns));
    faults.extend(of_http2);
    if asked.is_other_protocol() {
        faults.retain(|fault| fault.kind != faults::STATUS);
    }
    let verdict = text::verdict(&report, &asked, &subject, &faults, &loads.measured);
    let walk = Walk {
        target: target.to_string(),
        address: Some(subject.server.to_string()),
        requests: traffic.sent().target.requests,
        statuses: subject.answers.statuses(),
        health: (subject.target.ask == Ask::HealthCheck).then(|| {
            let health = subject.answers.health().into_iter();
            health.map(|(health, number)| (health.to_string(), number)).collect()
        }),
        redirects: &redirects.followed,
        addresses: &addresses.tried,
        faults: &faults,
        notes: [redirects.words(), addresses.words().filter(|_| !addresses.has_fault())]
            .into_iter()
            .flatten()
            .chain(asked.tls_words())
            .chain(http2.iter().flat_map(Http2::words))
            .chain(loads::saturation(&loads.measured, asked.layers().request_ns))
            .collect(),
        budget: traffic.most(),
        sent: traffic.sent(),
        layers: asked.layers(),
        http2,
        loads: loads.measured,
        host,
        verdict,
        steps: steps.taken(),
    };
    tell(asked_for, &opened, &report, walk, &asked, packets.as_deref())?;
    // An error that answers the wrong protocol is no fault of the server.
    let counts = |cause: Cause| is_answered || cause != Cause::ErrorResponses;
    let mut found = report.findings.iter().filter(|it| it.cause.class() == Class::Fault);
    let has_faults = !faults.is_empty() || found.any(|it| counts(it.cause));
    Ok(match (has_faults, is_answered) {
        (true, _) => ExitCode::from(EXIT_FAULTS),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(EXIT_UNEXAMINED),
    })
}

/// Returns whether the end of a connection or an error status is no fault of the server, or one that
/// a sentence of its own states.
fn is_explained(finding: &Finding, asked: &RequestResults) -> bool {
    let ends = [Cause::Reset, Cause::IdleReset, Cause::NoAnswer];
    match finding.cause {
        // This client ends connections when their budget or time is spent.
        Cause::Reset if finding.culprit.role == Role::Client => true,
        Cause::ErrorResponses => asked.is_other_protocol() || asked.unhealthy.is_some(),
        cause if ends.contains(&cause) => {
            let is_closed = asked.closed_unannounced > 0 && asked.error.is_none();
            is_closed || asked.is_other_protocol()
        }
        _ => false,
    }
}

/// Prints the report for a target that could not be resolved because of its name servers.
fn tell_unresolved(
    asked_for: &Doctor,
    opened: &Opened,
    mut report: Report,
    target: &Target,
    traffic: &Traffic,
    steps: &[ExaminationStep],
) -> Result<ExitCode, Error> {
    report.asked.target = Some(target.to_string());
    let walk = Walk {
        target: target.to_string(),
        address: None,
        requests: 0,
        statuses: BTreeMap::new(),
        health: None,
        redirects: &[],
        addresses: &[],
        faults: &[],
        notes: Vec::new(),
        budget: traffic.most(),
        sent: traffic.sent(),
        layers: Layers::default(),
        http2: None,
        loads: Vec::new(),
        host: Vec::new(),
        verdict: format!("{} does not resolve: name servers are at fault.", target.host),
        steps,
    };
    tell(asked_for, opened, &report, walk, &RequestResults::default(), None)?;
    Ok(ExitCode::from(EXIT_FAULTS))
}

/// Prints the report, and stores it if a bundle is asked for.
fn tell(
    asked_for: &Doctor,
    opened: &Opened,
    report: &Report,
    doctor: Walk<'_>,
    asked: &RequestResults,
    packets: Option<&[u8]>,
) -> Result<(), Error> {
    let beside = Beside { doctor };
    let document = json::render_with(report, env!("CARGO_PKG_VERSION"), &beside)?;
    let look = terminal::look(&asked_for.display, asked_for.all);
    let page = text::page(report, &beside.doctor, asked, &look);
    if let Some(bundle) = &opened.bundle {
        let html = crate::page::of_packets(report, packets, opened.tls.secrets.as_ref())?;
        let mut files = vec![
            ("report.json", document.as_bytes()),
            ("report.txt", page.as_bytes()),
            ("report.html", html.as_bytes()),
        ];
        files.extend(packets.map(|packets| ("packets.pcapng", packets)));
        bundle.keep(&files)?;
    }
    output::print(if asked_for.json { &document } else { &page })
}

/// What was opened and read before this process gave up its rights, which is before anything is sent.
struct Opened {
    /// The process that kept them.
    helper: Helper,
    body: Vec<u8>,
    tls: TlsOptions,
    bundle: Option<Bundle>,
}

/// The folder of a bundle.
struct Bundle {
    folder: Folder,
    path: String,
}

impl Opened {
    fn before_sending(asked: &Doctor, target: &Target) -> Result<Self, Error> {
        let helper = Helper::start(Permitted {
            packets: true,
            probes: true,
            server_port: Some(target.port),
            ..Permitted::default()
        })?;
        let bundle = asked.bundle.as_deref().map(Bundle::open).transpose()?;
        let body = match asked.body.as_deref() {
            None => Vec::new(),
            Some(text) => match text.strip_prefix('@') {
                None => text.as_bytes().to_vec(),
                Some(path) => fs::read(path)
                    .map_err(|source| DoctorError::Body { path: path.to_owned(), source })?,
            },
        };
        let secrets = Some(GrowingKeys::default());
        let tls = TlsOptions { secrets, ..asked.trust.tls(asked.versions) };
        sandbox::confine_measuring(bundle.as_ref().map(|it| it.folder.as_fd()));
        Ok(Self { helper, body, tls, bundle })
    }
}

impl Bundle {
    fn open(path: &Path) -> Result<Self, DoctorError> {
        let named = path.display().to_string();
        match Folder::open(path) {
            Ok(folder) => Ok(Self { folder, path: named }),
            Err(source) => Err(DoctorError::Bundle { path: named, source }),
        }
    }

    /// Writes the files, which contain what was sent.
    fn keep(&self, files: &[(&str, &[u8])]) -> Result<(), DoctorError> {
        let kept = files.iter().try_for_each(|(name, bytes)| self.folder.write(name, bytes));
        kept.map_err(|source| DoctorError::Bundle { path: self.path.clone(), source })
    }
}

fn open_tap(subject: &Subject, opened: &Opened, steps: &mut Steps) -> Option<Tap> {
    let keeper = opened.bundle.is_some().then_some("tcpwhy doctor");
    let socket = opened.helper.packet_socket();
    let secrets = opened.tls.secrets.as_ref().filter(|_| subject.tls.is_some());
    match socket.and_then(|socket| Tap::whole(socket, subject.server, secrets, keeper)) {
        Ok(tap) => Some(tap),
        Err(error) => {
            // It is refused again behind each redirect.
            if steps.taken().iter().all(|it| it.step != "capture") {
                let why = format!("{error}; own sockets and experiments tell instead");
                steps.skipped("capture", why);
            }
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
    let packets =
        counted(tapped.report.inputs.iter().map(|it| it.packets).sum(), "packet", "packets");
    let exchanges = counted(tapped.report.totals.exchanges, "exchange", "exchanges");
    steps.done("capture", began, format!("{packets}, {exchanges}"));
    Some(tapped)
}

fn tell_asked(asked: &RequestResults, subject: &Subject, began: Instant, steps: &mut Steps) {
    let layers = asked.layers();
    if asked.is_answered() {
        let rtt = duration(layers.path_ns);
        let what =
            format!("{} in the median, a round trip takes {rtt}", duration(layers.connect_ns));
        steps.done("connect", began, what);
        if subject.tls.is_some() {
            let (all, first) = (duration(layers.tls_ns), duration(layers.tls_first_byte_ns));
            let more = asked.tls_words().map_or_else(String::new, |it| format!("; {it}"));
            let what = format!("{all} in the median, {first} until the server's first bytes{more}");
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

/// Merges the report on packets (or on own sockets, if there are no packets) with findings about
/// name servers and experiments. Returns it with the packets.
fn diagnose(
    asked: &RequestResults,
    named: Vec<Finding>,
    experiments: Vec<Experiment>,
    tapped: Option<Tapped>,
    target: &Target,
) -> (Report, Option<Vec<u8>>) {
    let is_captured = |it: &Tapped| it.report.totals.connections > 0;
    let (mut report, packets) = match tapped.filter(is_captured) {
        Some(Tapped { report, packets, .. }) => (report, packets),
        None => (asked.measured.report(&experiments), None),
    };
    report.asked.target = Some(target.to_string());
    names::add(&mut report, named);
    weigh(&mut report, experiments);
    (report, packets)
}

#[cfg(test)]
mod tests {
    use super::Beside;

    #[test]
    fn the_schema_of_walks_is_that_of_the_types() {
        tcpwhy_testing::schema::add_members::<Beside<'static>>("report");
    }
}
