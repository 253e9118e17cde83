//! The ACK clock of a sender: ACKs as they pass the vantage, and their effects on the sender, once
//! they can have reached it.

use crate::judge::thresholds::{CLOCKED_SEGMENTS, FEW_SEGMENTS, HOST_DELAY_MAX_NS};
use crate::judge::{AckTrigger, SmallAck};
use crate::tcp::acks::{Ack, Offer};
use crate::tcp::sender::Sender;
use crate::tcp::sender::bulk::Near;
use crate::tcp::sender::history::History;
use crate::tcp::sender::since::SinceDeparture;
use crate::tcp::thresholds::{
    ACK_EARLY_MAX_NS, ACK_EARLY_PART, RTT_MARGIN_NS, RTT_MARGIN_PART, SILENCE_BY_CHANCE_FACTOR,
    TRAIN_PART, WINDOW_MAX_BYTES,
};
use crate::wire::{Segment, TcpFlags};

/// Time by which an ACK may have reached the sender sooner than estimated, after a silence of
/// `silent_ns`, ns. It allows for host delay, and is limited to a part of a short path unless the
/// silence is too long for chance.
fn early_max_ns(rtt_sender_ns: u64, silent_ns: u64) -> u64 {
    let long = silent_ns > SILENCE_BY_CHANCE_FACTOR * rtt_sender_ns;
    (ACK_EARLY_MAX_NS + rtt_sender_ns / ACK_EARLY_PART).min(if long {
        rtt_sender_ns
    } else {
        rtt_sender_ns / TRAIN_PART
    })
}

/// Returns whether the first SACK block is a D-SACK: it reports data received twice (RFC 2883 §4).
#[inline(never)]
fn is_dsack(segment: &Segment) -> bool {
    let [first, second, ..] = segment.sack;
    let within = segment.sack_count > 1
        && first.left.wrapping_sub(second.left) <= second.right.wrapping_sub(second.left)
        && first.right.wrapping_sub(second.left) <= second.right.wrapping_sub(second.left);
    (first.right.wrapping_sub(segment.ack) as i32) <= 0 || within
}

/// Returns whether the ACK in `segment` reports data behind a hole (RFC 2018 §3), other than data received
/// twice.
#[inline]
pub fn reports_hole(segment: &Segment) -> bool {
    segment.sack_count > 0 && segment.sack_count > u8::from(is_dsack(segment))
}

impl Sender {
    /// Applies the ACKs that can have reached the sender by `now_ns`, and adds their effects to
    /// `since`, the state since the last departure. `echoes` is the timestamp that the segment
    /// leaving at `now_ns` echoes, if known.
    #[inline(always)]
    pub fn advance(
        &mut self,
        since: &mut SinceDeparture,
        now_ns: u64,
        (rtt_sender_ns, rtt_receiver_ns): (u64, u64),
        echoes: Option<u32>,
    ) {
        let slack_ns = RTT_MARGIN_NS + rtt_sender_ns / RTT_MARGIN_PART;
        let until_ns = (now_ns + slack_ns).saturating_sub(rtt_sender_ns);
        while let Some(ack) = self.pending.pop_until(until_ns, self.space.nxt) {
            let echoed = echoes.is_some_and(|it| ack.is_echoed_by(it));
            if !echoed && echoes.is_some() && self.is_ack_lost(&ack, now_ns, rtt_sender_ns) {
                since.acks.lost = true;
                continue;
            }
            if !echoed && self.habits.echoes() {
                since.note_unheard(&ack, echoes);
            }
            self.habits.note_echo(echoed);
            self.take_effect(since, ack, rtt_sender_ns, rtt_receiver_ns);
        }
        // The estimated round trip may still be too long. If a segment was sent after a silence
        // that nothing explains, the next ACK may have arrived a little sooner, unless the segment
        // shows by its echo that it had not. (An ACK that should have arrived long before and is
        // not echoed does not show a longer path: the segment may have been queued since.)
        let known_ns = since.acks.last.map_or(self.last.time_ns, |ack| ack.effect_ns);
        let silent_ns = now_ns.saturating_sub(known_ns.max(self.last.time_ns));
        let is_none_echoed =
            self.habits.echoes() && echoes.is_some_and(|it| self.pending.is_none_echoed_by(it));
        if silent_ns > HOST_DELAY_MAX_NS && !is_none_echoed {
            let early_max_ns = early_max_ns(rtt_sender_ns, silent_ns);
            let until_ns = (now_ns + early_max_ns).saturating_sub(rtt_sender_ns);
            if let Some(ack) = self.pending.pop_until(until_ns, self.space.nxt) {
                self.take_effect(since, ack, rtt_sender_ns, rtt_receiver_ns);
            }
        }
    }

