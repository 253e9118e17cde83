//! The data of a connection's graphs: a point for each segment, and the round trips.
//!
//! Read first: RFC 9293 §3.8.6 (window), RFC 6298 §3 (which segments may be timed). Sequence and
//! acknowledgment numbers are relative to the first of their side, as Wireshark shows them, and do
//! not wrap.

use crate::capture::FrameId;
use crate::tcp::{Connection, Kind, ORIGIN, Sequence};
use crate::wire::{BySide, Segment, Side, TcpFlags};
use std::collections::VecDeque;

/// The relation of a segment's data to the data before it in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Data not seen before, or no data.
    New,
    /// Data that had been sent before.
    Retransmission,
    /// Data that arrived out of order.
    OutOfOrder,
    /// A probe of a closed window, or a keep-alive.
    Probe,
}

impl Mark {
    fn of(kind: Option<Kind>) -> Self {
        match kind {
            Some(Kind::Retransmission(_) | Kind::Fill(_)) => Self::Retransmission,
            Some(Kind::Reordered | Kind::Late) => Self::OutOfOrder,
            Some(Kind::Probe) => Self::Probe,
            Some(Kind::New) | None => Self::New,
        }
    }
}

/// A segment as a point of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Capture time, ns.
    pub time_ns: u64,
    /// Frame of the segment.
    pub frame: FrameId,
    /// Side that sent the segment.
    pub from: Side,
    /// Control bits of the segment.
    pub flags: TcpFlags,
    /// The relation of its data to the data before it.
    pub mark: Mark,
    /// Relative sequence number of the first byte.
    pub seq: u64,
    /// Length of the payload, bytes.
    pub len: u32,
    /// Relative acknowledgment number; `None` without an ACK.
    pub ack: Option<u64>,
    /// The window that it advertises, bytes; `None` where its scale was not captured.
    pub window_bytes: Option<u64>,
    /// Bytes that its sender had sent, this segment included, and that were not yet acknowledged at
    /// the vantage.
    pub flight_size_bytes: u64,
}

/// A round-trip sample between the vantage and the receiver of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSample {
    /// Time at which the ACK was captured, ns.
    pub time_ns: u64,
    /// Time from the segment to its ACK, ns.
    pub rtt_ns: u64,
    /// The side that sent the segment.
    pub sender: Side,
    /// The frame with the ACK.
    pub frame: FrameId,
}

/// Points of one connection around one of its frames, in bounded memory.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The frame around which points are kept.
    around: FrameId,
    points_max: usize,
    /// The segments, in the order of the capture.
    pub points: VecDeque<Point>,
    /// The round trips.
    pub rtts: VecDeque<RttSample>,
    /// Number of segments before the first of `points`, and after the last.
    pub left_out: [u64; 2],
    streams: BySide<Stream>,
}

/// Maximum number of segments of one direction that are kept until their ACK comes.
const TIMED_MAX: usize = 1 << 12;

/// Sequence numbers of one direction, and its segments that may be timed.
#[derive(Clone, Debug, Default)]
struct Stream {
    numbers: Option<Sequence>,
    near: u64,
    /// End and capture time (ns) of each segment; `None` if it was retransmitted (RFC 6298 §3).
    timed: VecDeque<(u64, Option<u64>)>,
}

impl Stream {
    /// Returns the position of `number` relative to the first number of its side; `first` sets that
    /// number if it is not known yet.
    fn relative(&mut self, number: u32, first: u32) -> u64 {
        let numbers = self.numbers.get_or_insert_with(|| {
            self.near = ORIGIN;
            Sequence::new(first)
        });
        self.near = self.near.max(numbers.position(number, self.near));
        numbers.position(number, self.near).saturating_sub(ORIGIN)
    }

    /// Records data sent from `start` to `end`.
    fn sent(&mut self, (start, end): (u64, u64), time_ns: u64, mark: Mark) {
        if mark == Mark::New {
            if self.timed.len() < TIMED_MAX {
                self.timed.push_back((end, Some(time_ns)));
            }
            return;
        }
        for (timed_end, at_ns) in &mut self.timed {
            if *timed_end > start {
                *at_ns = None;
            }
        }
    }

    /// Records an ACK up to `ack`; returns the capture time of the last segment that it covers, ns,
    /// if that segment may be timed.
    fn acknowledged(&mut self, ack: u64) -> Option<u64> {
        let mut last = None;
        while self.timed.front().is_some_and(|(end, _)| *end <= ack) {
            last = self.timed.pop_front().and_then(|(_, at_ns)| at_ns);
        }
        last
    }
}

