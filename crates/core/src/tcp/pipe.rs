//! The bottleneck of the path: its rate, and the time for which sent data keeps it busy.

use crate::tcp::thresholds::RATE_BYTES_MIN;

/// Histogram of the delivered bytes by delivery rate.
///
/// The rate is taken from the fastest class with enough bytes, since stretched ACKs only lower a
/// sample. But ACK compression raises a few samples, so a quarter of the bytes may exceed the rate.
/// Delays within a host lengthen one ACK interval and shorten the next, so that neighbouring
/// classes are averaged.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Bytes by rate; a class is a quarter of an octave of bytes/s, from 2^10 up.
    bytes_by_rate: [u32; CLASSES],
    /// Time in which the bytes of each class were delivered, ns. The precision of 1 in 2^24
    /// suffices.
    ns_by_rate: [f32; CLASSES],
    /// Bytes in all classes.
    total_bytes: u64,
    /// The last estimate, bytes per second; 0 if it has to be computed again.
    rate: u64,
}

const CLASSES: usize = 112;
const CLASSES_PER_OCTAVE: f64 = 4.0;
const LOWEST_EXPONENT: f64 = 10.0;

impl Default for Rates {
    fn default() -> Self {
        let (bytes_by_rate, ns_by_rate) = ([0; CLASSES], [0.0; CLASSES]);
        Self { bytes_by_rate, ns_by_rate, total_bytes: 0, rate: 0 }
    }
}

impl Rates {
    /// Adds a sample: `bytes` were delivered in `ns`.
    pub fn sample(&mut self, bytes: u64, ns: u64) {
        let rate = bytes as f64 * 1e9 / ns.max(1) as f64;
        let class =
            ((rate.log2() - LOWEST_EXPONENT) * CLASSES_PER_OCTAVE).clamp(0.0, (CLASSES - 1) as f64);
        let (class, bytes) = (class as usize, bytes.min(u64::from(u32::MAX / 2)) as u32);
        if self.bytes_by_rate[class].checked_add(bytes).is_none() {
            self.halve();
        }
        self.bytes_by_rate[class] += bytes;
        self.ns_by_rate[class] += ns as f32;
        self.total_bytes += u64::from(bytes);
        self.rate = 0;
    }

    /// Halves all counts, so that they do not overflow; earlier samples then weigh less.
    #[cold]
    fn halve(&mut self) {
        self.bytes_by_rate.iter_mut().for_each(|bytes| *bytes /= 2);
        self.ns_by_rate.iter_mut().for_each(|ns| *ns /= 2.0);
        self.total_bytes = self.bytes_by_rate.iter().map(|&bytes| u64::from(bytes)).sum();
    }

    fn is_enough(&self) -> bool {
        self.total_bytes >= RATE_BYTES_MIN
    }

    /// Returns the rate in bytes per second, or `None` if there are too few samples.
    pub fn rate(&mut self) -> Option<u64> {
        if !self.is_enough() {
            return None;
        }
        if self.rate == 0 {
            let mut above = self.total_bytes / 4;
            for class in (0..CLASSES).rev() {
                let bytes = u64::from(self.bytes_by_rate[class]);
                if bytes > above {
                    self.rate = self.rate_around(class);
                    break;
                }
                above -= bytes;
            }
        }
        (self.rate > 0).then_some(self.rate)
    }

    /// Mean rate of `class` and its neighbours, bytes per second.
    fn rate_around(&self, class: usize) -> u64 {
        let around = class.saturating_sub(1)..(class + 2).min(CLASSES);
        let bytes: u64 = self.bytes_by_rate[around.clone()].iter().map(|&it| u64::from(it)).sum();
        let ns: f64 = self.ns_by_rate[around].iter().map(|&it| f64::from(it)).sum();
        (bytes as f64 * 1e9 / ns.max(1.0)) as u64
    }
}

/// Estimates the bottleneck rate from ACK spacing, and models when the bottleneck is idle.
///
/// A rate sample is the number of bytes acknowledged between two ACKs divided by the time between
/// them. It is taken only if those bytes were already in flight when the first of the two ACKs
/// reached the sender: then the path caused the spacing, and not a wait of the sender (the idea of
/// the delivery rate samples of draft-cardwell-iccrg-bbr, applied to a passive trace).
#[derive(Clone, Debug, Default)]
pub struct Pipe {
    rates: Rates,
    /// Samples from data that a pacing sender sent back to back; used if there are no others.
    at_once: Option<Box<Rates>>,
    /// The last estimate, bytes per second; 0 if there was none.
    rate: u64,
    /// Time until which the bottleneck is busy with data sent so far, ns on the vantage's clock.
    busy_until_ns: u64,
    /// Bytes sent from `busy_until_ns` on, before a rate was known.
    unrated_bytes: u64,
    /// Time for which the bottleneck was idle since the last [`Pipe::mark`], ns.
    idle_ns: u64,
}

impl Pipe {
    /// Adds a sample: `bytes` were delivered in `ns`.
    pub fn sample(&mut self, bytes: u64, ns: u64) {
        self.rates.sample(bytes, ns);
    }

