//! Refused connection attempts, taken together: by a device on the path, on many ports of one host,
//! or of strangers.

use crate::findings::tally::{CauseTally, First, Key, Part, Tally};
use crate::model::{Cause, Culprit, Fact, Observation, Role};
use crate::wire::{Endpoint, may_be_of_one_host};
use hashbrown::{HashMap, HashSet};

/// Attributes RSTs to the path if their TTL differs from that of the host's other packets: a device
/// on the path sent them.
pub(super) fn settle(tally: &mut Tally) {
    let refused = |key: &&Key| key.cause == Cause::Refused && key.culprit.role == Role::Server;
    let mut ttls: HashMap<[u8; 16], u8> = HashMap::new();
    for (endpoint, known) in &tally.endpoints {
        let ttl = ttls.entry(endpoint.address).or_default();
        *ttl = known.identity.ttl.max(*ttl);
    }
    for key in tally.causes.keys().filter(refused).cloned().collect::<Vec<_>>() {
        let ttl = ttls.get(&key.server.address).copied().unwrap_or(0);
        let worst = tally.causes.get(&key).and_then(|cause| cause.worst.as_ref());
        let facts = worst.map(|instance| instance.proof.facts.as_slice()).unwrap_or_default();
        let rst_ttl = facts.iter().find(|(name, _)| *name == "rst_ttl").map(|(_, fact)| fact);
        let of_host = |fact: &Fact| match *fact {
            Fact::Count(of_rst) => may_be_of_one_host(of_rst as u8, ttl),
            _ => true,
        };
        let foreign = rst_ttl.is_some_and(|fact| !of_host(fact));
        if ttl == 0 || !foreign {
            continue;
        }
        let Some(mut moved) = tally.causes.remove(&key) else { continue };
        if let Some(instance) = &mut moved.worst {
            instance.proof.add_fact("ttl", Fact::Count(ttl.into()));
        }
        let culprit = Culprit { role: Role::Network, endpoint: key.server };
        tally.causes.at(&Key { culprit, ..key }).merge(&moved);
    }
}

/// Returns whether `cause`, one refused attempt, belongs to a client that has nothing else to do
/// with the hosts of this capture, while other clients do: a stranger's probe shows nothing about
/// the service in question. If the attempt is everything in the capture, the capture was made for
/// it. A host on the path that refuses the client's attempts at other endpoints as well is in the
/// way of that client.
pub(super) fn is_of_stranger(key: &Key, cause: &CauseTally, tally: &Tally) -> bool {
    let is_known = |address: [u8; 16]| {
        let of_client = |first: &First| first.established && first.client == address;
        tally.hosts.may_know(address) || tally.firsts.iter().any(of_client)
    };
    let others = tally.endpoints.values().any(|endpoint| endpoint.set_ups.established > 0);
    let busy = others || !tally.hosts.are_none();
    busy && cause.exchanges == 1
        && client(cause).is_some_and(|address| !is_known(address))
        && !refuses_elsewhere(key, cause, tally)
}

/// Returns whether the host on the path that refused an attempt also refused one of the same client
/// at another endpoint.
fn refuses_elsewhere(key: &Key, cause: &CauseTally, tally: &Tally) -> bool {
    let is_other = |other: &Key| {
        other.cause == key.cause && other.culprit == key.culprit && other.server != key.server
    };
    key.culprit.role == Role::Network
        && key.culprit.endpoint.address != key.server.address
        && tally.causes.iter().any(|(key, it)| is_other(key) && client(it) == client(cause))
}

