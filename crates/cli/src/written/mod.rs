//! Output files of all commands, written as a shell writes them: a device, a FIFO or an open
//! descriptor is written into, a symbolic link is followed, and a file that exists keeps its mode
//! and owner. A regular file appears, or changes, only when it is complete.
//!
//! The output of packets that tcpwhy captured itself goes into a private folder instead
//! (`tcpwhy_live::folder`).

#[cfg(unix)]
mod attributes;
mod end;
mod target;

use crate::error::Error;
use crate::{sandbox, terminal};
use end::End;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use target::Target;

/// An output while it is written.
pub struct Written {
    file: BufWriter<File>,
    end: End,
    /// The path as the user wrote it.
    path: PathBuf,
    /// `true` after a write failed.
    has_failed: bool,
    /// `true` once the reader of standard output has closed the pipe; the rest is discarded.
    is_unread: bool,
}

impl Written {
    /// Begins the output `path`, made from `inputs`; `-` is standard output. Confines this process
    /// to reading these and finishing the output.
    ///
    /// # Errors [`Error::Overwrites`] if the output is one of `inputs`, [`Error::Output`] if it
    /// cannot be written.
    pub fn begin(path: &Path, inputs: &[impl AsRef<Path>]) -> Result<Self, Error> {
        let written = Self::unconfined(path, inputs)?;
        sandbox::confine_but_finishing(inputs, &[written.end.folder()]);
        Ok(written)
    }

    /// Begins the output as [`begin`](Self::begin) does; others may not read a new file if they may
    /// not read `capture`, of which it is a copy.
    ///
    /// # Errors Those of [`begin`](Self::begin).
    pub fn begin_copy(path: &Path, capture: &Path) -> Result<Self, Error> {
        let written = Self::open(path, &[capture], target::mode_of(capture))?;
        sandbox::confine_but_finishing(&[capture], &[written.end.folder()]);
        Ok(written)
    }

    /// Begins the output as [`begin`](Self::begin) does, but without confinement, since other files
    /// may follow.
    ///
    /// # Errors Those of [`begin`](Self::begin).
    pub fn unconfined(path: &Path, inputs: &[impl AsRef<Path>]) -> Result<Self, Error> {
        Self::open(path, inputs, target::MODE)
    }

    fn open(path: &Path, inputs: &[impl AsRef<Path>], mode: u32) -> Result<Self, Error> {
        sandbox::keep_file_capabilities();
        // From here on, no signal may leave a temporary file behind.
        terminal::interruptible();
        let failed = |source| Error::Output { path: path.display().to_string(), source };
        let target = Target::find(path).map_err(failed)?;
        if inputs.iter().any(|input| target.is_file(input.as_ref())) {
            return Err(Error::Overwrites { path: path.display().to_string() });
        }
        let (file, end) = End::begin(target, mode).map_err(failed)?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 18, file),
            end,
            path: path.to_owned(),
            has_failed: false,
            is_unread: false,
        })
    }

    /// Returns the folder in which the output gets its name at the end, if it is a regular file.
    pub fn folder(&self) -> Option<&Path> {
        self.end.folder()
    }

    /// Returns whether the output goes where standard output goes, so that nothing else may be
    /// printed there.
    pub fn is_standard_output(&self) -> bool {
        self.path == Path::new(target::STANDARD_OUTPUT)
            || target::is_standard_output(self.file.get_ref())
    }

    /// Returns the error of a failed copy of `input` into this file: about this file if it could
    /// not be written, else about `input`, which could not be read.
    pub fn blame(&self, input: &Path, source: io::Error) -> Error {
        let path = |path: &Path| path.display().to_string();
        match self.has_failed {
            _ if terminal::is_interrupted() => Error::NotWritten,
            true => Error::Output { path: path(&self.path), source },
            false => Error::Read { path: path(input), source },
        }
    }

    /// Writes `text`, which is all of the output, and completes it.
    ///
    /// # Errors [`Error::Output`].
    pub fn finish_with(mut self, text: &[u8]) -> Result<(), Error> {
        let done = self.write_all(text);
        done.map_err(|source| Error::Output { path: self.path.display().to_string(), source })?;
        self.finish()
    }

    /// Completes the output: a regular file gets its name.
    ///
    /// # Errors [`Error::Output`].
    pub fn finish(mut self) -> Result<(), Error> {
        let path = self.path.display().to_string();
        let flushed = self.flush();
        let (file, _) = self.file.into_parts();
        let done = flushed.and_then(|()| self.end.complete(file));
        done.map_err(|source| Error::Output { path, source })
    }

    /// Takes the end of a pipe's reader for success where the pipe is standard output.
    fn note<T>(&mut self, done: io::Result<T>, discarded: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_unread = self.is_standard_output();
                self.has_failed = !self.is_unread;
                if self.is_unread { Ok(discarded) } else { Err(error) }
            }
            done => done.inspect_err(|_| self.has_failed = true),
        }
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_unread {
            return Ok(bytes.len());
        }
        let done = self.file.write(bytes);
        self.note(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_unread {
            return Ok(());
        }
        let done = self.file.flush();
        self.note(done, ())
    }
}
