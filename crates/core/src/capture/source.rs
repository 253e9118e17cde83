//! Sources of captured bytes; the core opens no files itself.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

/// Opens a capture from its start.
pub type OpenAgain = dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send;

/// The way in which a source is opened.
pub enum Open {
    /// From the start, as often as needed: a regular file.
    Again(Box<OpenAgain>),
    /// Once only: standard input, a pipe, `<(…)` of a shell. Frames are passed on as they come. It
    /// may return [`ErrorKind::WouldBlock`](io::ErrorKind::WouldBlock) once no more of it is
    /// wanted: the capture then ends there without being incomplete.
    Once(Box<dyn Read + Send>),
}

/// The place and clock of a capture, if it is one of several that show the same packets at two
/// places (see [`crate::join`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Site {
    /// `true` for the second place, which is further from the clients.
    pub is_second: bool,
    /// Time by which its clock is ahead of that of the first place, ns. Frames are given the time
    /// of the first.
    pub ahead_ns: i64,
}

/// One capture of the input, with its name.
pub struct Source {
    /// The path, or `-`; decides the order of captures that begin at the same time.
    pub name: String,
    /// Size as stored, bytes, if known; only used for progress.
    pub bytes: Option<u64>,
    /// The function or stream that provides its bytes.
    pub open: Open,
    /// The place and clock of the capture.
    pub site: Site,
}

impl Source {
    /// Creates a source for a file that each call of `open` reads from its start.
    pub fn file<R, F>(name: impl Into<String>, bytes: Option<u64>, open: F) -> Self
    where
        R: Read + Send + 'static,
        F: Fn() -> io::Result<R> + Send + 'static,
    {
        let open = move || open().map(|read| Box::new(read) as Box<dyn Read + Send>);
        Self { name: name.into(), bytes, open: Open::Again(Box::new(open)), site: Site::default() }
    }

    /// Creates a source for a stream that can be read once.
    pub fn stream(name: impl Into<String>, read: impl Read + Send + 'static) -> Self {
        let open = Open::Once(Box::new(read));
        Self { name: name.into(), bytes: None, open, site: Site::default() }
    }

    /// Returns whether it can be opened more than once.
    pub fn can_be_read_again(&self) -> bool {
        matches!(self.open, Open::Again(_))
    }

    /// Returns the same source, taken at `site`.
    #[must_use]
    pub fn at(self, site: Site) -> Self {
        Self { site, ..self }
    }

    /// Creates a source for a capture in memory.
    pub fn memory(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into();
        Self::file(name, Some(bytes.len() as u64), move || Ok(Cursor::new(Arc::clone(&bytes))))
    }
}
