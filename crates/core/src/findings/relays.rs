//! A host near the clients that ends the connections to all servers: a VPN, a proxy or a NAT of a user's
//! program. It acknowledges in the names of servers behind it (split TCP, RFC 3135 §2.4).

use crate::findings::tally::Tally;
use crate::judge::thresholds::HABIT_MIN;

/// Marks the servers behind such a host. A handshake may be slow by itself, but not by chance with most
/// servers of a capture.
pub(super) fn settle(tally: &mut Tally) {
    let (mut connections, mut nearer, mut servers) = (0, 0, 0);
    for endpoint in tally.endpoints.values() {
        connections += endpoint.connections;
        nearer += endpoint.round_trips.nearer;
        servers += u32::from(endpoint.round_trips.nearer > 0);
    }
    if servers < HABIT_MIN || 2 * nearer <= connections {
        return;
    }
    for endpoint in tally.endpoints.values_mut() {
        endpoint.round_trips.is_behind_relay = endpoint.round_trips.nearer > 0;
    }
}
