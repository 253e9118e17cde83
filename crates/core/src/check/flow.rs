//! TCP connections as rows of headers, with sequence numbers that do not wrap.

use super::packets::{Pair, offers_sack};
use crate::capture::FrameId;
use crate::wire::{Segment, SegmentFlags, Side, TcpFlags};

/// Copies of one packet are captured within less than this, ns.
const COPY_NS: u64 = 20_000_000;

/// One TCP segment. Positions are relative to the first byte of each direction, and do not wrap.
#[derive(Clone, Debug)]
pub(super) struct Seg {
    pub frame: FrameId,
    pub time_ns: u64,
    pub from: Side,
    /// Position of its first byte.
    pub at: i64,
    /// Length of its payload, bytes.
    pub len: i64,
    pub flags: TcpFlags,
    /// Position in the other direction that it acknowledges.
    pub ack: Option<i64>,
    /// The window that it offers, bytes; `None` where the scale was not captured.
    pub window: Option<i64>,
    pub sack: Vec<(i64, i64)>,
    pub mss: Option<i64>,
    pub tsval: Option<u32>,
    pub ip_id: Option<u16>,
    pub ttl: u8,
}

impl Seg {
    pub fn has(&self, flag: u8) -> bool {
        self.flags.has(flag)
    }

    /// Sequence number after the segment, with SYN and FIN counted.
    pub fn end(&self) -> i64 {
        let control = self.has(TcpFlags::SYN) as i64 + self.has(TcpFlags::FIN) as i64;
        self.at + self.len + control
    }

    /// Returns whether the segment takes up sequence space.
    pub fn takes_space(&self) -> bool {
        self.end() > self.at
    }
}

/// One TCP connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub segs: Vec<Seg>,
    /// `true` if both window scales are known, or if no scaling is used.
    pub scales_known: bool,
    /// One of its ends offered SACK.
    pub offers_sack: bool,
    /// Greatest payload where no size was announced: that of a loopback, or of an Ethernet.
    mss_unknown: i64,
    /// For each number of segments, the highest sequence number that each side had sent.
    sent: Vec<[i64; 2]>,
    /// For each number of segments, the highest sequence number of each side that was acknowledged.
    acked: Vec<[i64; 2]>,
}

impl Flow {
    fn new(segs: Vec<Seg>, scales_known: bool, offers_sack: bool) -> Self {
        let mut flow = Self { segs, scales_known, offers_sack, ..Self::default() };
        flow.sum_up();
        flow
    }

    /// Exchanges the names of the two sides.
    pub fn swap_sides(&mut self) {
        self.segs.iter_mut().for_each(|seg| seg.from = seg.from.peer());
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let (mut sent, mut acked) = ([0; 2], [0; 2]);
        (self.sent, self.acked) = (vec![sent], vec![acked]);
        for seg in &self.segs {
            let highest = &mut sent[seg.from];
            *highest = seg.end().max(*highest);
            let highest = &mut acked[seg.from.peer()];
            *highest = seg.ack.unwrap_or(0).max(*highest);
            self.sent.push(sent);
            self.acked.push(acked);
        }
    }

    pub fn index(&self, frame: FrameId) -> Option<usize> {
        self.segs.iter().position(|seg| seg.frame == frame)
    }

    /// Segments of `side` among the first `upto`.
    pub fn by(&self, side: Side, upto: usize) -> impl DoubleEndedIterator<Item = &Seg> {
        self.segs[..upto].iter().filter(move |seg| seg.from == side)
    }

    /// Furthest right edge of the windows that `side` had offered before segment `upto`. What a SYN
    /// offers counts until another offer follows: that is scaled, although a device may have removed
    /// the scale from the SYN.
    pub fn edge(&self, side: Side, upto: usize) -> Option<i64> {
        let edges = |of_syn: bool| {
            let offers = self.by(side, upto).filter(move |it| it.has(TcpFlags::SYN) == of_syn);
            let offers = offers.filter(|it| !it.has(TcpFlags::RST));
            offers.filter_map(|seg| Some(seg.ack? + seg.window?)).max()
        };
        edges(false).or_else(|| edges(true))
    }

