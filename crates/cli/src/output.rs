//! Standard output: a reader that goes away ends the program quietly.

use crate::error::Error;
use std::io::{self, ErrorKind, Write};

/// Writes all of `text`.
///
/// # Errors
/// [`Error::Write`], but not where the reader has closed the pipe: it has what it wanted.
pub fn print(text: &str) -> Result<(), Error> {
    is_read(text).map(|_| ())
}

/// Writes all of `text`; `false` where the reader has closed the pipe.
///
/// # Errors
/// [`Error::Write`] for everything else.
pub fn is_read(text: &str) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::Write(error)),
    }
}
