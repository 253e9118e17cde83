//! The rate of the bottleneck.
//!
//! No recogniser attributes a silence to it: `tcp/pipe.rs` measures the rate, and the time that the
//! outstanding bytes take at that rate is deducted from the start of each silence.

use super::rules::Cost;
use crate::findings::facts::Facts;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{EndpointTally, Sample, SenderTally, Tally};
use crate::judge::thresholds::AT_ONCE_PART;
use crate::model::{Fact, Finding, Owner};
use crate::wire::{Endpoint, Side};

/// How the time of this cause, added up over an endpoint, becomes a finding.
/// The link limits a transfer that keeps it busy: an endpoint at which senders paused for longer than
/// their data took on the link was limited by these pauses.
pub(super) const COST: Cost = Cost { show: Some(show), other_ns, facts, ..Cost::PLAIN };

/// Returns the time on the link and in its queue that its rate does not explain: that in a queue if
/// the data itself took little of it, and all if senders paused for longer, for another limit than
/// that of the link or for an unknown one.
fn other_ns(endpoint: &EndpointTally) -> u64 {
    let ledger = &endpoint.all.ledger;
    let granted = if endpoint.round_trips.granted > 0 { Owner::Path } else { Owner::Unknown };
    let limits = [Owner::SendBuffer, Owner::ReceiveWindow, Owner::Http2FlowControl, granted];
    let paused_ns = limits.iter().fold(0, |sum: u64, &owner| sum.saturating_add(ledger.of(owner)));
    let [busy_ns, queued_ns] = [Owner::Bandwidth, Owner::Queueing].map(|owner| ledger.of(owner));
    let of_others_ns = if busy_ns < queued_ns / AT_ONCE_PART { queued_ns } else { 0 };
    if paused_ns > busy_ns { of_others_ns.saturating_add(busy_ns) } else { of_others_ns }
}

/// Measures how much was transferred.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let began = scene.exchange.began_at[scene.gap().sender];
    shown.measure("bytes", scene.sender().space.nxt.saturating_sub(began));
}

/// Adds the request and the last frame of its answer to the evidence. An ACK of the client ends an answer
/// whose last segments the capture lacks, and is no segment of it.
fn show(sample: &Sample, proof: &mut Proof) {
    proof.add_request(sample.first);
    if sample.last.from == Side::Server || sample.last.payload_bytes > 0 {
        proof.add_frame("last", sample.last);
    }
}

/// Returns the median rate of the busier direction. If its bytes take more than twice the time that they
/// would take at that rate, an interface that hands over packets in bursts, or a scheduler, makes single
/// rounds look faster, or requests that wait on one connection count the same time. Then a single
/// transfer, as beside another one, has the rate of its bytes, and that of several is unknown.
fn facts(_: &mut Finding, server: Endpoint, endpoint: &EndpointTally, _: &Tally) -> Facts {
    let busier = endpoint.senders.iter().max_by_key(|sender| sender.rates.count());
    let [of_client, of_server] = Side::ALL.map(|side| endpoint.sender(side).rated_bytes);
    let upload = (of_client > of_server).then_some(("upload", Fact::Bytes(of_client)));
    let is_loopback = server.ip().is_loopback();
    let loopback = is_loopback.then_some(("loopback", Fact::Text(server.to_string())));
    let rate = busier.map_or(0, |sender| {
        let (median, mean) = (sender.rates.quantile_ns(0.5), mean(sender, endpoint));
        let is_single = sender.rates.count() == 1 && endpoint.all.exchanges == 1;
        match () {
            () if is_single && median > 2 * mean => mean,
            () if median <= 2 * mean => median,
            () => 0,
        }
    });
    let known = (rate > 0).then(|| Fact::BitsPerSecond(rate.saturating_mul(8)));
    let known = known.map(|rate| ("bottleneck_bps", rate));
    known.into_iter().chain(upload).chain(loopback).collect()
}

/// Returns the rate at which the bytes of `sender` take the time on the link, bytes per second.
fn mean(sender: &SenderTally, endpoint: &EndpointTally) -> u64 {
    let busy_ns = u128::from(endpoint.all.ledger.of(Owner::Bandwidth)).max(1);
    let rate = u128::from(sender.rated_bytes) * 1_000_000_000 / busy_ns;
    u64::try_from(rate).unwrap_or(u64::MAX / 2)
}
