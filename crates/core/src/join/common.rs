//! What two captures have in common.

use super::datagrams;
use crate::pipeline::Batch;
use crate::wire::{FlowKey, Segment, SegmentFlags, TcpFlags};
use hashbrown::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Packets that two files have in common before they are taken for two places.
pub const COMMON_MIN: usize = 2;

/// What captures count time in, coarsest first, ns.
const STEPS_NS: [u64; 2] = [1_000, 100];

/// A packet of the sample in one file.
#[derive(Clone, Copy)]
pub struct Seen {
    flow: FlowKey,
    time_ns: u64,
    from_client: bool,
}

/// The packets of a batch that can be known again, with their fingerprints.
pub fn seen(batch: &Batch) -> impl Iterator<Item = (u64, Seen)> {
    let segments = batch.segments().map(|segment| {
        let from_client = segment.from_high() == segment.is_client_high();
        let seen = Seen { flow: segment.flow, time_ns: segment.time_ns, from_client };
        (fingerprint(segment), seen)
    });
    let datagrams = batch.datagrams().map(|(carried, payload)| {
        let from_client = datagrams::is_from_client(&carried);
        let flow = FlowKey::new(*carried.source, *carried.destination).0;
        let seen = Seen { flow, time_ns: carried.time_ns, from_client };
        (datagrams::fingerprint(&carried, payload), seen)
    });
    segments.chain(datagrams)
}

/// What is kept of one file.
#[derive(Default)]
pub struct Sketch {
    /// Its place among the sources.
    pub index: usize,
    /// What it is called.
    pub name: String,
    /// Its first frame, ns.
    pub first_ns: u64,
    /// By fingerprint.
    pub seen: HashMap<u64, Seen>,
    /// In it more than once: copies, of which the first counts, and duplicate ACKs, of which times
    /// mean nothing.
    pub repeated: HashSet<u64>,
}

impl Sketch {
    /// Keeps what is in the smaller sample; answers how much.
    pub fn thin(&mut self, bits: u32) -> usize {
        self.seen.retain(|print, _| print.trailing_zeros() >= bits);
        self.repeated.retain(|print| print.trailing_zeros() >= bits);
        self.seen.len()
    }
}

/// How two files are related, seen from one of them.
#[derive(Clone, Copy)]
pub struct Link {
    /// Taken at different places; else they are two copies of one capture.
    pub is_apart: bool,
    /// Above zero where this file's place is nearer the clients.
    pub nearer: i64,
    /// By how much the other's clock is ahead, ns.
    pub later_ns: i64,
}

impl Link {
    /// The same, seen from the other.
    pub fn back(self) -> Self {
        Self { nearer: -self.nearer, later_ns: -self.later_ns, ..self }
    }
}

/// A packet's time in the first file, how much later it is in the second, and who sent it: the
/// client.
type Pair = (u64, i64, bool);

/// Packets of the sample that two files have in common.
#[derive(Default)]
pub struct Common {
    /// In order of time.
    pub packets: Vec<Pair>,
    flows: HashSet<FlowKey>,
    /// Packets that are alike but for the addresses.
    pub translated: usize,
}

impl Common {
    /// What `one` and `other` share.
    pub fn of(one: &Sketch, other: &Sketch) -> Self {
        let (mut common, mut repeated) = (Self::default(), Vec::new());
        for (print, here) in &one.seen {
            let Some(there) = other.seen.get(print) else { continue };
            if here.flow != there.flow {
                common.translated += 1;
            } else {
                let later_ns = there.time_ns.wrapping_sub(here.time_ns) as i64;
                let is_once = !one.repeated.contains(print) && !other.repeated.contains(print);
                let packets = if is_once { &mut common.packets } else { &mut repeated };
                packets.push((here.time_ns, later_ns, here.from_client));
                common.flows.insert(here.flow);
            }
        }
        // A router's capture on all interfaces has all it forwards twice.
        if repeated.len() > common.packets.len() {
            common.packets.append(&mut repeated);
        }
        common.packets.sort_unstable();
        common
    }

    /// What this says of the two files. Files of one place may share a few packets, as captures
    /// on two interfaces do; two places share most of what they both have of a connection.
    pub fn link(&self, one: &Sketch, other: &Sketch) -> Option<Link> {
        let times = |pick: fn(&Pair) -> u64| {
            let times = || self.packets.iter().map(pick);
            Some((times().min()?, times().max()?))
        };
        let (here, there) = (times(time_here)?, times(time_there)?);
        let shown = |sketch: &Sketch, (first_ns, last_ns): (u64, u64)| {
            let within = |seen: &&Seen| {
                (first_ns..=last_ns).contains(&seen.time_ns) && self.flows.contains(&seen.flow)
            };
            sketch.seen.values().filter(within).count()
        };
        let least = shown(one, here).min(shown(other, there));
        if self.packets.len() < COMMON_MIN || 2 * self.packets.len() < least {
            return None;
        }
        // Copies of one capture may differ by what the coarser of them leaves out of each time.
        let step_ns = self.step_ns(time_here).max(self.step_ns(time_there));
        let is_apart =
            self.packets.iter().any(|&(_, later_ns, _)| later_ns.unsigned_abs() >= step_ns);
        // What two packets of opposite directions differ by, one right after the other, is a
        // round trip between the places, whatever the clocks.
        let turns = self.packets.windows(2).filter_map(|pair| match *pair {
            [(_, there, true), (_, back, false)] | [(_, back, false), (_, there, true)] => {
                Some((there - back).signum())
            }
            _ => None,
        });
        let nearer = turns.sum();
        Some(Link { is_apart, nearer, later_ns: self.later_ns(nearer) })
    }

    /// In what steps the times of a file go, ns.
    fn step_ns(&self, pick: fn(&Pair) -> u64) -> u64 {
        let go = |&step_ns: &u64| self.packets.iter().all(|it| pick(it).is_multiple_of(step_ns));
        STEPS_NS.into_iter().find(go).unwrap_or(1)
    }

    /// The middle between the fastest packets of both directions.
    fn later_ns(&self, nearer: i64) -> i64 {
        let of = |from_client: bool| {
            let all = self.packets.iter().filter(move |it| it.2 == from_client).map(|it| it.1);
            if from_client == (nearer >= 0) { all.min() } else { all.max() }
        };
        match (of(true), of(false)) {
            (Some(one), Some(other)) => one.midpoint(other),
            (one, other) => one.or(other).unwrap_or(0),
        }
    }
}

fn time_here(pair: &Pair) -> u64 {
    pair.0
}

fn time_there(pair: &Pair) -> u64 {
    pair.0.wrapping_add_signed(pair.1)
}

/// What a packet has in common with itself at another place: all but what addresses, offload and
/// routers change.
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
