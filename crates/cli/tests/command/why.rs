//! `tcpwhy FILE --why`: the log of decisions.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures")
}

fn why(capture: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.arg(captures().join(capture)).args(options).stdin(Stdio::null());
    command.output().expect("tcpwhy runs")
}

fn json(capture: &str, options: &[&str]) -> Value {
    let output = why(capture, &[options, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{capture}: {error}"))
}

/// Returns the answer of `recogniser` about a silence.
fn answer<'a>(silence: &'a Value, recogniser: &str) -> &'a Value {
    let answers = silence["answers"].as_array().expect("answers");
    let found = answers.iter().find(|it| it["recogniser"] == recogniser);
    found.unwrap_or_else(|| panic!("{recogniser} was not asked: {silence}"))
}

#[test]
fn a_claim_is_shown_with_the_facts_and_up_to_the_finding() {
    let said = json("nginx_nodelay_off.pcap", &["--why", "125"]);
    let silence = &said["silences"][0];
    assert_eq!((&silence["from_frame"], &silence["to_frame"]), (&123.into(), &125.into()));
    assert_eq!(answer(silence, "nagle_delayed_ack")["claims"]["owner"], "nagle_delayed_ack");
    let zero_window = answer(silence, "zero_window")["declines"].as_str().expect("a condition");
    assert!(zero_window.contains("was not closed"), "{zero_window}");
    assert_eq!(silence["facts"]["acknowledgment"]["last one in it"], "frame 124");
    assert_eq!(said["findings"][0]["cause"], "nagle_delayed_ack");
    // A frame within a silence names the same one.
    assert_eq!(json("nginx_nodelay_off.pcap", &["--why", "124"])["silences"], said["silences"]);
    let text = why("nginx_nodelay_off.pcap", &["--why", "125"]).stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("until frame 125") && text.contains("claims 48 ms"), "{text}");
}

#[test]
fn a_look_alike_is_shown_with_the_condition_that_fails() {
    let said = json("think_looks_nagle.pcap", &["--connection", "1", "--exchange", "2", "--why"]);
    let silences = said["silences"].as_array().expect("silences");
    let longest = silences.iter().max_by_key(|it| it["ns"].as_u64()).expect("one");
    let declined = answer(longest, "nagle_delayed_ack")["declines"].as_str();
    assert!(declined.is_some_and(|it| !it.is_empty()), "{longest}");
}

#[test]
fn a_later_revision_is_shown_with_its_place_in_the_code() {
    let said = json("send_buffer.pcap.zst", &["--connection", "1", "--exchange", "1", "--why"]);
    let revisions = said["exchange"]["revisions"].as_array().expect("revisions");
    let moved = revisions.iter().find(|it| it["owners_ns"]["send_buffer"].as_i64() > Some(0));
    let moved = moved.unwrap_or_else(|| panic!("{said}"));
    assert!(moved["owners_ns"]["congestion_window"].as_i64() < Some(0), "{moved}");
    assert!(moved["by"].as_str().is_some_and(|it| it.starts_with("tcp/connection/")), "{moved}");
}

#[test]
fn what_all_connections_show_together_is_shown_with_the_pass_that_settled_it() {
    let said = json("reordering.pcap.zst", &["--exchange", "1", "--why"]);
    let settled = said["settled"].as_array().expect("changes");
    let by_cause = |cause: &str| {
        let change = settled.iter().find(|it| it["cause"] == cause);
        let change = change.unwrap_or_else(|| panic!("{said}"));
        assert_eq!(change["decides"], "most retransmissions were needless");
        change["ns"].as_i64().expect("ns")
    };
    assert_eq!(by_cause("fast_recovery"), -by_cause("reordering"));
    assert!(by_cause("reordering") > 0);
}

#[test]
fn what_is_judged_sums_to_each_silence_and_the_log_changes_no_ledger() {
    let files = fs::read_dir(captures()).expect("captures").map(|it| it.expect("one"));
    let mut silences = 0;
    for file in files {
        let name = file.file_name().into_string().expect("a name");
        let output = why(&name, &["--exchange", "1", "--why", "--json"]);
        // A capture of look-ups alone has no connection.
        let Ok(said) = serde_json::from_slice::<Value>(&output.stdout) else { continue };
        for silence in said["silences"].as_array().expect("silences") {
            let judged = silence["judged"].as_array().expect("slices");
            let sum: u64 = judged.iter().map(|it| it["ns"].as_u64().expect("ns")).sum();
            assert_eq!(silence["ns"], sum, "{name}: {silence}");
            silences += 1;
        }
        let ledger = said["exchange"]["ledger_ns"].as_object().expect("a ledger");
        let sum: u64 = ledger.values().map(|it| it.as_u64().expect("ns")).sum();
        assert_eq!(said["exchange"]["wall_ns"], sum, "{name}");
    }
    assert!(silences > 50, "{silences}");
}

#[test]
fn what_cannot_be_explained_is_said_in_a_sentence() {
    let says = |options: &[&str], words: &str| {
        let output = why("nginx_nodelay_off.pcap", options);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(words), "{error}");
    };
    says(&["--why", "126"], "frame 126 neither ended a silence");
    says(&["--why", "1"], "it is no TCP segment");
    says(&["--why", "9999"], "it has 209 frames");
    says(&["--why", "0"], "0");
    says(&["--exchange", "99", "--why"], "exchange 99 is not on that connection");
}
