//! The headers of the packets that a report names, read once more without any analysis.

use super::attempts::Attempts;
use super::flow::{Flow, Seg, connections, flow, is_copy};
use super::message::{Message, parse, spoken};
use super::syns::Syns;
use crate::capture::{Block, Frame, FrameId};
use crate::model::Report;
use crate::wire::{Endpoint, FlowHasher, Packet, Segment, SegmentFlags, Side, decode};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Port of a name server.
pub(super) const DNS_PORT: u16 = 53;

/// Number of segments that are kept of all connections together, which bounds the memory. Claims
/// about connections of which some segments were left out are undecided.
const SEGMENTS_MAX: usize = 1 << 17;

/// Number of DNS messages that are kept.
const MESSAGES_MAX: usize = 1 << 16;

/// A header that asks for 100 Continue (RFC 9110 §10.1.1).
const EXPECTS: &[u8] = b"expect: 100-continue";

/// Two endpoints, the lesser first.
pub(super) type Pair = (Endpoint, Endpoint);

/// Returns two endpoints in order.
pub(super) fn pair(one: Endpoint, other: Endpoint) -> Pair {
    if one < other { (one, other) } else { (other, one) }
}

/// Numbers of the whole capture, against which counts are checked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// TCP segments.
    pub segments: u64,
    /// TCP segments with SYN and without ACK.
    pub syns: u64,
    /// DNS messages over UDP or TCP.
    pub messages: u64,
    /// Capture time of the earliest frame, ns since the Unix epoch.
    pub first_ns: Option<u64>,
    /// Capture time of the latest frame.
    pub last_ns: u64,
}

/// The packets that the claims of one report are checked against.
#[derive(Debug, Default)]
pub struct Packets {
    /// Connections that the report's evidence names.
    wanted: HashSet<Pair>,
    /// Hosts of their servers, of which all connections are kept, so that counts can be checked.
    hosts: HashSet<[u8; 16]>,
    /// Frames that the report names.
    named: HashSet<FrameId>,
    /// The file whose frames count, for a report on captures of two places.
    is_joined: bool,
    hasher: Option<FlowHasher>,
    raw: BTreeMap<Pair, Vec<Segment>>,
    kept: usize,
    /// Named connections of which segments were left out.
    cut: BTreeSet<Pair>,
    /// Segments were left out.
    is_cut_short: bool,
    /// Capture times of the named frames.
    pub(super) times: HashMap<FrameId, u64>,
    /// DNS messages over UDP, and those over TCP that lie within one segment, in order.
    messages: Vec<Message>,
    /// Places in `messages` of the UDP datagrams, by frame.
    datagrams: HashMap<FrameId, usize>,
    /// Places in `messages`, by identification and both endpoints, the lesser first.
    by_id: HashMap<(u16, Pair), Vec<usize>>,
    /// ICMP errors.
    pub(super) icmp: HashSet<FrameId>,
    /// Named frames that carry an IP fragment.
    pub(super) fragments: HashSet<FrameId>,
    /// Frames of the named connections with `Expect: 100-continue` (RFC 9110 §10.1.1).
    pub(super) expects: HashSet<FrameId>,
    /// Attempts to connect to the culprits.
    pub(super) attempts: Attempts,
    /// SYNs to the servers of the named connections.
    pub(super) syns: Syns,
    /// The capture's clock went backward.
    pub(super) is_stepped: bool,
    /// DNS messages were left out.
    pub(super) messages_are_cut: bool,
    pub(super) sums: Sums,
    flows: BTreeMap<Pair, Vec<Flow>>,
}

