//! Experiments on real sockets: servers in this process whose options are set.

use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::experiment::PeerWindow;
use tcpwhy_core::model::experiment::Verdict;
use tcpwhy_core::model::{Cause, Role};
use tcpwhy_probe::Target;
use tcpwhy_probe::budget::Budget;
use tcpwhy_probe::experiment::{
    Bounds, Coin, Connection, ExchangeError, Kind, Others, RequestStep, Settings, Skipped, Subject,
    make,
};
use tcpwhy_probe::http::{Answers, Request};
use tcpwhy_testing::undisturbed;

/// A server on loopback that answers each request by `answer`, on a thread for each connection.
fn serve(answer: impl Fn(&mut TcpStream) + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.expect("a connection"), answer.clone());
            thread::spawn(move || {
                while read_request(&mut stream) {
                    answer(&mut stream);
                }
            });
        }
    });
    at
}

/// Reads a header section and the body that it announces.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return false,
        }
    }
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|it| it.lines().next());
    let mut body = vec![0; length.map_or(0, |it| it.trim().parse().expect("a length"))];
    stream.read_exact(&mut body).is_ok()
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 5\r\n\r\n";

fn subject(server: SocketAddr) -> Subject {
    let target = Target::parse(&format!("http://{server}/")).expect("a target");
    let timeout = Duration::from_secs(5);
    Subject {
        target,
        server,
        request: Request::get(),
        tls: None,
        versions: tcpwhy_probe::http::HttpVersions::Any,
        timeout,
        budget: Budget::none(),
        answers: Answers::default(),
        usual_status: None,
    }
}

fn bounds() -> Bounds {
    let until = Instant::now() + Duration::from_secs(60);
    Bounds { pairs_max: 24, until, floor_ns: 5_000_000, at_once: 1, request_ns: 0 }
}

/// Header and body in two writes, with Nagle's algorithm or without.
fn two_writes(nodelay: bool) -> SocketAddr {
    serve(move |stream| {
        stream.set_nodelay(nodelay).expect("an option");
        // A client that has left needs no answer.
        let _ = stream.write_all(HEAD).and_then(|()| stream.write_all(b"hello"));
    })
}

#[test]
fn prompt_acks_end_the_stall_of_a_server_that_holds_small_segments() {
    let subject = subject(two_writes(false));
    undisturbed(|| {
        let made = make(Kind::Quickack, &subject, &Others::default(), &bounds(), &mut Coin::new(1));
        let held = made.expect("it applies");
        let Verdict::Supports(suspect) = held.verdict else { panic!("{held:?}") };
        assert_eq!((suspect.cause, suspect.culprit.role), (Cause::NagleDelayedAck, Role::Server));
        // Linux delays an ACK by 40 ms at least (TCP_DELACK_MIN).
        assert!(held.effect_ns > 30_000_000, "{held:?}");
        assert!(held.interval_ns.0 >= Some(5_000_000) && held.trials >= 8, "{held:?}");
    });
}

#[test]
fn prompt_acks_change_nothing_where_small_segments_leave_at_once() {
    let subject = subject(two_writes(true));
    undisturbed(|| {
        let made = make(Kind::Quickack, &subject, &Others::default(), &bounds(), &mut Coin::new(1));
        let prompt = made.expect("it applies");
        let Verdict::Refutes(suspect) = prompt.verdict else { panic!("{prompt:?}") };
        assert_eq!(suspect.cause, Cause::NagleDelayedAck);
    });
}

#[test]
fn a_server_that_works_40_ms_between_header_and_body_is_no_nagle() {
    let server = serve(|stream| {
        stream.set_nodelay(true).expect("an option");
        let _ = stream.write_all(HEAD);
        thread::sleep(Duration::from_millis(40));
        let _ = stream.write_all(b"hello");
    });
    let subject = subject(server);
    undisturbed(|| {
        let made = make(Kind::Quickack, &subject, &Others::default(), &bounds(), &mut Coin::new(1));
        let made = made.expect("it applies");
        assert!(matches!(made.verdict, Verdict::Refutes(_)), "{made:?}");
        assert!(made.usual_ns > 35_000_000 && made.changed_ns > 35_000_000, "{made:?}");
    });
}

