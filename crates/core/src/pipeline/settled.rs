//! Look-ups for which there is no more room: they are added up before the exchanges that they may
//! have delayed are known, so they count as exchanges of their own.

use crate::dns::{self, Lookup};
use crate::findings::{self, Tally};
use crate::model::Window;

/// Sums of look-ups that are no longer kept.
#[derive(Clone)]
pub(super) struct Settled {
    window: Window,
    /// Sums of these look-ups.
    pub tally: Tally,
    /// Number of these look-ups in the time window of the report.
    pub count: u64,
}

impl Settled {
    pub fn new(window: Window) -> Self {
        Self { window, tally: Tally::default(), count: 0 }
    }

    /// Adds up look-ups of two places, each once.
    pub fn take(&mut self, [mut all, more]: [Vec<Lookup>; 2]) {
        if all.is_empty() && more.is_empty() {
            return;
        }
        let new = dns::unknown_to(&all, more);
        all.extend(new);
        let within = all.iter().filter(|it| self.window.overlaps(it.start_ns, it.end_ns));
        let count = within.count() as u64;
        self.count += count;
        self.tally.notes.unlinked += count;
        findings::link(all, &self.window, &mut self.tally);
    }

    /// Removes and returns the sums and the number of look-ups.
    pub fn remove(&mut self) -> (Tally, u64) {
        (std::mem::take(&mut self.tally), std::mem::take(&mut self.count))
    }
}
