//! Scans: one client that tries many ports of a host, or many hosts, without completing a
//! handshake.
//!
//! No application waits for the answers, and nothing has to be repaired at the host. A scan is
//! therefore an observation with the numbers of ports that answered, refused and did not answer;
//! its attempts are no findings, and no exchanges.

mod network;

use crate::capture::FrameId;
use crate::findings::refusals::client;
use crate::findings::tally::{Part, Tally};
use crate::findings::thresholds::SCANNED_PORTS_MIN;
use crate::model::{Cause, Fact, Observation};
use crate::wire::Endpoint;
use network::Sweep;
use std::collections::{BTreeMap, BTreeSet};

/// Address of a host.
type Host = [u8; 16];

/// Ports that one client tried at one host, by the result. If there were too many ports to be
/// counted separately, each attempt counts as one.
#[derive(Clone, Debug, Default)]
struct Tried {
    answered: u64,
    refused: u64,
    silent: u64,
    /// Number of attempts that were refused.
    refusals: u64,
    frames: BTreeSet<FrameId>,
}

impl Tried {
    fn ports(&self) -> u64 {
        self.answered + self.refused + self.silent
    }

    fn is_scan(&self) -> bool {
        self.ports() >= SCANNED_PORTS_MIN && is_once(self.refusals, self.refused)
    }
}

/// Returns whether each of `tried` was tried about once, in `attempts` that were refused: a scan is
/// done with an address that refuses it, and a client that needs the service comes back.
fn is_once(attempts: u64, tried: u64) -> bool {
    attempts == tried || attempts < 2 * tried
}

/// Greatest number of frames that an observation names.
const FRAMES_MAX: usize = 3;

/// All scans of a capture.
pub(super) struct Scans {
    /// Ports that were tried, by client and host.
    ports: BTreeMap<(Host, Host), Tried>,
    /// Clients that tried many hosts, of which none accepted.
    hosts: BTreeMap<Host, Sweep>,
}

impl Scans {
    /// Finds the scans that `tally` shows.
    pub(super) fn of(tally: &Tally) -> Self {
        Self { ports: port_scans(tally), hosts: network::find(tally) }
    }

    /// Returns whether the attempts of `part` belong to a scan.
    pub(super) fn explain(&self, part: Part<'_>) -> bool {
        let (key, cause) = part;
        if !matches!(key.cause, Cause::Refused | Cause::SynRetransmit | Cause::AcceptQueueOverflow)
        {
            return false;
        }
        let Some(client) = client(cause) else { return false };
        self.ports.contains_key(&(client, key.server.address))
            || network::explain(part, &self.hosts)
    }

    /// Removes the exchanges of `tally` that are attempts of a scan: nobody waited for them.
    pub(super) fn leave_out(&self, tally: &mut Tally) {
        let explained = tally.causes.iter().filter(|part| self.explain(*part));
        let mut attempts: BTreeMap<Endpoint, u64> = BTreeMap::new();
        for (key, cause) in explained {
            *attempts.entry(key.server).or_default() += cause.exchanges;
        }
        for (server, count) in attempts {
            // Ports that share a row may have other exchanges too.
            let row = tally.endpoints.get_mut(&server).filter(|it| it.all.exchanges == count);
            row.into_iter().for_each(|endpoint| endpoint.clear());
        }
    }

    /// Returns whether an exchange of `client` at `server` is an attempt of a scan.
    pub(super) fn has(&self, client: Host, server: Endpoint) -> bool {
        let sweep = self.hosts.get(&client);
        self.is_of(client, server) || sweep.is_some_and(|sweep| sweep.has(server.address))
    }

    /// Returns whether the unfinished handshakes at `server`, all of which are of `client`, belong
    /// to a scan.
    pub(super) fn is_of(&self, client: Host, server: Endpoint) -> bool {
        self.ports.contains_key(&(client, server.address))
    }