impl Packets {
    /// Prepares to collect the packets that `report` names.
    pub fn of(report: &Report) -> Self {
        let flows = || report.findings.iter().filter_map(|it| it.evidence_flow);
        let evidence = report.findings.iter().flat_map(|it| &it.evidence).map(|it| it.frame);
        let observed = report.observations.iter().flat_map(|it| it.frames.iter().copied());
        Self {
            wanted: flows().map(|(client, server)| pair(client, server)).collect(),
            hosts: flows().map(|(_, server)| server.address).collect(),
            named: evidence.chain(observed).collect(),
            is_joined: report.join.is_some(),
            syns: Syns::of(flows().map(|(_, server)| server)),
            attempts: Attempts::of(report.findings.iter().map(|it| it.culprit.endpoint)),
            ..Self::default()
        }
    }

    /// Takes the frames of the next block.
    pub fn take(&mut self, block: &Block) {
        for frame in block.frames() {
            self.take_frame(&frame);
        }
    }

    fn take_frame(&mut self, frame: &Frame<'_>) {
        self.is_stepped |= frame.time_ns < self.sums.last_ns;
        self.sums.last_ns = self.sums.last_ns.max(frame.time_ns);
        let first_ns = self.sums.first_ns.get_or_insert(frame.time_ns);
        *first_ns = frame.time_ns.min(*first_ns);
        let is_named = self.named.contains(&frame.id);
        if is_named {
            self.times.insert(frame.id, frame.time_ns);
        }
        let mut segment = Segment::default();
        let hasher = *self.hasher.get_or_insert_with(|| FlowHasher::new(0));
        match decode(frame, &hasher, &mut segment) {
            Packet::Tcp => self.take_segment(frame, &segment),
            Packet::Udp(datagram) => {
                self.sums.messages += 1;
                let mut message = parse(datagram.payload).unwrap_or_default();
                message.time_ns = frame.time_ns;
                (message.source, message.destination) = (datagram.source, datagram.destination);
                message.len = datagram.payload_len;
                self.keep(Some(frame.id), message);
            }
            Packet::IcmpError(_) if is_named => drop(self.icmp.insert(frame.id)),
            Packet::Fragment(_) if is_named => drop(self.fragments.insert(frame.id)),
            _ => {}
        }
    }

