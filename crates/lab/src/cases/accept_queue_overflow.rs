//! The server stops accepting connections for a while, and its accept queue is short.

use std::time::Duration;

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load, Request};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// The healthy twin also stops accepting, but has a long queue. Clients in the queue wait until the
/// pause is over, which counts as the server's think time. Clients that the queue rejects wait
/// until a SYN or a request is repeated. The label counts their time after the end of the pause
/// only: until then a longer queue would have kept them waiting as well.
pub const CASE: Case = Case {
    name: "accept_queue_overflow",
    layer: Layer::Socket,
    summary: "a short backlog overflows while the server does not accept",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server",
        faulty: "listens with a backlog of {backlog} and accepts no connection for {accept_pause_ns}",
        healthy: "listens with a backlog of 1024, and pauses as well",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 0, 1_000_000, 10_000_000, 40_000_000]))
            .with("rate_bps", 0)
            .with("backlog", rng.between(2, 5))
            .with("accept_pause_ns", rng.between(150, 700) * 1_000_000)
            .with("connections", rng.between(10, 18))
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
        // The repetitions of all clients come at the same instants and overflow the queue again, so
        // that an unlucky client would wait for minutes.
        timeout: Duration::from_secs(6),
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

/// A queue of `backlog` holds one connection more (`sk_acceptq_is_full`); these are answered first.
fn truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    if ran.stage.server_counters.of("ListenOverflows") == 0 {
        return Err(LabError::NotReproduced("ListenOverflows is 0".to_owned()));
    }
    let endpoint = Some(ran.observed.server.to_string());
    let mut requests: Vec<_> = ran.observed.loaded.requests.iter().collect();
    requests.sort_by_key(|r| r.end_ns);
    let taken_ns = requests.first().map_or(0, |r| r.end_ns);
    let turned_away = requests.iter().skip(p.get("backlog")? as usize + 1);
    let round_trips_ns = 2 * p.get("rtt_ns")?;
    let lost_ns = |r: &&Request| r.end_ns.saturating_sub(taken_ns.max(r.start_ns + round_trips_ns));
    let lost_ns = turned_away.map(lost_ns).sum();
    let how =
        "client's time from when the listener accepts, of the requests that the queue did not hold";
    let cause = Cause::by_twin("accept_queue_overflow", Role::Server, endpoint);
    Ok(vec![cause.measured(lost_ns, how)])
}
