//! A log of what changed an exchange's ledger after its silences were judged, for `--why`.

use crate::model::{Cause, Ledger, Owner};
use crate::tcp::Exchange;
use std::collections::BTreeMap;
use std::panic::Location;

/// A later change of an exchange's ledger.
#[derive(Clone, Debug)]
pub struct Revision {
    /// The place in the code that decided it.
    pub by: &'static Location<'static>,
    /// What turned out.
    pub why: &'static str,
    /// Owners whose time changed, by how much, ns.
    pub owners: Vec<(Owner, i64)>,
    /// Causes whose time changed, by how much, ns.
    pub causes: Vec<(Cause, i64)>,
}

/// What an exchange had before a change.
pub(super) struct Before {
    ledger: Ledger,
    causes: BTreeMap<Cause, i64>,
}

impl Exchange {
    /// Keeps a log of revisions from here on.
    pub(in crate::tcp) fn log_revisions(&mut self) {
        self.revisions = Some(Box::default());
    }

    /// Begins an entry of the log; `None` where none is kept.
    pub(super) fn before(&self) -> Option<Before> {
        self.revisions.as_ref()?;
        Some(Before { ledger: self.ledger.ledger(), causes: self.by_cause() })
    }

    /// Ends the entry that `before` began.
    #[track_caller]
    pub(super) fn log(&mut self, before: Option<Before>, why: &'static str) {
        let Some(Before { ledger, causes }) = before else { return };
        let now = self.ledger.ledger();
        let changed = |owner: &Owner| signed(now.of(*owner)) - signed(ledger.of(*owner));
        let owners = Owner::ALL.iter().map(|owner| (*owner, changed(owner)));
        let owners: Vec<_> = owners.filter(|(_, ns)| *ns != 0).collect();
        let mut by_cause = self.by_cause();
        causes.into_iter().for_each(|(cause, ns)| *by_cause.entry(cause).or_default() -= ns);
        by_cause.retain(|_, ns| *ns != 0);
        if owners.is_empty() && by_cause.is_empty() {
            return;
        }
        let causes = by_cause.into_iter().collect();
        let revision = Revision { by: Location::caller(), why, owners, causes };
        self.revisions.iter_mut().for_each(|log| log.push(revision.clone()));
    }

    fn by_cause(&self) -> BTreeMap<Cause, i64> {
        let mut causes = BTreeMap::new();
        for chain in &self.chains {
            *causes.entry(chain.cause).or_default() += signed(chain.ns);
        }
        causes
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
