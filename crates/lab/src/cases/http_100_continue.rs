//! curl sends `Expect: 100-continue` before a body, and the server does not answer it.

use std::fs;

use crate::case::{Case, Observed, Ran, plain_link};
use crate::curl;
use crate::describe::{Knob, Layer};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// curl waits for `--expect100-timeout` (1 s by default) and then sends the body anyway.
pub const CASE: Case = Case {
    name: "http_100_continue",
    layer: Layer::Application,
    summary: "curl sends Expect: 100-continue to a server that ignores it: a second per upload",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server",
        faulty: "ignores Expect: 100-continue",
        healthy: "answers 100 Continue",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 2_000_000, 20_000_000, 80_000_000]))
            .with("rate_bps", 0)
            .with("requests", rng.between(2, 6))
            .with("body_bytes", rng.between(500, 30_000))
            .with("expect_timeout_ns", rng.pick(&[1_000, 1_000, 1_000, 500]) * 1_000_000)
            .with("response_bytes", rng.between(50, 1_000))
    },
    link: plain_link,
    act,
    truth,
};

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let mut behaviour = Behaviour::healthy(p.get("response_bytes")?);
    behaviour.continues = variant == Variant::Healthy;
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    let body = stage.dir().join("body");
    fs::write(&body, vec![b'u'; p.get("body_bytes")? as usize]).doing("write the body")?;
    stage.start_captures()?;
    let waits = p.get("expect_timeout_ns")? as f64 / 1e9;
    let args = [
        "--header".to_owned(),
        "Expect: 100-continue".to_owned(),
        "--expect100-timeout".to_owned(),
        format!("{waits}"),
        "--data-binary".to_owned(),
        format!("@{}", body.display()),
        format!("http://{}/upload?n=[1-{}]", server.endpoint(), p.get("requests")?),
    ];
    let loaded = curl::transfers(stage, &args, None)?;
    let mut observed = Observed::with_server(loaded, &server);
    observed.versions.push(curl::version());
    Ok(observed)
}

/// A server that ignores `Expect` is at fault (RFC 9110 §10.1.1); the client may also stop sending
/// it.
fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let endpoint = Some(ran.observed.server.to_string());
    Ok(vec![Cause::by_twin("http_100_continue", Role::Server, endpoint)])
}
