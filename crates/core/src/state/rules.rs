//! Weighs the state against one finding: one function for each cause that a kernel can confirm or
//! refute.

use super::{Drops, Listener, Socket, State, is_at};
use crate::findings::NOT_RECEIVED;
use crate::model::{Cause, Fact, Finding, StateEvidence};
use crate::state::thresholds::{BUFFER_ROOM_FACTOR, UNREAD_MIN_NS};
use crate::wire::{Endpoint, Side};
use std::net::SocketAddr;

/// Returns the evidence of `state` for or against `finding`, the strongest first; empty if no
/// socket took part.
pub(super) fn evidence_for(finding: &Finding, state: &State) -> Vec<StateEvidence> {
    let waited = match finding.cause {
        Cause::SendBuffer => send_buffer_waits(&of_side(finding, state, finding.sender)),
        Cause::ZeroWindow => unread_time(&of_side(finding, state, finding.sender.peer())),
        Cause::ServerThink => unread_time(&of_side(finding, state, Side::Server)),
        Cause::RetransmissionTimeout | Cause::FastRecovery => {
            retransmission_reasons(finding, state)
        }
        _ => None,
    };
    let dropped = dropped_here(finding, state);
    waited.into_iter().chain(dropped).chain(of_sockets(finding, state)).collect()
}

/// Kinds of drops that the kernel counts for a whole namespace, and that may be TCP segments of any
/// connection.
const OF_ANY_CONNECTION: [&str; 7] = [
    "accept_queue",
    "checksum",
    "conntrack_full",
    "memory",
    "reverse_path",
    "socket_backlog",
    "syn_queue",
];

/// Returns the drops of a host at which the capture shows packets that its TCP did not receive: of
/// the packets of `finding` where the kernel tells their flows, else those that may be of any
/// connection.
fn dropped_here<'a>(
    finding: &'a Finding,
    state: &'a State,
) -> impl Iterator<Item = StateEvidence> + use<'a> {
    let arrives = |(name, _): &(&str, Fact)| NOT_RECEIVED.contains(name);
    let is_at_host = finding.facts.iter().any(arrives);
    let server = server(finding);
    let of_server =
        move |at: SocketAddr| at.port() == server.port && at.ip().to_canonical() == server.ip();
    let is_meant = move |drops: &&Drops| {
        let of_flow =
            drops.flows.iter().any(|it| of_server(it.source) || of_server(it.destination));
        let may_be = drops.flows.is_empty()
            && OF_ANY_CONNECTION.contains(&drops.subject.as_str())
            && drops.socket.is_none_or(|at| at.port() == server.port);
        is_at_host && drops.harm != "harmless" && (of_flow || may_be)
    };
    state.drops.iter().filter(is_meant).map(|drops| StateEvidence {
        id: "dropped",
        agrees: true,
        setting: "dropped",
        value: drops.packets.to_string(),
        place: "its kernel".into(),
        process: None,
        read_ns: None,
        facts: [("what", &drops.sentence), ("change", &drops.change)]
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name, Fact::Text(text.clone())))
            .collect(),
    })
}

/// Returns the evidence of socket options, queues and counters.
fn of_sockets(finding: &Finding, state: &State) -> Option<StateEvidence> {
    let sender = finding.sender;
    match finding.cause {
        Cause::NagleDelayedAck => holds_small_segments(&of_side(finding, state, sender)),
        Cause::SendBuffer => limits_sending(finding, &of_side(finding, state, sender)),
        Cause::ReceiveWindow => {
            limits_window(&of_side(finding, state, sender.peer()), &of_side(finding, state, sender))
        }
        Cause::ZeroWindow => leaves_unread(&of_side(finding, state, sender.peer())),
        Cause::ServerThink => leaves_unread(&of_side(finding, state, Side::Server)),
        Cause::RetransmissionTimeout | Cause::FastRecovery | Cause::SpuriousRetransmission => {
            retransmission_counters(finding, state)
        }
        Cause::AcceptQueueOverflow => overflows(server(finding), state),
        _ => None,
    }
}

