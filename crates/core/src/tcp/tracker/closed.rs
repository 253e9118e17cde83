//! Closed connections, kept for a while for late segments: in full if the report may still change,
//! otherwise, once both sides have closed and both FINs are acknowledged, only their addresses and
//! sequence numbers. If all were kept in full, thousands of short connections per second would take
//! the memory of thousands of open ones.

use crate::capture::{FrameId, STEP_NS};
use crate::tcp::connection::{Connection, End};
use crate::tcp::sequence::Numbers;
use crate::tcp::thresholds::{CLOSED_LINGER_NS, RTO_MAX_NS};
use crate::wire::{FlowKey, Segment, TcpFlags};
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Time for which a closed connection is kept in full, ns. The order of captured frames of one host
/// differs from the order of sending by at most a tenth of it ([`STEP_NS`]).
const SETTLE_NS: u64 = 10 * STEP_NS;

/// Greatest number of connections of one shard that are kept in full. Beyond it the oldest are
/// dropped, as with coarse timestamps or a scan of thousands of closed ports.
const WHOLE_MAX: usize = 188;
/// Greatest number of connections of one shard of which addresses and sequence numbers are kept.
const PAST_MAX: usize = 7 << 8;

/// The part of a connection that the tracker keeps, as one of its segments meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Everything: the segment belongs to it, unless it begins another connection.
    Whole,
    /// Its addresses and sequence numbers, with which late segments are recognised.
    Numbers,
    /// Nothing: the segment belongs to another connection.
    Nothing,
}

/// Returns what is kept of `connection` for `next`, a segment of it at `now_ns`, or for what its hosts may
/// still repeat. This depends on its own segments only; that its memory is freed when later connections
/// begin has no effect.
pub fn kept(connection: &Connection, now_ns: u64, next: Option<&Segment>) -> Kept {
    let Some(over_ns) = connection.cold.over_ns() else { return Kept::Whole };
    // A connection lasts until both FINs are acknowledged, since unacknowledged data is
    // retransmitted, and an attempt as long as its client repeats the SYN.
    let is_repeat = next.is_none_or(|segment| connection.view().repeats_syn(segment));
    let may_be_repeated =
        connection.view().is_unacknowledged() || connection.view().may_repeat_syn() && is_repeat;
    let is_past = if may_be_repeated {
        now_ns >= connection.last.time_ns.saturating_add(RTO_MAX_NS)
    } else {
        is_forgotten(over_ns, now_ns)
    };
    let is_settled = is_settled(over_ns, now_ns) && connection.view().is_clean();
    match (is_past, is_settled) {
        (true, _) => Kept::Nothing,
        (false, true) => Kept::Numbers,
        (false, false) => Kept::Whole,
    }
}

/// Returns whether all segments that were sent before the end of a connection at `over_ns` have
/// arrived by `now_ns`.
fn is_settled(over_ns: u64, now_ns: u64) -> bool {
    now_ns >= over_ns.saturating_add(SETTLE_NS)
}

/// Returns whether a segment at `now_ns` no longer belongs to a connection that was over at
/// `over_ns`.
fn is_forgotten(over_ns: u64, now_ns: u64) -> bool {
    now_ns >= over_ns.saturating_add(CLOSED_LINGER_NS)
}

/// Identifies a closed connection that is still in the table: addresses and ports are reused,
/// frames are not.
#[derive(Clone, Copy)]
pub struct Over {
    /// Time at which the connection was over, ns.
    pub over_ns: u64,
    /// Hash of the connection in the table.
    pub hash: u64,
    /// Key of the connection.
    pub key: FlowKey,
    /// First frame of the connection.
    pub first_frame: FrameId,
}

impl Over {
    /// Creates the entry for `connection`, which was over at `over_ns`.
    pub fn of(connection: &Connection, hash: u64, over_ns: u64) -> Self {
        let (key, first_frame) = (connection.key, connection.first_frame);
        Self { over_ns, hash, key, first_frame }
    }

    /// Returns whether this entry identifies `connection`.
    pub fn is(&self, connection: &Connection) -> bool {
        self.key == connection.key && self.first_frame == connection.first_frame
    }

    fn is_forgotten(&self, now_ns: u64) -> bool {
        is_forgotten(self.over_ns, now_ns)
    }
}

