//! Exchanges whose request is complete: they do not wait for later data of their client.

use super::{At, Timeline};
use crate::judge::Gap;
use crate::model::Slices;
use crate::tcp::exchange::Exchange;
use crate::tcp::setup::Setup;

impl Timeline {
    /// Returns whether every exchange in progress has its complete request and waits for its
    /// response to begin.
    pub fn all_asked(&self) -> bool {
        let last = self.open.back().filter(|it| it.is_awaiting());
        last.is_some_and(|it| it.response_end.is_none())
    }

    /// Returns whether every response in progress is complete, though possibly not yet at the
    /// client.
    pub fn all_answered(&self) -> bool {
        self.open.back().is_none_or(|exchange| exchange.response_end.is_some())
    }

    /// Position of the client's stream at which the only request in progress begins, and the time
    /// of that, ns; `None` if an answer has begun.
    pub fn asked_at(&self) -> Option<(u64, u64)> {
        let exchange = self.open.only().filter(|_| self.is_unanswered())?;
        Some(exchange.asked_at)
    }

    /// Time since which the oldest exchange in progress waits for its response to begin, ns.
    pub fn unanswered_since(&self) -> Option<u64> {
        let oldest = self.open.iter().find(|exchange| exchange.response_end.is_none())?;
        (oldest.asked && oldest.answered_ns == 0).then_some(oldest.first.time_ns)
    }

    /// Adds an exchange for a server that sent the first data, if this was not captured: the client
    /// has waited since the connection was established.
    pub fn await_greeting(&mut self, at: &At, setup: &mut Setup) {
        let (Some(_), Some(ack)) = (setup.syn_first_ns(), setup.frames().ack) else { return };
        self.open(&At { time_ns: ack.time_ns.min(at.time_ns), seen: ack, ..*at }, setup);
        if let Some(exchange) = self.open.back_mut() {
            exchange.kind = "greeting".into();
            (exchange.request_seen, exchange.asked) = (true, true);
        }
    }

    /// Attributes `gap` to the oldest of the requests that began with the segment that ended it.
    pub fn hold(&mut self, gap: &Gap, slices: &Slices) {
        let began = |it: &&mut Box<Exchange>| it.first.frame == gap.next.frame && !it.connects;
        if let Some(exchange) = self.open.iter_mut().find(began) {
            slices.iter().for_each(|slice| exchange.attribute(slice, gap));
        }
    }

    /// Reopens the last response: it is not known to have reached the client, which has waited
    /// since then.
    pub fn reopen_response(&mut self) {
        if let Some(exchange) = self.open.back_mut() {
            exchange.response_end = None;
            self.cursor_ns = exchange.end_ns;
        }
    }
}
