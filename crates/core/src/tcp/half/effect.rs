//! What ACKs do to the sender once they can have reached it.

use super::*;

impl Half {
    /// Lets the ACKs take effect that can have reached the sender by `now_ns`.
    pub fn advance(&mut self, now_ns: u64, rtt_sender_ns: u64, rtt_receiver_ns: u64) {
        let slack_ns = 50_000 + rtt_sender_ns / 512;
        let until_ns = (now_ns + slack_ns).saturating_sub(rtt_sender_ns);
        while let Some(ack) = self.pending.pop_until(until_ns) {
            self.take_effect(ack, rtt_sender_ns, rtt_receiver_ns);
        }
        // The estimate of the round trip may still be too long: where something was sent after
        // a silence and nothing explains it, the next ACK may have come a little sooner.
        let silent_ns = now_ns.saturating_sub(self.last.time_ns);
        if self.since.trigger.is_none() && silent_ns > 1_000_000 {
            let loose_ns = (now_ns + loose_ns(rtt_sender_ns)).saturating_sub(rtt_sender_ns);
            if let Some(ack) = self.pending.pop_until(loose_ns) {
                self.take_effect(ack, rtt_sender_ns, rtt_receiver_ns);
            }
        }
    }

    /// The least of the last round-trip samples, ns: a delayed ACK among them does not count.
    pub fn rtt_recent_ns(&self) -> u64 {
        self.rtt_last_ns.into_iter().min().unwrap_or(0)
    }

    /// Whether an ACK of `position` may, with some tolerance, have reached the sender by now.
    pub(super) fn ack_near(&self, position: u64, now_ns: u64) -> bool {
        self.pending.covers(position, now_ns)
    }

    pub(super) fn take_effect(&mut self, ack: Ack, rtt_sender_ns: u64, rtt_receiver_ns: u64) {
        let advances = ack.una > self.una;
        let opens = match (ack.right_edge, self.right_edge) {
            (Some(new), Some(old)) => new > old,
            (Some(_), None) => true,
            _ => false,
        };
        if advances || opens {
            let acked_all = ack.una >= self.nxt;
            let train = self
                .since
                .trigger
                .is_some_and(|earlier| ack.seen_ns.saturating_sub(earlier.seen_ns) < ACK_TRAIN_NS);
            if !train {
                self.since.flight_before = self.flight();
                self.since.room_before = self.room();
                self.since.window_before = self.window();
                self.since.ack_trains += 1;
            }
            self.since.acks += 1;
            let held_ns = ack.seen_ns.saturating_sub(self.last.time_ns);
            self.since.trigger = Some(AckTrigger {
                frame: ack.frame,
                seen_ns: ack.seen_ns,
                effect_ns: ack.seen_ns + rtt_sender_ns,
                pure: ack.pure,
                acked_all,
                delay_ns: (acked_all && self.last.time_ns > 0)
                    .then(|| held_ns.saturating_sub(rtt_receiver_ns)),
                opened_window: opens,
            });
        }
        if advances {
            self.sample_rate(&ack);
            self.una = ack.una;
            self.duplicate_acks_now = u32::from(ack.duplicate);
            self.duplicate_ack = None;
            if self.una >= self.recovery_end {
                self.recovery = None;
            }
        } else if ack.duplicate {
            self.duplicate_acks_now += 1;
            self.duplicate_ack.get_or_insert(Sighting { frame: ack.frame, time_ns: ack.seen_ns });
        }
        if self.since.probes > self.since.probes_answered && !advances && !opens {
            self.since.probes_answered += 1;
        }
        self.follow_window(&ack);
    }

    pub(super) fn follow_window(&mut self, ack: &Ack) {
        let Some(edge) = ack.right_edge else { return };
        let closed = edge.saturating_sub(ack.una) < self.smss().min(1024);
        match (self.closed_since_ns, closed) {
            (None, true) => {
                self.closed_since_ns = Some(ack.seen_ns);
                self.closed_by = Sighting { frame: ack.frame, time_ns: ack.seen_ns };
            }
            (Some(since_ns), false) => {
                self.since.closed_ns += ack.seen_ns.saturating_sub(since_ns.max(self.last.time_ns));
                self.closed_since_ns = None;
            }
            _ => {}
        }
        self.right_edge = Some(self.right_edge.map_or(edge, |old| edge.max(old)));
    }

