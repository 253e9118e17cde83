//! The file, device or descriptor that an output path names.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The path that means standard output.
pub const STANDARD_OUTPUT: &str = "-";
/// Permissions of a new file, of which the system takes the user's umask away.
pub const MODE: u32 = 0o666;

/// The object that an output path names.
pub enum Target {
    /// Something that is written into: a device, a FIFO, an open descriptor.
    Open(File),
    /// A regular file.
    Regular {
        /// The folder of the file, without symbolic links.
        folder: PathBuf,
        name: OsString,
        /// The file, if it exists, open for writing.
        old: Option<File>,
    },
}

impl Target {
    /// Finds what `path` names. Waits for a reader if that is a FIFO, as a shell does.
    ///
    /// # Errors It cannot be written to.
    pub fn find(path: &Path) -> io::Result<Self> {
        if path == Path::new(STANDARD_OUTPUT) {
            standard_output().map(Self::Open)
        } else {
            named(path)
        }
    }

    /// Returns whether this is the regular file `path`.
    pub fn is_file(&self, path: &Path) -> bool {
        match self {
            Self::Regular { old: Some(old), .. } => is_same(old, path),
            _ => false,
        }
    }
}

/// Splits a path into the folder, without symbolic links, and the name in it.
fn split(path: &Path) -> io::Result<(PathBuf, OsString)> {
    let name = path.file_name().filter(|_| !path.as_os_str().as_encoded_bytes().ends_with(b"/"));
    let name = name.ok_or(io::ErrorKind::IsADirectory)?;
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((parent.canonicalize()?, name.to_owned()))
}

#[cfg(unix)]
mod system {
    use super::{Target, split};
    use rustix::fs::{Mode, OFlags, open};
    use std::fs::{self, File, Metadata};
    use std::io;
    use std::os::fd::{AsFd, RawFd};
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::path::Path;

    /// Number of symbolic links that are followed, as in Linux (path_resolution(7)).
    const LINKS_MAX: usize = 40;

    pub fn standard_output() -> io::Result<File> {
        io::stdout().as_fd().try_clone_to_owned().map(File::from)
    }

    pub fn named(path: &Path) -> io::Result<Target> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let (folder, name) = split(&path)?;
            path = folder.join(&name);
            if let Some(number) = own_descriptor(&folder, &name) {
                return duplicate(number).map(Target::Open);
            }
            let metadata = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Target::Regular { folder, name, old: None });
                }
                metadata => metadata?,
            };
            if is_planted(&folder, &metadata)? {
                let text =
                    "it belongs to another user, in a folder in which everybody may create files";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            }
            let kind = metadata.file_type();
            if kind.is_symlink() && folder.starts_with("/proc") {
                // The kernel knows better than the link's text which file this is.
                return open_as(&path, OFlags::TRUNC).map(Target::Open);
            } else if kind.is_symlink() {
                path = folder.join(fs::read_link(&path)?);
            } else if kind.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            } else if kind.is_file() {
                let old = Some(open_as(&path, OFlags::NOFOLLOW)?);
                return Ok(Target::Regular { folder, name, old });
            } else {
                return open_as(&path, OFlags::NOFOLLOW).map(Target::Open);
            }
        }
        Err(rustix::io::Errno::LOOP.into())
    }

    fn open_as(path: &Path, more: OFlags) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | more;
        Ok(File::from(open(path, flags, Mode::empty())?))
    }

    /// Returns the number of the descriptor of this process that a path below /proc names, as
    /// `/dev/stdout` and the shell's `>(…)` do.
    fn own_descriptor(folder: &Path, name: &std::ffi::OsStr) -> Option<RawFd> {
        let places = ["/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"];
        let is_own = places.iter().any(|it| fs::canonicalize(it).is_ok_and(|it| it == folder));
        is_own.then(|| name.to_str()?.parse().ok()).flatten()
    }

    #[cfg(target_os = "linux")]
    fn duplicate(number: RawFd) -> io::Result<File> {
        tcpwhy_live::sys::duplicate(number).map(File::from)
    }

    /// Elsewhere, opening `/dev/fd/N` duplicates the descriptor.
    #[cfg(not(target_os = "linux"))]
    fn duplicate(number: RawFd) -> io::Result<File> {
        open_as(Path::new(&format!("/dev/fd/{number}")), OFlags::empty())
    }

    /// Returns whether somebody else may have made this file or link for others to use: the rule of
    /// `fs.protected_symlinks` and `fs.protected_regular`
    /// (<https://docs.kernel.org/admin-guide/sysctl/fs.html>), which not every host has set.
    fn is_planted(folder: &Path, metadata: &Metadata) -> io::Result<bool> {
        const SHARED: u32 = 0o1002;
        let own = rustix::process::geteuid().as_raw();
        let of_folder = fs::metadata(folder)?;
        let is_shared = of_folder.mode() & SHARED == SHARED;
        Ok(is_shared && metadata.uid() != own && metadata.uid() != of_folder.uid())
    }

    pub fn is_same(file: &File, path: &Path) -> bool {
        let identity = |it: Metadata| (it.dev(), it.ino());
        let (one, other) = (file.metadata().map(identity), fs::metadata(path).map(identity));
        one.ok().zip(other.ok()).is_some_and(|(one, other)| one == other)
    }

    pub fn is_standard_output(file: &File) -> bool {
        let Ok(out) = standard_output() else { return false };
        let identity = |it: &File| it.metadata().map(|it| (it.dev(), it.ino(), it.file_type()));
        match (identity(file), identity(&out)) {
            (Ok(one), Ok(other)) => one == other && !one.2.is_char_device(),
            _ => false,
        }
    }

    pub fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).map_or(super::MODE, |it| it.mode() & super::MODE)
    }
}

#[cfg(not(unix))]
mod system {
    use super::{Target, split};
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::windows::io::AsHandle;
    use std::path::Path;

    pub fn standard_output() -> io::Result<File> {
        io::stdout().as_handle().try_clone_to_owned().map(File::from)
    }

    pub fn named(path: &Path) -> io::Result<Target> {
        let (folder, name) = split(path)?;
        let old = folder.join(&name).exists();
        let old = old.then(|| OpenOptions::new().write(true).open(path)).transpose()?;
        Ok(Target::Regular { folder, name, old })
    }

    pub fn is_same(_: &File, _: &Path) -> bool {
        false
    }

    pub fn is_standard_output(_: &File) -> bool {
        false
    }

    pub fn mode_of(_: &Path) -> u32 {
        super::MODE
    }
}

use system::{is_same, named, standard_output};
pub use system::{is_standard_output, mode_of};
