//! Compares a sender's timestamp clock (RFC 7323 §5.4) with the capture's clock, which shows how
//! much longer each packet was on its way than the fastest one.
//!
//! Two measures bound that delay from below, and the greater one counts. Once a clock is known to run
//! in milliseconds, each packet is compared with the fastest one so far. Before that, and on clocks
//! with longer ticks, it is compared with the last packet that shows no delay and came no later than its
//! timestamp says, by an upper bound of the tick: the sender cannot have taken longer from its first
//! packet to this one than the capture saw, plus the delay of that first packet. So the packets of a
//! burst, which have one timestamp, show how far the path has spread them.

use crate::judge::thresholds::RTO_INITIAL_NS;
use crate::tcp::thresholds::{TIMESTAMP_DRIFT_PPM, TIMESTAMP_PROOF_NS, TIMESTAMP_TICK_NS};
use crate::wire::{Segment, SegmentFlags};

/// Binary logarithm of the step in which drift is followed, ns. The step is a power of two because
/// it is computed for every packet.
const STEP_BITS: u32 = 20;

/// Binary logarithm of the unit of `mark_at`, ns, in which the longest connections fit into 32 bits.
const MARK_BITS: u32 = 14;

/// Binary logarithm of the unit in which a falling delay is kept, ns, in one byte.
const FALL_BITS: u32 = 22;

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
    /// Most by which the difference of a packet lay below that of the packet before, in steps of 2^22 ns.
    fell: u8,
    /// Upper bound of the tick of the sender's clock, ns, not less than [`TIMESTAMP_TICK_NS`]; 0 while
    /// nothing bounds it.
    tick_max_ns: u32,
    /// The last packet that shows no delay by that bound: its ticks after the first packet.
    mark_ticks: u32,
    /// Its time after the first packet, in units of 2^14 ns.
    mark_at: u32,
    /// The latest timestamp so far: its ticks after the first packet.
    latest_ticks: u32,
    /// The time at which it first passed the vantage, after the first packet, in units of 2^14 ns.
    latest_at: u32,
    /// Longest time for which the first packet can have been on its way to the vantage, ns; 0 if
    /// unknown.
    first_late_ns: u32,
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
        if ticks > self.latest_ticks {
            self.latest_ticks = ticks;
            self.latest_at = u32::try_from(here_ns >> MARK_BITS).unwrap_or(u32::MAX);
        }
        if sender_ns > here_ns.max(TIMESTAMP_PROOF_NS as i64).saturating_mul(2) {
            self.state = ClockState::Unusable;
            return;
        }
        let late_ns = self.late_ns(ticks, here_ns as u64);
        let difference_ns = here_ns - sender_ns;
        if self.state == ClockState::Unproven
            && here_ns >= TIMESTAMP_PROOF_NS as i64
            && 2 * sender_ns >= here_ns
        {
            self.state = ClockState::Runs;
        }
        let step = (here_ns >> STEP_BITS).min(u32::MAX.into()) as u32;
        let least_ns = self.least_ns + i64::from(step.saturating_sub(self.least_at)) * DRIFT_NS;
        self.follow(difference_ns - least_ns);
        if difference_ns < least_ns {
            (self.least_ns, self.least_at) = (difference_ns, step);
        }
        let runs = self.state == ClockState::Runs;
        let beyond_ns = if runs { (difference_ns - least_ns).max(0) as u64 } else { 0 };
        self.queue(u32::try_from(beyond_ns.max(late_ns)).unwrap_or(u32::MAX));
    }

    /// Returns by how much a packet, `here_ns` and so many `ticks` after the first one, was at least
    /// longer on its way than the last packet that was not late, ns, plus one tick if it was: that is
    /// what the capture saw between the two, less the longest time that their timestamps allow.
    /// Lowers the bound of the tick. A packet sent before that one shows nothing.
    #[inline]
    fn late_ns(&mut self, ticks: u32, here_ns: u64) -> u64 {
        // Two timestamps that differ by `ticks` are at least a tick less than that apart.
        let first_late_ns = match self.first_late_ns {
            0 => RTO_INITIAL_NS,
            ns => ns.into(),
        };
        let (whole, most_ns) =
            (u64::from(ticks.saturating_sub(1)), here_ns.saturating_add(first_late_ns));
        let bound_ns = u64::from(self.tick_max_ns);
        if whole > 0
            && (bound_ns == 0 || bound_ns > TIMESTAMP_TICK_NS && whole * bound_ns > most_ns)
        {
            let tick_ns = (most_ns / whole).max(TIMESTAMP_TICK_NS);
            self.tick_max_ns = u32::try_from(tick_ns).unwrap_or(u32::MAX);
        }
        let since_ns = here_ns.saturating_sub(u64::from(self.mark_at) << MARK_BITS);
        let apart = ticks.wrapping_sub(self.mark_ticks);
        let drift_ns = (since_ns >> STEP_BITS) * DRIFT_NS as u64;
        let stamped_ns = (u64::from(apart) + 1).saturating_mul(self.tick_max_ns.into());
        let sent_ns = stamped_ns.saturating_add(drift_ns);
        let is_bounded = self.tick_max_ns > 0 && apart <= i32::MAX as u32;
        if is_bounded && since_ns > sent_ns && self.mark_at < u32::MAX {
            return since_ns - sent_ns + TIMESTAMP_TICK_NS;
        }
        // By the bound of the tick, a packet that came later shows less: it can have left as late.
        let is_later = is_bounded && since_ns > u64::from(apart) * u64::from(self.tick_max_ns);
        if apart <= i32::MAX as u32 && !is_later {
            self.mark_ticks = ticks;
            self.mark_at = u32::try_from(here_ns.div_ceil(1 << MARK_BITS)).unwrap_or(u32::MAX);
        }
        0
    }

    /// Records by how much a packet, whose difference lies `beyond_ns` above the least one so far or below
    /// it, was on its way for a shorter time than the one before.
    #[inline]
    fn follow(&mut self, beyond_ns: i64) {
        let fell = (i64::from(self.queued_ns) - beyond_ns).max(0) >> FALL_BITS;
        self.fell = self.fell.max(u8::try_from(fell).unwrap_or(u8::MAX));
    }

    /// Most by which a packet was on its way for a shorter time than the one before, ns, less up to 4 ms. On a
    /// route that becomes longer for good, that is what the path varies by.
    pub fn fell_ns(&self) -> u64 {
        let runs = self.state == ClockState::Runs;
        if runs { u64::from(self.fell) << FALL_BITS } else { 0 }
    }

    /// Records the difference of a packet. To record it twice makes no difference.
    #[inline]
    fn queue(&mut self, queued_ns: u32) {
        if queued_ns != self.queued_ns {
            self.before = (self.queued_ns >> 16) as u16;
            self.queued_ns = queued_ns;
        }
    }

    /// Records that the first packet answered one that had passed the vantage `ns` before it. Without
    /// that, it is taken to have been under way for no longer than a sender waits for the answer.
    pub fn bound_first(&mut self, ns: u64) {
        let ns = u32::try_from(ns.max(1)).unwrap_or(u32::MAX);
        if self.first_late_ns == 0 || ns < self.first_late_ns {
            self.first_late_ns = ns;
        }
    }

    /// Begins anew with `segment`, which answers a packet that passed the vantage `ns` before it, if the
    /// timestamps so far say that it was on its way for longer: they run by another clock.
    #[inline]
    pub fn check_answer(&mut self, segment: &Segment, ns: u64) {
        if self.queued_ns() > ns {
            *self = Self::default();
            self.observe_packet(segment);
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

    /// Returns the time at which the latest timestamp first passed the vantage, ns, if that is `echoed`: what
    /// echoes it left later (RFC 7323 §4.3). `None` for an earlier one.
    pub fn first_passed_ns(&self, echoed: u32) -> Option<u64> {
        let is_latest = echoed == self.first_tsval.wrapping_add(self.latest_ticks);
        let is_known = self.is_usable() && self.state != ClockState::Unseen;
        let is_timed = self.latest_at < u32::MAX;
        (is_latest && is_known && is_timed)
            .then(|| self.first_ns.saturating_add(u64::from(self.latest_at) << MARK_BITS))
    }

    /// Returns whether what passed at `earlier_ns` had an earlier timestamp than the last packet, `tsval` at
    /// `now_ns`: the latter was new after it. If that time is not known, the packet has to be the first with
    /// its timestamp. Timestamps never go backward (RFC 7323 §5.4), at whatever rate they advance.
    pub fn is_newer(&self, tsval: u32, now_ns: u64, earlier_ns: Option<u64>) -> bool {
        let earlier_ns = earlier_ns.unwrap_or(now_ns.saturating_sub(1 << MARK_BITS));
        self.first_passed_ns(tsval).is_some_and(|first_ns| earlier_ns < first_ns)
    }

    /// Returns whether the clock is known to run in milliseconds, so that each packet is compared with the
    /// fastest one.
    pub fn runs(&self) -> bool {
        self.state == ClockState::Runs
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
    fn a_packet_that_took_less_than_an_earlier_one_shows_no_longer_route() {
        let fell_ms = |late_ms: &[u64]| {
            let mut clock = SenderClock::default();
            for (tick, late_ms) in (0..).map(|it| 20 * it).zip(late_ms) {
                clock.observe(7_000 + tick, (1_000 + u64::from(tick) + late_ms) * 1_000_000);
            }
            clock.fell_ns() / 1_000_000
        };
        assert_eq!(fell_ms(&[0, 0, 0, 0, 0, 0, 0, 100, 100, 100, 100]), 0);
        assert_eq!(fell_ms(&[0, 0, 0, 0, 0, 0, 0, 100, 100, 0, 100]), 96);
        assert_eq!(fell_ms(&[100, 100, 100, 100, 100, 100, 100, 100, 20]), 79, "of the first ones");
    }

    #[test]
    fn an_answer_that_came_sooner_than_its_delay_begins_the_clock_anew() {
        let packet = |tsval, time_ns| {
            let facts = SegmentFlags(SegmentFlags::TIMESTAMPS);
            Segment { tsval, time_ns, facts, ..Segment::default() }
        };
        let mut clock = SenderClock::default();
        clock.observe_packet(&packet(1_000, 0));
        let answer = packet(1_700, 1_000_000_000);
        clock.observe_packet(&answer);
        assert!(clock.queued_ns() > 250_000_000);
        clock.check_answer(&answer, 300_000_000);
        assert!(clock.queued_ns() > 250_000_000, "it may have been under way for so long");
        clock.check_answer(&answer, 5_000_000);
        assert_eq!(clock.queued_ns(), 0);
    }

    /// Returns the least delay that the last of these packets shows, ms; each has its timestamp, with
    /// ticks of `tick_ms`, and its time of arrival in ms. The handshake precedes them.
    fn late_ms(tick_ms: u64, packets: &[(u64, u64)]) -> u64 {
        let mut clock = SenderClock::default();
        clock.bound_first(20_000_000);
        let handshake = [(0, 0), (40, 40)];
        for (sent_ms, here_ms) in handshake.iter().chain(packets) {
            let segment = Segment {
                tsval: (*sent_ms / tick_ms) as u32,
                time_ns: 1_000_000_000 + here_ms * 1_000_000,
                facts: SegmentFlags(SegmentFlags::TIMESTAMPS),
                ..Segment::default()
            };
            clock.observe_packet(&segment);
            clock.observe_packet(&segment);
        }
        clock.queued_ns() / 1_000_000
    }

    #[test]
    fn a_burst_with_one_timestamp_shows_how_far_the_path_has_spread_it() {
        assert!((90..=99).contains(&late_ms(1, &[(41, 41), (41, 85), (41, 140)])));
    }

    #[test]
    fn gaps_below_a_tick_that_no_timestamp_counts_add_up() {
        let burst: Vec<_> = (0..8).map(|gap| (40, 41 + 6 * gap)).collect();
        assert!((18..=24).contains(&late_ms(10, &burst)), "42 ms less a tick of 20 ms at most");
        let written: Vec<_> = (0..8).map(|gap| (40 + 6 * gap, 41 + 6 * gap)).collect();
        assert_eq!(late_ms(10, &written), 0);
    }

    #[test]
    fn a_pause_of_the_sender_advances_its_timestamp() {
        for tick_ms in [1, 4, 10] {
            assert_eq!(late_ms(tick_ms, &[(41, 41), (240, 240), (540, 540)]), 0, "{tick_ms} ms");
        }
    }

    #[test]
    fn a_coarse_clock_shows_only_what_exceeds_its_tick() {
        assert!((270..=296).contains(&late_ms(4, &[(41, 41), (41, 341)])));
        assert!((250..=290).contains(&late_ms(10, &[(41, 41), (41, 341)])));
        assert_eq!(late_ms(10, &[(41, 41), (49, 60)]), 0, "within a tick");
        assert_eq!(late_ms(100, &[(141, 141), (141, 200)]), 0);
    }

    #[test]
    fn a_timestamp_that_stands_still_is_no_clock() {
        let mut clock = SenderClock::default();
        for step in 0..100u64 {
            clock.observe(7_000, 1_000_000_000 + step * 50_000_000);
            assert_eq!(clock.queued_ns(), 0);
        }
    }

    #[test]
    fn a_first_packet_that_may_have_been_late_leaves_the_tick_open() {
        let mut clock = SenderClock::default();
        for (tsval, ms) in [(0, 900), (5, 1_000), (10, 1_500), (10, 1_560)] {
            clock.observe(tsval, ms * 1_000_000);
            assert_eq!(clock.queued_ns(), 0, "the tick is 150 ms, and the first took 650 ms more");
        }
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
