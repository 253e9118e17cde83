//! Processes payload, in the order of RFC 9293 §3.10.7.4: its position in the stream, what its
//! sender knew by then, the silence that it ends, and its content.

use crate::app::{Framer, Passing, Protocol};
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{Gap, Recovery};
use crate::model::{Owner, Sighting, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::connection::asked::{is_unreadable, passed, request_overlaps};
use crate::tcp::connection::cold::AsideData;
use crate::tcp::connection::faults::note_size;
use crate::tcp::connection::place::{
    arrives, has_not_heard, is_awaited_here, is_beside_receiver, is_beside_sender, unheard_ns,
};
use crate::tcp::connection::questions::Event;
use crate::tcp::connection::silence::move_cursor;
use crate::tcp::connection::suspended::Suspended;
use crate::tcp::path::Path;
use crate::tcp::sender::{Kind, Rtts, Sender, SinceDeparture};
use crate::tcp::setup::Setup;
use crate::tcp::shared::Shared;
use crate::tcp::thresholds::KERNEL_SEND_NS;
use crate::tcp::timeline::{At, OverlappingMessage, Timeline};
use crate::tcp::trace::Trace;
use crate::wire::{BySide, Segment, Side, TcpFlags};

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
    #[inline]
    fn begin_flight(
        &self,
        senders: &mut BySide<Sender>,
        active: Option<Side>,
        (setup, path): (&Setup, &Path),
    ) {
        let side = self.side;
        if active == Some(side.peer()) {
            let peer = &mut senders[side.peer()];
            peer.habits.end_message(&peer.last);
        }
        let sender = &mut senders[side];
        if active != Some(side)
            && let Some(bulk) = &mut sender.bulk
        {
            bulk.rounds.restart();
        }
        let Sender { bulk, last, clock, sizes, .. } = sender;
        if let Some(bulk) = bulk
            && self.is_new()
            && is_beside_receiver(setup, path, side)
        {
            bulk.note_distance(self.segment, last, clock, sizes.smss(), self.base_ns);
        }
    }

    fn is_timer_repetition(&self) -> bool {
        self.kind == Kind::Retransmission(Recovery::Timer)
    }
}

/// The silence that a segment ended, and what is known of the segment without its content.
struct Ended {
    /// An exchange was waiting for the data, so that the data advances the timeline.
    is_awaited: bool,
    /// An exchange was in progress in the silence, which is no short time of the link.
    waits: bool,
    /// [`Shared::silence`] is a gap that has to be explained.
    explained: bool,
    /// It is the client's, behind a response that may be over: no exchange waited for it.
    begins_anew: bool,
    /// Whether the data overlaps a message of the other side.
    overlap: OverlappingMessage,
    /// Time of the last data of either side before this, ns.
    last_data_ns: u64,
    /// The data that the same side sent before this.
    before: Sighting,
}

/// What data means to the exchanges in progress, by its content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// It is part of an exchange, which waited for it.
    Awaited,
    /// It begins an exchange, and none waited for it.
    Begins,
    /// No exchange waits for it: it keeps the connection open or ends it, for example. A message of
    /// the server's own accord is counted.
    Aside { is_unsolicited: bool },
}

/// The content of a segment, whose marks are in [`Shared::marks`].
struct Content {
    meaning: Meaning,
    /// A request begins in it.
    begins_exchange: bool,
    /// The data follows a pause in which no exchange waited.
    rests: bool,
    overlap: OverlappingMessage,
}

/// What data may be if it is no part of an exchange in progress.
struct Interpretations {
    /// An unsolicited message of the server, or its greeting after a TLS handshake.
    unsolicited: bool,
    /// A message that no exchange waits for, or the next request.
    maybe_idle: bool,
    /// A message that nothing requested, in a response that may be over.
    may_be_unasked: bool,
}

