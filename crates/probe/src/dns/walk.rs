//! Resolves a name as glibc does: with its choice of servers, order of queries, and waits for
//! answers (`__res_context_search` of res_query.c, `__res_context_send` and `send_dg` of
//! res_send.c). The same algorithm runs with sockets ([`look_up`]) and with answers that are
//! already known ([`expect`]).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::ask::{Asking, Port, Query, QueryOutcome, Transport};
use super::message::{RecordType, reverse_name};
use super::survey::Round;
use super::{Config, Hosts};
use crate::budget::{Budget, Limits, NO_LIMIT};

/// The order in which the queries of a pair are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The second query directly follows the first.
    AtOnce,
    /// The second query follows the answer to the first (`options single-request`).
    InTurn,
    /// The second query follows the answer to the first, from another port (`options
    /// single-request-reopen`).
    InTurnReopened,
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The answers contain records.
    Found,
    /// The name exists, but has no records of these types.
    NoData,
    /// The name does not exist.
    NotFound,
    /// No server had an answer.
    TryAgain,
}

/// A look-up, its result and duration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lookup {
    /// The name as the caller gave it.
    pub name: String,
    /// The name that exists, including its search domain.
    pub found: Option<String>,
    /// The result of the look-up.
    pub ended: Ended,
    /// The addresses, in the order of the answers.
    pub addresses: Vec<IpAddr>,
    /// Total time, ns.
    pub took_ns: u64,
    /// The queries in the order sent; empty if /etc/hosts contains the name.
    pub queries: Vec<Query>,
}

impl Lookup {
    /// Returns the look-up of a name whose addresses are known without a query.
    pub fn without_servers(name: &str, addresses: Vec<IpAddr>) -> Lookup {
        Lookup {
            name: name.to_owned(),
            found: Some(name.to_owned()),
            ended: Ended::Found,
            addresses,
            took_ns: 0,
            queries: Vec::new(),
        }
    }
}

/// The source of the answers to the queries of a look-up.
trait Resolver {
    /// Returns the answers of a server to queries that are sent at `now_ns` of the look-up, ns.
    fn ask(&mut self, asking: &ServerQueries<'_>, now_ns: u64) -> Vec<Query>;
}

struct ServerQueries<'a> {
    server: SocketAddr,
    name: &'a str,
    types: &'a [RecordType],
    wait: Duration,
    mode: Mode,
    transport: Transport,
}

/// Resolves `name` to addresses as getaddrinfo does if nsswitch.conf contains `hosts: files dns`:
/// from the table of this host first, then by the servers of `config`. The result for an address is
/// the address.
pub fn look_up(name: &str, config: &Config, budget: &Budget) -> Lookup {
    let known = match name.parse() {
        Ok(address) => vec![address],
        Err(_) => Hosts::system().addresses(name),
    };
    if !known.is_empty() {
        return Lookup::without_servers(name, known);
    }
    let (start, edns_bytes, ports) = (Instant::now(), config.edns_bytes(), BTreeMap::new());
    let mut sockets = Sockets { start, edns_bytes, budget, ports };
    Walk::new(config, &config.address_types(), 0).run(name, &mut sockets)
}

/// Returns the most that [`look_up`] sends.
pub fn look_up_limits(name: &str, config: &Config) -> Limits {
    let types = config.address_types().len() as u64;
    let names = config.candidates(name).len() as u64;
    let over_udp = config.attempts() * names * config.servers.len() as u64 * types;
    Limits {
        // Each query may be repeated over TCP.
        requests: 2 * over_udp,
        connections: over_udp,
        connections_at_once: NO_LIMIT,
        bytes: NO_LIMIT,
    }
}

/// Returns the look-up as it would have been if each server had answered as in `rounds`, which
/// contains one round for each server of `config`. If it may begin at several servers, it is the
/// slowest.
pub fn expect(name: &str, types: &[RecordType], config: &Config, rounds: &[Round]) -> Lookup {
    let each = expect_each(name, types, config, rounds);
    let slowest = each.into_iter().map(|(_, lookup)| lookup).max_by_key(|it| it.took_ns);
    slowest.unwrap_or_else(|| Lookup::without_servers(name, Vec::new()))
}

