//! A connection that ended in the middle of an exchange, by a RST (RFC 9293 §3.5.2) or a FIN.
//!
//! Recognised in `findings/tally/endings.rs`, where a connection ends.

use super::no_answer::CLOSED;
use crate::capture::FrameId;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::endings::was_taken;
use crate::findings::tally::{CauseTally, Key, Tally};
use crate::findings::thresholds::IDLE_MIN_NS;
use crate::model::{Cause, Culprit, Fact, Outcome, Role, Sighting};
use crate::tcp::Connection;
use crate::wire::{Endpoint, Side};

/// Name of the number of requests that their client sent on a connection that it could know to be
/// closed.
const AFTER_FIN: &str = "after_fin";

/// Name of the fact: the RST says that its host has no such connection, and nothing before shows that
/// it ever had one (RFC 9293 §3.10.7.1).
const UNKNOWN: &str = "unknown_there";

/// Returns how long before the client's last data the server had closed, ns, if that is so long that the
/// client's application could have noticed.
fn known_to_be_closed_ns(connection: &Connection) -> Option<u64> {
    let due_ns = IDLE_MIN_NS + connection.path.base_rtt_ns();
    connection.view().used_after_close_ns().filter(|&ns| ns >= due_ns)
}

/// Returns the number of connections: a RST ends all requests that wait on one.
pub(super) fn count(cause: &CauseTally) -> u64 {
    cause.connections
}

/// Returns the client if it used a connection long after the server had closed it, and otherwise the host
/// of a RST that was made on the path.
pub(super) fn culprit(connection: &Connection, sender: Side) -> Option<Culprit> {
    let on_path = host_of_reset_on_path(connection, sender);
    on_path.or_else(|| {
        known_to_be_closed_ns(connection).filter(|_| sender == Side::Server)?;
        let endpoint = Endpoint { port: 0, ..connection.client() };
        Some(Culprit { role: Role::Client, endpoint })
    })
}

/// Returns the server, which stands for its path, if the RST was made on the path: its time to live
/// then differs from that of its sender's other packets.
pub(super) fn host_of_reset_on_path(connection: &Connection, _: Side) -> Option<Culprit> {
    let endpoint = connection.server();
    connection
        .cold
        .ending()
        .was_reset_on_path()
        .then_some(Culprit { role: Role::Network, endpoint })
}

/// Adds the frames with which the connection ended, and `before` them the frame that is named
/// `part`.
pub(super) fn add_end(
    scene: &Scene<'_>,
    proof: &mut Proof,
    (part, before): (&'static str, Sighting),
    closing: &[Side],
) {
    let connection = scene.connection;
    for &side in closing {
        if let Some(fin) = connection.cold.ending().fin[side] {
            proof.add_frame("fin", fin);
        }
    }
    if connection.cold.ending().reset.is_none_or(|reset| reset.frame != before.frame) {
        proof.add_frame(part, before);
    }
    if let Some(reset) = connection.cold.ending().reset {
        proof.add_frame("reset", reset);
    }
}

/// Adds the two times to live that show the origin of the RST, if it was made on the path.
pub(super) fn add_reset_ttls(scene: &Scene<'_>, proof: &mut Proof) {
    if scene.connection.cold.ending().was_reset_on_path() {
        let [of_reset, of_others] = scene.connection.cold.ending().reset_ttls;
        proof.add_fact("rst_ttl", Fact::Count(of_reset.into()));
        proof.add_fact("ttl", Fact::Count(of_others.into()));
    }
}

/// Name of the number of requests that the server answered by a RST, though it had received them, or
/// had closed before it ever sent data.
const UNANSWERED: &str = "unanswered";

/// Counts the requests that the server answered by a RST. One that follows its FIN is of the same
/// end: what comes for a socket that was closed is answered so, without an ACK where it is gone (RFC
/// 9293 §3.10.7.1).
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let (connection, exchange) = (scene.connection, scene.exchange);
    let has_closed = connection.cold.ending().fin_ns[Side::Server].is_some()
        && connection.senders[Side::Server].counts().actual_data_bytes == 0;
    let is_unanswered = exchange.outcome == Outcome::Reset { by: Side::Server }
        && exchange.request_seen
        && !exchange.response_seen
        && (has_closed || was_taken(connection, exchange));
    shown.add(UNANSWERED, is_unanswered.into());
    let is_late = known_to_be_closed_ns(connection).is_some();
    shown.add(AFTER_FIN, is_late.into());
}

