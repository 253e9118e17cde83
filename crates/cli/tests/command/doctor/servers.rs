//! `tcpwhy URL` at real servers of HTTP/2, gRPC and WebSockets, each with one that looks alike, and at
//! healthy ones.

use super::http2::nginx;
use super::{report_of, tcpwhy};
use serde_json::{Value, json};
use std::process::Command;
use tcpwhy_lab::capture::CaptureParams;
use tcpwhy_lab::netns::Process;
use tcpwhy_lab::relay::RelayParams;
use tcpwhy_lab::stage::{Link, Stage, StageParams};
use tcpwhy_testing::{Folder, installed, privileged, undisturbed};

const SERVERS: &str = include_str!("servers.js");
const RTT_NS: u64 = 80_000_000;
const PORT: u16 = 8080;
/// Runs a command as `nobody`.
const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A server of Node on loopback, which ends with the test.
struct Node {
    process: Process,
    port: u16,
    _folder: Folder,
}

/// Starts one; `None` if the test cannot run.
fn node(kind: &str) -> Option<Node> {
    if !installed("node") {
        return None;
    }
    let folder = Folder::new();
    let script = folder.join("servers.js");
    std::fs::write(&script, SERVERS).expect("a file");
    let mut command = Command::new("node");
    command.arg(&script).args([kind, "127.0.0.1", "0"]);
    let mut process = Process::start(command, "nodejs").expect("node starts");
    let line = process.first_line_of_stderr().expect("a port");
    let port = line.trim_start_matches("port ").parse().expect("a port");
    Some(Node { process, port, _folder: folder })
}

/// The report of `tcpwhy WORDS --json` and its exit status.
fn report(words: &[&str]) -> (Value, Option<i32>) {
    let output = tcpwhy(&[words, &["--json"]].concat());
    (report_of(&output).0, output.status.code())
}

fn fault(report: &Value, kind: &str) -> Option<String> {
    let faults = report["doctor"]["faults"].as_array()?;
    faults.iter().find(|it| it["kind"] == kind).map(|it| it["headline"].to_string())
}

#[test]
fn the_health_of_a_grpc_server_is_its_answer() {
    for (kind, path, health, says) in [
        ("serving", "", "SERVING", None),
        ("serving", "/shop.Cart", "SERVING", None),
        ("not-serving", "", "NOT_SERVING", Some("of the server with NOT_SERVING")),
        ("serving", "/a.B", "gRPC status NOT_FOUND", Some("of the service a.B with gRPC status")),
        ("unimplemented", "", "gRPC status UNIMPLEMENTED", Some("with gRPC status UNIMPLEMENTED")),
    ] {
        let Some(server) = node(kind) else { return };
        let url = format!("grpc://127.0.0.1:{}{path}", server.port);
        let (found, status) = report(&[&url, "--no-experiments", "--no-load"]);
        let doctor = &found["doctor"];
        assert_eq!(doctor["health"], json!({ health: 15 }), "{kind} {doctor}");
        assert_eq!((status, &found["findings"]), (Some(says.is_some().into()), &json!([])));
        match says {
            None => assert_eq!(doctor["faults"], json!([]), "{doctor}"),
            Some(says) => assert!(fault(&found, "health").is_some_and(|it| it.contains(says))),
        }

        let output = tcpwhy(&["load", &url, "-n", "20", "-c", "2", "--json"]);
        let load: Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert_eq!((&load["health"], &load["requests"]), (&json!({ health: 20 }), &20.into()));
        assert_eq!(output.status.code(), Some(says.is_some().into()), "{load}");
        let errors = if says.is_some() { json!({ "not_serving": 20 }) } else { json!({}) };
        assert_eq!(load["errors"], errors);
        drop(server.process);
    }
}

