//! Resolves a name from the root down, as a resolver does: shows each referral and its time (RFC
//! 1034 §5.3.3).

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::ask::{Asking, Query, QueryOutcome};
use super::message::{RecordType, Referral};
use super::walk::asked_name;
use crate::budget::{Budget, Limits, NO_LIMIT};

/// Greatest number of referrals and aliases that are followed.
const HOPS_MAX: usize = 24;
/// The most that a trace sends: each query may be repeated over TCP.
const LIMITS: Limits = Limits {
    requests: (2 * HOPS_MAX * TRIES_MAX) as u64,
    connections: (HOPS_MAX * TRIES_MAX) as u64,
    connections_at_once: 1,
    bytes: NO_LIMIT,
};
/// Greatest number of servers of one zone that are tried.
const TRIES_MAX: usize = 3;
/// The UDP payload that an answer may have (RFC 9715), bytes.
const EDNS_BYTES: u16 = 1_232;

/// One step down the tree of zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// The zone whose servers were asked; `.` is the root.
    pub zone: String,
    /// The name of the server that was asked last; `None` for a root server, which is known by its
    /// address.
    pub server_name: Option<String>,
    /// The queries: one for each server that was tried, of which the last succeeded, and one more
    /// if its answer had to be fetched over TCP.
    pub queries: Vec<Query>,
    /// The zone and servers to which the answer refers.
    pub refers_to: Option<Referral>,
    /// Time to find the address of a server for which the referral contained none, ns.
    pub server_address_ns: u64,
}

/// The resolution of a name from the root down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The steps, in order.
    pub hops: Vec<Hop>,
    /// The reason if it ended without an answer.
    pub failure: Option<String>,
    /// Total time, ns.
    pub took_ns: u64,
}

/// The servers of a zone: the name, unless it is a root server, and the address.
type Servers = Vec<(Option<String>, SocketAddr)>;

struct Tracer<'a> {
    roots: &'a [SocketAddr],
    wait: Duration,
    start: Instant,
    hops: Vec<Hop>,
    /// Number of steps that are left.
    steps: usize,
    /// The budget of all queries.
    budget: Budget,
}

/// Resolves `name` from `roots` down; the wait for each server is at most `wait`. The addresses of
/// servers that a referral does not contain are resolved from the roots, too. Takes at most 24
/// steps of at most 3 queries each (6 if answers are truncated).
pub fn trace(name: &str, record_type: RecordType, roots: &[SocketAddr], wait: Duration) -> Trace {
    let start = Instant::now();
    let budget = Budget::new(LIMITS);
    let mut tracer = Tracer { roots, wait, start, hops: Vec::new(), steps: HOPS_MAX, budget };
    let name = asked_name(name).0;
    let failure = tracer.follow(name.trim_end_matches('.'), record_type, true).err();
    Trace { hops: tracer.hops, failure, took_ns: crate::nanoseconds(start.elapsed()) }
}

