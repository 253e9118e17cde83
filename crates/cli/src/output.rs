//! Standard output: a reader that goes away ends the program quietly.

use crate::error::Error;
use std::io::{self, ErrorKind, Write};

/// Writes all of `text`.
///
/// # Errors
/// [`Error::Write`], but not where the reader has closed the pipe: it has what it wanted.
pub fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Write(error)),
        _ => Ok(()),
    }
}
