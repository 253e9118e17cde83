//! Packets that the path loses, by the way TCP recovers them.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::relay::{Direction, DropRule, Kind, RelayParams};
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::{Link, Stage};

const TO_CLIENT: Direction = Direction::ServerToClient;
const TO_SERVER: Direction = Direction::ClientToServer;

/// Random loss in both directions.
pub const RANDOM: Case = Case {
    name: "loss_random",
    layer: Layer::Link,
    summary: "the path loses packets at random",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the link",
        faulty: "loses {loss_ppm} of the packets",
        healthy: "loses nothing",
        treat: &[],
    }),
    params: |rng| {
        downloads(rng)
            .with("response_bytes", rng.between(60_000, 200_000))
            .with("loss_ppm", rng.pick(&[5_000, 10_000, 20_000]))
            .with("requests", rng.between(15, 20))
    },
    link: random_link,
    act,
    truth: random_truth,
};

/// One segment in the middle of a response, which duplicate ACKs recover.
pub const SINGLE: Case = Case {
    name: "loss_single",
    layer: Layer::Link,
    summary: "one segment amid a response is lost: fast retransmission",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the link",
        faulty: "loses one segment amid each third response",
        healthy: "loses nothing",
        treat: &[],
    }),
    params: |rng| downloads(rng).with("response_bytes", rng.between(20_000, 60_000)),
    link: |p, v, seed| {
        // Responses have at least 14 segments. Each third one loses one of its first ten, so that
        // enough segments follow to reveal the loss.
        let per_response = (message_bytes(p)?).div_ceil(1_448);
        let first = per_response + 3 + seed % 4;
        with_rule(p, v, seed, DropRule::new(TO_CLIENT, Kind::Data, first, 3 * per_response))
    },
    act,
    truth: single_truth,
};

/// The last segment of a response and its tail loss probe are lost, so that only the RTO recovers
/// it.
pub const TAIL: Case = Case {
    name: "loss_tail",
    layer: Layer::Link,
    summary: "the last segment of a response and its probe are lost: retransmission timeout",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the link",
        faulty: "loses the last segment of each third response, and its probe",
        healthy: "loses nothing",
        treat: &[],
    }),
    params: |rng| downloads(rng).with("response_bytes", rng.between(2_000, 20_000)),
    link: |p, v, seed| tail_link(p, v, seed, 2),
    act,
    truth: |_, ran| recovered(ran, "retransmission_timeout", "TCPTimeouts"),
};

/// The last segment of a response, which a tail loss probe (RFC 8985 §7) recovers.
pub const TAIL_PROBED: Case = Case {
    name: "loss_tail_probed",
    layer: Layer::Link,
    summary: "the last segment of a response is lost, a tail loss probe repairs it",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the link",
        faulty: "loses the last segment of each third response",
        healthy: "loses nothing",
        treat: &[],
    }),
    params: |rng| downloads(rng).with("response_bytes", rng.between(2_000, 20_000)),
    link: |p, v, seed| tail_link(p, v, seed, 1),
    act,
    truth: |_, ran| recovered(ran, "retransmission_timeout", "TCPLossProbes"),
};

/// The first SYN of every third connection.
pub const SYN: Case = Case {
    name: "loss_syn",
    layer: Layer::Link,
    summary: "SYNs are lost: connections take a second longer",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the link",
        faulty: "loses each third connection's first SYN",
        healthy: "loses nothing",
        treat: &[],
    }),
    params: connections,
    link: |p, v, seed| with_rule(p, v, seed, DropRule::new(TO_SERVER, Kind::Syn, 2, 3)),
    act,
    truth: |_, ran| {
        // The server never sees the lost SYN, and the next one looks like the first.
        let causes = recovered(ran, "syn_retransmit", "TCPSynRetrans")?;
        Ok(causes.into_iter().map(|c| c.unseen_at(&["server"])).collect())
    },
};

