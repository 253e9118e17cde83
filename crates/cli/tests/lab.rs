//! From a fault in real software to its diagnosis: the lab makes the captures, the built command
//! reads them.
//!
//! Needs root and the programs of the case. Where they are missing a test is skipped and says so;
//! with `CI` in the environment it fails instead.
#![cfg(target_os = "linux")]

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tcpwhy_lab::{CaseResult, LabError, Labels, Role, RunOptions, find, run};

/// Runs a case with the parameters of `set` (`name value`); `None` where this machine cannot.
fn captured(case: &str, set: &[(&str, &str)]) -> Option<CaseResult> {
    let set = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab");
    let case = find(case).expect("the lab has the case");
    match run(case, &RunOptions { out, seed: 1, set }) {
        Ok(result) => Some(result),
        Err(error @ (LabError::NotRoot | LabError::Missing { .. })) => {
            assert!(env::var_os("CI").is_none(), "{}: {error}", case.name);
            // Past the test runner, which shows only what failing tests print.
            let _ = writeln!(io::stderr(), "skipped {}: {error}", case.name);
            None
        }
        Err(error) => panic!("{}: {error}", case.name),
    }
}

fn role(vantage: &str) -> Role {
    if vantage == "client" { Role::Client } else { Role::Server }
}

fn diagnosed(dir: &Path, labels: &Labels, vantage: &str) -> (Output, Value) {
    let capture = labels.stage.captures.iter().find(|capture| capture.vantage == vantage);
    let file = &capture.expect("a capture at either end").file;
    let variant = if labels.causes.is_empty() { "healthy" } else { "faulty" };
    let mut tcpwhy = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    let output = tcpwhy.arg("--json").arg(dir.join(variant).join(file)).output();
    let output = output.expect("tcpwhy runs");
    let report = serde_json::from_slice(&output.stdout).expect("a report in JSON");
    (output, report)
}

/// The first finding names the label's cause and culprit, from either end, and the healthy twin
/// has no fault. The lost time is right within a tenth where the culprit was captured: on a busy
/// machine packets lie about on their way to the other end.
fn is_diagnosed(result: &CaseResult) {
    let faulty = result.faulty.as_ref().expect("the case has a faulty run");
    let truth = faulty.causes.first().expect("a cause is labelled");
    for vantage in ["client", "server"] {
        let (output, report) = diagnosed(&result.dir, faulty, vantage);
        let finding = &report["findings"][0];
        assert_eq!(output.status.code(), Some(1), "at the {vantage}: {report:#}");
        assert_eq!(finding["cause"], truth.cause, "at the {vantage}: {finding:#}");
        let endpoint = truth.culprit_endpoint.as_deref();
        assert_eq!(finding["culprit"]["endpoint"].as_str(), endpoint, "at the {vantage}");
        if truth.culprit_role == role(vantage) {
            let lost_ns = finding["lost_ns"].as_u64().expect("lost time") as f64;
            let true_ns = truth.lost_ns.expect("the label says what was lost") as f64;
            assert!((lost_ns / true_ns - 1.0).abs() < 0.1, "{lost_ns} of {true_ns}");
        }

        let (output, report) = diagnosed(&result.dir, &result.healthy, vantage);
        assert_eq!(output.status.code(), Some(0), "healthy, at the {vantage}: {report:#}");
    }
}

#[test]
fn lab_nginx_is_diagnosed() {
    let set = [
        ("requests", "20"),
        ("connections", "1"),
        ("spacing", "0"),
        ("rtt", "0"),
        ("file", "600"),
        ("ipv6", "0"),
        ("any_interface", "0"),
    ];
    if let Some(result) = captured("nginx_nodelay_off", &set) {
        is_diagnosed(&result);
    }
}
