//! Clients that reach none of several servers: what their attempts have in common is the client's
//! own network, and one report about it says more than one per server.

use crate::findings::causes::set_up;
use crate::findings::refusals::{client, clients_of_many};
use crate::findings::tally::{First, Part};
use crate::findings::thresholds::UNREACHED_HOSTS_MIN;
use crate::model::{Cause, Culprit, Fact, Role};
use crate::wire::Endpoint;
use hashbrown::HashSet;

/// Clients whose connection attempts to many hosts had to be repeated.
pub(super) struct IsolatedClients(HashSet<[u8; 16]>);

impl IsolatedClients {
    /// Finds the clients among `faults` that are cut off from the network. A client is not cut off
    /// if half as many other hosts answered it, as the first exchanges of connections or RSTs show.
    pub(super) fn of(faults: &[Part<'_>], firsts: &[First]) -> Self {
        let unreached = || faults.iter().filter(|part| is_unreached(part));
        let mut clients = clients_of_many(unreached(), UNREACHED_HOSTS_MIN);
        clients.retain(|known| {
            let of_client = |part: &&Part<'_>| client(part.1) == Some(*known);
            let hosts = |parts: &mut dyn Iterator<Item = &Part<'_>>| -> HashSet<[u8; 16]> {
                parts.filter(of_client).map(|part| part.0.server.address).collect()
            };
            let silent = hosts(&mut unreached());
            let mut refused = faults.iter().filter(|part| part.0.cause == Cause::Refused);
            let mut answered = hosts(&mut refused);
            let firsts = firsts.iter().filter(|it| it.client == *known && it.set_up_again_ns == 0);
            answered.extend(firsts.filter(|it| it.established).map(|it| it.server.address));
            2 * answered.len() < silent.len()
        });
        Self(clients)
    }

    /// Returns the culprit of a finding about this part, if that is the network of a client.
    pub(super) fn culprit(&self, part: Part<'_>) -> Option<Culprit> {
        let address = client(part.1).filter(|_| is_unreached(&part))?;
        let endpoint = Endpoint { address, port: 0 };
        self.0.contains(&address).then_some(Culprit { role: Role::Network, endpoint })
    }
}

/// Returns whether nothing shows what keeps the attempts back: no host reports that it rejects
/// them, and they are not answered with segments of older connections.
fn is_unreached((key, cause): &Part<'_>) -> bool {
    let at_server = key.culprit.role == Role::Network && key.culprit.endpoint == key.server;
    let unheard = 2 * cause.shown.count(set_up::OLDER_CONNECTIONS) <= cause.exchanges;
    key.cause == Cause::SynRetransmit && at_server && unheard
}

/// Returns the facts that the parts of a finding about `culprit` share: the clients, and the number
/// of hosts.
pub(super) fn facts(culprit: Culprit, parts: &[Part<'_>]) -> Vec<(&'static str, Fact)> {
    let of_client =
        |part: &Part<'_>| is_unreached(part) && client(part.1) == Some(culprit.endpoint.address);
    if culprit.role != Role::Network || culprit.endpoint.port > 0 || !parts.iter().all(of_client) {
        return Vec::new();
    }
    let hosts: HashSet<_> = parts.iter().map(|(key, _)| key.server.address).collect();
    // One server, or a host that connects to itself, has nothing in common with others.
    if hosts.len() < UNREACHED_HOSTS_MIN {
        return Vec::new();
    }
    let caller = culprit.endpoint.ip().to_string();
    vec![("caller", Fact::Text(caller)), ("hosts", Fact::Count(hosts.len() as u64))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tally::{CauseTally, Key};
    use crate::wire::Side;

    /// Returns the failed attempts of one client at `hosts` hosts.
    fn unreached(hosts: u8, rejecting_host: Option<Endpoint>) -> Vec<(Key, CauseTally)> {
        let part = |host: u8| {
            let server = Endpoint { address: [host; 16], port: 443 };
            let culprit =
                Culprit { role: Role::Network, endpoint: rejecting_host.unwrap_or(server) };
            let key = Key { cause: Cause::SynRetransmit, sender: Side::Client, server, culprit };
            let mut cause = CauseTally::default();
            cause.affected_clients.add([99; 16], 1);
            (key, cause)
        };
        (1..=hosts).map(part).collect()
    }

    #[test]
    fn a_client_that_reaches_none_of_many_hosts_is_cut_off() {
        let all = unreached(5, None);
        let parts: Vec<_> = all.iter().map(|(key, cause)| (key, cause)).collect();
        let cut_off = IsolatedClients::of(&parts, &[]);
        let at_client = Endpoint { address: [99; 16], port: 0 };
        let culprit = Culprit { role: Role::Network, endpoint: at_client };
        assert!(parts.iter().all(|&part| cut_off.culprit(part) == Some(culprit)));
        let names: Vec<_> = facts(culprit, &parts).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["caller", "hosts"]);
        assert!(facts(parts[0].0.culprit, &parts[..1]).is_empty());
    }

    #[test]
    fn a_server_that_no_client_reaches_has_its_own_finding() {
        let mut all = unreached(6, None);
        for client in 1..=9 {
            all[0].1.affected_clients.add([client; 16], 1);
        }
        let parts: Vec<_> = all.iter().map(|(key, cause)| (key, cause)).collect();
        let cut_off = IsolatedClients::of(&parts, &[]);
        assert!(cut_off.culprit(parts[0]).is_none());
        assert!(parts[1..].iter().all(|&part| cut_off.culprit(part).is_some()));
    }

    #[test]
    fn a_client_that_other_hosts_refuse_is_connected() {
        let mut all = unreached(8, None);
        for (key, _) in &mut all[4..] {
            key.cause = Cause::Refused;
        }
        let parts: Vec<_> = all.iter().map(|(key, cause)| (key, cause)).collect();
        let cut_off = IsolatedClients::of(&parts, &[]);
        assert!(parts.iter().all(|&part| cut_off.culprit(part).is_none()));
        assert!(IsolatedClients::of(&parts[..5], &[]).culprit(parts[0]).is_some());
    }

    #[test]
    fn a_host_that_does_not_reach_itself_has_nothing_in_common_with_others() {
        let mut all = unreached(1, None);
        let itself = Endpoint { address: [99; 16], port: 443 };
        (all[0].0.server, all[0].0.culprit.endpoint) = (itself, itself);
        let parts: Vec<_> = all.iter().map(|(key, cause)| (key, cause)).collect();
        assert!(facts(all[0].0.culprit, &parts).is_empty());
        let all = unreached(3, None);
        let parts: Vec<_> = all.iter().map(|(key, cause)| (key, cause)).collect();
        let at_client = Endpoint { address: [99; 16], port: 0 };
        let culprit = Culprit { role: Role::Network, endpoint: at_client };
        assert!(facts(culprit, &parts).is_empty());
    }

    #[test]
    fn few_hosts_and_explicit_refusals_have_separate_findings() {
        let router = Endpoint { address: [50; 16], port: 0 };
        for all in [unreached(3, None), unreached(9, Some(router))] {
            let parts: Vec<_> = all.iter().map(|(key, cause)| (key, cause)).collect();
            let cut_off = IsolatedClients::of(&parts, &[]);
            assert!(parts.iter().all(|&part| cut_off.culprit(part).is_none()));
        }
    }
}
