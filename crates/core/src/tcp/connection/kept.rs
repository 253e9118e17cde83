//! Exchanges without a handshake before them, whose path nobody knows yet: what is sent later shows it, and they
//! are judged by that.

use super::*;

/// So many exchanges are kept for that. Where nothing has shown the path by then, they are told as they are.
const KEPT_MAX: usize = 16;

/// So many are kept of all connections of a shard: what one takes is bounded, and how many there are is not.
const KEPT_OF_ALL_MAX: usize = 512;

impl Connection {
    /// Whether there was an exchange.
    pub(super) fn has_exchanged(&self) -> bool {
        self.totals.exchanges > 0 || self.cold.as_ref().is_some_and(|cold| !cold.kept.is_empty())
    }

    /// Whether an exchange that is over now waits for what shows the path.
    pub(super) fn awaits_path(&self) -> bool {
        let settled = Side::ALL.into_iter().all(|side| self.path.is_settled(side));
        self.mid_stream && !settled && self.totals.exchanges == 0
    }

    /// Keeps `exchange` until the path is known, if only that is missing; answers it otherwise, and what was kept
    /// before is told.
    pub(super) fn keep_back(
        &mut self,
        exchange: Box<Exchange>,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) -> Option<Box<Exchange>> {
        let has_room = shared.kept < KEPT_OF_ALL_MAX;
        let waits = has_room && self.awaits_path() && exchange.is_of_applications();
        if !waits {
            self.tell_kept(shared, sink);
            return Some(exchange);
        }
        shared.kept += 1;
        let kept = &mut self.cold_mut().kept;
        kept.push(exchange);
        if kept.len() >= KEPT_MAX {
            self.tell_kept(shared, sink);
        }
        None
    }

    /// Tells what was kept, with what is known of the path now.
    pub(super) fn tell_kept(&mut self, shared: &mut Shared, sink: &mut impl Sink) {
        let Some(cold) = self.cold.as_mut() else { return };
        let ways_ns = Side::ALL.map(|side| self.path.way_ns(side));
        for mut exchange in std::mem::take(&mut cold.kept) {
            shared.kept = shared.kept.saturating_sub(1);
            if self.is_copy() {
                shared.spare.keep(exchange);
                continue;
            }
            exchange.learn_ways(ways_ns);
            self.tell(exchange, shared, sink);
        }
    }
}
