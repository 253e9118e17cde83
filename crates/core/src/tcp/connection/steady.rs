//! The fast path of a connection with simple exchanges only: a client that has received the whole
//! response sends its next request, and the server its response, in one small segment each, with no
//! loss and nothing else unusual before. Most traffic of servers is of this kind. A segment that is
//! expected in this sequence is only recorded ([`Steady`]). Its effects are applied when an
//! unexpected segment comes ([`Connection::replay`]); of the exchanges before the last one only the
//! number is needed (header prediction: V. Jacobson, "4BSD TCP header prediction", 1990; RFC 7323
//! appendix D.2). The results are the same as without the fast path.

mod reading;

use crate::app::{ErrorCode, Label, Mark};
use crate::judge::{self, Gap};
use crate::model::{Cause, Owner, Sighting};
use crate::tcp::connection::Connection;
use crate::tcp::connection::doubt::{Doubted, note_doubt};
use crate::tcp::connection::echoes::{TimestampCarrier, take_timestamps};
use crate::tcp::connection::relayed::beyond_ack_ns;
use crate::tcp::path::Path;
use crate::tcp::row::Link;
use crate::tcp::sender::{LoneSegment, Sender, SinceDeparture};
use crate::tcp::shared::Shared;
use crate::tcp::sink::{SimpleExchange, Sink};
use crate::tcp::thresholds::{ACK_WITHIN_NS, DELAYED_ACK_MAX_NS};
use crate::wire::{BySide, Segment, SegmentFlags, Side, TcpFlags};

/// Flags of the last segment of an ordinary message.
const PLAIN: u8 = TcpFlags::ACK | TcpFlags::PSH;

/// Properties that no segment on the fast path has.
const ODD_FACTS: u32 =
    SegmentFlags::TRUNCATED_HEADER | SegmentFlags::ECN_CE | SegmentFlags::CLOCK_SET;

/// Phase of the current exchange on the fast path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The last response was processed in full; no state is pending.
    Idle,
    /// The request has passed.
    Asked,
    /// The response has passed.
    Answered,
}

/// Segments recorded on the fast path whose effects are not yet applied.
#[derive(Clone)]
pub(super) struct Steady {
    phase: Phase,
    /// The response before the last request.
    before: LoneSegment,
    /// The last request. Before the first request, only its start is set, as the end of the
    /// previous one.
    asked: LoneSegment,
    /// The response to `asked`.
    answer: LoneSegment,
    /// The doubt about the response before the last request, if there is one.
    doubted: Option<Doubted>,
    /// Kind of the last request.
    kind: Label,
    /// Right edges of the windows as each sender knew them when the last request passed.
    edges: BySide<Option<u64>>,
    /// Next sequence number of each side.
    next: BySide<u32>,
    /// The round trip of the last message of each side has been recorded.
    noted: BySide<bool>,
}

impl Steady {
    /// Returns whether a request waits for its response.
    pub(super) fn is_asked(&self) -> bool {
        self.phase == Phase::Asked
    }

    /// Returns the last response.
    fn last_answer(&self) -> &LoneSegment {
        if self.phase == Phase::Answered { &self.answer } else { &self.before }
    }

    /// Returns whether `segment`, which `side` sends, is the expected one after `last`.
    #[inline(always)]
    fn is_next(
        &self,
        (side, segment): (Side, &Segment),
        start: u64,
        last: &LoneSegment,
        sender: &Sender,
        path: &Path,
    ) -> bool {
        let (own, peer) = (side as usize, side.peer() as usize);
        segment.seq == self.next[own]
            && segment.ack == self.next[peer]
            && segment.time_ns >= last.time_ns + path.rtt_ns(side)
            && sender.expects(segment, start, (last, self.edges[own]))
    }

    /// Returns whether `segment` acknowledges the whole response and carries the next request.
    #[inline(always)]
    fn is_request(&self, segment: &Segment, client: &Sender, path: &Path) -> bool {
        let answer = self.last_answer();
        self.is_next((Side::Client, segment), self.asked.end, answer, client, path)
            && segment.time_ns - answer.time_ns <= DELAYED_ACK_MAX_NS
    }

    /// Returns whether `segment` is the response. Updates the clock of the server, and so is called
    /// once per segment.
    #[inline(always)]
    fn is_answer(&self, segment: &Segment, server: &mut Sender, path: &Path) -> bool {
        self.is_next((Side::Server, segment), self.before.end, &self.asked, server, path)
            && !server.clock.is_queued(segment)
    }

