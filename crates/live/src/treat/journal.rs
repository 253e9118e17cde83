//! The journal of treatments: one file for each, written to disk before any change is made.
//!
//! A record is written to a temporary file, which is synced and renamed, and the directory is
//! synced: a reader, also after a crash or a loss of power, finds the record before or the record
//! after, whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::error::TreatError;
use super::record::{Record, VERSION};
use super::undo::Undone;
use crate::sys::process::lock_file;

/// Environment variable that names another directory.
pub const DIRECTORY_VARIABLE: &str = "TCPWHY_TREAT_DIR";
/// Directory of the treatments of root.
const SYSTEM: &str = "/var/lib/tcpwhy/treat";
/// A lock is held for the time of one write, and of the look for what is treated already.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The directory of the records.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: PathBuf,
}

/// Held while records are compared and written: one process at a time.
pub(super) struct Locked(
    #[expect(dead_code, reason = "the lock lasts as long as the file is open")] File,
);

/// The records that there are.
#[derive(Debug, Default)]
pub struct Records {
    /// The records, in the order of their numbers.
    pub records: Vec<Record>,
    /// Files that are no records, with the reason.
    pub garbage: Vec<TreatError>,
}

impl Journal {
    /// Returns this user's journal: in `TCPWHY_TREAT_DIR` if set, else `/var/lib/tcpwhy/treat` for
    /// root, else `$XDG_STATE_HOME/tcpwhy/treat`.
    pub fn of_user(is_root: bool) -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = set(DIRECTORY_VARIABLE).unwrap_or_else(|| {
            let home = || set("HOME").unwrap_or_default().join(".local/state");
            match is_root {
                true => SYSTEM.into(),
                false => set("XDG_STATE_HOME").unwrap_or_else(home).join("tcpwhy/treat"),
            }
        });
        Self { directory }
    }

    /// Returns the journal in `directory`.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Returns the directory of the journal.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates the directory if it is missing, and waits for other processes that write to it.
    ///
    /// # Errors
    /// It cannot be made or locked.
    pub(super) fn lock(&self) -> Result<Locked, TreatError> {
        let refused = |source| TreatError::NoJournal { path: self.directory.clone(), source };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.directory)
            .map_err(refused)?;
        let path = self.directory.join(".lock");
        let mut open = OpenOptions::new();
        let file = open.create(true).truncate(false).write(true).mode(0o644).open(path);
        let file = file.map_err(refused)?;
        let began = Instant::now();
        loop {
            match lock_file(file.as_fd()) {
                Ok(()) => return Ok(Locked(file)),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Err(refused(error));
                }
                Err(error) if began.elapsed() > LOCK_WAIT => return Err(refused(error)),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Reads all records. A directory that is not there has none.
    ///
    /// # Errors
    /// The directory may not be read.
    pub fn read(&self) -> Result<Records, TreatError> {
        let mut read = Records::default();
        let mut numbers = self.numbers()?;
        numbers.sort_unstable();
        for id in numbers {
            match self.one(id) {
                Ok(Some(record)) => read.records.push(record),
                Ok(None) => {}
                Err(garbage) => read.garbage.push(garbage),
            }
        }
        Ok(read)
    }

    /// Reads a record; `None` if it does not exist.
    ///
    /// # Errors The record is invalid.
    pub fn one(&self, id: u32) -> Result<Option<Record>, TreatError> {
        let path = self.path(id);
        let garbage = |why: String| TreatError::Garbage { path: path.clone(), why };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(garbage(error.to_string())),
        };
        let record: Record =
            serde_json::from_slice(&bytes).map_err(|error| garbage(error.to_string()))?;
        if record.version != VERSION || record.id != id {
            return Err(garbage(format!("version {}, number {}", record.version, record.id)));
        }
        Ok(Some(record))
    }

    /// Returns whether the record exists.
    pub fn has(&self, id: u32) -> bool {
        self.path(id).exists()
    }

    /// Returns a number that no file has, not even a damaged one.
    pub(super) fn next_id(&self, _: &Locked) -> Result<u32, TreatError> {
        Ok(self.numbers()?.into_iter().max().unwrap_or(0) + 1)
    }

    /// Writes a record, on disk when this returns.
    ///
    /// # Errors
    /// It could not be written; what was there before is still there.
    pub(super) fn write(&self, record: &Record) -> Result<(), TreatError> {
        let path = self.path(record.id);
        let temporary = self.directory.join(format!(".{}.tmp", record.id));
        self.replace(&temporary, &path, record)
            .map_err(|source| TreatError::Journal { path, source })
    }

    fn replace(&self, temporary: &Path, path: &Path, record: &Record) -> io::Result<()> {
        let mut open = OpenOptions::new();
        let mut file = open.create(true).truncate(true).write(true).mode(0o644).open(temporary)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(temporary, path)?;
        File::open(&self.directory)?.sync_all()
    }

    /// Removes a record whose changes are all undone.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self, id: u32) -> Result<(), TreatError> {
        let path = self.path(id);
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        removed
            .and_then(|()| File::open(&self.directory)?.sync_all())
            .map_err(|source| TreatError::Journal { path, source })
    }

    /// Asks the process that is about to undo a treatment for the result.
    pub(super) fn ask(&self, id: u32) {
        // Without the file the process does not report the outcome, but the undo takes place.
        let _ = File::create(self.outcome_path(id));
    }

    /// Answers where another process has asked.
    pub(super) fn answer(&self, undone: &Undone) {
        let path = self.outcome_path(undone.id);
        if path.exists() {
            let _ = fs::write(path, serde_json::to_vec(undone).unwrap_or_default());
        }
    }

    /// Returns the answer, which exists once the record is gone.
    pub(super) fn outcome(&self, id: u32) -> Option<Undone> {
        let path = self.outcome_path(id);
        let bytes = fs::read(&path);
        let _ = fs::remove_file(&path);
        serde_json::from_slice(&bytes.ok()?).ok()
    }

    fn outcome_path(&self, id: u32) -> PathBuf {
        self.directory.join(format!(".{id}.undone"))
    }

    fn path(&self, id: u32) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    fn numbers(&self) -> Result<Vec<u32>, TreatError> {
        let refused = |source| TreatError::NoJournal { path: self.directory.clone(), source };
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(refused(error)),
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.to_str()?.strip_suffix(".json")?.parse().ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{By, Since, State, What};
    use super::*;

    fn journal(name: &str) -> Journal {
        let directory =
            env::temp_dir().join(format!("tcpwhy-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        Journal::at(directory)
    }

    fn record(id: u32) -> Record {
        Record {
            version: VERSION,
            id,
            what: What::Sysctl { name: "tcp_syncookies".into() },
            state: State::Running,
            by: By { uid: 0, user: None, pid: 1, pid_start_ticks: 2 },
            since: Since { boot_id: "boot".into(), unix_ns: 3 },
            changes: Vec::new(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let journal = journal("written");
        assert!(journal.read().unwrap().records.is_empty(), "no directory, no records");
        let lock = journal.lock().unwrap();
        assert_eq!(journal.next_id(&lock).unwrap(), 1);
        journal.write(&record(1)).unwrap();
        journal.write(&record(2)).unwrap();
        assert_eq!(journal.read().unwrap().records, [record(1), record(2)]);
        journal.remove(1).unwrap();
        assert_eq!(journal.one(1).unwrap(), None);
        assert_eq!(journal.next_id(&lock).unwrap(), 3);
        fs::remove_dir_all(journal.directory()).unwrap();
    }

    #[test]
    fn a_cut_record_is_said_and_its_number_is_not_given_away() {
        let journal = journal("cut");
        let lock = journal.lock().unwrap();
        journal.write(&record(4)).unwrap();
        let whole = fs::read(journal.path(4)).unwrap();
        journal.write(&record(1)).unwrap();
        for length in 0..whole.len() - 1 {
            fs::write(journal.path(4), &whole[..length]).unwrap();
            let read = journal.read().unwrap();
            assert_eq!((read.records.len(), read.garbage.len()), (1, 1), "{length}");
            assert!(read.garbage[0].to_string().contains("4.json"));
        }
        assert_eq!(journal.next_id(&lock).unwrap(), 5);
        // A number that is not the file's is as bad.
        fs::write(journal.path(9), &whole).unwrap();
        assert_eq!(journal.read().unwrap().garbage.len(), 2);
        fs::remove_dir_all(journal.directory()).unwrap();
    }

    #[test]
    fn a_write_that_was_broken_off_leaves_the_record_before() {
        let journal = journal("broken");
        let _lock = journal.lock().unwrap();
        journal.write(&record(1)).unwrap();
        fs::write(journal.directory().join(".1.tmp"), b"{\"version\":1,").unwrap();
        let read = journal.read().unwrap();
        assert_eq!((read.records, read.garbage.len()), (vec![record(1)], 0));
        journal.write(&record(1)).unwrap();
        fs::remove_dir_all(journal.directory()).unwrap();
    }

    #[test]
    fn a_record_that_cannot_be_written_is_an_error_with_the_place() {
        let journal = Journal::at("/proc/no-such-place");
        let error = journal.lock().err().unwrap().to_string();
        assert!(error.contains("/proc/no-such-place") && error.contains("nothing was changed"));
    }
}
