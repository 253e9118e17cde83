//! The parameters of a load.

use std::net::SocketAddr;
use std::time::Duration;

use super::guard::Guard;
use crate::budget::Budget;
use crate::http::http2::{Http2Error, Prepared};
use crate::http::{Handshake, HttpVersions, Request};
use crate::target::{Scheme, Target};
use crate::tls::{TlsError, TlsOptions};

/// Greatest number of connections and threads.
const CONNECTIONS_MAX: usize = 1_000_000;
/// Greatest number of streams of a connection: what servers allow is less.
const STREAMS_MAX: usize = 10_000;
/// Number of connections that one thread drives before a further thread is useful.
const CONNECTIONS_PER_THREAD: usize = 32;

/// The times at which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: a connection sends its next request after the answer to the last one.
    Closed,
    /// Open loop: this many requests per second over all connections, regardless of the server.
    /// Latency counts from the time at which a request was planned to be sent.
    PerSecond(f64),
}

/// The parameters of a load: what is sent, how often, for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The target.
    pub target: Target,
    /// Addresses of the target; the first one that accepts a connection is used.
    pub addresses: Vec<SocketAddr>,
    /// The request, which is the same each time.
    pub request: Request,
    /// Number of connections.
    pub connections: usize,
    /// Number of requests at a time on each connection: streams of HTTP/2. HTTP/1.1 has one.
    pub streams: usize,
    /// Number of threads; `None` for as many as are useful.
    pub threads: Option<usize>,
    /// Time after the warm-up during which requests are sent; `None` if only `requests` limits
    /// them.
    pub duration: Option<Duration>,
    /// Number of requests after which the load ends.
    pub requests: Option<u64>,
    /// Time at the begin of the load in which requests are sent and not counted.
    pub warmup: Duration,
    /// Time after which a request without a complete answer has failed; its connection is then
    /// closed.
    pub timeout: Duration,
    /// The times at which requests are sent.
    pub pace: Pace,
    /// `true` if each request has its own connection; its latency then includes the connection
    /// set-up.
    pub new_connections: bool,
    /// TLS options for targets with the scheme HTTPS, and the versions of HTTP for all.
    pub tls: TlsOptions,
    /// Least time between two requests of a connection, in a closed loop.
    pub spacing: Duration,
    /// The conditions under which the load goes on; `None` if it always does.
    pub guard: Option<Guard>,
    /// `true` if the load ends when the server asks for fewer requests
    /// ([`Response::asks_for_fewer`](crate::http::Response::asks_for_fewer)).
    pub heeds_limits: bool,
    /// The budget of all that is sent and received.
    pub budget: Budget,
}

/// An error in the parameters of a load.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The scheme is not HTTP.
    #[error("`{0}` has no scheme; load speaks HTTP: write http://{0}/ or https://{0}/")]
    NotHttp(String),
    /// The target has no address.
    #[error("no address to connect to")]
    NoAddress,
    /// The request is not valid in HTTP/2.
    #[error(transparent)]
    Request(#[from] Http2Error),
    /// A number is out of its range.
    #[error("{0}")]
    Number(&'static str),
    /// The connections need more descriptors than this process may have.
    #[error(
        "{connections} connections need {needed} file descriptors, and this process may open {limit}; \
         raise the limit: ulimit -n {needed}"
    )]
    Descriptors {
        /// The requested number of connections.
        connections: usize,
        /// Number of descriptors that these connections need.
        needed: u64,
        /// Number of descriptors that this process may open.
        limit: u64,
    },
    /// TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system does not permit what the event loop needs.
    #[error("the event loop cannot be set up")]
    Loop(#[source] std::io::Error),
}

impl Plan {
    /// Returns a plan of ten connections for ten seconds in a closed loop, whose fields the caller
    /// may change.
    pub fn new(target: Target, addresses: Vec<SocketAddr>) -> Plan {
        Plan {
            target,
            addresses,
            request: Request::get(),
            connections: 10,
            streams: 1,
            threads: None,
            duration: Some(Duration::from_secs(10)),
            requests: None,
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(10),
            pace: Pace::Closed,
            new_connections: false,
            tls: TlsOptions::default(),
            spacing: Duration::ZERO,
            guard: None,
            heeds_limits: true,
            budget: Budget::none(),
        }
    }

    /// Returns the bytes of each request, on connections with this handshake of a WebSocket.
    pub(super) fn bytes(&self, handshake: Option<&Handshake>) -> Vec<u8> {
        let mut request = self.request.clone();
        let has = |(name, _): &(String, String)| name.eq_ignore_ascii_case("connection");
        if self.new_connections && handshake.is_none() && !request.headers.iter().any(has) {
            // The side that closes first keeps the port in TIME-WAIT (RFC 9293 §3.6): that should
            // be the server.
            request.headers.push(("Connection".into(), "close".into()));
        }
        request.bytes(&self.target, handshake)
    }

    /// Returns the request in HTTP/2; `None` if that is not spoken.
    pub(super) fn prepared(&self) -> Result<Option<Prepared>, PlanError> {
        let may_be_http2 = match self.tls.versions {
            HttpVersions::Http1 => false,
            HttpVersions::Http2 => true,
            HttpVersions::Any => self.target.scheme == Scheme::Https,
        };
        let prepared = may_be_http2.then(|| Prepared::new(&self.request, &self.target));
        Ok(prepared.transpose()?)
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let useful = (self.connections * self.streams).div_ceil(CONNECTIONS_PER_THREAD).min(cores);
        self.threads.unwrap_or(useful).clamp(1, self.connections.max(1))
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// The plan cannot be carried out.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        if self.target.scheme == Scheme::Tcp {
            return Err(PlanError::NotHttp(self.target.endpoint()));
        }
        if self.addresses.is_empty() {
            return Err(PlanError::NoAddress);
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(PlanError::Number("connections are 1 to 1,000,000"));
        }
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return Err(PlanError::Number("streams are 1 to 10,000"));
        }
        if self.streams > 1 && self.tls.versions == HttpVersions::Http1 {
            return Err(PlanError::Number("HTTP/1.1 has no streams; see --http2"));
        }
        if self.duration.is_none() && self.requests.is_none() {
            return Err(PlanError::Number(
                "a load needs an end: a duration or a number of requests",
            ));
        }
        if let Pace::PerSecond(rate) = self.pace
            && !(rate.is_finite() && rate > 0.0 && rate <= 1e9)
        {
            return Err(PlanError::Number("a rate is above 0 and at most 1,000,000,000 a second"));
        }
        self.check_descriptors()
    }

    /// Raises this process's limit as far as permitted. Fails if the limit still does not suffice.
    #[cfg(unix)]
    fn check_descriptors(&self) -> Result<(), PlanError> {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        /// Number of descriptors for all but the connections.
        const BESIDE: u64 = 64;
        let needed = self.connections as u64 + 4 * self.threads() as u64 + BESIDE;
        let now = getrlimit(Resource::Nofile);
        if now.current.is_none_or(|limit| limit >= needed) {
            return Ok(());
        }
        let is_allowed = now.maximum.is_none_or(|most| most >= needed);
        let raised = Rlimit { current: Some(needed), maximum: now.maximum };
        if is_allowed && setrlimit(Resource::Nofile, raised).is_ok() {
            return Ok(());
        }
        let limit = now.maximum.unwrap_or(0);
        Err(PlanError::Descriptors { connections: self.connections, needed, limit })
    }

    #[cfg(not(unix))]
    fn check_descriptors(&self) -> Result<(), PlanError> {
        Ok(())
    }
}
