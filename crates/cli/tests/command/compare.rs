//! `tcpwhy compare` on real captures: the fix helps, the fault hurts, the same is the same.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn capture(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    folder.join(name).display().to_string()
}

fn tcpwhy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(arguments).output().expect("tcpwhy runs")
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compare").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The comparison, which is what its schema says, and the exit status.
fn compared(before: &str, after: &str) -> (Value, Option<i32>) {
    let output = tcpwhy(&["compare", before, after, "--json"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let value: Value = serde_json::from_slice(&output.stdout).expect(&words);
    let schema = include_str!("../../../../docs/comparison.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is a schema");
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    (value, output.status.code())
}

fn names(faults: &Value) -> Vec<&str> {
    let faults = faults.as_array().expect("a list");
    faults.iter().filter_map(|fault| fault["cause"].as_str()).collect()
}

#[test]
fn a_fix_is_faster_and_its_fault_gone() {
    for (name, cause) in [
        ("nginx_nodelay_off", "nagle_delayed_ack"),
        ("jdk_httpserver", "nagle_delayed_ack"),
        ("http_100_continue", "http_100_continue"),
    ] {
        let (before, after) = (format!("{name}.pcap"), format!("{name}-healthy.pcap"));
        let (value, status) = compared(&capture(&before), &capture(&after));
        let few = value["before"]["exchanges"].as_u64() < Some(5);
        let verdict = if few { "no_difference_shown" } else { "faster" };
        assert_eq!(value["verdict"], verdict, "{name}: {}", value["sentence"]);
        assert_eq!(names(&value["gone_faults"]), [cause], "{name}");
        assert_eq!(status, Some(if few { 3 } else { 0 }), "{name}: {}", value["sentence"]);
    }
}

#[test]
fn a_fault_is_slower_and_new() {
    let (fault, healthy) = (capture("jdk_httpserver.pcap"), capture("jdk_httpserver-healthy.pcap"));
    let (value, status) = compared(&healthy, &fault);
    assert_eq!(value["verdict"], "slower", "{}", value["sentence"]);
    assert_eq!(names(&value["new_faults"]), ["nagle_delayed_ack"]);
    assert_eq!(status, Some(1));
}

#[test]
fn a_run_equals_itself() {
    let path = capture("postgres_sleep.pcap");
    let (value, status) = compared(&path, &path);
    assert_ne!(value["verdict"], "faster");
    assert_eq!(value["ranks"]["shift_ns"], 0);
    assert_eq!(value["ranks"]["cliffs_delta"], 0.0);
    assert_eq!(status, Some(0), "{}", value["sentence"]);
    assert_eq!(value["exchanges_needed"], Value::Null);
}

#[test]
fn few_exchanges_are_not_shown_to_equal_themselves() {
    let path = capture("http_100_continue.pcap");
    let (value, status) = compared(&path, &path);
    assert_eq!(value["verdict"], "no_difference_shown");
    assert_eq!(status, Some(3), "{}", value["sentence"]);
    assert!(value["exchanges_needed"].as_u64() > value["before"]["exchanges"].as_u64());
}

#[test]
fn other_ports_and_requests_are_said_first() {
    let (nginx, postgres) =
        (capture("nginx_nodelay_off-healthy.pcap"), capture("postgres_sleep.pcap"));
    let (value, status) = compared(&nginx, &postgres);
    assert_eq!((&value["verdict"], status), (&"other_load".into(), Some(2)));
    let sentence = value["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with("Not comparable: only AFTER has port "), "{sentence}");
    assert_eq!(value["only_in"][0]["run"], "after", "{sentence}");
}

#[test]
fn a_report_says_what_its_capture_says() {
    let folder = folder("reports");
    let (before, after) = ("nginx_nodelay_off.pcap", "nginx_nodelay_off-healthy.pcap");
    let (mut from_captures, _) = compared(&capture(before), &capture(after));
    let report = |name: &str| {
        let path = folder.join(format!("{name}.json"));
        fs::write(&path, tcpwhy(&["--json", &capture(name)]).stdout).expect("a file");
        path.display().to_string()
    };
    let (mut from_reports, _) = compared(&report(before), &report(after));
    for value in [&mut from_captures, &mut from_reports] {
        value["before"]["name"] = Value::Null;
        value["after"]["name"] = Value::Null;
    }
    assert_eq!(from_captures, from_reports);
}

#[test]
fn percentiles_alone_are_compared_and_not_tested() {
    let folder = folder("percentiles");
    let report = |name: &str| {
        let output = tcpwhy(&["--json", &capture(name)]);
        let mut value: Value = serde_json::from_slice(&output.stdout).expect("a report");
        value.as_object_mut().expect("an object").remove("latency_histogram");
        let path = folder.join(format!("{name}.json"));
        fs::write(&path, value.to_string()).expect("a file");
        path.display().to_string()
    };
    let before = report("nginx_nodelay_off.pcap");
    let (value, _) = compared(&before, &report("nginx_nodelay_off-healthy.pcap"));
    assert_eq!((&value["verdict"], &value["ranks"]), (&"faster".into(), &Value::Null));
    let sentence = value["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("untested"), "{sentence}");
    let (value, _) = compared(&before, &before);
    assert_eq!(value["verdict"], "equal");
}

#[test]
fn a_directory_is_one_run_of_one_side() {
    let folder = folder("directory");
    for (file, name) in [("client.pcap", "jdk_httpserver"), ("server.pcap", "nginx_nodelay_off")] {
        fs::copy(capture(&format!("{name}.pcap")), folder.join(file)).expect("a copy");
    }
    fs::write(folder.join("notes.txt"), "no capture").expect("a file");
    let path = folder.display().to_string();
    let (both, _) = compared(&path, &path);
    let labels = r#"{"captures": [{"file": "client.pcap", "vantage": "client"},
                                  {"file": "server.pcap", "vantage": "server"}]}"#;
    fs::write(folder.join("labels.json"), labels).expect("a file");
    let (one, _) = compared(&path, &path);
    let exchanges = |value: &Value| value["before"]["exchanges"].as_u64();
    assert_eq!((exchanges(&both), exchanges(&one)), (Some(65), Some(25)));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let folder = folder("nothing");
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(path("other.json"), "{\"a\": 1}").expect("a file");
    let healthy = capture("healthy_psql.pcap.zst");
    let nothing = folder.join("empty").display().to_string();
    fs::create_dir(&nothing).expect("a folder");
    for (side, words) in [
        (path("none.pcap"), "no such file"),
        (path("other.json"), "no report"),
        (nothing, "no capture in it"),
    ] {
        let output = tcpwhy(&["compare", &healthy, &side]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words), "{text}");
    }
    let output = tcpwhy(&["compare", &healthy, &healthy, "--filter", "port 9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no exchange"));
}

#[test]
fn the_text_has_the_verdict_first_and_fits() {
    let arguments = ["nginx_nodelay_off.pcap", "nginx_nodelay_off-healthy.pcap"].map(capture);
    for width in ["60", "80", "120"] {
        let output = tcpwhy(&["compare", &arguments[0], &arguments[1], "--width", width]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        // A path is never broken.
        let longest = arguments.iter().map(|path| path.len() + 14).max().unwrap_or(0);
        assert!(widest <= longest.max(width.parse().expect("a number")), "{text}");
        for words in ["Faster: p50", "nagle_delayed_ack is gone", "how sure", "Mann–Whitney"] {
            assert!(text.replace("\n", " ").contains(words), "{words}: {text}");
        }
    }
}
