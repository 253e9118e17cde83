//! The stage of a case: two namespaces, the link between them, and the captures at both ends.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tcpwhy_live::folder::Folder;

use crate::capture::{Capture, CaptureParams, CaptureReport};
use crate::cleanup;
use crate::counters::Counters;
use crate::error::{Doing, LabError};
use crate::netns::{Netns, run};
use crate::relay::{Relay, RelayParams, RelayReport};
use crate::rng::Rng;
use crate::sockets::{Sampler, SocketSample};
use crate::sys;
use crate::timekeeping::{HostClock, Timekeeping};

/// The link between the two ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// A virtual Ethernet cable: about 0.05 ms, and packets stay as large as the sender's
    /// kernel made them (GSO), as in most captures on servers.
    Veth,
    /// The emulated link: TUN devices with an MTU of 1500 bytes; packets have their size on the
    /// wire.
    Relay(RelayParams),
}

/// Options for building a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageParams {
    /// The link.
    pub link: Link,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Seed from which the addresses are drawn.
    pub seed: u64,
    /// How captures are taken.
    pub capture: CaptureParams,
    /// Congestion control of the routes at both ends.
    pub congestion_control: &'static str,
}

/// Records of a run other than its requests, and where its captures are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StageReport {
    /// Address of the client.
    pub client_address: String,
    /// The captures.
    pub captures: Vec<CaptureReport>,
    /// Report of the link emulator, unless the link was veth.
    pub relay: Option<RelayReport>,
    /// How late the CPUs resumed a thread that goes before all others, upper bounds: of the CPU that was
    /// the latest. `None` if none could be measured.
    pub host_timekeeping: Option<Timekeeping>,
    /// Roles of the namespaces other than client and server: router, backend, …
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Kernel counters of the client's namespace, over the run.
    pub client_counters: Counters,
    /// Kernel counters of the server's namespace, over the run.
    pub server_counters: Counters,
    /// `TCP_INFO` of each socket, sampled while the load ran.
    pub sockets: Vec<SocketSample>,
    /// Largest number of half-open connections at the server at the same time.
    pub half_open_max: u64,
}

impl StageReport {
    /// Returns whether the host and the link, if it was emulated, kept time.
    pub fn is_punctual(&self) -> bool {
        let relay = self.relay.as_ref().map(|it| &it.timekeeping);
        relay.into_iter().chain(&self.host_timekeeping).all(Timekeeping::is_punctual)
    }
}

/// A built stage; dropping it removes everything.
#[derive(Debug)]
pub struct Stage {
    // Fields are dropped in this order, so users of the namespaces come before them.
    captures: Vec<Capture>,
    samplers: Vec<Sampler>,
    relay: Option<Relay>,
    /// Measures while the load runs.
    host_clock: Option<HostClock>,
    /// The client's namespace.
    pub client: Netns,
    /// The server's namespace.
    pub server: Netns,
    /// The client's address.
    pub client_addr: IpAddr,
    /// The server's address.
    pub server_addr: IpAddr,
    dir: PathBuf,
    /// Where captures go; `None` for a measurement without captures, since these cost time.
    out: Option<Folder>,
    capture: CaptureParams,
    before: [Counters; 2],
    others: Vec<String>,
    /// Called instead of the load, which then never begins: see [`crate::run::hold`].
    pub hold: Option<Hold>,
    /// Notified when all software is up and the load begins.
    pub load_begins: Option<Sender<()>>,
    /// Called in place of the load: see [`crate::run::replacing_load`].
    pub load_replacement: Option<LoadReplacement>,
}

/// A function that is called when all software of a case is up.
pub struct LoadReplacement(pub Box<dyn FnOnce(&Stage) + Send + Sync>);

impl std::fmt::Debug for LoadReplacement {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("LoadReplacement")
    }
}

