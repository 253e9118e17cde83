//! `tcpwhy mcp` as an assistant uses it: messages of JSON-RPC, one a line, on standard input and output.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_testing::Folder;

/// An assistant, and the server that it has started.
pub struct Assistant {
    server: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    asked: u64,
}

impl Assistant {
    /// Starts a server for one folder, and agrees with it on the protocol.
    pub fn of(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.arg("mcp").arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("tcpwhy runs");
        let requests = server.stdin.take().expect("a pipe");
        let answers = BufReader::new(server.stdout.take().expect("a pipe"));
        let mut assistant = Self { server, requests, answers, asked: 0 };
        let about = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let agreed = assistant.ask("initialize", &about);
        assert_eq!(agreed["result"]["serverInfo"]["name"], "tcpwhy");
        assistant.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assistant
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.requests, "{message}").expect("a reader");
    }

    /// Sends a request and returns the response.
    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool. Returns its answer, or its error.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<String, String> {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("no text in {answer}")).to_owned();
        if result["isError"] == true { Err(text) } else { Ok(text) }
    }

    /// Ends the session as assistants do. Returns the exit status of the server.
    fn end(mut self) -> Option<i32> {
        drop(self.requests);
        self.server.wait().expect("it ends").code()
    }
}

/// A folder with two captures, one of them in a folder of its own.
fn captures() -> Folder {
    let folder = Folder::new();
    let stored = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    fs::create_dir(folder.join("fixed")).expect("a folder");
    for (name, to) in [
        ("nginx_nodelay_off.pcap", "slow.pcap"),
        ("nginx_nodelay_off-healthy.pcap", "fixed/fast.pcap"),
    ] {
        fs::copy(stored.join(name), folder.join(to)).expect("a copy");
    }
    fs::write(folder.join("notes.txt"), "no capture").expect("a file");
    folder
}

