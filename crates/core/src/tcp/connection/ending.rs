//! The end of a connection, and the decisions that are possible only then.

use crate::app::{Protocol, Side};
use crate::judge::thresholds::RTO_MIN_NS;
use crate::model::{Cause, Class, Family, Outcome, Owner, Sighting};
use crate::tcp::connection::Connection;
use crate::tcp::connection::resets::HeldReset;
use crate::tcp::exchange::{Chain, Change, Exchange, Opening};
use crate::tcp::owed::Debt;
use crate::tcp::pipe::transmission_ns;
use crate::tcp::row::Link;
use crate::tcp::sender::{Sender, SinceDeparture, burst_opened_by};
use crate::tcp::sequence::ORIGIN;
use crate::tcp::shared::Shared;
use crate::tcp::thresholds::STREAM_PAUSE_MIN_NS;
use crate::tcp::tracker::Sink;
use crate::wire::Segment;

/// How a connection ended so far: its FINs, a RST or an ICMP error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending {
    /// The RST or ICMP error that ended the connection.
    pub reset: Option<Sighting>,
    /// TTL of the RST, and of its sender's other packets (0 if there were none).
    pub reset_ttls: [u8; 2],
    /// The client closed, and the server, which had not closed, answered with a RST without ACK: it
    /// no longer knows the connection (RFC 9293 §3.10.7.1).
    pub forgotten: bool,
    /// Time of each side's FIN, ns.
    pub fin_ns: [Option<u64>; 2],
    /// The RST has no ACK: its sender does not know the connection (RFC 9293 §3.10.7.1).
    pub unknown: bool,
    /// Time after which nothing more was expected, ns.
    pub over_ns: Option<u64>,
    /// The frames of the FINs.
    pub fin: [Option<Sighting>; 2],
    /// Position up to which the first FIN of each side acknowledges its peer's data.
    pub fin_acks: [u64; 2],
    /// The last data of either side before the RST.
    pub last_data: Option<Sighting>,
    /// The RST, as long as later segments may show that it ended nothing.
    pub(super) held: Option<HeldReset>,
}

impl Connection {
    /// Time on the leg to the client that was not seen, ns. It is shorter if the server's FIN
    /// passed before the request, since the FIN was on its way by then.
    pub(super) fn last_leg_ns(&self) -> u64 {
        let rtt_ns = self.path.known_rtt_ns(Side::Client);
        let fin_ns = self.ending().fin_ns[Side::Server as usize];
        match (fin_ns, self.timeline.front()) {
            (Some(fin_ns), Some(exchange)) if fin_ns < exchange.start_ns => {
                rtt_ns.saturating_sub(exchange.start_ns - fin_ns)
            }
            _ => rtt_ns,
        }
    }

    /// Time at which either side first ended the connection, ns.
    pub(super) fn first_close_ns(&self) -> Option<u64> {
        let reset_ns = self.ending().reset.map(|reset| reset.time_ns);
        self.ending().fin_ns.into_iter().chain([reset_ns]).flatten().min()
    }

    /// Processes the server's FIN while a request waits: it shows the client that no response
    /// comes, or that the data received was the whole response (RFC 9112 §6.3).
    pub(super) fn take_server_fin(&mut self, segment: &Segment) {
        if let Some(left_ns) = self.ending().fin_ns[Side::Client as usize] {
            self.drop_unanswered_last_message(left_ns);
        }
        self.drop_message_before_fin(segment.time_ns);
        let ends = self.ends_response(segment);
        let waiting = self.timeline.front().is_some_and(|exchange| {
            let waits = ends || !exchange.response_seen;
            let asked = exchange.request_seen || self.awaits_server_hello(exchange);
            asked && waits && !exchange.is_complete()
        });
        let closed_ns = self.ending().fin_ns[Side::Client as usize];
        if waiting && closed_ns.is_some_and(|at_ns| self.answers_fin_only(at_ns, segment.time_ns)) {
            self.timeline.expect_nothing();
        }
        let waiting = waiting && self.timeline.front().is_some_and(Exchange::asks);
        if waiting && (closed_ns.is_none() || self.debt_at_end() == Debt::Response) {
            self.resume();
            // A client that had closed no longer waits, unless a response is on its way.
            let comes = self.senders[Side::Server as usize].history().holes.bytes() > 0;
            let left = self.ending().fin[Side::Client as usize].filter(|_| !comes);
            let end = left.unwrap_or(Sighting::of(Side::Server, segment));
            self.accrue_to(self.waited_for(), end.time_ns, end);
            self.server_closed_early = true;
        }
    }

