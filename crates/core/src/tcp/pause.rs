//! Pauses of a server in what may be its answer, where the protocol does not say how far that goes:
//! did its client wait for what came after? A feed, a heartbeat, an event come unasked.

use crate::report::Shares;
use crate::tcp::exchange::{Chain, Exchange};
use crate::tcp::sent::Sighting;

/// A shorter pause is the server's work, whoever waits.
pub const PAUSE_MIN_NS: u64 = 20_000_000;

/// What fits a first window (RFC 6928) is a message. More is a transfer, and somebody waits for it.
pub const MESSAGE_MAX_BYTES: u64 = 14_600;

/// So many pauses in a row that nobody went on after are a stream.
const STREAM_PAUSES: u32 = 2;

/// An exchange as it stood.
#[derive(Clone, Debug)]
pub struct Saved {
    ledger: Shares,
    chains: Vec<Chain>,
    end_ns: u64,
    last: Sighting,
}

/// The pauses in one answer.
#[derive(Clone, Debug)]
pub struct Pauses {
    before_first: Saved,
    before_last: Saved,
    /// When the last one began, ns.
    pub last_since_ns: u64,
    /// Where the server's stream stood at the first.
    position: u64,
    count: u32,
    longest_ns: u64,
}

/// What a connection has shown of the way its server answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// It has answered without a pause, or sent what nobody waited for.
    whole: bool,
    /// Answers in several parts, after which its client went on at once.
    in_parts: u8,
    /// Answers with pauses after which it did not.
    apart: u8,
    /// Messages that nobody waited for.
    pub unasked: u32,
    /// It was asked for something without a rest of the client in between.
    pub asked_at_once: bool,
}

impl Manner {
    /// An answer stood still for a reason that is not its application's: it has several parts.
    pub fn held(&mut self) {
        self.in_parts = self.in_parts.saturating_add(1);
    }
}

impl Saved {
    /// As it stands.
    pub fn of(exchange: &Exchange) -> Self {
        Self {
            ledger: exchange.ledger.clone(),
            chains: exchange.chains.clone(),
            end_ns: exchange.end_ns,
            last: exchange.last,
        }
    }

    /// Makes it so again.
    pub fn restore(self, exchange: &mut Exchange) {
        exchange.ledger = self.ledger;
        exchange.chains = self.chains;
        exchange.end_ns = self.end_ns;
        exchange.last = self.last;
    }
}

impl Exchange {
    /// Its server has been silent for `own_ns` of its own since `since_ns`, and goes on from
    /// `position` of its stream.
    pub(super) fn pause(&mut self, own_ns: u64, since_ns: u64, position: u64) {
        let saved = Saved::of(self);
        match &mut self.pauses {
            Some(pauses) => {
                pauses.before_last = saved;
                pauses.last_since_ns = since_ns;
                pauses.count += 1;
                pauses.longest_ns = pauses.longest_ns.max(own_ns);
            }
            None => {
                self.pauses = Some(Box::new(Pauses {
                    before_first: saved.clone(),
                    before_last: saved,
                    last_since_ns: since_ns,
                    position,
                    count: 1,
                    longest_ns: own_ns,
                }));
            }
        }
    }

    /// What came after its last pause does not belong to it.
    pub(super) fn end_before_pause(&mut self) {
        let Some(mut pauses) = self.pauses.take() else { return };
        pauses.before_last.clone().restore(self);
        pauses.count -= 1;
        if pauses.count > 0 {
            self.pauses = Some(pauses);
        }
    }

    /// Its client went on at `next_ns` (`None`: never), `rtt_client_ns` away, when its server's
    /// stream stood at `position`. Who waits goes on as soon as it has all: after a fraction of
    /// what it has waited. What nobody waited for is taken out again where the server has shown
    /// that it does not answer in parts.
    pub(super) fn settle_pauses(
        &mut self,
        next_ns: Option<u64>,
        rtt_client_ns: u64,
        position: u64,
        manner: &mut Manner,
    ) {
        let Some(pauses) = self.pauses.take() else {
            manner.whole |= self.response_seen;
            return;
        };
        let idle_ns = next_ns.map(|at_ns| at_ns.saturating_sub(self.end_ns + rtt_client_ns));
        let waited = idle_ns.is_some_and(|idle_ns| idle_ns <= pauses.longest_ns / 10);
        let sent_bytes = position.saturating_sub(pauses.position);
        if waited || sent_bytes > MESSAGE_MAX_BYTES * u64::from(pauses.count) {
            manner.in_parts = manner.in_parts.saturating_add(1);
            return;
        }
        manner.apart = manner.apart.saturating_add(1);
        let is_stream = pauses.count >= STREAM_PAUSES;
        if is_stream || manner.whole && manner.apart > manner.in_parts {
            manner.whole = true;
            manner.unasked = manner.unasked.saturating_add(pauses.count);
            pauses.before_first.restore(self);
        }
    }
}
