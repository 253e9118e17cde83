//! Tests of the link emulator between two real namespaces: it keeps time, has enough capacity,
//! treats packets as configured, and reports it.
//!
//! Needs root.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tcpwhy_lab::capture::CaptureParams;
use tcpwhy_lab::relay::RelayReport;
use tcpwhy_lab::stage::StageParams;
use tcpwhy_lab::{Direction, DropRule, Kind, LabError, Link, RelayParams, Stage};
use tcpwhy_testing::alone;

const MS: u64 = 1_000_000;
/// A busy machine gets another try; a relay that is too slow fails them all.
const ATTEMPTS: u32 = 8;
/// Longest wait of a receiver for one more datagram.
const READ_TIMEOUT: Duration = Duration::from_millis(300);

/// A stage with this link; `None` where this machine cannot.
fn stage(link: RelayParams) -> Option<Stage> {
    let params = StageParams {
        link: Link::Relay(link),
        ipv6: false,
        seed: 5,
        capture: CaptureParams::default(),
        congestion_control: "cubic",
    };
    match Stage::build(params, None) {
        Ok(stage) => Some(stage),
        Err(error @ (LabError::NotRoot | LabError::Missing { .. })) => {
            tcpwhy_testing::skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn report(mut stage: Stage) -> RelayReport {
    stage.finish().expect("the stage ends").relay.expect("the link was a relay")
}

fn bound(stage: &Stage) -> (UdpSocket, SocketAddr) {
    let at = SocketAddr::new(stage.server_addr, 7);
    let socket = stage.server.inside(|| UdpSocket::bind(at)).expect("a namespace");
    let socket = socket.expect("a port");
    socket.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout");
    (socket, at)
}

fn sender(stage: &Stage, to: SocketAddr) -> UdpSocket {
    let bind = || UdpSocket::bind((stage.client_addr, 0));
    let socket = stage.client.inside(bind).expect("a namespace").expect("a port");
    socket.connect(to).expect("a route");
    socket.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout");
    socket
}

/// Sends `count` numbered datagrams of `bytes` from the client, half a millisecond apart, and
/// returns the numbers as the server received them.
fn numbered(stage: &Stage, count: u32, bytes: usize) -> Vec<u32> {
    let (receiver, at) = bound(stage);
    let sender = sender(stage, at);
    let all_sent = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&all_sent);
    let receiving = thread::spawn(move || {
        let (mut numbers, mut datagram) = (Vec::new(), [0; 2_000]);
        loop {
            match receiver.recv(&mut datagram) {
                Ok(4..) => numbers.push(u32::from_be_bytes([0, 1, 2, 3].map(|i| datagram[i]))),
                _ if ends.load(Ordering::Relaxed) => return numbers,
                _ => {}
            }
        }
    });
    let mut datagram = vec![0; bytes];
    for number in 0..count {
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        // The send may fail if the sender knows the path MTU already; the link itself sends no ICMP
        // message.
        let _ = sender.send(&datagram);
        thread::sleep(Duration::from_micros(500));
    }
    // What is still on the link arrives within the receiver's time limit, after this one.
    thread::sleep(READ_TIMEOUT);
    all_sent.store(true, Ordering::Relaxed);
    receiving.join().expect("the receiver ends")
}

fn copies(numbers: &[u32]) -> BTreeMap<u32, u32> {
    let mut copies = BTreeMap::new();
    numbers.iter().for_each(|&number| *copies.entry(number).or_insert(0) += 1);
    copies
}

/// Round trips over an otherwise idle link, sorted.
fn round_trips(stage: &Stage, count: u32) -> Vec<Duration> {
    let (echo, at) = bound(stage);
    let client = sender(stage, at);
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let echoing = thread::spawn(move || {
        let mut datagram = [0; 64];
        while !ends.load(Ordering::Relaxed) {
            if let Ok((length, from)) = echo.recv_from(&mut datagram) {
                let _ = echo.send_to(&datagram[..length], from);
            }
        }
    });
    let mut datagram = [0; 64];
    let mut one = |_| {
        let sent = Instant::now();
        client.send(b"time").expect("a way");
        client.recv(&mut datagram).expect("an echo");
        sent.elapsed()
    };
    let mut took: Vec<_> = (0..count).map(&mut one).collect();
    is_over.store(true, Ordering::Relaxed);
    echoing.join().expect("the echo ends");
    took.sort();
    took
}

fn median(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}

#[test]
fn each_way_of_a_20_ms_round_trip_is_kept_to_a_third_of_a_millisecond() {
    let _alone = alone();
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        // The time that the ends and the kernel need to wake up is not part of the delay, so a link
        // without delay is measured first.
        let Some(direct) = stage(RelayParams::symmetric(0, 0, 1)) else { return };
        let own = median(&round_trips(&direct, 100));
        report(direct);
        let Some(stage) = stage(RelayParams::symmetric(20 * MS, 0, 1)) else { return };
        let took = median(&round_trips(&stage, 100));
        let time = report(stage).timekeeping;
        last = format!("median round trip {took:?}, {own:?} without delay, {time:?}");
        println!("{last}");
        // Both ways; ends that slept for 20 ms wake up later than those that are kept busy. The
        // slowest packets are those that other tests on the same cores held up.
        let off = took.saturating_sub(own).abs_diff(Duration::from_millis(20));
        if off < Duration::from_micros(600) && time.late_p50_ns < 150_000 {
            return;
        }
    }
    panic!("{last}");
}

#[test]
fn the_relay_carries_300_mbit_per_second() {
    let _alone = alone();
    const BYTES: usize = 60_000_000;
    let mut best_mbps = 0.0_f64;
    for _ in 0..ATTEMPTS {
        let Some(stage) = stage(RelayParams::symmetric(2 * MS, 0, 1)) else { return };
        let at = SocketAddr::new(stage.server_addr, 9);
        let listener = stage.server.inside(|| TcpListener::bind(at)).expect("a namespace");
        let listener = listener.expect("a port");
        let reading = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let (mut chunk, mut read) = (vec![0; 1 << 18], 0);
            let since = Instant::now();
            while let Ok(length @ 1..) = stream.read(&mut chunk) {
                read += length;
            }
            (read, since.elapsed())
        });
        let connect = || TcpStream::connect(at);
        let mut stream = stage.client.inside(connect).expect("a namespace").expect("a way");
        stream.write_all(&vec![b'x'; BYTES]).expect("a reader");
        drop(stream);
        let (read, took) = reading.join().expect("the reader ends");
        assert_eq!(read, BYTES);
        best_mbps = best_mbps.max(read as f64 * 8e-6 / took.as_secs_f64());
        println!("{best_mbps:.0} Mbit/s, {:?}", report(stage).timekeeping);
        if best_mbps >= 300.0 {
            return;
        }
    }
    panic!("{best_mbps:.0} Mbit/s");
}

