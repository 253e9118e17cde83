//! Classifies segments by their position in the stream: new, retransmitted, overtaken or a probe.

use crate::judge::Recovery;
use crate::judge::thresholds::{FEW_SEGMENTS, tail_probe_ns};
use crate::tcp::sender::bulk::Bulk;
use crate::tcp::sender::departure::Departure;
use crate::tcp::sender::history::History;
use crate::tcp::sender::holes::Hole;
use crate::tcp::sender::since::SinceDeparture;
use crate::tcp::sender::space::SendSpace;
use crate::tcp::sender::{Kind, Sender};
use crate::tcp::sequence::ORIGIN;
use crate::tcp::thresholds::WINDOW_MAX_BYTES;
use crate::wire::{Segment, SegmentFlags, TcpFlags};

/// Minimum round trips as far as known, and how long a sender has heard nothing, ns.
#[derive(Clone, Copy, Debug)]
pub struct Rtts {
    /// Round trip between the vantage and the sender.
    pub sender_ns: u64,
    /// Round trip between both ends.
    pub base_ns: u64,
    /// Time for which nothing can have come to the sender: the last packet of its peer passed before that;
    /// 0 if unknown.
    pub unheard_ns: u64,
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
        self.volume.retract(self.space.nxt.saturating_sub(position));
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
        let History { holes, losses, window, .. } = self.history();
        // Window probes repeat the last byte (or none) of acknowledged data, and keep-alives that of all data
        // (RFC 9293 §3.8.4).
        let is_last = end == self.space.una_seen() || end == self.space.nxt;
        if segment.payload_len <= 1 && end <= self.space.una_seen() && is_last {
            return Kind::Probe;
        }
        let probed_to = window.probed_to(start);
        if window.is_beyond_zero(&self.space, start) || probed_to.is_some_and(|to| end <= to) {
            return Kind::Probe;
        }
        if probed_to.is_some_and(|to| self.space.nxt <= to) {
            // The receiver did not accept the data of the probe; it is sent again with more data.
            return Kind::New;
        }
        let trigger = || {
            let silent_ns = segment.time_ns.saturating_sub(self.last.time_ns);
            let reported = self.is_loss_known(segment.time_ns, rtts.sender_ns);
            losses.trigger(self.space.una(), (silent_ns, rtts.unheard_ns), reported, rtts.base_ns)
        };
        if end > self.space.nxt && start >= self.in_order() {
            // The data is partly new, since the sender joined segments: it counts as new.
            let repeats = start < self.space.nxt && holes.at(start).is_none();
            return if repeats { Kind::Retransmission(trigger()) } else { Kind::New };
        }
        let ids = self.packets.ids;
        match holes.overlapped(start, end) {
            Some(hole) if hole.has_overtaken(segment, ids, rtts.base_ns) => Kind::Reordered,
            Some(_) => Kind::Fill(trigger()),
            None if losses.is_repair_after(segment, ids.is_proven()) => Kind::Late,
            None => Kind::Retransmission(trigger()),
        }
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
            let ends_write = self.ends_larger_write(start, len);
            self.reach(segment, start, end);
            self.rtts.time(end, segment.time_ns);
            if small && !segment.flags.has(TcpFlags::FIN) {
                self.follow_small(segment, (start, end), since, ends_write);
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
        let hole_end = match kind {
            Kind::Fill(_) => self.history().holes.at(start).map(|hole| hole.end),
            Kind::Retransmission(_) if start >= self.space.una_seen() => {
                self.history().losses.sacked_behind(start, &self.space)
            }
            _ => None,
        };
        if let Some(hole) = hole_end.map(|at| at - start).filter(|&hole| hole < len) {
            self.history_mut().counts.join(segment, hole);
        }
        if kind != Kind::Probe {
            let (una_seen, nxt) = (self.space.una_seen(), self.space.nxt);
            let is_second = start == ORIGIN + 1 + self.sizes.first() && len < self.sizes.smss();
            let history = self.history_mut();
            history.count_again(segment, kind, end <= una_seen);
            history.counts.lost_second |= is_second && kind.is_by_timer() && end > una_seen;
            let is_unseen = matches!(kind, Kind::Fill(_) | Kind::Reordered);
            self.count(len, if is_unseen { len } else { end.saturating_sub(nxt) }, end);
        }
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
                let is_last = || {
                    let first = self.original(start);
                    first.is_some_and(|first| first.frame == self.last.frame)
                };
                let probed_tail =
                    since.probed_tail || self.space.may_be_tail_probe(start, end) && is_last();
                self.since.store(SinceDeparture { repeated_ns, probed_tail, ..since.clone() });
                self.fill_pipe(segment.time_ns, len);
                return false;
            }
            Kind::Retransmission(recovery) | Kind::Fill(recovery) => {
                self.rtts.repeat(start);
                if kind == Kind::Fill(Recovery::Timer) {
                    self.history_mut().note_shortened(start, len);
                }
                self.repair(segment, (start, end), recovery);
            }
            Kind::Reordered => self.history_mut().holes.fill(start, end),
            Kind::Probe => {
                let mut since = since.clone();
                if self.history_mut().count_probe() {
                    since.probed(self.side, segment);
                }
                self.since.store(since);
                return false;
            }
            Kind::Late => {
                self.since.store(since.clone());
                return false;
            }
            Kind::New => {}
        }
        true
    }

    /// Returns whether data of `len` bytes at `start` is the end of a write that began in a full segment
    /// before it: that was not pushed, as the last one of a write is (RFC 9293 §3.9.1).
    fn ends_larger_write(&self, start: u64, len: u64) -> bool {
        let Departure { len: before, small, pushed, .. } = self.last;
        len > self.sizes.smss() || start == self.space.nxt && before > 0 && !small && !pushed
    }

    /// Processes a new, small segment. If another one before it is unacknowledged, it refutes Nagle's
    /// algorithm, unless it `ends_write`.
    #[inline]
    fn follow_small(
        &mut self,
        segment: &Segment,
        (start, end): (u64, u64),
        since: &SinceDeparture,
        ends_write: bool,
    ) {
        if let Some(before) = self.volume.small.unacknowledged_before(start, self.space.una())
            && self.breaks_nagles_rule(before, segment, since.peer_tsval)
        {
            let evidence = &mut self.history_mut().nagle.evidence;
            *match (ends_write, since.carries_due_ack) {
                (true, _) => &mut evidence.ends_of_writes,
                (false, true) => &mut evidence.with_due_acks,
                (false, false) => &mut evidence.refuted,
            } += 1;
        }
        self.volume.small.note(end);
        if let Some(bulk) = &mut self.bulk {
            bulk.pieces.end(end);
        }
    }

    /// Returns whether Nagle's algorithm would have held back the small `segment`, since another
    /// one, up to `small_end`, is unacknowledged. It would not if the tail loss probe was due, which
    /// carries new data if there is some (RFC 8985 §7.3). Nor does it show if the segment echoes a
    /// later timestamp than any captured of its peer: it then answers a packet that is missing in
    /// the capture (RFC 7323 §4.3), which may be the ACK.
    #[cold]
    #[inline(never)]
    fn breaks_nagles_rule(&self, small_end: u64, segment: &Segment, peer_tsval: u32) -> bool {
        let now_ns = segment.time_ns;
        let misses_packet =
            segment.echoes().is_some_and(|it| it.wrapping_sub(peer_tsval) as i32 > 0);
        let silent_ns = now_ns.saturating_sub(self.last.time_ns);
        !misses_packet
            && !self.pending.covers(small_end, now_ns)
            && silent_ns < tail_probe_ns(self.rtts.recent_ns())
    }

    /// Processes the position of a segment without data: earlier data that was not seen was lost or
    /// overtaken before the vantage. The position of a FIN carries no data.
    pub fn announce(&mut self, segment: &Segment) {
        if !self.space.started() {
            self.space.expect(segment.seq);
            return;
        }
        let position = self.space.position_of(segment.seq);
        let SendSpace { nxt, .. } = self.space;
        if position == nxt + 1 && self.space.fin() == Some(nxt) {
            self.space.extend_to(position);
        } else if position > nxt && position - nxt < WINDOW_MAX_BYTES {
            self.reach(segment, position, position);
        }
    }

    /// Extends the stream to `end`; data between its previous end and `start` was not seen.
    #[inline]
    fn reach(&mut self, segment: &Segment, start: u64, end: u64) {
        let SendSpace { nxt, .. } = self.space;
        if start > nxt {
            let full = self.sizes.smss();
            self.history_mut().notice_hole(Hole::revealed_by(segment, nxt, start), full);
        }
        if end > nxt {
            self.space.extend_to(end);
        }
    }

    #[inline(always)]
    fn fill_pipe(&mut self, now_ns: u64, len: u64) {
        let flight = self.space.flight();
        if self.bulk.is_some() || flight > FEW_SEGMENTS * self.sizes.smss() {
            bulk_of(&mut self.bulk).pipe.fill(now_ns, len, flight);
        }
    }

    /// Counts `len` bytes up to `end`, of which `unique` are sent for the first time.
    #[inline]
    fn count(&mut self, len: u64, unique: u64, end: u64) {
        if unique < len {
            self.history_mut().counts.repeated_bytes += len - unique;
        }
        let flight = self.space.nxt.max(end).saturating_sub(self.space.una());
        self.volume.send(unique, flight);
        self.sizes.begin_with(len);
        if let Some(history) = &mut self.history {
            history.losses.flight_since = history.losses.flight_since.max(flight);
        }
    }
}

