//! `tcpwhy load` against servers of this process, and real nginx.

mod unanswered;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_testing::{Folder, undisturbed};

fn tcpwhy(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.arg("load").args(arguments).output().expect("tcpwhy runs")
}

fn validated(out: &Output) -> Value {
    let shown = String::from_utf8_lossy(&out.stderr);
    let document: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{shown}"));
    let schema = include_str!("../../../../docs/load.schema.json");
    check(&document, serde_json::from_str(schema).expect("a schema"));
    let report: Value = serde_json::from_str(include_str!("../../../../docs/report.schema.json"))
        .expect("a schema");
    let of_finding = serde_json::json!({
        "$ref": "#/$defs/finding",
        "$defs": report["$defs"],
    });
    for finding in document["findings"].as_array().expect("findings") {
        check(finding, of_finding.clone());
    }
    document
}

fn check(document: &Value, schema: Value) {
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(document).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
}

/// A server that answers each request on each connection with `answer`.
pub fn server(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream, answer));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream, answer: &[u8]) {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        seen.extend_from_slice(&piece[..read]);
        while let Some(end) = seen.windows(4).position(|it| it == b"\r\n\r\n") {
            seen.drain(..end + 4);
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn json_says_what_was_measured() {
    let url = format!("http://{}/", server(OK));
    let out = tcpwhy(&[&url, "-n", "500", "-c", "4", "-t", "2", "--json", "--no-explain"]);
    assert_eq!(out.status.code(), Some(0));
    let document = validated(&out);
    assert_eq!((&document["requests"], &document["sent"]), (&500.into(), &500.into()));
    assert_eq!(document["statuses"]["200"], 500);
    assert_eq!(document["connect"]["count"], 4);
    assert_eq!(document["errors"], serde_json::json!({}));
    let time = |name: &str| document["latency"][name].as_u64().expect("a time");
    assert!(time("p50_ns") > 0 && time("p50_ns") <= time("p99_ns"));
    assert!(time("p9999_ns") <= time("max_ns"));
    let series = document["time_series"].as_array().expect("a series");
    assert_eq!(series.iter().map(|it| it["requests"].as_u64().unwrap()).sum::<u64>(), 500);
}

#[test]
fn the_text_begins_with_the_answer() {
    let url = format!("http://{}/", server(OK));
    let out = tcpwhy(&[&url, "-n", "100", "--rate", "1000", "--no-explain"]);
    let text = String::from_utf8(out.stdout).expect("text");
    assert!(text.starts_with("p99 is "), "{text}");
    for word in ["open loop, 1000/s", "latency", "p99.99", "first byte", "connect", "by second"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn what_cannot_be_done_is_one_sentence() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let out = tcpwhy(&[&format!("http://{closed}/"), "--no-explain"]);
    assert_eq!(out.status.code(), Some(2));
    let text = String::from_utf8(out.stdout).expect("text").replace('\n', " ");
    assert!(text.contains("answered no request: connect refused"), "{text}");
    for (arguments, words) in [
        (&["http://name.invalid/"][..], "name.invalid cannot be resolved"),
        (&["127.0.0.1:80"], "has no scheme"),
        (&["http://127.0.0.1/", "-6"], "has no IPv6 address"),
        (&["http://127.0.0.1/", "--rate", "0"], "above 0"),
        (&["http://127.0.0.1/", "-H", "no header"], "Name: value"),
        (&["ftp://127.0.0.1/"], "is not spoken here"),
    ] {
        let out = tcpwhy(arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(out.stderr).expect("text");
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn the_text_begins_with_what_failed() {
    let moved = b"HTTP/1.1 301 Moved\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
    let limited = b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
    for (answer, words, code) in [
        (&moved[..], "redirect to /there; redirects are not followed", 0),
        (
            b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
            "20 of 20 requests failed (100 %): status 500 × 20. p99 is ",
            1,
        ),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "status 404 × 20", 1),
        (limited, "and asks to wait 7 s: no request was accepted", 1),
        (b"220 mail.example ESMTP\r\n", "no HTTP response", 2),
    ] {
        let out = tcpwhy(&[&format!("http://{}/", server(answer)), "-n", "20", "--no-explain"]);
        let text = String::from_utf8(out.stdout).expect("text").replace("\n", " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{text}");
        assert_eq!(out.status.code(), Some(code), "{text}");
    }
}

#[test]
fn one_error_in_ten_answers_is_a_fault() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let error = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut piece = [0; 4096];
        let mut number = 0;
        while matches!(stream.read(&mut piece), Ok(1..)) {
            number += 1;
            let answer = if number % 10 == 0 { &error[..] } else { &answer[..] };
            stream.write_all(answer).expect("it is sent");
        }
    });
    let out = tcpwhy(&[&url, "-n", "100", "-c", "1", "--json", "--no-explain"]);
    let document = validated(&out);
    assert_eq!(document["statuses"], serde_json::json!({ "200": 90, "503": 10 }));
    assert_eq!((&document["ended"], out.status.code()), (&Value::Null, Some(1)));
}

#[test]
fn a_standstill_of_all_connections_is_named_in_a_closed_loop() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};
    // 600 ms after the first answer, the lock is held for 700 ms.
    let lock = Arc::new(Mutex::new(()));
    let has_begun = Arc::new(AtomicBool::new(false));
    let (held, begun) = (lock.clone(), has_begun.clone());
    thread::spawn(move || {
        while !begun.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(600));
        let _turn = held.lock().expect("no panic");
        thread::sleep(Duration::from_millis(700));
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (lock, has_begun) = (lock.clone(), has_begun.clone());
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while matches!(stream.read(&mut piece), Ok(1..)) {
                    drop(lock.lock().expect("no panic"));
                    thread::sleep(Duration::from_millis(2));
                    has_begun.store(true, Ordering::Relaxed);
                    if stream.write_all(OK).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let document = validated(&tcpwhy(&[&url, "-c", "4", "-d", "3s", "--json", "--no-explain"]));
    let all = document["standstills"].as_array().expect("standstills");
    let longest_ns = all
        .iter()
        .map(|it| it["end_ns"].as_u64().unwrap_or(0) - it["begin_ns"].as_u64().unwrap_or(0));
    assert!(longest_ns.max() >= Some(600_000_000), "{all:?}");
    let p99_ns = document["latency"]["p99_ns"].as_u64().expect("a time");
    let open_p99_ns = document["open_p99_ns"].as_u64().expect("a time");
    assert!(open_p99_ns > 500_000_000 && p99_ns < 300_000_000, "{p99_ns} {open_p99_ns}");
}

/// A server that accepts connections and answers nothing.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    (listener, at)
}

#[test]
fn a_load_without_answers_says_why_and_how_long_it_waited() {
    let (_listener, at) = silent();
    let url = format!("http://{at}/");
    let words = [&url, "-d", "200ms", "-c", "2", "--timeout", "400ms", "--no-explain"];
    let out = tcpwhy(&words);
    assert_eq!(out.status.code(), Some(2));
    let text = String::from_utf8(out.stdout).expect("text");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("answered no request: timed out: no answer within"), "{text}");
    assert!(text.contains("p50 ≥ 4") || text.contains("p50 >= 4"), "{text}");
    let document = validated(&tcpwhy(&[&words[..], &["--json"]].concat()));
    let latency = &document["latency"];
    assert_eq!((&latency["count"], &latency["unanswered"]), (&2.into(), &2.into()));
    assert!(latency["p50_ns"].as_u64() >= Some(400_000_000), "{latency}");
    let bounds = latency["at_least"].as_array().expect("names");
    assert!(bounds.contains(&"p50_ns".into()) && bounds.contains(&"max_ns".into()), "{latency}");

    let (_listener, at) = silent();
    let out = tcpwhy(&[&format!("https://{at}/"), "-d", "300ms", "-c", "1", "--no-explain"]);
    let text = String::from_utf8(out.stdout).expect("text").replace('\n', " ");
    assert!(text.contains("does the port speak TLS?"), "{text}");
}

