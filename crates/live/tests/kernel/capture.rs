//! Live capture in a network namespace of its own; needs root.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use aya::programs::{SchedClassifier, TcAttachType};

use tcpwhy_core::capture::Block;
use tcpwhy_core::filter::Filter;
use tcpwhy_core::wire::{FlowHasher, FlowKey, Packet, Segment, TcpFlags, decode};
use tcpwhy_live::LiveError;
use tcpwhy_live::capture::{ANY, Capture, Link, Means, Wanted};
use tcpwhy_live::hooks;
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sample::Share;

/// A namespace that is removed when dropped.
struct Namespace(String);

impl Namespace {
    /// `None` without root, which is said.
    fn new(name: &str) -> Option<Self> {
        if !tcpwhy_testing::privileged("network namespaces") {
            return None;
        }
        let name = format!("tcpwhy-test-{}-{name}", std::process::id());
        let namespace = Self(name);
        namespace.ip(&["netns", "add", &namespace.0]);
        namespace.inside(&["link", "set", "lo", "up"]);
        Some(namespace)
    }

    fn ip(&self, arguments: &[&str]) {
        let status = Command::new("ip").args(arguments).status().expect("ip runs (iproute2)");
        assert!(status.success(), "ip {arguments:?}");
    }

    fn inside(&self, arguments: &[&str]) {
        self.ip(&[&["-n", &self.0][..], arguments].concat());
    }

    fn netns(&self) -> Netns {
        Netns::find(&self.0).expect("the namespace")
    }

