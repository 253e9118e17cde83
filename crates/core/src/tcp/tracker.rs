//! The table of connections of one shard.

mod closed;

use crate::capture::FrameId;
use crate::keys::Keyring;
use crate::model::Window;
use crate::tcp::connection::{Connection, End};
use crate::tcp::early::EarlyBytes;
use crate::tcp::shared::Shared;
use crate::tcp::sink::Sink;
use crate::wire::{FlowKey, IcmpError, Segment};
use closed::{Closed, ClosedMatch, Due, Kept, Over};
use hashbrown::HashTable;
use std::collections::VecDeque;

/// A connection without a completed handshake, or of which one side has sent a packet or two, is
/// dropped after this many others of the shard have begun, so that a flood does not fill memory.
const HALF_OPEN_MAX: u64 = 256;

/// Most handshakes are complete before this many other connections have begun.
const FRESH_MAX: usize = 16;

/// Follows the connections of one shard.
#[derive(Clone, Default)]
pub struct Tracker {
    table: HashTable<Box<Connection>>,
    closed: Closed,
    /// Number of connections that have begun.
    begun: u64,
    /// The latest of these connections, in order.
    fresh: VecDeque<Begun>,
    /// Earlier connections whose handshake was incomplete when they left `fresh`.
    half_open: VecDeque<Begun>,
    shared: Shared,
    /// Keep literal values in request labels.
    pub shows_values: bool,
    /// Number of connections that reused the addresses and ports of another.
    pub port_reuses: u64,
    /// Number of connection attempts that were dropped to keep memory bounded.
    pub evicted: u64,
    /// Number of connections excluded because they are copies of others with other addresses.
    pub copies: u64,
    /// Number of segments inside the time window of the report.
    pub segments: u64,
}

/// Identifies a connection that has begun: addresses and ports are reused, frames are not.
#[derive(Clone)]
struct Begun {
    /// Number of connections that had begun, including this one.
    number: u64,
    hash: u64,
    key: FlowKey,
    first_frame: FrameId,
}

/// Hash for the table. A connection keeps only the lower half of its hash, while the table needs
/// bits in the upper half.
fn table_hash(flow_hash: u64) -> u64 {
    u64::from(flow_hash as u32).wrapping_mul(0x1_0000_0001)
}

impl Tracker {
    /// Limits the report to what happens in `window`.
    pub fn limit_to(&mut self, window: Window) {
        self.shared.window = window;
    }

    /// Disables the fast path if `disabled`, for differential tests: the results are identical.
    pub fn disable_fast_path(&mut self, disabled: bool) {
        self.shared.disable_fast_path = disabled;
    }

    /// Opens TLS connections with `keys`, if there are any.
    pub fn open_tls_with(&mut self, keys: Option<Keyring>) {
        self.shared.open_tls_with(keys);
    }

    /// Sets the memory bound of out-of-order bytes to the share of one of `trackers` trackers.
    pub fn share_early_bytes(&mut self, trackers: usize) {
        self.shared.early = EarlyBytes::share_of(trackers);
    }

    /// Number of out-of-order bytes that were discarded to keep memory bounded.
    pub fn discarded_bytes(&self) -> u64 {
        self.shared.early.discarded_bytes
    }