    /// Highest sequence number that `side` had sent before segment `upto`.
    pub fn sent(&self, side: Side, upto: usize) -> i64 {
        self.sent.get(upto).or(self.sent.last()).map_or(0, |it| it[side])
    }

    /// Highest sequence number sent by `side` that was acknowledged before segment `upto`.
    pub fn acked(&self, side: Side, upto: usize) -> i64 {
        self.acked.get(upto).or(self.acked.last()).map_or(0, |it| it[side])
    }

    /// Returns whether either side sent what was never acknowledged.
    pub fn is_left_unacknowledged(&self) -> bool {
        let all = self.segs.len();
        Side::ALL.iter().any(|&side| self.acked(side, all) < self.sent(side, all))
    }

    /// Returns whether segment `index` carries bytes that its sender had sent before.
    pub fn repeats(&self, index: usize) -> bool {
        self.original(index).is_some()
    }

    /// Returns the last segment before `index` with the bytes that `index` repeats.
    pub fn original(&self, index: usize) -> Option<&Seg> {
        let seg = self.segs.get(index)?;
        let same = |it: &&Seg| it.takes_space() && it.at < seg.end() && seg.at < it.end();
        // A segment that begins behind all data sent before repeats nothing.
        let is_new = !seg.takes_space() || seg.at >= self.sent(seg.from, index);
        if is_new { None } else { self.by(seg.from, index).rev().find(same) }
    }

    /// Returns whether `side` had repeated data before segment `upto`, apart from keep-alives.
    pub fn has_repeated(&self, side: Side, upto: usize) -> bool {
        (0..upto).any(|index| {
            let seg = &self.segs[index];
            seg.from == side && seg.len > 1 && self.repeats(index)
        })
    }

    /// Returns whether a segment of `side` carries the bytes from `left` to `right` behind others that it
    /// had not been seen to send before.
    fn joins(&self, side: Side, (left, right): (i64, i64)) -> bool {
        self.segs.iter().enumerate().any(|(index, seg)| {
            let covers = |it: &Seg| it.takes_space() && it.at <= seg.at && seg.at < it.end();
            seg.from == side
                && seg.at < left
                && right <= seg.end()
                && seg.at < self.sent(side, index)
                && !self.by(side, index).any(covers)
        })
    }

    /// Returns whether the receiver of data of `side` reported duplicate bytes (D-SACK, RFC 2883) other
    /// than the byte of a keep-alive, and than those that were sent again behind missing ones.
    pub fn has_dsack(&self, side: Side) -> bool {
        let is_keep_alive = |ack: i64, (left, right): (i64, i64)| {
            let probes = |seg: &Seg| seg.len == 1 && seg.at == left;
            right == ack && right - left == 1 && self.by(side, self.segs.len()).any(probes)
        };
        self.by(side.peer(), self.segs.len()).any(|seg| {
            let (Some(ack), Some(first)) = (seg.ack, seg.sack.first()) else { return false };
            let within = |other: &(i64, i64)| other.0 <= first.0 && first.1 <= other.1;
            let is_dsack = first.0 < ack && !is_keep_alive(ack, *first);
            (is_dsack || seg.sack.iter().skip(1).any(within)) && !self.joins(side, *first)
        })
    }

    /// Returns whether the receiver of data of `side` offered SACK or used it.
    pub fn has_sack(&self, side: Side) -> bool {
        self.offers_sack || self.by(side.peer(), self.segs.len()).any(|seg| !seg.sack.is_empty())
    }

