//! Classifies segments by their position in the stream: new, retransmitted, overtaken or a probe.

use crate::judge::Recovery;
use crate::judge::thresholds::{ALIKE_PART, FEW_SEGMENTS, RTO_MIN_NS, tail_probe_ns};
use crate::tcp::sender::bulk::Bulk;
use crate::tcp::sender::departure::Departure;
use crate::tcp::sender::holes::Hole;
use crate::tcp::sender::since::SinceDeparture;
use crate::tcp::sender::{Kind, Sender};
use crate::tcp::sequence::widen;
use crate::tcp::thresholds::{IDENTIFICATION_JUMP_MAX, TIMER_MIN_NS, WINDOW_MAX_BYTES};
use crate::wire::{Segment, SegmentFlags, TcpFlags};
use std::num::NonZeroU32;

/// Minimum round trips as far as known, ns.
#[derive(Clone, Copy, Debug)]
pub struct Rtts {
    /// Round trip between the vantage and the sender.
    pub sender_ns: u64,
    /// Round trip between both ends.
    pub base_ns: u64,
}

impl Sender {
    /// Position up to which everything was seen at the vantage.
    pub fn in_order(&self) -> u64 {
        let holes = self.history.as_deref().and_then(|history| history.holes.in_order());
        holes.unwrap_or(self.space.nxt)
    }

    /// Sets the position at which the data of the stream begins, after the SYN.
    pub fn begin_data(&mut self, position: u64) {
        if position > self.space.nxt {
            self.space.extend_to(position);
            if let Some(history) = &mut self.history {
                history.holes.begin_at(position);
            }
        }
    }

    /// Takes back the data from sequence number `seq` on: its receiver did not accept it, and the
    /// sender will send it again.
    #[cold]
    pub fn retract(&mut self, seq: u32) {
        let position = self.space.position_of(seq);
        self.rtts.repeat(position);
        self.sent.clear();
        self.small_end = None;
        let bytes = self.space.nxt.saturating_sub(position);
        self.unique_bytes = self.unique_bytes.saturating_sub(bytes);
        self.space.nxt = position;
    }

    /// Classifies the data of `segment`, without changing the stream.
    #[inline]
    pub fn kind(&self, segment: &Segment, start: u64, rtts: Rtts) -> Kind {
        // Behind a FIN there is no data: a byte in its place is a keep-alive (RFC 9293 §3.8.4).
        if start >= self.space.nxt && self.space.fin().is_none() {
            Kind::New
        } else {
            self.kind_of_old(segment, start, rtts)
        }
    }

    #[inline(never)]
    fn kind_of_old(&self, segment: &Segment, start: u64, rtts: Rtts) -> Kind {
        let end = start + u64::from(segment.payload_len);
        // Window probes and keep-alives repeat the last byte (or none) of acknowledged data.
        if segment.payload_len <= 1 && end <= self.space.una_seen() {
            return Kind::Probe;
        }
        let probed_to = self.history().window.probed_to(start);
        if self.history().window.is_beyond_zero(&self.space, start)
            || probed_to.is_some_and(|to| end <= to)
        {
            return Kind::Probe;
        }
        if probed_to.is_some_and(|to| self.space.nxt <= to) {
            // The receiver did not accept the data of the probe; it is sent again with more data.
            return Kind::New;
        }
        if end > self.space.nxt && start >= self.in_order() {
            // The data is partly new, since the sender joined segments: it counts as new.
            return if self.retransmits(start) {
                self.retransmission_kind(segment, rtts)
            } else {
                Kind::New
            };
        }
        match self.history().holes.overlapped(start, end) {
            Some(hole) => self.fill_kind(hole, segment, rtts),
            None if self.sent_before_repair(segment) => Kind::Late,
            None => self.retransmission_kind(segment, rtts),
        }
    }

    pub(super) fn retransmits(&self, start: u64) -> bool {
        start < self.space.nxt && self.history().holes.at(start).is_none()
    }