    /// Returns whether `ack` was lost on its way to the sender. The segment that leaves now does
    /// not echo it, though by its own timestamp the segment was sent when the ACK had long been
    /// due, and after a silence longer than the timer that waits for ACKs (RFC 8985 §7.2). A
    /// segment that has been queued since then shows nothing about ACKs that arrived meanwhile.
    #[cold]
    #[inline(never)]
    fn is_ack_lost(&self, ack: &Ack, now_ns: u64, rtt_sender_ns: u64) -> bool {
        let rtt_ns = rtt_sender_ns + self.rtts.recent_ns();
        let silent_ns = now_ns.saturating_sub(self.last.time_ns);
        let sent_ns = now_ns.saturating_sub(self.clock.queued_ns());
        let due_ns = ack.seen_ns + rtt_sender_ns;
        self.habits.echoes()
            && ack.tsval != 0
            && silent_ns >= 2 * rtt_ns
            && self.clock.distinguishes(rtt_ns / 2)
            && sent_ns >= due_ns + rtt_ns / 2
    }

    /// Returns whether duplicate ACKs or an ICMP error since SND.UNA last advanced have told the
    /// sender of a loss by `now_ns`. An ACK may have reached it a little sooner than after the
    /// estimated round trip.
    pub fn is_loss_known(&self, now_ns: u64, rtt_sender_ns: u64) -> bool {
        let History { losses, mtu, .. } = self.history();
        let silent_ns = now_ns.saturating_sub(self.last.time_ns);
        let early_ns = early_max_ns(rtt_sender_ns, silent_ns);
        let until_ns = (now_ns + early_ns).saturating_sub(rtt_sender_ns);
        losses.duplicates.count > 0 || mtu.reported || self.pending.reports_loss(until_ns)
    }

    /// Applies the ACKs that must have reached a bulk sender by `now_ns`.
    pub fn apply_arrived_acks(&mut self, now_ns: u64, rtt_sender_ns: u64, rtt_receiver_ns: u64) {
        if self.bulk.is_none() {
            return;
        }
        let until_ns = now_ns.saturating_sub(rtt_sender_ns);
        let mut since = SinceDeparture::default();
        self.since.take(&mut since);
        while let Some(ack) = self.pending.pop_until(until_ns, self.space.nxt) {
            self.take_effect(&mut since, ack, rtt_sender_ns, rtt_receiver_ns);
        }
        self.since.store(since);
    }

    /// Time of the last ACK and the last round-trip sample, ns. A sample far longer than the
    /// previous one is limited, since it may include a repair. `None` if the sample shows nothing
    /// about the path: during recovery or while the window is closed, or if the flight is too small
    /// for immediate ACKs.
    pub fn clocked_ns(&self) -> Option<(u64, u64)> {
        let clocked = self.space.flight() > CLOCKED_SEGMENTS * self.sizes.smss();
        let rtt_ns = self.rtts.last_ns();
        let history = self.history();
        let is_sample = clocked
            && rtt_ns > 0
            && !history.losses.is_repairing(self.space.una())
            && !history.window.is_closed();
        is_sample.then_some((self.una_seen_ns, rtt_ns))
    }

