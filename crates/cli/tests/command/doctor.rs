//! `tcpwhy URL` from the outside: exit status, the contract, and what it names.

pub mod http2;
mod outside;
mod own_keys;
mod servers;
mod traffic;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use tcpwhy_testing::undisturbed;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 5\r\n\r\n";

/// A server on loopback that writes header and body apart, with Nagle's algorithm or without.
fn serve(nodelay: bool) -> SocketAddr {
    serve_with(move |stream| {
        stream.set_nodelay(nodelay).expect("an option");
        // A client that has left needs no answer.
        let _ = stream.write_all(HEAD).and_then(|()| stream.write_all(b"hello"));
    })
}

pub fn serve_with(answer: impl Fn(&mut TcpStream) + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.expect("a connection"), answer.clone());
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while matches!(stream.read(&mut bytes), Ok(1..)) {
                    answer(&mut stream);
                }
            });
        }
    });
    at
}

/// A server that keeps a connection until its client leaves, and has so much room for those that
/// wait meanwhile.
fn serve_in_turn(backlog: i32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&listener, backlog).expect("a shorter queue");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            stream.set_nodelay(true).expect("an option");
            let mut bytes = [0; 4096];
            while matches!(stream.read(&mut bytes), Ok(1..)) {
                let _ = stream.write_all(&[HEAD, b"hello"].concat());
            }
        }
    });
    at
}

fn tcpwhy(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(words).output().expect("tcpwhy runs")
}

/// The report of `tcpwhy URL --json`, checked against the schema, and the exit status.
fn report(words: &[&str]) -> (Value, Option<i32>) {
    let output = tcpwhy(&[words, &["--json"]].concat());
    (report_of(&output).0, output.status.code())
}

/// The report that was printed, checked against the schema, and what was said meanwhile.
fn report_of(output: &Output) -> (Value, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let schema = include_str!("../../../../docs/report.schema.json");
    let schema: Value = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(&report).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    (report, said)
}

#[test]
fn a_server_that_holds_small_segments_is_named_with_the_experiment_that_shows_it() {
    let url = format!("http://{}/", serve(false));
    undisturbed(|| {
        let (report, status) = report(&[&url, "--no-load"]);
        assert_eq!(status, Some(1));
        let finding = &report["findings"][0];
        assert_eq!(finding["cause"], "nagle_delayed_ack");
        assert_eq!(finding["culprit"]["role"], "server");
        let agree = finding["evidence_kinds"]["agree"].as_array().expect("kinds");
        assert!(agree.contains(&"experiment".into()), "{agree:?}");
        let made = report["experiments"].as_array().expect("experiments");
        let quickack = made.iter().find(|it| it["experiment"] == "quickack").expect("one");
        assert_eq!(quickack["verdict"], "supports");
        assert!(quickack["effect_ns"].as_i64() > Some(20_000_000), "{quickack}");
        assert_eq!(finding["verify"], format!("tcpwhy {url}"));
        // Options of other sockets are read by root alone.
        if tcpwhy_testing::is_root() {
            let explains = &report["doctor"]["host"][0]["explains"];
            assert_eq!(*explains, serde_json::json!(["nagle_delayed_ack"]), "{}", report["doctor"]);
        }
    });
}