/// A closed connection about which nothing more can be learnt.
#[derive(Clone)]
struct Past {
    key: FlowKey,
    /// Hash of the connection in the table.
    hash: u64,
    over_ns: u64,
    /// Ranges of the sequence numbers of both sides, that of `key.high` second.
    numbers: [Numbers; 2],
}

/// Relation of a segment to the closed connections.
pub enum ClosedMatch {
    /// The segment belongs to none of them.
    None,
    /// The segment is a late one of a closed connection.
    Late,
    /// The segment begins another connection with the same addresses and ports.
    Reuse,
}

/// A closed connection whose full state may be freed.
pub enum Due {
    /// All segments sent before the end of the connection have arrived.
    Settled(Over),
    /// Later segments no longer belong to the connection.
    Forgotten(Over),
}

/// The closed connections of one shard.
#[derive(Clone, Default)]
pub struct Closed {
    /// Connections to which delayed segments may still be added.
    fresh: VecDeque<Over>,
    /// Connections that are kept longer, because later segments may change the report.
    doubtful: VecDeque<Over>,
    past: HashTable<Past>,
    /// Time of the end and hash of each connection in `past`, oldest first.
    order: VecDeque<(u64, u64)>,
}

impl Closed {
    /// Adds `connection` if it has come closer to its end since `before`.
    pub fn follow(&mut self, connection: &mut Connection, hash: u64, before: End, now_ns: u64) {
        if connection.view().end() > before {
            connection.cold.set_over(now_ns);
            self.fresh.push_back(Over::of(connection, hash, now_ns));
        }
    }

    /// Keeps `over` in full for as long as late segments may come.
    pub fn keep(&mut self, over: Over) {
        self.doubtful.push_back(over);
    }

    /// Returns whether another connection may be kept in full.
    pub fn has_room(&self) -> bool {
        self.doubtful.len() < WHOLE_MAX
    }

    /// Removes the next connection whose full state may be freed.
    pub fn next_due(&mut self, now_ns: u64) -> Option<Due> {
        let is_old = |over: &Over| over.is_forgotten(now_ns);
        if self.doubtful.len() > WHOLE_MAX || self.doubtful.front().is_some_and(is_old) {
            return self.doubtful.pop_front().map(Due::Forgotten);
        }
        let is_settled = |over: &Over| is_settled(over.over_ns, now_ns);
        let is_settled = self.fresh.len() > WHOLE_MAX || self.fresh.front().is_some_and(is_settled);
        if is_settled { self.fresh.pop_front().map(Due::Settled) } else { None }
    }

    /// Keeps the addresses and `numbers` of a connection that has been reported.
    pub fn remember(&mut self, over: &Over, numbers: [Numbers; 2], now_ns: u64) {
        let many = |left: usize| left >= PAST_MAX;
        while let Some(&(over_ns, hash)) =
            self.order.front().filter(|it| many(self.order.len()) || is_forgotten(it.0, now_ns))
        {
            self.order.pop_front();
            if let Ok(entry) =
                self.past.find_entry(hash, |it| (it.hash, it.over_ns) == (hash, over_ns))
            {
                entry.remove();
            }
        }
        let &Over { over_ns, hash, key, .. } = over;
        self.order.push_back((over_ns, hash));
        self.past.insert_unique(hash, Past { key, hash, over_ns, numbers }, |it| it.hash);
    }

    /// Returns the relation of `segment`, which belongs to no connection in the table and may begin
    /// one, to the closed connections.
    #[inline]
    pub fn classify(&mut self, hash: u64, segment: &Segment) -> ClosedMatch {
        let Ok(entry) = self.past.find_entry(hash, |it| it.key == segment.flow) else {
            return ClosedMatch::None;
        };
        let past = entry.get();
        let is_syn = segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN;
        let forgotten = is_forgotten(past.over_ns, segment.time_ns);
        let sender = &past.numbers[segment.from_high() as usize];
        // A segment that only ends a connection belongs to the earlier one.
        let is_late = segment.only_ends()
            || if is_syn { sender.began_with(segment.seq) } else { sender.contains(segment.seq) };
        if !forgotten && is_late {
            return ClosedMatch::Late;
        }
        entry.remove();
        if forgotten { ClosedMatch::None } else { ClosedMatch::Reuse }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fin_repeated_some_seconds_later_belongs_to_the_closed_connection() {
        const S: u64 = 1_000_000_000;
        assert!(!is_forgotten(S, 3 * S) && is_forgotten(S, 6 * S));
    }
}