    pub(super) fn fill_kind(&self, hole: &Hole, segment: &Segment, rtts: Rtts) -> Kind {
        let rtt_base_ns = rtts.base_ns;
        let waited_ns = segment.time_ns.saturating_sub(hole.noticed_ns);
        // A repair follows the vantage's ACK by a whole round trip; an overtaken packet comes
        // sooner.
        let at_once = || waited_ns < (rtt_base_ns - rtt_base_ns / ALIKE_PART).max(TIMER_MIN_NS);
        let overtaken = self.sent_before_hole(hole, segment).unwrap_or_else(at_once);
        if overtaken {
            Kind::Reordered
        } else {
            Kind::Fill(self.recovery_kind(segment.time_ns, rtts))
        }
    }

    /// Returns whether the sender sent `segment` before the packet that revealed `hole`; `None` if
    /// neither timestamps (RFC 7323 §5.4) nor IP identifications show that.
    fn sent_before_hole(&self, hole: &Hole, segment: &Segment) -> Option<bool> {
        let has_timestamp = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let age =
            hole.tsval.filter(|_| has_timestamp).map(|at| segment.tsval.wrapping_sub(at) as i32);
        if let Some(age) = age.filter(|&age| age != 0) {
            return Some(age < 0);
        }
        let number = segment.ip_id.wrapping_sub(hole.ip_id) as i16;
        let is_numbered = segment.facts.has(SegmentFlags::IPV4)
            && number != 0
            && self.packet_count.distinguishes()
            && (self.has_packet_counter() || number.unsigned_abs() <= IDENTIFICATION_JUMP_MAX);
        is_numbered.then_some(number < 0)
    }

    /// Returns whether the sender sent `segment` before its last retransmission: its timestamps
    /// (RFC 7323 §5.4) and packet count never go backward.
    fn sent_before_repair(&self, segment: &Segment) -> bool {
        let Some((tsval, ip_id)) = self.history().losses.repair else { return false };
        let has_timestamp = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let has_counter = segment.facts.has(SegmentFlags::IPV4) && self.has_packet_counter();
        has_timestamp && (segment.tsval.wrapping_sub(tsval) as i32) < 0
            || has_counter && (segment.ip_id.wrapping_sub(ip_id) as i16) < 0
    }

    pub(super) fn retransmission_kind(&self, segment: &Segment, rtts: Rtts) -> Kind {
        Kind::Retransmission(self.recovery_kind(segment.time_ns, rtts))
    }

    /// Returns what triggered a retransmission: duplicate ACKs or an ICMP error if the sender got
    /// any since SND.UNA last advanced, or is still in such a recovery; otherwise the timer.
    pub(super) fn recovery_kind(&self, now_ns: u64, rtts: Rtts) -> Recovery {
        let silent_ns = now_ns.saturating_sub(self.last.time_ns);
        let rto_ns = RTO_MIN_NS + rtts.base_ns;
        let history = self.history();
        let reported = self.is_loss_known(now_ns, rtts.sender_ns);
        match history.losses.recovery_at(self.space.una()) {
            Some(recovery) => {
                // A lost retransmission is repeated only by the timer.
                if recovery == Recovery::Fast && silent_ns > rto_ns {
                    Recovery::Timer
                } else {
                    recovery
                }
            }
            _ if reported && silent_ns < rto_ns => Recovery::Fast,
            _ if silent_ns < TIMER_MIN_NS => Recovery::Fast,
            // If no round trip is known, no timer is shorter than the least RTO.
            _ if rtts.base_ns == 0 && silent_ns < RTO_MIN_NS => Recovery::Fast,
            _ => Recovery::Timer,
        }
    }

    /// Returns whether duplicate ACKs or an ICMP error since SND.UNA last advanced have told the sender
    /// of a loss by `now_ns`.
    pub fn is_loss_known(&self, now_ns: u64, rtt_sender_ns: u64) -> bool {
        let history = self.history();
        history.losses.duplicates.count > 0
            || history.mtu.reported
            || self.loss_reported(now_ns, rtt_sender_ns)
    }

