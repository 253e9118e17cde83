//! Connections that are reset during a response or while idle.

use std::net::SocketAddr;
use std::time::Duration;

use super::programs;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load, Request};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// The server resets the connection in the middle of a response.
pub const MID_STREAM: Case = Case {
    name: "reset_mid_stream",
    layer: Layer::Application,
    summary: "the server resets connections in the middle of a response",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server",
        faulty: "resets the connection after {reset_after_bytes} of a response",
        healthy: "sends responses to their end",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 2_000_000, 20_000_000]))
            .with("rate_bps", 0)
            .with("response_bytes", rng.between(20_000, 120_000))
            .with("reset_after_bytes", rng.between(1_000, 15_000))
            .with("reset_every", rng.between(2, 4))
            .with("requests", rng.between(10, 20))
    },
    link: plain_link,
    act: mid_stream,
    truth: |_, ran| broken_off(ran, "reset"),
};

/// nginx closes an idle connection while the next request is in flight.
pub const IDLE: Case = Case {
    name: "idle_reset",
    layer: Layer::Application,
    summary: "nginx closes an idle connection just before the next request reaches it",
    class: Class::Fault,
    knob: Some(Knob {
        at: "nginx.conf",
        faulty: "keepalive_timeout {keepalive_ns};",
        healthy: "keepalive_timeout 60s;",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 30, 60, 100]) * 1_000_000)
            .with("rate_bps", 0)
            .with("keepalive_ns", rng.pick(&[600, 1_000, 1_500]) * 1_000_000)
            .with("requests", rng.between(6, 10))
            .with("response_bytes", rng.between(100, 1_000))
    },
    link: plain_link,
    act: idle,
    truth: |_, ran| asked_again(ran),
};

fn mid_stream(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let mut behaviour = Behaviour::healthy(p.get("response_bytes")?);
    if variant == Variant::Faulty {
        behaviour.reset_after_bytes = p.get("reset_after_bytes")?;
        behaviour.reset_every = p.get("reset_every")?;
    }
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load::get(server.endpoint(), p.get("requests")?);
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

/// The request must leave before the FIN arrives, and arrive after nginx has closed: half a round
/// trip before the timeout is in the middle of that window. Without a round trip there is no
/// window; then the client is one that does not check whether its connection was closed.
fn idle(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let (rtt, keepalive) = (p.duration("rtt_ns")?, p.duration("keepalive_ns")?);
    let timeout = match variant {
        Variant::Faulty => keepalive,
        Variant::Healthy => Duration::from_secs(60),
    };
    let body = "i".repeat(p.get("response_bytes")? as usize);
    let directives = format!(
        "keepalive_timeout {}ms;\nserver {{ listen {server}; location / {{ return 200 {body}; }} }}\n",
        timeout.as_millis()
    );
    let _nginx = programs::nginx(stage, &directives, server)?;
    stage.start_captures()?;
    let load = Load {
        spacing: match rtt.is_zero() {
            true => keepalive + Duration::from_millis(100),
            false => keepalive - rtt / 2,
        },
        ..Load::get(server, p.get("requests")?)
    };
    let mut observed = Observed::new(client::run(&stage.client, &load)?, server);
    observed.versions.push(programs::nginx_version(stage));
    Ok(observed)
}

/// An interrupted request has to be repeated, so all its time is lost.
fn broken_off(ran: &Ran, cause: &'static str) -> Result<Vec<Cause>, LabError> {
    let requests = ran.observed.loaded.requests.iter();
    let failed: Vec<_> = requests.filter(|r| r.error.is_some()).collect();
    if failed.is_empty() {
        return Err(LabError::NotReproduced("no request failed".to_owned()));
    }
    let lost_ns = failed.iter().map(|r| r.took_ns()).sum();
    let endpoint = Some(ran.observed.server.to_string());
    let how = "failed requests, by the client's clock: each was asked again";
    Ok(vec![Cause::by_twin(cause, Role::Server, endpoint).measured(lost_ns, how)])
}

/// As [`broken_off`], where each failed request is the first of two: its client also waited until
/// it asked again, and for the connection on which it did.
fn asked_again(ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let mut causes = broken_off(ran, "idle_reset")?;
    let pairs = ran.observed.loaded.requests.windows(2);
    let failed = pairs.filter(|pair| pair[0].error.is_some());
    let again =
        |pair: &[Request]| pair[1].start_ns.saturating_sub(pair[0].end_ns) + pair[1].connect_ns;
    let again_ns: u64 = failed.map(again).sum();
    for cause in &mut causes {
        cause.lost_ns = cause.lost_ns.map(|ns| ns + again_ns);
    }
    Ok(causes)
}
