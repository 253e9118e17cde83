//! Copies owner, mode and extended attributes from a file to the one that replaces it.

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

/// Bits of a mode that remain when a file's contents are replaced; those of set-user-ID do not.
const KEPT: u32 = 0o1777;

/// Gives `new` the owner, the group, the mode and the extended attributes (access control lists
/// among them) of `old`.
///
/// # Errors The system refuses, or `old` has further names: then it cannot be replaced as it is.
pub fn take_over(new: &File, old: &File) -> io::Result<()> {
    let (is, was) = (new.metadata()?, old.metadata()?);
    if was.nlink() > 1 {
        return Err(io::Error::other("the file has further names"));
    }
    if (is.uid(), is.gid()) != (was.uid(), was.gid()) {
        fchown(new, Some(was.uid()), Some(was.gid()))?;
    }
    new.set_permissions(Permissions::from_mode(was.mode() & KEPT))?;
    extended(new, old)
}

fn extended(new: &File, old: &File) -> io::Result<()> {
    let mut names = vec![0; 64 << 10];
    let length = match flistxattr(old, &mut names) {
        Err(rustix::io::Errno::NOTSUP) => return Ok(()),
        length => length?,
    };
    for name in names[..length].split(|it| *it == 0).filter(|name| !name.is_empty()) {
        // Rights to run as a program do not pass on to other contents.
        if name == b"security.capability" {
            continue;
        }
        let mut value = vec![0; 64 << 10];
        let length = fgetxattr(old, name, &mut value)?;
        fsetxattr(new, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}
