//! One TCP connection: both directions, their streams, and the exchanges on it.

mod about;
mod accept;
mod acknowledge;
mod asked;
mod blocked;
mod ceiling_rounds;
mod cold;
mod data;
mod doubt;
mod ending;
mod feed;
mod gap;
mod icmp;
mod kept;
mod limits;
mod opening;
mod outcome;
mod queue_delay;
mod relayed;
mod resets;
mod roles;
mod silence;
mod steady;
mod suspended;
mod under_way;

use crate::app::{Framer, Side};
use crate::capture::FrameId;
use crate::model::{Shares, Sighting};
use crate::tcp::path::Path;
use crate::tcp::reassembly::Reassembly;
use crate::tcp::row::Row;
use crate::tcp::sender::{Sender, SinceDeparture};
use crate::tcp::setup::Setup;
use crate::tcp::shared::{Shared, Software};
use crate::tcp::timeline::Timeline;
use crate::tcp::tracker::Sink;
use crate::wire::{FlowKey, Segment, SegmentFlags, TcpFlags};
pub use about::End;
use cold::ColdState;
pub use icmp::IcmpReport;
use opening::TimestampCarrier;
use roles::Roles;
use std::sync::Arc;
use steady::Steady;

/// Returns whether `segment` is an ACK without data, which the kernel sends by itself.
fn is_pure_ack(segment: &Segment) -> bool {
    let control = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
    segment.payload_len == 0 && segment.flags.0 & control == 0
}

/// One TCP connection.
#[derive(Clone)]
pub struct Connection {
    /// Key of the connection in the table.
    pub key: FlowKey,
    /// Lower half of the hash of the key.
    pub hash: u32,
    client_is_high: bool,
    /// Senders of both directions, indexed by side.
    pub senders: [Sender; 2],
    /// Round trips to both ends.
    pub path: Path,
    streams: [Reassembly; 2],
    framer: Framer,
    /// State of the handshake.
    pub setup: Setup,
    timeline: Timeline,
    /// First frame of the connection.
    pub first_frame: FrameId,
    /// Last frame of the connection.
    pub last: Sighting,
    /// Time of the first frame, ns.
    pub first_ns: u64,
    /// The capture does not contain the beginning of the connection.
    pub mid_stream: bool,
    /// The evidence from which the roles of client and server follow.
    roles: Roles,
    options_cut: bool,
    is_tunnelled: bool,
    /// At the end of the capture the last request had no response.
    pub left_unanswered: bool,
    /// ACKs without data were captured.
    pure_acks: bool,
    /// The server closed while a request was waiting.
    server_closed_early: bool,
    /// Names of the software that the two sides state.
    software: Option<Arc<Software>>,
    cold: Option<Box<ColdState>>,
    /// Segments recorded on the fast path.
    steady: Option<Box<Steady>>,
    /// Sums over finished exchanges.
    pub totals: Totals,
}

/// Size of an open connection without rarely needed state. With its entry in the table it stays
/// near 1 KiB.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Connection>() <= 1064);

/// Sums over a connection's exchanges.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Wall time by owner.
    pub ledger: Shares,
    /// Time lost to faults, ns.
    pub lost_ns: u64,
    /// Causes that occurred in the exchanges, one bit each, by silent side.
    pub causes: [u64; 2],
    /// The last exchanges that followed each other back to back, if the path is long enough for
    /// that to matter.
    row: Option<Box<Row>>,
}

impl Totals {
    /// The last exchanges that followed each other back to back.
    pub fn row(&self) -> Row {
        self.row.as_deref().copied().unwrap_or_default()
    }

    /// Replaces the back-to-back exchanges.
    fn set_row(&mut self, row: Row) {
        match &mut self.row {
            Some(known) => **known = row,
            None if row.count > 0 => self.row = Some(Box::new(row)),
            None => {}
        }
    }
}

impl Connection {
    /// Creates a connection whose first segment is `segment`.
    pub fn new(segment: &Segment) -> Self {
        let mut connection = Self::with_first(segment);
        if connection.mid_stream && segment.flow.is_within_host() {
            let timestamps = segment.facts.has(SegmentFlags::TIMESTAMPS);
            let senders = connection.senders.iter_mut();
            senders.for_each(|sender| sender.sizes.assume_loopback(timestamps));
        }
        connection
    }

