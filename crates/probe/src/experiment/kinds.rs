//! The experiments: what each of them changes and measures, and what its effect means.
//!
//! A row of the table is all that an experiment is, besides its words in `experiment.md` of the core.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConfig;
use tcpwhy_core::experiment::median_ns;
use tcpwhy_core::model::experiment::{Experiment, Suspect, Verdict};
use tcpwhy_core::model::{Cause, Culprit, Role};
use tcpwhy_core::wire::{Endpoint, Side};

use crate::budget::Budget;
use crate::http::http2::{OwnWindows, WINDOW_BYTES};
use crate::route::local_address;

use super::connection::{Settings, Subject};
use super::error::ExchangeError;
use super::requests::{
    connecting, connecting_amid, expecting, half_of_answer, handshake, held_by, is_kept,
    large_and_small, new, new_or_used, once, resuming, speaks_http2, together, with_header,
};
use super::resolver;
use super::statistics::{Coin, PAIRS_MIN, Shown};
use super::trials::{Arm, Bounds, Pairs, Trial, on_one_connection};

/// Number of requests on a connection in experiments with delayed ACKs. The kernel begins in the
/// mode of quick ACKs and leaves it when a request follows an answer.
pub(super) const REQUESTS: usize = 5;
/// Number of these requests, the first ones, that are not counted.
const SKIPPED: usize = 1;
/// A large receive buffer, bytes, of which the kernel makes twice as much (socket(7)): it holds what 50
/// Mbit/s carry in 80 ms. The kernel's own limit is `net.core.rmem_max`.
const LARGE_BUFFER_BYTES: usize = 256 << 10;
/// A path that drops full-sized segments costs at least this, ns: the sender takes a first loss for
/// chance, so two timeouts pass before it may try smaller ones, and they double (RFC 6298 §5.5) from
/// at least 200 ms.
const BLACK_HOLE_NS: u64 = 600_000_000;
/// If a client waits this long or longer, the server ignored `Expect`, ns: curl waits for 1 s.
const IGNORED_NS: u64 = 500_000_000;
/// Number of requests that the experiment `concurrency` sends at the same time.
const CONCURRENT_REQUESTS: usize = 10;
/// Number of header bytes that the experiment `request-size` adds.
const MORE_HEADER_BYTES: usize = 4 << 10;

/// When an experiment is made that nobody named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// On every target that speaks HTTP.
    Http,
    /// … over TLS.
    Tls,
    /// If requests are slow.
    SlowRequests,
    /// If answers take long from their first byte to the last, and no packets are captured.
    SlowAnswers,
    /// If the window of this client is small for its answers, and no packets are captured.
    SmallWindow,
    /// If look-ups are slow, and there is a second name server.
    SlowLookups,
    /// Only by its name.
    Named,
}

/// Runs the trials with and without the change.
type Run = fn(&Context<'_>, &mut Coin) -> Result<Pairs, Skipped>;

/// When an experiment applies, what it costs, and what it shows.
struct Traits {
    occasion: Occasion,
    /// It needs a request with a body, which is sent only if the user asks for one.
    needs_body: bool,
    /// It needs a second request on a connection.
    needs_kept_connection: bool,
    /// It asks name servers instead of the target.
    asks_resolvers: bool,
    /// The largest number of requests besides those of pairs: they test whether the experiment applies,
    /// and find the cause of an effect.
    requests_beside: u64,
    /// Number of requests, or queries, of a pair.
    requests_of_pair: u64,
    /// Number of connections of a pair besides those of its requests.
    connections_of_pair: u64,
    /// The least effect that counts, if it is more than that of other experiments, ns.
    floor_min_ns: u64,
    /// Its effect is the length of a queue on the path, not a part of the latency.
    is_queue: bool,
    /// A trial may wait for a timeout: all pairs run at the same time.
    waits: bool,
    /// Returns the cause that the effect, or its absence, concerns. If the client only writes or
    /// connects differently, just the effect is reported: this client is not the one with the problem.
    suspect: fn(&Context<'_>, &Pairs, Shown) -> Option<Suspect>,
}

/// The values that a row does not state.
const PLAIN: Traits = Traits {
    occasion: Occasion::Named,
    needs_body: false,
    needs_kept_connection: false,
    asks_resolvers: false,
    requests_beside: 0,
    requests_of_pair: 2,
    connections_of_pair: 0,
    floor_min_ns: 0,
    is_queue: false,
    waits: false,
    suspect: |_, _, _| None,
};

/// The values of experiments with several requests on one connection that no row states.
const ON_ONE_CONNECTION: Traits = Traits { requests_of_pair: 2 * REQUESTS as u64, ..PLAIN };

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal { run: $run:expr, $($traits:tt)* })*) => {
        /// An experiment.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// Returns the name of the kind on the command line and in reports.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }
        }

        /// The rows, in the order of the kinds.
        const ROWS: &[(Run, Traits); Kind::ALL.len()] =
            &[$(($run, Traits { $($traits)* }),)*];
    };
}

