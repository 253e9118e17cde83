//! The traffic of an examination: the most that it may send, which is stated before anything is
//! sent, and what it did send.

use super::args::Doctor;
use super::asked::{CONNECTIONS, REQUESTS};
use super::experimenting::PAIRS_MAX;
use super::redirects::{self, REDIRECTS_MAX};
use super::{http2, loads, way};
use serde::Serialize;
use tcpwhy_core::model::units::{bytes, count, counted, duration};
use tcpwhy_probe::addresses;
use tcpwhy_probe::budget::{Budget, Limits, NO_LIMIT, Spent, receive_buffer_bytes};
use tcpwhy_probe::dns::{self, Config, record_type};
use tcpwhy_probe::experiment::{Kind, Occasion};
use tcpwhy_probe::http::Request;
use tcpwhy_probe::{Scheme, Target};

/// Bytes of the requests that are sent alone and of their answers, and of those of experiments.
const ALONE_BYTES: u64 = 12 << 20;
const EXPERIMENTS_BYTES: u64 = 8 << 20;
/// Connections with experiments at the same time.
const AT_ONCE: u64 = 10;
/// Bytes of a connection without a request: a TLS handshake.
const HANDSHAKE_BYTES: u64 = 64 << 10;

/// A part of the examination with the budget of its own.
struct Part {
    limits: Limits,
    budget: Budget,
}

impl Part {
    fn new(limits: Limits) -> Part {
        Part { limits, budget: Budget::new(limits) }
    }
}

/// The budgets of all parts of an examination.
pub struct Traffic {
    alone: Part,
    /// Connections that try the addresses of a name.
    addresses: Part,
    load: Part,
    experiments: Part,
    /// The connection that stays open while the server's sockets are read.
    sockets: Part,
    probes: Part,
    queries: Part,
}

/// An amount of traffic: the most, or what was sent.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Amount<T> {
    #[serde(flatten)]
    pub target: T,
    /// Number of probes that look for the path to the target.
    pub probes: u64,
    /// Number of queries to name servers, besides those of the system's look-up.
    pub queries: u64,
}

impl Traffic {
    /// Returns the budgets for the examination that is asked for.
    pub fn new(wanted: &Doctor, target: &Target, request: &Request, kinds: &[Kind]) -> Traffic {
        let buffer_bytes = receive_buffer_bytes();
        let request_bytes = request.sent_bytes(target);
        let speaks_http = target.scheme != Scheme::Tcp;
        // Each redirect answers a request on a connection of its own.
        let follows = redirects::are_followed(wanted, target, request);
        let redirects = if follows { REDIRECTS_MAX } else { 0 };
        let requests = (CONNECTIONS * REQUESTS) as u64 + redirects;
        // Two more connections show whether the port speaks TLS, or HTTP/2.
        let opened = CONNECTIONS as u64 + 2 + redirects;
        // A redirect may lead to another name.
        let names = u64::from(target.address().is_none()) + u64::from(follows);
        let addresses = (0..names).fold(Limits::NOTHING, |all, _| all.then(addresses::limits()));
        let alone = Limits {
            requests: if speaks_http { requests } else { 0 },
            connections: opened,
            connections_at_once: 1,
            bytes: match speaks_http {
                true => ALONE_BYTES + request_bytes + buffer_bytes,
                false => opened * HANDSHAKE_BYTES + buffer_bytes,
            },
        };
        // Streams at once, if HTTP/2 may be spoken; a redirect may lead to TLS.
        let may_be_http2 = wanted.versions.http2
            || !wanted.versions.http1 && (target.scheme == Scheme::Https || follows);
        let streams =
            if may_be_http2 && wanted.experiment.is_empty() { http2::REQUESTS } else { 0 };
        let sockets = Limits {
            requests: 0,
            connections: 1,
            connections_at_once: 1,
            bytes: HANDSHAKE_BYTES + buffer_bytes,
        };
        Traffic {
            alone: Part::new(alone),
            addresses: Part::new(addresses),
            load: Part::new(loads::limits(wanted, target, request, buffer_bytes)),
            experiments: Part::new(experiments(speaks_http, kinds, streams, buffer_bytes)),
            sockets: Part::new(sockets),
            probes: Part::new(way::limits(wanted)),
            queries: Part::new(queries(target, kinds)),
        }
    }

    /// Returns the budget of requests that are sent one at a time.
    pub fn alone(&self) -> Budget {
        self.alone.budget.clone()
    }

    /// Returns the budget of connections that try the addresses of a name.
    pub fn addresses(&self) -> Budget {
        self.addresses.budget.clone()
    }

    /// Returns the budget of the load.
    pub fn load(&self) -> Budget {
        self.load.budget.clone()
    }

    /// Returns the budget of experiments.
    pub fn experiments(&self) -> Budget {
        self.experiments.budget.clone()
    }

    /// Returns the budget of the connection during which sockets are read.
    pub fn sockets(&self) -> Budget {
        self.sockets.budget.clone()
    }

    /// Returns the budget of probes of the path.
    pub fn probes(&self) -> Budget {
        self.probes.budget.clone()
    }

    /// Returns the budget of queries to name servers.
    pub fn queries(&self) -> Budget {
        self.queries.budget.clone()
    }

