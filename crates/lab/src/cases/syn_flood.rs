//! hping3 floods a listener with SYNs from forged addresses while real clients connect.
//!
//! The attacker has its own namespace and reaches the server over a bridge, so that the client's
//! capture shows only what a client sees. The queue of half-open connections is short, and its
//! entries expire after a second, so that some clients can connect.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{Case, Observed, Ran};
use crate::client::{self, Load, Request};
use crate::describe::{Knob, Layer, Treat};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::{Netns, Process, run};
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::{INTERFACE, Link, Stage, configure, veth};
use tcpwhy_treat::{HostTreatment, Journal, SynFlood, plan_syn_flood};

/// The healthy twin has the same clients without the flood.
pub const CASE: Case = Case {
    name: "syn_flood",
    layer: Layer::Transport,
    summary: "a SYN flood from spoofed addresses fills the queue of half-open connections",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the attacker",
        faulty: "sends {flood_per_second} SYNs a second",
        healthy: "is kept away",
        treat: &[Treat::at_server(&["syn-flood", "--port", "8080", "--only", "cookies,backlog"])],
    }),
    params,
    link: |_, _, _| Ok(Link::Veth),
    act,
    truth,
};

fn params(rng: &mut Rng) -> Params {
    let backlog = rng.pick(&[64, 128, 256]);
    Params::default()
        .with("backlog", backlog)
        // Half-open connections last for one second, so one SYN in so many finds room.
        .with("flood_per_second", backlog * rng.between(3, 8))
        .with("syncookies", rng.pick(&[0, 0, 1]))
        .with("synack_retries", 0)
        .with("source_filter", 0)
        .with("one_source", 0)
        .with("syn_limit", NO_LIMIT)
        .with("connections", rng.between(2, 4))
        .with("requests", rng.between(2, 3))
        .with("spacing_ns", 300_000_000)
        .with("response_bytes", rng.between(100, 3_000))
        // hping3 uses IPv4 only; on `any` each packet would appear at every port of the bridge.
        .with("ipv6", 0)
        .with("any_interface", 0)
}

/// Values of `syn_limit`: the program that limits each source to [`SYNS_PER_SECOND`].
const NO_LIMIT: u64 = 0;
const NFTABLES: u64 = 1;
/// XDP at the bridge, whose driver has no support for it: the kernel's generic mode.
const XDP_GENERIC: u64 = 2;
/// XDP in the driver of the bridge's ports.
const XDP_NATIVE: u64 = 3;
/// The default of `tcpwhy treat syn-flood`.
const SYNS_PER_SECOND: u32 = 100;

/// From this rate on, SYNs a second, hping3 sends as fast as it can.
const FULL_SPEED: u64 = 1_000_000;
/// Minimum time for which its packets are counted, since the kernel counts time in ticks of 10 ms.
const COUNTED: Duration = Duration::from_secs(3);