kinds! {
    /// The client sends ACKs at once, instead of delaying them.
    Quickack = "quickack" {
        run: |it, coin| it.on_one_connection(coin, |quickack| Settings { quickack, ..Settings::default() }),
        occasion: Occasion::Http,
        needs_kept_connection: true,
        requests_beside: 2 + REQUESTS as u64,
        suspect: |it, _, shown| {
            let is_effect = shown == Shown::Effect;
            let cause = if is_effect { held_by(it.subject)? } else { Cause::NagleDelayedAck };
            it.suspect(cause, Role::Server, Side::Server)
        },
        ..ON_ONE_CONNECTION
    }
    /// The client uses one connection for all requests, instead of new ones.
    Connection = "connection" {
        run: |it, coin| it.pairs(coin, |arm| new_or_used(it.subject, arm == Arm::Changed)),
        occasion: Occasion::Http,
        needs_kept_connection: true,
        requests_beside: 2,
        requests_of_pair: 3,
        ..PLAIN
    }
    /// The client asks for small segments.
    Mss = "mss" {
        run: |it, _| Ok(large_and_small(it.subject, &it.bounds)?),
        occasion: Occasion::SlowRequests,
        floor_min_ns: BLACK_HOLE_NS,
        suspect: |it, _, _| it.suspect(Cause::MtuBlackHole, Role::Network, Side::Server),
        ..PLAIN
    }
    /// The client uses a large receive buffer, instead of one that the kernel sizes.
    Rcvbuf = "rcvbuf" {
        run: |it, coin| it.pairs(coin, |arm| {
            let rcvbuf_bytes = arm.of(None, Some(LARGE_BUFFER_BYTES));
            once(it.subject, Settings { rcvbuf_bytes, ..Settings::default() })
        }),
        occasion: Occasion::SmallWindow,
        suspect: |it, _, _| {
            let endpoint = local_address(it.subject.server)?.into();
            let culprit = Culprit { role: Role::Client, endpoint };
            Some(Suspect { cause: Cause::ReceiveWindow, culprit, sender: Side::Server })
        },
        ..PLAIN
    }
    /// The client opens a connection while nothing is sent, instead of amid an answer.
    Queue = "queue" {
        run: |it, coin| {
            let alone = Bounds { at_once: 1, ..it.bounds };
            let half_bytes = half_of_answer(it.subject)?;
            Ok(Pairs::make(&alone, coin, |arm| match arm {
                Arm::Usual => connecting_amid(it.subject, half_bytes),
                Arm::Changed => connecting(it.subject),
            })?)
        },
        occasion: Occasion::SlowAnswers,
        requests_beside: 1,
        requests_of_pair: 1,
        connections_of_pair: 2,
        is_queue: true,
        suspect: |it, _, _| it.suspect(Cause::Bandwidth, Role::Network, Side::Server),
        ..PLAIN
    }
    /// The client offers large windows of HTTP/2, instead of those of the standard.
    Http2Window = "http2-window" {
        run: |it, coin| {
            if !speaks_http2(it.subject)? {
                return Err(Skipped::DoesNotApply("the target is not asked in HTTP/2"));
            }
            if it.subject.request.body.len() > WINDOW_BYTES as usize {
                return Err(Skipped::DoesNotApply(
                    "a request body waits for the windows of the server, which no client can change: \
                     its waits are measured without an experiment",
                ));
            }
            it.pairs(coin, |arm| {
                let windows = arm.of(OwnWindows::STANDARD, OwnWindows::default());
                once(it.subject, Settings { windows, ..Settings::default() })
            })
        },
        requests_beside: 1,
        ..PLAIN
    }
    /// The client connects to an address of the other family.
    Family = "family" {
        run: |it, coin| {
            let why = "the name has addresses of one family only";
            let server = it.others.family.ok_or(Skipped::DoesNotApply(why))?;
            let elsewhere = Subject { server, ..it.subject.clone() };
            it.pairs(coin, |arm| new(arm.of(it.subject, &elsewhere), Settings::default()))
        },
        ..PLAIN
    }
    /// The client sends a longer request.
    RequestSize = "request-size" {
        run: |it, coin| {
            let longer = with_header(it.subject, "X-Filler", &"x".repeat(MORE_HEADER_BYTES));
            it.pairs(coin, |arm| once(arm.of(it.subject, &longer), Settings::default()))
        },
        ..PLAIN
    }
    /// The client sends a request in one write, instead of two.
    OneWrite = "one-write" {
        run: |it, coin| it.on_one_connection(coin, |is_changed| {
            Settings { two_writes: !is_changed, nodelay: false, ..Settings::default() }
        }),
        needs_body: true,
        ..ON_ONE_CONNECTION
    }
    /// The client sends a request in two writes with `TCP_NODELAY`, instead of without it.
    Nodelay = "nodelay" {
        run: |it, coin| it.on_one_connection(coin, |nodelay| {
            Settings { two_writes: true, nodelay, ..Settings::default() }
        }),
        needs_body: true,
        ..ON_ONE_CONNECTION
    }
    /// The client sends a request without `Expect: 100-continue`, instead of with it.
    Expect = "expect" {
        run: |it, coin| {
            let asking = with_header(it.subject, "Expect", "100-continue");
            it.pairs(coin, |arm| match arm {
                Arm::Usual => expecting(&asking),
                Arm::Changed => once(it.subject, Settings::default()),
            })
        },
        needs_body: true,
        // An answered query costs a round trip, which is no fault: only a wait up to the timeout is one.
        floor_min_ns: IGNORED_NS,
        waits: true,
        suspect: |it, _, _| it.suspect(Cause::Http100Continue, Role::Server, Side::Client),
        ..PLAIN
    }
    /// The client asks the next name server.
    Resolver = "resolver" {
        run: |it, coin| resolver::pairs(it.subject, it.others, &it.bounds, coin),
        occasion: Occasion::SlowLookups,
        asks_resolvers: true,
        requests_beside: 2,
        waits: true,
        suspect: |it, pairs, _| resolver::suspect(&it.others.resolvers, pairs),
        ..PLAIN
    }
    /// The client sends one request at a time, instead of several.
    Concurrency = "concurrency" {
        run: |it, coin| {
            let alone = Bounds { at_once: 1, ..it.bounds };
            let trial = |arm: Arm| together(it.subject, arm.of(CONCURRENT_REQUESTS, 1));
            Ok(Pairs::make(&alone, coin, trial)?)
        },
        requests_of_pair: 1 + CONCURRENT_REQUESTS as u64,
        ..PLAIN
    }
    /// The client resumes a TLS session.
    Resumption = "resumption" {
        run: |it, coin| {
            let resuming = resuming(it.subject, it.others.resuming.as_ref())?;
            it.pairs(coin, |arm| handshake(arm.of(it.subject, &resuming)))
        },
        occasion: Occasion::Tls,
        requests_beside: 2,
        ..PLAIN
    }
}

