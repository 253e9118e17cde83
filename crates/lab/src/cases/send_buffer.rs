//! A download through a send buffer smaller than the bandwidth-delay product.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// A send buffer of 16 KiB at 100 Mbit/s and 20 ms transfers 0.8 MB/s, where 12.5 MB/s are
/// possible.
pub const CASE: Case = Case {
    name: "send_buffer",
    layer: Layer::Socket,
    summary: "the server's SO_SNDBUF is below bandwidth x RTT: a burst per round trip",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server's socket",
        faulty: "SO_SNDBUF {sndbuf_bytes}",
        healthy: "SO_SNDBUF left to the kernel, which tunes it",
        treat: &[Treat::at_server(&["buffers", "--port", "8080", "--side", "server"])],
    }),
    params,
    link: plain_link,
    act,
    truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.between(15, 40) * 1_000_000)
        .with("rate_bps", rng.pick(&[100_000_000, 100_000_000, 200_000_000]))
        .with("sndbuf_bytes", rng.pick(&[8, 16, 16, 24]) * 1024)
        // A single large write would exceed the buffer by a whole GSO packet of 64 KiB.
        .with("write_bytes", rng.pick(&[4, 8, 8, 16]) * 1024)
        .with("response_bytes", rng.between(300_000, 900_000))
        .with("requests", rng.between(3, 5))
}

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let mut behaviour = Behaviour::healthy(p.get("response_bytes")?);
    behaviour.piece_bytes = p.get("write_bytes")?;
    if variant == Variant::Faulty {
        behaviour.sndbuf_bytes = p.get("sndbuf_bytes")?;
    }
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load::get(server.endpoint(), p.get("requests")?);
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let endpoint = Some(ran.observed.server.to_string());
    Ok(vec![Cause::by_twin("send_buffer", Role::Server, endpoint)])
}
