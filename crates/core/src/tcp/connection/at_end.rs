//! What the end of a connection, or of the capture, shows of the exchange in progress: how it ended,
//! and who was waiting for what.

use crate::app::{CANCEL, Framer, Protocol};
use crate::judge::thresholds::{
    APPLICATION_TIMEOUT_MIN_NS, HOST_DELAY_MAX_NS, INITIAL_WINDOW_SEGMENTS, RTO_INITIAL_NS,
};
use crate::judge::{Gap, Recovery};
use crate::model::{Outcome, Owner, Sighting};
use crate::tcp::connection::asked::is_unreadable;
use crate::tcp::connection::ending::Ending;
use crate::tcp::exchange::Exchange;
use crate::tcp::owed::{Debt, Rule};
use crate::tcp::path::Path;
use crate::tcp::sender::{Sender, Tail};
use crate::tcp::setup::Setup;
use crate::tcp::thresholds::STREAM_PAUSE_MIN_NS;
use crate::tcp::timeline::Timeline;
use crate::wire::{BySide, Segment, Side};

/// What is known of a connection when it ends.
#[derive(Clone, Copy)]
pub struct AtEnd<'a> {
    pub(super) senders: &'a [Sender; 2],
    pub(super) path: &'a Path,
    pub(super) setup: &'a Setup,
    pub(super) framer: &'a Framer,
    pub(super) timeline: &'a Timeline,
    pub(super) ending: Ending,
    /// No bytes are missing in the capture.
    pub(super) is_whole: bool,
    /// ACKs without data were sent and none of them was captured.
    pub(super) lacks_acks: bool,
}

/// Returns whether data is unacknowledged or has to wait for a window.
pub(super) fn is_unfinished(senders: &BySide<Sender>) -> bool {
    let unacked = |sender: &Sender| {
        sender.space.una_seen() < sender.space.nxt.min(sender.space.fin().unwrap_or(u64::MAX))
    };
    let was_closed =
        |sender: &Sender| sender.history().window.is_closed() || sender.since.was_window_closed();
    senders.iter().any(|sender| unacked(sender) || was_closed(sender))
}

/// Returns whether the client has not yet sent all of its request.
pub(super) fn owes_request(framer: &Framer) -> bool {
    framer.protocol() == Protocol::Http1 && framer.owes(Side::Client)
}

/// Returns whether the oldest request in progress has begun and not reached its end, in a protocol
/// that shows where that is, and nothing answers it yet.
pub(super) fn is_amid_request(framer: &Framer, timeline: &Timeline) -> bool {
    let begun = |it: &Exchange| it.request_seen && !it.asked && !it.response_seen && !it.endless;
    framer.is_http() && timeline.exchanges.front().is_some_and(begun)
}

