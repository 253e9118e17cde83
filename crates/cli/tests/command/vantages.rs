//! Captures of both ends of one run, as users give them to the command.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn capture(end: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    folder.join(format!("both_ends-{end}.pcap")).display().to_string()
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(arguments).stdin(Stdio::null()).output().expect("tcpwhy runs")
}

fn report(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{arguments:?}: {error}"))
}

/// The capture of an end, by a clock that is so much ahead.
fn ahead(end: &str, ahead_us: i64) -> PathBuf {
    let mut bytes = fs::read(capture(end)).expect("a capture of testdata");
    let magic: [u8; 4] = bytes[..4].try_into().expect("a header");
    let unit = if u32::from_le_bytes(magic) == 0xa1b2_3c4d { 1_000 } else { 1 };
    let mut at = 24;
    while at < bytes.len() {
        let field = |field: usize| {
            let bytes = &bytes[at + 4 * field..][..4];
            i64::from(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
        };
        let (seconds, parts, len) = (field(0), field(1), field(2));
        let us = seconds * 1_000_000 + parts / unit + ahead_us;
        let parts = us.rem_euclid(1_000_000) * unit + parts % unit;
        bytes[at..at + 4].copy_from_slice(&(us.div_euclid(1_000_000) as u32).to_le_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&(parts as u32).to_le_bytes());
        at += 16 + len as usize;
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{end}{ahead_us}.pcap"));
    fs::write(&path, bytes).expect("a file");
    path
}

/// Returns the report without names of files and the commands that contain them.
fn told(mut report: Value) -> Value {
    let top = report.as_object_mut().expect("an object");
    top.remove("inputs");
    for finding in top["findings"].as_array_mut().expect("findings") {
        for command in ["draw", "verify"] {
            finding.as_object_mut().map(|finding| finding.remove(command));
        }
        for link in finding["evidence"].as_array_mut().expect("evidence") {
            link.as_object_mut().map(|link| link.remove("file"));
        }
    }
    for connection in top["connections"].as_array_mut().expect("connections") {
        connection["first_frame"].as_object_mut().map(|frame| frame.remove("file"));
    }
    report
}

#[test]
fn both_ends_are_joined_whatever_their_clocks_say() {
    let (client, server) = (capture("client"), capture("server"));
    let alone = report(&[&client]);
    let joined = report(&[&client, &server]);
    assert_eq!(joined["totals"]["exchanges"], alone["totals"]["exchanges"]);
    assert_eq!(joined["totals"]["connections"], alone["totals"]["connections"]);
    assert_eq!(joined["ledger"], alone["ledger"]);
    assert_eq!(joined["join"]["vantages"], serde_json::json!(["client", "server"]));
    let lost = &joined["join"]["server_to_client"]["lost_packets"];
    assert!(lost.as_u64() > Some(0), "{lost}");
    let finding = &joined["findings"][0];
    assert_eq!(finding["cause"], "retransmission_timeout");
    assert_eq!(finding["places"].as_array().map(Vec::len), Some(2));
    assert_eq!(finding["facts"]["place"], "between the two captures");
    let by_one_clock = joined["join"]["clocks"]["offset_ns"].as_i64().expect("an offset");
    for ahead_us in [3_700_000, -120_000, 7_200_000_000] {
        let server = ahead("server", ahead_us).display().to_string();
        let ahead = report(&[&server, &client]);
        let offset_ns = ahead["join"]["clocks"]["offset_ns"].as_i64().expect("an offset");
        assert!((offset_ns - by_one_clock - ahead_us * 1_000).abs() <= 1, "{offset_ns}");
        let mut same = ahead.clone();
        same["join"]["clocks"] = joined["join"]["clocks"].clone();
        same["totals"] = joined["totals"].clone();
        assert_eq!(told(same), told(joined.clone()));
    }
}

#[test]
fn neither_order_nor_threads_matter() {
    let (client, server) = (capture("client"), capture("server"));
    let whole = report(&[&client, &server, "--threads", "1"]);
    assert_eq!(report(&[&client, &server, "--threads", "3"]), whole);
    // The files are listed in another order, and the commands repeat it.
    let whole = told(whole);
    assert_eq!(told(report(&[&server, &client, "--threads", "1"])), whole);
    assert_eq!(told(report(&[&server, &client, "--threads", "3"])), whole);
}

#[test]
fn a_connection_is_drawn_as_the_place_of_its_evidence_saw_it() {
    let (client, server) = (capture("client"), capture("server"));
    let alone = run(&[&server, "--connection", "1", "--exchange", "2"]);
    let joined = run(&[&server, &client, "--connection", "1", "--exchange", "2"]);
    assert_eq!(joined.status.code(), alone.status.code());
    assert_eq!(String::from_utf8_lossy(&joined.stdout), String::from_utf8_lossy(&alone.stdout));
}

#[test]
fn joining_can_be_asked_for_and_forbidden() {
    let (client, server) = (capture("client"), capture("server"));
    assert!(report(&[&client, &server, "--vantages", "1"])["join"].is_null());
    assert!(report(&[&client, &server, "--vantages", "2"])["join"].is_object());
    let failures: [(&[&str], &str); 3] = [
        (&[&client, "--vantages", "2"], "no packet is in two of these captures"),
        (&[&client, &client, "--vantages", "2"], "no packet is in two of these captures"),
        (&["-", &client, "--vantages", "2"], "can be read only once"),
    ];
    for (arguments, words) in failures {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}
