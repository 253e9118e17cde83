//! The stage `scatter`: distributes the frames of one capture to buckets and to the control.

use super::blob::{self, Kind};
use super::chunk::{Mark, Target, Writer};
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

/// Number of frames at the beginning of each capture whose times the control gets: enough to see
/// whether the times of the whole input were measured.
pub(super) const TIMES_MAX: u64 = 512;

/// Reads one capture; an iterator over its pieces.
pub struct Scatter {
    run: u64,
    number: u32,
    capture: CaptureSet,
    decoder: Decoder,
    /// `None` if copies of connections with other addresses are not looked for.
    translated: Option<Translated>,
    block: Block,
    batch: Batch,
    overview: Overview,
    /// Latest time so far, ns.
    key_ns: u64,
    frames: u64,
    /// Those of the buckets, then that of the control.
    targets: Vec<Target>,
    writers: Vec<Writer>,
    chunk_bytes: usize,
    ready: VecDeque<Piece>,
    is_over: bool,
}

impl Scatter {
    pub(super) fn new(run: &Run, number: u32, source: Source) -> Self {
        let writers = run.buckets as usize + 1;
        let target = |bucket| Target { run: run.digest, bucket };
        Self {
            run: run.digest,
            number,
            capture: CaptureSet::one_of(source, number),
            decoder: Decoder::new(&run.options),
            translated: (!run.options.is_translated).then(Translated::default),
            block: Block::default(),
            batch: Batch::default(),
            overview: Overview::default(),
            key_ns: 0,
            frames: 0,
            targets: (0..=run.buckets).map(target).collect(),
            writers: (0..writers).map(|_| Writer::default()).collect(),
            chunk_bytes: (ALL_BYTES_MAX / writers).min(CHUNK_BYTES_MAX),
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

    fn distribute(&mut self) {
        let Self { block, batch, writers, targets, .. } = self;
        let control = writers.len() - 1;
        let answered = self.translated.as_mut().map(|it| it.answered(batch)).unwrap_or_default();
        let answered: HashSet<FrameId> = answered.into_iter().collect();
        let has_arp = batch.has_non_ip();
        let buckets = control;
        let mut errors: Vec<_> =
            batch.errors().map(|error| (error.frame, error.flow_hash)).collect();
        errors.sort_unstable();
        let mut errors = errors.into_iter().peekable();
        let mut asides = batch.frames_aside().peekable();
        let mut samples = batch.sampled_frames().peekable();
        let mut segments = batch.decoded().iter().peekable();
        for entry in &block.entries {
            self.frames += 1;
            self.key_ns = self.key_ns.max(entry.time_ns);
            let order =
                Order { time_ns: self.key_ns, file: self.number, number: entry.id.number() };
            let Some(frame) = block.frame(entry) else { continue };
            let segment = segments.next_if(|segment| segment.frame == entry.id);
            let of_error = errors.next_if(|(frame, _)| *frame == entry.id).map(|(_, hash)| hash);
            if let Some(hash) = segment.map(|segment| segment.flow_hash).or(of_error) {
                let bucket = FlowHasher::shard(hash, buckets);
                let mark = Mark::default();
                writers[bucket].push(&targets[bucket], order, entry, frame.bytes, mark);
                if writers[bucket].len() >= self.chunk_bytes {
                    let taken = writers[bucket].take(&targets[bucket], self.key_ns);
                    self.ready.extend(taken.map(|it| piece(For::Bucket(bucket as u32), it)));
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
                (false, None) if self.frames <= TIMES_MAX => &[],
                (false, None) => continue,
            };
            let mark = Mark {
                time_only: !is_aside && !is_sample,
                answered: is_sample && answered.contains(&entry.id),
            };
            writers[control].push(&targets[control], order, entry, needed, mark);
            if writers[control].len() >= self.chunk_bytes {
                let taken = writers[control].take(&targets[control], self.key_ns);
                self.ready.extend(taken.map(|it| piece(For::Control, it)));
            }
        }
    }

    /// Completes all chunks and the totals.
    fn finish(&mut self) {
        let control = self.writers.len() - 1;
        let mut chunks = Vec::new();
        for (bucket, (writer, target)) in self.writers.iter_mut().zip(&self.targets).enumerate() {
            let to = if bucket == control { For::Control } else { For::Bucket(bucket as u32) };
            self.ready.extend(writer.take(target, self.key_ns).map(|it| piece(to, it)));
            if writer.written > 0 {
                chunks.push((bucket as u32, writer.written));
            }
        }
        let input = self.capture.inputs().first().cloned().unwrap_or_default();
        let overview = std::mem::take(&mut self.overview);
        let totals = Totals { number: self.number, input, overview, chunks };
        // A blob that could not be written is refused as damaged.
        let totals = blob::write(Kind::Totals, self.run, &totals).unwrap_or_default();
        let order = Order { time_ns: self.key_ns, file: self.number, number: self.frames };
        self.ready.push_back(piece(For::Totals, (order, totals)));
    }
}

fn piece(to: For, (order, bytes): (Order, Vec<u8>)) -> Piece {
    Piece { to, order, bytes }
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
