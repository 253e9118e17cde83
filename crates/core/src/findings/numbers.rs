//! Captures whose packets a program wrote without numbering their bytes: a SYN has a sequence number of its
//! own, so that data and the FIN behind it have later ones (RFC 9293 §3.4). Where they have that of the SYN, no
//! host sent them.

use crate::wire::{FlowKey, Segment, SegmentFlags, TcpFlags};
use std::collections::BTreeMap;

/// Number of directions that are compared: one with two numbers is enough, and nearly every conversation has it.
pub const NUMBERED_DIRECTIONS_MAX: usize = 64;

/// The sequence numbers of one direction of a connection.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
struct Direction {
    /// The sequence number of all of them.
    seq: u32,
    /// A SYN is among them.
    has_syn: bool,
    /// So is a segment that a SYN comes before, with another number: data, or a FIN.
    has_more: bool,
}

/// The sequence numbers of a capture so far.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Numbers {
    /// By flow, and whether its higher end is the sender.
    directions: BTreeMap<(FlowKey, bool), Direction>,
    /// A direction has two numbers, as hosts send them.
    are_counted: bool,
}

impl Numbers {
    /// Adds segments, in any order.
    pub fn take<'a>(&mut self, segments: impl Iterator<Item = &'a Segment>) {
        if self.are_counted {
            return;
        }
        for segment in segments.filter(|it| !it.facts.has(SegmentFlags::REASSEMBLED)) {
            // A RST may answer a segment of no connection: its number is then another one (§3.10.7.1).
            if !segment.flags.has(TcpFlags::RST) {
                self.add(segment.flow, segment.from_high(), Direction::of(segment));
            }
            if self.are_counted {
                return;
            }
        }
    }

    /// Adds those of another part of the capture.
    pub fn merge(&mut self, other: &Self) {
        self.are_counted |= other.are_counted;
        for (&(flow, from_high), direction) in &other.directions {
            self.add(flow, from_high, *direction);
        }
    }

    fn add(&mut self, flow: FlowKey, from_high: bool, new: Direction) {
        let (key, is_full) = ((flow, from_high), self.directions.len() >= NUMBERED_DIRECTIONS_MAX);
        if self.are_counted || (is_full && !self.directions.contains_key(&key)) {
            return;
        }
        let known = self.directions.entry(key).or_insert(new);
        known.has_syn |= new.has_syn;
        known.has_more |= new.has_more;
        if known.seq != new.seq {
            (self.are_counted, self.directions) = (true, BTreeMap::new());
        }
    }

    /// Returns whether a program wrote the segments.
    pub fn are_made_up(&self) -> bool {
        self.directions.values().any(|it| it.has_syn && it.has_more)
    }
}

impl Direction {
    fn of(segment: &Segment) -> Self {
        let has_syn = segment.flags.has(TcpFlags::SYN);
        // A keep-alive repeats the number before the next one, with a byte at most (RFC 9293 §3.8.4).
        let has_more = !has_syn && (segment.payload_len > 1 || segment.flags.has(TcpFlags::FIN));
        Self { seq: segment.seq, has_syn, has_more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(port: u16, seq: u32, flags: u8, payload_len: u32) -> Segment {
        let mut segment = Segment::default();
        segment.flow.low.port = port;
        (segment.seq, segment.flags, segment.payload_len) = (seq, TcpFlags(flags), payload_len);
        segment
    }

    fn are_made_up(segments: &[Segment]) -> bool {
        let (first, second) = segments.split_at(segments.len() / 2);
        let (mut all, mut parts, mut rest) =
            (Numbers::default(), Numbers::default(), Numbers::default());
        all.take(segments.iter());
        parts.take(second.iter());
        rest.take(first.iter());
        parts.merge(&rest);
        assert_eq!(all.are_made_up(), parts.are_made_up(), "in two parts");
        all.are_made_up()
    }

    #[test]
    fn data_with_the_number_of_its_syn_was_written() {
        let (syn, push, fin) = (TcpFlags::SYN, TcpFlags::PSH, TcpFlags::FIN);
        let written = [segment(1, 7, syn, 0), segment(1, 7, push, 58), segment(1, 7, fin, 0)];
        assert!(are_made_up(&written));
        let sent = [segment(1, 7, syn, 0), segment(1, 8, push, 58), segment(1, 66, fin, 0)];
        assert!(!are_made_up(&sent));
        assert!(!are_made_up(&[&written[..], &sent].concat()), "one is enough");
        assert!(!are_made_up(&[segment(1, 7, syn, 0), segment(2, 7, syn, 0)]), "only SYNs");
        assert!(!are_made_up(&[segment(1, 7, push, 58), segment(1, 7, push, 58)]), "sent again");
        assert!(!are_made_up(&[segment(1, 7, syn, 0), segment(1, 7, push, 1)]), "a keep-alive");
    }

    #[test]
    fn the_directions_are_bounded() {
        let mut numbers = Numbers::default();
        let many: Vec<_> = (0..1_000).map(|port| segment(port, 7, TcpFlags::SYN, 0)).collect();
        numbers.take(many.iter());
        assert_eq!(numbers.directions.len(), NUMBERED_DIRECTIONS_MAX);
    }
}
