//! `tcpwhy drops` in network namespaces of its own, which need root. Traffic goes on while the
//! command watches, so that no test depends on when it began to.

use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use tcpwhy_live::netns::Netns;

/// A namespace with its loopback interface up; deleted when dropped.
struct Place(String);

impl Place {
    /// `None` without root.
    fn new(name: &str) -> Option<Self> {
        if !tcpwhy_testing::privileged("network namespaces and kernel hooks") {
            return None;
        }
        let place = Self(format!("drops-{}-{name}", std::process::id()));
        run("ip", &["netns", "add", &place.0]);
        place.run("ip", &["link", "set", "lo", "up"]);
        Some(place)
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        run("ip", &[&["netns", "exec", &self.0, program], arguments].concat());
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        Netns::find(&self.0).expect("the namespace").inside(work).expect("root may enter")
    }

    /// Watches for two seconds, with traffic all the time.
    fn watch(&self, mut traffic: impl FnMut() + Send) -> (Value, Option<i32>) {
        let child = start(&["drops", "--netns", &self.0, "--for", "2s", "--json"]);
        let watched = self.inside(move || finish(child, &mut traffic));
        (checked(&watched), watched.status.code())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A failure cannot be repaired here.
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("it is installed");
    assert!(status.success(), "{program} {arguments:?}");
}

fn start(arguments: &[&str]) -> Child {
    let mut tcpwhy = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    tcpwhy.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    tcpwhy.spawn().expect("tcpwhy runs")
}

fn finish(mut child: Child, traffic: &mut dyn FnMut()) -> Output {
    while child.try_wait().expect("a child").is_none() {
        traffic();
        thread::sleep(Duration::from_millis(50));
    }
    child.wait_with_output().expect("its output")
}

/// The report, after the schema has accepted it and the hook was found to work.
fn checked(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("JSON: {words}"));
    let schema = include_str!("../../../../docs/drops.schema.json");
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    report
}

fn line(report: &Value, is: impl Fn(&Value) -> bool) -> &Value {
    assert_eq!(report["hooks_missing"], Value::Array(Vec::new()), "root can attach the hooks");
    let lines = report["drops"].as_array().expect("drops");
    lines.iter().find(|&line| is(line)).unwrap_or_else(|| panic!("no such line: {report:#}"))
}

/// A SYN without waiting for what comes of it.
fn connect(to: &str) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_nonblocking(true).expect("an option");
    let to: SocketAddr = to.parse().expect("an address");
    // The connect is in progress, which is reported as an error.
    let _ = socket.connect(&to.into());
    socket
}

#[test]
fn a_listener_that_does_not_accept_is_named() {
    let Some(place) = Place::new("listen") else { return };
    let listener = place.inside(|| {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let at: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        listener.bind(&at.into()).expect("a free port");
        listener.listen(1).expect("it listens");
        listener
    });
    let mut clients = Vec::new();
    let (report, status) = place.watch(|| clients.push(connect("127.0.0.1:80")));
    drop(listener);
    let line = line(&report, |line| line["subject"] == "accept_queue");
    assert_eq!((&line["cause"], &line["harm"]), (&"accept_queue_overflow".into(), &"hurts".into()));
    assert_eq!(line["socket"], "127.0.0.1:80");
    assert_eq!(line["process"]["pid"], std::process::id());
    assert_eq!(line["accept_queue"]["backlog"], 1);
    assert!(line["packets"].as_u64() > Some(0));
    assert_eq!(status, Some(1));
}

#[test]
fn a_rule_of_the_packet_filter_is_named_with_the_flow_that_it_drops() {
    let Some(place) = Place::new("filter") else { return };
    place.run("nft", &["add", "table", "ip", "t"]);
    place.run("nft", &["add", "chain", "ip", "t", "c", "{ type filter hook input priority 0; }"]);
    place.run("nft", &["add", "rule", "ip", "t", "c", "tcp", "dport", "81", "drop"]);
    let mut clients = Vec::new();
    let (report, status) = place.watch(|| clients.push(connect("127.0.0.1:81")));
    let line = line(&report, |line| line["reason"] == "NETFILTER_DROP");
    assert_eq!((&line["subject"], &line["harm"]), (&"filter".into(), &"hurts".into()));
    assert_eq!(line["flows"][0]["destination"], "127.0.0.1:81");
    assert_eq!(line["flows"][0]["protocol"], 6);
    assert!(line["flows"][0]["syns"].as_u64() > Some(0));
    assert!(line["function"].is_string(), "root may read the kernel's symbols");
    assert_eq!(status, Some(1));
}

#[test]
fn address_translation_without_a_free_port_is_a_failed_insertion() {
    let Some(place) = Place::new("nat") else { return };
    let listener = place.inside(|| TcpListener::bind("127.0.0.1:80").expect("a free port"));
    place.run("nft", &["add", "table", "ip", "t"]);
    let chain = "{ type nat hook postrouting priority 100; }";
    place.run("nft", &["add", "chain", "ip", "t", "c", chain]);
    let rule = ["add", "rule", "ip", "t", "c", "tcp", "dport", "80", "snat", "to"];
    place.run("nft", &[&rule[..], &["127.0.0.1:5000"]].concat());
    let mut clients = Vec::new();
    let (report, status) = place.watch(|| clients.push(connect("127.0.0.1:80")));
    drop(listener);
    let line = line(&report, |line| line["subject"] == "conntrack_insert");
    assert_eq!((&line["cause"], &line["harm"]), (&"conntrack_race".into(), &"hurts".into()));
    let failed = |it: &Value| it["name"] == "nf_conntrack.insert_failed";
    assert!(line["counters"].as_array().expect("counters").iter().any(failed));
    assert_eq!(status, Some(1));
}