    /// Applies `ack`, which reaches the sender now, and adds its effects to `since`.
    #[inline(never)]
    pub(super) fn take_effect(
        &mut self,
        since: &mut SinceDeparture,
        ack: Ack,
        rtt_sender_ns: u64,
        rtt_receiver_ns: u64,
    ) {
        let advances = ack.una > self.space.una();
        if advances && self.space.takes_back(&ack, self.sizes.smss()) {
            self.history_mut().window.misread();
        }
        let opens = match (ack.offer, self.space.right_edge()) {
            (Offer::Edge(new), Some(old)) => new > old,
            (Offer::Edge(_), None) => true,
            (Offer::Field(field), _) => field > 0 && self.history().window.is_closed(),
        };
        if advances || opens {
            let begins_train = !since.is_in_train(ack.seen_ns);
            if begins_train
                && self.space.window_scale().is_none()
                && let Some(bulk) = &mut self.bulk
            {
                bulk.unscaled.save();
            }
            let acked_all = ack.una >= self.space.nxt;
            let last_ns = self.last.time_ns;
            let held_ns = ack.seen_ns.saturating_sub(last_ns);
            let trigger = AckTrigger {
                frame: ack.frame,
                seen_ns: ack.seen_ns,
                effect_ns: ack.seen_ns + rtt_sender_ns,
                pure: ack.payload_bytes == 0,
                payload_bytes: ack.payload_bytes,
                acked_all,
                delay_ns: (acked_all && last_ns > 0)
                    .then(|| held_ns.saturating_sub(rtt_receiver_ns)),
                opened_window: opens,
                tsval: ack.tsval,
            };
            since.add_ack(trigger, begins_train, &self.space);
        }
        if advances {
            if self.bulk.is_some() {
                // A sender that never has more than a few segments in flight shows its own pace.
                let few = u64::from(self.volume.flight_max) <= FEW_SEGMENTS * self.sizes.smss();
                let shows_path = !few
                    && self.habits.shows_arrival(ack.payload_bytes == 0)
                    && !self.history().losses.is_recovering();
                let nxt = self.space.nxt;
                if let Some(bulk) = &mut self.bulk {
                    bulk.sample_rate(&ack, nxt, shows_path);
                }
            }
            since.acks.of_small = self.small_acked_by(&ack).or(since.acks.of_small);
            self.space.acknowledge(ack.una);
            if ack.duplicate || self.history.is_some() {
                let una = self.space.una();
                self.history_mut().advance(una, u32::from(ack.duplicate));
            }
        } else if ack.duplicate {
            let (seen, effect_ns) = (ack.sighting(self.side.peer()), ack.seen_ns + rtt_sender_ns);
            self.history_mut().losses.duplicates.note(seen, effect_ns);
        }
        if since.probes.sent > since.probes.answered && !advances && !opens {
            since.probes.answered += 1;
        }
        self.follow_window(since, &ack);
    }

    /// Returns `ack` if it acknowledges the last small segment, behind which more was sent.
    fn small_acked_by(&self, ack: &Ack) -> Option<SmallAck> {
        let nxt = self.space.nxt;
        let end = self.volume.small.unacknowledged_before(nxt, self.space.una())?;
        let is_of_it = end <= ack.una && end < nxt;
        is_of_it.then(|| SmallAck { ack: ack.sighting(self.side.peer()), end })
    }

    /// Follows the window that `ack` offers.
    fn follow_window(&mut self, since: &mut SinceDeparture, ack: &Ack) {
        let closed = match ack.offer {
            Offer::Edge(edge) => {
                let window = edge.saturating_sub(ack.una);
                self.sizes.note_window(window);
                let is_misread = self.history().window.is_misread();
                // With less room than for a full segment a sender waits (RFC 9293 §3.8.6.2.1).
                let closed = window < self.sizes.smss() && (!is_misread || window == 0);
                closed.then_some(window)
            }
            // Zero is zero at any scale.
            Offer::Field(field) => (field == 0).then_some(0),
        };
        if closed.is_some() || self.history.is_some() {
            let (seen, last_ns) = (ack.sighting(self.side.peer()), self.last.time_ns);
            since.closed_ns += self.history_mut().window.follow(seen, closed, last_ns);
        }
        match ack.offer {
            Offer::Edge(edge) => {
                if self.history().window.is_misread() {
                    // The first offer, which was not scaled, seems to be taken back.
                    self.space.forget_edge();
                }
                self.space.offer(edge);
            }
            Offer::Field(field) => {
                self.space.forget_edge();
                if let Some(bulk) = &mut self.bulk {
                    bulk.unscaled.offer(field);
                }
            }
        }
    }

