//! A run divided into stages that an engine such as Spark can put on many machines, with the report
//! of one process.
//!
//! ```text
//! peek, Plan  file ─► its number, by the time of its first frame
//! scatter     file ─► chunks for the buckets (ranges of the flow hash) and the control; totals
//! control     its chunks of all files ─► told: events that buckets apply; look-ups
//! bucket      its chunks of all files, told ─► partial: sums; rows of tables
//! merge       partials ─► partial
//! settle      partials, look-ups, totals ─► report
//! ```
//!
//! What passes from stage to stage are *blobs*: opaque bytes that begin with the version that wrote
//! them and a digest of the options. A blob of another version or of other options is refused with the
//! reason ([`StageError`]), and so is one that was cut or changed.
//!
//! The report is that of a [`CaptureSet`](crate::capture::CaptureSet) of the same files in one process,
//! byte by byte, because chunks have raw frames and every step is that of one process: order by time,
//! decoder, trackers, passes over the sums. It can differ in three respects:
//!
//! - Bounds of memory apply to each shard of a bucket. With a number of buckets that divides
//!   [`SHARDS`](crate::pipeline::SHARDS) they are the same; with more buckets there is more room. Which
//!   of more than 16,384 look-ups are joined with exchanges depends on the blocks that are read. A
//!   report says when a bound was reached.
//! - Whether the receiver of a segment had answered before it was captured a second time, with other
//!   addresses, is looked for in each file; one process looks in all files where they overlap. It
//!   matters only if the same segment with other addresses is no copy.
//! - A file that overlaps with 1,000 others is read too.

mod blob;
mod bucket;
mod chunk;
mod control;
mod error;
mod scatter;
mod settle;
mod weave;

/// For fuzz targets: a blob that a stage takes, with any content.
#[doc(hidden)]
pub mod internals {
    pub use super::blob::sealed;
}

pub use blob::VERSION;
pub use bucket::Bucket;
pub use control::Control;
pub use error::StageError;
pub use scatter::Scatter;

use crate::capture::Source;
use crate::pipeline::Options;

/// Maximum number of buckets. The chunks of all of them are being written at the same time.
pub const BUCKETS_MAX: usize = 1 << 12;

/// What all stages of a run have to agree on.
#[derive(Clone)]
pub struct Run {
    options: Options,
    buckets: u32,
    digest: u64,
}

impl Run {
    /// Describes a run with `options`, whose [`first_ns`](Options::first_ns) is that of the
    /// [`Plan`](crate::capture::Plan), and with so many buckets, up to [`BUCKETS_MAX`].
    ///
    /// # Errors
    /// [`StageError::TwoPlaces`]; [`StageError::Buckets`].
    pub fn new(options: Options, buckets: usize) -> Result<Self, StageError> {
        if options.sites.are_two() {
            return Err(StageError::TwoPlaces);
        }
        if !(1..=BUCKETS_MAX).contains(&buckets) {
            return Err(StageError::Buckets { buckets });
        }
        let Options { floors, show_values, seed, filter, log_settling, all, first_ns, .. } =
            &options;
        let known = (floors, show_values, seed, filter, log_settling, all, first_ns);
        let digest = blob::digest_of_options(&(
            known,
            options.is_translated,
            options.disable_fast_path,
            buckets,
        ))?;
        Ok(Self { options, buckets: buckets as u32, digest })
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Reads file `number` of the plan; the iterator returns its pieces as they are complete. A file that
    /// cannot be read to its end gives what can be read, and totals with the problem.
    pub fn scatter(&self, number: u32, source: Source) -> Scatter {
        Scatter::new(self, number, source)
    }
}

/// The stage that a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// [`Run::bucket`], of this number from 0 on.
    Bucket(u32),
    /// [`Run::control`].
    Control,
    /// [`Run::settle`]: the totals, the last piece of every file.
    Totals,
}

/// A blob of the stage `scatter`. Chunks have up to 4 MiB, and the frame with which they exceed that;
/// with more than 11 buckets, up to their part of 48 MiB.
pub struct Piece {
    /// The stage that takes it.
    pub to: For,
    /// Its place among the chunks of its bucket.
    pub order: Order,
    /// The blob.
    pub bytes: Vec<u8>,
}

/// The place of a frame in the input, and of a chunk, which is that of its first frame.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Deserialize,
    serde::Serialize,
)]
pub struct Order {
    /// The latest time of its file up to the frame, ns since the Unix epoch: frames of a file stay in
    /// their order.
    pub time_ns: u64,
    /// Number of the file.
    pub file: u32,
    /// Number of the frame in it.
    pub number: u64,
}

impl Order {
    /// Behind all frames.
    const END: Self = Self { time_ns: u64::MAX, file: u32::MAX, number: u64::MAX };

    /// Returns the place right behind a frame.
    fn behind(self) -> Self {
        Self { number: self.number.saturating_add(1), ..self }
    }
}

/// Results of the stage `control`.
#[derive(Clone, Debug)]
pub struct Controlled {
    /// What every bucket is told.
    pub told: Vec<u8>,
    /// Look-ups and observations, for [`Run::settle`].
    pub lookups: Vec<u8>,
}
