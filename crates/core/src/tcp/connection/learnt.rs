//! What a judged gap shows of its sender, for later gaps.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{self, Gap, Shape, Turn};
use crate::model::{Cause, Slices};
use crate::tcp::connection::blocked::{Blocked, count_continuation};
use crate::tcp::connection::cold::Cold;
use crate::tcp::connection::questions::Settling;
use crate::tcp::exchange::Change;

/// Records what a gap shows of its sender, for later gaps.
pub(super) fn learn(gap: &Gap, slices: &Slices, by: Settling<'_>, cold: &mut Cold) {
    let causes = slices.causes();
    let owned_by = |cause: Cause| causes.contains(cause);
    if gap.flight.before <= 2 * gap.smss && owned_by(Cause::DelayedAck) {
        by.senders[gap.sender].habits.note_waits_per_segment();
    }
    if owned_by(Cause::SendBuffer) {
        by.timeline.exchanges.revise(&Change::SendBuffer);
        count_continuation(&mut by.senders[gap.sender], gap);
    }
    if let Some(blocked) = Blocked::of(gap, slices) {
        cold.get_or_create().questions.blocked = Some(Box::new(blocked));
    }
    let sender = &mut by.senders[gap.sender];
    let own_pause = gap.turn == Turn::Continues
        && !gap.repair.is_retransmission()
        && gap.len_ns() >= HOST_DELAY_MAX_NS
        && (owned_by(Cause::ServerThink) || owned_by(Cause::ClientThink))
        && !gap.pace.in_pairs
        && (!gap.ack_triggered() || 2 * gap.pace.own_pause_ns >= gap.len_ns());
    if own_pause && sender.bulk.is_some() {
        sender.history_mut().nagle.own_pauses += 1;
    }
    if own_pause && gap.last_small {
        sender.history_mut().nagle.evidence.pauses += 1;
    }
    let nagle = &mut sender.history_mut().nagle.evidence;
    let after_ns = if gap.released_sooner() { 0 } else { gap.sent_after_ack_ns() };
    let wait_ns = gap.len_ns();
    if gap.continues_after_ack() {
        nagle.note_miss(wait_ns, after_ns, gap.continues_shortly_after_ack());
    } else if owned_by(Cause::NagleDelayedAck) || gap.continues_with_ack() {
        nagle.note_hold(wait_ns, after_ns);
    }
    if gap.full_waits_for_ack() {
        sender.history_mut().nagle.evidence.refuted += 1;
    }
    if judge::after_late_ack(gap) {
        sender.history_mut().nagle.late_acks.note(gap.ack_triggered());
    }
    let waited = owned_by(Cause::DelayedAck);
    if waited || sender.is_troubled() {
        sender.history_mut().nagle.waits.follow(gap, waited);
    }
    if owned_by(Cause::ReceiveWindow) {
        by.senders[gap.sender].note_limiting_window(gap.window.bytes.unwrap_or(0));
    }
    let of_flight = [Cause::SendBuffer, Cause::SlowStart, Cause::CongestionWindow];
    if of_flight.into_iter().any(owned_by) && !gap.spaced() {
        let bulk = by.senders[gap.sender].bulk.get_or_insert_default();
        bulk.rounds.block(gap.flight.before, gap.unsent.drained);
        if let Shape::Ceiling { bytes, .. } = gap.flight.shape
            && owned_by(Cause::SendBuffer)
            && by.path.has_sample(gap.sender)
        {
            bulk.note_ceiling(bytes, gap);
        }
    }
    by.senders[gap.sender].restart(gap, slices);
}
