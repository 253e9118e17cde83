//! What a case is, and how one is run into captures with labels.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::capture::CaptureParams;
use crate::client::Loaded;
use crate::describe::{Knob, Layer};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, FORMAT, Labels, Latency, Variant};
use crate::params::Params;
use crate::relay::RelayParams;
use crate::rng::Rng;
use crate::stage::{Link, Stage, StageParams, StageReport, versions};
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

/// Where and how a case is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The captures go to `out/CASE-SEED/faulty/` and `…/healthy/`.
    pub out: PathBuf,
    /// Where chance starts.
    pub seed: u64,
    /// Parameters given by the user, as name and value with its unit.
    pub set: Vec<(String, String)>,
}

/// Both runs' labels; the one of a look-alike without a fault is `healthy`.
#[derive(Debug)]
pub struct CaseResult {
    /// Where the captures are.
    pub dir: PathBuf,
    /// The run with the fault.
    pub faulty: Option<Labels>,
    /// The healthy twin, or the look-alike.
    pub healthy: Labels,
}

/// The case's parameters as chance draws them, with those that every case has.
pub fn drawn(case: &Case, rng: &mut Rng) -> Params {
    (case.params)(rng)
        .or("ipv6", u64::from(rng.between(0, 4) == 0))
        .or("any_interface", u64::from(rng.between(0, 7) == 0))
        .or("snaplen_bytes", 0)
}

/// The parameters as drawn from the seed, then as the user wants them.
fn all_params(case: &Case, options: &RunOptions) -> Result<Params, LabError> {
    let mut params = drawn(case, &mut Rng::new(options.seed));
    for (name, value) in &options.set {
        params.set(name, value)?;
    }
    Ok(params)
}

/// Runs a case and, where it has one, its healthy twin; writes captures and labels.
///
/// # Errors
/// A step fails, or the run did not become what its labels say.
pub fn run(case: &Case, options: &RunOptions) -> Result<CaseResult, LabError> {
    let params = all_params(case, options)?;
    let dir = options.out.join(format!("{}-{}", case.name, options.seed));
    let once = |variant| run_punctually(case, &params, options.seed, variant, &dir);
    if case.class == Class::None {
        let (ran, link) = once(Variant::Healthy)?;
        let healthy = labels(case, &params, options.seed, Variant::Healthy, &ran, link);
        write(&dir, &healthy)?;
        return Ok(CaseResult { dir, faulty: None, healthy });
    }
    let (bad, bad_link) = once(Variant::Faulty)?;
    let (good, good_link) = once(Variant::Healthy)?;
    let mut faulty = labels(case, &params, options.seed, Variant::Faulty, &bad, bad_link);
    faulty.causes = (case.truth)(&params, &bad)?;
    lost_by_twin(&mut faulty.causes, &bad, &good);
    faulty.latency_after_fix_ns = Some(Latency::of(&good.observed.loaded.requests));
    faulty.wall_after_fix_ns = Some(good.wall_ns());
    let healthy = labels(case, &params, options.seed, Variant::Healthy, &good, good_link);
    write(&dir, &faulty)?;
    write(&dir, &healthy)?;
    Ok(CaseResult { dir, faulty: Some(faulty), healthy })
}

fn lost_by_twin(causes: &mut [Cause], bad: &Ran, good: &Ran) {
    let saved_ns = if let [_] = causes {
        |_: Option<&str>, bad: &Ran, good: &Ran| bad.wall_ns().saturating_sub(good.wall_ns())
    } else {
        |server: Option<&str>, bad: &Ran, good: &Ran| {
            let to = server.unwrap_or_default();
            bad.wall_to_ns(to).saturating_sub(good.wall_to_ns(to))
        }
    };
    for cause in causes.iter_mut().filter(|c| c.lost_ns.is_none()) {
        cause.lost_ns = Some(saved_ns(cause.culprit_endpoint.as_deref(), bad, good));
    }
}

/// A relay later than this on one packet in a hundred did not keep the link's delay.
const LATE_P99_MAX_NS: u64 = 300_000;
/// A single packet as late as this is a stall that no label names.
const LATE_MAX_NS: u64 = 10_000_000;
const ATTEMPTS: u32 = 3;

/// Runs again when the host was too busy to keep time; after the last attempt the labels'
/// `timekeeping` tells.
fn run_punctually(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
    dir: &Path,
) -> Result<(Ran, Link), LabError> {
    let mut attempt = 1;
    loop {
        let run = run_once(case, params, seed, variant, dir)?;
        let late = run.0.stage.relay.as_ref().map(|r| &r.timekeeping);
        let punctual =
            late.is_none_or(|t| t.late_p99_ns <= LATE_P99_MAX_NS && t.late_max_ns <= LATE_MAX_NS);
        if punctual || attempt == ATTEMPTS {
            return Ok(run);
        }
        attempt += 1;
    }
}

fn run_once(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
    dir: &Path,
) -> Result<(Ran, Link), LabError> {
    let out = dir.join(variant_dir(variant));
    fs::create_dir_all(&out).doing(format!("make {}", out.display()))?;
    let link = (case.link)(params, variant, seed)?;
    let stage = StageParams {
        link: link.clone(),
        ipv6: params.get("ipv6")? > 0,
        seed,
        capture: CaptureParams {
            snaplen_bytes: params.get("snaplen_bytes")?,
            any: params.get("any_interface")? > 0,
        },
        congestion_control: "cubic",
    };
    let mut stage = Stage::build(stage, &out)?;
    let observed = (case.act)(&mut stage, params, variant)?;
    let ran = Ran { observed, stage: stage.finish()? };
    if ran.stage.captures.iter().any(|c| c.dropped > 0) {
        return Err(LabError::NotReproduced("the capture has holes".to_owned()));
    }
    Ok((ran, link))
}

fn variant_dir(variant: Variant) -> &'static str {
    match variant {
        Variant::Faulty => "faulty",
        Variant::Healthy => "healthy",
    }
}

fn labels(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
    ran: &Ran,
    link: Link,
) -> Labels {
    let class = if variant == Variant::Faulty { case.class } else { Class::None };
    let requests = ran.observed.loaded.requests.clone();
    let client = requests.iter().find_map(|r| r.client_endpoint.parse::<SocketAddr>().ok());
    let versions: BTreeMap<String, String> =
        versions().into_iter().chain(ran.observed.versions.clone()).collect();
    Labels {
        format: FORMAT,
        case: case.name,
        variant,
        seed,
        params: params.clone(),
        link,
        healthy: class != Class::Fault,
        class,
        causes: Vec::new(),
        exchanges: requests.len() as u64,
        wall_ns: ran.wall_ns(),
        latency_ns: Latency::of(&requests),
        latency_after_fix_ns: None,
        wall_after_fix_ns: None,
        server_endpoint: ran.observed.server.to_string(),
        client_address: client.map(|c| c.ip().to_string()).unwrap_or_default(),
        congestion_control: "cubic",
        client_tcp_info: Some(ran.observed.loaded.kernel).filter(|k| k.connections > 0),
        server_tcp_info: ran.observed.server_tcp_info,
        stage: ran.stage.clone(),
        measured: ran.observed.measured.clone(),
        versions,
        requests,
    }
}

fn write(dir: &Path, labels: &Labels) -> Result<(), LabError> {
    let path = dir.join(variant_dir(labels.variant)).join("labels.json");
    let what = format!("write {}", path.display());
    let mut text =
        serde_json::to_string_pretty(labels).map_err(std::io::Error::from).doing(what.clone())?;
    text.push('\n');
    fs::write(&path, text).doing(what)
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
