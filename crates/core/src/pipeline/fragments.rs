//! Packets put together from IP fragments, in place of the last of these to be captured.

use super::{Aside, Batch, Decoder};
use crate::capture::{Block, FrameEntry};
use crate::dns::{Carrier, DNS_PORT};
use crate::model::{Fact, Observation};
use crate::wire::{
    Datagram, DecodeCounts, DecodeError, Endpoint, Fragment, Packet, Reassembled, Reassembler,
    Reassembly, Segment, decode,
};

/// Joins the fragments of a capture, block after block.
#[derive(Clone)]
pub(crate) struct Joiner {
    decoder: Decoder,
    /// By place: packets are the same at both.
    reassemblers: [Reassembler; 2],
    /// What was wrong with fragments, and with the packets made of them.
    errors: DecodeCounts,
}

/// How the joining went.
pub(crate) struct Joined {
    pub errors: DecodeCounts,
    /// Packets that came in fragments, whether all of these were there or not.
    pub packets: u64,
    /// Those of which some were missing.
    pub incomplete: u64,
}

impl Joined {
    /// What to tell of it.
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

impl Joiner {
    /// Joins what `decoder` looks at.
    pub fn new(decoder: Decoder) -> Self {
        Self { decoder, reassemblers: Default::default(), errors: DecodeCounts::default() }
    }

    /// Puts what the fragments of a block complete into its `batch`, each in its place: a packet
    /// is there when the last of its fragments is.
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

    /// Ends all that is unfinished, and says how it went.
    pub fn finish(mut self) -> Joined {
        self.reassemblers.iter_mut().for_each(Reassembler::finish);
        let incomplete = self.reassemblers.iter().map(Reassembler::incomplete_count).sum();
        let mut errors = self.errors;
        (0..incomplete).for_each(|_| errors.add_error(DecodeError::FragmentIncomplete));
        let packets = self.reassemblers.iter().map(Reassembler::packet_count).sum();
        Joined { errors, packets, incomplete }
    }

    /// Takes the fragment in a frame. If it completes a segment, that is returned; what else it
    /// completes goes to `batch`.
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
            let carrier = Carrier::Beginning { id: fragment.id() };
            batch.asides.extend(self.decoder.datagram(&datagram, carrier));
        }
        let Some(mut whole) = self.insert(&fragment) else {
            batch.asides.extend(self.rest(&fragment));
            return None;
        };
        loop {
            let packet = whole.decode(&self.decoder.hasher, &mut segment);
            match packet {
                // In a tunnel, it may again be a fragment. Every round takes a packet that was in
                // the making, so there are no more rounds than fragments.
                Packet::Fragment(fragment) => whole = self.insert(&fragment)?,
                Packet::Tcp if self.decoder.wants(&segment.flow) => {
                    return Some((segment, whole));
                }
                Packet::Malformed(error) => {
                    self.errors.add_error(error);
                    return None;
                }
                other => {
                    self.decoder.keep(&other, batch);
                    return None;
                }
            }
        }
    }

    /// A later fragment of a datagram whose first one was not captured before it. It may be of a name
    /// server's answer.
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
        };
        self.decoder.datagram(&datagram, Carrier::Rest { id })
    }

    fn insert(&mut self, fragment: &Fragment<'_>) -> Option<Reassembled> {
        let place = self.decoder.sites.place(fragment.frame());
        match self.reassemblers[place].insert(fragment) {
            Reassembly::Complete(whole) => Some(whole),
            Reassembly::Pending => None,
            Reassembly::Refused(error) => {
                self.errors.add_error(error);
                None
            }
        }
    }
}
