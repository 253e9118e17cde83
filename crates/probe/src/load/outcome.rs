//! The results of a load.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hdrhistogram::Histogram as Hdr;
use tcpwhy_core::model::Histogram;

use super::failure::{Failure, FailureKind};
use super::guard::End;
use super::uneven::Standstill;
use crate::http::{Health, Response};

/// Longest time that is recorded exactly, ns; a longer one is recorded as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Number of significant digits of a recorded time.
const DIGITS: u8 = 3;

/// A distribution of times, each accurate to 0.1 %. Of a request without an answer only its age is
/// known when it was given up; its time is at least that.
#[derive(Clone, Debug)]
pub struct Times {
    known: Hdr<u64>,
    /// The ages of requests without an answer; `None` if there are none.
    unanswered: Option<Box<Hdr<u64>>>,
}

/// A quantile, or another value of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantile {
    /// The value, ns.
    pub ns: u64,
    /// `true` if the value is a lower bound, because requests without an answer may change it.
    pub at_least: bool,
}

/// Number of different times that are spread evenly.
const EVEN_STEPS: u64 = 1_000;

/// Largest effect of requests without an answer on a quantile that is not marked as a bound.
const SLIGHT: f64 = 0.01;

impl Default for Times {
    fn default() -> Times {
        Times { known: empty(), unanswered: None }
    }
}

fn empty() -> Hdr<u64> {
    // These bounds are valid, and without bounds a histogram grows as needed.
    let bounded = Hdr::new_with_bounds(1, LONGEST_NS, DIGITS);
    bounded.unwrap_or_else(|_| Hdr::new(DIGITS).expect("three digits are valid"))
}

impl Times {
    pub(super) fn record(&mut self, ns: u64) {
        self.known.saturating_record(ns.max(1));
    }

    /// Records a request that had no answer at this age.
    pub(super) fn give_up(&mut self, age_ns: u64) {
        let unanswered = self.unanswered.get_or_insert_with(|| Box::new(empty()));
        unanswered.saturating_record(age_ns.max(1));
    }

    fn merge(&mut self, other: &Times) {
        // All histograms have the same bounds.
        let _ = self.known.add(&other.known);
        if let Some(others) = &other.unanswered {
            let _ = self.unanswered.get_or_insert_with(|| Box::new(empty())).add(&**others);
        }
    }

    /// Returns the number of requests, with those that had no answer.
    pub fn count(&self) -> u64 {
        self.known.len() + self.unanswered()
    }

    /// Returns the number of requests that had no answer.
    pub fn unanswered(&self) -> u64 {
        self.unanswered.as_ref().map_or(0, |it| it.len())
    }

    /// Returns the `q` quantile of all requests; 0 without any. The true value lies between the
    /// quantile with the requests without an answer at their ages and that with all of them at the
    /// end. If these differ, the lower one is returned as a bound.
    pub fn quantile(&self, q: f64) -> Quantile {
        let of = |it: &Hdr<u64>, q: f64| it.value_at_quantile(q).min(it.max());
        let Some(unanswered) = &self.unanswered else {
            return Quantile { ns: of(&self.known, q), at_least: false };
        };
        let mut all = self.known.clone();
        let _ = all.add(&**unanswered);
        let ns = of(&all, q);
        // Infinite without any known time.
        let rank = q * all.len() as f64 / self.known.len() as f64;
        let most_ns = (rank <= 1.0).then(|| of(&self.known, rank));
        let at_least = most_ns.is_none_or(|most| most as f64 > ns as f64 * (1.0 + SLIGHT));
        Quantile { ns, at_least }
    }

    /// Records times that are spread evenly up to the longest one.
    pub(super) fn record_evenly(&mut self, longest_ns: u64, number: u64) {
        let steps = number.clamp(1, EVEN_STEPS);
        for step in 0..steps {
            let part = number * (step + 1) / steps - number * step / steps;
            let ns = (longest_ns as f64 * (step as f64 + 0.5) / steps as f64) as u64;
            self.known.saturating_record_n(ns.max(1), part);
        }
    }

