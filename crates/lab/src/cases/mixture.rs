//! Ten connections: five healthy, five with one of three causes.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// Nagle at one server, a small send buffer at the second, a small receive buffer at the third.
pub const CASE: Case = Case {
    name: "mixture",
    layer: Layer::Socket,
    summary: "ten connections: Nagle, send buffer, receive window, and five healthy ones",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the servers' sockets",
        faulty: "no TCP_NODELAY; SO_SNDBUF {sndbuf_bytes}; SO_RCVBUF {rcvbuf_bytes}",
        healthy: "TCP_NODELAY set; both buffers left to the kernel",
        treat: &[
            Treat::at_server(&["nodelay", "--port", "8081", "--side", "server"]),
            Treat::at_server(&["buffers", "--port", "8082", "--side", "server"]),
            Treat::at_server(&["buffers", "--port", "8083", "--side", "server"]),
        ],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(12, 30) * 1_000_000)
            .with("rate_bps", rng.pick(&[200_000_000, 300_000_000]))
            .with("nagle_connections", 2)
            .with("nagle_requests", rng.between(15, 30))
            .with("sndbuf_connections", 2)
            .with("sndbuf_bytes", rng.pick(&[8, 16]) * 1024)
            .with("download_bytes", rng.between(200, 400) * 1_000)
            .with("rcvbuf_connections", 1)
            .with("rcvbuf_bytes", 8 * 1024)
            .with("upload_bytes", rng.between(150, 300) * 1_000)
            .with("transfer_requests", 2)
            .with("healthy_connections", 5)
            .with("healthy_requests", rng.between(20, 30))
    },
    link: plain_link,
    act,
    truth,
};

const HEALTHY: u16 = 8080;
const NAGLE: u16 = 8081;
const SEND_BUFFER: u16 = 8082;
const RECEIVE_WINDOW: u16 = 8083;

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let faulty = variant == Variant::Faulty;
    let when_faulty = |value: u64| if faulty { value } else { 0 };
    let nagle = Behaviour { split: true, nodelay: !faulty, ..Behaviour::healthy(700) };
    let send_buffer = Behaviour {
        sndbuf_bytes: when_faulty(p.get("sndbuf_bytes")?),
        piece_bytes: 8_192,
        ..Behaviour::healthy(p.get("download_bytes")?)
    };
    let receive_window =
        Behaviour { rcvbuf_bytes: when_faulty(p.get("rcvbuf_bytes")?), ..Behaviour::healthy(120) };
    let start = |port, behaviour| Server::start(&stage.server, stage.server_addr, port, behaviour);
    let healthy = start(HEALTHY, Behaviour::healthy(900))?;
    let nagle = start(NAGLE, nagle)?;
    let send_buffer = start(SEND_BUFFER, send_buffer)?;
    let receive_window = start(RECEIVE_WINDOW, receive_window)?;
    stage.start_captures()?;
    let several = |load: Load, name: &str| -> Result<Load, LabError> {
        let connections = p.get(&format!("{name}_connections"))?;
        Ok(Load { connections, ..load })
    };
    let to = Load::get;
    let transfers = p.get("transfer_requests")?;
    let upload = Load::post(receive_window.endpoint(), transfers, p.get("upload_bytes")?);
    let loads = [
        several(to(healthy.endpoint(), p.get("healthy_requests")?), "healthy")?,
        several(to(nagle.endpoint(), p.get("nagle_requests")?), "nagle")?,
        several(to(send_buffer.endpoint(), transfers), "sndbuf")?,
        several(upload, "rcvbuf")?,
    ];
    let loaded = client::run_all(&stage.client, &loads)?;
    Ok(Observed::new(loaded, healthy.endpoint()))
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let at = |port| {
        let mut endpoint = ran.observed.server;
        endpoint.set_port(port);
        Some(endpoint.to_string())
    };
    let cause = |id, port| Cause {
        lost_ns_how: "client's time of the requests to this server less the healthy twin's",
        ..Cause::by_twin(id, Role::Server, at(port))
    };
    Ok(vec![
        cause("send_buffer", SEND_BUFFER),
        cause("nagle_delayed_ack", NAGLE),
        cause("receive_window", RECEIVE_WINDOW),
    ])
}
