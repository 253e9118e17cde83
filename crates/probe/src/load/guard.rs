//! Ends a load that does harm: at the first failure, once latency has tripled, or if nothing is ever
//! answered.

use tcpwhy_core::model::units::duration;

use crate::budget::Exceeded;
use crate::http::Limited;

/// Number of answers of which more than half have to be slow. With ten connections these are two
/// of each, so that one short stall does not end a load.
const ANSWERS: u32 = 20;

/// The conditions under which a load goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Status of the usual answer; an answer of another class (RFC 9110 §15) is a failure.
    pub status: u16,
    /// Latency from which on an answer is slow, ns; `None` if slow answers do not end the load.
    pub slow_ns: Option<u64>,
}

impl Guard {
    /// Returns whether an answer with this status is of the usual class.
    pub(super) fn is_usual(&self, status: u16) -> bool {
        self.status / 100 == status / 100
    }
}

/// The reason why a load ended before its time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// An answer has a status of another class than the usual one.
    #[error("an answer has status {0}")]
    Status(u16),
    /// The server asks for fewer requests.
    #[error("{}", .0.words())]
    Limit(Limited),
    /// A request or a connection failed.
    #[error("{0}")]
    Failure(String),
    /// No request was answered, and connections ended one after the other.
    #[error("one connection after the other ended without an answer ({0})")]
    Unanswered(String),
    /// Most answers are slow.
    #[error("most answers take longer than {}, three times as long as alone", duration(*.slow_ns))]
    Slow {
        /// The bound of the [`Guard`], ns.
        slow_ns: u64,
    },
    /// The budget is spent.
    #[error("{0}")]
    Budget(#[from] Exceeded),
}

impl End {
    /// The name of the reason that most answers are late.
    pub const SLOW: &str = "latency";

    /// Returns the name of the reason in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            End::Status(_) => "status",
            End::Limit(_) => "limit",
            End::Failure(_) => "failure",
            End::Unanswered(_) => "unanswered",
            End::Slow { .. } => End::SLOW,
            End::Budget(_) => "budget",
        }
    }
}

/// The latest answers of a load, a bit for each, 1 for a slow one.
#[derive(Debug, Default)]
pub(super) struct Latest {
    bits: u32,
    count: u32,
}

impl Latest {
    /// Adds an answer; returns whether most of the latest ones are slow.
    pub fn add(&mut self, is_slow: bool) -> bool {
        self.bits = (self.bits << 1 | u32::from(is_slow)) & ((1 << ANSWERS) - 1);
        self.count = (self.count + 1).min(ANSWERS);
        self.count == ANSWERS && 2 * self.bits.count_ones() > ANSWERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stall_of_all_connections_is_no_habit_and_two_are() {
        let mut latest = Latest::default();
        let mut round = |is_slow| (0..10).any(|_| latest.add(is_slow));
        assert!(!round(false) && !round(true) && !round(false));
        assert!(!round(true) && round(true));
    }

    #[test]
    fn an_answer_of_another_class_is_not_usual() {
        let guard = Guard { status: 200, slow_ns: None };
        assert!(guard.is_usual(204) && !guard.is_usual(302) && !guard.is_usual(503));
    }
}
