//! The evidence of a repaired loss, which is the same for all causes of losses.

use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::model::Fact;
use crate::wire::Side;

/// Place of a loss behind a capture at the receiver.
const IN_RECEIVER: &str = "in the receiving host, behind the capture";

/// Name of the fact: segments were lost in the receiving host, where the capture was taken.
pub const IN_HOST: &str = "in_host";

/// Name of the fact: the host that drops the answers that the capture there has.
pub const DEAF: &str = "deaf";

/// Adds the lost frame (or the frame before it, if it was lost before the vantage) and its
/// retransmission.
pub(super) fn add_repair(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    match gap.repair.original.filter(|_| !gap.repair.deaf) {
        Some(original) => proof.add_frame("lost", original),
        None => proof.add_frame_before(gap, "flight_end"),
    }
    if let Some(duplicate) = gap.duplicates.first {
        proof.add_frame("duplicate_ack", duplicate);
    }
    let repeats = gap.repair.is_retransmission() || gap.losses.missing.any();
    let part = match (repeats, gap.next_len) {
        (true, 0) => "end",
        (true, _) => "retransmission",
        _ => "next",
    };
    proof.add_frame_after(gap, part);
    let at_receiver = scene.connection.view().is_beside_receiver(gap.sender);
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
        let host =
            if gap.sender == Side::Client { "the client's host" } else { "the server's host" };
        return proof.add_fact(DEAF, Fact::Text(host.into()));
    }
    if let Some(place) = place.filter(|_| repeats) {
        proof.add_fact("place", Fact::Text(place.into()));
        if place == IN_RECEIVER {
            proof.add_fact(IN_HOST, Fact::Text("the receiving host".into()));
        }
    }
}
