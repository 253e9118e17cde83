//! Round trips to an endpoint: their duration, and the number that exchanges needed.

use crate::judge::thresholds::{ALIKE_PART, HABIT_MIN};
use crate::model::Histogram;
use crate::tcp::{Connection, Exchange};
use crate::wire::Side;

/// Round trips to an endpoint.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct RoundTrips {
    /// Base round trips of the connections.
    pub base: Histogram,
    /// The round trip between the vantage and the server was measured on some connection.
    pub leg_known: bool,
    /// Least upper bound of that round trip, ns, if connections show one.
    pub leg_max_ns: Option<u64>,
    /// Greatest time of an answer that may be that round trip, ns: it is counted as unknown. `None` if
    /// the round trip is known, and until all connections are counted.
    pub undivided_ns: Option<u64>,
    /// Number of connections on which a host nearer than the server seems to acknowledge in its name.
    pub nearer: u64,
    /// Number of connections on which such a host may acknowledge: the handshake and each answer took
    /// much longer than an ACK.
    pub perhaps_nearer: u64,
    /// Most time by which the handshake, or else each answer, of one of these took longer than an ACK, ns.
    pub beyond_ns: u64,
    /// Number of these on which an answer took as long as the handshake, which no host nearer sends.
    pub relayed: u64,
    /// Number of exchanges of which no response was seen.
    pub unanswered: u64,
    /// Number of waits for a round trip in the middle of messages.
    pub waits: u64,
    /// Number of waits for a peer's application to grant more data, which looked like a small
    /// buffer.
    pub granted: u64,
    /// Time of these waits by the side of the sender that waited, ns.
    pub granted_ns: [u64; 2],
    /// Number of exchanges without a queueing delay after another on their connection that had one.
    pub drained: u64,
    /// Most by which a packet of a connection was on its way for a shorter time than an earlier one of its
    /// sender, ns, as timestamps show.
    pub fell_ns: u64,
    /// Time by which the path became permanently longer than its base, ns: the sum over all
    /// exchanges, and the median.
    pub longer_ns: [u64; 2],
}

impl RoundTrips {
    pub(super) fn connection(&mut self, connection: &Connection) {
        let path = &connection.path;
        self.leg_known |= path.is_known(Side::Server);
        if path.has_sample(Side::Server) {
            self.bound_leg(path.rtt_ns(Side::Server));
        }
        connection.cold.acked_within_ns().into_iter().for_each(|ns| self.bound_leg(ns));
        let fell_ns = connection.senders.iter().map(|sender| sender.clock.fell_ns()).max();
        self.fell_ns = self.fell_ns.max(fell_ns.unwrap_or(0));
        self.nearer += u64::from(connection.view().is_acknowledged_nearer());
        let beyond_ns = connection.view().beyond_nearer_ns();
        self.perhaps_nearer += u64::from(beyond_ns.is_some());
        self.beyond_ns = self.beyond_ns.max(beyond_ns.unwrap_or(0));
        self.relayed += u64::from(connection.view().relayed_rtt_ns().is_some());
        self.record(connection.view().relayed_rtt_ns().unwrap_or_else(|| path.known_base_rtt_ns()));
    }

    pub(super) fn exchange(&mut self, exchange: &Exchange, drained: bool) {
        self.unanswered += u64::from(!exchange.response_seen);
        self.waits += u64::from(exchange.path_waits);
        self.drained += u64::from(drained);
    }

    /// Returns whether most of `connections` have ACKs of a host nearer than the server. A handshake may
    /// be slow by itself, but not by chance on each of several connections.
    pub fn are_acknowledged_nearer(&self, connections: u64) -> bool {
        2 * self.nearer > connections && (self.relayed > 0 || self.nearer >= HABIT_MIN.into())
    }

    /// Returns whether waits of `wait_ns` may be mostly the way behind a host nearer than the server: most
    /// of `connections` may have its ACKs, and the way behind it may take at least half as long.
    pub fn may_be_behind_nearer(&self, connections: u64, wait_ns: u64) -> bool {
        2 * self.perhaps_nearer > connections && 2 * self.beyond_ns >= wait_ns
    }

    /// Round trip that each exchange needs, ns: the least of all connections.
    pub fn needed_ns(&self) -> u64 {
        self.base.points().next().map_or(0, |(ns, _)| ns)
    }

    /// Returns whether a round trip may take `ns`: it is alike to a base round trip, or between two of
    /// them.
    pub fn may_take(&self, ns: u64) -> bool {
        let least_ns = self.needed_ns();
        let most_ns = self.base.points().last().map_or(0, |(ns, _)| ns);
        least_ns - least_ns / ALIKE_PART <= ns && ns <= most_ns + most_ns / ALIKE_PART
    }

    fn record(&mut self, base_ns: u64) {
        if base_ns > 0 {
            self.base.record(base_ns);
        }
    }

    fn bound_leg(&mut self, rtt_ns: u64) {
        let known_ns = self.leg_max_ns.get_or_insert(rtt_ns);
        *known_ns = rtt_ns.min(*known_ns);
    }

    /// Adds all of `other`. By how much the path became longer is known only after all are added.
    pub(super) fn merge(&mut self, other: &Self) {
        self.base.merge(&other.base);
        self.leg_known |= other.leg_known;
        other.leg_max_ns.into_iter().for_each(|rtt_ns| self.bound_leg(rtt_ns));
        self.nearer += other.nearer;
        self.perhaps_nearer += other.perhaps_nearer;
        self.beyond_ns = self.beyond_ns.max(other.beyond_ns);
        self.relayed += other.relayed;
        self.unanswered += other.unanswered;
        self.waits += other.waits;
        self.granted += other.granted;
        for (mine_ns, theirs_ns) in self.granted_ns.iter_mut().zip(other.granted_ns) {
            *mine_ns += theirs_ns;
        }
        self.drained += other.drained;
        self.fell_ns = self.fell_ns.max(other.fell_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_bound_of_the_leg_is_kept() {
        let [mut one, mut other] = [RoundTrips::default(), RoundTrips::default()];
        one.merge(&other);
        assert_eq!(one.leg_max_ns, None);
        other.bound_leg(7);
        other.bound_leg(9);
        one.merge(&other);
        assert_eq!((one.leg_max_ns, one.leg_known), (Some(7), false));
    }

    #[test]
    fn a_round_trip_takes_about_as_long_as_one_that_was_measured() {
        let mut sums = RoundTrips::default();
        [80, 160].into_iter().for_each(|ns| sums.record(ns));
        assert_eq!([70, 90, 120, 180].map(|ns| sums.may_take(ns)), [true; 4]);
        assert_eq!([4, 60, 200, 950].map(|ns| sums.may_take(ns)), [false; 4]);
    }

    #[test]
    fn an_unknown_base_is_not_counted() {
        let mut sums = RoundTrips::default();
        sums.record(0);
        sums.record(5);
        assert_eq!(sums.base.count(), 1);
    }
}
