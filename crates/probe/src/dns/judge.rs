//! Derives the DNS causes of the core from the answers of the servers, each with the measurements
//! that show it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::Serialize;
use tcpwhy_core::dns::thresholds::{SLOW_MIN_NS, UNCACHED_NS};
use tcpwhy_core::model::units::{counted, duration};
use tcpwhy_core::model::{Cause, Culprit, Fact, Finding, Role, RuledOut};

use super::ask::{Query, QueryOutcome, Transport};
use super::survey::{ServerSurvey, Survey};
use super::walk::{Ended, Lookup};
use super::{Config, RecordType};
use crate::nanoseconds as ns;
use crate::route::local_address;

/// The least cost of search domains that is a finding, ns.
const SEARCH_NS_MIN: u64 = 1_000_000;
/// Least ratio of a slow answer's time to the round trip to its server.
const SLOW_FACTOR: u64 = 3;

/// A measurement for or against a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// `measurement` if something was measured and nothing changed; `experiment` if the same query
    /// was sent under two conditions.
    pub kind: &'static str,
    /// `true` if it supports the finding, `false` if it contradicts it.
    pub agrees: bool,
    /// The measurement as a sentence.
    pub what: String,
    /// Number of trials.
    pub trials: u64,
}

/// A finding and the measurements that show it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The cause, its culprit, and the values for its text.
    pub finding: Finding,
    /// The measurements that show it.
    pub evidence: Vec<Evidence>,
}

/// Returns the faults of the servers, those with the highest cost first. `expected` is the look-up
/// by [`super::expect`] with the answers of the first round.
pub fn judge(config: &Config, survey: &Survey, expected: &Lookup) -> Vec<Judged> {
    let case = Case { config, survey, expected };
    let mut all: Vec<Judged> = Vec::new();
    for server in &survey.servers {
        all.extend(case.silent(server));
        all.extend(case.failing(server));
        all.extend(case.slow(server));
    }
    all.extend(case.searched());
    all.extend(case.reverse());
    all.sort_by_key(|it| std::cmp::Reverse(it.finding.lost_ns));
    all
}

struct Case<'a> {
    config: &'a Config,
    survey: &'a Survey,
    expected: &'a Lookup,
}

