//! Fast path of the timeline: requests and responses of one segment, with nothing else in progress.

use crate::app::Label;
use crate::model::{Outcome, Sighting};
use crate::tcp::exchange::Exchange;
use crate::tcp::timeline::Timeline;
use crate::wire::{BySide, Side};
use std::num::NonZeroU64;

impl Timeline {
    /// Returns whether the only exchange in progress has a complete response, which ends at `end`
    /// and is on its way to the client.
    #[inline]
    pub fn is_answered_up_to(&self, end: u64) -> bool {
        let only = self.exchanges.queue.only().and_then(|exchange| exchange.response_end);
        only.map(NonZeroU64::get) == Some(end)
            && self.active == Some(Side::Server)
            && self.done.is_empty()
    }

    /// Ends the exchange that [`is_answered_up_to`](Self::is_answered_up_to) found, whose response
    /// has arrived without delay.
    #[inline]
    pub fn retire_only(&mut self, rtt_client_ns: u64) -> Option<Box<Exchange>> {
        self.retire_at = u64::MAX;
        self.take_front(rtt_client_ns, Outcome::Answered)
    }

    /// Adds an exchange of this `kind`, whose whole request came with the ACK of the last response.
    #[inline]
    pub fn ask(&mut self, seen: Sighting, positions: BySide<u64>, kind: &Label) {
        let mut exchange = Exchange::begin(seen, seen.time_ns);
        (exchange.began_at, exchange.idle_ns) = (positions, self.paused_ns);
        (exchange.request_seen, exchange.asked) = (true, true);
        exchange.kind = *kind;
        self.exchanges.queue.push_back(exchange);
    }

    /// Records that the whole response passed at `now_ns`; it ends at `end`.
    #[inline]
    pub fn answer(&mut self, now_ns: u64, end: u64) {
        self.retire_at = self.retire_at.min(end);
        if let Some(exchange) = self.exchanges.queue.front_mut() {
            exchange.response_seen = true;
            exchange.answered_ns = now_ns;
            exchange.response_end = NonZeroU64::new(end);
        }
    }

    /// Moves the cursor to expected data of `side`.
    #[inline]
    pub fn pass(&mut self, side: Side, now_ns: u64) {
        self.move_to(now_ns);
        self.active = Some(side);
        self.open_ended = false;
    }
}
