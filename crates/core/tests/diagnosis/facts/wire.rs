//! The headers of the frames of a capture, without any analysis: the facts with which the sentences
//! of a report are compared.

use std::collections::HashMap;
use tcpwhy_core::app::Side;
use tcpwhy_core::capture::{Block, CaptureSet, FrameId, Source};
use tcpwhy_core::wire::{Endpoint, FlowHasher, Packet, Segment, SegmentFlags, TcpFlags, decode};

/// Copies of one packet are captured within less than this, ns.
const COPY_NS: u64 = 20_000_000;

/// Port of a name server.
pub const DNS_PORT: u16 = 53;

/// One TCP segment. Positions are relative to the first byte of each direction, and do not wrap.
#[derive(Clone, Debug)]
pub struct Seg {
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
pub struct Flow {
    pub segs: Vec<Seg>,
    /// `true` if both window scales are known, or if no scaling is used.
    pub scales_known: bool,
}

impl Flow {
    pub fn index(&self, frame: FrameId) -> Option<usize> {
        self.segs.iter().position(|seg| seg.frame == frame)
    }

    /// Segments of `side` among the first `upto`.
    pub fn by(&self, side: Side, upto: usize) -> impl DoubleEndedIterator<Item = &Seg> {
        self.segs[..upto].iter().filter(move |seg| seg.from == side)
    }

    /// Highest sequence number that `side` had sent before segment `upto`.
    pub fn sent(&self, side: Side, upto: usize) -> i64 {
        self.by(side, upto).map(Seg::end).max().unwrap_or(0)
    }

    /// Highest sequence number sent by `side` that was acknowledged before segment `upto`.
    pub fn acked(&self, side: Side, upto: usize) -> i64 {
        self.by(side.peer(), upto).filter_map(|seg| seg.ack).max().unwrap_or(0)
    }

    /// Returns whether segment `index` carries bytes that its sender had sent before.
    pub fn repeats(&self, index: usize) -> bool {
        self.original(index).is_some()
    }

    /// Returns the last segment before `index` with the bytes that `index` repeats.
    pub fn original(&self, index: usize) -> Option<&Seg> {
        let seg = &self.segs[index];
        let same = |it: &&Seg| it.takes_space() && it.at < seg.end() && seg.at < it.end();
        self.by(seg.from, index).rev().find(same).filter(|_| seg.takes_space())
    }

    /// Returns whether `side` had repeated data before segment `upto`, apart from keep-alives.
    pub fn has_repeated(&self, side: Side, upto: usize) -> bool {
        (0..upto).any(|index| {
            let seg = &self.segs[index];
            seg.from == side && seg.len > 1 && self.repeats(index)
        })
    }

    /// Returns whether the receiver of data of `side` reported duplicate bytes (D-SACK, RFC 2883).
    pub fn has_dsack(&self, side: Side) -> bool {
        self.by(side.peer(), self.segs.len()).any(|seg| {
            let (Some(ack), Some(first)) = (seg.ack, seg.sack.first()) else { return false };
            let within = |other: &(i64, i64)| other.0 <= first.0 && first.1 <= other.1;
            first.0 < ack || seg.sack.iter().skip(1).any(within)
        })
    }

    /// Returns whether the receiver of data of `side` offered SACK or used it.
    pub fn has_sack(&self, side: Side, offered: bool) -> bool {
        offered || self.by(side.peer(), self.segs.len()).any(|seg| !seg.sack.is_empty())
    }

    /// Greatest payload that `side` may send by what its peer announced, without options, or, where that
    /// was not captured, an Ethernet's.
    pub fn mss(&self, side: Side) -> i64 {
        let announced = self.by(side.peer(), self.segs.len()).find_map(|seg| seg.mss);
        let stamps = self.by(side, self.segs.len()).any(|seg| seg.tsval.is_some());
        announced.unwrap_or(1460) - if stamps { 12 } else { 0 }
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

/// A DNS message over UDP, or an ICMP error, or anything else that is not TCP.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub time_ns: u64,
    pub source: Endpoint,
    pub destination: Endpoint,
    pub len: u32,
    pub id: u16,
    pub is_answer: bool,
    pub rcode: u8,
    /// Name and type as in the message, in lower case.
    pub question: Vec<u8>,
}

/// The packets of a capture by protocol.
#[derive(Default)]
pub struct Wire {
    pub times: HashMap<FrameId, u64>,
    pub flows: HashMap<(Endpoint, Endpoint), Vec<Flow>>,
    pub datagrams: HashMap<FrameId, Datagram>,
    /// DNS messages over TCP that lie within one segment.
    pub spoken: Vec<Datagram>,
    pub icmp: HashMap<FrameId, u64>,
    /// The capture's clock went backward.
    pub is_stepped: bool,
    pub sack_offered: HashMap<(Endpoint, Endpoint), bool>,
}

fn pair(one: Endpoint, other: Endpoint) -> (Endpoint, Endpoint) {
    if one < other { (one, other) } else { (other, one) }
}

impl Wire {
    pub fn read(name: &str, bytes: Vec<u8>) -> Option<Self> {
        let mut capture = CaptureSet::new(vec![Source::memory(name, bytes)]).ok()?;
        let (mut block, mut wire) = (Block::default(), Self::default());
        let mut last_ns = 0;
        let mut raw: HashMap<(Endpoint, Endpoint), Vec<Segment>> = HashMap::new();
        while capture.next_block(&mut block).ok()? {
            for frame in block.frames() {
                let mut segment = Segment::default();
                wire.is_stepped |= frame.time_ns < last_ns;
                last_ns = frame.time_ns;
                wire.times.insert(frame.id, frame.time_ns);
                match decode(&frame, &FlowHasher::new(0), &mut segment) {
                    Packet::Tcp => {
                        let payload = frame.bytes.get(segment.payload_offset as usize..);
                        wire.spoken.extend(spoken(&segment, payload.unwrap_or(&[])));
                        let key = pair(*segment.source(), *segment.destination());
                        let kept = raw.entry(key).or_default();
                        if !is_copy(kept, &segment) {
                            kept.push(segment);
                        }
                    }
                    Packet::Udp(datagram) => {
                        let message = message(datagram.payload);
                        let (id, is_answer, rcode, question) = message.unwrap_or_default();
                        let (source, destination) = (datagram.source, datagram.destination);
                        let (time_ns, len) = (frame.time_ns, datagram.payload_len);
                        let datagram = Datagram {
                            time_ns,
                            source,
                            destination,
                            len,
                            id,
                            is_answer,
                            rcode,
                            question,
                        };
                        wire.datagrams.insert(frame.id, datagram);
                    }
                    Packet::IcmpError(error) => drop(wire.icmp.insert(frame.id, error.time_ns)),
                    _ => {}
                }
            }
        }
        for (key, segments) in raw {
            let offered = |it: &Segment| it.facts.has(SegmentFlags::SACK_PERMITTED);
            wire.sack_offered.insert(key, segments.iter().any(offered));
            let flows = connections(&segments);
            wire.flows.insert(key, flows.into_iter().map(|it| flow(key, &it)).collect());
        }
        Some(wire)
    }