#[inline(never)]
fn bulk_of(bulk: &mut Option<Box<Bulk>>) -> &mut Bulk {
    bulk.get_or_insert_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::sender::Near;

    #[test]
    fn the_position_of_a_fin_is_no_hole() {
        let mut sender = Sender::default();
        let start = sender.space.position(100);
        sender.space.finish(start);
        sender.announce(&Segment { seq: 101, ..Segment::default() });
        assert!(sender.space.nxt == start + 1 && !sender.is_troubled());
        sender.announce(&Segment { seq: 103, ..Segment::default() });
        assert!(sender.space.nxt == start + 3 && sender.is_troubled());
    }

    /// Data is sent for hours in one direction, and no ACK is captured.
    #[test]
    fn positions_stay_correct_beyond_32_bits() {
        const LEN: u32 = 1 << 20;
        let mut sender = Sender::default();
        let flags = TcpFlags(TcpFlags::ACK);
        for number in 0..10_000_u32 {
            let seq = number.wrapping_mul(LEN);
            let time_ns = 1_000_000 * u64::from(number + 1);
            let segment = Segment { seq, payload_len: LEN, time_ns, flags, ..Segment::default() };
            let start = sender.space.position(seq);
            assert_eq!(start, ORIGIN + u64::from(number) * u64::from(LEN));
            sender.depart(&segment, (start, Kind::New), &SinceDeparture::default(), false);
            assert!(sender.space.una() <= start && sender.space.flight() <= WINDOW_MAX_BYTES);
        }
        let ack = 10_000_u32.wrapping_mul(LEN);
        let segment = Segment { ack, time_ns: 20_000_000_000, flags, ..Segment::default() };
        sender.acked(&segment, Near::Neither, 0);
        assert_eq!(sender.space.una_seen(), sender.space.nxt);
    }

    #[test]
    fn a_position_beyond_the_greatest_window_belongs_to_another_stream() {
        let announced = |ahead: u32| {
            let mut sender = Sender::default();
            let start = sender.space.position(100);
            sender.announce(&Segment { seq: 100 + ahead, ..Segment::default() });
            sender.space.nxt - start
        };
        let [within, beyond] = [3 << 28, 3 << 29];
        assert_eq!([within, beyond].map(announced), [within.into(), 0]);
    }
}
