//! Processes payload, in the order of RFC 9293 §3.10.7.4: its position in the stream, what its
//! sender knew by then, the silence that it ends, and its content.

use crate::app::{Protocol, Side};
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{Gap, Recovery};
use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::connection::suspended::Suspended;
use crate::tcp::pause::Saved;
use crate::tcp::sender::{Kind, Rtts, Sender, SinceDeparture};
use crate::tcp::shared::Shared;
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
        self.note_limits(side, segment);
        if let Some(trace) = self.trace_mut() {
            trace.kind = Some(data.kind);
        }
        if matches!(data.kind, Kind::Probe | Kind::Late) {
            self.stop_counting_acks(side);
            return self.depart(&data, &since);
        }
        self.follow_repetition(&data, shared);
        if self.is_unsettled() && self.settle_with(&data, &since) {
            return self.depart(&data, &since);
        }
        if data.is_new() && self.may_continue_response(side, segment) {
            self.begin_mid_message(side, segment, segment.time_ns, shared);
        }
        let ended = self.end_silence(&data, payload, &since, shared);
        let held = self.held_before(&data, &ended, &since);
        self.begin_flight(&data);
        self.depart(&data, &since);
        let doubts = self.doubts_about(&data, &ended, &shared.silence);
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
        if side == Side::Server && self.timeline.is_interrupted() {
            let rtts_ns = Side::ALL.map(|side| self.path.rtt_ns(side));
            self.timeline.settle_interrupted(Some(segment.time_ns), rtts_ns);
        }
        let sender = &self.senders[index];
        if let Some(ago_ns) = sender.space.offered_ago_ns(&sender.pending, end, segment.time_ns)
            && !self.mid_stream
        {
            rtt_ns = self.shorten_path(side, ago_ns, segment, since);
        }
        since.peer_tsval = self.senders[side.peer() as usize].packets.last.tsval;
        let kind = self.senders[index].kind(segment, start, Rtts { sender_ns: rtt_ns, base_ns });
        if start > self.senders[index].space.nxt {
            // The data in between will be retransmitted, or is missing in the capture.
            since.excuse_missing();
        }
        let deaf = kind == Kind::Retransmission(Recovery::Timer)
            && self.has_not_heard(side, (start, end), segment.time_ns);
        if deaf {
            self.senders[index].space.unacknowledge(start);
            self.senders[index].history_mut().losses.unheard_from = start;
        }
        let arrived = match kind {
            Kind::Probe | Kind::Late => true,
            Kind::Retransmission(_) if deaf => false,
            Kind::Retransmission(_) => {
                let (data, now_ns) = ((start, end), segment.time_ns);
                let is_spurious = || self.senders[index].is_spurious(data, now_ns, base_ns);
                self.arrives(side) && !self.is_awaited_here(side, data, now_ns) || is_spurious()
            }
            _ => false,
        };
        Data { side, segment, start, end, kind, base_ns, arrived, deaf }
    }

    /// Adds the data to its sender's stream.
    #[inline(always)]
    fn depart(&mut self, data: &Data<'_>, since: &SinceDeparture) {
        let &Data { side, segment, start, kind, arrived, .. } = data;
        self.senders[side as usize].depart(segment, (start, kind), since, arrived);
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
        if self.repeats_unacknowledged_message(side, segment) {
            let since_ns = self.senders[side as usize].history().losses.repeating.first_ns;
            self.begin_mid_message(side, segment, since_ns, shared);
        }
    }

    /// Settles earlier verdicts that wait for the next segment. Returns whether the data only
    /// continues a retransmission whose verdict stays open.
    fn settle_with(&mut self, data: &Data<'_>, since: &SinceDeparture) -> bool {
        let &Data { side, segment, start, kind, .. } = data;
        if self.stays_suspended(side, segment, kind) {
            return true;
        }
        self.settle_acked_late(side, segment.time_ns, since);
        if kind == Kind::New {
            self.settle_doubt(side, start, segment, since);
            self.settle_blocked(side, segment);
        } else if matches!(kind, Kind::Fill(_)) {
            self.settle_skipped(side, segment);
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
            && (self.response_overlaps() || self.precedes_request(segment));
        if data.is_new_of(Side::Client) {
            self.continues_request(segment);
        }
        let says_nothing = data.is_new() && self.says_nothing(side, (start, segment), payload);
        let is_awaited =
            !says_nothing && (data.deaf || self.moves_cursor(side, kind, arrived, start));
        let waits = is_awaited && self.timeline.accrues();
        let explained =
            waits && self.silence(side, start, segment, kind, since, &mut shared.silence);
        let last_data_ns = self.senders[0].last.time_ns.max(self.senders[1].last.time_ns);
        Ended { is_awaited, explained, overlaps_request, last_data_ns }
    }

    /// Returns the gap before a request that Nagle's algorithm held, if the data is such a request.
    fn held_before(
        &mut self,
        data: &Data<'_>,
        ended: &Ended,
        since: &SinceDeparture,
    ) -> Option<Gap> {
        let may_be_held =
            data.is_new_of(Side::Client) && (!ended.explained || self.timeline.all_answered());
        if may_be_held { self.held_request(data.segment, since) } else { None }
    }

    /// Prepares both senders for the departure, which may begin a message.
    fn begin_flight(&mut self, data: &Data<'_>) {
        let &Data { side, segment, base_ns, .. } = data;
        let index = side as usize;
        if self.timeline.active == Some(side.peer()) {
            let peer = &mut self.senders[side.peer() as usize];
            peer.habits.end_message(&peer.last);
        }
        if self.timeline.active != Some(side)
            && let Some(bulk) = &mut self.senders[index].bulk
        {
            bulk.rounds.restart();
        }
        if data.is_new() && self.senders[index].bulk.is_some() && self.beside_receiver(side) {
            let Sender { bulk, last, clock, sizes, .. } = &mut self.senders[index];
            if let Some(bulk) = bulk {
                bulk.note_distance(segment, last, clock, sizes.smss(), base_ns);
            }
        }
    }

    /// Returns what the data may be if it is no part of an exchange in progress. `silence` is the
    /// gap before it.
    fn doubts_about(&mut self, data: &Data<'_>, ended: &Ended, silence: &Gap) -> Doubts {
        self.timeline.open_ended = self.framer.is_open_ended();
        self.timeline.paused_now = false;
        self.timeline.rests = ended.explained && self.has_rested(silence);
        let of_server = data.is_new_of(Side::Server);
        let unsolicited = of_server && self.timeline.is_ready();
        let maybe_idle = data.side == Side::Client
            && self.timeline.active == Some(Side::Server)
            && self.timeline.may_be_over()
            && !self.timeline.is_ready()
            || self.timeline.rests
            || unsolicited
            || ended.overlaps_request;
        let may_be_unasked = of_server && self.framer.has_unsolicited();
        let saved = if may_be_unasked { self.timeline.save() } else { None };
        Doubts { unsolicited, maybe_idle, saved }
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
            self.cold_mut().suspended = Some(Box::new(Suspended { gap, end, stamp }));
            return false;
        }
        if !maybe_idle {
            self.attribute(silence, end);
            if data.kind == Kind::Retransmission(Recovery::Fast) && !silence.losses.in_recovery {
                let stamp = self.senders[side as usize].stamp(segment, silence.repair.original);
                self.cold_mut().fast = Some(Box::new(Suspended { gap: *silence, end, stamp }));
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
            || maybe_idle && data.is_new_of(Side::Client) && self.request_overlaps(segment);
        if ended.is_awaited {
            self.move_cursor(side, segment.time_ns);
            self.timeline.shorten_pause(ended.last_data_ns, segment.time_ns);
        }
        if data.is_new_of(Side::Client) {
            self.timeline.note_client_data();
        }
        self.framer.set_overlapping(overlaps);
        let at_once_ns = self.path.known_rtt_ns(side) + HOST_DELAY_MAX_NS;
        self.framer.set_late(before.0 > 0 && segment.time_ns > before.0 + at_once_ns);
        self.stream(side, start, segment, payload, shared);
        self.timeline.end_overlap();
        if let Some(gap) = held.filter(|_| self.timeline.request_began) {
            self.hold(&gap);
        }
        if unsolicited && !self.timeline.rests && !self.framer.has_sent_tickets_only() {
            // The data is a greeting, for which the client may have waited.
            if ended.explained {
                self.attribute(&shared.silence, end);
            }
            self.timeline.touch(Sighting::of(side, segment));
            return;
        }
        let unsolicited = self.timeline.paused_now && self.is_unsolicited();
        if maybe_idle && !self.timeline.request_began || unsolicited {
            // The data is neither a request nor a response (a closing alert, for example): no
            // exchange waits for it.
            (self.timeline.cursor_ns, self.timeline.active) = before;
            if unsolicited {
                // A TLS record outside of exchanges after a pause is the alert that ends the connection.
                self.timeline.end_before_pause(self.framer.protocol() == Protocol::Tls);
            }
            return;
        }
        if let Some(saved) = saved.filter(|_| self.framer.is_set_aside()) {
            (self.timeline.cursor_ns, self.timeline.active) = before;
            return self.timeline.end_at(*saved);
        }
        self.timeline.touch(Sighting::of(side, segment));
    }
}
