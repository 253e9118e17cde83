//! Measures the path to a target from this host: round trips, hops, path MTU, and the phases of one
//! request.
//!
//! ```text
//! target ─► dns::look_up ─► address ─┬─► sender (SYN, datagram, echo) ─► rtt, hops, mtu
//!                                    └─► request (connect, TLS, HTTP phases)
//! hops ─► steps: where latency is added          all ─► judge ─► Finding
//! ```
//!
//! Read first: ip(7) (`IP_RECVERR`, `IP_MTU_DISCOVER`), RFC 792 and RFC 4443 (ICMP), RFC 8899 (path
//! MTU by probes), and B. Augustin et al., "Avoiding traceroute anomalies with Paris traceroute"
//! (2006): routers choose among equal paths by addresses and ports, so all probes of a path have
//! the same ones.

mod connecting;
mod hops;
mod judge;
mod mtu;
mod packet;
mod request;
mod rtt;
mod sender;
mod steps;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use socket2::Socket;

use crate::budget::{Budget, Limits};
use crate::dns::{self, Config, ConfigError, Lookup};
use crate::target::{Scheme, Target};
use crate::tls::TlsOptions;
use request::ANSWER_BYTES_MAX;

pub use hops::{Hop, HopAddress, Path, PathEnd};
pub use judge::judge;
pub use mtu::{Mtu, MtuEnd};
pub use request::{Phases, RequestError};
pub use rtt::{Connected, Refusal, RoundTrips};
pub use steps::{RttStep, added};

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A SYN to the target's port.
    Tcp,
    /// A datagram to a port that is normally unused.
    Udp,
    /// An echo request.
    Icmp,
}

impl Method {
    /// Returns the name of the kind in output.
    pub fn name(self) -> &'static str {
        match self {
            Method::Tcp => "TCP",
            Method::Udp => "UDP",
            Method::Icmp => "ICMP",
        }
    }
}

/// The parts of a measurement, and how often each is made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of round trips of each kind, and of probes of each hop.
    pub count: u32,
    /// Time between two probes of one kind.
    pub interval: Duration,
    /// Longest wait for an answer.
    pub wait: Duration,
    /// Kind of the probes that find hops; `None` for SYNs if they are permitted, and otherwise
    /// datagrams.
    pub method: Option<Method>,
    /// Greatest number of hops that are probed.
    pub hops_max: u8,
    /// `true` if the hops are measured.
    pub hops: bool,
    /// `true` if the path MTU is measured.
    pub mtu: bool,
    /// `true` if one request is sent, for a target that is a URL.
    pub request: bool,
    /// TLS options.
    pub tls: TlsOptions,
    /// The address family of the target; `None` for either.
    pub family: Option<Family>,
    /// The budget of everything that is sent; [`Plan::limits`] are enough for it.
    pub budget: Budget,
}

impl Plan {
    /// Returns the most that is sent besides queries to name servers.
    pub fn limits(&self) -> Limits {
        let count = u64::from(self.count);
        let hops = if self.hops { u64::from(self.hops_max) * count } else { 0 };
        let mtu = if self.mtu { mtu::PROBES_MAX.into() } else { 0 };
        let request = u64::from(self.request);
        Limits {
            // Echo requests, SYNs and connections.
            requests: 3 * count + hops + mtu + request,
            connections: count + request,
            connections_at_once: 1,
            bytes: request * ANSWER_BYTES_MAX,
        }
    }
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Opens a raw socket (raw(7)) of this family, for SYNs or for echo requests.
pub type OpenRaw<'a> = dyn Fn(Family, Method) -> io::Result<OwnedFd> + 'a;

/// A measurement that was not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Name of the measurement: `echo`, `syn`, `hops`, `mtu`, `request`.
    pub what: &'static str,
    /// The reason, as text.
    pub why: String,
}

/// The results of all measurements.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The target as the user named it.
    pub target: String,
    /// The look-up of the target's name.
    pub lookup: Option<Lookup>,
    /// The address that was measured.
    pub address: Option<SocketAddr>,
    /// Round trips of ICMP echo requests.
    pub echo: Option<RoundTrips>,
    /// Round trips of SYNs and their answers.
    pub syn: Option<RoundTrips>,
    /// Connections that the kernel opened.
    pub connect: Option<Connected>,
    /// The hops of the path.
    pub path: Option<Path>,
    /// The hop that adds most of the latency.
    pub step: Option<RttStep>,
    /// The largest packet that passes.
    pub mtu: Option<Mtu>,
    /// Phases of one request.
    pub request: Option<Phases>,
    /// Measurements that were not made, with the reason.
    pub skipped: Vec<Skipped>,
    /// Number of packets and requests that were sent, without the kernel's own.
    pub packets_sent: u64,
}

