//! `tcpwhy lab score`: tcpwhy and others, judged by labels.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn tcpwhy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(arguments).output().expect("tcpwhy runs")
}

fn is_as(schema: &str, value: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(schema);
    let schema = fs::read(path).expect("a schema");
    let schema = serde_json::from_slice(&schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is a schema");
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Labels of a capture of testdata, whose truth `truth.json` has.
fn labels(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/truth.json");
    let truth: Value = serde_json::from_slice(&fs::read(path).expect("truth")).expect("JSON");
    let all = truth.as_array().expect("a list");
    let one = all.iter().find(|one| one["file"] == format!("{name}.pcap")).expect("a capture");
    let cause = |cause: &Value| {
        let mut cause = cause.clone();
        cause["lost_ns_how"] = "the clients' clocks".into();
        cause["beside_ns"] = 0.into();
        cause["from_capture"] = json!({ "unseen_at": [], "verdicts": [] });
        cause
    };
    let causes: Vec<Value> = one["causes"].as_array().expect("a list").iter().map(cause).collect();
    let none = json!({ "p50_ns": 0, "p90_ns": 0, "p99_ns": 0, "max_ns": 0, "mean_ns": 0 });
    json!({
        "format": "tcpwhy-lab/1", "case": name, "seed": 1, "params": {}, "link": "veth",
        "variant": if causes.is_empty() { "healthy" } else { "faulty" },
        "healthy": one["class"] != "fault",
        "class": if causes.is_empty() { "none".into() } else { one["class"].clone() },
        "causes": causes, "exchanges": 1, "wall_ns": 1, "latency_ns": none,
        "latency_after_fix_ns": null, "on_wire_after_fix_ns": null, "wall_after_fix_ns": null,
        "server_endpoint": "",
        "client_address": "", "congestion_control": "cubic", "client_tcp_info": null,
        "server_tcp_info": null, "relay": null, "host_timekeeping": null,
        "client_counters": {}, "server_counters": {},
        "versions": {}, "requests": [], "sockets": [], "half_open_max": 0,
        "measured": {},
        "captures": [{
            "file": format!("{name}.pcap"), "vantage": "server", "interface": "lab0",
            "packets": 1, "dropped": 0
        }],
    })
}

/// A data set of these captures.
fn data_set(folder: &str, names: &[&str]) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("score").join(folder);
    let _ = fs::remove_dir_all(&root);
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    for name in names {
        let place = root.join(name);
        fs::create_dir_all(&place).expect("a folder");
        let file = format!("{name}.pcap");
        fs::copy(captures.join(&file), place.join(&file)).expect("a copy");
        let labels = labels(name);
        is_as("labels.schema.json", &labels);
        fs::write(place.join("labels.json"), labels.to_string()).expect("a file");
    }
    root
}

fn scored(arguments: &[&str]) -> (Value, Option<i32>) {
    let output = tcpwhy(&[&["lab", "score", "--json"], arguments].concat());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let value: Value = serde_json::from_slice(&output.stdout).expect(&words);
    is_as("score.schema.json", &value);
    (value, output.status.code())
}

const NAMES: [&str; 2] = ["nginx_nodelay_off", "nginx_nodelay_off-healthy"];

#[test]
fn tcpwhy_is_judged_like_any_tool() {
    let root = data_set("own", &NAMES);
    let dir = root.display().to_string();
    let (own, status) = scored(&[&dir]);
    assert_eq!((status, &own["holds"]), (Some(0), &true.into()), "{own:#}");
    let answers = root.join("answers.json");
    let reports =
        NAMES.map(|name| tcpwhy(&["--json", &format!("{dir}/{name}/{name}.pcap")]).stdout);
    fs::write(&answers, reports.concat()).expect("a file");
    let (said, _) = scored(&[&dir, "--answers", &answers.display().to_string()]);
    assert_eq!(own, said, "a report is an answer");
}

#[test]
fn another_tool_is_judged_by_what_it_says() {
    let root = data_set("other", &NAMES);
    let dir = root.display().to_string();
    let answer = |name: &str| {
        let finding = json!({ "cause": "zero_window", "culprit": { "role": "client" } });
        json!({ "capture": format!("elsewhere/{name}/{name}.pcap"), "findings": [finding] })
    };
    let answers = root.join("answers.json");
    let text = NAMES.map(|name| answer(name).to_string()).join("\n");
    fs::write(&answers, text).expect("a file");
    let (said, status) = scored(&[&dir, "--answers", &answers.display().to_string()]);
    assert_eq!(status, Some(1));
    let all = &said["score"]["totals"][2];
    assert_eq!((&all["found"], &all["wrong"]), (&0.into(), &2.into()), "{all}");
    assert_eq!(said["score"]["healthy_with_faults"], 1);
    let output = tcpwhy(&["lab", "score", &dir, "--answers", &answers.display().to_string()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in ["FAIL recall", "nagle_delayed_ack not found", "false: zero_window"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn cases_are_run_and_judged() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("verify");
    let _ = fs::remove_dir_all(&out);
    let dir = out.display().to_string();
    let only = ["--only", "refused,healthy_lan", "--json", "--out", &dir];
    let output = tcpwhy(&[&["lab", "verify"][..], &only].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if ["needs root", "is not installed"].iter().any(|why| said.contains(why)) {
        tcpwhy_testing::skip(&said);
        return;
    }
    let verified: Value = serde_json::from_slice(&output.stdout).expect(&said);
    is_as("score.schema.json", &verified);
    assert_eq!(output.status.code(), Some(0), "{verified:#}");
    // With and without the fault, and a look-alike, at either end. A host that did not keep time
    // leaves captures out, and says so.
    let counted = |name| verified["score"][name].as_u64().expect("a count");
    assert_eq!(counted("captures") + counted("late"), 6, "{verified:#}");
    let (kept, status) = scored(&[&dir]);
    assert_eq!((status, &kept["score"]), (Some(0), &verified["score"]));
    for run in ["refused-1/faulty", "refused-1/healthy", "healthy_lan-1/healthy"] {
        let labels = fs::read(out.join(run).join("labels.json")).expect("labels");
        is_as("labels.schema.json", &serde_json::from_slice(&labels).expect("JSON"));
    }
}

#[test]
fn what_cannot_be_judged_is_said() {
    let root = data_set("bad", &[]);
    fs::create_dir_all(&root).expect("a folder");
    let dir = root.display().to_string();
    let output = tcpwhy(&["lab", "score", &dir]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no labels.json"));
    fs::write(root.join("labels.json"), "{\"format\": \"other/2\"}").expect("a file");
    let output = tcpwhy(&["lab", "score", &dir]);
    assert_eq!(output.status.code(), Some(2));
}
