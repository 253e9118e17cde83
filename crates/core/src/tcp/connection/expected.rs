//! The short way of what is expected: a client with all of its answer asks again, and its server
//! answers, in one small segment each, on a connection with which nothing was ever wrong. Most of
//! what servers do begins so. It leaves what the long way leaves.

use super::*;

/// The flags of the last segment of a message that has nothing special.
const PLAIN: u8 = TcpFlags::ACK | TcpFlags::PSH;

/// Whether a segment was what was expected.
pub(super) enum Expected {
    /// It was not, and nothing was done.
    Nothing,
    /// It was, and it showed that the response to this request had arrived.
    Taken(Option<Box<Exchange>>),
}

impl Connection {
    /// Takes `segment` of `side`, if it is what was expected.
    #[inline]
    pub(super) fn take_expected(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
    ) -> Expected {
        let plain = segment.flags.0 == PLAIN
            && segment.sack_count == 0
            && segment.payload_len > 0
            && segment.captured_len == segment.payload_len;
        let calm = self.rare.is_none()
            && self.setup.confirmed
            && self.pure_acks
            && !self.mid_stream
            && !self.framer.is_open_ended()
            && !shared.goes_long_way;
        if !plain || !calm || !Side::ALL.into_iter().all(|side| self.path.knows(side)) {
            return Expected::Nothing;
        }
        match side {
            Side::Client => self.ask_next(segment, payload, shared),
            Side::Server => self.answer_at_once(segment, payload, shared),
        }
    }

    /// The client acknowledges the whole response and asks again.
    #[inline]
    fn ask_next(&mut self, segment: &Segment, payload: &[u8], shared: &mut Shared) -> Expected {
        let [client, server] = &self.halves;
        let (start, answered) = (client.nxt, server.nxt);
        let acked_ns = segment.time_ns.saturating_sub(server.last.time_ns);
        let expected = client.goes_on_with(segment, self.path.rtt_ns(Side::Client))
            && server.is_cleared_by(segment)
            && acked_ns <= DELAYED_ACK_MAX_NS
            && self.timeline.is_answered_up_to(answered)
            && self.setup.claimed
            && self.streams[Side::Client as usize].is_next(start);
        if !expected {
            return Expected::Nothing;
        }
        let Self { halves: [client, server], path, timeline, .. } = self;
        server.take_clearing(segment);
        let (rtt_ns, rtt_peer_ns) = (path.rtt_ns(Side::Client), path.rtt_ns(Side::Server));
        let arrived = timeline.retire_only(rtt_ns);
        client.clear(rtt_ns, rtt_peer_ns);
        client.depart_alone(segment);
        timeline.pass(Side::Client, segment.time_ns);
        match self.framer.whole(Side::Client, payload, 0, &shared.known) {
            Some(Mark::Request { kind, .. }) => {
                self.streams[Side::Client as usize].pass(client.nxt);
                let seen = Sighting::of(Side::Client, segment);
                timeline.ask(seen, [start, answered], kind, &mut shared.spare);
            }
            _ => self.read(Side::Client, start, segment, payload, shared),
        }
        Expected::Taken(arrived)
    }

    /// The server answers what it was asked, and before a timer may be behind that.
    #[inline]
    fn answer_at_once(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
    ) -> Expected {
        let [client, server] = &self.halves;
        let start = server.nxt;
        let rtt_ns = self.path.rtt_ns(Side::Server);
        let silent_ns = segment.time_ns.saturating_sub(self.timeline.cursor_ns);
        let expected = server.goes_on_with(segment, rtt_ns)
            && client.is_cleared_by(segment)
            && server.queued_ns() == 0
            && !cause::is_time_for_timer(silent_ns, self.path.base_rtt_ns())
            && self.timeline.is_just_asked()
            && self.streams[Side::Server as usize].is_next(start);
        if !expected {
            return Expected::Nothing;
        }
        self.halves[Side::Client as usize].take_clearing(segment);
        let gap = self.expected_silence(segment, &mut shared.answered);
        let server = &mut self.halves[Side::Server as usize];
        server.depart_alone(segment);
        let end = server.nxt;
        self.timeline.wait(gap, &mut shared.spare);
        self.timeline.pass(Side::Server, segment.time_ns);
        match self.framer.whole(Side::Server, payload, 0, &shared.known) {
            Some(Mark::Response { .. }) => {
                self.streams[Side::Server as usize].pass(end);
                self.timeline.answer(segment.time_ns, end);
            }
            _ => self.read(Side::Server, start, segment, payload, shared),
        }
        Expected::Taken(None)
    }

    /// Gives what was expected, and is no known message, to its stream.
    #[inline(never)]
    fn read(
        &mut self,
        side: Side,
        start: u64,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
    ) {
        self.stream(side, start, segment, payload, shared);
        self.timeline.touch(Sighting::of(side, segment));
    }

    /// The silence of the server that `segment` ends, with nothing in it but its answer: `gap` is that of
    /// another one, or of none, and what is not set here has no part in any.
    #[inline]
    fn expected_silence<'a>(&mut self, segment: &Segment, gap: &'a mut Gap) -> &'a Gap {
        let [rtt_client_ns, rtt_server_ns] = Side::ALL.map(|side| self.path.rtt_ns(side));
        let opens_from = match self.timeline.front() {
            Some(front) if front.idle_ns >= IDLE_NS => front.began_at[Side::Server as usize],
            _ => ORIGIN,
        };
        let [client, server] = &mut self.halves;
        let cleared = server.clear(rtt_server_ns, rtt_client_ns);
        gap.sender = Side::Server;
        gap.turn = Turn::Answers;
        (gap.start_ns, gap.end_ns) = (self.timeline.cursor_ns, segment.time_ns);
        (gap.last, gap.last_small) = (client.last_seen(), client.last.small);
        gap.end_with(segment);
        (gap.rtt_sender_ns, gap.way_ns) = (rtt_server_ns, rtt_server_ns);
        gap.rtt_base_ns = rtt_client_ns + rtt_server_ns;
        gap.smss = server.smss();
        gap.small_acked = server.small_acked_of(cleared.flight);
        let begun = (server.nxt - cleared.flight).saturating_sub(opens_from);
        gap.window_opened = server.window_opened_by(begun);
        gap.first_ack_ns = Some(cleared.trigger.effect_ns);
        (gap.ack, gap.acks) = (Some(cleared.trigger), 1);
        (gap.flight_first, gap.flight_before) = (cleared.flight, cleared.flight);
        (gap.room_before, gap.window_before) = (Some(cleared.room), Some(cleared.window));
        gap.flight_reached = server.flight_reached();
        (gap.drained, gap.steps) = (server.drained(), server.steps());
        gap
    }
}
