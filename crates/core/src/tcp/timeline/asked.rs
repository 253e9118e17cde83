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

    /// Opens an exchange for a request whose first segment comes behind others of it: it began when
    /// these passed, `at` that time. Its content, which is not yet read, has to show that it is a
    /// request.
    #[cold]
    #[inline(never)]
    pub fn anticipate(&mut self, at: &At, setup: &mut Setup) {
        self.open(at, setup);
        self.cursor_ns = at.time_ns;
        self.anticipated = true;
        if let Some(exchange) = self.exchanges.queue.back_mut() {
            exchange.request_seen = true;
        }
    }

    /// Returns whether the request that begins `at` a mark was anticipated.
    pub(super) fn take_anticipated(&mut self, at: &At) -> bool {
        let was = std::mem::take(&mut self.anticipated);
        if let Some(exchange) = self.exchanges.queue.back_mut().filter(|_| was) {
            exchange.began_at = at.positions;
            exchange.request_seen = false;
        }
        was
    }

    /// Removes the exchange of an anticipated request that was none.
    #[inline]
    pub fn forget_anticipated(&mut self, setup: &mut Setup) {
        if std::mem::take(&mut self.anticipated) {
            let exchange = self.exchanges.queue.pop_front();
            setup.claimed &= !exchange.is_some_and(|it| it.connects);
        }
    }
}
