//! Packets captured twice with different addresses on a host that translates them (NAT), before and
//! after the translation, as with `-i any` on a host with containers.
//!
//! Translation does not change sequence numbers (RFC 3022 §4.1), and both ends choose random
//! initial ones (RFC 6528): two segments with the same sequence and acknowledgment numbers, and the
//! same values of other fields that translation does not change, are the same segment, unless its
//! receiver has answered before the second passes. Their connection is reported once, with the
//! addresses that its client uses.

use super::Batch;
use crate::capture::FrameId;
use crate::model::{Fact, Observation};
use crate::wire::{Endpoint, FlowKey, Segment, SegmentFlags, TcpFlags};
use std::collections::HashSet;

/// Number of segments remembered; a power of two. Copies follow each other closely.
const SIGHTINGS: usize = 4096;

/// Maximum time until a host forwards a packet, ns.
const PASSED_ON_NS: u64 = 1_000_000_000;

/// Maximum number of connections known to be copies; after that they are recognised again when they
/// continue.
const COPIES_MAX: usize = 1 << 16;

/// One segment with data in 2^3 is examined, and the same ones whatever their addresses are.
const SAMPLED_BITS: u32 = 3;

/// Returns whether a segment is compared with others: all SYN-ACKs, so that a copy whose beginning
/// was captured is never reported, and some segments with data, for connections that began before
/// the capture.
pub(super) fn is_sample(segment: &Segment) -> bool {
    let mixed = (segment.seq ^ segment.ack.rotate_left(16)).wrapping_mul(0x9e37_79b1);
    segment.payload_len > 0 && mixed >> (32 - SAMPLED_BITS) == 0 || is_syn_ack(segment)
}

/// Returns whether `segment` is a SYN-ACK.
#[inline]
fn is_syn_ack(segment: &Segment) -> bool {
    segment.flags.has(TcpFlags::SYN | TcpFlags::ACK)
}

/// The fields of a segment that neither translation nor offload changes: numbers, timestamps, window,
/// and the identification of the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Print {
    numbers: [u32; 2],
    timestamps: [u32; 2],
    window: u16,
    ip_id: u16,
    facts: u32,
}

impl Print {
    fn of(segment: &Segment) -> Self {
        let lasting = SegmentFlags::TIMESTAMPS | SegmentFlags::IPV4;
        Self {
            numbers: [segment.seq, segment.ack],
            timestamps: [segment.tsval, segment.tsecr],
            window: segment.window,
            ip_id: segment.ip_id,
            facts: segment.facts.0 & lasting,
        }
    }

    /// Returns whether fields other than the numbers identify the segment. Some hosts, and many
    /// traffic generators, begin all connections with the same numbers.
    fn is_distinctive(&self) -> bool {
        self.numbers.iter().all(|&number| number != 0)
            && (self.ip_id != 0 || self.timestamps != [0; 2])
    }

    /// Returns the index of this print among the sightings.
    fn bucket(&self) -> usize {
        let [seq, ack] = self.numbers;
        let mixed = (seq ^ ack.rotate_left(7)).wrapping_mul(0x85eb_ca6b);
        (mixed >> 8) as usize % SIGHTINGS
    }
}

/// The last sighting of a segment.
#[derive(Clone, Copy)]
struct Sighting {
    print: Print,
    time_ns: u64,
    flow: FlowKey,
    flow_hash: u64,
    from_high: bool,
    /// Sequence number behind its end.
    end: u32,
}

impl Sighting {
    fn of(segment: &Segment) -> Self {
        Self {
            print: Print::of(segment),
            time_ns: segment.time_ns,
            flow: segment.flow,
            flow_hash: segment.flow_hash,
            from_high: segment.from_high(),
            end: segment.seq.wrapping_add(segment.seg_len()),
        }
    }

    /// Returns whether the peer acknowledges it in `segment` (modulo 2^32, RFC 9293 §3.4).
    fn is_answered_by(&self, segment: &Segment) -> bool {
        segment.flow == self.flow
            && segment.from_high() != self.from_high
            && segment.flags.has(TcpFlags::ACK)
            && segment.ack.wrapping_sub(self.end) as i32 >= 0
    }

    /// Returns whether `other` belongs to another connection with a different address: a
    /// translation on the path never changes ports alone.
    fn is_elsewhere(&self, other: &Self) -> bool {
        let addresses = |it: &Self| it.ends().map(|end| end.address);
        self.flow != other.flow && addresses(self) != addresses(other)
    }

    /// Returns the ends: source and destination.
    fn ends(&self) -> [Endpoint; 2] {
        let FlowKey { low, high } = self.flow;
        if self.from_high { [high, low] } else { [low, high] }
    }
}

/// Returns whether a segment of `batch` before the one with index `place` answers `sighting`.
fn is_answered(sighting: &Sighting, batch: &Batch, place: u32) -> bool {
    batch.before(place).take(SIGHTINGS).any(|segment| sighting.is_answered_by(segment))
}

/// Finds connections that were also captured with other addresses.
#[derive(Clone, Default)]
pub(crate) struct Translated {
    sightings: Vec<Option<Sighting>>,
    copies: HashSet<FlowKey>,
    /// The addresses of the first copy that was found: those of the excluded connection and those
    /// reported. An example with the server's address is preferred.
    example: Option<Changed>,
}

