//! Distance of hosts, estimated from first exchanges.

use crate::findings::tally::First;
use crate::wire::Endpoint;
use std::collections::HashMap;

/// Least round trip from the vantage to each network with servers of connections.
#[derive(Clone)]
pub(super) struct Distances(HashMap<[u8; 16], u64>);

impl Distances {
    /// Returns the distances that the first exchanges of connections show.
    pub fn of(firsts: &[First]) -> Self {
        let mut known = HashMap::new();
        for first in firsts.iter().filter(|first| first.rtt_server_ns > 0) {
            let least_ns = known.entry(network(&first.server)).or_insert(u64::MAX);
            *least_ns = first.rtt_server_ns.min(*least_ns);
        }
        Self(known)
    }

    /// Returns the round trip from the vantage to `host`, ns. Hosts of one network have the same
    /// distance.
    pub fn to(&self, host: &Endpoint) -> Option<u64> {
        self.0.get(&network(host)).copied()
    }
}

/// Returns the usual subnet of an address: 64 bits of IPv6 (RFC 4291 §2.5.4), or 24 of IPv4, which
/// is mapped into the last 32 bits.
pub(super) fn network(host: &Endpoint) -> [u8; 16] {
    let bytes = if host.ip().is_ipv4() { 15 } else { 8 };
    let mut prefix = [0; 16];
    prefix[..bytes].copy_from_slice(&host.address[..bytes]);
    prefix
}