    /// Greatest payload that `side` may send by what its peer announced, less timestamps, if both ends
    /// agreed to use them (RFC 7323 §2.2), or, where that was not captured, what the link may carry.
    pub fn mss(&self, side: Side) -> i64 {
        let announced = self.by(side.peer(), self.segs.len()).find_map(|seg| seg.mss);
        let mut after_syn = self.by(side, self.segs.len()).filter(|it| !it.has(TcpFlags::SYN));
        let stamps = after_syn.any(|it| it.tsval.is_some());
        announced.unwrap_or(self.mss_unknown) - if stamps { 12 } else { 0 }
    }

    /// The first segment that a side cannot have heard of at `at_ns`, with that way from the capture to it
    /// and back.
    pub fn heard(&self, at_ns: u64, leg_ns: u64) -> usize {
        self.segs.partition_point(|it| it.time_ns <= at_ns.saturating_sub(leg_ns))
    }

    /// Greatest number of bytes that `side` had in flight, as it saw that, before segment `upto`.
    pub fn flight_max(&self, side: Side, upto: usize, leg_ns: u64) -> i64 {
        let sent = (0..upto).filter(|&at| self.segs[at].from == side);
        let flights = sent.map(|at| {
            let heard = self.heard(self.segs[at].time_ns, leg_ns).min(at + 1);
            self.sent(side, at + 1) - self.acked(side, heard)
        });
        flights.max().unwrap_or(0)
    }

    /// Returns whether a SACK block of `seg` reports bytes behind a hole, in contrast to duplicate
    /// bytes.
    pub fn is_sack(seg: &Seg) -> bool {
        let ack = seg.ack.unwrap_or(0);
        let within = |block: &(i64, i64), other: &(i64, i64)| {
            block != other && other.0 <= block.0 && block.1 <= other.1
        };
        let twice =
            |block: &(i64, i64)| block.0 < ack || seg.sack.iter().any(|it| within(block, it));
        seg.sack.iter().any(|block| !twice(block))
    }

    /// Time from the SYN to the client's ACK of the SYN-ACK, ns: the round trip wherever the capture
    /// was taken. `None` if one of the three is missing or came twice.
    pub fn handshake_ns(&self) -> Option<u64> {
        let of = |side: Side, syn: bool| {
            let sent = self.segs.iter().filter(move |it| it.from == side);
            sent.filter(move |it| it.has(TcpFlags::SYN) == syn)
        };
        let only = |side| {
            let mut syns = of(side, true);
            syns.next().filter(|_| syns.next().is_none())
        };
        let (syn, syn_ack) = (only(Side::Client)?, only(Side::Server)?);
        let ack = of(Side::Client, false).find(|it| it.ack == Some(syn_ack.end()))?;
        ack.time_ns.checked_sub(syn.time_ns)
    }

    /// Least time from what the peer of `side` sent to the first ACK of it: the way from the capture to
    /// `side` and back, at most, ns.
    pub fn leg_ns(&self, side: Side) -> Option<u64> {
        let mut least = None;
        for (index, seg) in self.segs.iter().enumerate() {
            if seg.from == side || !seg.takes_space() {
                continue;
            }
            let answer = self.segs[index + 1..]
                .iter()
                .take(64)
                .find(|it| it.from == side && it.ack.is_some_and(|ack| ack >= seg.end()));
            if let Some(answer) = answer {
                let ns = answer.time_ns.saturating_sub(seg.time_ns);
                least = Some(least.map_or(ns, |least: u64| least.min(ns)));
            }
        }
        least
    }
}

/// A packet that was captured twice.
pub(super) fn is_copy(kept: &[Segment], segment: &Segment) -> bool {
    kept.iter().rev().take(8).any(|it| {
        let same = |it: &Segment| {
            (it.source().port, it.seq, it.ack, it.flags.0, it.payload_len, it.ip_id, it.window)
        };
        let stamps = |it: &Segment| (it.tsval, it.tsecr, *it.source());
        same(it) == same(segment)
            && stamps(it) == stamps(segment)
            // Equal ACKs are sent.
            && segment.seg_len() > 0
            && segment.time_ns.saturating_sub(it.time_ns) < COPY_NS
            && segment.facts.has(SegmentFlags::IPV4)
            && segment.ip_id != 0
    })
}