    /// Adds the data of `segment` to the stream. `kind` is the result of [`Self::kind`], and
    /// `since` the state since the last departure. A spurious retransmission (`arrived`) repairs
    /// nothing and, like a probe, does not count as a departure: `since` is kept.
    pub fn depart(
        &mut self,
        segment: &Segment,
        (start, kind): (u64, Kind),
        since: &SinceDeparture,
        arrived: bool,
    ) {
        let len = u64::from(segment.payload_len);
        let end = start + len;
        let small = self.sizes.ends_small(len);
        if matches!(kind, Kind::New | Kind::Probe)
            && let Some(history) = &mut self.history
            && history.window.is_beyond_zero(&self.space, start)
        {
            // Its loss does not count.
            history.window.probe(start, end);
        }
        if kind == Kind::New {
            self.count(len, end - start.max(self.space.nxt), end);
            self.extend(segment, start, end);
            if small && !segment.flags.has(TcpFlags::FIN) {
                self.follow_small(segment, (start, end), since.peer_tsval);
            }
            let back_to_back =
                since.acks.count == 0 && segment.payload_len == self.last.len && !self.last.pushed;
            if back_to_back {
                let has_timestamp = segment.facts.has(SegmentFlags::TIMESTAMPS);
                self.sizes.learn(segment.payload_len, has_timestamp);
            }
            if since.acks.count == 0 && !self.last.small {
                self.habits.continue_at_once(&self.last);
            }
        } else if !self.depart_again(segment, (start, kind), since, arrived) {
            return;
        }
        self.sent.push(end, segment, self.una_seen_ns > 0);
        // A retransmission in the middle of the stream does not show whether more is buffered at
        // its end.
        let ends = segment.flags.0 & (TcpFlags::PSH | TcpFlags::FIN) != 0;
        let pushed = if end < self.space.nxt { self.last.pushed } else { ends };
        let same_flight = since.acks.count == 0 && self.last.time_ns > 0;
        let apart = if same_flight { self.last.until(segment.time_ns) } else { 0 };
        self.last = Departure {
            time_ns: segment.time_ns,
            frame: segment.frame,
            len: segment.payload_len,
            small,
            pushed,
            apart,
        };
        if let Some(history) = &mut self.history {
            history.holes.depart();
        }
        self.fill_pipe(segment.time_ns, len);
    }

    /// Returns whether a retransmission from `start` to `end` is a tail loss probe, which is sent
    /// with old data only if there is no new data (RFC 8985 §7.3). An RTO repeats the first
    /// unacknowledged segment, and then perhaps the rest.
    fn is_tail_loss_probe(&self, start: u64, end: u64) -> bool {
        let room = self.space.right_edge().is_some_and(|edge| edge > self.space.nxt);
        let last = self.original(start).is_some_and(|first| first.frame == self.last.frame);
        start > self.space.una() && end == self.space.nxt && last && room
    }

