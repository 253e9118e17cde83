//! Exchanges that may have been delayed in a queue, and transfers that filled it, which
//! `cross_traffic` joins at the end of the capture.

use crate::app::Protocol;
use crate::capture::FrameId;
use crate::judge::thresholds::{INITIAL_WINDOW_BYTES, QUEUE_DELAY_MIN_NS};
use crate::judge::{QueueDelay, Turn};
use crate::model::{Cause, Owner, Sighting, Vantage};
use crate::tcp::{Connection, Exchange, SimpleExchange};
use crate::wire::{Endpoint, Side};
use hashbrown::{HashMap, HashSet};

/// Number of slow exchanges kept per shard. These are the earliest; later ones stay as they were
/// judged.
const SMALLS_MAX: usize = 1 << 10;

/// Number of transfers kept per shard. These are the earliest.
const TRANSFERS_MAX: usize = 64;

/// Number of handshakes kept per shard. These are the earliest.
const HANDSHAKES_MAX: usize = 1 << 8;

/// A handshake that was captured at its client, and in which nothing was repeated.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct CleanHandshake {
    pub(in crate::findings) client: [u8; 16],
    pub(in crate::findings) server: Endpoint,
    /// Time of the SYN, ns.
    pub(in crate::findings) syn_ns: u64,
    /// Time from the SYN to the SYN-ACK, ns.
    pub(in crate::findings) rtt_ns: u64,
}

/// An exchange that may have been delayed in a queue.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct SmallExchange {
    pub(in crate::findings) client: Endpoint,
    pub(in crate::findings) server: Endpoint,
    /// Number of the exchange on its connection, from 1.
    pub(in crate::findings) exchange: u64,
    /// First frame of the connection.
    pub(in crate::findings) connection: FrameId,
    /// Least round trip of the connection so far, ns.
    pub(in crate::findings) rtt_base_ns: u64,
    /// Request and response are within the initial window, so that they fill no queue themselves.
    pub(in crate::findings) is_small: bool,
    /// The handshake was captured, in which no application takes part.
    pub(in crate::findings) has_handshake: bool,
    pub(in crate::findings) vantage: Vantage,
    pub(in crate::findings) protocol: Protocol,
    pub(in crate::findings) kind: u64,
    pub(in crate::findings) first: Sighting,
    pub(in crate::findings) last: Sighting,
    pub(in crate::findings) connects: bool,
    pub(in crate::findings) wall_ns: u64,
    pub(in crate::findings) path_ns: u64,
    pub(in crate::findings) connect_ns: u64,
    pub(in crate::findings) queueing_ns: u64,
    pub(in crate::findings) server_ns: u64,
    /// Part of that before the response began.
    pub(in crate::findings) before_ns: u64,
    /// Time at which the response began to pass the vantage, ns.
    pub(in crate::findings) answered_ns: u64,
    /// Time after which the server acknowledged the request, ns; [`u64::MAX`] if it did so
    /// with the response.
    pub(in crate::findings) asked_acked_ns: u64,
    /// Time from the last byte to the first ACK of it, or to the next request, at the vantage, ns.
    pub(in crate::findings) acked_ns: u64,
    /// Part of `queueing_ns` that is already reported as bufferbloat.
    pub(in crate::findings) reported_ns: u64,
}

/// A transfer that kept a queue filled.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct Transfer {
    pub(in crate::findings) client: Endpoint,
    pub(in crate::findings) server: Endpoint,
    /// The connection's first frame.
    pub(in crate::findings) connection: FrameId,
    pub(in crate::findings) rtt_base_ns: u64,
    pub(in crate::findings) sender: Side,
    pub(in crate::findings) queue_delay: QueueDelay,
}

/// Slow exchanges and transfers of one shard.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Queues {
    pub(in crate::findings) smalls: Vec<SmallExchange>,
    pub(in crate::findings) transfers: Vec<Transfer>,
    pub(in crate::findings) handshakes: Vec<CleanHandshake>,
    /// Least round trip of connections with slow exchanges when these ended, ns, by their first
    /// frame.
    pub(in crate::findings) bases: HashMap<FrameId, u64>,
}

impl Queues {
    /// Returns whether `plain` took long enough that it may have been delayed in a queue.
    #[inline]
    pub fn may_be_queued(plain: &SimpleExchange<'_>) -> bool {
        (plain.arrived_ns - plain.asked.0).max(plain.path_ns) >= QUEUE_DELAY_MIN_NS
    }

