//! RSTs: how one ends a connection, and whether it does.
//!
//! Read RFC 5961 §3.2 first: a host accepts a RST only if its sequence number is exactly the one
//! that it expects next; otherwise it answers with an ACK, and the connection goes on. A RST that
//! may not be accepted, or that something on the path may have sent, is held until its receiver
//! shows which.

use crate::app::Side;
use crate::capture::FrameId;
use crate::judge::thresholds::{RTO_INITIAL_NS, RTO_MIN_NS};
use crate::model::{Outcome, Sighting};
use crate::tcp::connection::{Connection, is_pure_ack};
use crate::tcp::exchange::Exchange;
use crate::wire::{Segment, TcpFlags};

/// A RST whose effect is not yet known.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldReset {
    /// Position up to which its sender had sent before it.
    next: u64,
    /// Its sequence number is one that its receiver may expect next.
    is_exact: bool,
    /// It carries data.
    has_data: bool,
    /// It came while a request waited, which it ends if it is accepted.
    is_awaited: bool,
}

impl Connection {
    /// Processes the first RST, which `side` sends.
    pub(super) fn reset(&mut self, side: Side, segment: &Segment) {
        let held = self.doubtful_reset(side, segment);
        let others = self.senders[side as usize].packets.last.ttl;
        let last_data = self.last_data(segment.frame);
        let ending = self.ending_mut();
        ending.reset = Some(Sighting::of(side, segment));
        ending.last_data = last_data;
        ending.reset_ttls = [segment.ttl, others];
        ending.unknown = !segment.flags.has(TcpFlags::ACK);
        ending.forgotten = side == Side::Server
            && ending.fin_ns[Side::Server as usize].is_none()
            && ending.fin_ns[Side::Client as usize].is_some()
            && ending.unknown;
        ending.held = held;
        if held.is_none_or(|held| !held.is_awaited) {
            self.end_by_reset();
        }
    }

    /// Returns what later segments are compared with, if the RST `segment` of `side` on an
    /// established connection carries data, has a sequence number that its receiver does not
    /// expect, or another TTL than its sender's packets. A host that does not know the connection
    /// takes the number from an ACK of its receiver (RFC 9293 §3.10.7.1).
    fn doubtful_reset(&self, side: Side, segment: &Segment) -> Option<HeldReset> {
        let sender = &self.senders[side as usize];
        if !sender.space.started() || !(self.setup.is_established() || self.mid_stream) {
            return None;
        }
        let start = sender.space.position_of(segment.seq);
        let next = sender.space.nxt.saturating_sub(segment.payload_len.into());
        let after_fin = sender.space.fin().map(|fin| fin + 1);
        let is_exact = [sender.space.una_seen(), next, sender.space.nxt].contains(&start)
            || after_fin == Some(start);
        let is_strange = sender.packets.last.ttl > 0 && sender.packets.last.ttl != segment.ttl;
        let is_awaited = self.timeline.front().is_some();
        let has_data = segment.payload_len > 0;
        let is_doubtful = !is_exact || is_strange || has_data;
        is_doubtful.then_some(HeldReset { next, is_exact, has_data, is_awaited })
    }

