//! How the end of a connection, by FINs, a RST or the end of the capture, ends the exchange in
//! progress.

use crate::app::Protocol;
use crate::capture::FrameId;
use crate::model::{Outcome, Sighting};
use crate::tcp::connection::Connection;
use crate::tcp::connection::at_end::AtEnd;
use crate::tcp::connection::attempt::attempt;
use crate::tcp::connection::ending::Ending;
use crate::tcp::connection::icmp::settle_refusal;
use crate::tcp::connection::questions::Event;
use crate::tcp::connection::reset::{HeldReset, Shown};
use crate::tcp::exchange::Exchange;
use crate::tcp::owed::Debt;
use crate::tcp::path::Path;
use crate::tcp::sender::{Sender, SinceDeparture};
use crate::tcp::shared::Shared;
use crate::tcp::sink::Sink;
use crate::tcp::thresholds::STREAM_PAUSE_MIN_NS;
use crate::tcp::timeline::Timeline;
use crate::wire::{BySide, Segment, Side, TcpFlags};

impl Connection {
    /// What is known of the connection at its end.
    pub fn at_end(&self) -> AtEnd<'_> {
        let faults = self.cold.faults();
        AtEnd {
            senders: &self.senders,
            path: &self.path,
            setup: &self.setup,
            framer: &self.framer,
            timeline: &self.timeline,
            ending: self.cold.ending(),
            is_whole: faults.missing_bytes == 0,
            lacks_acks: !self.pure_acks && faults.missing_acks > 0,
        }
    }

    /// Processes the FIN in `segment`.
    #[inline(never)]
    pub(super) fn take_fin(&mut self, side: Side, segment: &Segment) {
        let acks = self.senders[side.peer()].space.una_seen();
        self.cold.ending_mut().take_fin(side, segment, acks);
        let sender = &mut self.senders[side];
        let position = sender.space.position(segment.seq) + u64::from(segment.payload_len);
        sender.space.finish(position);
        // A FIN that the client has acknowledged tells it nothing new.
        let is_repeated = sender.space.una_seen() > position;
        if side == Side::Client {
            self.end_pause_amid_request(Sighting::of(side, segment));
        }
        if segment.payload_len == 0 && !is_repeated {
            self.ask_kernel(side, segment);
        }
        if side == Side::Server && !is_repeated {
            self.take_server_fin(segment);
        }
    }

    /// Processes the server's FIN while a request waits: it shows the client that no response
    /// comes, or that the data received was the whole response (RFC 9112 §6.3).
    pub(super) fn take_server_fin(&mut self, segment: &Segment) {
        if let Some(left_ns) = self.cold.ending().fin_ns[Side::Client] {
            let asks_at_once = self.timeline.asks_at_once();
            self.timeline.exchanges.drop_unanswered_last_message(
                left_ns,
                self.path.base_rtt_ns(),
                asks_at_once,
            );
        }
        let Self { timeline, senders, path, framer, .. } = self;
        drop_message_before_fin(
            timeline,
            senders,
            framer.protocol(),
            segment.time_ns,
            path.base_rtt_ns(),
        );
        let ends = self.at_end().ends_response(segment);
        let waiting = self.timeline.exchanges.front().is_some_and(|exchange| {
            let waits = ends || !exchange.response_seen;
            let asked = exchange.request_seen || self.at_end().awaits_server_hello(exchange);
            asked && waits && !exchange.is_complete()
        });
        let closed_ns = self.cold.ending().fin_ns[Side::Client];
        if waiting
            && closed_ns.is_some_and(|at_ns| {
                self.at_end().answers_fin_only(at_ns, segment.time_ns, self.totals.exchanges)
            })
        {
            self.timeline.exchanges.expect_nothing();
        }
        let waiting = waiting && self.timeline.exchanges.front().is_some_and(Exchange::asks);
        if waiting
            && (closed_ns.is_none() || {
                let is_one_way = self.timeline.is_one_way(self.view().has_exchanged());
                self.at_end().debt(is_one_way) == Debt::Response
            })
        {
            self.resume();
            // A client that had closed no longer waits, unless a response is on its way.
            let comes = self.senders[Side::Server].history().holes.bytes() > 0;
            let left = self.cold.ending().fin[Side::Client].filter(|_| !comes);
            let end = left.unwrap_or(Sighting::of(Side::Server, segment));
            if self.at_end().pauses_amid_request(segment.time_ns) {
                let silent_ns = segment.time_ns - self.senders[Side::Client].last.time_ns;
                self.cold.ending_mut().amid_request_ns.get_or_insert(silent_ns);
            }
            self.accrue_to(self.at_end().waited_for(), end.time_ns, end);
            self.server_closed_early = true;
        }
    }

    /// Processes the first RST, which `side` sends.
    pub(super) fn reset(&mut self, side: Side, segment: &Segment) {
        let sender = &self.senders[side];
        let is_set_up = self.setup.is_established() || self.setup.confirmed || self.mid_stream;
        let is_known = sender.space.started() && is_set_up;
        let is_awaited = self.timeline.exchanges.front().is_some();
        let held = is_known.then(|| HeldReset::of(segment, sender, is_awaited)).flatten();
        let last_data = last_data(&self.senders, segment.frame);
        if side == Side::Client {
            let next = self.view().syn_sequence().map(|seq| seq.wrapping_add(1));
            let acks = segment.flags.has(TcpFlags::ACK);
            self.setup.note_reset(next == Some(segment.seq), acks);
        }
        self.cold.ending_mut().take_reset(side, segment, sender.packets.last.ttl, last_data, held);
        if held.is_none_or(|held| !held.is_awaited) {
            self.end_by_reset();
        }
    }

    /// Decides about a held RST by the next `segment`, which `side` sends, before it is processed.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_reset(&mut self, side: Side, segment: &Segment) {
        let Self { cold, senders, path, .. } = self;
        match cold.ending_mut().judge_reset((side, segment), senders, path) {
            Shown::Nothing => {}
            Shown::Ignored => self.cold.get_or_create().ignored_resets += 1,
            Shown::Accepted => self.release_reset(),
        }
    }

    /// Ends the exchange in progress by the RST that is held, if there is one: nothing has shown
    /// that its receiver ignored it.
    fn release_reset(&mut self) {
        let is_held = self.cold.ended().is_some_and(Ending::holds_reset);
        if is_held && self.cold.ending_mut().release_reset() {
            self.end_by_reset();
        }
    }

    /// Returns whether the client acknowledged the server's FIN.
    fn has_told_its_end(&self) -> bool {
        self.senders[Side::Server].has_told_its_end()
    }

    /// Ends the exchange in progress by the RST.
    fn end_by_reset(&mut self) {
        let Some(reset) = self.cold.ending().reset else { return };
        let side = reset.from;
        self.resume();
        if side == Side::Client {
            let asks_at_once = self.timeline.asks_at_once();
            // Its RST may only answer what came after it had closed.
            let closed_ns = self.cold.ending().client_closed_ns();
            self.timeline.exchanges.drop_unanswered_last_message(
                closed_ns.map_or(reset.time_ns, |closed_ns| closed_ns.min(reset.time_ns)),
                self.path.base_rtt_ns(),
                asks_at_once,
            );
        }
        if side == Side::Server
            && self.cold.ending().has_left(reset.time_ns, self.path.rtt_ns(Side::Server))
            && self.at_end().waits_for_answer()
            && !self.timeline.is_one_way(self.view().has_exchanged())
        {
            // The client gave up with its FIN, which the server's host knew: its RST ends nothing more.
            return;
        }
        if self.timeline.exchanges.front().is_some() {
            apply_pending_acks(&mut self.senders, &self.path, reset.time_ns);
            let cut = self.at_end().is_upload_cut_by(side);
            let unacknowledged =
                side == Side::Client && self.at_end().unacknowledged_request().is_some();
            let is_in_vain = unacknowledged && self.at_end().asks_behind_fin();
            let over = !cut && !is_in_vain && self.at_end().was_over_before_reset_of(side)
                || self.at_end().refuses_what_was_left()
                || side == Side::Server && self.timeline.exchanges.refuses_connection();
            if cut {
                self.timeline.reopen_response();
            }
            let outcome = match () {
                () if self.at_end().lacks_answers() => Outcome::Unseen,
                () if over => Outcome::Answered,
                () if unacknowledged => Outcome::Unacknowledged,
                // The client had received the FIN. The RST answers what it sent after that.
                () if side == Side::Server
                    && self.server_closed_early
                    && self.has_told_its_end() =>
                {
                    self.at_end().outcome_of_end(side)
                }
                () => Outcome::Reset { by: side },
            };
            if unacknowledged {
                if let Some((tail, last)) = self.at_end().unacknowledged_until() {
                    self.timeline.attribute_unanswered(&tail, last);
                }
            } else if !over && !self.server_closed_early {
                // A side that had closed no longer waits.
                let server = &self.senders[Side::Server];
                let left = self.cold.ending().gave_up_ns(Side::Server, server, server.space.nxt);
                let left = left.filter(|_| side == Side::Client);
                // A client that gives up has waited for its server until then.
                let waited = side == Side::Client
                    && (self.at_end().waits_for_answer()
                        && !self.timeline.is_one_way(self.view().has_exchanged())
                        || self.at_end().waits_for_repair(reset.time_ns));
                let waited_for = if waited { Side::Server } else { side };
                self.accrue_to(waited_for, left.unwrap_or(reset.time_ns), reset);
            }
            let rtt_client_ns = self.path.known_rtt_ns(Side::Client);
            let Self { timeline, cold, senders, .. } = self;
            let position = senders[Side::Server].space.nxt;
            settle_pauses(timeline, &cold.ending(), position, rtt_client_ns);
            let leg_ns = cold.ending().last_leg_ns(rtt_client_ns, timeline.exchanges.front());
            let not_due = timeline.close(leg_ns, outcome);
            cold.count_not_due(not_due);
        }
    }

    /// Ends the exchange in progress at the end of the connection or capture, and reports the
    /// connection.
    pub fn finish(&mut self, shared: &mut Shared, sink: &mut impl Sink) {
        self.leave_fast_path(shared);
        self.release_reset();
        self.streams.iter_mut().for_each(|stream| stream.discard_waiting(&mut shared.early));
        self.settle(&Event::End { last: self.last.frame });
        let rtt_client_ns = self.path.known_rtt_ns(Side::Client);
        if let Some(left_ns) = self.cold.ending().fin_ns[Side::Client] {
            let asks_at_once = self.timeline.asks_at_once();
            self.timeline.exchanges.drop_unanswered_last_message(
                left_ns,
                self.path.base_rtt_ns(),
                asks_at_once,
            );
        }
        if self.timeline.exchanges.front().is_some() {
            self.end_in_progress();
        }
        let is_probe = self.cold.icmp_report().is_some() && self.view().sends_probes();
        let Self { setup, cold, senders, .. } = self;
        settle_refusal(setup, cold, &senders[Side::Server], is_probe);
        let reset_ns = self.cold.ending().reset.map(|reset| reset.time_ns);
        let closed = self.view().closed_at_once();
        let (last_ns, recording) = (self.last.time_ns, self.cold.recording());
        let attempt = attempt(&self.setup, rtt_client_ns, reset_ns, closed, last_ns, recording);
        if let Some(exchange) = attempt.filter(|_| !self.view().sends_probes()) {
            self.setup.claimed = true;
            self.timeline.done.push_back(exchange);
        }
        self.report_finished(shared, sink);
        self.count_kept(shared, sink);
        let is_counted = !self.cold.is_copy() || self.totals.exchanges > 0;
        if shared.window.overlaps(self.first_ns, self.last.time_ns) && is_counted {
            if let Some(series) = self.totals.end_series() {
                sink.series(self, &series);
            }
            sink.connection(self);
        } else {
            sink.uncounted(self);
        }
    }

    /// Ends the exchange in progress at the end of the connection or capture.
    fn end_in_progress(&mut self) {
        apply_pending_acks(&mut self.senders, &self.path, self.last.time_ns);
        let waiting =
            Side::ALL.into_iter().find(|&side| self.senders[side].history().window.is_closed());
        if let Some(side) = waiting {
            self.accrue_to(side, self.last.time_ns, self.last);
        }
        // A client that closes has waited until then.
        let cut_short = self.senders[Side::Server]
            .history()
            .losses
            .is_repairing(self.senders[Side::Server].space.una());
        let is_one_way = self.timeline.is_one_way(self.view().has_exchanged());
        let debt = self.at_end().debt(is_one_way);
        let unanswered = debt == Debt::Response
            && self.timeline.exchanges.front().is_some_and(|exchange| {
                cut_short
                    || exchange.request_seen && !exchange.response_seen
                    || self.at_end().awaits_repair_of_handshake(exchange)
                    || self.at_end().awaits_server_hello(exchange)
            });
        let is_stuck = self.at_end().unacknowledged_request().is_some();
        let fin = self.cold.ending().fin[Side::Client];
        if let Some(fin) = fin.filter(|_| (unanswered || self.at_end().has_stopped()) && !is_stuck)
        {
            self.accrue_to(self.at_end().waited_for(), fin.time_ns, fin);
        }
        if self.at_end().is_still_waiting(self.last.time_ns) && unanswered && !is_stuck {
            self.accrue_to(Side::Server, self.last.time_ns, self.last);
        }
        let server_fin = self.cold.ending().fin[Side::Server];
        // What repeats a complete response, with a FIN or without, adds nothing to it.
        let is_begun = |it: &Exchange| it.response_seen && !it.is_complete();
        let begun = self.timeline.exchanges.front().is_some_and(is_begun);
        let cut_off = begun && self.framer.announces_end();
        if let Some(fin) = server_fin.filter(|_| cut_off) {
            // The response ends before its announced end; the client learns that now.
            self.timeline.end_early(fin);
        }
        if let Some((tail, last)) = self.at_end().unacknowledged_until() {
            self.timeline.attribute_unanswered(&tail, last);
        }
        let outcome = self.at_end().outcome(debt);
        self.left_unanswered = unanswered
            && !cut_short
            && self.timeline.exchanges.front().is_some_and(|exchange| exchange.request_seen)
            && self.cold.ending().fin[Side::Client].is_none()
            && self.senders[Side::Server].space.started()
            && outcome == Outcome::Open;
        let rtt_client_ns = self.path.known_rtt_ns(Side::Client);
        let position = self.senders[Side::Server].space.nxt;
        settle_pauses(&mut self.timeline, &self.cold.ending(), position, rtt_client_ns);
        let not_due = self.timeline.close(rtt_client_ns, outcome);
        self.cold.count_not_due(not_due);
    }
}