/// Returns the server's end of the connections that `finding` is about.
pub(super) fn server(finding: &Finding) -> Endpoint {
    finding.evidence_flow.map_or(finding.culprit.endpoint, |(_, server)| server)
}

/// Returns the sockets of `side` on connections to the server that `finding` is about.
fn of_side<'a>(finding: &Finding, state: &'a State, side: Side) -> Vec<&'a Socket> {
    let server = server(finding);
    let client = finding.evidence_flow.map(|(client, _)| client.ip());
    let is_meant = |socket: &&Socket| match (side, socket.peer) {
        (_, None) => false,
        (Side::Server, Some(_)) => is_at(socket.local, &server),
        (Side::Client, Some(peer)) => {
            is_at(peer, &server) && client.is_none_or(|ip| ip == socket.local.ip().to_canonical())
        }
    };
    state.sockets.iter().filter(is_meant).collect()
}

/// Creates evidence with `id` about `socket`.
fn evidence(
    agrees: bool,
    id: &'static str,
    (setting, value): (&'static str, String),
    socket: &Socket,
    facts: Vec<(&'static str, Fact)>,
) -> StateEvidence {
    let process = socket.process.as_ref().map(ToString::to_string);
    let place = socket.local.to_string();
    StateEvidence { id, agrees, setting, value, place, process, read_ns: None, facts }
}

fn share_of(count: usize, of: usize) -> Vec<(&'static str, Fact)> {
    vec![("count", Fact::Count(count as u64)), ("of", Fact::Count(of as u64))]
}

/// Returns evidence about Nagle's algorithm (RFC 896), which is on unless `TCP_NODELAY` is set;
/// `TCP_CORK` holds back even more.
fn holds_small_segments(sockets: &[&Socket]) -> Option<StateEvidence> {
    let known: Vec<_> = sockets.iter().filter(|it| it.nodelay.is_some()).copied().collect();
    let (off, on): (Vec<&Socket>, Vec<&Socket>) =
        known.iter().partition(|it| it.nodelay == Some(false));
    let corked: Vec<_> = on.iter().filter(|it| it.cork == Some(true)).copied().collect();
    let agrees = 2 * (off.len() + corked.len()) >= known.len();
    let (id, setting, value, those) = match (agrees, off.is_empty()) {
        (true, false) => ("nodelay_off", "TCP_NODELAY", "0", off),
        (true, true) => ("corked", "TCP_CORK", "1", corked),
        (false, _) => ("nodelay_on", "TCP_NODELAY", "1", on),
    };
    let facts = share_of(those.len(), known.len());
    Some(evidence(agrees, id, (setting, value.into()), those.first()?, facts))
}

fn limits_sending(finding: &Finding, sockets: &[&Socket]) -> Option<StateEvidence> {
    let fixed: Vec<_> = sockets.iter().filter(|it| it.sndbuf_locked == Some(true)).collect();
    if let Some(socket) = fixed.iter().min_by_key(|it| it.sndbuf_bytes) {
        let mut facts = share_of(fixed.len(), sockets.len());
        facts.push(("sndbuf_bytes", Fact::Bytes(socket.sndbuf_bytes)));
        let value = socket.sndbuf_bytes.to_string();
        return Some(evidence(true, "sndbuf_fixed", ("SO_SNDBUF", value), socket, facts));
    }
    if let Some((socket, us)) = most(sockets, "tcpi_sndbuf_limited_us").filter(|&(_, us)| us > 0) {
        let facts = vec![("limited_ns", Fact::Ns(us.saturating_mul(1000)))];
        let setting = ("tcpi_sndbuf_limited", us.to_string());
        return Some(evidence(true, "sndbuf_limited", setting, socket, facts));
    }
    let ceiling = finding.facts.iter().find_map(|(name, fact)| match fact {
        Fact::Bytes(bytes) if *name == "ceiling_bytes" => Some(*bytes),
        _ => None,
    })?;
    let socket = sockets.iter().min_by_key(|it| it.sndbuf_bytes)?;
    let is_known = sockets.iter().all(|it| it.sndbuf_locked == Some(false));
    (is_known && socket.sndbuf_bytes > BUFFER_ROOM_FACTOR * ceiling).then(|| {
        let facts = vec![("sndbuf_bytes", Fact::Bytes(socket.sndbuf_bytes))];
        let value = socket.sndbuf_bytes.to_string();
        evidence(false, "sndbuf_grows", ("SO_SNDBUF", value), socket, facts)
    })
}

/// Returns the evidence of the kernel hook where senders wait for send buffer memory.
fn send_buffer_waits(sockets: &[&Socket]) -> Option<StateEvidence> {
    let waited: Vec<_> = sockets.iter().filter(|it| it.hooked.sndbuf_wait_ns > 0).collect();
    let socket = waited.iter().max_by_key(|it| it.hooked.sndbuf_wait_ns)?;
    let all_ns = waited.iter().map(|it| it.hooked.sndbuf_wait_ns).sum();
    let mut facts = share_of(waited.len(), sockets.len());
    facts.push(("waited_ns", Fact::Ns(all_ns)));
    let value = socket.hooked.sndbuf_wait_ns.to_string();
    Some(evidence(true, "sndbuf_waited", ("sndbuf_wait_ns", value), socket, facts))
}

/// Returns the evidence of the kernel hooks where data arrives and is read.
fn unread_time(sockets: &[&Socket]) -> Option<StateEvidence> {
    let late: Vec<_> =
        sockets.iter().filter(|it| it.hooked.unread_max_ns >= UNREAD_MIN_NS).collect();
    let socket = late.iter().max_by_key(|it| it.hooked.unread_max_ns)?;
    let mut facts = share_of(late.len(), sockets.len());
    facts.push(("unread_ns", Fact::Ns(late.iter().map(|it| it.hooked.unread_ns).sum())));
    facts.push(("unread_max_ns", Fact::Ns(socket.hooked.unread_max_ns)));
    let value = socket.hooked.unread_max_ns.to_string();
    Some(evidence(true, "lay_unread", ("unread_max_ns", value), socket, facts))
}

fn limits_window(receivers: &[&Socket], senders: &[&Socket]) -> Option<StateEvidence> {
    let fixed: Vec<_> = receivers.iter().filter(|it| it.rcvbuf_locked == Some(true)).collect();
    if let Some(socket) = fixed.iter().min_by_key(|it| it.rcvbuf_bytes) {
        let mut facts = share_of(fixed.len(), receivers.len());
        facts.push(("rcvbuf_bytes", Fact::Bytes(socket.rcvbuf_bytes)));
        let value = socket.rcvbuf_bytes.to_string();
        return Some(evidence(true, "rcvbuf_fixed", ("SO_RCVBUF", value), socket, facts));
    }
    let (socket, us) = most(senders, "tcpi_rwnd_limited_us")?;
    let (id, facts) = match us {
        0 => ("rwnd_open", Vec::new()),
        us => ("rwnd_limited", vec![("limited_ns", Fact::Ns(us.saturating_mul(1000)))]),
    };
    Some(evidence(us > 0, id, ("tcpi_rwnd_limited", us.to_string()), socket, facts))
}

/// Returns the socket with the greatest value of a `TCP_INFO` field, and that value.
fn most<'a>(sockets: &[&'a Socket], field: &str) -> Option<(&'a Socket, u64)> {
    let known = sockets.iter().filter_map(|it| Some((*it, it.tcp_info(field)?)));
    known.max_by_key(|&(_, value)| value)
}