/// Returns what `tcpwhy` prints.
fn printed(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    let output = command.current_dir(folder).args(arguments).output().expect("tcpwhy runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn an_assistant_gets_what_the_commands_print() {
    let folder = captures();
    let mut assistant = Assistant::of(&folder);
    let slow = folder.canonicalize().expect("a path").join("slow.pcap").display().to_string();
    let listed = assistant.call("captures", &json!({})).expect("a list");
    assert!(listed.contains(&slow) && listed.contains("fast.pcap"), "{listed}");
    assert!(!listed.contains("notes.txt"), "{listed}");

    let asked = json!({"files": ["slow.pcap"]});
    let report = assistant.call("diagnose", &asked).expect("a report");
    assert_eq!(report, printed(&folder, &[&slow]));
    assert!(report.contains("nagle_delayed_ack"), "{report}");

    let found = assistant.call("findings", &json!({"files": ["slow.pcap"], "count": 1}));
    let found: Value = serde_json::from_str(&found.expect("findings")).expect("JSON");
    let whole: Value = serde_json::from_str(&printed(&folder, &[&slow, "--json"])).expect("JSON");
    assert_eq!(found["findings"][0], whole["findings"][0]);
    assert_eq!((&found["answer"], &found["of"]), (&whole["answer"], &json!(1)));
    let rest = assistant.call("findings", &json!({"files": ["slow.pcap"], "first": 2}));
    assert!(rest.expect("findings").contains(r#""findings": []"#));

    let drawn = assistant.call("evidence", &asked).expect("a drawing");
    assert_eq!(drawn, printed(&folder, &[&slow, "--exchange", "1"]));
    let frame = &whole["findings"][0]["evidence"][2]["frame"];
    let why = assistant.call("evidence", &json!({"files": ["slow.pcap"], "frame": frame}));
    assert_eq!(why.expect("a log"), printed(&folder, &[&slow, "--why", &frame.to_string()]));

    let manual = assistant.call("explain", &json!({"cause": "nagle_delayed_ack"}));
    assert_eq!(manual.expect("a manual"), printed(&folder, &["explain", "nagle_delayed_ack"]));
    let list = assistant.call("explain", &json!({})).expect("a list");
    assert_eq!(list, printed(&folder, &["explain", "list"]));
    let runs = json!({"before": "slow.pcap", "after": "fixed/fast.pcap"});
    let compared = assistant.call("compare", &runs).expect("a comparison");
    assert!(compared.contains("faster"), "{compared}");
    assert_eq!(assistant.end(), Some(0));
}

#[test]
fn each_tool_is_described_with_the_schema_of_its_arguments() {
    let folder = captures();
    let mut assistant = Assistant::of(&folder);
    let listed = assistant.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().expect("a list").clone();
    let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["captures", "diagnose", "findings", "evidence", "explain", "compare"]);
    for tool in &tools {
        assert!(jsonschema::validator_for(&tool["inputSchema"]).is_ok(), "{tool}");
        assert!(tool["description"].as_str().is_some_and(|text| text.ends_with('.')), "{tool}");
        assert_eq!(tool["annotations"]["readOnlyHint"], true);
    }
    assert_eq!(assistant.end(), Some(0));
}

#[test]
fn what_cannot_be_done_is_said_and_the_session_goes_on() {
    let folder = captures();
    fs::write(folder.join("empty.pcap"), []).expect("a file");
    let mut assistant = Assistant::of(&folder);
    let failing = [
        ("diagnose", json!({"files": ["/etc/passwd"]}), "no such file in the folders"),
        ("diagnose", json!({"files": ["../slow.pcap"]}), "no such file in the folders"),
        ("diagnose", json!({"files": ["notes.txt"]}), "notes.txt"),
        ("diagnose", json!({"files": ["empty.pcap"]}), "empty.pcap"),
        ("diagnose", json!({"files": []}), "names no capture"),
        ("diagnose", json!({"file": "slow.pcap"}), "unknown field `file`"),
        (
            "diagnose",
            json!({"files": ["slow.pcap"], "filter": "hst 10.0.0.1"}),
            "did you mean `host`",
        ),
        ("evidence", json!({"files": ["slow.pcap"], "connection": "77"}), "is not in this capture"),
        ("evidence", json!({"files": ["slow.pcap"], "frame": 99_999}), "is not in this capture"),
        ("explain", json!({"cause": "gremlins"}), "no cause `gremlins`"),
    ];
    for (tool, arguments, words) in failing {
        let error = assistant.call(tool, &arguments).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    let unknown = assistant.ask("tools/call", &json!({"name": "shell", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(assistant.call("diagnose", &json!({"files": ["slow.pcap"]})).is_ok());
    assert_eq!(assistant.end(), Some(0));
}

/// A call that is cancelled has no response; another one, which waits for it, is answered soon.
#[test]
fn a_cancelled_call_stops_its_analysis() {
    const SPARSE_BYTES: u64 = 64 << 30;
    let folder = captures();
    let path = folder.join("endless.pcap");
    fs::copy(folder.join("slow.pcap"), &path).expect("a copy");
    // The hole reads as frames without bytes, for many minutes.
    let endless = fs::File::options().write(true).open(&path).expect("a file");
    endless.set_len(SPARSE_BYTES).expect("a sparse file");
    let mut assistant = Assistant::of(&folder);
    assistant.asked += 1;
    let id = assistant.asked;
    let call = json!({"name": "diagnose", "arguments": {"files": ["endless.pcap"]}});
    assistant.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}));
    // So that the analysis is under way.
    thread::sleep(Duration::from_millis(500));
    let cancelled = Instant::now();
    assistant.send(&json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": id},
    }));
    let next = assistant.call("diagnose", &json!({"files": ["slow.pcap"]}));
    assert!(next.expect("a report").contains("nagle_delayed_ack"));
    let taken = cancelled.elapsed();
    assert!(taken < Duration::from_secs(20), "{taken:?}");
    assert_eq!(assistant.end(), Some(0));
}

#[test]
fn a_folder_that_is_missing_is_an_error_at_once() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    let output =
        command.args(["mcp", "/nowhere"]).stdin(Stdio::null()).output().expect("tcpwhy runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("/nowhere"), "{error}");
}
