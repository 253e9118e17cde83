//! The experiments: what each of them changes and measures, and what its effect means.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use tcpwhy_core::app::Side;
use tcpwhy_core::experiment::median_ns;
use tcpwhy_core::model::experiment::{Experiment, Suspect, Verdict};
use tcpwhy_core::model::{Cause, Culprit, Role};
use tcpwhy_core::wire::Endpoint;

use crate::budget::Budget;

use super::connection::{Connection, ExchangeError, Settings, Subject};
use super::resolver;
use super::statistics::{Coin, Shown};
use super::trials::{Arm, Bounds, Pairs, Trial, on_one_connection};

/// Number of requests on a connection in experiments with delayed ACKs. The kernel begins in the
/// mode of quick ACKs and leaves it when a request follows an answer.
const REQUESTS: usize = 5;
/// Number of these requests, the first ones, that are not counted.
const SKIPPED: usize = 1;
/// A small receive buffer, bytes.
const SMALL_BUFFER_BYTES: usize = 16 << 10;
/// Size of segments that pass any IPv4 path (RFC 9293 §3.7.1), bytes.
const SMALL_MSS_BYTES: u32 = 536;
/// If a client waits this long or longer, the server ignored `Expect`, ns: curl waits for 1 s.
const IGNORED_NS: u64 = 500_000_000;
/// Number of requests that the experiment `concurrency` sends at the same time.
const CONCURRENT_REQUESTS: usize = 10;
/// Number of header bytes that the experiment `request-size` adds.
const MORE_HEADER_BYTES: usize = 4 << 10;

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The client sends ACKs at once, instead of delaying them.
    Quickack,
    /// The client sends a request in one write, instead of two.
    OneWrite,
    /// The client sends a request in two writes with `TCP_NODELAY`, instead of without it.
    Nodelay,
    /// The client lets the kernel size the receive buffer, instead of using a small one.
    Rcvbuf,
    /// The client uses one connection for all requests, instead of new ones.
    Connection,
    /// The client sends a request without `Expect: 100-continue`, instead of with it.
    Expect,
    /// The client connects to an address of the other family.
    Family,
    /// The client asks for small segments.
    Mss,
    /// The client sends a longer request.
    RequestSize,
    /// The client asks the next name server.
    Resolver,
    /// The client sends one request at a time, instead of several.
    Concurrency,
    /// The client resumes a TLS session.
    Resumption,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 12] = [
        Kind::Quickack,
        Kind::Connection,
        Kind::Mss,
        Kind::Rcvbuf,
        Kind::Family,
        Kind::RequestSize,
        Kind::OneWrite,
        Kind::Nodelay,
        Kind::Expect,
        Kind::Resolver,
        Kind::Concurrency,
        Kind::Resumption,
    ];

    /// Returns the name of the kind on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Quickack => "quickack",
            Kind::OneWrite => "one-write",
            Kind::Nodelay => "nodelay",
            Kind::Rcvbuf => "rcvbuf",
            Kind::Connection => "connection",
            Kind::Expect => "expect",
            Kind::Family => "family",
            Kind::Mss => "mss",
            Kind::RequestSize => "request-size",
            Kind::Resolver => "resolver",
            Kind::Concurrency => "concurrency",
            Kind::Resumption => "resumption",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns whether the experiment needs a request with a body, which is sent only if the user
    /// asks for one.
    pub fn needs_body(self) -> bool {
        matches!(self, Kind::OneWrite | Kind::Nodelay | Kind::Expect)
    }

    /// Returns whether the experiment needs a second request on a connection.
    fn needs_kept_connection(self) -> bool {
        matches!(self, Kind::Quickack | Kind::Connection)
    }

    /// Returns the largest number of requests besides those of pairs: they test whether the
    /// experiment applies, and find the cause of an effect.
    pub fn requests_beside(self) -> u64 {
        match self {
            Kind::Quickack => 1 + REQUESTS as u64,
            Kind::Connection => 1,
            Kind::Resolver | Kind::Resumption => 2,
            _ => 0,
        }
    }

    /// Returns the number of requests, or queries, of a pair.
    pub fn requests_of_pair(self) -> u64 {
        match self {
            Kind::Quickack | Kind::OneWrite | Kind::Nodelay => 2 * REQUESTS as u64,
            Kind::Connection => 3,
            Kind::Concurrency => 1 + CONCURRENT_REQUESTS as u64,
            _ => 2,
        }
    }
}

