//! Changes of a host that last until they are undone: kernel settings, listeners, files, routes,
//! packet filters. They are made in order, and undone in the reverse order.

use super::error::TreatError;
use super::journal::Journal;
use super::record::{Change, Record, State, VERSION, What};
use super::undo::{self, Undone};
use super::{cache, file, filter, listener, route, sysctl, system, xdp};

/// Planned changes of a treatment of a host, in order.
#[derive(Debug, Clone)]
pub struct HostPlan {
    /// Kind of treatment, for the journal.
    pub what: What,
    /// The changes; none of them is made yet.
    pub changes: Vec<Change>,
    /// Risks of the changes.
    pub risks: Vec<&'static str>,
}

/// A host under treatment. Dropping it undoes the treatment, unless it is kept.
pub struct HostTreatment {
    journal: Journal,
    record: Record,
    is_over: bool,
}

impl HostTreatment {
    /// Records all changes in the journal, and makes them.
    ///
    /// # Errors
    /// Something treats the same already; the journal cannot be written; a change is refused: then
    /// those before it are undone.
    pub fn begin(journal: Journal, plan: &HostPlan) -> Result<Self, TreatError> {
        let record = {
            let lock = journal.lock()?;
            super::refuse_twice_of(&journal, |record| {
                let both = |one: &Change| plan.changes.iter().any(|other| is_same(one, other));
                record.changes.iter().any(both)
            })?;
            let id = journal.next_id(&lock)?;
            let record = Record {
                version: VERSION,
                id,
                what: plan.what.clone(),
                state: State::Running,
                by: system::by(),
                since: system::since(),
                changes: plan.changes.clone(),
            };
            journal.write(&record)?;
            record
        };
        // Dropping it restores the changes made so far and removes the record.
        let treatment = Self { journal, record, is_over: false };
        for change in &treatment.record.changes {
            make(change)?;
        }
        Ok(treatment)
    }

    /// Returns the number of the treatment.
    pub fn id(&self) -> u32 {
        self.record.id
    }

    /// Returns its record in the journal.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns whether the treatment is still in effect: another process may have undone it.
    pub fn tend(&mut self) -> bool {
        self.is_over = !self.journal.has(self.record.id);
        !self.is_over
    }

    /// Leaves the change until it is undone.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn keep(mut self) -> Result<(), TreatError> {
        self.record.state = State::Kept;
        self.journal.write(&self.record)?;
        self.is_over = true;
        Ok(())
    }

    /// Restores what was there.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn undo(mut self) -> Result<Undone, TreatError> {
        self.is_over = true;
        undo::restore(&self.journal, &self.record)
    }
}

impl Drop for HostTreatment {
    fn drop(&mut self) {
        if !self.is_over {
            // Changes that cannot be restored stay in the journal.
            let _ = undo::restore(&self.journal, &self.record);
        }
    }
}

/// Returns whether two changes concern the same object.
fn is_same(one: &Change, other: &Change) -> bool {
    match (one, other) {
        (Change::Sysctl(one), Change::Sysctl(other)) => {
            one.name == other.name && one.netns == other.netns
        }
        (Change::Listener(one), Change::Listener(other)) => one.cookie == other.cookie,
        (Change::File(one), Change::File(other)) => one.path == other.path,
        (Change::Route(one), Change::Route(other)) => {
            one.netns == other.netns && one.is_ipv6 == other.is_ipv6 && one.prefix == other.prefix
        }
        (Change::Filter(one), Change::Filter(other)) => {
            one.netns == other.netns && one.port == other.port
        }
        (Change::Xdp(one), Change::Xdp(other)) => {
            one.netns == other.netns && one.device == other.device
        }
        _ => false,
    }
}

fn make(change: &Change) -> Result<(), TreatError> {
    match change {
        Change::Sysctl(change) => sysctl::make(change),
        Change::Listener(change) => listener::make(change),
        Change::File(change) => file::make(change),
        Change::Cache(change) => cache::make(change),
        Change::Route(change) => route::make(change),
        Change::Filter(change) => filter::make(change),
        Change::Xdp(change) => xdp::make(change),
        // Sockets are a treatment of their own.
        Change::Socket(_) => Ok(()),
    }
}

/// Result of restoring one object.
pub(super) enum Restored {
    /// The setting has the value that it had before.
    Done,
    /// The object does not exist any more.
    Gone,
    /// Someone else has changed it since.
    ChangedMeanwhile,
}

/// Restores the changes of a record of a host, the last change first; returns those that could not
/// be restored. After a reboot only files are left to restore.
pub(super) fn restore(record: &Record, undone: &mut Undone) -> Vec<Change> {
    let mut left = Vec::new();
    for change in record.changes.iter().rev() {
        undone.syns_dropped += match change {
            Change::Filter(change) => filter::dropped(change),
            Change::Xdp(change) => xdp::dropped(change),
            _ => 0,
        };
        let restored = match change {
            Change::File(change) => file::restore(change),
            _ if undone.was_reboot => Ok(Restored::Gone),
            Change::Sysctl(change) => sysctl::restore(change),
            Change::Listener(change) => listener::restore(change),
            Change::Cache(change) => cache::restore(change),
            Change::Route(change) => route::restore(change),
            Change::Filter(change) => filter::restore(change),
            Change::Xdp(change) => xdp::restore(change),
            Change::Socket(_) => Ok(Restored::Gone),
        };
        match restored {
            Ok(Restored::Done) => undone.restored += 1,
            Ok(Restored::Gone) => undone.gone += 1,
            Ok(Restored::ChangedMeanwhile) => undone.changed_meanwhile += 1,
            Err(why) => {
                undone.failed.push(format!("{}: {why}", change.words()));
                left.insert(0, change.clone());
            }
        }
    }
    left
}