/// Returns evidence about unread data in the receive queue, which supports the finding. An empty
/// queue is no evidence against it, since it shows nothing about an earlier moment.
fn leaves_unread(sockets: &[&Socket]) -> Option<StateEvidence> {
    let full: Vec<_> =
        sockets.iter().filter(|it| it.unread_bytes.is_some_and(|bytes| bytes > 0)).collect();
    let socket = full.iter().max_by_key(|it| it.unread_bytes)?;
    let unread = full.iter().filter_map(|it| it.unread_bytes).sum();
    let mut facts = share_of(full.len(), sockets.len());
    facts.push(("unread_bytes", Fact::Bytes(unread)));
    let value = socket.unread_bytes.unwrap_or(0).to_string();
    Some(evidence(true, "unread", ("receive queue", value), socket, facts))
}

/// Returns the sender's socket of the connection in the evidence.
fn own_socket<'a>(finding: &Finding, state: &'a State) -> Option<&'a Socket> {
    let (client, server) = finding.evidence_flow?;
    let (own, peer) = match finding.sender {
        Side::Client => (client, server),
        Side::Server => (server, client),
    };
    let is_it = |it: &&Socket| is_at(it.local, &own) && it.peer.is_some_and(|at| is_at(at, &peer));
    state.sockets.iter().find(is_it)
}

