//! Times at which the line of a client was full, as handshakes show. A kernel answers a SYN at once (RFC
//! 9293 §3.10.7.4), whatever the applications do: a handshake that takes longer than others to the same
//! network stood in a queue, and so did what was on its way at the same time.

use crate::dns::{Lookup, Query};
use crate::findings::distance::network;
use crate::findings::tally::CleanHandshake;
use crate::judge::thresholds::QUEUE_DELAY_MIN_NS;
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// A network as seen from a client: the client's address, and the prefix of the network.
type Way = ([u8; 16], [u8; 16]);

/// Handshakes of clients that were captured at their hosts.
#[derive(Clone, Default)]
pub(super) struct Lines {
    /// Handshakes by client, in the order of their SYNs.
    handshakes: HashMap<[u8; 16], Vec<Handshake>>,
    /// Least times of handshakes, ns. A relay may acknowledge data sooner than its server answers a SYN.
    least_ns: HashMap<Way, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Handshake {
    /// Time of the SYN, ns.
    from_ns: u64,
    /// Time of the SYN-ACK, ns.
    to_ns: u64,
    /// Time beyond the least handshake with that network, ns.
    late_ns: u64,
    network: [u8; 16],
}

impl Handshake {
    fn is_late(&self) -> bool {
        self.late_ns >= QUEUE_DELAY_MIN_NS
    }
}

/// A queue on the way of a client, as handshakes show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Handshakes in that time were late by so much at least, ns.
    Meanwhile(u64),
    /// The handshakes before and behind it were late by so much, ns. It may have been empty in between.
    Around(u64),
}

impl Lines {
    /// Collects the handshakes that were captured at their clients.
    pub fn of(all: &[CleanHandshake]) -> Self {
        let mut lines = Self::default();
        for it in all {
            let way = (it.client, network(&it.server));
            let least_ns = lines.least_ns.entry(way).or_insert(u64::MAX);
            *least_ns = it.rtt_ns.min(*least_ns);
        }
        for &CleanHandshake { client, server, syn_ns, rtt_ns } in all {
            let network = network(&server);
            let least_ns = lines.least_ns.get(&(client, network)).copied().unwrap_or(rtt_ns);
            let (from_ns, to_ns, late_ns) = (syn_ns, syn_ns + rtt_ns, rtt_ns - least_ns);
            let of_client = lines.handshakes.entry(client).or_default();
            of_client.push(Handshake { from_ns, to_ns, late_ns, network });
        }
        for handshakes in lines.handshakes.values_mut() {
            handshakes.sort_unstable_by_key(|it| (it.from_ns, it.to_ns, it.network));
            let mut of_network: HashMap<_, u32> = HashMap::new();
            handshakes.iter().for_each(|it| *of_network.entry(it.network).or_default() += 1);
            // The only one of its network is late by nothing that is known.
            handshakes.retain(|it| of_network[&it.network] > 1);
        }
        lines
    }

    /// Least time of a handshake with the network of `server`, ns.
    pub fn least_ns(&self, client: [u8; 16], server: &Endpoint) -> Option<u64> {
        self.least_ns.get(&(client, network(server))).copied()
    }

    /// Returns the queue on the way of `client` to `server` in a time, as handshakes show it. One that was
    /// not late shows that there was none. Handshakes to another network count only where those to
    /// several were late one after the other: what these share is the line of the client.
    pub fn queue(&self, client: [u8; 16], server: &Endpoint, time: (u64, u64)) -> Option<Queue> {
        let (from_ns, to_ns) = time;
        let all = self.handshakes.get(&client)?;
        let is_meanwhile = |it: &&Handshake| it.from_ns < to_ns && it.to_ns > from_ns;
        let (shown, late_ns) = match all.iter().filter(is_meanwhile).map(|it| it.late_ns).min() {
            Some(late_ns) => {
                (all.iter().position(|it| is_meanwhile(&it))?, Queue::Meanwhile(late_ns))
            }
            None => {
                let next = all.partition_point(|it| it.from_ns < to_ns);
                let (before, after) = (all.get(next.checked_sub(1)?)?, all.get(next)?);
                (next, Queue::Around(before.late_ns.min(after.late_ns)))
            }
        };
        let (Queue::Meanwhile(ns) | Queue::Around(ns)) = late_ns;
        (ns >= QUEUE_DELAY_MIN_NS && is_shared(all, shown, &network(server))).then_some(late_ns)
    }