    /// Adds a sample: `bytes` that were sent back to back arrived within `ns`, after a pause longer
    /// than that.
    pub fn sample_at_once(&mut self, bytes: u64, ns: u64) {
        self.at_once.get_or_insert_default().sample(bytes, ns);
    }

    /// Returns whether there are enough samples of data sent back to back.
    pub fn knows_at_once(&self) -> bool {
        self.at_once.as_ref().is_some_and(|rates| rates.is_enough())
    }

    /// Discards the samples: the path did not cause the ACK spacing so far.
    pub fn forget(&mut self) {
        self.rates = Rates::default();
    }

    /// Bottleneck rate, bytes per second; `None` if there are too few samples.
    pub fn rate(&mut self) -> Option<u64> {
        let rate = self.rates.rate().or_else(|| self.at_once.as_mut()?.rate());
        self.rate = rate.unwrap_or(0);
        rate
    }

    /// The last estimate of the bottleneck rate, bytes per second.
    pub fn last_rate(&self) -> Option<u64> {
        (self.rate > 0).then_some(self.rate)
    }

    /// Adds `bytes` that were sent at `now_ns`, after which `flight_bytes` were in flight.
    pub fn fill(&mut self, now_ns: u64, bytes: u64, flight_bytes: u64) {
        let Some(rate) = self.rate() else {
            if self.unrated_bytes == 0 || flight_bytes <= bytes {
                self.busy_until_ns = now_ns;
                self.unrated_bytes = 0;
            }
            self.unrated_bytes = (self.unrated_bytes + bytes).min(flight_bytes);
            return;
        };
        self.rate_the_unrated(rate);
        self.idle_ns += now_ns.saturating_sub(self.busy_until_ns);
        let queued = self.busy_until_ns.max(now_ns) + transmission_ns(bytes, rate);
        self.busy_until_ns = queued.min(now_ns + transmission_ns(flight_bytes, rate));
    }

    /// Adds bytes sent before the first rate estimate to the busy time.
    fn rate_the_unrated(&mut self, rate: u64) {
        self.busy_until_ns += transmission_ns(std::mem::take(&mut self.unrated_bytes), rate);
    }

    /// Starts a new interval for [`Self::busy_ns`] at the last departure.
    pub fn mark(&mut self) {
        self.idle_ns = 0;
    }

    /// Returns the part of `start_ns..end_ns` in which the bottleneck was busy with data sent
    /// before, ns. A spurious retransmission may have been sent in between; the bottleneck may have
    /// been idle before it.
    pub fn busy_ns(&mut self, start_ns: u64, end_ns: u64) -> u64 {
        if self.unrated_bytes > 0
            && let Some(rate) = self.rate()
        {
            self.rate_the_unrated(rate);
        }
        let until_ns = self.busy_until_ns.clamp(start_ns, end_ns.max(start_ns));
        (until_ns - start_ns).saturating_sub(self.idle_ns)
    }
}

pub fn transmission_ns(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_at_link_rate_give_the_link_rate_though_the_average_is_far_below() {
        let mut pipe = Pipe::default();
        for _round in 0..20 {
            for _ack in 0..6 {
                pipe.sample(2896, 231_680);
            }
            pipe.sample(2896, 18_000_000);
        }
        let rate = pipe.rate().unwrap_or(0) as f64;
        assert!((rate / 12.5e6 - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn occasional_delays_in_hosts_do_not_raise_the_link_rate() {
        let mut pipe = Pipe::default();
        for late_ns in [0, 60_000, 20_000, 80_000, 0, 40_000].repeat(20) {
            // A late sample makes the next one early by the same time.
            pipe.sample(2896, 231_680 + late_ns);
            pipe.sample(2896, 231_680 - late_ns);
        }
        let rate = pipe.rate().unwrap_or(0) as f64;
        assert!((rate / 12.5e6 - 1.0).abs() < 0.05, "{rate}");
    }

    #[test]
    fn counters_do_not_overflow() {
        let mut pipe = Pipe::default();
        for _ in 0..8 {
            pipe.sample(1 << 30, 1_000_000_000);
        }
        let rate = pipe.rate().unwrap_or(0) as f64;
        assert!((rate / f64::from(1 << 30) - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn data_sent_before_the_first_rate_estimate_keeps_the_bottleneck_busy() {
        let mut pipe = Pipe::default();
        pipe.fill(0, 50_000, 50_000);
        pipe.fill(0, 50_000, 100_000);
        assert_eq!(pipe.busy_ns(0, u64::MAX / 2), 0);
        pipe.sample(100_000, 1_000_000_000);
        let rate = pipe.rate().unwrap_or(0);
        assert_eq!(pipe.busy_ns(0, u64::MAX / 2), transmission_ns(100_000, rate));
    }

    #[test]
    fn the_bottleneck_is_busy_no_longer_than_the_flight_takes() {
        let mut pipe = Pipe::default();
        pipe.sample(100_000, 1_000_000_000);
        let rate = pipe.rate().unwrap_or(0);
        pipe.fill(0, 1_000_000, 1_000);
        assert_eq!(pipe.busy_ns(0, u64::MAX / 2), 1_000 * 1_000_000_000 / rate);
    }
}
