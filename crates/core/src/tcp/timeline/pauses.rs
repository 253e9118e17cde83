//! Pauses of a server within what may be its answer: waited for, or unasked.

use super::*;
use crate::tcp::pause::Saved;

impl Timeline {
    /// The server was silent for `all_ns` since `since_ns`, `own_ns` of which are its own, and goes
    /// on from `position`.
    pub fn pause(&mut self, (own_ns, all_ns): (u64, u64), since_ns: u64, position: u64) {
        let is_over = self.may_be_over();
        self.paused_now = own_ns >= PAUSE_MIN_NS && is_over;
        if own_ns < PAUSE_MIN_NS && all_ns >= PAUSE_MIN_NS && is_over {
            self.manner.held();
        }
        if let Some(exchange) = self.open.back_mut().filter(|_| self.paused_now) {
            exchange.pause(own_ns, since_ns, position);
        }
    }

    /// When the last pause of the exchange under way began, ns.
    pub fn paused_since_ns(&self) -> Option<u64> {
        let pauses = self.open.back()?.pauses.as_ref()?;
        Some(pauses.last_since_ns)
    }

    /// What came after the last pause belongs to no exchange.
    pub fn end_before_pause(&mut self) {
        if let Some(exchange) = self.open.back_mut() {
            exchange.end_before_pause();
            self.manner.unasked = self.manner.unasked.saturating_add(1);
        }
    }

    /// The exchange under way as it stands, if it may be over.
    #[cold]
    #[inline(never)]
    pub fn save(&self) -> Option<Box<Saved>> {
        let exchange = self.open.back().filter(|_| self.may_be_over())?;
        Some(Box::new(Saved::of(exchange)))
    }

    /// What came since the exchange under way was `saved` belongs to none.
    #[cold]
    #[inline(never)]
    pub fn end_at(&mut self, saved: Saved) {
        if let Some(exchange) = self.open.back_mut() {
            saved.restore(exchange);
            self.manner.unasked = self.manner.unasked.saturating_add(1);
        }
    }

    /// The client went on at `next_ns`, or never did (`None`); the server's stream stands at
    /// `position`.
    pub fn settle_pauses(&mut self, next_ns: Option<u64>, rtt_client_ns: u64, position: u64) {
        let Self { open, manner, open_ended, .. } = self;
        let paused = open.iter_mut().filter(|it| *open_ended || it.endless);
        paused.for_each(|it| it.settle_pauses(next_ns, rtt_client_ns, position, manner));
    }

    /// The connection ends, and nothing was ever answered on it. Whether its client only ever sent,
    /// when it had something to send: nobody waits then, neither between nor at the end.
    pub fn is_one_way(&mut self) -> bool {
        if let Some(exchange) = self.open.front_mut() {
            let unanswered = exchange.request_seen && !exchange.response_seen;
            self.one_way |= self.open_ended && unanswered && exchange.drop_pauses();
        }
        self.one_way
    }
}
