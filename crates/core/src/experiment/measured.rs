//! A report without packets, from a client's own sockets and clock.
//!
//! Read first: `TCP_INFO` (linux/tcp.h). A client measures when its request was sent, and when the
//! first and the last byte of the response arrived; its kernel reports the round-trip time and
//! whether segments were retransmitted. The reason for the server's waits is not visible: time that
//! no experiment explains remains `unknown`.

use super::median_ns;
use crate::app::{ErrorCode, Protocol};
use crate::experiment::thresholds::OPENING_TRIPS;
use crate::findings::causes::error_responses;
use crate::findings::{self, Floors};
use crate::judge::thresholds::{INITIAL_WINDOW_BYTES, LINUX_RTO_MIN_NS};
use crate::model::experiment::{Experiment, Verdict};
use crate::model::{
    Affected, Cause, Culprit, EndpointReport, Fact, Finding, Histogram, Ledger, Outcome, Outcomes,
    Owner, Prediction, Report, Role, StateEvidence,
};
use crate::wire::{Endpoint, Side};

/// Requests of one client to one server.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The client.
    pub client: Endpoint,
    /// The server.
    pub server: Endpoint,
    /// The application protocol.
    pub protocol: Protocol,
    /// The software that the server states.
    pub software: Option<String>,
    /// The answered requests.
    pub requests: Vec<OwnRequest>,
    /// Failed attempts.
    pub failures: Vec<Failure>,
}

/// The consecutive times of one request, which sum to its latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnRequest {
    /// Time of the name look-up, ns; 0 if it was done before.
    pub lookup_ns: u64,
    /// Time until `connect` returned, ns; 0 on a reused connection.
    pub connect_ns: u64,
    /// Time of the TLS handshake, ns.
    pub tls_ns: u64,
    /// Time from the end of the request to the first byte of the response, ns.
    pub wait_ns: u64,
    /// The longest pause within the response, ns.
    pub pause_ns: u64,
    /// Time between the first and the last byte of the response, without that pause, ns.
    pub receive_ns: u64,
    /// The kernel's minimum round trip on this connection, ns; 0 if unknown.
    pub rtt_ns: u64,
    /// Segments retransmitted by the client's kernel on this connection.
    pub repeated: u64,
    /// Number of segments that arrived out of order: earlier ones were lost or reordered.
    pub out_of_order: u64,
    /// Bytes of the response.
    pub wire_bytes: u64,
    /// The error that the response states.
    pub error: Option<ErrorCode>,
    /// Part of `wait_ns` in which the server's window held the request back, as the kernel counted
    /// it, ns.
    pub rwnd_limited_ns: u64,
    /// State of the server's window during that time.
    pub window: PeerWindow,
}

/// The server's window while it holds a request back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerWindow {
    /// No request was held back, or the reason is unknown.
    #[default]
    Unknown,
    /// The window has no room for a segment: the server does not read received data.
    Closed,
    /// The window never exceeds this size.
    Small {
        /// Size of the window, bytes.
        bytes: u64,
    },
}

impl OwnRequest {
    /// Returns the latency of the request, ns.
    pub fn wall_ns(&self) -> u64 {
        let parts = [self.lookup_ns, self.connect_ns, self.tls_ns, self.wait_ns];
        parts.into_iter().sum::<u64>() + self.pause_ns + self.receive_ns
    }
}

/// A failed attempt, and the time until it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `connect` was refused (`ECONNREFUSED`).
    Refused {
        /// Time since the SYN, ns.
        after_ns: u64,
    },
    /// `connect` failed since the server cannot be reached (`EHOSTUNREACH`, `ENETUNREACH`): an ICMP
    /// error answered the SYN (RFC 1122 §4.2.3.9), or this host has no route.
    Rejected {
        /// Time since the SYN, ns.
        after_ns: u64,
    },
    /// `connect` had no answer.
    Unanswered {
        /// Time since the SYN, ns.
        after_ns: u64,
    },
    /// The server closed the connection before the first byte of a response.
    Closed {
        /// Time since the request, ns.
        after_ns: u64,
    },
    /// The server reset the connection before the response was complete.
    Reset {
        /// Time since the request, ns.
        after_ns: u64,
    },
}

