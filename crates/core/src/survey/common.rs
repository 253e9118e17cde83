//! The packets that two captures have in common.

use crate::join::datagrams;
use crate::judge::thresholds::LINUX_RTO_MIN_NS;
use crate::pipeline::Batch;
use crate::wire::{FlowKey, Segment, SegmentFlags, TcpFlags};
use hashbrown::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Minimum number of common packets of two files that were taken at two places.
pub const COMMON_MIN: usize = 2;

/// Time resolutions of captures, coarsest first, ns.
const STEPS_NS: [u64; 2] = [1_000, 100];

/// A sampled packet of one file.
#[derive(Clone, Copy)]
pub struct SampledPacket {
    flow: FlowKey,
    /// Capture time, ns.
    pub time_ns: u64,
    from_client: bool,
    has_data: bool,
    /// The acknowledgment number of a segment that neither opens nor resets a connection.
    ack: Option<u32>,
}

/// Returns the packets of a batch that can be recognised elsewhere, with their fingerprints.
pub fn seen(batch: &Batch) -> impl Iterator<Item = (u64, SampledPacket)> {
    let segments = batch.segments().map(|segment| {
        let from_client = segment.from_high() == segment.is_client_high();
        let is_control = segment.flags.0 & (TcpFlags::SYN | TcpFlags::RST) != 0;
        let ack = (!is_control && segment.flags.has(TcpFlags::ACK)).then_some(segment.ack);
        let (flow, time_ns, has_data) = (segment.flow, segment.time_ns, segment.payload_len > 0);
        (fingerprint(segment), SampledPacket { flow, time_ns, from_client, has_data, ack })
    });
    let datagrams = batch.datagrams().map(|(carried, payload)| {
        let from_client = datagrams::is_from_client(&carried);
        let flow = FlowKey::new(*carried.source, *carried.destination).0;
        let time_ns = carried.time_ns;
        let seen = SampledPacket { flow, time_ns, from_client, has_data: true, ack: None };
        (datagrams::fingerprint(&carried, payload), seen)
    });
    segments.chain(datagrams)
}

/// The data kept of one file.
#[derive(Default)]
pub struct Sketch {
    /// Index of the file among the sources.
    pub index: usize,
    /// Name of the file.
    pub name: String,
    /// Time of the first frame of the file, ns.
    pub first_ns: u64,
    /// Time of the latest packet examined, ns.
    pub last_ns: u64,
    /// Sampled packets by fingerprint.
    pub seen: HashMap<u64, SampledPacket>,
    /// Fingerprints that occur more than once: copies, of which the first counts, and duplicate
    /// ACKs, whose times are not comparable.
    pub repeated: HashSet<u64>,
}

impl Sketch {
    /// Reduces the sample; returns the number of packets that remain.
    pub fn thin(&mut self, bits: u32) -> usize {
        self.seen.retain(|print, _| print.trailing_zeros() >= bits);
        self.repeated.retain(|print| print.trailing_zeros() >= bits);
        self.seen.shrink_to_fit();
        self.repeated.shrink_to_fit();
        self.seen.len()
    }
}

/// The relation between two files, as seen from one of them.
#[derive(Clone, Copy)]
pub struct Link {
    /// The files were taken at different places; otherwise they are copies of one capture.
    pub is_apart: bool,
    /// Greater than zero if the place of this file is nearer the clients.
    pub nearer: i64,
    /// Time by which the clock of the other file is ahead, ns.
    pub later_ns: i64,
}

impl Link {
    /// Returns the relation as seen from the other file.
    pub fn back(self) -> Self {
        Self { nearer: -self.nearer, later_ns: -self.later_ns, ..self }
    }
}

/// A packet that is in both files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Time of the packet in the first file, ns.
    here_ns: u64,
    /// Time from then to the time of the packet in the second file, ns.
    later_ns: i64,
    from_client: bool,
    has_data: bool,
}

impl Pair {
    /// Returns the time of the packet in the second file, ns.
    fn there_ns(&self) -> u64 {
        self.here_ns.wrapping_add_signed(self.later_ns)
    }
}

/// Sampled packets that two files have in common.
#[derive(Default)]
pub struct Common {
    /// The common packets, in time order.
    pub packets: Vec<Pair>,
    flows: HashSet<FlowKey>,
    /// Number of packets that differ only in their addresses.
    pub translated: usize,
    /// The packets belong to connections that made progress in both files.
    is_progress: bool,
}

