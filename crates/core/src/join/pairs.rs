//! Both sightings of every packet: what one place saw and the other did not.
//!
//! Segments of both places come in the order of time, as far as their clocks are known. What one
//! place has seen waits for the other: of data it is bytes that are compared, because offload cuts
//! and joins segments differently at both ends.

use super::clock::{Minima, Way};
use crate::app::Side;
use crate::tcp::Copies;
use crate::wire::{Endpoint, FlowKey, Segment, SegmentFlags, TcpFlags};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// One of two places, as an index: the first is nearer the clients.
pub type Place = usize;

/// Packets of one direction that wait to be seen at the other place: what is under way at most, in
/// the widest of usual windows.
const WAITING_MAX: usize = 8192;
/// … of all flows of a shard together, before each may have no more than a few.
const SHARD_WAITING_MAX: usize = 16_384;
const FEW_WAITING: usize = 32;
/// A packet that so many later ones have passed, or one that came so many later, does not come any
/// more: reordering is not as deep.
const PASSED_MAX: u16 = 512;
/// One in so many is looked for further behind: after a hole in a capture.
const FAR_LOOK: u32 = 64;
/// Segments that one packet of offload is cut into at most have identifications this close.
const OFFLOAD_IDS: u16 = 64;

/// Packets of one direction between two places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossing {
    /// Seen on both sides, as the sender's place counts them.
    pub packets: u64,
    /// With data, or of the set-up: seen where they were sent from, and not where they went.
    pub lost_packets: u64,
    /// The bytes of these.
    pub lost_bytes: u64,
    /// Pure ACKs that went the same way.
    pub lost_acks: u64,
    /// Seen where they went, and not where they came from: the capture there has holes, or somebody
    /// between the two sent them.
    pub appeared_packets: u64,
}

impl Crossing {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.lost_packets += other.lost_packets;
        self.lost_bytes += other.lost_bytes;
        self.lost_acks += other.lost_acks;
        self.appeared_packets += other.appeared_packets;
    }
}

/// What was seen at one place and not yet at the other.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time_ns: u64,
    seq: u32,
    end: u32,
    ack: u32,
    tsval: u32,
    /// Bytes that the other place has not seen; 0 only of what has none.
    left: u32,
    ip_id: u16,
    window: u16,
    flags: u8,
    is_timed: bool,
    /// The other capture had begun when it passed.
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

    /// A pure ACK.
    fn is_plain(&self) -> bool {
        !self.has_data() && self.flags == 0
    }

    /// Bytes that were sent with both, in one packet or what offload made of it; none of packets
    /// that are not the same. Of those without data the answer is 0.
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
        if numbered && apart > OFFLOAD_IDS || !numbered && self.is_timed != other.is_timed {
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
struct Lane {
    waiting: [VecDeque<Waiting>; 2],
    copies: [Option<Box<Copies>>; 2],
    /// Packets that the other place has seen too, by the place that counts.
    matched: [u64; 2],
    /// Packets that did not make a pair at once.
    misses: u32,
    /// Packets, their bytes and pure ACKs that the other place has not seen.
    only: [Crossing; 2],
    /// Time and difference of the first pair, until it is known who is nearer the client.
    first: Option<(u64, i64)>,
}

impl Lane {
    fn is_copy(&mut self, place: Place, segment: &Segment) -> bool {
        match &mut self.copies[place] {
            Some(copies) => copies.is_copy(segment),
            empty => {
                *empty = Some(Copies::after(segment));
                false
            }
        }
    }

    fn waiting_count(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    /// Takes a sighting; answers the earliest that it makes a pair with, of those that begin with
    /// the same byte.
    fn see(
        &mut self,
        place: Place,
        segment: &Segment,
        is_covered: bool,
        waiting_max: usize,
    ) -> Option<u64> {
        let other = 1 - place;
        let (mut new, mut twin_ns) = (Waiting { is_covered, ..Waiting::of(segment) }, None);
        let (mut index, mut last) = (0, None);
        let is_far_look = self.misses.is_multiple_of(FAR_LOOK);
        let depth = if is_far_look { WAITING_MAX } else { PASSED_MAX.into() };
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
                self.miss(place, &oldest);
            }
            self.waiting[place].push_back(new);
        }
        twin_ns
    }

    /// What stands before `index` was passed by a later packet.
    fn pass(&mut self, place: Place, index: usize) {
        let queue = &mut self.waiting[place];
        for waiting in queue.drain(..index.saturating_sub(PASSED_MAX.into())) {
            Self::count(&mut self.only[place], &waiting);
        }
        let behind = queue.iter_mut().take(index.min(PASSED_MAX.into()));
        behind.for_each(|waiting| waiting.passed += 1);
        while let Some(oldest) = queue.front().filter(|oldest| oldest.passed >= PASSED_MAX) {
            let oldest = *oldest;
            queue.pop_front();
            Self::count(&mut self.only[place], &oldest);
        }
    }

    /// `waiting` was seen at `place` only.
    fn miss(&mut self, place: Place, waiting: &Waiting) {
        Self::count(&mut self.only[place], waiting);
    }

    fn count(only: &mut Crossing, waiting: &Waiting) {
        if !waiting.is_covered {
            return;
        }
        if waiting.is_plain() {
            only.lost_acks += 1;
        } else {
            only.lost_packets += 1;
            only.lost_bytes += u64::from(waiting.left);
        }
    }
}

