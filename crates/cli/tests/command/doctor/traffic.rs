//! An examination never sends more than it announced, counted at the server.

use super::report_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Small,
    /// So many bytes.
    Body(usize),
    Status(u16),
    /// After 50 ms, so that a busy machine does not triple it.
    Slow,
    /// The connection ends with each answer.
    Closing,
    /// As slowly, and with status 500 from this request on.
    FailingFrom(u64),
    /// As slowly, and from this request on the connection ends without an answer.
    BreakingFrom(u64),
    /// One request after the other, each in 30 ms, whatever its connection.
    InTurn,
    Never,
    Garbage,
}

/// An answer that is longer than any budget.
const HUGE: Behaviour = Behaviour::Body(100_000_000);

/// Counts of the server.
#[derive(Default)]
struct Counted {
    requests: AtomicU64,
    bytes: AtomicU64,
    connections: AtomicU64,
    connections_at_once: AtomicU64,
    turn: Mutex<()>,
}

impl Counted {
    fn count(&self, more: &AtomicU64, by: usize) -> u64 {
        more.fetch_add(by as u64, Ordering::Relaxed) + by as u64
    }

    fn get(&self, of: &AtomicU64) -> u64 {
        of.load(Ordering::Relaxed)
    }
}

/// Starts a server on loopback.
fn serve(behaviour: Behaviour) -> (SocketAddr, Arc<Counted>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let counted = Arc::new(Counted::default());
    let counts = counted.clone();
    thread::spawn(move || {
        let mut open: Vec<TcpStream> = Vec::new();
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            // A client's FIN comes before the SYN of its next connection.
            open.retain(|it| !is_closed(it));
            open.push(stream.try_clone().expect("a descriptor"));
            counts.count(&counts.connections, 1);
            counts.connections_at_once.fetch_max(open.len() as u64, Ordering::Relaxed);
            let counts = counts.clone();
            thread::spawn(move || converse(stream, behaviour, &counts));
        }
    });
    (at, counted)
}

fn is_closed(stream: &TcpStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
    poll(&mut polled, Some(&Timespec::default())).expect("a state");
    !polled[0].revents().is_empty()
}

