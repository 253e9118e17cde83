//! Undoes treatments: restores the old value of each object, unless the object is gone or was
//! changed by another program since.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::error::TreatError;
use super::journal::Journal;
use super::record::{Change, Lifetime, Record, Scope, SocketChange, What};
use super::setting::{Setting, Value};
use super::{host, reach, system};
use crate::hooks::established::{self, Established, VALUE_BYTES};

/// Longest time that a treating process may take to undo its treatment on request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that wait to be accepted, or whose holder has just ended, are tried again this often,
/// at this interval.
const AGAIN_MAX: u32 = 10;
const AGAIN: Duration = Duration::from_millis(50);

/// Result of undoing a treatment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// Number of the treatment.
    pub id: u32,
    /// Objects with their old value.
    pub restored: u64,
    /// Objects that do not exist any more: closed sockets, or what went with a reboot or a
    /// namespace.
    pub gone: u64,
    /// Names of the objects that are gone, without sockets.
    pub gone_objects: Vec<String>,
    /// Objects that were changed by another program since; they are left unchanged, and stay in the
    /// journal.
    pub changed_meanwhile: Vec<ChangedMeanwhile>,
    /// SYNs that a limit has dropped until then.
    pub syns_dropped: u64,
    /// Objects that could not be restored; they stay in the journal.
    pub failed: Vec<String>,
    /// Why the journal does not show what was undone.
    pub journal: Option<String>,
    /// `true` if the system was rebooted since the treatment, which reset all its changes.
    pub was_reboot: bool,
    /// `true` if the treating process undid it itself.
    pub by_its_process: bool,
}

/// An object that another program has changed during a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedMeanwhile {
    /// Name of the object.
    pub what: String,
    /// Value before the treatment.
    pub before: String,
    /// Value that the treatment set.
    pub set: String,
    /// Value that it has now.
    pub now: String,
}

impl ChangedMeanwhile {
    /// Describes a change of which the object has the value `now`.
    pub(super) fn of(change: &Change, now: String) -> Self {
        let (before, set) = (change.before_words(), change.set_words());
        Self { what: change.words(), before, set, now }
    }

    /// Describes the present value, and those that the object had.
    pub fn words(&self) -> String {
        let Self { what, before, set, now } = self;
        format!(
            "{what} is {now} now: another program changed it from {set}, which the treatment had \
             set; before the treatment it was {before}"
        )
    }
}

impl Undone {
    /// Returns whether nothing is left of the treatment, neither a change nor a record.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.changed_meanwhile.is_empty() && self.journal.is_none()
    }

    /// Adds the result of a second undo, of what the treating process has left.
    fn followed_by(self, rest: Self) -> Self {
        Self {
            restored: self.restored + rest.restored,
            gone: self.gone + rest.gone,
            gone_objects: [self.gone_objects.as_slice(), &rest.gone_objects].concat(),
            syns_dropped: self.syns_dropped + rest.syns_dropped,
            by_its_process: true,
            ..rest
        }
    }

    /// Returns the error that led to this undo, with what is left of the treatment.
    pub(super) fn after(self, error: TreatError) -> TreatError {
        if self.is_whole() {
            return error;
        }
        let changed = self.changed_meanwhile.iter().map(ChangedMeanwhile::words);
        let left: Vec<String> =
            self.failed.into_iter().chain(changed).chain(self.journal).collect();
        let failure = super::error::chain(&error);
        TreatError::Half { failure, left: left.join("; "), id: self.id }
    }
}