impl Interpretations {
    /// Returns what `data` may be if it is no part of an exchange in progress. No exchange waited in
    /// the silence before it if that `rests`.
    fn of(
        data: &Data<'_>,
        ended: &Ended,
        rests: bool,
        timeline: &Timeline,
        framer: &Framer,
    ) -> Self {
        let of_server = data.is_new_of(Side::Server);
        let is_behind_handshake = of_server && timeline.exchanges.is_ready();
        let maybe_idle = ended.begins_anew
            || rests
            || is_behind_handshake
            || ended.overlap == OverlappingMessage::Certain;
        Self {
            unsolicited: is_behind_handshake && !rests,
            maybe_idle,
            may_be_unasked: of_server && framer.has_unsolicited() && timeline.may_be_over(),
        }
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
        note_size(&mut self.cold, &self.senders[side], segment);
        if let Some(trace) = self.cold.trace_mut() {
            trace.kind = Some(data.kind);
        }
        if matches!(data.kind, Kind::Probe | Kind::Late) {
            self.settle(&Event::KeepAlive { side });
            return data.depart(&mut self.senders[side], &since);
        }
        if self.continues_response(&data, payload) {
            return self.continue_response(&data, &since);
        }
        self.follow_repetition(&data);
        if self.cold.is_gap_open() {
            let Data { start, kind, .. } = data;
            let is_whole = self.cold.faults().missing_bytes == 0;
            let since = &since;
            if self.settle(&Event::Data { side, start, segment, kind, since, is_whole }) {
                return data.depart(&mut self.senders[side], since);
            }
        }
        if data.is_new() && self.awaited().may_continue_response(side, segment) {
            self.begin_mid_message(side, segment, segment.time_ns);
        }
        if side == Side::Client && matches!(data.kind, Kind::Fill(_)) {
            self.anticipate_request(segment, data.start);
        }
        let ended = self.end_silence(&data, payload, &since, shared);
        let may_be_held = data.is_new_of(Side::Client)
            && (!ended.waits || self.timeline.exchanges.all_answered())
            && since.acks.last.is_some_and(|ack| ack.pure && ack.acked_all);
        let held = if may_be_held { self.held_request(segment, &since) } else { None };
        data.begin_flight(&mut self.senders, self.timeline.active, (&self.setup, &self.path));
        data.depart(&mut self.senders[side], &since);
        self.note_protocol();
        if ended.explained && data.is_timer_repetition() {
            self.suspend(&data, &shared.silence);
            return self.follow_rounds(side);
        }
        let slices = ended.explained.then(|| self.judge(&shared.silence));
        let content = self.read_content(&data, payload, (&ended, slices.as_ref()), shared);
        if let Some(slices) = slices.filter(|_| content.meaning == Meaning::Awaited) {
            self.attribute_silence(&data, &shared.silence, slices);
        }
        self.follow_rounds(side);
        self.pass_content(&data, &ended, &content, shared);
        self.timeline.forget_anticipated(&mut self.setup);
        if let Some((gap, slices)) = held.filter(|_| content.begins_exchange) {
            hold(&mut self.timeline, self.cold.trace_mut(), &gap, &slices);
        }
    }

    /// Returns whether `data` directly continues the only response in progress, so that nothing has to
    /// be explained and its content, which the framer has taken then, shows nothing.
    #[inline]
    fn continues_response(&mut self, data: &Data<'_>, payload: &[u8]) -> bool {
        let &Data { side, segment, start, .. } = data;
        let since_ns = segment.time_ns.saturating_sub(self.timeline.cursor_ns);
        let continues = data.is_new_of(Side::Server)
            && self.timeline.active == Some(side)
            && since_ns < KERNEL_SEND_NS
            && start == self.senders[side].space.nxt
            && self.streams[side].is_next(start)
            && self.timeline.exchanges.is_responding()
            && !self.cold.is_gap_open();
        let missing = segment.payload_len - payload.len() as u32;
        continues && self.framer.take_more(side, payload, missing)
    }