    /// Returns whether the server's FIN at `fin_ns` answers only the client's FIN at `closed_ns`.
    /// It comes at once, so that the server was not working on the client's last message; the
    /// server had acknowledged that message and waited for more. In an unreadable protocol, on a
    /// connection on which other messages were answered, that message was a command without a
    /// reply.
    fn answers_fin_only(&self, closed_ns: u64, fin_ns: u64) -> bool {
        let client = &self.senders[Side::Client as usize];
        let rtt_ns = self.path.rtt_ns(Side::Server);
        let was_received = closed_ns > client.last.time_ns + rtt_ns + STREAM_PAUSE_MIN_NS;
        self.framer.protocol() == Protocol::Turns
            && self.totals.exchanges > 0
            && was_received
            && client.space.una_seen() >= client.space.nxt
            && fin_ns.saturating_sub(closed_ns) < rtt_ns + STREAM_PAUSE_MIN_NS
    }

    /// Returns whether the server's FIN in `segment`, its first and after all of its data, ends the
    /// response for which the client still waits.
    fn ends_response(&self, segment: &Segment) -> bool {
        let [client_ns, server_ns] = self.ending().fin_ns;
        let server = &self.senders[Side::Server as usize];
        client_ns.is_none()
            && server_ns == Some(segment.time_ns)
            && server.space.fin() == Some(server.space.nxt)
            && server.history().holes.bytes() == 0
            && self.framer.ends_with_connection()
    }

    /// Drops the exchange of the client's last message if the client has closed without waiting for
    /// a response.
    pub(super) fn drop_unanswered_last_message(&mut self, left_ns: u64) {
        self.timeline.drop_unanswered_last_message(left_ns, self.path.base_rtt_ns());
    }

    /// Drops the exchange of a message that the server sent just before it closed an idle
    /// connection: the message is no response.
    fn drop_message_before_fin(&mut self, fin_ns: u64) {
        let [client, server] = &self.senders;
        let idle_ns = fin_ns.saturating_sub(client.last.time_ns + self.path.base_rtt_ns());
        // Directly after a response, the server may end the connection at any time.
        let at_once = server.last.time_ns < client.last.time_ns
            || fin_ns.saturating_sub(server.last.time_ns) < STREAM_PAUSE_MIN_NS;
        if self.framer.protocol() == Protocol::Tls && idle_ns >= STREAM_PAUSE_MIN_NS && at_once {
            let (last_bytes, positions) = (client.last.len, [client.space.nxt, server.space.nxt]);
            self.timeline.drop_message_before_fin(last_bytes.into(), positions);
        }
    }

    /// Returns whether nothing was ever answered on this connection, and the client did not wait
    /// for a response.
    pub(super) fn is_one_way(&mut self) -> bool {
        !self.has_exchanged() && self.timeline.is_one_way()
    }

    /// Time at which the client closed, if data of `sender` up to `end` had not reached it, ns.
    /// Nothing waits for a retransmission after that.
    pub(super) fn gave_up_ns(&self, sender: Side, end: u64) -> Option<u64> {
        let closed_ns = self.ending().fin_ns[Side::Client as usize];
        let arrived = self.senders[sender as usize].space.una_seen() >= end;
        closed_ns.filter(|_| sender == Side::Server && !arrived)
    }

    /// Returns whether data is unacknowledged or has to wait for a window.
    pub(super) fn unfinished(&self) -> bool {
        let unacked = |sender: &Sender| {
            sender.space.una_seen() < sender.space.nxt.min(sender.space.fin().unwrap_or(u64::MAX))
        };
        let was_closed = |sender: &Sender| {
            sender.history().window.is_closed() || sender.since.was_window_closed()
        };
        self.senders.iter().any(|sender| unacked(sender) || was_closed(sender))
    }

    /// Applies the ACKs that have reached their senders by `now_ns`, if these ACKs may have closed
    /// a window.
    pub(super) fn apply_pending_acks(&mut self, now_ns: u64) {
        for side in Side::ALL {
            let rtts_ns = (self.path.rtt_ns(side), self.path.rtt_ns(side.peer()));
            let sender = &mut self.senders[side as usize];
            if sender.history().window.zero_advertisements == 0 {
                continue;
            }
            let mut since = SinceDeparture::default();
            sender.since.take(&mut since);
            sender.advance(&mut since, now_ns, rtts_ns, None);
            sender.since.store(since);
        }
    }

