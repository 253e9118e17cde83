//! Connections of arbitrary segments: no panic, and every nanosecond of every exchange has exactly
//! one owner, in the exchange, per endpoint and in the report.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpwhy_core::capture::FrameId;
use tcpwhy_core::findings::{Floors, Tally, assemble};
use tcpwhy_core::internals::{Connection, Exchange, Sink, Tracker};
use tcpwhy_core::model::{Ledger, Report};
use tcpwhy_core::wire::{
    Endpoint, FlowHasher, FlowKey, SackBlock, Segment, SegmentFlags, TcpFlags,
};

/// Ports of the flows' clients; the server's is 80.
const CLIENT_PORTS: [u16; 4] = [40_000, 40_001, 40_002, 40_003];

/// Bytes that describe one segment.
const STEP_BYTES: usize = 12;

// The input is a run of segments of a few flows. Most of them go on where the flow stands, so
// that connections live; all fields can be anything.
fuzz_target!(|input: &[u8]| {
    let hasher = FlowHasher::new(1);
    let mut flows = CLIENT_PORTS.map(|port| Flow::new(port, &hasher));
    let (mut tracker, mut sink) = (Tracker::default(), Checked::default());
    let mut now_ns = 1_000_000_000;
    let mut rest = input;
    let mut number = 0;
    while let Some((step, tail)) = rest.split_first_chunk::<STEP_BYTES>() {
        number += 1;
        let flow = &mut flows[usize::from(step[0] & 3)];
        let mut segment = flow.next(step);
        // From 1 us to 17 s, and now and then back.
        now_ns += 1_000_u64 << (step[1] & 0x1f).min(24);
        let back_ns = if step[1] >= 0xf8 { 5_000_000 } else { 0 };
        segment.time_ns = now_ns - back_ns;
        segment.frame = FrameId::new(0, number);
        // Some payload is what follows in the input: requests, records, greetings.
        let captured = tail.len().min(segment.payload_len as usize).min(usize::from(step[11]));
        let (payload, tail) = tail.split_at(captured);
        segment.captured_len = captured as u32;
        tracker.segment(&segment, payload, &mut sink);
        rest = tail;
    }
    tracker.finish(&mut sink);
    sink.check();
});

/// One flow: where both directions stand.
struct Flow {
    key: FlowKey,
    hash: u64,
    client_is_high: bool,
    nxt: [u32; 2],
    ip_id: [u16; 2],
}

impl Flow {
    fn new(port: u16, hasher: &FlowHasher) -> Self {
        let client = Endpoint { address: [1; 16], port };
        let (key, client_is_high) = FlowKey::new(client, Endpoint { address: [2; 16], port: 80 });
        // One direction wraps soon.
        let nxt = [u32::MAX - 3_000, u32::from(port)];
        Self { key, hash: hasher.hash(&key), client_is_high, nxt, ip_id: [0; 2] }
    }

    /// What `step` makes of the next segment.
    fn next(&mut self, step: &[u8; STEP_BYTES]) -> Segment {
        let from_server = step[0] & 4 != 0;
        let (mine, theirs) = (usize::from(from_server), usize::from(!from_server));
        let flags = match step[0] >> 3 {
            0..=19 => TcpFlags::ACK,
            20..=22 => TcpFlags::SYN,
            23..=25 => TcpFlags::SYN | TcpFlags::ACK,
            26 | 27 => TcpFlags::FIN | TcpFlags::ACK,
            28 => TcpFlags::RST,
            _ => step[10],
        };
        let payload_len = u32::from(step[2]) * [0, 1, 6, 300][usize::from(step[3] & 3)];
        // Ahead or behind by up to 127 units; mostly neither.
        let offset = |byte: u8, unit: u32| (byte as i8 as i32 as u32).wrapping_mul(unit);
        let unit = [0, 1, 100, 0x0100_0000][usize::from(step[3] >> 2 & 3)];
        let seq = self.nxt[mine].wrapping_add(offset(step[4], unit));
        let ack_unit = [0, 1, 1_448, 0x0100_0000][usize::from(step[3] >> 4 & 3)];
        let ack = self.nxt[theirs].wrapping_add(offset(step[5], ack_unit));
        self.ip_id[mine] = self.ip_id[mine].wrapping_add(u16::from(step[6] & 3));
        let mut facts = SegmentFlags::IPV4;
        if from_server != self.client_is_high {
            facts |= SegmentFlags::FROM_HIGH;
        }
        facts |= u32::from(step[6] & 0xfc) >> 1;
        let segment = Segment {
            flow_hash: self.hash,
            flow: self.key,
            facts: SegmentFlags(facts),
            seq,
            ack,
            payload_len,
            tsval: u32::from(step[7]),
            tsecr: u32::from(step[8]),
            sack: [
                SackBlock { left: ack.wrapping_add(offset(step[8], 100)), right: seq },
                SackBlock { left: ack, right: ack.wrapping_add(u32::from(step[9]) * 1_448) },
                SackBlock::default(),
            ],
            window: u16::from(step[9]) << (step[10] & 7),
            mss: u16::from(step[10]) * 6,
            ip_id: self.ip_id[mine],
            flags: TcpFlags(flags),
            ttl: 64,
            window_scale: step[7],
            sack_count: step[3] >> 6,
            ..Segment::default()
        };
        if step[4] < 0x80 {
            self.nxt[mine] = seq.wrapping_add(segment.seg_len());
        }
        segment
    }
}

/// A tally that adds up every exchange on its own, too.
#[derive(Default)]
struct Checked {
    tally: Tally,
    ledger: Ledger,
    exchanges: u64,
    connections: u64,
}

impl Sink for Checked {
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let wall_ns = exchange.wall_ns();
        assert_eq!(exchange.ledger.total_ns(), wall_ns);
        assert!(exchange.fault_ns() <= wall_ns, "faults lost more than there was");
        assert!(exchange.repeated_setup_ns <= wall_ns);
        self.ledger.take(&exchange.ledger);
        self.exchanges += 1;
        self.tally.exchange(connection, exchange);
    }

    fn connection(&mut self, connection: &Connection) {
        self.connections += 1;
        self.tally.connection(connection);
    }
}

impl Checked {
    fn check(self) {
        let mut report = Report::default();
        let mut tally = Tally::default();
        tally.merge(self.tally);
        assemble(tally, &Floors::default(), &mut report);
        let totals = &report.totals;
        // What is learned later may rename time, never make or lose any.
        assert_eq!(report.ledger.total_ns(), self.ledger.total_ns());
        assert_eq!(report.ledger.total_ns(), totals.wall_ns);
        assert_eq!((totals.exchanges, totals.connections), (self.exchanges, self.connections));
        for finding in &report.findings {
            assert!(finding.lost_ns <= totals.wall_ns, "{finding:?}");
            assert!(finding.counterfactual.likely.max_ns <= finding.latency.max_ns, "{finding:?}");
            assert!((0.0..=1.0).contains(&finding.confidence), "{finding:?}");
        }
    }
}