#[test]
fn a_body_makes_the_method_post() {
    let (listener, at) = silent();
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).expect("a request");
        stream.write_all(OK).expect("it is sent");
        String::from_utf8_lossy(&piece[..read]).into_owned()
    });
    let url = format!("http://{at}/");
    let out = tcpwhy(&[&url, "-n", "1", "-c", "1", "--body", "a=b", "--no-explain"]);
    assert_eq!(out.status.code(), Some(0));
    assert!(asked.join().expect("a request").starts_with("POST / HTTP/1.1\r\n"));
}

#[test]
fn an_interrupt_prints_what_was_measured_so_far() {
    let url = format!("http://{}/", server(OK));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(["load", &url, "-d", "60s", "--json", "--no-explain"]);
    let child = command.stdout(Stdio::piped()).spawn().expect("tcpwhy runs");
    thread::sleep(Duration::from_millis(1500));
    let began = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    let out = child.wait_with_output().expect("it ends");
    assert!(began.elapsed() < Duration::from_secs(20));
    let document = validated(&out);
    assert_eq!(document["interrupted"], true);
    assert!(document["requests"].as_u64().expect("a number") > 0);
}

/// A folder, and the nginx that serves it until it is dropped.
struct Nginx {
    _folder: Folder,
    child: Child,
    port: u16,
}

