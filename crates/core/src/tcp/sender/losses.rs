//! Losses of one direction, before and behind the vantage.

use super::stamp::{Stamp, too_early};
use crate::judge::thresholds::RETRANSMISSION_MIN_NS;
use crate::judge::{Gap, Recovery};
use crate::model::Sighting;
use crate::tcp::sender::Sender;
use crate::wire::{Segment, SegmentFlags};

impl Sender {
    /// Records that `segment`, which begins at `start`, repeats data, which may never be
    /// acknowledged. If `by_timer`, the timer repeats it.
    pub fn follow_repetition(&mut self, start: u64, segment: &Segment, by_timer: bool) {
        let (first, last) = (self.original(start), Sighting::of(self.side, segment));
        if start == self.space.una_seen() {
            self.history_mut().losses.repeat_tail(start, first, last);
        }
        if let Some(first) = first.filter(|_| by_timer) {
            self.history_mut().losses.repeating.repeat(start, first.time_ns, last.time_ns);
        }
    }

    /// Begins the repair of the data from `start` to `end` with `segment`, a retransmission by
    /// `trigger` that may be spurious.
    pub(super) fn repair(
        &mut self,
        segment: &Segment,
        (start, end): (u64, u64),
        trigger: Recovery,
    ) {
        let original = self.original(start);
        if self.history().losses.repeated.is_none() {
            let (time_ns, stamp) = (segment.time_ns, self.stamp(segment, original));
            self.history_mut().losses.repeat(end, time_ns, stamp);
            if let Some(bulk) = &mut self.bulk {
                bulk.rounds_before = bulk.rounds;
            }
        }
        self.reduce_window();
        let (una, nxt, len) = (self.space.una(), self.space.nxt, self.sent.len_of(start));
        let history = self.history_mut();
        history.losses.recover(trigger, una, nxt);
        if trigger == Recovery::Timer {
            history.mtu.time_out(len, original.map_or(0, |it| it.time_ns));
        }
        history.holes.fill(start, end);
        if trigger == Recovery::Timer {
            self.sent.clear();
        }
    }

    /// Returns the frame that carried position `start` before, if it is remembered.
    pub fn original(&self, start: u64) -> Option<Sighting> {
        self.sent.sighting(self.side, start)
    }

    /// Records that the peer answers the first transmission of what ended `again`, a gap of this sender.
    pub fn note_first_answered(&mut self, again: &Gap) {
        let losses = &mut self.history_mut().losses;
        let frame = again.next.frame;
        let first = losses.first_of(frame).or(again.repair.original);
        losses.first_answered = first.map(|first| (frame, first));
    }

    /// The last departure, or the first transmission of its data if that was answered.
    pub fn last_answerable(&self) -> Sighting {
        match self.history().losses.first_answered {
            Some((again, first)) if again == self.last.frame => first,
            _ => self.last.sighting(self.side),
        }
    }

    /// Returns the timestamp of `segment`, a retransmission of `original`.
    pub fn stamp(&self, segment: &Segment, original: Option<Sighting>) -> Stamp {
        let apart_ns = original.map_or(0, |it| segment.time_ns.saturating_sub(it.time_ns));
        let start = self.space.position_of(segment.seq);
        let stamped = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let before_ns = original.map(|it| it.time_ns);
        let is_later = self.clock.is_newer(segment.tsval, segment.time_ns, before_ns)
            || self.history().holes.is_stamped_later(start, segment);
        let newer = self.clock.distinguishes(apart_ns) || stamped && is_later;
        Stamp { tsval: stamped.then_some(segment.tsval), newer, after_ns: apart_ns }
    }

    /// Records that the timer repaired a loss of `packets` before the vantage.
    pub fn note_unseen_loss(&mut self, packets: u32) {
        // A short message that passed whole was not too long for the path.
        let (last, passed) = (self.last, self.sizes.acked_max());
        let whole = last.pushed && last.len <= passed;
        let full = self.sizes.smss();
        self.history_mut().mtu.note_full(full);
        self.history_mut().losses.lose_unseen(if whole { 0 } else { packets });
        self.reduce_window();
    }

    /// Records that an offered window of `bytes` limited the sender.
    pub fn note_limiting_window(&mut self, bytes: u64) {
        // Data that was in flight at one time had been offered at one time.
        let had_room = 2 * bytes < u64::from(self.volume.flight_max);
        let unread = had_room || self.bulk.as_ref().is_some_and(|bulk| bulk.is_unread(bytes));
        self.history_mut().window.limit(bytes, unread);
    }

    /// Records that the sender reduced its congestion window (RFC 5681 §3.1): its earlier flight
    /// no longer shows what the window allows, and the rounds begin anew.
    pub fn reduce_window(&mut self) {
        self.history_mut().losses.reduce_window();
        if let Some(bulk) = &mut self.bulk {
            bulk.rounds.reset();
        }
    }

    /// Returns whether the tail loss probe was due: the sender has more data, and no ACK came for
    /// two or more full segments, which a receiver acknowledges at once (RFC 8985 §7.2, RFC 9293
    /// §3.8.6.3). A segment that was queued, by its own timestamp, was sent earlier, and a step of
    /// the capture's clock is no silence.
    pub fn probe_due(&self, silent_ns: u64, rtt_sender_ns: u64) -> bool {
        let due_ns = 2 * (rtt_sender_ns + self.rtts.recent_ns());
        self.space.flight() >= 2 * self.sizes.smss()
            && silent_ns.saturating_sub(self.clock.queued_ns()) >= due_ns.max(RETRANSMISSION_MIN_NS)
            && self.clock.is_usable()
            && self.habits.has_unsent(&self.last)
    }

    /// Returns whether data from `start` to `end`, repeated at `now_ns`, had arrived: it was
    /// acknowledged, or sent too recently for a loss to be known, unless a router reported one.
    pub fn is_spurious(&self, (start, end): (u64, u64), now_ns: u64, rtt_base_ns: u64) -> bool {
        let first = self.original(start);
        end <= self.space.una_seen()
            || !self.history().mtu.reported
                && first.is_some_and(|first| too_early(now_ns, first.time_ns, rtt_base_ns))
    }

    /// Decides with `ack` whether the last retransmission was spurious. It was if the ACK answers
    /// the first transmission or carries a D-SACK (RFC 2883, `has_dsack`): then nothing was lost.
    pub fn settle_repeated(&mut self, ack: &Segment, rtt_receiver_ns: u64, has_dsack: bool) {
        let Some(repeated) = self.history().losses.repeated else { return };
        let of_first = repeated.stamp.is_first_answered(ack, repeated.time_ns, rtt_receiver_ns);
        let acked = self.space.una_seen() >= repeated.end;
        if of_first && !acked && !has_dsack {
            return;
        }
        let losses = &mut self.history_mut().losses;
        losses.repeated = None;
        if has_dsack || of_first {
            losses.revert(&repeated);
            if let Some(bulk) = &mut self.bulk {
                bulk.rounds = bulk.rounds_before;
            }
        }
    }
}
