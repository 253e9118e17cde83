//! Determines whether the path or the sender set the distances between arriving packets.
//!
//! At the receiver both look alike. But a pacing sender timestamps its packets when it sends them
//! (RFC 7323 §5.4): if its own clock shows the same distances, no queue made them. Then only
//! segments sent at once show how long the path takes for a segment.

use crate::judge::thresholds::ACK_TRAIN_NS;
use crate::tcp::clock::SenderClock;
use crate::tcp::sender::bulk::Bulk;
use crate::tcp::sender::departure::Departure;
use crate::tcp::thresholds::{
    BURST_PART, SPACING_MIN_NS, SPACING_REMEMBERED_NS, TIMESTAMP_TICK_NS, TRAIN_PART,
};
use crate::wire::{Segment, SegmentFlags};

/// Distances between a sender's packets, at the vantage and by the sender's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spacing {
    last_tsval: u32,
    /// Sum of the distances at the vantage, ns.
    apart_here_ns: u64,
    /// Sum of the distances by the sender's clock, ns.
    sent_apart_ns: u64,
    /// A queue has spread the packets.
    is_spread_by_queue: bool,
    /// The last distance at the vantage, ns.
    last_ns: u64,
    /// Sum, ns, and number of the similar distances since a longer distance.
    at_once: (u64, u64),
}

impl Spacing {
    /// Adds a packet that arrived `apart_here_ns` after the previous one and was sent
    /// `sent_apart_ns` after it.
    fn note(&mut self, apart_here_ns: u64, sent_apart_ns: u64) {
        self.apart_here_ns += apart_here_ns;
        self.sent_apart_ns += sent_apart_ns;
        if self.apart_here_ns > SPACING_REMEMBERED_NS {
            (self.apart_here_ns, self.sent_apart_ns) =
                (self.apart_here_ns / 2, self.sent_apart_ns / 2);
        }
        self.is_spread_by_queue |=
            self.apart_here_ns >= SPACING_MIN_NS && 2 * self.sent_apart_ns < self.apart_here_ns;
    }

    /// Returns whether the sender set the distances, by its own clock.
    fn is_senders(&self) -> bool {
        self.apart_here_ns >= SPACING_MIN_NS && 4 * self.sent_apart_ns >= 3 * self.apart_here_ns
    }

    /// Returns, if the segments before the one that arrives now came at once between longer
    /// distances, the number of these segments without the first, and the time that they took, ns.
    fn at_once(&mut self, apart_ns: u64) -> Option<(u64, u64)> {
        let before_ns = std::mem::replace(&mut self.last_ns, apart_ns);
        let (sum_ns, count) = self.at_once;
        if count > 0 && apart_ns <= 2 * sum_ns / count {
            self.at_once = (sum_ns + apart_ns, count + 1);
            return None;
        }
        let begins = apart_ns > 0 && apart_ns <= before_ns / BURST_PART;
        self.at_once = if begins { (apart_ns, 1) } else { (0, 0) };
        let ends = count > 0 && sum_ns / count <= apart_ns / BURST_PART;
        ends.then_some((count, sum_ns))
    }
}

impl Bulk {
    /// Returns whether the sender is known, with the vantage at the receiver, to have set the
    /// distances between its packets.
    pub fn is_spaced_by_sender(&self) -> bool {
        self.spacing.is_senders() && self.pipe.knows_at_once()
    }

    /// Records the distance of `segment` from the departure `last` of a sender with this `clock` and
    /// SMSS, with the vantage at the receiver and a round trip of `rtt_ns`.
    pub fn note_distance(
        &mut self,
        segment: &Segment,
        last: &Departure,
        clock: &SenderClock,
        smss: u64,
        rtt_ns: u64,
    ) {
        let apart_ns = segment.time_ns.saturating_sub(last.time_ns);
        let last_len = u64::from(last.len);
        let full = last_len == smss;
        let joined = (last_len / smss.max(1)).saturating_sub(1);
        let spacing = &mut self.spacing;
        let stamped = apart_ns < rtt_ns / TRAIN_PART && segment.facts.has(SegmentFlags::TIMESTAMPS);
        let sent_apart_ns = clock.between_ns(spacing.last_tsval, segment.tsval);
        if let Some(sent_apart_ns) = sent_apart_ns.filter(|_| stamped) {
            // Packets that leave a queue one by one are spaced by that queue.
            let queued = clock.queued_ns() > 0;
            spacing.note(
                apart_ns,
                if queued { 0 } else { sent_apart_ns.min(apart_ns + TIMESTAMP_TICK_NS) },
            );
        }
        spacing.last_tsval = segment.tsval;
        let single = spacing.at_once(apart_ns).filter(|_| full);
        let in_one = (joined, ACK_TRAIN_NS);
        let alone = joined > 0 && apart_ns >= BURST_PART * ACK_TRAIN_NS;
        let at_once = single.or(alone.then_some(in_one)).filter(|_| spacing.is_senders());
        if let Some((count, ns)) = at_once {
            let knew = self.pipe.knows_at_once();
            self.pipe.sample_at_once(count * smss, ns);
            if !knew && self.pipe.knows_at_once() && !spacing.is_spread_by_queue {
                self.pipe.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a sender is known to space its packets, if they arrive `apart_ns` apart,
    /// again and again, with timestamps that `tsval` computes from the time of arrival.
    fn is_spaced(apart_ns: &[u64], tsval: impl Fn(u64) -> u32) -> bool {
        let (mut bulk, mut clock) = (Bulk::default(), SenderClock::default());
        let mut last = Departure::default();
        let mut time_ns = 1_000_000_000;
        for apart_ns in apart_ns.iter().cycle().take(200) {
            time_ns += apart_ns;
            let (facts, tsval) = (SegmentFlags(SegmentFlags::TIMESTAMPS), tsval(time_ns));
            let segment =
                Segment { payload_len: 1_448, time_ns, tsval, facts, ..Segment::default() };
            clock.observe_packet(&segment);
            bulk.note_distance(&segment, &last, &clock, 1_448, 40_000_000);
            last = Departure { time_ns, len: 1_448, ..Departure::default() };
        }
        bulk.is_spaced_by_sender()
    }

    const PAIRS: [u64; 2] = [1_480_000, 120_000];
    const MS: u64 = 1_000_000;

    #[test]
    fn pairs_spaced_by_the_clock_of_the_sender() {
        assert!(is_spaced(&PAIRS, |ns| (ns / MS) as u32));
    }

    #[test]
    fn pairs_sent_at_once_and_spaced_by_a_queue() {
        assert!(!is_spaced(&PAIRS, |_| 7));
    }

    #[test]
    fn equal_distances_of_a_slow_link() {
        assert!(!is_spaced(&[800_000], |ns| (ns / MS) as u32));
    }

    #[test]
    fn a_clock_that_does_not_tick_in_milliseconds_is_not_used() {
        assert!(!is_spaced(&PAIRS, |ns| (ns / 1_000) as u32));
        assert!(!is_spaced(&PAIRS, |ns| (ns / (10 * MS)) as u32 / 2));
    }
}