/// Returns the observation about refused attempts of strangers, if there were any.
pub(super) fn observe_strangers(strangers: &[Part<'_>]) -> Option<Observation> {
    let ((key, first), others) = strangers.split_first()?;
    let mut facts = vec![("count", Fact::Count(strangers.len() as u64))];
    if others.is_empty()
        && let Some(address) = client(first)
    {
        let stranger = Endpoint { address, port: 0 };
        facts.push(("client", Fact::Text(stranger.ip().to_string())));
        facts.push(("server", Fact::Text(key.server.to_string())));
    }
    let evidence = first.worst.as_ref().map(|instance| instance.proof.evidence());
    let frames = evidence.unwrap_or_default().iter().map(|it| it.frame).collect();
    Some(Observation { id: "refused_strangers", facts, frames })
}

/// Returns the addresses of clients that have the faults of `parts` at this many hosts or more.
pub(super) fn clients_of_many<'a>(
    parts: impl Iterator<Item = &'a Part<'a>>,
    hosts_min: usize,
) -> HashSet<[u8; 16]> {
    let mut hosts: HashMap<[u8; 16], HashSet<[u8; 16]>> = HashMap::new();
    for (key, cause) in parts {
        if let Some(client) = client(cause) {
            hosts.entry(client).or_default().insert(key.server.address);
        }
    }
    hosts.retain(|_, hosts| hosts.len() >= hosts_min);
    hosts.into_keys().collect()
}

/// Returns the address of the client that the cause affected, if it hardly affected others.
pub(super) fn client(cause: &CauseTally) -> Option<[u8; 16]> {
    cause.affected_clients.main()
}

/// Returns the culprit of a finding about `key`: a host refuses on all its ports at once.
pub(super) fn culprit(key: &Key) -> Culprit {
    let by_host = key.cause == Cause::Refused && key.culprit.role == Role::Server;
    let port = if by_host { 0 } else { key.culprit.endpoint.port };
    Culprit { endpoint: Endpoint { port, ..key.culprit.endpoint }, ..key.culprit }
}

/// Returns the facts that the parts of a finding share: the number of ports, or of hosts.
pub(super) fn facts(parts: &[Part<'_>]) -> Vec<(&'static str, Fact)> {
    let Some(((key, _), others)) = parts.split_first() else { return Vec::new() };
    if key.cause != Cause::Refused || others.is_empty() {
        return Vec::new();
    }
    let hosts: HashSet<_> = parts.iter().map(|(key, _)| key.server.address).collect();
    // Parts that share a row may be one port or many.
    let apart = parts.iter().filter(|(key, _)| key.server.port > 0).count();
    let (name, count) = match hosts.len() {
        1 if apart == parts.len() => ("ports", apart),
        1 => ("ports_least", apart),
        hosts => ("hosts", hosts),
    };
    vec![(name, Fact::Count(count as u64))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Side;

    /// Returns the refused ports of one host, each with the client that tried it.
    fn refused(ports: u16, client: impl Fn(u16) -> u8) -> Vec<(Key, CauseTally)> {
        let part = |port: u16| {
            let server = Endpoint { address: [9; 16], port };
            let culprit = Culprit { role: Role::Server, endpoint: server };
            let key = Key { cause: Cause::Refused, sender: Side::Server, server, culprit };
            let mut cause = CauseTally::default();
            cause.affected_clients.add([client(port); 16], 1);
            (key, cause)
        };
        (1..=ports).map(part).collect()
    }

    fn names(parts: &[(Key, CauseTally)]) -> Vec<&'static str> {
        let parts: Vec<_> = parts.iter().map(|(key, cause)| (key, cause)).collect();
        facts(&parts).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn ports_in_a_shared_row_are_not_counted() {
        assert_eq!(names(&refused(12, |_| 1)), ["ports"]);
        assert!(names(&refused(1, |_| 1)).is_empty());
        let mut parts = refused(12, |port| port as u8);
        parts[0].0.server.port = 0;
        assert_eq!(names(&parts), ["ports_least"]);
        let parts: Vec<_> = parts.iter().map(|(key, cause)| (key, cause)).collect();
        assert_eq!(facts(&parts)[0].1, Fact::Count(11));
    }

    #[test]
    fn all_refused_ports_of_a_host_are_one_finding() {
        let culprits: Vec<_> = refused(3, |_| 1).iter().map(|(key, _)| culprit(key)).collect();
        assert!(culprits.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
