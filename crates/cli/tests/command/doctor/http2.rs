//! `tcpwhy URL` in HTTP/2: against nginx, and against servers that are written frame by frame.

use super::{report, serve_with};
use serde_json::{Value, json};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tcpwhy_testing::http2::{GOAWAY, RST_STREAM, frame, ok, serve};
use tcpwhy_testing::{Folder, installed, undisturbed};

fn fault<'a>(report: &'a Value, kind: &str) -> Option<&'a Value> {
    report["doctor"]["faults"].as_array()?.iter().find(|it| it["kind"] == kind)
}

#[test]
fn a_server_that_answers_streams_one_after_the_other_is_described() {
    let (server, _) = serve(100, |id, _| {
        std::thread::sleep(Duration::from_millis(5));
        ok(id)
    });
    undisturbed(|| {
        let (report, status) = report(&[&format!("http://{server}/"), "--http2", "--no-load"]);
        let found = &report["doctor"]["http2"];
        assert_eq!((status, &report["findings"]), (Some(0), &json!([])), "{report}");
        assert_eq!(found["settings"]["max_concurrent_streams"], 100);
        assert_eq!(found["streams"]["at_a_time"], 1, "{found}");
        assert_eq!(report["endpoints"][0]["protocol"], "http2", "{}", report["endpoints"]);
    });
}

#[test]
fn a_limit_of_streams_that_queues_is_named() {
    let (server, _) = serve(2, |id, _| ok(id));
    let (report, _) = report(&[&format!("http://{server}/"), "--http2", "--no-load"]);
    let notes = report["doctor"]["notes"].to_string();
    assert!(notes.contains("it allows 2 streams at once, so the others queue"), "{notes}");
}

#[test]
fn a_goaway_with_an_error_is_a_fault_and_one_without_is_none() {
    for (code, is_fault) in [(11, true), (0, false)] {
        let (server, _) = serve(100, move |id, number| {
            let end = [&id.to_be_bytes()[..], &[0, 0, 0, code]].concat();
            let end = if number == 3 { frame(GOAWAY, 0, 0, &end) } else { Vec::new() };
            [end, ok(id)].concat()
        });
        let url = format!("http://{server}/");
        let (report, status) = report(&[&url, "--http2", "--no-load", "--no-experiments"]);
        let found = fault(&report, "http2_go_away");
        assert_eq!((status, found.is_some()), (Some(is_fault.into()), is_fault), "{report}");
        let headline = found.map(|it| it["headline"].to_string()).unwrap_or_default();
        assert!(!is_fault || headline.contains("GOAWAY, ENHANCE_YOUR_CALM"), "{headline}");
    }
}

#[test]
fn streams_that_are_reset_are_a_fault_with_their_code() {
    let (server, _) = serve(100, |id, _| frame(RST_STREAM, 0, id, &[0, 0, 0, 7]));
    let (report, status) = report(&[&format!("http://{server}/"), "--http2"]);
    let found = fault(&report, "http2_reset").expect("a fault");
    assert!(found["headline"].to_string().contains("RST_STREAM, REFUSED_STREAM"), "{found}");
    assert_eq!(status, Some(1), "{report}");
}

#[test]
fn a_server_of_http1_alone_has_no_fault() {
    let server = serve_with(|stream| {
        let bad = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(bad);
    });
    let (report, status) = report(&[&format!("http://{server}/"), "--http2"]);
    let verdict = report["doctor"]["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("speaks HTTP/1.1 and no HTTP/2"), "{verdict}");
    let doctor = &report["doctor"];
    assert_eq!((status, &report["findings"]), (Some(2), &json!([])), "{report}");
    assert_eq!((&doctor["faults"], &doctor["http2"]), (&json!([]), &Value::Null), "{report}");
}

/// nginx, which ends with the test.
pub struct Nginx {
    child: Child,
    /// Port of HTTP/1.1 alone.
    pub http1: u16,
    pub plain: u16,
    pub tls: u16,
    _folder: Folder,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts nginx with HTTP/2 on a plain port, and on one with TLS beside HTTP/1.1; `None` if the test
/// cannot run.
pub fn nginx() -> Option<Nginx> {
    if !installed("nginx") || !installed("openssl") {
        return None;
    }
    let folder = Folder::new();
    let at = |name: &str| folder.join(name).display().to_string();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args(["-days", "2", "-subj", "/CN=localhost", "-keyout", &at("key"), "-out", &at("cert")])
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("openssl runs").success());
    let port = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let (http1, plain, tls) = (port(), port(), port());
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|it| format!("{it}_temp_path {};", at(it)))
        .concat();
    let text = format!(
        "daemon off; master_process off; pid {pid}; error_log {log};
         events {{}}
         http {{ access_log off; {temp}
           server {{ listen 127.0.0.1:{http1}; location / {{ return 200 hello; }} }}
           server {{ listen 127.0.0.1:{plain} http2; location / {{ return 200 hello; }} }}
           server {{ listen 127.0.0.1:{tls} ssl http2; ssl_certificate {cert};
             ssl_certificate_key {key}; location / {{ return 200 hello; }} }} }}",
        pid = at("pid"),
        log = at("log"),
        cert = at("cert"),
        key = at("key"),
    );
    std::fs::write(folder.join("conf"), text).expect("a file");
    let mut command = Command::new("nginx");
    command.args(["-p", &at(""), "-c", &at("conf"), "-e", &at("log")]).stderr(Stdio::null());
    let child = command.spawn().expect("nginx starts");
    let nginx = Nginx { child, http1, plain, tls, _folder: folder };
    for _ in 0..500 {
        if TcpStream::connect(("127.0.0.1", nginx.tls)).is_ok() {
            return Some(nginx);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nginx does not listen");
}

#[test]
fn nginx_is_asked_in_the_version_that_is_named_or_negotiated() {
    let Some(nginx) = nginx() else { return };
    let plain = format!("http://127.0.0.1:{}/", nginx.plain);
    let tls = format!("https://localhost:{}/", nginx.tls);
    for (url, option, streams, status) in [
        (&plain, "--http2", Some(128), 0),
        (&plain, "--http1.1", None, 2),
        (&tls, "--no-path", Some(128), 0),
        (&tls, "--http2", Some(128), 0),
        (&tls, "--http1.1", None, 0),
    ] {
        let words = [url, option, "--insecure", "--no-load", "--no-experiments"];
        let (report, ended) = report(&words);
        let doctor = &report["doctor"];
        let allowed = doctor["http2"]["settings"]["max_concurrent_streams"].as_u64();
        assert_eq!((allowed, ended), (streams, Some(status)), "{url} {option} {doctor}");
        let counts = doctor["statuses"].as_object().map(|it| it.contains_key("200"));
        assert_eq!(counts, Some(status == 0), "{doctor}");
    }
}
