//! The round trips between the vantage and both ends, and where the vantage therefore is.

use crate::app::Side;
use crate::report::Vantage;

/// Minimum round-trip times between the vantage and the two ends of one connection.
///
/// The handshake gives the first samples (SYN to SYN-ACK is the server's side, SYN-ACK to ACK
/// the client's), data to ACK keeps refining them. A minimum, because everything that adds to a
/// sample (queues, delayed ACKs) only makes it longer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// By side: one more than the least sample, ns; 0 where there is none.
    legs: [u64; 2],
}

/// No path is longer: a sample beyond it is a clock that stepped or a missing packet.
const RTT_MAX_NS: u64 = 60_000_000_000;

/// Below this a leg is as good as none: the vantage is on that host.
const NEAR_NS: u64 = 60_000;

/// A host answers what was captured on it sooner, even a busy one, once in a while. Where it takes longer,
/// a link lies between, which may lose what has passed, however long the rest of the path is.
const HOST_NS: u64 = 1_000_000;

/// What systems begin to count down from (RFC 1700: 64; Windows 128, many routers 255).
const INITIAL_TTLS: [u8; 3] = [64, 128, 255];

/// Whether a packet that has so long to live has met no router.
pub(crate) fn is_initial_ttl(ttl: u8) -> bool {
    INITIAL_TTLS.contains(&ttl)
}

impl Path {
    /// Takes a round-trip sample between the vantage and `side`.
    pub fn sample(&mut self, side: Side, rtt_ns: u64) {
        if rtt_ns > RTT_MAX_NS {
            return;
        }
        let leg = &mut self.legs[side as usize];
        if *leg == 0 || rtt_ns < *leg {
            *leg = rtt_ns + 1;
        }
    }

    /// Client and server are the other way round.
    pub fn swap(&mut self) {
        self.legs.swap(0, 1);
    }

    /// Minimum round trip between the vantage and `side`, ns; 0 where there is no sample.
    pub fn rtt_ns(&self, side: Side) -> u64 {
        self.legs[side as usize].saturating_sub(1)
    }

    /// Whether there is a sample for `side`.
    pub fn knows(&self, side: Side) -> bool {
        self.legs[side as usize] > 0
    }

    /// Minimum round trip between client and server, ns.
    pub fn base_rtt_ns(&self) -> u64 {
        self.rtt_ns(Side::Client) + self.rtt_ns(Side::Server)
    }

    /// Whether the vantage is at `side`: what passes it arrives there.
    pub fn ends_here(&self, side: Side) -> bool {
        let near_ns = self.rtt_ns(side);
        let nearer = near_ns <= HOST_NS && near_ns * 8 <= self.rtt_ns(side.peer());
        self.knows(side) && (near_ns <= NEAR_NS || nearer)
    }

    /// Where the capture was taken, as far as this connection shows.
    pub fn vantage(&self) -> Vantage {
        if !Side::ALL.into_iter().all(|side| self.knows(side)) {
            return Vantage::Unknown;
        }
        match (self.ends_here(Side::Client), self.ends_here(Side::Server)) {
            (true, true) => Vantage::Local,
            (true, false) => Vantage::Client,
            (false, true) => Vantage::Server,
            (false, false) => Vantage::Middle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vantage(client_ns: u64, server_ns: u64) -> Vantage {
        let mut path = Path::default();
        path.sample(Side::Client, client_ns);
        path.sample(Side::Server, server_ns);
        path.vantage()
    }

    #[test]
    fn a_link_away_from_a_host_is_between_however_far_the_other_is() {
        assert_eq!(vantage(700_000, 80_000_000), Vantage::Client);
        assert_eq!(vantage(2_200_000, 80_000_000), Vantage::Middle);
        assert_eq!(vantage(80_000_000, 2_200_000), Vantage::Middle);
        assert_eq!(vantage(80_000_000, 30_000), Vantage::Server);
        assert_eq!(vantage(30_000, 30_000), Vantage::Local);
    }
}
