//! Connection set-ups at an endpoint.

use crate::findings::causes::syn_flood::Flood;
use crate::judge::thresholds::APPLICATION_TIMEOUT_MIN_NS;
use crate::tcp::{Connection, Exchange};

/// Sums of the connection set-ups at an endpoint.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct SetUps {
    /// Number of connections that were set up.
    pub established: u64,
    /// Number of connection attempts that a SYN-ACK answered.
    pub answered: u64,
    /// Number of connections whose SYN was sent more than once.
    pub repeated: u64,
    /// SYNs that were never followed by a completed handshake.
    pub flood: Flood,
    /// Number of exchanges that included a set-up.
    pub exchanges: u64,
    /// Number of connections that the server closed because they were idle.
    pub closed_idle: u64,
    /// Number of connections of HTTP/1 that the server closed right behind an answer, and nobody had asked it
    /// to.
    pub closed_unasked: u64,
    /// Time that set-ups took beyond a round trip, so that distance does not explain it, ns.
    pub late_ns: u64,
}

impl SetUps {
    /// Counts `connection`; returns whether the server closed it because it was idle.
    pub(super) fn connection(&mut self, connection: &Connection) -> bool {
        let setup = &connection.setup;
        let is_half_open = setup.half_open() && !setup.refused && !connection.view().sends_probes();
        if is_half_open || setup.has_only_syn_acks() {
            self.flood.add(connection);
        }
        self.established += u64::from(setup.established_ns().is_some());
        self.answered += u64::from(setup.syn_ack_first_ns().is_some());
        self.repeated += u64::from(setup.syns > 1);
        let is_closed = connection.view().is_closed_idle(APPLICATION_TIMEOUT_MIN_NS);
        self.closed_idle += u64::from(is_closed);
        self.closed_unasked += u64::from(connection.view().is_closed_unasked());
        is_closed
    }

    pub(super) fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        self.exchanges += u64::from(exchange.connects);
        let relayed_ns = connection.view().relayed_rtt_ns();
        let base_ns = relayed_ns.unwrap_or_else(|| connection.path.base_rtt_ns());
        self.late_ns += exchange.set_up_late_ns(base_ns);
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.established += other.established;
        self.answered += other.answered;
        self.repeated += other.repeated;
        self.flood.merge(&other.flood);
        self.exchanges += other.exchanges;
        self.closed_idle += other.closed_idle;
        self.closed_unasked += other.closed_unasked;
        self.late_ns += other.late_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_ups_of_two_shards_are_added() {
        let mut sums =
            SetUps { established: 1, repeated: 4, exchanges: 2, late_ns: 3, ..SetUps::default() };
        sums.merge(&sums.clone());
        assert_eq!((sums.established, sums.repeated), (2, 8));
        assert_eq!((sums.exchanges, sums.late_ns), (4, 6));
    }
}
