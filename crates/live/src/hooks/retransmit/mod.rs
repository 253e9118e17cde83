//! Retransmissions by connection and kind.

use serde::Serialize;

use super::flow::{FLOW_BYTES, Fields, Flow};
use super::object::Object;

/// `struct retransmit_count` in retransmit.h.
const COUNT_BYTES: usize = 64;

/// Segments that one connection sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Retransmits {
    /// Flow of the connection, this host's end as the source.
    pub flow: Flow,
    /// Inode of the network namespace.
    pub netns: u32,
    /// Number of SYNs.
    pub syn: u64,
    /// Number of SYN-ACKs.
    pub syn_ack: u64,
    /// Segments sent again after a retransmission timeout: the first one, and those behind it that
    /// are sent again while the kernel recovers from it.
    pub timeout: u64,
    /// Segments sent again in fast recovery (duplicate ACKs, SACK, RACK).
    pub fast: u64,
    /// Tail-loss probes that sent a segment again (RFC 8985 §7).
    pub probe: u64,
    /// Segments sent again for another reason (a smaller MTU, a closed window).
    pub other: u64,
    /// The first, by `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
}

/// Reads all that was counted since the hook was attached.
pub(super) fn read(object: &Object) -> Vec<Retransmits> {
    let mut found = Vec::new();
    object.each::<FLOW_BYTES, COUNT_BYTES>("retransmits", |key, count| {
        let seen = Fields(key).seen();
        let mut count = Fields(count);
        found.extend(seen.flow.map(|flow| Retransmits {
            flow,
            netns: seen.netns,
            syn: count.u64(),
            syn_ack: count.u64(),
            timeout: count.u64(),
            fast: count.u64(),
            probe: count.u64(),
            other: count.u64(),
            first_ns: count.u64(),
            last_ns: count.u64(),
        }));
    });
    found
}

/// Removes what had no event since `before_ns`.
pub(super) fn forget(object: &mut Object, before_ns: u64) {
    object.forget::<FLOW_BYTES, COUNT_BYTES>("retransmits", before_ns);
}