/// Returns the evidence of the kernel hook on retransmissions, which records their reason. If it
/// recorded nothing, this is no evidence against the finding: the hook may have been attached
/// later.
fn retransmission_reasons(finding: &Finding, state: &State) -> Option<StateEvidence> {
    let socket = own_socket(finding, state)?;
    let hooked = &socket.hooked;
    let (id, setting, count) = match finding.cause {
        Cause::RetransmissionTimeout => {
            ("sent_again_by_timer", "rto_segments", hooked.rto_segments)
        }
        _ => ("sent_again_fast", "fast_segments", hooked.fast_segments),
    };
    let facts = vec![("count", Fact::Count(count))];
    (count > 0).then(|| evidence(true, id, (setting, count.to_string()), socket, facts))
}

/// Returns the evidence of the sender's kernel counters for the connection in the evidence.
fn retransmission_counters(finding: &Finding, state: &State) -> Option<StateEvidence> {
    let socket = own_socket(finding, state)?;
    let count = socket.tcp_info("tcpi_total_retrans")?;
    let (id, facts) = match count {
        0 => ("not_retransmitted", Vec::new()),
        _ => ("retransmitted", vec![("count", Fact::Count(count))]),
    };
    Some(evidence(count > 0, id, ("tcpi_total_retrans", count.to_string()), socket, facts))
}

/// Returns the evidence of a listener whose queue is full, or was full. A listening socket counts
/// everything that it drops, including repeated SYNs; only `ListenOverflows`, which counts the
/// whole namespace, shows that connections were among them.
pub(super) fn overflows(server: Endpoint, state: &State) -> Option<StateEvidence> {
    let at = |socket: &&Socket| {
        let ip = socket.local.ip();
        socket.local.port() == server.port
            && (ip.is_unspecified() || ip.to_canonical() == server.ip())
    };
    let listeners = state.sockets.iter().filter(at).filter_map(|it| Some((it, it.listener?)));
    let is_full = |queue: &Listener| queue.accept_queue > queue.backlog;
    let (socket, queue) = listeners.max_by_key(|(it, queue)| (is_full(queue), it.drops))?;
    let netns = state.netns.iter().find(|netns| netns.name == socket.netns);
    let overflows = netns.map_or(0, |netns| netns.listen_overflows);
    let id = match is_full(&queue) {
        true => "queue_full",
        false if socket.drops > 0 && overflows > 0 => "listener_dropped",
        false => return None,
    };
    let mut facts =
        vec![("queued", Fact::Count(queue.accept_queue)), ("backlog", Fact::Count(queue.backlog))];
    if overflows > 0 {
        facts.push(("overflows", Fact::Count(overflows)));
    }
    let value = format!("{}/{}", queue.accept_queue, queue.backlog);
    Some(evidence(true, id, ("accept queue", value), socket, facts))
}
