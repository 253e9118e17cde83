//! `--write`: the last packets in a ring of pcapng files.
//!
//! A file is named for the number of its first frame: frame N of the watch is in the file with the
//! greatest number up to N, and there it is frame N − number + 1.

use crate::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tcpwhy_core::capture::{self, Block, Encoder, LinkType};
use tcpwhy_core::filter::utc;

use tcpwhy_live::folder::Folder;
use tcpwhy_live::sys::process;

/// Prefix of the names of the ring's files.
const PREFIX: &str = "tcpwhy-";
const SUFFIX: &str = ".pcapng";
/// Time after which writing is tried again after a failure.
const AGAIN: Duration = Duration::from_secs(10);
/// Bytes of a file between two frames whose offsets are stored.
const STRIDE: u64 = 256 << 10;

/// A ring of pcapng files.
pub struct Files {
    folder: Folder,
    /// The lock of the folder, held until this value is dropped.
    _lock: File,
    interface: String,
    file_bytes: u64,
    files_max: usize,
    /// Prefix of the names of this run's files.
    run: String,
    /// The files, oldest first, including those of earlier runs.
    files: Vec<Kept>,
    current: Option<File>,
    encoder: Encoder,
    /// Time of the last failure to write.
    failed: Option<Instant>,
}

/// A file of the ring.
struct Kept {
    name: OsString,
    /// Numbers of frames with the offsets of their blocks; empty for files of earlier runs.
    places: Vec<(u64, u64)>,
    bytes: u64,
}

impl Files {
    /// Opens a ring in `folder`, which is created if it does not exist.
    ///
    /// # Errors The folder cannot be written to or is not private, or another watch writes to it.
    pub fn open(folder: &Path, interface: &str, bounds: (u64, u16)) -> Result<Self, Error> {
        let path = folder.display().to_string();
        let refused = |source| Error::Folder { path: path.clone(), source };
        let folder = Folder::open(folder).map_err(refused)?;
        let lock = folder.lock_file(".tcpwhy-watch.lock").map_err(refused)?;
        match process::lock_file(lock.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(Error::FolderInUse { path });
            }
            result => result.map_err(refused)?,
        }
        let mut earlier = folder.own_files().map_err(refused)?;
        earlier.retain(|name| is_of_ring(name));
        earlier.sort();
        let kept = |name| Kept { name, places: Vec::new(), bytes: 0 };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let run = utc(now.map_or(0, |now| now.as_nanos() as u64)).replace([':', '-'], "");
        Ok(Self {
            folder,
            _lock: lock,
            interface: interface.to_owned(),
            file_bytes: bounds.0,
            files_max: usize::from(bounds.1),
            run,
            files: earlier.into_iter().map(kept).collect(),
            current: None,
            encoder: Encoder::default(),
            failed: None,
        })
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Writes the frames of a block. If that fails, the packets are lost and the watch goes on;
    /// returns a message about the failure once.
    pub fn take(&mut self, block: &Block) -> Option<String> {
        let first = block.entries.first()?.id.number();
        if self.failed.is_some_and(|at| at.elapsed() < AGAIN) {
            return None;
        }
        let had_failed = self.failed.is_some();
        match self.write(block, first) {
            Ok(()) => {
                let path = self.folder.path().display();
                let text = format!("packets are kept in {path} again");
                self.failed.take().map(|_| text)
            }
            Err(error) => {
                self.failed = Some(Instant::now());
                self.current = None;
                let path = self.folder.path().display();
                let text = format!(
                    "packets cannot be kept in {path} ({error}); watching goes on without, and \
                     writing is tried again every {} s",
                    AGAIN.as_secs()
                );
                (!had_failed).then_some(text)
            }
        }
    }

    fn write(&mut self, block: &Block, first: u64) -> io::Result<()> {
        let is_full = self.files.last().is_none_or(|file| file.bytes >= self.file_bytes);
        if self.current.is_none() || is_full {
            self.begin(first)?;
        }
        let (Some(file), Some(kept)) = (&mut self.current, self.files.last_mut()) else {
            return Ok(());
        };
        if kept.places.last().is_none_or(|(_, at)| kept.bytes - at >= STRIDE) {
            kept.places.push((first, kept.bytes));
        }
        self.encoder.bytes.clear();
        block.frames().for_each(|frame| self.encoder.frame(&frame, &[]));
        if let Err(error) = file.write_all(&self.encoder.bytes) {
            // Removes the incomplete block at the end.
            let _ = file.set_len(kept.bytes);
            return Err(error);
        }
        kept.bytes += self.encoder.bytes.len() as u64;
        Ok(())
    }

