//! Standard output and standard error. What a terminal would interpret is escaped here, whatever it
//! was read from. If the reader of standard output closes the pipe, the program ends without an
//! error.

use crate::error::Error;
use crate::spoken;
use std::io::{self, ErrorKind, Write};
use tcpwhy_core::report::inert;

/// Characters that arrange lines.
const LAYOUT: [char; 2] = ['\n', '\t'];

/// Writes all of `text`.
///
/// # Errors [`Error::Write`], but not if the reader has closed the pipe.
pub fn print(text: &str) -> Result<(), Error> {
    is_read(text).map(|_| ())
}

/// Writes all of `text`; to standard error if the output itself goes to standard output.
///
/// # Errors As for [`print`].
pub fn print_beside(text: &str, is_output_there: bool) -> Result<(), Error> {
    match is_output_there {
        true => io::stderr().write_all(inert(text, &LAYOUT, true).as_bytes()).map_err(Error::Write),
        false => print(text),
    }
}

/// Writes all of `text`. Returns `false` if the reader has closed the pipe.
///
/// # Errors [`Error::Write`] for all other errors.
pub fn is_read(text: &str) -> Result<bool, Error> {
    write(&inert(text, &LAYOUT, true))
}

/// Writes `text` unchanged: a document for a program, or a program's own control sequences.
///
/// # Errors As for [`print`].
pub fn print_unchanged(text: &str) -> Result<(), Error> {
    write(text).map(|_| ())
}

fn write(text: &str) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::Write(error)),
    }
}

/// Returns whether someone can still read standard output: the pipe has a reader, the terminal is
/// not hung up.
#[cfg(target_os = "linux")]
pub fn has_reader() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = io::stdout();
    let mut descriptors = [PollFd::new(&out, PollFlags::empty())];
    let polled = poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_err() || !descriptors[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Writes `value` as JSON piece by piece, since a report of many sockets is large.
///
/// # Errors As for [`print`].
#[cfg(target_os = "linux")]
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    let out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut out = Escaping(out);
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
    match written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Write(error)),
        _ => Ok(()),
    }
}

/// Escapes the pieces of a JSON document, each of which is text.
#[cfg(target_os = "linux")]
struct Escaping<W>(W);

#[cfg(target_os = "linux")]
impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(piece);
        self.0.write_all(inert(&text, &LAYOUT, false).as_bytes())?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes one line to standard error, in the language that was asked for. If nobody reads it any more, the
/// work goes on.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", inert(&spoken::aside(line), &[], false));
}
