//! Opens the captures named on the command line.

use crate::error::Error;
use crate::terminal;
#[cfg(unix)]
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Read};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::path::Path;
use tcpwhy_core::capture::Source;

/// Interval at which a reader of a silent stream checks whether to go on.
#[cfg(unix)]
const LOOKS_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Returns a source for each name. Errors that a mistyped name would cause are returned at once;
/// the report describes what is wrong inside a file.
///
/// # Errors A file does not exist, is a directory or may not be read, or standard input cannot be
/// used.
pub fn open(paths: &[impl AsRef<Path>]) -> Result<Vec<Source>, Error> {
    let standard_inputs = paths.iter().filter(|path| path.as_ref() == Path::new("-")).count();
    if standard_inputs > 1 {
        return Err(Error::StandardInputTwice);
    }
    paths.iter().map(|path| open_one(path.as_ref(), terminal::is_interrupted)).collect()
}

/// Returns a source for one name, as [`open`] does. A stream ends as soon as `is_interrupted`.
///
/// # Errors As for [`open`].
pub fn open_one(
    path: &Path,
    is_interrupted: impl Fn() -> bool + Send + 'static,
) -> Result<Source, Error> {
    if path == Path::new("-") {
        if io::stdin().is_terminal() {
            return Err(Error::Terminal);
        }
        let input = standard_input().map_err(|error| problem(path, error))?;
        return Ok(Source::stream("-", Stream { input, is_interrupted }));
    }
    let name = path.display().to_string();
    let metadata = fs::metadata(path).map_err(|error| problem(path, error))?;
    if metadata.is_dir() {
        let path = name.trim_end_matches('/').to_owned();
        return Err(Error::Directory { path });
    }
    let file = File::open(path).map_err(|error| problem(path, error))?;
    if !metadata.is_file() {
        // A named pipe or `<(…)`, which cannot be opened a second time.
        return Ok(Source::stream(name, Stream { input: file, is_interrupted }));
    }
    let again = path.to_owned();
    Ok(Source::file(name, Some(metadata.len()), move || File::open(&again)))
}

/// Opens standard input unbuffered: a buffer could already hold bytes when `poll` reports none.
#[cfg(unix)]
fn standard_input() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

#[cfg(not(unix))]
fn standard_input() -> io::Result<io::Stdin> {
    Ok(io::stdin())
}

/// An input that is read as data arrives, which may take long. An interrupt ends it, as
/// [`Open::Once`](tcpwhy_core::capture::Open::Once) permits.
struct Stream<R, F> {
    input: R,
    #[cfg_attr(not(unix), expect(dead_code, reason = "reading cannot be interrupted there"))]
    is_interrupted: F,
}

#[cfg(unix)]
impl<R: Read + AsFd, F: Fn() -> bool> Read for Stream<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if (self.is_interrupted)() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let mut waited_for = [PollFd::new(&self.input, PollFlags::IN)];
            match rustix::event::poll(&mut waited_for, Some(&LOOKS_EVERY)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return self.input.read(buffer),
            }
        }
    }
}

#[cfg(not(unix))]
impl<R: Read, F> Read for Stream<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

/// Returns the error for a path that cannot be read, with what to do.
pub fn problem(path: &Path, source: io::Error) -> Error {
    let name = path.display().to_string();
    match source.kind() {
        ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.map_or(".".into(), |folder| folder.display().to_string());
            Error::Missing { path: name, folder }
        }
        ErrorKind::PermissionDenied => Error::Permission { path: name },
        _ => Error::Open { path: name, source },
    }
}
