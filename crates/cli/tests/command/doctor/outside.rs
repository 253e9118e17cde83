//! Answers, redirects and addresses as the doctor reports them.

use super::{HEAD, report, report_of, serve_with, tcpwhy};
use serde_json::{Value, json};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn healthy() -> SocketAddr {
    serve_with(|stream| {
        stream.set_nodelay(true).expect("an option");
        let _ = stream.write_all(&[HEAD, b"hello"].concat());
    })
}

/// A server that redirects all requests.
fn redirecting(location: String) -> SocketAddr {
    serve_with(move |stream| {
        let answer = format!("HTTP/1.1 301 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(answer.as_bytes());
    })
}

#[test]
fn a_redirect_is_followed_to_the_server_that_answers() {
    let server = healthy();
    let url = format!("http://{}/", redirecting(format!("http://{server}/x?token=1")));
    let (followed, status) = report(&[&url, "--no-load", "--no-experiments"]);
    let doctor = &followed["doctor"];
    assert_eq!((status, &doctor["target"]), (Some(0), &url.as_str().into()));
    assert_eq!(doctor["address"], server.to_string());
    assert_eq!(doctor["statuses"], json!({ "200": 15, "301": 1 }));
    let redirects = doctor["redirects"].as_array().expect("redirects");
    assert_eq!((redirects.len(), &redirects[0]["status"]), (1, &301.into()));
    // Values may be secrets.
    assert!(!followed.to_string().contains("token=1"), "{doctor}");
    let note = doctor["notes"][0].as_str().unwrap_or_default();
    assert!(note.starts_with(&format!("redirected: 301 to http://{server}/x")), "{note}");

    let (kept, status) = report(&[&url, "--no-load", "--no-experiments", "--no-follow"]);
    let doctor = &kept["doctor"];
    assert_eq!((status, &doctor["redirects"]), (Some(0), &json!([])));
    let verdict = doctor["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("The answer is a redirect (status 301) to "), "{verdict}");
}

#[test]
fn redirects_that_lead_nowhere_are_a_fault() {
    for (location, words) in
        [("/", "back to /: a circle"), ("ftp://host/", "which is no target of HTTP")]
    {
        let url = format!("http://{}/", redirecting(location.to_owned()));
        let (report, status) = report(&[&url, "--no-load", "--no-experiments"]);
        let fault = &report["doctor"]["faults"][0];
        assert_eq!((status, &fault["kind"]), (Some(1), &"redirect".into()), "{fault}");
        let verdict = report["doctor"]["verdict"].as_str().unwrap_or_default();
        assert!(verdict.contains(words), "{verdict}");
    }
}

#[test]
fn a_limit_of_requests_is_stated_and_ends_them() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let server = serve_with(move |stream| {
        let fewer = b"HTTP/1.1 429 X\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n";
        let is_over = asked.fetch_add(1, Ordering::SeqCst) >= 20;
        let answer = [HEAD, b"hello"].concat();
        let _ = stream.write_all(if is_over { fewer } else { &answer });
    });
    let (report, status) = report(&[&format!("http://{server}/")]);
    let fault = &report["doctor"]["faults"][0];
    assert_eq!((status, &fault["kind"]), (Some(1), &"limit".into()), "{fault}");
    let headline = fault["headline"].as_str().unwrap_or_default();
    // Where pairs of trials run at the same time, answers may overtake each other.
    let is_said = |number: u32| headline.contains(&format!("429 came after {number} answers"));
    assert!((16..=20).any(is_said), "{headline}");
    assert!(headline.contains("asks to wait 30 s"), "{headline}");
    assert!(count.load(Ordering::SeqCst) < 20 + 10, "it is asked no further");
}

#[test]
fn errors_that_come_under_load_alone_are_a_fault() {
    let asked = Arc::new(AtomicU32::new(0));
    let server = serve_with(move |stream| {
        let error = b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n";
        let is_over = asked.fetch_add(1, Ordering::SeqCst) >= 60;
        let answer = [HEAD, b"hello"].concat();
        let _ = stream.write_all(if is_over { error } else { &answer });
    });
    let (report, status) = report(&[&format!("http://{server}/"), "--no-experiments", "--load=10"]);
    assert_eq!(status, Some(1), "{}", report["doctor"]);
    let is_found = |it: &Value| it["cause"] == "error_responses";
    let is_stated = report["doctor"]["faults"].as_array().is_some_and(|all| {
        all.iter().any(|it| it["kind"] == "status" && it.to_string().contains("500 × "))
    });
    let findings = report["findings"].as_array().expect("findings");
    assert!(is_stated || findings.iter().any(is_found), "{}", report["doctor"]);
}

#[test]
fn a_port_without_tls_gets_a_sentence_without_numbers_of_the_system() {
    let server = serve_with(|_| ());
    let (report, _) = report(&[&format!("https://{server}/"), "--timeout", "300ms"]);
    let verdict = report["doctor"]["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains(&format!("it may speak no TLS; try http://{server}")), "{verdict}");
    assert!(!report.to_string().contains("os error"), "{report}");
}

#[test]
fn a_server_of_http2_alone_is_told_from_one_that_resets() {
    let server = serve_with(|stream| {
        // Unread bytes make the close a RST.
        let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    let (report, status) = report(&[&format!("http://{server}/")]);
    let verdict = report["doctor"]["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("speaks HTTP/2 and does not answer HTTP/1.1"), "{verdict}");
    assert_eq!((status, &report["findings"]), (Some(2), &json!([])), "{report}");
}

#[test]
fn a_word_that_is_meant_as_a_server_gets_its_form() {
    for (word, part) in [
        ("example.org", "tcpwhy http://example.org/"),
        ("127.0.0.1:99999", "`99999` is no port"),
        ("::1:80", "write [::1]:80"),
        ("http:/x", "tcpwhy http://x"),
    ] {
        let output = tcpwhy(&[word]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

/// Examines `http://two.test:PORT/` where the name has two addresses, 127.0.0.1 before 127.0.0.2;
/// `None` without root.
fn of_two_addresses(port: u16) -> Option<(Value, Option<i32>)> {
    if !tcpwhy_testing::privileged("mounting /etc/hosts") {
        return None;
    }
    let folder = tcpwhy_testing::Folder::passable();
    let hosts = folder.join("hosts");
    std::fs::write(&hosts, "127.0.0.1 two.test\n127.0.0.2 two.test\n").expect("a file");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""]);
    command.arg(&hosts).arg(env!("CARGO_BIN_EXE_tcpwhy"));
    command.arg(format!("http://two.test:{port}/"));
    command.args(["--json", "--no-load", "--no-experiments", "--timeout", "1500ms"]);
    let output = command.output().expect("it runs");
    Some((report_of(&output).0, output.status.code()))
}

/// A healthy server at 127.0.0.2 alone.
fn at_the_second_address() -> u16 {
    let server = healthy();
    let listener = TcpListener::bind("127.0.0.2:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(server).expect("the server");
            for (mut from, mut to) in [
                (client.try_clone().expect("a socket"), server.try_clone().expect("a socket")),
                (server, client),
            ] {
                to.set_nodelay(true).expect("an option");
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    port
}

#[test]
fn a_silent_first_address_is_a_fault_and_the_second_is_measured() {
    let port = at_the_second_address();
    // A full accept queue drops SYNs.
    let full = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    rustix::net::listen(&full, 0).expect("a short queue");
    let _queued = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let Some((report, status)) = of_two_addresses(port) else { return };
    let doctor = &report["doctor"];
    assert_eq!((status, &doctor["address"]), (Some(1), &format!("127.0.0.2:{port}").into()));
    let attempts: Vec<_> =
        doctor["addresses"].as_array().into_iter().flatten().map(|it| &it["attempt"]).collect();
    assert_eq!(attempts, ["silent", "connected"]);
    assert_eq!(doctor["statuses"]["200"], 15);
    let fault = &doctor["faults"][0];
    let headline = fault["headline"].as_str().unwrap_or_default();
    assert_eq!(fault["kind"], "address");
    assert!(headline.contains(&format!("127.0.0.1:{port} does not answer")), "{headline}");
    assert!(headline.contains("(RFC 8305) lose 250 ms"), "{headline}");
}

#[test]
fn a_first_address_of_loopback_that_refuses_is_mentioned() {
    let port = at_the_second_address();
    let Some((report, status)) = of_two_addresses(port) else { return };
    let doctor = &report["doctor"];
    assert_eq!((status, &doctor["faults"]), (Some(0), &json!([])), "{doctor}");
    assert_eq!(doctor["address"], format!("127.0.0.2:{port}"));
    let note = doctor["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("refuses connections, while 127.0.0.2:"), "{note}");
}

#[test]
fn a_small_receive_buffer_of_this_host_is_shown_by_a_larger_one() {
    if !tcpwhy_testing::privileged("a network namespace") {
        return;
    }
    let netns = tcpwhy_lab::netns::Netns::create("client").expect("a namespace");
    netns.ip("link set lo mtu 1500").expect("a device");
    netns.sysctl("net.ipv4.tcp_rmem", "4096 8192 8192").expect("a setting");
    let body = vec![b'x'; 400_000];
    let server = netns.inside(|| {
        serve_with(move |stream| {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n";
            let _ = stream.write_all(&[&head[..], &body].concat());
        })
    });
    let url = format!("http://{}/", server.expect("the namespace"));
    tcpwhy_testing::undisturbed(|| {
        let mut command = netns.command(env!("CARGO_BIN_EXE_tcpwhy"));
        command.args([&url, "--json", "--no-load", "--no-path", "--experiment", "rcvbuf"]);
        let (report, _) = report_of(&command.output().expect("it runs"));
        let made = &report["experiments"][0];
        assert_eq!((&made["experiment"], &made["verdict"]), (&"rcvbuf".into(), &"supports".into()));
        let findings = report["findings"].as_array().expect("findings").iter();
        let found: Vec<_> = findings.map(|it| (&it["cause"], &it["culprit"]["role"])).collect();
        assert!(found.contains(&(&"receive_window".into(), &"client".into())), "{found:?}");
    });
}

#[test]
fn a_server_that_opens_no_websocket_is_a_fault() {
    let url = format!("ws://{}/chat", healthy());
    let (report, status) = report(&[&url, "--no-experiments", "--no-load"]);
    let fault = &report["doctor"]["faults"][0];
    assert_eq!((status, &fault["kind"]), (Some(1), &"upgrade".into()), "{fault}");
    let headline = fault["headline"].as_str().unwrap_or_default();
    assert!(headline.contains("with status 200, and not with 101"), "{headline}");
}

#[test]
fn a_server_that_fails_every_second_request_does_not_merely_close() {
    let asked = Arc::new(AtomicU32::new(0));
    let fails = serve_with(move |stream| {
        let _ = match asked.fetch_add(1, Ordering::SeqCst) % 2 {
            0 => stream.write_all(&[HEAD, b"hello"].concat()),
            _ => stream.shutdown(std::net::Shutdown::Both),
        };
    });
    let closes = serve_with(|stream| {
        let _ = stream.write_all(&[HEAD, b"hello"].concat());
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    // The first connection ends while the second request is on its way.
    let asked = Arc::new(AtomicU32::new(0));
    let meets = serve_with(move |stream| {
        let number = asked.fetch_add(1, Ordering::SeqCst);
        if number != 1 {
            let _ = stream.write_all(&[HEAD, b"hello"].concat());
        }
        if number > 0 {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    for (server, is_close) in [(fails, false), (closes, true), (meets, true)] {
        let words = [&format!("http://{server}/"), "--no-experiments", "--no-load"];
        let (report, status) = report(&words);
        let kinds: Vec<_> = report["doctor"]["faults"].as_array().into_iter().flatten().collect();
        let closes = kinds.iter().any(|it| it["kind"] == "close");
        let findings = report["findings"].as_array().expect("findings");
        let fails = findings.iter().any(|it| it["cause"] == "no_answer" || it["cause"] == "reset");
        assert_eq!((status, closes, fails), (Some(1), is_close, !is_close), "{report}");
    }
}
