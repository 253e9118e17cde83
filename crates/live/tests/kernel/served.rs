//! The hook that follows requests through a server's threads. Each test serves in a namespace of its
//! own, with threads of this process.

use super::hooks::Place;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_live::hooks::{HookKind, Record, Scope, Served, Session, States};
use tcpwhy_testing::undisturbed;

const MS: u64 = 1_000_000;

/// A listener and the hook that looks at its connections.
fn served(place: &Place) -> (TcpListener, SocketAddr, Session) {
    let listener = place.inside(|| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let at = listener.local_addr().expect("an address");
    let scope = Scope { ports: vec![at.port()], ..Scope::default() };
    let session = place.open_with(HookKind::Served, scope);
    (listener, at, session)
}

/// One request with its answer.
fn ask(client: &mut TcpStream) {
    client.write_all(b"?").expect("it is sent");
    client.read_exact(&mut [0]).expect("an answer");
}

/// The records until now, checked: their parts sum to the time of the server.
fn records(session: &mut Session) -> Vec<Served> {
    let records = session.poll(Duration::from_secs(1)).expect("a ring");
    let served = records.into_iter().filter_map(|record| match record {
        Record::Served(served) => Some(*served),
        _ => None,
    });
    served
        .inspect(|it| {
            let serving = it.serving.map(|parts| parts.sum_ns());
            assert!(serving.is_none_or(|ns| ns == it.written_ns - it.read_ns), "{it:?}");
            let unread = it.unread.map(|parts| parts.sum_ns());
            assert!(unread.is_none_or(|ns| ns == it.read_ns - it.ready_ns), "{it:?}");
        })
        .collect()
}

/// The record of a request that waits for a lock, while a thread of this name runs for 60 ms of that.
fn locked_beside(place: &Place, name: &str) -> Served {
    let (listener, at, mut session) = served(place);
    let lock: &'static Mutex<()> = Box::leak(Box::default());
    let held = lock.lock().expect("a lock");
    let server = serve(listener, || drop(lock.lock()));
    let mut client = place.inside(|| TcpStream::connect(at).expect("accepted"));
    client.write_all(b"?").expect("it is sent");
    // It has its name when it gets a processor the next time, and ends after the request, as the threads of
    // a virtual machine do.
    let beside = thread::Builder::new().name(name.to_owned()).spawn(|| {
        thread::sleep(Duration::from_millis(20));
        run_for(Duration::from_millis(60));
        thread::sleep(Duration::from_millis(400));
    });
    thread::sleep(Duration::from_millis(300));
    drop(held);
    client.read_exact(&mut [0]).expect("an answer");
    client.write_all(b".").expect("it is sent");
    server.join().expect("no panic");
    beside.expect("a thread").join().expect("no panic");
    let [one] = &records(&mut session)[..] else { panic!("one request") };
    one.clone()
}

#[test]
fn a_lock_is_stopped_time_while_the_collector_of_a_virtual_machine_runs() {
    let Some(place) = Place::new("stopped") else { return };
    for name in ["VM Thread", "GC Thread#0"] {
        // A busy machine stretches the time in which the collector runs.
        undisturbed(|| {
            let did = locked_beside(&place, name).serving.expect("its own thread answered");
            assert!((59..150).contains(&(did.stopped_ns / MS)), "{did:?}");
            assert!(did.locked_ns >= 100 * MS, "the rest is the lock's: {did:?}");
        });
    }
    for name in ["G1 Conc#0", "worker"] {
        let did = locked_beside(&place, name).serving.expect("its own thread answered");
        assert_eq!(did.stopped_ns, 0, "{did:?}");
        assert!(did.locked_ns >= 160 * MS, "{did:?}");
    }
}

fn run_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Answers one request of each connection by `work`, on one thread.
fn serve(listener: TcpListener, mut work: impl FnMut() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while let Ok((mut server, _)) = listener.accept() {
            let mut request = [0];
            while server.read(&mut request).is_ok_and(|bytes| bytes > 0) {
                if request == *b"." {
                    return;
                }
                work();
                server.write_all(b"!").expect("it is sent");
            }
        }
    })
}

#[test]
fn what_the_thread_of_a_request_did_is_timed_by_state() {
    let Some(place) = Place::new("states") else { return };
    let (listener, at, mut session) = served(&place);
    let lock: &'static Mutex<()> = Box::leak(Box::default());
    let held = lock.lock().expect("a lock");
    let server = serve(listener, || {
        thread::sleep(Duration::from_millis(50));
        run_for(Duration::from_millis(30));
        drop(lock.lock());
    });
    let mut client = place.inside(|| TcpStream::connect(at).expect("accepted"));
    client.write_all(b"?").expect("it is sent");
    thread::sleep(Duration::from_millis(200));
    drop(held);
    client.read_exact(&mut [0]).expect("an answer");
    client.write_all(b".").expect("it is sent");
    server.join().expect("no panic");
    let [one] = &records(&mut session)[..] else { panic!("one request") };
    let did = one.serving.expect("its own thread answered");
    assert_eq!((one.flow.source, one.pid), (at, std::process::id()));
    assert!(!one.is_handed_over && one.peer.is_none(), "{one:?}");
    assert!((50..90).contains(&(did.sleeping_ns / MS)), "{did:?}");
    // On a busy machine it waits for a processor while it runs for 30 ms of the clock.
    let ran_ns = did.running_ns + did.runnable_ns;
    assert!(did.running_ns >= MS && (30..110).contains(&(ran_ns / MS)), "{did:?}");
    let rest_ms = (one.written_ns - one.read_ns - did.sleeping_ns - ran_ns) / MS;
    assert!((rest_ms.saturating_sub(1)..=rest_ms).contains(&(did.locked_ns / MS)), "{did:?}");
    assert!(did.locked_ns >= 50 * MS && one.others_ns < MS, "{one:?}");
}