/// The reason why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum Skipped {
    /// The experiment cannot change its condition on this connection or host.
    #[error("{0}")]
    DoesNotApply(&'static str),
    /// A request of the experiment failed.
    #[error("a request failed: {0}")]
    Failed(#[from] ExchangeError),
}

/// Further servers and options that an experiment may use.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// The server's address in the other family.
    pub family: Option<SocketAddr>,
    /// Name servers, in the order in which they are asked.
    pub resolvers: Vec<SocketAddr>,
    /// A TLS configuration that resumes sessions, if the subject uses TLS.
    pub resuming: Option<Arc<ClientConfig>>,
    /// The budget of queries to the name servers.
    pub queries: Budget,
}

/// Makes one experiment.
///
/// # Errors
/// [`Skipped`]: the experiment does not apply, or a request failed.
pub fn make(
    kind: Kind,
    subject: &Subject,
    others: &Others,
    bounds: &Bounds,
    coin: &mut Coin,
) -> Result<Experiment, Skipped> {
    if kind.needs_body() && subject.request.body.is_empty() {
        return Err(Skipped::DoesNotApply("it needs a request with a body: --method, --body"));
    }
    if kind.needs_kept_connection() && !is_kept(subject)? {
        return Err(Skipped::DoesNotApply("the server closes each connection after one answer"));
    }
    let mut bounds = *bounds;
    if kind == Kind::Expect {
        // An answered query costs a round trip, which is no fault: only a wait up to the timeout is
        // one.
        bounds.floor_ns = bounds.floor_ns.max(IGNORED_NS);
    }
    if matches!(kind, Kind::Expect | Kind::Resolver) {
        bounds.at_once = PAIRS_AT_ONCE;
    }
    let pairs = pairs(kind, subject, others, &bounds, coin)?;
    Ok(judged(kind, subject, others, &bounds, &pairs))
}

/// Runs the trials with and without the change.
fn pairs(
    kind: Kind,
    subject: &Subject,
    others: &Others,
    bounds: &Bounds,
    coin: &mut Coin,
) -> Result<Pairs, Skipped> {
    let plain = Settings::default();
    let pairs = match kind {
        Kind::Quickack | Kind::OneWrite | Kind::Nodelay => Pairs::make(bounds, coin, |arm| {
            on_one_connection(subject, settings(kind, arm), (SKIPPED, REQUESTS))
        }),
        Kind::Rcvbuf => Pairs::make(bounds, coin, |arm| once(subject, settings(kind, arm))),
        Kind::Connection => {
            Pairs::make(bounds, coin, |arm| new_or_used(subject, arm == Arm::Changed))
        }
        Kind::Expect => {
            let asking = with_header(subject, "Expect", "100-continue");
            Pairs::make(bounds, coin, |arm| match arm {
                Arm::Usual => expecting(&asking),
                Arm::Changed => once(subject, plain),
            })
        }
        Kind::Family => {
            let why = "the name has addresses of one family only";
            let server = others.family.ok_or(Skipped::DoesNotApply(why))?;
            let elsewhere = Subject { server, ..subject.clone() };
            Pairs::make(bounds, coin, |arm| new(arm.of(subject, &elsewhere), plain))
        }
        Kind::Mss => large_and_small(subject, bounds),
        Kind::RequestSize => {
            let longer = with_header(subject, "X-Filler", &"x".repeat(MORE_HEADER_BYTES));
            Pairs::make(bounds, coin, |arm| once(arm.of(subject, &longer), plain))
        }
        Kind::Resolver => return resolver::pairs(subject, others, bounds, coin),
        Kind::Concurrency => {
            let alone = Bounds { at_once: 1, ..*bounds };
            Pairs::make(&alone, coin, |arm| together(subject, arm.of(CONCURRENT_REQUESTS, 1)))
        }
        Kind::Resumption => {
            let resuming = resuming(subject, others.resuming.as_ref())?;
            Pairs::make(bounds, coin, |arm| handshake(arm.of(subject, &resuming)))
        }
    };
    Ok(pairs?)
}

