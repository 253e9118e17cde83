//! The stage `bucket`: follows the connections of one range of the flow hash.

use super::blob::{self, Kind};
use super::chunk::Reader;
use super::control::Told;
use super::settle::Partial;
use super::weave::{self, Weave};
use super::{Order, Run, StageError};
use crate::pipeline::{Batch, Decoder, Event, Found, SHARDS, Shard};
use crate::tables::{Connections, Rows};
use crate::wire::FlowHasher;
use std::vec;

/// The stage in progress: takes chunks in the order of their first frames, and has only those in
/// memory that overlap in time.
pub struct Bucket<R> {
    run: Run,
    bucket: u32,
    weave: Weave,
    decoder: Decoder,
    batch: Batch,
    shards: Vec<Shard>,
    told: std::iter::Peekable<vec::IntoIter<(Order, Told)>>,
    /// The second pass, which makes rows.
    rows: Option<Connections<R>>,
    chunks: u64,
}

impl Run {
    /// Follows the connections of `bucket`. Its chunks come in any order; all of them are in memory.
    /// Returns the partial. `rows` receives what `--parquet` writes of these connections; without it
    /// there is no second pass.
    ///
    /// # Errors
    /// [`StageError`] if a blob is not one of this run and bucket.
    pub fn bucket<R: Rows>(
        &self,
        bucket: u32,
        chunks: impl IntoIterator<Item = Vec<u8>>,
        told: &[u8],
        rows: Option<R>,
    ) -> Result<(Vec<u8>, Option<R>), StageError> {
        let mut stage = self.begin_bucket(bucket, told, rows)?;
        for reader in weave::sorted(chunks, self.digest)? {
            stage.take_opened(reader)?;
        }
        stage.finish()
    }

    /// Begins the same for chunks that come in order.
    ///
    /// # Errors
    /// [`StageError`] if `told` is not a blob of this run, or there is no such bucket.
    pub fn begin_bucket<R: Rows>(
        &self,
        bucket: u32,
        told: &[u8],
        rows: Option<R>,
    ) -> Result<Bucket<R>, StageError> {
        if bucket >= self.buckets {
            return Err(StageError::Bucket { given: bucket, wanted: self.buckets - 1 });
        }
        let mut told: Vec<(Order, Told)> = blob::read(told, Kind::Told, self.digest)?;
        if !told.iter().all(|(_, told)| told.is_valid()) {
            return Err(StageError::Damaged { what: "told" });
        }
        told.retain(|(_, told)| self.bucket_of(told.flow_hash()) == bucket);
        Ok(Bucket {
            run: self.clone(),
            bucket,
            weave: Weave::default(),
            decoder: Decoder::new(&self.options),
            batch: Batch::default(),
            shards: (0..SHARDS).map(|_| Shard::new(&self.options)).collect(),
            told: told.into_iter().peekable(),
            rows: rows.map(|rows| Connections::new(&self.options, rows)),
            chunks: 0,
        })
    }
}

impl<R: Rows> Bucket<R> {
    /// Takes the next chunk by [`Piece::order`](super::Piece::order).
    ///
    /// # Errors
    /// [`StageError`] if it is not a chunk of this run and bucket; [`StageError::Unsorted`].
    pub fn take(&mut self, chunk: Vec<u8>) -> Result<(), StageError> {
        self.take_opened(Reader::new(chunk, self.run.digest)?)
    }

    fn take_opened(&mut self, reader: Reader) -> Result<(), StageError> {
        self.run.check_bucket(&reader, self.bucket)?;
        self.chunks += 1;
        self.advance(reader.order)?;
        self.weave.push(reader)
    }

    /// Ends all connections. Returns the partial, and the receiver of the rows.
    ///
    /// # Errors
    /// [`StageError`] if a chunk is damaged.
    pub fn finish(mut self) -> Result<(Vec<u8>, Option<R>), StageError> {
        self.advance(Order::END)?;
        let mut found = Found::default();
        for shard in self.shards {
            shard.finish_into(&mut found);
        }
        found.tally.settle();
        let partial = Partial { chunks: [(self.bucket, self.chunks)].into(), found };
        let partial = blob::write(Kind::Partial, self.run.digest, &partial)?;
        Ok((partial, self.rows.map(Connections::finish)))
    }

    /// Processes the frames and events before `end`.
    fn advance(&mut self, end: Order) -> Result<(), StageError> {
        loop {
            let event = self.told.peek().map(|(order, _)| order.behind());
            let until = event.map_or(end, |event| event.min(end));
            while let Some(woven) = self.weave.next(until)? {
                self.decoder.decode(woven.block, &mut self.batch);
                for (index, shard) in self.shards.iter_mut().enumerate() {
                    shard.take(index, &self.batch, woven.block);
                }
                if let Some(rows) = &mut self.rows {
                    rows.take(&self.batch, woven.block);
                }
            }
            let is_due = |(order, _): &(Order, Told)| order.behind() <= end;
            match self.told.next_if(is_due) {
                Some((_, told)) => self.hear(&told),
                None => return Ok(()),
            }
        }
    }

    fn hear(&mut self, told: &Told) {
        let (event, payload): (_, &[u8]) = match told {
            Told::Copy(flow, hash) => (Event::Copy(flow, *hash), &[]),
            Told::Error(error) => (Event::Error(error), &[]),
            Told::Segment(segment, payload) => (Event::Segment(segment), payload),
        };
        let hash = told.flow_hash();
        self.shards[FlowHasher::shard(hash, SHARDS)].take_event(&event, payload);
        if let Some(rows) = &mut self.rows {
            rows.take_event(hash, &event, payload);
        }
    }
}