    fn wanted(&self, interface: &str) -> Wanted {
        Wanted {
            interface: interface.to_owned(),
            netns: self.netns(),
            ends: Vec::new(),
            snap_bytes: 128,
            ring_bytes: 4 << 20,
            packet_socket: false,
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Opens, uses and closes this number of connections at once.
fn talk(namespace: &Namespace, connections: usize) {
    namespace
        .netns()
        .inside(|| {
            let listener = TcpListener::bind("127.0.0.1:8080").expect("a port");
            let open = |_| {
                let near = TcpStream::connect("127.0.0.1:8080").expect("accepted");
                (near, listener.accept().expect("a connection").0)
            };
            let mut ends: Vec<_> = (0..connections).map(open).collect();
            for _ in 0..3 {
                for (near, far) in &mut ends {
                    near.write_all(&[b'q'; 100]).expect("sent");
                    far.read_exact(&mut [0; 100]).expect("received");
                    far.write_all(&[b'a'; 1000]).expect("sent");
                    near.read_exact(&mut [0; 1000]).expect("received");
                }
            }
        })
        .expect("the namespace");
}

/// The frames seen of a connection: for either side, whether it had a SYN and a FIN, and its bytes.
#[derive(Default)]
struct Seen {
    syns: u32,
    fins: u32,
    bytes: [u64; 2],
}

fn read_all(capture: &mut Capture, frames: &mut Vec<(u64, u64)>) -> HashMap<FlowKey, Seen> {
    let (mut seen, mut block) = (HashMap::<FlowKey, Seen>::new(), Block::default());
    let (hasher, mut segment) = (FlowHasher::new(0), Segment::default());
    let end = Instant::now() + Duration::from_secs(2);
    let mut quiet = 0;
    while quiet < 3 && Instant::now() < end {
        capture.read(&mut block, Duration::from_millis(200)).expect("packets");
        quiet = if block.entries.is_empty() { quiet + 1 } else { 0 };
        for frame in block.frames() {
            frames.push((frame.id.number(), frame.time_ns));
            let Packet::Tcp = decode(&frame, &hasher, &mut segment) else { continue };
            let seen = seen.entry(segment.flow).or_default();
            seen.syns += u32::from(segment.flags.has(TcpFlags::SYN));
            seen.fins += u32::from(segment.flags.has(TcpFlags::FIN));
            let is_from_server = usize::from(frame.original_len > 1000);
            seen.bytes[is_from_server] += u64::from(segment.payload_len);
        }
    }
    seen
}

#[test]
fn each_packet_of_loopback_is_captured_once_and_in_the_order_of_time() {
    let Some(namespace) = Namespace::new("once") else { return };
    for (interface, packet_socket) in [(ANY, false), ("lo", true), ("lo", false)] {
        let wanted = Wanted { packet_socket, ..namespace.wanted(interface) };
        let mut capture = Capture::open(&wanted).expect("a capture");
        let has_programs = interface != ANY && !packet_socket && has_programs();
        let means = if has_programs { Means::Programs } else { Means::PacketSocket };
        assert_eq!(capture.means(), means);
        talk(&namespace, 4);
        let mut frames = Vec::new();
        let seen = read_all(&mut capture, &mut frames);
        assert_eq!(seen.len(), 4);
        for seen in seen.values() {
            assert_eq!((seen.syns, seen.fins, seen.bytes), (2, 2, [300, 3000]), "{interface}");
        }
        assert!(frames.iter().zip(1..).all(|((number, _), expected)| *number == expected));
        assert!(frames.is_sorted_by_key(|(_, time_ns)| *time_ns));
        assert_eq!(capture.summary().problems, []);
        assert_eq!(capture.late(), 0);
    }
}

#[test]
fn half_of_the_connections_are_captured_whole_and_the_others_not_at_all() {
    let Some(namespace) = Namespace::new("half") else { return };
    for interface in [ANY, "lo"] {
        half_of_the_connections(&namespace, interface);
    }
}

fn half_of_the_connections(namespace: &Namespace, interface: &str) {
    let mut capture = Capture::open(&namespace.wanted(interface)).expect("a capture");
    capture.set_share(Share::ALL.halved()).expect("a filter");
    talk(namespace, 64);
    let seen = read_all(&mut capture, &mut Vec::new());
    assert!((16..=48).contains(&seen.len()), "{} of 64", seen.len());
    for (flow, seen) in &seen {
        assert_eq!((seen.syns, seen.fins, seen.bytes), (2, 2, [300, 3000]), "{flow:?}");
        assert!(capture.selection().sample.has(flow), "{flow:?}");
    }
    // The kernel may take a new filter while the capture runs.
    capture.set_share(Share::ALL).expect("a filter");
    talk(namespace, 8);
    assert_eq!(read_all(&mut capture, &mut Vec::new()).len(), 8);
}

#[test]
fn an_interface_that_goes_down_comes_back_and_is_removed_is_noticed() {
    let Some(namespace) = Namespace::new("link") else { return };
    namespace.inside(&["link", "add", "near0", "type", "veth", "peer", "name", "far0"]);
    namespace.inside(&["link", "set", "near0", "up"]);
    let mut capture = Capture::open(&namespace.wanted("near0")).expect("a capture");
    let mut block = Block::default();
    assert_eq!(capture.link_change(), None);
    for (state, link) in [("down", Link::Down), ("up", Link::Up)] {
        namespace.inside(&["link", "set", "near0", state]);
        capture.read(&mut block, Duration::from_millis(10)).expect("no error");
        assert_eq!(capture.link_change(), Some(link));
        assert_eq!(capture.link_change(), None);
    }
    namespace.inside(&["link", "del", "near0"]);
    capture.read(&mut block, Duration::from_millis(10)).expect("no error");
    assert_eq!(capture.link_change(), Some(Link::Gone));
    let missing = Capture::open(&namespace.wanted("near0"));
    assert!(matches!(missing, Err(LiveError::NoInterface { .. })));
}

/// Returns whether programs can be attached to interfaces here: built with clang, on Linux 6.6.
fn has_programs() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|it| it.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    hooks::BUILT && version >= (6, 6)
}

/// Programs at the loopback interface of a namespace, ingress and egress.
fn attached(namespace: &Namespace) -> usize {
    let at = |place| SchedClassifier::query_tcx("lo", place).expect("the kernel answers").1.len();
    let count = || at(TcAttachType::Ingress) + at(TcAttachType::Egress);
    namespace.netns().inside(count).expect("the namespace")
}

/// TCP, name look-ups and ICMP errors, by IPv4 and IPv6, and what no capture keeps.
fn mixed_traffic(near: &Namespace, far: &Namespace, addresses: &[&str]) {
    for address in addresses {
        let at = |port: u16| -> std::net::SocketAddr {
            std::net::SocketAddr::new(address.parse().expect("an address"), port)
        };
        let listener = far.netns().inside(|| TcpListener::bind(at(8080)).expect("a port"));
        let listener = listener.expect("the namespace");
        let work = || {
            let mut near = TcpStream::connect(at(8080)).expect("accepted");
            let mut far = listener.accept().expect("a connection").0;
            near.write_all(&[b'q'; 90]).expect("sent");
            far.read_exact(&mut [0; 90]).expect("received");
            far.write_all(&[b'a'; 40_000]).expect("sent");
            near.read_exact(&mut [0; 40_000]).expect("received");
            let unspecified = if at(0).is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(unspecified).expect("a port");
            for port in [53, 5353] {
                // Nobody listens: an ICMP error comes back.
                socket.send_to(&[b'd'; 700], at(port)).expect("sent");
            }
        };
        near.netns().inside(work).expect("the namespace");
    }
}

/// Returns the contents of each frame without its time.
fn contents(capture: &mut Capture) -> Vec<(Vec<u8>, u32)> {
    let (mut all, mut block, mut quiet) = (Vec::new(), Block::default(), 0);
    while quiet < 3 {
        capture.read(&mut block, Duration::from_millis(200)).expect("packets");
        quiet = if block.entries.is_empty() { quiet + 1 } else { 0 };
        all.extend(block.frames().map(|it| {
            let mut bytes = it.bytes.to_vec();
            // The length of the link address, and that address, which only packet sockets know.
            bytes[11..20].fill(0);
            (bytes, it.original_len)
        }));
    }
    // Interfaces report their multicast groups (RFC 3810, behind hop-by-hop options) when they like.
    all.retain(|(bytes, _)| bytes[..2] != [0x86, 0xdd] || bytes[26] != 0);
    all.sort();
    all
}

#[test]
fn programs_capture_what_a_packet_socket_does() {
    if !has_programs() {
        return tcpwhy_testing::skip_in_ci_too("programs at interfaces need clang and Linux 6.6");
    }
    let Some((near, far)) = Namespace::new("near").zip(Namespace::new("far")) else { return };
    near.inside(&["link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", &far.0]);
    for (namespace, last) in [(&near, "1"), (&far, "2")] {
        namespace.inside(&["link", "set", "v0", "up"]);
        namespace.inside(&["addr", "add", &format!("10.7.0.{last}/24"), "dev", "v0"]);
        namespace.inside(&["addr", "add", &format!("fd07::{last}/64"), "dev", "v0", "nodad"]);
    }
    let mut addresses = vec!["10.7.0.2", "fd07::2"];
    let vlan = ["link", "add", "link", "v0", "name", "v7", "type", "vlan", "id", "7"];
    let tagged = Command::new("ip").args(["-n", &near.0]).args(vlan).status();
    if tagged.is_ok_and(|status| status.success()) {
        far.inside(&vlan);
        for (namespace, last) in [(&near, "1"), (&far, "2")] {
            namespace.inside(&["link", "set", "v7", "up"]);
            namespace.inside(&["addr", "add", &format!("10.8.0.{last}/24"), "dev", "v7"]);
        }
        addresses.push("10.8.0.2");
    } else {
        println!("without VLAN tags: this kernel has none");
    }
    let filters =
        ["", "port 8080", "not port 8080", "host 10.7.0.2", "host fd07::/64 and port 8000-9000"];
    for filter in filters {
        let ends = Filter::parse(filter).expect("a filter").ends().to_vec();
        let open = |packet_socket| {
            let wanted = Wanted { ends: ends.clone(), packet_socket, ..far.wanted("v0") };
            Capture::open(&wanted).expect("a capture")
        };
        let (mut socket, mut programs) = (open(true), open(false));
        assert_eq!(programs.means(), Means::Programs);
        mixed_traffic(&near, &far, &addresses);
        let (one, other) = (contents(&mut socket), contents(&mut programs));
        assert!(one.len() > 5, "{filter}: {}", one.len());
        let only = |these: &[(Vec<u8>, u32)], those: &[(Vec<u8>, u32)]| -> Vec<(Vec<u8>, u32)> {
            these.iter().filter(|it| !those.contains(it)).cloned().collect()
        };
        let (missing, added) = (only(&one, &other), only(&other, &one));
        assert_eq!((missing, added), (Vec::new(), Vec::new()), "{filter}");
        assert_eq!(one.len(), other.len(), "{filter}");
    }
}

#[test]
fn an_interface_that_holds_packets_back_is_captured_behind_its_queue() {
    let Some(namespace) = Namespace::new("queue") else { return };
    namespace.inside(&["link", "add", "near0", "type", "veth", "peer", "name", "far0"]);
    let status = Command::new("tc")
        .args(["-n", &namespace.0, "qdisc", "add", "dev", "near0", "root", "tbf"])
        .args(["rate", "1mbit", "burst", "10kb", "latency", "50ms"])
        .status();
    assert!(status.expect("tc runs (iproute2)").success());
    let capture = Capture::open(&namespace.wanted("near0")).expect("a capture");
    assert_eq!(capture.means(), Means::PacketSocket);
    let why = capture.fallback().expect("a reason").to_string();
    assert!(why.contains("queueing discipline (tbf) holds packets back"), "{why}");
    let of_all = Capture::open(&namespace.wanted(ANY)).expect("a capture");
    assert_eq!(of_all.fallback(), None, "of all interfaces it is no way out");
}

/// Captures in the namespace that its parent names; not a test of its own.
#[test]
#[ignore = "the child of programs_are_gone_once_the_process_that_attached_them_is_killed"]
fn captures_until_it_is_killed() {
    let Ok(name) = std::env::var("TCPWHY_TEST_NETNS") else { return };
    let namespace = std::mem::ManuallyDrop::new(Namespace(name));
    let _capture = Capture::open(&namespace.wanted("lo")).expect("a capture");
    thread::sleep(Duration::from_secs(30));
}

#[test]
fn programs_are_gone_once_the_process_that_attached_them_is_killed() {
    if !has_programs() {
        return tcpwhy_testing::skip_in_ci_too("programs at interfaces need clang and Linux 6.6");
    }
    let Some(namespace) = Namespace::new("killed") else { return };
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "capture::captures_until_it_is_killed", "--ignored"])
        .env("TCPWHY_TEST_NETNS", &namespace.0)
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let until = |wanted: usize| {
        let end = Instant::now() + Duration::from_secs(20);
        while attached(&namespace) != wanted && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(attached(&namespace), wanted);
    };
    until(1);
    child.kill().expect("killed");
    child.wait().expect("it ended");
    until(0);
}
