//! The client writes header and body of a request separately, without `TCP_NODELAY`.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// The body waits for the ACK of the header, which the server delays because it has no data to
/// send.
pub const CASE: Case = Case {
    name: "client_nagle",
    layer: Layer::Socket,
    summary: "the client sends a request's header and body apart without TCP_NODELAY",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the client",
        faulty: "header and body in two writes, TCP_NODELAY not set",
        healthy: "TCP_NODELAY set, or with --one-write-is-the-fix 1 one write",
        treat: &[Treat::at_client(&["nodelay", "--port", "8080", "--side", "client"])],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 0, 500_000, 2_000_000, 10_000_000, 26_000_000]))
            .with("rate_bps", 0)
            .with("requests", rng.between(25, 50))
            .with("connections", rng.pick(&[1, 1, 3]))
            .with("body_bytes", rng.between(20, 1_300))
            .with("response_bytes", rng.between(50, 4_000))
            .with("spacing_ns", rng.pick(&[0, 0, 2_000_000, 20_000_000]))
            .with("one_write_is_the_fix", rng.pick(&[0, 1]))
    },
    link: plain_link,
    act,
    truth,
};

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let faulty = variant == Variant::Faulty;
    let one_write = p.get("one_write_is_the_fix")? > 0;
    let load = Load {
        connections: p.get("connections")?,
        spacing: p.duration("spacing_ns")?,
        split: faulty || !one_write,
        nodelay: !faulty && !one_write,
        ..Load::post(server.endpoint(), p.get("requests")?, p.get("body_bytes")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let one_connection = p.get("connections")? == 1;
    let first = ran.observed.loaded.requests.first();
    let endpoint = first.filter(|_| one_connection).map(|r| r.client_endpoint.clone());
    Ok(vec![Cause::by_twin("nagle_delayed_ack", Role::Client, endpoint)])
}
