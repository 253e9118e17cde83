//! The server stops accepting for a while, and its accept queue is short.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// The healthy twin stops as long, but its queue holds all who come meanwhile: what the short
/// queue costs is the difference.
pub const CASE: Case = Case {
    name: "accept_queue_overflow",
    layer: Layer::Socket,
    summary: "a short backlog overflows while the server does not accept",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server's listen()",
        faulty: "backlog {backlog}",
        healthy: "backlog 1024",
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 0, 1_000_000, 10_000_000, 40_000_000]))
            .with("rate_bps", 0)
            .with("backlog", rng.between(1, 4))
            .with("accept_pause_ns", rng.between(150, 700) * 1_000_000)
            .with("connections", rng.between(10, 24))
            .with("requests", rng.between(1, 3))
            .with("response_bytes", rng.between(100, 3_000))
    },
    link: plain_link,
    act,
    truth,
};

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let mut behaviour = Behaviour::healthy(p.get("response_bytes")?);
    behaviour.accept_pause = p.duration("accept_pause_ns")?;
    if variant == Variant::Faulty {
        behaviour.backlog = p.get("backlog")? as i32;
    }
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load {
        connections: p.get("connections")?,
        new_connections: true,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    if ran.stage.server_counters.of("ListenOverflows") == 0 {
        return Err(LabError::NotReproduced("ListenOverflows is 0".to_owned()));
    }
    let endpoint = Some(ran.observed.server.to_string());
    let cause = Cause::by_twin("accept_queue_overflow", Role::Server, endpoint);
    Ok(vec![cause])
}