/// The first SYN-ACK of every third connection.
pub const SYN_ACK: Case = Case {
    name: "loss_syn_ack",
    layer: Layer::Link,
    summary: "SYN-ACKs are lost: connections take a second longer",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the link",
        faulty: "loses each third connection's first SYN-ACK",
        healthy: "loses nothing",
        treat: &[],
    }),
    params: connections,
    link: |p, v, seed| with_rule(p, v, seed, DropRule::new(TO_CLIENT, Kind::SynAck, 2, 3)),
    act,
    truth: |_, ran| recovered(ran, "syn_retransmit", "TCPSynRetrans"),
};

fn downloads(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.between(5, 60) * 1_000_000)
        .with("rate_bps", rng.pick(&[0, 100_000_000]))
        .with("requests", rng.between(9, 15))
        .with("new_connections", 0)
}

fn connections(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.between(1, 60) * 1_000_000)
        .with("rate_bps", 0)
        .with("requests", rng.between(6, 12))
        .with("new_connections", 1)
        .with("response_bytes", rng.between(200, 5_000))
}

fn behaviour(p: &Params) -> Result<Behaviour, LabError> {
    Ok(Behaviour::healthy(p.get("response_bytes")?))
}

fn message_bytes(p: &Params) -> Result<u64, LabError> {
    Ok(behaviour(p)?.message_bytes())
}

fn tail_link(p: &Params, v: Variant, seed: u64, copies: u32) -> Result<Link, LabError> {
    let kind = Kind::MessageTail { message_bytes: message_bytes(p)? };
    with_rule(p, v, seed, DropRule::new(TO_CLIENT, kind, 2, 3).copies(copies))
}

fn with_rule(p: &Params, v: Variant, seed: u64, rule: DropRule) -> Result<Link, LabError> {
    let link = RelayParams::symmetric(p.get("rtt_ns")?, p.get("rate_bps")?, seed);
    Ok(Link::Relay(if v == Variant::Faulty { link.dropping(rule) } else { link }))
}

fn random_link(p: &Params, v: Variant, seed: u64) -> Result<Link, LabError> {
    let Link::Relay(link) = plain_link(p, v, seed)? else {
        return Ok(Link::Veth);
    };
    let loss_ppm = if v == Variant::Faulty { p.get("loss_ppm")? } else { 0 };
    Ok(Link::Relay(link.both(|path| path.loss_ppm = loss_ppm)))
}

fn act(stage: &mut Stage, p: &Params, _: Variant) -> Result<Observed, LabError> {
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour(p)?)?;
    stage.start_captures()?;
    let load = Load {
        new_connections: p.get("new_connections")? > 0,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

/// Returns the cause, provided that the relay dropped packets and the kernel recovered them in the
/// intended way.
fn recovered(ran: &Ran, cause: &'static str, counter: &str) -> Result<Vec<Cause>, LabError> {
    let dropped = ran.stage.relay.as_ref().map_or(0, |r| r.dropped());
    let happened = ran.stage.server_counters.of(counter) + ran.stage.client_counters.of(counter);
    if dropped == 0 || happened == 0 {
        let what = format!("{dropped} packets dropped, {counter} grew by {happened}");
        return Err(LabError::NotReproduced(what));
    }
    Ok(vec![Cause::by_twin(cause, Role::Network, None)])
}

/// A recovered loss halves the congestion window, which also makes the following responses slower.
fn single_truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let causes = recovered(ran, "fast_recovery", "TCPSackRecovery")?;
    Ok(causes.into_iter().map(|c| c.or(&["congestion_window"])).collect())
}

/// How each loss is recovered is random: the kernel's counters show which kind was more frequent.
fn random_truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let count = |name| ran.stage.server_counters.of(name) + ran.stage.client_counters.of(name);
    let timers = count("TCPTimeouts") + count("TCPLossProbes");
    let kinds = ["fast_recovery", "retransmission_timeout"];
    let [first, second] = if timers > count("TCPSackRecovery") { [1, 0] } else { [0, 1] };
    let mut causes = recovered(ran, kinds[first], "RetransSegs")?;
    for cause in &mut causes {
        cause.lost_ns_how = "client's total time less the healthy twin's; shared with also_right";
        cause.also_right.extend([kinds[second], "congestion_window", "syn_retransmit"]);
    }
    Ok(causes)
}