/// Undoes a treatment through its process if that is running, else directly.
///
/// # Errors There is no treatment with this number, or its record is invalid.
pub fn undo(journal: &Journal, id: u32) -> Result<Undone, TreatError> {
    let record = journal.one(id)?.ok_or(TreatError::NoTreatment { id })?;
    let is_running =
        record.state == Lifetime::Running && system::running(&record.by.process).is_some();
    if is_running {
        journal.ask(id);
    }
    if is_running && system::terminate(&record.by.process).unwrap_or(false) {
        let began = Instant::now();
        while journal.has(id)
            && system::running(&record.by.process).is_some()
            && began.elapsed() < PATIENCE
        {
            thread::sleep(Duration::from_millis(5));
        }
        let outcome = journal.outcome(id);
        if !journal.has(id) {
            let restored = record.changes.len() as u64;
            let outcome = outcome.unwrap_or(Undone { id, restored, ..Undone::default() });
            return Ok(Undone { by_its_process: true, ..outcome });
        }
        // What the process could not restore may be restored from here.
        let rest = journal.one(id)?.map(|record| restore(journal, &record)).unwrap_or_default();
        return Ok(outcome.map_or(rest.clone(), |outcome| outcome.followed_by(rest)));
    }
    Ok(restore(journal, &record))
}

/// Removes the record of a treatment whose process has ended: what it changed stays as it is.
///
/// # Errors There is no treatment with this number, or its record cannot be removed.
pub fn forget(journal: &Journal, id: u32) -> Result<(), TreatError> {
    let _lock = journal.lock()?;
    let record = journal.one(id)?.ok_or(TreatError::NoTreatment { id })?;
    journal.remove(id)?;
    forget_hook(&record);
    Ok(())
}

/// Restores all changes of a record; those that could not be restored stay in it. What the journal
/// is like does not matter: a change that can be restored is restored.
pub(super) fn restore(journal: &Journal, record: &Record) -> Undone {
    let _lock = journal.lock();
    let mut undone = Undone { id: record.id, ..Undone::default() };
    undone.was_reboot = record.since.boot_id != system::boot_id();
    let left = match &record.what {
        What::Sockets { .. } if undone.was_reboot => {
            undone.gone = record.changes.len() as u64;
            Vec::new()
        }
        What::Sockets { setting, scope, .. } => all_sockets(record, setting, scope, &mut undone),
        _ => host::restore(record, &mut undone),
    };
    let is_over = left.is_empty() && undone.failed.is_empty();
    // Whoever asked looks for the answer when the record is gone.
    journal.answer(&undone);
    let noted = match is_over {
        true => journal.remove(record.id),
        false => journal.write(&Record { changes: left, ..record.clone() }),
    };
    undone.journal = noted.err().map(|error| super::error::chain(&error));
    if is_over {
        forget_hook(record);
    }
    undone
}

/// Restores sockets, and returns the changes that are left. Those that cannot be reached are tried
/// again for a while.
fn all_sockets(
    record: &Record,
    setting: &Setting,
    scope: &Scope,
    undone: &mut Undone,
) -> Vec<Change> {
    let mut kept = Vec::new();
    let mut waiting = match with_hook(record, setting) {
        Ok(record) => record.changes,
        Err(error) => {
            // The others are restored all the same.
            undone.failed.push(super::error::chain(&error));
            record.changes.clone()
        }
    };
    let unread = undone.failed.clone();
    for tries in 0..=AGAIN_MAX {
        if tries > 0 {
            thread::sleep(AGAIN);
        }
        undone.failed.clone_from(&unread);
        match sockets(&waiting, setting, scope, undone, &mut kept) {
            Ok(left) => waiting = left,
            Err(error) => undone.failed.push(super::error::chain(&error)),
        }
        if waiting.is_empty() {
            break;
        }
    }
    waiting.append(&mut kept);
    waiting
}

