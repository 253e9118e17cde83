//! Connections that cannot be established: no program listens at the port, or a filter rejects or
//! drops the SYNs.

use std::net::SocketAddr;

use super::nat::nft_version;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

const PORT: u16 = 8080;

/// A RST answers each SYN.
pub const REFUSED: Case = Case {
    name: "refused",
    layer: Layer::Transport,
    summary: "no program listens at the port: each SYN is answered by a RST",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server",
        faulty: "runs nothing at the port",
        healthy: "listens at the port",
        treat: &[],
    }),
    params: |rng| params(rng).with("requests", rng.between(5, 15)),
    link: plain_link,
    act: refused,
    truth: |_, ran| {
        let endpoint = Some(ran.observed.server.to_string());
        refusal(ran, endpoint)
    },
};

/// A packet filter answers each SYN with an ICMP error.
pub const REJECTED: Case = Case {
    name: "rejected_port",
    layer: Layer::Network,
    summary: "a packet filter rejects the SYNs with ICMP, as it does by default",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server's packet filter",
        faulty: "tcp dport 8080 reject",
        healthy: "no rule for the port",
        treat: &[],
    }),
    params: |rng| {
        params(rng).with("requests", rng.between(5, 15)).with("prohibited", rng.pick(&[0, 1]))
    },
    link: plain_link,
    act: |stage, p, variant| {
        let endpoint = SocketAddr::new(stage.server_addr, PORT);
        let load = Load { new_connections: true, ..Load::get(endpoint, p.get("requests")?) };
        // A kernel limits the rate of ICMP errors to one address and omits the others.
        for key in ["net.ipv4.icmp_ratelimit", "net.ipv6.icmp.ratelimit"] {
            stage.server.sysctl(key, "0")?;
        }
        let with = if p.get("prohibited")? == 0_u64 { "" } else { " with icmpx admin-prohibited" };
        filtered(stage, p, variant, &load, &format!("reject{with}"))
    },
    truth: |_, ran| {
        let endpoint = Some(ran.observed.server.to_string());
        refusal(ran, endpoint)
    },
};

/// A packet filter drops each SYN silently.
pub const FILTERED: Case = Case {
    name: "filtered_port",
    layer: Layer::Network,
    summary: "a packet filter drops the SYNs: the client repeats them until it gives up",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server's packet filter",
        faulty: "tcp dport 8080 drop",
        healthy: "no rule for the port",
        treat: &[],
    }),
    params: |rng| {
        params(rng)
            .with("requests", rng.between(1, 2))
            .with("connections", rng.between(1, 4))
            .with("gives_up_ns", rng.pick(&[1_150, 2_200, 3_250, 4_300]) * 1_000_000)
    },
    link: plain_link,
    act: swallowed,
    truth: |_, ran| {
        let again = ran.stage.client_counters.of("TCPSynRetrans");
        if again == 0 || failed(ran) == 0 {
            return Err(LabError::NotReproduced("no SYN was repeated".to_owned()));
        }
        // The capture at the server may show that its host has the SYNs.
        let cause = Cause::by_twin("syn_retransmit", Role::Network, None);
        Ok(vec![cause.looks_like(&[("syn_retransmit", Role::Server)])])
    },
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 0, 5_000_000, 40_000_000]))
        .with("rate_bps", 0)
        .with("response_bytes", rng.between(100, 3_000))
}

/// Every request failed at once.
fn refusal(ran: &Ran, endpoint: Option<String>) -> Result<Vec<Cause>, LabError> {
    if failed(ran) < ran.observed.loaded.requests.len() {
        return Err(LabError::NotReproduced("a connection was made".to_owned()));
    }
    let cause = Cause::by_twin("refused", Role::Server, endpoint);
    Ok(vec![cause.measured(0, "nothing was waited for: each request failed at once")])
}

fn failed(ran: &Ran) -> usize {
    let requests = ran.observed.loaded.requests.iter();
    requests.filter(|r| r.error.is_some()).count()
}

fn refused(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let endpoint = SocketAddr::new(stage.server_addr, PORT);
    let load = Load { new_connections: true, ..Load::get(endpoint, p.get("requests")?) };
    if variant == Variant::Faulty {
        stage.start_captures()?;
        return Ok(Observed::new(client::run(&stage.client, &load)?, endpoint));
    }
    against_server(stage, p, &load)
}

fn swallowed(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let endpoint = SocketAddr::new(stage.server_addr, PORT);
    let load = Load {
        new_connections: true,
        connections: p.get("connections")?,
        timeout: p.duration("gives_up_ns")?,
        ..Load::get(endpoint, p.get("requests")?)
    };
    filtered(stage, p, variant, &load, "drop")
}

/// Runs the load on a server; in the faulty variant a packet filter applies this verdict to its
/// SYNs.
fn filtered(
    stage: &mut Stage,
    p: &Params,
    variant: Variant,
    load: &Load,
    verdict: &str,
) -> Result<Observed, LabError> {
    if variant == Variant::Faulty {
        let rules = format!(
            "add table inet lab; \
             add chain inet lab in {{ type filter hook input priority 0; }}; \
             add rule inet lab in tcp dport {PORT} {verdict}"
        );
        stage.server.run("nft", &[&rules])?;
    }
    let mut observed = against_server(stage, p, load)?;
    observed.versions.push(nft_version());
    Ok(observed)
}

fn against_server(stage: &mut Stage, p: &Params, load: &Load) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, PORT, behaviour)?;
    stage.start_captures()?;
    let loaded = client::run(&stage.client, load)?;
    Ok(Observed::with_server(loaded, &server))
}