    /// Returns the doubt about the last response, whose exchange was counted.
    #[inline]
    fn response_doubt(&self, path: &Path) -> Option<Doubted> {
        if self.phase != Phase::Answered {
            return None;
        }
        let waited_ns = self.answer.time_ns - self.asked.time_ns;
        let own_ns = waited_ns.saturating_sub(path.known_rtt_ns(Side::Server));
        let doubts = judge::is_time_for_timer(waited_ns, path.base_rtt_ns())
            && !path.ends_here(Side::Server);
        doubts.then(|| Doubted::of_response(self.answer.frame, own_ns))
    }
}

impl Connection {
    /// Enters the fast path if the response `segment` leaves the connection idle and without any
    /// pending state that the next request could affect.
    pub(super) fn enter_fast_path(&mut self, segment: &Segment, shared: &Shared) {
        let nxt = self.senders[Side::Server].space.nxt;
        if self.framer.is_open_ended() || !self.timeline.is_answered_up_to(nxt) {
            return;
        }
        let is_set_up = self.setup.claimed || self.setup.syn_first_ns().is_none();
        let has_samples = Side::ALL.into_iter().all(|side| self.path.has_sample(side));
        let is_about_response = |doubted: &Doubted| doubted.is_about(segment);
        let calm = self.cold.get().is_none_or(|cold| cold.is_quiet_except(is_about_response))
            && self.setup.confirmed
            && is_set_up
            && !self.roles.may_be_learnt()
            && (self.pure_acks || self.path.base_rtt_ns() <= ACK_WITHIN_NS)
            // Without a captured handshake, a request that acknowledges the response is no sample
            // of the path.
            && (has_samples || self.mid_stream && !self.view().awaits_path())
            && !shared.disable_fast_path
            && beyond_ack_ns(&self.setup, &self.path).is_none()
            && is_plain(segment);
        let [client, server] = &self.senders;
        let settled = calm
            && server.has_sent_alone(segment)
            && client.is_cleared_by(segment)
            && self
                .senders
                .iter()
                .zip(&self.streams)
                .all(|(sender, it)| it.is_next(sender.space.nxt));
        if settled {
            self.steady = Some(Box::new(Steady {
                phase: Phase::Idle,
                before: LoneSegment::of(segment, server.space.nxt),
                asked: LoneSegment { end: client.space.nxt, ..LoneSegment::default() },
                answer: LoneSegment::default(),
                doubted: self.cold.take_doubt(),
                kind: Label::default(),
                edges: self.senders.each_ref().map(|sender| sender.space.right_edge()),
                next: [segment.ack, segment.seq.wrapping_add(segment.payload_len)],
                noted: [false; 2],
            }));
        }
    }

    /// Processes `segment` on the fast path if it is the expected one, and returns `true`;
    /// otherwise leaves the fast path.
    #[inline]
    pub fn take_fast_path(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) -> bool {
        let Some(steady) = &self.steady else { return false };
        let is_asked = steady.phase == Phase::Asked;
        let from_client = segment.from_high() == self.client_is_high;
        let expected = is_plain(segment)
            && segment.time_ns >= self.last.time_ns
            && from_client != is_asked
            && if is_asked {
                let server = &mut self.senders[Side::Server];
                steady.is_answer(segment, server, &self.path)
            } else {
                steady.is_request(segment, &self.senders[Side::Client], &self.path)
            };
        if !expected {
            self.leave_fast_path(shared);
            return false;
        }
        if is_asked {
            self.take_response(segment, payload, shared);
        } else {
            self.take_request(segment, payload, shared, sink);
        }
        true
    }

    /// Records that the expected `segment` of `side` has passed.
    #[inline(always)]
    fn pass(&mut self, side: Side, segment: &Segment) {
        let Sender { packets, volume, .. } = &mut self.senders[side];
        packets.pass(segment, &mut volume.packets);
        self.last = Sighting::of(side, segment);
        if self.mid_stream && segment.facts.has(SegmentFlags::TIMESTAMPS) {
            let (received, carrier) = ((side, segment), TimestampCarrier::Other);
            take_timestamps(&mut self.cold, &mut self.path, received, carrier, false);
        }
    }