/// A function that is notified when a stage is up, and the name of its case.
pub type Hold = (fn(&Stage, &'static str), &'static str);

/// The interface at either end of the link.
pub const INTERFACE: &str = "lab0";

impl Stage {
    /// Builds namespaces and link; captures will go to `out`, if there are to be any.
    ///
    /// # Errors Not root, or a step fails.
    pub fn build(params: StageParams, out: Option<Folder>) -> Result<Stage, LabError> {
        sys::take_precedence();
        let client = Netns::create("client")?;
        let server = Netns::create("server")?;
        let (client_addr, server_addr) = addresses(params.seed, params.ipv6);
        let relay = match params.link {
            Link::Veth => {
                veth(&client, INTERFACE, &server, INTERFACE)?;
                None
            }
            Link::Relay(link) => Some((tun(&client)?, tun(&server)?, link)),
        };
        for (netns, addr) in [(&client, client_addr), (&server, server_addr)] {
            configure(netns, addr, params.congestion_control)?;
        }
        let relay = match relay {
            Some((c, s, link)) => Some(Relay::start(c, s, link)?),
            None => None,
        };
        let before = [Counters::read(&client)?, Counters::read(&server)?];
        let dir = cleanup::temporary_dir()?;
        Ok(Stage {
            captures: Vec::new(),
            samplers: Vec::new(),
            relay,
            host_clock: None,
            client,
            server,
            client_addr,
            server_addr,
            dir,
            out,
            capture: params.capture,
            before,
            others: Vec::new(),
            hold: None,
            load_begins: None,
            load_replacement: None,
        })
    }

    /// Returns a directory for configurations and files to serve, which is removed after the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates a further namespace, named for its role (`router`, `backend`, …).
    ///
    /// # Errors `ip` fails.
    pub fn namespace(&mut self, role: &str) -> Result<Netns, LabError> {
        self.others.push(role.to_owned());
        Netns::create(role)
    }

    /// Returns the emulated link, for an outage during the run.
    pub fn relay(&self) -> Option<&Relay> {
        self.relay.as_ref()
    }

    /// Starts a capture and a socket sampler at each end and returns when both are running. Call it
    /// when all software is up; the load comes next.
    ///
    /// # Errors tcpdump is missing or fails.
    pub fn start_captures(&mut self) -> Result<(), LabError> {
        if let Some((up, case)) = self.hold {
            up(self, case);
            cleanup::sleep_until_the_end();
        }
        if let Some(LoadReplacement(act)) = self.load_replacement.take() {
            act(self);
            return Err(LabError::LoadReplaced);
        }
        for (netns, vantage) in [(&self.client, "client"), (&self.server, "server")] {
            if let Some(out) = &self.out {
                let capture = Capture::start(netns, vantage, INTERFACE, out, self.capture)?;
                self.captures.push(capture);
            }
            self.samplers.push(Sampler::start(netns, vantage)?);
        }
        self.host_clock.get_or_insert_with(HostClock::start);
        if let Some(load_begins) = &self.load_begins {
            // The receiver has been notified by an earlier load, and may no longer exist.
            let _ = load_begins.send(());
        }
        Ok(())
    }

    /// Waits until a program in the server's namespace listens at `endpoint`. Reads the kernel's
    /// table instead of connecting, since an additional connection would be in the captures.
    ///
    /// # Errors No program listens within 10 s.
    pub fn wait_for_listener(&self, endpoint: SocketAddr) -> Result<(), LabError> {
        let port = format!(":{:04X} ", endpoint.port());
        let listens = |table: &str| {
            let path = format!("/proc/thread-self/net/{table}");
            let text = fs::read_to_string(path).unwrap_or_default();
            // State 0A is LISTEN; the first address on a line is the local one.
            let mut lines = text.lines().filter(|l| l.contains(" 0A "));
            lines.any(|l| {
                l.trim().split_once(": ").is_some_and(|(_, l)| {
                    l.split_once(' ').is_some_and(|(local, _)| format!("{local} ").ends_with(&port))
                })
            })
        };
        for _ in 0..1_000 {
            if self.server.inside(|| listens("tcp") || listens("tcp6"))? {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(LabError::Timeout { what: format!("the listener at {endpoint}"), seconds: 10 })
    }

    /// Stops captures and relay and returns the report.
    ///
    /// # Errors A namespace cannot be entered.
    pub fn finish(&mut self) -> Result<StageReport, LabError> {
        let captures = Capture::stop(std::mem::take(&mut self.captures));
        let sampled: Vec<_> = self.samplers.iter_mut().map(Sampler::stop).collect();
        let relay = self.relay.as_mut().map(Relay::stop);
        Ok(StageReport {
            client_address: self.client_addr.to_string(),
            captures,
            relay,
            host_timekeeping: self.host_clock.take().and_then(|mut clock| clock.stop()),
            others: std::mem::take(&mut self.others),
            client_counters: Counters::read(&self.client)?.since(&self.before[0]),
            server_counters: Counters::read(&self.server)?.since(&self.before[1]),
            half_open_max: sampled.last().map_or(0, |server| server.half_open_max),
            sockets: sampled.into_iter().flat_map(|end| end.sockets).collect(),
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        cleanup::give_way();
        cleanup::remove_dir(&self.dir);
    }
}

/// Returns different private addresses for each seed, so that no diagnosis can depend on them.
fn addresses(seed: u64, ipv6: bool) -> (IpAddr, IpAddr) {
    let mut rng = Rng::new(seed ^ 0xadd4);
    let [second, third] = [rng.between(1, 250) as u8, rng.between(0, 255) as u8];
    let client = rng.between(2, 120) as u8;
    let server = rng.between(121, 250) as u8;
    let host = |last: u8| -> IpAddr {
        if ipv6 {
            let [a, b, c] = [second, third, last].map(u16::from);
            Ipv6Addr::new(0xfd00, a, b, 0, 0, 0, 0, c).into()
        } else {
            Ipv4Addr::new(10, second, third, last).into()
        }
    };
    (host(client), host(server))
}

/// A veth pair with one end in each namespace.
///
/// # Errors
/// `ip` fails.
pub fn veth(near: &Netns, near_name: &str, far: &Netns, far_name: &str) -> Result<(), LabError> {
    let pair = format!("link add {near_name} type veth peer name {far_name} netns {}", far.name());
    near.ip(&pair).map(|_| ())
}

fn tun(netns: &Netns) -> Result<std::os::fd::OwnedFd, LabError> {
    let fd = netns.inside(|| sys::open_tun(INTERFACE))?.doing("make a TUN device")?;
    // The device's own queue must never drop: only the relay drops packets, and logs them.
    netns.ip(&format!("link set {INTERFACE} mtu 1500 txqueuelen 20000"))?;
    Ok(fd)
}

/// Sets up the lab's interface in `netns` with its address and its route.
///
/// # Errors `ip` fails.
pub fn configure(netns: &Netns, addr: IpAddr, congestion_control: &str) -> Result<(), LabError> {
    let (len, net) = match addr {
        IpAddr::V4(v4) => {
            netns.sysctl("net.ipv6.conf.all.disable_ipv6", "1")?;
            let [a, b, c, _] = v4.octets();
            (24, IpAddr::from(Ipv4Addr::new(a, b, c, 0)))
        }
        IpAddr::V6(v6) => {
            // Disables router solicitations, which would be noise in the captures.
            netns.sysctl("net.ipv6.conf.default.router_solicitations", "0")?;
            netns.sysctl(&format!("net.ipv6.conf.{INTERFACE}.router_solicitations"), "0")?;
            netns.sysctl(&format!("net.ipv6.conf.{INTERFACE}.accept_dad"), "0")?;
            let s = v6.segments();
            (64, IpAddr::from(Ipv6Addr::new(s[0], s[1], s[2], s[3], 0, 0, 0, 0)))
        }
    };
    let nodad = if addr.is_ipv6() { " nodad" } else { "" };
    netns.ip(&format!("addr add {addr}/{len} dev {INTERFACE} noprefixroute{nodad}"))?;
    netns.ip(&format!("link set {INTERFACE} up"))?;
    netns
        .ip(&format!(
            "route add {net}/{len} dev {INTERFACE} src {addr} congctl {congestion_control}"
        ))
        .map(|_| ())
}

/// Returns the versions of the kernel and of the capture software, for the labels.
pub fn versions() -> Vec<(String, String)> {
    let first = |text: String| text.lines().next().unwrap_or_default().trim().to_owned();
    let kernel = run("uname", &["-sr"]).map(first).unwrap_or_default();
    let tcpdump = run("tcpdump", &["--version"]).map(first).unwrap_or_default();
    vec![("kernel".to_owned(), kernel), ("tcpdump".to_owned(), tcpdump)]
}
