//! Server think time, before the response or between its header and its body. The second is the
//! look-alike of Nagle's algorithm with delayed ACKs.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// A cost has to be reported from 20 ms and 30 % of the time on; this value reaches that with the
/// longest round trips that are drawn with it.
pub const THINK_MIN_MS: u64 = 25;

/// Think time before the response.
pub const SERVER_THINK: Case = Case {
    name: "server_think",
    layer: Layer::Application,
    summary: "the server computes before it answers",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the server's handler",
        faulty: "computes {think_ns} before it answers",
        healthy: "answers at once",
        treat: &[],
    }),
    params: |rng| params(rng).with("think_ns", rng.between(THINK_MIN_MS, 120) * 1_000_000),
    link: plain_link,
    act: |stage, p, variant| act(stage, p, variant, false),
    truth,
};

/// Think time of exactly 40 ms between header and body.
pub const BETWEEN_HEADER_AND_BODY: Case = Case {
    name: "think_between_header_and_body",
    layer: Layer::Application,
    summary: "the server sends the header, computes 40 ms, sends the body: no Nagle",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the server's handler",
        faulty: "computes {think_ns} between header and body",
        healthy: "answers at once",
        treat: &[],
    }),
    params: |rng| params(rng).with("think_ns", 40_000_000),
    link: plain_link,
    act: |stage, p, variant| act(stage, p, variant, true),
    truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 0, 2_000_000, 10_000_000, 26_000_000]))
        .with("rate_bps", 0)
        .with("requests", rng.between(25, 40))
        .with("connections", rng.pick(&[1, 1, 3]))
        .with("new_connections", rng.pick(&[0, 0, 0, 1]))
        .with("response_bytes", rng.between(100, 3_000))
}

fn act(
    stage: &mut Stage,
    p: &Params,
    variant: Variant,
    between: bool,
) -> Result<Observed, LabError> {
    let mut behaviour = Behaviour::healthy(p.get("response_bytes")?);
    behaviour.split = between;
    if variant == Variant::Faulty {
        let slot = if between { &mut behaviour.think_before_body } else { &mut behaviour.think };
        *slot = p.duration("think_ns")?;
    }
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load {
        connections: p.get("connections")?,
        new_connections: p.get("new_connections")? > 0,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let endpoint = Some(ran.observed.server.to_string());
    let cause = Cause::by_twin("server_think", Role::Server, endpoint)
        .measured(ran.observed.slept_ns, "server's own clock around its sleep");
    Ok(vec![cause])
}
