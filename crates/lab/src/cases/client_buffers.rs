//! Socket buffers that the client made too small: the same faults as in `send_buffer` and
//! `receive_window`, at the client.

use super::slow_reader::ample_rcvbuf_bytes;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// A download into a small `SO_RCVBUF`.
pub const RECEIVE: Case = Case {
    name: "receive_window_client",
    layer: Layer::Socket,
    summary: "the client's SO_RCVBUF is below bandwidth x RTT: a download waits for the window",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the client's socket",
        faulty: "SO_RCVBUF {rcvbuf_bytes}",
        healthy: "SO_RCVBUF left to the kernel, which tunes it",
        treat: &[Treat::at_client(&["buffers", "--port", "8080", "--side", "client"])],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(15, 60) * 1_000_000)
            .with("rate_bps", rng.pick(&[100_000_000, 200_000_000]))
            .with("rcvbuf_bytes", rng.pick(&[8, 16, 32]) * 1024)
            .with("response_bytes", rng.between(150, 500) * 1_000)
            .with("requests", rng.between(2, 4))
    },
    link: plain_link,
    act: |stage, p, variant| {
        let behaviour = Behaviour::healthy(p.get("response_bytes")?);
        let small = match variant {
            Variant::Faulty => p.get("rcvbuf_bytes")?,
            Variant::Healthy => 0,
        };
        let requests = p.get("requests")?;
        act(stage, behaviour, |to| Load { rcvbuf_bytes: small, ..Load::get(to, requests) })
    },
    truth: |_, ran| truth(ran, "receive_window"),
};

/// An upload through a small `SO_SNDBUF`.
pub const SEND: Case = Case {
    name: "send_buffer_client",
    layer: Layer::Socket,
    summary: "the client's SO_SNDBUF is below bandwidth x RTT: an upload in bursts",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the client's socket",
        faulty: "SO_SNDBUF {sndbuf_bytes}",
        healthy: "SO_SNDBUF left to the kernel, which tunes it",
        treat: &[Treat::at_client(&["buffers", "--port", "8080", "--side", "client"])],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(15, 40) * 1_000_000)
            .with("rate_bps", rng.pick(&[100_000_000, 200_000_000]))
            .with("sndbuf_bytes", rng.pick(&[8, 16, 24]) * 1024)
            // A single large write would exceed the buffer by a whole GSO packet of 64 KiB.
            .with("write_bytes", rng.pick(&[4, 8, 16]) * 1024)
            .with("upload_bytes", rng.between(200, 600) * 1_000)
            .with("requests", rng.between(2, 4))
    },
    link: plain_link,
    act: |stage, p, variant| {
        let small = match variant {
            Variant::Faulty => p.get("sndbuf_bytes")?,
            Variant::Healthy => 0,
        };
        let (requests, body_bytes) = (p.get("requests")?, p.get("upload_bytes")?);
        let write_bytes = p.get("write_bytes")?;
        act(stage, Behaviour::healthy(150), |to| Load {
            sndbuf_bytes: small,
            write_bytes,
            ..Load::post(to, requests, body_bytes)
        })
    },
    truth: |_, ran| {
        // An odd segment at the end of the buffer waits for a delayed ACK in addition to the round
        // trip.
        let causes = truth(ran, "send_buffer")?;
        Ok(causes.into_iter().map(|c| c.or(&["delayed_ack"])).collect())
    },
};

/// The server does not read an upload for a while.
pub const SLOW_SERVER: Case = Case {
    name: "slow_reader_server",
    layer: Layer::Application,
    summary: "the server does not read an upload for a while: zero window, probes are answered",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the server",
        faulty: "waits {read_pause_ns} before it reads an upload",
        healthy: "reads without a pause",
        treat: &[],
    }),
    params: |rng| {
        let rtt_ms = rng.pick(&[0, 2, 20, 50]);
        Params::default()
            .with("rtt_ns", rtt_ms * 1_000_000)
            .with("rate_bps", if rtt_ms > 0 { 100_000_000 } else { 0 })
            .with("rcvbuf_bytes", ample_rcvbuf_bytes(rng, rtt_ms))
            .with("read_pause_ns", rng.between(600, 3_000) * 1_000_000)
            // More than the client's send buffer (up to `tcp_wmem`, 4 MiB) and the server's receive
            // buffer hold together, so that the client has to wait.
            .with("upload_bytes", rng.between(7_000, 9_000) * 1_000)
            .with("requests", rng.between(1, 2))
            .with("snaplen_bytes", 400)
    },
    link: plain_link,
    act: |stage, p, variant| {
        let mut behaviour =
            Behaviour { rcvbuf_bytes: p.get("rcvbuf_bytes")?, ..Behaviour::healthy(150) };
        if variant == Variant::Faulty {
            behaviour.pause_before_read = p.duration("read_pause_ns")?;
        }
        let (requests, body_bytes) = (p.get("requests")?, p.get("upload_bytes")?);
        act(stage, behaviour, |to| Load::post(to, requests, body_bytes))
    },
    truth: |_, ran| {
        if ran.stage.server_counters.of("TCPToZeroWindowAdv") == 0 {
            let what = "the server's window did not close".to_owned();
            return Err(LabError::NotReproduced(what));
        }
        let server = Some(ran.observed.server.to_string());
        Ok(vec![Cause::by_twin("zero_window", Role::Server, server)])
    },
};

fn act(
    stage: &mut Stage,
    behaviour: Behaviour,
    load: impl Fn(std::net::SocketAddr) -> Load,
) -> Result<Observed, LabError> {
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let loaded = client::run(&stage.client, &load(server.endpoint()))?;
    Ok(Observed::with_server(loaded, &server))
}

fn truth(ran: &Ran, cause: &'static str) -> Result<Vec<Cause>, LabError> {
    let first = ran.observed.loaded.requests.first();
    let client = first.map(|r| r.client_endpoint.clone());
    Ok(vec![Cause::by_twin(cause, Role::Client, client)])
}
