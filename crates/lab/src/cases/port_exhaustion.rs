//! The client runs out of local ports: each connection that it closed first keeps its port in
//! TIME_WAIT for a minute (RFC 9293 §3.6.1).

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// With `tcp_tw_reuse` the kernel reuses a port after one second (`tcp_tw_reuse_delay`), so only
/// faster requests fail. Without it all requests fail once the range is used up.
pub const CASE: Case = Case {
    name: "port_exhaustion",
    layer: Layer::Socket,
    summary: "a connection per request uses up the client's ports: EADDRNOTAVAIL",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the client's net.ipv4.ip_local_port_range",
        faulty: "{ports} ports",
        healthy: "32768 to 60999",
        treat: &[Treat::at_client(&["sysctl", "ip_local_port_range=40000 60999"])],
    }),
    params: |rng| {
        let ports = rng.between(8, 30);
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 0, 2_000_000, 10_000_000]))
            .with("rate_bps", 0)
            .with("ports", ports)
            .with("requests", ports * 2 + rng.between(5, 20))
            .with("tw_reuse", rng.pick(&[0, 1]))
            .with("spacing_ns", rng.pick(&[2, 10, 20]) * 1_000_000)
            .with("retry_pause_ns", rng.pick(&[0, 50, 100]) * 1_000_000)
            .with("response_bytes", rng.between(100, 3_000))
    },
    link: plain_link,
    act,
    truth,
};

const FIRST_PORT: u64 = 40_000;

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let last_port = match variant {
        Variant::Faulty => FIRST_PORT + p.get("ports")?.max(1) - 1,
        Variant::Healthy => 60_999,
    };
    let range = format!("{} {last_port}", FIRST_PORT.min(last_port));
    stage.client.sysctl("net.ipv4.ip_local_port_range", &range)?;
    stage.client.sysctl("net.ipv4.tcp_tw_reuse", &p.get("tw_reuse")?.to_string())?;
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load {
        new_connections: true,
        spacing: p.duration("spacing_ns")?,
        retry_pause: p.duration("retry_pause_ns")?,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

/// The kernel refuses before it sends anything, so the client's own errors are the only evidence.
fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let refused = format!("(os error {})", libc::EADDRNOTAVAIL);
    let requests = ran.observed.loaded.requests.iter();
    let is_refused = |error: &String| error.contains(&refused);
    let failed: Vec<_> = requests.filter(|r| r.error.as_ref().is_some_and(is_refused)).collect();
    if failed.is_empty() {
        return Err(LabError::NotReproduced("there were ports for all".to_owned()));
    }
    let lost_ns = failed.iter().map(|r| r.took_ns()).sum();
    let how = "failed requests, by the client's clock: the kernel refused each at once";
    let client = ran.observed.loaded.requests.iter().find_map(|r| {
        let end: std::net::SocketAddr = r.client_endpoint.parse().ok()?;
        Some(end.ip().to_string())
    });
    let cause = Cause::by_twin("port_exhaustion", Role::Client, client);
    Ok(vec![cause.measured(lost_ns, how).unseen_at(&["client", "server"])])
}
