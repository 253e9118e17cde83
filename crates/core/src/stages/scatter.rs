//! The stage `scatter`: distributes the frames of one capture to buckets and to the control.

use super::blob::{self, Kind};
use super::chunk::{TIMES_MAX, Writer};
use super::settle::Totals;
use super::{For, Order, Piece, Run};
use crate::capture::{Block, CaptureSet, FrameId, Source};
use crate::pipeline::{Batch, Decoder, Overview, Translated, is_arp};
use crate::wire::FlowHasher;
use std::collections::{HashSet, VecDeque};
use std::iter::Peekable;

/// Maximum bytes of all chunks being written, and of one.
const ALL_BYTES_MAX: usize = 48 << 20;
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// Reads one capture; an iterator over its pieces.
pub struct Scatter {
    run: u64,
    /// Number of the capture.
    number: u32,
    capture: CaptureSet,
    decoder: Decoder,
    /// `None` if copies of connections with other addresses are not looked for.
    translated: Option<Translated>,
    block: Block,
    batch: Batch,
    overview: Overview,
    /// Latest time so far, ns.
    latest_ns: u64,
    frames: u64,
    /// Those of the buckets.
    buckets: Vec<Outlet>,
    control: Outlet,
    /// Length from which a chunk is complete, bytes.
    chunk_bytes: usize,
    ready: VecDeque<Piece>,
    is_over: bool,
}

/// Where chunks of one bucket, or of the control, are written.
struct Outlet {
    to: For,
    writer: Writer,
}

impl Outlet {
    /// Takes the chunk, if there are frames in it; `latest_ns` is the latest time so far.
    fn take(&mut self, latest_ns: u64) -> Option<Piece> {
        let (order, bytes) = self.writer.take(latest_ns)?;
        Some(Piece { to: self.to, order, bytes })
    }
}

impl Scatter {
    pub(super) fn new(run: &Run, number: u32, source: Source) -> Self {
        let outlet = |to, bucket| Outlet { to, writer: Writer::new(run.digest, bucket) };
        let buckets = (0..run.buckets).map(|bucket| outlet(For::Bucket(bucket), bucket));
        Self {
            run: run.digest,
            number,
            capture: CaptureSet::one_of(source, number),
            decoder: Decoder::new(&run.options),
            translated: (!run.options.is_translated).then(Translated::default),
            block: Block::default(),
            batch: Batch::default(),
            overview: Overview::default(),
            latest_ns: 0,
            frames: 0,
            buckets: buckets.collect(),
            control: outlet(For::Control, run.buckets),
            chunk_bytes: (ALL_BYTES_MAX / (run.buckets as usize + 1)).min(CHUNK_BYTES_MAX),
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    /// Distributes the next block; returns `false` at the end.
    fn advance(&mut self) -> bool {
        // The only error is that nothing can be read, which is among the problems of the input.
        if !self.capture.next_block(&mut self.block).unwrap_or(false) {
            return false;
        }
        self.decoder.decode(&self.block, &mut self.batch);
        self.overview.take(&self.batch, &self.block);
        self.distribute();
        true
    }

    /// Sends each frame of the block to the bucket of its connection, and to the control if it
    /// concerns more than one connection.
    fn distribute(&mut self) {
        let Self { block, batch, buckets, control, ready, chunk_bytes, .. } = self;
        let answered = self.translated.as_mut().map(|it| it.answered(batch)).unwrap_or_default();
        let answered: HashSet<FrameId> = answered.into_iter().collect();
        let has_arp = batch.has_non_ip();
        let mut errors: Vec<_> = batch.errors().map(|it| (it.frame, it.flow_hash)).collect();
        errors.sort_unstable();
        let mut errors = errors.into_iter().peekable();
        let mut asides = batch.frames_aside().peekable();
        let mut samples = batch.sampled_frames().peekable();
        let mut segments = batch.decoded().iter().peekable();
        for entry in &block.entries {
            let Some(frame) = block.frame(entry) else { continue };
            self.frames += 1;
            self.latest_ns = self.latest_ns.max(entry.time_ns);
            let (time_ns, number) = (self.latest_ns, entry.id.number());
            let order = Order { time_ns, file: self.number, number };
            let segment = segments.next_if(|segment| segment.frame == entry.id);
            let of_error = errors.next_if(|(frame, _)| *frame == entry.id).map(|(_, hash)| hash);
            if let Some(hash) = segment.map(|segment| segment.flow_hash).or(of_error) {
                let bucket = FlowHasher::shard(hash, buckets.len());
                let outlet = &mut buckets[bucket];
                outlet.writer.push(order, entry, frame.bytes, false);
                if outlet.writer.len() >= *chunk_bytes {
                    ready.extend(outlet.take(self.latest_ns));
                }
            }
            let is_sample = is_next(&mut samples, entry.id);
            let is_aside = is_next(&mut asides, entry.id) || has_arp && is_arp(&frame);
            let needed = match (is_aside, segment.filter(|_| is_sample)) {
                (true, _) => frame.bytes,
                // Its headers show what a sample is compared by.
                (false, Some(segment)) => {
                    let headers = segment.payload_offset.saturating_sub(entry.offset) as usize;
                    frame.bytes.get(..headers).unwrap_or(frame.bytes)
                }
                // One more shows that there are more.
                (false, None) if self.frames <= TIMES_MAX + 1 => &[],
                (false, None) => continue,
            };
            let is_answered = is_sample && answered.contains(&entry.id);
            control.writer.push(order, entry, needed, is_answered);
            if control.writer.len() >= *chunk_bytes {
                ready.extend(control.take(self.latest_ns));
            }
        }
    }

    /// Completes all chunks and the totals.
    fn finish(&mut self) {
        let mut chunks = Vec::new();
        for outlet in self.buckets.iter_mut().chain([&mut self.control]) {
            self.ready.extend(outlet.take(self.latest_ns));
            if outlet.writer.written > 0 {
                chunks.push((outlet.writer.bucket, outlet.writer.written));
            }
        }
        let input = self.capture.inputs().first().cloned().unwrap_or_default();
        let overview = std::mem::take(&mut self.overview);
        let totals = Totals { number: self.number, input, overview, chunks };
        // A blob that could not be written is refused as damaged.
        let totals = blob::write(Kind::Totals, self.run, &totals).unwrap_or_default();
        let order = Order { time_ns: self.latest_ns, file: self.number, number: self.frames };
        self.ready.push_back(Piece { to: For::Totals, order, bytes: totals });
    }
}

fn is_next(frames: &mut Peekable<impl Iterator<Item = FrameId>>, frame: FrameId) -> bool {
    let mut is_next = false;
    while frames.next_if_eq(&frame).is_some() {
        is_next = true;
    }
    is_next
}

impl Iterator for Scatter {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while self.ready.is_empty() && !self.is_over {
            if !self.advance() {
                self.is_over = true;
                self.finish();
            }
        }
        self.ready.pop_front()
    }
}
