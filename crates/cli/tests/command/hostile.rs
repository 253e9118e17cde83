//! Text and numbers from elsewhere that are meant to harm: whatever source they come from, nothing
//! reaches the terminal that it would interpret, and nothing panics.

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tcpwhy_core::model::clean::is_interpreted;

/// Control sequences (C0, C1), a change of direction, a character without width, a line end.
const HOSTILE: &str =
    "\u{1b}]0;x\u{7}\u{1b}[1;31m\u{9b}2J\u{202e}\u{2066}\u{200b}\u{e0041}\r\nforged";

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures")
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("hostile").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Runs tcpwhy in `folder` and asserts that its outputs are inert.
fn tcpwhy<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("tcpwhy runs");
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(bytes);
        let bad = text.chars().find(|&it| it != '\n' && is_interpreted(it));
        assert!(bad.is_none(), "{bad:?} in {text:?}");
        assert!(text.lines().all(|line| !line.trim_start().starts_with("forged")), "{text}");
    }
    assert!(output.status.code().is_some_and(|it| it <= 3), "{output:?}");
    output
}

#[test]
fn names_of_files_are_inert() {
    let folder = folder("files");
    let name = HOSTILE.replace('/', "_") + ".pcap";
    fs::copy(captures().join("nginx_nodelay_off.pcap"), folder.join(&name)).expect("a copy");
    let plain = String::from_utf8(tcpwhy(&folder, &[&name]).stdout).expect("text");
    assert!(plain.contains(".pcap"), "{plain}");
    let report: Value =
        serde_json::from_slice(&tcpwhy(&folder, &[&*name, "--json"]).stdout).expect("JSON");
    // In JSON nothing is lost.
    assert_eq!(report["inputs"][0]["path"], name);
    for arguments in [
        vec!["missing-\u{1b}[2J\u{202e}.pcap"],
        vec![&*name, "--filter", "host \u{1b}[2J\u{202e}"],
        vec!["--\u{1b}[2J\u{202e}"],
        vec!["help", "\u{1b}[2J\u{202e}"],
        vec![&*name, "--why", "1"],
        vec![&*name, "--connection", "1"],
        vec!["compare", &*name, &*name],
        vec!["report", &*name, "-o", "page.html"],
        vec!["annotate", &*name, "-o", "annotated.pcapng"],
        vec!["anonymize", &*name, "-o", "\u{1b}[2J\u{202e}.pcap"],
        vec!["anonymize", &*name, "-o", &*name],
    ] {
        tcpwhy(&folder, &arguments);
    }
    let page = fs::read_to_string(folder.join("page.html")).expect("a page");
    assert!(!page.contains('\u{202e}') && !page.contains('\u{9b}'));
}

/// Replaces strings and numbers by the hostile ones, but for those that let a report be read.
fn poison(value: &mut Value, number: &Value) {
    const READ: [&str; 1] = ["schema_version"];
    match value {
        Value::String(text) if text != "fault" => *text = HOSTILE.into(),
        Value::Number(_) => *value = number.clone(),
        Value::Array(all) => all.iter_mut().for_each(|it| poison(it, number)),
        Value::Object(all) => {
            all.iter_mut()
                .filter(|(key, _)| !READ.contains(&&***key))
                .for_each(|(_, it)| poison(it, number));
            if let Some(owners) = all.get_mut("ledger").and_then(Value::as_object_mut) {
                owners.insert(HOSTILE.into(), number.clone());
            }
        }
        _ => {}
    }
}

#[test]
fn a_report_says_nothing_to_the_terminal_and_counts_without_end() {
    let folder = folder("reports");
    let capture = captures().join("nginx_nodelay_off.pcap");
    let real = tcpwhy(&folder, &[capture.as_os_str(), OsStr::new("--json")]).stdout;
    fs::write(folder.join("real.json"), &real).expect("a file");
    let numbers = [u64::MAX, u64::MAX / 2, i64::MAX as u64, 1 << 53, 1 << 32, 1, 0];
    for (index, number) in numbers.into_iter().enumerate() {
        let mut report: Value = serde_json::from_slice(&real).expect("JSON");
        poison(&mut report, &json!(number));
        let bad = format!("bad-{index}.json");
        fs::write(folder.join(&bad), report.to_string()).expect("a file");
        for pair in [[&*bad, "real.json"], ["real.json", &*bad], [&*bad, &*bad]] {
            tcpwhy(&folder, &["compare", pair[0], pair[1]]);
            tcpwhy(&folder, &["compare", pair[0], pair[1], "--json"]);
        }
    }
    // Each latency may have any count.
    let mut report: Value = serde_json::from_slice(&real).expect("JSON");
    let counts = [1, u64::MAX, 7, u64::MAX, 1 << 40];
    let points = counts.iter().enumerate().map(|(at, count)| json!([(at as u64) << 60, count]));
    report["latency_histogram"] = points.collect();
    fs::write(folder.join("counts.json"), report.to_string()).expect("a file");
    for pair in [["counts.json", "real.json"], ["real.json", "counts.json"]] {
        tcpwhy(&folder, &["compare", pair[0], pair[1]]);
    }
    report["latency_histogram"] = json!([]);
    fs::write(folder.join("counts.json"), report.to_string()).expect("a file");
    tcpwhy(&folder, &["compare", "counts.json", "real.json"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_list_of_sockets_is_inert() {
    let folder = folder("sockets");
    let listed = tcpwhy(&folder, &["sockets", "--json"]).stdout;
    let capture = captures().join("nginx_nodelay_off.pcap");
    let mut list: Value = serde_json::from_slice(&listed).expect("JSON");
    for number in [0, 1, u64::from(u16::MAX), u64::MAX] {
        poison(&mut list, &json!(number));
        fs::write(folder.join("state.json"), list.to_string()).expect("a file");
        let run = [capture.as_os_str(), OsStr::new("--sockets"), OsStr::new("state.json")];
        tcpwhy(&folder, &run);
    }
}

/// A process that ends with the test.
#[cfg(target_os = "linux")]
struct Ended(std::process::Child);

#[cfg(target_os = "linux")]
impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn names_of_processes_are_inert() {
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::os::unix::process::CommandExt;
    let folder = folder("processes");
    let program = folder.join("a\u{1b}[2J\u{202e}\n");
    fs::copy("/bin/sleep", &program).expect("a program");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    // The program holds the socket as its standard input.
    let mut command = Command::new(&program);
    command.arg0("\u{1b}[2J").arg("600").stdin(Stdio::from(OwnedFd::from(listener)));
    let holder =
        Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"));
    drop(command);
    let text = tcpwhy(&folder, &["sockets", "--port", &port]);
    let json = tcpwhy(&folder, &["sockets", "--port", &port, "--json"]);
    drop(holder);
    assert!(String::from_utf8_lossy(&text.stdout).contains("a?[2J"), "{text:?}");
    assert!(String::from_utf8_lossy(&json.stdout).contains("\\u001b[2J\\u202e"), "{json:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn labels_of_a_lab_are_inert() {
    let folder = folder("labels");
    let labels = captures().with_file_name("labels.json");
    let text = fs::read_to_string(&labels)
        .unwrap_or_else(|_| json!({ "case": "a", "captures": [] }).to_string());
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    poison(&mut value, &json!(u64::MAX));
    fs::write(folder.join("labels.json"), value.to_string()).expect("a file");
    tcpwhy(&folder, &["lab", "score", "."]);
    tcpwhy(&folder, &["compare", ".", "."]);
}
