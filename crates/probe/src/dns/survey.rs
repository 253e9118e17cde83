//! Queries every server separately: all get the same queries at the same time, several times.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Config;
use super::ask::{Asking, Port, Query, QueryOutcome};
use super::message::{RecordType, reverse_name};
use super::walk::asked_name;
use crate::budget::{Budget, Limits, NO_LIMIT};
use crate::nanoseconds as ns;

/// Time between the first query and the last: a TTL counts down in whole seconds.
const TTL_STEP: Duration = Duration::from_millis(1_100);
/// If a repeated answer takes at most this share of the time of the first, it came from a cache.
const CACHED_SHARE: f64 = 0.5;
/// Least difference that is not taken for chance, ns.
const CACHED_NS_MIN: u64 = 1_000_000;
/// Longest wait for the TCP connection that measures the round trip.
const RTT_WAIT: Duration = Duration::from_secs(1);

/// The queries to one server for the names that are tried until one exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Round {
    /// The queries in the order sent; `sent_ns` counts from the start of the survey.
    pub queries: Vec<Query>,
}

/// The state of a server's cache, as its answers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// The server did not answer, or was asked only once.
    Unknown,
    /// The server is authoritative for the zone (AA), and states the full TTL each time.
    Authoritative,
    /// The TTL counts down and the first answer was as fast as the later ones: the record was
    /// cached before.
    Held,
    /// The TTL counts down and later answers are faster: the record was fetched for the first one.
    Filled,
    /// The TTL is the full one each time and no answer is faster than the first: the server asks
    /// others each time, or resets the TTL.
    NotShown,
}

/// The results of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerSurvey {
    /// The server.
    pub server: SocketAddr,
    /// The first round, and the repeated ones.
    pub rounds: Vec<Round>,
    /// The state of the cache, as the answers show it.
    pub cache: Cache,
    /// Queries that were sent alone, of a type to which the server never answered when it was sent
    /// together with another.
    pub alone: Vec<Query>,
    /// The query for the name of the first address in the answers.
    pub reverse: Option<Query>,
    /// Round trip to the server's host, measured by the set-up or the refusal of a TCP connection,
    /// ns.
    pub rtt_ns: Option<u64>,
}

/// The results of all servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// The name that was asked for.
    pub name: String,
    /// The names that are tried in turn.
    pub candidates: Vec<String>,
    /// The servers, in the order of the configuration.
    pub servers: Vec<ServerSurvey>,
}

