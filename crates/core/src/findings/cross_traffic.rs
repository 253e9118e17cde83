//! Small requests that wait in a queue which a transfer on another connection keeps filled (RFC
//! 8290 §1).
//!
//! The requests and the transfer are on different connections, which are followed separately, so
//! they are joined when all connections are known. Connections between the same two hosts share a
//! path: the least round trip of any of them is the base of all, and the queueing delay that a
//! transfer shows at a moment is that of the others at that moment.

use crate::capture::FrameId;
use crate::findings::loaded_line::{Lines, Queue};
use crate::findings::proof::Proof;
use crate::findings::tally::{Instance, Key, SmallExchange, Tally, Transfer};
use crate::judge::QueueDelay;
use crate::judge::thresholds::{HABIT_MIN, RATE_MARGIN_PART};
use crate::model::{Cause, Fact, Ledger, Owner, Vantage};
use crate::wire::{Endpoint, Side};
use hashbrown::{HashMap, HashSet};
use std::cmp::Reverse;

/// Time that a small exchange lost in a queue, and the owners to which this time was attributed.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Round trip without the queue, ns.
    base_ns: u64,
    /// Time of each owner that belongs to the queue.
    moved: [(Owner, u64); 3],
    /// Time attributed to a queue that is not reported as bloated, ns.
    plain_ns: u64,
    /// Time for which the client waited beyond what the vantage shows, ns.
    unseen_ns: u64,
    /// Side of the transfer behind which the exchange waited, and its port, if the transfer was
    /// captured.
    behind: Option<(Side, u16)>,
    /// Handshakes of other connections show the queue.
    by_handshakes: bool,
}

impl Wait {
    /// Returns whether other connections show the queue.
    fn is_shown(&self) -> bool {
        self.by_handshakes || self.behind.is_some()
    }

    /// Sum of the time that is not attributed to a queue yet, ns.
    fn ns(&self) -> u64 {
        let moved: u64 = self.moved.iter().map(|(_, ns)| ns).sum();
        moved + self.plain_ns + self.unseen_ns
    }
}

/// Properties that the slow exchanges of one connection have in common, if the capture contains no
/// other traffic that would fill a queue.
#[derive(Clone, Copy, Debug, Default)]
struct UnexplainedDelay {
    exchanges: u64,
    /// Time that these exchanges lost to a queue, if there was one, ns.
    ns: u64,
    /// Part of that time which the packets' own timestamps show, ns.
    stamped_ns: u64,
}

impl UnexplainedDelay {
    fn add(&mut self, small: &SmallExchange, wait: &Wait) {
        self.exchanges += 1;
        self.ns += small.reported_ns + wait.ns();
        self.stamped_ns += small.queueing_ns;
    }

    /// Returns whether the path was slow, and not a host: a slow host delays ACKs, but not packets
    /// that it has already sent.
    fn is_queue(&self) -> bool {
        self.exchanges >= u64::from(HABIT_MIN) && 2 * self.stamped_ns >= self.ns
    }
}

/// Finds exchanges that were delayed in a queue, and attributes that time to the queue.
pub(super) fn settle(tally: &mut Tally) {
    let mut queues = std::mem::take(&mut tally.queues);
    queues.smalls.sort_unstable_by_key(|small| (small.first.time_ns, small.first.frame));
    let mut beside: HashMap<_, Vec<&Transfer>> = HashMap::new();
    for transfer in &queues.transfers {
        beside.entry(hosts(transfer.client, transfer.server)).or_default().push(transfer);
    }
    let lines = Lines::of(&queues.handshakes);
    let waits = queues.smalls.iter().filter_map(|small| {
        let own_ns = queues.bases.get(&small.connection).copied().unwrap_or(u64::MAX);
        let transfers = beside.get(&hosts(small.client, small.server));
        let own_ns = own_ns.min(small.rtt_base_ns);
        let wait = small.wait(own_ns, transfers.map_or(&[], Vec::as_slice));
        let wait = wait.filter(|_| small.is_small);
        let is_known = |wait: &Wait| wait.behind.is_some();
        let wait = wait.filter(is_known).or_else(|| small.on_full_line(&lines)).or(wait);
        wait.map(|wait| (small, wait))
    });
    let waits: Vec<_> = waits.collect();
    let mut alone: HashMap<FrameId, UnexplainedDelay> = HashMap::new();
    for (small, wait) in waits.iter().filter(|(_, wait)| !wait.is_shown()) {
        alone.entry(small.connection).or_default().add(small, wait);
    }
    let reported = |small: &&SmallExchange| small.reported_ns > 0;
    let mut known: HashSet<_> =
        queues.smalls.iter().filter(reported).map(|it| it.connection).collect();
    for (small, wait) in &waits {
        let of_connection = alone.get(&small.connection);
        if !wait.is_shown() && !of_connection.is_some_and(UnexplainedDelay::is_queue) {
            continue;
        }
        let place = tally.row_of(small.server);
        attribute(small, wait, place, tally);
        let cause = tally.causes.at(&key(small).within(place));
        cause.add_wait(small, wait);
        cause.connections += u64::from(known.insert(small.connection));
    }
}

