//! One TCP connection: both directions, their streams, and the exchanges on it.

mod about;
mod acknowledge;
mod asked;
mod blocked;
mod cold;
mod doubt;
mod ending;
mod feed;
mod gap;
mod icmp;
mod kept;
mod limits;
mod opening;
mod queue_delay;
mod roles;
mod silence;
mod steady;
mod suspended;
mod under_way;

use crate::app::{Framer, Side};
use crate::capture::FrameId;
use crate::judge::Recovery;
use crate::model::{Shares, Sighting};
use crate::tcp::path::Path;
use crate::tcp::reassembly::Reassembly;
use crate::tcp::row::Row;
use crate::tcp::sender::{Kind, Rtts, Sender, SinceDeparture};
use crate::tcp::setup::Setup;
use crate::tcp::shared::{Shared, Software};
use crate::tcp::timeline::Timeline;
use crate::tcp::tracker::Sink;
use crate::wire::{FlowKey, Segment, SegmentFlags, TcpFlags};
use cold::ColdState;
pub(super) use cold::SpareRares;
pub use icmp::IcmpReport;
use std::sync::Arc;
use steady::Steady;
use suspended::Suspended;

/// Returns whether `segment` only acknowledges, which needs no application.
fn is_ack_alone(segment: &Segment) -> bool {
    let control = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
    segment.payload_len == 0 && segment.flags.0 & control == 0
}

/// One TCP connection.
#[derive(Clone)]
pub struct Connection {
    /// Its key in the table.
    pub key: FlowKey,
    /// Hash of the key: its lower half.
    pub hash: u32,
    client_is_high: bool,
    /// Both directions, by sender.
    pub senders: [Sender; 2],
    /// Round trips to both ends.
    pub path: Path,
    streams: [Reassembly; 2],
    framer: Framer,
    /// The handshake.
    pub setup: Setup,
    timeline: Timeline,
    /// Its first frame.
    pub first_frame: FrameId,
    /// Its last frame.
    pub last: Sighting,
    /// Time of its first frame, ns.
    pub first_ns: u64,
    /// The capture does not contain its beginning.
    pub mid_stream: bool,
    /// The roles of client and server are certain.
    knows_roles: bool,
    options_cut: bool,
    is_tunnelled: bool,
    /// At the end of the capture its last request had no response.
    pub left_unanswered: bool,
    /// ACKs without data were captured.
    pure_acks: bool,
    /// The server closed while a request was waiting.
    cut_off: bool,
    /// Software that each side states.
    software: Option<Arc<Software>>,
    cold: Option<Box<ColdState>>,
    /// Segments recorded on the fast path.
    steady: Option<Box<Steady>>,
    /// Sums over finished exchanges.
    pub totals: Totals,
}

/// Size of an open connection without rarely needed state; with its place in the table it stays
/// near 1 KiB.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Connection>() <= 1048);