impl Graph {
    /// Keeps up to `points_max` segments around `frame`.
    pub fn new(around: FrameId, points_max: usize) -> Self {
        Self {
            around,
            points_max,
            points: VecDeque::new(),
            rtts: VecDeque::new(),
            left_out: [0; 2],
            streams: Default::default(),
        }
    }

    /// Discards the points: they belonged to an earlier connection with the same addresses.
    pub(crate) fn begin_again(&mut self) {
        *self = Self::new(self.around, self.points_max);
    }

    /// Adds a segment that `connection` has just classified as `kind`.
    pub(crate) fn segment(
        &mut self,
        connection: &Connection,
        segment: &Segment,
        from: Side,
        kind: Option<Kind>,
    ) {
        let mark = Mark::of(kind);
        let first = |side: Side| connection.senders[side].space.first_number();
        let own = first(from).unwrap_or(segment.seq);
        let seq = self.streams[from].relative(segment.seq, own);
        let end = seq + u64::from(segment.payload_len);
        if segment.payload_len > 0 {
            self.streams[from].sent((seq, end), segment.time_ns, mark);
        }
        let peer = from.peer();
        let acknowledges = segment.flags.has(TcpFlags::ACK) && !segment.flags.has(TcpFlags::RST);
        let base = first(peer).filter(|_| acknowledges);
        let ack = base.map(|base| self.streams[peer as usize].relative(segment.ack, base));
        let sent_ns = ack.and_then(|ack| self.streams[peer as usize].acknowledged(ack));
        if let Some(sent_ns) = sent_ns {
            let rtt_ns = segment.time_ns.saturating_sub(sent_ns);
            let (time_ns, frame) = (segment.time_ns, segment.frame);
            self.rtts.push_back(RttSample { time_ns, rtt_ns, sender: peer, frame });
        }
        let scale = match segment.flags.has(TcpFlags::SYN) {
            true => Some(0),
            false => connection.senders[peer as usize].space.window_scale(),
        };
        let window_bytes =
            scale.filter(|_| acknowledges).map(|scale| u64::from(segment.window) << scale.min(14));
        let half = &connection.senders[from];
        self.push(Point {
            time_ns: segment.time_ns,
            frame: segment.frame,
            from,
            flags: segment.flags,
            mark,
            seq,
            len: segment.payload_len,
            ack,
            window_bytes,
            flight_size_bytes: half.space.nxt.saturating_sub(half.space.una_seen()),
        });
    }

    fn push(&mut self, point: Point) {
        if point.frame <= self.around {
            self.points.push_back(point);
            if self.points.len() > self.points_max / 2 {
                self.points.pop_front();
                self.left_out[0] += 1;
            }
        } else if self.points.len() < self.points_max {
            self.points.push_back(point);
        } else {
            self.left_out[1] += 1;
        }
        let first_ns = self.points.front().map_or(0, |point| point.time_ns);
        while self.rtts.front().is_some_and(|sample| sample.time_ns < first_ns) {
            self.rtts.pop_front();
        }
        let last_ns = self.points.back().map_or(0, |point| point.time_ns);
        while self.rtts.back().is_some_and(|sample| sample.time_ns > last_ns) {
            self.rtts.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn numbers_go_on_where_they_wrap() {
        let mut stream = Stream::default();
        assert_eq!(stream.relative(u32::MAX - 9, u32::MAX - 9), 0);
        assert_eq!(stream.relative(90, u32::MAX - 9), 100);
        assert_eq!(stream.relative(u32::MAX, u32::MAX - 9), 9);
    }

    #[test]
    fn a_retransmitted_segment_is_not_timed() {
        let mut stream = Stream::default();
        stream.sent((0, 100), MS, Mark::New);
        stream.sent((100, 200), 2 * MS, Mark::New);
        stream.sent((100, 200), 50 * MS, Mark::Retransmission);
        stream.sent((200, 300), 51 * MS, Mark::New);
        assert_eq!(stream.acknowledged(100), Some(MS));
        assert_eq!(stream.acknowledged(200), None);
        assert_eq!(stream.acknowledged(300), Some(51 * MS));
    }

    #[test]
    fn points_around_a_frame_are_kept_and_the_others_counted() {
        let mut graph = Graph::new(FrameId::new(0, 50), 20);
        for number in 1..=100 {
            graph.push(Point {
                time_ns: number * MS,
                frame: FrameId::new(0, number),
                from: Side::Client,
                flags: TcpFlags(TcpFlags::ACK),
                mark: Mark::New,
                seq: number,
                len: 1,
                ack: None,
                window_bytes: None,
                flight_size_bytes: 1,
            });
        }
        let frames: Vec<u64> = graph.points.iter().map(|point| point.frame.number()).collect();
        assert_eq!(frames, (41..=60).collect::<Vec<_>>());
        assert_eq!(graph.left_out, [40, 40]);
    }
}