    fn with_first(segment: &Segment) -> Self {
        let syn = segment.flags.has(TcpFlags::SYN);
        let client_is_high = segment.is_client_high();
        let server = if client_is_high { &segment.flow.low } else { &segment.flow.high };
        Self {
            key: segment.flow,
            hash: segment.flow_hash as u32,
            client_is_high,
            senders: [Sender::of(Side::Client), Sender::of(Side::Server)],
            path: Path::default(),
            streams: [Reassembly::default(), Reassembly::default()],
            framer: Framer::new(server.port, !syn),
            setup: Setup::default(),
            timeline: Timeline::new(),
            first_frame: segment.frame,
            last: Sighting { time_ns: segment.time_ns, ..Sighting::default() },
            first_ns: segment.time_ns,
            mid_stream: !syn,
            roles: if syn { Roles::Shown } else { Roles::Unknown },
            options_cut: false,
            left_unanswered: false,
            is_tunnelled: segment.facts.has(SegmentFlags::TUNNELLED),
            pure_acks: false,
            server_closed_early: false,
            software: None,
            cold: None,
            steady: None,
            totals: Totals::default(),
        }
    }

    /// Keeps literal values in request labels.
    pub fn show_values(&mut self) {
        self.framer.show_values();
    }

    /// Processes the next segment of the connection, with its captured payload, outside the fast
    /// path.
    pub fn segment(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) {
        self.leave_fast_path(shared);
        let forward;
        let is_late = segment.time_ns < self.last.time_ns;
        let clock_set = segment.facts.has(SegmentFlags::CLOCK_SET);
        let segment = if is_late || clock_set || self.clock_was_set() {
            forward = self.with_forward_time(segment, clock_set);
            &forward
        } else {
            segment
        };
        if self.roles == Roles::Unknown && segment.payload_len > 0 {
            self.learn_roles(segment, payload);
        }
        let side =
            if segment.from_high() == self.client_is_high { Side::Client } else { Side::Server };
        let peer_number = self.senders[side.peer() as usize].packets.last.ip_id;
        if self.senders[side as usize].packet(segment, peer_number) {
            self.faults_mut().duplicates += 1;
            if segment.flags.has(TcpFlags::SYN) && !segment.facts.has(SegmentFlags::RECEIVED) {
                self.setup.deny_arrival();
            }
            return;
        }
        if side == Side::Server
            && segment.flags.has(TcpFlags::SYN | TcpFlags::ACK)
            && segment.facts.has(SegmentFlags::RECEIVED)
        {
            self.setup.deny_arrival();
        }
        if side == Side::Client && self.setup.other_syn_acks() > 0 {
            self.adopt_other_answer(segment);
        }
        if self.is_refused(side, segment) {
            return;
        }
        if self.holds_reset() {
            self.settle_reset(side, segment);
        }
        self.note_packet(side, segment);
        if !self.take_control(side, segment) {
            return;
        }
        let echoes = self.mid_stream && segment.facts.has(SegmentFlags::TIMESTAMPS);
        let carrier = self.timestamp_carrier(side, segment);
        if echoes && segment.payload_len == 0 {
            self.take_timestamps(side, segment, carrier);
        }
        self.take_acknowledgment(side, segment, shared);
        if segment.payload_len > 0 {
            self.data(side, segment, payload, shared);
            if echoes {
                // A sample is added after the silence is judged, so that it cannot change the path
                // by which the silence is judged.
                self.take_timestamps(side, segment, carrier);
            }
        } else {
            self.take_empty(side, segment, shared);
        }
        if segment.flags.has(TcpFlags::FIN) {
            self.take_fin(side, segment);
        }
        if segment.flags.has(TcpFlags::RST) && self.ending().reset.is_none() {
            self.reset(side, segment);
        }
        self.report_finished(shared, sink);
        if side == Side::Server && segment.payload_len > 0 {
            self.enter_fast_path(segment, shared);
        }
    }

    /// Returns what kind of segment carries the timestamps of `segment`.
    #[inline]
    fn timestamp_carrier(&self, side: Side, segment: &Segment) -> TimestampCarrier {
        if is_pure_ack(segment) {
            TimestampCarrier::PureAck
        } else if segment.payload_len > 0 && self.timeline.active == Some(side) {
            TimestampCarrier::Continuation
        } else {
            TimestampCarrier::Other
        }
    }

    /// Records what every packet shows, whatever its position in the stream.
    #[inline]
    fn note_packet(&mut self, side: Side, segment: &Segment) {
        self.last = Sighting::of(side, segment);
        if self.senders[side as usize].packets.ids.take_late() {
            self.settle_late(side, segment.ip_id);
        }
        if self.cold(|cold| &cold.queued).is_some() {
            self.settle_queued(side, segment);
        }
        if segment.facts.0 & (SegmentFlags::TRUNCATED_HEADER | SegmentFlags::ECN_CE) != 0
            || segment.flags.0 & (TcpFlags::ECE | TcpFlags::CWR) != 0
        {
            self.note_rare_properties(side, segment);
        }
    }

