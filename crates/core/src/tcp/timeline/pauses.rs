//! Pauses of a server in what may be its response: either the client waits, or the data is
//! unsolicited.

use crate::tcp::owed::Debt;
use crate::tcp::pause::Saved;
use crate::tcp::thresholds::STREAM_PAUSE_MIN_NS;
use crate::tcp::timeline::Timeline;

impl Timeline {
    /// Processes a silence of the server of `all_ns` since `since_ns`, of which `own_ns` was the
    /// server's own time, and after which it continues from `position`.
    pub fn pause(&mut self, (own_ns, all_ns): (u64, u64), since_ns: u64, position: u64) {
        let is_over = self.may_be_over();
        self.paused_now = own_ns >= STREAM_PAUSE_MIN_NS && is_over;
        if own_ns < STREAM_PAUSE_MIN_NS && all_ns >= STREAM_PAUSE_MIN_NS && is_over {
            self.pattern.held();
        }
        if let Some(exchange) = self.exchanges.queue.back_mut().filter(|_| self.paused_now) {
            exchange.pause(own_ns, since_ns, position);
        }
    }

    /// Removes the data after the last pause from the exchange. It was a message of the server's own
    /// accord unless it `ends` the connection.
    pub fn end_before_pause(&mut self, ends: bool) {
        if let Some(exchange) = self.exchanges.queue.back_mut() {
            exchange.end_before_pause();
            let count = u32::from(!ends);
            self.pattern.unsolicited = self.pattern.unsolicited.saturating_add(count);
        }
    }

    /// Copies the state of the exchange in progress, if that may be over.
    #[cold]
    #[inline(never)]
    pub fn save(&self) -> Option<Box<Saved>> {
        let exchange = self.exchanges.queue.back().filter(|_| self.may_be_over())?;
        Some(Box::new(Saved::of(exchange)))
    }

    /// Restores the state `saved` of the exchange in progress: later data belongs to no exchange.
    #[cold]
    #[inline(never)]
    pub fn end_at(&mut self, saved: Saved) {
        if let Some(exchange) = self.exchanges.queue.back_mut() {
            saved.restore(exchange);
            self.pattern.unsolicited = self.pattern.unsolicited.saturating_add(1);
        }
    }

    /// Decides about the pauses once the client continues at `next_ns` (`None`: it never does) with a
    /// message for which the server owes `next`; the server's stream is at `position`.
    pub fn settle_pauses(
        &mut self,
        next_ns: Option<u64>,
        rtt_client_ns: u64,
        position: u64,
        next: Debt,
    ) {
        let Self { exchanges, pattern, open_ended, .. } = self;
        let paused = exchanges.queue.iter_mut().filter(|it| *open_ended || it.endless);
        paused.for_each(|it| it.settle_pauses(next_ns, rtt_client_ns, position, next, pattern));
    }

    /// Decides at the end of a connection: returns whether nothing was answered on it, as far as it
    /// `has_exchanged`, and its client only sent data when it had some. Nothing waits then, neither
    /// between the data nor at the end.
    pub fn is_one_way(&mut self, has_exchanged: bool) -> bool {
        if has_exchanged {
            return false;
        }
        if let Some(exchange) = self.exchanges.queue.front_mut() {
            let unanswered = exchange.request_seen && !exchange.response_seen;
            self.one_way |= self.open_ended && unanswered && exchange.drop_pauses();
        }
        self.one_way
    }
}
