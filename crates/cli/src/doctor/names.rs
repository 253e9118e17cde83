//! Resolves the target's name. Where the look-up was slow or failed, or the first name server fails,
//! each name server is asked separately.

use super::error::DoctorError;
use super::steps::Steps;
use crate::dns::unsent;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};
use tcpwhy_core::findings::arrange;
use tcpwhy_core::model::{Cause, Class, Fact, Finding, Report, StateEvidence};
use tcpwhy_probe::Target;
use tcpwhy_probe::dns::{self, Config, Ended, Hosts, Judged, record_type};

/// A look-up that takes longer is looked into, ns: the floor of a cost.
pub const SLOW_NS: u64 = 20_000_000;

/// What came of looking the name up.
pub enum Resolved {
    /// Its addresses, those that the system prefers first, and what is wrong with its name servers.
    Found { addresses: Vec<SocketAddr>, lookup_ns: u64, findings: Vec<Finding> },
    /// It has none, and name servers are at fault.
    Failed { lookup_ns: u64, findings: Vec<Finding> },
}

/// Looks the target's name up.
///
/// # Errors
/// There is no such name, it has no address, or no name server can be asked.
pub fn resolve(target: &Target, steps: &mut Steps) -> Result<Resolved, DoctorError> {
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
            let findings = examine_failed(host, steps);
            return match findings.is_empty() {
                true => Err(DoctorError::Unresolved { host: host.clone(), source }),
                false => Ok(Resolved::Failed { lookup_ns, findings }),
            };
        }
    };
    if addresses.is_empty() {
        return Err(DoctorError::NoAddress { host: host.clone() });
    }
    let shown: Vec<String> = addresses.iter().map(|it| it.ip().to_string()).collect();
    steps.done("name", began, format!("{host} is {}", shown.join(", ")));
    let findings = examine(host, lookup_ns, steps);
    Ok(Resolved::Found { addresses, lookup_ns, findings })
}

/// Returns the faults of the name servers after a look-up that was slow, or that succeeded although
/// the first name server fails.
fn examine(host: &str, lookup_ns: u64, steps: &mut Steps) -> Vec<Finding> {
    if lookup_ns < SLOW_NS && !first_server_fails(host) {
        return Vec::new();
    }
    ask(host, steps).map_or_else(Vec::new, |asked| asked.findings)
}

/// Returns whether the first of several name servers answers with a failure, such as SERVFAIL. Then
/// the resolver asks the next one at once (`send_dg` of glibc's res_send.c), so that a look-up on a
/// short path is quick all the same. One question is enough: a failure that came within a quick
/// look-up comes as quickly again, and a server that is silent for longer was not waited for.
fn first_server_fails(host: &str) -> bool {
    let Ok(config) = Config::system() else { return false };
    let &[first, _, ..] = config.servers.as_slice() else { return false };
    if !Hosts::system().addresses(host).is_empty() {
        return false;
    }
    let (Some(name), Some(wanted)) = (config.candidates(host).into_iter().next(), record_type("A"))
    else {
        return false;
    };
    let query = dns::ask(first, &name, wanted, Duration::from_nanos(SLOW_NS));
    query.is_heard() && !query.is_usable()
}

/// What is wrong with the servers of a name without an address; nothing where they say that there
/// is no such name, or where this host reaches none of them.
fn examine_failed(host: &str, steps: &mut Steps) -> Vec<Finding> {
    // No server has names below `invalid` (RFC 6761 §6.4).
    if host.trim_end_matches('.').rsplit('.').next() == Some("invalid") {
        return Vec::new();
    }
    let Some(asked) = ask(host, steps) else { return Vec::new() };
    let is_answered = matches!(asked.ended, Ended::NoData | Ended::NotFound);
    let is_fault = |it: &Finding| it.cause.class() == Class::Fault;
    if is_answered || asked.is_unsent || !asked.findings.iter().any(is_fault) {
        return Vec::new();
    }
    asked.findings
}

/// What the servers answered.
struct Asked {
    findings: Vec<Finding>,
    /// How a look-up ends with these answers.
    ended: Ended,
    /// No query could leave this host.
    is_unsent: bool,
}

fn ask(host: &str, steps: &mut Steps) -> Option<Asked> {
    let began = Instant::now();
    let config = match Config::system() {
        Ok(config) => config,
        Err(error) => {
            steps.skipped("resolvers", error.to_string());
            return None;
        }
    };
    let types: Vec<_> = ["A", "AAAA"].into_iter().filter_map(record_type).collect();
    let mut survey = dns::survey(host, &types, &config, 1);
    let expected = dns::expect(host, &types, &config, &survey.first());
    let mut judged = dns::judge(&config, &survey, &expected);
    let slow = |it: &&Judged| it.finding.cause == Cause::DnsSlow;
    let slow: Vec<_> = judged.iter().filter(slow).map(|it| it.finding.culprit.endpoint).collect();
    if !slow.is_empty() {
        // An answer that is late once is no slow resolver.
        survey.repeat(&types, &config, |server| slow.contains(&server.into()));
        judged = dns::judge(&config, &survey, &expected);
    }
    let causes: Vec<&str> = judged.iter().map(|it| it.finding.cause.id()).collect();
    let causes = if causes.is_empty() { "no fault".to_owned() } else { causes.join(", ") };
    let count = survey.servers.len();
    steps.done("resolvers", began, format!("{count} asked on their own: {causes}"));
    Some(Asked {
        findings: judged.into_iter().map(finding).collect(),
        ended: expected.ended,
        is_unsent: unsent(&survey).is_some(),
    })
}

/// Adds what [`resolve`] found to a report.
pub fn add(report: &mut Report, found: Vec<Finding>) {
    report.findings.extend(found);
    arrange(&mut report.findings, &report.totals);
}

/// The finding with what was measured as evidence.
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
