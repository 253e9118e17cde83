//! Round trips by the spin bit (RFC 9000 §17.4, RFC 9312 §3.8.2): the server repeats the client's bit, and the client
//! inverts the server's, so that the bit of each direction turns once a round trip. A turn of one side
//! is caused by the turn of the other before it.

use super::thresholds::SPIN_TURNS_MIN;
use crate::judge::thresholds::ALIKE_PART;
use crate::model::quic::SpinRtt;
use crate::wire::{BySide, Side};

/// Maximum number of round trips by the spin bit that are kept of a connection: the median of 256
/// is close to that of all.
const SPIN_SAMPLES_MAX: usize = 256;

/// A turn of the bit.
#[derive(Clone, Copy, Debug)]
struct Turn {
    from: Side,
    /// The new value.
    bit: bool,
    time_ns: u64,
}

impl Turn {
    /// Returns whether it is what `before` makes the other side do.
    fn follows(&self, before: &Self) -> bool {
        let wanted = if self.from == Side::Server { before.bit } else { !before.bit };
        self.from != before.from && self.bit == wanted
    }
}

/// The spin bits of both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct Spin {
    last: BySide<Option<bool>>,
    last_turn: Option<Turn>,
    /// Time of the last turn of each side, ns.
    turned_ns: BySide<Option<u64>>,
    samples_ns: BySide<Vec<u64>>,
    /// Least time from a turn of the other side to the turn of this one that follows it, ns.
    legs_ns: BySide<Option<u64>>,
    /// Number of turns that follow the one before.
    followed: u64,
    /// Number of turns that do not.
    unrelated: u64,
}

impl Spin {
    /// Processes a packet with a short header of the side `from`.
    pub fn packet(&mut self, from: Side, bit: bool, time_ns: u64) {
        if self.last[from].replace(bit).is_none_or(|last| last == bit) {
            return;
        }
        let turn = Turn { from, bit, time_ns };
        if let Some(before) = self.last_turn.replace(turn) {
            if turn.follows(&before) {
                self.followed += 1;
                let ns = time_ns.saturating_sub(before.time_ns);
                let least_ns = &mut self.legs_ns[from];
                *least_ns = Some(least_ns.map_or(ns, |least_ns| least_ns.min(ns)));
            } else {
                self.unrelated += 1;
            }
        }
        let since_ns = self.turned_ns[from].replace(time_ns);
        let samples_ns = &mut self.samples_ns[from];
        if let Some(since_ns) = since_ns.filter(|_| samples_ns.len() < SPIN_SAMPLES_MAX) {
            samples_ns.push(time_ns.saturating_sub(since_ns));
        }
    }

    /// Returns whether the bit turns as the standard says, and not at random, as it does where an end
    /// disables it (RFC 9000 §17.4).
    fn is_valid(&self) -> bool {
        self.followed >= SPIN_TURNS_MIN && self.unrelated * ALIKE_PART <= self.followed
    }

    /// Returns the least round trip between vantage and each side, ns, as far as turns show it.
    pub fn legs_ns(&self) -> BySide<Option<u64>> {
        if self.is_valid() { self.legs_ns } else { [None; 2] }
    }

    /// Returns the round trips of the direction that shows most of them.
    pub fn rtt(&self) -> Option<SpinRtt> {
        let mut samples_ns = self.samples_ns.iter().max_by_key(|it| it.len())?.clone();
        samples_ns.sort_unstable();
        self.is_valid().then_some(())?;
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

    const MS: u64 = 1_000_000;

    /// Packets of both sides, one of each in a millisecond, `delay` ms from the server and beside the
    /// client; with the bits that the standard says.
    fn standard(delay: usize, length: usize) -> Vec<[bool; 2]> {
        let mut packets: Vec<[bool; 2]> = Vec::new();
        for at in 0..length {
            let seen = |back: usize, side: Side| {
                at.checked_sub(back).and_then(|it| packets.get(it)).map(|it| it[side])
            };
            let from_client = !seen(1, Side::Server).unwrap_or(true);
            let from_server = seen(delay, Side::Client).unwrap_or(false);
            packets.push([from_client, from_server]);
        }
        packets
    }

    fn spin(packets: &[[bool; 2]]) -> Spin {
        let mut spin = Spin::default();
        for (at, bits) in packets.iter().enumerate() {
            let [client, server] = *bits;
            spin.packet(Side::Client, client, at as u64 * MS);
            spin.packet(Side::Server, server, at as u64 * MS + MS / 2);
        }
        spin
    }

    #[test]
    fn a_bit_that_turns_once_a_round_trip_shows_it_and_its_legs() {
        let spin = spin(&standard(20, 150));
        let rtt = spin.rtt().expect("a round trip");
        assert_eq!((rtt.min_ns, rtt.median_ns), (21 * MS, 21 * MS));
        assert_eq!(spin.legs_ns(), [Some(MS / 2), Some(20 * MS + MS / 2)]);
    }

    #[test]
    fn a_bit_that_never_turns_or_turns_at_random_says_nothing() {
        assert_eq!(spin(&[[true, false]; 200]).rtt(), None);
        let bit = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).count_ones() % 2 == 1;
        let random: Vec<_> = (0..400).map(|at| [bit(2 * at), bit(2 * at + 1)]).collect();
        let spin = spin(&random);
        assert_eq!((spin.rtt(), spin.legs_ns()), (None, [None; 2]));
    }

    #[test]
    fn few_turns_are_chance() {
        assert_eq!(spin(&standard(20, 60)).rtt(), None);
    }

    #[test]
    fn one_packet_out_of_order_at_a_turn_does_not_hide_the_others() {
        let mut packets = standard(20, 500);
        let turn = (1..500).find(|&at| packets[at][1] != packets[at - 1][1]).expect("a turn");
        let (before, behind) = (packets[turn - 1][1], packets[turn][1]);
        (packets[turn - 1][1], packets[turn][1]) = (behind, before);
        let rtt = spin(&packets).rtt().expect("a round trip");
        assert_eq!(rtt.median_ns, 21 * MS);
    }
}