/// Returns the times by state of the thread that serves one request, for which it runs `work`. `None` if the
/// test cannot run.
fn waiting(name: &str, work: impl FnMut() + Send + 'static) -> Option<States> {
    let place = Place::new(name)?;
    let (listener, at, mut session) = served(&place);
    let server = serve(listener, work);
    let mut client = place.inside(|| TcpStream::connect(at).expect("accepted"));
    ask(&mut client);
    client.write_all(b".").expect("it is sent");
    server.join().expect("no panic");
    let [one] = &records(&mut session)[..] else { panic!("one request") };
    Some(one.serving.expect("its own thread answered"))
}

#[test]
fn a_wait_that_its_own_timer_ends_is_sleep_and_one_that_another_thread_ends_is_a_lock() {
    // The threads of a Java virtual machine sleep like this.
    let slept = waiting("timer", || {
        let (lock, condition) = (Mutex::new(()), Condvar::new());
        let held = lock.lock().expect("a lock");
        drop(condition.wait_timeout(held, Duration::from_millis(60)));
    });
    let Some(slept) = slept else { return };
    assert!(slept.sleeping_ns >= 55 * MS && slept.locked_ns < 5 * MS, "{slept:?}");
    // Those of Python wait like this for the lock of the interpreter.
    let retried = waiting("retried", || {
        let both = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&both);
        let releases = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            *other.0.lock().expect("a lock") = true;
            other.1.notify_one();
        });
        let mut is_free = both.0.lock().expect("a lock");
        while !*is_free {
            is_free = both.1.wait_timeout(is_free, Duration::from_millis(30)).expect("a lock").0;
        }
        drop(is_free);
        releases.join().expect("no panic");
    });
    let retried = retried.expect("root");
    // On a busy machine it waits for a processor each time that it is woken.
    let waited_ns = retried.locked_ns + retried.runnable_ns;
    assert!(retried.locked_ns >= 50 * MS && waited_ns >= 90 * MS, "{retried:?}");
    assert!(retried.sleeping_ns < 5 * MS, "{retried:?}");
}

#[test]
fn a_hook_that_is_attached_again_begins_anew_with_the_connections_of_its_scope() {
    let Some(place) = Place::new("paused") else { return };
    let (listener, at, mut session) = served(&place);
    let server = serve(listener, || thread::sleep(Duration::from_millis(5)));
    let mut client = place.inside(|| TcpStream::connect(at).expect("accepted"));
    ask(&mut client);
    assert_eq!(records(&mut session).len(), 1);
    session.pause();
    ask(&mut client);
    assert!(records(&mut session).is_empty(), "it is detached");
    let scope = Scope { ports: vec![at.port()], ..Scope::default() };
    session.resume(&scope).expect("root can attach it");
    ask(&mut client);
    let [one] = &records(&mut session)[..] else { panic!("one request") };
    let did = one.serving.expect("its own thread answered");
    assert!(one.unread.is_none() && did.sleeping_ns / MS >= 4, "{one:?}");
    session.pause();
    session.resume(&Scope { ports: vec![at.port().wrapping_add(1)], ..scope }).expect("root");
    ask(&mut client);
    assert!(records(&mut session).is_empty(), "another port");
    client.write_all(b".").expect("it is sent");
    server.join().expect("no panic");
}

#[test]
fn a_request_is_followed_to_the_thread_that_is_woken_for_it() {
    let Some(place) = Place::new("handed") else { return };
    let (listener, at, mut session) = served(&place);
    let (to_worker, requests) = mpsc::channel::<TcpStream>();
    let (to_writer, answers) = mpsc::channel::<TcpStream>();
    let reader = thread::spawn(move || {
        let (mut server, _) = listener.accept().expect("a connection");
        while server.read(&mut [0]).is_ok_and(|bytes| bytes > 0) {
            to_worker.send(server.try_clone().expect("a descriptor")).expect("a worker");
        }
    });
    let worker = thread::spawn(move || {
        for connection in requests {
            thread::sleep(Duration::from_millis(40));
            to_writer.send(connection).expect("a writer");
        }
    });
    let writer = thread::spawn(move || {
        for mut connection in answers {
            run_for(Duration::from_millis(20));
            connection.write_all(b"!").expect("it is sent");
        }
    });
    let mut client = place.inside(|| TcpStream::connect(at).expect("accepted"));
    // The threads wait for work by now.
    thread::sleep(Duration::from_millis(100));
    ask(&mut client);
    drop(client);
    [reader, worker, writer].into_iter().for_each(|it| it.join().expect("no panic"));
    let [one] = &records(&mut session)[..] else { panic!("one request") };
    let did = one.serving.expect("the chain leads to the writer");
    assert!(one.is_handed_over, "{one:?}");
    assert!((40..80).contains(&(did.sleeping_ns / MS)), "{did:?}");
    assert!(did.running_ns >= MS && did.running_ns + did.runnable_ns >= 20 * MS, "{did:?}");
}

