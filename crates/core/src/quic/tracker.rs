//! The connections of a capture, found by their endpoints and connection IDs.

use super::carried::Carried;
use super::connection::Connection;
use super::thresholds::IDLE_MAX_NS;
use crate::model::quic::Handshake;
use crate::wire::quic::packets;
use crate::wire::{Endpoint, FlowKey};
use std::collections::HashMap;

/// Maximum number of connections that are followed at a time. A connection takes up to 16 KB, so all
/// together up to 32 MB; of more, those that carried nothing for longest end.
pub(super) const CONNECTIONS_MAX: usize = 1 << 11;

/// Maximum number of connections between the same two endpoints that are followed at a time. Clients
/// mostly use a port for each; more need an ID of the connection in each packet.
const CONNECTIONS_OF_FLOW_MAX: usize = 8;

/// Maximum number of handshakes that are kept until all is known; any more are counted.
pub(super) const HANDSHAKES_MAX: usize = 1 << 14;

/// Follows connections.
#[derive(Clone, Default)]
pub struct Tracker {
    flows: HashMap<FlowKey, Vec<Connection>>,
    open: usize,
    finished: Vec<Handshake>,
    /// Number of handshakes for which there was no room.
    pub omitted: u64,
    keeps_names: bool,
    swept_ns: u64,
    scratch: Vec<u8>,
}

impl Tracker {
    /// Creates a tracker. With `keeps_names`, names of servers are kept for display; they are values,
    /// which otherwise never leave it.
    pub fn new(keeps_names: bool) -> Self {
        Self { keeps_names, ..Self::default() }
    }

    /// Processes a datagram.
    pub fn datagram(&mut self, carried: &Carried) {
        let (flow, _) = FlowKey::new(carried.source, carried.destination);
        let first = packets(&carried.payload, carried.payload_bytes as usize).next();
        let Some((_, packet)) = first else { return };
        self.sweep(carried.time_ns);
        let known = self.flows.get_mut(&flow);
        let owner = known.and_then(|all| {
            let is_own = |it: &&mut Connection| it.owns(&carried.source, &packet, &carried.payload);
            all.iter_mut().rev().find(is_own)
        });
        if let Some(connection) = owner {
            return connection.take(carried, &mut self.scratch);
        }
        if let Some(mut begun) = Connection::begin(carried, packet, &mut self.scratch) {
            begun.take(carried, &mut self.scratch);
            self.keep(flow, begun);
        } else if let Some(newest) = self.flows.get_mut(&flow).and_then(|all| all.last_mut()) {
            newest.take_unknown(carried);
        }
    }

    /// Notes that a host reported by ICMP that it does not take the datagrams of `sender` to `receiver`.
    pub fn rejected(&mut self, sender: &Endpoint, receiver: &Endpoint) {
        let (flow, _) = FlowKey::new(*sender, *receiver);
        let all = self.flows.get_mut(&flow).into_iter().flatten();
        all.for_each(|connection| connection.is_refused = true);
    }

    fn keep(&mut self, flow: FlowKey, begun: Connection) {
        if self.open >= CONNECTIONS_MAX {
            self.end_oldest();
        }
        let all = self.flows.entry(flow).or_default();
        let ended = (all.len() >= CONNECTIONS_OF_FLOW_MAX).then(|| all.remove(0));
        all.push(begun);
        self.open += 1;
        if let Some(ended) = ended {
            self.open -= 1;
            self.finish_one(&ended);
        }
    }

    /// Ends the connection that carried nothing for longest.
    fn end_oldest(&mut self) {
        let last = |(flow, all): &(&FlowKey, &Vec<Connection>)| {
            (all.iter().map(|it| it.last_ns).max(), **flow)
        };
        let Some(flow) = self.flows.iter().min_by_key(last).map(|(flow, _)| *flow) else { return };
        for ended in self.flows.remove(&flow).unwrap_or_default() {
            self.open -= 1;
            self.finish_one(&ended);
        }
    }

    /// Ends idle connections; at most once a second.
    fn sweep(&mut self, now_ns: u64) {
        const PERIOD_NS: u64 = 1_000_000_000;
        if now_ns < self.swept_ns.saturating_add(PERIOD_NS) {
            return;
        }
        self.swept_ns = now_ns;
        let mut ended = Vec::new();
        self.flows.retain(|_, all| {
            let is_idle = |it: &mut Connection| it.last_ns.saturating_add(IDLE_MAX_NS) < now_ns;
            ended.extend(all.extract_if(.., is_idle));
            !all.is_empty()
        });
        self.open -= ended.len();
        ended.iter().for_each(|it| self.finish_one(it));
    }

    fn finish_one(&mut self, connection: &Connection) {
        let Some(handshake) = connection.handshake(self.keeps_names) else { return };
        if self.finished.len() < HANDSHAKES_MAX {
            self.finished.push(handshake);
        } else {
            self.omitted += 1;
        }
    }

    /// Removes and returns the handshakes of connections that have ended.
    pub fn take_finished(&mut self) -> Vec<Handshake> {
        sorted(std::mem::take(&mut self.finished))
    }

    /// Removes and returns all handshakes that were not taken yet; the capture has ended.
    pub fn take_all(&mut self) -> Vec<Handshake> {
        for connection in std::mem::take(&mut self.flows).values().flatten() {
            self.finish_one(connection);
        }
        self.open = 0;
        self.take_finished()
    }
}

/// Sorts handshakes by time: the order of a table's entries depends on its seed.
fn sorted(mut handshakes: Vec<Handshake>) -> Vec<Handshake> {
    handshakes.sort_by_key(|it| (it.start_ns, it.first));
    handshakes
}
