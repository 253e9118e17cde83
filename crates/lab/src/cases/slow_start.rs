//! Responses that wait for the congestion window to open: on new connections and after pauses.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// Each request on a new connection; the twin uses a warm connection.
pub const NEW_CONNECTIONS: Case = Case {
    name: "slow_start",
    layer: Layer::Transport,
    summary: "every large response starts on a new connection, with ten segments in flight",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the client",
        faulty: "opens a connection per request",
        healthy: "keeps its connection",
        treat: &[],
    }),
    params: |rng| params(rng).with("requests", rng.between(4, 7)),
    link: plain_link,
    act: |stage, p, variant| {
        act(stage, p, |load| {
            load.new_connections = variant == Variant::Faulty;
        })
    },
    truth: cold_truth,
};

/// After a pause longer than the RTO the congestion window restarts, unless
/// `tcp_slow_start_after_idle` is 0.
pub const AFTER_IDLE: Case = Case {
    name: "idle_restart",
    layer: Layer::Transport,
    summary: "after a pause the server starts slowly again: tcp_slow_start_after_idle",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the server's sysctl",
        faulty: "net.ipv4.tcp_slow_start_after_idle = 1",
        healthy: "net.ipv4.tcp_slow_start_after_idle = 0",
        treat: &[Treat::at_server(&["sysctl", "tcp_slow_start_after_idle=0"])],
    }),
    params: |rng| {
        params(rng)
            // Together with the connect's round trip this is less than 100 ms for each request;
            // from there on distance counts as a cost, and could be the greater one.
            .with("rtt_ns", rng.between(40, 80) * 1_000_000)
            .with("requests", rng.between(5, 6))
            .with("spacing_ns", rng.between(900, 1_500) * 1_000_000)
    },
    link: plain_link,
    act: |stage, p, variant| {
        let on = if variant == Variant::Faulty { "1" } else { "0" };
        stage.server.sysctl("net.ipv4.tcp_slow_start_after_idle", on)?;
        let spacing = p.duration("spacing_ns")?;
        act(stage, p, |load| load.spacing = spacing)
    },
    truth: cold_truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.between(40, 100) * 1_000_000)
        .with("rate_bps", rng.pick(&[100_000_000, 200_000_000, 300_000_000]))
        .with("response_bytes", rng.between(150, 500) * 1_000)
}

fn act(stage: &mut Stage, p: &Params, change: impl Fn(&mut Load)) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let mut load = Load::get(server.endpoint(), p.get("requests")?);
    change(&mut load);
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

/// The twin also starts cold, once, which is slow start as well; the time on a warm connection is
/// computed from the link's delay and rate.
fn cold_truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let (rtt_ns, rate_bps) = (p.get("rtt_ns")?, p.get("rate_bps")?);
    let requests = &ran.observed.loaded.requests;
    let lost = requests.iter().map(|r| {
        // Each 1448 bytes of payload have 52 bytes of IPv4 and TCP header with timestamps.
        let wire_bytes = r.response_bytes + r.response_bytes.div_ceil(1_448) * 52;
        let warm_ns = rtt_ns + wire_bytes * 8_000_000_000 / rate_bps.max(1);
        r.took_ns().saturating_sub(r.connect_ns + warm_ns)
    });
    let endpoint = Some(ran.observed.server.to_string());
    let cause = Cause::by_twin("slow_start", Role::Server, endpoint).measured(
        lost.sum(),
        "client's time less connect, one round trip and serialisation at the link's rate",
    );
    Ok(vec![cause.or(&["congestion_window"])])
}
