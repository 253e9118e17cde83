//! Processes payload, in the order of RFC 9293 §3.10.7.4: its position in the stream, what its
//! sender knew by then, the silence that it ends, and its content.

use crate::app::{Framer, Protocol, Side};
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{self, Gap, Recovery};
use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::connection::asked::{is_unreadable, passed, request_overlaps};
use crate::tcp::connection::faults::note_size;
use crate::tcp::connection::place::{
    arrives, has_not_heard, is_awaited_here, is_beside_receiver, is_beside_sender,
};
use crate::tcp::connection::silence::move_cursor;
use crate::tcp::connection::suspended::{Next, Suspended};
use crate::tcp::pause::Saved;
use crate::tcp::sender::{Kind, Rtts, Sender, SinceDeparture};
use crate::tcp::shared::Shared;
use crate::tcp::timeline::Timeline;
use crate::tcp::trace::Trace;
use crate::wire::{Segment, TcpFlags};

/// A segment with payload, with its position in the stream of its sender.
#[derive(Clone, Copy)]
struct Data<'a> {
    side: Side,
    segment: &'a Segment,
    /// Position of the first byte.
    start: u64,
    /// Position after the last byte.
    end: u64,
    kind: Kind,
    /// Minimum round trip between both ends before the segment, ns.
    base_ns: u64,
    /// `true` if the segment repeats data that had arrived.
    arrived: bool,
    /// `true` if its sender has not taken in the answer to what it repeats.
    deaf: bool,
}

impl Data<'_> {
    fn is_new(&self) -> bool {
        self.kind == Kind::New
    }

    /// Returns whether it is new data of `side`.
    fn is_new_of(&self, side: Side) -> bool {
        self.side == side && self.is_new()
    }

    /// Adds the data to the stream of `sender`.
    #[inline(always)]
    fn depart(&self, sender: &mut Sender, since: &SinceDeparture) {
        sender.depart(self.segment, (self.start, self.kind), since, self.arrived);
    }

    /// Prepares both senders for the departure, which may begin a message; `active` sent data before.
    /// The vantage is at the receiver if it `is_beside`.
    fn begin_flight(&self, senders: &mut [Sender; 2], active: Option<Side>, is_beside: bool) {
        let side = self.side;
        if active == Some(side.peer()) {
            let peer = &mut senders[side.peer() as usize];
            peer.habits.end_message(&peer.last);
        }
        let sender = &mut senders[side as usize];
        if active != Some(side)
            && let Some(bulk) = &mut sender.bulk
        {
            bulk.rounds.restart();
        }
        let Sender { bulk, last, clock, sizes, .. } = sender;
        if let Some(bulk) = bulk
            && self.is_new()
            && is_beside
        {
            bulk.note_distance(self.segment, last, clock, sizes.smss(), self.base_ns);
        }
    }

    fn is_timer_repetition(&self) -> bool {
        self.kind == Kind::Retransmission(Recovery::Timer)
    }
}

/// The silence that a segment ended, and the messages before it.
struct Ended {
    /// An exchange was waiting for the data, so that the data advances the timeline.
    is_awaited: bool,
    /// [`Shared::silence`] is a gap that has to be explained.
    explained: bool,
    /// The server sent the data while a request was incomplete.
    overlaps_request: bool,
    /// Time of the last data of either side before this, ns.
    last_data_ns: u64,
}

/// Readings of the data that are open because it is no part of an exchange in progress.
struct Doubts {
    /// The data may be an unsolicited message of the server.
    unsolicited: bool,
    /// The data may be a message that no exchange waits for, or the next request.
    maybe_idle: bool,
    /// State that is restored if the data turns out to be unsolicited.
    saved: Option<Box<Saved>>,
}

impl Doubts {
    /// Returns what `data` may be if it is no part of an exchange in progress. No exchange waited in
    /// the silence before it if that `rests`.
    fn about(
        data: &Data<'_>,
        ended: &Ended,
        rests: bool,
        timeline: &mut Timeline,
        framer: &Framer,
    ) -> Self {
        timeline.open_ended = framer.is_open_ended();
        timeline.paused_now = false;
        timeline.rests = rests;
        let of_server = data.is_new_of(Side::Server);
        let unsolicited = of_server && timeline.exchanges.is_ready();
        let maybe_idle = data.side == Side::Client
            && timeline.active == Some(Side::Server)
            && timeline.may_be_over()
            && !timeline.exchanges.is_ready()
            || timeline.rests
            || unsolicited
            || ended.overlaps_request;
        let may_be_unasked = of_server && framer.has_unsolicited();
        let saved = if may_be_unasked { timeline.save() } else { None };
        Self { unsolicited, maybe_idle, saved }
    }
}