    /// Reports finished exchanges, unless they may be reopened.
    pub(super) fn report_finished(&mut self, shared: &mut Shared, sink: &mut impl Sink) {
        let is_held = self.timeline.is_interrupted() || self.awaits_queue();
        if self.timeline.done.is_empty() || is_held {
            return;
        }
        self.senders.iter_mut().for_each(Sender::shrink);
        while let Some(exchange) = self.timeline.done.pop_front() {
            self.report_exchange(exchange, shared, sink);
        }
        self.timeline.shrink();
    }

    /// Completes one finished exchange and reports it, unless it is held back or not in the report.
    #[inline]
    pub(super) fn report_exchange(
        &mut self,
        mut exchange: Box<Exchange>,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) {
        let revised = |chain: &Chain| Cause::REVISED & 1 << chain.cause as u64 != 0;
        let is_revised =
            exchange.connects && self.setup.is_troubled() || exchange.repeated_setup_ns > 0;
        if is_revised || exchange.chains.iter().any(revised) {
            self.settle(&mut exchange);
        }
        self.settle_relay(&mut exchange);
        if exchange.causes() & 1 << Cause::SlowStart as u64 != 0 {
            Side::ALL.into_iter().for_each(|side| self.settle_rate(side, &mut exchange));
        }
        Side::ALL.into_iter().for_each(|side| self.count_repairs(side, &mut exchange));
        let in_window = shared.window.overlaps(exchange.start_ns, exchange.end_ns);
        if !in_window || self.is_copy() {
            return;
        }
        if !exchange.counts() && !self.is_failed_handshake(&exchange) {
            let awaits = exchange.is_awaiting() || self.awaits_server_hello(&exchange);
            if exchange.outcome == Outcome::Open && awaits {
                sink.unanswered(self, &exchange);
            }
            if exchange.outcome == Outcome::Unclear {
                sink.unclear(self, &exchange);
            }
            return;
        }
        if self.mid_stream {
            let Some(other) = self.keep_back(exchange, shared, sink) else { return };
            exchange = other;
            self.accuse_neither(&mut exchange);
        }
        self.count(&exchange, sink);
    }

    /// Counts a finished exchange and passes it to the sink.
    pub(super) fn count(&mut self, exchange: &Exchange, sink: &mut impl Sink) {
        self.totals.exchanges += 1;
        if let Some(code) = exchange.outcome.error() {
            let counted = if code.is_challenge() { Side::Client } else { Side::Server };
            self.totals.causes[counted as usize] |= 1 << Cause::ErrorResponses as u64;
        }
        self.totals.ledger.merge(&exchange.ledger);
        for chain in &exchange.chains {
            let is_fault = chain.cause.class() == Class::Fault;
            let lost_ns = if is_fault { chain.ns } else { 0 };
            self.totals.lost_ns = self.totals.lost_ns.saturating_add(lost_ns);
            self.totals.causes[chain.sender as usize] |= 1 << chain.cause as u64;
            let held = [Cause::NagleDelayedAck, Cause::SendBuffer, Cause::DelayedAck];
            if held.contains(&chain.cause) {
                self.senders[chain.sender as usize].history_mut().nagle.held.add(chain);
            }
        }
        let row = self.totals.row().with(Link {
            asked_ns: exchange.first.time_ns,
            ended_ns: exchange.end_ns,
            path_ns: exchange.ledger.of(Owner::Path),
            round_trip_ns: self.path.base_rtt_ns(),
            rtt_client_ns: self.path.known_rtt_ns(Side::Client),
        });
        self.totals.set_row(row);
        sink.exchange(self, exchange);
    }