/// Answers the requests of a connection until its client leaves.
fn converse(mut stream: TcpStream, behaviour: Behaviour, counts: &Counted) {
    stream.set_nodelay(true).expect("an option");
    // Bytes in this buffer were not sent yet, and count nevertheless.
    socket2::SockRef::from(&stream).set_send_buffer_size(16 << 10).expect("an option");
    let (mut head, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        counts.count(&counts.bytes, read);
        head.extend_from_slice(&bytes[..read]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        head.clear();
        let number = counts.count(&counts.requests, 1);
        if !answer(&mut stream, behaviour, number, counts) {
            break;
        }
    }
    // The thread that counts connections has another descriptor of it.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Answers a request; returns whether the connection goes on.
fn answer(stream: &mut TcpStream, behaviour: Behaviour, number: u64, counts: &Counted) -> bool {
    let mut send = |bytes: &[u8]| -> bool {
        let mut left = bytes;
        while !left.is_empty() {
            match stream.write(left) {
                Ok(sent @ 1..) => {
                    counts.count(&counts.bytes, sent);
                    left = &left[sent..];
                }
                _ => return false,
            }
        }
        true
    };
    let with = |status: u16, fields: &str| {
        format!("HTTP/1.1 {status} As asked\r\n{fields}Content-Length: 5\r\n\r\nhello").into_bytes()
    };
    let usual = with(200, "");
    match behaviour {
        Behaviour::FailingFrom(from) if number >= from => send(&with(500, "")),
        Behaviour::BreakingFrom(from) if number >= from => false,
        Behaviour::Small => send(&usual),
        Behaviour::Body(length) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            send(head.as_bytes()) && (0..length / 10_000).all(|_| send(&[b'x'; 10_000]))
        }
        Behaviour::Status(status) => send(&with(status, "Location: /elsewhere\r\n")),
        Behaviour::Slow | Behaviour::FailingFrom(_) | Behaviour::BreakingFrom(_) => {
            thread::sleep(Duration::from_millis(50));
            send(&usual)
        }
        Behaviour::Closing => {
            send(&with(200, "Connection: close\r\n"));
            false
        }
        Behaviour::InTurn => {
            let turn = counts.turn.lock().expect("no panic");
            thread::sleep(Duration::from_millis(30));
            drop(turn);
            send(&usual)
        }
        Behaviour::Never => true,
        Behaviour::Garbage => send(b"SSH-2.0-OpenSSH_9.2\r\n"),
    }
}

/// Examines a server of this behaviour; checks the announced budget against what was counted.
fn examine(behaviour: Behaviour, words: &[&str]) -> (Value, Arc<Counted>) {
    let (at, counted) = serve(behaviour);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args([&format!("http://{at}/"), "--json", "--no-progress", "--timeout", "1s"]);
    let output = command.args(words).output().expect("tcpwhy runs");
    let (report, said) = report_of(&output);
    let doctor = &report["doctor"];
    let (most, sent) = (&doctor["budget"], &doctor["sent"]);
    let number = |of: &Value, field: &str| of[field].as_u64().unwrap_or(u64::MAX);
    for (field, count) in [
        ("requests", &counted.requests),
        ("connections", &counted.connections),
        ("connections_at_once", &counted.connections_at_once),
        ("bytes", &counted.bytes),
    ] {
        let (count, sent, most) = (counted.get(count), number(sent, field), number(most, field));
        assert!(count <= most, "{behaviour:?}: {count} {field} of {most}: {said}");
        assert!(sent <= most, "{behaviour:?}: {sent} {field} sent of {most}: {said}");
    }
    // Each request was sent, and some may not have arrived when a connection ended.
    let (requests, sent) = (counted.get(&counted.requests), number(sent, "requests"));
    assert!(requests <= sent, "{behaviour:?}: {requests} of {sent} requests counted");
    // The announcement comes first, and with --no-progress nothing else is said.
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].starts_with("tcpwhy: http://") && lines[0].contains(" at most "), "{said}");
    if let Some(requests) = most["requests"].as_u64() {
        let requests = tcpwhy_core::model::units::count(requests);
        assert!(said.contains(&format!(" at most {requests} GET requests")), "{said}");
    }
    (report, counted)
}

/// The reason for which a step was left out.
fn skipped(report: &Value, step: &str) -> Option<String> {
    let steps = report["doctor"]["steps"].as_array().expect("steps");
    let step = steps.iter().find(|it| it["step"] == step && it["outcome"] == "skipped")?;
    Some(step["what"].as_str().expect("a reason").to_owned())
}

#[test]
fn no_server_gets_more_than_the_announced_budget() {
    use Behaviour::*;
    let all =
        [Small, HUGE, Slow, Closing, FailingFrom(60), BreakingFrom(60), InTurn, Never, Garbage];
    for behaviours in all.chunks(3) {
        thread::scope(|scope| {
            for &behaviour in behaviours {
                scope.spawn(move || {
                    let (report, _) = examine(behaviour, &[]);
                    let most = &report["doctor"]["budget"];
                    assert_eq!(most["connections_at_once"], 10);
                    assert!(most["requests"].as_u64() <= Some(1_500), "{most}");
                    assert!(most["bytes"].as_u64() <= Some(64 << 20), "{most}");
                });
            }
        });
    }
}

#[test]
fn answers_that_are_not_2xx_are_followed_by_no_load() {
    for status in [301, 404, 500] {
        let (report, counted) = examine(Behaviour::Status(status), &["--no-experiments"]);
        assert_eq!(report["doctor"]["loads"], serde_json::json!([]), "{status}");
        let why = skipped(&report, "load").expect("it is left out");
        assert!(why.contains(&format!("status {status}")), "{why}");
        // A redirect is followed, and leads to itself.
        assert!(counted.get(&counted.requests) <= 15 + 2);
    }
}