/// Seconds after which the flood ends in any case.
const FLOOD_MAX_SECONDS: u64 = 25;

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let attacker = stage.namespace("attacker")?;
    bridge(stage, &attacker)?;
    let settings = [
        ("net.ipv4.tcp_syncookies", p.get("syncookies")?.to_string()),
        ("net.ipv4.tcp_synack_retries", p.get("synack_retries")?.to_string()),
        // Limits of the kernel that must not be lower than a long backlog.
        ("net.ipv4.tcp_max_syn_backlog", (4 * p.get("backlog")?).max(2_048).to_string()),
        ("net.core.somaxconn", p.get("backlog")?.max(4_096).to_string()),
    ];
    for (key, value) in settings {
        stage.server.sysctl(key, &value)?;
    }
    if p.get("source_filter")? > 0 {
        filter(stage)?;
    }
    let mut behaviour = Behaviour::healthy(p.get("response_bytes")?);
    behaviour.backlog = p.get("backlog")? as i32;
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    let _limit = limit(stage, p)?;
    stage.start_captures()?;
    let _flood = match variant {
        Variant::Faulty => Some(flood(&attacker, server.endpoint(), p)?),
        Variant::Healthy => None,
    };
    let (since, before, softirq_before_ns) = (Instant::now(), sent(&attacker)?, softirq_ns()?);
    let load = Load {
        connections: p.get("connections")?,
        new_connections: true,
        spacing: p.duration("spacing_ns")?,
        timeout: Duration::from_millis(3_500),
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    let is_full = variant == Variant::Faulty && p.get("flood_per_second")? >= FULL_SPEED;
    if is_full {
        thread::sleep(COUNTED.saturating_sub(since.elapsed()));
    }
    let per_second = |n: u64| (n as f64 / since.elapsed().as_secs_f64()).round() as u64;
    let [packets, bytes] = sent(&attacker)?;
    let mut observed = Observed::with_server(loaded, &server);
    observed.measured.insert("flood_packets_per_second", per_second(packets - before[0]));
    observed.measured.insert("flood_bps", per_second(8 * (bytes - before[1])));
    // With fewer packets, most of the time is other work of the system.
    let each_ns = (softirq_ns()? - softirq_before_ns).checked_div(packets - before[0]);
    if let Some(each_ns) = each_ns.filter(|_| is_full) {
        observed.measured.insert("softirq_ns_per_packet", each_ns);
    }
    let version = run("hping3", &["--version"]).unwrap_or_default();
    let version = version.lines().next().unwrap_or_default().to_owned();
    observed.versions.push(("hping3".to_owned(), version));
    Ok(observed)
}

/// Replaces the server's interface by a bridge, to which the attacker is connected. Answers to
/// addresses that do not exist are dropped in the attacker's namespace.
fn bridge(stage: &Stage, attacker: &Netns) -> Result<(), LabError> {
    let server = &stage.server;
    server.ip(&format!("link set {INTERFACE} down"))?;
    server.ip(&format!("addr flush dev {INTERFACE}"))?;
    server.ip(&format!("link set {INTERFACE} name port0"))?;
    server.ip(&format!("link add {INTERFACE} type bridge forward_delay 0 mcast_snooping 0"))?;
    veth(attacker, INTERFACE, server, "port1")?;
    for port in ["port0", "port1"] {
        server.ip(&format!("link set {port} master {INTERFACE} up"))?;
    }
    configure(server, stage.server_addr, "cubic")?;
    let at = match stage.server_addr {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            IpAddr::from([a, b, c, 254])
        }
        v6 => v6,
    };
    configure(attacker, at, "cubic")?;
    server.ip(&format!("route add default via {at}"))?;
    // The kernel notices within a second that a port has a carrier; until then it forwards nothing.
    thread::sleep(Duration::from_millis(1_500));
    Ok(())
}

fn flood(attacker: &Netns, server: SocketAddr, p: &Params) -> Result<Process, LabError> {
    let per_second = p.get("flood_per_second")?.max(1);
    let mut command = attacker.command("hping3");
    command.args(["--quiet", "--syn", "--destport", &server.port().to_string()]);
    match p.get("one_source")? {
        0 => command.arg("--rand-source"),
        // An address for benchmarks (RFC 2544); answers to it are dropped in the attacker's
        // namespace.
        _ => command.args(["--spoof", "198.18.0.1"]),
    };
    match per_second {
        FULL_SPEED.. => command.arg("--flood"),
        _ => command.args(["--interval", &format!("u{}", 1_000_000 / per_second)]),
    };
    command.args(["--count", &(per_second * FLOOD_MAX_SECONDS).to_string()]);
    command.arg(server.ip().to_string());
    let flood = Process::start(command, "hping3")?;
    // The clients start when the queue is full: one second fills it three times.
    thread::sleep(Duration::from_secs(1));
    Ok(flood)
}