    /// Processes data that [`continues_response`](Self::continues_response) recognised: the time
    /// before it is that of the link, as in [`silence`](Self::silence).
    #[inline]
    fn continue_response(&mut self, data: &Data<'_>, since: &SinceDeparture) {
        let &Data { side, segment, end, .. } = data;
        let from_ns = self.timeline.cursor_ns;
        let to_ns = segment.time_ns.max(from_ns);
        let from = (from_ns, segment.frame);
        self.timeline.exchanges.attribute_plain(Owner::Bandwidth, from, to_ns - from_ns);
        let last_data_ns = self.last_data_ns();
        data.begin_flight(&mut self.senders, Some(side), (&self.setup, &self.path));
        data.depart(&mut self.senders[side], since);
        self.note_protocol();
        self.framer.set_overlapping(false);
        self.framer.set_late(false);
        self.streams[side].pass(end);
        self.follow_rounds(side);
        move_cursor(&mut self.timeline, &mut self.senders, side, segment.time_ns);
        self.timeline.shorten_pause(last_data_ns, segment.time_ns);
        self.timeline.exchanges.touch(Sighting::of(side, segment));
    }

    /// Records what the protocol, as it is known before the data is read, shows of messages.
    #[inline]
    fn note_protocol(&mut self) {
        self.timeline.open_ended = self.framer.is_open_ended();
        self.timeline.pattern.hides_dialogue = self.framer.hides_dialogue();
    }

    /// Time of the last data of either side, ns.
    fn last_data_ns(&self) -> u64 {
        self.senders[0].last.time_ns.max(self.senders[1].last.time_ns)
    }