    /// Decides about a held RST by the next `segment`, which `side` sends, before it is processed.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_reset(&mut self, side: Side, segment: &Segment) {
        let ending = self.ending();
        let (Some(reset), Some(held)) = (ending.reset, ending.held) else { return };
        let is_reset = segment.flags.has(TcpFlags::RST);
        if side == reset.from && !is_reset && (held.has_data || !held.is_exact) {
            // Its receiver has not yet shown whether it still takes part.
            return;
        }
        if side != reset.from && !is_reset && self.ignores(&reset, &held, segment) {
            let ending = self.ending_mut();
            (ending.reset, ending.last_data, ending.over_ns) = (None, None, None);
            (ending.reset_ttls, ending.forgotten, ending.unknown) = ([0; 2], false, false);
            ending.held = None;
            self.cold_mut().ignored_resets += 1;
            return;
        }
        self.settle_last_reset();
    }

    /// Returns whether `segment`, which the receiver of a RST sends, shows that it did not accept the
    /// RST: it acknowledges what came after it, or answers it with an ACK (RFC 5961 §3.2), or comes
    /// so late that the RST must have arrived.
    fn ignores(&self, reset: &Sighting, held: &HeldReset, segment: &Segment) -> bool {
        let sender = &self.senders[reset.from as usize];
        let acked = sender.space.position_of(segment.ack);
        let covers = acked > held.next && acked > sender.space.una_seen();
        let challenges = !held.is_exact && is_pure_ack(segment) && acked == sender.space.una_seen();
        let receiver = reset.from.peer();
        let is_late = self.path.has_sample(receiver)
            && segment.payload_len > 0
            && segment.time_ns > reset.time_ns + self.path.rtt_ns(receiver) + RTO_MIN_NS;
        segment.flags.has(TcpFlags::ACK) && (covers || challenges) || is_late
    }

    /// Ends the exchange in progress by the RST that is held, if there is one: nothing has shown
    /// that its receiver ignored it.
    pub(super) fn settle_last_reset(&mut self) {
        let Some(held) = self.ended().and_then(|ending| ending.held) else { return };
        self.ending_mut().held = None;
        if held.is_awaited {
            self.end_by_reset();
        }
    }

    /// Returns whether a RST is held.
    #[inline]
    pub(super) fn holds_reset(&self) -> bool {
        self.ended().is_some_and(|ending| ending.held.is_some())
    }

    /// Ends the exchange in progress by the RST.
    fn end_by_reset(&mut self) {
        let Some(reset) = self.ending().reset else { return };
        let side = reset.from;
        self.resume();
        if side == Side::Client {
            self.drop_unanswered_last_message(reset.time_ns);
        }
        if side == Side::Server && self.has_left(reset.time_ns) && self.waits_for_answer() {
            // The client gave up with its FIN, which the server's host knew: its RST ends nothing more.
            return;
        }
        if self.timeline.front().is_some() {
            self.apply_pending_acks(reset.time_ns);
            let has_fin = self.ending().fin_ns.iter().any(Option::is_some);
            // A client that has all data of a server that may send no more loses nothing by its
            // RST.
            let server = &self.senders[Side::Server as usize];
            let has_all = side == Side::Client && server.space.una_seen() >= server.space.nxt;
            let closed = has_all && self.ending().fin_ns[Side::Server as usize].is_some();
            let may_be_over = self.timeline.may_be_over() || self.timeline.is_ready();
            // If a client is reset during an upload, it may lose the response, because its host
            // discards it (RFC 9112 §9.6).
            let cut = side == Side::Server && self.timeline.all_answered() && self.owes_request();
            let over =
                !cut && (closed || may_be_over && (has_fin || has_all || !self.unfinished()));
            if cut {
                self.timeline.reopen_response();
            }
            let unacknowledged = side == Side::Client && self.unacknowledged_request().is_some();
            let outcome = match () {
                () if self.lacks_answers() => Outcome::Unseen,
                () if over => Outcome::Answered,
                () if unacknowledged => Outcome::Unacknowledged,
                () => Outcome::Reset { by: side },
            };
            if unacknowledged {
                self.accrue_unacknowledged();
            } else if !over && !self.server_closed_early {
                // A side that had closed no longer waits.
                let left =
                    self.gave_up_ns(Side::Server, self.senders[Side::Server as usize].space.nxt);
                let left = left.filter(|_| side == Side::Client);
                // A client that gives up has waited for its server until then.
                let waited = side == Side::Client
                    && (self.waits_for_answer() || self.waits_for_repair(reset.time_ns));
                let waited_for = if waited { Side::Server } else { side };
                self.accrue_to(waited_for, left.unwrap_or(reset.time_ns), reset);
            }
            let position = self.senders[Side::Server as usize].space.nxt;
            let rtt_client_ns = self.path.known_rtt_ns(Side::Client);
            self.timeline.settle_pauses(self.first_close_ns(), rtt_client_ns, position);
            self.timeline.close(self.last_leg_ns(), outcome);
        }
    }

    /// Returns whether the server's host had received the client's FIN when it sent a packet that passes
    /// at `now_ns`.
    fn has_left(&self, now_ns: u64) -> bool {
        let left_ns = self.ending().fin_ns[Side::Client as usize];
        left_ns.is_some_and(|left_ns| left_ns + self.path.rtt_ns(Side::Server) < now_ns)
    }

    /// Returns whether the client has sent its whole request, the response is incomplete, and no
    /// data is in flight.
    fn waits_for_answer(&mut self) -> bool {
        let owed = self.owes(Side::Server);
        let asked = self.timeline.front().is_some_and(|exchange| {
            let unanswered = exchange.request_seen && !exchange.response_seen;
            unanswered || owed || self.awaits_server_hello(exchange)
        });
        let asks = self.owes_request() || self.owes(Side::Client);
        asked && !asks && !self.unfinished() && !self.is_one_way()
    }

    /// Returns whether the client, which gives up at `now_ns`, has waited for data of a response that
    /// was lost before the vantage, for longer than any timer takes at first (RFC 6298 §2.1).
    fn waits_for_repair(&self, now_ns: u64) -> bool {
        let server = &self.senders[Side::Server as usize];
        let front = self.timeline.front();
        let is_begun = front.is_some_and(|it| it.response_seen || it.in_handshake);
        is_begun
            && server.history().holes.are_awaited_at(server.space.una_seen())
            && now_ns >= server.last.time_ns + RTO_INITIAL_NS
    }

    /// Returns whether the client waits for a part of the server's flight that was lost before the
    /// vantage.
    pub(super) fn awaits_repair_of_handshake(&self, exchange: &Exchange) -> bool {
        let server = &self.senders[Side::Server as usize];
        exchange.in_handshake && server.history().holes.are_awaited_at(server.space.una_seen())
    }

    /// Returns the last data that either side has sent, other than in `frame`.
    pub fn last_data(&self, frame: FrameId) -> Option<Sighting> {
        let seen = Side::ALL.into_iter().filter_map(|side| {
            let last = self.senders[side as usize].last;
            Sighting {
                frame: last.frame,
                time_ns: last.time_ns,
                payload_bytes: last.len,
                from: side,
            }
            .known()
        });
        seen.filter(|it| it.frame != frame).max_by_key(|it| (it.time_ns, it.from as usize))
    }
}
