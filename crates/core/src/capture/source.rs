//! Where the bytes of a capture come from: the core opens nothing itself.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

/// Opens a capture from its start.
pub type OpenAgain = dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send;

/// How a source is read.
pub enum Open {
    /// From the start, as often as asked: a regular file.
    Again(Box<OpenAgain>),
    /// Once only: standard input, a pipe, `<(…)` of a shell. Frames are handed on as they come.
    Once(Box<dyn Read + Send>),
}

/// One capture of the input, with the name people know it by.
pub struct Source {
    /// The path, or `-`; ties between files are broken by it.
    pub name: String,
    /// Size as stored, bytes, where it is known; only for progress.
    pub bytes: Option<u64>,
    /// How to read it.
    pub open: Open,
}

impl Source {
    /// A file that `open` reads from its start each time it is called.
    pub fn file<R, F>(name: impl Into<String>, bytes: Option<u64>, open: F) -> Self
    where
        R: Read + Send + 'static,
        F: Fn() -> io::Result<R> + Send + 'static,
    {
        let open = move || open().map(|read| Box::new(read) as Box<dyn Read + Send>);
        Self { name: name.into(), bytes, open: Open::Again(Box::new(open)) }
    }

    /// A stream that can be read once.
    pub fn stream(name: impl Into<String>, read: impl Read + Send + 'static) -> Self {
        Self { name: name.into(), bytes: None, open: Open::Once(Box::new(read)) }
    }

    /// A capture that lies in memory.
    pub fn memory(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into();
        Self::file(name, Some(bytes.len() as u64), move || Ok(Cursor::new(Arc::clone(&bytes))))
    }
}
