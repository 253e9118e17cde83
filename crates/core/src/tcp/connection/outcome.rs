//! How the exchange in progress ended when its connection did, and the wait for a request that was
//! never acknowledged.

use crate::app::{Protocol, Side};
use crate::judge::thresholds::{HOST_DELAY_MAX_NS, RTO_INITIAL_NS};
use crate::judge::{Gap, Recovery};
use crate::model::{Outcome, Owner};
use crate::tcp::connection::Connection;
use crate::tcp::exchange::Exchange;
use crate::tcp::owed::{Debt, Rule};
use crate::tcp::sender::Tail;

impl Connection {
    /// Returns how the exchange in progress ended, if no RST ended it; `debt` is what the server owed.
    pub(super) fn outcome(&self, debt: Debt) -> Outcome {
        let by = self.closed_first();
        let has_begun = self.timeline.front().is_some_and(|exchange| exchange.response_seen);
        let ends_with_it = by == Some(Side::Server) && self.framer.ends_with_connection();
        match by {
            _ if self.lacks_answers() => Outcome::Unseen,
            // A handshake without a request is complete.
            _ if self.timeline.may_be_over() || self.timeline.is_ready() => Outcome::Answered,
            _ if has_begun && ends_with_it => Outcome::Answered,
            _ if debt == Debt::Nothing(Rule::Goodbye) => Outcome::Answered,
            _ if debt == Debt::Unknown(Rule::Goodbye) => Outcome::Unclear,
            _ if self.unacknowledged_request().is_some() => Outcome::Unacknowledged,
            Some(by) if has_begun => Outcome::CutShort { by },
            Some(by) => Outcome::Closed { by },
            None => Outcome::Open,
        }
    }

    /// Returns whether the response to the request in progress would be in a direction of which the
    /// capture has no packet.
    pub(super) fn lacks_answers(&self) -> bool {
        let has_begun = self.timeline.front().is_some_and(|exchange| exchange.response_seen);
        !has_begun && !self.senders[Side::Server as usize].volume.has_packets()
    }

    /// Returns what the server owes for the client's last message, when a side closes or the capture
    /// ends.
    pub(super) fn debt_at_end(&mut self) -> Debt {
        let is_one_way = self.is_one_way();
        match self.framer.protocol() {
            // The last records of a TLS connection close it (RFC 8446 §6.1).
            Protocol::Tls if self.may_end_with_goodbye() => Debt::Nothing(Rule::Goodbye),
            _ if self.may_end_with_goodbye() => Debt::Unknown(Rule::Goodbye),
            _ if is_one_way => Debt::Nothing(Rule::OneWay),
            _ => self.timeline.debt_at_end(),
        }
    }

    /// Returns whether the client's last message may have needed no response, in a protocol that does
    /// not show which messages do: the client closed right behind it, the server received all of it
    /// and closed without data. Such are goodbyes, and data that goes one way only. A client that
    /// waits for a response closes later, or closes its side and gets a response.
    fn may_end_with_goodbye(&self) -> bool {
        let [client, server] = &self.senders;
        self.closes_behind_message()
            && self.closed_first() == Some(Side::Client)
            && self.ending().fin_ns[Side::Server as usize].is_some()
            && client.space.una_seen() >= client.space.nxt
            && server.history().holes.bytes() == 0
            && self.timeline.is_unanswered()
    }

    /// Returns whether the client closed its side right behind its last message, in a protocol that
    /// does not show which messages need a response.
    fn closes_behind_message(&self) -> bool {
        let at_once_ns = self.path.base_rtt_ns() + HOST_DELAY_MAX_NS;
        let left_ns = self.ending().fin_ns[Side::Client as usize];
        let last_ns = self.senders[Side::Client as usize].last.time_ns;
        self.is_unreadable() && left_ns.is_some_and(|left_ns| left_ns <= last_ns + at_once_ns)
    }

    /// Returns whether the server answered the message of `exchange` although the client had closed
    /// its side right behind it.
    pub fn answers_half_closed(&self, exchange: &Exchange) -> bool {
        let left_ns = self.ending().fin_ns[Side::Client as usize];
        exchange.response_seen
            && left_ns.is_some_and(|left_ns| left_ns <= exchange.answered_ns)
            && self.closes_behind_message()
    }

    /// Returns the side that closed of its own accord. A FIN that acknowledges the other side's FIN
    /// only answers it.
    fn closed_first(&self) -> Option<Side> {
        let ending = self.ending();
        let knew = |side: Side| {
            let fin = self.senders[side.peer() as usize].space.fin();
            fin.is_some_and(|fin| ending.fin_acks[side as usize] > fin)
        };
        match ending.fin_ns {
            [_, Some(_)] if !knew(Side::Server) => Some(Side::Server),
            [Some(_), _] => Some(Side::Client),
            [None, fin_ns] => fin_ns.map(|_| Side::Server),
        }
    }

    /// Returns the data that the client of the exchange in progress sent again and again, without
    /// any answer. A server that had closed has received a request, or will never see it.
    pub(super) fn unacknowledged_request(&self) -> Option<Tail> {
        let waits = self.timeline.front().is_some_and(|it| it.asks() && !it.response_seen);
        let has_closed = self.ending().fin_ns[Side::Server as usize].is_some();
        let is_watched = self.senders[Side::Server as usize].volume.has_packets();
        let client = &self.senders[Side::Client as usize];
        let tail = client.history().losses.tail_from(client.space.una_seen())?;
        (waits && !has_closed && is_watched).then_some(tail)
    }

    /// Returns whether the absence of an answer in the capture shows that none was sent: it contains
    /// packets of both sides, without holes, and no filter removed the ACKs.
    pub fn shows_silence(&self) -> bool {
        self.faults().missing_bytes == 0
            && self.senders.iter().all(|sender| sender.volume.has_packets())
            && !self.lacks_acks()
    }

    /// Returns whether the server has received the ClientHello with which `exchange` begins, and has
    /// sent nothing since then.
    pub fn awaits_server_hello(&self, exchange: &Exchange) -> bool {
        let [client, server] = &self.senders;
        self.is_in_handshake(exchange)
            && server.space.nxt <= exchange.began_at[Side::Server as usize]
            && client.space.nxt > exchange.began_at[Side::Client as usize]
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
        let ending = self.ending();
        let reset = ending.reset.filter(|reset| reset.from == side);
        let set_up = self.setup.established_ns().filter(|_| side == Side::Server);
        let times = [
            Some(self.senders[side as usize].last.time_ns),
            Some(self.senders[side.peer() as usize].una_seen_ns),
            ending.fin_ns[side as usize],
            reset.map(|reset| reset.time_ns),
            set_up,
        ];
        times.into_iter().flatten().max().unwrap_or(0)
    }

    /// Attributes the wait for a request that was never acknowledged, until the client gave up or
    /// the capture ended.
    pub(super) fn accrue_unacknowledged(&mut self) {
        let Some(tail) = self.unacknowledged_request() else { return };
        let ending = self.ending();
        let left = ending.reset.filter(|reset| reset.from == Side::Client);
        let left = ending.fin[Side::Client as usize].or(left);
        let last = left.filter(|left| left.time_ns >= tail.last.time_ns).unwrap_or(tail.last);
        self.timeline.attribute_unanswered(&tail, last);
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
