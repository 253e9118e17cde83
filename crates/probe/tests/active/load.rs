//! The load generator against real servers in threads of this process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tcpwhy_probe::Target;
use tcpwhy_probe::budget::{Budget, Exceeded, Limits, NO_LIMIT};
use tcpwhy_probe::load::{self, End, FailureKind, LoadOutcome, Pace, Plan, PlanError};
use tcpwhy_testing::undisturbed;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nContent-Length: 5\r\n\r\nhello";

/// A server that hands each connection to `serve` on a thread of its own; answers its address and the number
/// of connections that it took.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, taken) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let (serve, count) = (Arc::new(serve), taken.clone());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    (address, taken)
}

/// Reads a request without a body; `false` where the connection has ended.
fn request(stream: &mut impl Read) -> bool {
    let (mut seen, mut byte) = (Vec::new(), [0u8; 1024]);
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(read) if read > 0 => seen.extend_from_slice(&byte[..read]),
            _ => return false,
        }
    }
    true
}

/// Answers each request with `answer`, and closes after it where it ends the connection.
fn answering(answer: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync + 'static {
    move |mut stream| {
        while request(&mut stream) {
            if stream.write_all(answer).is_err() || answer.windows(5).any(|it| it == b"close") {
                return;
            }
        }
    }
}

fn plan(address: SocketAddr) -> Plan {
    let target = Target::parse(&format!("http://{address}/")).unwrap();
    Plan { connections: 2, timeout: Duration::from_secs(10), ..Plan::new(target, vec![address]) }
}

fn run(plan: &Plan) -> LoadOutcome {
    load::run(plan, &AtomicBool::new(false), |_| {}).unwrap()
}

fn errors(outcome: &LoadOutcome) -> Vec<FailureKind> {
    outcome.errors.keys().copied().collect()
}

#[test]
fn exactly_the_number_of_requests_that_was_asked_for_is_sent() {
    let served = Arc::new(AtomicU64::new(0));
    let count = served.clone();
    let (address, taken) = server(move |mut stream| {
        while request(&mut stream) {
            count.fetch_add(1, Ordering::SeqCst);
            stream.write_all(OK).unwrap();
        }
    });
    let plan = Plan { requests: Some(101), duration: None, threads: Some(2), ..plan(address) };
    let outcome = run(&plan);
    assert_eq!((outcome.sent, outcome.requests, outcome.planned), (101, 101, 101));
    assert_eq!(served.load(Ordering::SeqCst), 101);
    assert_eq!(taken.load(Ordering::SeqCst), 2);
    assert_eq!((outcome.latency.count(), outcome.connect.count()), (101, 2));
    assert_eq!(outcome.bytes, 101 * OK.len() as u64);
    assert_eq!(outcome.statuses.get(&200), Some(&101));
    assert_eq!(outcome.server.as_deref(), Some("nginx/1.22.1"));
    assert_eq!(outcome.error_count(), 0, "{:?}", outcome.samples);
}

#[test]
fn spaced_requests_are_spread_over_the_time_of_a_load() {
    let (address, _) = server(answering(OK));
    let spacing = Duration::from_millis(20);
    let plan = Plan { requests: Some(40), spacing, ..plan(address) };
    let outcome = run(&plan);
    assert_eq!((outcome.sent, outcome.requests), (40, 40), "{:?}", outcome.samples);
    // Twenty on each of two connections.
    assert!(outcome.elapsed_ns >= 19 * 20_000_000, "{}", outcome.elapsed_ns);
    assert_eq!(outcome.ended, None);
}

#[test]
fn a_budget_ends_a_load_and_is_no_failure_of_the_server() {
    let (address, taken) = server(answering(OK));
    let limits = Limits { requests: 30, connections: 2, connections_at_once: 2, bytes: NO_LIMIT };
    let outcome = run(&Plan { budget: Budget::new(limits), ..plan(address) });
    assert_eq!(outcome.ended, Some(End::Budget(Exceeded::Requests(30))));
    assert_eq!((outcome.sent, outcome.requests, outcome.error_count()), (30, 30, 0));
    assert_eq!(taken.load(Ordering::SeqCst), 2);
}

