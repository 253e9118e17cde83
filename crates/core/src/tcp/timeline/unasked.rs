//! Messages of a client that ask for nothing, where the protocol does not say which do: HTTP/2 in TLS
//! acknowledges settings and opens windows, a tunnel closes its channels. Nobody waits behind them.

use super::Timeline;
use crate::app::Side;
use crate::cause::{Cause, Owner, Slices};
use crate::tcp::exchange::Exchange;
use crate::tcp::gap::{Gap, Turn};
use crate::tcp::pause::{MESSAGE_MAX_BYTES, PAUSE_MIN_NS};

/// A record with the longest control frame of HTTP/2, PING or GOAWAY (RFC 9113 §6.7, §6.8): header, explicit
/// nonce and tag (RFC 5288), and 17 bytes. A request is longer.
const CONTROL_BYTES: u64 = 5 + 8 + 16 + 17;

impl Timeline {
    /// Before `gap`, which ends with the server's answer, the client had said something, had rested,
    /// and had gone on. A server that answers at once what came last would have answered what came
    /// first: that asked for nothing, and the request began when the client went on. So it is where
    /// this client is known to ask without a rest; `sent` is where its stream stands.
    pub fn settle_rests(&mut self, gap: &Gap, slices: &Slices, sent: u64) {
        let answers = gap.sender == Side::Server && gap.turn == Turn::Answers && gap.next_len > 0;
        if !answers || !self.open_ended {
            return;
        }
        let asks_at_once = self.manner.asked_at_once;
        let Some(exchange) = self.open.front_mut().filter(|it| it.is_unanswered()) else { return };
        let rested = exchange.chains.iter().find(|chain| chain.cause == Cause::ClientThink);
        let Some(rest) = rested.filter(|rest| rest.longest_ns >= PAUSE_MIN_NS) else {
            self.manner.asked_at_once = true;
            return;
        };
        let own = slices.iter().filter(|slice| slice.owner == Owner::Server);
        let at_once = own.map(|slice| slice.ns).sum::<u64>() <= rest.longest_ns / 10;
        let short = sent.saturating_sub(exchange.began_at[0]) <= MESSAGE_MAX_BYTES;
        let is_first = exchange.connects || exchange.handshake.is_some();
        if asks_at_once && at_once && short && !is_first {
            exchange.begin_behind(&rest.gap.clone());
        }
    }

    /// The client has left at `left_ns`, before an answer to what it had said last could have reached it
    /// over a round trip of `rtt_ns`: it asked for nothing.
    pub fn forget_goodbye(&mut self, left_ns: u64, rtt_ns: u64) {
        if !self.open_ended || !self.manner.asked_at_once {
            return;
        }
        let before_answer = |it: &&mut Box<Exchange>| left_ns <= it.first.time_ns + rtt_ns;
        let unanswered = self.open.front_mut().filter(|it| it.is_unanswered());
        if let Some(exchange) = unanswered.filter(before_answer) {
            exchange.request_seen = exchange.connects || exchange.handshake.is_some();
        }
    }

    /// The client has closed, and its server with it: what it had said last asked for nothing.
    pub fn expect_nothing(&mut self) {
        if let Some(exchange) = self.open.front_mut().filter(|it| it.is_unanswered()) {
            exchange.request_seen = false;
        }
    }

    /// A TLS server closes, long after the client's last data, which took `last_bytes`; the streams stand at
    /// `positions`. Where neither has said more than control frames take since the last exchange,
    /// nobody has asked for anything, nor answered: the connection was idle.
    pub fn forget_farewell(&mut self, last_bytes: u64, positions: [u64; 2]) {
        if !self.open_ended || !self.manner.asked_at_once {
            return;
        }
        let Some(exchange) = self.open.front_mut() else { return };
        let said =
            |side: Side| positions[side as usize].saturating_sub(exchange.began_at[side as usize]);
        let short = u64::from(exchange.first.payload_bytes).max(last_bytes) <= CONTROL_BYTES
            && Side::ALL.into_iter().all(|side| said(side) <= 2 * CONTROL_BYTES);
        if short && !exchange.connects && exchange.handshake.is_none() {
            exchange.request_seen = false;
            exchange.response_seen = false;
        }
    }
}

impl Exchange {
    /// Asked for, and nothing of the answer has come.
    fn is_unanswered(&self) -> bool {
        self.request_seen && !self.response_seen && !self.endless
    }

    /// What was said before `rest` is no part of it.
    fn begin_behind(&mut self, rest: &Gap) {
        self.take_pauses_out();
        self.idle_ns = rest.len_ns();
        self.start_ns = rest.end_ns;
        self.first = rest.next;
    }
}
