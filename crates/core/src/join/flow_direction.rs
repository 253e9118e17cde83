//! Matches both sightings of each packet of one direction.
//!
//! A packet seen at one place is kept until it is seen at the other. Data is compared by bytes,
//! because offload splits and joins segments differently at both ends.

use crate::join::thresholds::REORDERING_DEPTH_MAX;
use crate::model::{Crossing, Place};
use crate::tcp::Copies;
use crate::tcp::thresholds::IDENTIFICATION_JUMP_MAX;
use crate::wire::{Segment, SegmentFlags, TcpFlags};
use std::collections::VecDeque;

/// Maximum number of packets of one direction that are kept until the other place sees them: the
/// packets in flight with the widest usual window.
pub(super) const WAITING_MAX: usize = 8192;
/// One in this number of packets without a match is searched for further back, as after missing
/// packets in a capture.
const FAR_SEARCH: u32 = 64;

/// A packet seen at one place and not yet at the other.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time_ns: u64,
    seq: u32,
    end: u32,
    ack: u32,
    tsval: u32,
    /// Number of bytes that the other place has not seen; 0 only for packets without data.
    left: u32,
    ip_id: u16,
    window: u16,
    flags: u8,
    is_timed: bool,
    /// The other capture had begun when the packet passed.
    is_covered: bool,
    passed: u16,
}

impl Waiting {
    fn of(segment: &Segment) -> Self {
        let is_timed = segment.facts.has(SegmentFlags::TIMESTAMPS);
        Self {
            time_ns: segment.time_ns,
            seq: segment.seq,
            end: segment.seq.wrapping_add(segment.payload_len),
            ack: segment.ack,
            tsval: if is_timed { segment.tsval } else { 0 },
            left: segment.payload_len,
            ip_id: if segment.facts.has(SegmentFlags::IPV4) { segment.ip_id } else { 0 },
            window: segment.window,
            flags: segment.flags.0 & (TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST),
            is_timed,
            is_covered: true,
            passed: 0,
        }
    }

    fn has_data(&self) -> bool {
        self.seq != self.end
    }

    /// Returns whether the packet is a pure ACK.
    fn is_plain(&self) -> bool {
        !self.has_data() && self.flags == 0
    }

    /// Returns the number of bytes that both packets contain, either as the same packet or as
    /// offload split it; `None` if they are different packets. Packets without data share 0 bytes.
    fn shares(&self, other: &Self) -> Option<u32> {
        if self.has_data() != other.has_data() || self.tsval != other.tsval {
            return None;
        }
        if !self.has_data() {
            let same = (self.seq, self.ack, self.window, self.ip_id, self.flags)
                == (other.seq, other.ack, other.window, other.ip_id, other.flags);
            return same.then_some(0);
        }
        let apart = (self.ip_id.wrapping_sub(other.ip_id) as i16).unsigned_abs();
        let numbered = self.ip_id != 0 && other.ip_id != 0;
        if numbered && apart > IDENTIFICATION_JUMP_MAX
            || !numbered && self.is_timed != other.is_timed
        {
            return None;
        }
        let after = |from: u32, to: u32| to.wrapping_sub(from) as i32;
        let left = if after(self.seq, other.seq) > 0 { other.seq } else { self.seq };
        let right = if after(self.end, other.end) > 0 { self.end } else { other.end };
        u32::try_from(after(left, right)).ok().filter(|&bytes| bytes > 0)
    }
}

/// One direction of a flow.
#[derive(Default)]
pub(super) struct FlowDirection {
    waiting: [VecDeque<Waiting>; 2],
    copies: [Option<Box<Copies>>; 2],
    /// Number of packets that the other place has seen too, by the place that counted them.
    pub matched: [u64; 2],
    /// Number of packets that had no match at once.
    misses: u32,
    /// Counts of packets, bytes and pure ACKs that the other place has not seen.
    pub only: [Crossing; 2],
    /// Time of the first pair and difference between its capture times, until it is known which
    /// place is nearer the client.
    pub first: Option<(u64, i64)>,
}

impl FlowDirection {
    /// Returns whether `segment` was seen at `place` before, because it was captured twice.
    pub fn is_copy(&mut self, place: Place, segment: &Segment) -> bool {
        match &mut self.copies[place] {
            Some(copies) => copies.is_copy(segment, true),
            empty => {
                *empty = Some(Copies::after(segment));
                false
            }
        }
    }

