//! The journal of treatments: one file for each, written to disk before any change is made.
//!
//! A record is written to a temporary file, which is synced and renamed, and the directory is
//! synced: a reader, also after a crash or a loss of power, finds the record before or the record
//! after, whole.
//!
//! An undo trusts a record: it writes the file and ends the process that it names. So a record counts
//! only if it belongs to the user of this process or to root, and nobody else may write to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::error::TreatError;
use super::record::{Record, VERSION};
use super::undo::Undone;
use tcpwhy_live::sys::process::lock_file;

/// Environment variable that names another directory.
pub const DIRECTORY_VARIABLE: &str = "TCPWHY_TREAT_DIR";
/// Directory of the treatments of root.
const SYSTEM: &str = "/var/lib/tcpwhy/treat";
/// Larger files are no records: one of 100,000 sockets has a third of it.
const BYTES_MAX: u64 = 128 << 20;
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

    /// Returns the journal of root, which every user may read.
    pub fn of_root() -> Self {
        Self { directory: SYSTEM.into() }
    }

    /// Creates the directory if it is missing, and waits for other processes that write to it.
    ///
    /// # Errors
    /// It cannot be made or locked, or other users may write to it.
    pub(super) fn lock(&self) -> Result<Locked, TreatError> {
        let refused = |source| TreatError::NoJournal { path: self.directory.clone(), source };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.directory)
            .map_err(refused)?;
        // The directory itself is locked: that needs no right to write to it.
        let file = File::open(&self.directory).map_err(refused)?;
        if let Some(why) = distrust(&file.metadata().map_err(refused)?) {
            return Err(TreatError::ForeignJournal { path: self.directory.clone(), why });
        }
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
    /// # Errors The record is invalid, or another user may have written it.
    pub fn one(&self, id: u32) -> Result<Option<Record>, TreatError> {
        let path = self.path(id);
        let garbage = |why: String| TreatError::Garbage { path: path.clone(), why };
        let bytes = match read(&path) {
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
        let mut file = create(temporary)?;
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
        let _ = create(&self.outcome_path(id));
    }

    /// Answers where another process has asked.
    pub(super) fn answer(&self, undone: &Undone) {
        let path = self.outcome_path(undone.id);
        if path.exists() {
            let answer = serde_json::to_vec(undone).unwrap_or_default();
            let _ = create(&path).and_then(|mut file| file.write_all(&answer));
        }
    }

    /// Returns the answer, which is written before the record is removed.
    pub(super) fn outcome(&self, id: u32) -> Option<Undone> {
        let path = self.outcome_path(id);
        let bytes = read(&path);
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

/// Returns why a file or directory may be another user's work; `None` if it cannot be.
fn distrust(metadata: &fs::Metadata) -> Option<String> {
    // The directory of a process belongs to its effective user.
    let own = fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid());
    match (metadata.uid(), metadata.mode() & 0o7777) {
        (uid, _) if uid != own && uid != 0 => Some(format!("it belongs to user {uid}")),
        (_, mode) if mode & 0o022 != 0 => {
            Some(format!("other users may write to it (mode {mode:o})"))
        }
        _ => None,
    }
}

/// Reads a file that only this user or root can have written. It does not wait for the writer of a
/// FIFO, and follows no symbolic link.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let why = match distrust(&metadata) {
        _ if !metadata.is_file() => Some("it is no regular file".into()),
        None if metadata.len() > BYTES_MAX => Some("it is longer than 128 MiB".into()),
        other => other,
    };
    if let Some(why) = why {
        return Err(io::Error::other(why));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a file of this name, whatever was there before.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // `O_EXCL` follows no symbolic link.
    OpenOptions::new().create_new(true).write(true).mode(0o644).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::record::{By, Lifetime, Process, Since, What};
    use super::*;

    /// A journal whose directory does not exist yet, in a folder of the test.
    fn journal() -> (tcpwhy_testing::Folder, Journal) {
        let folder = tcpwhy_testing::Folder::new();
        let journal = Journal::at(folder.join("journal"));
        (folder, journal)
    }

    fn record(id: u32) -> Record {
        Record {
            version: VERSION,
            id,
            what: What::Sysctl { name: "tcp_syncookies".into() },
            state: Lifetime::Running,
            by: By { uid: 0, user: None, process: Process { pid: 1, pid_start_ticks: 2 } },
            since: Since { boot_id: "boot".into(), unix_ns: 3 },
            changes: Vec::new(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let (_folder, journal) = journal();
        assert!(journal.read().unwrap().records.is_empty(), "no directory, no records");
        let lock = journal.lock().unwrap();
        assert_eq!(journal.next_id(&lock).unwrap(), 1);
        journal.write(&record(1)).unwrap();
        journal.write(&record(2)).unwrap();
        assert_eq!(journal.read().unwrap().records, [record(1), record(2)]);
        journal.remove(1).unwrap();
        assert_eq!(journal.one(1).unwrap(), None);
        assert_eq!(journal.next_id(&lock).unwrap(), 3);
    }

    #[test]
    fn a_cut_record_is_said_and_its_number_is_not_given_away() {
        let (_folder, journal) = journal();
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
    }

    #[test]
    fn a_write_that_was_broken_off_leaves_the_record_before() {
        let (_folder, journal) = journal();
        let _lock = journal.lock().unwrap();
        journal.write(&record(1)).unwrap();
        fs::write(journal.directory().join(".1.tmp"), b"{\"version\":1,").unwrap();
        let read = journal.read().unwrap();
        assert_eq!((read.records, read.garbage.len()), (vec![record(1)], 0));
        journal.write(&record(1)).unwrap();
    }

    #[test]
    fn a_record_that_cannot_be_written_is_an_error_with_the_place() {
        let journal = Journal::at("/proc/no-such-place");
        let error = journal.lock().err().unwrap().to_string();
        assert!(error.contains("/proc/no-such-place") && error.contains("nothing was changed"));
    }

    #[test]
    fn a_record_that_others_could_have_written_is_no_record() {
        let (_folder, journal) = journal();
        let _lock = journal.lock().unwrap();
        journal.write(&record(1)).unwrap();
        let path = journal.path(1);
        let whole = fs::read(&path).unwrap();
        let why = || {
            let read = journal.read().unwrap();
            assert!(read.records.is_empty(), "{:?}", read.records);
            read.garbage[0].to_string()
        };
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        for open in [0o664, 0o646, 0o666] {
            mode(open);
            assert!(why().contains("other users may write to it"));
        }
        mode(0o644);
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(why().contains("it belongs to user 65534"));
        }
        fs::remove_file(&path).unwrap();
        let elsewhere = journal.directory().join("elsewhere");
        fs::write(&elsewhere, &whole).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(why().contains("1.json"));
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(why().contains("no regular file"), "and it does not wait for a writer");
        fs::remove_file(&path).unwrap();
        // A link in place of the file that is renamed is replaced, not followed.
        std::os::unix::fs::symlink(&elsewhere, journal.directory().join(".1.tmp")).unwrap();
        journal.write(&record(1)).unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), whole);
        assert_eq!(journal.read().unwrap().records, [record(1)]);
    }

    #[test]
    fn a_directory_that_others_may_write_to_keeps_no_journal() {
        let (_folder, journal) = journal();
        fs::create_dir(journal.directory()).unwrap();
        fs::set_permissions(journal.directory(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = journal.lock().err().unwrap().to_string();
        assert!(error.contains("other users may write to it"), "{error}");
    }
}