impl Common {
    /// Returns the common packets of `one` and `other`.
    ///
    /// A timer may repeat a SYN, its answer, an unanswered request or query, with the same bytes,
    /// so that two parts of one capture contain it. A connection whose sender shows two
    /// acknowledgment numbers in both files is different: acknowledgments never go back (RFC 9293
    /// §3.10.7.4), so data sent before the second number was not repeated after it. If such
    /// connections are shared, only these count.
    pub fn of(one: &Sketch, other: &Sketch) -> Self {
        let (mut common, mut shared) = (Self::default(), Vec::new());
        for (print, here) in &one.seen {
            let Some(there) = other.seen.get(print) else { continue };
            if here.flow == there.flow {
                shared.push((*print, *here, *there));
            } else {
                common.translated += 1;
            }
        }
        let progressed = progressed(shared.iter().map(|(_, here, _)| here));
        common.is_progress = !progressed.is_empty();
        let mut repeated = Vec::new();
        for (print, here, there) in shared {
            if common.is_progress && !progressed.contains(&here.flow) {
                continue;
            }
            let later_ns = there.time_ns.wrapping_sub(here.time_ns) as i64;
            let is_once = !one.repeated.contains(&print) && !other.repeated.contains(&print);
            let packets = if is_once { &mut common.packets } else { &mut repeated };
            packets.push(Pair {
                here_ns: here.time_ns,
                later_ns,
                from_client: here.from_client,
                has_data: here.has_data,
            });
            common.flows.insert(here.flow);
        }
        // A router's capture on all interfaces contains all forwarded packets twice.
        if repeated.len() > common.packets.len() {
            common.packets.append(&mut repeated);
        }
        common.packets.sort_unstable();
        common
    }

    /// Returns whether the common packets are the same packets at two places, and not others with
    /// the same bytes that were sent later. They are the same if they belong to connections that
    /// made progress, or if they follow sooner than any timer repeats and not all of them are in
    /// one file before they are in the other.
    fn are_the_same(&self) -> bool {
        let at_once = |it: &Pair| it.later_ns.unsigned_abs() < LINUX_RTO_MIN_NS;
        let span = |pick: fn(&Pair) -> u64| {
            let times = || self.packets.iter().map(pick);
            times().min().zip(times().max())
        };
        let overlap = match (span(|it| it.here_ns), span(Pair::there_ns)) {
            (Some(here), Some(there)) => here.0 <= there.1 && there.0 <= here.1,
            _ => false,
        };
        self.is_progress || overlap && self.packets.iter().all(at_once)
    }

    /// Returns the relation between the two files; `None` if they do not show two places. Files of
    /// one place may share a few packets, as captures on two interfaces do. Two places share most
    /// packets of a connection in the time in which both captured, by the clocks that the common
    /// packets show. Packets that may have been repeated later prove no second place, unless two
    /// places were requested (`is_requested`).
    pub fn link(&self, one: &Sketch, other: &Sketch, is_requested: bool) -> Option<Link> {
        if !is_requested && !self.are_the_same() {
            return None;
        }
        let follow = one.last_ns < other.first_ns || other.last_ns < one.first_ns;
        if follow && !is_requested && !self.is_one_time(one, other) {
            return None;
        }
        let [shown_here, shown_there] = self.expected(one, other, |_| true);
        if self.packets.len() < COMMON_MIN || 2 * self.packets.len() < shown_here.min(shown_there) {
            return None;
        }
        // Copies of one capture may differ by the resolution of the coarser one.
        let step_ns = self.step_ns(|it| it.here_ns).max(self.step_ns(Pair::there_ns));
        let is_apart = self.packets.iter().any(|it| it.later_ns.unsigned_abs() >= step_ns);
        // The difference between two consecutive packets of opposite directions is a round trip
        // between the places, whatever the clocks are.
        let turns = self.packets.windows(2).filter_map(|pair| match pair {
            [one, other] if one.from_client != other.from_client => {
                let sign = if one.from_client { 1 } else { -1 };
                Some(sign * (one.later_ns - other.later_ns).signum())
            }
            _ => None,
        });
        let nearer = turns.sum();
        Some(Link { is_apart, nearer, later_ns: self.later_ns(nearer) })
    }

