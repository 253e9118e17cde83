//! Whether a ceiling of the flight, taken for a full send buffer, did limit the sender.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::{Cause, Owner};
use crate::tcp::exchange::{Chain, Change, Exchange};
use crate::tcp::path::Path;
use crate::tcp::sender::Sender;
use crate::wire::Side;

/// Refutes a send buffer as the limit of `side`.
pub(super) fn refute_ceiling(side: Side, sender: &Sender, path: &Path, exchange: &mut Exchange) {
    let buffer = |chain: &&Chain| chain.cause == Cause::SendBuffer && chain.sender == side;
    let Some(chain) = exchange.chains.iter().find(buffer) else { return };
    let greatest = sender.counts().flight_size_max_bytes;
    // A buffer that stopped the sender does not take far more at another time.
    let is_exceeded = |bytes: u64| !sender.volume.stood_at(bytes);
    if chain.gap.flight.ceiling().is_some_and(is_exceeded) {
        exchange.revise(&Change::NoCeiling { sender: side });
        return;
    }
    let rounds = CeilingRounds {
        sent_bytes: exchange.sent_bytes(side, sender.space.nxt),
        ceiling_bytes: chain.gap.flight.ceiling().unwrap_or(greatest),
        stops: chain.count.into(),
        long_stops: chain.long_count.into(),
        took_ns: chain.ns.saturating_add(exchange.ledger.of(Owner::Bandwidth)),
        rtt_ns: path.base_rtt_ns(),
    };
    if rounds.refute() {
        exchange.revise(&Change::NoCeiling { sender: side });
    }
}

/// The data that a sender sent below a ceiling of its flight.
struct CeilingRounds {
    sent_bytes: u64,
    ceiling_bytes: u64,
    /// Number of times that the sender stopped.
    stops: u64,
    /// Number of those that last half a round trip or more.
    long_stops: u64,
    /// Time of all stops and of the data on the link, ns.
    took_ns: u64,
    /// Minimum round trip, ns.
    rtt_ns: u64,
}

impl CeilingRounds {
    /// Returns whether the ceiling did not limit the sender. A full buffer stops its sender about
    /// once a round trip, and lets it send at least two thirds of its size in that time: Linux wakes
    /// a writer when a third of it is free (`sk_stream_is_writeable`). A sender that stops more than
    /// twice a round trip and is slower than that sends at a pace. Its buffer limits it too if it
    /// sends what the buffer holds, and then stands still until ACKs come: at least once in three
    /// round trips, since BBR at its slowest pace takes that long for what one round trip carried
    /// (draft-cardwell-iccrg-bbr-congestion-control §4.3.2: Drain, 0.35).
    fn refute(&self) -> bool {
        let round_ns = u128::from(self.rtt_ns + HOST_DELAY_MAX_NS);
        let ceiling = u128::from(self.ceiling_bytes.max(1));
        let rounds_ns = u64::try_from(u128::from(self.sent_bytes) * round_ns / ceiling);
        let is_slower =
            rounds_ns.is_ok_and(|ns| self.took_ns / 3 > ns.saturating_add(self.rtt_ns) / 2);
        let stops_often = self.rtt_ns.saturating_mul(self.stops) / 2 > self.took_ns;
        let stands_still = 3 * self.rtt_ns.saturating_mul(self.long_stops) >= self.took_ns;
        is_slower && stops_often && !stands_still
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_slow_sender_that_stops_often_has_no_full_buffer() {
        let with_long = |long_stops, took_ms: u64, stops| CeilingRounds {
            sent_bytes: 1_200_000,
            ceiling_bytes: 110_000,
            stops,
            long_stops,
            took_ns: took_ms * MS,
            rtt_ns: 18 * MS,
        };
        let at = |took_ms, stops| with_long(1, took_ms, stops);
        assert!(at(360, 60).refute(), "29 Mbit/s, and 49 would fit below the ceiling");
        assert!(!at(360, 20).refute(), "it stops once a round trip");
        assert!(!at(230, 60).refute(), "it is about as fast as the ceiling permits");
        assert!(!with_long(7, 360, 60).refute(), "it stands still until ACKs come back");
    }
}
