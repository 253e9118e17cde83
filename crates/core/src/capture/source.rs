//! Where the bytes of a capture come from: the core opens nothing itself.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

/// Opens a capture from its start.
pub type OpenAgain = dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send;

/// How a source is read.
pub enum Open {
    /// From the start, as often as asked: a regular file.
    Again(Box<OpenAgain>),
    /// Once only: standard input, a pipe, `<(…)` of a shell. Frames are handed on as they come. It may
    /// answer [`ErrorKind::WouldBlock`](io::ErrorKind::WouldBlock) once nobody wants more of it: it ends
    /// there, and nothing of it is cut.
    Once(Box<dyn Read + Send>),
}

/// Where a capture was taken and by which clock, if it is one of several that show the same
/// packets at two places (see [`crate::join`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// At the second place, which is further from the clients.
    pub is_second: bool,
    /// By how much its clock is ahead of that of the first place, ns. Frames come out by the
    /// clock of the first.
    pub ahead_ns: i64,
}

/// One capture of the input, with the name people know it by.
pub struct Source {
    /// The path, or `-`; ties between files are broken by it.
    pub name: String,
    /// Size as stored, bytes, where it is known; only for progress.
    pub bytes: Option<u64>,
    /// How to read it.
    pub open: Open,
    /// Where it was taken.
    pub site: Site,
}

impl Source {
    /// A file that `open` reads from its start each time it is called.
    pub fn file<R, F>(name: impl Into<String>, bytes: Option<u64>, open: F) -> Self
    where
        R: Read + Send + 'static,
        F: Fn() -> io::Result<R> + Send + 'static,
    {
        let open = move || open().map(|read| Box::new(read) as Box<dyn Read + Send>);
        Self { name: name.into(), bytes, open: Open::Again(Box::new(open)), site: Site::default() }
    }

    /// A stream that can be read once.
    pub fn stream(name: impl Into<String>, read: impl Read + Send + 'static) -> Self {
        let open = Open::Once(Box::new(read));
        Self { name: name.into(), bytes: None, open, site: Site::default() }
    }

    /// The same, taken at `site`.
    #[must_use]
    pub fn at(self, site: Site) -> Self {
        Self { site, ..self }
    }

    /// A capture that lies in memory.
    pub fn memory(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into();
        Self::file(name, Some(bytes.len() as u64), move || Ok(Cursor::new(Arc::clone(&bytes))))
    }
}
