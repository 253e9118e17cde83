//! What a segment is to its stream: new, repeated, overtaken or a probe.

use super::*;

impl Half {
    /// Tells what the data of `segment` is to the stream, without changing it.
    pub fn kind(&self, segment: &Segment, start: u64, rtt_base_ns: u64) -> Kind {
        let end = start + u64::from(segment.payload_len);
        if start >= self.nxt {
            return Kind::New;
        }
        // Probes and keep-alives repeat the last byte (or none) of what was acknowledged.
        if segment.payload_len <= 1 && end <= self.una_seen {
            return Kind::Probe;
        }
        if end > self.nxt && start >= self.in_order {
            // Partly new (the sender put segments together): new data counts.
            return if self.retransmits(start) { self.repeats(segment) } else { Kind::New };
        }
        match self.holes.iter().find(|hole| start < hole.end && hole.start < end) {
            Some(hole) => self.fills(hole, segment, rtt_base_ns),
            None => self.repeats(segment),
        }
    }

    pub(super) fn retransmits(&self, start: u64) -> bool {
        start < self.nxt && !self.holes.iter().any(|hole| hole.start <= start && start < hole.end)
    }

    pub(super) fn fills(&self, hole: &Hole, segment: &Segment, rtt_base_ns: u64) -> Kind {
        let waited_ns = segment.time_ns.saturating_sub(hole.noticed_ns);
        let ipv4 = segment.facts.has(SegmentFlags::IPV4);
        let overtaken = if ipv4 && self.ip_id_trust >= 2 && segment.ip_id != hole.ip_id {
            segment.ip_id.wrapping_sub(hole.ip_id) > 0x8000
        } else {
            // A repair takes the vantage's ACK a whole round trip; an overtaken packet does not.
            waited_ns < (rtt_base_ns - rtt_base_ns / 8).max(3_000_000)
        };
        if overtaken { Kind::Reordered } else { Kind::Fill(self.recovery_kind(segment.time_ns)) }
    }

    pub(super) fn repeats(&self, segment: &Segment) -> Kind {
        Kind::Retransmission(self.recovery_kind(segment.time_ns))
    }

    /// By duplicate ACKs where the sender has had some since the ACK point last moved, or is
    /// still repairing what such a recovery began with; otherwise by timer.
    pub(super) fn recovery_kind(&self, now_ns: u64) -> Recovery {
        let silent_ns = now_ns.saturating_sub(self.last.time_ns);
        match self.recovery {
            Some(recovery) if self.una < self.recovery_end => {
                // A retransmission lost as well needs the timer after all.
                if recovery == Recovery::Fast && silent_ns > 180_000_000 {
                    Recovery::Timer
                } else {
                    recovery
                }
            }
            _ if self.duplicate_acks_now > 0 && silent_ns < 180_000_000 => Recovery::Fast,
            _ if silent_ns < TIMER_FLOOR_NS => Recovery::Fast,
            _ => Recovery::Timer,
        }
    }

    /// Takes the data of `segment` into the stream: `kind` is what [`Self::kind`] said.
    pub fn depart(&mut self, segment: &Segment, start: u64, kind: Kind) {
        let len = u64::from(segment.payload_len);
        let end = start + len;
        let small = self.small(len);
        self.count(segment, kind, start, end);
        match kind {
            Kind::New => self.extend(segment, start, end),
            Kind::Retransmission(recovery) | Kind::Fill(recovery) => {
                self.repair(start, recovery);
                self.fill_hole(start, end);
            }
            Kind::Reordered => self.fill_hole(start, end),
            Kind::Probe | Kind::Duplicate => return,
        }
        let fin = segment.flags.has(TcpFlags::FIN);
        if small && kind == Kind::New && !fin {
            let outstanding = self.small_end > self.una && self.small_end <= start;
            if outstanding && !self.ack_near(self.small_end, segment.time_ns) {
                self.nagle_refuted += 1;
            }
            self.small_end = end;
        }
        if kind == Kind::New {
            self.learn_smss(len, segment.time_ns);
        }
        self.sent.push(end, segment.payload_len, segment.frame, segment.time_ns);
        self.last = Departure { time_ns: segment.time_ns, frame: segment.frame, len, small };
        self.since = SinceDeparture::default();
        self.fill_pipe(segment.time_ns, len);
    }