/// Sums over a connection's exchanges.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Wall time by owner.
    pub ledger: Shares,
    /// Time lost to faults, ns.
    pub lost_ns: u64,
    /// Causes that occurred in them, one bit each, by silent side.
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
    /// A new connection, of which `segment` is the first.
    pub fn new(segment: &Segment) -> Self {
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
            knows_roles: syn,
            options_cut: false,
            left_unanswered: false,
            is_tunnelled: segment.facts.has(SegmentFlags::TUNNELLED),
            pure_acks: false,
            cut_off: false,
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
            forward = self.by_forward_clock(segment, clock_set);
            &forward
        } else {
            segment
        };
        if !self.knows_roles && segment.payload_len > 0 {
            self.learn_roles(segment, payload);
        }
        let side =
            if segment.from_high() == self.client_is_high { Side::Client } else { Side::Server };
        let others = self.senders[side.peer() as usize].number();
        if self.senders[side as usize].packet(segment, others) {
            self.faults_mut().duplicates += 1;
            return;
        }
        self.last = Sighting::of(side, segment);
        if self.senders[side as usize].take_late() {
            self.settle_late(side, segment.ip_id);
        }
        if self.cold(|cold| &cold.queued).is_some() {
            self.settle_queued(side);
        }
        if segment.facts.0 & (SegmentFlags::TRUNCATED_HEADER | SegmentFlags::ECN_CE) != 0
            || segment.flags.0 & (TcpFlags::ECE | TcpFlags::CWR) != 0
        {
            self.note_facts(side, segment);
        }
        if segment.flags.0 & (TcpFlags::SYN | TcpFlags::RST) != 0 || !self.setup.confirmed {
            if side == Side::Client && self.repeats_syn(segment) {
                self.begin_once_more();
            }
            if self.is_of_another(side, segment) {
                self.setup.meet_another();
                return;
            }
            self.set_up(side, segment);
        }
        let echoes = self.mid_stream && segment.facts.has(SegmentFlags::TIMESTAMPS);
        let goes_on = self.timeline.active == Some(side);
        if echoes && segment.payload_len == 0 {
            self.echo(side, segment, is_ack_alone(segment), false);
        }
        let acknowledges = segment.flags.has(TcpFlags::ACK);
        if acknowledges && !self.acknowledge_plainly(side, segment, shared) {
            self.acknowledge(side, segment, shared);
        }
        self.pure_acks |= is_ack_alone(segment);
        if segment.payload_len > 0 {
            self.data(side, segment, payload, shared);
            if echoes {
                // A silence must not change the path by which it is judged.
                self.echo(side, segment, false, goes_on);
            }
        } else if self.is_probe(side, segment) {
            if self.may_be_under_way(side) {
                self.take_up(side, segment, self.first_ns, shared);
            }
            self.senders[side as usize].since_mut().probed(side, segment);
            self.senders[side as usize].history_mut().window.probes += 1;
        } else if segment.flags.0 & (TcpFlags::SYN | TcpFlags::RST) == 0 {
            self.senders[side as usize].announce(segment);
            if side == Side::Server && self.senders[side as usize].is_troubled() {
                self.miss_greeting(segment, shared);
            }
        }
        if segment.flags.has(TcpFlags::FIN) {
            self.lend_rare(&mut shared.rares);
            let ending = self.ending_mut();
            ending.fin_ns[side as usize].get_or_insert(segment.time_ns);
            ending.fin[side as usize].get_or_insert(Sighting::of(side, segment));
            let sender = &mut self.senders[side as usize];
            let position = sender.position(segment.seq) + u64::from(segment.payload_len);
            sender.finish(position);
        }
        if segment.flags.has(TcpFlags::FIN) && side == Side::Server {
            self.cut_off(segment);
        }
        if segment.flags.has(TcpFlags::RST) && self.ending().reset.is_none() {
            self.reset(side, segment);
        }
        self.hand_over(shared, sink);
        if side == Side::Server && segment.payload_len > 0 {
            self.settle_down(segment, shared);
        }
    }

    /// Returns whether `segment` is a window probe: a zero-length one repeats the position before
    /// SND.UNA.
    fn is_probe(&mut self, side: Side, segment: &Segment) -> bool {
        let sender = &mut self.senders[side as usize];
        let control = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        if !sender.is_troubled() || !sender.started() || segment.flags.0 & control != 0 {
            return false;
        }
        let position = sender.position(segment.seq);
        let closed = sender.closed() || sender.offered_nothing();
        position < sender.nxt && position + 1 == sender.una_seen() && closed
    }

    fn data(&mut self, side: Side, segment: &Segment, payload: &[u8], shared: &mut Shared) {
        let index = side as usize;
        let syn = u32::from(segment.flags.has(TcpFlags::SYN));
        self.senders[index].begin_behind_keep_alive(segment);
        let start = self.senders[index].position(segment.seq.wrapping_add(syn));
        let base_ns = self.path.base_rtt_ns();
        let (mut rtt_ns, rtt_peer_ns) = (self.path.rtt_ns(side), self.path.rtt_ns(side.peer()));
        let mut since = SinceDeparture::default();
        self.senders[index].take_since(&mut since);
        let echoes = segment.echoes();
        self.senders[index].advance(&mut since, segment.time_ns, (rtt_ns, rtt_peer_ns), echoes);
        if side == Side::Server && self.timeline.is_interrupted() {
            let rtts_ns = Side::ALL.map(|side| self.path.rtt_ns(side));
            self.timeline.settle_interrupted(Some(segment.time_ns), rtts_ns);
        }
        let end = start + u64::from(segment.payload_len);
        if let Some(ago_ns) = self.senders[index].offered_ago_ns(end, segment.time_ns)
            && !self.mid_stream
        {
            rtt_ns = self.shorten_path(side, ago_ns, segment, &mut since);
        }
        let rtts = Rtts { sender_ns: rtt_ns, base_ns };
        since.peer_tsval = self.senders[side.peer() as usize].last_tsval();
        let kind = self.senders[index].kind(segment, start, rtts);
        if start > self.senders[index].nxt {
            // The data in between will be repeated, or the capture misses it.
            since.excuse_missing();
        }
        self.note_limits(side, segment);
        if let Some(trace) = self.trace_mut() {
            trace.kind = Some(kind);
        }
        if matches!(kind, Kind::Probe | Kind::Late) {
            self.senders[index].depart(segment, (start, kind), &since, true);
            return;
        }
        let by_timer = kind == Kind::Retransmission(Recovery::Timer);
        let arrived = matches!(kind, Kind::Retransmission(_))
            && (self.arrives(side)
                || self.senders[index].repeats_needlessly((start, end), segment.time_ns, base_ns));
        if by_timer && !arrived {
            self.senders[index].follow_timer(start, segment);
            if self.repeats_what_nobody_hears(side, segment) {
                let since_ns = self.senders[index].history().losses.repeating.first_ns;
                self.take_up(side, segment, since_ns, shared);
            }
        }
        if self.is_unsettled() {
            if self.stays_suspended(side, segment, kind) {
                self.senders[index].depart(segment, (start, kind), &since, arrived);
                return;
            }
            self.settle_told_late(side, segment.time_ns, &since);
            if kind == Kind::New {
                self.settle_doubt(side, start, segment, &since);
                self.settle_blocked(side, segment);
            } else if matches!(kind, Kind::Fill(_)) {
                self.settle_skipped(side, segment);
            }
        }
        if kind == Kind::New && self.goes_on(side, segment) {
            self.take_up(side, segment, segment.time_ns, shared);
        }
        let amid_request = side == Side::Server && kind == Kind::New && self.answers_amid();
        if side == Side::Client && kind == Kind::New {
            self.goes_on_asking(segment);
        }
        let keeps_going = kind == Kind::New && self.keeps_going(side, (start, segment), payload);
        let moves = !keeps_going && self.moves_cursor(side, kind, arrived, start);
        let waits = moves && self.timeline.accrues();
        let explains =
            waits && self.silence(side, start, segment, kind, &since, &mut shared.silence);
        let silence = explains.then_some(&shared.silence);
        let may_be_held = side == Side::Client
            && kind == Kind::New
            && (silence.is_none() || self.timeline.all_answered());
        let held = if may_be_held { self.held_request(segment, &since) } else { None };
        let spoken_ns = self.senders[0].last.time_ns.max(self.senders[1].last.time_ns);
        if self.timeline.active == Some(side.peer()) {
            self.senders[side.peer() as usize].end_message();
        }
        if self.timeline.active != Some(side)
            && let Some(bulk) = &mut self.senders[index].bulk
        {
            bulk.rounds.restart();
        }
        if kind == Kind::New && self.senders[index].bulk.is_some() && self.beside_receiver(side) {
            self.senders[index].space(segment, base_ns);
        }
        self.senders[index].depart(segment, (start, kind), &since, arrived);
        self.timeline.open_ended = self.framer.is_open_ended();
        self.timeline.paused_now = false;
        self.timeline.rests = silence.is_some_and(|gap| self.has_rested(gap));
        let unasked = side == Side::Server && kind == Kind::New && self.timeline.is_ready();
        let maybe_idle = side == Side::Client
            && self.timeline.active == Some(Side::Server)
            && self.timeline.may_be_over()
            && !self.timeline.is_ready()
            || self.timeline.rests
            || unasked
            || amid_request;
        let may_be_unasked = side == Side::Server && kind == Kind::New && self.framer.has_unasked();
        let saved = if may_be_unasked { self.timeline.save() } else { None };
        match silence {
            Some(gap) if by_timer => {
                let stamp = self.senders[index].stamp(segment, gap.repair.original);
                let held = Suspended { gap: *gap, end, stamp };
                self.cold_mut().suspended = Some(Box::new(held));
                self.senders[index].follow_rounds();
                return;
            }
            Some(gap) if !maybe_idle => {
                self.timeline.lend(&mut shared.spare);
                self.attribute(gap, end);
            }
            _ => {}
        }
        self.senders[index].follow_rounds();
        self.timeline.request_began = false;
        let (cursor_ns, active) = (self.timeline.cursor_ns, self.timeline.active);
        let amid = amid_request
            || maybe_idle && side == Side::Client && kind == Kind::New && self.speaks_amid(segment);
        if moves {
            self.move_cursor(side, segment.time_ns);
            self.timeline.spoke_at(spoken_ns, segment.time_ns);
        }
        if side == Side::Client && kind == Kind::New {
            self.timeline.go_on();
        }
        self.framer.set_amid(amid);
        self.stream(side, start, segment, payload, shared);
        self.timeline.has_spoken_amid();
        if let Some(gap) = held.filter(|_| self.timeline.request_began) {
            self.hold(&gap);
        }
        if unasked && !self.timeline.rests && !self.framer.has_sent_tickets_only() {
            // A greeting, for which the client may have waited.
            if explains {
                self.attribute(&shared.silence, end);
            }
            self.timeline.touch(Sighting::of(side, segment));
            return;
        }
        let unasked = self.timeline.paused_now && self.is_unasked();
        if maybe_idle && !self.timeline.request_began || unasked {
            // Neither a request nor a response (a closing alert, for example): no exchange waits
            // for it.
            self.timeline.cursor_ns = cursor_ns;
            self.timeline.active = active;
            if unasked {
                self.timeline.end_before_pause();
            }
            return;
        }
        if let Some(saved) = saved.filter(|_| self.framer.is_set_aside()) {
            (self.timeline.cursor_ns, self.timeline.active) = (cursor_ns, active);
            return self.timeline.end_at(*saved);
        }
        self.timeline.touch(Sighting::of(side, segment));
    }

    /// Lowers the round trip to `side`, which sends `segment`, to `rtt_ns`: ACKs reached it sooner
    /// than estimated. Returns the round trip, ns.
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