impl Failure {
    fn after_ns(self) -> u64 {
        match self {
            Self::Refused { after_ns }
            | Self::Rejected { after_ns }
            | Self::Unanswered { after_ns }
            | Self::Closed { after_ns }
            | Self::Reset { after_ns } => after_ns,
        }
    }

    fn cause(self) -> Cause {
        match self {
            Self::Refused { .. } | Self::Rejected { .. } => Cause::Refused,
            Self::Unanswered { .. } => Cause::SynRetransmit,
            Self::Closed { .. } => Cause::NoAnswer,
            Self::Reset { .. } => Cause::Reset,
        }
    }

    /// Returns the outcome of the exchange; `connect` that fails begins none.
    fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Closed { .. } => Some(Outcome::Closed { by: Side::Server }),
            Self::Reset { .. } => Some(Outcome::Reset { by: Side::Server }),
            Self::Refused { .. } | Self::Rejected { .. } | Self::Unanswered { .. } => None,
        }
    }
}

impl Measured {
    /// Returns the report of these measurements. `experiments` show what a pause within a response
    /// is not; they are not weighed here.
    pub fn report(&self, experiments: &[Experiment]) -> Report {
        let typical_wait_ns = median_ns(self.requests.iter().map(|it| it.wait_ns));
        let is_own_pause = experiments.iter().any(refutes_waiting_for_acks);
        let ledgers = self.requests.iter().map(|it| ledger(it, typical_wait_ns, is_own_pause));
        let mut all = Ledger::default();
        ledgers.for_each(|it| all.merge(&it));
        for failure in &self.failures {
            all.add(owner_of(*failure), failure.after_ns());
        }
        let mut latency = Histogram::default();
        self.requests.iter().for_each(|it| latency.record(it.wall_ns()));
        self.failures.iter().for_each(|it| latency.record(it.after_ns()));
        let mut report = Report::default();
        report.totals.exchanges = (self.requests.len() + self.failures.len()) as u64;
        report.totals.connections = self.connections();
        report.totals.wall_ns = all.total_ns();
        report.latency = latency.latency();
        report.endpoints = vec![EndpointReport {
            endpoint: self.server,
            software: self.software.clone(),
            protocol: self.protocol,
            connections: report.totals.connections,
            exchanges: report.totals.exchanges,
            ledger: all,
            latency: report.latency,
            outcomes: self.outcomes(),
            kinds: Vec::new(),
        }];
        report.latency_histogram = latency;
        report.ledger = all;
        report.findings = self.costs(&report);
        report.findings.extend(self.failed_attempts(&report));
        report.findings.extend(self.repeated_syns(&report));
        report.findings.extend(self.errors(&report));
        report.findings.extend(self.windows(&report));
        findings::arrange(&mut report.findings, &report.totals);
        report
    }

    fn outcomes(&self) -> Outcomes {
        let mut outcomes = Outcomes::default();
        let of = |it: &OwnRequest| it.error.map_or(Outcome::Answered, Outcome::Error);
        self.requests.iter().for_each(|it| outcomes.add(of(it)));
        self.failures.iter().filter_map(|it| it.outcome()).for_each(|it| outcomes.add(it));
        outcomes
    }

    /// Returns a finding about answers that state an error, if these are many.
    fn errors(&self, report: &Report) -> Option<Finding> {
        let of_error = self.requests.iter().filter_map(|it| it.error.map(|error| (it, error)));
        let (all, errors) = (report.totals.exchanges, of_error.clone().count() as u64);
        let count = |is: fn(ErrorCode) -> bool| {
            of_error.clone().filter(|(_, error)| is(*error)).count() as u64
        };
        let of_server = [count(ErrorCode::is_of_server), count(ErrorCode::is_failure)];
        if !error_responses::are_many(errors, of_server, all) {
            return None;
        }
        let lost_ns = of_error.map(|(request, _)| request.wall_ns()).sum();
        let mut finding = self.finding(Cause::ErrorResponses, Role::Server, report, lost_ns);
        finding.affected.exchanges = errors;
        finding.affected.connections = report.totals.connections;
        finding.facts = error_responses::facts_of(&self.outcomes().codes(), errors, all);
        finding.facts.push(("count", Fact::Count(errors)));
        finding.facts.push(("of_cases", Fact::Count(all)));
        let codes = finding.facts.iter().find(|(name, _)| *name == "codes").cloned();
        let mut facts = vec![("count", Fact::Count(errors)), ("of", Fact::Count(all))];
        facts.extend(codes);
        finding.state = vec![StateEvidence {
            id: "stated_error",
            agrees: true,
            setting: "status",
            value: String::new(),
            place: "own socket".to_owned(),
            process: None,
            read_ns: None,
            facts,
        }];
        Some(finding)
    }