    pub(super) fn extend(&mut self, segment: &Segment, start: u64, end: u64) {
        if start > self.nxt {
            self.holes.push(Hole {
                start: self.nxt,
                end: start,
                noticed_ns: segment.time_ns,
                ip_id: segment.ip_id,
            });
            if self.holes.len() > 64 {
                self.holes.remove(0);
            }
        }
        if let Some(sequence) = &mut self.sequence {
            sequence.advance(end);
        }
        self.nxt = self.nxt.max(end);
        self.settle_in_order();
        if self.timed.is_none() {
            self.timed = Some((end, segment.time_ns));
        }
    }

    pub(super) fn repair(&mut self, start: u64, recovery: Recovery) {
        if self.timed.is_some_and(|(end, _)| start < end) {
            self.timed = None;
        }
        self.after_loss = true;
        if self.una >= self.recovery_end || recovery == Recovery::Timer {
            self.recovery = Some(recovery);
            self.recovery_end = self.nxt;
        }
        if recovery == Recovery::Timer && start == self.repeated_start {
            self.same_full_timeouts += 1;
        } else {
            self.same_full_timeouts = u32::from(recovery == Recovery::Timer);
        }
        self.repeated_start = start;
        if recovery == Recovery::Timer {
            self.timed_out_len_max = self.timed_out_len_max.max(self.sent.len_of(start));
            self.sent.clear();
        }
        if let Some(bulk) = &mut self.bulk {
            bulk.rounds.reset();
        }
    }

    pub(super) fn fill_hole(&mut self, start: u64, end: u64) {
        if self.holes.is_empty() {
            return;
        }
        let mut rest = Vec::with_capacity(self.holes.len() + 1);
        for hole in self.holes.drain(..) {
            if end <= hole.start || hole.end <= start {
                rest.push(hole);
                continue;
            }
            if hole.start < start {
                rest.push(Hole { end: start, ..hole });
            }
            if end < hole.end {
                rest.push(Hole { start: end, ..hole });
            }
        }
        self.holes = rest;
        self.settle_in_order();
    }

    /// Two equal segments back to back below the announced size: the path's own size.
    pub(super) fn learn_smss(&mut self, len: u64, now_ns: u64) {
        let back_to_back = len == self.last.len
            && now_ns.saturating_sub(self.last.time_ns) < 200_000
            && self.since.acks == 0;
        if back_to_back && len <= self.smss_announced.max(SMSS_DEFAULT) && len >= 500 {
            self.smss_seen = self.smss_seen.max(len);
        }
    }

    pub(super) fn fill_pipe(&mut self, now_ns: u64, len: u64) {
        let (una, nxt, flight, smss) = (self.una, self.nxt, self.flight(), self.smss());
        if self.bulk.is_none() && flight > 3 * smss {
            self.bulk = Some(Box::default());
        }
        if let Some(bulk) = &mut self.bulk {
            bulk.pipe.fill(now_ns, len, flight);
            bulk.rounds.depart(una, nxt, flight, smss);
        }
    }

    pub(super) fn count(&mut self, segment: &Segment, kind: Kind, start: u64, end: u64) {
        let counts = &mut self.counts;
        if kind == Kind::Probe {
            counts.zero_window_probes += u64::from(self.closed_since_ns.is_some());
            self.keep_alives += u64::from(self.closed_since_ns.is_none());
            if self.closed_since_ns.is_some() {
                self.since.probed(segment);
            }
            return;
        }
        counts.actual_data_bytes += u64::from(segment.payload_len);
        match kind {
            Kind::New => counts.unique_bytes += end - start.max(self.nxt),
            Kind::Retransmission(recovery) | Kind::Fill(recovery) => {
                counts.rexmt_data_packets += 1;
                match recovery {
                    Recovery::Timer => counts.rto_count += 1,
                    Recovery::Fast => counts.fast_retransmissions += 1,
                }
                if end <= self.una_seen {
                    counts.spurious_retransmissions += 1;
                }
            }
            Kind::Reordered => counts.out_of_order_packets += 1,
            Kind::Probe | Kind::Duplicate => {}
        }
        if matches!(kind, Kind::Fill(_) | Kind::Reordered) {
            counts.unique_bytes += u64::from(segment.payload_len);
        }
        let flight = self.nxt.max(end).saturating_sub(self.una);
        counts.flight_size_max_bytes = counts.flight_size_max_bytes.max(flight);
    }
}