fn sockets(
    changes: &[Change],
    setting: &Setting,
    scope: &Scope,
    undone: &mut Undone,
    kept: &mut Vec<Change>,
) -> Result<Vec<Change>, TreatError> {
    let netns = scope.namespace.find().map_err(TreatError::Namespace)?;
    let Some(netns) = netns else {
        undone.gone += changes.len() as u64;
        return Ok(Vec::new());
    };
    let mut look = reach::look_for_all(&netns)?;
    let found = look.found.iter().filter(|found| found.entry.cookie != 0);
    let places: HashMap<u64, _> = found.map(|it| (it.entry.cookie, it.holder)).collect();
    let mut left = Vec::new();
    for change in changes {
        let Change::Socket(socket) = change else { continue };
        match places.get(&socket.cookie) {
            None => undone.gone += 1,
            Some(None) => {
                let what = change.words();
                undone.failed.push(format!("{what}: it waits to be accepted; undo again"));
                left.push(change.clone());
            }
            Some(Some(holder)) => match put_back(&mut look, *holder, setting, socket) {
                Ok(None) => undone.restored += 1,
                Ok(Some(now)) => {
                    undone.changed_meanwhile.push(ChangedMeanwhile::of(change, now.words()));
                    kept.push(change.clone());
                }
                // A socket that is listed exists: another process may hold it, which the next look
                // finds.
                Err(error) => {
                    undone.failed.push(format!("{}: {error}", change.words()));
                    left.push(change.clone());
                }
            },
        }
    }
    Ok(left)
}

/// Restores a value; returns the present one if the application has changed it since.
fn put_back(
    look: &mut reach::Look,
    holder: tcpwhy_live::process::Holder,
    setting: &Setting,
    change: &SocketChange,
) -> std::io::Result<Option<Value>> {
    let socket = look.open(holder, change.cookie)?;
    let socket = socket.as_fd();
    let now = setting.read(socket)?;
    // The kernel changes TCP_QUICKACK by itself, so its present value is not compared.
    if *setting != Setting::Quickack && !now.is_still(&change.set) {
        // The change may have been recorded but not made, or undone already.
        return Ok(Some(now).filter(|now| !now.is_still(&change.before)));
    }
    change.before.write(socket, setting, &now)?;
    Ok(None)
}

/// Returns the record with the changes that its hook made and that its process has not recorded.
fn with_hook(record: &Record, setting: &Setting) -> Result<Record, TreatError> {
    let mut record = record.clone();
    let What::Sockets { hook_map: Some(pin), .. } = &record.what else { return Ok(record) };
    let events = established::left(pin)
        .map_err(|source| TreatError::HookMap { path: pin.clone(), source })?;
    add_of_hook(&mut record, setting, &events);
    Ok(record)
}

/// Adds the changes of a hook that the record does not list.
pub(super) fn add_of_hook(record: &mut Record, setting: &Setting, events: &[Established]) {
    let noted: HashSet<u64> = record.changes.iter().filter_map(cookie).collect();
    let missing = of_hook(setting, events).filter(|change| !noted.contains(&change.cookie));
    record.changes.extend(missing.map(Change::Socket));
}

/// Removes what a hook has kept for an undo.
pub(super) fn forget_hook(record: &Record) {
    if let What::Sockets { hook_map: Some(pin), .. } = &record.what {
        established::forget(pin);
    }
}

fn cookie(change: &Change) -> Option<u64> {
    match change {
        Change::Socket(socket) => Some(socket.cookie),
        _ => None,
    }
}

/// Reads the sockets that a hook has changed, each with its old value.
pub(super) fn of_hook(
    setting: &Setting,
    events: &[Established],
) -> impl Iterator<Item = SocketChange> {
    let set = events.iter().filter(|event| event.error == 0);
    set.map(|event| {
        let before = match setting {
            Setting::CongestionControl { .. } => {
                let end = event.before.iter().position(|&byte| byte == 0).unwrap_or(VALUE_BYTES);
                Value::Name(String::from_utf8_lossy(&event.before[..end]).into_owned())
            }
            _ => Value::Switch(event.before.iter().any(|&byte| byte != 0)),
        };
        SocketChange {
            cookie: event.cookie,
            local: event.local,
            peer: event.remote,
            pid: None,
            fd: None,
            command: None,
            set: setting.wanted(&before),
            before,
        }
    })
}