    /// Returns the number of requests that took so long, or had no answer at this age.
    pub(super) fn count_from(&self, ns: u64) -> u64 {
        let of = |it: &Hdr<u64>| it.count_between(ns, it.high());
        of(&self.known) + self.unanswered.as_ref().map_or(0, |it| of(it))
    }

    /// Returns the longest time.
    pub fn max(&self) -> Quantile {
        let age_ns = self.unanswered.as_ref().map(|it| it.max());
        let ns = self.known.max().max(age_ns.unwrap_or(0));
        Quantile { ns, at_least: age_ns.is_some() }
    }

    /// Returns the shortest time of a request with an answer, ns; 0 without any.
    pub fn min_ns(&self) -> u64 {
        if self.known.is_empty() { 0 } else { self.known.min() }
    }

    /// Returns the mean.
    pub fn mean(&self) -> Quantile {
        let sum = |it: &Hdr<u64>| it.mean() * it.len() as f64;
        let unanswered = self.unanswered.as_ref().map_or(0.0, |it| sum(it));
        let ns = (sum(&self.known) + unanswered) / self.count().max(1) as f64;
        Quantile { ns: ns as u64, at_least: self.unanswered() > 0 }
    }
}

/// The results of one second of a load.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Number of requests that were answered in this second.
    pub requests: u64,
    /// Number of failures in this second.
    pub errors: u64,
    /// Latency of these requests.
    pub latency: Histogram,
}

/// The results of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadOutcome {
    /// The address that was used; `None` if no connection was attempted.
    pub address: Option<SocketAddr>,
    /// Number of threads that sent the load.
    pub threads: usize,
    /// The measured time, from the end of the warm-up to the end of the load or the last answer,
    /// ns.
    pub elapsed_ns: u64,
    /// In an open loop, the number of requests that were planned up to the end; in a closed loop,
    /// of those sent.
    pub planned: u64,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of requests with a complete answer, whatever its status.
    pub requests: u64,
    /// Number of requests that were sent and had no answer when the load ended.
    pub unanswered: u64,
    /// Number of connections whose SYN had no answer when the load ended.
    pub connecting: u64,
    /// Number of connections whose TLS handshake was not complete when the load ended.
    pub shaking_hands: u64,
    /// Number of bytes of the answers, including headers.
    pub bytes: u64,
    /// Time from the request to the complete answer. It begins at the planned time in an open loop,
    /// and at the connect if each request has its own connection. A request without an answer is in
    /// it at its age when it failed or the load ended, also if it was planned and never sent.
    pub latency: Times,
    /// Time from the same begin to the answer's first byte.
    pub first_byte: Times,
    /// Time from the SYN to the SYN-ACK, as this process sees it.
    pub connect: Times,
    /// Durations of TLS handshakes.
    pub tls: Times,
    /// Number of TLS handshakes that resumed a session.
    pub tls_resumed: u64,
    /// Number of failures by kind.
    pub errors: BTreeMap<FailureKind, u64>,
    /// Description of the first failure of each kind.
    pub samples: BTreeMap<FailureKind, String>,
    /// Number of answers by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Number of answers to health checks of gRPC.
    pub health: BTreeMap<Health, u64>,
    /// Times in which requests were in progress and none was answered, of all threads.
    pub standstills: Vec<Standstill>,
    /// The results of each second.
    pub seconds: Vec<Second>,
    /// The `server` field of the first response that has one.
    pub server: Option<String>,
    /// Where the first redirect leads, without values; it is not followed.
    pub location: Option<String>,
    /// `true` if the load was stopped before its end.
    pub interrupted: bool,
    /// The reason why the load ended itself before its time.
    pub ended: Option<End>,
}

