//! Standard output. If its reader closes the pipe, the program ends without an error.

use crate::error::Error;
use std::io::{self, ErrorKind, Write};

/// Writes all of `text`.
///
/// # Errors [`Error::Write`], but not if the reader has closed the pipe.
pub fn print(text: &str) -> Result<(), Error> {
    is_read(text).map(|_| ())
}

/// Writes all of `text`. Returns `false` if the reader has closed the pipe.
///
/// # Errors [`Error::Write`] for all other errors.
pub fn is_read(text: &str) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::Write(error)),
    }
}

/// Writes `value` as JSON piece by piece, since a report of many sockets is large.
///
/// # Errors As for [`print`].
#[cfg(target_os = "linux")]
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
    match written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Write(error)),
        _ => Ok(()),
    }
}
