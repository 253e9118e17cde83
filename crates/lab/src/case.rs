//! Defines a case: a reproducible fault, its fix, and its labels.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::client::Loaded;
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Variant};
use crate::params::Params;
use crate::relay::RelayParams;
use crate::rng::Rng;
use crate::stage::{Link, Stage, StageReport};
use crate::sys::TcpInfo;

/// A case: a fault that the lab can reproduce, and the function that labels its runs. All functions
/// get the same parameters; those that differ between fault and healthy twin also get the variant.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Name on the command line and on disk.
    pub name: &'static str,
    /// The layer of the stack in which the fault is.
    pub layer: Layer,
    /// One line for the list.
    pub summary: &'static str,
    /// The class of finding that a diagnosis of the faulty run should report. [`Class::None`] marks
    /// a look-alike that is no fault and has no twin.
    pub class: Class,
    /// The setting that differs between fault and twin; changing it is the fix. A look-alike has
    /// none.
    pub knob: Option<Knob>,
    /// Draws parameters from the seed; the user may then change them by name.
    pub params: fn(&mut Rng) -> Params,
    /// Returns the link. `seed` is for [`RelayParams`].
    pub link: fn(&Params, Variant, u64) -> Result<Link, LabError>,
    /// Starts the software, then the captures, then runs the load.
    pub act: fn(&mut Stage, &Params, Variant) -> Result<Observed, LabError>,
    /// Returns the causes present in the faulty run. A cause without `lost_ns` gets the difference
    /// to the healthy twin: of all requests if it is the only cause, else of the requests to the
    /// culprit.
    pub truth: fn(&Params, &Ran) -> Result<Vec<Cause>, LabError>,
}

/// The measurements of a run of the load.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The requests and the client's sockets.
    pub loaded: Loaded,
    /// Address of the server.
    pub server: SocketAddr,
    /// `TCP_INFO` of the server's sockets, if the server is the lab's own.
    pub server_tcp_info: Option<TcpInfo>,
    /// Time that the server slept as configured, ns.
    pub slept_ns: u64,
    /// Versions of the real software that took part.
    pub versions: Vec<(String, String)>,
    /// Other measurements of the case; each name ends in its unit.
    pub measured: BTreeMap<&'static str, u64>,
}

impl Observed {
    /// Creates the result of a run against real software.
    pub fn new(loaded: Loaded, server: SocketAddr) -> Observed {
        Observed {
            loaded,
            server,
            server_tcp_info: None,
            slept_ns: 0,
            versions: Vec::new(),
            measured: BTreeMap::new(),
        }
    }

    /// Creates the result of a run against the lab's own server, with the server's counts.
    pub fn with_server(loaded: Loaded, server: &crate::server::Server) -> Observed {
        let kernel = server.kernel(loaded.kernel.connections);
        Observed {
            server_tcp_info: Some(kernel),
            slept_ns: server.slept_ns(),
            ..Observed::new(loaded, server.endpoint())
        }
    }
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The measurements of the load.
    pub observed: Observed,
    /// The records of the stage: captures, relay and kernel counters.
    pub stage: StageReport,
}

impl Ran {
    /// Sum of the times of all requests, ns.
    pub fn wall_ns(&self) -> u64 {
        self.observed.loaded.requests.iter().map(|r| r.took_ns()).sum()
    }

    /// Sum of the times of the requests to one of the servers, ns.
    pub fn wall_to_ns(&self, server_endpoint: &str) -> u64 {
        let requests = self.observed.loaded.requests.iter();
        let to = requests.filter(|r| r.server_endpoint == server_endpoint);
        to.map(|r| r.took_ns()).sum()
    }
}

/// Returns the parameters of the case as drawn from `seed`, with those that every case has.
pub fn drawn(case: &Case, seed: u64) -> Params {
    let rng = &mut Rng::named(seed, case.name);
    (case.params)(rng)
        .or("ipv6", u64::from(rng.between(0, 4) == 0))
        .or("any_interface", u64::from(rng.between(0, 7) == 0))
        .or("snaplen_bytes", 0)
        .or("bbr", 0)
}

/// Returns the usual link of a case with `rtt_ns` and `rate_bps`; if both are 0, a veth pair.
///
/// # Errors The case lacks one of these parameters.
pub fn plain_link(params: &Params, _: Variant, seed: u64) -> Result<Link, LabError> {
    let (rtt_ns, rate_bps) = (params.get("rtt_ns")?, params.get("rate_bps")?);
    if rtt_ns == 0 && rate_bps == 0 {
        return Ok(Link::Veth);
    }
    Ok(Link::Relay(RelayParams::symmetric(rtt_ns, rate_bps, seed)))
}