/// Returns the options of a connection in this arm of the experiment, which are the default ones
/// for kinds that change something else.
fn settings(kind: Kind, arm: Arm) -> Settings {
    let is_changed = arm == Arm::Changed;
    let plain = Settings::default();
    match kind {
        Kind::Quickack => Settings { quickack: is_changed, ..plain },
        Kind::OneWrite => Settings { two_writes: !is_changed, nodelay: false, ..plain },
        Kind::Nodelay => Settings { two_writes: true, nodelay: is_changed, ..plain },
        Kind::Rcvbuf => {
            Settings { rcvbuf_bytes: (!is_changed).then_some(SMALL_BUFFER_BYTES), ..plain }
        }
        _ => plain,
    }
}

fn with_header(subject: &Subject, name: &str, value: &str) -> Subject {
    let mut changed = subject.clone();
    changed.request.headers.push((name.to_owned(), value.to_owned()));
    changed
}

/// Returns the result of the experiment with its verdict.
fn judged(
    kind: Kind,
    subject: &Subject,
    others: &Others,
    bounds: &Bounds,
    pairs: &Pairs,
) -> Experiment {
    let floor_ns = i64::try_from(bounds.floor_ns).unwrap_or(i64::MAX);
    let shown = pairs.differences.shown(floor_ns);
    let suspect = match kind {
        Kind::Resolver => resolver::suspect(&others.resolvers, pairs),
        _ => suspect(kind, subject, shown),
    };
    let verdict = match (suspect, shown) {
        (Some(suspect), Shown::Effect) => Verdict::Supports(suspect),
        (Some(suspect), Shown::None) => Verdict::Refutes(suspect),
        _ => Verdict::Undecided,
    };
    Experiment {
        name: kind.name(),
        usual_ns: median_ns(pairs.usual_ns.iter().copied()),
        changed_ns: median_ns(pairs.changed_ns.iter().copied()),
        effect_ns: pairs.differences.median_ns(),
        interval_ns: pairs.differences.interval_ns(),
        floor_ns: bounds.floor_ns,
        trials: pairs.differences.count(),
        requests: pairs.requests,
        verdict,
    }
}

/// Returns the cause that the effect indicates. If the client only writes or connects differently,
/// just the effect is reported: this client is not the one with the problem.
fn suspect(kind: Kind, subject: &Subject, shown: Shown) -> Option<Suspect> {
    let endpoint = Endpoint::from(subject.server);
    let of = |cause, role, sender| Suspect { cause, culprit: Culprit { role, endpoint }, sender };
    match kind {
        Kind::Quickack if shown == Shown::Effect => {
            let cause = held_by(subject)?;
            Some(of(cause, Role::Server, Side::Server))
        }
        Kind::Quickack => Some(of(Cause::NagleDelayedAck, Role::Server, Side::Server)),
        Kind::Expect => Some(of(Cause::Http100Continue, Role::Server, Side::Client)),
        Kind::Mss => Some(of(Cause::MtuBlackHole, Role::Network, Side::Server)),
        _ => None,
    }
}

/// Returns the cause that holds the rest of an answer back until an ACK arrives. Nagle's algorithm
/// holds back less than a segment; a full segment waits for room in a buffer or window. Returns
/// `None` if the pause does not occur again.
fn held_by(subject: &Subject) -> Option<Cause> {
    let mut connection = Connection::open(subject, Settings::default()).ok()?;
    let mut longest = None::<super::connection::Timing>;
    for _ in 0..REQUESTS {
        let (timing, _) = connection.ask().ok()?;
        longest = longest.filter(|it| it.pause_ns >= timing.pause_ns).or(Some(timing));
    }
    let timing = longest?;
    let mss_bytes = connection.kernel().mss_bytes;
    let is_small = timing.after_pause_bytes < mss_bytes;
    Some(if is_small { Cause::NagleDelayedAck } else { Cause::DelayedAck })
}

/// Returns whether the server accepts a second request on a connection.
fn is_kept(subject: &Subject) -> Result<bool, ExchangeError> {
    let mut connection = Connection::open(subject, Settings::default())?;
    let (_, response) = connection.ask()?;
    Ok(response.keep_alive)
}

/// Measures a request on a new connection, without the connection set-up.
fn once(subject: &Subject, settings: Settings) -> Result<Trial, ExchangeError> {
    on_one_connection(subject, settings, (0, 1))
}

