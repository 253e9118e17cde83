//! Pauses of a server in what may be its response: either the client waits, or the data is
//! unsolicited.

use crate::tcp::owed::Debt;
use crate::tcp::thresholds::STREAM_PAUSE_MIN_NS;
use crate::tcp::timeline::Timeline;

impl Timeline {
    /// Returns whether the server was of its own accord silent for `own_ns` after what may have been
    /// the end of its response.
    pub fn is_pause(&self, own_ns: u64) -> bool {
        own_ns >= STREAM_PAUSE_MIN_NS && self.may_be_over()
    }

    /// Processes a silence of the server of `all_ns`, of which `own_ns` was the server's own time, and
    /// after which it continues from `position`.
    pub fn pause(&mut self, (own_ns, all_ns): (u64, u64), position: u64) {
        if self.is_pause(own_ns) {
            if let Some(exchange) = self.exchanges.queue.back_mut() {
                exchange.pause(own_ns, position);
            }
        } else if all_ns >= STREAM_PAUSE_MIN_NS && self.may_be_over() {
            self.pattern.held();
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