    fn follow_rounds(&mut self, side: Side) {
        let Sender { bulk, space, sizes, .. } = &mut self.senders[side];
        if let Some(bulk) = bulk {
            bulk.follow_rounds(space, sizes.smss());
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
        if side == Side::Server && self.timeline.is_interrupted {
            let rtts_ns = Side::ALL.map(|side| self.path.rtt_ns(side));
            self.timeline.settle_interrupted(Some(segment.time_ns), rtts_ns);
        }
        let sender = &self.senders[index];
        let offered_ns = sender.space.offered_ago_ns(&sender.pending, end, segment.time_ns);
        let echoed_ns = self.senders[side.peer()].packets.last.echoed_ago_ns(segment);
        // A round trip within the delay of a host says nothing about the path.
        let echoed_ns = echoed_ns.filter(|&it| it < rtt_ns && rtt_ns > HOST_DELAY_MAX_NS);
        if let Some(ago_ns) = offered_ns.into_iter().chain(echoed_ns).min()
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
        let peer = &self.senders[side.peer()];
        since.peer_tsval = peer.packets.last.tsval;
        since.carries_due_ack = peer.una_seen_ns == segment.time_ns
            && self.senders[index].last.time_ns < segment.time_ns;
        let is_old = start < self.senders[index].space.nxt;
        let unheard_ns =
            if is_old { unheard_ns(&self.senders, &self.path, side, segment) } else { 0 };
        let rtts = Rtts { sender_ns: rtt_ns, base_ns, unheard_ns };
        let kind = self.senders[index].kind(segment, start, rtts);
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
    fn follow_repetition(&mut self, data: &Data<'_>) {
        let &Data { side, segment, start, arrived, .. } = data;
        let is_needed_by_timer = data.is_timer_repetition() && !arrived;
        if matches!(data.kind, Kind::Retransmission(_)) {
            self.senders[side].follow_repetition(start, segment, is_needed_by_timer);
        }
        if !is_needed_by_timer {
            return;
        }
        if self.awaited().repeats_unacknowledged_message(side, segment) {
            let since_ns = self.senders[side].history().losses.repeating.first_ns;
            self.begin_mid_message(side, segment, since_ns);
        }
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
        let mut overlap = OverlappingMessage::None;
        if data.is_new_of(Side::Server)
            && (self.awaited().response_overlaps() || self.awaited().precedes_request())
        {
            overlap = OverlappingMessage::Certain;
        }
        if data.is_new_of(Side::Client) && is_unreadable(&self.framer) {
            let passed = passed(&self.senders[Side::Client]);
            let rtt_ns = self.path.rtt_ns(Side::Client);
            if self.timeline.continues_request(segment.time_ns, passed, rtt_ns) {
                overlap = OverlappingMessage::RequestContinues;
            }
        }
        let awaited = self.awaited();
        let says_nothing = data.is_new() && awaited.says_nothing(side, (start, segment), payload);
        // The server's FIN has told the client that nothing comes: no time after it is a wait.
        let is_behind_end = data.is_new_of(Side::Client) && self.server_closed_early;
        let is_awaited = !says_nothing
            && !is_behind_end
            && (data.deaf || awaited.moves_cursor(side, kind, arrived, start));
        let waits = is_awaited && self.timeline.exchanges.accrues();
        let begins_anew = side == Side::Client
            && self.timeline.active == Some(Side::Server)
            && self.timeline.may_be_over_if(self.framer.is_open_ended())
            && !self.timeline.exchanges.is_ready();
        let is_passed_over =
            waits && begins_anew && data.is_new() && self.pass_over(segment.time_ns);
        let explained = waits
            && !is_passed_over
            && self.silence(side, start, segment, kind, since, &mut shared.silence);
        let waits = is_passed_over || explained;
        let (last_data_ns, before) = (self.last_data_ns(), self.senders[side].last_answerable());
        Ended { is_awaited, waits, explained, begins_anew, overlap, last_data_ns, before }
    }

    /// Postpones the verdict on `silence`, which ended with a retransmission by timer: the answer will
    /// show whether that was needed.
    fn suspend(&mut self, data: &Data<'_>, silence: &Gap) {
        let mut gap = *silence;
        gap.repair.deaf = data.deaf;
        let stamp = self.senders[data.side].stamp(data.segment, gap.repair.original);
        self.cold.get_or_create().questions.suspended =
            Some(Box::new(Suspended { gap, end: data.end, stamp }));
    }

    /// Attributes the `slices` of `silence`.
    fn attribute_silence(&mut self, data: &Data<'_>, silence: &Gap, slices: Slices) {
        let &Data { side, segment, end, .. } = data;
        self.attribute(silence, slices, end);
        if data.kind == Kind::Retransmission(Recovery::Fast) && !silence.losses.in_recovery {
            let stamp = self.senders[side].stamp(segment, silence.repair.original);
            self.cold.get_or_create().questions.fast =
                Some(Box::new(Suspended { gap: *silence, end, stamp }));
        }
    }

    /// Reads the content, which shows whether an exchange waited for it. The silence before it has
    /// these `slices`, if there is something to explain.
    fn read_content(
        &mut self,
        data: &Data<'_>,
        payload: &[u8],
        (ended, slices): (&Ended, Option<&Slices>),
        shared: &mut Shared,
    ) -> Content {
        let &Data { side, segment, start, .. } = data;
        let rests = slices.is_some_and(|slices| self.awaited().has_rested(slices));
        let possible = Interpretations::of(data, ended, rests, &self.timeline, &self.framer);
        let mut overlap = ended.overlap;
        if possible.maybe_idle
            && data.is_new_of(Side::Client)
            && overlap == OverlappingMessage::None
        {
            let Self { timeline, framer, senders: [_, server], path, .. } = self;
            overlap = request_overlaps(timeline, framer, server, path, segment.time_ns);
        }
        self.framer.set_overlapping(overlap == OverlappingMessage::Certain);
        // Data outside of exchanges does not move the cursor, and shows as well when its sender was heard.
        let since_ns = self.timeline.cursor_ns.max(ended.last_data_ns);
        let rtt_ns = self.path.known_rtt_ns(side);
        let at_once_ns = since_ns + rtt_ns + HOST_DELAY_MAX_NS;
        self.framer.set_late(since_ns > 0 && segment.time_ns > at_once_ns);
        let &Segment { time_ns, frame, payload_len: payload_bytes, .. } = segment;
        self.framer.set_passing(Passing { time_ns, frame, payload_bytes });
        let range = (start, segment.payload_len);
        self.read(side, shared, |stream, early, reader| {
            stream.push(side, range, payload, early, &mut |side, bytes, lost, end| {
                reader.push(side, bytes, lost, end);
            });
        });
        let begins_exchange = self.timeline.begins_exchange(&shared.marks, overlap, rests);
        let pause = slices.and_then(|slices| self.pause_of_server(&shared.silence, slices));
        let paused_ns = pause.map(|_| shared.silence.start_ns);
        let meaning = self.meaning(data, possible, begins_exchange, paused_ns);
        Content { meaning, begins_exchange, rests, overlap }
    }

    /// Returns what the content of `data`, which was read last, means, if it `begins_exchange`, and if the
    /// server paused before it since `paused_ns`.
    fn meaning(
        &self,
        data: &Data<'_>,
        possible: Interpretations,
        begins_exchange: bool,
        paused_ns: Option<u64>,
    ) -> Meaning {
        let is_greeting = possible.unsolicited && !self.framer.has_sent_tickets_only();
        if is_greeting {
            // The client may have waited for it.
            return Meaning::Awaited;
        }
        if possible.maybe_idle && begins_exchange {
            return Meaning::Begins;
        }
        if possible.maybe_idle {
            // It is neither a request nor a response (a closing alert, for example).
            return Meaning::Aside { is_unsolicited: false };
        }
        if paused_ns.is_some_and(|since_ns| self.awaited().is_unsolicited(since_ns)) {
            // A TLS record outside of exchanges after a pause is the alert that ends the
            // connection.
            let is_unsolicited = self.framer.protocol() != Protocol::Tls
                && !self.framer.is_in_tls()
                && !self.framer.is_ended_idle();
            return Meaning::Aside { is_unsolicited };
        }
        if possible.may_be_unasked && self.framer.is_set_aside() {
            return Meaning::Aside { is_unsolicited: !self.framer.is_ended_idle() };
        }
        if data.is_new() && self.awaited().is_between_request_and_response() {
            return Meaning::Aside { is_unsolicited: false };
        }
        Meaning::Awaited
    }

    /// Advances the timeline to the data, and applies the marks in its content.
    fn pass_content(
        &mut self,
        data: &Data<'_>,
        ended: &Ended,
        content: &Content,
        shared: &mut Shared,
    ) {
        let &Data { side, segment, start, end, .. } = data;
        let is_aside = matches!(content.meaning, Meaning::Aside { .. });
        if ended.is_awaited && !is_aside {
            move_cursor(&mut self.timeline, &mut self.senders, side, segment.time_ns);
            self.timeline.shorten_pause(ended.last_data_ns, segment.time_ns);
        }
        if data.is_new_of(Side::Client) {
            self.timeline.exchanges.note_client_data();
        }
        let &Content { rests, overlap, meaning, .. } = content;
        if !shared.marks.is_empty() {
            let at = At { rests, overlap, ..self.at(side, segment) };
            self.timeline.apply(&shared.marks, side, at, &mut self.setup);
        }
        match meaning {
            Meaning::Awaited | Meaning::Begins => {
                self.timeline.exchanges.touch(Sighting::of(side, segment));
            }
            Meaning::Aside { is_unsolicited } => {
                let before = ended.before;
                let aside = AsideData { sender: side, start, end, before };
                self.cold.get_or_create().set_aside(aside);
                let count = u32::from(is_unsolicited);
                let unsolicited = &mut self.timeline.pattern.unsolicited;
                *unsolicited = unsolicited.saturating_add(count);
            }
        }
    }
}

/// Attributes the `slices` of `gap` to the request that began behind it, which was held for that long.
fn hold(timeline: &mut Timeline, trace: Option<&mut Trace>, gap: &Gap, slices: &Slices) {
    if let Some(trace) = trace {
        trace.gap(gap, slices.iter());
    }
    timeline.exchanges.hold(gap, slices);
}
