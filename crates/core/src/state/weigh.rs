//! Adds the evidence of the state to the findings of a report.

use super::rules::{evidence_for, overflows, server};
use super::{Conntrack, LocalPorts, Netns, State};
use crate::findings;
use crate::findings::thresholds::CONFIDENCE_MAX;
use crate::model::{Cause, Culprit, Fact, Finding, Report, Role, StateEvidence};
use crate::state::thresholds::{LIKELIHOOD_RATIO, TIME_WAIT_S, UNREPLIED_S};
use crate::wire::Endpoint;
use std::net::SocketAddr;

/// Adds to the findings of `report` the evidence of `state` for or against each, adapts their
/// confidence, and names causes that only the state can distinguish. Findings that were weighed
/// before are not changed.
pub fn weigh(report: &mut Report, state: &State) {
    for finding in &mut report.findings {
        // A queue that was full overrules what another reading, a moment before or after, said.
        rename(finding, state);
        if finding.state.is_empty() {
            for evidence in evidence_for(finding, state) {
                add(finding, evidence, state);
            }
        }
    }
    for ports in state.netns.iter().filter_map(|netns| netns.local_ports.as_ref()) {
        if is_used_up(ports) && !report.findings.iter().any(|it| it.cause == Cause::PortExhaustion)
        {
            report.findings.push(port_exhaustion(ports, state));
        }
    }
    findings::arrange(&mut report.findings, &report.totals);
}

/// Adds `evidence`. Several statements of a kernel about one socket are not independent: only the
/// first changes the confidence.
fn add(finding: &mut Finding, mut evidence: StateEvidence, state: &State) {
    evidence.read_ns = state.read_ns;
    if finding.state.is_empty() {
        finding.confidence = weighed(finding.confidence, evidence.agrees);
    }
    finding.state.push(evidence);
}

/// Applies Bayes' rule: the odds are multiplied by the likelihood ratio, or divided by it.
fn weighed(confidence: f64, agrees: bool) -> f64 {
    let ratio = if agrees { LIKELIHOOD_RATIO } else { LIKELIHOOD_RATIO.recip() };
    let (with, without) = (confidence * ratio, 1.0 - confidence);
    let share = with / (with + without).max(f64::MIN_POSITIVE);
    (share.min(CONFIDENCE_MAX) * 100.0).round() / 100.0
}

/// Renames the cause of failed connection attempts and look-ups if the state shows a full accept
/// queue or a full connection tracking table. On the wire they look the same, whatever dropped
/// them.
fn rename(finding: &mut Finding, state: &State) {
    if !matches!(finding.cause, Cause::SynRetransmit | Cause::DnsTimeout) {
        return;
    }
    let full = state.netns.iter().filter_map(conntrack_full).next();
    let queue = overflows(server(finding), state).filter(|_| finding.cause == Cause::SynRetransmit);
    let (cause, culprit, evidence) = match (queue, full) {
        (Some(queue), _) => {
            let culprit = Culprit { role: Role::Server, endpoint: server(finding) };
            (Cause::AcceptQueueOverflow, culprit, queue)
        }
        (None, Some(full)) => {
            let host = finding.evidence_flow.map_or(finding.culprit.endpoint, |(client, _)| client);
            let culprit = Culprit { role: Role::Host, endpoint: Endpoint { port: 0, ..host } };
            (Cause::ConntrackFull, culprit, full)
        }
        (None, None) => return,
    };
    finding.cause = cause;
    finding.culprit = culprit;
    // The look-alikes were excluded for the previous cause.
    finding.ruled_out.clear();
    add(finding, evidence, state);
}

fn conntrack_full(netns: &Netns) -> Option<StateEvidence> {
    let is_full = |it: &Conntrack| it.drop > 0 && it.count >= it.max - it.max / UNREPLIED_S;
    let table = netns.conntrack.filter(is_full)?;
    Some(StateEvidence {
        id: "conntrack_full",
        agrees: true,
        setting: "nf_conntrack_count",
        value: format!("{}/{}", table.count, table.max),
        place: "connection tracking".into(),
        process: None,
        read_ns: None,
        facts: vec![
            ("count", Fact::Count(table.count)),
            ("max", Fact::Count(table.max)),
            ("drops", Fact::Count(table.drop)),
        ],
    })
}

fn is_used_up(ports: &LocalPorts) -> bool {
    ports.available > 0 && ports.used >= ports.available - ports.available / TIME_WAIT_S
}

/// Creates the finding of exhausted ports. No packet shows it: `connect` fails before one is sent.
fn port_exhaustion(ports: &LocalPorts, state: &State) -> Finding {
    let evidence = StateEvidence {
        id: "ports_used",
        agrees: true,
        setting: "ip_local_port_range",
        value: format!("{}/{}", ports.used, ports.available),
        place: ports.peer.to_string(),
        process: None,
        read_ns: state.read_ns,
        facts: vec![
            ("used", Fact::Count(ports.used)),
            ("available", Fact::Count(ports.available)),
            ("peer", Fact::Text(ports.peer.to_string())),
        ],
    };
    let endpoint = SocketAddr::new(ports.local, 0).into();
    let culprit = Culprit { role: Role::Client, endpoint };
    Finding {
        confidence: findings::confidence_of(Cause::PortExhaustion, ports.used),
        facts: vec![("ports", Fact::Count(ports.used))],
        state: vec![evidence],
        ..Finding::of_cause(Cause::PortExhaustion, culprit)
    }
}

#[cfg(test)]
mod tests;