/// Sends `count` requests at the same time, each on a connection that was opened before, and
/// returns the median latency, ns. A connection is closed after its answer, since a server may
/// process them one after the other.
fn together(subject: &Subject, count: usize) -> Result<Trial, ExchangeError> {
    let open = |_| Connection::open(subject, Settings::default());
    let connections: Vec<_> = (0..count).map(open).collect::<Result<_, _>>()?;
    let ask = |mut it: Connection<'_>| it.ask().map(|(timing, _)| timing.latency_ns());
    let asked: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> =
            connections.into_iter().map(|it| scope.spawn(move || ask(it))).collect();
        running.into_iter().map(ended).collect()
    });
    let times_ns = asked.into_iter().collect::<Result<Vec<u64>, _>>()?;
    Ok(Trial { ns: median_ns(times_ns), requests: count as u64 })
}

/// Returns the subject with a TLS configuration that resumes sessions. A session begins with a full
/// handshake, and its ticket arrives with an answer at the latest (RFC 8446 §4.6.1).
fn resuming(subject: &Subject, config: Option<&Arc<ClientConfig>>) -> Result<Subject, Skipped> {
    let Some(config) = config else {
        return Err(Skipped::DoesNotApply("the target speaks no TLS"));
    };
    let resuming = Subject { tls: Some(config.clone()), ..subject.clone() };
    Connection::open(&resuming, Settings::default())?.ask()?;
    let mut second = Connection::open(&resuming, Settings::default())?;
    second.ask()?;
    if !second.is_resumed() {
        return Err(Skipped::DoesNotApply("the server resumes no TLS session"));
    }
    Ok(resuming)
}

/// Measures the TLS handshake of a new connection. A request follows it, since each session is
/// resumed once.
fn handshake(subject: &Subject) -> Result<Trial, ExchangeError> {
    let mut connection = Connection::open(subject, Settings::default())?;
    connection.ask()?;
    Ok(Trial { ns: connection.tls_ns, requests: 1 })
}

/// Returns the result of a thread, or continues its panic in this thread.
fn ended<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Measures a request on a new connection, including the connection set-up.
fn new(subject: &Subject, settings: Settings) -> Result<Trial, ExchangeError> {
    let mut connection = Connection::open(subject, settings)?;
    let set_up_ns = connection.connect_ns + connection.tls_ns;
    let (timing, _) = connection.ask()?;
    Ok(Trial { ns: set_up_ns + timing.latency_ns(), requests: 1 })
}

/// Measures the first request of a connection with the connection set-up, or the second one without
/// it.
fn new_or_used(subject: &Subject, is_used: bool) -> Result<Trial, ExchangeError> {
    if !is_used {
        return new(subject, Settings::default());
    }
    let mut connection = Connection::open(subject, Settings::default())?;
    connection.ask()?;
    let (timing, _) = connection.ask()?;
    Ok(Trial { ns: timing.latency_ns(), requests: 2 })
}

/// Sends a request with `Expect: 100-continue`, and waits for `100 Continue` as curl does.
fn expecting(subject: &Subject) -> Result<Trial, ExchangeError> {
    let mut connection = Connection::open(subject, Settings::default())?;
    let timing = connection.ask_expecting()?;
    Ok(Trial { ns: timing.latency_ns(), requests: 1 })
}

/// Compares full-sized segments with small ones. If full-sized segments are lost, a trial lasts
/// until its timeout; all trials run at the same time, as far as the budget permits, so that the
/// total wait is one timeout and not eight.
fn large_and_small(subject: &Subject, bounds: &Bounds) -> Result<Pairs, ExchangeError> {
    let pairs = bounds.pairs_max.min(PAIRS_AT_ONCE as u64);
    let trial = |mss_bytes| {
        let settings = Settings { mss_bytes, ..Settings::default() };
        match new(subject, settings) {
            Err(error) if error.is_timeout() => {
                let ns = u64::try_from(subject.timeout.as_nanos()).unwrap_or(u64::MAX);
                Ok(Trial { ns, requests: 1 })
            }
            trial => trial,
        }
    };
    let trial = &trial;
    let made: Vec<[Result<Trial, ExchangeError>; 2]> = std::thread::scope(|scope| {
        let both = |_| [None, Some(SMALL_MSS_BYTES)].map(|mss| scope.spawn(move || trial(mss)));
        let running: Vec<_> = (0..pairs).map(both).collect();
        running.into_iter().map(|both| both.map(ended)).collect()
    });
    let mut all = Pairs::default();
    for [large, small] in made {
        all.add(large?, small?);
    }
    Ok(all)
}

/// Number of pairs whose trials all run at the same time: as many as suffice if they agree.
const PAIRS_AT_ONCE: usize = 8;