#[test]
fn a_server_without_grpc_is_no_healthy_one() {
    let Some(nginx) = nginx() else { return };
    let url = format!("grpc://127.0.0.1:{}", nginx.plain);
    let (report, status) = report(&[&url, "--no-experiments", "--no-load"]);
    let fault = fault(&report, "health").unwrap_or_default();
    assert!(fault.contains("no answer of gRPC") && status == Some(1), "{fault} {report}");
    let output = tcpwhy(&[&url, "--body", "x"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("has a method and a body of its own"), "{said}");
}

#[test]
fn a_websocket_has_a_key_of_its_own_and_its_answer_is_checked() {
    let Some(server) = node("websocket") else { return };
    let url = format!("ws://127.0.0.1:{}/chat", server.port);
    // The server refuses a key that it has seen.
    let (opened, status) = report(&[&url, "--no-experiments"]);
    let doctor = &opened["doctor"];
    assert_eq!((status, &doctor["target"]), (Some(0), &url.as_str().into()), "{doctor}");
    let statuses = doctor["statuses"].as_object().expect("statuses");
    assert!(statuses.len() == 1 && statuses["101"].as_u64() > Some(3), "{doctor}");
    let output = tcpwhy(&["load", &url, "-n", "50", "--json"]);
    let load: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(load["statuses"], json!({ "101": 50 }), "{load}");

    let Some(cached) = node("cached") else { return };
    let url = format!("ws://127.0.0.1:{}/chat", cached.port);
    let (refused, status) = report(&[&url, "--no-experiments"]);
    let fault = fault(&refused, "upgrade").unwrap_or_default();
    assert!(fault.contains("Sec-WebSocket-Accept answers another key"), "{fault} {refused}");
    assert_eq!(status, Some(1));
    let output = tcpwhy(&["load", &url, "-n", "50", "--json"]);
    let load: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!((&load["requests"], output.status.code()), (&0.into(), Some(2)), "{load}");
}

#[test]
fn a_goaway_of_a_real_server_is_a_fault_with_an_error_alone() {
    for (kind, is_fault) in [("calm", true), ("leaving", false)] {
        let Some(server) = node(kind) else { return };
        let url = format!("http://127.0.0.1:{}/", server.port);
        let (report, status) = report(&[&url, "--http2", "--no-experiments", "--no-load"]);
        let fault = fault(&report, "http2_go_away");
        assert_eq!((fault.is_some(), status), (is_fault, Some(is_fault.into())), "{report}");
        assert!(fault.is_none_or(|it| it.contains("GOAWAY, ENHANCE_YOUR_CALM")));
    }
}

#[test]
fn a_real_limit_of_streams_queues_and_a_high_one_does_not() {
    for (kind, at_a_time) in [("limited", 2), ("unlimited", 10)] {
        let Some(server) = node(kind) else { return };
        let url = format!("http://127.0.0.1:{}/", server.port);
        undisturbed(|| {
            let (report, status) = report(&[&url, "--http2", "--no-load"]);
            let doctor = &report["doctor"];
            let notes = doctor["notes"].to_string();
            assert_eq!(doctor["http2"]["streams"]["at_a_time"], at_a_time, "{notes}");
            assert_eq!(notes.contains("the others queue at the client"), at_a_time == 2, "{notes}");
            assert_eq!((status, &doctor["faults"]), (Some(0), &json!([])));
        });
    }
}

/// A server of Node behind an emulated link; `None` if the test cannot run.
fn far(kind: &str, link: RelayParams) -> Option<(Stage, Process)> {
    if !privileged("an emulated link") || !installed("node") {
        return None;
    }
    let params = StageParams {
        link: Link::Relay(link),
        ipv6: false,
        seed: 7,
        capture: CaptureParams { snaplen_bytes: 96, any: false },
        congestion_control: "cubic",
    };
    let stage = Stage::build(params, None).expect("a stage");
    let script = stage.dir().join("servers.js");
    std::fs::write(&script, SERVERS).expect("a file");
    let mut command = stage.server.command("node");
    command.arg(&script).args([kind, &stage.server_addr.to_string(), &PORT.to_string()]);
    let mut process = Process::start(command, "nodejs").expect("node starts");
    process.wait_for_stderr("port ").expect("a port");
    Some((stage, process))
}

/// The report on the server of a stage.
fn examined(stage: &Stage, words: &[&str]) -> Value {
    let mut command = stage.client.command(env!("CARGO_BIN_EXE_tcpwhy"));
    command.arg(format!("http://{}:{PORT}/", stage.server_addr)).args(["--http2", "--json"]);
    report_of(&command.args(words).output().expect("it runs")).0
}

#[test]
fn small_windows_of_a_far_server_hold_uploads_and_large_ones_do_not() {
    let folder = Folder::new();
    let body = folder.join("body");
    std::fs::write(&body, vec![b'u'; 180_000]).expect("a file");
    let body = format!("@{}", body.display());
    for (kind, is_fault, waits) in
        [("narrow", true, true), ("wide", false, false), ("slow", false, true)]
    {
        let link = RelayParams::symmetric(RTT_NS, 200_000_000, 1);
        let Some((stage, _node)) = far(kind, link) else { return };
        undisturbed(|| {
            let words = ["--body", &body, "--no-load", "--no-path", "--timeout", "20s"];
            let report =
                examined(&stage, &[&words[..], &["--experiment", "http2-window"]].concat());
            let fault = fault(&report, "http2_flow_control");
            let doctor = &report["doctor"];
            assert_eq!(fault.is_some(), is_fault, "{kind} {doctor}");
            assert_eq!(!doctor["http2"]["flow_control"].is_null(), waits, "{kind} {doctor}");
            assert!(
                fault.is_none_or(|it| it.contains("64.0 KB of a")
                    || it.contains("65.5 KB of a")
                    || it.contains("64 KiB of a")
                    || it.contains("65,535 B")),
                "{doctor}"
            );
            // No client can change the windows of a server.
            let skipped = doctor["steps"].as_array().expect("steps").iter();
            let skipped = skipped.filter(|it| it["step"] == "http2-window");
            assert!(skipped.clone().all(|it| it["outcome"] == "skipped") && skipped.count() == 1);
        });
    }
}

#[test]
fn small_windows_of_this_client_show_in_an_experiment_on_large_answers_alone() {
    for (kind, is_effect) in [("large", true), ("wide", false)] {
        let link = RelayParams::symmetric(RTT_NS, 0, 1);
        let Some((stage, _node)) = far(kind, link) else { return };
        undisturbed(|| {
            let words = ["--experiment", "http2-window", "--no-load", "--no-path"];
            let report = examined(&stage, &words);
            let made = &report["experiments"][0];
            assert_eq!(made["experiment"], "http2-window", "{report}");
            let effect_ns = made["effect_ns"].as_i64().expect("an effect");
            // Two windows that are used up take a round trip more each, or one of both together.
            assert_eq!(effect_ns > RTT_NS as i64 / 2, is_effect, "{made}");
        });
    }
}

#[test]
fn a_queue_on_the_path_shows_beside_an_answer_of_http2() {
    for (rate_bps, is_queue) in [(10_000_000, true), (0, false)] {
        let mut link = RelayParams::symmetric(20_000_000, 0, 1);
        link.server_to_client.rate_bps = rate_bps;
        link.server_to_client.queue_bytes = if is_queue { 400_000 } else { 0 };
        let Some((stage, _node)) = far("large", link) else { return };
        undisturbed(|| {
            let report = examined(&stage, &["--experiment", "queue", "--no-load", "--no-path"]);
            let made = &report["experiments"][0];
            assert_eq!(made["experiment"], "queue", "{}", report["doctor"]);
            assert_eq!(made["verdict"] == "supports", is_queue, "{made}");
        });
    }
}

#[test]
fn a_lost_segment_holds_all_streams_of_a_connection_and_a_pausing_server_does_not() {
    for (kind, loss_ppm) in [("medium", 20_000), ("pausing", 0)] {
        let link = RelayParams::symmetric(40_000_000, 0, 3);
        let link = RelayParams { server_to_client: loss(&link, loss_ppm), ..link };
        let Some((stage, _node)) = far(kind, link) else { return };
        let report = examined(&stage, &["--no-load", "--no-path"]);
        let streams = &report["doctor"]["http2"]["streams"];
        let notes = format!("{} {}", report["doctor"]["notes"], report["doctor"]["steps"]);
        assert_eq!(notes.contains("(head-of-line blocking)"), loss_ppm > 0, "{kind} {notes}");
        assert_eq!(streams["blocked_ns"].as_u64() >= Some(40_000_000), loss_ppm > 0, "{streams}");
        assert_eq!(streams["blocked_streams"].as_u64() > Some(1), loss_ppm > 0, "{streams}");
    }
}

fn loss(link: &RelayParams, loss_ppm: u64) -> tcpwhy_lab::relay::PathParams {
    let path = link.server_to_client.clone();
    tcpwhy_lab::relay::PathParams { loss_ppm, ..path }
}

/// Five set-ups without a fault, as root, who sees packets, and as a user who does not.
#[test]
fn healthy_servers_are_silent_to_root_and_to_nobody() {
    let Some(nginx) = nginx() else { return };
    let Some(node) = node("http1") else { return };
    if !installed("python3") {
        return;
    }
    let python = "import http.server as s\n\
        class H(s.BaseHTTPRequestHandler):\n\
        \x20protocol_version = 'HTTP/1.1'; disable_nagle_algorithm = True\n\
        \x20def do_GET(self):\n\
        \x20 self.send_response(200); self.send_header('Content-Length', '5'); self.end_headers()\n\
        \x20 self.wfile.write(b'hello')\n\
        \x20def log_message(self, *_): pass\n\
        s.ThreadingHTTPServer.request_queue_size = 128\n\
        server = s.ThreadingHTTPServer(('127.0.0.1', 0), H)\n\
        import sys; print('port', server.server_port, file=sys.stderr, flush=True)\n\
        server.serve_forever()";
    let mut command = Command::new("python3");
    command.args(["-c", python]);
    let mut python = Process::start(command, "python3").expect("python starts");
    let line = python.first_line_of_stderr().expect("a port");
    let python_port = line.trim_start_matches("port ");
    let place = Folder::passable();
    let own = place.join("tcpwhy");
    std::fs::copy(env!("CARGO_BIN_EXE_tcpwhy"), &own).expect("a copy");
    let targets = [
        (format!("http://127.0.0.1:{}/", nginx.http1), "--http1.1"),
        (format!("http://127.0.0.1:{}/", nginx.plain), "--http2"),
        (format!("https://localhost:{}/", nginx.tls), "--insecure"),
        (format!("http://127.0.0.1:{}/", node.port), "--http1.1"),
        (format!("http://127.0.0.1:{python_port}/"), "--http1.1"),
    ];
    let users: &[&[&str]] = if tcpwhy_testing::is_root() { &[&[], &NOBODY] } else { &[&[]] };
    for (url, option) in &targets {
        for user in users {
            undisturbed(|| {
                let own = own.display().to_string();
                let words = [user, &[own.as_str(), url, option, "--json", "--no-progress"][..]];
                let words = words.concat();
                let output = Command::new(words[0]).args(&words[1..]).current_dir("/").output();
                let (report, said) = report_of(&output.expect("it runs"));
                let doctor = &report["doctor"];
                let found = (&report["findings"], &doctor["faults"], &doctor["verdict"]);
                let silent = (&json!([]), &json!([]), &"No fault.".into());
                assert_eq!(found, silent, "{url} {user:?} {said} {doctor}");
            });
        }
    }
}
