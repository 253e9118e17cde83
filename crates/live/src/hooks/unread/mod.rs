//! Times for which received data lay unread until the application read them.

use serde::Serialize;

use super::flow::{FLOW_BYTES, Fields, Flow, HookedFlow};
use super::object::Object;

/// `struct unread_count` in unread.h.
const COUNT_BYTES: usize = 56;
/// `struct unread_socket`.
const SOCKET_BYTES: usize = FLOW_BYTES + 12 + COUNT_BYTES;

/// Time for which data lay unread in the receive queue of one socket. A wait lasts from the arrival
/// of data in an empty queue, or from a read that did not empty it, to the next read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// Flow of the connection, this host's end as the source.
    pub flow: Flow,
    /// Inode of the network namespace.
    pub netns: u32,
    /// The process that read last; `None` before the first read.
    pub pid: Option<u32>,
    /// Name of its thread.
    pub command: String,
    /// Reads that found data waiting.
    pub reads: u64,
    /// Sum of the waits: time during which data lay unread.
    pub total_ns: u64,
    /// The longest wait that ended.
    pub max_ns: u64,
    /// The last read, by `CLOCK_MONOTONIC`; 0 before the first.
    pub last_ns: u64,
    /// Time since when data have been unread, by `CLOCK_MONOTONIC`, ns; `None` if none are.
    pub since_ns: Option<u64>,
    /// The socket was closed with data in it that was never read.
    pub unread_at_close: bool,
}

/// Reads all that was measured since the hook was attached.
pub(super) fn read(object: &Object) -> Vec<Unread> {
    let mut found = Vec::new();
    object.each::<8, SOCKET_BYTES>("sockets", |_, socket| {
        let mut fields = Fields(socket);
        let seen = fields.seen();
        fields.u32();
        let since_ns = fields.u64();
        found.extend(parse(seen, (since_ns > 0).then_some(since_ns), &mut fields));
    });
    object.each::<FLOW_BYTES, COUNT_BYTES>("finished", |key, count| {
        found.extend(parse(Fields(key).seen(), None, &mut Fields(count)));
    });
    found
}

/// Removes what had no event since `before_ns`.
pub(super) fn forget(object: &mut Object, before_ns: u64) {
    object.forget::<FLOW_BYTES, COUNT_BYTES>("finished", before_ns);
}

fn parse(seen: HookedFlow, since_ns: Option<u64>, fields: &mut Fields<'_>) -> Option<Unread> {
    let flow = seen.flow?;
    let (pid, command) = (fields.u32(), fields.text::<16>());
    let unread_at_close = fields.u32() != 0;
    Some(Unread {
        flow,
        netns: seen.netns,
        pid: (pid > 0).then_some(pid),
        command,
        reads: fields.u64(),
        total_ns: fields.u64(),
        max_ns: fields.u64(),
        last_ns: fields.u64(),
        since_ns,
        unread_at_close,
    })
}
