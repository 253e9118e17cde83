//! Connections that follow each other on the same ports.

use super::*;
use crate::capture::FrameId;
use crate::tcp::exchange::Exchange;
use crate::wire::{Endpoint, SegmentFlags, TcpFlags};

struct Nothing;

impl Sink for Nothing {
    fn exchange(&mut self, _: &Connection, _: &Exchange) {}
    fn connection(&mut self, _: &Connection) {}
}

/// Feeds a tracker with segments of connections to one server, one microsecond apart.
#[derive(Default)]
struct Feed {
    tracker: Tracker,
    now_ns: u64,
    frames: u64,
}

impl Feed {
    fn step(&mut self, port: u32, from_high: bool, (flags, len): (u8, u32), [seq, ack]: [u32; 2]) {
        self.now_ns += 1_000;
        self.frames += 1;
        let endpoint = |last, port| Endpoint { address: [last; 16], port };
        let high = endpoint(2, 1_024 + port as u16);
        let segment = Segment {
            time_ns: self.now_ns,
            frame: FrameId::new(0, self.frames),
            flow: FlowKey { low: endpoint(1, 80), high },
            flow_hash: u64::from(port),
            facts: SegmentFlags(if from_high { SegmentFlags::FROM_HIGH } else { 0 }),
            flags: TcpFlags(flags),
            seq,
            ack,
            payload_len: len,
            ..Segment::default()
        };
        self.tracker.segment(&segment, &[], &mut Nothing);
    }

    /// Adds a connection that both sides close at once.
    fn connection(&mut self, port: u32) {
        let (syn, ack, fin) = (TcpFlags::SYN, TcpFlags::ACK, TcpFlags::FIN);
        self.step(port, true, (syn, 0), [100, 0]);
        self.step(port, false, (syn | ack, 0), [500, 101]);
        self.step(port, true, (ack, 0), [101, 501]);
        self.step(port, true, (fin | ack, 0), [101, 501]);
        self.step(port, false, (fin | ack, 0), [501, 102]);
        self.step(port, true, (ack, 0), [102, 502]);
    }
}

/// A port is reused before many others were used once: the new connection is not the attempt that
/// was dropped long ago.
#[test]
fn a_reused_port_is_not_the_earlier_attempt() {
    let mut feed = Feed::default();
    for port in 0..HALF_OPEN_MAX as u32 {
        feed.connection(port);
    }
    feed.step(0, true, (TcpFlags::SYN, 0), [900_000, 0]);
    assert_eq!((feed.tracker.evicted, feed.tracker.port_reuses), (0, 1));
}

/// Only addresses and sequence numbers are kept of a cleanly closed connection. They distinguish
/// late segments from those of another connection, whose SYN was not captured.
#[test]
fn sequence_numbers_distinguish_late_segments_after_a_clean_close() {
    let data = (TcpFlags::ACK, 1);
    let is_followed = |port, from_high, numbers| {
        let mut feed = Feed::default();
        feed.connection(1);
        feed.now_ns += 100_000_000;
        feed.connection(2);
        assert_eq!(feed.tracker.open_connections(), 1);
        feed.step(port, from_high, data, numbers);
        feed.tracker.open_connections() == 2
    };
    for (from_high, [first, next]) in [(true, [100, 102]), (false, [500, 502])] {
        assert!(!is_followed(1, from_high, [first, 1]));
        assert!(!is_followed(1, from_high, [next, 1]));
        assert!(is_followed(1, from_high, [next + 1, 1]));
        assert!(is_followed(1, from_high, [first - 1, 1]));
    }
    assert!(is_followed(3, true, [102, 1]));
}
