//! Records the queueing delay that a transfer causes.

use crate::judge::QueueDelay;
use crate::judge::thresholds::INITIAL_WINDOW_BYTES;
use crate::tcp::connection::cold::Cold;
use crate::tcp::path::Path;
use crate::tcp::sender::Sender;
use crate::wire::Side;

/// Records the queueing delay of what `sender`, which `side` is, sends at `now_ns`, if that belongs
/// to a transfer; the exchange in progress `began` at that position of its stream.
/// A timestamp shows the queue before the vantage when the packet passes; the ACK of an earlier
/// packet shows the queue behind the vantage at the time at which that packet was sent.
pub(super) fn note_queue_delay(
    cold: &mut Cold,
    sender: &Sender,
    path: &Path,
    (side, began): (Side, u64),
    now_ns: u64,
) {
    let ahead_ns = sender.clock.queued_ns();
    let (acked_ns, rtt_ns) = sender.clocked_ns().unwrap_or_default();
    let behind_ns = rtt_ns.saturating_sub(path.rtt_ns(side.peer()));
    let queue_ns = ahead_ns + behind_ns;
    let known = cold.queue_delay(side).is_some();
    if !known && !QueueDelay::begins(queue_ns, path.base_rtt_ns()) {
        return;
    }
    if sender.space.nxt.saturating_sub(began) < INITIAL_WINDOW_BYTES {
        return;
    }
    let at_ns = if behind_ns > ahead_ns { acked_ns.saturating_sub(rtt_ns) } else { now_ns };
    let queue_delay = cold.get_or_create().queue_delay.get_or_insert_default();
    queue_delay[side].note(at_ns, queue_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_without_a_queue_records_nothing() {
        let (mut cold, sender) = (Cold::default(), Sender::of(Side::Server));
        note_queue_delay(&mut cold, &sender, &Path::default(), (Side::Server, 0), 5);
        assert!(cold.get().is_none() && cold.queue_delay_bytes() == 0);
    }
}