impl Case<'_> {
    fn finding(&self, cause: Cause, server: SocketAddr, role: Role, lost_ns: u64) -> Finding {
        let mut finding = Finding::of_cause(cause, Culprit { role, endpoint: server.into() });
        let took_ns = self.expected.took_ns.max(lost_ns).max(1);
        finding.lost_ns = lost_ns;
        finding.share = lost_ns as f64 / took_ns as f64;
        finding.affected.exchanges = 1;
        finding.affected.of_exchanges = 1;
        finding.confidence = 0.9;
        finding.facts.push(("resolver", text(server.ip())));
        finding
    }

    /// Returns the part of the look-up that was spent waiting for queries to this server for which
    /// `is_useless` holds, ns.
    fn waited_ns(&self, server: SocketAddr, is_useless: impl Fn(&Query) -> bool) -> u64 {
        let queries =
            self.expected.queries.iter().filter(|it| it.server == server && is_useless(it));
        // Two queries that are sent at the same time wait at the same time.
        let mut waits: Vec<(u64, u64)> = queries.map(|it| (it.sent_ns, it.end_ns())).collect();
        waits.sort_unstable();
        let mut until_ns = 0;
        let mut sum_ns = 0;
        for (from_ns, to_ns) in waits {
            sum_ns += to_ns.saturating_sub(from_ns.max(until_ns));
            until_ns = until_ns.max(to_ns);
        }
        sum_ns
    }

    /// Returns another server that answers, and how fast it does.
    fn other(&self, server: SocketAddr) -> Option<(SocketAddr, u64)> {
        let others = self.survey.servers.iter().filter(|it| it.server != server);
        let answers = others.filter_map(|it| Some((it.server, it.answer_ns(0)?)));
        answers.min_by_key(|(_, answer_ns)| *answer_ns)
    }

    /// Returns a finding `dns_timeout` if the server does not answer at all, or does not answer
    /// queries of one type or one query of a pair. A late answer is one ([`Case::slow`]), unless programs
    /// give up before it comes.
    fn silent(&self, at: &ServerSurvey) -> Option<Judged> {
        // A server whose port is closed for TCP only has answered: another finding reports it.
        let queries = || {
            let all = at.rounds.iter().flat_map(|round| &round.queries);
            let is_due = |it: &&Query| it.late.is_none() || !self.expected.is_conclusive();
            all.filter(|it| !is_closed_for_tcp(it, at)).filter(is_due)
        };
        let unheard = |it: &&Query| !it.is_heard();
        let silent = queries().filter(unheard).count() as u64;
        let heard = queries().count() as u64 - silent;
        if silent == 0 || (self.is_reverse() && heard == 0) {
            return None;
        }
        let only = only_type(queries().filter(unheard)).filter(|_| heard > 0);
        let is_only = |it: &Query| only.as_ref() == Some(&it.record_type.to_string());
        // The server answers no query of that type, and all queries of other types.
        let always = queries().all(|it| it.is_heard() != is_only(it));
        let alone_answers = at.alone.iter().any(Query::is_heard);
        let local = at.server.ip().is_loopback();
        let answers_now_and_then = heard > 0 && (!always || alone_answers);
        let role = if answers_now_and_then && !local { Role::Network } else { Role::Resolver };
        let lost_ns = self.waited_ns(at.server, |it| !it.is_heard() && !is_closed_for_tcp(it, at));
        let mut finding = self.finding(Cause::DnsTimeout, at.server, role, lost_ns);
        finding.confidence = if silent > 1 { 0.95 } else { 0.6 };
        let fact = |finding: &mut Finding, name, value| finding.facts.push((name, value));
        fact(&mut finding, "silent", Fact::Count(silent));
        if let Some(wait_ns) = queries().filter(|it| it.is_silent()).map(|it| it.took_ns).min() {
            fact(&mut finding, "timeout_ns", Fact::Ns(wait_ns));
        }
        if self.config.resolver.timeout_s <= 1 {
            fact(&mut finding, "least_timeout", Fact::Text("the shortest timeout".to_owned()));
        }
        let mut evidence = vec![self.tried(at, silent, heard)];
        match &only {
            Some(_) if always && alone_answers => fact(&mut finding, "pairs", Fact::Count(1)),
            Some(only) if always => {
                fact(&mut finding, "others", Fact::Count(heard));
                fact(&mut finding, "silent_type", Fact::Text(only.clone()));
                not(&mut finding, Cause::ConntrackRace, "alone");
            }
            _ => {}
        }
        evidence.extend(at.alone.iter().map(|query| asked_alone(query, at.server)));
        if let Some((other, answer_ns)) = self.other(at.server) {
            fact(&mut finding, "next_resolver", text(other.ip()));
            fact(&mut finding, "answer_p50_ns", Fact::Ns(answer_ns));
            evidence.push(compared(other, answer_ns));
        }
        let silent = queries().any(|it| it.is_silent() && it.late.is_none());
        if silent {
            not(&mut finding, Cause::DnsSlow, "never");
        }
        if !self.is_reverse() {
            not(&mut finding, Cause::ReverseDnsTimeout, "forward");
        }
        Some(Judged { finding, evidence })
    }

    fn tried(&self, at: &ServerSurvey, silent: u64, heard: u64) -> Evidence {
        let first = at.rounds.iter().flat_map(|it| &it.queries).find(|it| !it.is_heard());
        let late_ns = first.and_then(|it| it.late.as_ref()).map_or(0, |it| it.took_ns);
        let why = match first.map(|it| &it.outcome) {
            Some(QueryOutcome::PortClosed) => {
                "refused by its host: nothing listens at the port".into()
            }
            Some(QueryOutcome::Unreachable { error }) => format!("not sent: {error}"),
            _ if late_ns > 0 => {
                format!("answered after {}, when programs have given up", duration(late_ns))
            }
            _ => format!("not answered within {}", duration(ns(self.config.wait(0)))),
        };
        let queries = counted(silent + heard, "query", "queries");
        let what = format!("{silent} of {queries} to {}: {why}", at.server);
        Evidence { kind: "measurement", agrees: true, what, trials: silent + heard }
    }

    /// Returns a finding `dns_failure` if the server reports a failure, such as SERVFAIL or REFUSED, or
    /// an answer that is too long for a datagram, and refuses the query over TCP.
    fn failing(&self, at: &ServerSurvey) -> Option<Judged> {
        let failure = |query: &Query| match &query.outcome {
            QueryOutcome::Failure { rcode } => Some(rcode.clone()),
            QueryOutcome::PortClosed if is_closed_for_tcp(query, at) => {
                Some("a truncated answer (TC), and a closed TCP port,".to_owned())
            }
            _ => None,
        };
        let queries: Vec<&Query> = at.rounds.iter().flat_map(|it| &it.queries).collect();
        let failures: Vec<&&Query> = queries.iter().filter(|it| failure(it).is_some()).collect();
        let rcode = failure(failures.first()?)?;
        let fails = |it: &Query| failure(it).is_some();
        let lost_ns = self.waited_ns(at.server, fails);
        let mut finding = self.finding(Cause::DnsFailure, at.server, Role::Resolver, lost_ns);
        finding.facts.push(("count", Fact::Count(failures.len() as u64)));
        finding.facts.push(("rcode", Fact::Text(rcode.clone())));
        let mut times: Vec<u64> = failures.iter().map(|it| it.took_ns).collect();
        times.sort_unstable();
        finding.facts.push(("answer_p50_ns", Fact::Ns(times[times.len() / 2])));
        not(&mut finding, Cause::DnsTimeout, "answered");
        not(&mut finding, Cause::DnsSearch, "not_nxdomain");
        let number = failures.len() as u64;
        let asked = counted(queries.len() as u64, "query", "queries");
        let said = rcode.trim_end_matches(',');
        let what = format!("{number} of {asked} to {}: answered with {said}", at.server);
        let mut evidence =
            vec![Evidence { kind: "measurement", agrees: true, what, trials: number }];
        evidence.extend(self.other(at.server).map(|(other, answer_ns)| compared(other, answer_ns)));
        Some(Judged { finding, evidence })
    }

    /// Returns a finding `dns_slow` if the server whose answer is used takes longer than its round
    /// trip explains.
    fn slow(&self, at: &ServerSurvey) -> Option<Judged> {
        let used = self.expected.queries.iter().filter(|it| it.server == at.server);
        // A late answer counts with all its time, also if a program has asked another server meanwhile.
        let late = at.rounds.iter().flat_map(|it| &it.queries).filter_map(|it| it.late.as_deref());
        let late = late.filter(|_| self.expected.is_conclusive());
        let slowest = used.chain(late).filter(|it| it.is_usable()).max_by_key(|it| it.took_ns)?;
        let taken_ns = slowest.took_ns;
        let patience_ns = ns(self.config.wait(self.place(at)));
        let is_late = taken_ns > patience_ns;
        let rtt_ns = at.rtt_ns.unwrap_or(0);
        let is_slow = |ns: u64| ns >= SLOW_MIN_NS && ns >= SLOW_FACTOR * rtt_ns;
        if !is_slow(taken_ns) {
            return None;
        }
        let again_ns = at.repeated_ns();
        // A single slow answer may come from a resolver that had to ask other servers; the later
        // answers then come from its cache.
        let is_once = again_ns.is_some_and(|ns| !is_slow(ns) || ns * SLOW_FACTOR <= taken_ns);
        if is_once && taken_ns < UNCACHED_NS {
            return None;
        }
        let waited_ns = if is_late { self.waited_ns(at.server, |_| true) } else { taken_ns };
        let lost_ns = waited_ns - rtt_ns.min(waited_ns);
        let mut finding = self.finding(Cause::DnsSlow, at.server, Role::Resolver, lost_ns);
        finding.facts.push(("answer_p50_ns", Fact::Ns(taken_ns)));
        finding.facts.push(("count", Fact::Count(1)));
        if at.rtt_ns.is_some() {
            finding.facts.push(("rtt_ns", Fact::Ns(rtt_ns)));
        }
        match is_late {
            true => finding.facts.push(("patience_ns", Fact::Ns(patience_ns))),
            false => not(&mut finding, Cause::DnsTimeout, "answered"),
        }
        if self.expected.queries.iter().all(|it| it.outcome != QueryOutcome::NxDomain) {
            not(&mut finding, Cause::DnsSearch, "first_name");
        }
        let mut what = format!(
            "{} {} of {}: answered after {}",
            slowest.record_type,
            slowest.name,
            at.server,
            duration(taken_ns)
        );
        if let Some(again_ns) = again_ns {
            what += &format!(", {} when it was asked again", duration(again_ns));
        }
        let trials = at.rounds.len() as u64;
        let mut evidence = vec![Evidence { kind: "measurement", agrees: true, what, trials }];
        let other = self.other(at.server).filter(|(_, other_ns)| *other_ns < taken_ns);
        evidence.extend(other.map(|(other, answer_ns)| compared(other, answer_ns)));
        Some(Judged { finding, evidence })
    }

    /// Returns a finding `dns_search` if names that do not exist were tried before the one that
    /// does.
    fn searched(&self) -> Option<Judged> {
        let found = self.expected.found.as_deref()?;
        let is_useless = self.expected.queries.iter().filter(|it| it.name != found);
        let names: BTreeSet<&str> = is_useless
            .filter(|it| matches!(it.outcome, QueryOutcome::NxDomain | QueryOutcome::NoData))
            .map(|it| it.name.as_str())
            .collect();
        let hit = self.expected.queries.iter().find(|it| it.name == found)?;
        let lost_ns = hit.sent_ns.saturating_sub(
            self.config.servers.iter().map(|&it| self.waited_ns(it, |it| !it.is_usable())).sum(),
        );
        if names.is_empty() || lost_ns < SEARCH_NS_MIN {
            return None;
        }
        let local = local_address(hit.server)?;
        let mut finding = self.finding(Cause::DnsSearch, local, Role::Client, lost_ns);
        finding.facts.push(("tries_per_name", Fact::Count(names.len() as u64)));
        finding.facts.push(("extra_ns", Fact::Ns(lost_ns)));
        if self.config.resolver.ndots <= 1 {
            finding.facts.push(("least_ndots", Fact::Text("the least number of dots".to_owned())));
        }
        not(&mut finding, Cause::DnsFailure, "nxdomain");
        let what = format!(
            "{} do not exist; {found} does, and is asked for after {}",
            Vec::from_iter(names.iter().copied()).join(", "),
            duration(lost_ns)
        );
        let trials = names.len() as u64;
        let evidence = vec![Evidence { kind: "measurement", agrees: true, what, trials }];
        Some(Judged { finding, evidence })
    }

    /// Returns a finding `reverse_dns_timeout` if no server returns a name for the address, and at
    /// least one does not answer at all.
    fn reverse(&self) -> Option<Judged> {
        let of_server = |it: &ServerSurvey| {
            let forward = it.reverse.clone();
            let asked = it.rounds.iter().flat_map(|it| &it.queries).cloned();
            let reverse = asked.filter(|it| it.record_type == RecordType::PTR).chain(forward);
            reverse.collect::<Vec<_>>()
        };
        let asked: Vec<Query> = self.survey.servers.iter().flat_map(of_server).collect();
        let first = asked.iter().find(|it| it.is_silent())?;
        if asked.iter().any(Query::is_usable) {
            return None;
        }
        let wait_ns = self.config.resolver.longest_wait_s() * 1_000_000_000;
        let lost_ns = if self.is_reverse() { self.expected.took_ns } else { wait_ns };
        let mut finding =
            self.finding(Cause::ReverseDnsTimeout, first.server, Role::Resolver, lost_ns);
        let silent = asked.iter().filter(|it| it.is_silent()).count() as u64;
        finding.facts.push(("count", Fact::Count(silent)));
        finding.facts.push(("timeout_ns", Fact::Ns(first.took_ns)));
        finding.confidence = if self.is_reverse() { 0.7 } else { 0.9 };
        if !self.is_reverse() {
            not(&mut finding, Cause::DnsTimeout, "ptr_only");
        }
        let what = format!(
            "PTR {}: no answer within {}; a program that asks for it waits up to {}",
            first.name,
            duration(first.took_ns),
            duration(wait_ns)
        );
        let evidence = vec![Evidence { kind: "measurement", agrees: true, what, trials: silent }];
        Some(Judged { finding, evidence })
    }

    /// Returns the place of a server in the configuration, which decides how long it is waited for.
    fn place(&self, at: &ServerSurvey) -> usize {
        self.config.servers.iter().position(|it| *it == at.server).unwrap_or(0)
    }

    fn is_reverse(&self) -> bool {
        self.survey.name.parse::<std::net::IpAddr>().is_ok()
    }
}

