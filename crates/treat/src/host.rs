//! Changes of a host that last until they are undone: kernel settings, listeners, files, routes,
//! packet filters. They are made in order, and undone in the reverse order.

use super::error::TreatError;
use super::journal::Journal;
use super::namespace::Namespace;
use super::record::{Change, Lifetime, Record, VERSION, What};
use super::undo::{self, ChangedMeanwhile, Undone};
use super::{cache, file, filter, listener, route, sysctl, system, xdp};
use tcpwhy_live::netns::Netns;

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
    /// Its network namespace, which exists until the changes in it are undone.
    _netns: Option<Netns>,
    is_over: bool,
}

impl HostTreatment {
    /// Records all changes in the journal, and makes them.
    ///
    /// # Errors
    /// Something treats the same already; the journal cannot be written; a change is refused: then
    /// those before it are undone.
    pub fn begin(journal: Journal, plan: &HostPlan) -> Result<Self, TreatError> {
        let namespace = plan.changes.iter().find_map(Change::namespace);
        let netns = namespace.map(Namespace::open).transpose().map_err(TreatError::Namespace)?;
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
                state: Lifetime::Running,
                by: system::by(),
                since: system::since(),
                changes: plan.changes.clone(),
            };
            journal.write(&record)?;
            record
        };
        let mut treatment = Self { journal, record, _netns: netns, is_over: false };
        for index in 0..treatment.record.changes.len() {
            if let Err(error) = treatment.make(index) {
                // Of these kinds nothing exists after a failure; of the others a part may.
                let failed = &treatment.record.changes[index];
                let is_none = matches!(failed, Change::Filter(_) | Change::Xdp(_))
                    && !matches!(error, TreatError::Journal { .. });
                treatment.record.changes.truncate(index + usize::from(!is_none));
                return Err(treatment.abandon(error));
            }
        }
        Ok(treatment)
    }

    /// Makes one change, and records what the kernel made of it.
    fn make(&mut self, index: usize) -> Result<(), TreatError> {
        let made = make(&self.record.changes[index])?;
        if made != self.record.changes[index] {
            self.record.changes[index] = made;
            self.journal.write(&self.record)?;
        }
        Ok(())
    }

    /// Undoes what was done until a failure.
    fn abandon(mut self, error: TreatError) -> TreatError {
        self.is_over = true;
        let undone = undo::restore(&self.journal, &self.record);
        undone.after(error)
    }

    /// Returns the number of the treatment.
    pub fn id(&self) -> u32 {
        self.record.id
    }

    /// Returns its record in the journal.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns whether its record exists: another process that undid the treatment has removed it.
    pub fn tend(&self) -> bool {
        self.journal.has(self.record.id)
    }

    /// Leaves the change until it is undone.
    ///
    /// # Errors
    /// The journal cannot be written; then the change is undone.
    pub fn keep(mut self) -> Result<(), TreatError> {
        self.record.state = Lifetime::Kept;
        if let Err(error) = self.journal.write(&self.record) {
            return Err(self.abandon(error));
        }
        self.is_over = true;
        Ok(())
    }

    /// Restores what was there.
    pub fn undo(mut self) -> Undone {
        self.is_over = true;
        undo::restore(&self.journal, &self.record)
    }
}

impl Drop for HostTreatment {
    fn drop(&mut self) {
        if !self.is_over {
            // Changes that cannot be restored stay in the journal.
            undo::restore(&self.journal, &self.record);
        }
    }
}

/// Returns whether two changes concern the same object.
fn is_same(one: &Change, other: &Change) -> bool {
    match (one, other) {
        (Change::Sysctl(one), Change::Sysctl(other)) => {
            one.name == other.name && one.namespace.is(&other.namespace)
        }
        (Change::Listener(one), Change::Listener(other)) => one.cookie == other.cookie,
        (Change::File(one), Change::File(other)) => one.path == other.path,
        (Change::Route(one), Change::Route(other)) => {
            one.namespace.is(&other.namespace)
                && one.is_ipv6 == other.is_ipv6
                && one.prefix == other.prefix
        }
        (Change::Filter(one), Change::Filter(other)) => {
            one.namespace.is(&other.namespace) && one.port == other.port
        }
        (Change::Xdp(one), Change::Xdp(other)) => {
            one.namespace.is(&other.namespace) && one.device == other.device
        }
        _ => false,
    }
}

/// Makes a change, and returns it with the value that the object has then.
fn make(change: &Change) -> Result<Change, TreatError> {
    Ok(match change {
        Change::Sysctl(change) => Change::Sysctl(sysctl::make(change)?),
        Change::Listener(change) => Change::Listener(listener::make(change)?),
        Change::File(change) => Change::File(file::make(change)?),
        Change::Cache(change) => Change::Cache(cache::make(change)?),
        Change::Route(change) => Change::Route(route::make(change)?),
        Change::Filter(change) => Change::Filter(filter::make(change)?),
        Change::Xdp(change) => Change::Xdp(xdp::make(change)?),
        // Sockets are a treatment of their own.
        Change::Socket(_) => change.clone(),
    })
}

/// Result of restoring one object.
pub(super) enum Restored {
    /// The setting has the value that it had before.
    Done,
    /// The object does not exist any more.
    Gone,
    /// Another program has changed it since.
    ChangedMeanwhile {
        /// Its value now.
        now: String,
    },
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
            Ok(Restored::Gone) => {
                undone.gone += 1;
                undone.gone_objects.push(change.words());
            }
            Ok(Restored::ChangedMeanwhile { now }) => {
                undone.changed_meanwhile.push(ChangedMeanwhile::of(change, now));
                left.insert(0, change.clone());
            }
            Err(why) => {
                undone.failed.push(format!("{}: {why}", change.words()));
                left.insert(0, change.clone());
            }
        }
    }
    left
}
