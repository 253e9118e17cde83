//! The evidence of a connection set-up (RFC 9293 §3.5), which is the same for all its causes, and
//! of ICMP errors. The times come from [`crate::tcp::Setup`].

use crate::findings::attempts::{self, IGNORED_ANSWERS};
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::CauseTally;
use crate::model::{Culprit, Fact, Role, Sighting};
use crate::tcp::{Connection, IcmpReport, Setup};
use crate::wire::{IcmpErrorKind, Side};

/// Name of the number of attempts to which the server answered with a segment of an older
/// connection.
pub(in crate::findings) const OLDER_CONNECTIONS: &str = "others";

/// Name of the number of attempts whose first SYN was answered: the listener had room for them.
pub(in crate::findings) const TAKEN_AT_ONCE: &str = "taken_at_once";

/// Name of the number of attempts whose ACK was ignored, as far as a capture elsewhere than at the server
/// shows.
pub(super) const AWAY: &str = "seen_away";

/// Name of the number of attempts whose SYN-ACKs left the server and did not arrive.
pub(in crate::findings) const UNHEARD_ANSWERS: &str = "unheard_answers";

/// Name of the number of attempts whose SYN-ACKs passed the capture and did not reach the client's
/// TCP.
const UNHEARD_BEHIND: &str = "unheard_behind";

/// Name of the number of attempts without a SYN-ACK.
const UNANSWERED: &str = "no_syn_ack";

/// Name of the number of attempts to which nothing at all answered.
pub(in crate::findings) const SILENT: &str = "met_silence";

/// Name of the number of their SYNs.
const SILENT_SYNS: &str = "syns_met_silence";

/// Returns the host on the path that rejected the SYN by an ICMP error.
pub(super) fn rejecting_host(connection: &Connection, _: Side) -> Option<Culprit> {
    let endpoint = connection.view().rejecting_host()?;
    Some(Culprit { role: Role::Network, endpoint })
}

/// Returns the number of attempts; an attempt with a retransmitted SYN is one.
pub(super) fn count(cause: &CauseTally) -> u64 {
    cause.exchanges
}

/// Adds the frames of the handshake and the time until the first retransmission.
pub(super) fn add_handshake(setup: &Setup, proof: &mut Proof) {
    let frames = setup.frames();
    let client = [("syn", frames.syn), ("syn_again", frames.syn_again), ("ack", frames.ack)];
    let server = [("syn_ack", frames.syn_ack), ("syn_ack_again", frames.syn_ack_again)];
    for (part, frame) in client.into_iter().chain(server) {
        if let Some(seen) = frame {
            proof.add_frame(part, seen);
        }
    }
    let wait = |(first, again): (Option<Sighting>, Option<Sighting>)| {
        Some(again?.time_ns.saturating_sub(first?.time_ns))
    };
    let by_client = wait((frames.syn, frames.syn_again));
    if let Some(rto_ns) = by_client.or(wait((frames.syn_ack, frames.syn_ack_again))) {
        proof.add_fact("rto_ns", Fact::Ns(rto_ns));
    }
}

/// Adds the ICMP errors about the SYN.
pub(super) fn add_icmp_errors(scene: &Scene<'_>, proof: &mut Proof) {
    if let Some(report) = scene.connection.cold.icmp_report().filter(|report| report.about_syn) {
        add_icmp_error(report, proof);
    }
}

/// Adds the sender and the meaning of an ICMP error.
pub(super) fn add_icmp_error(report: &IcmpReport, proof: &mut Proof) {
    proof.add_frame("icmp", report.seen);
    proof.add_fact("reporter", Fact::Text(report.reporter.ip().to_string()));
    proof.add_fact("says", Fact::Text(describe(report.kind).into()));
}

