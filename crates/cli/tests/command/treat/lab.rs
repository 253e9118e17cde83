//! Faults of real software, cured while the load runs: `tcpwhy lab … --treat`.

use super::*;
use tcpwhy_testing::undisturbed;

/// Runs `tcpwhy lab`; `None` without root or where a program of the case is missing, which is said.
fn lab(arguments: &[&str]) -> Option<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    let out = command.arg("lab").args(arguments).arg("--json").output().expect("tcpwhy runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if ["needs root", "is not installed"].iter().any(|why| said.contains(why)) {
        tcpwhy_testing::skip(&said);
        return None;
    }
    assert_ne!(out.status.code(), Some(2), "{said}");
    Some(serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("JSON: {said}")))
}

/// Treats a case while it runs, and answers the mean latency before and after, ms.
fn treated(case: &str, set: &[&str]) -> Option<(f64, f64)> {
    let story = lab(&[&["run", case, "--treat"], set].concat())?;
    assert_eq!(story["fixed"], true, "{case}: {}", story["sentence"]);
    let mean = |run: &str| story["labels"][run]["latency_ns"]["mean_ns"].as_f64();
    let (before, after) = (mean("faulty").expect("a time"), mean("healthy").expect("a time"));
    println!("{case}: {:.2} ms → {:.2} ms", before / 1e6, after / 1e6);
    let requests = ["faulty", "healthy"].map(|run| story["labels"][run]["requests"].clone());
    let all = requests.iter().flat_map(|it| it.as_array().into_iter().flatten());
    assert!(all.into_iter().all(|request| request["error"].is_null()), "no request fails");
    Some((before / 1e6, after / 1e6))
}

const NEAR: [&str; 6] = ["--rtt", "0", "--ipv6", "0", "--connections", "2"];

#[test]
fn the_jdks_http_server_is_cured_without_a_restart() {
    if !tcpwhy_testing::installed("javac") {
        return;
    }
    let Some((before, after)) = treated("jdk_httpserver", &["--rtt", "0.1ms", "--ipv6", "0"])
    else {
        return;
    };
    assert!(before > 20.0 && after < 5.0, "{before} ms → {after} ms");
}

#[test]
fn a_redis_client_with_nagle_is_cured_without_a_restart() {
    let Some((before, after)) = treated("client_nagle_redis", &NEAR) else { return };
    assert!(before > 15.0 && after < 5.0, "{before} ms → {after} ms");
}

#[test]
fn a_transfer_through_a_small_send_buffer_becomes_fast_while_it_is_under_way() {
    let set = ["--rtt", "20ms", "--rate", "100mbit", "--sndbuf", "16KiB", "--response", "800kB"];
    let Some((before, after)) = treated("send_buffer", &[&set[..], &["--ipv6", "0"]].concat())
    else {
        return;
    };
    assert!(after * 3.0 < before, "{before} ms → {after} ms");
}

#[test]
fn treatments_bring_what_fixes_bring() {
    undisturbed(all_treatments_bring_what_fixes_bring);
}

fn all_treatments_bring_what_fixes_bring() {
    let Some(told) = lab(&["verify", "--treat", "--short", "--no-progress"]) else { return };
    let schema = include_str!("../../../../../docs/lab-treat.schema.json");
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(&told).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    let cases = told["cases"].as_array().expect("a list");
    assert!(cases.len() >= 3, "{told}");
    for case in cases {
        assert_eq!(case["agrees"], true, "{case}");
    }
}