impl Connection {
    /// Processes the payload of `segment`.
    pub(super) fn data(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
    ) {
        let mut since = SinceDeparture::default();
        let data = self.locate(side, segment, &mut since);
        note_size(&mut self.cold, &self.senders[side as usize], segment);
        if let Some(trace) = self.cold.trace_mut() {
            trace.kind = Some(data.kind);
        }
        if matches!(data.kind, Kind::Probe | Kind::Late) {
            self.with_questions(|it, _| it.stop_counting_acks(side));
            return data.depart(&mut self.senders[side as usize], &since);
        }
        self.follow_repetition(&data, shared);
        if self.cold.is_gap_open() && self.settle_with(&data, &since) {
            return data.depart(&mut self.senders[side as usize], &since);
        }
        if data.is_new() && self.awaited().may_continue_response(side, segment) {
            let (_, _, feed) = self.feed(side, segment, shared);
            feed.begin_mid_message(side, segment.time_ns);
        }
        let ended = self.end_silence(&data, payload, &since, shared);
        let may_be_held = data.is_new_of(Side::Client)
            && (!ended.explained || self.timeline.exchanges.all_answered())
            && since.acks.last.is_some_and(|ack| ack.pure && ack.acked_all);
        let held = if may_be_held { self.held_request(segment, &since) } else { None };
        let is_beside = is_beside_receiver(&self.setup, &self.path, side);
        data.begin_flight(&mut self.senders, self.timeline.active, is_beside);
        data.depart(&mut self.senders[side as usize], &since);
        let rests = ended.explained && self.awaited().has_rested(&shared.silence);
        let doubts = Doubts::about(&data, &ended, rests, &mut self.timeline, &self.framer);
        let is_settled =
            !ended.explained || self.attribute_silence(&data, doubts.maybe_idle, &shared.silence);
        let Sender { bulk, space, sizes, .. } = &mut self.senders[side as usize];
        if let Some(bulk) = bulk {
            bulk.follow_rounds(space, sizes.smss());
        }
        if is_settled {
            self.read_content(&data, payload, (ended, doubts, held), shared);
        }
    }

