//! The connections that lost most time, in bounded memory.

use crate::capture::FrameId;
use crate::findings::tally::Key;
use crate::model::{
    Cause, Class, ConnectionReport, DirectionReport, LookupReport, Owner, Reassigned, Role, Slice,
};
use crate::tcp::{Connection, Held};
use crate::wire::{BySide, Endpoint, Side};
use std::cmp::Reverse;

/// Number of connections in the report, unless all are requested.
pub const CONNECTIONS_MAX: usize = 100;

/// Rank of a connection, the worst first: time lost to faults, then wall time, then the first to
/// begin.
type Rank = (Reverse<u64>, Reverse<u64>, FrameId);

fn rank(report: &ConnectionReport) -> Rank {
    (Reverse(report.lost_ns), Reverse(report.ledger.total_ns()), report.first_frame)
}

/// A connection, and the time for which its client and its server held data back.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
struct Kept {
    report: ConnectionReport,
    held: BySide<Held>,
}

/// Drops all of `kept` but the first `limit`, in no order. Returns the rank of the last of these,
/// if there are more.
fn keep_first(kept: &mut Vec<(Rank, Box<Kept>)>, limit: usize) -> Option<Rank> {
    if kept.len() <= limit {
        return None;
    }
    let last = limit.saturating_sub(1);
    let (_, &mut (bar, _), _) = kept.select_nth_unstable_by_key(last, |&(rank, _)| rank);
    kept.truncate(limit);
    Some(bar)
}

/// The worst connections. Neither the order in which they are added nor the number of shards makes
/// a difference.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct Worst {
    limit: usize,
    /// The connections with the rank that they had when they were added.
    kept: Vec<(Rank, Box<Kept>)>,
    seen: u64,
    /// If `limit` connections are kept: rank before which another has to come.
    bar: Option<Rank>,
}

impl Default for Worst {
    fn default() -> Self {
        Self::new(CONNECTIONS_MAX)
    }
}

impl Worst {
    /// Creates the list, which keeps `limit` connections.
    pub fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), seen: 0, bar: None }
    }

    /// Processes a connection that is over.
    pub fn connection(&mut self, connection: &Connection) {
        self.seen += 1;
        let totals = &connection.totals;
        let wall_ns = totals.ledger.total_ns();
        let rank = (Reverse(totals.lost_ns), Reverse(wall_ns), connection.first_frame);
        if self.bar.is_none_or(|bar| rank < bar) {
            let held = connection.senders.each_ref().map(|sender| sender.history().nagle.held);
            self.keep((rank, Box::new(Kept { report: report(connection), held })));
        }
    }

    fn keep(&mut self, one: (Rank, Box<Kept>)) {
        self.kept.push(one);
        if self.kept.len() >= self.limit.saturating_mul(2) {
            self.bar = keep_first(&mut self.kept, self.limit);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        self.seen += other.seen;
        self.limit = self.limit.max(other.limit);
        for one in other.kept {
            self.keep(one);
        }
    }

    /// Drops the connections that are not among the worst, after all were added: in another order,
    /// others would have displaced them.
    pub fn settle(&mut self) {
        keep_first(&mut self.kept, self.limit);
    }

    /// Moves time of `from` on connections with the cause of `key` to `into`, which has it by the cause
    /// `to` if there is one. If the sender of a part is not known, all of it is moved with the last
    /// key of its cause.
    pub fn reassign(
        &mut self,
        key: &Key,
        (from, into): (Owner, Owner),
        to: Option<Cause>,
        is_last: bool,
    ) {
        let of_client = |client: Endpoint| {
            key.culprit.role != Role::Client
                || Endpoint { port: 0, ..client } == key.culprit.endpoint
        };
        for (_, one) in &mut self.kept {
            let Kept { report, held } = &mut **one;
            if report.server != key.server {
                continue;
            }
            let (sender, ns) = match held[key.sender].of(from) {
                Some(held_ns) if of_client(report.client) => {
                    (Some(key.sender), std::mem::take(held_ns))
                }
                None if is_last => (None, u64::MAX),
                _ => continue,
            };
            let to = Slice { owner: into, cause: to, ns };
            let moved_ns = report.reassign(Reassigned { sender, exchange: None, from, to });
            if to.cause.is_none_or(|cause| cause.class() != Class::Fault) {
                report.lost_ns = report.lost_ns.saturating_sub(moved_ns);
            }
        }
    }

    /// Leaves out the connections to `server`, which is the client.
    pub fn leave_out(&mut self, server: Endpoint) {
        self.kept.retain(|(_, one)| one.report.server != server);
    }

    /// Adds `lost_ns` to the faults of the connection that begins with `first_frame`. `moved` is
    /// time of its exchange that begins with `exchange`, by its former owner; it belongs `to` another
    /// owner and cause now. The rest was not counted before.
    pub fn add_loss(
        &mut self,
        (first_frame, exchange): (FrameId, FrameId),
        moved: &[(Owner, u64)],
        to: (Owner, Cause),
        lost_ns: u64,
    ) {
        let mut reports = self.kept.iter_mut().map(|(_, one)| &mut one.report);
        if let Some(report) = reports.find(|report| report.first_frame == first_frame) {
            report.lost_ns += lost_ns;
            for &(from, ns) in moved {
                let (sender, exchange) = (None, Some(exchange));
                let to = Slice::of(to.0, to.1, ns);
                report.reassign(Reassigned { sender, exchange, from, to });
            }
        }
    }

    /// Makes changes of single exchanges, each with the first frame of its connection.
    pub fn reassign_exchanges(&mut self, mut changes: Vec<(FrameId, Reassigned)>) {
        changes.sort_unstable_by_key(|(connection, it)| (*connection, it.exchange));
        for (_, one) in &mut self.kept {
            let first = one.report.first_frame;
            let from = changes.partition_point(|(connection, _)| *connection < first);
            let own = changes.iter().skip(from).take_while(|(connection, _)| *connection == first);
            own.for_each(|(_, change)| {
                one.report.reassign(*change);
            });
        }
    }

    /// Adds a look-up for which the connection that `client` opened to `server` at `first_ns` had
    /// waited.
    pub fn wait_for(
        &mut self,
        (client, server, first_ns): ([u8; 16], Endpoint, u64),
        lookup: impl FnOnce() -> LookupReport,
    ) {
        let mut reports = self.kept.iter_mut().map(|(_, one)| &mut one.report);
        let found = reports
            .find(|it| (it.client.address, it.server, it.first_ns) == (client, server, first_ns));
        if let Some(report) = found {
            report.lookup = Some(lookup());
        }
    }

    /// Returns the worst connections, the worst first, and the number of others.
    pub fn finish(mut self) -> (Vec<ConnectionReport>, u64) {
        // Their lost time may have been attributed to another cause since then.
        self.kept.iter_mut().for_each(|(old, one)| *old = rank(&one.report));
        keep_first(&mut self.kept, self.limit);
        self.kept.sort_unstable_by_key(|&(rank, _)| rank);
        let omitted = self.seen - self.kept.len() as u64;
        (self.kept.into_iter().map(|(_, one)| one.report).collect(), omitted)
    }
}

