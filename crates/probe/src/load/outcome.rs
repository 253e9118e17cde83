//! The results of a load.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hdrhistogram::Histogram as Hdr;
use tcpwhy_core::model::Histogram;

use super::failure::{Failure, FailureKind};
use super::guard::End;

/// Longest time that is recorded exactly, ns; a longer one is recorded as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Number of significant digits of a recorded time.
const DIGITS: u8 = 3;

/// A distribution of times, each accurate to 0.1 %.
#[derive(Clone, Debug)]
pub struct Times(Hdr<u64>);

impl Default for Times {
    fn default() -> Times {
        // These bounds are valid, and without bounds a histogram grows as needed.
        let bounded = Hdr::new_with_bounds(1, LONGEST_NS, DIGITS);
        Times(bounded.unwrap_or_else(|_| Hdr::new(DIGITS).expect("three digits are valid")))
    }
}

impl Times {
    pub(super) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    fn merge(&mut self, other: &Times) {
        // Both histograms have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the `q` quantile, ns; 0 without values.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        self.0.value_at_quantile(q).min(self.0.max())
    }

    /// Returns the longest time, ns.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// Returns the shortest time, ns.
    pub fn min_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.min() }
    }

    /// Returns the mean, ns.
    pub fn mean_ns(&self) -> u64 {
        self.0.mean() as u64
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
    /// Number of requests without an answer when the load ended.
    pub unanswered: u64,
    /// Number of bytes of the answers, including headers.
    pub bytes: u64,
    /// Time from the request to the complete answer. It begins at the planned time in an open loop,
    /// and at the connect if each request has its own connection.
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
    pub(super) fn answer(&mut self, latency_ns: u64, status: u16, bytes: u64, at_ns: u64) {
        self.requests += 1;
        self.bytes += bytes;
        self.latency.record(latency_ns);
        *self.statuses.entry(status).or_default() += 1;
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
