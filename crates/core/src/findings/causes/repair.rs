//! The evidence of a repaired loss, which is the same for all causes of losses.

use crate::findings::facts::Facts;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, Key, Tally};
use crate::judge::Gap;
use crate::judge::thresholds::HABIT_MIN;
use crate::model::{Cause, Culprit, Fact, Outcome, Role, Sighting};
use crate::tcp::thresholds::ACK_WITHIN_NS;
use crate::wire::{Endpoint, Side};

/// Place of a loss behind a capture at the receiver.
const IN_RECEIVER: &str = "in the receiving host, behind the capture";

/// Name of the fact: segments were lost in the receiving host, where the capture was taken.
pub const IN_HOST: &str = "in_host";

/// Name of the fact: the host that drops the answers that the capture there has.
pub const DEAF: &str = "deaf";

/// Name of the fact: the host that dropped all of the packets, which had reached the capture there.
pub const DROPPER: &str = "dropper";

/// Names of the numbers of waits for a packet which had reached the capture at the client's host, or at the
/// server's.
const DROPPED: [&str; 2] = ["dropped_by_client", "dropped_by_server"];

/// Names of the two hosts.
pub(super) const HOSTS: [&str; 2] = ["the client's host", "the server's host"];

/// Returns whether `cause` is a loss that its sender repaired.
pub fn is_loss(cause: Cause) -> bool {
    matches!(cause, Cause::RetransmissionTimeout | Cause::FastRecovery)
}

/// Returns the side whose host dropped the lost packet behind the capture there.
fn dropped_by(scene: &Scene<'_>) -> Option<Side> {
    let gap = scene.gap();
    let repeats = gap.repair.is_retransmission() || gap.losses.missing.any();
    let dropper = match gap.repair.deaf {
        true => gap.sender,
        false => gap.sender.peer(),
    };
    let is_known = gap.repair.deaf || gap.repair.original.is_some() && repeats;
    (is_known && is_at_receiver(scene, dropper)).then_some(dropper)
}

/// Returns whether the vantage is on the host of `side`, and not at its peer.
fn is_at_receiver(scene: &Scene<'_>, side: Side) -> bool {
    let connection = scene.connection;
    connection.view().is_beside_receiver(side.peer()) && connection.path.is_on_host(side)
}

/// Counts the waits for packets that a host dropped behind the capture. Of several waits of an exchange only
/// the longest is known, unless the host drops all that comes.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let waits = scene.chain.count;
    let is_known = waits == 1 || scene.gap().repair.deaf;
    if let Some(side) = dropped_by(scene).filter(|_| is_known) {
        shown.add(DROPPED[side as usize], waits.into());
    }
}

/// Moves losses from the network to the host that dropped all of the packets behind the capture.
pub(in crate::findings) fn settle(tally: &mut Tally) {
    let is_of_path = |key: &&Key| {
        is_loss(key.cause) && key.culprit == Culprit { role: Role::Network, endpoint: key.server }
    };
    let culprit = |key: &Key, cause: &CauseTally| {
        let has_all = |side: &Side| cause.shown.count(DROPPED[*side as usize]) == cause.count;
        let side = Side::ALL.into_iter().find(has_all).filter(|_| cause.count > 0)?;
        // One ACK may be delayed until the timer has fired.
        let is_shown = key.cause == Cause::FastRecovery
            || cause.count >= HABIT_MIN.into()
            || cause.waits.latency().max_ns > ACK_WITHIN_NS;
        if !is_shown {
            return None;
        }
        let client = cause.worst.as_ref()?.client;
        Some(match side {
            Side::Client => {
                Culprit { role: Role::Client, endpoint: Endpoint { port: 0, ..client } }
            }
            Side::Server => Culprit { role: Role::Server, endpoint: key.server },
        })
    };
    let of_path = tally.causes.iter().filter(|(key, _)| is_of_path(key));
    let dropped = of_path.filter_map(|(key, cause)| Some((key.clone(), culprit(key, cause)?)));
    for (key, culprit) in dropped.collect::<Vec<_>>() {
        let Some(moved) = tally.causes.remove(&key) else { continue };
        tally.causes.at(&Key { culprit, ..key }).merge(&moved);
    }
}

/// Returns the host that dropped the packets, if it is the culprit.
pub(super) fn dropper(key: &Key) -> Facts {
    let host = match key.culprit.role {
        Role::Client => HOSTS[Side::Client as usize],
        Role::Server => HOSTS[Side::Server as usize],
        _ => return Facts::new(),
    };
    Facts::from([(DROPPER, Fact::Text(host.into()))])
}

/// Returns the frame that was lost, if it was captured.
fn lost(gap: &Gap) -> Option<Sighting> {
    gap.repair.original.filter(|_| !gap.repair.deaf)
}

/// Returns the ACK that reports the loss to the sender. What the receiver reports before it can have got data
/// behind the lost frame, which may itself be a copy, is another hole.
pub(super) fn report(gap: &Gap) -> Option<Sighting> {
    gap.duplicates.report_of(lost(gap).map(|it| it.time_ns), gap.rtt.receiver_ns())
}

/// Adds the lost frame (or the frame before it, if it was lost before the vantage) and its
/// retransmission.
pub(super) fn add_repair(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    match lost(gap) {
        Some(original) => proof.add_frame("lost", original),
        None => proof.add_frame_before(gap, "flight_end"),
    }
    if let Some(duplicate) = report(gap) {
        proof.add_frame("duplicate_ack", duplicate);
    }
    let repeats = gap.repair.is_retransmission() || gap.losses.missing.any();
    let part = match (repeats, gap.next_len) {
        (true, 0) => "end",
        (true, _) => "retransmission",
        _ => "next",
    };
    proof.add_frame_after(gap, part);
    let at_receiver = is_at_receiver(scene, gap.sender.peer());
    let place = match gap.repair.original {
        Some(_) if at_receiver => Some(IN_RECEIVER),
        Some(_) => Some("between the capture and the receiver"),
        None if gap.repair.unseen || !gap.repair.is_retransmission() => {
            Some("between the sender and the capture")
        }
        // The original passed the vantage, but so long ago that its frame is no longer known.
        None => None,
    };
    if gap.repair.deaf {
        let host = HOSTS[gap.sender as usize];
        return proof.add_fact(DEAF, Fact::Text(host.into()));
    }
    // Of a request that was never acknowledged nothing shows whether it was lost, nor of data whose
    // receiver's packets were not captured: an ACK may have been lost as well.
    let has_peer = scene.connection.senders[gap.sender.peer()].volume.has_packets();
    let is_heard = has_peer && scene.exchange.outcome != Outcome::Unacknowledged;
    if let Some(place) = place.filter(|_| repeats && is_heard) {
        proof.add_fact("place", Fact::Text(place.into()));
        if place == IN_RECEIVER {
            proof.add_fact(IN_HOST, Fact::Text("the receiving host".into()));
        }
    }
}
