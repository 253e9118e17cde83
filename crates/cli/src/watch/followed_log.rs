//! The key log of `--keylog`, followed while a program goes on writing it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use tcpwhy_core::keys::GrowingKeys;
use zeroize::Zeroizing;

/// Bytes that are read at a time; a line of a key log is much shorter.
const READ_BYTES: usize = 64 << 10;

/// A key log that is followed from its present end on: connections that were made before cannot be
/// opened, since their handshakes have passed.
pub struct FollowedLog {
    file: File,
    /// The next byte that is read.
    at: u64,
    /// The beginning of a line that is not complete yet.
    buffer: Zeroizing<Box<[u8]>>,
    filled: usize,
    secrets: GrowingKeys,
}

impl FollowedLog {
    /// Opens the key log `path`, which has to exist.
    ///
    /// # Errors It cannot be read, or is no file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let at = file.seek(SeekFrom::End(0))?;
        let buffer = Zeroizing::new(vec![0; READ_BYTES].into_boxed_slice());
        Ok(Self { file, at, buffer, filled: 0, secrets: GrowingKeys::default() })
    }

    /// Returns the secrets, which grow with what is read.
    pub fn secrets(&self) -> GrowingKeys {
        self.secrets.clone()
    }

    /// Reads the lines that were written since the last call. A file that became shorter is read from
    /// its beginning.
    ///
    /// # Errors It cannot be read.
    pub fn read(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() < self.at {
            (self.at, self.filled) = (self.file.seek(SeekFrom::Start(0))?, 0);
        }
        loop {
            let bytes = self.file.read(&mut self.buffer[self.filled..])?;
            if bytes == 0 {
                return Ok(());
            }
            self.at += bytes as u64;
            self.filled += bytes;
            let end = self.buffer[..self.filled].iter().rposition(|byte| *byte == b'\n');
            let lines = end.map_or(0, |at| at + 1);
            self.secrets.add_log(&self.buffer[..lines]);
            self.buffer.copy_within(lines..self.filled, 0);
            self.filled -= lines;
            if self.filled == self.buffer.len() {
                // No line of a key log is as long.
                self.filled = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use tcpwhy_core::keys::Keyring;

    #[test]
    fn lines_are_read_as_they_are_completed_and_a_shorter_file_from_its_beginning() {
        let folder = tcpwhy_testing::Folder::new();
        let path = folder.join("keys");
        let line = |of: u8| format!("CLIENT_RANDOM {} 07\n", format!("{of:02x}").repeat(32));
        fs::write(&path, line(1)).expect("written");
        let mut log = FollowedLog::open(&path).expect("opened");
        let ring = Keyring::Growing(log.secrets());
        let has = |of: u8| ring.secrets(&[of; 32]).is_some();
        let mut program = File::options().append(true).open(&path).expect("opened");
        let (begin, end) = (&line(2)[..30], &line(2)[30..]);
        program.write_all(begin.as_bytes()).expect("written");
        log.read().expect("read");
        assert!(!has(1) && !has(2), "one was there before, the other one is not complete");
        program.write_all(end.as_bytes()).expect("written");
        program.write_all(&vec![b'#'; 3 * READ_BYTES]).expect("written");
        program.write_all(format!("\n{}", line(3)).as_bytes()).expect("written");
        log.read().expect("read");
        assert!(has(2) && has(3));
        fs::write(&path, line(4)).expect("written");
        log.read().expect("read");
        assert!(has(4));
        assert!(FollowedLog::open(&folder).is_err(), "a folder");
    }
}
