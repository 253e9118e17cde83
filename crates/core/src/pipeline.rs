//! The whole way from blocks of frames to a report, cut so that a caller can run its parts on
//! as many threads as it likes and always gets the same answer.
//!
//! A block goes three steps: [`Decoder::decode`] (any order, any thread), [`Control::take`] in
//! order (little work), then [`Shard::take`] for each shard, in order. A connection always falls
//! into the same shard. [`Analysis::run`] takes these steps on the calling thread, [`Pass`] on
//! as many as are lent to it.

mod pass;
mod schedule;

pub use pass::{GoOn, Pass};

use crate::capture::{Block, CaptureError, CaptureSet, InputSummary};
use crate::cause::{self, Floors, Tally};
use crate::report::Report;
use crate::tcp::Tracker;
use crate::wire::{DecodeCounts, FlowHasher, Packet, Segment, decode};

/// Shards, whatever the number of threads, so that it does not show in the answer.
pub const SHARDS: usize = 16;

/// What a caller may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// From where on findings are worth a reader's time.
    pub floors: Floors,
    /// Seed of the flow hash; the answer does not depend on it.
    pub seed: u64,
}

/// The segments of one block by shard.
#[derive(Default)]
pub struct Batch {
    shards: [Vec<Segment>; SHARDS],
    counts: DecodeCounts,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// Decodes blocks.
#[derive(Clone)]
pub struct Decoder {
    hasher: FlowHasher,
}

impl Decoder {
    /// Decodes all frames of `block` into `batch`, which is cleared first.
    pub fn decode(&self, block: &Block, batch: &mut Batch) {
        batch.shards.iter_mut().for_each(Vec::clear);
        batch.counts = DecodeCounts::default();
        batch.first_ns = None;
        let mut segment = Segment::default();
        for (frame, entry) in block.frames().zip(&block.entries) {
            batch.first_ns.get_or_insert(frame.time_ns);
            batch.last_ns = batch.last_ns.max(frame.time_ns);
            let packet = decode(&frame, &self.hasher, &mut segment);
            batch.counts.add(&packet);
            if let Packet::Tcp = packet {
                segment.rebase(entry.offset);
                batch.shards[FlowHasher::shard(segment.flow_hash, SHARDS)].push(segment);
            }
        }
    }
}

/// The connections of one shard.
#[derive(Default)]
pub struct Shard {
    tracker: Tracker,
    tally: Tally,
}

impl Shard {
    /// Takes shard `index` of a block's segments.
    pub fn take(&mut self, index: usize, batch: &Batch, block: &Block) {
        for segment in &batch.shards[index] {
            let start = segment.payload_offset as usize;
            let payload = block.bytes.get(start..start + segment.captured_len as usize);
            self.tracker.segment(segment, payload.unwrap_or(&[]), &mut self.tally);
        }
    }
}

/// What concerns no single connection.
#[derive(Default)]
pub struct Control {
    counts: DecodeCounts,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Control {
    /// Takes the next block.
    pub fn take(&mut self, batch: &Batch) {
        self.counts.merge(&batch.counts);
        self.first_ns = match (self.first_ns, batch.first_ns) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.last_ns = self.last_ns.max(batch.last_ns);
    }
}

/// A diagnosis under way.
pub struct Analysis {
    options: Options,
    decoder: Decoder,
    control: Control,
    shards: Vec<Shard>,
}

impl Analysis {
    /// Begins.
    pub fn new(options: Options) -> Self {
        let decoder = Decoder { hasher: FlowHasher::new(options.seed) };
        Self {
            options,
            decoder,
            control: Control::default(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    /// Runs a whole capture on the calling thread, as long as `go_on` says so after each block.
    /// Answers whether it came to the end.
    ///
    /// # Errors
    /// [`CaptureError`] where nothing can be read.
    pub fn run(
        &mut self,
        capture: &mut CaptureSet,
        go_on: GoOn<'_>,
    ) -> Result<bool, CaptureError> {
        let (mut block, mut batch) = (Block::default(), Batch::default());
        while capture.next_block(&mut block)? {
            self.decoder.decode(&block, &mut batch);
            self.control.take(&batch);
            for (index, shard) in self.shards.iter_mut().enumerate() {
                shard.take(index, &batch, &block);
            }
            if !go_on(capture) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends every connection and says what was found.
    pub fn finish(self, inputs: &[InputSummary]) -> Report {
        let mut report = Report { inputs: inputs.to_vec(), ..Report::default() };
        let mut tally = Tally::default();
        for mut shard in self.shards {
            shard.tracker.finish(&mut shard.tally);
            report.totals.segments += shard.tracker.segments;
            tally.merge(shard.tally);
        }
        report.totals.decode_errors = self.control.counts;
        report.totals.first_ns = self.control.first_ns.unwrap_or(0);
        report.totals.last_ns = self.control.last_ns;
        cause::assemble(tally, &self.options.floors, &mut report);
        report
    }
}
