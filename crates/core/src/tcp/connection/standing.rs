//! What a transfer shows of the queue that it keeps filled.

use super::*;

impl Connection {
    /// `side` goes on with its message at `now_ns`: notes how long what it sends stands in queues, if
    /// that is a transfer. A packet's timestamp tells of the queue before the vantage, when it came
    /// here; the ACK of another of that behind it, and that other was sent earlier.
    pub(super) fn note_standing(&mut self, side: Side, now_ns: u64) {
        let half = &self.halves[side as usize];
        let ahead_ns = half.queued_ns();
        let (acked_ns, rtt_ns) = half.clocked_ns().unwrap_or_default();
        let behind_ns = rtt_ns.saturating_sub(self.path.rtt_ns(side.peer()));
        let queue_ns = ahead_ns + behind_ns;
        let known = self.standing(side).is_some();
        if !known && !Standing::begins(queue_ns, self.path.base_rtt_ns()) {
            return;
        }
        let began = self.timeline.front().map_or(u64::MAX, |it| it.began_at[side as usize]);
        if half.nxt.saturating_sub(began) < Standing::TRANSFER_BYTES {
            return;
        }
        let at_ns = if behind_ns > ahead_ns { acked_ns.saturating_sub(rtt_ns) } else { now_ns };
        let standing = self.rare_mut().standing.get_or_insert_default();
        standing[side as usize].note(at_ns, queue_ns);
    }

    /// The queue that transfers of `sender` filled, if they did.
    pub fn standing(&self, sender: Side) -> Option<&Standing> {
        let standing = &self.rare(|rare| &rare.standing)?[sender as usize];
        (!standing.is_empty()).then_some(standing)
    }

    /// Bytes of memory that keeps.
    pub(super) fn standing_bytes(&self) -> usize {
        let standing = self.rare(|rare| &rare.standing);
        standing.map_or(0, |both| {
            size_of_val(both) + both.iter().map(Standing::heap_bytes).sum::<usize>()
        })
    }
}
