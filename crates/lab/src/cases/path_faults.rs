//! Faults of a path other than random loss.

use std::time::Duration;

use crate::case::{Case, Observed, Ran};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::relay::{PathParams, RelayParams};
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::{Link, Stage};

/// Full-size packets are lost without an ICMP message; small ones pass.
pub const MTU_BLACK_HOLE: Case = Case {
    name: "mtu_black_hole",
    layer: Layer::Network,
    summary: "packets above the path's MTU vanish without ICMP: large responses hang",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the path",
        faulty: "drops packets above {mtu_bytes} without ICMP",
        healthy: "carries packets of every size",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(2, 40) * 1_000_000)
            .with("mtu_bytes", rng.pick(&[1_400, 1_420, 1_450, 1_492]))
            .with("small_bytes", rng.between(100, 900))
            .with("small_requests", rng.between(4, 8))
            .with("response_bytes", rng.between(6, 60) * 1_000)
            .with("requests", rng.between(1, 2))
            .with("tcp_mtu_probing", rng.pick(&[0, 0, 1]))
            .with("patience_ns", rng.between(4, 8) * 1_000_000_000)
    },
    link: |p, variant, seed| {
        let mtu_bytes = p.get("mtu_bytes")?;
        link(p, variant, seed, |path| path.mtu_bytes = mtu_bytes)
    },
    act: mtu_act,
    truth: mtu_truth,
};

/// Some packets arrive after packets that were sent later.
pub const REORDERING: Case = Case {
    name: "reordering",
    layer: Layer::Network,
    summary: "the path reorders packets: duplicate ACKs and spurious retransmissions",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the path",
        faulty: "holds back {reorder_ppm} of the packets for {held_back_ns}",
        healthy: "keeps packets in order",
        treat: &[],
    }),
    params: |rng| {
        let rtt_ms = rng.between(10, 50);
        downloads(rng, rtt_ms)
            .with("reorder_ppm", rng.pick(&[5_000, 10_000, 20_000]))
            .with("held_back_ns", rtt_ms * rng.between(400, 1_500) * 1_000)
    },
    link: |p, variant, seed| {
        let (ppm, ns) = (p.get("reorder_ppm")?, p.get("held_back_ns")?);
        link(p, variant, seed, |path| {
            path.reorder_ppm = ppm;
            path.reorder_ns = ns;
        })
    },
    act: downloads_act,
    truth: reordering_truth,
};

/// Some packets arrive twice, which costs no time.
pub const DUPLICATES: Case = Case {
    name: "duplicates",
    layer: Layer::Network,
    summary: "the path delivers some packets twice: no fault, and nothing waits",
    class: Class::None,
    knob: None,
    params: |rng| {
        let rtt_ms = rng.between(2, 40);
        downloads(rng, rtt_ms).with("duplicate_ppm", rng.pick(&[10_000, 30_000]))
    },
    link: |p, _, seed| {
        let ppm = p.get("duplicate_ppm")?;
        link(p, Variant::Faulty, seed, |path| path.duplicate_ppm = ppm)
    },
    act: downloads_act,
    truth: |_, _| Ok(Vec::new()),
};

fn downloads(rng: &mut Rng, rtt_ms: u64) -> Params {
    Params::default()
        .with("rtt_ns", rtt_ms * 1_000_000)
        .with("response_bytes", rng.between(60, 200) * 1_000)
        .with("requests", rng.between(12, 20))
}

fn link(
    p: &Params,
    variant: Variant,
    seed: u64,
    fault: impl Fn(&mut PathParams),
) -> Result<Link, LabError> {
    let link = RelayParams::symmetric(p.get("rtt_ns")?, 100_000_000, seed);
    Ok(Link::Relay(match variant {
        Variant::Faulty => link.both(fault),
        Variant::Healthy => link,
    }))
}

fn downloads_act(stage: &mut Stage, p: &Params, _: Variant) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load::get(server.endpoint(), p.get("requests")?);
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn mtu_act(stage: &mut Stage, p: &Params, _: Variant) -> Result<Observed, LabError> {
    let probing = p.get("tcp_mtu_probing")?.to_string();
    stage.server.sysctl("net.ipv4.tcp_mtu_probing", &probing)?;
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let small = Load {
        path: format!("/bytes/{}", p.get("small_bytes")?),
        spacing: Duration::from_millis(10),
        ..Load::get(server.endpoint(), p.get("small_requests")?)
    };
    let large = Load {
        timeout: p.duration("patience_ns")?,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let mut loaded = client::run(&stage.client, &small)?;
    loaded.add(client::run(&stage.client, &large)?);
    Ok(Observed::with_server(loaded, &server))
}

/// The capture at the client does not contain the packets that are too long; there it only shows
/// that packets are missing.
fn mtu_truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    if ran.stage.relay.as_ref().is_none_or(|r| r.dropped() == 0) {
        return Err(LabError::NotReproduced("no packet was too long".to_owned()));
    }
    let cause = Cause::by_twin("mtu_black_hole", Role::Network, None);
    let looks_like = [("retransmission_timeout", Role::Network)];
    Ok(vec![cause.unseen_at(&["client"]).looks_like(&looks_like)])
}

/// Reordering costs time if the sender takes it for loss; the kernel's counters show whether it
/// did.
fn reordering_truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let held = ran.stage.relay.as_ref().map_or(0, |r| r.server_to_client.reordered);
    let spurious = ran.stage.server_counters.of("TCPDSACKRecv");
    if held == 0 || spurious == 0 {
        let what = format!("{held} packets held back, {spurious} D-SACKs");
        return Err(LabError::NotReproduced(what));
    }
    let cause = Cause::by_twin("reordering", Role::Network, None);
    Ok(vec![cause.or(&[
        "spurious_retransmission",
        "fast_recovery",
        "congestion_window",
        "retransmission_timeout",
    ])])
}