    /// Processes the request that [`is_request`](Steady::is_request) recognised.
    #[inline]
    fn take_request(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) {
        let was_counted = self.count_simple(segment, shared, sink);
        let (arrived, doubted) = if was_counted {
            (None, self.steady.as_ref().and_then(|it| it.response_doubt(&self.path)))
        } else {
            self.replay(true, &mut shared.silence);
            (
                self.timeline.retire_only(self.path.known_rtt_ns(Side::Client)),
                self.cold.take_doubt(),
            )
        };
        let Some(steady) = &mut self.steady else { return };
        steady.doubted = doubted;
        let [client, server] = &mut self.senders;
        let answer = *steady.last_answer();
        let start = steady.asked.end;
        let [client_edge, server_edge] = &mut steady.edges;
        if steady.phase == Phase::Answered {
            let una = steady.before.end;
            *server_edge = server.space.edge_after(*server_edge, una, steady.asked.window);
            if !steady.noted[Side::Server] && server.habits.shows_arrival(false) {
                server.rtts.take(steady.asked.time_ns - steady.before.time_ns);
            }
            if !steady.noted[Side::Client] && client.habits.shows_arrival(false) {
                client.rtts.take(answer.time_ns - steady.asked.time_ns);
            }
            (steady.before, steady.noted) = (answer, [false; 2]);
        }
        *client_edge = client.space.edge_after(*client_edge, start, answer.window);
        steady.asked = LoneSegment::of(segment, start + u64::from(segment.payload_len));
        steady.phase = Phase::Asked;
        steady.next[Side::Client] = segment.seq.wrapping_add(segment.payload_len);
        self.senders[Side::Client].clock.observe_packet(segment);
        self.pass(Side::Client, segment);
        let Some(steady) = &mut self.steady else { return };
        match self.framer.whole(Side::Client, payload, 0, &shared.known) {
            Some(Mark::Request { kind, .. }) => steady.kind = *kind,
            _ => self.parse_message(Side::Client, start, segment, payload, shared),
        }
        if let Some(arrived) = arrived {
            if self.steady.is_some() {
                self.replay(true, &mut shared.silence);
            }
            self.report_exchange(arrived, shared, sink);
            if self.steady.is_some() {
                self.timeline.exchanges.remove_request();
                self.cold.take_doubt();
            }
        }
    }

    /// Processes the response that [`is_answer`](Steady::is_answer) recognised.
    #[inline(always)]
    fn take_response(&mut self, segment: &Segment, payload: &[u8], shared: &mut Shared) {
        let Some(steady) = &mut self.steady else { return };
        let start = steady.before.end;
        steady.answer = LoneSegment::of(segment, start + u64::from(segment.payload_len));
        steady.phase = Phase::Answered;
        steady.next[Side::Server] = segment.seq.wrapping_add(segment.payload_len);
        if self.mid_stream {
            self.cold.note_acked_within(segment.time_ns - steady.asked.time_ns);
        }
        self.pass(Side::Server, segment);
        match self.framer.whole(Side::Server, payload, 0, &shared.known) {
            Some(Mark::Response { status, extent, .. }) => {
                if ErrorCode::of_http(status).is_some() {
                    // Simple exchanges report no error.
                    let response = Mark::Response { status, extent, software: None };
                    let marks = [Some((start, response)), None, None];
                    self.leave_with(Side::Server, segment, marks, &mut shared.silence);
                    let end = start + u64::from(segment.payload_len);
                    self.streams[Side::Server].pass(end);
                    self.timeline.exchanges.touch(Sighting::of(Side::Server, segment));
                }
            }
            _ => self.parse_message(Side::Server, start, segment, payload, shared),
        }
    }

    /// Counts the last exchange, whose response has arrived as `segment` shows, if it may be
    /// counted as a simple one. Returns whether it was counted.
    #[inline]
    fn count_simple(
        &mut self,
        segment: &Segment,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) -> bool {
        let Some(steady) = self.steady.as_ref().filter(|it| it.phase == Phase::Answered) else {
            return false;
        };
        let waited_ns = steady.answer.time_ns - steady.asked.time_ns;
        let rtt_server_ns = self.path.known_rtt_ns(Side::Server).min(waited_ns);
        let rtt_client_ns = self.path.known_rtt_ns(Side::Client);
        let link = Link {
            asked_ns: steady.asked.time_ns,
            ended_ns: steady.answer.time_ns,
            path_ns: rtt_server_ns + rtt_client_ns,
            round_trip_ns: self.path.base_rtt_ns(),
            rtt_client_ns,
        };
        let plain = SimpleExchange {
            kind: &steady.kind,
            asked: (steady.asked.time_ns, steady.asked.frame),
            answered: (steady.answer.time_ns, steady.answer.frame),
            arrived_ns: segment.time_ns,
            path_ns: link.path_ns,
            server_ns: waited_ns - rtt_server_ns,
            row: self.totals.row().with(link),
        };
        if self.cold.is_copy() || !shared.window.overlaps(plain.asked.0, plain.answered.0) {
            return true;
        }
        if !sink.simple_exchange(self, &plain) {
            return false;
        }
        let (path_ns, server_ns, row) = (plain.path_ns, plain.server_ns, plain.row);
        self.totals.set_row(row);
        self.totals.exchanges += 1;
        if let Some(series) = self.totals.append_to_series(link.asked_ns, link.ended_ns) {
            sink.series(self, &series);
        }
        self.totals.ledger.add(Owner::Path, path_ns);
        self.totals.ledger.add(Owner::Server, server_ns);
        if server_ns > 0 {
            self.totals.causes[Side::Server].insert(Cause::ServerThink);
        }
        true
    }

