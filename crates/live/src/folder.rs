//! Private folders, in which captured packets are kept: only their owner may look into them, and
//! nobody else may have prepared what is in them.
//!
//! Files are reached by the folder's descriptor, never by a path, and no symbolic link in it is
//! followed: whoever may rename the folder, or put a link in its place, changes nothing.

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, readlinkat, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crate::nameless;
use crate::sys::unfinished::Unfinished;

/// Number of symbolic links that are followed on the way to a folder (path_resolution(7)).
const LINKS_MAX: usize = 40;
const FOLDER_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Flags that all descriptors have here.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// Reason not to use a folder or file.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("it belongs to user {0}, who could have prepared what is in it")]
    Foreign(u32),
    #[error("everybody may write to it")]
    Shared,
    #[error("a symbolic link on the way to it belongs to user {0}")]
    Link(u32),
    #[error("it is no regular file")]
    Kind,
}

impl From<Refused> for io::Error {
    fn from(why: Refused) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, why)
    }
}

/// A private folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    opened: OwnedFd,
    /// This user; a sandbox may forbid to ask later.
    user: u32,
}

impl Folder {
    /// Opens a folder; it and the folders above it are created, with mode 0700, if they do not
    /// exist.
    ///
    /// # Errors It belongs to another user, everybody may write to it, a link of another user leads
    /// to it, or the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::checked(path.to_owned(), walk(path)?)
    }

    /// Creates a folder of this name in a folder that others may use too.
    ///
    /// # Errors `AlreadyExists`, whatever has this name; the system refuses.
    pub fn create_new(parent: &Path, name: &str) -> io::Result<Self> {
        let above = open(parent, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        mkdirat(&above, name, FOLDER_MODE)?;
        Self::existing_in(&above, parent, name)
    }

    /// Opens a folder that exists.
    ///
    /// # Errors As for [`open`](Self::open); it is no folder, or a link.
    pub fn existing(parent: &Path, name: &str) -> io::Result<Self> {
        let above = open(parent, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Self::existing_in(&above, parent, name)
    }

    /// Opens a folder in this one, which is created if it does not exist.
    ///
    /// # Errors As for [`open`](Self::open).
    pub fn folder(&self, name: &str) -> io::Result<Self> {
        match mkdirat(&self.opened, name, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => Self::existing_in(&self.opened, &self.path, name),
            Err(error) => Err(error.into()),
        }
    }

    fn existing_in(above: &OwnedFd, parent: &Path, name: &str) -> io::Result<Self> {
        let way = OFlags::PATH | OFlags::DIRECTORY | SAFE;
        Self::checked(parent.join(name), openat(above, name, way, Mode::empty())?)
    }

    fn checked(path: PathBuf, found: OwnedFd) -> io::Result<Self> {
        let (stat, user) = (fstat(&found)?, user());
        if stat.st_uid != user {
            return Err(Refused::Foreign(stat.st_uid).into());
        }
        if Mode::from_raw_mode(stat.st_mode).contains(Mode::WOTH) {
            return Err(Refused::Shared.into());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | SAFE;
        Ok(Self { path, opened: openat(&found, c".", flags, Mode::empty())?, user })
    }

    /// Returns the path by which the folder was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether only its owner may look into the folder.
    ///
    /// # Errors The system refuses.
    pub fn is_private(&self) -> io::Result<bool> {
        let others = Mode::RWXO | Mode::RGRP | Mode::WGRP;
        Ok(!Mode::from_raw_mode(fstat(&self.opened)?.st_mode).intersects(others))
    }

    /// Creates a file with mode 0600 for writing, in place of one with this name.
    ///
    /// # Errors The system refuses.
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        match self.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | SAFE;
        Ok(File::from(openat(&self.opened, name.as_ref(), flags, FILE_MODE)?))
    }

    /// Writes a whole file with mode 0600, which appears when it is complete.
    ///
    /// # Errors The system refuses; a file that has the name stays.
    pub fn write(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        if let Ok(mut file) = nameless::make(self.as_fd(), FILE_MODE.bits()) {
            file.write_all(bytes)?;
            return nameless::name(&file, self.as_fd(), &self.path, name.as_ref());
        }
        let temporary = nameless::temporary_name();
        let _removed_by_signals =
            Unfinished::register(&std::path::absolute(&self.path)?.join(&temporary));
        let mut file = self.create(&temporary)?;
        match file.write_all(bytes) {
            Ok(()) => nameless::replace(self.as_fd(), &temporary, name.as_ref()),
            Err(error) => {
                let _ = self.remove(&temporary);
                Err(error)
            }
        }
    }

    /// Opens a file that is kept from one run to the next, or creates it.
    ///
    /// # Errors It is another user's or no regular file; the system refuses.
    pub fn lock_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK | SAFE;
        let file = openat(&self.opened, name, flags, FILE_MODE)?;
        self.checked_file(file)
    }

    /// Opens a file for reading.
    ///
    /// # Errors It does not exist, or is another user's or no regular file.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | SAFE;
        self.checked_file(openat(&self.opened, name.as_ref(), flags, Mode::empty())?)
    }

    /// Returns the names of this user's regular files.
    ///
    /// # Errors The system refuses.
    pub fn own_files(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.opened)? {
            let name = entry?.file_name().to_bytes().to_vec();
            let stat = statat(&self.opened, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|it| it.st_uid == self.user && is_regular(&it)) {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Removes a file.
    ///
    /// # Errors It does not exist, or the system refuses.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.opened, name.as_ref(), AtFlags::empty())?)
    }

    fn checked_file(&self, file: OwnedFd) -> io::Result<File> {
        let stat = fstat(&file)?;
        match (stat.st_uid == self.user, is_regular(&stat)) {
            (false, _) => Err(Refused::Foreign(stat.st_uid).into()),
            (true, false) => Err(Refused::Kind.into()),
            (true, true) => Ok(File::from(file)),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }
}

/// Returns the user whose folders are private.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Goes to a folder name by name, as the kernel does (path_resolution(7)), but follows only links
/// of root and of this user. Creates folders that are missing.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let way = OFlags::PATH | SAFE;
    let from = |start: &str| open(start, way | OFlags::DIRECTORY, Mode::empty());
    let mut at = from(".")?;
    let mut links = 0;
    let mut rest = names(path);
    while let Some(name) = rest.pop() {
        if name == "/" {
            at = from("/")?;
            continue;
        }
        let next = match openat(&at, &name, way, Mode::empty()) {
            Err(Errno::NOENT) => match mkdirat(&at, &name, FOLDER_MODE) {
                // Another thread may have created it meanwhile.
                Ok(()) | Err(Errno::EXIST) => openat(&at, &name, way, Mode::empty())?,
                Err(error) => return Err(error.into()),
            },
            next => next?,
        };
        let stat = fstat(&next)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            at = next;
            continue;
        }
        if ![0, user()].contains(&stat.st_uid) {
            return Err(Refused::Link(stat.st_uid).into());
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(&next, c"", Vec::new())?;
        rest.extend(names(Path::new(OsStr::from_bytes(target.as_bytes()))));
    }
    Ok(at)
}

/// Returns the names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter(|it| *it != Component::CurDir);
    parts.rev().map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests;