    /// Adds to the losses of `side` in `exchange` the number of segments, and the time that the
    /// bytes of `side` take in any case.
    fn count_repairs(&mut self, side: Side, exchange: &mut Exchange) {
        let sender = &mut self.senders[side as usize];
        if !sender.is_troubled() {
            return;
        }
        let began = exchange.began_at[side as usize];
        let bytes = sender.space.nxt.saturating_sub(began.max(ORIGIN));
        let rate = sender.bulk.as_ref().and_then(|bulk| bulk.pipe.last_rate());
        let least_ns = rate.map_or(0, |rate| transmission_ns(bytes, rate));
        let segments = sender.history_mut().counts.take_fast();
        let dsacks = sender.history_mut().counts.take_dsacks();
        for chain in exchange.chains.iter_mut().filter(|chain| chain.sender == side) {
            if chain.cause.family() == Family::Loss {
                chain.least_ns = least_ns;
            }
            if chain.cause == Cause::FastRecovery {
                chain.segments = u32::try_from(segments).unwrap_or(u32::MAX);
            }
            if chain.cause == Cause::SpuriousRetransmission {
                chain.segments = dsacks;
            }
        }
    }

    /// Applies [`Exchange::attribute_to_rate`]: the path rate of a short transfer is known only
    /// from its last ACKs.
    fn settle_rate(&mut self, side: Side, exchange: &mut Exchange) {
        let sender = &mut self.senders[side as usize];
        let bytes = exchange.sent_bytes(side, sender.space.nxt);
        sender.bulk.iter_mut().for_each(|bulk| _ = bulk.pipe.rate());
        exchange.attribute_to_rate(side, &self.opening(side, exchange, bytes));
    }

    /// Makes the decisions that are possible only at the end of an exchange.
    pub(super) fn settle(&mut self, exchange: &mut Exchange) {
        if exchange.connects && self.setup.ignored_ack(&self.path) {
            let from = (Owner::RetransmissionTimeout, Cause::RetransmissionTimeout);
            let to = (Owner::Connect, Cause::AcceptQueueOverflow);
            exchange.revise(&Change::Moved { from, to });
        }
        let one_way = self.senders.iter().any(|sender| !sender.volume.has_packets());
        let timed_out_ns: u64 = Side::ALL.map(|side| exchange.timed_out_ns(side)).iter().sum();
        // A listener with a full queue may have ignored the first data of a connection, so that it
        // was not lost.
        let is_first = exchange.began_at[Side::Client as usize] <= ORIGIN + 1;
        let proven = self.senders.iter().any(|it| it.history().losses.repeating.doubles)
            && timed_out_ns >= RTO_MIN_NS
            && (self.mid_stream || !is_first);
        if one_way && !proven {
            // The capture does not show whether the timer or the other side caused the
            // retransmission, nor whether anything waited.
            let from = (Owner::RetransmissionTimeout, Cause::RetransmissionTimeout);
            exchange.revise(&Change::Unknown { from });
        }
        if exchange.causes() & Cause::REVISED != 0 {
            Side::ALL.into_iter().for_each(|side| self.name_losses(side, exchange));
        }
        if exchange.repeated_setup_ns > 0 {
            self.settle_set_up(exchange);
        }
        if exchange.causes() & 1 << Cause::ZeroWindow as u64 != 0 {
            Side::ALL.into_iter().for_each(|side| self.attribute_to_reader(side, exchange));
        }
        if exchange.causes() & Cause::REVISED == 0 {
            return;
        }
        for side in Side::ALL {
            if self.nagle(side).is_refuted() {
                exchange.revise(&Change::NoNagle { sender: side });
            }
            self.refute_ceiling(side, exchange);
            self.subtract_opening(side, exchange);
        }
    }

    /// Attributes small windows to a slow reader that closes its window again and again.
    fn attribute_to_reader(&self, side: Side, exchange: &mut Exchange) {
        if self.senders[side as usize].history().window.is_read_slowly() {
            exchange.revise(&Change::Reader { sender: side });
        }
    }

    /// Removes spurious retransmissions from the cost of the set-up, and sets the cause of the
    /// rest.
    fn settle_set_up(&self, exchange: &mut Exchange) {
        let again_ns = exchange.repeated_setup_ns;
        let needed_ns = self.setup.repeated_ns(&self.path).min(again_ns);
        exchange.ledger.transfer(Owner::SynRetransmit, Owner::Connect, again_ns - needed_ns);
        exchange.repeated_setup_ns = needed_ns;
        if self.setup.refused && self.icmp_report().is_some_and(|report| report.about_syn) {
            // The errors are the cause of the whole attempt.
            return;
        }
        let cause = self.setup.cause(&self.path);
        if cause == Cause::AcceptQueueOverflow {
            exchange.ledger.transfer(Owner::SynRetransmit, Owner::Connect, needed_ns);
        }
        if needed_ns > 0 {
            exchange.set_up_cost(cause, self.setup.frames().syn.unwrap_or_default());
        }
    }

