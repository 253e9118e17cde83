//! Confidence of a finding: the measured share of similar findings that were right.
//!
//! The counts are those of the findings in 636 labelled captures (of the lab, stored captures,
//! captures of others and of other software), with the rules of the version before this file.
//! docs/accuracy.md contains the output of `tcpwhy lab score` for the same captures. Two properties
//! distinguish right findings from false ones: a finding from one exchange only is false far more
//! often than one that recurs, and so is a finding in a capture that contains frames twice or one
//! direction only. Causes differ: the counts of each are in its row ([`crate::findings::causes`]).

use crate::findings::causes::rules;
use crate::findings::tally::CauseTally;
use crate::findings::thresholds::{CONFIDENCE_MAX, CONFIDENCE_PRIOR};
use crate::model::Cause;

/// Counts of judged findings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    right: f64,
    all: f64,
}

impl Judged {
    /// Creates the counts: `all` findings, of which `right` were right.
    pub(super) const fn new(right: u16, all: u16) -> Self {
        Self { right: right as f64, all: all as f64 }
    }

    fn share(self) -> f64 {
        self.right / self.all
    }

    /// Share of right findings of one kind. It is computed with additional findings that were right
    /// as often as `all`: a few that were all right do not make the next one certain.
    fn share_among(self, all: Self) -> f64 {
        (self.right + CONFIDENCE_PRIOR * all.share()) / (self.all + CONFIDENCE_PRIOR)
    }
}

/// Creates the counts of one cause, each as the right ones and all: seen in one exchange, and in
/// more.
pub(super) const fn judged(once: (u16, u16), often: (u16, u16)) -> [Judged; 2] {
    [Judged::new(once.0, once.1), Judged::new(often.0, often.1)]
}

/// Counts of all causes, seen in one exchange.
const ONCE: Judged = Judged::new(78, 94);
/// Counts of all causes, seen in more than one exchange.
const OFTEN: Judged = Judged::new(225, 229);

/// Counts of findings from one exchange in a capture that is complete. It is not complete if frames
/// are contained twice, or one direction of most connections is missing. It makes no difference
/// whether the vantage is known (11 of 13 right if not, 58 of 67 if so), whether bytes are missing
/// (17 of 19), or whether the capture begins in mid-connection (24 of 27).
const WHOLE: Judged = Judged::new(69, 80);
/// Counts of findings from one exchange in a capture that is not complete.
const FLAWED: Judged = Judged::new(9, 14);

/// Returns the confidence that `tally` shows `cause`, 0 to 1.
pub fn of(cause: Cause, tally: &CauseTally, flawed: bool) -> f64 {
    let trace = if flawed { FLAWED.share() / WHOLE.share() } else { 1.0 };
    rounded(of_cause(cause, tally.exchanges) * trace)
}

/// Returns the confidence of a cost that concerns all exchanges of a server.
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
    fn a_recurring_cause_has_more_confidence_than_one_seen_once() {
        for &cause in Cause::ALL {
            let [once, often] = [1, 2].map(|exchanges| of(cause, &seen(exchanges), false));
            assert!(often > once, "{cause:?}: {often} {once}");
        }
    }

    #[test]
    fn a_flawed_capture_lowers_the_confidence() {
        let clear = of(Cause::RetransmissionTimeout, &seen(3), false);
        assert!(of(Cause::RetransmissionTimeout, &seen(3), true) < clear);
    }

    #[test]
    fn a_cause_that_was_often_false_has_less_confidence_than_one_that_never_was() {
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
