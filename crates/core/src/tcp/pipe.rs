//! The bottleneck: how fast it is, and until when what was sent keeps it busy.

/// Bytes passed on, by how fast that was.
///
/// What is fastest among them is the rate: stretched ACKs only lower a sample. But ACK compression raises
/// a few, so a quarter of the bytes may exceed it; and what is late by as much as a host takes makes one
/// distance shorter and the next longer, so that only those that are alike tell it together.
#[derive(Clone, Debug)]
pub struct Rates {
    /// By rate, in quarters of an octave of bytes/s from 2^10 up.
    bytes_by_rate: [u32; CLASSES],
    /// In how long those were passed on, ns: one part in 2^24 is more than is asked of it.
    ns_by_rate: [f32; CLASSES],
    /// In all.
    total_bytes: u64,
    /// The last estimate, bytes per second; 0 if it has to be made again.
    rate: u64,
}

const CLASSES: usize = 112;
const LOWEST_EXPONENT: f64 = 10.0;

/// Fewer sampled bytes than this say nothing about a rate.
const ENOUGH_BYTES: u64 = 8_000;

impl Default for Rates {
    fn default() -> Self {
        let (bytes_by_rate, ns_by_rate) = ([0; CLASSES], [0.0; CLASSES]);
        Self { bytes_by_rate, ns_by_rate, total_bytes: 0, rate: 0 }
    }
}

impl Rates {
    /// Takes a sample: `bytes` were passed on in `ns`.
    pub fn sample(&mut self, bytes: u64, ns: u64) {
        let rate = bytes as f64 * 1e9 / ns.max(1) as f64;
        let class = ((rate.log2() - LOWEST_EXPONENT) * 4.0).clamp(0.0, (CLASSES - 1) as f64);
        let (class, bytes) = (class as usize, bytes.min(u64::from(u32::MAX / 2)) as u32);
        if self.bytes_by_rate[class].checked_add(bytes).is_none() {
            self.halve();
        }
        self.bytes_by_rate[class] += bytes;
        self.ns_by_rate[class] += ns as f32;
        self.total_bytes += u64::from(bytes);
        self.rate = 0;
    }

    /// There is no room for more of one class: what was earlier counts less.
    #[cold]
    fn halve(&mut self) {
        self.bytes_by_rate.iter_mut().for_each(|bytes| *bytes /= 2);
        self.ns_by_rate.iter_mut().for_each(|ns| *ns /= 2.0);
        self.total_bytes = self.bytes_by_rate.iter().map(|&bytes| u64::from(bytes)).sum();
    }

    fn is_enough(&self) -> bool {
        self.total_bytes >= ENOUGH_BYTES
    }

    /// Bytes per second; `None` before there is evidence of a rate.
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

    /// How fast that class and those next to it were together, bytes per second.
    fn rate_around(&self, class: usize) -> u64 {
        let around = class.saturating_sub(1)..(class + 2).min(CLASSES);
        let bytes: u64 = self.bytes_by_rate[around.clone()].iter().map(|&it| u64::from(it)).sum();
        let ns: f64 = self.ns_by_rate[around].iter().map(|&it| f64::from(it)).sum();
        (bytes as f64 * 1e9 / ns.max(1.0)) as u64
    }
}

/// Estimates the bottleneck rate from ACK spacing, and models when the pipe runs dry.
///
/// A rate sample is the bytes acknowledged between two ACKs over the time between them, taken
/// only where those bytes were already in flight when the first of the two reached the sender:
/// then the spacing was made by the path, not by the sender waiting (the idea of the delivery
/// rate samples of draft-cardwell-iccrg-bbr, turned to a passive trace).
#[derive(Clone, Debug, Default)]
pub struct Pipe {
    rates: Rates,
    /// The same of what a sender that paces itself sent at once: says something where there is no
    /// other evidence.
    at_once: Option<Box<Rates>>,
    /// The last estimate, bytes per second; 0 if there was none.
    rate: u64,
    /// Until when the pipe is busy with what has been sent, ns on the vantage's clock.
    busy_until_ns: u64,
    /// What was sent from then on, before there was evidence of a rate.
    unrated_bytes: u64,
    /// How long it has run dry since the last [`Pipe::mark`], ns.
    dry_ns: u64,
}

impl Pipe {
    /// Takes a sample: `bytes` were delivered in `ns`.
    pub fn sample(&mut self, bytes: u64, ns: u64) {
        self.rates.sample(bytes, ns);
    }