    /// Processes an ACK for this direction that passes the vantage, which is `near` one of its
    /// ends. Returns the round-trip sample between the vantage and the receiver, if there is one,
    /// and the time at which the last data newly acknowledged had passed, ns (0 if that is not
    /// remembered). `tsval` is that of [`Ack::tsval`].
    pub fn acked(&mut self, segment: &Segment, near: Near, tsval: u32) -> (Option<u64>, u64) {
        let frame = segment.frame;
        let una = self.space.position_of(segment.ack);
        let una_seen = self.space.una_seen();
        let scale =
            if segment.flags.has(TcpFlags::SYN) { Some(0) } else { self.space.window_scale() };
        let offer = Offer::of(una, segment.window, scale);
        let pure = segment.payload_len == 0;
        // RFC 5681 §2: a duplicate ACK neither changes the window nor carries a FIN. A host that closes
        // takes no more data, with room for it or without.
        let ends = segment.flags.0 & (TcpFlags::FIN | TcpFlags::RST) != 0;
        let repeated =
            una == una_seen && pure && self.space.nxt > una && !segment.flags.has(TcpFlags::SYN);
        // Behind an acknowledged FIN there is nothing that the window could hold back.
        let is_over = self.space.fin().is_some_and(|fin| una > fin);
        if segment.window == 0 && !ends && !is_over {
            let closes = self.space.window_field > 0;
            let window = &mut self.history_mut().window;
            window.zero_advertisements += 1;
            window.closings += u64::from(closes);
        }
        let dsack = segment.sack_count > 0 && is_dsack(segment);
        let (longest, sent_ns) = self.sent.arrived(una);
        self.sizes.acknowledge(longest);
        let advances = una > una_seen;
        let paced = advances && near.is_paced(self.bulk.as_deref_mut(), segment.time_ns, sent_ns);
        // A RST opens no window (RFC 9293 §3.10.7.4), whatever its window field.
        if !segment.flags.has(TcpFlags::RST) {
            let ack = Ack {
                seen_ns: segment.time_ns,
                frame,
                una,
                offer,
                payload_bytes: segment.payload_len,
                duplicate: repeated || segment.sack_count > u8::from(dsack),
                paced,
                tsval,
            };
            // Without earlier faults only a report with SACK blocks counts.
            if ack.duplicate && (segment.sack_count > 0 || self.history.is_some()) {
                self.history_mut().losses.reported = true;
            }
            let is_repeated = una == una_seen || self.space.is_finished();
            if !(is_repeated && self.changes_nothing(&ack)) {
                self.pending.push(&ack);
            }
        }
        let mut sample = None;
        if segment.sack_count > 0 || self.history.is_some() {
            let (space, was_calm) = (self.space, self.history.is_none());
            let history = self.history_mut();
            // The receiver said that it lacked that data, and now acknowledges it for the first time: the block is
            // that of the data which filled the hole, not of data received twice.
            let fills = dsack
                && una > una_seen
                && space.position_of(segment.sack[0].left) >= una_seen
                && history.losses.sacked_behind(una_seen, &space).is_some();
            history.hear(segment, una, &space, was_calm);
            // A D-SACK beyond the repetitions that were captured reports none of them: the capture lacks that
            // copy, or the network made it.
            let is_of_data = dsack
                && !fills
                && u64::from(history.counts.dsacks) < history.counts.rexmt_data_packets
                && !history.counts.is_keep_alive_reported(segment)
                && !history.counts.is_joined_reported(segment);
            history.counts.dsacks += u32::from(is_of_data);
            history.counts.named_fill |= fills;
        }
        if advances {
            self.habits.note_acked(pure && !ends && self.volume.unique_bytes > 0);
            sample = self.advance_una_seen(
                segment.time_ns,
                una,
                self.habits.shows_arrival(pure && !ends),
            );
        } else if repeated && segment.window == self.space.window_field && !ends {
            self.history_mut().counts.duplicate_acks += 1;
        }
        self.space.window_field = segment.window;
        (sample, sent_ns)
    }