/// Returns the addresses of the two ends of a path that connections share.
fn hosts(client: Endpoint, server: Endpoint) -> ([u8; 16], [u8; 16]) {
    (client.address, server.address)
}

impl SmallExchange {
    /// Returns the time lost in a queue, if it is worth reporting. `own_ns` is the least round trip
    /// of the exchange's connection, and `transfers` are those between the same hosts.
    fn wait(&self, own_ns: u64, transfers: &[&Transfer]) -> Option<Wait> {
        let beside = || transfers.iter().filter(|it| it.connection != self.connection);
        let path_ns = beside().map(|it| it.rtt_base_ns).min().map_or(own_ns, |ns| ns.min(own_ns));
        // For each direction, the queue at the time at which the message passed the vantage is
        // used.
        let longest = |sender: Side, at_ns: u64| {
            let stood = beside().filter(|it| it.sender == sender).map(|it| {
                let queue_ns = it.queue_delay.queue_ns(at_ns);
                let before_ns = it.rtt_base_ns - path_ns;
                (if queue_ns > 0 { queue_ns + before_ns } else { 0 }, Reverse(it.client.port))
            });
            let (queue_ns, Reverse(port)) = stood.max().unwrap_or_default();
            (queue_ns, sender, port)
        };
        let up = longest(Side::Client, self.first.time_ns);
        let down = longest(Side::Server, self.last.time_ns);
        let queue_ns = up.0 + down.0;
        let wait = if QueueDelay::begins(queue_ns, path_ns) {
            let (_, sender, port) = up.max(down);
            Some(self.behind(path_ns, queue_ns, (sender, port)))
        } else {
            self.alone(own_ns)
        };
        wait.filter(|wait| QueueDelay::begins(wait.ns() + self.reported_ns, wait.base_ns))
    }

    /// Returns the time attributed to the path beyond `base_ns`: that of the set-up, and that of
    /// the rest.
    fn beyond(&self, base_ns: u64) -> [(Owner, u64); 2] {
        let connect_ns = if self.connects { self.connect_ns.saturating_sub(base_ns) } else { 0 };
        [(Owner::Path, self.path_ns.saturating_sub(base_ns)), (Owner::Connect, connect_ns)]
    }

    /// Returns the wait beside a transfer that kept a queue of `queue_ns` filled meanwhile.
    fn behind(&self, base_ns: u64, queue_ns: u64, behind: (Side, u16)) -> Wait {
        let round_trips = 1 + u64::from(self.connects);
        let mut due_ns = (round_trips * queue_ns).saturating_sub(self.queueing_ns);
        let mut moved = [(Owner::Server, 0); 3];
        for (place, (owner, ns)) in moved.iter_mut().zip(self.beyond(base_ns)) {
            let ns = ns.min(due_ns + due_ns / RATE_MARGIN_PART);
            due_ns = due_ns.saturating_sub(ns);
            *place = (owner, ns);
        }
        // A vantage far from the server cannot distinguish the server's host from the path to it; a
        // vantage near the server does not see how long the response was in flight.
        let mut unseen_ns = 0;
        match self.vantage {
            Vantage::Client => moved[2] = (Owner::Server, self.server_ns.min(due_ns)),
            Vantage::Server => {
                let late_ns = self.acked_ns.saturating_sub(self.rtt_base_ns);
                unseen_ns = due_ns.min(queue_ns).min(late_ns);
            }
            _ => {}
        }
        let plain_ns = self.queueing_ns - self.reported_ns.min(self.queueing_ns);
        let behind = Some(behind);
        Wait { base_ns, moved, plain_ns, unseen_ns, behind, by_handshakes: false }
    }

    /// Returns the wait if nothing else in the capture would fill a queue: the round trip of the
    /// same connection is far shorter at other times.
    fn alone(&self, base_ns: u64) -> Option<Wait> {
        let [path, connect] = self.beyond(base_ns);
        let moved = [path, connect, (Owner::Server, 0)];
        let plain_ns = self.queueing_ns - self.reported_ns.min(self.queueing_ns);
        let (behind, by_handshakes) = (None, false);
        let wait = Wait { base_ns, moved, plain_ns, unseen_ns: 0, behind, by_handshakes };
        self.has_handshake.then_some(wait)
    }

