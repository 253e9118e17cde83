//! Counts the answers of a server by their status, and where it began to ask for fewer requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tcpwhy_core::model::units::{counted, duration};

use super::{Health, Response, RetryAfter};

/// From this time on, a limit that was met is a rate: shorter times are those of a burst.
const RATE_FROM: Duration = Duration::from_secs(1);

/// A limit that a server states by its answer ([`Response::asks_for_fewer`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// Status of that answer.
    pub status: u16,
    /// The delay for which it asks.
    pub retry_after: Option<RetryAfter>,
    /// Number of answers before it.
    pub answered: u64,
    /// Time from the first request to it.
    pub after: Duration,
}

impl Limited {
    /// Returns the limit that `response` states after this many answers in this time, if it states
    /// one.
    pub fn of(response: &Response, answered: u64, after: Duration) -> Option<Limited> {
        let (status, retry_after) = (response.status, response.retry_after);
        response.asks_for_fewer().then_some(Limited { status, retry_after, answered, after })
    }

    /// Describes the limit, as far as the answers show it.
    pub fn words(&self) -> String {
        let wait = match self.retry_after {
            None => String::new(),
            Some(delay) => format!(", and asks to wait {delay}"),
        };
        let after = duration(u64::try_from(self.after.as_nanos()).unwrap_or(u64::MAX));
        let limit = match self.answered {
            0 => "no request was accepted".to_owned(),
            some if self.after < RATE_FROM => {
                format!("the limit seems to be {} in a row", counted(some, "request", "requests"))
            }
            some => {
                let per_second = some as f64 / self.after.as_secs_f64();
                format!("the limit seems to be about {per_second:.0} requests a second")
            }
        };
        let answers = counted(self.answered, "answer", "answers");
        let status = self.status;
        format!("status {status} came after {answers} in {after}{wait}: {limit}")
    }
}

/// The answers so far.
#[derive(Debug, Default)]
struct Tally {
    began: Option<Instant>,
    statuses: BTreeMap<u16, u64>,
    health: BTreeMap<Health, u64>,
    limited: Option<Limited>,
}

/// A count of answers; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<Tally>>);

impl Answers {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request is sent now.
    pub fn begin(&self) {
        self.tally().began.get_or_insert_with(Instant::now);
    }

    /// Counts an answer.
    pub fn add(&self, response: &Response) {
        let mut tally = self.tally();
        let after = tally.began.map_or(Duration::ZERO, |it| it.elapsed());
        let answered = tally.statuses.values().sum();
        tally.limited = tally.limited.or_else(|| Limited::of(response, answered, after));
        *tally.statuses.entry(response.status).or_default() += 1;
        if let Some(health) = response.health {
            *tally.health.entry(health).or_default() += 1;
        }
    }

    /// Adds the answers of a load, and the limit that it met.
    pub fn add_load(
        &self,
        statuses: &BTreeMap<u16, u64>,
        health: &BTreeMap<Health, u64>,
        limited: Option<Limited>,
    ) {
        let mut tally = self.tally();
        tally.limited = tally.limited.or(limited);
        for (status, count) in statuses {
            *tally.statuses.entry(*status).or_default() += count;
        }
        for (health, count) in health {
            *tally.health.entry(*health).or_default() += count;
        }
    }

    /// Returns the number of answers by their status.
    pub fn statuses(&self) -> BTreeMap<u16, u64> {
        self.tally().statuses.clone()
    }

    /// Returns the number of answers to health checks of gRPC.
    pub fn health(&self) -> BTreeMap<Health, u64> {
        self.tally().health.clone()
    }

    /// Returns the limit that the server has stated.
    pub fn limited(&self) -> Option<Limited> {
        self.tally().limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(status: u16, retry_after: Option<RetryAfter>) -> Response {
        Response { status, retry_after, ..Response::default() }
    }

    #[test]
    fn the_first_refusal_states_the_limit() {
        let answers = Answers::default();
        answers.begin();
        (0..20).for_each(|_| answers.add(&with(200, None)));
        (0..2).for_each(|_| answers.add(&with(429, Some(RetryAfter::Seconds(30)))));
        assert_eq!(answers.statuses(), BTreeMap::from([(200, 20), (429, 2)]));
        let limited = answers.limited().unwrap();
        assert_eq!((limited.answered, limited.status), (20, 429));
        let words = limited.words();
        assert!(words.starts_with("status 429 came after 20 answers in "), "{words}");
        assert!(words.contains("asks to wait 30 s"), "{words}");
        assert!(words.ends_with("the limit seems to be 20 requests in a row"), "{words}");
    }

    #[test]
    fn a_limit_that_is_met_late_is_a_rate() {
        let limited = Limited::of(&with(503, Some(RetryAfter::Date)), 100, Duration::from_secs(5));
        let words = limited.unwrap().words();
        assert!(words.ends_with("about 20 requests a second"), "{words}");
        assert_eq!(Limited::of(&with(503, None), 100, Duration::from_secs(5)), None);
    }
}