    /// Returns whether the ACK in `segment`, which carries data of the peer, is the last one again and
    /// changes nothing more at this sender.
    #[inline]
    pub fn hears_again(&mut self, segment: &Segment) -> bool {
        let says_nothing = self.has_heard(segment);
        if says_nothing && let Some(history) = &mut self.history {
            history.mtu.hear(segment.time_ns);
        }
        says_nothing
    }

    #[inline]
    fn has_heard(&self, segment: &Segment) -> bool {
        segment.payload_len > 0
            && segment.flags.0 & !TcpFlags::PSH == TcpFlags::ACK
            && segment.sack_count == 0
            && segment.window == self.space.window_field
            && self.bulk.is_none()
            && self.since.is_empty()
            && self.history.as_deref().is_none_or(History::is_over)
            && {
                let (una, seen) = (self.space.position_of(segment.ack), self.space.una_seen());
                let offer = Offer::of(una, segment.window, self.space.window_scale());
                una == seen
                    && seen <= self.space.nxt
                    && self.is_open(una, offer)
                    && self.pending.ends_with(una, offer)
            }
    }

    /// Returns whether `offer` with the ACK of `una` is not nearly closed: it leaves room for two full
    /// segments. Of a window whose scale is unknown, only zero is known to be closed.
    #[inline]
    fn is_open(&self, una: u64, offer: Offer) -> bool {
        match offer {
            Offer::Edge(edge) => edge - una >= 2 * self.sizes.smss(),
            Offer::Field(field) => field > 0,
        }
    }

    /// Returns whether `ack` will change nothing at the sender. Without earlier losses this holds
    /// if it repeats the previous ACK with a wide window, or acknowledges a FIN, after which there
    /// is nothing to send.
    #[inline]
    fn changes_nothing(&self, ack: &Ack) -> bool {
        // An ACK without data may show by its timestamp that it has arrived.
        let open = matches!(ack.offer, Offer::Edge(_)) && self.is_open(ack.una, ack.offer);
        let ended = self.space.fin().is_some_and(|fin| ack.una > fin);
        self.is_calm() && open && (ended || self.pending.repeats(ack))
    }

    /// Advances the highest ACK seen to `una`. If `timed`, its time shows when the data arrived.
    /// Returns the round-trip sample of the ACK, ns.
    #[inline]
    pub(super) fn advance_una_seen(&mut self, now_ns: u64, una: u64, timed: bool) -> Option<u64> {
        let sample = self.rtts.end(una, now_ns);
        if let Some(rtt_ns) = sample {
            if let Some(bulk) = self.bulk.as_mut().filter(|_| timed && una < self.space.nxt) {
                bulk.rtt_clocked_ns = rtt_ns;
            }
            if timed {
                self.rtts.take(rtt_ns);
            }
        }
        self.space.acknowledge_seen(una);
        self.una_seen_ns = now_ns;
        sample
    }