#[test]
fn duplicates_arrive_as_often_as_reported_and_by_the_seed() {
    let link = || RelayParams::symmetric(2 * MS, 0, 3).both(|path| path.duplicate_ppm = 50_000);
    let mut runs = Vec::new();
    for _ in 0..2 {
        let Some(stage) = stage(link()) else { return };
        let received = numbered(&stage, 400, 100);
        let twice: Vec<u32> = copies(&received)
            .into_iter()
            .filter(|&(_, n)| n == 2)
            .map(|(number, _)| number)
            .collect();
        let reported = report(stage).client_to_server.duplicated;
        assert!((5..50).contains(&twice.len()), "{}", twice.len());
        assert_eq!(twice.len() as u64, reported);
        runs.push(twice);
    }
    assert_eq!(runs[0], runs[1], "the seed decides");
}

#[test]
fn what_is_held_back_is_overtaken_and_nothing_is_lost() {
    let link = RelayParams::symmetric(4 * MS, 0, 3).both(|path| {
        path.reorder_ppm = 30_000;
        path.reorder_ns = 5 * MS;
    });
    let Some(stage) = stage(link) else { return };
    let received = numbered(&stage, 400, 100);
    let late = received.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    let reported = report(stage).client_to_server.reordered;
    assert_eq!(copies(&received).len(), 400);
    assert!((1..=reported).contains(&late), "{late} of {reported}");
}

#[test]
fn a_packet_above_the_mtu_vanishes_and_one_at_it_passes() {
    // 28 bytes of IPv4 and UDP header.
    let link = RelayParams::symmetric(2 * MS, 0, 3).both(|path| path.mtu_bytes = 1_400);
    let Some(stage) = stage(link) else { return };
    assert_eq!(numbered(&stage, 20, 1_372).len(), 20);
    assert_eq!(numbered(&stage, 20, 1_373).len(), 0);
    assert_eq!(report(stage).dropped(), 20);
}

#[test]
fn a_rule_drops_the_chosen_packets_and_logs_them() {
    let rule = DropRule::new(Direction::ClientToServer, Kind::Any, 3, 10);
    let Some(stage) = stage(RelayParams::symmetric(2 * MS, 0, 3).dropping(rule)) else { return };
    let received = numbered(&stage, 100, 100);
    let missing: Vec<u32> = (0..100).filter(|number| !received.contains(number)).collect();
    // The third and every tenth after it; nothing else crosses this link.
    assert_eq!(missing, (2..100).step_by(10).collect::<Vec<u32>>());
    let report = report(stage);
    assert_eq!(report.drops.len(), missing.len());
    assert!(report.drops.iter().all(|drop| drop.direction == Direction::ClientToServer));
}

#[test]
fn random_loss_hits_the_same_packets_with_the_same_seed() {
    let link = |seed| RelayParams::symmetric(2 * MS, 0, seed).both(|path| path.loss_ppm = 50_000);
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let Some(stage) = stage(link(seed)) else { return };
        let received = numbered(&stage, 300, 100);
        assert_eq!(300 - received.len() as u64, report(stage).dropped());
        runs.push(received);
    }
    assert_eq!(runs[0], runs[1], "the seed decides");
    assert_ne!(runs[0], runs[2]);
}
