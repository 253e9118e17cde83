//! The connections of a capture with their ordered streams, and the plans of the replacements.

use super::Names;
use super::masker::{Masker, Range};
use super::plan::Plan;
use crate::wire::{FlowKey, Segment, Side, TcpFlags};
use std::collections::{BTreeMap, HashMap};

/// Position of the first byte seen; earlier bytes may follow.
const ORIGIN: u64 = 1 << 32;
/// Maximum number of out-of-order bytes kept per connection.
const EARLY_BYTES_MAX: usize = 1 << 20;

/// The streams of all connections.
#[derive(Default)]
pub(super) struct Streams {
    flows: HashMap<FlowKey, Flow>,
}

/// Successive connections between two ends.
#[derive(Default)]
struct Flow {
    connections: Vec<Connection>,
    current: usize,
}

struct Connection {
    /// Sequence number of the SYN that opened it.
    iss: Option<u32>,
    client_is_high: bool,
    masker: Option<Box<Masker>>,
    /// Directions of the low end and of the high end, in this order.
    directions: [StreamDirection; 2],
}

#[derive(Default)]
struct StreamDirection {
    /// Sequence number and position of the first byte seen.
    first: Option<(u32, u64)>,
    last: (u32, u64),
    /// Position of the next byte for the masker.
    next: u64,
    /// Out-of-order bytes by position, each with the number of following bytes that were not
    /// captured.
    early: BTreeMap<u64, (Vec<u8>, u32)>,
    early_bytes: usize,
    plan: Plan,
}

impl Streams {
    /// Processes the data of a segment in the first pass.
    pub fn learn(&mut self, segment: &Segment, payload: &[u8], names: &Names) {
        self.connection(segment).learn(segment, payload, names);
    }

    /// Ends the first pass: the same segments follow again. Returns the number of HTTP/2 header
    /// blocks that were replaced by filler.
    pub fn rewind(&mut self) -> u64 {
        let mut filled = 0;
        for flow in self.flows.values_mut() {
            flow.current = 0;
            for connection in &mut flow.connections {
                filled += connection.masker.take().map_or(0, |it| it.filled_headers);
                for direction in &mut connection.directions {
                    direction.early.clear();
                    direction.last = direction.first.unwrap_or_default();
                }
            }
        }
        filled
    }

    /// Overwrites the payload of a segment with its replacement.
    pub fn write(&mut self, segment: &Segment, payload: &mut [u8]) {
        let direction = &mut self.connection(segment).directions[usize::from(segment.from_high())];
        let position = direction.position(data_seq(segment));
        direction.plan.write(position, payload);
    }

    /// Returns the connection of a segment. A SYN with another sequence number opens another
    /// connection.
    fn connection(&mut self, segment: &Segment) -> &mut Connection {
        let flow = self.flows.entry(segment.flow).or_default();
        let opens = segment.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::ACK);
        let known = match opens {
            true => flow.connections.iter().position(|it| it.iss == Some(segment.seq)),
            false => Some(flow.current).filter(|&it| it < flow.connections.len()),
        };
        flow.current = known.unwrap_or_else(|| {
            flow.connections.push(Connection::new(segment, opens));
            flow.connections.len() - 1
        });
        &mut flow.connections[flow.current]
    }
}

/// Returns the sequence number of the first byte of data.
fn data_seq(segment: &Segment) -> u32 {
    segment.seq.wrapping_add(u32::from(segment.flags.has(TcpFlags::SYN)))
}

impl Connection {
    fn new(segment: &Segment, opens: bool) -> Self {
        let client_is_high = segment.is_client_high();
        let (low, high) = (segment.flow.low.port, segment.flow.high.port);
        let ports = if client_is_high { [low, high] } else { [high, low] };
        let mid_stream = !segment.flags.has(TcpFlags::SYN);
        Self {
            iss: opens.then_some(segment.seq),
            client_is_high,
            masker: Some(Box::new(Masker::new(ports, mid_stream))),
            directions: Default::default(),
        }
    }