    /// Sets the common cause of repeated losses of one direction. The small window after a loss is
    /// attributed to the loss as well.
    pub(super) fn name_losses(&mut self, side: Side, exchange: &mut Exchange) {
        let of_loss = |cause: Cause| cause.family() == Family::Loss;
        let most = exchange
            .chains
            .iter()
            .filter(|chain| chain.sender == side && of_loss(chain.cause))
            .max_by_key(|chain| chain.ns)
            .map(|chain| chain.cause);
        let sender = &mut self.senders[side as usize];
        if most.is_some() {
            sender.history_mut().losses.cause = most;
        }
        if let Some(cause) = sender.history().losses.cause {
            exchange.revise(&Change::Renamed {
                sender: side,
                from: Cause::CongestionWindow,
                to: cause,
            });
        }
        // If the other side was not seen, nothing shows that smaller segments arrive.
        let answered = self.senders[side.peer() as usize].volume.has_packets();
        let sender = &self.senders[side as usize];
        // The segments of a handshake are small ones that arrived.
        let small_ones_pass = !self.mid_stream || sender.sizes.acked_max() > 0;
        if answered && small_ones_pass && sender.has_mtu_black_hole() {
            exchange.revise(&Change::Renamed {
                sender: side,
                from: Cause::RetransmissionTimeout,
                to: Cause::MtuBlackHole,
            });
        }
        let history = sender.history();
        if history.are_mostly_spurious() {
            let cause = if history.has_reordering() {
                Cause::Reordering
            } else {
                Cause::SpuriousRetransmission
            };
            exchange.revise(&Change::Renamed {
                sender: side,
                from: Cause::FastRecovery,
                to: cause,
            });
            exchange.revise(&Change::Renamed {
                sender: side,
                from: Cause::RetransmissionTimeout,
                to: cause,
            });
        }
    }

    /// Applies [`Exchange::subtract_opening`]. Data of earlier exchanges has opened the window too.
    pub(super) fn subtract_opening(&self, side: Side, exchange: &mut Exchange) {
        let began = exchange.began_at[side as usize];
        let bytes = self.senders[side as usize].space.nxt.saturating_sub(began);
        exchange.subtract_opening(side, &self.opening(side, exchange, bytes));
    }

    /// Returns the data that `side` had to send in `exchange`, and its window before that.
    fn opening(&self, side: Side, exchange: &Exchange, bytes: u64) -> Opening {
        let sender = &self.senders[side as usize];
        let began = exchange.began_at[side as usize];
        Opening {
            bytes,
            window: burst_opened_by(
                sender.sizes.smss(),
                began.saturating_sub(ORIGIN),
                bytes,
                sender.bulk.as_deref(),
            ),
            rtt_ns: self.path.base_rtt_ns(),
            rate: sender.bulk.as_ref().and_then(|bulk| bulk.pipe.last_rate()),
            paced: sender.bulk.as_ref().is_some_and(|bulk| bulk.pacer.is_pacing()),
        }
    }

    /// Returns the side that has to go on: a server waits for the rest of a request that was announced.
    fn waited_for(&self) -> Side {
        if self.owes_request() { Side::Client } else { Side::Server }
    }