#[test]
fn a_healthy_server_has_no_fault() {
    let url = format!("http://{}/", serve(true));
    let (report, status) = report(&[&url]);
    assert_eq!(status, Some(0), "{}", report["findings"]);
    assert_eq!(report["doctor"]["loads"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["doctor"]["host"], serde_json::json!([]), "it explains findings alone");
}

#[test]
fn an_accept_queue_that_ten_connections_fill_is_named_with_their_number() {
    if !tcpwhy_testing::privileged("capturing packets") {
        return;
    }
    let url = format!("http://{}/", serve_in_turn(2));
    let (report, status) = report(&[&url, "--no-experiments"]);
    assert_eq!(status, Some(1), "{}", report["doctor"]);
    let findings = report["findings"].as_array().expect("findings");
    let of_queue = findings.iter().find(|it| it["cause"] == "accept_queue_overflow");
    let finding = of_queue.unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!(finding["load"]["connections"], 10);
    assert!(finding["headline"].as_str().is_some_and(|it| it.contains("10 connections")));
    let file = &finding["evidence"][0]["file"];
    assert!(file.as_str().is_some_and(|it| it.contains("10 connections")), "{file}");
    // A busy server is no slow one. (Alone it may be slow, if this machine is busy.)
    let under_load = |it: &&Value| !it["load"].is_null();
    assert!(findings.iter().filter(under_load).all(|it| it["cause"] != "server_think"));
}

/// The report on a server, made by an ordinary user who may not capture, and the exit status.
fn report_without_rights(server: SocketAddr) -> (Value, Option<i32>) {
    let folder = tcpwhy_testing::Folder::passable();
    let copy = folder.copy_program(env!("CARGO_BIN_EXE_tcpwhy"));
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let own = [copy.to_str().expect("a path"), &format!("http://{server}/"), "--json"];
    let words = if tcpwhy_testing::is_root() { [&nobody[..], &own].concat() } else { own.to_vec() };
    let output = Command::new(words[0]).args(&words[1..]).output().expect("it runs");
    let (report, said) = report_of(&output);
    assert!(said.contains("packets cannot be captured"), "{said}");
    (report, output.status.code())
}

#[test]
fn a_service_that_fails_is_at_fault_without_the_right_to_capture_too() {
    let busy = serve_with(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    });
    // Every fifth request is not answered.
    let asked = Arc::new(AtomicU32::new(0));
    let closing = serve_with(move |stream| {
        if asked.fetch_add(1, Ordering::Relaxed) % 5 < 4 {
            let _ = stream.write_all(&[HEAD, b"hello"].concat());
        } else {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    for (server, cause, words) in [
        (busy, "error_responses", "answers 100 % of requests with an error (503 × 1)"),
        (closing, "no_answer", "closes connections without an answer: "),
    ] {
        let (report, status) = report_without_rights(server);
        let finding = &report["findings"][0];
        assert_eq!((&finding["cause"], status), (&cause.into(), Some(1)), "{report}");
        let headline = finding["headline"].as_str().expect("a sentence");
        assert!(headline.contains(words), "{headline}");
    }
}

#[test]
fn targets_that_refuse_or_talk_garbage_get_a_sentence() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one");
    let (refused, status) = report(&[&format!("http://{closed}/")]);
    assert_eq!((status, &refused["findings"][0]["cause"]), (Some(1), &"refused".into()));
    assert!(refused["doctor"]["verdict"].as_str().is_some_and(|it| it.contains("refuses")));
    let garbage = serve_with(|stream| {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
    });
    let (garbage, status) = report(&[&format!("http://{garbage}/")]);
    let verdict = garbage["doctor"]["verdict"].as_str().unwrap_or_default().to_owned();
    assert_eq!(status, Some(2));
    assert!(verdict.contains("does not answer as HTTP/1.1 does"), "{verdict}");
}

#[test]
fn a_port_alone_is_connected_to_and_asked_nothing() {
    let (report, status) = report(&[&serve(false).to_string()]);
    assert_eq!((status, &report["doctor"]["requests"]), (Some(0), &0.into()));
}

#[test]
fn what_cannot_be_examined_is_said_in_one_sentence() {
    for (target, part) in
        [("ftp://localhost/", "is not spoken here"), ("http://name.invalid/", "does not resolve")]
    {
        let output = tcpwhy(&[target]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_bundle_has_the_report_as_json_text_and_html() {
    let place = tcpwhy_testing::Folder::new();
    let folder = place.join("bundle");
    let path = folder.display().to_string();
    let url = format!("http://{}/", serve(true));
    let output = tcpwhy(&[&url, "--no-load", "--no-experiments", "--bundle", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    crate::outputs::private::is_kept_privately(&folder);
    let text = std::fs::read(folder.join("report.txt")).expect("text");
    assert_eq!(text, output.stdout);
    let json = std::fs::read(folder.join("report.json")).expect("JSON");
    let json = serde_json::from_slice::<Value>(&json).expect("JSON");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("a page");
    let data = page.split(r#"<script type="application/json" id="data">"#).nth(1).expect("data");
    let data = data.split("</script>").next().expect("an end");
    let data: Value = serde_json::from_str(data).expect("the data is JSON");
    assert_eq!(data["runs"][0]["report"]["totals"], json["totals"]);
    let is_captured = folder.join("packets.pcapng").exists();
    let listed = data["runs"][0]["picture"]["exchanges"]["seen"].as_u64();
    assert_eq!(listed.is_some_and(|it| it > 0), is_captured);
}