impl Translated {
    /// Examines the samples of a block, and records in `batch` which connections are copies.
    pub fn examine(&mut self, batch: &mut Batch) {
        for index in 0..batch.samples.len() {
            let place = batch.samples[index];
            let Some(segment) = batch.at(place) else { continue };
            self.forget_renewed(segment);
            if let Some(copy) = self.sighting(segment, |it| is_answered(it, batch, place)) {
                batch.take_copy(place, copy.flow, copy.flow_hash);
            }
        }
    }

    /// Examines the samples of a selection of frames; `answered` are those before which the same
    /// segment had been answered, as [`answered`](Self::answered) found in all frames.
    pub fn examine_selected(&mut self, batch: &mut Batch, answered: &HashSet<FrameId>) {
        for index in 0..batch.samples.len() {
            let place = batch.samples[index];
            let Some(&segment) = batch.at(place) else { continue };
            self.forget_renewed(&segment);
            if let Some(copy) = self.sighting(&segment, |_| answered.contains(&segment.frame)) {
                batch.take_copy(place, copy.flow, copy.flow_hash);
            }
        }
    }

    /// Examines the samples of a block of one capture. Returns the frames of those that had been seen
    /// with other addresses, and had been answered since.
    pub fn answered(&mut self, batch: &Batch) -> Vec<FrameId> {
        let mut answered = Vec::new();
        for &place in &batch.samples {
            let Some(segment) = batch.at(place) else { continue };
            self.sighting(segment, |it| {
                let is_answered = is_answered(it, batch, place);
                answered.extend(is_answered.then_some(segment.frame));
                is_answered
            });
        }
        answered
    }

    /// A new connection with the addresses of a copy is not known to be one.
    fn forget_renewed(&mut self, segment: &Segment) {
        if !self.copies.is_empty() && is_syn_ack(segment) {
            self.copies.remove(&segment.flow);
        }
    }

    /// Processes a segment; `is_answered` returns whether the receiver of an earlier one has answered
    /// it. Returns the sighting of the connection that it shows to be a copy, if there is one.
    fn sighting(
        &mut self,
        segment: &Segment,
        is_answered: impl FnOnce(&Sighting) -> bool,
    ) -> Option<Sighting> {
        let now = Sighting::of(segment);
        if self.sightings.is_empty() {
            self.sightings.resize(SIGHTINGS, None);
        }
        let kept = self.sightings.get_mut(now.print.bucket())?;
        let before = kept.replace(now)?;
        let elapsed_ns = now.time_ns.saturating_sub(before.time_ns);
        let is_same = before.print == now.print && now.print.is_distinctive();
        if !is_same || !now.is_elsewhere(&before) || elapsed_ns > PASSED_ON_NS {
            return None;
        }
        // A host passes a packet on before its receiver can answer it.
        if is_answered(&before) {
            return None;
        }
        // Segments from the client are first captured with its own addresses, segments to it last.
        let client_sent = !is_syn_ack(segment) && sent_by_client(&before, &now);
        let (counted, copy) = if client_sent { (before, now) } else { (now, before) };
        *kept = Some(counted);
        if self.copies.contains(&counted.flow) || self.copies.contains(&copy.flow) {
            return None;
        }
        if self.copies.len() >= COPIES_MAX {
            self.copies.clear();
        }
        self.copies.insert(copy.flow);
        let changed = Changed::between(&copy, &counted, client_sent);
        if self.example.is_none_or(|known| changed.is_server && !known.is_server) {
            self.example = Some(changed);
        }
        Some(copy)
    }

    /// Returns the addresses of a copy, if there is one.
    pub(super) fn example(&self) -> Option<Changed> {
        self.example
    }
}

/// Returns whether the sender of a segment seen twice is the client: the server usually has the
/// lower port number, and it is the same on both sides of most translations.
fn sent_by_client(before: &Sighting, now: &Sighting) -> bool {
    let least = |end: usize| before.ends()[end].port.min(now.ends()[end].port);
    least(1) < least(0)
}

/// The end whose address was changed: the server's, if both were.
#[derive(Clone, Copy, serde::Deserialize, serde::Serialize)]
pub(super) struct Changed {
    copy: Endpoint,
    counted: Endpoint,
    is_server: bool,
}

impl Changed {
    fn between(copy: &Sighting, counted: &Sighting, client_sent: bool) -> Self {
        let server = usize::from(client_sent);
        let is_server = copy.ends()[server] != counted.ends()[server];
        let end = if is_server { server } else { 1 - server };
        Self { copy: copy.ends()[end], counted: counted.ends()[end], is_server }
    }

    /// Returns the observation about so many excluded connections, of which this is an example.
    pub fn observation(&self, connections: u64) -> Option<Observation> {
        let facts = vec![
            ("connections", Fact::Count(connections)),
            ("copy", Fact::Text(self.copy.to_string())),
            ("told", Fact::Text(self.counted.to_string())),
        ];
        let frames = Vec::new();
        (connections > 0).then_some(Observation { id: "translated_copies", facts, frames })
    }
}