impl Tracer<'_> {
    /// Follows the referrals to the answer; the steps are kept if `shows`.
    fn follow(
        &mut self,
        name: &str,
        record_type: RecordType,
        shows: bool,
    ) -> Result<Vec<IpAddr>, String> {
        let mut name = name.to_owned();
        let mut zone = ".".to_owned();
        let mut servers: Servers = self.roots.iter().map(|&root| (None, root)).collect();
        let mut server_address_ns = 0;
        loop {
            self.steps = self.steps.checked_sub(1).ok_or("it leads on for more than 24 steps")?;
            let (server_name, queries) = self.ask(&name, record_type, &servers);
            let last = queries.last().cloned().ok_or("no server has an address")?;
            let refers_to =
                last.referral.clone().filter(|_| last.outcome == QueryOutcome::Referred);
            let hop =
                Hop { zone, server_name, queries, refers_to: refers_to.clone(), server_address_ns };
            if shows {
                self.hops.push(hop.clone());
            }
            match last.outcome {
                QueryOutcome::Referred => {
                    let referral = refers_to.ok_or("a referral without servers")?;
                    if !is_below(&referral.zone, &hop.zone) || !is_within(&name, &referral.zone) {
                        return Err(format!("{} refers back to {}", last.server, referral.zone));
                    }
                    zone = referral.zone.clone();
                    (servers, server_address_ns) = self.servers(&referral)?;
                }
                QueryOutcome::Answered => {
                    let alias = last.records.iter().rfind(|it| it.record_type == RecordType::CNAME);
                    let whole = last.records.iter().any(|it| it.record_type == record_type);
                    match alias {
                        Some(alias) if !whole && record_type != RecordType::CNAME => {
                            name = alias.data.clone();
                            zone = ".".to_owned();
                            servers = self.roots.iter().map(|&root| (None, root)).collect();
                            server_address_ns = 0;
                        }
                        _ => return Ok(last.addresses().collect()),
                    }
                }
                QueryOutcome::NoData | QueryOutcome::NxDomain => return Ok(Vec::new()),
                _ => return Err(format!("no server of {} answers", hop.zone)),
            }
        }
    }

    fn ask(
        &self,
        name: &str,
        record_type: RecordType,
        servers: &[(Option<String>, SocketAddr)],
    ) -> (Option<String>, Vec<Query>) {
        let mut queries = Vec::new();
        let mut asked = None;
        for (server_name, server) in servers.iter().take(TRIES_MAX) {
            let asking = Asking {
                server: *server,
                name,
                wait: self.wait,
                edns_bytes: Some(EDNS_BYTES),
                recurses: false,
                repeats: false,
                start: self.start,
                budget: &self.budget,
            };
            asked.clone_from(server_name);
            queries.extend(asking.at_once(&[record_type]));
            if queries.last().is_some_and(|it| it.outcome == QueryOutcome::Truncated) {
                queries.push(asking.over_tcp(record_type));
            }
            let leads_on = |it: &Query| it.is_usable() || it.outcome == QueryOutcome::Referred;
            if queries.last().is_some_and(leads_on) {
                break;
            }
        }
        (asked, queries)
    }

    /// Returns the addresses of the servers of a zone: IPv4 first, since more hosts have it.
    fn servers(&mut self, referral: &Referral) -> Result<(Servers, u64), String> {
        let mut servers: Vec<_> = referral
            .servers
            .iter()
            .flat_map(|(name, addresses)| addresses.iter().map(|it| (name.clone(), *it)))
            .map(|(name, address)| (Some(name), SocketAddr::new(address, self.port())))
            .collect();
        servers.sort_by_key(|(_, server)| server.is_ipv6());
        if !servers.is_empty() {
            return Ok((servers, 0));
        }
        let began = Instant::now();
        for (name, _) in referral.servers.iter().take(TRIES_MAX) {
            let found = self.follow(name, RecordType::A, false).unwrap_or_default();
            let port = self.port();
            let found = found.into_iter().map(|it| (Some(name.clone()), SocketAddr::new(it, port)));
            servers.extend(found);
            if !servers.is_empty() {
                return Ok((servers, crate::nanoseconds(began.elapsed())));
            }
        }
        Err(format!("no server of {} has an address", referral.zone))
    }

    /// Returns the port of the roots, at which all servers below them listen as well.
    fn port(&self) -> u16 {
        self.roots.first().map_or(53, SocketAddr::port)
    }
}

/// Returns whether `name` is `zone` or below it.
fn is_within(name: &str, zone: &str) -> bool {
    let (name, zone) = (name.to_ascii_lowercase(), zone.to_ascii_lowercase());
    zone == "." || name == zone || name.ends_with(&format!(".{zone}"))
}

/// Returns whether a referral is to a zone below `above`.
fn is_below(zone: &str, above: &str) -> bool {
    is_within(zone, above) && !zone.eq_ignore_ascii_case(above)
}