impl AtEnd<'_> {
    /// Returns how the exchange in progress ended, if no RST ended it; `debt` is what the server owed.
    pub(super) fn outcome(&self, debt: Debt) -> Outcome {
        let by = self.ending.closed_first(self.senders);
        let has_begun =
            self.timeline.exchanges.front().is_some_and(|exchange| exchange.response_seen);
        let ends_with_it = self.framer.ends_with_connection()
            && (by == Some(Side::Server) || self.had_all_when_it_closed());
        match by {
            _ if self.lacks_answers() => Outcome::Unseen,
            Some(Side::Server) if self.asks_for_close() => Outcome::Answered,
            _ if self.is_under_way() => Outcome::Open,
            // A handshake without a request is complete.
            _ if self.may_be_over() || self.timeline.exchanges.is_ready() => Outcome::Answered,
            _ if has_begun && (ends_with_it || self.framer.has_last_chunk()) => Outcome::Answered,
            _ if self.refuses_what_was_left() => Outcome::Answered,
            _ if debt == Debt::Nothing(Rule::Goodbye) => Outcome::Answered,
            _ if debt == Debt::Unknown(Rule::Goodbye) => Outcome::Unclear,
            _ if self.unacknowledged_request().is_some() => Outcome::Unacknowledged,
            Some(by) => self.outcome_of_end(by),
            None => Outcome::Open,
        }
    }

    /// Returns whether the message in progress is one to which its server closes without a reply
    /// (PostgreSQL, "Canceling Requests in Progress").
    fn asks_for_close(&self) -> bool {
        self.framer.protocol() == Protocol::Postgres
            && self.timeline.exchanges.front().is_some_and(|it| &*it.kind == CANCEL)
    }

    /// Returns whether the client closed when it had all that the server ever sent, not by a timeout, and
    /// the server closed as well. A body without an announced length is complete then (RFC 9112 §6.3).
    fn had_all_when_it_closed(&self) -> bool {
        let server = &self.senders[Side::Server];
        let [client_ns, server_ns] = self.ending.fin_ns;
        let waited_ns = client_ns.map(|left_ns| left_ns.saturating_sub(server.last.time_ns));
        server_ns.is_some()
            && server.space.fin() == Some(server.space.nxt)
            && self.ending.fin_acks[Side::Client] >= server.space.nxt
            && waited_ns.is_some_and(|ns| ns < APPLICATION_TIMEOUT_MIN_NS)
    }

    /// Returns how the exchange in progress ended, if a FIN of `by` ended it before its response was
    /// complete.
    pub(super) fn outcome_of_end(&self, by: Side) -> Outcome {
        match self.timeline.exchanges.front().is_some_and(|exchange| exchange.response_seen) {
            true => Outcome::CutShort { by },
            false => Outcome::Closed { by },
        }
    }

    /// Returns whether the last response has begun and nothing shows that more of it is due. Behind a
    /// preliminary reply of FTP the final one is (RFC 959 §4.2), and behind the first line of a list of POP3
    /// the others are.
    pub(super) fn may_be_over(&self) -> bool {
        self.timeline.may_be_over() && !self.framer.owes_final_reply() && !self.framer.owes_lines()
    }

    /// Returns whether the server has announced more of its response than it has sent: bytes, or lines.
    fn owes_rest(&self) -> bool {
        self.framer.owes(Side::Server) || self.framer.owes_lines()
    }

    /// Returns whether more of the response in progress may follow behind the last captured packet, as neither
    /// side has closed: it stops within a record of TLS, whose length is not encrypted (RFC 8446 §5.1); or what
    /// came is the initial window of its sender to the byte (RFC 6928 §2), and not all of it is acknowledged.
    fn is_under_way(&self) -> bool {
        let space = &self.senders[Side::Server].space;
        let window_bytes = INITIAL_WINDOW_SEGMENTS * self.senders[Side::Server].sizes.smss();
        let front = self.timeline.exchanges.front().filter(|it| it.response_seen);
        let fills = front.is_some_and(|it| space.nxt == it.began_at[Side::Server] + window_bytes);
        let fills = fills && !self.lacks_acks && space.una_seen() < space.nxt;
        let is_in_record = self.framer.protocol() == Protocol::Tls
            && self.framer.owes(Side::Server)
            && self.senders[Side::Server].in_order() == space.nxt;
        front.is_some() && self.ending.first().is_none() && (fills || is_in_record)
    }

    /// Returns whether the response to the request in progress would be in a direction of which the
    /// capture has no packet.
    pub(super) fn lacks_answers(&self) -> bool {
        let has_begun =
            self.timeline.exchanges.front().is_some_and(|exchange| exchange.response_seen);
        !has_begun && !self.senders[Side::Server].volume.has_packets()
    }

    /// Returns whether a RST of `side` cuts off an upload. The client may lose the response by it,
    /// because its host discards that (RFC 9112 §9.6).
    pub(super) fn is_upload_cut_by(&self, side: Side) -> bool {
        side == Side::Server && self.timeline.exchanges.all_answered() && owes_request(self.framer)
    }

    /// Returns whether the exchange in progress was over when `side` sent its RST. A client that
    /// has all data of a server that may send no more loses nothing by its RST.
    pub(super) fn was_over_before_reset_of(&self, side: Side) -> bool {
        let server = &self.senders[Side::Server];
        let has_all = side == Side::Client && server.space.una_seen() >= server.space.nxt;
        let has_fin = self.ending.fin_ns.iter().any(Option::is_some);
        let closed = has_all && self.ending.fin_ns[Side::Server].is_some();
        let may_be_over = self.timeline.may_be_over() || self.timeline.exchanges.is_ready();
        let may_be_over = may_be_over && !self.framer.owes_lines();
        let has_content = has_all && self.framer.has_last_chunk();
        closed || has_content || may_be_over && (has_fin || has_all || !is_unfinished(self.senders))
    }

    /// Returns what the server owes for the client's last message, when a side closes or the capture
    /// ends.
    pub(super) fn debt(&self, is_one_way: bool) -> Debt {
        match self.framer.protocol() {
            // The last records of a TLS connection close it (RFC 8446 §6.1).
            Protocol::Tls if self.may_end_with_goodbye() => Debt::Nothing(Rule::Goodbye),
            _ if self.may_end_with_goodbye() => Debt::Unknown(Rule::Goodbye),
            _ if is_one_way => Debt::Nothing(Rule::OneWay),
            _ => self.timeline.exchanges.debt_at_end(),
        }
    }

    /// Returns whether the client's last message may have needed no response, in a protocol that does
    /// not show which messages do: the client closed right behind it, or the server as soon as it had it;
    /// the server received all of it and sent no data, and both closed. Such are goodbyes, and data that goes
    /// one way only. A client that waits for a response closes later, or closes its side and gets a response.
    fn may_end_with_goodbye(&self) -> bool {
        let [client, server] = self.senders;
        let closes_behind = self.closes_behind_message()
            && self.ending.closed_first(self.senders) == Some(Side::Client);
        (closes_behind || self.is_closed_upon_message())
            && self.ending.fin_ns.iter().all(Option::is_some)
            && client.space.una_seen() >= client.space.nxt
            && server.history().holes.bytes() == 0
            && self.timeline.exchanges.is_unanswered()
    }

    /// Returns whether the server, which had answered others, closed as soon as it had the client's last
    /// message, in a protocol that does not show which messages need a response.
    fn is_closed_upon_message(&self) -> bool {
        let [client, server] = self.senders;
        let at_once_ns = self.path.rtt_ns(Side::Server) + STREAM_PAUSE_MIN_NS;
        let closed_ns = self.ending.fin_ns[Side::Server];
        self.framer.protocol().is_in_turns()
            && server.last.len > 0
            && self.ending.closed_first(self.senders) == Some(Side::Server)
            && closed_ns.is_some_and(|closed_ns| closed_ns < client.last.time_ns + at_once_ns)
    }

    /// Returns whether the client closed its side behind its last message, before any program gives up,
    /// in a protocol that does not show which messages need a response. A TLS client that closes at
    /// once says goodbye; data of TLS goes both ways.
    fn closes_behind_message(&self) -> bool {
        let at_once_ns = match self.framer.protocol() {
            Protocol::Tls => self.path.base_rtt_ns() + HOST_DELAY_MAX_NS,
            _ => APPLICATION_TIMEOUT_MIN_NS.max(self.path.base_rtt_ns() + HOST_DELAY_MAX_NS),
        };
        let left_ns = self.ending.fin_ns[Side::Client];
        let last_ns = self.senders[Side::Client].last.time_ns;
        is_unreadable(self.framer) && left_ns.is_some_and(|left_ns| left_ns <= last_ns + at_once_ns)
    }

    /// Returns whether the server answered the message of `exchange` although the client had closed
    /// its side right behind it.
    pub fn answers_half_closed(&self, exchange: &Exchange) -> bool {
        let left_ns = self.ending.fin_ns[Side::Client];
        exchange.response_seen
            && left_ns.is_some_and(|left_ns| left_ns <= exchange.answered_ns)
            && self.closes_behind_message()
    }

    /// Returns whether the request in progress, of a protocol that shows its requests, came behind the
    /// server's FIN, which the client had acknowledged: it can get no answer.
    pub(super) fn asks_behind_fin(&self) -> bool {
        let front = self.timeline.exchanges.front();
        self.framer.is_http() && front.is_some_and(|it| it.behind_fin && it.asks())
    }

    /// Returns the data that the client of the exchange in progress sent again and again, without
    /// any answer. A server that had closed has received a request, or will never see it; but what comes
    /// behind its acknowledged FIN it has not received if it never acknowledges it.
    pub(super) fn unacknowledged_request(&self) -> Option<Tail> {
        let waits =
            self.timeline.exchanges.front().is_some_and(|it| it.asks() && !it.response_seen);
        let has_closed = self.ending.fin_ns[Side::Server].is_some() && !self.asks_behind_fin();
        let is_watched = self.senders[Side::Server].volume.has_packets();
        let client = &self.senders[Side::Client];
        let tail = client.history().losses.tail_from(client.space.una_seen())?;
        (waits && !has_closed && is_watched).then_some(tail)
    }

    /// Returns whether the absence of an answer in the capture shows that none was sent: it contains
    /// packets of both sides, without holes, and no filter removed the ACKs.
    pub fn shows_silence(&self) -> bool {
        self.is_whole
            && self.senders.iter().all(|sender| sender.volume.has_packets())
            && !self.lacks_acks
    }

    /// Returns whether the server has received the ClientHello with which `exchange` begins, and has
    /// sent nothing since then.
    pub fn awaits_server_hello(&self, exchange: &Exchange) -> bool {
        let [client, server] = self.senders;
        self.is_in_handshake(exchange)
            && server.space.nxt <= exchange.began_at[Side::Server]
            && client.space.nxt > exchange.began_at[Side::Client]
            && client.space.una_seen() >= client.space.nxt
            && self.shows_silence()
    }

    /// Returns whether `exchange` is a TLS handshake that is not over, as far as it can be read.
    fn is_in_handshake(&self, exchange: &Exchange) -> bool {
        exchange.in_handshake && !exchange.endless && self.framer.protocol() == Protocol::Tls
    }

    /// Returns whether `exchange` is a TLS handshake that ended before it was complete, and for which
    /// the client waited: a fault held it up, or the server gave no answer for longer than any timer
    /// takes at first. Clients also drop handshakes that they need no more.
    pub(super) fn is_failed_handshake(&self, exchange: &Exchange) -> bool {
        let is_held_up = exchange.fault_ns() > 0;
        let is_silent = || {
            let waited_ns = exchange.ledger.of(Owner::Server);
            self.awaits_server_hello(exchange) && waited_ns >= RTO_INITIAL_NS
        };
        self.is_in_handshake(exchange) && (is_held_up || is_silent())
    }

    /// Returns when a packet of `side` last showed that it was there, ns: its data, an ACK that
    /// advanced, its part of the handshake, its FIN or RST.
    pub fn heard_ns(&self, side: Side) -> u64 {
        let reset = self.ending.reset.filter(|reset| reset.from == side);
        let set_up = self.setup.established_ns().filter(|_| side == Side::Server);
        let times = [
            Some(self.senders[side].last.time_ns),
            Some(self.senders[side.peer()].una_seen_ns),
            self.ending.fin_ns[side],
            reset.map(|reset| reset.time_ns),
            set_up,
        ];
        times.into_iter().flatten().max().unwrap_or(0)
    }

    /// Returns whether the server's FIN in `segment`, its first and after all of its data, ends the
    /// response for which the client still waits.
    pub(super) fn ends_response(&self, segment: &Segment) -> bool {
        let [client_ns, server_ns] = self.ending.fin_ns;
        let server = &self.senders[Side::Server];
        client_ns.is_none()
            && server_ns == Some(segment.time_ns)
            && server.space.fin() == Some(server.space.nxt)
            && server.history().holes.bytes() == 0
            && self.framer.ends_with_connection()
    }

    /// Returns whether the server's FIN at `fin_ns` answers only the client's FIN at `closed_ns`.
    /// It comes at once, so that the server was not working on the client's last message; the
    /// server had acknowledged that message and waited for more. In an unreadable protocol, on a
    /// connection on which other messages were answered, that message was a command without a
    /// reply.
    pub(super) fn answers_fin_only(&self, closed_ns: u64, fin_ns: u64, answered: u64) -> bool {
        let client = &self.senders[Side::Client];
        let rtt_ns = self.path.rtt_ns(Side::Server);
        let was_received = closed_ns > client.last.time_ns + rtt_ns + STREAM_PAUSE_MIN_NS;
        self.framer.protocol().is_in_turns()
            && answered > 0
            && was_received
            && client.space.una_seen() >= client.space.nxt
            && fin_ns.saturating_sub(closed_ns) < rtt_ns + STREAM_PAUSE_MIN_NS
    }

    /// Returns whether the server has begun a response and not reached its announced end, though it has
    /// not closed: its client waits for the rest.
    pub(super) fn has_stopped(&self) -> bool {
        let has_begun =
            self.timeline.exchanges.front().is_some_and(|it| it.request_seen && it.response_seen);
        let server_fin = self.ending.fin_ns[Side::Server];
        let is_due = self.owes_rest() || self.framer.owes_final_reply();
        has_begun && is_due && server_fin.is_none()
    }

    /// Returns whether the client, which ends the connection after a silence of `silent_ns` amid a response,
    /// gives up on its server: it had acknowledged all that had come in order, and more was due. Its RST or
    /// FIN is then no fault of its own.
    pub fn is_given_up(&self, silent_ns: u64) -> bool {
        let [client, server] = self.senders;
        (self.owes_rest() || server.history().holes.bytes() > 0)
            && !self.ending.was_reset_on_path()
            && client.space.una_seen() >= client.space.nxt
            && server.space.una_seen() >= server.in_order()
            && !server.history().window.is_closed()
            && silent_ns >= APPLICATION_TIMEOUT_MIN_NS
    }

    /// Returns whether the client gives up so on a server that had sent no more of its response, as far as
    /// the capture shows.
    pub fn is_stalled(&self, silent_ns: u64) -> bool {
        let has_hole = self.senders[Side::Server].history().holes.bytes() > 0;
        self.is_given_up(silent_ns) && !has_hole && self.is_whole
    }

    /// Returns whether a request that has arrived was still unanswered at `last_ns`, when the capture shows
    /// the connection last, and no program would have given up before that: the client waited at least
    /// until then.
    pub(super) fn is_still_waiting(&self, last_ns: u64) -> bool {
        let client = &self.senders[Side::Client];
        self.ending.first().is_none()
            && client.space.is_acked()
            && client.space.una_seen() >= client.space.nxt
            && self.shows_silence()
            && self.timeline.exchanges.front().is_some_and(|exchange| {
                let since_ns = exchange.first.time_ns + APPLICATION_TIMEOUT_MIN_NS;
                exchange.is_awaiting() && last_ns >= since_ns
            })
    }

    /// Returns the side that has to go on: a server waits for the rest of a request that has begun.
    pub(super) fn waited_for(&self) -> Side {
        let lacks_rest = owes_request(self.framer) || is_amid_request(self.framer, self.timeline);
        if lacks_rest { Side::Client } else { Side::Server }
    }

    /// Returns whether the client, which is amid its request, was silent of its own accord until
    /// `now_ns`: the server's host has received all that it sent, and what it would have sent upon the
    /// last ACK has not come.
    pub(super) fn pauses_amid_request(&self, now_ns: u64) -> bool {
        let client = &self.senders[Side::Client];
        let due_ns = client.una_seen_ns + self.path.rtt_ns(Side::Client) + HOST_DELAY_MAX_NS;
        let waits_for_interim =
            self.timeline.exchanges.front().is_some_and(|exchange| exchange.awaits_continue);
        is_amid_request(self.framer, self.timeline)
            && !waits_for_interim
            && self.is_whole
            && client.history().holes.bytes() == 0
            && client.space.una_seen() >= client.space.nxt
            && now_ns > due_ns
    }

    /// Returns whether the server answered a request by an error that its client had left amid it, by
    /// a FIN: that answer is the outcome, though its client may discard it.
    pub(super) fn refuses_what_was_left(&self) -> bool {
        let left_ns = self.ending.fin_ns[Side::Client];
        self.timeline.exchanges.front().is_some_and(|exchange| {
            let is_refused = !exchange.asked && exchange.error.is_some();
            let was_left = left_ns.is_some_and(|left_ns| left_ns <= exchange.answered_ns);
            exchange.request_seen && is_refused && was_left
        })
    }

    /// Returns whether the client has sent its whole request, the response is incomplete, and no
    /// data is in flight.
    pub(super) fn waits_for_answer(&self) -> bool {
        let owed = self.owes_rest();
        let asked = self.timeline.exchanges.front().is_some_and(|exchange| {
            let unanswered = exchange.request_seen && !exchange.response_seen;
            unanswered || owed || self.awaits_server_hello(exchange)
        });
        let asks = self.waited_for() == Side::Client || self.framer.owes(Side::Client);
        asked && !asks && !is_unfinished(self.senders)
    }

    /// Returns whether the client, which gives up at `now_ns`, has waited for data of a response that
    /// was lost before the vantage, for longer than any timer takes at first (RFC 6298 §2.1).
    pub(super) fn waits_for_repair(&self, now_ns: u64) -> bool {
        let server = &self.senders[Side::Server];
        let front = self.timeline.exchanges.front();
        let is_begun = front.is_some_and(|it| it.response_seen || it.in_handshake);
        is_begun
            && server.history().holes.are_awaited_at(server.space.una_seen())
            && now_ns >= server.last.time_ns + RTO_INITIAL_NS
    }

    /// Returns whether the client waits for a part of the server's flight that was lost before the
    /// vantage.
    pub(super) fn awaits_repair_of_handshake(&self, exchange: &Exchange) -> bool {
        exchange.in_handshake
            && self.senders[Side::Server]
                .history()
                .holes
                .are_awaited_at(self.senders[Side::Server].space.una_seen())
    }

    /// Returns the data of a request that was never acknowledged, and the last frame up to which the
    /// client waited for that: it gave up then, or the capture ended.
    pub(super) fn unacknowledged_until(&self) -> Option<(Tail, Sighting)> {
        let tail = self.unacknowledged_request()?;
        let reset = self.ending.reset.filter(|reset| reset.from == Side::Client);
        let mut left = self.ending.fin[Side::Client].into_iter().chain(reset);
        let last = left.find(|left| left.time_ns >= tail.last.time_ns).unwrap_or(tail.last);
        Some((tail, last))
    }
}

