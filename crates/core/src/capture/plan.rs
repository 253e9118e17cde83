//! Numbers captures before they are read, so that they can be read apart.

use super::member::{Member, Rank};
use super::{Block, CaptureError, FrameId, Source};
use crate::keys::Keys;

/// A capture as [`peek`] sees it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
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

impl Peeked {
    fn rank(&self) -> Rank {
        Rank::new(self.problem.is_some(), self.first_ns)
    }
}

/// Reads the beginning of a capture, 16 KiB or one frame: the time of its first frame, or its problem.
pub fn peek(source: Source) -> Peeked {
    let stored_bytes = source.bytes;
    let (member, input) = Member::peek(source, &mut Block::default(), &mut Keys::default());
    let problem = input.problems.first().map(ToString::to_string);
    Peeked { path: input.path, stored_bytes, first_ns: member.head_ns, problem }
}

/// The captures of an input in the order of their numbers ([`FrameId::file`]): by the time of their
/// first frames, then by name; those without frames and those that cannot be read come last.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Plan {
    /// The captures; the index of each is its number.
    pub files: Vec<Peeked>,
    /// Time of the first frame of all, ns; 0 if there is none.
    pub first_ns: u64,
}

impl Plan {
    /// Numbers captures, as a [`CaptureSet`](super::CaptureSet) does.
    ///
    /// # Errors
    /// [`CaptureError::TooManyFiles`].
    pub fn new(mut files: Vec<Peeked>) -> Result<Self, CaptureError> {
        if files.len() > FrameId::FILES_MAX {
            return Err(CaptureError::TooManyFiles { files: files.len() });
        }
        files.sort_by(|one, other| one.rank().compare(&one.path, &other.rank(), &other.path));
        let first_ns = files.first().and_then(|it| it.first_ns).unwrap_or(0);
        Ok(Self { files, first_ns })
    }
}