    /// Skips data that was acknowledged though it is missing in the capture. Returns the length of
    /// what is missing, bytes: data behind a hole was seen.
    #[inline]
    pub fn skip_unseen(&mut self) -> Option<u64> {
        let (from, una_seen) = (self.in_order(), self.space.una_seen());
        // A FIN takes one position without data, and is the last.
        if una_seen <= from
            || una_seen > self.space.nxt + WINDOW_MAX_BYTES
            || self.space.fin() == Some(from)
        {
            return None;
        }
        let beyond = una_seen.saturating_sub(self.space.nxt);
        if beyond > 0 {
            self.space.extend_to(una_seen);
        }
        let of_holes = self.history.as_mut().map_or(0, |history| history.holes.skip_to(una_seen));
        Some(of_holes + beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::sender::{Kind, Near};
    use crate::wire::SackBlock;

    const MS: u64 = 1_000_000;

    /// A sender with 100 bytes in flight, sent at 100 ms.
    fn in_flight() -> Sender {
        let mut sender = Sender::default();
        sender.space.set_window_scale(Some(0));
        let start = sender.space.position(0);
        let flags = TcpFlags(TcpFlags::ACK | TcpFlags::PSH);
        let segment = Segment { payload_len: 100, time_ns: 100 * MS, flags, ..Segment::default() };
        sender.depart(&segment, (start, Kind::New), &SinceDeparture::default(), false);
        sender
    }

    fn ack(at_ms: u64, window: u16) -> Segment {
        let flags = TcpFlags(TcpFlags::ACK);
        Segment { ack: 100, window, time_ns: at_ms * MS, flags, ..Segment::default() }
    }

    #[test]
    fn an_ack_takes_effect_a_round_trip_after_it_passed() {
        let mut sender = in_flight();
        let (sample, sent_ns) = sender.acked(&ack(130, 9_000), Near::Neither, 0);
        assert_eq!((sample, sent_ns), (Some(30 * MS), 100 * MS));
        assert!(sender.space.is_acked() && sender.space.flight() == 100);
        let mut since = SinceDeparture::default();
        sender.advance(&mut since, 135 * MS, (20 * MS, 30 * MS), None);
        assert_eq!((sender.space.flight(), since.acks.count), (100, 0));
        sender.advance(&mut since, 151 * MS, (20 * MS, 30 * MS), None);
        assert_eq!((sender.space.flight(), since.acks.count), (0, 1));
        assert_eq!(sender.space.room(), Some(9_000));
        let trigger = since.acks.last.expect("an ACK");
        assert_eq!((trigger.effect_ns, trigger.delay_ns), (150 * MS, Some(0)));
    }

    #[test]
    fn a_window_below_a_segment_is_closed_until_another_ack_opens_it() {
        let mut sender = in_flight();
        sender.acked(&ack(130, 10), Near::Neither, 0);
        sender.acked(&ack(190, 9_000), Near::Neither, 0);
        let mut since = SinceDeparture::default();
        sender.advance(&mut since, 140 * MS, (0, 0), None);
        assert!(sender.history().window.is_closed());
        sender.advance(&mut since, 200 * MS, (0, 0), None);
        assert!(!sender.history().window.is_closed() && since.closed_ns == 60 * MS);
    }

    #[test]
    fn the_same_ack_with_data_says_nothing_unless_a_loss_is_being_repaired() {
        let mut sender = in_flight();
        sender.acked(&ack(130, 9_000), Near::Neither, 0);
        let again = Segment { payload_len: 50, ..ack(140, 9_000) };
        assert!(sender.hears_again(&again), "no history");
        sender.history_mut().nagle.evidence.pauses += 1;
        assert!(sender.hears_again(&again), "nothing was lost");
        assert!(!sender.hears_again(&Segment { window: 8_000, ..again }));
        assert!(!sender.hears_again(&ack(140, 9_000)), "a duplicate ACK");
        sender.history_mut().losses.duplicates.count = 1;
        assert!(!sender.hears_again(&again));
    }

    #[test]
    fn data_behind_a_hole_in_the_capture_is_skipped_once_acknowledged() {
        let mut sender = in_flight();
        assert_eq!(sender.skip_unseen(), None);
        sender.acked(&Segment { ack: 350, ..ack(130, 9_000) }, Near::Neither, 0);
        assert_eq!((sender.skip_unseen(), sender.skip_unseen()), (Some(250), None));
    }

    #[test]
    fn a_block_below_the_acknowledgment_or_within_another_is_a_dsack() {
        let is_dsack = |first: (u32, u32), second: Option<(u32, u32)>| {
            let block = |(left, right)| SackBlock { left, right };
            let sack_count = 1 + u8::from(second.is_some());
            let mut segment = Segment { ack: 1_000, sack_count, ..Segment::default() };
            segment.sack[0] = block(first);
            segment.sack[1] = second.map_or(SackBlock::NONE, block);
            super::is_dsack(&segment)
        };
        assert!(is_dsack((500, 1_000), None) && !is_dsack((2_000, 3_000), None));
        assert!(is_dsack((2_000, 2_500), Some((2_000, 3_000))));
        assert!(!is_dsack((2_000, 3_500), Some((2_000, 3_000))));
    }
}
