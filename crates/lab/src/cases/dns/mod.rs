//! Names that resolve slowly. A separate curl process makes each request with glibc's resolver, so
//! that the client caches nothing and the look-up belongs to the request.

mod failing;
mod lost;
mod no_nameserver;
mod reverse;
mod search;
mod slow;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

pub use failing::{DEAD_FIRST, SERVFAIL};
pub use lost::{IGNORED, LOST};
pub use no_nameserver::{REFUSED, SILENT};
pub use reverse::{PING, POSTGRES};
pub use search::CASE as SEARCH;
pub use slow::{SLOW, UNCACHED};

use crate::case::{Observed, Ran};
use crate::client::Loaded;
use crate::curl;
use crate::dns::{self, add_resolver};
use crate::error::{Doing, LabError};
use crate::netns::Process;
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// The name that clients resolve.
const NAME: &str = "api.shop.lab";

/// Returns the parameters that all DNS cases have.
fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 2_000_000, 10_000_000, 30_000_000]))
        .with("rate_bps", 0)
        .with("response_bytes", rng.between(100, 3_000))
}

/// Adds addresses for `count` resolvers in the server's namespace.
fn resolvers(stage: &Stage, count: u8) -> Result<Vec<IpAddr>, LabError> {
    let add = |index| add_resolver(&stage.server, stage.server_addr, index);
    (0..count).map(add).collect()
}

/// Starts a dnsmasq that knows [`NAME`], and nothing else under `lab`.
fn knowing_dnsmasq(stage: &Stage, addr: IpAddr) -> Result<Process, LabError> {
    let record = format!("--host-record={NAME},{}", stage.server_addr);
    dns::dnsmasq(&stage.server, addr, &[record, "--local=/lab/".to_owned()])
}

/// Resolvers and options of the requests.
#[derive(Default)]
struct Ask<'a> {
    resolvers: &'a [IpAddr],
    /// Additional lines for `resolv.conf`.
    more: String,
    /// `true` to query the resolvers before the captures start, so that they have the name in their
    /// cache.
    warm: bool,
}

/// Runs the requests for [`NAME`], one curl process each.
fn requests(stage: &mut Stage, p: &Params, ask: &Ask) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    let resolv_conf = resolv_conf(stage, ask.resolvers, &ask.more)?;
    let one = |stage: &Stage, number| {
        let url = format!("http://{NAME}:8080/items/{number}");
        curl::transfers(stage, &[url], Some(&resolv_conf))
    };
    if ask.warm {
        // Over the server's loopback, so that a watch on the link does not take the query for a
        // request.
        let resolvers = ask.resolvers.iter();
        resolvers.copied().try_for_each(|at| dns::warm(&stage.server, at, NAME))?;
    }
    stage.start_captures()?;
    let mut loaded = Loaded::default();
    for number in 0..p.get("requests")? {
        loaded.requests.extend(one(stage, number)?.requests);
    }
    let mut observed = Observed::with_server(loaded, &server);
    let used = [curl::version(), glibc_version(), dns::dnsmasq_version()];
    observed.versions.extend(used);
    Ok(observed)
}

fn resolv_conf(stage: &Stage, resolvers: &[IpAddr], more: &str) -> Result<PathBuf, LabError> {
    let servers = resolvers.iter().map(|r| format!("nameserver {r}\n"));
    let path = stage.dir().join("resolv.conf");
    let text = format!("{}{more}\n", servers.collect::<String>());
    fs::write(&path, text).doing("write resolv.conf")?;
    Ok(path)
}

/// Returns the line of `resolv.conf` that sets glibc's timeout in whole seconds.
fn timeout_option(p: &Params) -> Result<String, LabError> {
    Ok(format!("options timeout:{}", p.duration("timeout_ns")?.as_secs()))
}

/// Returns the address of the first resolver, as the culprit.
fn first_resolver(ran: &Ran) -> Option<String> {
    let addr = dns::resolver_address(ran.observed.server.ip(), 0);
    Some(SocketAddr::new(addr, 53).to_string())
}

fn glibc_version() -> (String, String) {
    let said = crate::netns::run("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_default();
    ("libc".to_owned(), said.trim().to_owned())
}
