//! Connection attempts that were refused, taken together: by something on the path, or on many ports
//! of one host.

use super::assemble::Part;
use super::tally::{CauseTally, Key, Tally};
use super::{Cause, Role};
use crate::report::{Culprit, Fact};
use crate::wire::Endpoint;
use hashbrown::{HashMap, HashSet};

/// No client has so many services to reach at one host.
const SCANNED_PORTS: usize = 16;

/// A RST that comes from elsewhere than its host's other packets, by its time to live, is not the
/// host's: something on the path sent it.
pub(super) fn settle(tally: &mut Tally) {
    let refused = |key: &&Key| key.cause == Cause::Refused && key.culprit.role == Role::Server;
    let mut ttls: HashMap<[u8; 16], u8> = HashMap::new();
    for (endpoint, known) in &tally.endpoints {
        let ttl = ttls.entry(endpoint.address).or_default();
        *ttl = known.ttl.max(*ttl);
    }
    for key in tally.causes.keys().filter(refused).cloned().collect::<Vec<_>>() {
        let ttl = ttls.get(&key.server.address).copied().unwrap_or(0);
        let worst = tally.causes.get(&key).and_then(|cause| cause.worst.as_ref());
        let facts = worst.map(|instance| instance.proof.facts.as_slice()).unwrap_or_default();
        let rst_ttl = facts.iter().find(|(name, _)| *name == "rst_ttl").map(|(_, fact)| fact);
        let foreign = rst_ttl.is_some_and(|fact| *fact != Fact::Count(ttl.into()));
        if ttl == 0 || !foreign {
            continue;
        }
        let Some(mut moved) = tally.causes.remove(&key) else { continue };
        if let Some(instance) = &mut moved.worst {
            instance.proof.fact("ttl", Fact::Count(ttl.into()));
        }
        let culprit = Culprit { role: Role::Network, endpoint: key.server };
        tally.causes.at(&Key { culprit, ..key }).merge(&moved);
    }
}

/// No client has so many hosts to reach of which none takes it.
const SCANNED_HOSTS: usize = 64;

/// Clients that try one host after the other, and are refused by all of them.
pub(super) struct Sweeps(HashSet<[u8; 16]>);

