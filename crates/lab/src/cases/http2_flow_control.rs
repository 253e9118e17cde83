//! An upload over HTTP/2 in the clear into a window below the bandwidth-delay product: nginx passes the
//! body on as it comes, so that the window of its streams is the buffer that it reads into.

use std::fs;
use std::net::SocketAddr;

use super::programs;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::curl;
use crate::describe::{Knob, Layer};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::stage::Stage;

/// Window of the healthy twin, bytes.
const WIDE_BYTES: u64 = 4 << 20;

/// Uploads of some megabytes through a window of 64 KiB at 40 to 80 ms.
pub const CASE: Case = Case {
    name: "http2_flow_control",
    layer: Layer::Application,
    summary: "nginx grants 64 KiB to each HTTP/2 stream: an upload waits for WINDOW_UPDATE",
    class: Class::Fault,
    knob: Some(Knob {
        at: "nginx.conf",
        faulty: "http2_body_preread_size {window_bytes};",
        healthy: "http2_body_preread_size 4m;",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(40, 80) * 1_000_000)
            .with("rate_bps", rng.pick(&[0, 200_000_000]))
            .with("window_bytes", rng.pick(&[64, 64, 128]) * 1024)
            .with("upload_bytes", rng.pick(&[1_500_000, 2_500_000]))
            .with("requests", rng.between(1, 3))
    },
    link: plain_link,
    act,
    truth,
};

/// The same window at 0.2 ms, where it costs almost no time and is no fault.
pub const LAN: Case = Case {
    name: "http2_flow_control_lan",
    layer: Layer::Application,
    summary: "the same window of 64 KiB for HTTP/2 streams at 0.2 ms: no fault",
    class: Class::None,
    knob: None,
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[100_000, 200_000]))
            .with("rate_bps", 0)
            .with("window_bytes", 64 * 1024)
            .with("upload_bytes", 1_500_000)
            .with("requests", rng.between(3, 8))
    },
    link: plain_link,
    act: |stage, p, _| act(stage, p, Variant::Faulty),
    truth,
};

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let behind = SocketAddr::new(stage.server_addr, 8081);
    let window = match variant {
        Variant::Faulty => p.get("window_bytes")?,
        Variant::Healthy => WIDE_BYTES,
    };
    let directives = format!(
        "client_max_body_size 0;\nclient_body_buffer_size 16k;\n\
         server {{ listen {server} http2; http2_body_preread_size {window};\n\
         location / {{ proxy_pass http://{behind}; proxy_http_version 1.1; \
         proxy_request_buffering off; }} }}\n\
         server {{ listen {behind}; client_body_buffer_size 1m; \
         location / {{ return 204; }} }}\n"
    );
    let _nginx = programs::nginx(stage, &directives, server)?;
    let body = stage.dir().join("body.bin");
    fs::write(&body, vec![b'u'; p.get("upload_bytes")? as usize]).doing("write body.bin")?;
    stage.start_captures()?;
    let mut args: Vec<String> =
        ["--http2-prior-knowledge", "--header", "Expect:", "--data-binary"].map(Into::into).into();
    args.push(format!("@{}", body.display()));
    args.extend((0..p.get("requests")?).map(|_| format!("http://{server}/upload")));
    let loaded = curl::transfers(stage, &args, None)?;
    let mut observed = Observed::new(loaded, server);
    observed.versions.push(programs::nginx_version(stage));
    Ok(observed)
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let endpoint = Some(ran.observed.server.to_string());
    Ok(vec![Cause::by_twin("http2_flow_control", Role::Server, endpoint)])
}
