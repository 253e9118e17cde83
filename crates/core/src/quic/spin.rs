//! Round trips by the spin bit (RFC 9000 §17.4, RFC 9312 §3.8.2): the client inverts what the server
//! sent, so that the bit of each direction changes once a round trip.

use super::thresholds::{SPIN_SAMPLES_MAX, SPIN_TURNS_MIN};
use crate::judge::thresholds::ALIKE_PART;
use crate::model::quic::SpinRtt;
use crate::wire::{BySide, Side};

/// The spin bits of both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct Spin {
    last: BySide<Option<bool>>,
    /// Time of the last change, ns.
    turned_ns: BySide<Option<u64>>,
    samples_ns: BySide<Vec<u64>>,
}

impl Spin {
    /// Processes a packet with a short header of the side `from`.
    pub fn packet(&mut self, from: Side, bit: bool, time_ns: u64) {
        if self.last[from].replace(bit).is_none_or(|last| last == bit) {
            return;
        }
        let since_ns = self.turned_ns[from].replace(time_ns);
        let samples_ns = &mut self.samples_ns[from];
        if let Some(since_ns) = since_ns.filter(|_| samples_ns.len() < SPIN_SAMPLES_MAX) {
            samples_ns.push(time_ns.saturating_sub(since_ns));
        }
    }

    /// Returns the round trips of the direction that shows most of them. A bit that turns more often
    /// than once in `rtt_min_ns`, the least round trip of the handshake, is set at random (RFC 9000 §17.4).
    pub fn rtt(&self, rtt_min_ns: Option<u64>) -> Option<SpinRtt> {
        let most = Side::ALL.into_iter().max_by_key(|&side| self.samples_ns[side].len())?;
        let mut samples_ns = self.samples_ns[most].clone();
        samples_ns.sort_unstable();
        let least_ns = rtt_min_ns?;
        let floor_ns = least_ns - least_ns / ALIKE_PART;
        let short = samples_ns.partition_point(|&ns| ns < floor_ns);
        let is_random = short as u64 * ALIKE_PART > samples_ns.len() as u64;
        if samples_ns.len() < SPIN_TURNS_MIN || is_random {
            return None;
        }
        // Packets that overtook others at an edge make the bit turn twice more.
        let samples_ns = &samples_ns[short..];
        Some(SpinRtt {
            count: samples_ns.len() as u32,
            min_ns: *samples_ns.first()?,
            median_ns: *samples_ns.get(samples_ns.len() / 2)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of packets, one each millisecond, of the server.
    fn spin(bits: impl IntoIterator<Item = bool>) -> Spin {
        let mut spin = Spin::default();
        for (at, bit) in bits.into_iter().enumerate() {
            spin.packet(Side::Server, bit, at as u64 * 1_000_000);
        }
        spin
    }

    #[test]
    fn a_bit_that_turns_each_20_ms_is_a_round_trip_of_20_ms() {
        let spin = spin((0..200).map(|at| at / 20 % 2 == 1));
        let rtt = spin.rtt(Some(19_000_000)).expect("a round trip");
        assert_eq!(rtt, SpinRtt { count: 8, min_ns: 20_000_000, median_ns: 20_000_000 });
    }

    #[test]
    fn a_bit_that_never_turns_or_turns_at_random_says_nothing() {
        assert_eq!(spin([true; 200]).rtt(Some(20_000_000)), None);
        let random = spin((0..200_u64).map(|at| at.wrapping_mul(0x9e37_79b9).count_ones() % 2 == 1));
        assert_eq!(random.rtt(Some(20_000_000)), None);
        assert_eq!(spin((0..200).map(|at| at / 20 % 2 == 1)).rtt(None), None);
    }

    #[test]
    fn one_packet_out_of_order_at_an_edge_does_not_hide_the_others() {
        let mut bits: Vec<bool> = (0..400).map(|at| at / 20 % 2 == 1).collect();
        bits.swap(19, 20);
        let rtt = spin(bits).rtt(Some(20_000_000)).expect("a round trip");
        assert_eq!((rtt.min_ns, rtt.median_ns), (19_000_000, 20_000_000));
    }
}
