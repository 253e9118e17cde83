//! The name servers, where the name took long: each asked on its own.

use super::steps::Steps;
use std::time::Instant;
use tcpwhy_core::cause::arrange;
use tcpwhy_core::report::{Fact, Finding, Report, StateEvidence};
use tcpwhy_probe::dns::{self, Config, Judged};

/// A look-up that takes longer is looked into, ns: the floor of a cost.
const SLOW_NS: u64 = 20_000_000;

/// What is wrong with the servers that a slow look-up asked.
pub fn examine(host: &str, lookup_ns: u64, steps: &mut Steps) -> Vec<Finding> {
    if lookup_ns < SLOW_NS {
        return Vec::new();
    }
    let began = Instant::now();
    let config = match Config::system() {
        Ok(config) => config,
        Err(error) => {
            steps.skipped("resolvers", error.to_string());
            return Vec::new();
        }
    };
    let types: Vec<_> = ["A", "AAAA"].into_iter().filter_map(dns::record_type).collect();
    let survey = dns::survey(host, &types, &config, 1);
    let expected = dns::expect(host, &types, &config, &survey.first());
    let judged = dns::judge(&config, &survey, &expected);
    let causes: Vec<&str> = judged.iter().map(|it| it.finding.cause.id()).collect();
    let causes = if causes.is_empty() { "no fault".to_owned() } else { causes.join(", ") };
    let count = survey.servers.len();
    steps.done("resolvers", began, format!("{count} asked on their own: {causes}"));
    judged.into_iter().map(finding).collect()
}

/// Adds what `examine` found to a report.
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
