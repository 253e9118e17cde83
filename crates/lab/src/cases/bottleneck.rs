//! The bottleneck of the path, with a short and with a long queue in front of it.

use std::time::Duration;

use crate::case::{Case, Observed, Ran};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::relay::RelayParams;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::{Link, Stage};

/// Downloads at the rate of the link, which is the only limit.
pub const SHALLOW: Case = Case {
    name: "bottleneck_shallow",
    layer: Layer::Link,
    summary: "downloads fill a link with a queue of one bandwidth-delay product",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the link",
        faulty: "{rate_bps}",
        healthy: "{fast_rate_bps}",
        treat: &[],
    }),
    params: |rng| {
        params(rng)
            .with("requests", rng.between(2, 3))
            .with("response_bytes", rng.between(1_000, 1_800) * 1_000)
    },
    link: |p, variant, seed| {
        let (rtt_ns, rate_bps) = (p.get("rtt_ns")?, p.get("rate_bps")?);
        match variant {
            Variant::Faulty => Ok(queued(rtt_ns, rate_bps, bdp_bytes(rtt_ns, rate_bps), seed)),
            Variant::Healthy => fast(p, seed),
        }
    },
    act: |stage, p, _| {
        let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour(p)?)?;
        stage.start_captures()?;
        let load = Load::get(server.endpoint(), p.get("requests")?);
        let loaded = client::run(&stage.client, &load)?;
        Ok(Observed::with_server(loaded, &server))
    },
    truth: shallow_truth,
};

/// Transfers fill a queue of hundreds of milliseconds, in which small requests wait.
pub const DEEP: Case = Case {
    name: "bufferbloat",
    layer: Layer::Link,
    summary: "downloads or uploads fill a queue of up to a second; small requests wait in it",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the link",
        faulty: "{rate_bps}, a queue of {queue_ns}",
        healthy: "{fast_rate_bps}, no queue",
        treat: &[],
    }),
    params: |rng| {
        params(rng)
            .with("queue_ns", rng.between(500, 1_200) * 1_000_000)
            .with("transfers", rng.between(3, 5))
            .with("response_bytes", rng.between(900, 1_100) * 1_000)
            .with("small_bytes", rng.between(200, 1_200))
            .with("small_requests", rng.between(12, 18))
            .with("upload", rng.pick(&[0, 0, 1]))
    },
    link: |p, variant, seed| {
        let (rtt_ns, rate_bps) = (p.get("rtt_ns")?, p.get("rate_bps")?);
        let queue_bytes = bdp_bytes(p.get("queue_ns")?, rate_bps);
        match variant {
            Variant::Faulty => Ok(queued(rtt_ns, rate_bps, queue_bytes, seed)),
            Variant::Healthy => fast(p, seed),
        }
    },
    act: deep_act,
    truth: deep_truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.between(15, 40) * 1_000_000)
        .with("rate_bps", rng.pick(&[8_000_000, 10_000_000, 16_000_000]))
        .with("fast_rate_bps", 300_000_000)
}

fn bdp_bytes(rtt_ns: u64, rate_bps: u64) -> u64 {
    // At least twenty packets, since no real queue is shorter.
    (rate_bps / 8 * (rtt_ns / 1_000_000) / 1_000).max(30_000)
}

fn queued(rtt_ns: u64, rate_bps: u64, queue_bytes: u64, seed: u64) -> Link {
    let link = RelayParams::symmetric(rtt_ns, rate_bps, seed);
    Link::Relay(link.both(|path| path.queue_bytes = queue_bytes))
}

/// The twin's link is not the bottleneck. The slow link with a short queue would be no clean twin,
/// since it drops packets.
fn fast(p: &Params, seed: u64) -> Result<Link, LabError> {
    Ok(queued(p.get("rtt_ns")?, p.get("fast_rate_bps")?, 0, seed))
}

fn behaviour(p: &Params) -> Result<Behaviour, LabError> {
    Ok(Behaviour::healthy(p.get("response_bytes")?))
}

fn deep_act(stage: &mut Stage, p: &Params, _: Variant) -> Result<Observed, LabError> {
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour(p)?)?;
    stage.start_captures()?;
    let small = Load {
        path: format!("/bytes/{}", p.get("small_bytes")?),
        spacing: Duration::from_millis(150),
        ..Load::get(server.endpoint(), p.get("small_requests")?)
    };
    let large = match p.get("upload")? {
        0 => Load::get(server.endpoint(), 1),
        _ => Load {
            path: "/bytes/100".to_owned(),
            ..Load::post(server.endpoint(), 1, p.get("response_bytes")?)
        },
    };
    let transfers = Load { connections: p.get("transfers")?, ..large };
    let loads = [transfers, small];
    let loaded = client::run_all(&stage.client, &loads)?;
    Ok(Observed::with_server(loaded, &server))
}

fn shallow_truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let bytes: u64 = ran.observed.loaded.requests.iter().map(|r| r.response_bytes).sum();
    let wire_bytes = bytes + bytes / 1_448 * 52;
    let lost_ns = wire_bytes * 8_000_000_000 / p.get("rate_bps")?.max(1);
    let cause = Cause::by_twin("bandwidth", Role::Network, None)
        .measured(lost_ns, "the responses' packets at the link's rate");
    Ok(vec![cause.or(&[
        "bufferbloat",
        "fast_recovery",
        "congestion_window",
        "slow_start",
        "retransmission_timeout",
    ])])
}

fn deep_truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let rtt_ns = p.get("rtt_ns")?;
    let lost = ran.observed.loaded.requests.iter().map(|r| {
        let round_trips = if r.connect_ns > 0 { 2 } else { 1 };
        r.took_ns().saturating_sub(round_trips * rtt_ns)
    });
    let cause = Cause::by_twin("bufferbloat", Role::Network, None)
        .measured(lost.sum(), "all requests' time above their round trips; shared with also_right");
    Ok(vec![cause.or(&["bandwidth", "slow_start"])])
}