    /// How long the window has been closed by `now_ns` and still is; 0 if it is open.
    pub fn closed_for_ns(&self, now_ns: u64) -> u64 {
        self.closed_since_ns
            .map_or(0, |since_ns| now_ns.saturating_sub(since_ns.max(self.last.time_ns)))
    }

    pub(super) fn sample_rate(&mut self, ack: &Ack) {
        if self.bulk.is_none() {
            return;
        }
        if let Some((una, nxt, seen_ns)) = self.rate_mark
            && ack.una <= nxt
            && self.recovery.is_none()
            && let Some(bulk) = &mut self.bulk
        {
            bulk.pipe.sample(ack.una - una, ack.seen_ns.saturating_sub(seen_ns));
        }
        self.rate_mark = Some((ack.una, self.nxt, ack.seen_ns));
    }

    /// An ACK for this direction passed the vantage. Answers the round-trip sample between the
    /// vantage and the receiver, if it gave one, ns.
    pub fn acked(&mut self, segment: &Segment, frame: FrameId) -> Option<u64> {
        let sequence = self.sequence.as_ref()?;
        let una = sequence.position(segment.ack);
        let window = if segment.flags.has(TcpFlags::SYN) {
            Some(u64::from(segment.window))
        } else {
            self.window_scale.map(|scale| u64::from(segment.window) << scale.min(14))
        };
        let pure = segment.payload_len == 0;
        let repeated =
            una == self.una_seen && pure && self.nxt > una && !segment.flags.has(TcpFlags::SYN);
        if segment.window == 0 && !segment.flags.has(TcpFlags::RST) {
            self.counts.zero_window_advertisements += 1;
        }
        let dsack = segment.sack_count > 0 && {
            let first = segment.sack[0];
            let second = segment.sack[1];
            let within = segment.sack_count > 1
                && first.left.wrapping_sub(second.left) <= second.right.wrapping_sub(second.left)
                && first.right.wrapping_sub(second.left) <= second.right.wrapping_sub(second.left);
            (first.right.wrapping_sub(segment.ack) as i32) <= 0 || within
        };
        self.pending.push(Ack {
            seen_ns: segment.time_ns,
            frame,
            una,
            right_edge: window.map(|window| una + window),
            pure,
            duplicate: repeated || segment.sack_count > u8::from(dsack),
        });
        // RFC 5681 §2: a duplicate ACK neither moves the window nor ends anything.
        let ends = segment.flags.0 & (TcpFlags::FIN | TcpFlags::RST) != 0;
        let mut sample = None;
        self.dsacks += u32::from(dsack);
        self.acked_len_max = self.acked_len_max.max(self.sent.arrived(una));
        if una > self.una_seen {
            if let Some((end, time_ns)) = self.timed
                && una >= end
            {
                self.timed = None;
                let rtt_ns = segment.time_ns.saturating_sub(time_ns);
                self.rtt_last_ns = [rtt_ns, self.rtt_last_ns[0], self.rtt_last_ns[1]];
                sample = Some(rtt_ns);
            }
            self.una_seen = una;
            self.una_seen_ns = segment.time_ns;
            self.same_full_timeouts = 0;
        } else if repeated && segment.window == self.acked_window && !ends {
            self.counts.duplicate_acks += 1;
        }
        self.acked_window = segment.window;
        sample
    }

    /// Position that was acknowledged though it was never seen here: the trace has a hole.
    pub fn skip_unseen(&mut self) -> Option<u64> {
        if self.una_seen <= self.in_order || self.una_seen > self.nxt + (1 << 30) {
            return None;
        }
        // A FIN is one position that carries no data.
        if self.fin == Some(self.in_order) && self.una_seen == self.in_order + 1 {
            return None;
        }
        let from = self.in_order;
        self.in_order = self.una_seen.min(self.nxt.max(self.una_seen));
        self.nxt = self.nxt.max(self.in_order);
        self.holes.retain(|hole| hole.end > self.una_seen);
        self.settle_in_order();
        Some(self.in_order - from)
    }
}
