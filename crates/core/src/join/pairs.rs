//! Matches both sightings of every packet, and counts those seen at one place only.
//!
//! Segments of both places come in time order, as far as their clocks are known.

use super::clock::{Minima, Transit};
use super::flow_direction::{FlowDirection, WAITING_MAX};
use crate::model::{Crossing, Place};
use crate::wire::{BySide, Endpoint, FlowKey, Segment, Side, TcpFlags};
use hashbrown::HashMap;

/// Maximum number of packets of all flows of a shard that are kept until the other place sees them;
/// beyond it, each direction may keep only [`FEW_WAITING`].
const SHARD_WAITING_MAX: usize = 16_384;
const FEW_WAITING: usize = 32;
/// A flow seen at both places.
#[derive(Default)]
struct Flow {
    client_is_high: bool,
    /// The connection is open at each place.
    open: [bool; 2],
    seen: [bool; 2],
    /// Time at which each side's first RST passed each place, ns.
    reset_ns: [[Option<u64>; 2]; 2],
    /// Both directions, indexed by sender.
    directions: BySide<FlowDirection>,
    /// The first place is nearer the client; `None` until that is known.
    is_first_nearer: Option<bool>,
}

/// RSTs of one side, as captured at the receiver's place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resets {
    /// Number of flows with one.
    pub flows: u64,
    /// Number of these flows in which the place next to the sender saw none.
    pub forged: u64,
    /// Time of the first forged RST, ns.
    forged_ns: Option<u64>,
}

impl Resets {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.flows += other.flows;
        self.forged += other.forged;
        self.forged_ns = self.forged_ns.into_iter().chain(other.forged_ns).min();
    }

    /// Returns whether none of the RSTs came from the purported sender, whose capture ends at
    /// `last_ns`.
    pub fn are_forged(&self, last_ns: u64) -> bool {
        self.forged == self.flows && self.forged_ns.is_some_and(|at_ns| at_ns <= last_ns)
    }
}

/// All flows of one shard, at two places.
pub struct Pairs {
    flows: HashMap<FlowKey, Box<Flow>>,
    /// Start of the captures of each place, ns.
    began_ns: [u64; 2],
    /// Time of the last segment of any flow at each place, ns.
    pub last_ns: [u64; 2],
    /// Number of packets that are kept until the other place sees them.
    waiting: usize,
    /// Minimum transit times.
    pub minima: Minima,
    /// Counts of packets by server and sender.
    pub crossings: HashMap<Endpoint, [Crossing; 2]>,
    /// RSTs by server and purported sender.
    pub resets: HashMap<(Endpoint, Side), Resets>,
}

impl Pairs {
    /// Creates the matching for captures that begin at `began_ns` at each place, by the clock of
    /// the first.
    pub fn new(began_ns: [u64; 2]) -> Self {
        Self {
            flows: HashMap::new(),
            began_ns,
            last_ns: [0; 2],
            waiting: 0,
            minima: Minima::default(),
            crossings: HashMap::new(),
            resets: HashMap::new(),
        }
    }

    /// Returns whether both places have seen this flow.
    pub fn is_shared(&self, flow: &FlowKey) -> bool {
        self.flows.get(flow).is_some_and(|flow| flow.seen == [true, true])
    }

    /// Processes a `segment` captured at `place`.
    pub fn sighting(&mut self, place: Place, segment: &Segment) {
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
        if segment.flags.has(TcpFlags::RST) {
            flow.reset_ns[side][place].get_or_insert(segment.time_ns);
        }
        let direction = &mut flow.directions[side];
        if direction.is_copy(place, segment) {
            return;
        }
        // A packet from before the start of the other capture is not missing there.
        let is_covered = segment.time_ns >= self.began_ns[1 - place];
        let is_crowded = self.waiting >= SHARD_WAITING_MAX;
        let waiting_max = if is_crowded { FEW_WAITING } else { WAITING_MAX };
        let before = direction.waiting_count();
        let twin_ns = direction.sighting(place, segment, is_covered, waiting_max);
        self.waiting = self.waiting + direction.waiting_count() - before;
        let Some(twin_ns) = twin_ns else { return };
        let (first_ns, second_ns) =
            if place == 0 { (segment.time_ns, twin_ns) } else { (twin_ns, segment.time_ns) };
        flow.pair(side, first_ns, second_ns.wrapping_sub(first_ns) as i64, &mut self.minima);
    }

    /// Ends the connection at `place`. Returns whether it has ended at both.
    pub fn end(&mut self, place: Place, key: &FlowKey) -> bool {
        let Some(flow) = self.flows.get_mut(key) else { return false };
        flow.open[place] = false;
        if flow.open.contains(&true) {
            return false;
        }
        if let Some(flow) = self.flows.remove(key) {
            self.close(key, *flow);
        }
        true
    }

    fn close(&mut self, key: &FlowKey, mut flow: Flow) {
        self.waiting -= flow.directions.iter().map(FlowDirection::waiting_count).sum::<usize>();
        let server = if flow.client_is_high { key.low } else { key.high };
        self.note_resets(server, &flow);
        if flow.seen != [true, true] {
            return;
        }
        for direction in &mut flow.directions {
            direction.close(self.last_ns);
        }
        let crossings = self.crossings.entry(server).or_default();
        for side in Side::ALL {
            let direction = &flow.directions[side];
            let of_client = side == Side::Client;
            let near = usize::from(of_client != flow.is_first_nearer.unwrap_or(true));
            crossings[side].merge(&Crossing {
                packets: direction.matched[near],
                appeared_packets: direction.only[1 - near].lost_packets,
                ..direction.only[near]
            });
        }
    }
}

impl Pairs {
    /// Records whether each side's RST was seen at its sender's place, if the capture there could
    /// have shown it.
    fn note_resets(&mut self, server: Endpoint, flow: &Flow) {
        for side in Side::ALL {
            let of_server = usize::from(side == Side::Server);
            let near = if flow.is_first_nearer.unwrap_or(true) { of_server } else { 1 - of_server };
            let reset_ns = flow.reset_ns[side];
            let Some(at_ns) = reset_ns[1 - near] else { continue };
            if at_ns < self.began_ns[near] {
                continue;
            }
            let forged_ns = Some(at_ns).filter(|_| reset_ns[near].is_none());
            let forged = u64::from(forged_ns.is_some());
            let resets = self.resets.entry((server, side)).or_default();
            resets.merge(&Resets { flows: 1, forged, forged_ns });
        }
    }
}

impl Flow {
    fn beginning(segment: &Segment) -> Self {
        Self { client_is_high: segment.is_client_high(), ..Self::default() }
    }

    /// Adds a packet of `side` that passed the first place at `first_ns`, and the second
    /// `difference_ns` later.
    fn pair(&mut self, side: Side, first_ns: u64, difference_ns: i64, minima: &mut Minima) {
        if let Some(is_first_nearer) = self.is_first_nearer {
            let there = (side == Side::Client) == is_first_nearer;
            let way = if there { Transit::ToSecond } else { Transit::ToFirst };
            return minima.sample(way, first_ns, difference_ns);
        }
        self.directions[side].first.get_or_insert((first_ns, difference_ns));
        let [client, server] = Side::ALL.map(|side| self.directions[side].first);
        if let (Some(client), Some(server)) = (client, server) {
            // On the way to the second place, path delay increases the difference.
            self.is_first_nearer = Some(client.1 >= server.1);
            self.pair(Side::Client, client.0, client.1, minima);
            self.pair(Side::Server, server.0, server.1, minima);
        }
    }
}