    fn take_segment(&mut self, frame: &Frame<'_>, segment: &Segment) {
        use crate::wire::TcpFlags;
        self.sums.segments += 1;
        let asks = segment.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::ACK);
        self.sums.syns += u64::from(asks);
        let (source, destination) = (*segment.source(), *segment.destination());
        if [source.port, destination.port].contains(&DNS_PORT) {
            let payload = frame.bytes.get(segment.payload_offset as usize..).unwrap_or_default();
            for message in spoken(segment, payload) {
                self.sums.messages += 1;
                self.keep(None, message);
            }
        }
        self.attempts.take(segment);
        self.syns.take(segment);
        let key = pair(source, destination);
        let of_host = [source, destination].iter().any(|it| self.hosts.contains(&it.address));
        if !of_host && !self.wanted.contains(&key) && !self.named.contains(&frame.id) {
            return;
        }
        if self.kept >= SEGMENTS_MAX {
            self.is_cut_short = true;
            if self.wanted.contains(&key) {
                self.cut.insert(key);
            }
            return;
        }
        let payload = frame.bytes.get(segment.payload_offset as usize..).unwrap_or_default();
        if payload.windows(EXPECTS.len()).any(|it| it.eq_ignore_ascii_case(EXPECTS)) {
            self.expects.insert(frame.id);
        }
        let kept = self.raw.entry(key).or_default();
        if !is_copy(kept, segment) {
            kept.push(*segment);
            self.kept += 1;
        }
    }

    fn keep(&mut self, frame: Option<FrameId>, message: Message) {
        let place = self.messages.len();
        if place >= MESSAGES_MAX {
            self.messages_are_cut = true;
            return;
        }
        if let Some(frame) = frame {
            self.datagrams.insert(frame, place);
        }
        let key = (message.id, pair(message.source, message.destination));
        self.by_id.entry(key).or_default().push(place);
        self.messages.push(message);
    }

    /// Divides the segments into connections, once all blocks were taken.
    pub(super) fn divide(&mut self) {
        for (key, segments) in std::mem::take(&mut self.raw) {
            let places = if self.is_joined { places(&segments) } else { vec![segments] };
            let divided = places.iter().flat_map(|place| connections(place));
            self.flows.insert(key, divided.map(|it| flow(key, &it)).collect());
        }
    }

    /// Returns the connection of `client` and `server` that has `frame`, with these sides.
    pub(super) fn flow(&self, client: Endpoint, server: Endpoint, frame: FrameId) -> Option<Flow> {
        let flows = self.flows.get(&pair(client, server))?;
        let mut flow = flows.iter().find(|flow| flow.index(frame).is_some())?.clone();
        if pair(client, server).0 != client {
            flow.swap_sides();
        }
        Some(flow)
    }

    /// Returns all connections to `server`; `None` if not all packets are kept.
    pub(super) fn to_server(&self, server: Endpoint) -> Option<impl Iterator<Item = &Flow>> {
        let of_server = move |(pair, _): &(&Pair, &Vec<Flow>)| pair.0 == server || pair.1 == server;
        let flows = self.flows.iter().filter(of_server).flat_map(|(_, flows)| flows);
        (!self.is_cut_short).then_some(flows)
    }

    /// Returns whether a segment after `since_ns` came from the host of `server`; `None` if not all
    /// packets are kept.
    pub(super) fn is_host_heard(&self, server: Endpoint, since_ns: u64) -> Option<bool> {
        let heard = self.flows.iter().any(|((low, high), flows)| {
            // In these flows, the lesser endpoint is called the client.
            let is_low = low.address == server.address && high.address != server.address;
            let host = if is_low || *low == server { Side::Client } else { Side::Server };
            let of_host = [low.address, high.address].contains(&server.address);
            let later = |it: &Seg| it.from == host && it.time_ns > since_ns;
            of_host && flows.iter().any(|flow| flow.segs.iter().any(later))
        });
        (!self.is_cut_short).then_some(heard)
    }

    /// Returns whether segments of this connection were left out.
    pub(super) fn is_cut(&self, client: Endpoint, server: Endpoint) -> bool {
        self.cut.contains(&pair(client, server))
    }

    /// Returns all DNS messages.
    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the UDP datagram that `frame` carries.
    pub(super) fn datagram(&self, frame: FrameId) -> Option<&Message> {
        self.messages.get(*self.datagrams.get(&frame)?)
    }

    /// Returns the answer to the query `asked`, if there is one before the client repeats the
    /// query.
    pub(super) fn answer(&self, asked: &Message) -> Option<&Message> {
        let key = (asked.id, pair(asked.source, asked.destination));
        let alike = self.by_id.get(&key)?;
        let alike = || alike.iter().filter_map(|&place| self.messages.get(place));
        let first = alike().filter(|it| it.answers(asked)).min_by_key(|it| it.time_ns)?;
        // An answer belongs to the last query before it.
        let later = alike().any(|it| {
            it.repeats(asked) && asked.time_ns < it.time_ns && it.time_ns <= first.time_ns
        });
        (!later).then_some(first)
    }

    /// Returns the length of the capture, ns.
    pub(super) fn length_ns(&self) -> u64 {
        self.sums.last_ns.saturating_sub(self.sums.first_ns.unwrap_or(self.sums.last_ns))
    }
}

/// Segments by the file that has them.
fn places(segments: &[Segment]) -> Vec<Vec<Segment>> {
    let mut files: BTreeMap<u32, Vec<Segment>> = BTreeMap::new();
    for segment in segments {
        files.entry(segment.frame.file()).or_default().push(*segment);
    }
    files.into_values().collect()
}

/// Returns whether one of `segments` offers SACK (RFC 2018 §2).
pub(super) fn offers_sack(segments: &[Segment]) -> bool {
    segments.iter().any(|it| it.facts.has(SegmentFlags::SACK_PERMITTED))
}
