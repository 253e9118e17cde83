//! Records the queueing delay that a transfer causes.

use crate::app::Side;
use crate::judge::QueueDelay;
use crate::judge::thresholds::INITIAL_WINDOW_BYTES;
use crate::tcp::connection::Connection;

impl Connection {
    /// Records the queueing delay of what `side` sends at `now_ns`, if that belongs to a transfer.
    /// A timestamp shows the queue before the vantage when the packet passes; the ACK of an earlier
    /// packet shows the queue behind the vantage at the time at which that packet was sent.
    pub(super) fn note_queue_delay(&mut self, side: Side, now_ns: u64) {
        let sender = &self.senders[side as usize];
        let ahead_ns = sender.clock.queued_ns();
        let (acked_ns, rtt_ns) = sender.clocked_ns().unwrap_or_default();
        let behind_ns = rtt_ns.saturating_sub(self.path.rtt_ns(side.peer()));
        let queue_ns = ahead_ns + behind_ns;
        let known = self.queue_delay(side).is_some();
        if !known && !QueueDelay::begins(queue_ns, self.path.base_rtt_ns()) {
            return;
        }
        let began = self.timeline.front().map_or(u64::MAX, |it| it.began_at[side as usize]);
        if sender.space.nxt.saturating_sub(began) < INITIAL_WINDOW_BYTES {
            return;
        }
        let at_ns = if behind_ns > ahead_ns { acked_ns.saturating_sub(rtt_ns) } else { now_ns };
        let queue_delay = self.cold_mut().queue_delay.get_or_insert_default();
        queue_delay[side as usize].note(at_ns, queue_ns);
    }

    /// Queueing delay that transfers of `sender` caused, if there was any.
    pub fn queue_delay(&self, sender: Side) -> Option<&QueueDelay> {
        let queue_delay = &self.cold(|cold| &cold.queue_delay)?[sender as usize];
        (!queue_delay.is_empty()).then_some(queue_delay)
    }

    /// Memory of the recorded queueing delays, bytes.
    pub(super) fn queue_delay_bytes(&self) -> usize {
        let queue_delay = self.cold(|cold| &cold.queue_delay);
        queue_delay.map_or(0, |both| {
            size_of_val(both) + both.iter().map(QueueDelay::heap_bytes).sum::<usize>()
        })
    }
}
