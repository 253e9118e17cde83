//! The [visits](Visit) of one shard: connections of which every segment was expected so far.

use super::closed::Over;
use crate::capture::FrameId;
use crate::tcp::shared::Shared;
use crate::tcp::tracker::{SPARE_MAX, place};
use crate::tcp::visit::Visit;
use crate::wire::{FlowKey, Segment};
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Only the last this many connections to begin may be visits: a visit takes more memory than a
/// tracked connection.
const VISITS_MAX: usize = 512;

/// Result of a segment for the visits.
pub enum Step {
    /// There is no visit with its addresses and ports.
    None,
    /// It was expected.
    Expected,
    /// It was expected, and both sides have now closed.
    Over(Over),
    /// It was not expected.
    Odd,
}

/// The visits of one shard.
#[derive(Clone, Default)]
pub struct Visits {
    table: HashTable<Box<Visit>>,
    /// The last visits that began.
    begun: VecDeque<(u64, FlowKey, FrameId)>,
    /// Memory of ended visits, for reuse.
    #[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")]
    spare: Vec<Box<Visit>>,
}

impl Visits {
    /// Starts a visit with `syn`; returns the oldest one if there are too many.
    pub fn begin(&mut self, hash: u64, syn: &Segment, shows_values: bool) -> Option<Box<Visit>> {
        let visit = Visit::begin(syn, self.spare.pop(), shows_values);
        self.begun.push_back((hash, visit.key, visit.first_frame()));
        self.table.insert_unique(hash, visit, |it| place(it.flow_hash));
        if self.begun.len() <= VISITS_MAX {
            return None;
        }
        let (hash, key, first_frame) = self.begun.pop_front()?;
        self.take(hash, &key, first_frame)
    }

    /// Processes the next segment of a visit.
    #[inline]
    pub fn goes_on(&mut self, segment: &Segment, payload: &[u8], shared: &mut Shared) -> Step {
        let hash = place(segment.flow_hash);
        let Some(visit) = self.table.find_mut(hash, |it| it.key == segment.flow) else {
            return Step::None;
        };
        let had_left = visit.over_ns > 0;
        if !visit.goes_on(segment, payload, &shared.known, &mut shared.names) {
            return Step::Odd;
        }
        if had_left || visit.over_ns == 0 {
            return Step::Expected;
        }
        let first_frame = visit.first_frame();
        Step::Over(Over { over_ns: visit.over_ns, hash, key: visit.key, first_frame })
    }

    /// Returns whether the handshake of the visit that began with `first_frame` is complete;
    /// `None` if there is no such visit.
    pub fn is_connected(&self, hash: u64, key: &FlowKey, first_frame: FrameId) -> Option<bool> {
        let visit = self.table.find(hash, |it| it.key == *key && it.first_frame() == first_frame);
        visit.map(|visit| visit.is_connected())
    }

    /// Removes the visit that began with `first_frame`.
    pub fn take(&mut self, hash: u64, key: &FlowKey, first_frame: FrameId) -> Option<Box<Visit>> {
        let found =
            self.table.find_entry(hash, |it| it.key == *key && it.first_frame() == first_frame);
        Some(found.ok()?.remove().0)
    }

    /// Removes the visit of `key`.
    pub fn take_of(&mut self, hash: u64, key: &FlowKey) -> Option<Box<Visit>> {
        Some(self.table.find_entry(hash, |it| it.key == *key).ok()?.remove().0)
    }

    /// Removes all visits, in the order in which they began.
    pub fn take_all(&mut self) -> impl Iterator<Item = Box<Visit>> + use<> {
        let mut all: Vec<_> = self.table.drain().collect();
        all.sort_by_key(|visit| (visit.first_ns(), visit.first_frame()));
        all.into_iter()
    }

    /// Keeps the memory of an ended visit for reuse.
    pub fn keep_room(&mut self, visit: Box<Visit>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(visit);
        }
    }

    /// Number of visits.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory that they take, bytes.
    pub fn memory_bytes(&self) -> usize {
        let visits = self.table.iter().map(|visit| visit.memory_bytes());
        self.table.allocation_size() + visits.sum::<usize>()
    }
}