    /// Returns the queue on the way of `query`, whose answer came, ns; 0 if nothing shows one.
    pub fn queue_of(&self, lookup: &Lookup, query: &Query) -> u64 {
        let time = query.answered_ns.map(|answered_ns| (query.sent_ns, answered_ns));
        match time.and_then(|time| self.queue(lookup.client, &query.server, time)) {
            Some(Queue::Meanwhile(ns) | Queue::Around(ns)) => ns,
            None => 0,
        }
    }
}

/// Returns whether the late handshakes around the one at `index` were to the network `to`, or to several.
fn is_shared(all: &[Handshake], index: usize, to: &[u8; 16]) -> bool {
    let behind = all[index..].iter().take_while(|it| it.is_late());
    let before = all[..index].iter().rev().take_while(|it| it.is_late());
    let mut networks = behind.chain(before).map(|it| it.network);
    let Some(first) = networks.next() else { return false };
    first == *to || networks.any(|network| network == *to || network != first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const CLIENT: [u8; 16] = [9; 16];

    fn server(network: u8) -> Endpoint {
        Endpoint { address: [network; 16], port: 80 }
    }

    /// Returns the lines that these handshakes show, each to a network, at a time and so long, in ms.
    fn lines(handshakes: &[(u8, u64, u64)]) -> Lines {
        let all = handshakes.iter().map(|&(network, at_ms, ms)| CleanHandshake {
            client: CLIENT,
            server: server(network),
            syn_ns: at_ms * MS,
            rtt_ns: ms * MS,
        });
        Lines::of(&all.collect::<Vec<_>>())
    }

    fn queue(lines: &Lines, network: u8, from_ms: u64, to_ms: u64) -> Option<Queue> {
        lines.queue(CLIENT, &server(network), (from_ms * MS, to_ms * MS))
    }

    #[test]
    fn late_handshakes_to_several_networks_show_the_line_that_they_share() {
        let lines =
            lines(&[(1, 0, 20), (2, 0, 30), (1, 1_000, 110), (2, 1_200, 100), (1, 2_000, 20)]);
        assert_eq!(queue(&lines, 3, 1_050, 1_150), Some(Queue::Meanwhile(90 * MS)));
        assert_eq!(queue(&lines, 3, 1_120, 1_180), Some(Queue::Around(70 * MS)));
        assert_eq!(queue(&lines, 3, 1_400, 1_500), None, "the next one was not late");
        assert_eq!(queue(&lines, 3, 500, 600), None);
        assert_eq!(lines.least_ns(CLIENT, &server(1)), Some(20 * MS));
    }

    #[test]
    fn a_late_handshake_to_one_network_shows_nothing_of_others() {
        let lines = lines(&[(1, 0, 20), (1, 1_000, 110), (2, 2_000, 30), (2, 3_000, 30)]);
        assert_eq!(queue(&lines, 2, 1_000, 1_100), None);
        assert_eq!(queue(&lines, 1, 1_000, 1_100), Some(Queue::Meanwhile(90 * MS)));
    }

    #[test]
    fn the_only_handshake_to_a_network_is_late_by_nothing_that_is_known() {
        let lines = lines(&[(1, 0, 20), (1, 1_000, 110), (3, 1_010, 90), (1, 1_200, 110)]);
        assert_eq!(queue(&lines, 1, 1_050, 1_090), Some(Queue::Meanwhile(90 * MS)));
    }
}