    /// Applies the recorded segments and leaves the fast path.
    #[inline]
    pub(super) fn leave_fast_path(&mut self, shared: &mut Shared) {
        if self.steady.is_some() {
            self.replay(true, &mut shared.silence);
            self.steady = None;
        }
    }

    /// Applies the recorded segments that are not yet applied. If `is_recognised`, the last message
    /// was recognised from its bytes.
    #[inline(never)]
    fn replay(&mut self, is_recognised: bool, gap: &mut Gap) {
        let Some(steady) = self.steady.as_mut() else { return };
        if steady.phase == Phase::Idle {
            if let Some(doubted) = steady.doubted.take() {
                self.cold.set_doubt(Some(doubted));
            }
            return;
        }
        let is_answered = steady.phase == Phase::Answered;
        let noted = std::mem::replace(&mut steady.noted, [is_answered, true]);
        let Steady { before, asked, answer, doubted, kind, edges, .. } = **steady;
        if let Some(doubted) = doubted.filter(|_| !is_answered) {
            self.cold.set_doubt(Some(doubted));
        }
        let [client, server] = &mut self.senders;
        client.set_in_flight(&asked, edges[Side::Client], noted[Side::Client]);
        (client.una_seen_ns, client.space.window_field) = (before.time_ns, before.window);
        server.set_in_flight(&before, edges[Side::Server], noted[Side::Server]);
        server.take_full_ack(&asked.segment());
        let has_asked = is_recognised || is_answered;
        let [of_client, of_server] = &mut self.streams;
        of_client.pass(if has_asked { asked.end } else { asked.start() });
        of_server.pass(before.end);
        self.timeline.cursor_ns = before.time_ns;
        self.timeline.pass(Side::Client, asked.time_ns);
        if has_asked {
            let seen = Sighting::of(Side::Client, &asked.segment());
            let positions = [asked.start(), before.end];
            self.timeline.ask(seen, positions, &kind);
        }
        if is_answered {
            let segment = answer.segment();
            self.senders[Side::Client].take_full_ack(&segment);
            // The server's gap ended with an ordinary response.
            let [rtt_client_ns, rtt_server_ns] = Side::ALL.map(|side| self.path.rtt_ns(side));
            let mut since = SinceDeparture::default();
            let server = &mut self.senders[Side::Server];
            server.apply_full_ack(&mut since, rtt_server_ns, rtt_client_ns);
            let ends_ns = (self.timeline.cursor_ns, segment.time_ns);
            self.knowledge().fill(Side::Server, ends_ns, false, &since, gap);
            gap.end_with(&segment);
            self.senders[Side::Server].depart_alone(&segment);
            self.timeline.exchanges.wait(gap);
            if judge::may_be_timer(gap) {
                let slices = judge::judge(gap);
                note_doubt(&mut self.cold, &mut self.senders, &self.path, gap, &slices);
            }
            self.timeline.pass(Side::Server, answer.time_ns);
            if is_recognised {
                self.streams[Side::Server].pass(answer.end);
                self.timeline.answer(answer.time_ns, answer.end);
            }
        }
    }
}

/// Returns whether `segment` may be one whole ordinary message.
#[inline]
fn is_plain(segment: &Segment) -> bool {
    segment.flags.0 == PLAIN
        && segment.sack_count == 0
        && segment.payload_len > 0
        && segment.captured_len == segment.payload_len
        && segment.window > 0
        && segment.facts.0 & ODD_FACTS == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_small_whole_segment_with_a_window_is_plain() {
        let plain = Segment {
            flags: TcpFlags(PLAIN),
            payload_len: 80,
            captured_len: 80,
            window: 500,
            ..Segment::default()
        };
        assert!(is_plain(&plain));
        assert!(!is_plain(&Segment { captured_len: 60, ..plain }));
        assert!(!is_plain(&Segment { window: 0, ..plain }));
        assert!(!is_plain(&Segment { sack_count: 1, ..plain }));
        assert!(!is_plain(&Segment { flags: TcpFlags(PLAIN | TcpFlags::FIN), ..plain }));
        let facts = SegmentFlags(SegmentFlags::CLOCK_SET);
        assert!(!is_plain(&Segment { facts, ..plain }));
    }
}
