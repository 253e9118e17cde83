//! `tcpwhy load` at servers that end each connection before they answer: the load ends, and says why.

use super::{tcpwhy, validated};
use crate::doctor::http2::nginx;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_testing::http2::{RST_STREAM, frame, ok, serve};

/// Greatest number of connections of a load of ten that is never answered: each is opened again once at
/// once, and then after a pause of 100 ms, for a second on a busy machine.
const CONNECTIONS_MAX: u64 = 2 * 10 + 10 * 10;

/// A server that treats each connection, whose number counts from 1, as `treat` does, and closes it
/// then.
fn closing(treat: impl Fn(u64, &mut TcpStream) + Send + 'static) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let accepted = Arc::new(AtomicU64::new(0));
    let counted = accepted.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            treat(counted.fetch_add(1, Ordering::SeqCst) + 1, &mut stream);
        }
    });
    (url, accepted)
}

fn words(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs a load of ten seconds that has to end long before; returns its JSON.
fn ended(arguments: &[&str]) -> Value {
    let began = Instant::now();
    let all = [arguments, &["-d", "10s", "--json", "--no-explain"]].concat();
    let out = tcpwhy(&all);
    let document = validated(&out);
    assert!(began.elapsed() < Duration::from_secs(5), "{document}");
    assert_eq!(out.status.code(), Some(2), "{document}");
    assert_eq!(document["ended"]["reason"], "unanswered", "{document}");
    document
}

#[test]
fn a_server_that_ends_each_connection_is_left_alone() {
    for (reads, resets) in [(true, false), (false, false), (true, true), (false, true)] {
        for more in [&[][..], &["--rate", "2000"], &["--new-connections"], &["--threads", "2"]] {
            let (url, accepted) = closing(move |_, stream| {
                if reads {
                    let _ = stream.read(&mut [0; 4096]);
                }
                if resets {
                    let socket = socket2::SockRef::from(&*stream);
                    socket.set_linger(Some(Duration::ZERO)).expect("an option");
                }
            });
            ended(&[&[&*url][..], more].concat());
            let accepted = accepted.load(Ordering::SeqCst);
            assert!(accepted <= CONNECTIONS_MAX, "{more:?}: {accepted} connections");
        }
    }
}

#[test]
fn idle_connections_that_a_server_closes_are_opened_again_after_a_pause() {
    let (url, accepted) = closing(|_, _| ());
    tcpwhy(&[&url, "--rate", "0.1", "-c", "2", "-d", "1s", "--no-explain"]);
    // Two connections, ten times a second.
    let accepted = accepted.load(Ordering::SeqCst);
    assert!(accepted <= 2 * 12, "{accepted} connections");
}

#[test]
fn a_server_of_another_version_is_named_with_the_option_that_speaks_it() {
    let Some(nginx) = nginx() else { return };
    let of_http2 = format!("http://127.0.0.1:{}/", nginx.plain);
    let bad = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (of_http1, accepted) = closing(move |_, stream| {
        let _ = stream.write_all(bad);
        thread::sleep(Duration::from_millis(1));
    });
    for (url, asked, other) in
        [(&of_http2, "--http1.1", "--http2"), (&of_http1, "--http2", "--http1.1")]
    {
        let document = ended(&[url, asked]);
        assert!(document["errors"]["http_version"].as_u64() > Some(0), "{document}");
        let text = words(&tcpwhy(&[url, asked, "--no-explain"]).stdout);
        assert!(text.contains(&format!("tcpwhy load {other} {url}")), "{text}");
        assert!(text.contains("so the load has ended"), "{text}");
    }
    let accepted = accepted.load(Ordering::SeqCst);
    assert!(accepted <= 2 * CONNECTIONS_MAX, "{accepted} connections");
}

#[test]
fn a_server_that_resets_each_stream_is_left_alone() {
    let (server, counts) = serve(100, |id, _| frame(RST_STREAM, 0, id, &[0, 0, 0, 13]));
    let url = format!("http://{server}/");
    ended(&[&url, "--http2", "--streams", "5"]);
    let requests = counts[1].load(Ordering::SeqCst);
    assert!(requests <= 5 * CONNECTIONS_MAX, "{requests} requests");
}

#[test]
fn a_server_that_answers_every_second_request_is_measured_to_the_end() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (url, _) = closing(move |number, stream| {
        let _ = stream.read(&mut [0; 4096]);
        if number % 2 == 0 {
            let _ = stream.write_all(answer);
        }
    });
    let out = tcpwhy(&[&url, "-c", "1", "-n", "100", "--json", "--no-explain"]);
    let document = validated(&out);
    assert_eq!((&document["ended"], out.status.code()), (&Value::Null, Some(1)), "{document}");
    assert_eq!((&document["requests"], &document["sent"]), (&50.into(), &100.into()), "{document}");
    let (server, _) =
        serve(100, |id, n| if n % 2 == 1 { ok(id) } else { frame(RST_STREAM, 0, id, &[0; 4]) });
    let url = format!("http://{server}/");
    let out = tcpwhy(&[&url, "--http2", "-c", "1", "-n", "100", "--json", "--no-explain"]);
    let document = validated(&out);
    assert_eq!((&document["ended"], &document["requests"]), (&Value::Null, &50.into()));
}
