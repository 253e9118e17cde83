//! Requests that fail without a RST: errors, connections closed without an answer, and connections
//! that the path has forgotten.

use std::net::SocketAddr;

use super::programs;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::relay::RelayParams;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::{Link, Stage};

/// nginx answers a part of the requests with 503.
pub const ERRORS: Case = Case {
    name: "error_responses",
    layer: Layer::Application,
    summary: "nginx answers a part of the requests with 503",
    class: Class::Fault,
    knob: Some(Knob {
        at: "nginx.conf",
        faulty: "location /part { return 503; }",
        healthy: "location /part { return 200; }",
        treat: &[],
    }),
    params: requests,
    link: plain_link,
    act: |stage, p, variant| {
        act(stage, p, if variant == Variant::Faulty { "return 503" } else { "return 200 x" })
    },
    truth: |_, ran| failed(ran, "error_responses"),
};

/// nginx closes a part of the connections without an answer.
pub const CLOSED: Case = Case {
    name: "no_answer",
    layer: Layer::Application,
    summary: "nginx closes the connection without an answer to a part of the requests",
    class: Class::Fault,
    knob: Some(Knob {
        at: "nginx.conf",
        faulty: "location /part { return 444; }",
        healthy: "location /part { return 200; }",
        treat: &[],
    }),
    params: requests,
    link: plain_link,
    act: |stage, p, variant| {
        act(stage, p, if variant == Variant::Faulty { "return 444" } else { "return 200 x" })
    },
    truth: |_, ran| failed(ran, "no_answer"),
};

/// A device on the path forgets connections that are idle.
pub const FORGOTTEN: Case = Case {
    name: "idle_flow_dropped",
    layer: Layer::Network,
    summary: "the path forgets idle connections and drops the next request on them",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the path",
        faulty: "forgets connections that are idle for {forgets_ns}",
        healthy: "keeps connections",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(1, 40) * 1_000_000)
            .with("forgets_ns", rng.between(12, 20) * 100_000_000)
            .with("patience_ns", rng.between(3, 5) * 1_000_000_000)
            .with("requests", rng.between(4, 6))
            .with("response_bytes", rng.between(100, 1_000))
    },
    link: |p, variant, seed| {
        let mut link = RelayParams::symmetric(p.get("rtt_ns")?, 0, seed);
        if variant == Variant::Faulty {
            link.forgets_ns = p.get("forgets_ns")?;
        }
        Ok(Link::Relay(link))
    },
    act: idle,
    // The server's own capture does not contain what the path dropped.
    truth: |_, ran| {
        let causes = failed(ran, "idle_flow_dropped")?;
        Ok(causes.into_iter().map(|cause| cause.unseen_at(&["server"])).collect())
    },
};

fn requests(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 2_000_000, 20_000_000]))
        .with("rate_bps", 0)
        .with("good_requests", rng.between(8, 16))
        .with("part_requests", rng.between(3, 6))
}

/// Asks for something that is always answered, then for what nginx answers by `directive`.
fn act(stage: &mut Stage, p: &Params, directive: &str) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let directives = format!(
        "server {{ listen {server}; location / {{ return 200 hello; }} \
         location /part {{ {directive}; }} }}\n"
    );
    let _nginx = programs::nginx(stage, &directives, server)?;
    stage.start_captures()?;
    let good = Load::get(server, p.get("good_requests")?);
    let part = Load { path: "/part".to_owned(), ..Load::get(server, p.get("part_requests")?) };
    let mut loaded = client::run(&stage.client, &good)?;
    loaded.add(client::run(&stage.client, &part)?);
    let mut observed = Observed::new(loaded, server);
    observed.versions.push(programs::nginx_version(stage));
    Ok(observed)
}

/// Asks again and again after a pause that is longer than the path remembers a connection.
fn idle(stage: &mut Stage, p: &Params, _: Variant) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load {
        spacing: p.duration("forgets_ns")? * 5 / 4,
        timeout: p.duration("patience_ns")?,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

/// Returns the cause of all failed requests. Their time is lost entirely.
fn failed(ran: &Ran, cause: &'static str) -> Result<Vec<Cause>, LabError> {
    let requests = ran.observed.loaded.requests.iter();
    let failed: Vec<_> = requests.filter(|request| request.error.is_some()).collect();
    if failed.is_empty() {
        return Err(LabError::NotReproduced("no request failed".to_owned()));
    }
    let lost_ns = failed.iter().map(|request| request.took_ns()).sum();
    let (role, endpoint) = match cause {
        "idle_flow_dropped" => (Role::Network, None),
        _ => (Role::Server, Some(ran.observed.server.to_string())),
    };
    let how = "failed requests, by the client's clock";
    Ok(vec![Cause::by_twin(cause, role, endpoint).measured(lost_ns, how)])
}
