//! Transfers between the same two hosts that fill their link together. Without timestamps that show
//! the queueing delay, each transfer, captured at its receiver, sends a burst and then waits for a
//! round trip, like one with a small send buffer or a small congestion window. But the link is
//! never idle. It is not idle either if each transfer loses segments occasionally, because the
//! transfers fill the queue, and continues with a smaller window: the others use the capacity.

use crate::findings::tally::{Flow, Key, Tally};
use crate::findings::thresholds::FULL_LINK_SHARE;
use crate::model::{Cause, Owner};

/// Attributes to the link the time that seems lost to a small send buffer or congestion window, or
/// to fast recoveries, if the flow had its share of a full link.
pub(super) fn settle(tally: &mut Tally) {
    for key in full(tally, Cause::SendBuffer, |flow| flow.held_ns) {
        tally.remove_cause(&key, (Owner::SendBuffer, Owner::Bandwidth));
    }
    for key in full(tally, Cause::CongestionWindow, |flow| flow.windowed_ns) {
        tally.remove_cause(&key, (Owner::CongestionWindow, Owner::Bandwidth));
    }
    for key in full(tally, Cause::FastRecovery, |flow| flow.repaired_ns) {
        let Some(cause) = tally.causes.remove(&key) else { continue };
        let ledger = tally.endpoints.get(&key.server).map(|it| &it.all.ledger);
        let repair_ns = ledger.map_or(0, |it| it.of(Owner::FastRecovery)).min(cause.lost_ns);
        let window_ns = cause.lost_ns - repair_ns;
        tally.shift(&key, (Owner::FastRecovery, Owner::Bandwidth), repair_ns, None);
        tally.shift(&key, (Owner::CongestionWindow, Owner::Bandwidth), window_ns, None);
    }
}

/// Returns whether flows that `cause` held back for the time `waited` sent most of their bytes
/// while they shared a full link.
fn full(tally: &Tally, cause: Cause, waited: impl Fn(&Flow) -> u64) -> Vec<Key> {
    let held = tally.causes.keys().filter(|key| key.cause == cause);
    let mut full: Vec<_> = held
        .filter(|key| {
            let flows = tally.flows.iter();
            let of_key = |flow: &&Flow| flow.server == key.server && flow.sender == key.sender;
            let bytes = flows.filter(of_key).filter(|flow| waited(flow) > 0).map(|flow| {
                let share = flow.shares_full_link(waited(flow), tally.flows.iter());
                (flow.bytes, if share { flow.bytes } else { 0 })
            });
            let (all, shared) = bytes.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            2 * shared > all
        })
        .cloned()
        .collect();
    full.sort_unstable();
    full
}

impl Flow {
    /// Returns whether the flow and the others between the same hosts filled the path at its known
    /// rate, and the part of the others is the time for which the flow waited (`waited_ns`).
    fn shares_full_link<'a>(&self, waited_ns: u64, flows: impl Iterator<Item = &'a Self>) -> bool {
        let Some(path_bps) = self.path_bps else { return false };
        let [begun_ns, end_ns] = self.span_ns;
        let open_ns = end_ns.saturating_sub(begun_ns).saturating_sub(self.opening_ns).max(1) as f64;
        let beside = flows.filter(|flow| {
            let same_way = flow.sender == self.sender
                && flow.client == self.client
                && flow.server.address == self.server.address;
            same_way && flow.connection != self.connection
        });
        let beside: f64 = beside.map(|flow| flow.bytes_within(self.span_ns)).sum();
        let all = self.bytes as f64 + beside;
        let link_ns = |bytes: f64| bytes * 8e9 / path_bps.max(1) as f64;
        let explained = 2.0 * link_ns(beside) >= waited_ns as f64;
        explained && beside > 0.0 && link_ns(all) >= FULL_LINK_SHARE * open_ns
    }

    /// Returns the bytes that the flow sent in that time, if it sent them evenly.
    fn bytes_within(&self, [from_ns, to_ns]: [u64; 2]) -> f64 {
        let [begun_ns, end_ns] = self.span_ns;
        let within_ns = end_ns.min(to_ns).saturating_sub(begun_ns.max(from_ns));
        self.bytes as f64 * within_ns as f64 / end_ns.saturating_sub(begun_ns).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FrameId;
    use crate::wire::{Endpoint, Side};

    const S: u64 = 1_000_000_000;

    /// Returns the flow of one client of a server in the given seconds, at more than 8 Mbit/s.
    fn flow(connection: u64, client: u8, seconds: [u64; 2], bytes: u64) -> Flow {
        Flow {
            client: [client; 16],
            server: Endpoint { address: [9; 16], port: 80 },
            sender: Side::Server,
            connection: FrameId::new(0, connection),
            span_ns: seconds.map(|second| second * S),
            bytes,
            held_ns: 5 * S,
            windowed_ns: 0,
            repaired_ns: 0,
            opening_ns: 0,
            path_bps: Some(8_000_000),
        }
    }

    fn first_shares(flows: &[Flow]) -> bool {
        flows[0].shares_full_link(5 * S, flows.iter())
    }

    #[test]
    fn transfers_beside_each_other_fill_a_link_that_one_alone_would_not() {
        let half = flow(1, 1, [0, 10], 4_500_000);
        assert!(first_shares(&[half.clone(), flow(2, 1, [0, 10], 4_500_000)]));
        assert!(!first_shares(std::slice::from_ref(&half)));
        // The others are to another host, at another time, in the other direction, or too small.
        assert!(!first_shares(&[half.clone(), flow(2, 2, [0, 10], 4_500_000)]));
        assert!(!first_shares(&[half.clone(), flow(2, 1, [10, 20], 4_500_000)]));
        let upload = Flow { sender: Side::Client, ..flow(2, 1, [0, 10], 4_500_000) };
        assert!(!first_shares(&[half.clone(), upload]));
        assert!(!first_shares(&[half, flow(2, 1, [0, 10], 2_000_000)]));
    }

    #[test]
    fn a_link_is_not_expected_to_be_full_while_windows_open() {
        let long_path = flow(1, 1, [0, 10], 3_900_000);
        let beside = flow(2, 1, [0, 10], 3_900_000);
        assert!(!first_shares(&[long_path.clone(), beside.clone()]));
        let opens = Flow { opening_ns: S, ..long_path };
        assert!(first_shares(&[opens.clone(), beside]));
        assert!(!first_shares(&[opens, flow(2, 1, [0, 10], 3_000_000)]));
    }

    #[test]
    fn a_link_of_which_nothing_is_known_is_not_full() {
        let unknown = Flow { path_bps: None, ..flow(1, 1, [0, 10], 9_000_000) };
        assert!(!first_shares(&[unknown, flow(2, 1, [0, 10], 9_000_000)]));
    }
}