#[test]
fn an_experiment_on_acks_is_left_out_where_connections_are_not_kept() {
    let server = serve(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello");
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    let made =
        make(Kind::Quickack, &subject(server), &Others::default(), &bounds(), &mut Coin::new(1));
    assert!(matches!(made, Err(Skipped::DoesNotApply(_))), "{made:?}");
}

#[test]
fn a_server_that_ignores_expect_costs_its_clients_a_second() {
    let mut subject = subject(two_writes(true));
    subject.request.method = "POST".into();
    subject.request.body = b"a form".to_vec();
    let few = Bounds { floor_ns: 100_000_000, ..bounds() };
    let made = make(Kind::Expect, &subject, &Others::default(), &few, &mut Coin::new(1))
        .expect("it applies");
    let Verdict::Supports(suspect) = made.verdict else { panic!("{made:?}") };
    assert_eq!(suspect.cause, Cause::Http100Continue);
    assert!(made.effect_ns > 900_000_000, "{made:?}");
}

#[test]
fn bodies_are_sent_only_where_there_is_one() {
    let subject = subject(two_writes(true));
    for kind in Kind::ALL.iter().copied().filter(|it| it.needs_body()) {
        let made = make(kind, &subject, &Others::default(), &bounds(), &mut Coin::new(1));
        assert!(matches!(made, Err(Skipped::DoesNotApply(_))), "{kind:?} {made:?}");
    }
}

#[test]
fn the_clock_distinguishes_a_wait_from_a_pause_within_the_answer() {
    let server = serve(|stream| {
        thread::sleep(Duration::from_millis(30));
        let _ = stream.write_all(HEAD);
        thread::sleep(Duration::from_millis(50));
        let _ = stream.write_all(b"hello");
    });
    let subject = subject(server);
    undisturbed(|| {
        let mut connection = Connection::open(&subject, Settings::default()).expect("a connection");
        let (timing, response) = connection.ask().expect("an answer");
        assert!((30_000_000..49_000_000).contains(&timing.wait_ns), "{timing:?}");
        assert!(timing.pause_ns >= 50_000_000 && timing.receive_ns >= timing.pause_ns);
        assert_eq!((timing.before_pause_bytes, timing.after_pause_bytes), (HEAD.len() as u64, 5));
        assert_eq!(response.server.as_deref(), Some("nginx"));
        assert!(connection.kernel().rtt_min_ns > 0);
    });
}

#[test]
fn silence_garbage_and_refusal_are_distinguished() {
    let silent = Subject { timeout: Duration::from_millis(200), ..subject(serve(|_| ())) };
    let mut connection = Connection::open(&silent, Settings::default()).expect("a connection");
    let error = connection.ask().expect_err("no answer");
    assert!(error.is_timeout(), "{error:?}");
    let garbage = subject(serve(|stream| {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
    }));
    let mut connection = Connection::open(&garbage, Settings::default()).expect("a connection");
    let error = connection.ask().expect_err("no HTTP");
    assert!(matches!(error, ExchangeError::Response(_)), "{error:?}");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one");
    let refused = Connection::open(&subject(closed), Settings::default()).err().expect("refused");
    assert!(matches!(refused, ExchangeError::Io { step: RequestStep::Connect, .. }), "{refused:?}");
}

#[test]
fn requests_that_a_server_takes_one_after_the_other_wait_for_each_other() {
    let turn = Arc::new(Mutex::new(()));
    let in_turn = serve(move |stream| {
        let turn = turn.lock();
        thread::sleep(Duration::from_millis(10));
        let _ = stream.write_all(&[HEAD, b"hello"].concat());
        drop(turn);
    });
    let of = |subject: &Subject| {
        make(Kind::Concurrency, subject, &Others::default(), &bounds(), &mut Coin::new(1))
            .expect("it applies")
    };
    let in_turn = subject(in_turn);
    undisturbed(|| {
        let made = of(&in_turn);
        // Of ten that wait for each other the sixth has five before it.
        assert!(made.interval_ns.0 >= Some(30_000_000), "{made:?}");
        assert_eq!((made.verdict, made.requests), (Verdict::Undecided, 11 * made.trials));
    });
    let at_once = serve(|stream| {
        thread::sleep(Duration::from_millis(10));
        let _ = stream.write_all(&[HEAD, b"hello"].concat());
    });
    let at_once = subject(at_once);
    undisturbed(|| {
        let made = of(&at_once);
        assert!(made.interval_ns.1.is_some_and(|most_ns| most_ns < 5_000_000), "{made:?}");
    });
}

/// How long a server leaves a request unread, or works after reading it.
const PAUSE: Duration = Duration::from_millis(300);

/// A POST with a body of 2 MiB to a server that pauses before or after it reads the request: the
/// window while the client asked, for how long it held data back, ns, and the time at which the server
/// had read all, ns.
fn window_of_a_server(reads_late: bool) -> (PeerWindow, u64, u64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // What it has room for must not depend on `tcp_rmem`.
    SockRef::from(&listener).set_recv_buffer_size(128 << 10).expect("an option");
    let at = listener.local_addr().expect("an address");
    let began = Instant::now();
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        if reads_late {
            wait_until_full(&stream);
            thread::sleep(PAUSE);
        }
        read_request(&mut stream);
        let read_ns = began.elapsed().as_nanos() as u64;
        if !reads_late {
            thread::sleep(PAUSE);
        }
        stream.write_all(&[HEAD, b"hello"].concat()).expect("an answer");
        read_ns
    });
    let mut subject = subject(at);
    subject.request.method = "POST".into();
    subject.request.body = vec![b'x'; 2 << 20];
    let mut connection = Connection::open(&subject, Settings::default()).expect("one");
    let (_, _, sending) = connection.ask_watching().expect("an answer");
    let read_ns = serving.join().expect("the server ends");
    (sending.window, connection.kernel().rwnd_limited_ns, read_ns)
}