/// Returns the look-up for each server at which it may begin. They are equally likely.
pub fn expect_each(
    name: &str,
    types: &[RecordType],
    config: &Config,
    rounds: &[Round],
) -> Vec<(SocketAddr, Lookup)> {
    let from = |(start, server): (usize, &SocketAddr)| {
        (*server, Walk::new(config, types, start).run(name, &mut KnownAnswers::of(rounds)))
    };
    config.servers.iter().enumerate().take(config.starts()).map(from).collect()
}

/// Queries servers over sockets.
struct Sockets<'a> {
    start: Instant,
    edns_bytes: Option<u16>,
    budget: &'a Budget,
    /// The port to each server, which stays open until the look-up ends.
    ports: BTreeMap<SocketAddr, Option<Port>>,
}

impl Resolver for Sockets<'_> {
    fn ask(&mut self, step: &ServerQueries<'_>, _: u64) -> Vec<Query> {
        let asking = Asking {
            server: step.server,
            name: step.name,
            wait: step.wait,
            edns_bytes: self.edns_bytes,
            recurses: true,
            repeats: true,
            start: self.start,
            budget: self.budget,
        };
        match (step.transport, step.mode) {
            (Transport::Tcp, _) => step.types.iter().map(|&it| asking.over_tcp(it)).collect(),
            (_, Mode::AtOnce) => asking.at_once_from(self.port(step), step.types),
            (_, Mode::InTurn) => asking.in_turn(self.port(step), step.types),
            (_, Mode::InTurnReopened) => asking.in_turn_reopened(step.types),
        }
    }
}

impl Sockets<'_> {
    fn port(&mut self, step: &ServerQueries<'_>) -> &mut Option<Port> {
        self.ports.entry(step.server).or_default()
    }
}

/// Returns answers that are already known.
struct KnownAnswers<'a> {
    rounds: &'a [Round],
    /// The queries whose answers arrive after their wait: the port to their server stays open, and a
    /// query that is repeated has the same id, so it takes such an answer.
    late: Vec<Query>,
}

impl Resolver for KnownAnswers<'_> {
    fn ask(&mut self, step: &ServerQueries<'_>, now_ns: u64) -> Vec<Query> {
        let wait_ns = crate::nanoseconds(step.wait);
        if step.mode == Mode::InTurnReopened {
            // All ports are closed before that.
            self.late.clear();
        }
        let mut queries: Vec<Query> = Vec::new();
        let mut sent_ns = now_ns;
        for &record_type in step.types {
            let Some(known) = self.answer(step, record_type) else { continue };
            let mut query = Query { sent_ns, ..known };
            let left_ns = wait_ns.saturating_sub(sent_ns - now_ns);
            let late = self.late(&query).filter(|it| it.end_ns() <= sent_ns + left_ns);
            if let Some(late) = late {
                let took_ns = late.end_ns().saturating_sub(sent_ns);
                query = Query { sent_ns, took_ns, late: Some(Box::new(late.clone())), ..late };
            } else if query.is_silent() || query.took_ns > left_ns {
                if !query.is_silent() && query.transport == Transport::Udp {
                    self.late.push(query.clone());
                }
                (query.outcome, query.took_ns) = (QueryOutcome::Timeout, left_ns);
                query.records.clear();
            }
            if step.mode != Mode::AtOnce || step.transport == Transport::Tcp {
                sent_ns = query.end_ns();
            }
            let goes_on = query.is_heard() || step.mode == Mode::AtOnce;
            queries.push(query);
            if !goes_on {
                break;
            }
        }
        queries
    }
}

