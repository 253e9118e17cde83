//! One direction of the emulated link between two devices.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use crate::rng::Rng;

/// Properties of one direction. A value of zero disables the property.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathParams {
    /// Propagation delay.
    pub delay_ns: u64,
    /// Rate of the bottleneck in bit/s, counted over IP packets.
    pub rate_bps: u64,
    /// Length of the queue before the bottleneck, bytes; packets beyond it are dropped.
    pub queue_bytes: u64,
    /// Probability that a packet is lost.
    pub loss_ppm: u64,
    /// Probability that a packet arrives twice.
    pub duplicate_ppm: u64,
    /// Probability that a packet is held back by `reorder_ns`.
    pub reorder_ppm: u64,
    /// Time for which a reordered packet is held back.
    pub reorder_ns: u64,
    /// IP packets longer than this are dropped without an ICMP message.
    pub mtu_bytes: u64,
}

/// The reason for which the path dropped a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Random loss.
    Loss,
    /// The queue before the bottleneck was full.
    QueueFull,
    /// The packet was longer than the path's MTU.
    Mtu,
    /// A rule chose it.
    Rule,
    /// The direction was switched off.
    Outage,
    /// It belongs to a connection that the path has forgotten.
    Forgotten,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due_ns: u64,
    order: u64,
    packet: Vec<u8>,
}

/// The state of one direction.
#[derive(Debug)]
pub struct Path {
    params: PathParams,
    rng: Rng,
    /// Time at which the bottleneck has sent all packets in its queue.
    free_at_ns: u64,
    order: u64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Largest number of bytes in the queue.
    pub queue_max_bytes: u64,
    /// Number of packets held back on purpose.
    pub reordered: u64,
    /// Number of packets sent twice.
    pub duplicated: u64,
}

impl Path {
    /// Creates an idle path.
    pub fn new(params: PathParams, seed: u64) -> Path {
        Path {
            params,
            rng: Rng::new(seed),
            free_at_ns: 0,
            order: 0,
            waiting: BinaryHeap::new(),
            queue_max_bytes: 0,
            reordered: 0,
            duplicated: 0,
        }
    }

    /// Takes a packet that arrived at `now_ns`.
    ///
    /// # Errors The reason for which it was dropped.
    pub fn take(&mut self, now_ns: u64, packet: &[u8]) -> Result<(), DropReason> {
        let len = packet.len() as u64;
        if self.params.mtu_bytes > 0 && len > self.params.mtu_bytes {
            return Err(DropReason::Mtu);
        }
        if self.rng.chance_ppm(self.params.loss_ppm) {
            return Err(DropReason::Loss);
        }
        let sent_ns = self.serialise(now_ns, len)?;
        let mut due_ns = sent_ns + self.params.delay_ns;
        if self.rng.chance_ppm(self.params.reorder_ppm) {
            due_ns += self.params.reorder_ns;
            self.reordered += 1;
        }
        self.push(due_ns, packet);
        if self.rng.chance_ppm(self.params.duplicate_ppm) {
            self.push(due_ns, packet);
            self.duplicated += 1;
        }
        Ok(())
    }

    /// Returns the time at which the last bit has left the bottleneck.
    fn serialise(&mut self, now_ns: u64, len: u64) -> Result<u64, DropReason> {
        let rate_bps = self.params.rate_bps;
        if rate_bps == 0 {
            return Ok(now_ns);
        }
        let backlog_ns = self.free_at_ns.saturating_sub(now_ns);
        let backlog_bytes = (u128::from(backlog_ns) * u128::from(rate_bps) / 8_000_000_000) as u64;
        if self.params.queue_bytes > 0 && backlog_bytes + len > self.params.queue_bytes {
            return Err(DropReason::QueueFull);
        }
        self.queue_max_bytes = self.queue_max_bytes.max(backlog_bytes + len);
        self.free_at_ns = self.free_at_ns.max(now_ns) + len * 8_000_000_000 / rate_bps;
        Ok(self.free_at_ns)
    }

    fn push(&mut self, due_ns: u64, packet: &[u8]) {
        self.order += 1;
        let waiting = Waiting { due_ns, order: self.order, packet: packet.to_vec() };
        self.waiting.push(Reverse(waiting));
    }

    /// Returns the time at which the next packet is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse(w)| w.due_ns)
    }

    /// Returns the next packet that is due at `now_ns`, with its due time.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<(u64, Vec<u8>)> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.waiting.pop().map(|Reverse(w)| (w.due_ns, w.packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_times(params: PathParams, packets: u64, len: usize) -> Vec<u64> {
        let mut path = Path::new(params, 1);
        for _ in 0..packets {
            let _ = path.take(1_000, &vec![0; len]);
        }
        std::iter::from_fn(|| path.pop_due(u64::MAX).map(|(due, _)| due)).collect()
    }

    #[test]
    fn the_bottleneck_spaces_a_burst_by_its_serialisation_time() {
        let params = PathParams { delay_ns: 5_000, rate_bps: 8_000_000, ..Default::default() };
        // 1000 bytes at 8 Mbit/s take 1 ms.
        let want = vec![1_006_000, 2_006_000, 3_006_000];
        assert_eq!(due_times(params, 3, 1000), want);
    }

    #[test]
    fn a_full_queue_drops_the_tail() {
        let params = PathParams { rate_bps: 8_000_000, queue_bytes: 2_500, ..Default::default() };
        assert_eq!(due_times(params, 5, 1000).len(), 2);
    }

    #[test]
    fn packets_above_the_mtu_vanish() {
        let params = PathParams { mtu_bytes: 1_400, ..Default::default() };
        assert_eq!(due_times(params.clone(), 1, 1_401), Vec::<u64>::new());
        assert_eq!(due_times(params, 1, 1_400).len(), 1);
    }

    #[test]
    fn order_is_kept_without_reordering() {
        let mut path = Path::new(PathParams { delay_ns: 10, ..Default::default() }, 1);
        for byte in 0..50u8 {
            assert_eq!(path.take(7, &[byte]), Ok(()));
        }
        let order: Vec<u8> =
            std::iter::from_fn(|| path.pop_due(17).map(|(_, packet)| packet[0])).collect();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
