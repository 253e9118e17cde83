//! `tcpwhy load`: sends requests, measures them, and explains the slow ones.

mod args;
#[cfg(target_os = "linux")]
mod explain;
mod json;
#[cfg(target_os = "linux")]
mod own_sockets;
mod text;

pub use args::{EXAMPLES, Load};
#[cfg(target_os = "linux")]
pub use text::quantile;

use crate::error::Error;
use crate::{output, proxy, terminal};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;
use tcpwhy_core::model::{Class, Report};
use tcpwhy_probe::addresses::Addresses;
use tcpwhy_probe::budget::Budget;
use tcpwhy_probe::load::{self, LoadOutcome, Pace, Plan, PlanError};
use tcpwhy_probe::tls::TlsOptions;

/// Exit status if no request was answered.
const EXIT_FAILED: u8 = 2;

/// The explanation of a load, apart from its measurements.
#[derive(Default)]
pub struct Explained {
    /// The report on the load's own packets; `None` if none were captured.
    pub report: Option<Report>,
    /// Number of packets that the capture lost.
    pub dropped_packets: u64,
    /// Statistics of the load's own sockets, if packets could not be captured.
    pub sockets: Option<Sockets>,
    /// A note on what could not be observed, and what it would take.
    pub note: Option<String>,
    /// Notes on what other clients meet: a proxy in place of the server, other addresses.
    pub notes: Vec<String>,
}

/// The kernel's statistics of the load's sockets (`TCP_INFO`), over all readings.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Sockets {
    /// Number of readings of sockets.
    pub samples: u64,
    /// Smallest round trip, ns.
    pub rtt_min_ns: u64,
    /// Mean of the smoothed round trips, ns.
    pub rtt_ns: u64,
    /// Number of segments that this host sent again, summed over the sockets in the last reading.
    pub total_retrans: u64,
    /// Share of the busy time in which the server's receive window limited the sender.
    pub rwnd_limited_share: f64,
    /// Share of the busy time in which this host's send buffer limited the sender.
    pub sndbuf_limited_share: f64,
}

/// Sends the load and prints its measurements; the exit status says whether there are faults.
///
/// # Errors The target does not resolve, or the load cannot begin.
pub fn run(asked: &Load) -> Result<ExitCode, Error> {
    let given = Given::read(asked)?;
    let explaining = Explaining::confine(asked);
    let stop = terminal::interruptible();
    let timeout = Duration::from_nanos(asked.timeout);
    let addresses = Addresses::choose(&addresses(asked)?, timeout, &Budget::none())
        .ok_or(PlanError::NoAddress)?;
    let notes = proxy::note(&asked.url).into_iter().chain(addresses.words()).collect();
    let mut plan = plan(asked, given, addresses.connecting());
    let explaining = explaining.begin(&mut plan);
    let mut bar = Bar::new(asked);
    let outcome = load::run(&plan, stop, |running| bar.tell(running));
    drop(bar);
    let explained = Explained { notes, ..explaining.end() };
    let outcome = outcome?;
    if asked.json {
        output::print(&json::render(&plan, &outcome, &explained)?)?;
    } else {
        let look = terminal::look(&asked.display, asked.all);
        output::print(&text::render(&plan, &outcome, &explained, &look))?;
    }
    Ok(exit(&outcome, &explained))
}

fn exit(outcome: &LoadOutcome, explained: &Explained) -> ExitCode {
    if outcome.requests == 0 {
        return ExitCode::from(EXIT_FAILED);
    }
    let findings = explained.report.iter().flat_map(|it| &it.findings);
    let has_faults = findings.map(|it| it.cause.class()).any(|it| it == Class::Fault)
        || text::failed(outcome).is_some();
    ExitCode::from(u8::from(has_faults))
}

/// What was read from the files that the user named, before the process gave up its rights.
struct Given {
    body: Vec<u8>,
    tls: TlsOptions,
}

impl Given {
    fn read(asked: &Load) -> Result<Given, Error> {
        let body = match asked.body.as_deref() {
            None => Vec::new(),
            Some(words) => match words.strip_prefix('@') {
                None => words.as_bytes().to_vec(),
                Some(path) => std::fs::read(path)
                    .map_err(|source| Error::Open { path: path.to_owned(), source })?,
            },
        };
        Ok(Given { body, tls: asked.trust.tls(asked.versions) })
    }
}

fn plan(asked: &Load, given: Given, addresses: Vec<SocketAddr>) -> Plan {
    Plan {
        request: asked.request(given.body),
        connections: asked.connections as usize,
        streams: asked.streams as usize,
        threads: asked.threads.map(usize::from),
        duration: asked.duration(),
        requests: asked.requests,
        warmup: Duration::from_nanos(asked.warmup),
        timeout: Duration::from_nanos(asked.timeout),
        pace: asked.rate.map_or(Pace::Closed, Pace::PerSecond),
        new_connections: asked.new_connections,
        heeds_limits: !asked.ignore_limits,
        tls: TlsOptions { versions: given.tls.versions.of_target(&asked.url), ..given.tls },
        ..Plan::new(asked.url.clone(), addresses)
    }
}