impl<'a> KnownAnswers<'a> {
    fn of(rounds: &'a [Round]) -> KnownAnswers<'a> {
        KnownAnswers { rounds, late: Vec::new() }
    }

    /// Returns the earlier query that is the same as this one and whose answer is still to come, or lies
    /// at the port; the first of several.
    fn late(&self, query: &Query) -> Option<Query> {
        let is_same = |it: &&Query| {
            let key = |it: &Query| (it.server, it.record_type, it.transport);
            key(it) == key(query) && it.name == query.name
        };
        self.late.iter().filter(is_same).min_by_key(|it| it.end_ns()).cloned()
    }

    /// Returns the server's answer. The rounds of a server that never answers do not contain all
    /// names.
    fn answer(&self, step: &ServerQueries<'_>, record_type: RecordType) -> Option<Query> {
        let queries = self.rounds.iter().flat_map(|round| &round.queries);
        let of_type = queries.filter(|it| {
            it.server == step.server
                && it.record_type == record_type
                && it.transport == step.transport
        });
        let same = of_type.clone().find(|it| it.name == step.name);
        let silent = of_type.clone().all(|it| !it.is_heard()).then(|| of_type.clone().next());
        let known = same.or(silent.flatten())?;
        let known = known.answered().unwrap_or(known);
        Some(Query { name: step.name.to_owned(), ..known.clone() })
    }
}

struct Walk<'a> {
    config: &'a Config,
    types: &'a [RecordType],
    mode: Mode,
    /// Place of the server at which the next name begins.
    start: usize,
    now_ns: u64,
    queries: Vec<Query>,
}

/// The combined answer of the servers for one name.
enum Said {
    Found,
    NoData,
    NxDomain,
    /// All servers failed. The last one reported SERVFAIL, did not answer, or its port was closed.
    Failed {
        is_servfail: bool,
        is_closed: bool,
    },
}

/// The answer of one server for one name.
enum Server {
    Replied,
    OverTcp,
    Next { was_closed: bool },
}