/// Waits until a part of the body has come for `stream`, which nobody reads, and no more follows.
fn wait_until_full(stream: &TcpStream) {
    let until = Instant::now() + Duration::from_secs(10);
    let mut bytes = vec![0; 1 << 20];
    let mut before = 0;
    loop {
        thread::sleep(Duration::from_millis(20));
        let now = stream.peek(&mut bytes).expect("a request");
        if now > 1 << 14 && now == before {
            return;
        }
        assert!(Instant::now() < until, "{now} bytes came");
        before = now;
    }
}

#[test]
fn the_own_socket_distinguishes_a_server_that_does_not_read() {
    let (window, held_ns, _) = window_of_a_server(true);
    assert_eq!(window, PeerWindow::Closed);
    assert!(held_ns >= PAUSE.as_nanos() as u64, "{held_ns}");
    let (_, held_ns, read_ns) = window_of_a_server(false);
    // The kernel counts in its ticks, of 10 ms at most.
    assert!(held_ns <= read_ns + 10_000_000, "{held_ns} of {read_ns}");
}

#[test]
fn an_experiment_ends_when_the_server_begins_to_refuse() {
    let count = Arc::new(Mutex::new(0));
    let counted = count.clone();
    let server = serve(move |stream| {
        let mut count = counted.lock().expect("no panic");
        *count += 1;
        let refused = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
        let answer = if *count > 20 {
            &refused[..]
        } else {
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        };
        let _ = stream.write_all(answer);
    });
    let subject = Subject { usual_status: Some(200), ..subject(server) };
    let made = make(Kind::Connection, &subject, &Others::default(), &bounds(), &mut Coin::new(1));
    assert!(matches!(made, Err(Skipped::Failed(ExchangeError::Status(429)))), "{made:?}");
    assert_eq!(*count.lock().expect("no panic"), 21);
}