    /// Ends the exchange in progress at the end of the connection or capture, and reports the
    /// connection.
    pub fn finish(&mut self, shared: &mut Shared, sink: &mut impl Sink) {
        self.leave_fast_path(shared);
        self.settle_last_reset();
        self.discard_early_bytes(shared);
        if let Some(cold) = &mut self.cold {
            cold.queued = None;
        }
        self.resume_last();
        let rtt_client_ns = self.path.known_rtt_ns(Side::Client);
        if let Some(left_ns) = self.ending().fin_ns[Side::Client as usize] {
            self.drop_unanswered_last_message(left_ns);
        }
        if self.timeline.front().is_some() {
            self.apply_pending_acks(self.last.time_ns);
            let waiting = Side::ALL
                .into_iter()
                .find(|&side| self.senders[side as usize].history().window.is_closed());
            if let Some(side) = waiting {
                self.accrue_to(side, self.last.time_ns, self.last);
            }
            // A client that closes has waited until then.
            let server = &self.senders[Side::Server as usize];
            let cut_short = server.history().losses.is_repairing(server.space.una());
            let debt = self.debt_at_end();
            let unanswered = debt == Debt::Response
                && self.timeline.front().is_some_and(|exchange| {
                    cut_short
                        || exchange.request_seen && !exchange.response_seen
                        || self.awaits_repair_of_handshake(exchange)
                        || self.awaits_server_hello(exchange)
                });
            let is_stuck = self.unacknowledged_request().is_some();
            let fin = self.ending().fin[Side::Client as usize];
            if let Some(fin) = fin.filter(|_| (unanswered || self.has_stopped()) && !is_stuck) {
                self.accrue_to(self.waited_for(), fin.time_ns, fin);
            }
            let server_fin = self.ending().fin[Side::Server as usize];
            let begun = self.timeline.front().is_some_and(|exchange| exchange.response_seen);
            let cut_off = begun && self.announces_end();
            if let Some(fin) = server_fin.filter(|_| cut_off) {
                // The response ends before its announced end; the client learns that now.
                self.timeline.end_early(fin);
            }
            self.accrue_unacknowledged();
            let outcome = self.outcome(debt);
            self.left_unanswered = unanswered
                && !cut_short
                && self.timeline.front().is_some_and(|exchange| exchange.request_seen)
                && self.ending().fin[Side::Client as usize].is_none()
                && self.senders[Side::Server as usize].space.started()
                && outcome == Outcome::Open;
            let position = self.senders[Side::Server as usize].space.nxt;
            self.timeline.settle_pauses(self.first_close_ns(), rtt_client_ns, position);
            self.timeline.close(rtt_client_ns, outcome);
        }
        self.settle_icmp_refusal();
        self.add_attempt(rtt_client_ns);
        self.report_finished(shared, sink);
        self.count_kept(shared, sink);
        let is_counted = !self.is_copy() || self.totals.exchanges > 0;
        if shared.window.overlaps(self.first_ns, self.last.time_ns) && is_counted {
            sink.connection(self);
        } else {
            sink.uncounted(self);
        }
    }

    /// Returns whether the server has begun a response and not reached its announced end, though it has
    /// not closed: its client waits for the rest.
    fn has_stopped(&self) -> bool {
        let has_begun = self.timeline.front().is_some_and(|it| it.request_seen && it.response_seen);
        let server_fin = self.ending().fin_ns[Side::Server as usize];
        has_begun && self.owes(Side::Server) && server_fin.is_none()
    }

    /// Creates an exchange for a connection attempt that failed or had to be repeated.
    pub(super) fn add_attempt(&mut self, rtt_client_ns: u64) {
        let setup = &self.setup;
        // A client that waits for a response repeats its SYN. If there is a single SYN, from the
        // client's own or a forged address, nothing waits.
        let repeated = setup.syns > 1
            || setup.syn_acks > 1
                && setup.is_established()
                && !setup.has_late_client(rtt_client_ns);
        let troubled = setup.refused || repeated;
        let syn = setup.frames().syn.filter(|_| !setup.claimed && troubled);
        let Some(syn) = syn.filter(|_| !self.sends_probes()) else { return };
        let end_ns = match (setup.refused, setup.established_ns()) {
            (_, Some(established_ns)) => established_ns,
            (true, None) => self.ending().reset.map_or(self.last.time_ns, |reset| reset.time_ns),
            // A client that neither answers the SYN-ACK nor repeats its SYN waits for nothing.
            (false, None) => {
                let answered_ns = setup.syn_last_ns().max(setup.syn_ack_first_ns().unwrap_or(0));
                setup.unheard_until_ns().map_or(answered_ns, |until_ns| answered_ns.max(until_ns))
            }
        };
        let mut exchange = Exchange {
            kind: "connect".into(),
            start_ns: syn.time_ns,
            end_ns,
            first: syn,
            last: syn,
            connects: true,
            request_seen: true,
            ..Exchange::default()
        };
        exchange.outcome = match (setup.refused, setup.established_ns()) {
            (true, _) => Outcome::Reset { by: Side::Server },
            (_, Some(_)) => Outcome::Answered,
            _ => Outcome::Unacknowledged,
        };
        (exchange.repeated_setup_ns, _) = setup.split(end_ns, 0, &mut exchange.ledger);
        exchange.ledger.add(Owner::Path, rtt_client_ns);
        self.setup.claimed = true;
        self.timeline.done.push_back(Box::new(exchange));
    }
}