#[test]
fn answers_are_framed_by_length_chunks_or_the_end_of_the_connection() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nX: close\r\n\r\na",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ] {
        let (address, _) = server(answering(answer));
        let outcome = run(&Plan { requests: Some(20), duration: None, ..plan(address) });
        assert_eq!(outcome.requests, 20, "{:?}", outcome.samples);
        assert_eq!(outcome.error_count(), 0, "{:?}", outcome.samples);
    }
}

#[test]
fn each_request_has_its_own_connection_where_that_is_asked_for() {
    let (address, taken) =
        server(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
    let plan = Plan { requests: Some(30), new_connections: true, ..plan(address) };
    let outcome = run(&plan);
    assert_eq!((outcome.requests, outcome.connect.count()), (30, 30));
    assert_eq!(taken.load(Ordering::SeqCst), 30);
    assert!(outcome.latency.min_ns() >= outcome.connect.min_ns());
}

#[test]
fn failures_are_counted_by_kind() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = run(&plan(closed));
    assert_eq!(errors(&outcome), [FailureKind::ConnectRefused]);
    assert_eq!(outcome.requests, 0);
    assert!(outcome.elapsed_ns < 9_000_000_000, "it gives up where nothing ever connects");

    for (answer, kind) in [
        (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], FailureKind::BadResponse),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", FailureKind::Http4xx),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", FailureKind::Http5xx),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX: close\r\n\r\nhal", FailureKind::Read),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", FailureKind::Timeout),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", FailureKind::BadResponse),
    ] {
        let (address, _) = server(answering(answer));
        // Any other failure is there long before this time.
        let timeout =
            Duration::from_millis(if kind == FailureKind::Timeout { 200 } else { 10_000 });
        let outcome = run(&Plan { requests: Some(4), duration: None, timeout, ..plan(address) });
        assert_eq!(errors(&outcome), [kind], "{:?}", outcome.samples);
        assert_eq!(outcome.errors[&kind], 4, "{:?}", outcome.samples);
    }
}

#[test]
fn an_endless_body_ends_with_the_timeout() {
    let (address, _) = server(|mut stream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
    });
    let timeout = Duration::from_secs(1);
    let plan = Plan { requests: Some(1), duration: None, connections: 1, timeout, ..plan(address) };
    let outcome = run(&plan);
    assert_eq!(errors(&outcome), [FailureKind::Timeout]);
    assert!(outcome.samples[&FailureKind::Timeout].contains("did not end"));
}

