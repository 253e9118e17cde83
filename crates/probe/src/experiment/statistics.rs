//! Tests whether a difference is chance, after every pair of trials.
//!
//! A pair is a trial with the change and one without it; a fair coin decides which of them is
//! first. If the change has no effect, each difference is therefore as likely to be above 0 as
//! below, however the server's load drifts. For a floor `f` the claim "the median difference is at
//! least `f`" is tested against "at most half of the differences are at least `f`", by a bet: a
//! capital of 1 is multiplied by 2·q after a difference of at least `f` and by 2·(1 − q) after any
//! other, with q = 0.95. If, whatever the earlier differences were, at most half of all are at
//! least `f`, the capital is a supermartingale, and by Ville's inequality (1939) it ever reaches
//! 1/ε with a probability of at most ε. So the test may be repeated after every pair, and the
//! trials may stop at any time: the error stays at most ε. With ε = 0.01 eight pairs that agree
//! suffice (1.9⁸ = 170 ≥ 100), and twelve with one exception.

use tcpwhy_core::model::experiment::ERROR_MAX;

/// Expected share of the differences for which the bet wins. If it is closer to 1, fewer pairs
/// suffice if all agree, and more are needed if one does not.
const EXPECTED: f64 = 0.95;

/// Number of pairs that suffice if they agree.
pub const PAIRS_MIN: u64 = 8;

/// The differences of pairs in their order, ns: the time without the change less that with it.
#[derive(Clone, Debug, Default)]
pub struct Differences(Vec<i64>);

/// The result that the pairs so far show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The effect is at least the floor.
    Effect,
    /// The effect is below the floor.
    None,
    /// Neither is shown yet.
    NotYet,
}

impl Differences {
    /// Adds the difference of the next pair.
    pub fn push(&mut self, difference_ns: i64) {
        self.0.push(difference_ns);
    }

    /// Returns the number of differences.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns what the differences show about an effect of at least `floor_ns`.
    pub fn shown(&self, floor_ns: i64) -> Shown {
        match () {
            () if self.is_won(|it| it >= floor_ns) => Shown::Effect,
            () if self.is_won(|it| it < floor_ns) => Shown::None,
            () => Shown::NotYet,
        }
    }

    /// Returns the median difference, ns; for an even number, the middle one that is nearer to 0.
    pub fn median_ns(&self) -> i64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let (Some(&low), Some(&high)) =
            (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.get(sorted.len() / 2))
        else {
            return 0;
        };
        if low.abs() <= high.abs() { low } else { high }
    }

    /// Returns the interval for the median by the same bets, for every floor at once. Each end is
    /// wrong with a probability of at most ε, whenever the trials stopped; it is `None` if no bet
    /// on it is won yet.
    pub fn interval_ns(&self) -> (Option<i64>, Option<i64>) {
        let won_from_below = |&&floor: &&i64| self.is_won(|it| it >= floor);
        let won_from_above = |&&ceiling: &&i64| self.is_won(|it| it <= ceiling);
        let least = self.0.iter().filter(won_from_below).max().copied();
        let most = self.0.iter().filter(won_from_above).min().copied();
        (least, most)
    }

    /// Returns whether the bet on `claim` has reached 1/ε at any time.
    fn is_won(&self, claim: impl Fn(i64) -> bool) -> bool {
        let mut capital = 1.0;
        self.0.iter().any(|&it| {
            capital *= 2.0 * if claim(it) { EXPECTED } else { 1.0 - EXPECTED };
            capital >= ERROR_MAX.recip()
        })
    }
}

/// A source of random numbers from a seed (SplitMix64, Steele et al. 2014), which decides which
/// trial of a pair is first.
#[derive(Clone, Debug)]
pub struct Coin(u64);

impl Coin {
    /// Creates a source with this seed.
    pub fn new(seed: u64) -> Coin {
        Coin(seed)
    }

    /// Returns `true` or `false` with the same probability.
    pub fn toss(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn of(differences: &[i64]) -> Differences {
        Differences(differences.to_vec())
    }

    #[test]
    fn eight_pairs_that_agree_suffice_and_seven_do_not() {
        let agreeing = [44 * MS; PAIRS_MIN as usize];
        assert_eq!(of(&agreeing).shown(MS), Shown::Effect);
        assert_eq!(of(&agreeing[1..]).shown(MS), Shown::NotYet);
        assert_eq!(of(&[0; 8]).shown(MS), Shown::None);
        let mut one_exception = vec![0];
        one_exception.extend([44 * MS; 11]);
        assert_eq!(of(&one_exception).shown(MS), Shown::Effect);
        assert_eq!(of(&one_exception[..11]).shown(MS), Shown::NotYet);
    }

    #[test]
    fn the_interval_has_the_extremes_of_eight_and_less_of_more() {
        let eight: Vec<i64> = (40..48).map(|it| it * MS).collect();
        assert_eq!(of(&eight).interval_ns(), (Some(40 * MS), Some(47 * MS)));
        assert_eq!(of(&eight[..7]).interval_ns(), (None, None));
        let many: Vec<i64> = (0..100).map(|it| (it * 37 % 100) * MS).collect();
        let (least, most) = of(&many).interval_ns();
        assert!(least > Some(0) && most < Some(99 * MS), "{least:?} {most:?}");
        assert!(least < Some(50 * MS) && most > Some(50 * MS), "{least:?} {most:?}");
    }

    #[test]
    fn without_an_effect_looking_after_every_pair_is_wrong_less_often_than_stated() {
        let mut coin = Coin::new(7);
        let runs = 20_000;
        let is_wrong = |coin: &mut Coin| {
            let mut pairs = Differences::default();
            (0..60).any(|_| {
                pairs.push(if coin.toss() { 5 * MS } else { -5 * MS });
                pairs.shown(MS) == Shown::Effect
            })
        };
        let wrong = (0..runs).filter(|_| is_wrong(&mut coin)).count();
        assert!((wrong as f64) < ERROR_MAX * f64::from(runs), "{wrong} of {runs}");
        // This test would show nothing about a rule that cannot be wrong.
        assert!(wrong > 0);
    }

    #[test]
    fn the_coin_is_fair_and_the_median_is_one_of_the_values() {
        let mut coin = Coin::new(1);
        let heads = (0..10_000).filter(|_| coin.toss()).count();
        assert!((4_800..5_200).contains(&heads), "{heads}");
        assert_eq!(of(&[3, 1, 2]).median_ns(), 2);
        assert_eq!(of(&[-5, 3]).median_ns(), 3);
        assert_eq!(of(&[]).median_ns(), 0);
    }
}
