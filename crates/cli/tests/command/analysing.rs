//! The options that all commands share which analyse captures: each command takes and honours each.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tcpwhy_testing::Folder;

/// What the commands are asked with.
const COMMANDS: [&str; 4] = ["explain", "report", "annotate", "compare"];

fn capture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    folder.join(name).display().to_string()
}

/// Runs a command on a capture, whose output goes into `folder`.
fn run(command: &str, capture: &str, options: &[&str], folder: &Folder) -> Output {
    let output = folder.join("output").display().to_string();
    let files: &[&str] = match command {
        "explain" => &[capture, "--json"],
        "compare" => &[capture, capture, "-o", &output],
        _ => &[capture, "-o", &output],
    };
    let mut tcpwhy = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    tcpwhy.arg(command).args(files).args(options).stdin(Stdio::null());
    tcpwhy.output().expect("tcpwhy runs")
}

/// Returns what a command says of the findings: its report, or the comments that it wrote.
fn said(command: &str, capture: &str, options: &[&str]) -> String {
    let folder = Folder::new();
    let output = run(command, capture, options, &folder);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{command} {options:?}: {error}");
    let written = || fs::read(folder.join("output")).expect("an output");
    match command {
        "explain" => findings(&serde_json::from_slice(&output.stdout).expect("JSON")),
        "annotate" => String::from_utf8_lossy(&written()).into_owned(),
        _ => {
            let page = String::from_utf8(written()).expect("text");
            let data = page.split_once("{\"runs\":").expect("the page's data").1;
            let data = data.split_once("</script>").expect("its end").0;
            let data = format!("{{\"runs\":{}", data.trim());
            let page: Value = serde_json::from_str(&data).expect("JSON");
            findings(&page["runs"][0]["report"])
        }
    }
}

fn findings(report: &Value) -> String {
    report["findings"].to_string()
}

/// Returns whether a command names a cause.
fn names(command: &str, capture: &str, options: &[&str], cause: &str) -> bool {
    said(command, capture, options).contains(cause)
}

#[test]
fn costs_below_the_floors_are_not_reported() {
    let (capture, cause) = (capture("slow_backend.pcap.zst"), "server_think");
    for command in COMMANDS {
        assert!(names(command, &capture, &[], cause), "{command}");
        assert!(!names(command, &capture, &["--min-share", "99"], cause), "{command}");
        assert!(!names(command, &capture, &["--min-lost", "100s"], cause), "{command}");
        assert!(names(command, &capture, &["--min-lost", "1ms"], cause), "{command}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_watch_takes_the_same_floors_and_filter() {
    for options in [["--min-share", "200"], ["--min-lost", "soon"], ["--filter", "prot 80"]] {
        let watch = Command::new(env!("CARGO_BIN_EXE_tcpwhy")).arg("watch").args(options).output();
        let error = String::from_utf8_lossy(&watch.expect("tcpwhy runs").stderr).into_owned();
        assert!(error.contains("invalid value") && error.contains(options[0]), "{error}");
    }
}

#[test]
fn a_part_is_analysed() {
    let (capture, cause) = (capture("slow_backend.pcap.zst"), "server_think");
    for command in COMMANDS {
        let filter = ["--filter", "cause nagle_delayed_ack"];
        assert!(!names(command, &capture, &filter, cause), "{command}");
        assert!(names(command, &capture, &["--filter", "cause server_think"], cause), "{command}");
    }
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let capture = capture("slow_backend.pcap.zst");
    for command in COMMANDS {
        let one = said(command, &capture, &["--threads", "1"]);
        assert!(said(command, &capture, &["--threads", "3"]) == one, "{command}");
    }
}

#[test]
fn the_number_of_places_is_what_the_user_says() {
    let capture = capture("nginx_nodelay_off.pcap");
    for command in COMMANDS {
        assert!(names(command, &capture, &["--vantages", "1"], "nagle_delayed_ack"), "{command}");
        let folder = Folder::new();
        let output = run(command, &capture, &["--vantages", "2"], &folder);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(error.contains("no packet is in two of these captures"), "{command}: {error}");
    }
}

#[test]
fn the_state_of_sockets_is_further_evidence() {
    let capture = capture("nginx_nodelay_off.pcap");
    let folder = Folder::new();
    let sockets = |nodelay: bool| {
        let path = folder.join(format!("{nodelay}.json"));
        let state = format!(
            r#"{{"schema_version": 1, "read_ns": 1769853600000000000, "netns": [], "sockets": [
                {{"local": "10.55.172.131:8080", "peer": "10.55.172.115:60306", "is_server": true,
                  "process": {{"pid": 42, "command": "nginx", "container": null}},
                  "nodelay": {nodelay}, "cork": false}}]}}"#
        );
        fs::write(&path, state).expect("a file");
        path.display().to_string()
    };
    let (off, on) = (sockets(false), sockets(true));
    for command in COMMANDS {
        let [off, on] = [&off, &on].map(|it| said(command, &capture, &["--sockets", it]));
        // A comment states no confidence; only another cause would change it.
        assert!(off != on || command == "annotate", "{command}");
        let output = run(command, &capture, &["--sockets", "/nowhere.json"], &folder);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(error.contains("/nowhere.json"), "{command}: {error}");
    }
}

#[test]
fn a_stored_report_is_not_analysed_again() {
    let capture = capture("nginx_nodelay_off.pcap");
    let folder = Folder::new();
    let report = folder.join("report.json");
    let output = run("explain", &capture, &[], &folder);
    fs::write(&report, output.stdout).expect("a file");
    let report = report.display().to_string();
    for options in [["--filter", "port 80"], ["--min-share", "2"], ["--vantages", "1"]] {
        let output = run("compare", &report, &options, &folder);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(error.contains(&format!("leave out {}", options[0])), "{options:?}: {error}");
    }
}