    /// Finds the position of `segment` in the stream, after the ACKs in `since` that its sender
    /// knew.
    fn locate<'a>(
        &mut self,
        side: Side,
        segment: &'a Segment,
        since: &mut SinceDeparture,
    ) -> Data<'a> {
        let index = side as usize;
        let syn = u32::from(segment.flags.has(TcpFlags::SYN));
        let is_first = self.mid_stream && self.senders[index].volume.packets == 1;
        self.senders[index].space.begin_behind_keep_alive(segment, is_first);
        let start = self.senders[index].space.position(segment.seq.wrapping_add(syn));
        let end = start + u64::from(segment.payload_len);
        let base_ns = self.path.base_rtt_ns();
        let (mut rtt_ns, rtt_peer_ns) = (self.path.rtt_ns(side), self.path.rtt_ns(side.peer()));
        self.senders[index].since.take(since);
        let echoes = segment.echoes();
        self.senders[index].advance(since, segment.time_ns, (rtt_ns, rtt_peer_ns), echoes);
        if side == Side::Server && self.timeline.overlap.is_undecided() {
            let rtts_ns = Side::ALL.map(|side| self.path.rtt_ns(side));
            self.timeline.settle_interrupted(Some(segment.time_ns), rtts_ns);
        }
        let sender = &self.senders[index];
        if let Some(ago_ns) = sender.space.offered_ago_ns(&sender.pending, end, segment.time_ns)
            && !self.mid_stream
        {
            // ACKs reached the sender sooner than estimated.
            if self.cold.is_timed(segment, ago_ns) {
                self.path.sample(side, ago_ns);
            }
            rtt_ns = self.path.rtt_ns(side);
            let rtts_ns = (rtt_ns, self.path.rtt_ns(side.peer()));
            self.senders[index].advance(since, segment.time_ns, rtts_ns, segment.echoes());
        }
        since.peer_tsval = self.senders[side.peer() as usize].packets.last.tsval;
        let kind = self.senders[index].kind(segment, start, Rtts { sender_ns: rtt_ns, base_ns });
        if start > self.senders[index].space.nxt {
            // The data in between will be retransmitted, or is missing in the capture.
            since.excuse_missing();
        }
        let deaf = kind == Kind::Retransmission(Recovery::Timer)
            && is_beside_sender(&self.setup, &self.path, side)
            && has_not_heard(&self.senders[index], (start, end), segment.time_ns);
        if deaf {
            self.senders[index].space.unacknowledge(start);
            self.senders[index].history_mut().losses.unheard_from = start;
        }
        let arrived = match kind {
            Kind::Probe | Kind::Late => true,
            Kind::Retransmission(_) if deaf => false,
            Kind::Retransmission(_) => {
                let (data, now_ns) = ((start, end), segment.time_ns);
                let is_awaited = || {
                    let sender = &self.senders[index];
                    self.pure_acks && is_awaited_here(sender, data, now_ns, self.path.rtt_ns(side))
                };
                let is_spurious = || self.senders[index].is_spurious(data, now_ns, base_ns);
                arrives(&self.setup, &self.path, side) && !is_awaited() || is_spurious()
            }
            _ => false,
        };
        Data { side, segment, start, end, kind, base_ns, arrived, deaf }
    }

    /// Follows a timer that repeats data (RFC 6298 §5.5), which may be a request that began before
    /// the capture.
    fn follow_repetition(&mut self, data: &Data<'_>, shared: &mut Shared) {
        let &Data { side, segment, start, arrived, .. } = data;
        let is_needed_by_timer = data.is_timer_repetition() && !arrived;
        if matches!(data.kind, Kind::Retransmission(_)) {
            self.senders[side as usize].follow_repetition(start, segment, is_needed_by_timer);
        }
        if !is_needed_by_timer {
            return;
        }
        if self.awaited().repeats_unacknowledged_message(side, segment) {
            let since_ns = self.senders[side as usize].history().losses.repeating.first_ns;
            let (_, _, feed) = self.feed(side, segment, shared);
            feed.begin_mid_message(side, since_ns);
        }
    }

    /// Settles earlier verdicts that wait for the next segment. Returns whether the data only
    /// continues a retransmission whose verdict stays open.
    fn settle_with(&mut self, data: &Data<'_>, since: &SinceDeparture) -> bool {
        let &Data { side, segment, start, kind, .. } = data;
        match self.with_questions(|it, by| it.settle_by_next(side, segment, kind, by.path)) {
            Some(Next::Stays) => return true,
            Some(Next::Counts) => self.resume(),
            Some(Next::Nothing) | None => {}
        }
        let now_ns = segment.time_ns;
        if self.with_questions(|it, by| it.settle_acked_late(side, now_ns, since, by)) == Some(true)
        {
            self.resume();
        }
        if kind == Kind::New {
            let is_whole = self.cold.faults().missing_bytes == 0;
            self.with_questions(|it, by| {
                it.settle_doubt(side, (start, segment), since, is_whole, by);
            });
            self.with_questions(|it, by| it.settle_blocked(side, segment, by));
        } else if matches!(kind, Kind::Fill(_)) {
            self.with_questions(|it, by| it.settle_skipped(side, segment, by));
        }
        false
    }

    /// Ends the silence before the data: fills [`Shared::silence`] if there is something to
    /// explain.
    fn end_silence(
        &mut self,
        data: &Data<'_>,
        payload: &[u8],
        since: &SinceDeparture,
        shared: &mut Shared,
    ) -> Ended {
        let &Data { side, segment, start, kind, arrived, .. } = data;
        let overlaps_request = data.is_new_of(Side::Server)
            && (self.awaited().response_overlaps() || self.awaited().precedes_request(segment));
        if data.is_new_of(Side::Client) && is_unreadable(&self.framer) {
            let passed = passed(&self.senders[Side::Client as usize]);
            let rtt_ns = self.path.rtt_ns(Side::Client);
            self.timeline.continues_request(segment.time_ns, passed, rtt_ns);
        }
        let awaited = self.awaited();
        let says_nothing = data.is_new() && awaited.says_nothing(side, (start, segment), payload);
        let is_awaited =
            !says_nothing && (data.deaf || awaited.moves_cursor(side, kind, arrived, start));
        let waits = is_awaited && self.timeline.exchanges.accrues();
        let explained =
            waits && self.silence(side, start, segment, kind, since, &mut shared.silence);
        let last_data_ns = self.senders[0].last.time_ns.max(self.senders[1].last.time_ns);
        Ended { is_awaited, explained, overlaps_request, last_data_ns }
    }

    /// Attributes `silence`, unless the content has to show first whether an exchange waited for the
    /// data. Returns `false` if the verdict is postponed: the answer will show whether a
    /// retransmission by timer was needed.
    fn attribute_silence(&mut self, data: &Data<'_>, maybe_idle: bool, silence: &Gap) -> bool {
        let &Data { side, segment, end, .. } = data;
        if data.is_timer_repetition() {
            let mut gap = *silence;
            gap.repair.deaf = data.deaf;
            let stamp = self.senders[side as usize].stamp(segment, gap.repair.original);
            self.cold.get_or_create().questions.suspended =
                Some(Box::new(Suspended { gap, end, stamp }));
            return false;
        }
        if !maybe_idle {
            self.attribute(silence, end);
            if data.kind == Kind::Retransmission(Recovery::Fast) && !silence.losses.in_recovery {
                let stamp = self.senders[side as usize].stamp(segment, silence.repair.original);
                self.cold.get_or_create().questions.fast =
                    Some(Box::new(Suspended { gap: *silence, end, stamp }));
            }
        }
        true
    }

    /// Advances the timeline and parses the content, which shows whether an exchange waited for it.
    fn read_content(
        &mut self,
        data: &Data<'_>,
        payload: &[u8],
        (ended, doubts, held): (Ended, Doubts, Option<Gap>),
        shared: &mut Shared,
    ) {
        let &Data { side, segment, start, end, .. } = data;
        let Doubts { unsolicited, maybe_idle, saved } = doubts;
        self.timeline.request_began = false;
        let before = (self.timeline.cursor_ns, self.timeline.active);
        let overlaps = ended.overlaps_request
            || maybe_idle && data.is_new_of(Side::Client) && {
                let Self { timeline, framer, senders: [_, server], path, .. } = self;
                request_overlaps(timeline, framer, server, path, segment.time_ns)
            };
        if ended.is_awaited {
            move_cursor(&mut self.timeline, &mut self.senders, side, segment.time_ns);
            self.timeline.shorten_pause(ended.last_data_ns, segment.time_ns);
        }
        if data.is_new_of(Side::Client) {
            self.timeline.exchanges.note_client_data();
        }
        self.framer.set_overlapping(overlaps);
        let at_once_ns = self.path.known_rtt_ns(side) + HOST_DELAY_MAX_NS;
        self.framer.set_late(before.0 > 0 && segment.time_ns > before.0 + at_once_ns);
        let (streams, early, mut feed) = self.feed(side, segment, shared);
        let range = (start, segment.payload_len);
        streams[side as usize].push(side, range, payload, early, &mut |side, bytes, lost, end| {
            feed.push(side, bytes, lost, end);
        });
        self.timeline.overlap.end();
        if let Some(gap) = held.filter(|_| self.timeline.request_began) {
            hold(&mut self.timeline, self.cold.trace_mut(), &gap);
        }
        if unsolicited && !self.timeline.rests && !self.framer.has_sent_tickets_only() {
            // The data is a greeting, for which the client may have waited.
            if ended.explained {
                self.attribute(&shared.silence, end);
            }
            self.timeline.exchanges.touch(Sighting::of(side, segment));
            return;
        }
        let unsolicited = self.timeline.paused_now && self.awaited().is_unsolicited();
        if maybe_idle && !self.timeline.request_began || unsolicited {
            // The data is neither a request nor a response (a closing alert, for example): no
            // exchange waits for it.
            (self.timeline.cursor_ns, self.timeline.active) = before;
            if unsolicited {
                // A TLS record outside of exchanges after a pause is the alert that ends the
                // connection.
                self.timeline.end_before_pause(self.framer.protocol() == Protocol::Tls);
            }
            return;
        }
        if let Some(saved) = saved.filter(|_| self.framer.is_set_aside()) {
            (self.timeline.cursor_ns, self.timeline.active) = before;
            return self.timeline.end_at(*saved);
        }
        self.timeline.exchanges.touch(Sighting::of(side, segment));
    }
}

/// Attributes `gap` to the request that began in the last push, which was held for that long.
fn hold(timeline: &mut Timeline, trace: Option<&mut Trace>, gap: &Gap) {
    let slices = judge::judge(gap);
    if let Some(trace) = trace {
        trace.gap(gap, slices.iter());
    }
    timeline.exchanges.hold(gap, &slices);
}
