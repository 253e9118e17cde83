//! An upload into a receive buffer smaller than the bandwidth-delay product: a fault on a long
//! path, but not within a rack.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// An upload of 376 KB into a buffer of 8 KiB at 40 ms.
pub const CASE: Case = Case {
    name: "receive_window",
    layer: Layer::Socket,
    summary: "the server's SO_RCVBUF is below bandwidth x RTT: an upload waits for the window",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server's socket",
        faulty: "SO_RCVBUF {rcvbuf_bytes}",
        healthy: "SO_RCVBUF left to the kernel, which tunes it",
        treat: &[Treat::at_server(&["buffers", "--port", "8080", "--side", "server"])],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(15, 60) * 1_000_000)
            .with("rate_bps", rng.pick(&[0, 100_000_000, 200_000_000]))
            .with("rcvbuf_bytes", rng.pick(&[8, 8, 16]) * 1024)
            .with("upload_bytes", rng.pick(&[376_000, 200_000, 150_000]))
            .with("requests", rng.between(1, 3))
    },
    link: plain_link,
    act,
    truth,
};

/// The same buffer at 0.1 ms, where it costs almost no time and is no fault.
pub const LAN: Case = Case {
    name: "receive_window_lan",
    layer: Layer::Socket,
    summary: "the same small SO_RCVBUF on a link of 0.1 ms: no fault",
    class: Class::None,
    knob: None,
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[100_000, 200_000]))
            .with("rate_bps", 0)
            .with("rcvbuf_bytes", 8 * 1024)
            .with("upload_bytes", 376_000)
            .with("requests", rng.between(3, 8))
    },
    link: plain_link,
    act: |stage, p, _| act(stage, p, Variant::Faulty),
    truth,
};

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let mut behaviour = Behaviour::healthy(120);
    if variant == Variant::Faulty {
        behaviour.rcvbuf_bytes = p.get("rcvbuf_bytes")?;
    }
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load::post(server.endpoint(), p.get("requests")?, p.get("upload_bytes")?);
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let endpoint = Some(ran.observed.server.to_string());
    Ok(vec![Cause::by_twin("receive_window", Role::Server, endpoint)])
}