    /// Processes a departure of data that is not new. Returns whether it counts as a departure.
    #[inline(never)]
    fn depart_again(
        &mut self,
        segment: &Segment,
        (start, kind): (u64, Kind),
        since: &SinceDeparture,
        arrived: bool,
    ) -> bool {
        let len = u64::from(segment.payload_len);
        let end = start + len;
        self.count_again(segment, kind, end);
        if matches!(kind, Kind::Retransmission(_) | Kind::Fill(_)) && end > self.space.nxt {
            // Its end is sent for the first time, as segments of another size repeat the stream.
            self.space.extend_to(end);
        }
        match kind {
            Kind::Retransmission(recovery) if arrived && self.last.time_ns > 0 => {
                self.rtts.repeat(start);
                // Unacknowledged data waits for its ACK; no ACK was lost.
                let is_ack_lost = recovery == Recovery::Timer && end <= self.space.una_seen();
                let repeated_ns = if is_ack_lost { segment.time_ns } else { since.repeated_ns };
                let probed_tail = since.probed_tail || self.is_tail_loss_probe(start, end);
                self.since.store(SinceDeparture { repeated_ns, probed_tail, ..*since });
                self.fill_pipe(segment.time_ns, len);
                return false;
            }
            Kind::Retransmission(recovery) | Kind::Fill(recovery) => {
                self.rtts.repeat(start);
                if kind == Kind::Fill(Recovery::Timer) {
                    self.note_shortened(start, len);
                }
                self.note_repeated(segment, (start, end));
                self.repair(start, recovery);
                self.fill_hole(start, end);
            }
            Kind::Reordered => self.fill_hole(start, end),
            Kind::Probe => {
                self.probe(segment, since);
                return false;
            }
            Kind::Late => {
                self.since.store(*since);
                return false;
            }
            Kind::New => {}
        }
        true
    }

    /// Processes a new, small segment.
    #[inline]
    fn follow_small(&mut self, segment: &Segment, (start, end): (u64, u64), peer_tsval: u32) {
        let small_end = self.small_end.map_or(0, |end| widen(end.get(), start));
        if small_end > self.space.una() && small_end <= start {
            self.refute_nagle(small_end, segment, peer_tsval);
        }
        self.small_end = NonZeroU32::new(end as u32);
        if let Some(bulk) = &mut self.bulk {
            bulk.pieces.end(end);
        }
    }

    /// Counts a small segment that was sent while another one, up to `small_end`, was
    /// unacknowledged: this refutes Nagle's algorithm. It does not if the tail loss probe was due,
    /// which also sends held data. Nor does it if the segment echoes a later timestamp than any
    /// captured of its peer: it then answers a packet that is missing in the capture (RFC 7323
    /// §4.3), which may be the ACK.
    #[cold]
    #[inline(never)]
    fn refute_nagle(&mut self, small_end: u64, segment: &Segment, peer_tsval: u32) {
        let now_ns = segment.time_ns;
        let misses_packet =
            segment.echoes().is_some_and(|it| it.wrapping_sub(peer_tsval) as i32 > 0);
        if !misses_packet
            && !self.may_have_ack_of(small_end, now_ns)
            && !self.may_be_tail_loss_probe(now_ns)
        {
            self.history_mut().nagle.evidence.refuted += 1;
        }
    }

