//! Keeps the CPU time of a watch within a budget: if it spends more, fewer connections are
//! captured.

use super::state::STATE_PART;
use std::time::Duration;
use tcpwhy_live::sample::Share;

/// Share of a budget that reports may take before fewer connections are captured.
pub const REPORTS_PART: f64 = 0.25;
/// Number of open connections that should be among those captured, whatever the budget: without
/// any, the report would be empty.
const CONNECTIONS_MIN: f64 = 2.0;
/// Share of a budget that capturing has in any case, so that something is captured even if the
/// kernel's part alone exceeds the budget.
const CAPTURE_PART_MIN: f64 = 0.125;

/// Number of consecutive calm intervals after which more connections are captured.
const CALM: u32 = 2;
/// Time after a change of the share in which frames of the earlier share are still processed; their
/// cost says nothing about the new share.
const SETTLES: Duration = Duration::from_secs(1);
/// An interval is calm if it spends less than this part of its allowance: then twice the
/// connections stay within it.
const CALM_PART: f64 = 0.4;
/// Before this much of an interval has passed, its rate of spending is not yet meaningful.
const LEAST: Duration = Duration::from_millis(100);

/// Returns what capturing may spend of `budget`, as a share of one CPU, after reports, readings of
/// sockets, and the `tap_share` that capturing costs the kernel.
pub fn capture_share(budget: f64, tap_share: f64) -> f64 {
    let left = budget * (1.0 - STATE_PART - REPORTS_PART) - tap_share;
    left.max(budget * CAPTURE_PART_MIN)
}

/// Returns the smallest share of connections to capture, given about `open` open connections and
/// that with less than `seen` nothing was captured.
pub fn least_share(open: f64, seen: Share) -> Share {
    Share::not_below((CONNECTIONS_MIN / open.max(1.0)).max(seen.value()))
}

/// Compares the CPU time spent with the allowance.
pub struct Meter {
    /// Allowance as a share of one CPU; `None` is unlimited.
    share: Option<f64>,
    interval: Duration,
    /// Time at which the current interval began, and CPU time spent until then.
    began: (Duration, Duration),
    calm: u32,
    settled: Duration,
}

impl Meter {
    /// Creates a meter that begins at `now`, on any clock, with `cpu` spent so far.
    pub fn new(share: Option<f64>, interval: Duration, now: Duration, cpu: Duration) -> Self {
        Self { share, interval, began: (now, cpu), calm: 0, settled: now }
    }

    /// Sets the allowance from now on, as a share of one CPU; `None` is unlimited.
    pub fn allow(&mut self, share: Option<f64>) {
        self.share = share;
    }