    /// Processes SYN and RST, and any segment before the handshake is complete. Returns `false` if
    /// the segment belongs to another connection.
    #[inline]
    fn take_control(&mut self, side: Side, segment: &Segment) -> bool {
        let control = segment.flags.0 & (TcpFlags::SYN | TcpFlags::RST) != 0;
        if !control && self.setup.confirmed {
            return true;
        }
        if side == Side::Client && self.repeats_syn(segment) {
            self.start_over();
        }
        if self.is_of_another(side, segment) {
            self.setup.note_other_connection();
            return false;
        }
        if self.is_of_another_host(side, segment) {
            self.note_other_answer(segment);
            return false;
        }
        self.set_up(side, segment);
        true
    }

    /// Processes the acknowledgment field of `segment`.
    #[inline]
    fn take_acknowledgment(&mut self, side: Side, segment: &Segment, shared: &mut Shared) {
        if segment.flags.has(TcpFlags::ACK) {
            self.acknowledge(side, segment, shared);
        }
        self.pure_acks |= is_pure_ack(segment);
    }

    /// Processes a segment without payload, which may be a window probe.
    #[inline]
    fn take_empty(&mut self, side: Side, segment: &Segment, shared: &mut Shared) {
        if self.is_probe(side, segment) {
            if self.may_be_under_way(side) {
                self.begin_mid_message(side, segment, self.first_ns, shared);
            }
            self.senders[side as usize].since.stored_mut().probed(side, segment);
            self.senders[side as usize].history_mut().window.probes += 1;
        } else if segment.flags.0 & (TcpFlags::SYN | TcpFlags::RST) == 0 {
            if self.is_unsettled() && self.senders[side as usize].space.is_keep_alive(segment) {
                self.stop_counting_acks(side);
            }
            self.senders[side as usize].announce(segment);
            if side == Side::Server && self.senders[side as usize].is_troubled() {
                self.note_unseen_greeting(segment, shared);
            }
        }
    }

    /// Processes the FIN in `segment`.
    #[inline(never)]
    fn take_fin(&mut self, side: Side, segment: &Segment) {
        let acks = self.senders[side.peer() as usize].space.una_seen();
        let ending = self.ending_mut();
        if ending.fin_ns[side as usize].is_none() {
            ending.fin_acks[side as usize] = acks;
        }
        ending.fin_ns[side as usize].get_or_insert(segment.time_ns);
        ending.fin[side as usize].get_or_insert(Sighting::of(side, segment));
        let sender = &mut self.senders[side as usize];
        let position = sender.space.position(segment.seq) + u64::from(segment.payload_len);
        sender.space.finish(position);
        // A FIN that the client has acknowledged tells it nothing new.
        let is_repeated = sender.space.una_seen() > position;
        if side == Side::Server && !is_repeated {
            self.take_server_fin(segment);
        }
    }

    /// Returns whether `segment` is a window probe: a zero-length probe repeats the position before
    /// SND.UNA.
    fn is_probe(&mut self, side: Side, segment: &Segment) -> bool {
        let sender = &mut self.senders[side as usize];
        let control = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        if !sender.is_troubled() || !sender.space.started() || segment.flags.0 & control != 0 {
            return false;
        }
        let position = sender.space.position(segment.seq);
        let closed = sender.history().window.is_closed_or_zero(&sender.space);
        position < sender.space.nxt && position + 1 == sender.space.una_seen() && closed
    }

    /// Lowers the round trip to `side` to `rtt_ns`, since ACKs reached it sooner than estimated;
    /// `segment`, which it sends, shows that. Returns the round trip, ns.
    #[cold]
    #[inline(never)]
    fn shorten_path(
        &mut self,
        side: Side,
        rtt_ns: u64,
        segment: &Segment,
        since: &mut SinceDeparture,
    ) -> u64 {
        if self.is_timed(segment, rtt_ns) {
            self.path.sample(side, rtt_ns);
        }
        let rtts_ns = (self.path.rtt_ns(side), self.path.rtt_ns(side.peer()));
        let sender = &mut self.senders[side as usize];
        sender.advance(since, segment.time_ns, rtts_ns, segment.echoes());
        rtts_ns.0
    }
}
