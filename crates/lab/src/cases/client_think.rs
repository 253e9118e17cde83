//! The client pauses between exchanges, which is no fault, or within a request.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// Idle time between exchanges is not latency.
pub const BETWEEN_EXCHANGES: Case = Case {
    name: "client_idle",
    layer: Layer::Application,
    summary: "the client pauses between its requests on one connection: no fault",
    class: Class::None,
    knob: None,
    params: |rng| {
        params(rng)
            .with("spacing_ns", rng.between(100, 900) * 1_000_000)
            .with("body_bytes", 0)
            .with("pause_ns", 0)
    },
    link: plain_link,
    act,
    truth,
};

/// The client sends half of an upload, pauses, and sends the rest.
pub const IN_UPLOAD: Case = Case {
    name: "client_think_upload",
    layer: Layer::Application,
    summary: "the client pauses in the middle of a request's body",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the client",
        faulty: "pauses {pause_ns} amid the upload",
        healthy: "sends it without a pause",
        treat: &[],
    }),
    params: |rng| {
        params(rng)
            .with("spacing_ns", rng.pick(&[0, 0, 50_000_000]))
            .with("body_bytes", rng.between(1_000, 20_000))
            .with("pause_ns", rng.between(40, 400) * 1_000_000)
    },
    link: plain_link,
    act,
    truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 0, 2_000_000, 20_000_000]))
        .with("rate_bps", 0)
        .with("requests", rng.between(6, 12))
        .with("connections", rng.pick(&[1, 1, 3]))
        .with("response_bytes", rng.between(100, 3_000))
}

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let body_bytes = p.get("body_bytes")?;
    let mut load = Load::get(server.endpoint(), p.get("requests")?);
    if body_bytes > 0 {
        load = Load::post(server.endpoint(), p.get("requests")?, body_bytes);
    }
    load.connections = p.get("connections")?;
    load.spacing = p.duration("spacing_ns")?;
    if variant == Variant::Faulty {
        load.split = true;
        load.body_with_header_bytes = body_bytes / 2;
        load.pause_before_body = p.duration("pause_ns")?;
    }
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn truth(_: &Params, _: &Ran) -> Result<Vec<Cause>, LabError> {
    Ok(vec![Cause::by_twin("client_think", Role::Client, None)])
}