/// Returns whether a query over TCP was refused by a server that answers over UDP.
fn is_closed_for_tcp(query: &Query, at: &ServerSurvey) -> bool {
    let mut all = at.rounds.iter().flat_map(|it| &it.queries);
    query.transport == Transport::Tcp
        && query.outcome == QueryOutcome::PortClosed
        && all.any(|it| it.transport == Transport::Udp && it.is_heard())
}

impl Lookup {
    /// Returns whether programs get an answer, including the answer that there are no records.
    pub fn is_conclusive(&self) -> bool {
        self.ended != Ended::TryAgain
    }
}

fn text(value: impl ToString) -> Fact {
    Fact::Text(value.to_string())
}

fn not(finding: &mut Finding, cause: Cause, why: &'static str) {
    finding.ruled_out.push(RuledOut { cause, why });
}

fn compared(other: SocketAddr, answer_ns: u64) -> Evidence {
    let what = format!("the same question to {other}: answered after {}", duration(answer_ns));
    Evidence { kind: "experiment", agrees: true, what, trials: 1 }
}

/// Returns the record type of `queries`, if all have the same.
fn only_type<'a>(queries: impl Iterator<Item = &'a Query>) -> Option<String> {
    let types: BTreeSet<String> = queries.map(|it| it.record_type.to_string()).collect();
    types.first().filter(|_| types.len() == 1).cloned()
}

/// Returns the evidence of a query for one record type alone.
fn asked_alone(query: &Query, server: SocketAddr) -> Evidence {
    let what = match query.is_heard() {
        true => "answered when it is sent alone, not beside another question",
        false => "not answered either when it is sent alone",
    };
    let what = format!("{} {server}: {what}", query.record_type);
    Evidence { kind: "experiment", agrees: true, what, trials: 1 }
}
