//! Losses of one direction, before and behind the vantage.

use super::loss_state::Tail;
use super::stamp::{Stamp, too_early};
use crate::judge::thresholds::{INITIAL_WINDOW_SEGMENTS, RETRANSMISSION_MIN_NS, RTO_MIN_NS};
use crate::model::Sighting;
use crate::tcp::sender::Sender;
use crate::tcp::sender::departure::Departure;
use crate::wire::{SackBlock, Segment, SegmentFlags};

impl Sender {
    /// The last departure.
    pub fn last_seen(&self) -> Sighting {
        let Departure { frame, time_ns, len: payload_bytes, .. } = self.last;
        Sighting { frame, time_ns, payload_bytes, from: self.side }
    }

    /// Returns whether the receiver's last report of missing data (RFC 2018) says that it has what
    /// begins at `start`.
    pub fn is_sacked(&self, start: u64) -> bool {
        let blocks = self.history().losses.sacked;
        let position = |seq: u32| self.space.position_of(seq);
        let holds =
            |block: &SackBlock| (position(block.left)..position(block.right)).contains(&start);
        blocks.iter().any(|block| block.left != block.right && holds(block))
    }

    /// Returns the frame that carried position `start` before, if it is remembered.
    pub fn original(&self, start: u64) -> Option<Sighting> {
        self.sent.sighting(self.side, start)
    }

    /// Number of segments sent, computed from the payload and the SMSS.
    pub fn segments_sent(&self) -> u64 {
        let counts = &self.history().counts;
        let by_size = (self.unique_bytes + counts.repeated_bytes).div_ceil(self.smss());
        by_size.max(counts.rexmt_data_packets)
    }

    /// Returns whether lost packets show as jumps of the sender's IP identification.
    pub fn has_packet_counter(&self) -> bool {
        self.packet_count.is_proven()
    }

    /// Follows the IP identification up to `segment`, and records packets that did not pass.
    /// `peer_number` is the last identification of the other direction.
    #[inline]
    pub(super) fn count_packet(&mut self, segment: &Segment, peer_number: u16) {
        let may_go_on = self.packets > 1 && u64::from(segment.payload_len) <= self.smss();
        if !(may_go_on && self.packet_count.take_next(segment)) {
            self.count_jump(segment, peer_number);
        }
    }

    #[inline(never)]
    fn count_jump(&mut self, segment: &Segment, peer_number: u16) {
        self.packet_count.compare(segment, self.last_packet.ip_id, peer_number);
        let (len, smss) = (u64::from(segment.payload_len), self.smss());
        let packets = if len <= smss { 1 } else { len.div_ceil(smss) };
        let jump = self.packet_count.jump(segment);
        let lossless = jump != 0 && self.nothing_lost_before(segment, jump.into());
        let missing = self.packet_count.follow(segment, packets as u16, self.packets, lossless);
        if missing > 0 {
            self.since.stored_mut().missing.add(missing, segment.ip_id);
        } else if self.packet_count.came_late() {
            self.since.arrived(segment.ip_id);
        }
    }

    /// Returns whether a packet that was missing by its identification has just arrived, and resets
    /// that state.
    #[inline]
    pub fn take_late(&mut self) -> bool {
        self.packet_count.take_late()
    }

    /// Returns whether none of the `packets` missing before `segment` can have carried lost data:
    /// the segment continues the stream, and it comes too soon after the previous packet for a
    /// retransmission, or more packets than a flight are missing.
    fn nothing_lost_before(&self, segment: &Segment, packets: u64) -> bool {
        let in_order =
            self.space.started() && self.space.position_of(segment.seq) == self.space.nxt;
        let flight = (2 * u64::from(self.flight_max) / self.smss()).max(INITIAL_WINDOW_SEGMENTS);
        let too_soon = self.last_packet.age_ns(segment) < self.repair_min_ns(segment, packets);
        in_order && (too_soon || packets > flight)
    }

    /// Least time from the packet before `segment` at which one of the `packets` missing in between
    /// can have carried lost data, ns; `segment` continues the stream.
    fn repair_min_ns(&self, segment: &Segment, packets: u64) -> u64 {
        let all_acked = self.space.una_seen() >= self.space.nxt;
        let history = self.history();
        let losses = &history.losses;
        let reported = losses.duplicates.count > 0 || self.in_recovery() || history.mtu.reported;
        let rtt_ns = self.rtt_recent_ns();
        let probe_ns = (2 * rtt_ns).clamp(RETRANSMISSION_MIN_NS, RTO_MIN_NS);
        match segment.seg_len() {
            // All data before it is acknowledged.
            0 if all_acked => u64::MAX,
            _ if reported => RETRANSMISSION_MIN_NS,
            0 if rtt_ns == 0 => RTO_MIN_NS,
            0 => probe_ns,
            // A probe for a lost flight repeats the last segment; a segment that continues the
            // stream is the only probe.
            _ if all_acked && packets > 1 => RTO_MIN_NS,
            _ if all_acked => probe_ns,
            _ => RETRANSMISSION_MIN_NS,
        }
    }

    /// Greatest flight since the last loss, or ever if there was none, bytes. Neither the
    /// congestion window nor the sender's buffer was smaller.
    pub fn flight_reached(&self) -> u64 {
        let losses = &self.history().losses;
        if losses.occurred { losses.flight_since } else { u64::from(self.flight_max) }
    }

