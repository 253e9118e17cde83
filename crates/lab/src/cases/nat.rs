//! A NAT router (DNAT) in front of the server, whose connection table is full for a while.
//!
//! The router is the far end of the link; the server is in a namespace behind it, which the
//! captures do not see. The size of the kernel's own table (`nf_conntrack_max`) applies to the
//! whole machine, so the case limits the connections of this one router by a rule instead (`ct
//! count`): packets that would open one more are dropped, as they are when the table is full.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::{Netns, run};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::{Stage, veth};

const PORT: u16 = 8080;
/// The server behind the router.
pub const BACKEND: Ipv4Addr = Ipv4Addr::new(172, 16, 9, 2);

/// Idle connections fill the table. After a while they end, and the repeated SYNs pass. The twin's
/// router has room for all.
pub const FULL: Case = Case {
    name: "conntrack_full",
    layer: Layer::Network,
    summary: "a NAT router whose connection table is full drops new connections",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the router's connection table (limited by a rule: nf_conntrack_max is the machine's)",
        faulty: "{table_size} entries",
        healthy: "a hundred times as many",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 1_000_000, 10_000_000, 30_000_000]))
            .with("rate_bps", 0)
            .with("table_size", rng.between(8, 30))
            .with("full_for_ns", rng.pick(&[500, 1_500, 2_000]) * 1_000_000)
            .with("connections", rng.between(2, 6))
            .with("requests", rng.between(2, 4))
            .with("response_bytes", rng.between(100, 3_000))
            // The NAT is for IPv4; a capture on `any` would also show the packets behind the
            // router.
            .with("ipv6", 0)
            .with("any_interface", 0)
    },
    link: plain_link,
    act,
    truth,
};

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let backend = stage.namespace("backend")?;
    let endpoint = SocketAddr::new(stage.server_addr, PORT);
    let table_size = p.get("table_size")?;
    let limit = match variant {
        Variant::Faulty => table_size,
        Variant::Healthy => table_size * 100,
    };
    let limit = format!("tcp dport {PORT} ct state new ct count over {limit} drop");
    route(stage, &backend)?;
    let to = format!("ip daddr {} tcp dport {PORT} dnat to {BACKEND}:{PORT}", endpoint.ip());
    translate(stage, &to)?;
    stage.server.run("nft", &[&format!("add rule ip lab through {limit}")])?;
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&backend, BACKEND.into(), PORT, behaviour)?;
    stage.start_captures()?;
    let idle = hold(&stage.client, endpoint, table_size)?;
    let full_for = p.duration("full_for_ns")?;
    let ends = thread::spawn(move || {
        thread::sleep(full_for);
        drop(idle);
    });
    let load = Load {
        connections: p.get("connections")?,
        new_connections: true,
        ..Load::get(endpoint, p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load);
    // The thread only sleeps, so it cannot fail.
    let _ = ends.join();
    let kernel = server.kernel(0);
    let mut observed = Observed::new(loaded?, endpoint);
    observed.server_tcp_info = Some(kernel);
    observed.versions.push(nft_version());
    Ok(observed)
}

/// Makes the far end of the link a router to the backend. The set-up of an earlier run of the load
/// on this stage is removed first.
pub fn route(stage: &Stage, backend: &Netns) -> Result<(), LabError> {
    let router = &stage.server;
    let _ = router.ip("link del inner");
    let _ = router.run("nft", &["delete table ip lab"]);
    veth(router, "inner", backend, "outer")?;
    router.ip("addr add 172.16.9.1/24 dev inner")?;
    router.ip("link set inner up")?;
    backend.ip(&format!("addr add {BACKEND}/24 dev outer"))?;
    backend.ip("link set outer up")?;
    backend.ip("route add default via 172.16.9.1 congctl cubic")?;
    router.sysctl("net.ipv4.ip_forward", "1")
}

/// Makes the router translate addresses by a rule of nftables.
pub fn translate(stage: &Stage, rule: &str) -> Result<(), LabError> {
    let rules = format!(
        "add table ip lab; \
         add chain ip lab before {{ type nat hook prerouting priority -100; }}; \
         add chain ip lab through {{ type filter hook forward priority 0; }}; \
         add rule ip lab before {rule}"
    );
    stage.server.run("nft", &[&rules]).map(|_| ())
}

/// Returns nftables and its version, for the labels.
pub fn nft_version() -> (String, String) {
    ("nft".to_owned(), run("nft", &["--version"]).unwrap_or_default().trim().to_owned())
}

/// Opens connections that carry no data.
fn hold(client: &Netns, to: SocketAddr, count: u64) -> Result<Vec<TcpStream>, LabError> {
    let open = || (0..count).map(|_| TcpStream::connect_timeout(&to, Duration::from_secs(5)));
    client.inside(|| open().collect::<std::io::Result<Vec<_>>>())?.doing("open idle connections")
}

/// Causes that a capture may show if SYNs get no answer from a host that answers others.
const VANISHING_SYNS: [(&str, Role); 5] = [
    ("syn_retransmit", Role::Network),
    ("syn_retransmit", Role::Server),
    ("accept_queue_overflow", Role::Server),
    ("conntrack_full", Role::Network),
    ("conntrack_full", Role::Server),
];

/// A capture only shows SYNs to one host without an answer.
fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let again = ran.stage.client_counters.of("TCPSynRetrans");
    if again == 0 {
        return Err(LabError::NotReproduced("no SYN was repeated".to_owned()));
    }
    let router: IpAddr = ran.observed.server.ip();
    let cause = Cause::by_twin("conntrack_full", Role::Host, Some(router.to_string()));
    // A diagnosis may name both causes, each for some of the connections; then their times add up.
    let cause = cause.or(&["syn_retransmit", "accept_queue_overflow"]);
    Ok(vec![cause.looks_like(&VANISHING_SYNS)])
}