impl Sweeps {
    /// Those among `faults`.
    pub(super) fn of(faults: &[Part<'_>]) -> Self {
        let refused = faults.iter().filter(|(key, _)| key.cause == Cause::Refused);
        Self(clients_of_many(refused, SCANNED_HOSTS))
    }

    /// Whom a finding about this part blames.
    pub(super) fn culprit(&self, (key, cause): Part<'_>) -> Culprit {
        let by_host = key.cause == Cause::Refused && key.culprit.role == Role::Server;
        match client(cause).filter(|client| by_host && self.0.contains(client)) {
            Some(address) => {
                Culprit { role: Role::Client, endpoint: Endpoint { address, port: 0 } }
            }
            None => culprit(key),
        }
    }
}

/// The addresses of clients that met what `parts` tell at so many hosts or more.
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

/// The address of the client that met it, if others hardly did.
pub(super) fn client(cause: &CauseTally) -> Option<[u8; 16]> {
    cause.callers.main()
}

/// Whom a finding about `key` blames: a host refuses on all its ports at once.
fn culprit(key: &Key) -> Culprit {
    let by_host = key.cause == Cause::Refused && key.culprit.role == Role::Server;
    let port = if by_host { 0 } else { key.culprit.endpoint.port };
    Culprit { endpoint: Endpoint { port, ..key.culprit.endpoint }, ..key.culprit }
}

/// What the parts of a finding have in common: on how many ports, and who tried them all.
pub(super) fn facts(parts: &[Part<'_>]) -> Vec<(&'static str, Fact)> {
    let Some(((key, first), others)) = parts.split_first() else { return Vec::new() };
    if key.cause != Cause::Refused || others.is_empty() {
        return Vec::new();
    }
    let hosts: HashSet<_> = parts.iter().map(|(key, _)| key.server.address).collect();
    // Those that are told together may be one port or many.
    let apart = parts.iter().filter(|(key, _)| key.server.port > 0).count();
    let of = match hosts.len() {
        1 if apart == parts.len() => ("ports", apart),
        1 => ("ports_least", apart),
        hosts => ("hosts", hosts),
    };
    let mut facts = vec![(of.0, Fact::Count(of.1 as u64))];
    let scanner = client(first).filter(|scanner| {
        let same = |(_, cause): &Part<'_>| client(cause) == Some(*scanner);
        parts.len() >= SCANNED_PORTS && others.iter().all(same)
    });
    facts.extend(scanner.map(|address| {
        let scanner = Endpoint { address, port: 0 };
        ("scanner", Fact::Text(scanner.ip().to_string()))
    }));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Side;

    /// The refused ports of one host, each with the client that asked.
    fn refused(ports: u16, client: impl Fn(u16) -> u8) -> Vec<(Key, CauseTally)> {
        let part = |port: u16| {
            let server = Endpoint { address: [9; 16], port };
            let culprit = Culprit { role: Role::Server, endpoint: server };
            let key = Key { cause: Cause::Refused, sender: Side::Server, server, culprit };
            let mut cause = CauseTally::default();
            cause.callers.add([client(port); 16], 1);
            (key, cause)
        };
        (1..=ports).map(part).collect()
    }

    fn names(parts: &[(Key, CauseTally)]) -> Vec<&'static str> {
        let parts: Vec<_> = parts.iter().map(|(key, cause)| (key, cause)).collect();
        facts(&parts).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn one_client_that_tries_many_ports_scans_them() {
        assert_eq!(names(&refused(100, |_| 1)), ["ports", "scanner"]);
        assert_eq!(names(&refused(100, |port| port as u8)), ["ports"]);
        assert_eq!(names(&refused(2, |_| 1)), ["ports"]);
        assert!(names(&refused(1, |_| 1)).is_empty());
    }

    #[test]
    fn ports_that_are_told_together_are_not_counted() {
        let mut parts = refused(100, |_| 1);
        parts[0].0.server.port = 0;
        assert_eq!(names(&parts), ["ports_least", "scanner"]);
        let parts: Vec<_> = parts.iter().map(|(key, cause)| (key, cause)).collect();
        assert_eq!(facts(&parts)[0].1, Fact::Count(99));
    }

    #[test]
    fn one_client_that_every_host_refuses_sweeps_the_network() {
        let parts = refused(100, |_| 1).into_iter().zip(0..).map(|((mut key, cause), host)| {
            key.server.address[15] = host;
            key.culprit.endpoint = key.server;
            (key, cause)
        });
        let parts: Vec<_> = parts.collect();
        let parts: Vec<_> = parts.iter().map(|(key, cause)| (key, cause)).collect();
        let whole = Sweeps::of(&parts);
        let culprits: Vec<_> = parts.iter().map(|&part| whole.culprit(part)).collect();
        let scanner = Endpoint { address: [1; 16], port: 0 };
        assert!(culprits.iter().all(|it| (it.role, it.endpoint) == (Role::Client, scanner)));
        let names: Vec<_> = facts(&parts).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["hosts", "scanner"]);
        let mut shared = parts[0].1.clone();
        shared.callers.add([2; 16], 1);
        assert_eq!(whole.culprit((parts[0].0, &shared)).role, Role::Server);
        let few = &parts[..20];
        let part = Sweeps::of(few);
        assert!(few.iter().all(|&one| part.culprit(one).role == Role::Server));
    }

    #[test]
    fn all_refused_ports_of_a_host_are_one_finding() {
        let culprits: Vec<_> = refused(3, |_| 1).iter().map(|(key, _)| culprit(key)).collect();
        assert!(culprits.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