    /// Returns whether a segment sent at `now_ns` may be a tail loss probe, which carries new data
    /// if there is some (RFC 8985 §7.3).
    fn may_be_tail_loss_probe(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last.time_ns) >= tail_probe_ns(self.rtt_recent_ns())
    }

    /// Returns whether a small segment was among the `flight` unacknowledged bytes and is now
    /// acknowledged.
    pub fn small_acked_of(&self, flight: u64) -> bool {
        let end = self.small_end.map(|end| widen(end.get(), self.space.nxt));
        end.is_some_and(|end| end + flight > self.space.nxt && end <= self.space.una())
    }

    /// Records a probe, which is no departure.
    fn probe(&mut self, segment: &Segment, since: &SinceDeparture) {
        let mut since = *since;
        let closed = self.history().window.is_closed();
        let history = self.history_mut();
        history.window.probes += u64::from(closed);
        history.counts.keep_alives += u64::from(!closed);
        if closed {
            since.probed(self.side, segment);
        }
        self.since.store(since);
    }

    pub(super) fn extend(&mut self, segment: &Segment, start: u64, end: u64) {
        self.reach(segment, start, end);
        self.rtts.time(end, segment.time_ns);
    }

    /// Processes the position of a segment without data: earlier data that was not seen was lost or
    /// overtaken before the vantage. The position of a FIN carries no data.
    pub fn announce(&mut self, segment: &Segment) {
        if !self.space.started() {
            self.space.expect(segment.seq);
            return;
        }
        let position = self.space.position_of(segment.seq);
        if position == self.space.nxt + 1 && self.space.fin() == Some(self.space.nxt) {
            self.space.extend_to(position);
        } else if position > self.space.nxt && position - self.space.nxt < WINDOW_MAX_BYTES {
            self.reach(segment, position, position);
        }
    }

    /// Extends the stream to `end`; data between its previous end and `start` was not seen.
    #[inline]
    fn reach(&mut self, segment: &Segment, start: u64, end: u64) {
        if start > self.space.nxt {
            self.notice_hole(segment, start);
        }
        if end > self.space.nxt {
            self.space.extend_to(end);
        }
    }

    #[cold]
    #[inline(never)]
    fn notice_hole(&mut self, segment: &Segment, end: u64) {
        let (start, ip_id, noticed_ns) = (self.space.nxt, segment.ip_id, segment.time_ns);
        let has_timestamp = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let tsval = has_timestamp.then_some(segment.tsval);
        let hole = Hole { start, end, noticed_ns, ip_id, tsval };
        self.note_full_segment();
        self.history_mut().holes.notice(hole);
    }

    pub(super) fn repair(&mut self, start: u64, recovery: Recovery) {
        let by_timer = recovery == Recovery::Timer;
        let (una, nxt, len) = (self.space.una(), self.space.nxt, self.sent.len_of(start));
        let sent_ns = self.original(start).map_or(0, |it| it.time_ns);
        self.reduce_window();
        let history = self.history_mut();
        history.losses.recover(recovery, una, nxt);
        if by_timer {
            history.mtu.time_out(len, sent_ns);
            self.sent.clear();
        }
    }

    pub(super) fn fill_hole(&mut self, start: u64, end: u64) {
        if let Some(history) = &mut self.history {
            history.holes.fill(start, end);
        }
    }

    #[inline(always)]
    pub(super) fn fill_pipe(&mut self, now_ns: u64, len: u64) {
        let flight = self.space.flight();
        if self.bulk.is_some() || flight > FEW_SEGMENTS * self.smss() {
            self.bulk_mut().pipe.fill(now_ns, len, flight);
        }
    }

    #[inline(never)]
    fn bulk_mut(&mut self) -> &mut Bulk {
        self.bulk.get_or_insert_default()
    }

    /// Updates the round after the silence before the last departure has been judged.
    pub fn follow_rounds(&mut self) {
        let (una, nxt, flight, smss) =
            (self.space.una(), self.space.nxt, self.space.flight(), self.smss());
        if let Some(bulk) = &mut self.bulk {
            bulk.rounds.depart(una, nxt, flight, smss);
        }
    }

    /// Counts `len` bytes up to `end`, of which `unique` are sent for the first time.
    #[inline]
    fn count(&mut self, len: u64, unique: u64, end: u64) {
        if unique < len {
            self.history_mut().counts.repeated_bytes += len - unique;
        }
        let flight = self.space.nxt.max(end).saturating_sub(self.space.una());
        self.send(unique, flight);
        if let Some(history) = &mut self.history {
            history.losses.flight_since = history.losses.flight_since.max(flight);
        }
    }

    /// Counts data that is not new.
    fn count_again(&mut self, segment: &Segment, kind: Kind, end: u64) {
        let (len, una_seen) = (u64::from(segment.payload_len), self.space.una_seen());
        let unique = match kind {
            Kind::Probe => return,
            Kind::Fill(_) | Kind::Reordered => len,
            _ => end.saturating_sub(self.space.nxt),
        };
        match kind {
            Kind::Retransmission(recovery) | Kind::Fill(recovery) => {
                let history = self.history_mut();
                history.losses.repair = Some((segment.tsval, segment.ip_id));
                history.counts.retransmit(recovery, end <= una_seen);
            }
            Kind::Reordered | Kind::Late => self.history_mut().counts.out_of_order_packets += 1,
            Kind::New | Kind::Probe => {}
        }
        self.count(len, unique, end);
    }
}