impl Tail {
    /// Returns the gap between two times in which only this data was sent, again and again.
    pub(crate) fn gap(&self, from_ns: u64, until_ns: u64) -> Gap {
        let mut gap = Gap::between(Side::Client, from_ns, until_ns, self.first, self.last);
        gap.repair.trigger = Some(Recovery::Timer);
        gap.repair.original = Some(self.first);
        gap.repair.tail = true;
        gap.next_len = self.last.payload_bytes.into();
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outcome of a connection without requests, of which the server `is_seen` or not.
    fn outcome(ending: Ending, is_seen: bool, debt: Debt) -> Outcome {
        let mut senders = [Sender::of(Side::Client), Sender::of(Side::Server)];
        if is_seen {
            senders[Side::Server].packet(&Segment::default(), 0);
        }
        let (path, setup, timeline) = (Path::default(), Setup::default(), Timeline::new());
        let framer = Framer::new(80, false);
        let (senders, path, setup, timeline) = (&senders, &path, &setup, &timeline);
        let (is_whole, lacks_acks, framer) = (true, false, &framer);
        let at_end = AtEnd { senders, path, setup, framer, timeline, ending, is_whole, lacks_acks };
        at_end.outcome(debt)
    }

    fn closed_by(side: Side) -> Ending {
        let mut ending = Ending::default();
        ending.take_fin(side, &Segment { time_ns: 5, ..Segment::default() }, 0);
        ending
    }

    #[test]
    fn who_closes_first_ends_the_exchange() {
        let outcomes = Side::ALL.map(|side| outcome(closed_by(side), true, Debt::Response));
        assert_eq!(outcomes, Side::ALL.map(|by| Outcome::Closed { by }));
        assert_eq!(outcome(Ending::default(), true, Debt::Response), Outcome::Open);
    }

    #[test]
    fn an_answer_of_a_side_that_was_not_captured_is_unseen() {
        assert_eq!(outcome(closed_by(Side::Client), false, Debt::Response), Outcome::Unseen);
    }

    #[test]
    fn a_goodbye_needs_no_answer() {
        let of = |debt| outcome(closed_by(Side::Client), true, debt);
        assert_eq!(of(Debt::Nothing(Rule::Goodbye)), Outcome::Answered);
        assert_eq!(of(Debt::Unknown(Rule::Goodbye)), Outcome::Unclear);
    }
}
