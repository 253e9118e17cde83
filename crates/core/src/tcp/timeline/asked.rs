//! Exchanges whose requests are complete: what their client says next, they do not wait for.

use super::{At, Timeline};
use crate::cause::Slices;
use crate::tcp::exchange::Exchange;
use crate::tcp::gap::Gap;
use crate::tcp::setup::Setup;
use crate::tcp::shared::Spare;

impl Timeline {
    /// Whether each exchange under way has asked all that it asks, and waits for its answer to begin.
    pub fn all_asked(&self) -> bool {
        let last = self.open.back().filter(|it| it.is_awaiting());
        last.is_some_and(|it| it.response_end.is_none())
    }

    /// Whether the response of each exchange under way is complete, if not at its client.
    pub fn all_answered(&self) -> bool {
        self.open.back().is_none_or(|exchange| exchange.response_end.is_some())
    }

    /// Since when the oldest exchange under way waits for its answer to begin, ns.
    pub fn unanswered_since(&self) -> Option<u64> {
        let oldest = self.open.iter().find(|exchange| exchange.response_end.is_none())?;
        (oldest.asked && oldest.answered_ns == 0).then_some(oldest.first.time_ns)
    }

    /// The server has spoken first, and its client waits for that since the connection was there.
    pub fn await_greeting(&mut self, at: &At, setup: &mut Setup, spare: &mut Spare) {
        let (Some(_), Some(ack)) = (setup.syn_first_ns(), setup.frames().ack) else { return };
        self.open(&At { time_ns: ack.time_ns.min(at.time_ns), seen: ack, ..*at }, setup, spare);
        if let Some(exchange) = self.open.back_mut() {
            exchange.kind = "greeting".into();
            (exchange.request_seen, exchange.asked) = (true, true);
        }
    }

    /// The oldest of the requests that began with the segment that ended `gap` was held up for it.
    pub fn hold(&mut self, gap: &Gap, slices: &Slices) {
        let began = |it: &&mut Box<Exchange>| it.first.frame == gap.next.frame && !it.connects;
        if let Some(exchange) = self.open.iter_mut().find(began) {
            slices.iter().for_each(|slice| exchange.own(slice, gap));
        }
    }

    /// The response to what was asked for last is not known to have reached its client, who has waited since.
    pub fn lose_answer(&mut self) {
        if let Some(exchange) = self.open.back_mut() {
            exchange.response_end = None;
            self.cursor_ns = exchange.end_ns;
        }
    }
}
