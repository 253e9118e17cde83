//! Live capture in a network namespace of its own; needs root.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use tcpwhy_core::capture::Block;
use tcpwhy_core::wire::{FlowHasher, FlowKey, Packet, Segment, TcpFlags, decode};
use tcpwhy_live::LiveError;
use tcpwhy_live::capture::{ANY, Capture, Link, Share, Wanted};
use tcpwhy_live::netns::Netns;

/// A namespace that is gone at the end.
struct Namespace(String);

impl Namespace {
    /// `None` without root, which is said.
    fn new(name: &str) -> Option<Self> {
        let is_root = std::fs::metadata("/proc/self")
            .is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
        if !is_root {
            println!("skipped: a network namespace of its own needs root");
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
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Opens, uses and closes so many connections at once.
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

/// What was seen of a connection: of either side, whether it had a SYN and a FIN, and its bytes.
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
    for interface in [ANY, "lo"] {
        let mut capture = Capture::open(&namespace.wanted(interface)).expect("a capture");
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
    let mut capture = Capture::open(&namespace.wanted(ANY)).expect("a capture");
    capture.set_share(Share::ALL.halved()).expect("a filter");
    talk(&namespace, 64);
    let seen = read_all(&mut capture, &mut Vec::new());
    assert!((16..=48).contains(&seen.len()), "{} of 64", seen.len());
    for (flow, seen) in &seen {
        assert_eq!((seen.syns, seen.fins, seen.bytes), (2, 2, [300, 3000]), "{flow:?}");
        assert!(capture.selection().has(flow), "{flow:?}");
    }
    // What the kernel takes while it runs.
    capture.set_share(Share::ALL).expect("a filter");
    talk(&namespace, 8);
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