    /// Takes a sample: `bytes` that followed others at once arrived within `ns`, after a longer pause
    /// than that.
    pub fn sample_at_once(&mut self, bytes: u64, ns: u64) {
        self.at_once.get_or_insert_default().sample(bytes, ns);
    }

    /// Whether there were enough of these.
    pub fn knows_at_once(&self) -> bool {
        self.at_once.as_ref().is_some_and(|rates| rates.is_enough())
    }

    /// The distances between ACKs so far were not the path's.
    pub fn forget(&mut self) {
        self.rates = Rates::default();
    }

    /// Bottleneck rate, bytes per second; `None` before there is evidence of one.
    pub fn rate(&mut self) -> Option<u64> {
        let rate = self.rates.rate().or_else(|| self.at_once.as_mut()?.rate());
        self.rate = rate.unwrap_or(0);
        rate
    }

    /// Bottleneck rate as estimated last, bytes per second.
    pub fn rate_known(&self) -> Option<u64> {
        (self.rate > 0).then_some(self.rate)
    }

    /// `bytes` were sent at `now_ns`, with `flight_bytes` in flight after it.
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
        self.dry_ns += now_ns.saturating_sub(self.busy_until_ns);
        let queued = self.busy_until_ns.max(now_ns) + serialise_ns(bytes, rate);
        self.busy_until_ns = queued.min(now_ns + serialise_ns(flight_bytes, rate));
    }

    /// What was sent before there was a rate fills the pipe all the same.
    fn rate_the_unrated(&mut self, rate: u64) {
        self.busy_until_ns += serialise_ns(std::mem::take(&mut self.unrated_bytes), rate);
    }

    /// What was sent last begins what [`Self::busy_ns`] will be asked for.
    pub fn mark(&mut self) {
        self.dry_ns = 0;
    }

    /// How much of `start_ns..end_ns` the pipe was busy with what had been sent, ns; nothing
    /// that counts was sent between. It may have run dry before a needless repetition.
    pub fn busy_ns(&mut self, start_ns: u64, end_ns: u64) -> u64 {
        if self.unrated_bytes > 0
            && let Some(rate) = self.rate()
        {
            self.rate_the_unrated(rate);
        }
        let until_ns = self.busy_until_ns.clamp(start_ns, end_ns.max(start_ns));
        (until_ns - start_ns).saturating_sub(self.dry_ns)
    }
}

pub fn serialise_ns(bytes: u64, rate: u64) -> u64 {
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
    fn hosts_that_are_late_now_and_then_do_not_make_a_link_faster() {
        let mut pipe = Pipe::default();
        for late_ns in [0, 60_000, 20_000, 80_000, 0, 40_000].repeat(20) {
            // As much as one is late, the next comes sooner.
            pipe.sample(2896, 231_680 + late_ns);
            pipe.sample(2896, 231_680 - late_ns);
        }
        let rate = pipe.rate().unwrap_or(0) as f64;
        assert!((rate / 12.5e6 - 1.0).abs() < 0.05, "{rate}");
    }

    #[test]
    fn a_rate_outlasts_more_bytes_than_are_counted() {
        let mut pipe = Pipe::default();
        for _ in 0..8 {
            pipe.sample(1 << 30, 1_000_000_000);
        }
        let rate = pipe.rate().unwrap_or(0) as f64;
        assert!((rate / f64::from(1 << 30) - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn what_is_sent_before_there_is_a_rate_fills_the_pipe() {
        let mut pipe = Pipe::default();
        pipe.fill(0, 50_000, 50_000);
        pipe.fill(0, 50_000, 100_000);
        assert_eq!(pipe.busy_ns(0, u64::MAX / 2), 0);
        pipe.sample(100_000, 1_000_000_000);
        let rate = pipe.rate().unwrap_or(0);
        assert_eq!(pipe.busy_ns(0, u64::MAX / 2), serialise_ns(100_000, rate));
    }

    #[test]
    fn the_pipe_is_busy_no_longer_than_its_flight_takes() {
        let mut pipe = Pipe::default();
        pipe.sample(100_000, 1_000_000_000);
        let rate = pipe.rate().unwrap_or(0);
        pipe.fill(0, 1_000_000, 1_000);
        assert_eq!(pipe.busy_ns(0, u64::MAX / 2), 1_000 * 1_000_000_000 / rate);
    }
}
