//! Faults that appear only with many concurrent requests: a full accept queue, a queue before the
//! bottleneck, losses.

use crate::capture::{FrameId, InputSummary};
use crate::findings;
use crate::findings::thresholds::TAIL_SHARE;
use crate::model::units::counted;
use crate::model::{Class, Finding, Load, Report, Role};

/// Adds to `report`, which is about single requests, the faults that only a load of `connections`
/// connections shows, as found in the `loaded` report of its packets. Costs are not added: when
/// more is requested than a server can handle, requests wait for each other, which is no fault.
/// Faults of the client are not added either, since the client creates the load.
pub fn add_load(report: &mut Report, connections: u64, loaded: Report) {
    let totals = loaded.totals;
    let mut found = loaded.findings;
    found.retain(|it| is_more(it, totals.connections, &report.findings));
    if found.is_empty() {
        return;
    }
    // Frames of the load are numbered separately, because its capture is another input of the
    // report.
    let offset = report.inputs.len() as u32;
    for finding in &mut found {
        finding.load = Some(Load { connections, wall_ns: totals.wall_ns });
        for link in &mut finding.evidence {
            link.frame = FrameId::new(link.frame.file() + offset, link.frame.number());
        }
    }
    let named = |it: InputSummary| {
        let count = counted(connections, "connection", "connections");
        InputSummary { path: format!("{}, {count}", it.path), ..it }
    };
    report.inputs.extend(loaded.inputs.into_iter().map(named));
    report.findings.extend(found);
    findings::arrange(&mut report.findings, &report.totals);
}

/// Returns whether the `loaded` report has a fault that [`add_load`] would add to `report`.
pub fn shows_more(report: &Report, loaded: &Report) -> bool {
    let connections = loaded.totals.connections;
    loaded.findings.iter().any(|it| is_more(it, connections, &report.findings))
}

/// Returns whether `finding` is a fault under load that is not the client's, not slight, and not in
/// `known`.
fn is_more(finding: &Finding, connections: u64, known: &[Finding]) -> bool {
    finding.cause.class() == Class::Fault
        && finding.culprit.role != Role::Client
        && !known.iter().any(|it| is_same(it, finding))
        && !is_slight(finding, connections)
}

fn is_same(known: &Finding, found: &Finding) -> bool {
    known.cause == found.cause && known.culprit.role == found.culprit.role
}

fn is_slight(finding: &Finding, connections: u64) -> bool {
    let part = |of: u64, whole: u64| of as f64 / whole.max(1) as f64;
    let affected = &finding.affected;
    finding.share < TAIL_SHARE
        && part(affected.exchanges, affected.of_exchanges) < TAIL_SHARE
        && part(affected.connections, connections) < TAIL_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Affected, Cause, Culprit, Evidence};
    use crate::wire::Endpoint;

    fn found(cause: Cause, role: Role, share: f64) -> Finding {
        let culprit = Culprit { role, endpoint: Endpoint::default() };
        let affected = Affected { exchanges: 30, of_exchanges: 100, connections: 30 };
        Finding { share, affected, ..Finding::of_cause(cause, culprit) }
    }

    fn report(path: &str, findings: Vec<Finding>) -> Report {
        let input = InputSummary { path: path.to_owned(), ..InputSummary::default() };
        let mut report = Report { inputs: vec![input], findings, ..Report::default() };
        report.totals.connections = 100;
        report.totals.wall_ns = 7_000;
        report
    }

    fn causes(report: &Report) -> Vec<(Cause, Option<u64>)> {
        let of = |it: &Finding| (it.cause, it.load.map(|load| load.connections));
        report.findings.iter().map(of).collect()
    }

    #[test]
    fn faults_that_single_requests_do_not_show_are_added_with_their_load() {
        let lone = found(Cause::NagleDelayedAck, Role::Server, 0.5);
        let mut all = report("alone", vec![lone.clone()]);
        let mut overflow = found(Cause::AcceptQueueOverflow, Role::Server, 0.9);
        overflow.lost_ns = 9_000;
        let frame = FrameId::new(0, 17);
        let link = Evidence {
            frame,
            part: "syn",
            from: crate::wire::Side::Client,
            payload_bytes: 0,
            after_ns: 0,
        };
        overflow.evidence = vec![link];
        let loaded = report("load", vec![lone, overflow]);
        assert!(shows_more(&all, &loaded));
        add_load(&mut all, 100, loaded.clone());
        assert!(!shows_more(&all, &loaded), "it is known now");
        let expected = [(Cause::NagleDelayedAck, None), (Cause::AcceptQueueOverflow, Some(100))];
        assert_eq!(causes(&all), expected, "what is met alone comes first");
        let evidence = all.findings[1].evidence[0].frame;
        assert_eq!(all.inputs[evidence.file() as usize].path, "load, 100 connections");
        assert_eq!(evidence.number(), 17);
        assert_eq!(all.findings[1].load.map(|it| it.wall_ns), Some(7_000));
    }

    #[test]
    fn a_saturated_server_is_not_reported_as_slow() {
        let think = found(Cause::ServerThink, Role::Server, 0.95);
        let own = found(Cause::ZeroWindow, Role::Client, 0.4);
        let mut rare = found(Cause::RetransmissionTimeout, Role::Network, 0.001);
        rare.affected = Affected { exchanges: 1, of_exchanges: 20_000, connections: 0 };
        let mut all = report("alone", Vec::new());
        let loaded = report("load", vec![think, own, rare]);
        assert!(!shows_more(&all, &loaded));
        add_load(&mut all, 100, loaded);
        assert_eq!(causes(&all), []);
        assert_eq!(all.inputs.len(), 1);
    }
}
