//! Undoes treatments: restores the old value of each object, unless the object is gone or was
//! changed by another program since.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::error::TreatError;
use super::journal::Journal;
use super::record::{Change, Record, Scope, SocketChange, State, What};
use super::setting::{Setting, Value};
use super::{host, reach, system};
use crate::hooks::established::{self, Established, VALUE_BYTES};
use crate::netns::Netns;

/// Longest time that a treating process may take to undo its treatment on request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that wait to be accepted are tried again this often, at this interval.
const AGAIN_MAX: u32 = 10;
const AGAIN: Duration = Duration::from_millis(50);

/// Result of undoing a treatment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// Number of the treatment.
    pub id: u32,
    /// Objects with their old value.
    pub restored: u64,
    /// Sockets that have closed since, or went with a reboot or their namespace.
    pub gone: u64,
    /// Objects that were changed by another program since; they are left unchanged.
    pub changed_meanwhile: u64,
    /// SYNs that a limit has dropped until then.
    #[serde(default)]
    pub syns_dropped: u64,
    /// Objects that could not be restored; they stay in the journal.
    pub failed: Vec<String>,
    /// `true` if the system was rebooted since the treatment, which reset all its changes.
    pub was_reboot: bool,
    /// `true` if the treating process undid it itself.
    pub by_its_process: bool,
}

/// Undoes a treatment through its process if that is running, else directly.
///
/// # Errors There is no treatment with this number, or its record is invalid.
pub fn undo(journal: &Journal, id: u32) -> Result<Undone, TreatError> {
    let record = journal.one(id)?.ok_or(TreatError::NoTreatment { id })?;
    let is_running = record.state == State::Running && system::running(&record.by).is_some();
    if is_running {
        journal.ask(id);
    }
    if is_running && system::terminate(&record.by).unwrap_or(false) {
        let began = Instant::now();
        while journal.has(id) && system::running(&record.by).is_some() && began.elapsed() < PATIENCE
        {
            thread::sleep(Duration::from_millis(5));
        }
        let outcome = journal.outcome(id);
        if !journal.has(id) {
            let restored = record.changes.len() as u64;
            let outcome = outcome.unwrap_or(Undone { id, restored, ..Undone::default() });
            return Ok(Undone { by_its_process: true, ..outcome });
        }
    }
    let record = journal.one(id)?.ok_or(TreatError::NoTreatment { id })?;
    restore(journal, &record)
}

/// Restores all changes of a record; those that could not be restored stay in it.
pub(super) fn restore(journal: &Journal, record: &Record) -> Result<Undone, TreatError> {
    let _lock = journal.lock()?;
    let mut undone = Undone { id: record.id, ..Undone::default() };
    let mut left = Vec::new();
    undone.was_reboot = record.since.boot_id != system::boot_id();
    if let What::Sockets { .. } = record.what
        && undone.was_reboot
    {
        undone.gone = record.changes.len() as u64;
    } else {
        match &record.what {
            What::Sockets { setting, scope, .. } => {
                let record = with_hook(record, setting)?;
                left = sockets(&record, setting, scope, &mut undone)?;
                for _ in 0..AGAIN_MAX {
                    if left.is_empty() {
                        break;
                    }
                    thread::sleep(AGAIN);
                    undone.failed.clear();
                    let rest = Record { changes: left, ..record.clone() };
                    left = sockets(&rest, setting, scope, &mut undone)?;
                }
            }
            _ => left = host::restore(record, &mut undone),
        }
    }
    journal.answer(&undone);
    if left.is_empty() {
        journal.remove(record.id)?;
    } else {
        journal.write(&Record { changes: left, ..record.clone() })?;
    }
    forget_hook(record);
    Ok(undone)
}

fn sockets(
    record: &Record,
    setting: &Setting,
    scope: &Scope,
    undone: &mut Undone,
) -> Result<Vec<Change>, TreatError> {
    let Some(netns) = Netns::with_inode(scope.netns) else {
        undone.gone = record.changes.len() as u64;
        return Ok(Vec::new());
    };
    let mut look = reach::look_for_all(&netns)?;
    let found = look.found.iter().filter(|found| found.entry.cookie != 0);
    let places: HashMap<u64, _> = found.map(|it| (it.entry.cookie, it.holder)).collect();
    let changes = record.changes.iter().filter_map(|change| match change {
        Change::Socket(socket) => Some(socket.clone()),
        _ => None,
    });
    let mut left = Vec::new();
    for change in changes {
        match places.get(&change.cookie) {
            None => undone.gone += 1,
            Some(None) => {
                undone.failed.push(format!(
                    "{} – {}: it waits to be accepted; undo again",
                    change.local, change.peer
                ));
                left.push(Change::Socket(change));
            }
            Some(Some(holder)) => match put_back(&mut look, *holder, setting, &change) {
                Ok(true) => undone.restored += 1,
                Ok(false) => undone.changed_meanwhile += 1,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => undone.gone += 1,
                Err(error) => {
                    let (local, peer) = (change.local, change.peer);
                    undone.failed.push(format!("{local} – {peer}: {error}"));
                    left.push(Change::Socket(change));
                }
            },
        }
    }
    Ok(left)
}

/// Restores a value; returns `false` if the application has changed it since.
fn put_back(
    look: &mut reach::Look,
    holder: crate::process::Holder,
    setting: &Setting,
    change: &SocketChange,
) -> std::io::Result<bool> {
    let socket = look.open(holder, change.cookie)?;
    let socket = socket.as_fd();
    let now = setting.read(socket)?;
    // The kernel changes TCP_QUICKACK by itself, so its present value is not compared.
    if *setting != Setting::Quickack && !now.is_still(&change.set) {
        // The change may have been recorded but not made, or undone already.
        return Ok(now.is_still(&change.before));
    }
    change.before.write(socket, setting, &now)?;
    Ok(true)
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