/// Returns the addresses to connect to, of the IP version that was asked for.
fn addresses(asked: &Load) -> Result<Vec<SocketAddr>, Error> {
    let url = &asked.url;
    let named = asked.resolve.iter().find(|(host, _)| host.eq_ignore_ascii_case(&url.host));
    let found: Vec<SocketAddr> = match named {
        Some((_, address)) => vec![SocketAddr::new(*address, url.port)],
        None => (url.host.as_str(), url.port)
            .to_socket_addrs()
            .map_err(|source| Error::Resolve { host: url.host.clone(), source })?
            .collect(),
    };
    let is_wanted = |it: &SocketAddr| match it {
        SocketAddr::V4(_) => !asked.ipv6,
        SocketAddr::V6(_) => !asked.ipv4,
    };
    let wanted: Vec<SocketAddr> = found.into_iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        let version = if asked.ipv6 { "IPv6" } else { "IPv4" };
        return Err(Error::NoAddress { host: url.host.clone(), version });
    }
    Ok(wanted)
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Error {
        Error::Load(error)
    }
}

/// The observation that looks for causes while the load runs.
struct Explaining {
    #[cfg(target_os = "linux")]
    by: Option<explain::Explainer>,
    note: Option<String>,
}

/// What the observation needs of the time before the process gave up its rights.
#[cfg(target_os = "linux")]
struct Prepared(Option<Result<std::os::fd::OwnedFd, tcpwhy_live::LiveError>>);

#[cfg(not(target_os = "linux"))]
struct Prepared {
    is_wanted: bool,
}

impl Explaining {
    /// Opens what the observation needs, and gives up the rights of this process, before anything
    /// comes from the network.
    #[cfg(target_os = "linux")]
    fn confine(asked: &Load) -> Prepared {
        let socket = (!asked.no_explain).then(tcpwhy_live::capture::packet_socket);
        crate::sandbox::confine_measuring(None);
        Prepared(socket)
    }

    #[cfg(not(target_os = "linux"))]
    fn confine(asked: &Load) -> Prepared {
        Prepared { is_wanted: !asked.no_explain }
    }

    #[cfg(target_os = "linux")]
    fn end(self) -> Explained {
        let explained = self.by.map(explain::Explainer::end).unwrap_or_default();
        Explained { note: explained.note.or(self.note), ..explained }
    }

    #[cfg(not(target_os = "linux"))]
    fn end(self) -> Explained {
        Explained { note: self.note, ..Explained::default() }
    }
}

impl Prepared {
    #[cfg(target_os = "linux")]
    fn begin(self, plan: &mut Plan) -> Explaining {
        let Some(socket) = self.0 else { return Explaining { by: None, note: None } };
        plan.tls.secrets =
            (plan.target.scheme == tcpwhy_probe::Scheme::Https).then(Default::default);
        let secrets = plan.tls.secrets.as_ref();
        let (by, note) = explain::Explainer::begin(socket, &plan.addresses, secrets);
        Explaining { by: Some(by), note }
    }

    #[cfg(not(target_os = "linux"))]
    fn begin(self, _: &mut Plan) -> Explaining {
        let note = "causes are named on Linux only, where packets can be captured meanwhile";
        Explaining { note: self.is_wanted.then(|| note.to_owned()) }
    }
}

/// Progress of the load, on standard error if that is a terminal.
#[cfg(target_os = "linux")]
struct Bar(crate::progress::Waiting);

#[cfg(target_os = "linux")]
impl Bar {
    fn new(asked: &Load) -> Bar {
        Bar(crate::progress::Waiting::new(!asked.display.no_progress))
    }

    fn tell(&mut self, running: &load::Running) {
        use tcpwhy_core::model::units::{count, counted};
        let per_second = running.answered as f64 / running.elapsed.as_secs_f64().max(1e-3);
        let mut text = format!(
            "{}, {}/s",
            counted(running.answered, "request", "requests"),
            count(per_second as u64)
        );
        if running.failed > 0 {
            text += &format!(", {}", counted(running.failed, "failure", "failures"));
        }
        self.0.tell(&format!("{text} (Ctrl-C: what is known)"));
    }
}

#[cfg(not(target_os = "linux"))]
struct Bar;

#[cfg(not(target_os = "linux"))]
impl Bar {
    fn new(_: &Load) -> Bar {
        Bar
    }

    fn tell(&mut self, _: &load::Running) {}
}