impl<'a> Walk<'a> {
    fn new(config: &'a Config, types: &'a [RecordType], start: usize) -> Walk<'a> {
        let has = |option| config.resolver.has(option);
        let mode = match (has("single-request"), has("single-request-reopen")) {
            (_, true) => Mode::InTurnReopened,
            (true, false) => Mode::InTurn,
            _ => Mode::AtOnce,
        };
        Walk { config, types, mode, start, now_ns: 0, queries: Vec::new() }
    }

    /// Tries the names in turn (`__res_context_search`).
    fn run(mut self, name: &str, asked: &mut impl Resolver) -> Lookup {
        let (mut found, mut ended) = (None, Ended::NotFound);
        let candidates = self.config.candidates(name);
        let mut is_done = false;
        for (place, candidate) in candidates.iter().enumerate() {
            // After a failure the name itself is tried nevertheless.
            if is_done && candidate.len() > name.len() {
                continue;
            }
            let before = self.queries.len();
            match self.name(candidate, asked) {
                Said::Found => {
                    (found, ended) = (Some((candidate.clone(), before)), Ended::Found);
                    break;
                }
                Said::NoData => ended = Ended::NoData,
                Said::NxDomain => {}
                Said::Failed { is_servfail, is_closed } => {
                    // The next search domain is tried only if the name was tried first and without
                    // one, or after SERVFAIL.
                    let as_is_first = place == 0 && candidate.len() <= name.len();
                    ended = Ended::TryAgain;
                    if is_closed {
                        break;
                    }
                    is_done |= !(is_servfail || as_is_first);
                }
            }
        }
        let answers = found.as_ref().map_or(&[][..], |(_, first)| &self.queries[*first..]);
        let mut addresses = Vec::new();
        for address in answers.iter().flat_map(Query::addresses) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Lookup {
            name: name.to_owned(),
            found: found.map(|(name, _)| name),
            ended,
            addresses,
            took_ns: self.now_ns,
            queries: self.queries,
        }
    }

    /// Resolves one name, in rounds over the servers (`__res_context_send`).
    fn name(&mut self, name: &str, asked: &mut impl Resolver) -> Said {
        let (mut is_servfail, mut is_closed) = (false, true);
        let mut over_tcp = false;
        let start = self.start;
        self.start = (start + 1) % self.config.starts();
        let all = self.config.servers.iter().enumerate();
        let servers: Vec<_> = all.clone().skip(start).chain(all.take(start)).collect();
        for _ in 0..self.config.attempts() {
            for &(place, &server) in &servers {
                let before = self.queries.len();
                let mut said = Server::OverTcp;
                if !over_tcp {
                    said = self.datagrams(name, (place, server), asked);
                }
                if matches!(said, Server::OverTcp) {
                    over_tcp = true;
                    said = self.stream(name, (place, server), asked);
                }
                match said {
                    Server::Replied => return self.sum_up(before),
                    Server::Next { was_closed } => is_closed &= was_closed,
                    Server::OverTcp => {}
                }
                let last = self.queries.last().map(|query| &query.outcome);
                if let Some(QueryOutcome::Failure { rcode }) = last {
                    is_servfail = rcode == "SERVFAIL";
                }
            }
            // After a query over TCP glibc begins no further round over the servers.
            if over_tcp {
                break;
            }
        }
        Said::Failed { is_servfail, is_closed }
    }

    fn sum_up(&self, from: usize) -> Said {
        let queries = &self.queries[from..];
        if queries.iter().any(|it| !it.records.is_empty()) {
            Said::Found
        } else if queries.iter().any(|it| it.outcome == QueryOutcome::NxDomain) {
            Said::NxDomain
        } else {
            Said::NoData
        }
    }

    /// Queries one server over UDP (`send_dg`). After a wait in which one of two queries was
    /// answered, both are sent to the same server again, the second after the answer to the first,
    /// and then from another port: some servers and filters drop the second of two queries from one
    /// port.
    fn datagrams(
        &mut self,
        name: &str,
        (place, server): (usize, SocketAddr),
        asked: &mut impl Resolver,
    ) -> Server {
        loop {
            let wait = self.config.wait(place);
            let (types, mode, transport) = (self.types, self.mode, Transport::Udp);
            let step = ServerQueries { server, name, types, wait, mode, transport };
            let queries = self.step(&step, asked);
            let is = |of: fn(&Query) -> bool| queries.iter().filter(|it| of(it)).count();
            if queries.iter().any(|it| it.outcome == QueryOutcome::Truncated) {
                return Server::OverTcp;
            }
            let closed = is(|it| !it.is_heard() && !it.is_silent());
            let (silent, usable) = (is(Query::is_silent), is(Query::is_usable));
            let failed = queries.len() - closed - silent - usable;
            if closed > 0 || queries.is_empty() {
                return Server::Next { was_closed: true };
            }
            if silent > 0 && usable + failed > 0 {
                self.mode = match self.mode {
                    Mode::AtOnce => Mode::InTurn,
                    Mode::InTurn => Mode::InTurnReopened,
                    Mode::InTurnReopened if usable > 0 => return Server::Replied,
                    Mode::InTurnReopened => return Server::Next { was_closed: false },
                };
                continue;
            }
            let replied = silent == 0 && usable > 0;
            return if replied { Server::Replied } else { Server::Next { was_closed: false } };
        }
    }

    /// Queries one server over TCP (`send_vc`).
    fn stream(
        &mut self,
        name: &str,
        (place, server): (usize, SocketAddr),
        asked: &mut impl Resolver,
    ) -> Server {
        let wait = self.config.wait(place);
        let (types, mode, transport) = (self.types, self.mode, Transport::Tcp);
        let step = ServerQueries { server, name, types, wait, mode, transport };
        let queries = self.step(&step, asked);
        let usable = queries.iter().any(Query::is_usable);
        if usable { Server::Replied } else { Server::Next { was_closed: false } }
    }

    fn step(&mut self, step: &ServerQueries<'_>, asked: &mut impl Resolver) -> Vec<Query> {
        let queries = asked.ask(step, self.now_ns);
        let end_ns = queries.iter().map(Query::end_ns).max().unwrap_or(0);
        self.now_ns = self.now_ns.max(end_ns);
        self.queries.extend(queries.iter().cloned());
        queries
    }
}

/// Returns the name to query and whether it is that of a reverse look-up: an address becomes its
/// name in the reverse tree.
pub(super) fn asked_name(name: &str) -> (String, bool) {
    match name.parse() {
        Ok(address) => (reverse_name(address) + ".", true),
        Err(_) => (name.to_owned(), false),
    }
}