/// Drops the exchange of a message that the server sent just before it closed an idle
/// connection: the message is no response.
fn drop_message_before_fin(
    timeline: &mut Timeline,
    [client, server]: &[Sender; 2],
    protocol: Protocol,
    fin_ns: u64,
    base_rtt_ns: u64,
) {
    let idle_ns = fin_ns.saturating_sub(client.last.time_ns + base_rtt_ns);
    // Directly after a response, the server may end the connection at any time.
    let at_once = server.last.time_ns < client.last.time_ns
        || fin_ns.saturating_sub(server.last.time_ns) < STREAM_PAUSE_MIN_NS;
    if protocol == Protocol::Tls && idle_ns >= STREAM_PAUSE_MIN_NS && at_once {
        let (last_bytes, positions) = (client.last.len, [client.space.nxt, server.space.nxt]);
        let asks_at_once = timeline.asks_at_once();
        timeline.exchanges.drop_message_before_fin(last_bytes.into(), positions, asks_at_once);
    }
}

/// Decides about the pauses of a server whose stream is at `position`, once the connection ends. Where
/// the content does not show what is a response, a server that closes shows nothing about a client that
/// has asked for something.
fn settle_pauses(timeline: &mut Timeline, ending: &Ending, position: u64, rtt_client_ns: u64) {
    let asked = timeline.exchanges.front().is_some_and(|exchange| exchange.request_seen);
    let is_unclear = asked && timeline.pattern.hides_dialogue;
    let shows_wait = |end: &Sighting| !is_unclear || end.from == Side::Client;
    let end_ns = ending.first().filter(shows_wait).map(|end| end.time_ns);
    timeline.settle_pauses(end_ns, rtt_client_ns, position, Debt::Response);
}

/// Applies the ACKs that have reached their senders by `now_ns`, if these ACKs may have closed
/// a window.
fn apply_pending_acks(senders: &mut BySide<Sender>, path: &Path, now_ns: u64) {
    for side in Side::ALL {
        let rtts_ns = (path.rtt_ns(side), path.rtt_ns(side.peer()));
        let sender = &mut senders[side];
        if sender.history().window.zero_advertisements == 0 {
            continue;
        }
        let mut since = SinceDeparture::default();
        sender.since.take(&mut since);
        sender.advance(&mut since, now_ns, rtts_ns, None);
        sender.since.store(since);
    }
}

/// Returns the last data that either side has sent, other than in `frame`.
pub(super) fn last_data(senders: &BySide<Sender>, frame: FrameId) -> Option<Sighting> {
    let seen = Side::ALL.into_iter().filter_map(|side| {
        let last = senders[side].last;
        Sighting { frame: last.frame, time_ns: last.time_ns, payload_bytes: last.len, from: side }
            .known()
    });
    seen.filter(|it| it.frame != frame).max_by_key(|it| (it.time_ns, it.from as usize))
}
