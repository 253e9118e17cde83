//! Hosts that answer on none of several ports: what the attempts have in common is the host, or the way
//! to it, and one report about it says more than one per port.

use crate::findings::attempts::HOST_ANSWERS;
use crate::findings::causes::set_up::are_all_silent;
use crate::findings::tally::Part;
use crate::model::{Cause, Culprit, Fact, Role};
use crate::wire::Endpoint;
use hashbrown::{HashMap, HashSet};

/// Hosts of which no attempt to connect was answered, on two ports or more.
pub(super) struct MuteHosts(HashSet<[u8; 16]>);

impl MuteHosts {
    /// Finds the hosts among `faults`. A port that was answered, or of which something else was found, shows
    /// that the host is heard.
    pub(super) fn of(faults: &[Part<'_>]) -> Self {
        let mut ports: HashMap<[u8; 16], (HashSet<u16>, bool)> = HashMap::new();
        for part in faults {
            let (ports, heard) = ports.entry(part.0.server.address).or_default();
            ports.insert(part.0.server.port);
            *heard |= !is_silent(part);
        }
        let mute = ports.into_iter().filter(|(_, (ports, heard))| ports.len() > 1 && !heard);
        Self(mute.map(|(address, _)| address).collect())
    }

    /// Returns the culprit of a finding about this part, if that is the way to a mute host.
    pub(super) fn culprit(&self, part: Part<'_>) -> Option<Culprit> {
        let endpoint = Endpoint { port: 0, ..part.0.server };
        let is_of_mute = is_silent(&part) && self.0.contains(&endpoint.address);
        is_of_mute.then_some(Culprit { role: Role::Network, endpoint })
    }
}

/// Returns whether nothing answered the attempts to connect of this part, nor reports why, and the host is
/// heard on no other connection.
fn is_silent((key, cause): &Part<'_>) -> bool {
    let at_server = key.culprit.role == Role::Network && key.culprit.endpoint == key.server;
    let is_up = cause.shown.count(HOST_ANSWERS) > 0;
    key.cause == Cause::SynRetransmit && at_server && are_all_silent(cause) && !is_up
}

/// Returns the facts that the parts of a finding about `culprit` share: the host, and the number of
/// ports.
pub(super) fn facts(culprit: Culprit, parts: &[Part<'_>]) -> Vec<(&'static str, Fact)> {
    let of_host =
        |part: &Part<'_>| is_silent(part) && part.0.server.address == culprit.endpoint.address;
    if parts.len() < 2 || culprit.endpoint.port > 0 || !parts.iter().all(of_host) {
        return Vec::new();
    }
    let host = culprit.endpoint.ip().to_string();
    vec![("mute_host", Fact::Text(host)), ("mute_ports", Fact::Count(parts.len() as u64))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::causes::set_up::SILENT;
    use crate::findings::tally::{CauseTally, Key};
    use crate::wire::Side;

    fn part(port: u16, silent: u64) -> (Key, CauseTally) {
        let server = Endpoint { address: [3; 16], port };
        let culprit = Culprit { role: Role::Network, endpoint: server };
        let key = Key { cause: Cause::SynRetransmit, sender: Side::Client, server, culprit };
        let mut cause = CauseTally { exchanges: 1, ..CauseTally::default() };
        cause.shown.add(SILENT, silent);
        (key, cause)
    }

    fn culprits(all: &[(Key, CauseTally)]) -> Vec<Option<Culprit>> {
        let parts: Vec<_> = all.iter().map(|(key, cause)| (key, cause)).collect();
        let mute = MuteHosts::of(&parts);
        parts.iter().map(|&part| mute.culprit(part)).collect()
    }

    #[test]
    fn a_host_that_answers_on_no_port_is_one_culprit() {
        let all = [part(80, 1), part(443, 1), part(8080, 1)];
        let endpoint = Endpoint { address: [3; 16], port: 0 };
        let at_host = Culprit { role: Role::Network, endpoint };
        assert_eq!(culprits(&all), [Some(at_host); 3]);
        let parts: Vec<_> = all.iter().map(|(key, cause)| (key, cause)).collect();
        let facts = facts(at_host, &parts);
        assert!(facts.contains(&("mute_ports", Fact::Count(3))), "{facts:?}");
    }

    #[test]
    fn one_silent_port_and_a_host_that_is_heard_have_separate_findings() {
        assert_eq!(culprits(&[part(80, 1)]), [None]);
        assert_eq!(culprits(&[part(80, 1), part(443, 0)]), [None, None]);
    }
}