    /// Records that `segment`, which begins at `start`, repeats data; it may never be acknowledged.
    pub fn follow_tail(&mut self, start: u64, segment: &Segment) {
        if start == self.space.una_seen() {
            let (first, last) = (self.original(start), Sighting::of(self.side, segment));
            self.history_mut().losses.repeat_tail(start, first, last);
        }
    }

    /// Returns the first data that is not acknowledged, if it was sent again and again.
    pub fn unacknowledged_tail(&self) -> Option<Tail> {
        self.history().losses.tail_from(self.space.una_seen())
    }

    /// Records that the timer repeats `segment`, which begins at `start`.
    pub fn follow_timer(&mut self, start: u64, segment: &Segment) {
        if let Some(before) = self.original(start) {
            self.history_mut().losses.repeating.repeat(start, before.time_ns, segment.time_ns);
        }
    }

    /// Returns whether the waits before retransmissions have doubled, as those of a timer do (RFC
    /// 6298 §5.5).
    pub fn timer_doubles(&self) -> bool {
        self.history().losses.repeating.doubles
    }

    /// Returns whether the sender, as far as it knows, is repairing a loss.
    pub fn in_recovery(&self) -> bool {
        self.history().losses.recovery_at(self.space.una()).is_some()
    }

    /// Time from the first packet that overtook the data at `start` to `now_ns`, ns.
    pub fn overtaken_ns(&self, start: u64, now_ns: u64) -> u64 {
        self.noticed_ns(start).map_or(0, |at_ns| now_ns.saturating_sub(at_ns))
    }

    /// Returns whether the stream continues at `start`, and only segments without data have
    /// overtaken that data.
    pub fn continues_at(&self, start: u64) -> bool {
        let first = self.history().holes.first();
        start == self.in_order() && first.is_some_and(|hole| hole.end == self.space.nxt)
    }

    /// Returns the timestamp of `segment`, a retransmission of `original`.
    pub fn stamp(&self, segment: &Segment, original: Option<Sighting>) -> Stamp {
        let apart_ns = original.map_or(0, |it| segment.time_ns.saturating_sub(it.time_ns));
        let stamped = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let newer = self.clock.distinguishes(apart_ns) || stamped && self.is_stamped_later(segment);
        Stamp { tsval: stamped.then_some(segment.tsval), newer }
    }

    /// Returns whether `segment` fills a hole and has a later timestamp than the packet that
    /// revealed it: the first transmission, which did not pass, had an earlier one.
    fn is_stamped_later(&self, segment: &Segment) -> bool {
        let start = self.space.position_of(segment.seq);
        let at = self.history().holes.at(start).and_then(|hole| hole.tsval);
        at.is_some_and(|at| segment.tsval.wrapping_sub(at) as i32 > 0)
    }

    /// Number of bytes that were sent and never seen.
    pub fn unseen_bytes(&self) -> u64 {
        self.history().holes.bytes()
    }

    /// Returns whether the receiver acknowledges no data behind a hole, and so waits for the data that
    /// is missing there.
    pub fn is_awaited_before_hole(&self) -> bool {
        self.unseen_bytes() > 0 && self.space.una_seen() <= self.in_order()
    }

    /// Time at which the data at `start` was found to be missing, ns, if it is.
    pub fn noticed_ns(&self, start: u64) -> Option<u64> {
        self.history().holes.at(start).map(|hole| hole.noticed_ns)
    }

    /// Records that the timer repaired a loss of `packets` before the vantage.
    pub fn note_unseen_loss(&mut self, packets: u32) {
        // A short message that passed whole was not too long for the path.
        let (last, passed) = (self.last, self.sizes.acked_max());
        let whole = last.pushed && last.len <= passed;
        self.note_full_segment();
        self.history_mut().losses.lose_unseen(if whole { 0 } else { packets });
        self.reduce_window();
    }

    /// Records that an offered window of `bytes` limited the sender.
    pub fn note_limiting_window(&mut self, bytes: u64) {
        // Data that was in flight at one time had been offered at one time.
        let had_room = 2 * bytes < u64::from(self.flight_max);
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
        let due_ns = 2 * (rtt_sender_ns + self.rtt_recent_ns());
        self.space.flight() >= 2 * self.smss()
            && silent_ns.saturating_sub(self.queued_ns()) >= due_ns.max(RETRANSMISSION_MIN_NS)
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

    /// Records a retransmission from `start` to `end` that may be spurious.
    pub(super) fn note_repeated(&mut self, segment: &Segment, (start, end): (u64, u64)) {
        if self.history().losses.repeated.is_some() {
            return;
        }
        let (time_ns, stamp) = (segment.time_ns, self.stamp(segment, self.original(start)));
        self.history_mut().losses.repeat(end, time_ns, stamp);
        if let Some(bulk) = &mut self.bulk {
            bulk.rounds_before = bulk.rounds;
        }
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

    /// Reverts a loss before the vantage. If `is_first`, there had been no earlier loss.
    pub fn revoke_loss(&mut self, is_first: bool) {
        self.history_mut().losses.revoke_unseen(is_first);
    }
}
