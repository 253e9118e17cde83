//! Exchanges whose request is complete: they do not wait for later data of their client.

use super::{At, Timeline};
use crate::tcp::setup::Setup;

impl Timeline {
    /// Adds an exchange for a server that sent the first data, if this was not captured: the client
    /// has waited since the connection was established.
    pub fn await_greeting(&mut self, at: &At, setup: &mut Setup) {
        let (Some(_), Some(ack)) = (setup.syn_first_ns(), setup.frames().ack) else { return };
        self.open(&At { time_ns: ack.time_ns.min(at.time_ns), seen: ack, ..*at }, setup);
        if let Some(exchange) = self.exchanges.queue.back_mut() {
            exchange.kind = "greeting".into();
            (exchange.request_seen, exchange.asked) = (true, true);
        }
    }

    /// Reopens the last response: it is not known to have reached the client, which has waited
    /// since then.
    pub fn reopen_response(&mut self) {
        if let Some(exchange) = self.exchanges.queue.back_mut() {
            exchange.response_end = None;
            self.cursor_ns = exchange.end_ns;
        }
    }
}
