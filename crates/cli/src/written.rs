//! An output file that appears under its name only when it is complete.

use crate::error::Error;
use crate::{sandbox, terminal};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A temporary file beside the one that it will replace.
pub struct Written {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
    /// `true` after a write failed.
    has_failed: bool,
}

impl Written {
    /// Begins the file that will be `path`, made from `inputs`. Confines this process to reading
    /// these and finishing the file.
    ///
    /// # Errors [`Error::Overwrites`] if the file is one of `inputs`, [`Error::Output`] if no file
    /// can be created there.
    pub fn begin(path: &Path, inputs: &[impl AsRef<Path>]) -> Result<Self, Error> {
        let written = Self::unconfined(path, inputs)?;
        sandbox::confine_but_renaming(inputs, folder(path));
        Ok(written)
    }

    /// Begins the file as [`begin`](Self::begin) does, but without confinement, since other files
    /// may follow.
    ///
    /// # Errors Those of [`begin`](Self::begin).
    pub fn unconfined(path: &Path, inputs: &[impl AsRef<Path>]) -> Result<Self, Error> {
        let name = path.display().to_string();
        let is_same = |one: io::Result<PathBuf>, other: io::Result<PathBuf>| {
            one.ok().zip(other.ok()).is_some_and(|(one, other)| one == other)
        };
        let mut inputs_there = inputs.iter().map(|input| input.as_ref().canonicalize());
        if inputs_there.any(|input| is_same(path.canonicalize(), input)) {
            return Err(Error::Overwrites { path: name });
        }
        let mut builder = Builder::new();
        builder.prefix(".tcpwhy-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The same permissions as any new file: the system applies the user's umask.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder(path));
        let file = file.map_err(|source| Error::Output { path: name, source })?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 18, file),
            path: path.to_owned(),
            has_failed: false,
        })
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

    /// Gives the file its final name.
    ///
    /// # Errors [`Error::Output`].
    pub fn finish(self) -> Result<(), Error> {
        let name = self.path.display().to_string();
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error);
        let named = file.and_then(|it| it.persist(&self.path).map_err(|error| error.error));
        named.map(|_| ()).map_err(|source| Error::Output { path: name, source })
    }
}

/// Returns the folder that contains `path`.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|_| self.has_failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().inspect_err(|_| self.has_failed = true)
    }
}
