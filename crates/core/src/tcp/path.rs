//! The round trips between the vantage and both ends, and where the vantage therefore is.

use crate::app::Side;
use crate::report::Vantage;

/// Minimum round-trip times between the vantage and the two ends of one connection.
///
/// The handshake gives the first samples (SYN to SYN-ACK is the server's side, SYN-ACK to ACK
/// the client's), data to ACK keeps refining them. A minimum, because everything that adds to a
/// sample (queues, delayed ACKs) only makes it longer.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    client_ns: u64,
    server_ns: u64,
}

/// No sample yet.
const UNKNOWN: u64 = u64::MAX;

/// No path is longer: a sample beyond it is a clock that stepped or a missing packet.
const RTT_MAX_NS: u64 = 60_000_000_000;

/// Below this a leg is as good as none: the vantage is on that host.
const NEAR_NS: u64 = 60_000;

impl Default for Path {
    fn default() -> Self {
        Self { client_ns: UNKNOWN, server_ns: UNKNOWN }
    }
}

impl Path {
    /// Takes a round-trip sample between the vantage and `side`.
    pub fn sample(&mut self, side: Side, rtt_ns: u64) {
        if rtt_ns > RTT_MAX_NS {
            return;
        }
        let leg = match side {
            Side::Client => &mut self.client_ns,
            Side::Server => &mut self.server_ns,
        };
        *leg = (*leg).min(rtt_ns);
    }

    /// Minimum round trip between the vantage and `side`, ns; 0 where there is no sample.
    pub fn rtt_ns(&self, side: Side) -> u64 {
        let leg = match side {
            Side::Client => self.client_ns,
            Side::Server => self.server_ns,
        };
        if leg == UNKNOWN { 0 } else { leg }
    }

    /// Whether there is a sample for `side`.
    pub fn knows(&self, side: Side) -> bool {
        match side {
            Side::Client => self.client_ns != UNKNOWN,
            Side::Server => self.server_ns != UNKNOWN,
        }
    }

    /// Minimum round trip between client and server, ns.
    pub fn base_rtt_ns(&self) -> u64 {
        self.rtt_ns(Side::Client) + self.rtt_ns(Side::Server)
    }

    /// Whether the vantage is at `side`: what passes it arrives there.
    pub fn ends_here(&self, side: Side) -> bool {
        let near_ns = self.rtt_ns(side);
        self.knows(side) && (near_ns <= NEAR_NS || near_ns * 8 <= self.rtt_ns(side.peer()))
    }

    /// Where the capture was taken, as far as this connection shows.
    pub fn vantage(&self) -> Vantage {
        if self.client_ns == UNKNOWN || self.server_ns == UNKNOWN {
            return Vantage::Unknown;
        }
        let (client, server) = (self.client_ns, self.server_ns);
        let near = |leg: u64, other: u64| leg <= NEAR_NS || leg.saturating_mul(8) <= other;
        match (near(client, server), near(server, client)) {
            (true, true) => Vantage::Local,
            (true, false) => Vantage::Client,
            (false, true) => Vantage::Server,
            (false, false) => Vantage::Middle,
        }
    }
}
