//! The common parts of all blobs: a header, and a digest of the content.
//!
//! The digest finds every accidental change. It is no signature: the sums in a partial are believed.
//! Frames in chunks, and the events for a bucket, are checked like those of a file.

use super::{Run, StageError};
use crate::wire::digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the program and of the blobs: blobs of one version have one format.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");

const MAGIC: [u8; 6] = *b"tcpwhy";

/// The content of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Chunk,
    Told,
    Lookups,
    Totals,
    Partial,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Chunk, Self::Told, Self::Lookups, Self::Totals, Self::Partial];

    fn name(self) -> &'static str {
        match self {
            Self::Chunk => "bucket, as a chunk",
            Self::Told => "bucket, as told",
            Self::Lookups => "settle, as look-ups",
            Self::Totals => "settle, as totals",
            Self::Partial => "settle, as a partial",
        }
    }
}

/// Begins a blob; [`seal`] completes it.
pub(super) fn begin(kind: Kind, run: u64) -> Vec<u8> {
    let mut blob = Vec::with_capacity(64);
    blob.extend(MAGIC);
    blob.push(VERSION.len() as u8);
    blob.extend(VERSION.as_bytes());
    blob.push(kind as u8);
    blob.extend(run.to_le_bytes());
    blob.extend([0; 8]);
    blob
}

/// Length of the header.
pub(super) const HEADER_BYTES: usize = MAGIC.len() + 1 + VERSION.len() + 1 + 8 + 8;

/// Completes a blob whose content follows the header.
pub(super) fn seal(mut blob: Vec<u8>, run: u64) -> Vec<u8> {
    let digest = digest_of(&blob[HEADER_BYTES..], run);
    blob[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&digest.to_le_bytes());
    blob
}

/// Returns a chunk, or else a blob of events for buckets, with this content.
pub fn sealed(run: &Run, is_chunk: bool, content: &[u8]) -> Vec<u8> {
    let mut blob = begin(if is_chunk { Kind::Chunk } else { Kind::Told }, run.digest);
    blob.extend_from_slice(content);
    seal(blob, run.digest)
}

/// Checks the header and the digest; returns where the content begins.
pub(super) fn open(blob: &[u8], kind: Kind, run: u64) -> Result<usize, StageError> {
    const CUT: StageError = StageError::Damaged { what: "header" };
    let rest = blob.strip_prefix(&MAGIC).ok_or(CUT)?;
    let (&len, rest) = rest.split_first().ok_or(CUT)?;
    let (version, rest) = rest.split_at_checked(usize::from(len)).ok_or(CUT)?;
    if version != VERSION.as_bytes() {
        let theirs = String::from_utf8_lossy(version).into_owned();
        return Err(StageError::Version { theirs, ours: VERSION });
    }
    let (&given, rest) = rest.split_first().ok_or(CUT)?;
    let given = Kind::ALL.into_iter().find(|it| *it as u8 == given).ok_or(CUT)?;
    if given != kind {
        return Err(StageError::Stage { given: given.name(), wanted: kind.name() });
    }
    let (&theirs, rest) = rest.split_first_chunk().ok_or(CUT)?;
    if u64::from_le_bytes(theirs) != run {
        return Err(StageError::Options);
    }
    let (&digest, content) = rest.split_first_chunk().ok_or(CUT)?;
    if u64::from_le_bytes(digest) != digest_of(content, run) {
        return Err(StageError::Damaged { what: "content" });
    }
    Ok(HEADER_BYTES)
}

/// Writes `value` as a blob.
pub(super) fn write(kind: Kind, run: u64, value: &impl Serialize) -> Result<Vec<u8>, StageError> {
    let blob = postcard::to_extend(value, begin(kind, run)).map_err(|_| StageError::Unwritable)?;
    Ok(seal(blob, run))
}

/// Reads a value from a blob.
pub(super) fn read<T: DeserializeOwned>(
    blob: &[u8],
    kind: Kind,
    run: u64,
) -> Result<T, StageError> {
    let content = &blob[open(blob, kind, run)?..];
    postcard::from_bytes(content).map_err(|_| StageError::Damaged { what: "value" })
}

/// Returns the digest of what decides the content of the blobs of a run.
pub(super) fn digest_of_options(options: &impl Serialize) -> Result<u64, StageError> {
    let bytes = postcard::to_allocvec(options).map_err(|_| StageError::Unwritable)?;
    Ok(digest_of(&bytes, 0))
}

/// Digests four words at a time, which do not depend on each other.
fn digest_of(bytes: &[u8], key: u64) -> u64 {
    const LANES: usize = 4;
    let mut lanes: [u64; LANES] = std::array::from_fn(|lane| key ^ lane as u64);
    let (blocks, rest) = bytes.as_chunks::<{ 8 * LANES }>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    for (at, &byte) in rest.iter().enumerate() {
        lanes[at % LANES] = mix(lanes[at % LANES], u64::from(byte));
    }
    let [one, two, three, four] = lanes;
    digest([one, two, three, four, bytes.len() as u64])
}

/// Combines a word with what came before; each different word gives a different result.
#[inline(always)]
fn mix(lane: u64, word: u64) -> u64 {
    // Both constants are odd, so that nothing is lost (digits of the golden ratio and of pi).
    (lane.rotate_left(29) ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_mul(0x2438_6a88_85a3_08d3)
}
