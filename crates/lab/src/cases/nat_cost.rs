//! The cost of NAT for each request: a router that translates addresses (DNAT, with a connection
//! table) compared with the same router that only forwards. It takes microseconds, and is no fault.

use std::net::{IpAddr, SocketAddr};

use super::nat::{BACKEND, nft_version, route, translate};
use crate::case::{Case, Observed, plain_link};
use crate::client::{self, Load};
use crate::describe::Layer;
use crate::error::LabError;
use crate::labels::{Class, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

const PORT: u16 = 8080;

/// `--nat 0` is the same path without translation.
pub const CASE: Case = Case {
    name: "nat_cost",
    layer: Layer::Network,
    summary: "requests through a router with DNAT: microseconds each, no fault",
    class: Class::None,
    knob: None,
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 0, 10_000_000]))
            .with("rate_bps", 0)
            .with("nat", 1)
            .with("requests", rng.between(40, 80))
            .with("new_connections", rng.pick(&[0, 1]))
            .with("response_bytes", rng.between(100, 3_000))
            // The NAT is for IPv4; a capture on `any` would also show the packets behind the
            // router.
            .with("ipv6", 0)
            .with("any_interface", 0)
    },
    link: plain_link,
    act,
    truth: |_, _| Ok(Vec::new()),
};

fn act(stage: &mut Stage, p: &Params, _: Variant) -> Result<Observed, LabError> {
    let backend = stage.namespace("backend")?;
    route(stage, &backend)?;
    let to = match p.get("nat")? {
        0 => {
            stage.client.ip(&format!("route replace {BACKEND}/32 via {}", stage.server_addr))?;
            IpAddr::from(BACKEND)
        }
        _ => {
            let address = stage.server_addr;
            translate(stage, &format!("ip daddr {address} tcp dport {PORT} dnat to {BACKEND}"))?;
            address
        }
    };
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&backend, BACKEND.into(), PORT, behaviour)?;
    stage.start_captures()?;
    let endpoint = SocketAddr::new(to, PORT);
    let load = Load {
        new_connections: p.get("new_connections")? > 0,
        ..Load::get(endpoint, p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    let kernel = server.kernel(loaded.kernel.connections);
    let mut observed = Observed::new(loaded, endpoint);
    observed.server_tcp_info = Some(kernel);
    observed.versions.push(nft_version());
    Ok(observed)
}
