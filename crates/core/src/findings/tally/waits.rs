//! Exchanges with a server that waited for more than the path, which show whether one server waits
//! for another.

use crate::findings::tally::First;
use crate::findings::thresholds::COST_MIN_NS;
use crate::model::{Cause, Vantage};
use crate::tcp::{Chain, Connection, Exchange, Path, SimpleExchange};
use crate::wire::{Endpoint, Side};

/// Number of waits kept per server. These are the earliest.
const WAITS_MAX: usize = 64;

/// An exchange that waited for its server, with the times at which it passed the vantage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// Start of the exchange, or of its connection, ns.
    pub began_ns: u64,
    /// Time at which the request passed, ns.
    pub asked_ns: u64,
    /// Time at which the response began to pass, ns.
    pub answered_ns: u64,
    /// Time at which the exchange ended, ns.
    pub ended_ns: u64,
    /// The client's address.
    pub client: [u8; 16],
    /// The client's port; 0 if unknown.
    pub client_port: u16,
    /// The capture is known to be at the server.
    pub at_server: bool,
    /// The capture is known to be at the client.
    pub at_client: bool,
}

/// Waits of exchanges with one server, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct Waits(Vec<Wait>);

impl Waits {
    /// Returns all waits that are kept.
    pub fn all(&self) -> &[Wait] {
        &self.0
    }

    /// Returns whether there may have been more waits than are kept.
    pub fn is_full(&self) -> bool {
        self.0.len() >= WAITS_MAX
    }

    /// Records `exchange`, if it waited for its server.
    #[inline]
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let Exchange { start_ns, answered_ns, end_ns, ref first, .. } = *exchange;
        if answered_ns > 0 {
            // A handshake came before the time in which the server worked.
            let thinks = |chain: &&Chain| chain.cause == Cause::ServerThink;
            let works =
                exchange.chains.iter().find(thinks).filter(|_| exchange.handshake.is_some());
            let asked_ns = works.map_or(first.time_ns, |chain| chain.gap.start_ns.min(answered_ns));
            let times = [start_ns, asked_ns, answered_ns, end_ns];
            self.add(times, connection.client(), &connection.path);
        }
    }

    /// Adds an exchange in which only the server took time.
    #[inline]
    pub fn simple_exchange(&mut self, connection: &Connection, plain: &SimpleExchange<'_>) {
        let (asked_ns, answered_ns) = (plain.asked.0, plain.answered.0);
        let times = [asked_ns, asked_ns, answered_ns, answered_ns];
        self.add(times, connection.client(), &connection.path);
    }

    #[inline]
    fn add(&mut self, times: [u64; 4], client: Endpoint, path: &Path) {
        let [began_ns, asked_ns, _, ended_ns] = times;
        if ended_ns.saturating_sub(began_ns) < COST_MIN_NS || !self.wants(began_ns) {
            return;
        }
        // Most exchanges do not wait for their server, however far it is. A host that asks others
        // waits for the way too.
        let works = ended_ns.saturating_sub(asked_ns) >= COST_MIN_NS + path.rtt_ns(Side::Server);
        if works || is_at_client(path) {
            self.keep(client, path, times);
        }
    }

    fn wants(&self, began_ns: u64) -> bool {
        !self.is_full() || self.0.last().is_some_and(|last| began_ns <= last.began_ns)
    }

    #[cold]
    #[inline(never)]
    fn keep(&mut self, client: Endpoint, path: &Path, times: [u64; 4]) {
        let [began_ns, asked_ns, answered_ns, ended_ns] = times;
        let vantage = path.vantage();
        self.insert(Wait {
            began_ns,
            asked_ns,
            answered_ns,
            ended_ns,
            client: client.address,
            client_port: client.port,
            at_server: matches!(vantage, Vantage::Server | Vantage::Local),
            at_client: is_at_client(path),
        });
    }

    /// Lets the wait of `first` begin at `from_ns`: its client had to look up a name, or to try
    /// another address, before it.
    pub fn begin_earlier(&mut self, first: &First, from_ns: u64) {
        let is_of = |it: &&mut Wait| {
            it.client == first.client && (it.began_ns..=it.asked_ns).contains(&first.start_ns)
        };
        if let Some(wait) = self.0.iter_mut().find(is_of) {
            wait.began_ns = wait.began_ns.min(from_ns);
            self.0.sort_unstable();
        } else if first.answered_ns > 0 && self.wants(from_ns) {
            self.insert(Wait {
                began_ns: from_ns,
                asked_ns: first.start_ns,
                answered_ns: first.answered_ns,
                ended_ns: first.end_ns(),
                client: first.client,
                client_port: 0,
                at_server: matches!(first.vantage, Vantage::Server | Vantage::Local),
                at_client: first.was_seen_at_client(),
            });
        }
    }

    /// Records `wait`, if it is one of the earliest.
    pub fn insert(&mut self, wait: Wait) {
        let place = self.0.partition_point(|other| *other <= wait);
        self.0.insert(place, wait);
        self.0.truncate(WAITS_MAX);
    }

    /// Adds all waits of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        self.0.truncate(WAITS_MAX);
    }
}

/// Returns whether the capture is known to be at the client.
fn is_at_client(path: &Path) -> bool {
    matches!(path.vantage(), Vantage::Client | Vantage::Local)
}
