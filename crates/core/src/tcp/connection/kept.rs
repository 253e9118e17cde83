//! Exchanges that are held back because the handshake was not captured. Later traffic shows the
//! round trip, with which they are then completed.

use crate::tcp::connection::Connection;
use crate::tcp::exchange::Exchange;
use crate::tcp::shared::Shared;
use crate::tcp::sink::Sink;
use crate::wire::Side;

/// Greatest number of exchanges held back per connection. If the round trip is still unknown then,
/// they are reported as they are.
const KEPT_MAX: usize = 16;

/// Greatest number of exchanges held back in all connections of a shard, to bound memory.
const KEPT_OF_ALL_MAX: usize = 512;

impl Connection {
    /// Holds `exchange` back if only the round trip is missing. Otherwise reports the exchanges
    /// that were held back, and returns `exchange`.
    pub(super) fn keep_back(
        &mut self,
        exchange: Box<Exchange>,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) -> Option<Box<Exchange>> {
        let has_room = shared.kept < KEPT_OF_ALL_MAX;
        let waits = has_room && self.view().awaits_path() && exchange.is_of_applications();
        if !waits {
            self.count_kept(shared, sink);
            return Some(exchange);
        }
        shared.kept += 1;
        let kept = &mut self.cold.get_or_create().kept;
        kept.push(exchange);
        if kept.len() >= KEPT_MAX {
            self.count_kept(shared, sink);
        }
        None
    }

    /// Reports the exchanges that were held back, with the round trip as it is known now.
    pub(super) fn count_kept(&mut self, shared: &mut Shared, sink: &mut impl Sink) {
        let ports = [self.client().port, self.server().port];
        let Some(cold) = self.cold.get_mut() else { return };
        let known_rtts_ns = Side::ALL.map(|side| self.path.known_rtt_ns(side));
        for mut exchange in std::mem::take(&mut cold.kept) {
            shared.kept = shared.kept.saturating_sub(1);
            if self.cold.is_copy() {
                continue;
            }
            exchange.set_known_rtts(known_rtts_ns);
            self.roles.accuse_neither(&mut exchange, ports, &self.framer);
            self.count(&exchange, sink);
        }
    }
}
