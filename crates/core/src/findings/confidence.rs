//! Confidence of a finding: the share of similar findings that were right, as far as it is known.
//!
//! `judged.md` counts the findings of each cause in captures whose cause is known: those that one
//! exchange showed, and those that several did. The next finding is right with a probability of
//! (right + 1) / (all + 2), the rule of succession (Laplace): of two that were both right the next is
//! right with 0.75, and not for certain. One exchange alone deceives more easily, so findings of one
//! have counts of their own. A cause of which none was judged counts as all causes do in that
//! column; one that was never judged at all is as likely right as not. If chance may look like the
//! cause, the confidence falls by the probability of that.

use crate::findings::tally::CauseTally;
use crate::findings::thresholds::{CONFIDENCE_MAX, FLAWED_PART};
use crate::findings::words::table;
use crate::model::{Cause, Judged};

const TABLE: &str = include_str!("judged.md");

/// Counts of findings that one exchange showed, and of those that several did.
type Counts = [Judged; 2];

/// Returns the counts of each cause.
fn rows() -> impl Iterator<Item = (&'static str, Counts)> {
    table::<5>(TABLE).filter_map(|[cause, once, of_once, often, of_often]| {
        let judged = |right: &str, all: &str| {
            Some(Judged { right: right.parse().ok()?, all: all.parse().ok()? })
        };
        Some((cause, [judged(once, of_once)?, judged(often, of_often)?]))
    })
}

/// Returns the number of cases of a finding: exchanges, or connections if it is of no exchange.
pub fn cases(exchanges: u64, connections: u64) -> u64 {
    if exchanges > 0 { exchanges } else { connections }
}

/// Returns the column of a finding with so many cases.
fn column(cases: u64) -> usize {
    usize::from(cases > 1)
}

/// Returns the judged findings that are like one of `cause` with so many cases.
pub fn judged(cause: Cause, cases: u64) -> Judged {
    let own = rows().find(|(id, _)| *id == cause.id());
    own.map_or_else(Judged::default, |(_, counts)| counts[column(cases)])
}

/// Returns the confidence that `tally` shows `cause`, 0 to 1. `chance` is the probability that
/// something else looks the same.
pub fn of(cause: Cause, tally: &CauseTally, flawed: bool, chance: f64) -> f64 {
    let share = succession(cause, cases(tally.exchanges, tally.connections)) * (1.0 - chance);
    rounded(if flawed { share * FLAWED_PART } else { share })
}

/// Returns the confidence of a finding of `cause` with so many cases.
pub fn of_many(cause: Cause, cases: u64) -> f64 {
    rounded(succession(cause, cases))
}

fn succession(cause: Cause, cases: u64) -> f64 {
    let own = judged(cause, cases);
    let was_judged = rows().any(|(id, _)| id == cause.id());
    if own.all > 0 || !was_judged {
        return share(own);
    }
    let column = rows().map(|(_, counts)| counts[column(cases)]);
    let add =
        |sum: Judged, it: Judged| Judged { right: sum.right + it.right, all: sum.all + it.all };
    share(column.fold(Judged::default(), add))
}

fn share(judged: Judged) -> f64 {
    (judged.right + 1) as f64 / (judged.all + 2) as f64
}

fn rounded(share: f64) -> f64 {
    (share.min(CONFIDENCE_MAX) * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_causes_once_and_no_more_right_than_judged() {
        let rows: Vec<_> = rows().collect();
        assert!(rows.len() > 20, "{rows:?}");
        for (index, (id, counts)) in rows.iter().enumerate() {
            assert!(Cause::from_id(id).is_some(), "{id}");
            assert!(rows.iter().skip(index + 1).all(|(other, _)| other != id), "{id} twice");
            assert!(counts.iter().all(|it| it.right <= it.all), "{id}: {counts:?}");
            assert!(counts.iter().any(|it| it.all > 0), "{id}: none");
        }
    }

    #[test]
    fn few_findings_that_were_all_right_do_not_make_the_next_certain() {
        let shares =
            [(0, 0), (2, 2), (18, 18), (0, 2)].map(|(right, all)| share(Judged { right, all }));
        assert_eq!(shares, [0.5, 0.75, 0.95, 0.25]);
    }

    #[test]
    fn a_flawed_capture_lowers_the_confidence() {
        let seen = CauseTally { exchanges: 3, ..CauseTally::default() };
        let [clear, flawed] =
            [false, true].map(|flawed| of(Cause::NagleDelayedAck, &seen, flawed, 0.0));
        assert!((flawed - clear * 0.75).abs() < 0.011, "{flawed} {clear}");
        assert_eq!(rounded(1.0), 0.99, "nothing is certain");
    }

    #[test]
    fn a_cause_without_judged_findings_is_as_likely_as_not() {
        let known: Vec<_> = rows().map(|(id, _)| id).collect();
        for cause in Cause::ALL.iter().filter(|it| !known.contains(&it.id())) {
            assert_eq!(of_many(*cause, 7), 0.5, "{cause:?}");
        }
        assert!(Cause::ALL.iter().all(|&it| of_many(it, u64::MAX) <= CONFIDENCE_MAX));
    }
}