    /// Returns the parts whose requests and connections the target gets.
    fn to_target(&self) -> [&Part; 5] {
        [&self.alone, &self.addresses, &self.load, &self.experiments, &self.sockets]
    }

    /// Returns the most that is sent.
    pub fn most(&self) -> Amount<Limits> {
        let all =
            self.to_target().into_iter().map(|it| it.limits).fold(Limits::NOTHING, Limits::then);
        let (probes, queries) = (self.probes.limits, self.queries.limits);
        // Probes that are connections have no bytes.
        let connections = all.connections.saturating_add(probes.connections);
        let target = Limits { connections, ..all };
        Amount { target, probes: probes.requests, queries: queries.requests }
    }

    /// Returns what was sent so far.
    pub fn sent(&self) -> Amount<Spent> {
        let all = self.to_target().into_iter().map(|it| it.budget.spent());
        let all = all.fold(Spent::default(), Spent::then);
        let (probes, queries) = (self.probes.budget.spent(), self.queries.budget.spent());
        let target = Spent { connections: all.connections + probes.connections, ..all };
        Amount { target, probes: probes.requests, queries: queries.requests }
    }

    /// Describes the most that is sent, for the announcement.
    pub fn announcement(&self, wanted: &Doctor, target: &Target, method: &str) -> String {
        let most = self.most();
        let mut text = format!("{target} is sent at most ");
        if target.scheme == Scheme::Tcp {
            text += &counted(most.target.connections, "connection", "connections");
            text += " and no request";
        } else {
            text += &self.requests(wanted, method, &most);
        }
        if most.probes > 0 {
            text += &format!("; {} look for the path", counted(most.probes, "probe", "probes"));
        }
        if most.queries > 0 {
            text +=
                &format!("; name servers at most {}", counted(most.queries, "query", "queries"));
        }
        text
    }

    fn requests(&self, wanted: &Doctor, method: &str, most: &Amount<Limits>) -> String {
        let alone = (CONNECTIONS * REQUESTS) as u64;
        let redirects = self.alone.limits.requests - alone;
        let mut parts = vec![format!("{} alone", count(alone))];
        parts.extend((redirects > 0).then(|| format!("{} after redirects", count(redirects))));
        let experiments = self.experiments.limits.requests;
        parts.extend((experiments > 0).then(|| format!("{} in experiments", count(experiments))));
        let load = self.load.limits;
        if load.connections_at_once > 0 {
            let most = match load.requests {
                NO_LIMIT => "as many as it answers".to_owned(),
                requests => count(requests),
            };
            let lasts = duration(loads::lasts(wanted).as_nanos() as u64);
            let connections = load.connections_at_once;
            parts.push(format!("{most} on up to {connections} connections in {lasts}"));
        }
        let all = match most.target.requests {
            NO_LIMIT => String::new(),
            requests => format!("{} ", count(requests)),
        };
        let size = match most.target.bytes {
            NO_LIMIT => "without a limit of bytes".to_owned(),
            size => format!("{} with their answers", bytes(size)),
        };
        let hint = match (wanted.no_load, wanted.load) {
            (false, None) => " (--load asks for more, --no-load for less)",
            _ => "",
        };
        format!("{all}{method} requests ({}), {size}{hint}", parts.join(", "))
    }
}

/// Returns the most that experiments send to the target: those that are wanted, those that slow requests
/// and slow answers may add, and this many on streams at once.
fn experiments(speaks_http: bool, kinds: &[Kind], streams: u64, buffer_bytes: u64) -> Limits {
    if !speaks_http || kinds.is_empty() {
        return Limits::NOTHING;
    }
    // The experiment of a small window takes the place of that of slow requests, and sends as much.
    let slow = Kind::on(Occasion::SlowRequests).chain(Kind::on(Occasion::SlowAnswers));
    let added = slow.filter(|it| !kinds.contains(it));
    let all = kinds.iter().copied().chain(added);
    let to_target: Vec<Kind> = all.filter(|it| !it.asks_resolvers()).collect();
    let requests: u64 = to_target.iter().copied().map(most_requests).sum();
    let others: u64 = to_target.iter().map(|it| PAIRS_MAX * it.connections_of_pair()).sum();
    Limits {
        requests: requests + streams,
        connections: requests + others + u64::from(streams > 0),
        connections_at_once: AT_ONCE,
        bytes: EXPERIMENTS_BYTES + AT_ONCE * buffer_bytes,
    }
}

fn most_requests(kind: Kind) -> u64 {
    kind.requests_beside() + PAIRS_MAX * kind.requests_of_pair()
}

/// Returns the most that name servers are asked: twice each on its own, the first one once more,
/// and in the experiment that compares two of them.
fn queries(target: &Target, kinds: &[Kind]) -> Limits {
    if target.address().is_some() {
        return Limits::NOTHING;
    }
    let Ok(config) = Config::system() else { return Limits::NOTHING };
    let types: Vec<_> = ["A", "AAAA"].into_iter().filter_map(record_type).collect();
    let once = dns::survey_limits(&target.host, &types, &config, 1);
    let twice = once.then(once);
    let of_resolvers = Kind::ALL.iter().copied().filter(|it| it.asks_resolvers());
    let compared = if kinds.is_empty() { 0 } else { of_resolvers.map(most_requests).sum() };
    Limits { requests: twice.requests + 1 + compared, ..twice }
}