    /// Returns the wait in the queue of the client's line, as handshakes at that time show it. What the path
    /// took beyond the least round trip to that network is no distance. Of the server's time, where
    /// there was no handshake between request and response, the queue has as much as the ACK of the request
    /// was late, and nowhere more than that.
    fn on_full_line(&self, lines: &Lines) -> Option<Wait> {
        let queue = |time| lines.queue(self.client.address, &self.server, time);
        let least_ns = lines.least_ns(self.client.address, &self.server)?;
        let base_ns = least_ns.min(self.rtt_base_ns);
        let acked_ns = Some(self.asked_acked_ns).filter(|&ns| ns < u64::MAX);
        let acked_late_ns = acked_ns.map(|ns| ns.saturating_sub(base_ns));
        let shown = queue((self.first.time_ns, self.answered_ns));
        let (queue_ns, before_ns) = match shown {
            Some(Queue::Meanwhile(ns)) => (ns, ns.min(acked_late_ns.unwrap_or(ns))),
            Some(Queue::Around(ns)) => (ns, ns.min(acked_late_ns.unwrap_or(0))),
            None => (0, 0),
        };
        let [(_, path_ns), (_, connect_ns)] = self.beyond(base_ns);
        let path_ns = path_ns.min(queue_ns);
        let server_ns = before_ns.saturating_sub(path_ns + self.queueing_ns).min(self.before_ns);
        let asked_ns = self.first.time_ns;
        let set_up = (asked_ns.saturating_sub(self.connect_ns), asked_ns);
        let connect_ns = if queue(set_up).is_some() { connect_ns } else { 0 };
        let moved =
            [(Owner::Path, path_ns), (Owner::Connect, connect_ns), (Owner::Server, server_ns)];
        if path_ns + connect_ns + server_ns == 0 {
            return None;
        }
        let plain_ns = self.queueing_ns - self.reported_ns.min(self.queueing_ns);
        let (behind, by_handshakes) = (None, true);
        let wait = Wait { base_ns, moved, plain_ns, unseen_ns: 0, behind, by_handshakes };
        QueueDelay::begins(wait.ns() + self.reported_ns, base_ns).then_some(wait)
    }
}

fn key(small: &SmallExchange) -> Key {
    let (cause, sender) = (Cause::Bufferbloat, Side::Server);
    let culprit = cause.culprit(sender, small.client, small.server);
    Key { cause, sender, server: small.server, culprit }
}

/// Attributes to the queue the time that it took.
fn attribute(small: &SmallExchange, wait: &Wait, place: Endpoint, tally: &mut Tally) {
    let Some(endpoint) = tally.endpoints.get_mut(&place) else { return };
    for (owner, ns) in wait.moved {
        endpoint.transfer(small.kind, owner, Owner::Queueing, ns);
    }
    if wait.unseen_ns > 0 {
        let mut unseen = Ledger::default();
        unseen.add(Owner::Queueing, wait.unseen_ns);
        endpoint.prepend(small.kind, small.wall_ns, &unseen);
    }
    let (begins, to) =
        ((small.connection, small.first.frame), (Owner::Queueing, Cause::Bufferbloat));
    tally.worst.add_loss(begins, &wait.moved, to, wait.ns());
}

impl super::tally::CauseTally {
    /// Adds the cost of the queue for `small`, less the part of it that is already reported.
    fn add_wait(&mut self, small: &SmallExchange, wait: &Wait) {
        let ns = wait.ns();
        let wall_ns = small.wall_ns + wait.unseen_ns;
        let left_ns = wall_ns.saturating_sub(small.reported_ns + ns);
        if small.reported_ns > 0 {
            self.now.replace(small.wall_ns, wall_ns);
            self.without.replace(small.wall_ns.saturating_sub(small.reported_ns), left_ns);
            self.waits.replace(small.reported_ns, small.reported_ns + ns);
        } else {
            self.exchanges += 1;
            self.count += 1;
            self.now.record(wall_ns);
            self.without.record(left_ns);
            self.waits.record(ns);
        }
        self.lost_ns = self.lost_ns.saturating_add(ns);
        self.covers.add(Owner::Queueing, ns);
        self.note_share(small.reported_ns + ns, wall_ns);
        self.offer(small.instance(wait));
    }
}

impl SmallExchange {
    fn instance(&self, wait: &Wait) -> Instance {
        let ns = self.reported_ns + wait.ns();
        let mut proof = Proof::default();
        proof.add_request(self.first);
        proof.add_response(self.last);
        proof.add_fact("base_rtt_ns", Fact::Ns(wait.base_ns));
        let round_trips = 1 + u64::from(self.connects);
        proof.add_fact("loaded_rtt_ns", Fact::Ns(wait.base_ns + ns / round_trips));
        if let Some((sender, port)) = wait.behind {
            let transfer = match sender {
                Side::Client => "upload",
                Side::Server => "download",
            };
            proof.add_fact("transfer", Fact::Text(transfer.into()));
            proof.add_fact("transfer_port", Fact::Text(port.to_string()));
        }
        proof.rule_out(Cause::PathRtt, "base_rtt", true);
        proof.rule_out(Cause::ServerThink, "transfer_waits", wait.behind.is_some());
        proof.rule_out(Cause::ServerThink, "handshakes_wait", wait.by_handshakes);
        Instance {
            rank: ((true, false, ns), Reverse((self.last.time_ns, self.last.frame))),
            proof,
            client: self.client,
            server: self.server,
            exchange: self.exchange,
            vantage: self.vantage,
            software: None,
            protocol: self.protocol,
        }
    }
}
