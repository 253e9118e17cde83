//! A load in HTTP/2 against servers that are written frame by frame.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tcpwhy_probe::Target;
use tcpwhy_probe::http::HttpVersions;
use tcpwhy_probe::load::{self, FailureKind, LoadOutcome, Pace, Plan};
use tcpwhy_probe::tls::TlsOptions;
use tcpwhy_testing::http2::{GOAWAY, RST_STREAM, frame, ok, serve};

fn plan(address: SocketAddr, streams: usize, requests: u64) -> Plan {
    let target = Target::parse(&format!("http://{address}/")).unwrap();
    Plan {
        connections: 2,
        streams,
        requests: Some(requests),
        tls: TlsOptions { versions: HttpVersions::Http2, ..TlsOptions::default() },
        ..Plan::new(target, vec![address])
    }
}

fn run(plan: &Plan) -> LoadOutcome {
    load::run(plan, &AtomicBool::new(false), |_| {}).unwrap()
}

#[test]
fn exactly_the_number_of_requests_is_sent_on_streams() {
    let (address, counts) = serve(100, |id, _| ok(id));
    let outcome = run(&plan(address, 7, 101));
    assert_eq!((outcome.sent, outcome.requests), (101, 101), "{:?}", outcome.samples);
    assert_eq!((outcome.latency.count(), outcome.first_byte.count()), (101, 101));
    assert_eq!(outcome.bytes, 101 * 10);
    assert_eq!(counts.each_ref().map(|it| it.load(Ordering::SeqCst)), [2, 101]);
}

#[test]
fn requests_above_the_servers_limit_of_streams_wait_and_are_all_answered() {
    let (address, _) = serve(1, |id, _| {
        thread::sleep(Duration::from_millis(2));
        ok(id)
    });
    let outcome = run(&plan(address, 20, 60));
    assert_eq!((outcome.requests, outcome.error_count()), (60, 0), "{:?}", outcome.samples);
    // The wait for a stream is part of the latency: 20 wait for the answers before them.
    assert!(outcome.latency.max().ns > 20_000_000, "{:?}", outcome.latency.max());
}

/// nginx ends a connection so after 1,000 requests.
#[test]
fn requests_that_a_goaway_leaves_unprocessed_are_sent_again() {
    let (address, counts) = serve(100, |id, number| match number {
        1..10 => ok(id),
        10 => [frame(GOAWAY, 0, 0, &[&id.to_be_bytes()[..], &[0; 4]].concat()), ok(id)].concat(),
        _ => Vec::new(),
    });
    let outcome = run(&plan(address, 4, 100));
    assert_eq!((outcome.requests, outcome.error_count()), (100, 0), "{:?}", outcome.samples);
    assert!(counts[0].load(Ordering::SeqCst) >= 10, "{counts:?}");
}

#[test]
fn a_goaway_before_the_first_answer_ends_the_load() {
    let (address, _) = serve(100, |_, _| frame(GOAWAY, 0, 0, &[0; 8]));
    let outcome = run(&plan(address, 2, 20));
    // It ends before all are sent: four connections in a row brought nothing.
    let left = outcome.errors.get(&FailureKind::Stream);
    assert!(outcome.requests == 0 && left.is_some_and(|&left| left < 20), "{left:?}");
}

#[test]
fn resets_and_late_answers_concern_their_stream_alone() {
    let (address, counts) = serve(100, |id, number| match number % 3 {
        0 => frame(RST_STREAM, 0, id, &[0, 0, 0, 2]),
        1 => Vec::new(),
        _ => ok(id),
    });
    let timeout = Duration::from_millis(200);
    let outcome = run(&Plan { timeout, connections: 1, ..plan(address, 3, 30) });
    let failed = |kind| outcome.errors.get(&kind).copied();
    assert_eq!((outcome.requests, outcome.latency.count()), (10, 30), "{:?}", outcome.samples);
    assert_eq!(failed(FailureKind::Stream), Some(10));
    assert_eq!(failed(FailureKind::Timeout), Some(10));
    assert_eq!(counts[0].load(Ordering::SeqCst), 1, "the connection goes on");
}

#[test]
fn a_rate_and_a_connection_for_each_request_work_with_streams() {
    let (address, counts) = serve(100, |id, _| ok(id));
    let outcome = run(&Plan { pace: Pace::PerSecond(500.0), ..plan(address, 3, 50) });
    assert_eq!((outcome.requests, outcome.planned), (50, 50), "{:?}", outcome.samples);
    let before = counts[0].load(Ordering::SeqCst);
    let outcome = run(&Plan { new_connections: true, ..plan(address, 3, 50) });
    assert_eq!(outcome.requests, 50, "{:?}", outcome.samples);
    assert_eq!(counts[0].load(Ordering::SeqCst) - before, 50);
}

#[test]
fn a_server_of_http1_is_a_sentence() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let outcome = run(&Plan { connections: 1, ..plan(address, 1, 1) });
    let words = &outcome.samples[&FailureKind::HttpVersion];
    assert!(words.contains("answers in HTTP/1"), "{words}");
}
