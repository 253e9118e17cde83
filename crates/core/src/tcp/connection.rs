//! One TCP connection: both directions, their streams, and the exchanges on it.

mod accept;
mod acknowledge;
mod asked;
mod at_end;
mod attempt;
mod awaited;
mod blocked;
mod ceiling_rounds;
mod closing;
mod cold;
mod content;
mod data;
mod doubt;
mod echoes;
mod ending;
mod faults;
mod finished;
mod gap;
mod icmp;
mod kept;
mod kernel_answer;
mod learnt;
mod opening;
mod place;
mod questions;
mod queue_delay;
mod queued;
mod relayed;
mod reset;
mod roles;
mod silence;
mod steady;
mod suspended;
mod view;

use crate::app::Framer;
use crate::capture::FrameId;
use crate::model::{CauseSet, Shares, Sighting};
use crate::tcp::path::Path;
use crate::tcp::reassembly::Reassembly;
use crate::tcp::row::Row;
use crate::tcp::sender::Sender;
use crate::tcp::series::Series;
use crate::tcp::setup::Setup;
use crate::tcp::shared::{Shared, Software};
use crate::tcp::sink::Sink;
use crate::tcp::timeline::Timeline;
use crate::wire::{BySide, Endpoint, FlowKey, Segment, SegmentFlags, Side, TcpFlags};
use accept::is_refused;
use awaited::Awaited;
use cold::Cold;
use echoes::{TimestampCarrier, take_timestamps};
use ending::Ending;
use faults::{Corrected, note_rare_properties};
pub use icmp::IcmpReport;
use opening::{is_of_another, is_of_another_host};
use questions::{Event, Questions};
use queued::check_echo;
use roles::Roles;
use std::sync::Arc;
use steady::Steady;
pub use view::End;

/// Returns whether `segment` is an ACK without data, which the kernel sends by itself.
fn is_pure_ack(segment: &Segment) -> bool {
    let control = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
    segment.payload_len == 0 && segment.flags.0 & control == 0
}

/// Returns whether `segment` is a window probe of `sender`: a zero-length probe repeats the position
/// before SND.UNA.
fn is_window_probe(sender: &mut Sender, segment: &Segment) -> bool {
    let control = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
    if !sender.is_troubled() || !sender.space.started() || segment.flags.0 & control != 0 {
        return false;
    }
    let position = sender.space.position(segment.seq);
    let closed = sender.history().window.is_closed_or_zero(&sender.space);
    position < sender.space.nxt && position + 1 == sender.space.una_seen() && closed
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
    pub senders: BySide<Sender>,
    /// Round trips to both ends.
    pub path: Path,
    streams: [Reassembly; 2],
    /// Parser of the content.
    pub(crate) framer: Framer,
    /// State of the handshake.
    pub setup: Setup,
    /// The exchanges that are not yet over.
    pub(crate) timeline: Timeline,
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
    /// The connection was captured inside a tunnel.
    pub is_tunnelled: bool,
    /// At the end of the capture the last request had no response.
    pub left_unanswered: bool,
    /// ACKs without data were captured.
    pure_acks: bool,
    /// The server closed while a request was waiting.
    server_closed_early: bool,
    /// Names of the software that the two sides state.
    software: Option<Arc<Software>>,
    /// State that few connections have.
    pub cold: Cold,
    /// Segments recorded on the fast path.
    steady: Option<Box<Steady>>,
    /// Sums over finished exchanges.
    pub totals: Totals,
}

/// Size of an open connection without rarely needed state. With its entry in the table it stays
/// near 1 KiB.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Connection>() <= 1136);

/// Sums over a connection's exchanges.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Wall time by owner.
    pub ledger: Shares,
    /// Time lost to faults, ns.
    pub lost_ns: u64,
    /// Causes that occurred in the exchanges, by silent side.
    pub causes: BySide<CauseSet>,
    /// The last exchanges that followed each other; `None` before the second exchange, unless the path
    /// is long.
    following: Option<Box<Following>>,
}

/// The last exchanges of a connection that followed each other.
#[derive(Clone, Copy, Debug, Default)]
struct Following {
    /// Back to back, if the path is long enough for that to matter.
    row: Row,
    /// With pauses no longer than the exchanges.
    series: Series,
}

impl Totals {
    /// The last exchanges that followed each other back to back.
    pub fn row(&self) -> Row {
        self.following.as_deref().map(|it| it.row).unwrap_or_default()
    }

    /// Replaces the back-to-back exchanges.
    fn set_row(&mut self, row: Row) {
        match &mut self.following {
            Some(known) => known.row = row,
            None if row.count > 0 => {
                self.following = Some(Box::new(Following { row, ..Following::default() }));
            }
            None => {}
        }
    }