/// A flow at both places.
#[derive(Default)]
struct Flow {
    client_is_high: bool,
    /// A connection is followed at that place.
    open: [bool; 2],
    seen: [bool; 2],
    /// Both directions, by who sends.
    lanes: [Lane; 2],
    /// Whether the first place is nearer the client, once that shows.
    is_first_nearer: Option<bool>,
}

/// All flows of one shard, at two places.
pub struct Pairs {
    flows: HashMap<FlowKey, Box<Flow>>,
    /// When the captures of each place begin, ns.
    began_ns: [u64; 2],
    /// The last segment of any flow at each place, ns.
    last_ns: [u64; 2],
    /// Packets that wait to be seen at the other place.
    waiting: usize,
    /// How fast packets came across.
    pub minima: Minima,
    /// Packets by server and by who sends.
    pub crossings: HashMap<Endpoint, [Crossing; 2]>,
    /// Flows that both places saw.
    pub shared_flows: u64,
}

impl Pairs {
    /// Begins; captures at the two places begin at `began_ns`, by the clock of the first.
    pub fn new(began_ns: [u64; 2]) -> Self {
        Self {
            flows: HashMap::new(),
            began_ns,
            last_ns: [0; 2],
            waiting: 0,
            minima: Minima::default(),
            crossings: HashMap::new(),
            shared_flows: 0,
        }
    }

    /// Whether both places have seen this flow.
    pub fn is_shared(&self, flow: &FlowKey) -> bool {
        self.flows.get(flow).is_some_and(|flow| flow.seen == [true, true])
    }

    /// `segment` was followed at `place`.
    pub fn see(&mut self, place: Place, segment: &Segment) {
        self.last_ns[place] = self.last_ns[place].max(segment.time_ns);
        let begins = segment.flags.has(TcpFlags::SYN) || segment.payload_len > 0;
        if begins && !self.flows.contains_key(&segment.flow) {
            self.flows.insert(segment.flow, Box::new(Flow::beginning(segment)));
        }
        let Some(flow) = self.flows.get_mut(&segment.flow) else { return };
        flow.open[place] |= begins;
        flow.seen[place] = true;
        let from_client = segment.from_high() == flow.client_is_high;
        let side = if from_client { Side::Client } else { Side::Server };
        let lane = &mut flow.lanes[side as usize];
        if lane.is_copy(place, segment) {
            return;
        }
        // What passed before the other capture began need not be missing from it.
        let is_covered = segment.time_ns >= self.began_ns[1 - place];
        let is_crowded = self.waiting >= SHARD_WAITING_MAX;
        let waiting_max = if is_crowded { FEW_WAITING } else { WAITING_MAX };
        let before = lane.waiting_count();
        let twin_ns = lane.see(place, segment, is_covered, waiting_max);
        self.waiting = self.waiting + lane.waiting_count() - before;
        let Some(twin_ns) = twin_ns else { return };
        let (first_ns, second_ns) =
            if place == 0 { (segment.time_ns, twin_ns) } else { (twin_ns, segment.time_ns) };
        flow.pair(side, first_ns, second_ns.wrapping_sub(first_ns) as i64, &mut self.minima);
    }

    /// The connection that was followed at `place` is over there.
    pub fn end(&mut self, place: Place, key: &FlowKey) {
        let Some(flow) = self.flows.get_mut(key) else { return };
        flow.open[place] = false;
        if flow.open.contains(&true) {
            return;
        }
        if let Some(flow) = self.flows.remove(key) {
            self.close(key, *flow);
        }
    }

    fn close(&mut self, key: &FlowKey, mut flow: Flow) {
        self.waiting -= flow.lanes.iter().map(Lane::waiting_count).sum::<usize>();
        if flow.seen != [true, true] {
            return;
        }
        self.shared_flows += 1;
        for lane in &mut flow.lanes {
            for place in 0..2 {
                // What was sent last may have come by after the other capture ended.
                let covered_ns = self.last_ns[1 - place];
                for waiting in std::mem::take(&mut lane.waiting[place]) {
                    if waiting.time_ns <= covered_ns {
                        lane.miss(place, &waiting);
                    }
                }
            }
        }
        let server = if flow.client_is_high { key.low } else { key.high };
        let crossings = self.crossings.entry(server).or_default();
        for side in Side::ALL {
            let lane = &flow.lanes[side as usize];
            let of_client = side == Side::Client;
            let near = usize::from(of_client != flow.is_first_nearer.unwrap_or(true));
            crossings[side as usize].merge(&Crossing {
                packets: lane.matched[near],
                appeared_packets: lane.only[1 - near].lost_packets,
                ..lane.only[near]
            });
        }
    }
}

impl Flow {
    fn beginning(segment: &Segment) -> Self {
        Self { client_is_high: segment.is_client_high(), ..Self::default() }
    }

    /// A packet of `side` passed the first place at `first_ns`, and the second that much later.
    fn pair(&mut self, side: Side, first_ns: u64, difference_ns: i64, minima: &mut Minima) {
        if let Some(is_first_nearer) = self.is_first_nearer {
            let there = (side == Side::Client) == is_first_nearer;
            let way = if there { Way::There } else { Way::Back };
            return minima.sample(way, first_ns, difference_ns);
        }
        self.lanes[side as usize].first.get_or_insert((first_ns, difference_ns));
        let [client, server] = Side::ALL.map(|side| self.lanes[side as usize].first);
        if let (Some(client), Some(server)) = (client, server) {
            // On the way to the second place, the path adds to the difference.
            self.is_first_nearer = Some(client.1 >= server.1);
            self.pair(Side::Client, client.0, client.1, minima);
            self.pair(Side::Server, server.0, server.1, minima);
        }
    }
}