/// An error that prevents all measurements.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// resolv.conf cannot be read.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The name has no address.
    #[error("{name} does not resolve: {why}; `tcpwhy dns {name}` shows what each server says")]
    Unresolved {
        /// The host.
        name: String,
        /// The result of its look-up.
        why: &'static str,
    },
    /// The name has no address of the requested family.
    #[error("{name} has no {family} address")]
    Family {
        /// The host.
        name: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
    },
    /// The kernel cannot send packets to the target.
    #[error("{address} cannot be reached from here: {source}; `ip route get {address}` shows why")]
    NoRoute {
        /// The address.
        address: IpAddr,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Measures the path to `target`. `tell` receives the report whenever it grows; if `stop` is set,
/// the report so far is returned.
///
/// Raw sockets, which take a right, come from `raw`; without them, less is measured.
///
/// Sends at most what [`Plan::limits`] returns: `count` echo requests, SYNs and connections each,
/// `hops_max` × `count` probes to find hops, 40 for the path MTU, and one request.
///
/// # Errors
/// The name does not resolve, or no packet can be sent to its address.
pub fn probe(
    target: &Target,
    plan: &Plan,
    raw: &OpenRaw<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&'static str, &Report),
) -> Result<Report, ProbeError> {
    let mut report = Report { target: target.to_string(), ..Report::default() };
    tell("resolving the name", &report);
    let address = resolve(target, plan, &mut report)?;
    let address = SocketAddr::new(address, target.port);
    sender::source_of(address)
        .map_err(|source| ProbeError::NoRoute { address: address.ip(), source })?;
    report.address = Some(address);
    let stopped = || stop.load(Ordering::Relaxed);
    let steps: [(&'static str, Measure); 6] = [
        ("measuring round trips by ICMP echo", rtt::echo),
        ("measuring round trips by SYN", rtt::syn),
        ("connecting", rtt::connect),
        ("finding the hops", hops::find),
        ("finding the path MTU", mtu::find),
        ("sending one request", request::send),
    ];
    for (words, step) in steps {
        if stopped() {
            break;
        }
        tell(words, &report);
        let asked = PathMeasurement { target, plan, raw, address, stop };
        step(&asked, &mut report, &mut |report| tell(words, report));
    }
    Ok(report)
}

/// A measurement: it writes its result into the report.
type Measure = fn(&PathMeasurement<'_>, &mut Report, &mut dyn FnMut(&Report));

/// Parameters of a measurement.
#[derive(Clone, Copy)]
struct PathMeasurement<'a> {
    target: &'a Target,
    plan: &'a Plan,
    raw: &'a OpenRaw<'a>,
    address: SocketAddr,
    stop: &'a AtomicBool,
}

impl PathMeasurement<'_> {
    fn raw_socket(&self, method: Method) -> io::Result<Socket> {
        let family = if self.address.is_ipv4() { Family::V4 } else { Family::V6 };
        (self.raw)(family, method).map(Socket::from)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until the next probe is due, `interval` after `since`.
    fn pause(&self, since: Instant) {
        const STEP: Duration = Duration::from_millis(20);
        while !self.is_stopped() {
            let left = self.plan.interval.saturating_sub(since.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

impl Report {
    fn skip(&mut self, what: &'static str, why: impl Into<String>) {
        self.skipped.push(Skipped { what, why: why.into() });
    }
}

/// Returns the address that is measured: the first one of the look-up, which most clients use.
fn resolve(target: &Target, plan: &Plan, report: &mut Report) -> Result<IpAddr, ProbeError> {
    let name = || target.host.clone();
    let fits = |it: &&IpAddr| match plan.family {
        Some(Family::V4) => it.is_ipv4(),
        Some(Family::V6) => it.is_ipv6(),
        None => true,
    };
    let addresses = match target.address() {
        Some(address) => vec![address],
        None => {
            let lookup = {
                let config = Config::system()?;
                let queries = Budget::new(dns::look_up_limits(&target.host, &config));
                dns::look_up(&target.host, &config, &queries)
            };
            let addresses = lookup.addresses.clone();
            let why = match lookup.ended {
                dns::Ended::Found => "its records hold no address",
                dns::Ended::NoData => "it exists and has no address",
                dns::Ended::NotFound => "there is no such name",
                dns::Ended::TryAgain => "no name server has an answer",
            };
            report.lookup = Some(lookup);
            if addresses.is_empty() {
                return Err(ProbeError::Unresolved { name: name(), why });
            }
            addresses
        }
    };
    let family = if plan.family == Some(Family::V6) { "IPv6" } else { "IPv4" };
    let mut fitting = addresses.iter().filter(fits);
    let reachable =
        fitting.clone().find(|it| sender::source_of(SocketAddr::new(**it, target.port)).is_ok());
    let address = reachable.or_else(|| fitting.next()).copied();
    address.ok_or_else(|| ProbeError::Family { name: name(), family })
}

/// Returns whether a request can be sent: none is sent to a port with an unknown protocol.
fn speaks_http(target: &Target) -> bool {
    target.scheme != Scheme::Tcp
}
