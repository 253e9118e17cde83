//! Packets put together from IP fragments, in place of the last of these to be captured.

use super::{Aside, Batch, Decoder, SHARDS};
use crate::capture::{Block, FrameEntry};
use crate::wire::{
    DecodeCounts, DecodeError, FlowHasher, Fragment, Packet, Reassembled, Reassembler, Reassembly,
    Segment, decode,
};

/// Joins the fragments of a capture, block after block.
pub(crate) struct Joiner {
    decoder: Decoder,
    reassembler: Reassembler,
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

impl Joiner {
    /// Joins what `decoder` looks at.
    pub fn new(decoder: Decoder) -> Self {
        Self { decoder, reassembler: Reassembler::default(), errors: DecodeCounts::default() }
    }

    /// Puts what the fragments of a block complete into its `batch`, each in its place: a packet
    /// is there when the last of its fragments is.
    pub fn join(&mut self, block: &Block, batch: &mut Batch) {
        if !batch.asides.iter().any(|aside| matches!(aside, Aside::Fragment(_))) {
            return;
        }
        let mut joined: [Vec<(u32, Segment)>; SHARDS] = Default::default();
        for aside in std::mem::take(&mut batch.asides) {
            let Aside::Fragment(entry) = aside else {
                batch.asides.push(aside);
                continue;
            };
            if let Some(segment) = self.fragment(block, &entry, batch) {
                let shard = FlowHasher::shard(segment.flow_hash, SHARDS);
                joined[shard].push((entry.offset, segment));
            }
        }
        let places = batch.shards.iter_mut().zip(joined);
        places
            .filter(|(_, joined)| !joined.is_empty())
            .for_each(|(all, joined)| merge(all, joined));
    }

    /// Ends all that is unfinished, and says how it went.
    pub fn finish(mut self) -> Joined {
        self.reassembler.finish();
        let incomplete = self.reassembler.incomplete_count();
        let mut errors = self.errors;
        (0..incomplete).for_each(|_| errors.add_error(DecodeError::FragmentIncomplete));
        Joined { errors, packets: self.reassembler.packet_count(), incomplete }
    }

    /// Takes the fragment in a frame. If it completes a segment, that is returned; what else it
    /// completes goes to `batch`.
    fn fragment(
        &mut self,
        block: &Block,
        entry: &FrameEntry,
        batch: &mut Batch,
    ) -> Option<Segment> {
        let mut segment = Segment::default();
        let frame = block.frame(entry)?;
        let Packet::Fragment(fragment) = decode(&frame, &self.decoder.hasher, &mut segment) else {
            return None;
        };
        let mut whole = self.insert(&fragment)?;
        loop {
            let packet = whole.decode(&self.decoder.hasher, &mut segment);
            match packet {
                // In a tunnel, it may again be a fragment. Every round takes a packet that was in
                // the making, so there are no more rounds than fragments.
                Packet::Fragment(fragment) => whole = self.insert(&fragment)?,
                Packet::Tcp if self.decoder.wants(&segment.flow) => {
                    return Some(batch.keep(segment, &whole));
                }
                Packet::Malformed(error) => {
                    self.errors.add_error(error);
                    return None;
                }
                other => {
                    batch.asides.extend(self.decoder.aside(&other));
                    return None;
                }
            }
        }
    }

    fn insert(&mut self, fragment: &Fragment<'_>) -> Option<Reassembled> {
        match self.reassembler.insert(fragment) {
            Reassembly::Complete(whole) => Some(whole),
            Reassembly::Pending => None,
            Reassembly::Refused(error) => {
                self.errors.add_error(error);
                None
            }
        }
    }
}

/// Puts joined segments, with the offsets of the frames that completed them, among a block's own.
fn merge(segments: &mut Vec<Segment>, joined: Vec<(u32, Segment)>) {
    let mut joined = joined.into_iter().peekable();
    let mut all = Vec::with_capacity(segments.len() + joined.len());
    for segment in segments.drain(..) {
        while let Some((_, earlier)) = joined.next_if(|(at, _)| *at < segment.payload_offset) {
            all.push(earlier);
        }
        all.push(segment);
    }
    all.extend(joined.map(|(_, segment)| segment));
    *segments = all;
}