    /// Appends an exchange, which is already counted, to the series of the connection. Returns the series
    /// that it ended.
    #[inline]
    fn append_to_series(&mut self, asked_ns: u64, ended_ns: u64) -> Option<Series> {
        if self.exchanges < 2 {
            return None;
        }
        self.following.get_or_insert_default().series.append(asked_ns, ended_ns)
    }

    /// Ends the series of the connection.
    fn end_series(&mut self) -> Option<Series> {
        let following = self.following.as_deref_mut()?;
        Some(std::mem::take(&mut following.series)).filter(|series| series.count > 1)
    }
}

impl Connection {
    /// Creates a connection whose first segment is `segment`.
    pub fn new(segment: &Segment) -> Self {
        let syn = segment.flags.has(TcpFlags::SYN);
        let client_is_high = segment.is_client_high();
        let server = if client_is_high { &segment.flow.low } else { &segment.flow.high };
        let mut connection = Self {
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
            cold: Cold::default(),
            steady: None,
            totals: Totals::default(),
        };
        if connection.mid_stream && segment.flow.is_within_host() {
            let timestamps = segment.facts.has(SegmentFlags::TIMESTAMPS);
            let senders = connection.senders.iter_mut();
            senders.for_each(|sender| sender.sizes.assume_loopback(timestamps));
        }
        connection
    }

    /// The end that opened the connection.
    pub fn client(&self) -> Endpoint {
        if self.client_is_high { self.key.high } else { self.key.low }
    }

    /// The end that accepted the connection.
    pub fn server(&self) -> Endpoint {
        if self.client_is_high { self.key.low } else { self.key.high }
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
        let segment = if is_late || clock_set || self.cold.clock_was_set() {
            forward = self.with_forward_time(segment, clock_set);
            &forward
        } else {
            segment
        };
        if self.roles.may_be_learnt() && segment.payload_len > 0 {
            self.learn_roles(segment, payload);
        }
        let side =
            if segment.from_high() == self.client_is_high { Side::Client } else { Side::Server };
        if !self.accept(side, segment) {
            return;
        }
        self.take_kernel_answer(side, segment);
        self.note_packet(side, segment);
        if !self.take_control(side, segment) {
            return;
        }
        let echoes = self.mid_stream && segment.facts.has(SegmentFlags::TIMESTAMPS);
        let carrier = TimestampCarrier::of(segment, self.timeline.active == Some(side));
        if echoes && segment.payload_len == 0 {
            let clocked = self.senders[side].bulk.is_some();
            take_timestamps(&mut self.cold, &mut self.path, (side, segment), carrier, clocked);
        }
        if segment.flags.has(TcpFlags::ACK) {
            self.acknowledge(side, segment, shared);
        }
        self.pure_acks |= is_pure_ack(segment);
        // A RST may carry the reason as text (RFC 9293 §3.5.3), which is no data of the stream.
        let is_reason = segment.flags.has(TcpFlags::RST) && !self.senders[side].space.started();
        if segment.payload_len > 0 && !is_reason {
            self.data(side, segment, payload, shared);
            if echoes {
                // A sample is added after the silence is judged, so that it cannot change the path
                // by which the silence is judged.
                let clocked = self.senders[side].bulk.is_some();
                take_timestamps(&mut self.cold, &mut self.path, (side, segment), carrier, clocked);
            }
        } else if !is_reason {
            self.take_empty(side, segment);
        }
        if segment.flags.has(TcpFlags::FIN) {
            self.take_fin(side, segment);
        }
        if segment.flags.has(TcpFlags::RST) && self.cold.ending().reset.is_none() {
            self.reset(side, segment);
        }
        self.report_finished(shared, sink);
        if side == Side::Server && segment.payload_len > 0 {
            self.enter_fast_path(segment, shared);
        }
    }

    /// Returns whether `segment` of `side` is processed further: it is no second copy, and its receiver
    /// accepts it.
    #[inline]
    fn accept(&mut self, side: Side, segment: &Segment) -> bool {
        let peer_number = self.senders[side.peer()].packets.last.ip_id;
        if self.senders[side].packet(segment, peer_number) {
            self.cold.faults_mut().duplicates += 1;
            if segment.flags.has(TcpFlags::SYN) && !segment.facts.has(SegmentFlags::RECEIVED) {
                self.setup.deny_arrival();
            }
            return false;
        }
        if side == Side::Server
            && segment.flags.has(TcpFlags::SYN | TcpFlags::ACK)
            && segment.facts.has(SegmentFlags::RECEIVED)
        {
            self.setup.deny_arrival();
        }
        if !self.cold.is_queue_open() {
            check_echo(&mut self.senders, side, segment);
        }
        if side == Side::Server
            && segment.flags.has(TcpFlags::SYN | TcpFlags::ACK)
            && let Some(syn_ns) = self.setup.syn_first_ns()
        {
            self.senders[side].clock.bound_first(segment.time_ns.saturating_sub(syn_ns));
        }
        if side == Side::Client
            && self.setup.syn_acks > 0
            && !self.setup.is_established()
            && segment.flags.has(TcpFlags::ACK)
        {
            let ns = segment.time_ns.saturating_sub(self.setup.syn_ack_last_ns());
            self.senders[side].clock.check_answer(segment, ns);
        }
        if side == Side::Client && self.setup.other_syn_acks() > 0 {
            self.adopt_other_answer(segment);
        }
        if is_refused(&mut self.cold, &self.senders, side, segment) {
            return false;
        }
        if self.cold.ended().is_some_and(Ending::holds_reset) {
            self.settle_reset(side, segment);
        }
        true
    }

