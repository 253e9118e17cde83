//! Decides for pauses of a server, in a response whose end the protocol does not announce, whether
//! the client waited for the data that followed. Feeds, heartbeats and events are unsolicited.

use crate::judge::thresholds::{AT_ONCE_PART, INITIAL_WINDOW_BYTES};
use crate::model::Sighting;
use crate::tcp::exchange::{Account, Chain, Exchange};
use crate::tcp::owed::{Debt, Receipts};
use crate::tcp::thresholds::STREAM_PAUSES;

/// Copy of the state of an exchange, which can be restored.
#[derive(Clone, Debug)]
pub struct Saved {
    ledger: Account,
    chains: Vec<Chain>,
    end_ns: u64,
    last: Sighting,
}

/// The pauses in one response.
#[derive(Clone, Debug)]
pub struct Pauses {
    before_first: Saved,
    /// Position of the server's stream at the first pause.
    position: u64,
    count: u32,
    longest_ns: u64,
}

/// The pattern in which the server of a connection sends, learnt from its responses so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerPattern {
    /// `true` if the server has sent a response without a pause, or messages that no client waited
    /// for.
    whole: bool,
    /// Number of responses in several parts after which the client continued at once.
    in_parts: u8,
    /// Number of responses with pauses after which the client did not continue at once.
    apart: u8,
    /// Number of messages that no client waited for.
    pub unsolicited: u32,
    /// The content does not show which messages are requests, see [`Framer::hides_dialogue`].
    ///
    /// [`Framer::hides_dialogue`]: crate::app::Framer::hides_dialogue
    pub hides_dialogue: bool,
    /// The client has sent a request without a pause within it.
    pub asked_at_once: bool,
    /// The client's receipts for the server's own messages, in a protocol that does not show them.
    pub receipts: Receipts,
}

impl ServerPattern {
    /// Returns whether each message of the server so far may have answered one of the client: none came
    /// by itself, or after a pause of the server.
    pub fn is_strict(&self) -> bool {
        self.unsolicited == 0 && self.in_parts == 0 && self.apart == 0
    }

    /// Counts a response in several parts whose interruption was not due to the application.
    pub fn held(&mut self) {
        self.in_parts = self.in_parts.saturating_add(1);
    }
}

impl Saved {
    /// Copies the state of `exchange`.
    pub fn of(exchange: &Exchange) -> Self {
        Self {
            ledger: exchange.ledger.clone(),
            chains: exchange.chains.clone(),
            end_ns: exchange.end_ns,
            last: exchange.last,
        }
    }

    /// Restores this state in `exchange`.
    pub fn restore(self, exchange: &mut Exchange) {
        exchange.ledger = self.ledger;
        exchange.chains = self.chains;
        exchange.end_ns = self.end_ns;
        exchange.last = self.last;
    }
}

impl Exchange {
    /// Records a pause of the server: it was silent for `own_ns` of its own accord, and continues at
    /// `position` of its stream.
    pub(super) fn pause(&mut self, own_ns: u64, position: u64) {
        match &mut self.pauses {
            Some(pauses) => {
                pauses.count += 1;
                pauses.longest_ns = pauses.longest_ns.max(own_ns);
            }
            None => {
                let before_first = Saved::of(self);
                let pauses = Pauses { before_first, position, count: 1, longest_ns: own_ns };
                self.pauses = Some(Box::new(pauses));
            }
        }
    }

    /// Decides whether the client waited during the pauses, once it continues at `next_ns` (`None`:
    /// it never does) and the server's stream is at `position`; `rtt_client_ns` is the round trip
    /// to the client. A client that waits continues as soon as it has the whole response, which
    /// takes a fraction of the time that it waited. Data that no client waited for is removed from
    /// the exchange if the server is known not to send responses in parts, if the client may only
    /// acknowledge it (`next` is what the server owes for the message with which the client
    /// continues), if it never asked for anything, or if the content does not show that the data is a
    /// response at all: it may be an event, or a goodbye.
    pub(super) fn settle_pauses(
        &mut self,
        next_ns: Option<u64>,
        rtt_client_ns: u64,
        position: u64,
        next: Debt,
        pattern: &mut ServerPattern,
    ) {
        let Some(pauses) = self.pauses.take() else {
            pattern.whole |= self.response_seen;
            return;
        };
        let idle_ns = next_ns.map(|at_ns| at_ns.saturating_sub(self.end_ns + rtt_client_ns));
        let at_once = idle_ns.is_some_and(|idle_ns| idle_ns <= pauses.longest_ns / AT_ONCE_PART);
        let waited = at_once && next == Debt::Response;
        let sent_bytes = position.saturating_sub(pauses.position);
        if waited || sent_bytes > INITIAL_WINDOW_BYTES * u64::from(pauses.count) {
            pattern.in_parts = pattern.in_parts.saturating_add(1);
            return;
        }
        pattern.apart = pattern.apart.saturating_add(1);
        let is_stream = pauses.count >= STREAM_PAUSES;
        let never_asked = !self.request_seen && !self.endless;
        let is_whole = pattern.whole && pattern.apart > pattern.in_parts;
        let is_unasked = is_stream || at_once || never_asked || is_whole;
        if is_unasked {
            pattern.whole = true;
            pattern.unsolicited = pattern.unsolicited.saturating_add(pauses.count);
        }
        if is_unasked || pattern.hides_dialogue {
            pauses.before_first.restore(self);
        }
    }
}