#[test]
fn a_redirect_is_reported_and_not_followed() {
    let (address, taken) =
        server(answering(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"));
    let outcome = run(&Plan { requests: Some(4), duration: None, ..plan(address) });
    assert_eq!((outcome.location.as_deref(), outcome.error_count()), (Some("/x"), 0));
    assert_eq!(outcome.statuses.get(&302), Some(&4));
    assert_eq!(taken.load(Ordering::SeqCst), 2);
}

/// A server of one connection at a time that stalls for a while once.
fn stalling(stall: Duration) -> SocketAddr {
    let began = Instant::now();
    let has_stalled = AtomicBool::new(false);
    server(move |mut stream| {
        while request(&mut stream) {
            if began.elapsed() > stall && !has_stalled.swap(true, Ordering::SeqCst) {
                thread::sleep(stall);
            }
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    })
    .0
}

/// Requests that a stall of 500 ms keeps from being sent waited for it, too: with 200 of them a second some
/// hundred wait, 250 ms on average. A closed loop sees one slow request.
#[test]
fn an_open_loop_counts_latency_from_the_planned_time() {
    let stall = Duration::from_millis(500);
    let base = |pace| Plan {
        connections: 1,
        pace,
        duration: Some(Duration::from_secs(2)),
        ..plan(stalling(stall))
    };
    undisturbed(|| {
        let open = run(&base(Pace::PerSecond(200.0)));
        assert_eq!(open.planned, 400, "{:?}", open.errors);
        assert!(open.requests >= 300, "{} of 400 answered", open.requests);
        let p90_ns = open.latency.quantile(0.9).ns;
        assert!(p90_ns >= 200_000_000, "{p90_ns} ns");
        assert!(open.latency.max().ns >= 490_000_000);

        let closed = run(&base(Pace::Closed));
        assert!(closed.latency.max().ns >= 490_000_000);
        assert!(closed.latency.quantile(0.9).ns < p90_ns / 2, "one of many was slow");
    });
}

/// Answers 49 of 50 requests at once and the others after this time.
fn with_a_tail(delay: Duration) -> SocketAddr {
    let count = AtomicU64::new(0);
    server(move |mut stream| {
        while request(&mut stream) {
            if count.fetch_add(1, Ordering::SeqCst) % 50 == 49 {
                thread::sleep(delay);
            }
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    })
    .0
}

#[test]
fn requests_that_time_out_count_at_the_timeout() {
    let address = with_a_tail(Duration::from_secs(5));
    let timeout = Duration::from_millis(300);
    let outcome = run(&Plan { requests: Some(200), duration: None, timeout, ..plan(address) });
    assert_eq!(outcome.errors.get(&FailureKind::Timeout), Some(&4), "{:?}", outcome.samples);
    assert_eq!((outcome.latency.count(), outcome.latency.unanswered()), (200, 4));
    let p99 = outcome.latency.quantile(0.99);
    assert!(p99.at_least && p99.ns >= 300_000_000, "{p99:?}");
    assert!(!outcome.latency.quantile(0.5).at_least);
}

#[test]
fn a_closed_loop_waits_for_the_answers_to_what_it_sent() {
    let (address, _) = server(|mut stream| {
        while request(&mut stream) {
            thread::sleep(Duration::from_millis(700));
            let _ = stream.write_all(OK);
        }
    });
    let duration = Some(Duration::from_millis(200));
    let outcome = run(&Plan { duration, ..plan(address) });
    assert_eq!((outcome.sent, outcome.requests, outcome.unanswered), (2, 2, 0));
    let p50 = outcome.latency.quantile(0.5);
    assert!(!p50.at_least && p50.ns >= 690_000_000, "{p50:?}");
}

#[test]
fn a_load_without_an_answer_has_the_age_of_its_requests() {
    let (address, _) = server(|mut stream| {
        request(&mut stream);
        thread::sleep(Duration::from_secs(60));
    });
    let stop = Arc::new(AtomicBool::new(false));
    let stops = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        stops.store(true, Ordering::SeqCst);
    });
    let outcome = load::run(&plan(address), &stop, |_| {}).unwrap();
    assert_eq!((outcome.requests, outcome.unanswered), (0, 2));
    let p50 = outcome.latency.quantile(0.5);
    assert!(p50.at_least && p50.ns >= 400_000_000, "{p50:?}");
}

#[test]
fn a_load_ends_where_the_server_asks_for_fewer_requests() {
    const FEWER: &[u8] = b"HTTP/1.1 429 X\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n";
    let limited = || {
        let count = AtomicU64::new(0);
        server(move |mut stream| {
            while request(&mut stream) {
                let is_over = count.fetch_add(1, Ordering::SeqCst) >= 20;
                if stream.write_all(if is_over { FEWER } else { OK }).is_err() {
                    return;
                }
            }
        })
        .0
    };
    // Of several connections, answers may overtake each other.
    let few = Plan { connections: 1, requests: Some(100), duration: None, ..plan(limited()) };
    let outcome = run(&few);
    let Some(End::Limit(limit)) = outcome.ended else { panic!("{:?}", outcome.ended) };
    assert_eq!((limit.status, limit.answered, outcome.requests), (429, 20, 21));
    assert_eq!(outcome.latency.unanswered(), 0);
    let on = Plan { requests: Some(100), duration: None, heeds_limits: false, ..plan(limited()) };
    let outcome = run(&on);
    assert_eq!((outcome.requests, outcome.ended), (100, None));
}

#[test]
fn what_could_not_be_sent_is_counted() {
    let (address, _) = server(|mut stream| {
        while request(&mut stream) {
            thread::sleep(Duration::from_millis(50));
            let _ = stream.write_all(OK);
        }
    });
    let outcome = run(&Plan {
        connections: 1,
        pace: Pace::PerSecond(200.0),
        duration: Some(Duration::from_secs(1)),
        ..plan(address)
    });
    assert_eq!(outcome.planned, 200);
    // 50 ms each: no more than 20 fit, and one that began just before the end.
    assert!((1..=21).contains(&outcome.sent), "{} sent", outcome.sent);
    assert_eq!(outcome.not_sent(), outcome.planned - outcome.sent);
    // Those that were never sent count at their age.
    assert_eq!((outcome.latency.count(), outcome.latency.unanswered()), (200, outcome.not_sent()));
    let p90 = outcome.latency.quantile(0.9);
    assert!(p90.at_least && p90.ns >= 700_000_000, "{p90:?}");
}

#[test]
fn the_first_requests_are_not_counted_while_it_warms_up() {
    let (address, _) = server(answering(OK));
    let outcome = run(&Plan {
        pace: Pace::PerSecond(100.0),
        warmup: Duration::from_millis(500),
        duration: Some(Duration::from_millis(500)),
        ..plan(address)
    });
    assert_eq!(outcome.planned, 50);
    assert!((1..=50).contains(&outcome.requests), "{} answered", outcome.requests);
}

#[test]
fn another_address_is_used_where_the_first_refuses() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (address, _) = server(answering(OK));
    for new_connections in [false, true] {
        let addresses = vec![closed, address];
        let plan = Plan { requests: Some(9), addresses, new_connections, ..plan(address) };
        let outcome = run(&plan);
        assert_eq!((outcome.requests, outcome.address), (9, Some(address)));
        assert_eq!(outcome.error_count(), 0, "{:?}", outcome.samples);
    }
}

#[test]
fn it_stops_on_request_and_keeps_the_measurements() {
    let (address, _) = server(answering(OK));
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let outcome = load::run(&plan(address), &stop, |running| {
        stop.store(running.answered > 10, Ordering::Relaxed);
    });
    let outcome = outcome.unwrap();
    assert!(outcome.interrupted && outcome.requests > 10);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn more_connections_than_descriptors_are_refused_before_anything_is_sent() {
    let (address, taken) = server(answering(OK));
    let refused = load::run(
        &Plan { connections: 1_000_001, ..plan(address) },
        &AtomicBool::new(false),
        |_| {},
    );
    assert!(matches!(refused, Err(PlanError::Number(_))));
    assert_eq!(taken.load(Ordering::SeqCst), 0);
}

mod tls {
    use super::*;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use tcpwhy_probe::tls::TlsOptions;

    fn server_config() -> Arc<ServerConfig> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let chain = vec![made.cert.der().clone()];
        Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap())
    }

    fn https(answer: Vec<u8>) -> Plan {
        let config = server_config();
        let (address, _) = server(move |stream| {
            let tls = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(tls, stream);
            while request(&mut stream) {
                if stream.write_all(&answer).is_err() {
                    return;
                }
            }
        });
        let target = Target::parse(&format!("https://localhost:{}/", address.port())).unwrap();
        let tls = TlsOptions { insecure: true, ..TlsOptions::default() };
        Plan { target, tls, requests: Some(40), duration: None, ..plan(address) }
    }

    #[test]
    fn requests_go_over_tls_and_sessions_are_resumed() {
        // Longer than one record of TLS and one read.
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n".to_vec();
        answer.resize(answer.len() + 200_000, b'x');
        let plan = https(answer.clone());
        let outcome = run(&plan);
        assert_eq!((outcome.requests, outcome.tls.count()), (40, 2), "{:?}", outcome.samples);
        assert_eq!(outcome.bytes, 40 * answer.len() as u64);

        let outcome = run(&Plan { new_connections: true, connections: 1, ..plan });
        assert_eq!((outcome.requests, outcome.tls.count()), (40, 40), "{:?}", outcome.samples);
        assert_eq!(outcome.tls_resumed, 39);
    }

    #[test]
    fn what_is_no_tls_or_not_trusted_is_a_tls_failure() {
        let (address, _) = server(answering(OK));
        let target = Target::parse(&format!("https://{address}/")).unwrap();
        let insecure = TlsOptions { insecure: true, ..TlsOptions::default() };
        let timeout = Duration::from_millis(500);
        let plan = Plan { target, tls: insecure, timeout, requests: Some(2), ..plan(address) };
        // Without a duration only the failures end it.
        assert_eq!(errors(&run(&Plan { duration: None, ..plan })), [FailureKind::Tls]);
    }
}
