//! Files whose whole content is replaced: `resolv.conf`.
//!
//! A file is replaced by a rename, so that a reader finds the old content or the new one. Where the
//! file itself is mounted somewhere (`ip netns exec` mounts `/etc/netns/NAME/resolv.conf` on
//! `/etc/resolv.conf`, containers do the like), a rename would not reach those that see the mount:
//! then it is written in place, by one call. A mount that is made while the new file is written is
//! found after the two have changed places, and they change back.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::TreatError;
use super::host::Restored;
use super::record::FileChange;
use super::system;
use tcpwhy_live::sys::mount::exchange;

/// Larger files are no `resolv.conf`.
const BYTES_MAX: u64 = 64 << 10;

/// Reads the complete file.
///
/// # Errors
/// It cannot be read, is no text, or too long.
pub(super) fn read(path: &Path) -> io::Result<String> {
    // A FIFO would wait for its writer.
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > BYTES_MAX {
        return Err(io::Error::other("it is no regular file of at most 64 KiB"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn make(change: &FileChange) -> Result<FileChange, TreatError> {
    replace(Path::new(&change.path), &change.set)
        .map(|()| change.clone())
        .map_err(|source| TreatError::File { path: change.path.clone().into(), source })
}

/// Returns the path by which the file is seen now; `None` if no process has its mounts any more.
fn seen(change: &FileChange) -> io::Result<Option<PathBuf>> {
    let path = PathBuf::from(&change.path);
    let Some(mounts) = change.mounts else { return Ok(Some(path)) };
    let has = |of: &Path| fs::metadata(of.join("ns/mnt")).is_ok_and(|its| its.ino() == mounts);
    // The process by which the file was named, then any other that sees it.
    let first = path.iter().take(3).collect::<PathBuf>();
    let inside = path.iter().skip(4).collect::<PathBuf>();
    let others = fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    let shown = |of: PathBuf| of.join("root").join(&inside);
    match std::iter::once(first).chain(others).find(|of| has(of) && shown(of.clone()).exists()) {
        Some(of) => Ok(Some(shown(of))),
        None if system::may_look_into_others() => Ok(None),
        None => Err(io::Error::other("the processes that see it may not be looked into: use sudo")),
    }
}

/// Returns whether the file has the content that a treatment gave it.
pub(super) fn is_changed(change: &FileChange) -> bool {
    read(Path::new(&change.path)).is_ok_and(|now| now == change.set)
}

/// Restores the old content, also after a reboot.
pub(super) fn restore(change: &FileChange) -> io::Result<Restored> {
    let Some(path) = seen(change)? else { return Ok(Restored::Gone) };
    let path = path.as_path();
    let now = match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::Gone),
        other => other?,
    };
    if now == change.before {
        return Ok(Restored::Done);
    }
    if now != change.set {
        return Ok(Restored::ChangedMeanwhile { now: format!("`{}`", now.trim_end()) });
    }
    replace(path, &change.before).map(|()| Restored::Done)
}

fn replace(path: &Path, content: &str) -> io::Result<()> {
    if is_mounted(path)? {
        return write_in_place(path, content);
    }
    match rename_over(path, content) {
        // The file is a mount point, on another file system, or in a directory that is read-only;
        // or its file system cannot exchange files.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EBUSY | libc::EXDEV | libc::EROFS | libc::EACCES | libc::EINVAL)
            ) =>
        {
            write_in_place(path, content)
        }
        other => other,
    }
}

fn rename_over(path: &Path, content: &str) -> io::Result<()> {
    let old = fs::metadata(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.tcpwhy-{}", std::process::id()));
    let written = || {
        let mut open = OpenOptions::new();
        // Nothing that another user has put there is opened.
        let mut file = open.create_new(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(content.as_bytes())?;
        std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        file.sync_all()?;
        exchange(&temporary, path)?;
        // The old one, that a process has mounted since that was looked for.
        if is_mounted(&temporary)? {
            write_in_place(&temporary, content)?;
            exchange(&temporary, path)?;
        }
        fs::remove_file(&temporary)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    written().inspect_err(|error| {
        if error.kind() != io::ErrorKind::AlreadyExists {
            let _ = fs::remove_file(&temporary);
        }
    })
}

/// Writes the content by one call, so that a reader of the same page sees either the old or the new
/// content. If the old content is longer, empty lines replace the rest until the file is truncated.
fn write_in_place(path: &Path, content: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let length = content.len();
    let mut padded = content.as_bytes().to_vec();
    padded.resize(length.max(file.metadata()?.len() as usize), b'\n');
    file.write_all_at(&padded, 0)?;
    file.set_len(length as u64)?;
    file.sync_all()
}

/// Returns whether the file is mounted over another one, in the mount namespace of any process.
fn is_mounted(path: &Path) -> io::Result<bool> {
    let file = fs::metadata(path)?;
    let mut seen = HashSet::new();
    let processes = fs::read_dir("/proc")?.flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let of = PathBuf::from(format!("/proc/{pid}"));
        let Ok(view) = fs::read_link(of.join("ns/mnt")) else { continue };
        if !seen.insert(view) {
            continue;
        }
        let mounts = fs::read_to_string(of.join("mountinfo")).unwrap_or_default();
        // The fifth field is the mount point (proc_pid_mountinfo(5)).
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let is_it = |point: &str| {
            let seen = of.join("root").join(point.trim_start_matches('/'));
            fs::metadata(seen).is_ok_and(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()))
        };
        if points.filter(|point| point.ends_with("/resolv.conf")).any(is_it) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_replaced_whole_with_its_mode_and_put_back_unless_others_wrote() {
        let folder = tcpwhy_testing::Folder::new();
        let path = folder.join("resolv.conf");
        fs::write(&path, "nameserver 10.0.0.1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let change = FileChange {
            path: path.display().to_string(),
            mounts: None,
            before: "nameserver 10.0.0.1\n".into(),
            set: "options timeout:1\n".into(),
        };
        make(&change).unwrap();
        assert_eq!(read(&path).unwrap(), change.set);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(matches!(restore(&change), Ok(Restored::Done)));
        assert_eq!(read(&path).unwrap(), change.before);
        fs::write(&path, "another\n").unwrap();
        assert!(matches!(restore(&change), Ok(Restored::ChangedMeanwhile { .. })));
        for content in ["a longer line\n", "short\n"] {
            write_in_place(&path, content).unwrap();
            assert_eq!(read(&path).unwrap(), content);
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(restore(&change), Ok(Restored::Gone)));
    }
}
