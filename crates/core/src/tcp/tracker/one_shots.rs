//! The [one-shot connections](OneShotConnection) of one shard: connections of which every segment
//! was expected so far.

use super::closed::Over;
use crate::capture::FrameId;
use crate::tcp::one_shot::OneShotConnection;
use crate::tcp::shared::Shared;
use crate::tcp::tracker::{SPARE_MAX, table_hash};
use crate::wire::{FlowKey, Segment};
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Only the last this many connections to begin may be one-shot connections: a one-shot connection
/// takes more memory than a tracked connection.
const RECENT_MAX: usize = 512;

/// Result of a segment for the one-shot connections.
pub enum Step {
    /// There is no one-shot connection with its addresses and ports.
    None,
    /// It was expected.
    Expected,
    /// It was expected, and both sides have now closed.
    Over(Over),
    /// It was not expected.
    Odd,
}

/// The one-shot connections of one shard.
#[derive(Clone, Default)]
pub struct OneShotConnections {
    table: HashTable<Box<OneShotConnection>>,
    /// The last one-shot connections that began.
    begun: VecDeque<(u64, FlowKey, FrameId)>,
    /// Memory of ended one-shot connections, for reuse.
    #[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")]
    spare: Vec<Box<OneShotConnection>>,
}

impl OneShotConnections {
    /// Starts a one-shot connection with `syn`; returns the oldest one if there are too many.
    pub fn begin(
        &mut self,
        hash: u64,
        syn: &Segment,
        shows_values: bool,
    ) -> Option<Box<OneShotConnection>> {
        let candidate = OneShotConnection::begin(syn, self.spare.pop(), shows_values);
        self.begun.push_back((hash, candidate.key, candidate.first_frame()));
        self.table.insert_unique(hash, candidate, |it| table_hash(it.flow_hash));
        if self.begun.len() <= RECENT_MAX {
            return None;
        }
        let (hash, key, first_frame) = self.begun.pop_front()?;
        self.take(hash, &key, first_frame)
    }

    /// Processes the next segment of a one-shot connection.
    #[inline]
    pub fn goes_on(&mut self, segment: &Segment, payload: &[u8], shared: &mut Shared) -> Step {
        let hash = table_hash(segment.flow_hash);
        let Some(candidate) = self.table.find_mut(hash, |it| it.key == segment.flow) else {
            return Step::None;
        };
        let had_left = candidate.over_ns > 0;
        if !candidate.goes_on(segment, payload, &shared.known, &mut shared.names) {
            return Step::Odd;
        }
        if had_left || candidate.over_ns == 0 {
            return Step::Expected;
        }
        let first_frame = candidate.first_frame();
        Step::Over(Over { over_ns: candidate.over_ns, hash, key: candidate.key, first_frame })
    }

    /// Returns whether the handshake of the one-shot connection that began with `first_frame` is
    /// complete; `None` if there is no such one-shot connection.
    pub fn is_connected(&self, hash: u64, key: &FlowKey, first_frame: FrameId) -> Option<bool> {
        let candidate =
            self.table.find(hash, |it| it.key == *key && it.first_frame() == first_frame);
        candidate.map(|candidate| candidate.is_connected())
    }

    /// Removes the one-shot connection that began with `first_frame`.
    pub fn take(
        &mut self,
        hash: u64,
        key: &FlowKey,
        first_frame: FrameId,
    ) -> Option<Box<OneShotConnection>> {
        let found =
            self.table.find_entry(hash, |it| it.key == *key && it.first_frame() == first_frame);
        Some(found.ok()?.remove().0)
    }

    /// Removes the one-shot connection of `key`.
    pub fn take_of(&mut self, hash: u64, key: &FlowKey) -> Option<Box<OneShotConnection>> {
        Some(self.table.find_entry(hash, |it| it.key == *key).ok()?.remove().0)
    }

    /// Removes all one-shot connections, in the order in which they began.
    pub fn take_all(&mut self) -> impl Iterator<Item = Box<OneShotConnection>> + use<> {
        let mut all: Vec<_> = self.table.drain().collect();
        all.sort_by_key(|candidate| (candidate.first_ns(), candidate.first_frame()));
        all.into_iter()
    }

    /// Keeps the memory of an ended one-shot connection for reuse.
    pub fn keep_room(&mut self, candidate: Box<OneShotConnection>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(candidate);
        }
    }

    /// Number of one-shot connections.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory that they take, bytes.
    pub fn memory_bytes(&self) -> usize {
        let one_shots = self.table.iter().map(|candidate| candidate.memory_bytes());
        self.table.allocation_size() + one_shots.sum::<usize>()
    }
}
