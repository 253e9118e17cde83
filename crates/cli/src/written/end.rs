//! How an output is completed.

use super::target::Target;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempPath};

/// Names of temporary files: `.tcpwhy-` and random characters.
const PREFIX: &str = ".tcpwhy-";
const SUFFIX: &str = ".part";

/// How an output is completed.
pub enum End {
    /// It is written into as it is made.
    Direct,
    /// A file without a name gets one.
    #[cfg(target_os = "linux")]
    Nameless(nameless::Nameless),
    /// A temporary file beside it gets its name.
    Beside(Beside),
    /// A temporary file elsewhere is copied into the file, which cannot be replaced.
    Elsewhere(File),
}

/// A file with a temporary name.
pub struct Beside {
    temporary: TempPath,
    _removed_by_signals: Option<Unfinished>,
    folder: PathBuf,
    name: OsString,
    /// The file that will be replaced.
    old: Option<File>,
}

impl End {
    /// Opens the file to which the output is written, and returns it with the way to complete it.
    ///
    /// # Errors No file can be made, neither beside the target nor elsewhere.
    pub fn begin(target: Target, mode: u32) -> io::Result<(File, Self)> {
        let (folder, name, old) = match target {
            Target::Open(file) => return Ok((file, Self::Direct)),
            Target::Regular { folder, name, old } => (folder, name, old),
        };
        #[cfg(target_os = "linux")]
        let (folder, name, old) = match nameless::Nameless::begin(folder, name, old, mode) {
            Ok((file, end)) => return Ok((file, Self::Nameless(end))),
            Err(parts) => parts,
        };
        match (beside(&folder, old.as_ref(), mode), old) {
            (Ok((file, temporary)), old) => {
                let unfinished = Unfinished::register(&temporary);
                let end = Beside { temporary, _removed_by_signals: unfinished, folder, name, old };
                Ok((file, Self::Beside(end)))
            }
            (Err(_), Some(old)) => Ok((tempfile::tempfile()?, Self::Elsewhere(old))),
            (Err(error), None) => Err(error),
        }
    }

    /// Returns the folder in which a file gets its name.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Nameless(end) => Some(end.folder()),
            Self::Beside(end) => Some(&end.folder),
            Self::Direct | Self::Elsewhere(_) => None,
        }
    }

    /// Completes the output, of which everything was written to `file`.
    ///
    /// # Errors The system refuses; a file that existed is as it was.
    pub fn complete(self, file: File) -> io::Result<()> {
        match self {
            Self::Direct => Ok(()),
            #[cfg(target_os = "linux")]
            Self::Nameless(end) => end.complete(file),
            Self::Beside(Beside { temporary, folder, name, old, .. }) => {
                match (temporary.persist(folder.join(name)), old) {
                    (Err(_), Some(old)) => copy_into(&old, file),
                    (named, _) => Ok(named?),
                }
            }
            Self::Elsewhere(old) => copy_into(&old, file),
        }
    }
}

/// Makes a file with a temporary name in `folder`, which is to replace `old`.
fn beside(folder: &Path, old: Option<&File>, mode: u32) -> io::Result<(File, TempPath)> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    let (file, temporary) = builder.tempfile_in(folder)?.into_parts();
    #[cfg(unix)]
    if let Some(old) = old {
        super::attributes::take_over(&file, old)?;
    }
    #[cfg(not(unix))]
    let _ = old;
    Ok((file, temporary))
}

/// Replaces the contents of `old`. Room for them is made first, so that a full disk leaves the old
/// contents as they were.
fn copy_into(mut old: &File, mut new: File) -> io::Result<()> {
    let (length, before) = (new.metadata()?.len(), old.metadata()?.len());
    #[cfg(target_os = "linux")]
    if length > before {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(old, FallocateFlags::empty(), before, length - before) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => {
                old.set_len(before)?;
                return Err(error.into());
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = before;
    new.rewind()?;
    old.rewind()?;
    io::copy(&mut new, &mut old)?;
    old.set_len(length)
}

#[cfg(target_os = "linux")]
pub use tcpwhy_live::sys::unfinished::Unfinished;

/// Elsewhere, only Ctrl-C and errors remove temporary files.
#[cfg(not(target_os = "linux"))]
pub struct Unfinished;

#[cfg(not(target_os = "linux"))]
impl Unfinished {
    fn register(_: &Path) -> Option<Self> {
        None
    }
}

/// Files without a name, of which nothing remains however the process ends.
#[cfg(target_os = "linux")]
mod nameless {
    use super::copy_into;
    use crate::written::attributes;
    use rustix::fs::{Mode, OFlags, open};
    use std::ffi::OsString;
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::{Path, PathBuf};
    use tcpwhy_live::nameless;

    /// A file without a name, and the name that it will have.
    pub struct Nameless {
        folder: PathBuf,
        /// The folder, whatever its name becomes.
        opened: OwnedFd,
        name: OsString,
        /// The file that will be replaced.
        old: Option<File>,
    }

    impl Nameless {
        /// Makes the file; returns the parts if that is not possible.
        pub fn begin(
            folder: PathBuf,
            name: OsString,
            old: Option<File>,
            mode: u32,
        ) -> Result<(File, Self), (PathBuf, OsString, Option<File>)> {
            match make(&folder, old.as_ref(), mode) {
                Ok((file, opened)) => Ok((file, Self { folder, opened, name, old })),
                Err(_) => Err((folder, name, old)),
            }
        }

        pub fn folder(&self) -> &Path {
            &self.folder
        }

        /// Gives the file its name.
        pub fn complete(self, file: File) -> io::Result<()> {
            let named = nameless::name(&file, self.opened.as_fd(), &self.folder, &self.name);
            match (named, self.old) {
                (Err(_), Some(old)) => copy_into(&old, file),
                (named, _) => named,
            }
        }
    }

    fn make(folder: &Path, old: Option<&File>, mode: u32) -> io::Result<(File, OwnedFd)> {
        let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(folder, way, Mode::empty())?;
        let file = nameless::make(opened.as_fd(), mode)?;
        if let Some(old) = old {
            attributes::take_over(&file, old)?;
        }
        Ok((file, opened))
    }
}
