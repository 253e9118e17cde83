//! Confidence of a finding: the measured share of findings like it that were right.
//!
//! The counts are of the findings in 636 labelled captures, of the lab, stored, of strangers and of
//! other software, by the rules of the version before this file; docs/accuracy.md has what `tcpwhy
//! lab score` says of the result on the same captures. Two things tell right findings from false
//! ones: what was found in one exchange only is false far more often than what recurs, and so is
//! what was found in a capture that shows frames twice or one direction only. Causes differ: the
//! counts of each are in its row ([`crate::findings::causes`]).

use crate::findings::causes::rules;
use crate::findings::tally::CauseTally;
use crate::findings::thresholds::{CONFIDENCE_MAX, CONFIDENCE_PRIOR};
use crate::model::Cause;

/// Findings that were judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    right: f64,
    all: f64,
}

impl Judged {
    /// So many findings, of which so many were right.
    pub(super) const fn new(right: u16, all: u16) -> Self {
        Self { right: right as f64, all: all as f64 }
    }

    fn share(self) -> f64 {
        self.right / self.all
    }

    /// The share of those of one kind, with so many more that were right as often as
    /// `all` are: a few that were all right do not make the next one sure.
    fn share_among(self, all: Self) -> f64 {
        (self.right + CONFIDENCE_PRIOR * all.share()) / (self.all + CONFIDENCE_PRIOR)
    }
}

/// Findings of one cause, each as the right ones and all: seen in one exchange, and in more.
pub(super) const fn judged(once: (u16, u16), often: (u16, u16)) -> [Judged; 2] {
    [Judged::new(once.0, once.1), Judged::new(often.0, often.1)]
}

/// All causes, seen in one exchange.
const ONCE: Judged = Judged::new(78, 94);
/// All causes, seen in more than one.
const OFTEN: Judged = Judged::new(225, 229);

/// Seen in one exchange of a trace that is whole, and of one that is not: frames are there twice,
/// or one direction of most connections is missing. Whether the vantage is known makes no
/// difference (11 of 13 right where it is not, 58 of 67 where it is), nor do holes that the
/// capture has (17 of 19), nor that it begins in mid-connection (24 of 27).
const WHOLE: Judged = Judged::new(69, 80);
const FLAWED: Judged = Judged::new(9, 14);

/// Confidence that `cause` is what `tally` shows, 0 to 1.
pub fn of(cause: Cause, tally: &CauseTally, flawed: bool) -> f64 {
    let trace = if flawed { FLAWED.share() / WHOLE.share() } else { 1.0 };
    rounded(of_cause(cause, tally.exchanges) * trace)
}

/// Confidence of a cost that concerns all exchanges of a server.
pub fn of_many(cause: Cause, exchanges: u64) -> f64 {
    rounded(of_cause(cause, exchanges))
}

fn of_cause(cause: Cause, exchanges: u64) -> f64 {
    let [once, often] = rules(cause).measured;
    match exchanges {
        0 | 1 => once.share_among(ONCE),
        _ => often.share_among(OFTEN),
    }
}

fn rounded(share: f64) -> f64 {
    (share.min(CONFIDENCE_MAX) * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(exchanges: u64) -> CauseTally {
        CauseTally { exchanges, ..CauseTally::default() }
    }

    #[test]
    fn what_recurs_is_surer_than_what_was_seen_once() {
        for &cause in Cause::ALL {
            let [once, often] = [1, 2].map(|exchanges| of(cause, &seen(exchanges), false));
            assert!(often > once, "{cause:?}: {often} {once}");
        }
    }

    #[test]
    fn a_flawed_trace_makes_less_sure() {
        let clear = of(Cause::RetransmissionTimeout, &seen(3), false);
        assert!(of(Cause::RetransmissionTimeout, &seen(3), true) < clear);
    }

    #[test]
    fn a_cause_that_was_false_often_is_less_sure_than_one_that_never_was() {
        let [false_often, never] = [Cause::MtuBlackHole, Cause::ZeroWindow];
        assert!(of(false_often, &seen(1), false) < of(never, &seen(1), false));
    }

    #[test]
    fn nothing_is_certain_and_a_cause_that_was_never_measured_is_like_all() {
        for &cause in Cause::ALL {
            let [once, often] = rules(cause).measured;
            assert!(once.right <= once.all && often.right <= often.all, "{cause:?}");
            for exchanges in [0, 1, 2, 1_000_000] {
                let sure = of(cause, &seen(exchanges), false);
                assert!((0.0..=CONFIDENCE_MAX).contains(&sure), "{cause:?} {exchanges}: {sure}");
            }
        }
        let unmeasured = Judged::new(0, 0).share_among(OFTEN);
        assert!((unmeasured - OFTEN.share()).abs() < 1e-9);
    }

    #[test]
    fn four_of_its_own_weigh_as_much_as_all_causes() {
        let never = Judged::new(0, 4).share_among(Judged::new(10, 10));
        assert!((never - 0.5).abs() < 1e-9, "{never}");
    }
}
