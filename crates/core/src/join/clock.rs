//! Calibrates the clocks of two places by the packets that were fastest between them.
//!
//! Read first: V. Paxson, "On Calibrating Measurements of Packet Transit Times" (1998). The minimum
//! difference between both capture times of a packet is the clock offset plus the path's own delay
//! in one direction, and minus that delay in the other.

use crate::join::thresholds::{DRIFT_CLEAR, DRIFT_PPM_MAX, DRIFT_WINDOWS};
use crate::model::Clocks;
use std::collections::BTreeMap;

/// Direction between the two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// From the first place to the second.
    ToSecond,
    /// From the second place to the first.
    ToFirst,
}

/// Maximum number of windows kept: enough for a line, however long the capture is.
const WINDOWS_MAX: u64 = 64;
/// Minimum window: 2^20 ns, about a millisecond.
const WIDTH_BITS_MIN: u32 = 20;

/// Time of a packet at the second place less that at the first, ns, and time of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Least {
    difference_ns: i64,
    time_ns: u64,
}

/// The fastest packet of each time window, for both directions.
#[derive(Clone, Debug)]
pub struct Minima {
    width_bits: u32,
    windows: BTreeMap<u64, [Option<Least>; 2]>,
}

impl Default for Minima {
    fn default() -> Self {
        Self { width_bits: WIDTH_BITS_MIN, windows: BTreeMap::new() }
    }
}

impl Minima {
    /// Adds a packet in direction `direction` that passed the first place at `time_ns` and the
    /// second `difference_ns` later, by the clock of each place.
    pub fn sample(&mut self, direction: Transit, time_ns: u64, difference_ns: i64) {
        let least = Least { difference_ns, time_ns };
        let window = self.windows.entry(time_ns >> self.width_bits).or_default();
        keep(&mut window[direction as usize], direction, least);
        self.bound();
    }

    /// Adds all of `other`; the result does not depend on the order.
    pub fn merge(&mut self, mut other: Self) {
        self.widen(other.width_bits);
        other.widen(self.width_bits);
        for (index, theirs) in other.windows {
            let mine = self.windows.entry(index).or_default();
            for direction in [Transit::ToSecond, Transit::ToFirst] {
                if let Some(least) = theirs[direction as usize] {
                    keep(&mut mine[direction as usize], direction, least);
                }
            }
        }
        self.bound();
    }

    fn bound(&mut self) {
        while let (Some((first, _)), Some((last, _))) =
            (self.windows.first_key_value(), self.windows.last_key_value())
            && last - first >= WINDOWS_MAX
        {
            self.widen(self.width_bits + 1);
        }
    }

    fn widen(&mut self, width_bits: u32) {
        if width_bits <= self.width_bits {
            return;
        }
        let shift = width_bits - self.width_bits;
        self.width_bits = width_bits;
        for (index, theirs) in std::mem::take(&mut self.windows) {
            let mine = self.windows.entry(index >> shift).or_default();
            for direction in [Transit::ToSecond, Transit::ToFirst] {
                if let Some(least) = theirs[direction as usize] {
                    keep(&mut mine[direction as usize], direction, least);
                }
            }
        }
    }

    /// Returns the difference between the clocks, if packets went both ways.
    pub fn calibrate(&self) -> Option<Clocks> {
        let drift = self.drift();
        let origin_ns = self.windows.values().flatten().flatten().map(|it| it.time_ns).min()?;
        let level = |least: &Least| {
            let moved_ns = drift.unwrap_or(0.0) * (least.time_ns - origin_ns) as f64;
            least.difference_ns - moved_ns as i64
        };
        let all = |direction: Transit| {
            self.windows.values().filter_map(move |it| it[direction as usize].as_ref())
        };
        let there_ns = all(Transit::ToSecond).map(level).min()?;
        let back_ns = all(Transit::ToFirst).map(level).max()?;
        Some(Clocks {
            offset_ns: there_ns.midpoint(back_ns),
            drift_ppm: drift.map(|drift| drift * 1e6),
            rtt_min_ns: u64::try_from(there_ns - back_ns).unwrap_or(0),
        })
    }

    /// Returns the slope of a line through the windows' differences (Theil-Sen estimator: the
    /// median of all slopes), if it is large compared with the deviations from it.
    fn drift(&self) -> Option<f64> {
        let middles: Vec<(f64, f64)> = self
            .windows
            .values()
            .filter_map(|[there, back]| {
                let (there, back) = (there.as_ref()?, back.as_ref()?);
                let time_ns = there.time_ns.midpoint(back.time_ns);
                Some((time_ns as f64, there.difference_ns.midpoint(back.difference_ns) as f64))
            })
            .collect();
        let (first, last) = (middles.first()?, middles.last()?);
        if middles.len() < DRIFT_WINDOWS {
            return None;
        }
        let pairs = middles.iter().enumerate().flat_map(|(index, from)| {
            middles[index + 1..].iter().map(move |to| (to.1 - from.1) / (to.0 - from.0).max(1.0))
        });
        let slope = median(pairs.collect())?;
        let base =
            median(middles.iter().map(|(time, ns)| ns - slope * (time - first.0)).collect())?;
        let apart = |(time, ns): &(f64, f64)| (ns - base - slope * (time - first.0)).abs();
        let noise = median(middles.iter().map(apart).collect())?;
        let moved = (slope * (last.0 - first.0)).abs();
        (moved > DRIFT_CLEAR * noise && slope.abs() * 1e6 <= DRIFT_PPM_MAX).then_some(slope)
    }
}

