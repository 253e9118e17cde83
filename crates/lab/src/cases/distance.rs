//! Distance alone: nothing is wrong, but every request takes round trips.

use crate::case::{Case, Observed, Ran};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::relay::RelayParams;
use crate::server::{Behaviour, Server};
use crate::stage::{Link, Stage};

/// A path of 150 ms and a new connection for each request, which makes two round trips.
pub const PLAIN: Case = Case {
    name: "distance",
    layer: Layer::Network,
    summary: "150 ms away, and a connection per request: round trips dominate",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the path",
        faulty: "round trip {rtt_ns}",
        healthy: "a server nearby: round trip {near_rtt_ns}",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(80, 200) * 1_000_000)
            .with("near_rtt_ns", 1_000_000)
            .with("requests", rng.between(6, 12))
            .with("new_connections", rng.pick(&[1, 1, 0]))
            .with("response_bytes", rng.between(200, 8_000))
    },
    link,
    act,
    truth,
};

/// The twin has the same load over a short link.
pub fn link(p: &Params, variant: Variant, seed: u64) -> Result<Link, LabError> {
    let far = variant == Variant::Faulty;
    let rtt_ns = p.get(if far { "rtt_ns" } else { "near_rtt_ns" })?;
    Ok(Link::Relay(RelayParams::symmetric(rtt_ns, 0, seed)))
}

fn act(stage: &mut Stage, p: &Params, _: Variant) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load {
        new_connections: p.get("new_connections")? > 0,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let requests = &ran.observed.loaded.requests;
    let connects = requests.iter().filter(|r| r.connect_ns > 0).count();
    let lost_ns = (requests.len() + connects) as u64 * p.get("rtt_ns")?;
    let cause = Cause::by_twin("path_rtt", Role::Network, None)
        .measured(lost_ns, "connects and requests times the link's round trip");
    Ok(vec![cause])
}