#[test]
fn a_request_that_waits_in_an_event_loop_lies_unread_while_others_run() {
    let Some(place) = Place::new("loop") else { return };
    let (listener, at, mut session) = served(&place);
    let server = thread::spawn(move || {
        let mut all: Vec<TcpStream> =
            (0..2).map(|_| listener.accept().expect("a connection").0).collect();
        for round in 0..2 {
            for server in &mut all {
                server.read_exact(&mut [0]).expect("a request");
                if round == 1 {
                    run_for(Duration::from_millis(60));
                }
                server.write_all(b"!").expect("it is sent");
            }
        }
    });
    let mut clients = [(); 2].map(|()| place.inside(|| TcpStream::connect(at).expect("accepted")));
    for _ in 0..2 {
        clients.iter_mut().for_each(|it| it.write_all(b"?").expect("it is sent"));
        clients.iter_mut().for_each(|it| it.read_exact(&mut [0]).expect("an answer"));
    }
    server.join().expect("no panic");
    let own = clients[1].local_addr().expect("an address");
    let all = records(&mut session);
    let slow = |it: &&Served| it.flow.destination == own && it.written_ns - it.ready_ns > 100 * MS;
    let one = all.iter().find(slow).expect("the second request waited for the first");
    let before = one.unread.expect("its reader has read on it before");
    assert!(before.running_ns + before.runnable_ns >= 55 * MS, "{one:?}");
    assert!(before.running_ns >= MS && before.awaiting_ns < 5 * MS, "{one:?}");
    assert!(one.serving.is_some_and(|did| did.running_ns + did.runnable_ns >= 55 * MS), "{one:?}");
}

#[test]
fn an_answer_leaves_the_host_when_the_queue_of_the_interface_lets_it() {
    let Some(place) = Place::new("queue") else { return };
    let (listener, at, mut session) = served(&place);
    place.inside(|| {
        // 1,000 bytes take 8 ms.
        let shaper = "qdisc add dev lo root tbf rate 1mbit burst 2kb latency 1s";
        let made = Command::new("tc").args(shaper.split(' ')).status();
        assert!(made.is_ok_and(|it| it.success()), "tc is installed, and has tbf");
    });
    let sink = place.inside(|| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let to = sink.local_addr().expect("an address");
    let beside = place.inside(|| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let server = serve(listener, move || {
        for _ in 0..12 {
            beside.send_to(&[0; 1_000], to).expect("it is queued");
        }
    });
    let mut client = place.inside(|| TcpStream::connect(at).expect("accepted"));
    ask(&mut client);
    client.write_all(b".").expect("it is sent");
    server.join().expect("no panic");
    let [one] = &records(&mut session)[..] else { panic!("one request") };
    let (queued_ns, sent_ns) = one.left_ns.expect("it left");
    assert!(queued_ns - one.written_ns < 20 * MS, "TCP sends it at once: {one:?}");
    assert!((70..500).contains(&((sent_ns - queued_ns) / MS)), "{one:?}");
}

#[test]
fn a_peer_that_answers_late_is_named() {
    let Some(place) = Place::new("peer") else { return };
    let (listener, at, mut session) = served(&place);
    let upstream = place.inside(|| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let to = upstream.local_addr().expect("an address");
    let mut asking = place.inside(|| TcpStream::connect(to).expect("accepted"));
    let database = thread::spawn(move || {
        let (mut asked, _) = upstream.accept().expect("a connection");
        asked.read_exact(&mut [0]).expect("a question");
        thread::sleep(Duration::from_millis(70));
        asked.write_all(b"!").expect("it is sent");
    });
    let server = serve(listener, move || ask(&mut asking));
    let mut client = place.inside(|| TcpStream::connect(at).expect("accepted"));
    ask(&mut client);
    client.write_all(b".").expect("it is sent");
    server.join().expect("no panic");
    database.join().expect("no panic");
    let [one] = &records(&mut session)[..] else { panic!("one request") };
    let did = one.serving.expect("its own thread answered");
    let (peer, waited_ns) = one.peer.unwrap_or_else(|| panic!("no peer: {one:?}"));
    assert_eq!(peer.destination, to);
    assert!((60 * MS..=did.awaiting_ns).contains(&waited_ns), "{one:?}");
}
