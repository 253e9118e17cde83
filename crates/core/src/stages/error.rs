//! The reasons why a stage refuses its input.

/// The reason why a stage refuses its input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// A blob was written by another version of tcpwhy.
    #[error(
        "a blob was written by tcpwhy {theirs}, and this is {ours}: run all stages with one version"
    )]
    Version {
        /// The version that wrote it.
        theirs: String,
        /// The version that reads it.
        ours: &'static str,
    },
    /// A blob was written with other options, another seed or another number of buckets.
    #[error("a blob was written with other options: give all stages of a run the same ones")]
    Options,
    /// A blob is for another stage.
    #[error("a blob for the stage `{given}` was given to the stage `{wanted}`")]
    Stage {
        /// The stage that it is for.
        given: &'static str,
        /// The stage that it was given to.
        wanted: &'static str,
    },
    /// A chunk belongs to another bucket.
    #[error("a chunk of bucket {given} was given to bucket {wanted}")]
    Bucket {
        /// The bucket that it is for.
        given: u32,
        /// The bucket that it was given to.
        wanted: u32,
    },
    /// A blob is damaged.
    #[error("a blob is damaged ({what}): it was cut or changed on its way")]
    Damaged {
        /// The part that contradicts itself.
        what: &'static str,
    },
    /// A chunk that belongs before one that was already taken, or the same chunk again.
    #[error(
        "the chunks of a bucket are not in order, or one was given twice: sort them by their order"
    )]
    Unsorted,
    /// Blobs of a part of the run are missing, or were given twice.
    #[error("{what}: {given} of {wanted} blobs were given")]
    Incomplete {
        /// The part of the run.
        what: String,
        /// Number of blobs that were given.
        given: u64,
        /// Number of blobs that there are.
        wanted: u64,
    },
    /// The captures were taken at two places.
    #[error(
        "captures of two places cannot be joined in stages: diagnose each place in a run of its own, \
         or all of them in one process"
    )]
    TwoPlaces,
    /// The number of buckets is not supported.
    #[error("{buckets} buckets are not possible: choose 1 to {max}, such as four for each core",
        max = super::BUCKETS_MAX)]
    Buckets {
        /// The number.
        buckets: usize,
    },
    /// A result is too large for a blob.
    #[error("a result cannot be written as a blob")]
    Unwritable,
}
