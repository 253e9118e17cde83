//! How exchanges ended.

use super::vocabulary::vocabulary;
use crate::app::ErrorCode;
use crate::wire::Side;
use std::collections::BTreeMap;
use std::fmt;

vocabulary! {
    /// The kind of an [`Outcome`].
    OutcomeKind {
        /// The response is complete and reports no error, as far as it can be read.
        Answered = "answered",
        /// The response is complete and reports an error.
        Error = "error",
        /// The response ended before its announced end.
        CutShort = "cut_short",
        /// The connection was closed before the response began.
        Closed = "closed",
        /// Both sides closed and no response came, in a protocol that does not show whether one was
        /// due: the client may have said goodbye, or its server may have crashed. Those that took no
        /// time are not among the exchanges.
        Unclear = "unclear",
        /// A RST, or an ICMP error in its place, ended the exchange.
        Reset = "reset",
        /// The request was sent repeatedly and not acknowledged.
        Unacknowledged = "unacknowledged",
        /// The exchange was in progress when the capture ended.
        Open = "open",
        /// The capture has no packet of the direction in which the response would be.
        Unseen = "unseen",
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// See [`OutcomeKind::Answered`].
    #[default]
    Answered,
    /// See [`OutcomeKind::Error`].
    Error(ErrorCode),
    /// See [`OutcomeKind::CutShort`].
    CutShort {
        /// Side that closed first.
        by: Side,
    },
    /// See [`OutcomeKind::Closed`].
    Closed {
        /// Side that closed first.
        by: Side,
    },
    /// See [`OutcomeKind::Unclear`].
    Unclear,
    /// See [`OutcomeKind::Reset`].
    Reset {
        /// Side that sent the RST.
        by: Side,
    },
    /// See [`OutcomeKind::Unacknowledged`].
    Unacknowledged,
    /// See [`OutcomeKind::Open`].
    Open,
    /// See [`OutcomeKind::Unseen`].
    Unseen,
}

impl Outcome {
    /// Returns the kind.
    #[inline]
    pub fn kind(self) -> OutcomeKind {
        match self {
            Self::Answered => OutcomeKind::Answered,
            Self::Error(_) => OutcomeKind::Error,
            Self::CutShort { .. } => OutcomeKind::CutShort,
            Self::Closed { .. } => OutcomeKind::Closed,
            Self::Unclear => OutcomeKind::Unclear,
            Self::Reset { .. } => OutcomeKind::Reset,
            Self::Unacknowledged => OutcomeKind::Unacknowledged,
            Self::Open => OutcomeKind::Open,
            Self::Unseen => OutcomeKind::Unseen,
        }
    }

    /// Returns whether the response is complete.
    #[inline]
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Answered | Self::Error(_))
    }

    /// Returns the error that the response reports.
    pub fn error(self) -> Option<ErrorCode> {
        match self {
            Self::Error(code) => Some(code),
            _ => None,
        }
    }

    /// Returns the side that ended the exchange.
    pub fn by(self) -> Option<Side> {
        match self {
            Self::CutShort { by } | Self::Closed { by } | Self::Reset { by } => Some(by),
            _ => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered => f.write_str("answered"),
            Self::Error(code) => write!(f, "error {code}"),
            Self::CutShort { by } => write!(f, "cut short by the {}", by.name()),
            Self::Closed { by } => write!(f, "closed by the {}", by.name()),
            Self::Unclear => {
                f.write_str("closed without an answer, and whether one was due is unknown")
            }
            Self::Reset { by } => write!(f, "reset by the {}", by.name()),
            Self::Unacknowledged => f.write_str("never acknowledged"),
            Self::Open => f.write_str("still open"),
            Self::Unseen => f.write_str("in a direction that was not captured"),
        }
    }
}

/// Number of error codes that are counted one by one; any more are counted together.
const CODES_MAX: usize = 32;

/// Counts of exchanges by outcome, and of errors by code.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Outcomes {
    counts: [u64; OutcomeKind::ALL.len()],
    codes: BTreeMap<ErrorCode, u64>,
}

impl Outcomes {
    /// Returns the counts of `exchanges` that were all answered.
    pub fn of_answered(exchanges: u64) -> Self {
        let mut outcomes = Self::default();
        outcomes.counts[OutcomeKind::Answered as usize] = exchanges;
        outcomes
    }

    /// Counts an exchange.
    #[inline]
    pub fn add(&mut self, outcome: Outcome) {
        self.counts[outcome.kind() as usize] += 1;
        if let Outcome::Error(code) = outcome {
            self.add_code(code, 1);
        }
    }

    fn add_code(&mut self, code: ErrorCode, count: u64) {
        if let Some(known) = self.codes.get_mut(&code) {
            *known += count;
        } else if self.codes.len() < CODES_MAX {
            self.codes.insert(code, count);
        }
    }

    /// Number of exchanges with this outcome.
    pub fn of(&self, kind: OutcomeKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Number of exchanges.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Number of exchanges whose response was due and is known not to be complete.
    pub fn incomplete(&self) -> u64 {
        use OutcomeKind as Kind;
        let others = [Kind::Answered, Kind::Error, Kind::Unclear, Kind::Unseen];
        let kinds = OutcomeKind::ALL.iter().filter(|kind| !others.contains(kind));
        kinds.map(|&kind| self.of(kind)).sum()
    }

    /// Returns the errors by code, the most frequent first.
    pub fn codes(&self) -> Vec<(ErrorCode, u64)> {
        let mut codes: Vec<_> = self.codes.iter().map(|(&code, &count)| (code, count)).collect();
        codes.sort_by_key(|&(code, count)| (std::cmp::Reverse(count), code));
        codes
    }

    /// Takes back the count of one exchange whose outcome was [`Outcome::Unclear`].
    pub fn take_unclear(&mut self) {
        let unclear = &mut self.counts[OutcomeKind::Unclear as usize];
        *unclear = unclear.saturating_sub(1);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        other.codes.iter().for_each(|(&code, &count)| self.add_code(code, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_code_the_most_frequent_first() {
        let mut outcomes = Outcomes::default();
        let [busy, absent] = [503, 404].map(|status| Outcome::Error(ErrorCode::Http(status)));
        [absent, busy, busy, Outcome::Answered].into_iter().for_each(|it| outcomes.add(it));
        assert_eq!(outcomes.codes(), [(ErrorCode::Http(503), 2), (ErrorCode::Http(404), 1)]);
        assert_eq!((outcomes.of(OutcomeKind::Error), outcomes.incomplete()), (3, 0));
    }

    #[test]
    fn many_codes_do_not_take_more_memory() {
        let mut outcomes = Outcomes::default();
        (0..1000).for_each(|number| outcomes.add(Outcome::Error(ErrorCode::Mysql(number))));
        assert_eq!(outcomes.codes().len(), CODES_MAX);
        assert_eq!(outcomes.of(OutcomeKind::Error), 1000);
    }
}
