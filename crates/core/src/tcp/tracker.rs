//! The table of connections of one shard.

mod closed;
mod visits;

use crate::app::Label;
use crate::capture::FrameId;
use crate::filter::Window;
use crate::tcp::connection::Connection;
use crate::tcp::early::EarlyBytes;
use crate::tcp::exchange::Exchange;
use crate::tcp::row::Row;
use crate::tcp::sequence::Numbers;
use crate::tcp::shared::Shared;
use crate::tcp::visit::{Visit, Visited};
use crate::wire::{FlowKey, IcmpError, Segment, TcpFlags};
use closed::{Closed, Due, Meeting, Over};
use hashbrown::HashTable;
use std::collections::VecDeque;
use visits::{Step, Visits};

/// An exchange on a connection with which nothing was ever wrong, whose client waited for nothing but the
/// path and its server's work, and for that once at most.
pub struct SimpleExchange<'a> {
    /// What was asked.
    pub kind: &'a Label,
    /// When its request passed, ns, and the frame.
    pub asked: (u64, FrameId),
    /// The same of its answer.
    pub answered: (u64, FrameId),
    /// When that was acknowledged, ns.
    pub arrived_ns: u64,
    /// The path's part of its time, ns.
    pub path_ns: u64,
    /// Its server's, ns.
    pub server_ns: u64,
    /// The row that it is the last of.
    pub row: Row,
}

impl SimpleExchange<'_> {
    /// Its wall time, ns.
    #[inline]
    pub fn wall_ns(&self) -> u64 {
        self.path_ns + self.server_ns
    }
}

/// What becomes of what the tracker finds.
pub trait Sink {
    /// Whether it can count [visits](Visited) as such.
    const COUNTS_VISITS: bool = false;
    /// A visit is over, and so is its exchange. Answers whether that is all that needs to be known; else
    /// both are told.
    fn visit(&mut self, _visited: &Visited<'_>) -> bool {
        false
    }
    /// An exchange is over, and there were others like it. Answers whether that is all that needs to be
    /// known; else it is told in full, as an [`exchange`](Self::exchange).
    fn simple_exchange(
        &mut self,
        _connection: &Connection,
        _exchange: &SimpleExchange<'_>,
    ) -> bool {
        false
    }
    /// An exchange on `connection` is over.
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange);
    /// A connection is over, or the capture is.
    fn connection(&mut self, connection: &Connection);
    /// A connection is over of which no part lies in the time told of.
    fn untold(&mut self, _connection: &Connection) {}
}

/// A connection without a completed handshake is kept until so many others have begun: a flood must not
/// fill memory.
const HALF_OPEN_MAX: u64 = 2048;

/// Mostly the handshake is completed before so many others have begun.
const FRESH_MAX: usize = 16;

/// So many visits in a row that were none, and few more are expected.
const VAIN_MAX: u32 = 64;

/// Every so many connections are tried then: it may be different by now.
const TRIED_ANYHOW: u64 = 16;

/// Connections that are over of which the room is kept.
const SPARE_MAX: usize = 32;

/// Follows the connections of one shard.
#[derive(Clone, Default)]
pub struct Tracker {
    table: HashTable<Box<Connection>>,
    /// Those of which every segment was expected so far.
    visits: Visits,
    /// The last visits that were none: those of a flood, and of clients that stay.
    vain: u32,
    closed: Closed,
    /// Connections that began with the SYN, how many.
    begun: u64,
    /// The last of them.
    fresh: VecDeque<Begun>,
    /// Of those before, the ones whose handshake was not completed then.
    half_open: VecDeque<Begun>,
    shared: Shared,
    /// Room of connections that are over.
    #[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")]
    spare: Vec<Box<Connection>>,
    /// Kinds of requests show the values in them.
    pub shows_values: bool,
    /// Connections that reused the addresses and ports of another.
    pub port_reuses: u64,
    /// Connection attempts given up to keep memory bounded.
    pub evicted: u64,
    /// Connections left out because they are copies of others.
    pub copies: u64,
    /// Segments in the time told of.
    pub segments: u64,
}

/// A connection that began with the SYN: addresses and ports are used again, frames are not.
#[derive(Clone)]
struct Begun {
    /// How many had begun with it.
    number: u64,
    hash: u64,
    key: FlowKey,
    first_frame: FrameId,
}

/// Connections of one shard from which on they do not stay in a core's cache between segments.
const CACHED_MAX: usize = 64;

/// Where the table looks for what has this hash: of the hash a connection keeps the lower half only,
/// and the table needs bits in the upper one.
fn place(flow_hash: u64) -> u64 {
    u64::from(flow_hash as u32).wrapping_mul(0x1_0000_0001)
}

impl Tracker {
    /// Only what happens in `window` is told of.
    pub fn tell_of(&mut self, window: Window) {
        self.shared.window = window;
    }

