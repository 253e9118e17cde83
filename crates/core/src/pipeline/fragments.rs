//! Packets reassembled from IP fragments, at the position of their last fragment.

use super::{Aside, Batch, Decoder};
use crate::capture::{Block, FrameEntry};
use crate::dns::{DNS_PORT, Transport};
use crate::model::{Fact, Observation};
use crate::wire::{
    Datagram, DecodeCounts, DecodeError, Endpoint, Fragment, Packet, Reassembled, Reassembler,
    Reassembly, Segment, decode,
};

/// Reassembles the fragments of a capture, block by block.
#[derive(Clone)]
pub(crate) struct FragmentJoiner {
    decoder: Decoder,
    /// Reassembler of each place: both places see the same packets.
    reassemblers: [Reassembler; 2],
    /// Errors of fragments, and of the packets reassembled from them.
    errors: DecodeCounts,
}

/// The result of reassembly.
#[derive(Default, serde::Deserialize, serde::Serialize)]
pub(crate) struct Joined {
    pub errors: DecodeCounts,
    /// Number of fragmented packets, complete or not.
    pub packets: u64,
    /// Number of incomplete packets.
    pub incomplete: u64,
}

impl Joined {
    /// Returns the observation to report.
    pub fn observation(&self) -> Option<Observation> {
        let facts = [("count", self.packets), ("incomplete", self.incomplete)];
        let facts = facts.into_iter().filter(|&(_, count)| count > 0);
        (self.packets > 0).then(|| Observation {
            id: "ip_fragments",
            facts: facts.map(|(name, count)| (name, Fact::Count(count))).collect(),
            frames: Vec::new(),
        })
    }
}

impl FragmentJoiner {
    /// Creates a joiner for the packets selected by `decoder`.
    pub fn new(decoder: Decoder) -> Self {
        Self { decoder, reassemblers: Default::default(), errors: DecodeCounts::default() }
    }

    /// Adds the packets completed by fragments of a block to its `batch`, each at the position of
    /// its last fragment.
    pub fn join(&mut self, block: &Block, batch: &mut Batch) {
        if !batch.asides.iter().any(|aside| matches!(aside, Aside::Fragment(_))) {
            return;
        }
        let mut joined = Vec::new();
        for aside in std::mem::take(&mut batch.asides) {
            let Aside::Fragment(entry) = aside else {
                batch.asides.push(aside);
                continue;
            };
            if let Some((segment, whole)) = self.fragment(block, &entry, batch) {
                joined.push((entry.offset, segment, whole));
            }
        }
        batch.join(joined);
    }

    /// Ends all incomplete packets, and returns the result.
    pub fn finish(mut self) -> Joined {
        self.reassemblers.iter_mut().for_each(Reassembler::finish);
        let incomplete = self.reassemblers.iter().map(Reassembler::incomplete_count).sum();
        let mut errors = self.errors;
        errors.add_errors(DecodeError::FragmentIncomplete, incomplete);
        let packets = self.reassemblers.iter().map(Reassembler::packet_count).sum();
        Joined { errors, packets, incomplete }
    }

    /// Processes the fragment in a frame. Returns the segment that it completes, if there is one;
    /// other completed packets are added to `batch`.
    fn fragment(
        &mut self,
        block: &Block,
        entry: &FrameEntry,
        batch: &mut Batch,
    ) -> Option<(Segment, Reassembled)> {
        let mut segment = Segment::default();
        let frame = block.frame(entry)?;
        let Packet::Fragment(fragment) = decode(&frame, &self.decoder.hasher, &mut segment) else {
            return None;
        };
        if let Some(datagram) = fragment.beginning() {
            let carrier = Transport::Beginning { id: fragment.id() };
            batch.asides.extend(self.decoder.datagram(&datagram, carrier));
        }
        let Some(mut whole) = self.insert(&fragment) else {
            batch.asides.extend(self.rest(&fragment));
            return None;
        };
        loop {
            let packet = whole.decode(&self.decoder.hasher, &mut segment);
            match packet {
                // The packet in a tunnel may again be a fragment. Every round uses up one
                // incomplete packet, so the number of rounds is bounded by that of fragments.
                Packet::Fragment(fragment) => whole = self.insert(&fragment)?,
                Packet::Tcp if self.decoder.wants(&segment.flow) => {
                    return Some((segment, whole));
                }
                Packet::Malformed(error) => {
                    self.errors.add_error(error, entry.id);
                    return None;
                }
                other => {
                    self.decoder.keep(&other, batch);
                    return None;
                }
            }
        }
    }

    /// Returns a later fragment of a datagram whose first one was not captured before it. It may
    /// belong to a name server's answer.
    fn rest(&self, fragment: &Fragment<'_>) -> Option<Aside> {
        let (source, destination, id) = fragment.rest()?;
        let place = self.decoder.sites.place(fragment.frame());
        if !self.reassemblers[place].lacks_beginning(fragment) {
            return None;
        }
        let datagram = Datagram {
            time_ns: fragment.time_ns(),
            frame: fragment.frame(),
            source: Endpoint { port: DNS_PORT, ..source },
            destination,
            payload: &[],
            payload_len: 0,
            ttl: 0,
        };
        self.decoder.datagram(&datagram, Transport::LaterFragment { id })
    }

    fn insert(&mut self, fragment: &Fragment<'_>) -> Option<Reassembled> {
        let place = self.decoder.sites.place(fragment.frame());
        match self.reassemblers[place].insert(fragment) {
            Reassembly::Complete(whole) => Some(whole),
            Reassembly::Pending => None,
            Reassembly::Refused(error) => {
                self.errors.add_error(error, fragment.frame());
                None
            }
        }
    }
}
