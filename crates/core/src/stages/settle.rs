//! The stages `merge` and `settle`: from the results of all buckets to the report.

use super::blob::{self, Kind};
use super::control::Lookups;
use super::{Run, StageError};
use crate::capture::InputSummary;
use crate::findings::Stamps;
use crate::model::Report;
use crate::pipeline::{Found, Overview};
use crate::tables::{self, Rows};
use std::collections::BTreeMap;

/// Sums of one bucket, or of several.
#[derive(serde::Deserialize, serde::Serialize)]
pub(super) struct Partial {
    /// Number of chunks of each bucket.
    pub chunks: BTreeMap<u32, u64>,
    pub found: Found,
}

/// What is known of all frames of one capture.
#[derive(serde::Deserialize, serde::Serialize)]
pub(super) struct Totals {
    pub number: u32,
    pub input: InputSummary,
    pub overview: Overview,
    /// Buckets that have chunks of it, each with their number; the control is the one behind the
    /// buckets.
    pub chunks: Vec<(u32, u64)>,
}

impl Run {
    /// Merges partials of different buckets into one.
    ///
    /// # Errors
    /// [`StageError`] if a blob is not one of this run, or two are of the same bucket.
    pub fn merge(&self, partials: &[impl AsRef<[u8]>]) -> Result<Vec<u8>, StageError> {
        let mut partial = self.merged(partials)?;
        partial.found.tally.settle();
        blob::write(Kind::Partial, self.digest, &partial)
    }

    fn merged(&self, partials: &[impl AsRef<[u8]>]) -> Result<Partial, StageError> {
        let read = partials.iter().map(|it| blob::read(it.as_ref(), Kind::Partial, self.digest));
        let mut partials: Vec<Partial> = read.collect::<Result<_, _>>()?;
        // The order of one process is that of the shards.
        partials.sort_by_key(|partial| partial.chunks.keys().next().copied());
        let mut all = Partial { chunks: BTreeMap::new(), found: Found::default() };
        for Partial { chunks, found } in partials {
            for (bucket, count) in chunks {
                let what = || format!("partials of bucket {bucket}");
                complete(what, 1 + u64::from(all.chunks.contains_key(&bucket)), 1)?;
                all.chunks.insert(bucket, count);
            }
            all.found.merge(found);
        }
        Ok(all)
    }

    /// Returns the report, as one process gives it; `report::json` writes it. `lookups` is the result
    /// of the control, and `totals` are those of each file.
    ///
    /// # Errors
    /// [`StageError`] if a blob is not one of this run, and [`StageError::Incomplete`] if a chunk was
    /// lost or a blob is missing.
    pub fn settle(
        &self,
        partials: &[impl AsRef<[u8]>],
        lookups: &[u8],
        totals: &[impl AsRef<[u8]>],
    ) -> Result<Report, StageError> {
        let Partial { chunks, mut found } = self.merged(partials)?;
        let lookups: Lookups = blob::read(lookups, Kind::Lookups, self.digest)?;
        let read = totals.iter().map(|it| blob::read(it.as_ref(), Kind::Totals, self.digest));
        let mut totals: Vec<Totals> = read.collect::<Result<_, _>>()?;
        totals.sort_by_key(|it| it.number);
        self.check_complete(&chunks, &lookups, &totals)?;
        let mut overview = Overview::default();
        totals.iter().for_each(|it| overview.merge(&it.overview));
        let stamps = |Totals { overview: it, .. }: &Totals| (it.first_ns, it.last_ns, it.stamps);
        let stamps: Vec<_> = totals.iter().map(stamps).collect();
        let is_shown = lookups.has_all_times || lookups.stamps.are_measured();
        let beginning = lookups.stamps;
        overview.stamps = if is_shown { beginning } else { Stamps::together(&beginning, &stamps) };
        found.merge(lookups.found);
        found.overview = overview;
        let inputs: Vec<InputSummary> = totals.into_iter().map(|it| it.input).collect();
        let mut report = found.report(&self.options, lookups.observed, &inputs);
        self.options.narrow(&mut report);
        Ok(report)
    }

    /// Passes on the look-ups in `lookups`, the result of the control, as rows. Of more than 16,384 there
    /// may be only the first.
    ///
    /// # Errors
    /// [`StageError`] if it is not a blob of this run.
    pub fn lookup_rows(&self, lookups: &[u8], rows: &mut impl Rows) -> Result<(), StageError> {
        let lookups: Lookups = blob::read(lookups, Kind::Lookups, self.digest)?;
        tables::give(rows, lookups.found.lookups, &self.options.window(), &self.options.sites);
        Ok(())
    }

    /// Checks that every chunk was taken once, and every file has its totals.
    fn check_complete(
        &self,
        taken: &BTreeMap<u32, u64>,
        lookups: &Lookups,
        totals: &[Totals],
    ) -> Result<(), StageError> {
        let mut wanted: BTreeMap<u32, u64> = BTreeMap::new();
        for (file, of_file) in totals.iter().enumerate() {
            let given = totals.iter().filter(|it| it.number as usize == file).count();
            if given != 1 {
                complete(|| format!("totals of file {file}"), given as u64, 1)?;
            }
            for (bucket, count) in &of_file.chunks {
                let sum = wanted.entry(*bucket).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        let of_control = wanted.remove(&self.buckets).unwrap_or(0);
        complete(|| "chunks of the control".into(), lookups.chunks, of_control)?;
        let told = lookups.told.iter().find(|bucket| !taken.contains_key(bucket));
        if let Some(bucket) = told {
            complete(|| format!("partials of bucket {bucket}"), 0, 1)?;
        }
        let mut buckets = wanted.keys().chain(taken.keys());
        buckets.try_for_each(|bucket| {
            let count = |of: &BTreeMap<u32, u64>| of.get(bucket).copied().unwrap_or(0);
            complete(|| format!("chunks of bucket {bucket}"), count(taken), count(&wanted))
        })
    }
}

fn complete(what: impl Fn() -> String, given: u64, wanted: u64) -> Result<(), StageError> {
    if given == wanted {
        Ok(())
    } else {
        Err(StageError::Incomplete { what: what(), given, wanted })
    }
}