    /// Whether no segment goes the short way of what was expected.
    pub fn go_long_way(&mut self, always: bool) {
        self.shared.disable_fast_path = always;
    }

    /// It is one of so many trackers that keep payload at the same time.
    pub fn is_one_of(&mut self, trackers: usize) {
        self.shared.early = EarlyBytes::of_users(trackers);
    }

    /// Bytes that came before their turn and were given up to keep memory bounded.
    pub fn given_up_bytes(&self) -> u64 {
        self.shared.early.given_up_bytes
    }

    /// The same, counted from zero again.
    pub fn take_given_up_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.shared.early.given_up_bytes)
    }

    /// Looks at the connections that `segments` are about to change, without waiting for one before
    /// asking for the next: with many open, each has to come from memory, in many pieces.
    pub fn glance<'a>(&self, segments: impl Iterator<Item = &'a Segment>) {
        if self.table.len() <= CACHED_MAX {
            return;
        }
        // Those that are closed are kept for a while, and looked at again by who takes their ports,
        // and when they are let go.
        let many = self.table.len().saturating_sub(self.closed.whole()) > CACHED_MAX;
        let begins =
            |segment: &Segment| segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN;
        let look = |hash: u64, key: &FlowKey| {
            let found = self.table.find(hash, |connection| connection.key == *key);
            found.map_or(0, |connection| connection.glance())
        };
        let (mut seen, mut until_ns) = (0, 0);
        for segment in segments {
            let begins = begins(segment);
            if begins {
                until_ns = segment.time_ns;
            }
            if many || begins {
                seen ^= look(place(segment.flow_hash), &segment.flow);
            }
        }
        let over = self.closed.due(until_ns);
        seen = over.fold(seen, |seen, over| seen ^ look(over.hash, &over.key));
        std::hint::black_box(seen);
    }

    /// Takes the next segment in time order, with its captured payload.
    pub fn segment(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink) {
        self.segments += u64::from(self.shared.window.contains(segment.time_ns));
        self.take(segment, payload, sink);
    }

    #[inline]
    fn take(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink) {
        let hash = place(segment.flow_hash);
        let found = self.table.find_mut(hash, |connection| connection.key == segment.flow);
        let Some(connection) = found else { return self.take_other(segment, payload, sink) };
        if connection.goes_on_steadily(segment, payload, &mut self.shared, sink) {
            return;
        }
        let forgotten = closed::is_past(connection, segment.time_ns);
        let is_another = connection.over_ns().is_some() && connection.is_before(segment);
        if !forgotten && !is_another && !connection.reused_by(segment) {
            let was_over = connection.is_over();
            connection.segment(segment, payload, &mut self.shared, sink);
            if !was_over && connection.is_over() {
                connection.set_over(segment.time_ns);
                self.closed.add(Over::of(connection, hash, segment.time_ns));
            }
            return;
        }
        self.port_reuses += u64::from(!forgotten);
        self.remove(hash, &segment.flow, sink);
        if segment.may_begin() && !segment.only_ends() {
            self.begin(segment, payload, sink);
        }
    }

    /// Takes one that is of no connection that is followed.
    fn take_other(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink) {
        let hash = place(segment.flow_hash);
        match self.visits.goes_on(segment, payload, &mut self.shared) {
            Step::Expected => return,
            Step::Over(over) => return self.closed.add(over),
            Step::Odd => {
                self.replay(&segment.flow, segment.flow_hash, sink);
                return self.take(segment, payload, sink);
            }
            Step::None => {}
        }
        if !segment.may_begin() {
            return;
        }
        match self.closed.meet(hash, segment) {
            Meeting::Late => return,
            Meeting::Reuse => self.port_reuses += 1,
            Meeting::None => {}
        }
        self.begin(segment, payload, sink);
    }

    /// The connection of `flow` is followed from now on, if it was a visit.
    fn replay(&mut self, flow: &FlowKey, flow_hash: u64, sink: &mut impl Sink) {
        if let Some(visit) = self.visits.take_of(place(flow_hash), flow) {
            self.follow(visit, sink);
        }
    }

    /// What was a visit is followed.
    fn follow(&mut self, visit: Box<Visit>, sink: &mut impl Sink) {
        let (hash, connection) = (place(visit.flow_hash), self.followed(visit, sink));
        self.table.insert_unique(hash, connection, |connection| place(connection.hash.into()));
    }

    /// What was a visit, as a connection.
    fn followed(&mut self, visit: Box<Visit>, sink: &mut impl Sink) -> Box<Connection> {
        self.vain = self.vain.saturating_add(1);
        let mut connection = self.place(Connection::new(&visit.syn()));
        if self.shows_values {
            connection.show_values();
        }
        visit.replay(&mut connection, &mut self.shared, sink);
        self.visits.keep_room(visit);
        connection
    }

    /// A visit is over.
    fn end(&mut self, visit: Box<Visit>, sink: &mut impl Sink) {
        if visit.visited().is_some_and(|visited| sink.visit(&visited)) {
            self.vain = 0;
            return self.visits.keep_room(visit);
        }
        let connection = self.followed(visit, sink);
        self.let_go(connection, sink);
    }

    /// Takes an ICMP error about a packet of one of the connections.
    pub fn icmp_error(&mut self, error: &IcmpError, sink: &mut impl Sink) {
        self.replay(&error.flow, error.flow_hash, sink);
        let hash = place(error.flow_hash);
        let found = self.table.find_mut(hash, |connection| connection.key == error.flow);
        let Some(connection) = found.filter(|connection| !connection.is_over()) else { return };
        connection.icmp_error(error, &mut self.shared);
        if connection.is_over() {
            connection.set_over(error.time_ns);
            self.closed.add(Over::of(connection, hash, error.time_ns));
        }
    }

    /// This connection is a copy of another with other addresses: it is followed on, and nothing more
    /// is told of it.
    pub fn leave_out(&mut self, flow: &FlowKey, flow_hash: u64, sink: &mut impl Sink) {
        self.replay(flow, flow_hash, sink);
        let found = self.table.find_mut(place(flow_hash), |connection| connection.key == *flow);
        self.copies += u64::from(found.is_some_and(|connection| connection.leave_out()));
    }

    /// Begins a connection, or a visit, with `segment`, which may.
    fn begin(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink) {
        let hash = place(segment.flow_hash);
        let syn = segment.flags.has(TcpFlags::SYN);
        self.expire(segment.time_ns, sink);
        if self.may_be_visit(segment, sink) {
            if let Some(old) = self.visits.begin(hash, segment, self.shows_values) {
                self.follow(old, sink);
            }
        } else {
            let mut connection = self.place(Connection::new(segment));
            if self.shows_values {
                connection.show_values();
            }
            connection.segment(segment, payload, &mut self.shared, sink);
            if connection.is_over() {
                connection.set_over(segment.time_ns);
                self.closed.add(Over::of(&connection, hash, segment.time_ns));
            }
            self.table.insert_unique(hash, connection, |connection| place(connection.hash.into()));
        }
        if syn {
            self.begun += 1;
            let (number, key, first_frame) = (self.begun, segment.flow, segment.frame);
            self.fresh.push_back(Begun { number, hash, key, first_frame });
        }
        self.bound_half_open(sink);
    }

    /// Whether a visit may begin with `segment`, and one that is over counted.
    fn may_be_visit<S: Sink>(&self, segment: &Segment, _: &S) -> bool {
        S::COUNTS_VISITS
            && !self.shared.disable_fast_path
            && self.shared.window.is_all()
            && (self.vain < VAIN_MAX || self.begun.is_multiple_of(TRIED_ANYHOW))
            && Visit::begins_with(segment)
    }

    /// Lets go of connections that were over long ago.
    fn expire(&mut self, now_ns: u64, sink: &mut impl Sink) {
        while let Some(due) = self.closed.next_due(now_ns) {
            let (Due::Settled(over) | Due::Forgotten(over)) = due;
            if let Some(visit) = self.visits.take(over.hash, &over.key, over.first_frame) {
                if visit.is_over() {
                    self.closed.remember(&over, visit.numbers(), now_ns);
                    self.end(visit, sink);
                    continue;
                }
                self.follow(visit, sink);
            }
            let found = self.table.find(over.hash, |it| over.is(it));
            let Some(connection) = found else { continue };
            let (is_clean, numbers) = (connection.left_cleanly(), connection.numbers());
            let is_waiting = connection.is_unacknowledged() && !closed::is_past(connection, now_ns);
            match due {
                Due::Forgotten(_) if is_waiting && self.closed.has_room() => {
                    self.closed.keep(Over { over_ns: now_ns, ..over });
                }
                Due::Settled(_) if !is_clean => self.closed.keep(over),
                _ => self.remove(over.hash, &over.key, sink),
            }
            if is_clean {
                self.closed.remember(&over, numbers, now_ns);
            }
        }
    }

    /// The connection that is meant, if it is still there.
    fn find(&self, begun: &Begun) -> Option<&Connection> {
        let found = self
            .table
            .find(begun.hash, |it| it.key == begun.key && it.first_frame == begun.first_frame);
        found.map(|connection| &**connection)
    }

    fn bound_half_open(&mut self, sink: &mut impl Sink) {
        while self.fresh.len() > FRESH_MAX {
            let Some(begun) = self.fresh.pop_front() else { return };
            let Begun { hash, key, first_frame, .. } = &begun;
            let connected = self
                .find(&begun)
                .map(|connection| connection.setup.is_established())
                .or_else(|| self.visits.is_connected(*hash, key, *first_frame));
            if connected == Some(false) {
                self.half_open.push_back(begun);
            }
        }
        let begun_now = self.begun;
        let is_old = |begun: &&Begun| begun_now - begun.number >= HALF_OPEN_MAX;
        while self.half_open.front().filter(is_old).is_some() {
            let Some(begun) = self.half_open.pop_front() else { return };
            let Begun { hash, key, first_frame, .. } = &begun;
            if self.visits.is_connected(*hash, key, *first_frame) == Some(false)
                && let Some(visit) = self.visits.take(*hash, key, *first_frame)
            {
                self.follow(visit, sink);
            }
            let found = self.find(&begun).filter(|connection| connection.setup.half_open());
            let Some(connection) = found else { continue };
            // What was refused is over, and only kept for what may come late.
            self.evicted += u64::from(!connection.setup.refused);
            self.remove(begun.hash, &begun.key, sink);
        }
    }

    fn remove(&mut self, hash: u64, key: &FlowKey, sink: &mut impl Sink) {
        if let Ok(entry) = self.table.find_entry(hash, |connection| connection.key == *key) {
            let (connection, _) = entry.remove();
            self.let_go(connection, sink);
        }
    }

    /// `connection` is over.
    fn let_go(&mut self, mut connection: Box<Connection>, sink: &mut impl Sink) {
        connection.finish(&mut self.shared, sink);
        if self.spare.len() < SPARE_MAX {
            connection.give_back(&mut self.shared.rares);
            self.spare.push(connection);
        }
    }

    /// `connection`, in the room of another where there is some.
    fn place(&mut self, connection: Connection) -> Box<Connection> {
        match self.spare.pop() {
            Some(mut spare) => {
                *spare = connection;
                spare
            }
            None => Box::new(connection),
        }
    }

    /// The capture is over: ends every connection, in the order they began.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        for visit in self.visits.take_all() {
            if visit.is_over() {
                self.end(visit, sink);
            } else {
                self.follow(visit, sink);
            }
        }
        let mut rest: Vec<_> = self.table.drain().collect();
        rest.sort_by_key(|connection| (connection.first_ns, connection.first_frame));
        for mut connection in rest {
            connection.finish(&mut self.shared, sink);
        }
    }

    /// Gives `sink` what [`finish`](Self::finish) would give it if the capture ended here, and leaves the
    /// tracker as it is. Connections that carried nothing since `since_ns` and have no exchange under way are
    /// left out.
    pub fn peek(&self, since_ns: u64, sink: &mut impl Sink) {
        let mut copy = Self {
            visits: self.visits.clone(),
            shared: self.shared.clone(),
            shows_values: self.shows_values,
            ..Self::default()
        };
        for connection in &self.table {
            if connection.last.time_ns < since_ns && !connection.has_exchange_under_way() {
                continue;
            }
            let hash = place(connection.hash.into());
            copy.table.insert_unique(hash, connection.clone(), |it| place(it.hash.into()));
        }
        copy.finish(sink);
    }

    /// Ends connections that are over at `now_ns`, and every one that carried nothing for `idle_ns`, in the
    /// order they began.
    pub fn end_idle(&mut self, now_ns: u64, idle_ns: u64, sink: &mut impl Sink) {
        self.expire(now_ns, sink);
        let before_ns = now_ns.saturating_sub(idle_ns);
        let is_idle = |it: &mut Box<Connection>| it.last.time_ns < before_ns;
        let mut idle: Vec<_> = self.table.extract_if(is_idle).collect();
        idle.sort_by_key(|connection| (connection.first_ns, connection.first_frame));
        for connection in idle {
            self.let_go(connection, sink);
        }
    }

    /// Ends every connection that is not `kept` as the end of the capture would, in the order they began.
    pub fn end_unless(&mut self, kept: impl Fn(&FlowKey) -> bool, sink: &mut impl Sink) {
        for visit in self.visits.take_all() {
            if visit.is_over() {
                self.end(visit, sink);
            } else {
                self.follow(visit, sink);
            }
        }
        let mut left: Vec<_> = self.table.extract_if(|it| !kept(&it.key)).collect();
        left.sort_by_key(|connection| (connection.first_ns, connection.first_frame));
        for connection in left {
            self.let_go(connection, sink);
        }
    }

    /// Bytes of memory that connections hold.
    pub fn memory_bytes(&self) -> usize {
        let connections = self.table.iter().map(|connection| connection.memory_bytes());
        self.table.allocation_size()
            + connections.sum::<usize>()
            + self.visits.memory_bytes()
            + self.shared.early.heap_bytes()
    }

    /// Connections followed at present.
    pub fn open_connections(&self) -> usize {
        self.table.len() + self.visits.len()
    }
}

#[cfg(test)]
mod tests;