impl Kind {
    fn traits(self) -> &'static Traits {
        &ROWS[self as usize].1
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|it| it.name() == name)
    }

    /// Returns the kinds that are made on this occasion.
    pub fn on(occasion: Occasion) -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied().filter(move |it| it.traits().occasion == occasion)
    }

    /// Returns whether the experiment needs a request with a body, which is sent only if the user
    /// asks for one.
    pub fn needs_body(self) -> bool {
        self.traits().needs_body
    }

    /// Returns whether the effect is the length of a queue on the path, not a part of the latency.
    pub fn measures_queue(self) -> bool {
        self.traits().is_queue
    }

    /// Returns whether the experiment asks name servers instead of the target.
    pub fn asks_resolvers(self) -> bool {
        self.traits().asks_resolvers
    }

    /// Returns the largest number of requests besides those of pairs: they test whether the
    /// experiment applies, and find the cause of an effect.
    pub fn requests_beside(self) -> u64 {
        self.traits().requests_beside
    }

    /// Returns the number of connections of a pair besides those of its requests.
    pub fn connections_of_pair(self) -> u64 {
        self.traits().connections_of_pair
    }

    /// Returns the number of requests, or queries, of a pair.
    pub fn requests_of_pair(self) -> u64 {
        self.traits().requests_of_pair
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

/// Where and within what limits an experiment is made.
struct Context<'a> {
    subject: &'a Subject,
    others: &'a Others,
    bounds: Bounds,
}

