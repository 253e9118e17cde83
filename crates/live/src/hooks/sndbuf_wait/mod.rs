//! Waits of a sender for memory of its send buffer.
//!
//! Seen: a blocking sender that sleeps inside its send call (also by `sendfile` and `splice`), for
//! the send buffer or for the limit of `TCP_NOTSENT_LOWAT`; a sender that does not block and is
//! refused, wholly (`EAGAIN`) or in part, until it calls again, which includes the time that it
//! spends elsewhere. Not seen: a sender that only polls and does not call before there is room;
//! UDP; a wait that has not ended yet; of two threads that send on one socket the wait of the one
//! that is overtaken. Needs the tracepoint `tcp_sendmsg_locked` (Linux 6.15).

use serde::Serialize;

use super::flow::{FLOW_BYTES, Fields, Flow, HookedFlow};
use super::object::Object;

/// `struct sndbuf_count` in sndbuf_wait.h.
const COUNT_BYTES: usize = 88;
/// `struct sndbuf_socket`.
const SOCKET_BYTES: usize = FLOW_BYTES + 44 + COUNT_BYTES;

/// Waits of one socket's sender for memory of its send buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SndbufWait {
    /// Flow of the connection, this host's end as the source.
    pub flow: Flow,
    /// Inode of the network namespace.
    pub netns: u32,
    /// The process that sent last.
    pub pid: u32,
    /// Name of its thread.
    pub command: String,
    /// Size of the send buffer at the last wait as `SO_SNDBUF` returns it: twice the requested size.
    pub sndbuf_bytes: u32,
    /// Number of send calls.
    pub calls: u64,
    /// Number of times that a send call slept until memory was free.
    pub waits: u64,
    /// Sum of these waits, ns.
    pub wait_ns: u64,
    /// The longest of these waits, ns.
    pub wait_max_ns: u64,
    /// Send calls of a non-blocking sender that took no data or only a part.
    pub refusals: u64,
    /// Sum of the times from those to the next send call.
    pub refused_ns: u64,
    /// The longest of these waits, ns.
    pub refused_max_ns: u64,
    /// End of the last wait, by `CLOCK_MONOTONIC`.
    pub last_ns: u64,
}

/// Reads all sockets that had to wait since the hook was attached.
pub(super) fn read(object: &Object) -> Vec<SndbufWait> {
    let mut found = Vec::new();
    object.each::<8, SOCKET_BYTES>("sockets", |_, socket| {
        let mut fields = Fields(socket);
        let seen = fields.seen();
        // Fields of the call that is under way.
        fields.take::<44>();
        found.extend(parse(seen, &mut fields));
    });
    object.each::<FLOW_BYTES, COUNT_BYTES>("finished", |key, count| {
        found.extend(parse(Fields(key).seen(), &mut Fields(count)));
    });
    found.retain(|socket| socket.waits + socket.refusals > 0);
    found
}

/// Removes what had no event since `before_ns`.
pub(super) fn forget(object: &mut Object, before_ns: u64) {
    object.forget::<FLOW_BYTES, COUNT_BYTES>("finished", before_ns);
}

fn parse(seen: HookedFlow, fields: &mut Fields<'_>) -> Option<SndbufWait> {
    Some(SndbufWait {
        flow: seen.flow?,
        netns: seen.netns,
        pid: fields.u32(),
        command: fields.text::<16>(),
        sndbuf_bytes: fields.u32(),
        calls: fields.u64(),
        waits: fields.u64(),
        wait_ns: fields.u64(),
        wait_max_ns: fields.u64(),
        refusals: fields.u64(),
        refused_ns: fields.u64(),
        refused_max_ns: fields.u64(),
        last_ns: fields.u64(),
    })
}
