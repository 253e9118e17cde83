//! A run divided into stages that an engine such as Spark can put on many machines, with the report
//! of one process.
//!
//! ```text
//! peek, plan  file ─► its number, by the time of its first frame
//! scatter     file ─► chunks for each bucket (the connections of a range of the flow hash),
//!                     chunks for control, totals
//! control     its chunks of all files ─► told: events that buckets apply; look-ups
//! bucket      its chunks of all files + told ─► partial: sums; rows of tables
//! merge       partials ─► partial
//! settle      partials, look-ups, totals ─► report
//! ```
//!
//! Everything that passes from stage to stage is a *blob*: opaque bytes that begin with the version
//! that wrote them and a digest of the options. A blob of another version, of other options or with
//! damaged content is refused ([`StageError`]), and never causes a panic.

/// What all stages of a run have to agree on.
#[derive(Clone)]
pub struct Run {}

impl Run {
    /// Describes a run with `options`, of which [`first_ns`](Options::first_ns) is that of the
    /// [`Plan`], and with so many buckets (1 to 65,536).
    ///
    /// # Errors
    /// [`StageError::TwoPlaces`]; [`StageError::Buckets`].
    pub fn new(options: Options, buckets: usize) -> Result<Self, StageError>;

    /// Reads file `number` of the plan, and iterates over its [`Piece`]s; each has up to 4 MiB (and a
    /// frame). A file that cannot be read, or not to its end, gives what was read, and its totals with
    /// the problem: this never fails.
    pub fn scatter(&self, number: u32, source: Source) -> Scatter;

    /// Examines the control chunks of all files, in any order.
    ///
    /// # Errors
    /// [`StageError`] if a blob is not one of this run.
    pub fn control(&self, chunks: Vec<Vec<u8>>) -> Result<Controlled, StageError>;

    /// Follows the connections of one bucket; `chunks` are those of this bucket of all files, in any
    /// order. Returns the partial. `rows` receives what `--parquet` writes, in an order that depends on
    /// the bucket alone; without it, the second pass that makes them is left out.
    ///
    /// # Errors
    /// [`StageError`] if a blob is not one of this run.
    pub fn bucket(
        &self,
        chunks: Vec<Vec<u8>>,
        told: &[u8],
        rows: Option<&mut dyn Rows>,
    ) -> Result<Vec<u8>, StageError>;

    /// The same for chunks that come in [order](order_of), of which only those are in memory that
    /// overlap in time.
    ///
    /// # Errors
    /// The same, and [`StageError::Unsorted`].
    pub fn bucket_in_order<'r>(
        &self,
        told: &[u8],
        rows: Option<&'r mut dyn Rows>,
    ) -> Result<Bucket<'r>, StageError>;

    /// Merges partials of different buckets.
    ///
    /// # Errors
    /// [`StageError`] if a blob is not one of this run.
    pub fn merge(&self, partials: &[Vec<u8>]) -> Result<Vec<u8>, StageError>;

    /// Returns the report (`report::json` makes it JSON): that of one process.
    ///
    /// # Errors
    /// [`StageError`] if a blob is not one of this run, or if one of a file or bucket is missing.
    pub fn settle(
        &self,
        partials: &[Vec<u8>],
        lookups: &[u8],
        totals: &[Vec<u8>],
    ) -> Result<Report, StageError>;
}

/// One file as seen by [`peek`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peeked {
    /// The path, as given.
    pub path: String,
    /// Size as stored, bytes, if known.
    pub stored_bytes: Option<u64>,
    /// Time of the first frame, ns since the Unix epoch; `None` if there is none.
    pub first_ns: Option<u64>,
    /// The reason why nothing of it can be read.
    pub problem: Option<String>,
}

/// The files of a run in the order of their numbers: by the time of their first frames, then by name;
/// those without frames and those that cannot be read come last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The files; the index is the number.
    pub files: Vec<Peeked>,
    /// Time of the first frame of all, ns; 0 if there is none.
    pub first_ns: u64,
}

/// Reads the beginning of a file (16 KiB, or one frame): its first time, or the problem with it. Files
/// may be peeked at anywhere, in any order.
pub fn peek(source: Source) -> Peeked;

/// Numbers files.
///
/// # Errors
/// [`StageError::TooManyFiles`]: more than 16,777,216.
pub fn plan(files: Vec<Peeked>) -> Result<Plan, StageError>;

/// What a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// [`Run::bucket`] of this number, 0 to the number of buckets - 1.
    Bucket(u32),
    /// [`Run::control`].
    Control,
    /// [`Run::settle`]: the totals of a file; the last piece of each, also of one that cannot be read.
    Totals,
}

/// A blob of [`Run::scatter`].
pub struct Piece {
    /// The stage that takes it.
    pub to: For,
    /// Position among the chunks of the same stage and bucket; see [`Run::bucket_in_order`].
    pub order: Order,
    /// The blob.
    pub bytes: Vec<u8>,
}

/// Order of chunks: of the time of their first frame (ns; the latest of its file up to there), then of
/// the number of the file, then of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    pub time_ns: u64,
    pub file: u32,
    pub number: u64,
}

/// Results of the control stage.
pub struct Controlled {
    /// Events that concern connections, for every bucket.
    pub told: Vec<u8>,
    /// Look-ups and sums, for [`Run::settle`].
    pub lookups: Vec<u8>,
}

/// The reason why a stage refuses its input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// A blob was written by another version of tcpwhy.
    #[error("…")]
    Version { theirs: String, ours: &'static str },
    /// A blob was written with other options or another number of buckets.
    #[error("…")]
    Options,
    /// A blob is not what the stage takes: of another stage, or of another bucket.
    #[error("…")]
    Stage { given: &'static str, wanted: &'static str },
    /// A blob is damaged.
    #[error("…")]
    Damaged { what: &'static str },
    /// A chunk that belongs before one that was already taken, or the same chunk again.
    #[error("…")]
    Unsorted,
    /// Blobs are missing, or were given twice.
    #[error("…")]
    Incomplete { what: String },
    /// The captures show two places.
    #[error("…")]
    TwoPlaces,
    /// The number of buckets is not supported.
    #[error("…")]
    Buckets { buckets: usize },
    /// More files than frame identifiers can express.
    #[error("…")]
    TooManyFiles { files: usize },
}