/// Limits each source to a rate of SYNs, as `tcpwhy treat syn-flood --only limit` does.
fn limit(stage: &Stage, p: &Params) -> Result<Option<HostTreatment>, LabError> {
    let devices: &[&str] = match p.get("syn_limit")? {
        NO_LIMIT => return Ok(None),
        XDP_GENERIC => &[INTERFACE],
        XDP_NATIVE => &["port0", "port1"],
        _ => &[],
    };
    let asked = SynFlood {
        port: 8080,
        syns_per_second: Some(SYNS_PER_SECOND),
        xdp: p.get("syn_limit")? != NFTABLES,
        devices: devices.iter().map(ToString::to_string).collect(),
        netns: Some(stage.server.name().to_owned()),
        ..SynFlood::default()
    };
    let journal = Journal::at(stage.dir().join("treat"));
    let begun = plan_syn_flood(&asked).and_then(|plan| HostTreatment::begin(journal, &plan));
    begun.map(Some).map_err(|error| LabError::Command {
        command: "tcpwhy treat syn-flood --only limit".to_owned(),
        stderr: error.to_string(),
    })
}

/// Time that all processors have spent in software interrupts, where packets are received, in ticks
/// of 10 ms (proc_stat(5)).
fn softirq_ns() -> Result<u64, LabError> {
    let text = fs::read_to_string("/proc/stat").doing("read /proc/stat")?;
    let ticks = text.lines().next().and_then(|all| all.split_whitespace().nth(7)?.parse().ok());
    Ok(ticks.unwrap_or(0_u64) * 10_000_000)
}

/// Number of packets and bytes that the attacker's interface has sent.
fn sent(attacker: &Netns) -> Result<[u64; 2], LabError> {
    let read = || fs::read_to_string("/proc/thread-self/net/dev");
    let text = attacker.inside(read)?.doing("read the attacker's counters")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix(INTERFACE));
    // After the name come eight columns for reception, then bytes and packets sent.
    let mut columns = line.unwrap_or_default().trim_start_matches(':').split_whitespace().skip(8);
    let mut next = || columns.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let bytes = next();
    Ok([next(), bytes])
}

/// Permits the clients' address only.
fn filter(stage: &Stage) -> Result<(), LabError> {
    let client = stage.client_addr;
    let rules = format!(
        "add table ip lab; \
         add chain ip lab first {{ type filter hook prerouting priority -300; }}; \
         add rule ip lab first ip saddr != {client} tcp dport 8080 drop"
    );
    stage.server.run("nft", &[&rules]).map(|_| ())
}

/// Clients lose time because they wait for repeated SYNs, or give up. With SYN cookies they lose
/// none, although the flood is there.
fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let counters = &ran.stage.server_counters;
    let seen = ["TCPReqQFullDrop", "TCPReqQFullDoCookies", "SyncookiesSent", "ListenDrops"];
    if seen.iter().all(|name| counters.of(name) == 0) {
        return Err(LabError::NotReproduced("the queue was never full".to_owned()));
    }
    // A SYN is sent again after one second.
    let waited = |r: &&Request| r.error.is_some() || r.connect_ns > 900_000_000;
    let hurt = ran.observed.loaded.requests.iter().filter(waited);
    let lost_ns: u64 = hurt.map(|r| r.connect_ns.max(r.took_ns())).sum();
    let how = "requests that waited for a SYN sent again or gave up, by the client's clock";
    let cause = Cause::by_twin("syn_flood", Role::Network, None).measured(lost_ns, how);
    // A client's capture shows SYNs without an answer, but no flood; with SYN cookies, not even
    // those.
    let unharmed: &[&'static str] = if lost_ns == 0 { &["client"] } else { &[] };
    Ok(vec![cause.unseen_at(unharmed).looks_like(&[
        ("syn_retransmit", Role::Network),
        ("syn_retransmit", Role::Server),
        ("accept_queue_overflow", Role::Server),
    ])])
}