#[test]
fn a_server_that_asks_for_fewer_requests_gets_one() {
    for status in [429, 503] {
        let (report, counted) = examine(Behaviour::Status(status), &[]);
        assert_eq!(counted.get(&counted.requests), 1, "{status}");
        let why = skipped(&report, "experiments").expect("they are left out");
        assert!(why.contains(&format!("status {status}")), "{why}");
        assert!(skipped(&report, "load").is_some_and(|it| it.contains(&status.to_string())));
    }
}

#[test]
fn a_load_ends_at_the_first_failure() {
    for (behaviour, reason) in
        [(Behaviour::FailingFrom(60), "status"), (Behaviour::BreakingFrom(60), "failure")]
    {
        // With --load the latency of a busy machine does not end it before.
        let (report, counted) = examine(behaviour, &["--no-experiments", "--load=10"]);
        let load = &report["doctor"]["loads"][0];
        assert_eq!(load["stopped"]["reason"], reason, "{load}");
        // The ten that were under way, and no further one.
        assert!(counted.get(&counted.requests) < 60 + 10, "{load}");
    }
}

#[test]
fn a_load_ends_when_latency_has_tripled() {
    let (report, counted) = examine(Behaviour::InTurn, &["--no-experiments"]);
    let load = &report["doctor"]["loads"][0];
    assert_eq!(load["stopped"]["reason"], "latency", "{load}");
    assert!(load["stopped"]["why"].as_str().is_some_and(|it| it.contains("longer than")), "{load}");
    // In two seconds it could have answered 66, after the 15 alone.
    assert!(counted.get(&counted.requests) < 50, "{load}");
}

#[test]
fn a_server_that_begins_to_refuse_in_an_experiment_gets_nothing_more() {
    let words = ["--experiment", "connection,quickack"];
    let (report, counted) = examine(Behaviour::FailingFrom(20), &words);
    // On a busy machine pairs of trials run at the same time, as for a slow server.
    assert!(counted.get(&counted.requests) < 30);
    assert!(skipped(&report, "load").is_some_and(|it| it.contains("status 500")));
}

#[test]
fn an_answer_larger_than_the_budget_is_left_with_the_reason() {
    let (report, counted) = examine(HUGE, &[]);
    let verdict = report["doctor"]["verdict"].as_str().expect("a verdict");
    assert!(verdict.contains("does not end its answer within the budget of "), "{verdict}");
    // The parts for experiments and the load are left.
    let most = report["doctor"]["budget"]["bytes"].as_u64().expect("a limit");
    assert!(counted.get(&counted.bytes) < most / 4 * 3, "{most}");
    assert_eq!(counted.get(&counted.requests), 1);
}

#[test]
fn what_does_not_fit_the_budget_is_not_begun() {
    let (report, counted) = examine(Behaviour::Body(1_000_000), &[]);
    assert!((2..=15).contains(&counted.get(&counted.requests)), "alone it is repeated");
    for step in ["quickack", "connection", "load"] {
        let why = skipped(&report, step).expect("it is left out");
        assert!(why.contains("it would exceed the budget"), "{step}: {why}");
    }
}

#[test]
fn more_load_is_sent_only_when_asked_for() {
    let words = ["--no-experiments", "--load=20", "--load-seconds", "1"];
    for behaviour in [Behaviour::Small, Behaviour::Status(404)] {
        let (report, counted) = examine(behaviour, &words);
        let doctor = &report["doctor"];
        let sizes: Vec<_> = doctor["loads"].as_array().into_iter().flatten().collect();
        let sizes: Vec<_> = sizes.iter().map(|it| it["connections"].as_u64()).collect();
        assert_eq!(sizes, [Some(10), Some(20)], "{doctor}");
        assert_eq!(doctor["budget"]["requests"], Value::Null);
        assert_eq!(doctor["budget"]["connections_at_once"], 20);
        assert_eq!(counted.get(&counted.connections_at_once), 20);
    }
}