/// Returns the report of one connection.
pub(crate) fn report(connection: &Connection) -> ConnectionReport {
    ConnectionReport {
        client: connection.client(),
        server: connection.server(),
        protocol: connection.framer.protocol(),
        first_frame: connection.first_frame,
        first_ns: connection.first_ns,
        last_ns: connection.last.time_ns,
        vantage: connection.path.vantage(),
        rtt_min_ns: connection.path.known_base_rtt_ns(),
        exchanges: connection.totals.exchanges,
        ledger: connection.totals.ledger.ledger(),
        reassigned: Vec::new(),
        lookup: None,
        lost_ns: connection.totals.lost_ns,
        client_to_server: direction(connection, Side::Client),
        server_to_client: direction(connection, Side::Server),
    }
}

/// Returns the totals of the direction of `sender`. Its duplicate ACKs and closed windows concern
/// the other direction's data.
fn direction(connection: &Connection, sender: Side) -> DirectionReport {
    let half = &connection.senders[sender];
    let other = &connection.senders[sender.peer()].counts();
    DirectionReport {
        duplicate_acks: other.duplicate_acks,
        zero_window_advertisements: other.zero_window_advertisements,
        mss_bytes: u32::try_from(half.sizes.smss()).unwrap_or(u32::MAX),
        rtt_min_ns: connection.path.known_rtt_ns(sender.peer()),
        ..half.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Segment, TcpFlags};

    fn connection(number: u64, lost_ns: u64) -> Connection {
        let flags = TcpFlags(TcpFlags::SYN);
        let frame = FrameId::new(0, number);
        let mut connection = Connection::new(&Segment { flags, frame, ..Segment::default() });
        connection.totals.lost_ns = lost_ns;
        connection
    }

    #[test]
    fn the_worst_are_kept_whatever_the_order_and_the_shards() {
        let all: Vec<_> = (1..=50).map(|number| connection(number, number * 7 % 23)).collect();
        let mut one = Worst::new(5);
        all.iter().rev().for_each(|connection| one.connection(connection));
        let mut shards = [Worst::new(5), Worst::new(5), Worst::new(5)];
        for (index, connection) in all.iter().enumerate() {
            shards[index % 3].connection(connection);
        }
        let mut many = Worst::new(5);
        shards.into_iter().for_each(|shard| many.merge(shard));
        let frames = |mut worst: Worst| {
            worst.settle();
            // A connection that was not among the worst at that time is not reported later,
            // whatever is found about it.
            let others = (1..=50).filter(|number| number % 23 != 3 && number % 23 != 13);
            for number in others {
                let (frame, to) = (FrameId::new(0, number), (Owner::Queueing, Cause::Bufferbloat));
                worst.add_loss((frame, frame), &[], to, 100);
            }
            let (kept, omitted) = worst.finish();
            (kept.iter().map(|report| report.first_frame.number()).collect::<Vec<_>>(), omitted)
        };
        assert_eq!(frames(one.clone()), (vec![13, 36, 3, 26, 49], 45));
        assert_eq!(frames(one), frames(many));
    }
    #[test]
    fn only_the_time_held_back_by_one_end_is_moved() {
        let mut held = connection(1, 0);
        for (sender, ns) in held.senders.iter_mut().zip([30, 40]) {
            sender
                .history_mut()
                .nagle
                .held
                .of(Owner::NagleDelayedAck)
                .into_iter()
                .for_each(|it| *it = ns);
        }
        held.totals.ledger.add(Owner::NagleDelayedAck, 70);
        let mut worst = Worst::new(5);
        worst.connection(&held);
        let key = Key::of(Cause::NagleDelayedAck, Side::Client, &held);
        let owners = (Owner::NagleDelayedAck, Owner::Client);
        worst.reassign(&key, owners, Some(Cause::ClientThink), false);
        worst.reassign(&key, owners, Some(Cause::ClientThink), false);
        let (kept, _) = worst.finish();
        let of = |owner| kept[0].ledger.of(owner);
        assert_eq!((of(Owner::NagleDelayedAck), of(Owner::Client)), (40, 30));
        let reassigned = kept[0].reassigned.iter().map(|it| (it.sender, it.to.ns));
        assert_eq!(reassigned.collect::<Vec<_>>(), [(Some(Side::Client), 30)]);
    }
}
