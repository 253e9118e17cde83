//! Packets that a host shows twice with different addresses, because it translates them (NAT) and was
//! captured before and behind that, as with `-i any` where containers live.
//!
//! Translation leaves the sequence numbers as they are (RFC 3022 §4.1), and both ends choose where these
//! begin (RFC 6528): two segments that have the number of both ends in common, and the rest of what
//! no translation changes, are one. Their connection is told once, with the addresses that its client knows.

use super::Batch;
use crate::model::{Fact, Observation};
use crate::wire::{Endpoint, FlowKey, Segment, SegmentFlags, TcpFlags};
use std::collections::HashSet;

/// Segments remembered; a power of two. Copies follow each other closely.
const SIGHTINGS: usize = 4096;

/// A host passes a packet on within this, or drops it, ns.
const PASSED_ON_NS: u64 = 1_000_000_000;

/// Connections known to be copies; beyond it they are found again when they go on.
const COPIES_MAX: usize = 1 << 16;

/// One segment with data in 2^3 is looked at, the same ones whatever their addresses.
const SAMPLED_BITS: u32 = 3;

/// Whether a segment is compared with others: every SYN-ACK, so that nothing is told of a copy whose
/// beginning was captured, and some of those with data, for connections that were under way. (Captures of
/// one Ethernet interface, which are most, seldom show both sides of a translation: there the
/// SYN-ACKs have to do.)
pub(super) fn is_sample(segment: &Segment) -> bool {
    let mixed = (segment.seq ^ segment.ack.rotate_left(16)).wrapping_mul(0x9e37_79b1);
    segment.payload_len > 0 && mixed >> (32 - SAMPLED_BITS) == 0 || is_syn_ack(segment)
}

/// Whether `segment` begins what its server sends.
#[inline]
pub(super) fn is_syn_ack(segment: &Segment) -> bool {
    segment.flags.has(TcpFlags::SYN | TcpFlags::ACK)
}

/// What a translation leaves of a segment, and what offload does that cuts it: numbers, timestamps, and
/// the identification of the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Print {
    numbers: [u32; 2],
    timestamps: [u32; 2],
    ip_id: u16,
    facts: u16,
}

impl Print {
    fn of(segment: &Segment) -> Self {
        let lasting = SegmentFlags::TIMESTAMPS | SegmentFlags::IPV4;
        Self {
            numbers: [segment.seq, segment.ack],
            timestamps: [segment.tsval, segment.tsecr],
            ip_id: segment.ip_id,
            facts: segment.facts.0 & lasting,
        }
    }

    /// Whether more than its numbers says which segment it is. Some hosts, and many that only make traffic
    /// for a test, begin all connections with the same.
    fn is_telling(&self) -> bool {
        self.numbers.iter().all(|&number| number != 0)
            && (self.ip_id != 0 || self.timestamps != [0; 2])
    }

    /// Its place among the sightings.
    fn place(&self) -> usize {
        let [seq, ack] = self.numbers;
        let mixed = (seq ^ ack.rotate_left(7)).wrapping_mul(0x85eb_ca6b);
        (mixed >> 8) as usize % SIGHTINGS
    }
}

/// A segment, as it was seen last.
#[derive(Clone, Copy)]
struct Sighting {
    print: Print,
    time_ns: u64,
    flow: FlowKey,
    flow_hash: u64,
    from_high: bool,
}

impl Sighting {
    fn of(segment: &Segment) -> Self {
        Self {
            print: Print::of(segment),
            time_ns: segment.time_ns,
            flow: segment.flow,
            flow_hash: segment.flow_hash,
            from_high: segment.from_high(),
        }
    }

    /// Whether it is of another connection, and an end has another address: ports alone are not translated
    /// on the way.
    fn is_elsewhere(&self, other: &Self) -> bool {
        let addresses = |it: &Self| it.ends().map(|end| end.address);
        self.flow != other.flow && addresses(self) != addresses(other)
    }

    /// The ends: who sent it, and to whom.
    fn ends(&self) -> [Endpoint; 2] {
        let FlowKey { low, high } = self.flow;
        if self.from_high { [high, low] } else { [low, high] }
    }
}

/// Finds connections that are captured with other addresses as well.
#[derive(Clone, Default)]
pub(super) struct Translated {
    sightings: Vec<Option<Sighting>>,
    copies: HashSet<FlowKey>,
    /// The addresses of the first that was found: what is left out, and what is told. Servers' say more.
    example: Option<Changed>,
}

impl Translated {
    /// Looks at the samples of a block, and notes in `batch` which connections are copies.
    pub fn look(&mut self, batch: &mut Batch) {
        for index in 0..batch.samples.len() {
            let place = batch.samples[index];
            let Some(segment) = batch.at(place) else { continue };
            if !self.copies.is_empty() && is_syn_ack(segment) {
                self.copies.remove(&segment.flow);
            }
            if let Some(copy) = self.see(segment) {
                batch.take_copy(place, copy.flow, copy.flow_hash);
            }
        }
    }

    /// Takes a segment; answers which connection is a copy, if it shows that one is.
    fn see(&mut self, segment: &Segment) -> Option<Sighting> {
        let now = Sighting::of(segment);
        if self.sightings.is_empty() {
            self.sightings.resize(SIGHTINGS, None);
        }
        let kept = self.sightings.get_mut(now.print.place())?;
        let before = kept.replace(now)?;
        let elapsed_ns = now.time_ns.saturating_sub(before.time_ns);
        let is_same = before.print == now.print && now.print.is_telling();
        if !is_same || !now.is_elsewhere(&before) || elapsed_ns > PASSED_ON_NS {
            return None;
        }
        // What the client sends shows its own addresses first, what it is sent last.
        let client_sent = !is_syn_ack(segment) && sent_by_client(&before, &now);
        let (told, copy) = if client_sent { (before, now) } else { (now, before) };
        *kept = Some(told);
        if self.copies.contains(&told.flow) || self.copies.contains(&copy.flow) {
            return None;
        }
        if self.copies.len() >= COPIES_MAX {
            self.copies.clear();
        }
        self.copies.insert(copy.flow);
        let changed = Changed::between(&copy, &told, client_sent);
        if self.example.is_none_or(|known| changed.is_server && !known.is_server) {
            self.example = Some(changed);
        }
        Some(copy)
    }

    /// What to tell, where so many connections were left out.
    pub fn observation(&self, connections: u64) -> Option<Observation> {
        let example = self.example.filter(|_| connections > 0)?;
        let facts = vec![
            ("connections", Fact::Count(connections)),
            ("copy", Fact::Text(example.copy.to_string())),
            ("told", Fact::Text(example.told.to_string())),
        ];
        Some(Observation { id: "translated_copies", facts, frames: Vec::new() })
    }
}

/// Whether the sender of a segment that was seen twice is the client: services have the lower port
/// number more often than not, and a translation leaves one of two that is.
fn sent_by_client(before: &Sighting, now: &Sighting) -> bool {
    let least = |end: usize| before.ends()[end].port.min(now.ends()[end].port);
    least(1) < least(0)
}

/// The end of which the address changed: the server's, if both did.
#[derive(Clone, Copy)]
struct Changed {
    copy: Endpoint,
    told: Endpoint,
    is_server: bool,
}

impl Changed {
    fn between(copy: &Sighting, told: &Sighting, client_sent: bool) -> Self {
        let server = usize::from(client_sent);
        let is_server = copy.ends()[server] != told.ends()[server];
        let end = if is_server { server } else { 1 - server };
        Self { copy: copy.ends()[end], told: told.ends()[end], is_server }
    }
}