    /// Returns one observation for each scan, those with most attempts first.
    pub(super) fn observe(&self) -> Vec<Observation> {
        let ports = self.ports.iter().map(|((client, host), tried)| {
            let facts = vec![
                ("scanner", name(client)),
                ("host", name(host)),
                ("ports", Fact::Count(tried.ports())),
                ("answered", Fact::Count(tried.answered)),
                ("refused", Fact::Count(tried.refused)),
                ("silent", Fact::Count(tried.silent)),
            ];
            let frames = tried.frames.iter().copied().collect();
            (tried.ports(), Observation { id: "port_scan", facts, frames })
        });
        let hosts = self.hosts.iter().map(|(client, sweep)| sweep.observe(client));
        let mut all: Vec<_> = ports.chain(hosts).collect();
        all.sort_by_key(|(attempts, _)| std::cmp::Reverse(*attempts));
        all.into_iter().map(|(_, observation)| observation).collect()
    }
}

fn name(address: &Host) -> Fact {
    Fact::Text(Endpoint { address: *address, port: 0 }.ip().to_string())
}

/// Returns the clients with their attempts at one host, if these are on many ports.
fn port_scans(tally: &Tally) -> BTreeMap<(Host, Host), Tried> {
    let mut all: BTreeMap<(Host, Host), Tried> = BTreeMap::new();
    for (server, endpoint) in &tally.endpoints {
        // A port that accepted connections of others is in use. Ports that are counted together may
        // be both.
        if endpoint.set_ups.established > 0 && server.port > 0 {
            continue;
        }
        let flood = &endpoint.set_ups.flood;
        if let Some(client) = flood.only_source() {
            let tried = all.entry((client, server.address)).or_default();
            let silent = flood.count - flood.answered;
            match server.port {
                0 => {
                    (tried.answered, tried.silent) =
                        (tried.answered + flood.answered, tried.silent + silent)
                }
                _ if flood.answered > 0 => tried.answered += 1,
                _ => tried.silent += 1,
            }
            tried.frames.extend(flood.ends().map(|(first, _)| first.frame));
            while tried.frames.len() > FRAMES_MAX {
                tried.frames.pop_last();
            }
        }
    }
    let refused = tally.causes.iter().filter(|(key, _)| key.cause == Cause::Refused);
    for (key, cause) in refused {
        if let Some(client) = client(cause) {
            let tried = all.entry((client, key.server.address)).or_default();
            tried.refused += if key.server.port == 0 { cause.exchanges } else { 1 };
            tried.refusals += cause.exchanges;
        }
    }
    all.retain(|_, tried| tried.is_scan());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tally::Key;
    use crate::model::{Culprit, Role};
    use crate::wire::Side;

    /// The sums of a client that each of these servers refused.
    fn refused(servers: impl Iterator<Item = Endpoint>) -> Tally {
        let mut tally = Tally::default();
        for server in servers {
            let culprit = Culprit { role: Role::Server, endpoint: server };
            let key = Key { cause: Cause::Refused, sender: Side::Client, server, culprit };
            let cause = tally.causes.at(&key);
            cause.exchanges = 1;
            cause.affected_clients.add([99; 16], 1);
        }
        tally
    }

    #[test]
    fn a_client_tries_a_dozen_ports_of_a_host_and_a_scan_dozens() {
        let is_scan = |ports| {
            let server = |port| Endpoint { address: [1; 16], port };
            !port_scans(&refused((1..=ports).map(server))).is_empty()
        };
        assert!(!is_scan(12) && is_scan(24));
    }

    #[test]
    fn a_client_tries_dozens_of_hosts_and_a_scan_hundreds() {
        let is_scan = |hosts: u8| {
            let server = |host| Endpoint { address: [host; 16], port: 22 };
            !network::find(&refused((1..=hosts).map(server))).is_empty()
        };
        assert!(!is_scan(50) && is_scan(100));
    }
}
