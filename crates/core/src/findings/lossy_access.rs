//! Losses on the ways to many servers of one client: what these ways have in common is next to the
//! client, and one report about it says more than one per server.

use crate::findings::causes::repair;
use crate::findings::refusals::client;
use crate::findings::selective::Selective;
use crate::findings::tally::{First, Key, Part, Tally};
use crate::findings::thresholds::{LOSSY_WAYS_MIN, ROUTED_BITS_V4, ROUTED_BITS_V6};
use crate::model::{Culprit, Fact, Finding, Role};
use crate::wire::Endpoint;
use hashbrown::{HashMap, HashSet};
use std::net::IpAddr;

/// Clients that lose packets on most of the ways that they use.
pub(super) struct LossyAccess(HashSet<[u8; 16]>);

impl LossyAccess {
    /// Finds the clients with losses on the ways to many networks, and to more than half of those
    /// from which they had answers: servers of one network may lose packets on a link of their own.
    /// Losses that are `selected` by what they hit are no such.
    pub(super) fn of(tally: &Tally, selected: &Selective) -> Self {
        let mut lossy: HashMap<[u8; 16], HashSet<u128>> = HashMap::new();
        let is_by_chance = |part: &Part<'_>| is_of_way(part.0) && !selected.has(*part);
        for part in tally.causes.iter().filter(is_by_chance) {
            if let Some(client) = client(part.1) {
                lossy.entry(client).or_default().insert(network(part.0.server));
            }
        }
        lossy.retain(|client, ways| {
            let of_client = |first: &&First| first.client == *client && first.answered;
            let begun = tally.firsts.iter().filter(of_client).map(|first| network(first.server));
            let used = tally.endpoints.iter().filter(|(_, it)| it.clients.answers(*client));
            let used = used.map(|(server, _)| network(*server)).chain(begun);
            let healthy: HashSet<_> = used.filter(|way| !ways.contains(way)).collect();
            ways.len() >= LOSSY_WAYS_MIN && ways.len() > healthy.len()
        });
        Self(lossy.into_keys().collect())
    }

    /// Returns the culprit of a finding about this part, if that is the network of a client.
    pub(super) fn culprit(&self, (key, cause): Part<'_>) -> Option<Culprit> {
        let address = client(cause).filter(|_| is_of_way(key))?;
        let endpoint = Endpoint { address, port: 0 };
        self.0.contains(&address).then_some(Culprit { role: Role::Network, endpoint })
    }
}

/// Returns whether `key` is a loss on the way between client and server, and not in one of the hosts.
fn is_of_way(key: &Key) -> bool {
    let way = Culprit { role: Role::Network, endpoint: key.server };
    repair::is_loss(key.cause) && key.culprit == way
}

/// Returns the network of `server` as far as routers of the internet tell networks apart.
fn network(server: Endpoint) -> u128 {
    let bits = match server.ip() {
        IpAddr::V4(_) => 96 + ROUTED_BITS_V4,
        IpAddr::V6(_) => ROUTED_BITS_V6,
    };
    u128::from_be_bytes(server.address) >> (128 - bits)
}

/// Returns the facts that the parts of a finding about `culprit` share: the client, and the number of
/// servers.
pub(super) fn facts(culprit: Culprit, parts: &[Part<'_>]) -> Vec<(&'static str, Fact)> {
    let of_client =
        |part: &Part<'_>| is_of_way(part.0) && client(part.1) == Some(culprit.endpoint.address);
    if culprit.role != Role::Network || culprit.endpoint.port > 0 || !parts.iter().all(of_client) {
        return Vec::new();
    }
    let hosts: HashSet<_> = parts.iter().map(|(key, _)| key.server.address).collect();
    let caller = culprit.endpoint.ip().to_string();
    vec![("caller", Fact::Text(caller)), ("hosts", Fact::Count(hosts.len() as u64))]
}

/// Returns whether one of `findings` reports `part` together with losses on other ways.
pub(super) fn is_reported(part: Part<'_>, findings: &[Finding]) -> bool {
    let Some(address) = client(part.1).filter(|_| is_of_way(part.0)) else { return false };
    let culprit = Culprit { role: Role::Network, endpoint: Endpoint { address, port: 0 } };
    let reports = |it: &Finding| {
        it.cause == part.0.cause && it.sender == part.0.sender && it.culprit == culprit
    };
    findings.iter().any(reports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tally::CauseTally;
    use crate::model::Cause;
    use crate::wire::Side;
    use std::net::Ipv4Addr;

    fn server(at: [u8; 4]) -> Endpoint {
        Endpoint { address: Ipv4Addr::from(at).to_ipv6_mapped().octets(), port: 443 }
    }

    /// Returns the losses of one client on the ways to `servers`, and its answers from `healthy`.
    fn tally(servers: &[[u8; 4]], healthy: u8) -> Tally {
        let mut tally = Tally::default();
        for &at in servers {
            let (server, cause) = (server(at), Cause::RetransmissionTimeout);
            let culprit = Culprit { role: Role::Network, endpoint: server };
            let key = Key { cause, sender: Side::Client, server, culprit };
            tally.causes.at(&key).affected_clients.add([99; 16], 1);
        }
        for net in 0..healthy {
            tally.firsts.push(First::answered([99; 16], server([203, 0, net, 1])));
        }
        tally
    }

    fn is_lossy(servers: &[[u8; 4]], healthy: u8) -> bool {
        let tally = tally(servers, healthy);
        let access = LossyAccess::of(&tally, &Selective::of(&tally));
        let grouped: Vec<_> = tally.causes.iter().map(|it| access.culprit(it).is_some()).collect();
        assert!(grouped.windows(2).all(|pair| pair[0] == pair[1]));
        grouped[0]
    }

    const FAR: [[u8; 4]; 4] = [[198, 51, 0, 1], [198, 51, 1, 1], [198, 51, 2, 1], [198, 51, 3, 1]];

    #[test]
    fn losses_on_most_of_many_ways_are_those_of_the_client_s_network() {
        assert!(is_lossy(&FAR, 3));
        assert!(!is_lossy(&FAR, 4), "as many ways lose nothing");
        assert!(!is_lossy(&FAR[..3], 0), "three ways are not many");
    }

    #[test]
    fn servers_of_one_network_may_share_a_link() {
        let near = [1, 2, 3, 4, 5, 6].map(|host| [198, 51, 0, host]);
        assert!(!is_lossy(&near, 0));
    }

    #[test]
    fn a_finding_about_the_client_s_network_counts_its_servers() {
        let tally = tally(&FAR, 0);
        let parts: Vec<_> = tally.causes.iter().collect();
        let culprit = LossyAccess::of(&tally, &Selective::of(&tally)).culprit(parts[0]);
        let names = |culprit, parts: &[(&Key, &CauseTally)]| -> Vec<_> {
            facts(culprit, parts).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(culprit.map(|it| names(it, &parts)), Some(vec!["caller", "hosts"]));
        assert!(names(parts[0].0.culprit, &parts[..1]).is_empty());
    }
}