    /// Returns the number of packets that wait to be seen at the other place.
    pub fn waiting_count(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    /// Processes a sighting. Returns the time of the earliest sighting at the other place that
    /// matches it and begins with the same byte.
    pub fn sighting(
        &mut self,
        place: Place,
        segment: &Segment,
        is_covered: bool,
        waiting_max: usize,
    ) -> Option<u64> {
        let other = 1 - place;
        let (mut new, mut twin_ns) = (Waiting { is_covered, ..Waiting::of(segment) }, None);
        let (mut index, mut last) = (0, None);
        let is_far_look = self.misses.is_multiple_of(FAR_SEARCH);
        let depth = if is_far_look { WAITING_MAX } else { REORDERING_DEPTH_MAX.into() };
        while index < self.waiting[other].len().min(depth) {
            let old = &mut self.waiting[other][index];
            let Some(shared) = old.shares(&new) else {
                index += 1;
                continue;
            };
            if old.seq == new.seq {
                twin_ns = twin_ns.or(Some(old.time_ns));
            }
            old.left = old.left.saturating_sub(shared);
            new.left = new.left.saturating_sub(shared);
            last = Some(index);
            if old.left == 0 {
                self.waiting[other].remove(index);
                self.matched[other] += 1;
            } else {
                index += 1;
            }
            if new.left == 0 {
                break;
            }
        }
        match last {
            Some(last) => self.pass(other, last),
            None => self.misses = self.misses.wrapping_add(1),
        }
        if new.left == 0 && last.is_some() {
            self.matched[place] += 1;
        } else {
            while self.waiting[place].len() >= waiting_max
                && let Some(oldest) = self.waiting[place].pop_front()
            {
                Self::count(&mut self.only[place], &oldest);
            }
            self.waiting[place].push_back(new);
        }
        twin_ns
    }

    /// Counts a later packet for the packets before `index`, and gives up those that too many later
    /// packets have passed.
    fn pass(&mut self, place: Place, index: usize) {
        let queue = &mut self.waiting[place];
        for waiting in queue.drain(..index.saturating_sub(REORDERING_DEPTH_MAX.into())) {
            Self::count(&mut self.only[place], &waiting);
        }
        let behind = queue.iter_mut().take(index.min(REORDERING_DEPTH_MAX.into()));
        behind.for_each(|waiting| waiting.passed += 1);
        while let Some(oldest) =
            queue.front().filter(|oldest| oldest.passed >= REORDERING_DEPTH_MAX)
        {
            let oldest = *oldest;
            queue.pop_front();
            Self::count(&mut self.only[place], &oldest);
        }
    }

    /// Ends the flow: packets that are still kept were seen at one place only, if the capture of
    /// the other place, which ended at `last_ns`, had not ended by then.
    pub fn close(&mut self, last_ns: [u64; 2]) {
        for place in 0..2 {
            for mut waiting in std::mem::take(&mut self.waiting[place]) {
                waiting.is_covered &= waiting.time_ns <= last_ns[1 - place];
                Self::count(&mut self.only[place], &waiting);
            }
        }
    }

    fn count(only: &mut Crossing, waiting: &Waiting) {
        if !waiting.is_covered {
            only.uncovered_packets += u64::from(!waiting.is_plain());
        } else if waiting.is_plain() {
            only.lost_acks += 1;
        } else {
            only.lost_packets += 1;
            only.lost_bytes += u64::from(waiting.left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_hundreds_overtook_was_lost() {
        let packet = |number: u32| Segment {
            seq: 1_000 * number,
            payload_len: 1_000,
            time_ns: u64::from(number),
            ..Segment::default()
        };
        let is_seen_after = |others: u32| {
            let mut direction = FlowDirection::default();
            direction.sighting(0, &packet(0), true, WAITING_MAX);
            for number in 1..=others {
                direction.sighting(0, &packet(number), true, WAITING_MAX);
                direction.sighting(1, &packet(number), true, WAITING_MAX);
            }
            direction.sighting(1, &packet(0), true, WAITING_MAX).is_some()
        };
        assert!(is_seen_after(400) && !is_seen_after(700));
    }
}
