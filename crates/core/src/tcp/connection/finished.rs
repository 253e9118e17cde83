//! What is done at the end of an exchange: its last revisions, and its report.

use crate::judge::thresholds::{APPLICATION_TIMEOUT_MIN_NS, RTO_MIN_NS};
use crate::model::{Cause, CauseSet, Class, Family, Outcome, Owner, Slice};
use crate::tcp::connection::Connection;
use crate::tcp::connection::ceiling_rounds::refute_ceiling;
use crate::tcp::connection::cold::Cold;
use crate::tcp::connection::gap::nagle_evidence;
use crate::tcp::connection::questions::Questions;
use crate::tcp::connection::relayed::settle_relay;
use crate::tcp::exchange::{Chain, Change, Concerned, Exchange, Opening};
use crate::tcp::path::Path;
use crate::tcp::pause::ServerPattern;
use crate::tcp::pipe::transmission_ns;
use crate::tcp::row::{Link, Row};
use crate::tcp::sender::{Sender, burst_opened_by};
use crate::tcp::sequence::ORIGIN;
use crate::tcp::setup::Setup;
use crate::tcp::shared::Shared;
use crate::tcp::sink::Sink;
use crate::tcp::thresholds::STREAM_PAUSE_MIN_NS;
use crate::wire::Side;

/// What the revisions at the end of an exchange may use of its connection.
struct Finished<'a> {
    senders: &'a mut [Sender; 2],
    setup: &'a Setup,
    path: &'a Path,
    cold: &'a mut Cold,
    /// The capture does not contain the beginning of the connection.
    mid_stream: bool,
    /// ACKs without data were sent and none of them was captured.
    lacks_acks: bool,
    /// The pattern in which the server has sent, if the content does not show which messages are
    /// requests.
    pattern: Option<ServerPattern>,
    /// The protocol is SSH.
    is_ssh: bool,
}

/// The exchanges that a revision concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// Those with a cause that later evidence may replace, or with trouble in the set-up.
    Revised,
}

