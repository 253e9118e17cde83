//! Real captures with known truth (`testdata/`): the cause of the latency, its culprit, and its
//! cost. The truth comes from the clients' clocks and the set-up (see `testdata/README.md`).

mod quic;

use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tcpwhy_core::capture::{CaptureSet, Source};
use tcpwhy_core::model::{Class, Finding, Owner, Report, Role};
use tcpwhy_core::pipeline::{Analysis, Options};

/// Lost time may differ from the truth by this share of it: the twin's run, from which the truth
/// is known, differs from run to run.
const LOST_TOLERANCE: f64 = 0.10;

/// Wall time that may remain unattributed.
const UNKNOWN_MAX: f64 = 0.02;

/// Captures whose diagnosis differs from the truth, with the difference. The test fails when one of
/// them agrees, so that the list stays up to date.
const DIFFER: &[(&str, &str)] = &[
    // Its requests are acknowledged 1 to 2 ms later than after a round trip, right before the answer: the
    // machine on which it was made was busy. That is no time of the application.
    ("dns_slow-healthy", "unknown is"),
];

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn diagnose(path: &Path) -> Report {
    diagnose_with(path, Options::default())
}

fn diagnose_with(path: &Path, options: Options) -> Report {
    let bytes = std::fs::read(path).expect("a capture of testdata");
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut capture = CaptureSet::new(vec![Source::memory(name, bytes)]).expect("a capture");
    let mut analysis = Analysis::new(options);
    analysis.run(&mut capture, &mut |_| true).expect("a readable capture");
    analysis.finish(capture.inputs())
}

fn words(finding: &Finding) -> String {
    format!(
        "{} {} by {} {} lost {:.1} ms",
        finding.cause.class().id(),
        finding.cause.id(),
        finding.culprit.role.id(),
        finding.culprit.endpoint,
        finding.lost_ns as f64 / 1e6
    )
}

/// Returns the differences between the truth about one capture and the report.
fn differences(truth: &Value, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    let unknown = report.ledger.of(Owner::Unknown) as f64 / report.totals.wall_ns.max(1) as f64;
    if unknown > UNKNOWN_MAX {
        wrong.push(format!("unknown is {:.1} % of wall time", unknown * 100.0));
    }
    let faults = report.findings.iter().filter(|one| one.cause.class() == Class::Fault);
    if truth["class"] != "fault" {
        wrong.extend(faults.map(|fault| format!("not a fault: {}", words(fault))));
    }
    for cause in truth["causes"].as_array().expect("a list of causes") {
        wrong.extend(missing(cause, report));
    }
    wrong
}

/// Returns what the report misses of one true cause, which must be the first finding.
fn missing(cause: &Value, report: &Report) -> Vec<String> {
    let also = cause["also_right"].as_array().expect("a list of ids");
    let right = |finding: &&Finding| {
        let id = finding.cause.id();
        cause["cause"] == id || also.iter().any(|other| other == id)
    };
    let Some(first) = report.findings.first().filter(|one| right(one)) else {
        return vec![format!("the first finding is not {}", cause["cause"])];
    };
    let mut wrong = Vec::new();
    if cause["culprit_role"] != first.culprit.role.id() {
        wrong.push(format!("the culprit is the {}", cause["culprit_role"]));
    }
    let culprit = cause["culprit_endpoint"].as_str().and_then(|it| it.parse::<SocketAddr>().ok());
    if let Some(culprit) = culprit {
        // A client is named by its host: its port is another for each connection.
        let port = if first.culprit.role == Role::Client { 0 } else { culprit.port() };
        let found = first.culprit.endpoint;
        if (found.ip(), found.port) != (culprit.ip(), port) {
            wrong.push(format!("the culprit is {culprit}"));
        }
    }
    if let Some(lost_ns) = cause["lost_ns"].as_u64() {
        let found: u64 = report.findings.iter().filter(right).map(|one| one.lost_ns).sum();
        let (lost, found) = (lost_ns as f64, found as f64);
        if (found - lost).abs() > LOST_TOLERANCE * lost {
            let percent = (found / lost - 1.0) * 100.0;
            wrong.push(format!("lost {:.1} ms: {percent:+.0} %", lost / 1e6));
        }
    }
    wrong
}

/// The only kind of request an endpoint got took what the endpoint's exchanges took, with all they
/// had to wait for.
fn kinds_apart(report: &Report) -> Vec<String> {
    let single = report.endpoints.iter().filter(|endpoint| endpoint.kinds.len() == 1);
    single
        .filter(|endpoint| endpoint.kinds[0].latency != endpoint.latency)
        .map(|endpoint| format!("`{}` takes other times than its server", endpoint.kinds[0].kind))
        .collect()
}

#[test]
fn the_fast_path_does_not_change_the_report() {
    let truth = std::fs::read(testdata().join("truth.json")).expect("truth.json");
    let truth: Vec<Value> = serde_json::from_slice(&truth).expect("a list of captures");
    for one in &truth {
        let file = one["file"].as_str().expect("a file name");
        let path = testdata().join("captures").join(file);
        let [short, long] = [false, true].map(|disable_fast_path| {
            diagnose_with(&path, Options { disable_fast_path, ..Options::default() })
        });
        assert_eq!(format!("{short:?}"), format!("{long:?}"), "{file}");
    }
}

#[test]
fn captures_are_diagnosed_as_they_were_made() {
    let truth = std::fs::read(testdata().join("truth.json")).expect("truth.json");
    let truth: Vec<Value> = serde_json::from_slice(&truth).expect("a list of captures");
    let mut wrong = Vec::new();
    for one in &truth {
        let file = one["file"].as_str().expect("a file name");
        let report = diagnose(&testdata().join("captures").join(file));
        let mut unlike = differences(one, &report);
        for (_, known) in DIFFER.iter().filter(|(name, _)| one["name"] == *name) {
            match unlike.iter().position(|difference| difference.starts_with(known)) {
                Some(at) => drop(unlike.remove(at)),
                None => unlike.push(format!("no longer differs in `{known}`")),
            }
        }
        unlike.extend(kinds_apart(&report));
        if !unlike.is_empty() {
            let found: Vec<_> = report.findings.iter().map(words).collect();
            wrong.push(format!("{file}: {}; found {found:?}", unlike.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), truth.len(), wrong.join("\n"));
}
