//! The kernel hooks, in network namespaces of their own. They need root.

use socket2::{Domain, SockRef, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::wire::FlowKey;
use tcpwhy_live::diag::TcpState;
use tcpwhy_live::hooks::{Call, Flow, HookKind, Record, Scope, Session, StateChange, Unread, What};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sample::{Sample, Share};

/// A namespace with its loopback interface up; deleted when dropped.
pub struct Place(String);

impl Place {
    /// `None` without root.
    pub fn new(name: &str) -> Option<Self> {
        if !tcpwhy_testing::privileged("network namespaces and kernel hooks") {
            return None;
        }
        let place = Self(format!("hooks-{}-{name}", std::process::id()));
        run(&["netns", "add", &place.0]);
        run(&["-n", &place.0, "link", "set", "lo", "up"]);
        Some(place)
    }

    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        Netns::find(&self.0).expect("the namespace").inside(work).expect("root may enter")
    }

    /// Hooks that look at this namespace. As root they have to work.
    fn open(&self, kind: HookKind) -> Session {
        self.open_with(kind, Scope::default())
    }

    fn open_sampled(&self, kind: HookKind, sample: Sample) -> Session {
        self.open_with(kind, Scope { sample, ..Scope::default() })
    }

    /// As `scope` says, in this namespace and process.
    pub fn open_with(&self, kind: HookKind, scope: Scope) -> Session {
        let inode = Netns::find(&self.0).expect("the namespace").inode;
        let pids = vec![std::process::id()];
        let scope = Scope { netns: inode.try_into().ok(), pids, ..scope };
        let (session, missing) = Session::open(&[kind], &scope);
        assert!(missing.is_empty(), "root can attach {kind:?}: {missing:?}");
        session
    }

    /// A listener, a connection to it, and its accepted end.
    fn connected(&self) -> (TcpListener, TcpStream, TcpStream) {
        self.inside(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let to = listener.local_addr().expect("an address");
            let client = TcpStream::connect(to).expect("accepted");
            let (server, _) = listener.accept().expect("a connection");
            (listener, client, server)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A failure cannot be repaired here.
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn run(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().expect("ip runs");
    assert!(status.success(), "ip {arguments:?}");
}

fn is_of(flow: &Flow, socket: &TcpStream) -> bool {
    let ends = (socket.local_addr().expect("an address"), socket.peer_addr().expect("a peer"));
    (flow.source, flow.destination) == ends
}

fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

#[test]
fn data_that_lies_unread_is_timed_and_its_reader_named() {
    let Some(place) = Place::new("unread") else { return };
    let session = place.open(HookKind::Unread);
    let (_listener, mut client, mut server) = place.connected();
    let mut answer = [0; 100];
    let started = Instant::now();
    client.write_all(&[1; 100]).expect("it is sent");
    thread::sleep(Duration::from_millis(200));
    server.read_exact(&mut answer).expect("it came");
    // Half of the received data is read at once, the other half 100 ms later.
    client.write_all(&[1; 100]).expect("it is sent");
    thread::sleep(Duration::from_millis(5));
    server.read_exact(&mut answer[..50]).expect("it came");
    thread::sleep(Duration::from_millis(100));
    server.read_exact(&mut answer[..50]).expect("it came");
    let took_ms = started.elapsed().as_millis() as u64;
    let unread = session.summary().unread;
    let unread = unread.iter().find(|it| is_of(&it.flow, &server)).expect("the server's socket");
    assert_eq!((unread.pid, unread.reads), (Some(std::process::id()), 3));
    assert!((200..took_ms).contains(&ms(unread.max_ns)), "{unread:?} of {took_ms} ms");
    assert!((300..=took_ms).contains(&ms(unread.total_ns)), "{unread:?} of {took_ms} ms");
    assert_eq!((unread.since_ns, unread.unread_at_close), (None, false));
}

#[test]
fn a_socket_closed_with_unread_data_keeps_its_count() {
    let Some(place) = Place::new("closed") else { return };
    let mut session = place.open(HookKind::Unread);
    let (_listener, mut client, mut server) = place.connected();
    client.write_all(&[1; 100]).expect("it is sent");
    thread::sleep(Duration::from_millis(20));
    server.read_exact(&mut [0; 50]).expect("it came");
    let (local, peer) = (server.local_addr().unwrap(), server.peer_addr().unwrap());
    drop(server);
    let is_it = |it: &Unread| (it.flow.source, it.flow.destination) == (local, peer);
    let read = || session.summary().unread.into_iter().find(is_it).expect("the server's socket");
    // A program that another test is starting may have a copy of the socket for a moment.
    let closed = (0..300).map(|_| read()).find(|it| {
        let is_closed = it.unread_at_close;
        thread::sleep(Duration::from_millis(if is_closed { 0 } else { 20 }));
        is_closed
    });
    assert_eq!(closed.expect("it is closed").reads, 1);
    session.forget(Duration::from_secs(60));
    assert!(session.summary().unread.iter().any(is_it), "it was read a moment ago");
    session.forget(Duration::ZERO);
    assert!(!session.summary().unread.iter().any(is_it), "it is closed and idle");
}

#[test]
fn a_sample_has_whole_connections_at_both_ends() {
    let Some(place) = Place::new("sample") else { return };
    for host in ["127.0.0.1", "[::1]"] {
        let sample = Sample { share: Share::ALL.halved().halved(), ..Sample::all() };
        let session = place.open_sampled(HookKind::Unread, sample);
        let listener = place.inside(|| TcpListener::bind(format!("{host}:0")).expect("a port"));
        let to = listener.local_addr().expect("an address");
        let mut sockets = Vec::new();
        for _ in 0..64 {
            let mut client = place.inside(|| TcpStream::connect(to).expect("accepted"));
            let (mut server, _) = listener.accept().expect("a connection");
            client.write_all(&[1]).expect("it is sent");
            server.read_exact(&mut [0]).expect("it came");
            server.write_all(&[1]).expect("it is sent");
            client.read_exact(&mut [0]).expect("it came");
            sockets.extend([client, server]);
        }
        let mut wanted: Vec<Flow> = sockets.iter().map(flow).collect();
        wanted.retain(|it| sample.has(&FlowKey::new(it.source.into(), it.destination.into()).0));
        wanted.sort_unstable();
        let mut seen: Vec<Flow> = session.summary().unread.iter().map(|it| it.flow).collect();
        seen.sort_unstable();
        assert_eq!(seen, wanted);
        // 128 sockets, of which a quarter is expected.
        assert!((8..=72).contains(&seen.len()), "{}", seen.len());
    }
}

fn flow(socket: &TcpStream) -> Flow {
    let (source, destination) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
    Flow { source, destination, protocol: 6 }
}

#[test]
fn a_blocking_sender_waits_for_its_send_buffer() {
    let Some(place) = Place::new("blocking") else { return };
    let session = place.open(HookKind::SndbufWait);
    let (_listener, mut client, mut server) = place.connected();
    SockRef::from(&client).set_send_buffer_size(16_384).expect("an option");
    SockRef::from(&server).set_recv_buffer_size(16_384).expect("an option");
    let own = client.try_clone().expect("a descriptor");
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        server.read_to_end(&mut Vec::new()).expect("the data")
    });
    let started = Instant::now();
    client.write_all(&[1; 1_000_000]).expect("it is sent");
    let took = started.elapsed().as_nanos() as u64;
    let waits = session.summary().sndbuf_waits;
    let wait = waits.iter().find(|it| is_of(&it.flow, &own)).expect("the sender's socket");
    drop((client, own));
    reader.join().expect("no panic");
    assert_eq!((wait.pid, wait.sndbuf_bytes), (std::process::id(), 32_768));
    assert!(wait.waits > 0 && wait.refusals == 0, "{wait:?}");
    assert!((250..=ms(took)).contains(&ms(wait.wait_ns)), "{wait:?} of {took} ns");
    assert!(wait.wait_max_ns <= wait.wait_ns);
}

#[test]
fn a_sender_that_does_not_block_is_refused() {
    let Some(place) = Place::new("refused") else { return };
    let session = place.open(HookKind::SndbufWait);
    let (_listener, mut client, server) = place.connected();
    SockRef::from(&client).set_send_buffer_size(16_384).expect("an option");
    client.set_nonblocking(true).expect("an option");
    let started = Instant::now();
    while client.write(&[1; 65_536]).is_ok() {}
    thread::sleep(Duration::from_millis(200));
    // The call ends the wait whether it succeeds or not: there may be room again by now.
    let _ = client.write(&[1; 65_536]);
    let took_ms = started.elapsed().as_millis() as u64;
    let waits = session.summary().sndbuf_waits;
    let wait = waits.iter().find(|it| is_of(&it.flow, &client)).expect("the sender's socket");
    drop(server);
    assert!(wait.waits == 0 && wait.refusals >= 1, "{wait:?}");
    assert!((200..=took_ms).contains(&ms(wait.refused_max_ns)), "{wait:?} of {took_ms} ms");
}

#[test]
fn a_sender_with_room_waits_for_nothing() {
    let Some(place) = Place::new("room") else { return };
    let session = place.open(HookKind::SndbufWait);
    let (_listener, mut client, mut server) = place.connected();
    for _ in 0..100 {
        client.write_all(&[1; 1_000]).expect("it is sent");
        server.read_exact(&mut [0; 1_000]).expect("it came");
    }
    assert_eq!(session.summary().sndbuf_waits, []);
}

#[test]
fn a_syn_without_an_answer_is_sent_again() {
    let Some(place) = Place::new("syn") else { return };
    let session = place.open(HookKind::Retransmit);
    // A full accept queue ignores SYNs: two are taken, one more than the backlog.
    let _sockets: Vec<Socket> = place.inside(|| {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let listener = socket();
        let at: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        listener.bind(&at.into()).expect("a free port");
        listener.listen(0).expect("it listens");
        let clients = (0..4).map(|_| {
            let client = socket();
            client.set_nonblocking(true).expect("an option");
            // The connect is in progress, which is reported as an error.
            let _ = client.connect(&at.into());
            client
        });
        clients.chain([listener.try_clone().expect("a descriptor")]).collect()
    });
    let found = (0..300).find_map(|_| {
        thread::sleep(Duration::from_millis(100));
        session.summary().retransmits.into_iter().find(|it| it.syn > 0)
    });
    let found = found.expect("a SYN is sent again after a second");
    assert_eq!(found.flow.destination, "127.0.0.1:80".parse().expect("an address"));
    assert_eq!((found.timeout, found.fast, found.probe), (0, 0, 0));
}

#[test]
fn connections_open_and_close_with_their_owner() {
    let Some(place) = Place::new("state") else { return };
    let mut session = place.open(HookKind::State);
    let opened = Instant::now();
    let (listener, client, server) = place.connected();
    let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
    thread::sleep(Duration::from_millis(50));
    drop(client);
    drop((server, listener));
    let mut changes: Vec<StateChange> = Vec::new();
    let started = Instant::now();
    while changes.len() < 6 && started.elapsed() < Duration::from_secs(30) {
        let records = session.poll(Duration::from_millis(100)).expect("it can wait");
        changes.extend(records.into_iter().filter_map(|record| match record {
            Record::State(change) => Some(change),
            Record::Call(_) | Record::Served(_) => None,
        }));
    }
    let took_ms = opened.elapsed().as_millis() as u64;
    let of = |new_state: TcpState| {
        let is = |it: &&StateChange| {
            it.new_state == new_state && (it.flow.source, it.flow.destination) == ends
        };
        changes.iter().find(is).unwrap_or_else(|| panic!("{new_state:?}: {changes:#?}"))
    };
    assert_eq!(of(TcpState::Established).pid, Some(std::process::id()));
    let open_ns = of(TcpState::Close).open_ns.expect("it was open");
    assert!((50..=took_ms).contains(&ms(open_ns)), "{open_ns} of {took_ms} ms");
    let listens =
        changes.iter().any(|it| it.new_state == TcpState::Listen && it.flow.source == ends.1);
    assert!(listens, "{changes:#?}");
}

#[test]
fn calls_that_set_up_a_socket_are_decoded() {
    let Some(place) = Place::new("options") else { return };
    let mut session = place.open(HookKind::Options);
    let (listener, client, _server) = place.connected();
    client.set_nodelay(true).expect("an option");
    let at = listener.local_addr().expect("an address");
    place.inside(|| TcpListener::bind(at).expect_err("it is taken"));
    let mut calls: Vec<Call> = Vec::new();
    let wanted = |what: What, error: Option<i32>| {
        move |call: &Call| call.what == what && call.error == error
    };
    let nodelay = What::Option { name: "TCP_NODELAY".into(), value: "1".into() };
    let refused = wanted(What::Bind(Some(at)), Some(98));
    let started = Instant::now();
    while !calls.iter().any(&refused) && started.elapsed() < Duration::from_secs(30) {
        for record in session.poll(Duration::from_millis(100)).expect("it can wait") {
            if let Record::Call(call) = record {
                calls.push(call);
            }
        }
    }
    assert!(calls.iter().any(&refused), "{calls:#?}");
    assert!(calls.iter().any(wanted(nodelay, None)), "{calls:#?}");
    let listens = calls.iter().any(|it| matches!(it.what, What::Listen(backlog) if backlog > 0));
    assert!(listens && calls.iter().all(|it| it.pid == std::process::id()), "{calls:#?}");
}

#[test]
fn records_that_find_the_ring_full_are_counted() {
    let Some(place) = Place::new("lost") else { return };
    let mut session = place.open(HookKind::Options);
    let (_listener, client, _server) = place.connected();
    // Tests of this process that run at the same time add some.
    const CALLS: u64 = 20_000;
    for _ in 0..CALLS {
        client.set_nodelay(true).expect("an option");
    }
    let read = session.poll(Duration::ZERO).expect("it can look").len() as u64;
    let lost = session.summary().lost[&HookKind::Options];
    assert!(read > 5_000 && lost > 5_000, "{read} read, {lost} lost");
    assert!(read + lost >= CALLS, "{read} read, {lost} lost");
}

/// Not a test of its own: the process that the next test kills.
#[test]
#[ignore = "run by nothing_stays_attached_after_a_kill"]
fn holds_all_hooks() {
    let (session, missing) = Session::open(HookKind::ALL, &Scope::default());
    assert!(missing.is_empty(), "{missing:?}");
    println!("attached");
    thread::sleep(Duration::from_secs(30));
    drop(session);
}

#[test]
fn nothing_stays_attached_after_a_kill() {
    let Some(_place) = Place::new("kill") else { return };
    let mut holder = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "--nocapture", "hooks::holds_all_hooks"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut words = String::new();
    let mut out = holder.stdout.take().expect("its output");
    while !words.contains("attached") {
        let mut bytes = [0; 256];
        let length = out.read(&mut bytes).expect("its output");
        assert!(length > 0, "it ended: {words}");
        words += &String::from_utf8_lossy(&bytes[..length]);
    }
    let held = program_ids(holder.id());
    assert!(held.len() >= HookKind::ALL.len(), "{held:?}");
    holder.kill().expect("it is killed");
    holder.wait().expect("it ended");
    let left = (0..300).find(|_| {
        thread::sleep(Duration::from_millis(100));
        !loaded().iter().any(|id| held.contains(id))
    });
    assert!(left.is_some(), "programs {held:?} are gone after 30 s: {:?}", loaded());
}

/// Numbers of the BPF programs that a process holds.
fn program_ids(pid: u32) -> Vec<u32> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("root may look");
    let ids = descriptors.flatten().filter_map(|descriptor| {
        let text = std::fs::read_to_string(descriptor.path()).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
        line.trim().parse().ok()
    });
    ids.collect()
}

fn loaded() -> Vec<u32> {
    aya::programs::loaded_programs().flatten().map(|program| program.id()).collect()
}
