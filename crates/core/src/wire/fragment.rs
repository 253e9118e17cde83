//! IP fragments (RFC 791 §3.2, RFC 8200 §4.5) and packets reassembled from them.

use super::ip::{Network, protocol};
use super::walk::{Origin, Output, ParsedHeader, Walk};
use super::{Datagram, Endpoint, FlowHasher, Packet, Segment, SegmentFlags, udp};
use crate::capture::FrameId;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Identifies the packet of a fragment (RFC 791 §2.3: addresses, protocol and identification).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FragmentKey {
    source: u128,
    destination: u128,
    id: u32,
    protocol: u8,
}

impl FragmentKey {
    pub fn new(network: &Network, id: u32, protocol: u8) -> Self {
        Self { source: network.source, destination: network.destination, id, protocol }
    }
}

/// A part of an IP packet.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    pub(super) origin: Origin,
    pub(super) network: Network,
    pub(super) key: FragmentKey,
    /// The offset in the packet's payload, bytes.
    pub(super) offset: u32,
    /// `true` if more fragments follow it.
    pub(super) more: bool,
    /// The captured bytes.
    pub(super) payload: &'a [u8],
    /// Length on the wire, bytes.
    pub(super) payload_len: u32,
}

impl Fragment<'_> {
    /// Returns the frame that carried it.
    pub fn frame(&self) -> FrameId {
        self.origin.frame
    }

    /// Returns a hash that is the same for copies of it, and most likely differs for other
    /// fragments with the same key.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.offset, self.more, self.payload).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the DNS datagram of which it is the first part, if it contains the ports.
    pub fn beginning(&self) -> Option<Datagram<'_>> {
        if self.offset > 0 || self.network.protocol != protocol::UDP {
            return None;
        }
        let end = (self.payload_len as usize).max(self.payload.len());
        let facts = self.network.facts;
        let bytes = self.payload;
        let mut walk = Walk { origin: self.origin, bytes, at: 0, end, claimed_end: 0, facts };
        match udp::datagram(&mut walk, &self.network) {
            Ok(ParsedHeader::Done(Packet::Udp(datagram))) => Some(datagram),
            _ => None,
        }
    }

    /// Returns source and destination, with port 0, and the identification of the UDP datagram of
    /// which it is a later part, which does not contain the ports.
    pub fn rest(&self) -> Option<(Endpoint, Endpoint, u32)> {
        let Network { source, destination, protocol, .. } = self.network;
        let is_rest = self.offset > 0 && protocol == protocol::UDP;
        let hosts = (Endpoint::at(source, 0), Endpoint::at(destination, 0));
        is_rest.then_some((hosts.0, hosts.1, self.key.id))
    }

    /// Returns the identification of its packet.
    pub fn id(&self) -> u32 {
        self.key.id
    }

    /// Returns the capture time, ns.
    pub fn time_ns(&self) -> u64 {
        self.origin.time_ns
    }

    /// Returns whether the packet could be of interest.
    pub(super) fn is_worth_reassembly(&self) -> bool {
        use protocol::*;
        matches!(
            self.network.protocol,
            TCP | UDP | IPV4 | IPV6 | GRE | AUTHENTICATION | DESTINATION_OPTIONS
        )
    }
}

/// A packet reassembled from fragments, or its first fragment if the others never came.
#[derive(Clone, Debug)]
pub struct Reassembled {
    pub(super) origin: Origin,
    pub(super) network: Network,
    /// The bytes after the IP header, up to the first that was not captured.
    pub bytes: Vec<u8>,
    /// Length on the wire, bytes.
    pub(super) len: u32,
}

impl Reassembled {
    /// Decodes it like a frame; time and frame are those of the last fragment to arrive. A
    /// segment's `payload_offset` counts from the start of [`bytes`](Self::bytes).
    pub fn decode(&self, hasher: &FlowHasher, segment: &mut Segment) -> Packet<'_> {
        const OF_THE_FRAME: u32 = SegmentFlags::TUNNELLED | SegmentFlags::REASSEMBLED;
        let walk = Walk {
            origin: self.origin,
            bytes: &self.bytes,
            at: 0,
            end: (self.len as usize).max(self.bytes.len()),
            claimed_end: 0,
            facts: self.network.facts & OF_THE_FRAME,
        };
        walk.decode_network(self.network, Output { hasher, segment })
    }
}