    /// The connection between these two that has the frame, with the sides as they are given.
    pub fn flow(&self, client: Endpoint, server: Endpoint, frame: FrameId) -> Option<Flow> {
        let flows = self.flows.get(&pair(client, server))?;
        let mut flow = flows.iter().find(|flow| flow.index(frame).is_some())?.clone();
        if pair(client, server).0 != client {
            flow.segs.iter_mut().for_each(|seg| seg.from = seg.from.peer());
        }
        Some(flow)
    }

    pub fn offers_sack(&self, one: Endpoint, other: Endpoint) -> bool {
        self.sack_offered.get(&pair(one, other)).copied().unwrap_or(false)
    }

    /// All DNS messages.
    pub fn messages(&self) -> impl Iterator<Item = &Datagram> {
        self.datagrams.values().chain(&self.spoken)
    }

    /// Returns the answer to the query `asked`, if there is one before the client repeats the
    /// query.
    pub fn answer(&self, asked: &Datagram) -> Option<&Datagram> {
        let answers = self.messages().filter(|it| {
            it.is_answer
                && it.id == asked.id
                && it.question == asked.question
                && it.source == asked.destination
                && it.destination == asked.source
                && it.time_ns >= asked.time_ns
        });
        let first = answers.min_by_key(|it| it.time_ns)?;
        // An answer belongs to the last query before it.
        let later = self.messages().any(|it| {
            !it.is_answer
                && (it.id, it.source, it.destination) == (asked.id, asked.source, asked.destination)
                && asked.time_ns < it.time_ns
                && it.time_ns <= first.time_ns
        });
        (!later).then_some(first)
    }
}

/// The DNS messages that a segment from or to a name server carries (RFC 1035 §4.2.2).
fn spoken(segment: &Segment, payload: &[u8]) -> Vec<Datagram> {
    let (source, destination) = (*segment.source(), *segment.destination());
    let mut messages = Vec::new();
    if source.port != DNS_PORT && destination.port != DNS_PORT {
        return messages;
    }
    let mut rest = &payload[..payload.len().min(segment.captured_len as usize)];
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length));
        let whole = after.get(..length.min(after.len())).unwrap_or(&[]);
        let Some((id, is_answer, rcode, question)) = message(whole) else { break };
        let (time_ns, len) = (segment.time_ns, segment.payload_len);
        messages.push(Datagram {
            time_ns,
            source,
            destination,
            len,
            id,
            is_answer,
            rcode,
            question,
        });
        rest = &after[whole.len()..];
    }
    messages
}

/// A packet that was captured twice.
fn is_copy(kept: &[Segment], segment: &Segment) -> bool {
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
fn connections(segments: &[Segment]) -> Vec<Vec<Segment>> {
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
        all.last_mut().expect("one").push(*segment);
    }
    all
}

fn flow((low, _): (Endpoint, Endpoint), segments: &[Segment]) -> Flow {
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
            let (from, at) = last[side as usize].unwrap_or((number, 0));
            let place = at + i64::from(number.wrapping_sub(from) as i32);
            last[side as usize] = Some((number, place));
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
    Flow { segs: segs.collect(), scales_known: used.is_some() }
}

/// Identification, whether it is an answer, its code and its question (RFC 1035 §4.1).
fn message(payload: &[u8]) -> Option<(u16, bool, u8, Vec<u8>)> {
    let header: &[u8; 12] = payload.first_chunk()?;
    let id = u16::from_be_bytes([header[0], header[1]]);
    let name_end = 12 + payload[12..].iter().position(|&byte| byte == 0)? + 1;
    let question = payload.get(12..name_end + 2)?.to_ascii_lowercase();
    Some((id, header[2] & 0x80 != 0, header[3] & 0x0f, question))
}