    /// Returns the share of connections to capture from `now` on, if it changes. It is reduced as
    /// soon as an interval has spent its whole allowance.
    pub fn look(&mut self, now: Duration, cpu: Duration, captured: Share) -> Option<Share> {
        if now < self.settled {
            self.began = (now, cpu);
            return None;
        }
        let (passed, spent) = (now.saturating_sub(self.began.0), cpu.saturating_sub(self.began.1));
        let (is_over, share) = (passed >= self.interval, self.share?);
        let allowed = share * passed.max(self.interval).as_secs_f64();
        if spent.as_secs_f64() > allowed && passed >= LEAST {
            self.began = (now, cpu);
            self.calm = 0;
            self.settled = now + SETTLES;
            let rate = spent.as_secs_f64() / passed.as_secs_f64();
            let (mut less, mut part) = (captured.halved(), rate / share / 2.0);
            while part > 1.0 && less != Share::LEAST {
                (less, part) = (less.halved(), part / 2.0);
            }
            return (less != captured).then_some(less);
        }
        if !is_over {
            return None;
        }
        self.began = (now, cpu);
        self.calm = if spent.as_secs_f64() < CALM_PART * allowed { self.calm + 1 } else { 0 };
        if self.calm < CALM || !captured.is_part() {
            return None;
        }
        self.calm = 0;
        self.settled = now + SETTLES;
        // With a large margin, the share grows by two steps at once.
        let is_idle = spent.as_secs_f64() < CALM_PART / 4.0 * allowed;
        Some(if is_idle { captured.doubled().doubled() } else { captured.doubled() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks ten times a second for `seconds`; each look costs `cpu_ms` for all connections.
    fn share_after(meter: &mut Meter, seconds: u64, cpu_ms: f64, at: &mut (u64, f64)) -> Vec<f64> {
        let mut share = Share::ALL;
        let mut shares = Vec::new();
        for _ in 0..10 * seconds {
            at.0 += 100;
            at.1 += cpu_ms * share.value();
            let (now, cpu) = (Duration::from_millis(at.0), Duration::from_secs_f64(at.1 / 1e3));
            if let Some(new) = meter.look(now, cpu, share) {
                share = new;
                shares.push(new.value());
            }
        }
        shares
    }

    fn meter(share: Option<f64>) -> Meter {
        Meter::new(share, Duration::from_secs(2), Duration::ZERO, Duration::ZERO)
    }

    #[test]
    fn a_load_above_the_budget_is_sampled_at_once_and_stays_within() {
        // Capturing all costs 30 % of a CPU, allowed are 2 %: a sixteenth costs 1.9 %.
        let shares = share_after(&mut meter(Some(0.02)), 20, 30.0, &mut (0, 0.0));
        assert_eq!(shares, [1.0 / 16.0]);
    }

    /// Processing of earlier frames goes on for a while after a reduction, and must not cause
    /// another one.
    #[test]
    fn what_is_left_of_a_larger_share_is_not_held_against_the_smaller_one() {
        let (mut meter, mut share, mut cpu_ms) = (meter(Some(0.02)), Share::ALL, 0.0);
        for look in 1..100 {
            cpu_ms += if look < 12 { 30.0 } else { 30.0 * share.value() };
            let now = Duration::from_millis(100 * look);
            let new = meter.look(now, Duration::from_secs_f64(cpu_ms / 1e3), share);
            share = new.unwrap_or(share);
        }
        assert_eq!(share.value(), 1.0 / 16.0);
    }

    #[test]
    fn a_load_within_the_budget_is_captured_in_full() {
        assert_eq!(share_after(&mut meter(Some(0.02)), 20, 1.5, &mut (0, 0.0)), [0.0; 0]);
        assert_eq!(share_after(&mut meter(None), 20, 90.0, &mut (0, 0.0)), [0.0; 0]);
    }

    #[test]
    fn two_connections_are_captured_whatever_the_budget() {
        let least = |open| least_share(open, Share::LEAST).value();
        assert_eq!([0.0, 1.0, 2.0].map(least), [1.0; 3]);
        for open in [3.0, 64.0, 1_000.0] {
            assert!((2.0..4.0).contains(&(least(open) * open)), "{open} open");
        }
        assert_eq!(least(1e9), Share::LEAST.value());
        let seen = Share::ALL.halved();
        assert_eq!(least_share(1e9, seen), seen, "with less nothing was seen");
    }

    #[test]
    fn what_capturing_costs_the_kernel_is_part_of_the_budget() {
        assert_eq!(capture_share(0.02, 0.0), 0.01);
        assert_eq!(capture_share(0.02, 0.005), 0.005);
        assert_eq!(capture_share(0.02, 0.5), 0.0025, "something is seen in any case");
    }

    #[test]
    fn the_share_grows_again_after_several_calm_intervals() {
        let (mut meter, mut at) = (meter(Some(0.02)), (0, 0.0));
        let (mut share, mut seen) = (Share::ALL.halved().halved(), Vec::new());
        for _ in 0..200 {
            at.0 += 100;
            at.1 += 1.0 * share.value();
            let (now, cpu) = (Duration::from_millis(at.0), Duration::from_secs_f64(at.1 / 1e3));
            if let Some(new) = meter.look(now, cpu, share) {
                share = new;
                seen.push((at.0, new.value()));
            }
        }
        assert_eq!(seen, [(4_000, 0.5), (8_900, 1.0)]);
    }
}