/// Returns an ICMP error in words.
fn describe(kind: IcmpErrorKind) -> &'static str {
    match kind {
        IcmpErrorKind::Unreachable => "there is no route to the destination",
        IcmpErrorKind::PortUnreachable => "the port is unreachable",
        IcmpErrorKind::Prohibited => "a filter prohibits it",
        IcmpErrorKind::PacketTooBig { .. } => "the packet is too big",
        IcmpErrorKind::TimeExceeded => "its time to live ended on the way, as in a routing loop",
        IcmpErrorKind::ParameterProblem => "the header is not understood",
    }
}

/// Counts the attempts that were never answered, and the signs of a full accept queue.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let (setup, path) = (&scene.connection.setup, &scene.connection.path);
    shown.add(UNANSWERED, u64::from(setup.syn_acks == 0 && !setup.has_heard_answer()));
    if !attempts::is_heard(scene.connection) {
        shown.add(SILENT, 1);
        shown.add(SILENT_SYNS, setup.syns.into());
    }
    shown.add(OLDER_CONNECTIONS, u64::from(setup.other_connection_segments() > 0));
    shown.add("ignored", u64::from(setup.ignored_ack(path)));
    shown.add("syn_ack_repeats", setup.syn_acks_after_ack(path).into());
    let ttl = scene.connection.senders[Side::Server].packets.last.ttl;
    let is_ignored = setup.is_answer_ignored(ttl);
    shown.add(IGNORED_ANSWERS, u64::from(is_ignored));
    shown.add(TAKEN_AT_ONCE, u64::from(setup.is_first_syn_answered()));
    if !is_ignored && setup.unheard_until_ns().is_some() {
        let is_here = path.ends_here(Side::Server);
        shown.add(if is_here { UNHEARD_ANSWERS } else { UNHEARD_BEHIND }, 1);
    }
    let is_away = setup.ignored_ack(path) && !path.ends_here(Side::Server);
    shown.add(AWAY, u64::from(is_away));
}

/// Removes what the absence of answers would show: the capture lacks what came to the client.
pub(in crate::findings) fn forget_silence(cause: &mut CauseTally) {
    cause.shown.remove(&[UNANSWERED, SILENT, SILENT_SYNS]);
}

/// Returns whether no attempt was answered by a SYN-ACK.
pub(in crate::findings) fn are_all_unanswered(cause: &CauseTally) -> bool {
    cause.exchanges > 0 && cause.shown.count(UNANSWERED) == cause.exchanges
}

/// Returns whether nothing answered any of the attempts.
pub(in crate::findings) fn are_all_silent(cause: &CauseTally) -> bool {
    let silent = cause.shown.count(SILENT);
    silent > 0 && silent == cause.exchanges
}

/// Name of the number of attempts, which are all, that had no answer to any SYN.
const ALL_SILENT: &str = "all_silent";

/// Name of the number of attempts, which are all, that no host answered.
const UNREACHED: &str = "unreached";

/// Returns whether no attempt of the finding with these `facts` was answered.
pub(in crate::findings) fn leaves_all_unanswered(facts: &[(&str, Fact)]) -> bool {
    facts.iter().any(|(name, _)| [ALL_SILENT, UNREACHED].contains(name))
}

/// Returns how many attempts had no SYN-ACK, and, if that holds for all, whether nothing else answered
/// them either.
pub(super) fn unanswered(cause: &CauseTally) -> Vec<(&'static str, Fact)> {
    let count = |name: &str| cause.shown.count(name);
    let is_all = |name: &str| count(name) > 0 && count(name) == cause.exchanges;
    match count(UNANSWERED) {
        0 => Vec::new(),
        silent if are_all_silent(cause) => vec![
            (ALL_SILENT, Fact::Count(silent)),
            ("silent_syns", Fact::Count(count(SILENT_SYNS))),
        ],
        all if is_all(UNANSWERED) => {
            vec![(UNREACHED, Fact::Count(all)), ("unanswered", Fact::Count(all))]
        }
        some => vec![("unanswered", Fact::Count(some))],
    }
}