/// Segments between the same two ports, cut where a SYN begins another connection.
pub(super) fn connections(segments: &[Segment]) -> Vec<Vec<Segment>> {
    let mut all: Vec<Vec<Segment>> = Vec::new();
    let mut syn = None;
    for segment in segments {
        let asks = segment.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::ACK);
        let is_new = asks && syn != Some(segment.seq) && !all.is_empty();
        if asks {
            syn = Some(segment.seq);
        }
        if is_new || all.is_empty() {
            all.push(Vec::new());
        }
        if let Some(last) = all.last_mut() {
            last.push(*segment);
        }
    }
    all
}

pub(super) fn flow((low, _): Pair, segments: &[Segment]) -> Flow {
    // The report determines which end is the client; here the lesser endpoint is called so.
    let side = |it: &Segment| if *it.source() == low { Side::Client } else { Side::Server };
    let mut last: [Option<(u32, i64)>; 2] = [None; 2];
    for segment in segments {
        let (of, peer) = (side(segment) as usize, side(segment).peer() as usize);
        last[of].get_or_insert((segment.seq, 0));
        if segment.flags.has(TcpFlags::ACK) && !segment.flags.has(TcpFlags::SYN) {
            last[peer].get_or_insert((segment.ack, 0));
        }
    }
    let syns: Vec<_> = segments.iter().filter(|it| it.flags.has(TcpFlags::SYN)).collect();
    let scale = |side_of: Side| {
        let syn = syns.iter().find(|it| side(it) == side_of)?;
        Some(syn.facts.has(SegmentFlags::WINDOW_SCALE).then_some(syn.window_scale))
    };
    let scales = [scale(Side::Client), scale(Side::Server)];
    let used = match scales {
        [Some(Some(one)), Some(Some(other))] => Some([one.min(14), other.min(14)]),
        // If one side does not offer the option, it is not used.
        [Some(None), _] | [_, Some(None)] => Some([0, 0]),
        _ => None,
    };
    let segs = segments.iter().map(|it| {
        let (of, peer) = (side(it), side(it).peer());
        let mut place = |side: Side, number: u32| {
            let (from, at) = last[side].unwrap_or((number, 0));
            let place = at + i64::from(number.wrapping_sub(from) as i32);
            last[side] = Some((number, place));
            place
        };
        let at = place(of, it.seq);
        let has_ack = it.flags.has(TcpFlags::ACK);
        let ack = has_ack.then(|| place(peer, it.ack));
        let blocks = it.sack.iter().take(it.sack_count.into());
        let sack = blocks.map(|it| (place(peer, it.left), place(peer, it.right))).collect();
        let shift =
            if it.flags.has(TcpFlags::SYN) { Some(0) } else { used.map(|it| it[of as usize]) };
        Seg {
            frame: it.frame,
            time_ns: it.time_ns,
            from: of,
            at,
            len: it.payload_len.into(),
            flags: it.flags,
            ack,
            window: shift.map(|shift| i64::from(it.window) << shift),
            sack,
            mss: it.facts.has(SegmentFlags::MSS).then_some(it.mss.into()),
            tsval: it.facts.has(SegmentFlags::TIMESTAMPS).then_some(it.tsval),
            ip_id: it.facts.has(SegmentFlags::IPV4).then_some(it.ip_id),
            ttl: it.ttl,
        }
    });
    let within_host = segments.first().is_some_and(|it| it.flow.is_within_host());
    let mss_unknown = if within_host { 65_495 } else { 1_460 };
    Flow { mss_unknown, ..Flow::new(segs.collect(), used.is_some(), offers_sack(segments)) }
}