    /// Returns `segment` with a time that never goes backward. If `clock_odd`, the capture's clock was
    /// set an odd number of times before it.
    #[cold]
    fn with_forward_time(&mut self, segment: &Segment, clock_odd: bool) -> Segment {
        let from_client = segment.from_high() == self.client_is_high;
        let side = if from_client { Side::Client } else { Side::Server };
        let before = self.cold.faults();
        let Self { last, senders, setup, .. } = &*self;
        let Corrected { time_ns, faults, is_reversed, is_set } =
            before.correct(segment, last.time_ns, clock_odd, || {
                faults::is_reversed((side, segment), last, before.raised_ns, senders, setup)
            });
        if is_reversed && !self.mid_stream && !self.setup.is_established() {
            // The stamp of the SYN-ACK may be the wrong one.
            self.path.forget(Side::Server);
        }
        if faults != before {
            *self.cold.faults_mut() = faults;
        }
        if is_set {
            self.senders.iter_mut().for_each(Sender::clock_stepped);
        }
        Segment { time_ns, ..*segment }
    }

    /// The exchanges in progress, and what shows which data they wait for.
    #[inline]
    fn awaited(&self) -> Awaited<'_> {
        let Self { senders, path, setup, framer, timeline, cold, mid_stream, .. } = self;
        Awaited { senders, path, setup, framer, timeline, cold, mid_stream: *mid_stream }
    }

    /// Records what every packet shows, whatever its position in the stream.
    #[inline]
    fn note_packet(&mut self, side: Side, segment: &Segment) {
        self.last = Sighting::of(side, segment);
        self.path.note_frame(side, segment);
        if self.senders[side].packets.ids.take_late() {
            self.settle(&Event::Late { side, number: segment.ip_id });
        }
        if self.cold.questions().is_some_and(Questions::is_queue_open) {
            self.settle(&Event::Packet { side, segment });
        }
        if segment.facts.0 & (SegmentFlags::TRUNCATED_HEADER | SegmentFlags::ECN_CE) != 0
            || segment.flags.0 & (TcpFlags::ECE | TcpFlags::CWR) != 0
        {
            let is_ecn = !self.setup.lacks_ecn();
            let Self { cold, senders, .. } = self;
            note_rare_properties(cold, senders, (side, segment), is_ecn);
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
        if side == Side::Client && self.view().repeats_syn(segment) {
            self.start_over();
        }
        let [client, server] = &self.senders;
        let received = (side, segment);
        if !self.mid_stream && is_of_another(&self.setup, client, received) {
            self.setup.note_other_connection();
            return false;
        }
        if is_of_another_host(&self.setup, server, received) {
            // The client may accept this SYN-ACK instead of the first.
            self.setup.note_other_syn_ack();
            self.cold.get_or_create().other_answer = Some(Box::new(*segment));
            return false;
        }
        self.set_up(side, segment);
        true
    }

    /// Processes a segment without payload, which may be a window probe.
    #[inline]
    fn take_empty(&mut self, side: Side, segment: &Segment) {
        if is_window_probe(&mut self.senders[side], segment) {
            if self.awaited().may_be_under_way(side) {
                let first_ns = self.first_ns;
                self.begin_mid_message(side, segment, first_ns);
            }
            self.senders[side].since.stored_mut().probed(side, segment);
            self.ask_kernel(side, segment);
            self.senders[side].history_mut().window.probes += 1;
        } else if segment.flags.0 & (TcpFlags::SYN | TcpFlags::RST) == 0 {
            if self.senders[side].space.is_keep_alive(segment) {
                self.ask_kernel(side, segment);
                if self.cold.is_gap_open() {
                    self.settle(&Event::KeepAlive { side });
                }
            }
            self.senders[side].announce(segment);
            if side == Side::Server && self.senders[side].is_troubled() {
                let server = &self.senders[Side::Server];
                let begins = server.in_order();
                if !self.timeline.has_begun()
                    && !self.mid_stream
                    && server.history().holes.bytes() > 0
                {
                    // The server sent the first data, from this position on.
                    let mut at = self.at(Side::Server, segment);
                    at.positions[Side::Server] = begins;
                    self.timeline.await_greeting(&at, &mut self.setup);
                }
            }
        }
    }
}