/// Counts servers that close without an answer once: whether the end is a FIN or a RST depends on
/// whether they had read what came (RFC 2525 §2.17).
pub(in crate::findings) fn settle(tally: &mut Tally) {
    let is_unanswered = |cause: &CauseTally| cause.shown.count(UNANSWERED) == cause.exchanges;
    let resets = tally.causes.iter().filter(|(key, cause)| {
        let closes = |(other, cause): (&Key, &CauseTally)| {
            other.cause == Cause::NoAnswer && cause.shown.count(CLOSED) > 0
        };
        key.cause == Cause::Reset && is_unanswered(cause) && tally.causes.of(key.server).any(closes)
    });
    for key in resets.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
        let closes = |other: &&Key| other.cause == Cause::NoAnswer;
        let to = tally.causes.of(key.server).map(|(key, _)| key).find(closes).cloned();
        let Some((to, mut moved)) = to.zip(tally.causes.remove(&key)) else { continue };
        // The case shown is one with a FIN.
        moved.worst = None;
        let resets = moved.exchanges;
        let closed = tally.causes.at(&to);
        closed.merge(&moved);
        closed.shown.add(CLOSED, resets);
    }
}

/// Proves an end in the middle of an exchange by the last data and the RST.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let (connection, exchange) = (scene.connection, scene.exchange);
    let reset = connection.cold.ending().reset;
    let ended_ns = connection.cold.ending().fin_ns.into_iter().flatten().min();
    let last = match reset {
        Some(_) => connection.cold.ending().last_data,
        None => connection
            .view()
            .last_data(FrameId::default())
            .filter(|it| Some(it.time_ns) <= ended_ns),
    };
    add_end(scene, proof, ("last_data", last.unwrap_or(exchange.first)), &Side::ALL);
    let when = match (exchange.response_seen, connection.setup.established_ns()) {
        (true, _) if connection.view().owes_request() => {
            "in the middle of a request that it had already answered"
        }
        (true, _) => "in the middle of a response",
        (false, _) if exchange.request_seen => "before the response began",
        _ => "before any request",
    };
    proof.add_fact("when", Fact::Text(when.into()));
    if let Some(Sighting { from, time_ns: at_ns, .. }) = connection.cold.ending().reset {
        let peer = &connection.senders[from.peer()];
        let unread_bytes = peer.space.nxt.saturating_sub(peer.space.una_seen());
        let ending = connection.cold.ending();
        let never_spoke = connection.senders[from].counts().actual_data_bytes == 0;
        let is_unknown =
            connection.mid_stream && ending.unknown && never_spoke && ending.fin_ns[from].is_none();
        if is_unknown {
            proof.add_fact(UNKNOWN, Fact::Text("RST without an ACK".into()));
        } else if unread_bytes > 0 {
            proof.add_fact("unread_bytes", Fact::Bytes(unread_bytes));
        }
        let last_ns = connection.cold.ending().last_data.map_or(0, |last| last.time_ns);
        if last_ns > 0 {
            // No packet shows the age of a connection that was open before the capture began.
            if let Some(open_ns) = connection.setup.established_ns() {
                proof.add_fact("age_ns", Fact::Ns(at_ns.saturating_sub(open_ns)));
            }
            proof.add_fact("idle_ns", Fact::Ns(at_ns.saturating_sub(last_ns)));
        }
        let unanswered = from == Side::Server && exchange.request_seen && !exchange.response_seen;
        if unanswered && was_taken(connection, exchange) {
            proof.rule_out(Cause::IdleReset, "taken", true);
        } else {
            let is_busy = last_ns > 0 && at_ns < last_ns + IDLE_MIN_NS;
            proof.rule_out(Cause::IdleReset, "busy", is_busy);
        }
    }
    if connection.cold.ending().forgotten {
        proof.add_fact("forgot", Fact::Text("RST without an ACK".into()));
    }
    if connection.cold.ending().reset.is_none() {
        proof.add_fact("by_fin", Fact::Text("FIN".into()));
        let lacks_bytes = connection.framer.lacking_bytes(Side::Server);
        if lacks_bytes > 0 && exchange.response_seen {
            proof.add_fact("lacks_bytes", Fact::Bytes(lacks_bytes));
        }
    }
    if let Some(after_ns) = known_to_be_closed_ns(connection) {
        proof.add_fact("closed_ns", Fact::Ns(after_ns));
    }
    add_reset_ttls(scene, proof);
    proof.rule_out(Cause::Refused, "established", connection.setup.established_ns().is_some());
    let open = connection.senders.iter().all(|sender| !sender.history().window.is_closed());
    let held = exchange.causes().contains(Cause::ZeroWindow);
    proof.rule_out(Cause::ZeroWindow, "window_open", open && !held);
}