impl Nginx {
    /// Writes header and file apart, with Nagle's algorithm or without; `None` where there is no nginx.
    fn start(nodelay: &str) -> Option<Nginx> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).ok()?.port();
        let folder = Folder::new();
        std::fs::write(folder.join("file.bin"), vec![b'n'; 700]).expect("a file");
        let at = folder.display();
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
             events {{}}\n\
             http {{ access_log off; sendfile on; tcp_nopush off; tcp_nodelay {nodelay};\n\
               keepalive_requests 1000000;\n\
               client_body_temp_path {at}; proxy_temp_path {at}; fastcgi_temp_path {at};\n\
               uwsgi_temp_path {at}; scgi_temp_path {at};\n\
               server {{ listen 127.0.0.1:{port}; root {at}; }} }}\n"
        );
        std::fs::write(folder.join("nginx.conf"), config).expect("a file");
        if !tcpwhy_testing::installed("nginx") {
            return None;
        }
        let mut command = Command::new("nginx");
        let child = command.arg("-c").arg(folder.join("nginx.conf")).spawn().expect("nginx runs");
        let nginx = Nginx { _folder: folder, child, port };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "nginx does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        Some(nginx)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/file.bin", self.port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn may_capture() -> bool {
    tcpwhy_testing::privileged("capturing packets")
}

#[test]
fn nagles_algorithm_at_the_server_is_named() {
    let Some(nginx) = may_capture().then(|| Nginx::start("off")).flatten() else { return };
    let out = tcpwhy(&[&nginx.url(), "-d", "3s", "-c", "2", "--json"]);
    let document = validated(&out);
    let finding = &document["findings"][0];
    assert_eq!(finding["cause"], "nagle_delayed_ack", "{:#}", document["findings"]);
    assert_eq!(finding["culprit"]["role"], "server");
    assert_eq!(finding["culprit"]["endpoint"], format!("127.0.0.1:{}", nginx.port));
    assert!(finding["share"].as_f64().expect("a share") > 0.5);
    assert_eq!(out.status.code(), Some(1));
    // The slow requests are those that a busy machine held up, where it did.
    undisturbed(|| {
        let out = tcpwhy(&[&nginx.url(), "-d", "2s", "-c", "2"]);
        let text = String::from_utf8(out.stdout).expect("text");
        let verdict = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(verdict.starts_with("p99 is "), "{text}");
        assert!(verdict.contains("Nagle's algorithm at 127.0.0.1"), "{text}");
        assert!(verdict.contains("of the time of the slow requests"), "{text}");
    });
}

#[test]
fn a_healthy_server_has_no_fault() {
    let Some(nginx) = may_capture().then(|| Nginx::start("on")).flatten() else { return };
    let out = tcpwhy(&[&nginx.url(), "-d", "2s", "-c", "2", "--json"]);
    let document = validated(&out);
    let faults = document["findings"].as_array().expect("findings").iter();
    let faults: Vec<_> = faults.filter(|it| it["class"] == "fault").collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(out.status.code(), Some(0));
    assert!(document["captured"]["exchanges"].as_u64().expect("a number") > 0);
}

#[test]
fn without_the_right_to_capture_it_says_what_is_missing_and_reads_its_sockets() {
    const NOBODY: u32 = 65_534;
    if !may_capture() {
        return;
    }
    let folder = Folder::passable();
    let url = format!("http://{}/", server(OK));
    let mut command = Command::new(folder.copy_program(env!("CARGO_BIN_EXE_tcpwhy")));
    command.args(["load", &url, "-d", "1s", "-c", "2", "--json"]).uid(NOBODY).gid(NOBODY);
    let out = command.current_dir("/").output().expect("tcpwhy runs");
    let document = validated(&out);
    assert_eq!(document["findings"], serde_json::json!([]));
    let note = document["note"].as_str().expect("a note");
    assert!(note.contains("sudo") && note.contains("cap_net_raw"), "{note}");
    assert!(document["sockets"]["samples"].as_u64().expect("a number") > 0, "{document:#}");
}
