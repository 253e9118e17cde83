//! The stage `control`: address translation, fragments, look-ups and whatever else concerns more than
//! one connection.

use super::blob::{self, Kind};
use super::chunk::{Reader, TIMES_MAX};
use super::weave::{self, Weave, Woven};
use super::{Controlled, Order, Run, StageError};
use crate::capture::{FrameId, LATEST_NS};
use crate::findings::Stamps;
use crate::pipeline::{self, Batch, Decoder, Found, Observed};
use crate::wire::{FlowHasher, FlowKey, IcmpError, Segment};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// An event that the control has found for a connection.
#[derive(serde::Deserialize, serde::Serialize)]
pub(super) enum Told {
    /// It is a copy of another with other addresses; with its flow hash.
    Copy(FlowKey, u64),
    /// An ICMP error about it, reassembled from fragments.
    Error(IcmpError),
    /// A segment reassembled from fragments, with its payload.
    Segment(Box<Segment>, Vec<u8>),
}

impl Told {
    /// Returns whether its lengths and times are those of a segment.
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Copy(..) => true,
            Self::Error(error) => error.time_ns <= LATEST_NS,
            Self::Segment(segment, payload) => {
                segment.captured_len as usize == payload.len()
                    && usize::from(segment.sack_count) <= segment.sack.len()
                    && segment.captured_len <= segment.payload_len
                    && segment.flow.low <= segment.flow.high
                    && segment.time_ns <= LATEST_NS
            }
        }
    }

    pub fn flow_hash(&self) -> u64 {
        match self {
            Self::Copy(_, hash) => *hash,
            Self::Error(error) => error.flow_hash,
            Self::Segment(segment, _) => segment.flow_hash,
        }
    }
}

/// Results for the stage `settle`.
#[derive(serde::Deserialize, serde::Serialize)]
pub(super) struct Lookups {
    /// Number of control chunks.
    pub chunks: u64,
    /// Buckets for which there are events.
    pub told: BTreeSet<u32>,
    pub found: Found,
    pub observed: Observed,
    /// Distances of the frames at the beginning of the input.
    pub stamps: Stamps,
    /// `true` if these are all frames.
    pub has_all_times: bool,
}

/// The stage in progress: takes chunks in the order of their first frames, and has only those in
/// memory that overlap in time.
pub struct Control {
    run: Run,
    weave: Weave,
    control: pipeline::Control,
    decoder: Decoder,
    batch: Batch,
    told: Vec<(Order, Told)>,
    chunks: u64,
    last_ns: u64,
    stamps: Stamps,
    /// Number of frames of each file so far.
    frames: BTreeMap<u32, u64>,
    has_all_times: bool,
}

impl Run {
    /// Examines the control chunks of all files, in any order; all of them are in memory.
    ///
    /// # Errors
    /// [`StageError`] if a blob is not one of this run.
    pub fn control(
        &self,
        chunks: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Controlled, StageError> {
        let mut stage = self.begin_control();
        for reader in weave::sorted(chunks, self.digest)? {
            stage.take_opened(reader)?;
        }
        stage.finish()
    }

    /// Begins the same for chunks that come in order.
    pub fn begin_control(&self) -> Control {
        let decoder = Decoder::new(&self.options);
        Control {
            run: self.clone(),
            weave: Weave::default(),
            control: pipeline::Control::new(decoder.clone(), &self.options),
            decoder,
            batch: Batch::default(),
            told: Vec::new(),
            chunks: 0,
            last_ns: 0,
            stamps: Stamps::default(),
            frames: BTreeMap::new(),
            has_all_times: true,
        }
    }
}

impl Control {
    /// Takes the next chunk by [`Piece::order`](super::Piece::order).
    ///
    /// # Errors
    /// [`StageError`] if it is not a control chunk of this run; [`StageError::Unsorted`].
    pub fn take(&mut self, chunk: Vec<u8>) -> Result<(), StageError> {
        self.take_opened(Reader::new(chunk, self.run.digest)?)
    }

    fn take_opened(&mut self, reader: Reader) -> Result<(), StageError> {
        self.run.check_bucket(&reader, self.run.buckets)?;
        self.chunks += 1;
        self.last_ns = reader.last_ns.max(self.last_ns);
        self.advance(reader.order)?;
        self.weave.push(reader)
    }

    /// Processes the frames before `end`.
    fn advance(&mut self, end: Order) -> Result<(), StageError> {
        while let Some(woven) = self.weave.next(end)? {
            for entry in &woven.block.entries {
                let frames = self.frames.entry(entry.id.file()).or_default();
                *frames += 1;
                // From here on, there are only some frames of this file.
                self.has_all_times &= *frames <= TIMES_MAX;
                if self.has_all_times {
                    self.stamps.take([entry.time_ns].into_iter());
                }
            }
            self.decoder.decode(woven.block, &mut self.batch);
            let answered: HashSet<FrameId> = woven.answered.iter().copied().collect();
            self.control.examine_selected(&mut self.batch, woven.block, &answered);
            tell(&self.batch, &woven, &mut self.told);
        }
        Ok(())
    }

    /// Returns what the control has found in all chunks.
    ///
    /// # Errors
    /// [`StageError`] if a chunk is damaged.
    pub fn finish(mut self) -> Result<Controlled, StageError> {
        self.advance(Order::END)?;
        let mut found = Found::default();
        self.control.end_at(self.last_ns);
        let observed = self.control.finish(&mut found);
        self.told.sort_by_key(|(order, _)| *order);
        let bucket_of = |(_, told): &(Order, Told)| self.run.bucket_of(told.flow_hash());
        let lookups = Lookups {
            chunks: self.chunks,
            told: self.told.iter().map(bucket_of).collect(),
            found,
            observed,
            stamps: self.stamps,
            has_all_times: self.has_all_times,
        };
        Ok(Controlled {
            told: blob::write(Kind::Told, self.run.digest, &self.told)?,
            lookups: blob::write(Kind::Lookups, self.run.digest, &lookups)?,
        })
    }
}

/// Adds what the batch says about connections to `told`, with the order of the frame that says it.
fn tell(batch: &Batch, woven: &Woven<'_>, told: &mut Vec<(Order, Told)>) {
    let copies = batch.copies().map(|(frame, flow, hash)| (frame, Told::Copy(flow, hash)));
    let errors = batch.errors().map(|error| (error.frame, Told::Error(*error)));
    let segments = batch.reassembled(woven.block).map(|(segment, payload)| {
        let told = Told::Segment(Box::new(*segment), payload.to_vec());
        (segment.frame, told)
    });
    let mut all = copies.chain(errors).chain(segments).peekable();
    if all.peek().is_none() {
        return;
    }
    let places = woven.block.entries.iter().map(|entry| entry.id).zip(woven.orders.iter().copied());
    let places: HashMap<FrameId, Order> = places.collect();
    told.extend(all.filter_map(|(frame, event)| Some((*places.get(&frame)?, event))));
}

impl Run {
    /// Returns the bucket of connections with this hash.
    pub(super) fn bucket_of(&self, flow_hash: u64) -> u32 {
        FlowHasher::shard(flow_hash, self.buckets as usize) as u32
    }

    /// Checks that a chunk is one of this bucket.
    pub(super) fn check_bucket(&self, reader: &Reader, wanted: u32) -> Result<(), StageError> {
        match reader.bucket {
            given if given == wanted => Ok(()),
            given => Err(StageError::Bucket { given, wanted }),
        }
    }
}
