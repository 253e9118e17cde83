//! Large transfers by hosts and time, which `shared_link` joins at the end of the capture.

use crate::capture::FrameId;
use crate::judge::thresholds::INITIAL_WINDOW_BYTES;
use crate::model::Cause;
use crate::tcp::{Chain, Connection, Exchange, ORIGIN, window_opened_by};
use crate::wire::{Endpoint, Side};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of flows kept per shard.
const FLOWS_MAX: usize = 1 << 10;

/// Binary logarithm of a period, ns: flows between the same hosts that began in the same period are
/// kept together. It is somewhat more than a minute.
const PERIOD_BITS: u32 = 36;

/// Data that one side of a connection sent in an exchange.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct Flow {
    pub(in crate::findings) client: [u8; 16],
    pub(in crate::findings) server: Endpoint,
    pub(in crate::findings) sender: Side,
    /// First frame of the connection.
    pub(in crate::findings) connection: FrameId,
    /// Start and end of the data, ns.
    pub(in crate::findings) span_ns: [u64; 2],
    pub(in crate::findings) bytes: u64,
    /// Time for which a send buffer seemed to hold the sender back, ns.
    pub(in crate::findings) held_ns: u64,
    /// Time for which the congestion window held the sender back, ns.
    pub(in crate::findings) windowed_ns: u64,
    /// Time for which fast recoveries and the smaller window after them held the sender back, ns.
    pub(in crate::findings) repaired_ns: u64,
    /// Time for which the sender left the link idle while its window opened, ns.
    pub(in crate::findings) opening_ns: u64,
    /// Rate of the path, bits per second, if known.
    pub(in crate::findings) path_bps: Option<u64>,
}

impl Flow {
    /// Returns the flow of `sender` in `exchange`, if it is large.
    fn of(connection: &Connection, exchange: &Exchange, sender: Side) -> Option<Self> {
        let half = &connection.senders[sender];
        let bulk = half.bulk.as_ref()?;
        let bytes = exchange.sent_bytes(sender, half.space.nxt);
        let (position, begun_ns) = exchange.began(sender);
        if bytes <= INITIAL_WINDOW_BYTES || begun_ns == 0 {
            return None;
        }
        let rate = bulk.pipe.last_rate();
        let lost_ns = |cause| {
            let of_cause = |it: &&Chain| it.cause == cause && it.sender == sender;
            exchange.chains.iter().filter(of_cause).map(|chain| chain.ns).sum()
        };
        Some(Self {
            client: connection.client().address,
            server: connection.server(),
            sender,
            connection: connection.first_frame,
            span_ns: [begun_ns, half.last.time_ns.min(exchange.end_ns)],
            bytes,
            held_ns: lost_ns(Cause::SendBuffer),
            windowed_ns: lost_ns(Cause::CongestionWindow),
            repaired_ns: lost_ns(Cause::FastRecovery),
            opening_ns: rate.filter(|_| !connection.mid_stream).map_or(0, |rate| {
                let window = window_opened_by(half.sizes.smss(), position.saturating_sub(ORIGIN));
                opening_ns(window, rate, connection.path.base_rtt_ns())
            }),
            path_bps: rate.map(|rate| rate.saturating_mul(8)),
        })
    }

    /// Returns a hash that is the same for flows that may have shared a link; it decides which
    /// flows are kept.
    fn sampling_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.client, self.server.address, self.sender as u8).hash(&mut hasher);
        (self.span_ns[0] >> PERIOD_BITS).hash(&mut hasher);
        hasher.finish()
    }
}

/// The flows of one shard. If there are too many, those of some hosts and periods are kept, late
/// ones as well as early ones.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Flows(Vec<(u64, Flow)>);

impl Flows {
    /// Processes an exchange that is over.
    #[inline]
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        if connection.senders.iter().any(|sender| sender.bulk.is_some()) {
            self.transfer(connection, exchange);
        }
    }

    #[cold]
    fn transfer(&mut self, connection: &Connection, exchange: &Exchange) {
        let flows = Side::ALL.into_iter().filter_map(|side| Flow::of(connection, exchange, side));
        flows.for_each(|flow| self.keep(flow));
    }

    fn keep(&mut self, flow: Flow) {
        self.0.push((flow.sampling_hash(), flow));
        self.bound();
    }

    /// Drops the flows beyond the maximum once they exceed it by a quarter, so that they are rarely
    /// sorted.
    fn bound(&mut self) {
        if self.0.len() >= FLOWS_MAX + FLOWS_MAX / 4 {
            let drawn = |(sampling_hash, it): &(u64, Flow)| {
                (*sampling_hash, it.span_ns, it.connection, it.sender)
            };
            self.0.sort_unstable_by_key(drawn);
            self.0.truncate(FLOWS_MAX);
        }
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
        self.bound();
    }

    /// Returns all flows.
    pub(in crate::findings) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.0.iter().map(|(_, flow)| flow)
    }
}

/// Time for which a sender leaves a path of this rate (bytes/s) idle while its window opens, ns.
/// The window doubles with each round trip until it fills the path (RFC 5681 §3.1); that data
/// counts as sent.
fn opening_ns(window: u64, rate: u64, rtt_ns: u64) -> u64 {
    let path_holds = u128::from(rate) * u128::from(rtt_ns) / 1_000_000_000;
    let rounds = (path_holds / u128::from(window.max(1))).checked_ilog2().unwrap_or(0);
    u64::from(rounds.saturating_sub(1)) * rtt_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Returns the flow of a client that receives data in a second.
    fn flow(client: u16, connection: u64, second: u64) -> Flow {
        let mut address = [0; 16];
        address[..2].copy_from_slice(&client.to_be_bytes());
        Flow {
            client: address,
            server: Endpoint { address: [9; 16], port: 80 },
            sender: Side::Server,
            connection: FrameId::new(0, connection),
            span_ns: [second * S, (second + 1) * S],
            bytes: 1_000_000,
            held_ns: S / 2,
            windowed_ns: 0,
            repaired_ns: 0,
            opening_ns: 0,
            path_bps: None,
        }
    }

    #[test]
    fn of_too_many_flows_late_ones_are_kept_as_well_and_with_what_was_beside_them() {
        let mut flows = Flows::default();
        for second in 0..10_000 {
            let client = (second % 100) as u16;
            flows.keep(flow(client, 2 * second, second));
            flows.keep(flow(client, 2 * second + 1, second));
        }
        let late = flows.iter().filter(|it| it.span_ns[0] >= 5_000 * S).count();
        assert!(flows.iter().count() <= FLOWS_MAX + FLOWS_MAX / 4);
        assert!((FLOWS_MAX / 4..FLOWS_MAX).contains(&late), "{late} are late");
        let alone = |one: &&Flow| {
            let beside = |it: &&Flow| it.span_ns == one.span_ns && it.connection != one.connection;
            !flows.iter().any(|it| beside(&it))
        };
        // Of the flows with the greatest hash, a part is dropped.
        assert!(flows.iter().filter(alone).count() <= 1);
    }

    #[test]
    fn a_window_that_opens_leaves_a_long_path_time() {
        // 1 MB/s and 0.1 s: 100 KB, three doublings from 10 KB.
        assert_eq!(opening_ns(10_000, 1_000_000, S / 10), S / 5);
        assert_eq!(opening_ns(100_000, 1_000_000, S / 10), 0);
        assert_eq!(opening_ns(10_000, 1_000_000, S / 1_000), 0);
    }
}