    fn side(&self, from_high: bool) -> Side {
        if from_high == self.client_is_high { Side::Client } else { Side::Server }
    }

    fn learn(&mut self, segment: &Segment, payload: &[u8], names: &Names) {
        let from_high = segment.from_high();
        let (this, peer) = (usize::from(from_high), usize::from(!from_high));
        let position = self.directions[this].position(data_seq(segment));
        if segment.flags.has(TcpFlags::ACK) && self.directions[peer].first.is_some() {
            let acked = self.directions[peer].position_of(segment.ack);
            self.skip_to(peer, acked, names);
        }
        if segment.payload_len == 0 || segment.flags.has(TcpFlags::RST) {
            return;
        }
        let side = self.side(from_high);
        if self.masker.as_mut().is_some_and(|it| it.swaps_roles(side, payload)) {
            self.client_is_high = !self.client_is_high;
        }
        let missing = segment.payload_len.saturating_sub(payload.len() as u32);
        if position > self.directions[this].next {
            self.directions[this].keep(position, payload, missing);
            if self.directions[this].early_bytes > EARLY_BYTES_MAX {
                let first = self.directions[this].early.keys().next().copied();
                self.skip_to(this, first.unwrap_or_default(), names);
            }
            return;
        }
        self.pass_on(this, position, payload, missing, names);
        self.pass_on_early(this, names);
    }

    /// Gives up the missing bytes before `position`.
    fn skip_to(&mut self, end: usize, position: u64, names: &Names) {
        loop {
            let direction = &self.directions[end];
            let reach =
                direction.early.keys().next().map_or(position, |&early| early.min(position));
            if reach <= direction.next {
                return;
            }
            let (next, missing) = (direction.next, (reach - direction.next) as u32);
            self.pass_on(end, next, &[], missing, names);
            self.pass_on_early(end, names);
        }
    }

    fn pass_on_early(&mut self, end: usize, names: &Names) {
        loop {
            let direction = &mut self.directions[end];
            let Some(entry) =
                direction.early.first_entry().filter(|it| *it.key() <= direction.next)
            else {
                return;
            };
            let (position, (bytes, missing)) = entry.remove_entry();
            direction.early_bytes -= bytes.len();
            self.pass_on(end, position, &bytes, missing, names);
        }
    }

    /// Passes the new part of these bytes to the masker.
    fn pass_on(&mut self, end: usize, position: u64, bytes: &[u8], missing: u32, names: &Names) {
        let side = self.side(end == 1);
        let direction = &mut self.directions[end];
        let known = direction.next.saturating_sub(position);
        let all = bytes.len() as u64 + u64::from(missing);
        let Some(masker) = self.masker.as_mut().filter(|_| known < all) else { return };
        let bytes = bytes.get(known as usize..).unwrap_or_default();
        let missing = missing.min((all - known) as u32);
        let range = Range { side, position: direction.next, bytes, missing };
        masker.take(&range, names, &mut direction.plan);
        direction.next = position + all;
    }
}

impl StreamDirection {
    /// Returns the position of a sequence number, and records it if it is the greatest so far.
    fn position(&mut self, seq: u32) -> u64 {
        if self.first.is_none() {
            (self.first, self.last, self.next) = (Some((seq, ORIGIN)), (seq, ORIGIN), ORIGIN);
        }
        let position = self.position_of(seq);
        if position > self.last.1 {
            self.last = (seq, position);
        }
        position
    }

    fn position_of(&self, seq: u32) -> u64 {
        let (last_seq, last) = self.last;
        last.saturating_add_signed(i64::from(seq.wrapping_sub(last_seq) as i32))
    }

    fn keep(&mut self, position: u64, bytes: &[u8], missing: u32) {
        let is_longer = self.early.get(&position).is_none_or(|(kept, _)| kept.len() < bytes.len());
        if is_longer {
            let before = self.early.insert(position, (bytes.to_vec(), missing));
            self.early_bytes += bytes.len() - before.map_or(0, |(kept, _)| kept.len());
        }
    }
}
