//! Effects of ACKs on the sender, once they can have reached it.

use crate::judge::AckTrigger;
use crate::judge::thresholds::{ACK_TRAIN_NS, CLOCKED_SEGMENTS, FEW_SEGMENTS, HOST_DELAY_MAX_NS};
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
            self.habits.note_echo(echoed);
            self.take_effect(since, ack, rtt_sender_ns, rtt_receiver_ns);
        }
        // The estimated round trip may still be too long. If a segment was sent after a silence
        // that nothing explains, the next ACK may have arrived a little sooner, unless the segment
        // shows by its echo that it had not. (An ACK that should have arrived long before and is
        // not echoed does not show a longer path: the segment may have been queued since.)
        let known_ns = since.acks.last.map_or(self.last.time_ns, |ack| ack.effect_ns);
        let silent_ns = now_ns.saturating_sub(known_ns.max(self.last.time_ns));
        if silent_ns > HOST_DELAY_MAX_NS && !self.is_none_echoed_by(echoes) {
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
        let rtt_ns = rtt_sender_ns + self.rtt_recent_ns();
        let silent_ns = now_ns.saturating_sub(self.last.time_ns);
        let sent_ns = now_ns.saturating_sub(self.clock.queued_ns());
        let due_ns = ack.seen_ns + rtt_sender_ns;
        self.habits.echoes()
            && ack.tsval != 0
            && silent_ns >= 2 * rtt_ns
            && self.clock.distinguishes(rtt_ns / 2)
            && sent_ns >= due_ns + rtt_ns / 2
    }

    /// Returns whether a segment that echoes this timestamp left the sender before the next pending
    /// ACK arrived.
    #[inline]
    fn is_none_echoed_by(&self, echoes: Option<u32>) -> bool {
        self.habits.echoes() && echoes.is_some_and(|it| self.pending.is_none_echoed_by(it))
    }

    /// Returns whether an ACK that reports a loss may have reached the sender by `now_ns`, a little
    /// sooner than after the estimated round trip.
    pub(super) fn loss_reported(&self, now_ns: u64, rtt_sender_ns: u64) -> bool {
        let silent_ns = now_ns.saturating_sub(self.last.time_ns);
        let early_ns = early_max_ns(rtt_sender_ns, silent_ns);
        self.pending.reports_loss((now_ns + early_ns).saturating_sub(rtt_sender_ns))
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
        let clocked = self.space.flight() > CLOCKED_SEGMENTS * self.smss();
        let rtt_ns = self.rtts.last_ns();
        let is_sample =
            clocked && rtt_ns > 0 && !self.in_recovery() && !self.history().window.is_closed();
        is_sample.then_some((self.una_seen_ns, rtt_ns))
    }

    /// Returns whether an ACK of `position` may have reached the sender by `now_ns`, with some
    /// tolerance.
    pub(super) fn may_have_ack_of(&self, position: u64, now_ns: u64) -> bool {
        self.pending.covers(position, now_ns)
    }

    #[inline(never)]
    pub(super) fn take_effect(
        &mut self,
        since: &mut SinceDeparture,
        ack: Ack,
        rtt_sender_ns: u64,
        rtt_receiver_ns: u64,
    ) {
        let advances = ack.una > self.space.una();
        let opens = match (ack.offer, self.space.right_edge()) {
            (Offer::Edge(new), Some(old)) => new > old,
            (Offer::Edge(_), None) => true,
            (Offer::Field(field), _) => field > 0 && self.history().window.is_closed(),
        };
        if advances || opens {
            let acked_all = ack.una >= self.space.nxt;
            let last_ns = self.last.time_ns;
            let held_ns = ack.seen_ns.saturating_sub(last_ns);
            let in_train = since
                .acks
                .last
                .is_some_and(|earlier| ack.seen_ns.saturating_sub(earlier.seen_ns) < ACK_TRAIN_NS);
            if !in_train {
                since.flight_before = self.space.flight();
                since.room_before = self.space.room();
                since.window_before = self.space.window();
                self.save_field();
            }
            if since.acks.count == 0 {
                since.flight_first = self.space.flight();
            }
            since.acks.count += 1;
            since.acks.first_effect_ns.get_or_insert(ack.seen_ns + rtt_sender_ns);
            since.acks.last = Some(AckTrigger {
                frame: ack.frame,
                seen_ns: ack.seen_ns,
                effect_ns: ack.seen_ns + rtt_sender_ns,
                pure: ack.payload_bytes == 0,
                payload_bytes: ack.payload_bytes,
                acked_all,
                delay_ns: (acked_all && last_ns > 0)
                    .then(|| held_ns.saturating_sub(rtt_receiver_ns)),
                opened_window: opens,
            });
        }
        if advances {
            if self.bulk.is_some() {
                self.sample_rate(&ack);
            }
            self.space.acknowledge(ack.una);
            if ack.duplicate || self.history.is_some() {
                self.advance_losses(u32::from(ack.duplicate));
            }
        } else if ack.duplicate {
            self.note_duplicate(&ack, rtt_sender_ns);
        }
        if since.probes.sent > since.probes.answered && !advances && !opens {
            since.probes.answered += 1;
        }
        self.follow_window(since, &ack);
    }

    /// Records that a duplicate ACK took effect.
    #[cold]
    #[inline(never)]
    fn note_duplicate(&mut self, ack: &Ack, rtt_sender_ns: u64) {
        let seen = ack.sighting(self.side.peer());
        self.history_mut().losses.duplicates.note(seen, ack.seen_ns + rtt_sender_ns);
    }

    /// Updates the loss state after SND.UNA advanced; the ACK reports `duplicate_acks` losses
    /// beyond it.
    #[cold]
    #[inline(never)]
    fn advance_losses(&mut self, duplicate_acks: u32) {
        let una = self.space.una();
        let history = self.history_mut();
        history.losses.advance(una, duplicate_acks);
        history.mtu.advance(una);
    }

    pub(super) fn follow_window(&mut self, since: &mut SinceDeparture, ack: &Ack) {
        let closed = match ack.offer {
            Offer::Edge(edge) => {
                let window = edge.saturating_sub(ack.una);
                self.sizes.note_window(window);
                // With less room than for a full segment a sender waits (RFC 9293 §3.8.6.2.1).
                window < self.smss()
            }
            // Zero is zero at any scale.
            Offer::Field(field) => field == 0,
        };
        if closed || self.history.is_some() {
            self.note_closed(since, ack, closed);
        }
        match ack.offer {
            Offer::Edge(edge) => {
                self.space.offer(edge);
            }
            Offer::Field(field) => self.offer_field(field),
        }
    }

    /// Records that the window is now (almost) closed, or may have been until now.
    #[cold]
    #[inline(never)]
    fn note_closed(&mut self, since: &mut SinceDeparture, ack: &Ack, closed: bool) {
        if closed {
            let closed_by = ack.sighting(self.side.peer());
            self.history_mut().window.close(closed_by);
        } else if self.history().window.is_closed() {
            since.closed_ns += self.closed_for_ns(ack.seen_ns);
            self.history_mut().window.open();
        }
    }

    /// Time for which the window has been closed, up to `now_ns`, ns; 0 if it is open.
    pub fn closed_for_ns(&self, now_ns: u64) -> u64 {
        self.history().window.closed_for_ns(self.last.time_ns, now_ns)
    }

    pub(super) fn sample_rate(&mut self, ack: &Ack) {
        // A sender that never has more than a few segments in flight shows its own pace.
        let few = u64::from(self.flight_max) <= FEW_SEGMENTS * self.smss();
        let timed = self.habits.shows_arrival(ack.payload_bytes == 0);
        let in_recovery = self.history().losses.is_recovering();
        let Some(bulk) = &mut self.bulk else { return };
        bulk.note_reader(ack);
        if let Some((una, nxt, seen_ns)) = bulk.rate_mark
            // The last data in flight does not count, since its ACK may be delayed.
            && ack.una < nxt
            && !few
            && timed
            && !in_recovery
            && !ack.paced
            && !bulk.reader_is_behind
            && !bulk.is_spaced_by_sender()
        {
            bulk.pipe.sample(ack.una - una, ack.seen_ns.saturating_sub(seen_ns));
        }
        bulk.rate_mark = Some((ack.una, self.space.nxt, ack.seen_ns));
    }

    /// Returns whether ACKs come at the pace of a receiving application that has not read most of
    /// its buffer.
    pub fn reader_is_behind(&self) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| bulk.reader_is_behind)
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
        if segment.window == 0 && !ends {
            self.history_mut().window.zero_advertisements += 1;
        }
        let dsack = segment.sack_count > 0 && is_dsack(segment);
        let (longest, sent_ns) = self.sent.arrived(una);
        self.sizes.acknowledge(longest);
        let advances = una > una_seen;
        let paced = advances && self.is_paced_ack(segment, near, sent_ns);
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
            self.note_report(ack.duplicate, segment.sack_count > 0);
            let is_repeated = una == una_seen || self.space.is_finished();
            if !(is_repeated && self.changes_nothing(&ack)) {
                self.pending.push(&ack);
            }
        }
        let mut sample = None;
        if segment.sack_count > 0 || self.history.is_some() {
            self.follow_hole(segment, una);
            self.history_mut().mtu.hear(segment.time_ns);
        }
        if dsack && !self.reports_keep_alive(segment) {
            self.history_mut().counts.dsacks += 1;
        }
        if advances {
            self.habits.note_acked(pure && !ends && self.unique_bytes > 0);
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

    /// Returns whether the D-SACK in `segment` names only the byte of a keep-alive (RFC 9293
    /// §3.8.4), which is no data.
    #[cold]
    #[inline(never)]
    fn reports_keep_alive(&self, segment: &Segment) -> bool {
        let [first, ..] = segment.sack;
        let probed = self.history().counts.keep_alives > 0;
        probed && first.right == segment.ack && first.right.wrapping_sub(first.left) == 1
    }

    /// Returns whether the time of the ACK `segment`, captured `near` one end of the path, does not
    /// show the pace of the path. The ACK covers data sent last at `sent_ns`.
    #[inline]
    fn is_paced_ack(&mut self, segment: &Segment, near: Near, sent_ns: u64) -> bool {
        match near {
            Near::Sender { rtt_ns } => {
                let bulk = self.bulk.as_mut();
                bulk.is_some_and(|bulk| bulk.is_paced(segment.time_ns, sent_ns, rtt_ns))
            }
            // The delay of an ACK in its own host, by a timer or a slow reader, is not the pace of
            // the path.
            Near::Receiver if sent_ns > 0 => {
                segment.time_ns.saturating_sub(sent_ns) >= HOST_DELAY_MAX_NS
            }
            _ => false,
        }
    }

    /// Records that the receiver reports missing data, by a `duplicate` ACK. Without earlier faults
    /// only a report with SACK blocks counts.
    #[inline]
    fn note_report(&mut self, duplicate: bool, with_sack: bool) {
        if let Some(history) = &mut self.history {
            history.losses.reported |= duplicate;
        } else if duplicate && with_sack {
            self.history_mut().losses.reported = true;
        }
    }

    /// Returns whether `ack` will change nothing at the sender. Without earlier losses this holds
    /// if it repeats the previous ACK with a wide window, or acknowledges a FIN, after which there
    /// is nothing to send.
    #[inline]
    fn changes_nothing(&self, ack: &Ack) -> bool {
        let calm = self.history.is_none() && self.bulk.is_none() && self.since.is_empty();
        let open = match ack.offer {
            Offer::Edge(edge) => edge - ack.una >= 2 * self.smss(),
            Offer::Field(_) => false,
        };
        let ended = self.space.fin().is_some_and(|fin| ack.una > fin);
        calm && open && (ended || self.pending.repeats(ack))
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

    /// Recognises late packets by SACK (RFC 2018): if the receiver missed only a hole, and this is
    /// filled without a retransmission, a packet was late.
    #[inline(never)]
    fn follow_hole(&mut self, segment: &Segment, una: u64) {
        let space = self.space;
        let blocks = segment.sack.iter().take(usize::from(segment.sack_count));
        let all = blocks.map(|block| space.position_of(block.right)).any(|end| end == space.nxt);
        if !all && self.history.is_none() {
            return;
        }
        let History { holes, losses, .. } = self.history_mut();
        if segment.sack_count > 0 {
            losses.sacked = segment.sack;
        }
        holes.follow_reports(una >= space.nxt, all && losses.has_recovered(una), segment.time_ns);
    }

    /// Skips data that was acknowledged though it is missing in the capture. Returns the length of
    /// what is missing, bytes: data behind a hole was seen.
    #[inline]
    pub fn skip_unseen(&mut self) -> Option<u64> {
        if self.space.una_seen() > self.in_order() { self.skip_to_acked() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn skip_to_acked(&mut self) -> Option<u64> {
        let (from, una_seen) = (self.in_order(), self.space.una_seen());
        if una_seen > self.space.nxt + WINDOW_MAX_BYTES {
            return None;
        }
        // A FIN takes one position without data, and is the last.
        if self.space.fin() == Some(from) {
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