impl LoadOutcome {
    /// Returns the number of answered requests per second.
    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }

    /// Returns the number of planned requests that were never sent, because the server, or this
    /// machine, was too slow for the rate.
    pub fn not_sent(&self) -> u64 {
        self.planned.saturating_sub(self.sent)
    }

    /// Returns the number of failures of all kinds.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Counts a failure in the second at `at_ns` since the measurement began.
    pub(super) fn fail(&mut self, failure: &Failure, at_ns: u64) {
        *self.errors.entry(failure.kind).or_default() += 1;
        self.second(at_ns).errors += 1;
        self.samples.entry(failure.kind).or_insert_with(|| failure.words.clone());
    }

    /// Counts an answer.
    pub(super) fn answer(&mut self, latency_ns: u64, response: &Response, at_ns: u64) {
        self.requests += 1;
        self.bytes += response.wire_bytes;
        self.latency.record(latency_ns);
        *self.statuses.entry(response.status).or_default() += 1;
        if let Some(health) = response.health {
            *self.health.entry(health).or_default() += 1;
        }
        let second = self.second(at_ns);
        second.requests += 1;
        second.latency.record(latency_ns);
    }

    fn second(&mut self, at_ns: u64) -> &mut Second {
        let index = (at_ns / 1_000_000_000) as usize;
        if index >= self.seconds.len() {
            self.seconds.resize_with(index + 1, Second::default);
        }
        &mut self.seconds[index]
    }

    /// Adds the results that another thread measured at the same time.
    pub(super) fn merge(&mut self, other: LoadOutcome) {
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.planned += other.planned;
        self.sent += other.sent;
        self.requests += other.requests;
        self.unanswered += other.unanswered;
        self.connecting += other.connecting;
        self.shaking_hands += other.shaking_hands;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.first_byte.merge(&other.first_byte);
        self.connect.merge(&other.connect);
        self.tls.merge(&other.tls);
        self.tls_resumed += other.tls_resumed;
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
        for (kind, words) in other.samples {
            self.samples.entry(kind).or_insert(words);
        }
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (health, count) in other.health {
            *self.health.entry(health).or_default() += count;
        }
        if other.seconds.len() > self.seconds.len() {
            self.seconds.resize_with(other.seconds.len(), Second::default);
        }
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            mine.requests += theirs.requests;
            mine.errors += theirs.errors;
            mine.latency.merge(&theirs.latency);
        }
        self.server = self.server.take().or(other.server);
        self.location = self.location.take().or(other.location);
        self.interrupted |= other.interrupted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn times(known: &[(u64, u64)], unanswered: &[(u64, u64)]) -> Times {
        let mut times = Times::default();
        known.iter().for_each(|&(ms, count)| (0..count).for_each(|_| times.record(ms * MS)));
        unanswered.iter().for_each(|&(ms, count)| (0..count).for_each(|_| times.give_up(ms * MS)));
        times
    }

    fn shown(times: &Times, q: f64) -> (u64, bool) {
        let quantile = times.quantile(q);
        // The histogram rounds up to three digits.
        ((quantile.ns as f64 / MS as f64).round() as u64, quantile.at_least)
    }

    #[test]
    fn requests_that_are_given_up_count_at_their_age() {
        let timed_out = times(&[(1, 98)], &[(300, 2)]);
        assert_eq!((timed_out.count(), timed_out.unanswered()), (100, 2));
        assert_eq!(shown(&timed_out, 0.5), (1, false));
        assert_eq!(shown(&timed_out, 0.99), (300, true));
        assert!(timed_out.max().at_least && timed_out.max().ns >= 300 * MS);
        assert!(timed_out.mean().at_least && timed_out.mean().ns > 6 * MS);
    }

    #[test]
    fn without_any_answer_all_quantiles_are_bounds() {
        let none = times(&[], &[(300, 10)]);
        assert_eq!(shown(&none, 0.5), (300, true));
        assert_eq!((none.min_ns(), none.count()), (0, 10));
        assert_eq!(shown(&times(&[], &[(300, 2)]), 0.5), (300, true));
        assert_eq!(times(&[], &[]).quantile(0.5), Quantile::default());
    }

    #[test]
    fn few_requests_in_progress_change_no_middle_quantile() {
        let mut stopped = times(&[(20, 50_000), (30, 50_000)], &[(1, 10)]);
        assert_eq!(shown(&stopped, 0.75), (30, false));
        assert_eq!(shown(&stopped, 0.99995), (30, true));
        stopped.merge(&times(&[], &[(10, 400_000)]));
        assert_eq!(shown(&stopped, 0.5), (10, true));
    }
}