/// Queries each server of `config` for `name`, `count` times, all servers at the same time: with
/// the search list, A and AAAA together as glibc sends them, over TCP if an answer is truncated,
/// and for the name of the address. For an address, its reverse name is queried.
///
/// Each server gets at most `count` × names × (types + those over TCP) queries, one more for each
/// type that it does not answer, one for the reverse name, and a TCP connection.
pub fn survey(
    name: &str,
    types: &[RecordType],
    config: &Config,
    count: u32,
    budget: &Budget,
) -> Survey {
    let start = Instant::now();
    let (asked, is_reverse) = asked_name(name);
    let candidates = config.candidates(&asked);
    let of_server = |server: SocketAddr| {
        let asking = Asking {
            server,
            name: "",
            wait: config.wait(0),
            edns_bytes: config.edns_bytes(),
            recurses: true,
            repeats: false,
            start,
            budget,
        };
        one_server(&asking, &candidates, types, count, !is_reverse)
    };
    let servers = thread::scope(|scope| {
        let of_server = &of_server;
        let spawn = |&server: &SocketAddr| scope.spawn(move || of_server(server));
        let threads: Vec<_> = config.servers.iter().map(spawn).collect();
        threads
            .into_iter()
            .map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Survey { name: name.to_owned(), candidates, servers }
}

/// Returns the most that [`survey`] sends.
pub fn survey_limits(name: &str, types: &[RecordType], config: &Config, count: u32) -> Limits {
    let candidates = config.candidates(&asked_name(name).0).len() as u64;
    let (types, servers) = (types.len() as u64, config.servers.len() as u64);
    let over_tcp = u64::from(count) * candidates * types;
    Limits {
        // Each query may be repeated over TCP, or alone; one more asks for the reverse name.
        requests: servers * (2 * over_tcp + types + 1),
        connections: servers * (over_tcp + 1),
        connections_at_once: NO_LIMIT,
        bytes: NO_LIMIT,
    }
}

impl Survey {
    /// Repeats the queries to those servers that are `wanted`.
    pub fn repeat(
        &mut self,
        types: &[RecordType],
        config: &Config,
        budget: &Budget,
        wanted: impl Fn(SocketAddr) -> bool,
    ) {
        let servers = config.servers.iter().copied().filter(|&it| wanted(it)).collect();
        let again = survey(&self.name, types, &config.clone().with_servers(servers), 1, budget);
        for more in again.servers {
            let same = self.servers.iter_mut().find(|it| it.server == more.server);
            if let Some(server) = same {
                server.rounds.extend(more.rounds);
            }
        }
    }
}

fn one_server(
    asking: &Asking<'_>,
    candidates: &[String],
    types: &[RecordType],
    count: u32,
    asks_reverse: bool,
) -> ServerSurvey {
    let began = Instant::now();
    let mut rounds: Vec<Round> = Vec::new();
    let rtt_ns = round_trip(asking);
    // The port stays open: an answer that comes after the wait comes while a later query waits.
    let mut port = None;
    for number in 0..count {
        if number > 0 && number + 1 == count {
            thread::sleep(TTL_STEP.saturating_sub(began.elapsed()));
        }
        let round = round(asking, candidates, types, &mut port);
        let heard = round.queries.iter().any(Query::is_heard);
        rounds.push(round);
        let is_late = adopt(port.as_mut(), &mut rounds);
        // A server that did not answer two rounds is not asked again.
        if !heard && number > 0 {
            // If it answered the first of them late, the last one is worth one more wait.
            if let Some(port) = port.as_mut().filter(|_| is_late) {
                asking.listen(port);
                adopt(Some(port), &mut rounds);
            }
            break;
        }
    }
    let address = rounds.iter().flat_map(|it| &it.queries).flat_map(Query::addresses).next();
    let reverse = address.filter(|_| asks_reverse).map(|address| reverse(asking, address));
    let alone = alone(asking, &rounds, types);
    ServerSurvey { server: asking.server, cache: cache(&rounds), rounds, alone, reverse, rtt_ns }
}

/// Gives late answers to the queries that they answer; returns whether there are any.
fn adopt(port: Option<&mut Port>, rounds: &mut [Round]) -> bool {
    let late = port.map(Port::take_late).unwrap_or_default();
    let any = !late.is_empty();
    for answered in late {
        let mut queries = rounds.iter_mut().flat_map(|round| &mut round.queries);
        let is_same = |it: &&mut Query| {
            it.sent_ns == answered.sent_ns && it.record_type == answered.record_type
        };
        if let Some(query) = queries.find(is_same) {
            query.late = Some(Box::new(answered));
        }
    }
    any
}

/// Sends queries alone for types that are never answered when sent together with another.
fn alone(asking: &Asking<'_>, rounds: &[Round], types: &[RecordType]) -> Vec<Query> {
    let queries = || rounds.iter().flat_map(|round| &round.queries);
    let silent = |it: &RecordType| {
        let mut of_type = queries().filter(|query| query.record_type == *it);
        of_type.all(Query::is_silent)
    };
    let types: Vec<_> = types.iter().filter(|it| silent(it)).collect();
    let Some(name) = queries().next().map(|it| it.name.clone()) else { return Vec::new() };
    if !queries().any(Query::is_heard) {
        return Vec::new();
    }
    let asking = Asking { name: &name, ..*asking };
    types.into_iter().flat_map(|&it| asking.at_once(&[it])).collect()
}

/// Returns the time of a connection set-up, or of its refusal, which takes one round trip.
fn round_trip(asking: &Asking<'_>) -> Option<u64> {
    let began = Instant::now();
    let wait = asking.wait.min(RTT_WAIT);
    let connect = || TcpStream::connect_timeout(&asking.server, wait);
    let connected = asking.budget.connect(wait, connect);
    let took_ns = ns(began.elapsed());
    let answered = connected.map_or_else(|it| it.kind() == ErrorKind::ConnectionRefused, |_| true);
    answered.then_some(took_ns)
}

fn round(
    asking: &Asking<'_>,
    candidates: &[String],
    types: &[RecordType],
    port: &mut Option<Port>,
) -> Round {
    let mut queries = Vec::new();
    for name in candidates {
        let asking = Asking { name, ..*asking };
        let mut asked = asking.at_once_from(port, types);
        let cut = asked.iter().filter(|it| it.outcome == QueryOutcome::Truncated);
        let again: Vec<_> = cut.map(|it| it.record_type).collect();
        // If one answer is truncated, glibc sends both queries over TCP.
        let again = if again.is_empty() { &[] } else { types };
        asked.extend(again.iter().map(|&it| asking.over_tcp(it)));
        let exists = asked.iter().any(|it| !it.records.is_empty());
        let heard = asked.iter().any(Query::is_heard);
        queries.extend(asked);
        if exists || !heard {
            break;
        }
    }
    Round { queries }
}

fn reverse(asking: &Asking<'_>, address: IpAddr) -> Query {
    let name = reverse_name(address);
    let asking = Asking { name: &name, ..*asking };
    asking.at_once(&[RecordType::PTR]).remove(0)
}

impl ServerSurvey {
    /// Returns the time from the start of the round to the answer that is used, ns; `None` if there
    /// is none. The time of a pair is that of its later answer.
    pub fn answer_ns(&self, round: usize) -> Option<u64> {
        let queries = &self.rounds.get(round)?.queries;
        queries.iter().filter_map(Query::answered).map(|it| it.took_ns).max()
    }

    /// Returns the time of the fastest of the repeated answers, ns.
    pub fn repeated_ns(&self) -> Option<u64> {
        (1..self.rounds.len()).filter_map(|round| self.answer_ns(round)).min()
    }
}

/// Derives the state of the cache from TTLs and response times.
fn cache(rounds: &[Round]) -> Cache {
    let answered = |round: &Round| {
        let with_records = round.queries.iter().filter(|it| !it.records.is_empty());
        with_records.max_by_key(|it| it.took_ns).cloned()
    };
    let answers: Vec<Query> = rounds.iter().filter_map(answered).collect();
    let [first, again @ ..] = &answers[..] else { return Cache::Unknown };
    let Some(last) = again.last() else { return Cache::Unknown };
    let ttl = |query: &Query| {
        query
            .records
            .iter()
            .map(|it| (it.record_type, it.data.clone(), it.ttl_s))
            .min_by(|one, other| one.2.cmp(&other.2).then_with(|| one.1.cmp(&other.1)))
    };
    let fell = match (ttl(first), ttl(last)) {
        (Some((.., before)), Some((.., after))) => after < before,
        _ => false,
    };
    let fastest_ns = again.iter().map(|it| it.took_ns).min().unwrap_or(u64::MAX);
    let is_faster = fastest_ns as f64 <= first.took_ns as f64 * CACHED_SHARE
        && first.took_ns - fastest_ns >= CACHED_NS_MIN;
    match (fell, is_faster) {
        _ if first.is_authoritative && last.is_authoritative && !fell => Cache::Authoritative,
        (true, false) => Cache::Held,
        (_, true) => Cache::Filled,
        (false, false) => Cache::NotShown,
    }
}

impl Survey {
    /// Returns the first round of each server, for [`expect`](super::expect).
    pub fn first(&self) -> Vec<Round> {
        self.servers.iter().filter_map(|it| it.rounds.first().cloned()).collect()
    }

    /// Returns the last round of each server.
    pub fn repeated(&self) -> Vec<Round> {
        self.servers.iter().filter_map(|it| it.rounds.last().cloned()).collect()
    }

    /// Describes the names about which the servers contradict each other: some say that it does not
    /// exist, and others have it.
    pub fn contradictions(&self) -> Vec<String> {
        let with = |name: &str, is: fn(&Query) -> bool| {
            let has = |it: &&ServerSurvey| {
                it.rounds.iter().flat_map(|it| &it.queries).any(|it| it.name == name && is(it))
            };
            let servers = self.servers.iter().filter(has);
            servers.map(|it| it.server.to_string()).collect::<Vec<_>>()
        };
        let of = |name: &String| {
            let none = with(name, |it| it.outcome == QueryOutcome::NxDomain);
            let some = with(name, |it| it.outcome == QueryOutcome::Answered);
            (!none.is_empty() && !some.is_empty()).then(|| {
                let (none, some) = (none.join(", "), some.join(", "));
                format!(
                    "{name} does not exist at {none} and has records at {some}: a program takes \
                         the answer that comes first in its order of servers"
                )
            })
        };
        self.candidates.iter().filter_map(of).collect()
    }

    /// Returns the number of queries that were sent.
    pub fn sent(&self) -> u64 {
        let of_server = |it: &ServerSurvey| {
            it.rounds.iter().map(|round| round.queries.len()).sum::<usize>()
                + it.alone.len()
                + usize::from(it.reverse.is_some())
        };
        self.servers.iter().map(of_server).sum::<usize>() as u64
    }

    /// Returns the time from the first query to the last answer, ns.
    pub fn took_ns(&self) -> u64 {
        let rounds = self.servers.iter().flat_map(|it| &it.rounds);
        rounds.flat_map(|it| &it.queries).map(Query::end_ns).max().unwrap_or(ns(Duration::ZERO))
    }
}
