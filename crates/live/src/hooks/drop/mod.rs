//! Packets that the kernel drops, by reason, place and flow.

use std::collections::BTreeMap;

use serde::Serialize;

use super::flow::{FLOW_BYTES, Fields, Flow};
use super::object::Object;
use super::symbols::Functions;

/// `struct drop_key` in drop.h.
const KEY_BYTES: usize = FLOW_BYTES + 12;
/// `struct drop_count` in drop.h.
const COUNT_BYTES: usize = 48;

/// Packets of one flow that the kernel dropped for one reason in one function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drop {
    /// The kernel's name for the reason, without `SKB_DROP_REASON_`; its number where the running
    /// kernel has no name for it.
    pub reason: String,
    /// Function of the kernel; `None` where its symbols cannot be read.
    pub function: Option<String>,
    /// The ends of the packet; `None` if it was no IP packet, or if there were too many flows.
    pub flow: Option<Flow>,
    /// Protocol number of IP: 6 is TCP, 17 is UDP; 0 unknown.
    pub protocol: u8,
    /// Ethernet's number for the protocol: 0x0806 is ARP; 0 unknown.
    pub ethertype: u16,
    /// Inode of the network namespace; 0 unknown.
    pub netns: u32,
    /// Number of packets. A packet of segmentation offload counts once.
    pub packets: u64,
    /// Number of bytes of these packets.
    pub bytes: u64,
    /// Number of TCP packets that open a connection.
    pub syns: u64,
    /// Number of TCP packets with payload.
    pub with_data: u64,
    /// The first, by `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
}

/// Reads all that was counted since the hook was attached.
pub(super) fn read(
    object: &Object,
    reasons: &BTreeMap<u32, String>,
    functions: &Functions,
) -> Vec<Drop> {
    let mut found = Vec::new();
    for map in ["drops", "places"] {
        object.each::<KEY_BYTES, COUNT_BYTES>(map, |key, count| {
            found.push(parse(key, count, reasons));
        });
    }
    functions.learn(found.iter().map(|(location, _)| *location));
    let named = found.into_iter().map(|(location, mut drop)| {
        drop.function = functions.name(location);
        drop
    });
    named.collect()
}

/// Removes the entries without an event since `before_ns`.
pub(super) fn forget(object: &mut Object, before_ns: u64) {
    object.forget::<KEY_BYTES, COUNT_BYTES>("drops", before_ns);
    object.forget::<KEY_BYTES, COUNT_BYTES>("places", before_ns);
}

fn parse(
    key: &[u8; KEY_BYTES],
    count: &[u8; COUNT_BYTES],
    reasons: &BTreeMap<u32, String>,
) -> (u64, Drop) {
    let mut key = Fields(key);
    let seen = key.seen();
    let reason = key.u32();
    let name = reasons.get(&reason).map(|name| name.trim_start_matches("SKB_DROP_REASON_"));
    let mut count = Fields(count);
    let drop = Drop {
        reason: name.map_or_else(|| reason.to_string(), str::to_owned),
        function: None,
        flow: seen.flow,
        protocol: seen.protocol,
        ethertype: seen.ethertype,
        netns: seen.netns,
        packets: count.u64(),
        bytes: count.u64(),
        syns: count.u64(),
        with_data: count.u64(),
        first_ns: count.u64(),
        last_ns: count.u64(),
    };
    (key.u64(), drop)
}
