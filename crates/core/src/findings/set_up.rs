//! Connections that were hard to set up (RFC 9293 §3.5): repeated SYNs, listeners whose queue is
//! full, ports where nobody listens. The times come from [`crate::tcp::Setup`].

use crate::app::Side;
use crate::findings::scene::{Proof, Scene, Shown};
use crate::model::{Cause, Fact};
use crate::tcp::{IcmpReport, Setup};
use crate::wire::IcmpErrorKind;

/// Attempts that met an older connection.
pub(super) const OTHERS: &str = "others";

fn see_handshake(setup: &Setup, proof: &mut Proof) {
    let frames = setup.frames();
    let client = [("syn", frames.syn), ("syn_again", frames.syn_again), ("ack", frames.ack)];
    let server = [("syn_ack", frames.syn_ack), ("syn_ack_again", frames.syn_ack_again)];
    for (part, frame) in client.into_iter().chain(server) {
        if let Some(seen) = frame {
            proof.see(part, seen);
        }
    }
    let wait =
        |(first, again): (Option<crate::model::Sighting>, Option<crate::model::Sighting>)| {
            Some(again?.time_ns.saturating_sub(first?.time_ns))
        };
    let by_client = wait((frames.syn, frames.syn_again));
    if let Some(rto_ns) = by_client.or(wait((frames.syn_ack, frames.syn_ack_again))) {
        proof.fact("rto_ns", Fact::Ns(rto_ns));
    }
}

/// The attempt, its repetition, and the answer.
pub(super) fn prove_repeated(scene: &Scene<'_>, proof: &mut Proof) {
    let setup = &scene.connection.setup;
    see_handshake(setup, proof);
    // Without a second SYN-ACK, what was lost lies beyond the vantage.
    let side = match (setup.syn_acks, setup.syns) {
        (2.., _) => "SYN-ACK",
        (_, 2..) if setup.syn_acks == 0 => "SYN, or each answer to it,",
        _ => "SYN, or the first answer to it,",
    };
    proof.fact("side", Fact::Text(side.into()));
    let reset = scene.connection.ending().reset.filter(|reset| reset.from == Side::Server);
    proof.not(Cause::Refused, "no_rst", !setup.refused && reset.is_none());
    see_error(scene, proof);
    // A full listener drops SYNs, too: that it took a later one, and its ACK, says nothing of
    // those.
    let accepted = setup.syns == 1 && setup.established_ns().is_some() && setup.confirmed;
    proof.not(Cause::AcceptQueueOverflow, "handshake_seen", accepted);
    proof.not(Cause::PathRtt, "sent_again", setup.syns > 1);
}

/// The handshake that the client completed and the server did not take.
pub(super) fn prove_overflow(scene: &Scene<'_>, proof: &mut Proof) {
    let (setup, path) = (&scene.connection.setup, &scene.connection.path);
    see_handshake(setup, proof);
    proof.not(Cause::SynRetransmit, "acked_repeat", setup.syn_acks_after_ack(path) > 0);
    proof.not(Cause::ServerThink, "not_acknowledged", setup.ignored_data() >= 2);
    proof.not(Cause::SynFlood, "completes", setup.established_ns().is_some());
}

/// Adds the ICMP errors about the SYN.
fn see_error(scene: &Scene<'_>, proof: &mut Proof) {
    if let Some(told) = scene.connection.icmp_report().filter(|told| told.about_syn) {
        see_icmp(told, proof);
    }
}

/// Sender and meaning of an ICMP error.
pub(super) fn see_icmp(told: &IcmpReport, proof: &mut Proof) {
    proof.see("icmp", told.seen);
    proof.fact("reporter", Fact::Text(told.reporter.ip().to_string()));
    proof.fact("says", Fact::Text(says(told.kind).into()));
}

/// An ICMP error in words.
fn says(kind: IcmpErrorKind) -> &'static str {
    match kind {
        IcmpErrorKind::Unreachable => "there is no route to the destination",
        IcmpErrorKind::PortUnreachable => "the port is unreachable",
        IcmpErrorKind::Prohibited => "a filter prohibits it",
        IcmpErrorKind::PacketTooBig { .. } => "the packet is too big",
        IcmpErrorKind::TimeExceeded => "its time to live ended on the way, as in a routing loop",
        IcmpErrorKind::ParameterProblem => "the header is not understood",
    }
}

/// The SYN and the RST.
pub(super) fn prove_refused(scene: &Scene<'_>, proof: &mut Proof) {
    let setup = &scene.connection.setup;
    if let Some(syn) = setup.frames().syn_again.or(setup.frames().syn) {
        proof.see("syn", syn);
        if let Some(reset) = scene.connection.ending().reset {
            let by_error =
                scene.connection.icmp_report().is_some_and(|told| told.seen.frame == reset.frame);
            if by_error {
                see_error(scene, proof);
            } else {
                proof.see("reset", reset);
                let [of_reset, _] = scene.connection.ending().reset_ttls;
                proof.fact("rst_ttl", Fact::Count(of_reset.into()));
            }
            proof.fact("rtt_ns", Fact::Ns(reset.time_ns.saturating_sub(syn.time_ns)));
        }
    }
    proof.not(Cause::Reset, "before_established", setup.established_ns().is_none());
    proof.not(Cause::SynRetransmit, "answered", setup.syns == 1);
}

/// Adds up who never got an answer, and what a full listener did.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let (setup, path) = (&scene.connection.setup, &scene.connection.path);
    shown.add("unanswered", u64::from(setup.syn_acks == 0));
    shown.add(OTHERS, u64::from(setup.met_others() > 0));
    shown.add("ignored", u64::from(setup.ignored(path)));
    shown.add("syn_ack_repeats", setup.syn_acks_after_ack(path).into());
}
