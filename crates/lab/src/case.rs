//! What a case is: a fault that can be made, what to do for it, and the truth about it.

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

/// A case: a fault that the lab can make, and the truth about it. All functions get the same
/// parameters; those that differ between fault and healthy twin also get the variant.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name on the command line and on disk.
    pub name: &'static str,
    /// Where in the stack it lives.
    pub layer: Layer,
    /// One line for the list.
    pub summary: &'static str,
    /// What a diagnosis of the faulty run should come to. For [`Class::None`] (a look-alike that
    /// is no fault) there is no twin.
    pub class: Class,
    /// What is turned between fault and twin: the fix. A look-alike has none.
    pub knob: Option<Knob>,
    /// Draws parameters from the seed; a user may then change them by name.
    pub params: fn(&mut Rng) -> Params,
    /// The link. `seed` is for [`RelayParams`].
    pub link: fn(&Params, Variant, u64) -> Result<Link, LabError>,
    /// Starts the software, then the captures, then runs the load.
    pub act: fn(&mut Stage, &Params, Variant) -> Result<Observed, LabError>,
    /// The causes present in the faulty run; a cause without `lost_ns` gets the difference to
    /// the healthy twin: of all requests when it is the only one, else of those to the culprit.
    pub truth: fn(&Params, &Ran) -> Result<Vec<Cause>, LabError>,
}

/// What a run of the load gave.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The requests and the client's sockets.
    pub loaded: Loaded,
    /// The server.
    pub server: SocketAddr,
    /// The server's sockets, where it is the lab's own.
    pub server_tcp_info: Option<TcpInfo>,
    /// How long the server slept on purpose.
    pub slept_ns: u64,
    /// Versions of real software that took part.
    pub versions: Vec<(String, String)>,
    /// What else the case measured, by name with its unit.
    pub measured: BTreeMap<&'static str, u64>,
}

impl Observed {
    /// A run against real software.
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

    /// A run against the lab's own server, which is asked for what it knows.
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
    /// What the load saw.
    pub observed: Observed,
    /// What the stage recorded.
    pub stage: StageReport,
}

impl Ran {
    /// All requests' times added up.
    pub fn wall_ns(&self) -> u64 {
        self.observed.loaded.requests.iter().map(|r| r.took_ns()).sum()
    }

    /// The times of the requests to one of the servers added up.
    pub fn wall_to_ns(&self, server_endpoint: &str) -> u64 {
        let requests = self.observed.loaded.requests.iter();
        let to = requests.filter(|r| r.server_endpoint == server_endpoint);
        to.map(|r| r.took_ns()).sum()
    }
}

/// The case's parameters as `seed` draws them, with those that every case has.
pub fn drawn(case: &Case, seed: u64) -> Params {
    let rng = &mut Rng::named(seed, case.name);
    (case.params)(rng)
        .or("ipv6", u64::from(rng.between(0, 4) == 0))
        .or("any_interface", u64::from(rng.between(0, 7) == 0))
        .or("snaplen_bytes", 0)
        .or("bbr", 0)
}

/// The usual link of a case with `rtt_ns` and `rate_bps`: veth when both are 0.
///
/// # Errors
/// The case lacks one of these parameters.
pub fn plain_link(params: &Params, _: Variant, seed: u64) -> Result<Link, LabError> {
    let (rtt_ns, rate_bps) = (params.get("rtt_ns")?, params.get("rate_bps")?);
    if rtt_ns == 0 && rate_bps == 0 {
        return Ok(Link::Veth);
    }
    Ok(Link::Relay(RelayParams::symmetric(rtt_ns, rate_bps, seed)))
}
