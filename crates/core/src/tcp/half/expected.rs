//! The short way of a segment that is what was expected: one small segment more of a sender of which
//! all before has been acknowledged, and with which nothing was ever wrong. What it does is what the
//! long way does with it, without asking what else it may be (header prediction: V. Jacobson, "4BSD
//! TCP header prediction", 1990; RFC 7323 appendix D.2).

use super::*;

/// What the ACK of all that was under way did to its sender.
pub(in crate::tcp) struct Cleared {
    /// That ACK.
    pub trigger: AckTrigger,
    /// Unacknowledged bytes before it.
    pub flight: u64,
    /// Room in the offered window before it, bytes.
    pub room: i64,
    /// Window offered before it, bytes.
    pub window: u64,
}

impl Half {
    /// Whether nothing about it needs more than a glance.
    #[inline]
    fn is_plain(&self) -> bool {
        let simple = self.trouble.is_none() && self.bulk.is_none() && self.since.is_none();
        simple && self.last.pushed && self.marks.has(Marks::HAS_WINDOW)
    }

    /// Whether `segment` is one small segment more of this sender, who has nothing under way and
    /// knows it from data that came back within `rtt_sender_ns`.
    #[inline]
    pub(in crate::tcp) fn goes_on_with(&self, segment: &Segment, rtt_sender_ns: u64) -> bool {
        let Some(ack) = self.pending.only(self.nxt) else { return false };
        let Offer::Edge(edge) = ack.offer else { return false };
        let len = u64::from(segment.payload_len);
        let end = self.nxt + len;
        self.is_plain()
            && self.sequence.position(segment.seq, self.nxt) == self.nxt
            && len < self.smss()
            && self.una_seen() == self.nxt
            && self.una() < self.nxt
            && ack.una == self.nxt
            && ack.seen_ns + rtt_sender_ns <= segment.time_ns
            && ack.payload_bytes > 0
            && !ack.duplicate
            && edge >= ack.una + self.smss()
            && self.right_edge().is_some_and(|edge| edge >= end)
    }

    /// Whether `segment` acknowledges all that is under way from this sender, which is something.
    #[inline]
    pub(in crate::tcp) fn is_cleared_by(&self, segment: &Segment) -> bool {
        self.is_plain()
            && self.window_scale.is_some()
            && self.sent.is_one()
            && self.pending.is_unused()
            && segment.window > 0
            && self.una_seen() < self.nxt
            && self.sequence.position(segment.ack, self.nxt) == self.nxt
    }

    /// Takes the ACK of [`is_cleared_by`](Self::is_cleared_by). Its sender knew what it answers, so that
    /// the round trip was no shorter than known: the path learns nothing from it.
    #[inline]
    pub(in crate::tcp) fn take_clearing(&mut self, segment: &Segment) {
        let una = self.nxt;
        let scale = self.window_scale.unwrap_or(0).min(SCALE_MAX);
        let (longest, _) = self.sent.arrived(una);
        let arrived = u16::try_from(longest).unwrap_or(u16::MAX);
        self.acked_len_max = self.acked_len_max.max(arrived);
        self.pending.push(&Ack {
            seen_ns: segment.time_ns,
            frame: segment.frame,
            una,
            offer: Offer::Edge(una + (u64::from(segment.window) << scale)),
            payload_bytes: segment.payload_len,
            duplicate: false,
            paced: false,
            tsval: 0,
        });
        self.acked_window = segment.window;
        self.move_seen(segment.time_ns, una, self.times(false));
    }

    /// Lets the ACK of [`goes_on_with`](Self::goes_on_with) take effect.
    #[inline]
    pub(in crate::tcp) fn clear(&mut self, rtt_sender_ns: u64, rtt_peer_ns: u64) -> Cleared {
        let (una, right_edge) = (self.una(), self.right_edge().unwrap_or(self.nxt));
        let (flight, window) = (self.nxt - una, right_edge.saturating_sub(una));
        let mut trigger = AckTrigger::default();
        if let Some(ack) = self.pending.pop_until(u64::MAX, self.nxt)
            && let Offer::Edge(edge) = ack.offer
        {
            self.note_window(edge - ack.una);
            self.right_edge = right_edge.max(edge) as u32;
            let held_ns = ack.seen_ns.saturating_sub(self.last.time_ns);
            trigger = AckTrigger {
                frame: ack.frame,
                seen_ns: ack.seen_ns,
                effect_ns: ack.seen_ns + rtt_sender_ns,
                pure: false,
                acked_all: true,
                delay_ns: (self.last.time_ns > 0).then(|| held_ns.saturating_sub(rtt_peer_ns)),
                opened_window: edge > right_edge,
            };
        }
        let room = right_edge as i64 - self.nxt as i64;
        self.una = self.nxt as u32;
        Cleared { trigger, flight, room, window }
    }

    /// Takes the data of `segment` as [`depart`](Self::depart) does that of a new, small segment with
    /// nothing before it under way.
    #[inline]
    pub(in crate::tcp) fn depart_alone(&mut self, segment: &Segment) {
        let len = u64::from(segment.payload_len);
        let end = self.nxt + len;
        self.unique_bytes += len;
        self.flight_max = self.flight_max.max(segment.payload_len);
        self.nxt = end;
        if self.timed_ns == 0 {
            (self.timed_end, self.timed_ns) = (end as u32, segment.time_ns);
        }
        self.small_end = NonZeroU32::new(end as u32);
        self.sent.push(end, segment, true);
        self.last = Departure {
            time_ns: segment.time_ns,
            frame: segment.frame,
            len: segment.payload_len,
            small: true,
            pushed: true,
            apart: 0,
        };
    }
}