impl Context<'_> {
    fn pairs(
        &self,
        coin: &mut Coin,
        trial: impl Fn(Arm) -> Result<Trial, ExchangeError> + Sync,
    ) -> Result<Pairs, Skipped> {
        Ok(Pairs::make(&self.bounds, coin, trial)?)
    }

    /// Runs pairs with several requests on one connection each, with these options for the trials with
    /// and without the change.
    fn on_one_connection(
        &self,
        coin: &mut Coin,
        settings: impl Fn(bool) -> Settings + Sync,
    ) -> Result<Pairs, Skipped> {
        let requests = self.requests_of_trial();
        self.pairs(coin, |arm| {
            on_one_connection(self.subject, settings(arm == Arm::Changed), (SKIPPED, requests))
        })
    }

    /// Returns the number of requests on a connection with which as many pairs as can show a result fit
    /// into the time of the experiment, but at least one that counts.
    fn requests_of_trial(&self) -> usize {
        let Bounds { until, at_once, request_ns, .. } = self.bounds;
        let left_ns = crate::nanoseconds(until.saturating_duration_since(Instant::now()));
        let batches = PAIRS_MIN.div_ceil(at_once.max(1) as u64);
        let fitting = left_ns / (2 * batches * request_ns).max(1);
        usize::try_from(fitting).unwrap_or(REQUESTS).clamp(SKIPPED + 1, REQUESTS)
    }

    fn suspect(&self, cause: Cause, role: Role, sender: Side) -> Option<Suspect> {
        let endpoint = Endpoint::from(self.subject.server);
        Some(Suspect { cause, culprit: Culprit { role, endpoint }, sender })
    }
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
    let (run, traits) = &ROWS[kind as usize];
    if traits.needs_body && subject.request.body.is_empty() {
        return Err(Skipped::DoesNotApply("it needs a request with a body: --method, --body"));
    }
    if traits.needs_kept_connection && !is_kept(subject)? {
        return Err(Skipped::DoesNotApply("the server closes each connection after one answer"));
    }
    let mut bounds = *bounds;
    bounds.floor_ns = bounds.floor_ns.max(traits.floor_min_ns);
    if traits.waits {
        bounds.at_once = PAIRS_MIN as usize;
    }
    let context = Context { subject, others, bounds };
    let pairs = run(&context, coin)?;
    if pairs.differences.count() == 0 {
        return Err(Skipped::DoesNotApply("requests take too long for a pair of trials"));
    }
    Ok(judged(kind, &context, &pairs))
}

/// Returns the result of the experiment with its verdict.
fn judged(kind: Kind, context: &Context<'_>, pairs: &Pairs) -> Experiment {
    let floor_ns = i64::try_from(context.bounds.floor_ns).unwrap_or(i64::MAX);
    let shown = pairs.differences.shown(floor_ns);
    let suspect = (kind.traits().suspect)(context, pairs, shown);
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
        floor_ns: context.bounds.floor_ns,
        trials: pairs.differences.count(),
        requests: pairs.requests,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use tcpwhy_core::model::Language;

    /// Each row needs two things elsewhere: its words, and its place in the list of `docs/outside.md`.
    #[test]
    fn every_kind_has_its_words_and_is_documented() {
        let document = include_str!("../../../../docs/outside.md");
        for kind in Kind::ALL {
            let name = kind.name();
            let words = tcpwhy_core::experiment::conditions(name, Language::English);
            assert!(words.is_some(), "{name} has no row in experiment.md of the core");
            assert!(document.contains(&format!("`{name}`")), "docs/outside.md lacks {name}");
        }
    }
}
