//! Name look-ups captured at two places. They calibrate the clocks too, and are sometimes the only
//! traffic.

use super::clock::{Minima, Transit};
use crate::dns::{DNS_PORT, MessageContext};
use crate::model::Place;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of datagrams that wait to be seen at the other place.
const WAITING_MAX: usize = 1024;

/// Returns a hash by which a datagram is recognised at another place. It does not include the
/// addresses.
pub fn fingerprint(carried: &MessageContext<'_>, payload: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (carried.source.port, carried.destination.port, payload).hash(&mut hasher);
    hasher.finish()
}

/// Returns whether the message is a query.
pub fn is_from_client(carried: &MessageContext<'_>) -> bool {
    carried.destination.port == DNS_PORT
}

/// Fingerprint and addresses of a datagram.
type Print = (u64, [u8; 16], [u8; 16]);

/// The last datagrams of both places.
#[derive(Clone, Default)]
pub struct Datagrams {
    waiting: HashMap<Print, (Place, u64)>,
    order: VecDeque<Print>,
    /// Minimum transit times.
    pub minima: Minima,
}

impl Datagrams {
    /// Processes a datagram that passed `place`. The first place is nearer the clients.
    pub fn sighting(&mut self, place: Place, carried: &MessageContext<'_>, payload: &[u8]) {
        let (time_ns, source, destination) = (carried.time_ns, carried.source, carried.destination);
        let print = (fingerprint(carried, payload), source.address, destination.address);
        match self.waiting.get(&print).copied() {
            // A repeated query with the same identifier cannot be distinguished from the first.
            Some((seen, _)) if seen == place => {}
            Some((_, other_ns)) => {
                self.waiting.remove(&print);
                let (first_ns, second_ns) =
                    if place == 0 { (time_ns, other_ns) } else { (other_ns, time_ns) };
                let way =
                    if is_from_client(carried) { Transit::ToSecond } else { Transit::ToFirst };
                self.minima.sample(way, first_ns, second_ns.wrapping_sub(first_ns) as i64);
            }
            None => {
                if self.order.len() >= WAITING_MAX
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.waiting.remove(&oldest);
                }
                self.waiting.insert(print, (place, time_ns));
                self.order.push_back(print);
            }
        }
    }
}