    /// Begins a file with frame `first`, and removes the oldest files.
    fn begin(&mut self, first: u64) -> io::Result<()> {
        while self.files.len() >= self.files_max {
            let oldest = self.files.remove(0);
            match self.folder.remove(&oldest.name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let name = OsString::from(format!("{PREFIX}{}-{first:012}{SUFFIX}", self.run));
        let mut file = self.folder.create(&name)?;
        self.encoder.bytes.clear();
        let comment = format!("tcpwhy watch; the first frame has number {first} there");
        self.encoder.header(LinkType::LINUX_SLL2, &self.interface, &comment);
        if let Err(error) = file.write_all(&self.encoder.bytes) {
            let _ = self.folder.remove(&name);
            return Err(error);
        }
        let bytes = self.encoder.bytes.len() as u64;
        self.files.push(Kept { name, places: vec![(first, bytes)], bytes });
        self.current = Some(file);
        Ok(())
    }

    /// Reads part of the files again: up to `bytes_max` bytes, from the block of frame `first` on.
    /// Calls `take` for each piece with the number of its first frame, until it returns `false`.
    pub fn read_again(
        &self,
        first: u64,
        bytes_max: u64,
        mut take: impl FnMut(&[u8], u64) -> bool,
    ) -> io::Result<()> {
        let mut left = bytes_max;
        let starts = self.files.iter().flat_map(|file| file.places.first().map(|it| (file, it.0)));
        let files: Vec<_> = starts.collect();
        let begin = files.partition_point(|(_, start)| *start <= first).saturating_sub(1);
        for (file, _) in files.into_iter().skip(begin) {
            let at = file.places.partition_point(|(number, _)| *number <= first).saturating_sub(1);
            for (index, &(number, offset)) in file.places.iter().enumerate().skip(at) {
                let end = file.places.get(index + 1).map_or(file.bytes, |(_, offset)| *offset);
                let length = end - offset;
                if length > left {
                    return Ok(());
                }
                left -= length;
                let mut bytes = vec![0; length as usize];
                self.folder.read(&file.name)?.read_exact_at(&mut bytes, offset)?;
                if !take(&bytes, number) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a file belongs to a ring, of this run or an earlier one.
fn is_of_ring(name: &OsStr) -> bool {
    let name = name.to_str().unwrap_or_default();
    let middle = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
    let parts = middle.and_then(|middle| middle.split_once('-'));
    parts.is_some_and(|(run, number)| {
        run.ends_with('Z') && number.len() >= 12 && number.bytes().all(|it| it.is_ascii_digit())
    })
}

/// Returns the frames of a piece that [`Files::read_again`] passes on.
pub fn frames(bytes: &[u8], number: u64) -> impl Iterator<Item = tcpwhy_core::capture::Frame<'_>> {
    capture::frames(bytes, LinkType::LINUX_SLL2, number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tcpwhy_core::capture::{FrameEntry, FrameId};

    /// Returns frames from `first` on, of 1,000 bytes each.
    fn block(first: u64, frames: u64) -> Block {
        let entry = |number: u64| FrameEntry {
            time_ns: number,
            id: FrameId::new(0, number),
            offset: 0,
            captured_len: 1_000,
            original_len: 1_000,
            link: LinkType::LINUX_SLL2,
            clock_set: false,
        };
        let entries = (first..first + frames).map(entry).collect();
        Block { bytes: vec![0; 1_000], entries }
    }

    #[test]
    fn the_ring_is_bounded_and_frames_are_found_in_it() {
        let folder = tcpwhy_testing::Folder::new();
        let mut files = Files::open(&folder, "any", (100_000, 3)).expect("a ring");
        for round in 0..50 {
            assert_eq!(files.take(&block(1 + 10 * round, 10)), None);
        }
        let names = || fs::read_dir(&folder).expect("a folder").flatten();
        assert_eq!(names().filter(|it| is_of_ring(&it.file_name())).count(), 3);
        let mut numbers = Vec::new();
        let read = files.read_again(455, 1 << 20, |bytes, number| {
            numbers.extend(frames(bytes, number).map(|it| (it.id.number(), it.time_ns)));
            true
        });
        read.expect("files");
        assert!(numbers.iter().all(|(number, time_ns)| number == time_ns));
        let (first, last) = (numbers.first().expect("frames").0, numbers.last().expect("frames").0);
        assert!(first <= 455 && last == 500, "{first}..{last}");
        // Frames before the ring's oldest file cannot be read any more.
        drop(files);
        let again = Files::open(&folder, "any", (100_000, 3)).expect("a ring");
        assert_eq!(again.files.len(), 3);
    }

    #[test]
    fn a_folder_has_one_ring() {
        let folder = tcpwhy_testing::Folder::new();
        let first = Files::open(&folder, "any", (1 << 20, 3)).expect("a ring");
        let second = Files::open(&folder, "any", (1 << 20, 3));
        assert!(matches!(second, Err(Error::FolderInUse { .. })));
        drop(first);
        assert!(Files::open(&folder, "any", (1 << 20, 3)).is_ok());
    }
}
