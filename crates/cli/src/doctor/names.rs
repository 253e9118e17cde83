//! Resolves the target's name. If the look-up was slow or failed, or if the first name server
//! fails, each name server is queried separately.

use super::error::DoctorError;
use super::steps::Steps;
use crate::dns::unsent;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};
use tcpwhy_core::findings::arrange;
use tcpwhy_core::model::{Cause, Class, Fact, Finding, Report, StateEvidence};
use tcpwhy_probe::Target;
use tcpwhy_probe::budget::Budget;
use tcpwhy_probe::dns::{self, Config, Ended, Hosts, Judged, record_type};

/// A look-up that takes longer than this, ns, is examined; it is the smallest cost that is
/// reported.
pub const SLOW_NS: u64 = 20_000_000;

/// The outcome of resolving the name.
pub enum Resolved {
    /// The name has addresses, in the system's order of preference. Name servers may have faults.
    Found { addresses: Vec<SocketAddr>, lookup_ns: u64, findings: Vec<Finding> },
    /// The name did not resolve, and name servers are at fault.
    Failed { lookup_ns: u64, findings: Vec<Finding> },
}

/// Resolves the target's name.
///
/// # Errors There is no such name, or no name server can be queried.
pub fn resolve(
    target: &Target,
    budget: &Budget,
    steps: &mut Steps,
) -> Result<Resolved, DoctorError> {
    let host = &target.host;
    if let Some(address) = target.address() {
        steps.skipped("name", format!("{address} is an address"));
        let addresses = vec![SocketAddr::new(address, target.port)];
        return Ok(Resolved::Found { addresses, lookup_ns: 0, findings: Vec::new() });
    }
    let began = Instant::now();
    let found = (host.as_str(), target.port).to_socket_addrs();
    let lookup_ns = began.elapsed().as_nanos() as u64;
    let addresses: Vec<SocketAddr> = match found {
        Ok(found) => found.collect(),
        Err(source) => {
            steps.failed("name", began, format!("{host} does not resolve"));
            let findings = examine_failed(host, budget, steps);
            return match findings.is_empty() {
                true => Err(DoctorError::Unresolved { host: host.clone(), source }),
                false => Ok(Resolved::Failed { lookup_ns, findings }),
            };
        }
    };
    let shown: Vec<String> = addresses.iter().map(|it| it.ip().to_string()).collect();
    steps.done("name", began, format!("{host} is {}", shown.join(", ")));
    let findings = examine(host, lookup_ns, budget, steps);
    Ok(Resolved::Found { addresses, lookup_ns, findings })
}

/// Returns the faults of the name servers after a look-up that was slow, or that succeeded although
/// the first name server fails.
fn examine(host: &str, lookup_ns: u64, budget: &Budget, steps: &mut Steps) -> Vec<Finding> {
    if lookup_ns < SLOW_NS && !first_server_fails(host, budget) {
        return Vec::new();
    }
    ask(host, budget, steps).map_or_else(Vec::new, |asked| asked.findings)
}

/// Returns whether the first of several name servers answers with a failure such as SERVFAIL. In
/// that case the resolver asks the next server at once (`send_dg` in glibc's res_send.c), so the
/// look-up is still quick on a short path. One query is enough: a failure that came within a quick
/// look-up comes equally quickly again, and the resolver did not wait for a server that is silent
/// for longer.
fn first_server_fails(host: &str, budget: &Budget) -> bool {
    let Ok(config) = Config::system() else { return false };
    let &[first, _, ..] = config.servers.as_slice() else { return false };
    if !Hosts::system().addresses(host).is_empty() {
        return false;
    }
    let (Some(name), Some(wanted)) = (config.candidates(host).into_iter().next(), record_type("A"))
    else {
        return false;
    };
    let query = dns::ask(first, &name, wanted, Duration::from_nanos(SLOW_NS), budget);
    query.is_heard() && !query.is_usable()
}

/// Returns the faults of the name servers for a name without an address. There are none if the
/// servers say that the name does not exist, or if this host reaches none of them.
fn examine_failed(host: &str, budget: &Budget, steps: &mut Steps) -> Vec<Finding> {
    // No server has names below `invalid` (RFC 6761 §6.4).
    if host.trim_end_matches('.').rsplit('.').next() == Some("invalid") {
        return Vec::new();
    }
    let Some(asked) = ask(host, budget, steps) else { return Vec::new() };
    let is_answered = matches!(asked.ended, Ended::NoData | Ended::NotFound);
    let is_fault = |it: &Finding| it.cause.class() == Class::Fault;
    if is_answered || asked.is_unsent || !asked.findings.iter().any(is_fault) {
        return Vec::new();
    }
    asked.findings
}

/// The answers of the name servers.
struct NameAnswers {
    findings: Vec<Finding>,
    /// How a look-up ends with these answers.
    ended: Ended,
    /// `true` if no query could leave this host.
    is_unsent: bool,
}

fn ask(host: &str, budget: &Budget, steps: &mut Steps) -> Option<NameAnswers> {
    let began = Instant::now();
    let config = match Config::system() {
        Ok(config) => config,
        Err(error) => {
            steps.skipped("resolvers", error.to_string());
            return None;
        }
    };
    let types = config.address_types();
    let mut survey = dns::survey(host, &types, &config, 1, budget);
    let expected = dns::expect(host, &types, &config, &survey.first());
    let mut judged = dns::judge(&config, &survey, &expected);
    let slow = |it: &&Judged| it.finding.cause == Cause::DnsSlow;
    let slow: Vec<_> = judged.iter().filter(slow).map(|it| it.finding.culprit.endpoint).collect();
    if !slow.is_empty() {
        // One late answer does not show that a resolver is slow.
        survey.repeat(&types, &config, budget, |server| slow.contains(&server.into()));
        judged = dns::judge(&config, &survey, &expected);
    }
    let causes: Vec<&str> = judged.iter().map(|it| it.finding.cause.id()).collect();
    let causes = if causes.is_empty() { "no fault".to_owned() } else { causes.join(", ") };
    let count = survey.servers.len();
    steps.done("resolvers", began, format!("{count} asked on their own: {causes}"));
    Some(NameAnswers {
        findings: judged.into_iter().map(finding).collect(),
        ended: expected.ended,
        is_unsent: unsent(&survey).is_some(),
    })
}

/// Adds the findings of [`resolve`] to a report.
pub fn add(report: &mut Report, found: Vec<Finding>) {
    report.findings.extend(found);
    arrange(&mut report.findings, &report.totals);
}

/// Converts a finding, with the measurements as its evidence.
fn finding(judged: Judged) -> Finding {
    let mut finding = judged.finding;
    let place = finding.culprit.endpoint.to_string();
    finding.state.extend(judged.evidence.into_iter().map(|it| StateEvidence {
        id: "measured",
        agrees: it.agrees,
        setting: "own queries",
        value: it.trials.to_string(),
        place: place.clone(),
        process: None,
        read_ns: None,
        facts: vec![("what", Fact::Text(it.what))],
    }));
    finding
}
