//! Compares a sender's timestamp clock (RFC 7323 §5.4) with the capture's clock, which shows how
//! much longer each packet was on its way than the fastest one.

use crate::tcp::thresholds::{TIMESTAMP_DRIFT_PPM, TIMESTAMP_PROOF_NS, TIMESTAMP_TICK_NS};
use crate::wire::{Segment, SegmentFlags};

/// Binary logarithm of the step in which drift is followed, ns. The step is a power of two because
/// it is computed for every packet.
const STEP_BITS: u32 = 20;

/// Drift allowed per step, ns.
const DRIFT_NS: i64 = (TIMESTAMP_DRIFT_PPM << STEP_BITS) / 1_000_000;

/// Compares a sender's timestamps with capture times.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderClock {
    state: ClockState,
    first_tsval: u32,
    first_ns: u64,
    /// Least difference between capture time and sender's time, ns.
    least_ns: i64,
    /// Time at which the least difference was seen, in steps after the first packet.
    least_at: u32,
    /// Difference of the last packet beyond the least difference, ns; at most [`u32::MAX`].
    queued_ns: u32,
    /// The same of the packet before, in steps of 2^16 ns: each open connection has two of these clocks.
    before: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ClockState {
    #[default]
    Unseen,
    /// It is not yet known whether the clock runs in milliseconds.
    Unproven,
    /// The clock runs in milliseconds, or slower by no more than queues explain.
    Runs,
    /// The clock does not run in milliseconds, or the capture's clock was set.
    Unusable,
}

impl SenderClock {
    /// Records that a packet with timestamp `tsval` passed the vantage.
    #[inline]
    pub fn observe(&mut self, tsval: u32, time_ns: u64) {
        if self.state == ClockState::Unseen {
            let (first_tsval, first_ns) = (tsval, time_ns);
            *self = Self { state: ClockState::Unproven, first_tsval, first_ns, ..*self };
        }
        let ticks = tsval.wrapping_sub(self.first_tsval);
        if ticks > i32::MAX as u32 || self.state == ClockState::Unusable {
            self.queued_ns = 0;
            return;
        }
        let sender_ns = i64::from(ticks) * TIMESTAMP_TICK_NS as i64;
        let here_ns = time_ns.saturating_sub(self.first_ns) as i64;
        if sender_ns > here_ns.max(TIMESTAMP_PROOF_NS as i64).saturating_mul(2) {
            self.state = ClockState::Unusable;
            return;
        }
        let difference_ns = here_ns - sender_ns;
        if self.state == ClockState::Unproven
            && here_ns >= TIMESTAMP_PROOF_NS as i64
            && 2 * sender_ns >= here_ns
        {
            self.state = ClockState::Runs;
        }
        let step = (here_ns >> STEP_BITS).min(u32::MAX.into()) as u32;
        let least_ns = self.least_ns + i64::from(step.saturating_sub(self.least_at)) * DRIFT_NS;
        if difference_ns < least_ns {
            (self.least_ns, self.least_at) = (difference_ns, step);
            self.queue(0);
        } else if self.state == ClockState::Runs {
            self.queue(u32::try_from(difference_ns - least_ns).unwrap_or(u32::MAX));
        }
    }

    /// Records the difference of a packet. To record it twice makes no difference.
    #[inline]
    fn queue(&mut self, queued_ns: u32) {
        if queued_ns != self.queued_ns {
            self.before = (self.queued_ns >> 16) as u16;
            self.queued_ns = queued_ns;
        }
    }

    /// Records the timestamp of the packet `segment`, if it has one.
    #[inline]
    pub fn observe_packet(&mut self, segment: &Segment) {
        if segment.facts.has(SegmentFlags::TIMESTAMPS) {
            self.observe(segment.tsval, segment.time_ns);
        }
    }

    /// Returns whether the timestamp of `segment`, which carries new data, shows that it was
    /// queued. Records the timestamp; to record it twice makes no difference.
    #[inline]
    pub fn is_queued(&mut self, segment: &Segment) -> bool {
        self.observe_packet(segment);
        self.queued_ns() > 0
    }

    /// Time between two timestamps by the sender's clock, ns, to within a tick; `None` if the clock
    /// is known to run at another rate.
    pub fn between_ns(&self, from: u32, to: u32) -> Option<u64> {
        let ticks = (to.wrapping_sub(from) as i32).max(0) as u64;
        self.is_usable().then_some(ticks * TIMESTAMP_TICK_NS)
    }

    /// Returns whether the timestamps may be used: neither does the sender's clock run at another
    /// rate, nor was the capture's clock set.
    pub fn is_usable(&self) -> bool {
        self.state != ClockState::Unusable
    }

    /// Returns whether packets sent `apart_ns` apart have different timestamps.
    pub fn distinguishes(&self, apart_ns: u64) -> bool {
        self.state == ClockState::Runs && apart_ns >= 2 * TIMESTAMP_TICK_NS
    }

    /// Stops using the timestamps: the capture's clock was set, so that earlier differences mean
    /// nothing.
    pub fn stop_using(&mut self) {
        self.state = ClockState::Unusable;
        self.queued_ns = 0;
    }

    /// Queueing delay of the last packet compared with the fastest one, ns, less one tick of
    /// uncertainty.
    pub fn queued_ns(&self) -> u64 {
        u64::from(self.queued_ns.saturating_sub(TIMESTAMP_TICK_NS as u32))
    }

    /// Part of that by which the delay has grown since the packet before, ns. If nothing of the sender
    /// was in flight, its own queue was empty, and the rest of the delay is that of other packets, or
    /// two clocks of different rates.
    pub fn grown_ns(&self) -> u64 {
        self.queued_ns().saturating_sub(u64::from(self.before) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_shows_that_its_packet_was_queued() {
        let mut clock = SenderClock::default();
        for tick in 0..150u32 {
            clock.observe(7_000 + tick, 1_000_000_000 + u64::from(tick) * 1_000_000);
        }
        assert_eq!(clock.queued_ns(), 0);
        clock.observe(7_150, 1_000_000_000 + 180_000_000);
        assert!(clock.queued_ns().abs_diff(30_000_000) < 2_000_000);
    }

    #[test]
    fn a_clock_that_is_slow_shows_little_growth_of_its_delay_from_packet_to_packet() {
        let mut clock = SenderClock::default();
        for tick in (0..2_000u32).step_by(100) {
            let here_ns = u64::from(tick) * 1_030_000;
            clock.observe(tick, 1_000_000_000 + here_ns);
            clock.observe(tick, 1_000_000_000 + here_ns);
            assert!(clock.grown_ns() <= 3_000_000, "{}", clock.grown_ns());
        }
        assert!(clock.queued_ns() > 50_000_000);
    }

    #[test]
    fn a_clock_of_another_rate_is_not_used() {
        let mut clock = SenderClock::default();
        for step in 0..400u32 {
            clock.observe(step * 1_000, 1_000_000_000 + u64::from(step) * 1_000_000);
        }
        assert_eq!(clock.queued_ns(), 0);
    }

    #[test]
    fn a_clock_that_ticks_every_hundredth_of_a_second_shows_no_queue() {
        let mut clock = SenderClock::default();
        for step in 0..400u32 {
            clock.observe(step / 10, 1_000_000_000 + u64::from(step) * 1_000_000);
            assert_eq!(clock.queued_ns(), 0);
        }
    }
}
