//! What Java virtual machines collected during the sample.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::program::is_inside;
use crate::hsperfdata::{self, Counters};
use tcpwhy_live::process::Holders;

/// Largest file that is read, bytes (`-XX:PerfDataMemorySize`: 32 KiB).
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Users whose folders are looked into.
const FOLDERS_MAX: usize = 256;

/// The counters of the JVMs of a network namespace, by process.
pub fn counters(holders: &Holders, netns: u64) -> BTreeMap<u32, Counters> {
    let javas = holders.processes.iter().filter(|it| it.command == "java");
    let inside = javas.filter(|it| is_inside(it.pid, netns));
    inside.filter_map(|it| Some((it.pid, read(it.pid)?))).collect()
}

/// Reads the counters of one JVM.
fn read(pid: u32) -> Option<Counters> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let owner = fs::metadata(&folder).ok()?.uid();
    let number = own_number(&fs::read_to_string(folder.join("status")).ok()?)?.to_owned();
    let users = fs::read_dir(folder.join("root/tmp")).ok()?.flatten();
    let users = users.filter(|it| it.file_name().to_string_lossy().starts_with("hsperfdata_"));
    let mut paths = users.take(FOLDERS_MAX).map(|it| it.path().join(&number));
    let bytes = paths.find_map(|path| bytes(&path, owner))?;
    hsperfdata::parse(&bytes)
}

/// Returns the number of a process in its own namespace, the last of `NSpid`.
fn own_number(status: &str) -> Option<&str> {
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().next_back()
}

/// Returns the bytes of a small regular file of this user. What is opened is judged, not what had the name
/// before; a link may lead anywhere, and a pipe would wait for its writer.
fn bytes(path: &Path, owner: u32) -> Option<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let it = file.metadata().ok()?;
    if !it.is_file() || it.uid() != owner || it.len() > FILE_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_in_the_innermost_namespace_counts() {
        assert_eq!(own_number("Name:\tjava\nNSpid:\t4711\t7\nNSpgid:\t1\n"), Some("7"));
        assert_eq!(own_number("Name:\tjava\n"), None);
    }

    #[test]
    fn only_a_small_file_of_the_process_s_user_is_read() {
        let folder = tcpwhy_testing::Folder::new();
        let path = folder.join("7");
        fs::write(&path, b"counters").unwrap();
        let owner = fs::metadata(&path).unwrap().uid();
        assert_eq!(bytes(&path, owner).as_deref(), Some(&b"counters"[..]));
        assert_eq!(bytes(&path, owner + 1), None, "another user's");
        let link = folder.join("8");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(bytes(&link, owner), None, "a link");
        fs::File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert_eq!(bytes(&path, owner), None, "too large");
    }
}