    /// Processes an exchange that is over.
    #[inline]
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        // The time mostly ends with the ACK of its last byte.
        let seen_ns = connection.last.time_ns.saturating_sub(exchange.start_ns);
        let slow = seen_ns.max(exchange.ledger.of(Owner::Path)) >= QUEUE_DELAY_MIN_NS;
        if slow && exchange.response_seen && exchange.outcome.is_complete() {
            self.slow(connection, exchange);
        }
    }

    #[cold]
    fn slow(&mut self, connection: &Connection, exchange: &Exchange) {
        let small = |side: Side| {
            let sent = connection.senders[side].space.nxt;
            sent.saturating_sub(exchange.began_at[side]) <= INITIAL_WINDOW_BYTES
        };
        let is_small = Side::ALL.into_iter().all(small);
        let rtt_base_ns = connection.path.base_rtt_ns();
        let of = |owner| exchange.ledger.of(owner);
        // Of a large response only the time before it may have been that of a queue of others.
        let before_ns = [Owner::Path, Owner::Connect, Owner::Server].map(of).iter().sum::<u64>();
        if rtt_base_ns == 0 || !is_small && before_ns < QUEUE_DELAY_MIN_NS {
            return;
        }
        let told = exchange.chains.iter().filter(|chain| chain.cause == Cause::Bufferbloat);
        // If a SYN or its answer was repeated, the set-up took longer than the path.
        let setup = &connection.setup;
        let connects = exchange.connects && setup.syns == 1 && setup.syn_acks == 1;
        let mut chains = exchange.chains.iter();
        let thinks = chains.find(|chain| chain.cause == Cause::ServerThink);
        let answers = thinks.filter(|chain| chain.gap.turn == Turn::Answers);
        self.keep(SmallExchange {
            client: connection.client(),
            server: connection.server(),
            exchange: connection.totals.exchanges,
            connection: connection.first_frame,
            rtt_base_ns,
            is_small,
            has_handshake: !connection.mid_stream,
            vantage: connection.path.vantage(),
            protocol: connection.framer.protocol(),
            kind: exchange.kind.digest(),
            first: exchange.first,
            last: exchange.last,
            connects,
            wall_ns: exchange.wall_ns(),
            path_ns: of(Owner::Path),
            connect_ns: of(Owner::Connect),
            queueing_ns: of(Owner::Queueing),
            server_ns: of(Owner::Server),
            before_ns: thinks.map_or(0, |chain| chain.ns.saturating_sub(chain.within_ns)),
            answered_ns: exchange.answered_ns,
            asked_acked_ns: answers
                .and_then(|chain| chain.gap.bottleneck.acked_after_ns)
                .unwrap_or(u64::MAX),
            acked_ns: connection.last.time_ns.saturating_sub(exchange.end_ns),
            reported_ns: told.map(|chain| chain.ns).sum(),
        });
    }

    fn keep(&mut self, small: SmallExchange) {
        self.bases.entry(small.connection).or_insert(small.rtt_base_ns);
        self.smalls.push(small);
        self.bound();
    }

    /// Processes a connection that is over.
    pub fn connection(&mut self, connection: &Connection) {
        if let Some(base_ns) = self.bases.get_mut(&connection.first_frame) {
            *base_ns = connection.path.base_rtt_ns();
        }
        self.handshake(connection);
        for sender in Side::ALL {
            let Some(queue_delay) = connection.cold.queue_delay(sender) else { continue };
            self.transfers.push(Transfer {
                client: connection.client(),
                server: connection.server(),
                connection: connection.first_frame,
                rtt_base_ns: connection.path.base_rtt_ns(),
                sender,
                queue_delay: queue_delay.clone(),
            });
            self.bound();
        }
    }

    fn handshake(&mut self, connection: &Connection) {
        let rtt_ns = connection.setup.clean_rtt_ns();
        let is_at_client = matches!(connection.path.vantage(), Vantage::Client | Vantage::Local);
        if let Some(syn_ns) = connection.setup.syn_first_ns()
            && rtt_ns > 0
            && is_at_client
        {
            let (client, server) = (connection.client().address, connection.server());
            self.handshakes.push(CleanHandshake { client, server, syn_ns, rtt_ns });
            self.bound();
        }
    }

    /// Drops the entries beyond the maximum once they exceed it by a quarter, so that they are
    /// rarely sorted.
    fn bound(&mut self) {
        if self.smalls.len() >= SMALLS_MAX + SMALLS_MAX / 4 {
            self.smalls.sort_unstable_by_key(|small| (small.first.time_ns, small.first.frame));
            self.smalls.truncate(SMALLS_MAX);
            let kept: HashSet<_> = self.smalls.iter().map(|small| small.connection).collect();
            self.bases.retain(|connection, _| kept.contains(connection));
        }
        if self.transfers.len() >= TRANSFERS_MAX + TRANSFERS_MAX / 4 {
            let begun = |it: &Transfer| (it.queue_delay.begun_ns(), it.connection, it.sender);
            self.transfers.sort_unstable_by_key(begun);
            self.transfers.truncate(TRANSFERS_MAX);
        }
        if self.handshakes.len() >= HANDSHAKES_MAX + HANDSHAKES_MAX / 4 {
            let begun = |it: &CleanHandshake| (it.syn_ns, it.client, it.server);
            self.handshakes.sort_unstable_by_key(begun);
            self.handshakes.truncate(HANDSHAKES_MAX);
        }
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        self.smalls.extend(other.smalls);
        self.transfers.extend(other.transfers);
        self.handshakes.extend(other.handshakes);
        self.bases.extend(other.bases);
        self.bound();
    }
}