    /// Returns whether two files, one of which begins after the other ends, cover the same time
    /// with different clocks: both contain, in both directions and in order, most of the packets
    /// that the smaller one has of these connections, and most of the ACKs without data that either
    /// one has. Otherwise they are parts of one capture with a few repeated packets. Segments with
    /// data may be cut differently at two places (segmentation offload), so those of the larger
    /// file are not compared.
    fn is_one_time(&self, one: &Sketch, other: &Sketch) -> bool {
        let of_flows = |sketch: &Sketch| {
            sketch.seen.values().filter(|seen| self.flows.contains(&seen.flow)).count()
        };
        // Reordering within a direction is rare.
        let in_order = |from_client: bool| {
            let times =
                self.packets.iter().filter(|it| it.from_client == from_client).map(Pair::there_ns);
            let times: Vec<_> = times.collect();
            let kept = times.windows(2).filter(|pair| pair[0] <= pair[1]).count();
            !times.is_empty() && 10 * kept >= 9 * (times.len() - 1)
        };
        let most = 2 * self.packets.len() >= of_flows(one).min(of_flows(other));
        let acks = self.packets.iter().filter(|it| !it.has_data).count();
        let shown_acks = self.expected(one, other, |seen| !seen.has_data);
        let most_acks = shown_acks.iter().all(|shown| 2 * acks >= *shown);
        most && most_acks && in_order(true) && in_order(false)
    }

    /// Returns for each file how many of its packets belong to these connections, were captured in
    /// the time in which both captured, and fulfil `counts`.
    fn expected(
        &self,
        one: &Sketch,
        other: &Sketch,
        counts: fn(&SampledPacket) -> bool,
    ) -> [usize; 2] {
        let mut later: Vec<i64> = self.packets.iter().map(|it| it.later_ns).collect();
        later.sort_unstable();
        let later_ns = later.get(later.len() / 2).copied().unwrap_or(0);
        let shown = |sketch: &Sketch, other: &Sketch, later_ns: i64| {
            let moved = |time_ns: u64| time_ns.saturating_add_signed(-later_ns);
            let time = moved(other.first_ns)..=moved(other.last_ns);
            let within = |seen: &&SampledPacket| {
                time.contains(&seen.time_ns) && self.flows.contains(&seen.flow) && counts(seen)
            };
            sketch.seen.values().filter(within).count()
        };
        [shown(one, other, later_ns), shown(other, one, -later_ns)]
    }

    /// Returns the time resolution of a file, ns.
    fn step_ns(&self, pick: fn(&Pair) -> u64) -> u64 {
        let go = |&step_ns: &u64| self.packets.iter().all(|it| pick(it).is_multiple_of(step_ns));
        STEPS_NS.into_iter().find(go).unwrap_or(1)
    }

    /// Returns the middle between the fastest packets of both directions.
    fn later_ns(&self, nearer: i64) -> i64 {
        let of = |from_client: bool| {
            let sent = self.packets.iter().filter(move |it| it.from_client == from_client);
            let all = sent.map(|it| it.later_ns);
            if from_client == (nearer >= 0) { all.min() } else { all.max() }
        };
        match (of(true), of(false)) {
            (Some(one), Some(other)) => one.midpoint(other),
            (one, other) => one.or(other).unwrap_or(0),
        }
    }
}

/// Returns the connections of which one sender shows two acknowledgment numbers.
fn progressed<'a>(packets: impl Iterator<Item = &'a SampledPacket>) -> HashSet<FlowKey> {
    let (mut first, mut progressed) = (HashMap::new(), HashSet::new());
    for packet in packets {
        let Some(ack) = packet.ack else { continue };
        if *first.entry((packet.flow, packet.from_client)).or_insert(ack) != ack {
            progressed.insert(packet.flow);
        }
    }
    progressed
}

/// Returns a hash of the fields that a packet keeps between two places: all except those changed by
/// translation, offload and routers.
fn fingerprint(segment: &Segment) -> u64 {
    let mut hasher = DefaultHasher::new();
    let has_data = segment.payload_len > 0;
    let control = TcpFlags::SYN | TcpFlags::RST | TcpFlags::ACK;
    let sack = segment.sack.map(|block| (block.left, block.right));
    let ip_id = if segment.facts.has(SegmentFlags::IPV4) { segment.ip_id } else { 0 };
    (segment.seq, segment.ack, segment.window, segment.flags.0 & control, has_data)
        .hash(&mut hasher);
    (segment.tsval, segment.tsecr, sack, ip_id).hash(&mut hasher);
    hasher.finish()
}