/// A revision at the end of an exchange.
type Revise = fn(&mut Finished<'_>, &mut Exchange);

/// The revisions, in the order in which they are made, with what each decides.
///
/// Whether anything was lost is decided first, since a full listen queue and a one-way capture look
/// like losses. Then losses get their common cause, which takes the small window after them, unless
/// nobody was there to receive what was sent again. The
/// set-up and a slow reader claim their time next. The limits of each sender come after these: what is
/// left of them was the sender's own. The way behind a proxy and the rate of the path concern the time
/// that no fault took. Losses are counted last, under their final names.
const AT_EXCHANGE_END: &[(&str, Scope, Revise)] = &[
    (
        "the listener ignored the client's ACK, and nothing was lost",
        Scope::Revised,
        name_ignored_ack,
    ),
    ("one direction shows a loss only if its timer doubles", Scope::Revised, doubt_one_way),
    ("without ACKs nothing shows that fast repairs were needed", Scope::Revised, doubt_fast),
    (
        "data that the capture lacks has come before the end of a pause",
        Scope::All,
        doubt_before_missing,
    ),
    ("a loss that nobody saw took no longer than its timer", Scope::Revised, shorten_unseen),
    ("no answer was due, or nobody waited, as far as the content shows", Scope::All, doubt_waits),
    (
        "a receiver that had closed its window did not take the rest of it",
        Scope::Revised,
        name_unread,
    ),
    ("losses of one direction have a common cause", Scope::Revised, name_losses),
    ("the set-up was repeated for a cause, or needlessly", Scope::Revised, settle_set_up),
    ("small windows belong to a slow reader", Scope::Revised, attribute_to_reader),
    (
        "Nagle's algorithm, a buffer or a congestion window limited the sender",
        Scope::Revised,
        settle_limits,
    ),
    ("a proxy acknowledges for a server behind it", Scope::All, settle_way_behind_proxy),
    ("the last ACKs of a short transfer show the rate of the path", Scope::All, settle_rate),
    (
        "the number of segments of a repair, and the least time of their bytes",
        Scope::All,
        count_repairs,
    ),
];

/// Makes the decisions that are possible only at the end of `exchange`.
#[inline]
fn settle(exchange: &mut Exchange, mut finished: Finished<'_>) {
    let revised = |chain: &Chain| CauseSet::REVISED.contains(chain.cause);
    let is_revised =
        exchange.connects && finished.setup.is_troubled() || exchange.repeated_setup_ns > 0;
    let is_revised = is_revised || exchange.chains.iter().any(revised);
    for (_, scope, revise) in AT_EXCHANGE_END {
        if is_revised || *scope == Scope::All {
            revise(&mut finished, exchange);
        }
    }
}

fn has_cause(exchange: &Exchange, cause: Cause) -> bool {
    exchange.causes().contains(cause)
}

/// Attributes a retransmission of the first data to a full queue of the listener, which ignored the
/// ACK before it.
fn name_ignored_ack(it: &mut Finished<'_>, exchange: &mut Exchange) {
    if exchange.connects && it.setup.ignored_ack(it.path) {
        let from = (Owner::RetransmissionTimeout, Cause::RetransmissionTimeout);
        let to = (Owner::Connect, Cause::AcceptQueueOverflow);
        exchange.revise(&Change::Moved { from, to });
    }
}

/// Attributes retransmissions to no owner if one direction, or its ACKs, were not captured: the capture
/// does not show whether the timer or the other side caused them, nor whether anything waited. A timer that
/// doubles again and again shows itself, and that no ACK came (RFC 6298 §5.5).
fn doubt_one_way(it: &mut Finished<'_>, exchange: &mut Exchange) {
    let one_way = it.lacks_acks || it.senders.iter().any(|sender| !sender.volume.has_packets());
    let timed_out_ns: u64 = Side::ALL.map(|side| exchange.timed_out_ns(side)).iter().sum();
    // A listener with a full queue may have ignored the first data of a connection, so that it
    // was not lost.
    let is_first = exchange.began_at[Side::Client] <= ORIGIN + 1;
    let proven = it.senders.iter().any(|it| it.history().losses.repeating.backs_off)
        && timed_out_ns >= RTO_MIN_NS
        && (it.mid_stream || !is_first);
    if one_way && !proven {
        let from = (Owner::RetransmissionTimeout, Cause::RetransmissionTimeout);
        exchange.revise(&Change::Unknown { from });
    }
}

/// Attributes repeats of the data that a receiver's last, narrow window took to that receiver: it had closed
/// the window and answers none of them. Probes of a closed window may keep their distance (RFC 9293
/// §3.8.6.1); a retransmission timer doubles its own each time (RFC 6298 §5.5).
fn name_unread(it: &mut Finished<'_>, exchange: &mut Exchange) {
    let is_of_window = |chain: &Chain| {
        let sender = &it.senders[chain.sender as usize];
        let (history, space) = (sender.history(), &sender.space);
        let is_used_up = history.window.is_closed() && space.room() == Some(0);
        let repeating = &history.losses.repeating;
        is_used_up && space.una_seen() < space.nxt && repeating.is_even && !repeating.doubles
    };
    let is_loss = |chain: &Chain| chain.cause == Cause::RetransmissionTimeout;
    let mut losses = exchange.chains.iter().filter(|it| is_loss(it)).peekable();
    if losses.peek().is_some() && losses.all(is_of_window) {
        let from = (Owner::RetransmissionTimeout, Cause::RetransmissionTimeout);
        exchange.revise(&Change::Moved { from, to: (Owner::ZeroWindow, Cause::ZeroWindow) });
    }
}

/// Attributes repairs that duplicate ACKs seem to have caused to no owner if no ACK was captured.
fn doubt_fast(it: &mut Finished<'_>, exchange: &mut Exchange) {
    if it.lacks_acks {
        let from = (Owner::FastRecovery, Cause::FastRecovery);
        exchange.revise(&Change::Unknown { from });
    }
}

/// Attributes what losses before the vantage seem to have taken beyond the time of their timers to no
/// owner: the sender's RTO may be longer, or its application was busy.
fn shorten_unseen(_: &mut Finished<'_>, exchange: &mut Exchange) {
    for sender in Side::ALL {
        exchange.revise(&Change::UnseenLoss { sender });
    }
}

/// Attributes a pause to no owner if the data before the end of the silence is missing in the capture: it
/// shows neither when an answer began nor when the sender went on.
fn doubt_before_missing(it: &mut Finished<'_>, exchange: &mut Exchange) {
    if it.cold.faults().missing_bytes == 0 {
        return;
    }
    let pauses = [(Owner::Server, Cause::ServerThink), (Owner::Client, Cause::ClientThink)];
    for (owner, cause) in pauses {
        let unseen = |chain: &Chain| chain.cause == cause && chain.gap.behind_hole;
        if exchange.chains.iter().any(unseen) {
            exchange.revise(&Change::Unknown { from: (owner, cause) });
        }
    }
}

/// Attributes waits to no owner that may be none, where the content does not show what is a request.
/// What the client sends after a pause may be another message, unless a full segment came before it:
/// the last segment of a message rarely is one. A last message without an answer may need none, unless
/// each message before it had one and its client waited for as long as a program does before it gives
/// up.
fn doubt_waits(it: &mut Finished<'_>, exchange: &mut Exchange) {
    let Some(pattern) = it.pattern.filter(|_| !exchange.in_handshake) else { return };
    let amid = |chain: &Chain| it.senders[chain.sender].sizes.is_full(&chain.gap.last);
    let mut pauses = exchange.chains.iter().filter(|chain| chain.cause == Cause::ClientThink);
    if pauses.any(|chain| chain.longest_ns >= STREAM_PAUSE_MIN_NS && !amid(chain)) {
        exchange.revise(&Change::Unknown { from: (Owner::Client, Cause::ClientThink) });
    }
    let Outcome::Closed { by } = exchange.outcome else { return };
    let waited_ns = exchange.ledger.of(Owner::Server);
    let was_due = pattern.is_strict() && waited_ns >= APPLICATION_TIMEOUT_MIN_NS;
    // A server that closes has worked on no answer, whether one was due or not.
    if exchange.request_seen && !exchange.response_seen && (by == Side::Server || !was_due) {
        exchange.revise(&Change::Unknown { from: (Owner::Server, Cause::ServerThink) });
        if by == Side::Client {
            exchange.outcome = Outcome::Unclear;
        }
    }
}

fn name_losses(it: &mut Finished<'_>, exchange: &mut Exchange) {
    if exchange.causes().intersects(CauseSet::REVISED) {
        for side in Side::ALL {
            name_losses_of(side, it, exchange);
        }
    }
}

/// Sets the common cause of repeated losses of one direction. The small window after a loss is
/// attributed to the loss as well.
fn name_losses_of(side: Side, it: &mut Finished<'_>, exchange: &mut Exchange) {
    let of_loss = |cause: Cause| cause.family() == Family::Loss;
    let most = exchange
        .chains
        .iter()
        .filter(|chain| chain.sender == side && of_loss(chain.cause))
        .max_by_key(|chain| chain.ns)
        .map(|chain| chain.cause);
    let sender = &mut it.senders[side];
    if most.is_some() {
        sender.history_mut().losses.cause = most;
    }
    if let Some(cause) = sender.history().losses.cause {
        let (from, to) = (Cause::CongestionWindow, cause);
        exchange.revise(&Change::Renamed { sender: side, from, to });
    }
    // If the other side was not seen, nothing shows that smaller segments arrive.
    let answered = it.senders[side.peer()].volume.has_packets();
    let sender = &it.senders[side];
    // The segments of a handshake are small ones that arrived.
    let small_ones_pass = !it.mid_stream || sender.sizes.acked_max() > 0;
    let waits_for_size = |chain: &Chain| {
        let original = chain
            .gap
            .repair
            .original
            .filter(|_| chain.sender == side && chain.cause == Cause::RetransmissionTimeout);
        let report = it.cold.icmp_report();
        report.zip(original).is_some_and(|(it, sent)| it.is_too_big(side, sent.payload_bytes))
    };
    let is_reported = exchange.chains.iter().any(waits_for_size);
    if is_reported || answered && small_ones_pass && sender.has_mtu_black_hole() {
        let (from, to) = (Cause::RetransmissionTimeout, Cause::MtuBlackHole);
        exchange.revise(&Change::Renamed { sender: side, from, to });
    }
    let history = sender.history();
    if history.are_mostly_spurious() {
        let cause = if history.has_reordering() {
            Cause::Reordering
        } else {
            Cause::SpuriousRetransmission
        };
        let (from, to) = (Cause::FastRecovery, cause);
        exchange.revise(&Change::Renamed { sender: side, from, to });
        let (from, to) = (Cause::RetransmissionTimeout, cause);
        exchange.revise(&Change::Renamed { sender: side, from, to });
    }
}

/// Removes spurious retransmissions from the cost of the set-up, and sets the cause of the
/// rest.
fn settle_set_up(it: &mut Finished<'_>, exchange: &mut Exchange) {
    if exchange.repeated_setup_ns == 0 {
        return;
    }
    let again_ns = exchange.repeated_setup_ns;
    // A client that sends its SYN again after a RST has not lost it.
    let was_refused = it.cold.get().is_some_and(|cold| cold.refusals.is_some());
    let needed_ns =
        if was_refused { again_ns } else { it.setup.repeated_ns(it.path).min(again_ns) };
    exchange.repeated_setup_ns = needed_ns;
    // What ends the attempt is the cause of all the time that it took: which of the SYNs a RST answers is
    // not known (RFC 6298 §3), nor that one was lost.
    if needed_ns > 0 && !it.setup.refused {
        let cause = if was_refused { Cause::Refused } else { it.setup.cause(it.path) };
        let owner = match cause {
            Cause::AcceptQueueOverflow => Owner::Connect,
            _ => Owner::SynRetransmit,
        };
        exchange.set_up_cost((owner, cause), it.setup.frames().syn.unwrap_or_default());
    }
    let needless = Slice::plain(Owner::Connect, again_ns - needed_ns);
    exchange.ledger.transfer(Concerned::of(Owner::SynRetransmit, None), needless);
}

/// Attributes small windows to a slow reader that closes its window again and again.
fn attribute_to_reader(it: &mut Finished<'_>, exchange: &mut Exchange) {
    if !has_cause(exchange, Cause::ZeroWindow) {
        return;
    }
    for side in Side::ALL {
        if it.senders[side].history().window.is_read_slowly() {
            exchange.revise(&Change::Reader { sender: side });
        }
    }
}

/// Decides what limited each sender: whether Nagle's algorithm and a full buffer are refuted, and how
/// much of the time its congestion window would have taken in any case to open. Data of earlier
/// exchanges has opened the window too.
fn settle_limits(it: &mut Finished<'_>, exchange: &mut Exchange) {
    if !exchange.causes().intersects(CauseSet::REVISED) {
        return;
    }
    for side in Side::ALL {
        let sender = &it.senders[side];
        let nagle = nagle_evidence(sender, it.cold, it.is_ssh);
        if nagle.is_refuted_throughout() {
            let is_driven = nagle.pauses == 0;
            exchange.revise(&Change::NoNagle { sender: side, is_driven });
        }
        refute_ceiling(side, sender, it.path, exchange);
        let bytes = sender.space.nxt.saturating_sub(exchange.began_at[side]);
        exchange.subtract_opening(side, &opening(side, sender, it.path, exchange, bytes));
    }
}

fn settle_way_behind_proxy(it: &mut Finished<'_>, exchange: &mut Exchange) {
    settle_relay(it.setup, it.path, it.cold, exchange);
}

/// Applies [`Exchange::attribute_to_rate`]: the path rate of a short transfer is known only
/// from its last ACKs.
fn settle_rate(it: &mut Finished<'_>, exchange: &mut Exchange) {
    if !has_cause(exchange, Cause::SlowStart) {
        return;
    }
    for side in Side::ALL {
        let sender = &mut it.senders[side];
        let bytes = exchange.sent_bytes(side, sender.space.nxt);
        sender.bulk.iter_mut().for_each(|bulk| _ = bulk.pipe.rate());
        exchange.attribute_to_rate(side, &opening(side, sender, it.path, exchange, bytes));
    }
}

/// Returns the data that `sender`, which is `side`, had to send in `exchange`, and its window before
/// that.
fn opening(side: Side, sender: &Sender, path: &Path, exchange: &Exchange, bytes: u64) -> Opening {
    let began = exchange.began_at[side];
    Opening {
        bytes,
        window: burst_opened_by(
            sender.sizes.smss(),
            began.saturating_sub(ORIGIN),
            bytes,
            sender.bulk.as_deref(),
        ),
        rtt_ns: path.base_rtt_ns(),
        rate: sender.bulk.as_ref().and_then(|bulk| bulk.pipe.last_rate()),
        paced: sender.bulk.as_ref().is_some_and(|bulk| bulk.pacer.is_pacing()),
    }
}

fn count_repairs(it: &mut Finished<'_>, exchange: &mut Exchange) {
    for side in Side::ALL {
        count_repairs_of(side, &mut it.senders[side], exchange);
    }
}

/// Adds to the losses of `side` in `exchange` the number of segments, and the time that the
/// bytes of `side` take in any case.
fn count_repairs_of(side: Side, sender: &mut Sender, exchange: &mut Exchange) {
    if !sender.is_troubled() {
        return;
    }
    let began = exchange.began_at[side];
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

impl Connection {
    /// Reports finished exchanges, unless they may be reopened.
    #[inline]
    pub(super) fn report_finished(&mut self, shared: &mut Shared, sink: &mut impl Sink) {
        if !self.timeline.done.is_empty() {
            self.report_done(shared, sink);
        }
    }

    #[inline(never)]
    fn report_done(&mut self, shared: &mut Shared, sink: &mut impl Sink) {
        let awaits_queue = self.cold.questions().is_some_and(Questions::is_queue_open);
        let is_held = self.timeline.is_interrupted || awaits_queue;
        if is_held {
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
        let lacks_acks = self.view().lacks_acks();
        let Self { senders, setup, path, cold, mid_stream, timeline, framer, .. } = self;
        let (mid_stream, pattern) = (*mid_stream, timeline.pattern);
        let pattern = framer.hides_dialogue().then_some(pattern);
        let is_ssh = framer.is_ssh;
        let finished =
            Finished { senders, setup, path, cold, mid_stream, lacks_acks, pattern, is_ssh };
        settle(&mut exchange, finished);
        let in_window = shared.window.overlaps(exchange.start_ns, exchange.end_ns);
        if !in_window || self.cold.is_copy() {
            return;
        }
        // That a client sent something shows neither whether it was answered nor when. Its ACK of the
        // handshake shows how long that took.
        let is_timed = exchange.connects || !exchange.chains.is_empty();
        if exchange.outcome == Outcome::Unseen && !is_timed {
            return sink.unseen(self, &exchange);
        }
        if self.leave_out(&exchange) {
            return;
        }
        if !exchange.counts() && !self.at_end().is_failed_handshake(&exchange) {
            let awaits = exchange.is_awaiting() || self.at_end().awaits_server_hello(&exchange);
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
            let ports = [self.client().port, self.server().port];
            self.roles.accuse_neither(&mut exchange, ports, &self.framer);
        }
        self.count(&exchange, sink);
    }

    /// Counts a finished exchange and passes it to the sink.
    pub(super) fn count(&mut self, exchange: &Exchange, sink: &mut impl Sink) {
        self.totals.exchanges += 1;
        if let Some(code) = exchange.outcome.error() {
            let counted = if code.is_challenge() { Side::Client } else { Side::Server };
            self.totals.causes[counted].insert(Cause::ErrorResponses);
        }
        self.totals.ledger.merge(&exchange.ledger);
        for chain in &exchange.chains {
            let is_fault = chain.cause.class() == Class::Fault;
            let lost_ns = if is_fault { chain.ns } else { 0 };
            self.totals.lost_ns = self.totals.lost_ns.saturating_add(lost_ns);
            self.totals.causes[chain.sender].insert(chain.cause);
            let held = [Cause::NagleDelayedAck, Cause::SendBuffer, Cause::DelayedAck];
            if held.contains(&chain.cause) {
                self.senders[chain.sender].history_mut().nagle.held.add(chain);
            }
        }
        let link = Link {
            asked_ns: exchange.first.time_ns,
            ended_ns: exchange.end_ns,
            path_ns: exchange.ledger.of(Owner::Path),
            round_trip_ns: self.path.base_rtt_ns(),
            rtt_client_ns: self.path.known_rtt_ns(Side::Client),
        };
        // Where the capture lacks what was waited for, nothing shows that the next request follows it.
        let is_whole =
            exchange.ledger.of(Owner::Unknown) == 0 || self.cold.faults().missing_bytes == 0;
        let row = if is_whole { self.totals.row().with(link) } else { Row::default() };
        self.totals.set_row(row);
        sink.exchange(self, exchange);
        let times = [exchange.first.time_ns, exchange.end_ns];
        if let Some(series) = self.totals.append_to_series(times[0], times[1]) {
            sink.series(self, &series);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_get_their_names_before_they_are_counted() {
        let position =
            |decides: &str| AT_EXCHANGE_END.iter().position(|(it, ..)| it.contains(decides));
        assert!(position("only if its timer doubles") < position("a common cause"));
        assert!(position("a common cause") < position("limited the sender"));
        assert_eq!(position("segments of a repair"), Some(AT_EXCHANGE_END.len() - 1));
    }

    #[test]
    fn an_exchange_without_causes_is_left_as_it_is() {
        let mut senders = [Sender::of(Side::Client), Sender::of(Side::Server)];
        let (setup, path, mut cold) = (Setup::default(), Path::default(), Cold::default());
        let mut exchange = Exchange { end_ns: 9, ..Exchange::default() };
        let finished = Finished {
            senders: &mut senders,
            setup: &setup,
            path: &path,
            cold: &mut cold,
            mid_stream: false,
            lacks_acks: false,
            pattern: None,
            is_ssh: false,
        };
        settle(&mut exchange, finished);
        assert_eq!(exchange.ledger.of(Owner::Unknown), 0);
        assert!(exchange.chains.is_empty() && cold.get().is_none());
    }
}