#[test]
fn a_datagram_with_a_wrong_checksum_is_named_with_its_socket() {
    let Some(place) = Place::new("checksum") else { return };
    let socket = place.inside(|| UdpSocket::bind("127.0.0.1:53").expect("a free port"));
    let raw = place.inside(|| {
        Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(17))).expect("a raw socket")
    });
    let to: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    // Ports 5353 and 53, 12 bytes, a checksum that is not theirs.
    let datagram = [0x14, 0xe9, 0, 53, 0, 12, 0x12, 0x34, 1, 2, 3, 4];
    let (report, status) = place.watch(|| {
        raw.send_to(&datagram, &to.into()).expect("it is sent");
    });
    drop(socket);
    let line = line(&report, |line| line["reason"] == "UDP_CSUM");
    assert_eq!((&line["subject"], &line["harm"]), (&"checksum".into(), &"hurts".into()));
    assert_eq!(line["socket"], "127.0.0.1:53");
    assert_eq!(line["process"]["pid"], std::process::id());
    assert_eq!(line["flows"][0]["source"], "127.0.0.1:5353");
    assert_eq!(status, Some(1));
}

#[test]
fn a_socket_that_is_not_read_overflows() {
    let Some(place) = Place::new("buffer") else { return };
    let (reader, writer) = place.inside(|| {
        let reader = UdpSocket::bind("127.0.0.1:53").expect("a free port");
        socket2::SockRef::from(&reader).set_recv_buffer_size(4096).expect("an option");
        (reader, UdpSocket::bind("127.0.0.1:0").expect("a free port"))
    });
    let (report, status) = place.watch(|| {
        for _ in 0..20 {
            writer.send_to(&[0; 500], "127.0.0.1:53").expect("it is sent");
        }
    });
    drop(reader);
    let line = line(&report, |line| line["subject"] == "receive_buffer");
    assert_eq!(line["reason"], "SOCKET_RCVBUFF");
    assert_eq!(line["process"]["pid"], std::process::id());
    let by_socket = |it: &Value| it["name"] == "socket.sk_drops";
    assert!(line["counters"].as_array().expect("counters").iter().any(by_socket));
    assert_eq!(status, Some(1));
}

#[test]
fn healthy_transfers_are_silent() {
    let Some(place) = Place::new("healthy") else { return };
    let listener = place.inside(|| TcpListener::bind("127.0.0.1:80").expect("a free port"));
    let (report, status) = place.watch(|| {
        let mut client = TcpStream::connect("127.0.0.1:80").expect("accepted");
        let (mut server, _) = listener.accept().expect("a connection");
        let sent = thread::spawn(move || server.write_all(&[0; 1 << 20]));
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("the answer");
        assert_eq!(answer.len(), 1 << 20);
        sent.join().expect("no panic").expect("it is sent");
    });
    assert_eq!(report["hooks_missing"], Value::Array(Vec::new()), "root can attach the hooks");
    let drops = report["drops"].as_array().expect("drops");
    let loud: Vec<_> = drops.iter().filter(|line| line["harm"] != "harmless").collect();
    assert!(loud.is_empty(), "{loud:#?}");
    assert_eq!(status, Some(0));
}

#[test]
fn without_privileges_the_counters_still_tell() {
    let Some(place) = Place::new("plain") else { return };
    let listener = place.inside(|| {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let at: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        listener.bind(&at.into()).expect("a free port");
        listener.listen(1).expect("it listens");
        listener
    });
    let mut clients = Vec::new();
    let output = place.inside(|| {
        let child = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_tcpwhy")])
            .args(["drops", "--for", "2s", "--width", "400"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv runs");
        finish(child, &mut || clients.push(connect("127.0.0.1:80")))
    });
    drop(listener);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("CAP_BPF and CAP_PERFMON"), "{text}");
    assert!(text.contains("HURTS  accept_queue_overflow"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_interrupt_shows_what_is_known() {
    let Some(place) = Place::new("interrupt") else { return };
    let child = start(&["drops", "--netns", &place.0, "--for", "1h", "--json"]);
    let id = rustix::process::Pid::from_child(&child);
    // The handler is there before the hook is.
    while !hook_is_held(child.id()) {
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(200));
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("its output");
    let report = checked(&output);
    assert!((1..3_600_000_000_000).contains(&report["duration_ns"].as_u64().expect("a time")));
    assert_eq!(output.status.code(), Some(0));
}

/// Returns whether a process holds a BPF program.
fn hook_is_held(pid: u32) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("it runs");
    descriptors.flatten().any(|descriptor| {
        let text = std::fs::read_to_string(descriptor.path()).unwrap_or_default();
        text.contains("prog_id:")
    })
}

#[test]
fn what_does_not_exist_is_an_error_with_a_way_on() {
    for arguments in [["drops", "--netns", "no-such-namespace"], ["drops", "--pid", "4194305"]] {
        let output = start(&arguments).wait_with_output().expect("its output");
        assert_eq!(output.status.code(), Some(2));
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(words.contains("ip netns list") || words.contains("pgrep"), "{words}");
    }
}
