//! Files without a name (`O_TMPFILE` of open(2)): they get their name when they are complete, and
//! nothing remains of them if the process ends before.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, renameat, stat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::sys::unfinished::Unfinished;

/// Makes a file without a name on the file system of `folder`; the umask applies to `mode`.
///
/// # Errors The file system has no such files, or /proc, which [`name`] needs, is not mounted.
pub fn make(folder: BorrowedFd<'_>, mode: u32) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(openat(folder, c".", flags, Mode::from_raw_mode(mode))?);
    stat(path_of(&file))?;
    Ok(file)
}

/// Gives the file its name in `folder`, which has the path `path`. A file that has the name is
/// replaced.
///
/// # Errors The system refuses; a file that has the name stays.
pub fn name(file: &File, folder: BorrowedFd<'_>, path: &Path, name: &OsStr) -> io::Result<()> {
    let link = |name: &OsStr| linkat(CWD, path_of(file), folder, name, AtFlags::SYMLINK_FOLLOW);
    match link(name) {
        Err(Errno::EXIST) => {}
        linked => return Ok(linked?),
    }
    // Only a file with a name can replace another one.
    let temporary = temporary_name();
    let _removed_by_signals = Unfinished::register(&path.join(&temporary));
    link(&temporary)?;
    replace(folder, &temporary, name)
}

/// Renames the file `temporary` of `folder` to `name`, or removes it.
pub(crate) fn replace(folder: BorrowedFd<'_>, temporary: &OsStr, name: &OsStr) -> io::Result<()> {
    renameat(folder, temporary, folder, name).map_err(|error| {
        let _ = unlinkat(folder, temporary, AtFlags::empty());
        error.into()
    })
}

/// Returns a name that no other file has.
pub(crate) fn temporary_name() -> OsString {
    format!(".tcpwhy-{:016x}.part", random()).into()
}

/// Returns a number that nobody can guess.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