    fn connections(&self) -> u64 {
        let made = self.requests.iter().filter(|it| it.connect_ns > 0).count();
        (made + self.failures.len()).max(1) as u64
    }

    fn finding(&self, cause: Cause, role: Role, report: &Report, lost_ns: u64) -> Finding {
        let host = Endpoint { port: 0, ..self.client };
        let endpoint = if role == Role::Client { host } else { self.server };
        let exchanges = report.totals.exchanges;
        Finding {
            affected: Affected { exchanges, of_exchanges: exchanges, connections: 0 },
            lost_ns,
            share: findings::share_of(lost_ns, report.totals.wall_ns),
            latency: report.latency,
            counterfactual: Prediction::exactly(report.latency),
            confidence: findings::confidence_of(cause, exchanges),
            software: self.software.clone(),
            protocol: self.protocol,
            sender: Side::Server,
            ..Finding::of_cause(cause, Culprit { role, endpoint })
        }
    }

    /// Returns the costs whose share of the time is large enough.
    fn costs(&self, report: &Report) -> Vec<Finding> {
        let floors = Floors::default();
        let count = self.requests.len().max(1) as u64;
        let of = |cause, role, owners: &[Owner], facts: &dyn Fn(u64) -> Vec<_>| {
            let lost_ns = owners.iter().map(|&it| report.ledger.of(it)).sum::<u64>();
            let finding = self.finding(cause, role, report, lost_ns);
            let each_ns = lost_ns / count;
            let is_one = finding.share >= floors.cost_share && each_ns >= floors.cost_ns;
            is_one.then(|| Finding { facts: facts(each_ns), ..finding })
        };
        let rtt_ns = median_ns(self.requests.iter().map(|it| it.rtt_ns).filter(|&it| it > 0));
        let own = |each_ns| vec![("p50_ns", Fact::Ns(each_ns))];
        let within = self.requests.iter().filter(|it| it.pause_ns > it.wait_ns).count();
        let work = |each_ns| {
            let mut facts = own(each_ns);
            if 2 * within > self.requests.len() {
                let place = "in the midst of a response that has begun";
                facts.push(("where", Fact::Text(place.to_owned())));
            }
            facts
        };
        let trips = |_| vec![("rtt_ns", Fact::Ns(rtt_ns))];
        [
            of(Cause::ServerThink, Role::Server, &[Owner::Server], &work),
            of(Cause::PathRtt, Role::Network, &[Owner::Path, Owner::Connect], &trips),
            of(Cause::TlsHandshake, Role::Server, &[Owner::Tls], &own),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns findings about failed attempts, by kind.
    fn failed_attempts(&self, report: &Report) -> Vec<Finding> {
        let is_rejected = |it: &Failure| matches!(it, Failure::Rejected { .. });
        let of = |cause: Cause, role, id, value: &str| {
            let by_path = id == "connect_rejected";
            let is_its = |it: &&Failure| it.cause() == cause && is_rejected(it) == by_path;
            let those: Vec<_> = self.failures.iter().filter(is_its).collect();
            let first = those.first()?;
            // A RST comes at once: nothing was waited for.
            let lost_ns = match cause {
                Cause::SynRetransmit => those.iter().map(|it| it.after_ns()).sum(),
                _ => 0,
            };
            let count = those.len() as u64;
            let evidence = StateEvidence {
                id,
                agrees: true,
                setting: if cause == Cause::NoAnswer { "read" } else { "errno" },
                value: value.to_owned(),
                place: "own socket".to_owned(),
                process: None,
                read_ns: None,
                facts: vec![
                    ("count", Fact::Count(count)),
                    ("of", Fact::Count(report.totals.exchanges)),
                    ("after_ns", Fact::Ns(first.after_ns())),
                ],
            };
            let mut finding = self.finding(cause, role, report, lost_ns);
            finding.affected.exchanges = count;
            finding.affected.connections = count;
            finding.facts = vec![("count", Fact::Count(count))];
            if by_path {
                let text = |it: &str| Fact::Text(it.to_owned());
                let reporter = "a router or filter on the way (or this host has no route)";
                finding.facts.push(("target", text(&self.server.to_string())));
                finding.facts.push(("reporter", text(reporter)));
                finding.facts.push(("says", text("the server cannot be reached")));
            }
            if cause == Cause::SynRetransmit {
                finding.facts.push(("unanswered", Fact::Count(count)));
            }
            if cause == Cause::NoAnswer {
                finding.facts.push(("closed", Fact::Count(count)));
                finding.facts.push(("of_cases", Fact::Count(report.totals.exchanges)));
            }
            finding.state = vec![evidence];
            Some(finding)
        };
        [
            of(Cause::Refused, Role::Server, "connect_refused", "ECONNREFUSED"),
            of(Cause::Refused, Role::Network, "connect_rejected", "EHOSTUNREACH"),
            of(Cause::SynRetransmit, Role::Network, "connect_unanswered", "ETIMEDOUT"),
            of(Cause::NoAnswer, Role::Server, "closed_unanswered", "end of file"),
            of(Cause::Reset, Role::Server, "was_reset", "ECONNRESET"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns findings about requests whose body waited for the server's window.
    fn windows(&self, report: &Report) -> Vec<Finding> {
        let of = |cause, is_its: &dyn Fn(PeerWindow) -> bool| {
            let own = self.requests.iter().filter(|it| is_its(it.window));
            let waits_ns: Vec<u64> = own.clone().map(held_ns).filter(|&ns| ns > 0).collect();
            let (count, lost_ns) = (waits_ns.len() as u64, waits_ns.iter().sum::<u64>());
            let mut finding = self.finding(cause, Role::Server, report, lost_ns);
            let floors = Floors::default();
            let each_ns = lost_ns / count.max(1);
            if finding.share < floors.fault_share || each_ns < floors.fault_ns {
                return None;
            }
            let rtt_ns = median_ns(own.clone().map(|it| it.rtt_ns).filter(|&it| it > 0));
            let widest = own.filter_map(|it| match it.window {
                PeerWindow::Small { bytes } => Some(bytes),
                PeerWindow::Closed | PeerWindow::Unknown => None,
            });
            finding.sender = Side::Client;
            finding.affected.exchanges = count;
            finding.affected.connections = report.totals.connections;
            finding.facts = vec![("sender", Fact::Text("client".into()))];
            finding.facts.push(("receiver", Fact::Text("server".into())));
            finding.facts.push(("rtt_ns", Fact::Ns(rtt_ns)));
            finding.facts.push(("longest_ns", Fact::Ns(waits_ns.into_iter().max().unwrap_or(0))));
            finding.facts.extend(widest.max().map(|it| ("window_bytes", Fact::Bytes(it))));
            finding.state = vec![StateEvidence {
                id: "rwnd_limited",
                agrees: true,
                setting: "tcpi_rwnd_limited",
                value: (lost_ns / 1_000).to_string(),
                place: "own socket".to_owned(),
                process: None,
                read_ns: None,
                facts: vec![("limited_ns", Fact::Ns(lost_ns))],
            }];
            Some(finding)
        };
        [
            of(Cause::ZeroWindow, &|it| it == PeerWindow::Closed),
            of(Cause::ReceiveWindow, &|it| matches!(it, PeerWindow::Small { .. })),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns a finding about connections whose SYN was retransmitted.
    fn repeated_syns(&self, report: &Report) -> Option<Finding> {
        if !self.failures.is_empty() {
            return None;
        }
        let late: Vec<_> = self.requests.iter().filter(|it| is_repeated_syn(it)).collect();
        let lost_ns = late.iter().map(|it| it.connect_ns.saturating_sub(it.rtt_ns)).sum();
        let count = late.len() as u64;
        let first = late.first()?;
        let mut finding = self.finding(Cause::SynRetransmit, Role::Network, report, lost_ns);
        finding.affected.exchanges = count;
        finding.affected.connections = count;
        finding.facts = vec![
            ("count", Fact::Count(count)),
            ("rto_ns", Fact::Ns(first.connect_ns.saturating_sub(first.rtt_ns))),
        ];
        finding.state = vec![StateEvidence {
            id: "retransmitted",
            agrees: true,
            setting: "tcpi_total_retrans",
            value: first.repeated.to_string(),
            place: "own socket".to_owned(),
            process: None,
            read_ns: None,
            facts: vec![("count", Fact::Count(first.repeated))],
        }];
        Some(finding)
    }
}

/// Returns the report of a request that was not sent because its name has no address: all time is
/// that of the look-up, and `findings` are the reasons.
pub fn unresolved(lookup_ns: u64, findings: Vec<Finding>) -> Report {
    let mut report = Report { findings, ..Report::default() };
    report.totals.exchanges = 1;
    report.totals.wall_ns = lookup_ns;
    report.ledger.add(Owner::Dns, lookup_ns);
    report.latency_histogram.record(lookup_ns);
    report.latency = report.latency_histogram.latency();
    findings::arrange(&mut report.findings, &report.totals);
    report
}

/// Returns whether the SYN was retransmitted: the connection took longer than its timer, and the
/// kernel reports a retransmission.
fn is_repeated_syn(request: &OwnRequest) -> bool {
    request.repeated > 0 && request.connect_ns >= LINUX_RTO_MIN_NS + request.rtt_ns
}

fn owner_of(failure: Failure) -> Owner {
    match failure {
        Failure::Refused { .. } | Failure::Rejected { .. } => Owner::Connect,
        Failure::Unanswered { .. } => Owner::SynRetransmit,
        Failure::Closed { .. } => Owner::Server,
        Failure::Reset { .. } => Owner::Unknown,
    }
}

/// Attributes the time of one request. The server's own time is the wait that all requests have in
/// common: a wait that is longer by a retransmission timeout may contain one. A pause within a
/// response of one flight is the server's if it does not depend on ACKs.
fn ledger(request: &OwnRequest, typical_wait_ns: u64, is_own_pause: bool) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.add(Owner::Dns, request.lookup_ns);
    let connect = if is_repeated_syn(request) { Owner::SynRetransmit } else { Owner::Connect };
    ledger.add(connect, request.connect_ns);
    ledger.add(Owner::Tls, request.tls_ns);
    let path_ns = request.wait_ns.min(request.rtt_ns);
    let window_ns = held_ns(request);
    let rest_ns = request.wait_ns - path_ns - window_ns;
    let is_typical = request.wait_ns < typical_wait_ns + LINUX_RTO_MIN_NS && request.repeated == 0;
    ledger.add(Owner::Path, path_ns);
    let window = match request.window {
        PeerWindow::Closed => Owner::ZeroWindow,
        PeerWindow::Small { .. } => Owner::ReceiveWindow,
        PeerWindow::Unknown => Owner::Unknown,
    };
    ledger.add(window, window_ns);
    ledger.add(if is_typical { Owner::Server } else { Owner::Unknown }, rest_ns);
    let is_whole = request.wire_bytes <= INITIAL_WINDOW_BYTES && request.out_of_order == 0;
    let pause = if is_own_pause && is_whole { Owner::Server } else { Owner::Unknown };
    ledger.add(pause, request.pause_ns);
    ledger.add(Owner::Unknown, request.receive_ns);
    ledger
}

/// Returns the time for which the server's window held a request back, ns, without the round trip
/// that it takes in any case.
fn held_ns(request: &OwnRequest) -> u64 {
    let is_small = matches!(request.window, PeerWindow::Small { .. });
    if is_small && request.rwnd_limited_ns < OPENING_TRIPS * request.rtt_ns {
        return 0;
    }
    request.rwnd_limited_ns.min(request.wait_ns.saturating_sub(request.rtt_ns))
}

fn refutes_waiting_for_acks(experiment: &Experiment) -> bool {
    let Verdict::Refutes(suspect) = &experiment.verdict else { return false };
    suspect.cause.waits_for_ack() && suspect.sender == Side::Server
}