    /// Returns the number of out-of-order bytes that were discarded, and resets it.
    pub fn take_discarded_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.shared.early.discarded_bytes)
    }

    /// Processes the next segment in time order, with its captured payload.
    pub fn segment(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink) {
        self.segments += u64::from(self.shared.window.contains(segment.time_ns));
        let hash = table_hash(segment.flow_hash);
        let found = self.table.find_mut(hash, |connection| connection.key == segment.flow);
        let Some(connection) = found else { return self.process_unknown(segment, payload, sink) };
        if connection.take_fast_path(segment, payload, &mut self.shared, sink) {
            return;
        }
        match closed::kept(connection, segment.time_ns, Some(segment)) {
            Kept::Whole => {}
            // Whether other connections have begun since, so that it was freed, must not matter.
            Kept::Numbers => {
                self.settle(hash, &segment.flow, segment.time_ns, sink);
                return self.process_unknown(segment, payload, sink);
            }
            Kept::Nothing => {
                self.remove(hash, &segment.flow, sink);
                return self.process_unknown(segment, payload, sink);
            }
        }
        let is_another =
            connection.cold.over_ns().is_some() && connection.view().ended_before(segment);
        if !is_another && !connection.view().reused_by(segment) {
            let before = connection.view().end();
            connection.segment(segment, payload, &mut self.shared, sink);
            return self.closed.follow(connection, hash, before, segment.time_ns);
        }
        self.port_reuses += 1;
        self.remove(hash, &segment.flow, sink);
        if segment.may_begin() && !segment.only_ends() {
            self.begin(segment, payload, sink);
        }
    }

    /// Keeps only the addresses and sequence numbers of a cleanly closed connection.
    fn settle(&mut self, hash: u64, key: &FlowKey, now_ns: u64, sink: &mut impl Sink) {
        let found = self.table.find(hash, |connection| connection.key == *key);
        let Some((connection, over_ns)) = found.and_then(|it| Some((it, it.cold.over_ns()?)))
        else {
            return;
        };
        let (over, numbers) = (Over::of(connection, hash, over_ns), connection.view().numbers());
        self.remove(hash, key, sink);
        self.closed.remember(&over, numbers, now_ns);
    }

    /// Processes a segment that belongs to no connection in the table.
    fn process_unknown(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink) {
        let hash = table_hash(segment.flow_hash);
        if !segment.may_begin() {
            return;
        }
        match self.closed.classify(hash, segment) {
            ClosedMatch::Late => return,
            ClosedMatch::Reuse => self.port_reuses += 1,
            ClosedMatch::None => {}
        }
        self.begin(segment, payload, sink);
    }

    /// Processes an ICMP error about a packet of a connection.
    pub fn icmp_error(&mut self, error: &IcmpError) {
        let hash = table_hash(error.flow_hash);
        let found = self.table.find_mut(hash, |connection| connection.key == error.flow);
        let Some(connection) = found.filter(|connection| !connection.cold.is_over()) else {
            return;
        };
        connection.icmp_error(error, &mut self.shared);
        self.closed.follow(connection, hash, End::Open, error.time_ns);
    }

    /// Excludes a connection from the report, as a copy of another with other addresses; it is
    /// still tracked.
    pub fn exclude(&mut self, flow: &FlowKey, flow_hash: u64) {
        let found =
            self.table.find_mut(table_hash(flow_hash), |connection| connection.key == *flow);
        self.copies += u64::from(found.is_some_and(|connection| connection.cold.exclude()));
    }

    /// Begins a connection with `segment`, which may begin one.
    fn begin(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink) {
        let hash = table_hash(segment.flow_hash);
        self.expire(segment.time_ns, sink);
        let mut connection = Box::new(Connection::new(segment));
        if self.shows_values {
            connection.framer.show_values();
        }
        connection.segment(segment, payload, &mut self.shared, sink);
        self.closed.follow(&mut connection, hash, End::Open, segment.time_ns);
        self.table.insert_unique(hash, connection, |connection| table_hash(connection.hash.into()));
        self.begun += 1;
        let (number, key, first_frame) = (self.begun, segment.flow, segment.frame);
        self.fresh.push_back(Begun { number, hash, key, first_frame });
        self.bound_half_open(sink);
    }

    /// Drops connections that have been over for long enough.
    fn expire(&mut self, now_ns: u64, sink: &mut impl Sink) {
        while let Some(due) = self.closed.next_due(now_ns) {
            let (Due::Settled(over) | Due::Forgotten(over)) = due;
            let found = self.table.find(over.hash, |it| over.is(it));
            // A connection that has made progress towards its end has a later entry, and one that
            // a SYN has opened again has none.
            let is_this_end = |ns: u64| ns <= over.over_ns;
            let found = found.filter(|it| it.cold.over_ns().is_some_and(is_this_end));
            let Some(connection) = found else { continue };
            let is_clean = connection.view().is_clean();
            let may_be_repeated =
                connection.view().is_unacknowledged() || connection.view().may_repeat_syn();
            let is_waiting =
                may_be_repeated && matches!(closed::kept(connection, now_ns, None), Kept::Whole);
            match due {
                Due::Forgotten(_) if is_waiting && self.closed.has_room() => {
                    self.closed.keep(Over { over_ns: now_ns, ..over });
                }
                _ if is_clean => self.settle(over.hash, &over.key, now_ns, sink),
                Due::Settled(_) => self.closed.keep(over),
                Due::Forgotten(_) => self.remove(over.hash, &over.key, sink),
            }
        }
    }

    /// Returns the connection of `begun`, if it is still in the table.
    fn find(&self, begun: &Begun) -> Option<&Connection> {
        let found = self
            .table
            .find(begun.hash, |it| it.key == begun.key && it.first_frame == begun.first_frame);
        found.map(|connection| &**connection)
    }

    fn bound_half_open(&mut self, sink: &mut impl Sink) {
        while self.fresh.len() > FRESH_MAX {
            let Some(begun) = self.fresh.pop_front() else { return };
            if self.find(&begun).is_some_and(|connection| !connection.setup.is_established()) {
                self.half_open.push_back(begun);
            }
        }
        let begun_now = self.begun;
        let is_old = |begun: &&Begun| begun_now - begun.number >= HALF_OPEN_MAX;
        while self.half_open.front().filter(is_old).is_some() {
            let Some(begun) = self.half_open.pop_front() else { return };
            let found = self.find(&begun).filter(|connection| connection.view().is_attempt());
            let Some(connection) = found else { continue };
            // A refused connection is over and only kept for late segments.
            self.evicted += u64::from(!connection.setup.refused);
            self.remove(begun.hash, &begun.key, sink);
        }
    }

    fn remove(&mut self, hash: u64, key: &FlowKey, sink: &mut impl Sink) {
        if let Ok(entry) = self.table.find_entry(hash, |connection| connection.key == *key) {
            let (mut connection, _) = entry.remove();
            connection.finish(&mut self.shared, sink);
        }
    }

    /// Ends the capture: ends all connections in the order in which they began.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let mut rest: Vec<_> = self.table.drain().collect();
        rest.sort_by_key(|connection| (connection.first_ns, connection.first_frame));
        for mut connection in rest {
            connection.finish(&mut self.shared, sink);
        }
    }

    /// Passes to `sink` what [`finish`](Self::finish) would if the capture ended here, and leaves
    /// the tracker unchanged. Connections without a segment since `since_ns` and without an
    /// exchange under way are left out.
    pub fn finish_copy(&self, since_ns: u64, sink: &mut impl Sink) {
        let mut copy = Self {
            shared: self.shared.clone(),
            shows_values: self.shows_values,
            ..Self::default()
        };
        for connection in &self.table {
            if connection.last.time_ns < since_ns && !connection.view().has_exchange_under_way() {
                continue;
            }
            let hash = table_hash(connection.hash.into());
            copy.table.insert_unique(hash, connection.clone(), |it| table_hash(it.hash.into()));
        }
        copy.finish(sink);
    }

    /// Ends the connections that are over at `now_ns` and those without a segment for `idle_ns`,
    /// in the order in which they began.
    pub fn end_idle(&mut self, now_ns: u64, idle_ns: u64, sink: &mut impl Sink) {
        self.expire(now_ns, sink);
        let before_ns = now_ns.saturating_sub(idle_ns);
        let is_idle = |it: &mut Box<Connection>| it.last.time_ns < before_ns;
        let mut idle: Vec<_> = self.table.extract_if(is_idle).collect();
        idle.sort_by_key(|connection| (connection.first_ns, connection.first_frame));
        for mut connection in idle {
            connection.finish(&mut self.shared, sink);
        }
    }

    /// Ends all connections that are not `kept`, as the end of the capture would, in the order in
    /// which they began.
    pub fn end_unless(&mut self, kept: impl Fn(&FlowKey) -> bool, sink: &mut impl Sink) {
        let mut left: Vec<_> = self.table.extract_if(|it| !kept(&it.key)).collect();
        left.sort_by_key(|connection| (connection.first_ns, connection.first_frame));
        for mut connection in left {
            connection.finish(&mut self.shared, sink);
        }
    }

    /// Returns the memory that connections take, bytes.
    pub fn memory_bytes(&self) -> usize {
        let connections = self.table.iter().map(|connection| connection.view().memory_bytes());
        self.table.allocation_size() + connections.sum::<usize>() + self.shared.early.heap_bytes()
    }

    /// Returns the number of connections tracked at present.
    pub fn open_connections(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests;
