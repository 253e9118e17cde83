//! The [visits](Visit) of one shard: connections of which every segment was expected so far.

use super::closed::Over;
use super::*;

/// Of so many connections that began last, those may be visits that are nothing else by then: what is kept of
/// them is more than of a connection that is followed.
const VISITS_MAX: usize = 512;

/// What a segment is to a visit.
pub enum Step {
    /// There is none.
    None,
    /// It was expected.
    Expected,
    /// So it was, and both sides have left.
    Over(Over),
    /// It was not expected.
    Odd,
}

/// Those of one shard.
#[derive(Clone, Default)]
pub struct Visits {
    table: HashTable<Box<Visit>>,
    /// The last that have begun.
    begun: VecDeque<(u64, FlowKey, FrameId)>,
    /// Room of those that are over.
    #[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")]
    spare: Vec<Box<Visit>>,
}

impl Visits {
    /// One begins with `syn`. Answers another that began so long ago that it is none any more.
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

    /// Takes the next segment of one.
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

    /// Whether the handshake of the one that began so is complete, if there is one.
    pub fn is_connected(&self, hash: u64, key: &FlowKey, first_frame: FrameId) -> Option<bool> {
        let visit = self.table.find(hash, |it| it.key == *key && it.first_frame() == first_frame);
        visit.map(|visit| visit.is_connected())
    }

    /// Takes out the one that began so.
    pub fn take(&mut self, hash: u64, key: &FlowKey, first_frame: FrameId) -> Option<Box<Visit>> {
        let found =
            self.table.find_entry(hash, |it| it.key == *key && it.first_frame() == first_frame);
        Some(found.ok()?.remove().0)
    }

    /// Takes out that of `key`.
    pub fn take_of(&mut self, hash: u64, key: &FlowKey) -> Option<Box<Visit>> {
        Some(self.table.find_entry(hash, |it| it.key == *key).ok()?.remove().0)
    }

    /// Takes out all of them, in the order they began.
    pub fn take_all(&mut self) -> impl Iterator<Item = Box<Visit>> + use<> {
        let mut all: Vec<_> = self.table.drain().collect();
        all.sort_by_key(|visit| (visit.first_ns(), visit.first_frame()));
        all.into_iter()
    }

    /// This one is none any more.
    pub fn keep_room(&mut self, visit: Box<Visit>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(visit);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory they hold.
    pub fn memory_bytes(&self) -> usize {
        let visits = self.table.iter().map(|visit| visit.memory_bytes());
        self.table.allocation_size() + visits.sum::<usize>()
    }
}