/// Keeps the faster packet: path delay increases the difference toward the second place, and
/// decreases it in the other direction.
fn keep(kept: &mut Option<Least>, direction: Transit, new: Least) {
    let rank = |least: &Least| match direction {
        Transit::ToSecond => (least.difference_ns, least.time_ns),
        Transit::ToFirst => (-least.difference_ns, least.time_ns),
    };
    if kept.as_ref().is_none_or(|kept| rank(&new) < rank(kept)) {
        *kept = Some(new);
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Returns packets in both directions, 20 ms apart, over a path of 10 ms with a queue, with a
    /// second clock that is ahead and runs fast.
    fn minima(count: u64, offset_ns: i64, drift_ppm: i64) -> Minima {
        let mut minima = Minima::default();
        for step in 0..count {
            let time_ns = 1_700_000_000_000_000_000 + step * 20_000_000;
            let ahead_ns = offset_ns + step as i64 * 20 * drift_ppm;
            let queue_ns = (step * 7919 % 13) as i64 * MS / 4;
            minima.sample(Transit::ToSecond, time_ns, ahead_ns + 10 * MS + queue_ns);
            minima.sample(Transit::ToFirst, time_ns + 1_000_000, ahead_ns - 10 * MS - queue_ns);
        }
        minima
    }

    #[test]
    fn the_offset_is_what_the_fastest_packets_have_in_common() {
        for offset_ns in [0, 3_700 * MS, -120 * MS] {
            let clocks = minima(500, offset_ns, 0).calibrate().unwrap();
            assert_eq!(clocks.offset_ns, offset_ns);
            assert_eq!(clocks.rtt_min_ns, 20 * MS as u64);
            assert_eq!(clocks.drift_ppm, None);
        }
    }

    #[test]
    fn a_drift_shows_and_does_not_shorten_the_path() {
        let clocks = minima(5_000, 50 * MS, 80).calibrate().unwrap();
        assert!((clocks.drift_ppm.unwrap() - 80.0).abs() < 2.0, "{clocks:?}");
        assert!(clocks.offset_ns.abs_diff(50 * MS) < 200_000, "{clocks:?}");
        assert!(clocks.rtt_min_ns.abs_diff(20 * MS as u64) < 400_000, "{clocks:?}");
    }

    #[test]
    fn parts_merge_to_the_whole_in_any_order() {
        let whole = minima(3_000, 5 * MS, 30).calibrate().unwrap();
        let mut parts: Vec<Minima> = (0..4).map(|_| Minima::default()).collect();
        for (index, part) in parts.iter_mut().enumerate() {
            let of_part = minima(3_000, 5 * MS, 30);
            for (_, window) in of_part.windows.iter().skip(index).step_by(4) {
                for (direction, least) in
                    [Transit::ToSecond, Transit::ToFirst].into_iter().zip(window)
                {
                    let least = least.unwrap();
                    part.sample(direction, least.time_ns, least.difference_ns);
                }
            }
        }
        for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
            let mut merged = Minima::default();
            order.iter().for_each(|&index| merged.merge(parts[index].clone()));
            assert_eq!(merged.calibrate(), Some(whole));
        }
    }

    #[test]
    fn one_direction_alone_calibrates_no_clock() {
        let mut minima = Minima::default();
        minima.sample(Transit::ToSecond, 1, 5);
        assert_eq!(minima.calibrate(), None);
    }

    /// Returns the drift that so many windows show, of which every second one has a queue in one
    /// direction.
    fn drift_ppm(windows: u64, ppm: u64, queue_ns: i64) -> Option<f64> {
        let mut minima = Minima::default();
        for step in 0..windows {
            let (time_ns, ahead_ns) = (step * 20_000_000, (step * 20 * ppm) as i64);
            let queued_ns = if step % 2 == 0 { queue_ns } else { 0 };
            minima.sample(Transit::ToSecond, time_ns, ahead_ns + 10 * MS + queued_ns);
            minima.sample(Transit::ToFirst, time_ns, ahead_ns - 10 * MS);
        }
        minima.calibrate().unwrap().drift_ppm
    }

    #[test]
    fn few_windows_and_what_no_crystal_does_are_no_drift() {
        assert!(drift_ppm(8, 300, 0).is_some() && drift_ppm(7, 300, 0).is_none());
        assert!(drift_ppm(50, 800, 0).is_some() && drift_ppm(50, 1_500, 0).is_none());
    }

    #[test]
    fn a_drift_is_clear_if_it_moves_the_clocks_further_than_queues_do() {
        assert!(drift_ppm(50, 100, 40_000).is_some() && drift_ppm(50, 100, 60_000).is_none());
    }
}
