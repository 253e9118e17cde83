//! A report without packets, from a client's own sockets and clock.
//!
//! Read first: `TCP_INFO` (linux/tcp.h). A client measures when its request was sent, and when the
//! first and the last byte of the response arrived; its kernel reports the round-trip time and
//! whether segments were retransmitted. The reason for the server's waits is not visible: time that
//! no experiment explains remains `unknown`.

use super::account::{Usual, is_repeated_syn, owner_of};
use super::median_ns;
use super::request::{Failure, OwnRequest};
use crate::app::{ErrorCode, Protocol};
use crate::findings::causes::error_responses;
use crate::findings::{self, Floors};
use crate::model::experiment::Experiment;
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

impl Measured {
    /// Returns the report of these measurements. `experiments` show what a pause within a response
    /// is not; they are not weighed here.
    pub fn report(&self, experiments: &[Experiment]) -> Report {
        let usual = Usual::of(&self.requests, experiments);
        let mut all = Ledger::default();
        self.requests.iter().for_each(|it| all.merge(&usual.ledger(it)));
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
        report.findings.extend(self.own_window(&report));
        report.findings.extend(self.losses(&usual, &report));
        report.findings.extend(self.held_for_a_round_trip(&usual, &report));
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

    pub(super) fn finding(
        &self,
        cause: Cause,
        role: Role,
        report: &Report,
        lost_ns: u64,
    ) -> Finding {
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
        let opening =
            |_| vec![("sender", Fact::Text("client".into())), ("rtt_ns", Fact::Ns(rtt_ns))];
        let slow_start = of(Cause::SlowStart, Role::Client, &[Owner::CongestionWindow], &opening);
        [
            of(Cause::ServerThink, Role::Server, &[Owner::Server], &work),
            of(Cause::PathRtt, Role::Network, &[Owner::Path, Owner::Connect], &trips),
            of(Cause::TlsHandshake, Role::Server, &[Owner::Tls], &own),
            slow_start.map(|it| Finding { sender: Side::Client, state: self.observed(), ..it }),
            of(Cause::Bandwidth, Role::Network, &[Owner::Bandwidth], &|_| Vec::new())
                .map(|it| Finding { state: self.observed(), ..it }),
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
            if id == "connect_refused" {
                // `ECONNREFUSED` is the error of both (RFC 1122 §4.2.3.9).
                let refusal = "a RST, or with an ICMP error (port unreachable)";
                finding.facts.push(("refusal", Fact::Text(refusal.to_owned())));
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
