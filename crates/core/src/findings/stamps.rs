//! Captures whose times were not measured: a program that writes one often stamps the frames at
//! equal distances, or all with the same time. Nothing about durations follows from it. Where a program
//! wrote the packets themselves ([`Numbers`](super::Numbers)), nothing about losses does either.

use crate::findings::thresholds::{EVEN_FRAMES_MIN, EVEN_SHORT_FRAMES_MIN};
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::{Cause, Fact, Ledger, Observation, Owner, Reassigned, Report, Slice, Vantage};

/// Ids of the observations.
const TIMES: &str = "made_up_times";
const PACKETS: &str = "made_up_packets";

/// Failures that the content of packets states, whoever sent them.
const STATED: [Cause; 2] = [Cause::ErrorResponses, Cause::DnsFailure];

/// Observations of what packets contain, whoever sent them.
const CONTAINED: [&str; 5] =
    ["damaged_packets", "truncated_headers", "truncated_payload", "ip_fragments", "tunnels"];

/// Number of distances that may differ from the others in any case: two captures that were joined.
const EXCEPTIONS_MAX: u64 = 1;

/// For each so many equal distances, another one may differ.
const EQUAL_FOR_EXCEPTION: u64 = 100;

/// Difference of two distances that come from rounding to microseconds, ns.
const ROUNDING_NS: u64 = 1_000;

/// The distances of the frames of a capture so far.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Stamps {
    last_ns: Option<u64>,
    /// The usual distance, ns.
    distance_ns: u64,
    /// Number of distances that equal it, and of others.
    equal: u64,
    other: u64,
    is_refuted: bool,
}

impl Stamps {
    /// Adds the times of frames, in the order of the capture.
    pub fn take(&mut self, times_ns: impl Iterator<Item = u64>) {
        if self.is_refuted {
            return;
        }
        for time_ns in times_ns {
            if let Some(last_ns) = self.last_ns.replace(time_ns) {
                self.compare(time_ns.checked_sub(last_ns));
            }
            if self.is_refuted {
                return;
            }
        }
    }

    /// Returns the distances of captures that were read apart, each with its first and last time, in the
    /// order of the first. If they overlap, their frames lie between each other as at the `beginning`;
    /// then a capture whose own times were measured shows that all were.
    pub fn together(beginning: &Self, captures: &[(Option<u64>, u64, Self)]) -> Self {
        let (mut all, mut end_ns, mut overlap) = (Self::default(), 0, false);
        for (first_ns, last_ns, stamps) in captures {
            overlap |= first_ns.is_some_and(|first_ns| first_ns < end_ns);
            end_ns = end_ns.max(*last_ns);
            all.append(*first_ns, stamps);
        }
        if overlap {
            all = *beginning;
            all.is_refuted |= captures.iter().any(|(_, _, stamps)| stamps.is_refuted);
        }
        all
    }

    /// Adds the distances of frames that follow those so far, the first of them at `first_ns`.
    fn append(&mut self, first_ns: Option<u64>, behind: &Self) {
        self.take(first_ns.into_iter());
        let is_usual = self.equal > 0 && self.is_usual(behind.distance_ns);
        match behind.equal {
            0 => {}
            equal if is_usual => self.equal += equal,
            equal if self.equal <= 1 => {
                self.other += self.equal;
                (self.distance_ns, self.equal) = (behind.distance_ns, equal);
            }
            equal => self.other += equal,
        }
        self.other += behind.other;
        self.last_ns = behind.last_ns.or(self.last_ns);
        self.is_refuted |= behind.is_refuted || self.other > EXCEPTIONS_MAX;
    }

    /// Returns whether the times were measured, whatever follows.
    pub fn are_measured(&self) -> bool {
        self.is_refuted
    }

    fn compare(&mut self, distance_ns: Option<u64>) {
        match distance_ns {
            Some(distance_ns) if self.equal > 0 && self.is_usual(distance_ns) => self.equal += 1,
            // The first distance may be an exception too.
            Some(distance_ns) if self.equal <= 1 => {
                self.other += self.equal;
                (self.distance_ns, self.equal) = (distance_ns, 1);
            }
            _ => self.other += 1,
        }
        self.is_refuted = self.other > EQUAL_FOR_EXCEPTION && !self.has_few_exceptions();
    }

    fn has_few_exceptions(&self) -> bool {
        self.other <= EXCEPTIONS_MAX + self.equal / EQUAL_FOR_EXCEPTION
    }

    fn is_usual(&self, distance_ns: u64) -> bool {
        let rounded_ns = if self.distance_ns < HOST_DELAY_MAX_NS { 0 } else { ROUNDING_NS };
        distance_ns.abs_diff(self.distance_ns) <= rounded_ns
    }

    /// Returns the distance of the frames if it is too regular to be measured, ns.
    fn made_up_ns(&self) -> Option<u64> {
        let is_short = (1..HOST_DELAY_MAX_NS).contains(&self.distance_ns);
        let least = if is_short { EVEN_SHORT_FRAMES_MIN } else { EVEN_FRAMES_MIN };
        let is_one_time = self.distance_ns > 0 || self.other == 0;
        let is_even = self.has_few_exceptions() && is_one_time && self.equal + 1 >= least;
        is_even.then_some(self.distance_ns)
    }

    /// Removes what depends on times from `report` if they were made up, and says so. Failures that
    /// a protocol shows stay, and floods, whose SYNs are counted. If a program wrote the packets as well,
    /// only failures that their content states do.
    pub fn settle(&self, is_written: bool, report: &mut Report) {
        let Some(distance_ns) = self.made_up_ns().or(is_written.then_some(0)) else { return };
        let is_shown = |cause: Cause| match is_written {
            true => STATED.contains(&cause),
            false => cause.makes_exchanges_fail() || cause == Cause::SynFlood,
        };
        report.findings.retain(|finding| is_shown(finding.cause));
        report.slowest.iter_mut().for_each(|exchange| exchange.cause = None);
        for connection in &mut report.connections {
            connection.lost_ns = 0;
            for (from, ns) in connection.ledger.iter().collect::<Vec<_>>() {
                let (sender, exchange, to) = (None, None, Slice::plain(Owner::Unknown, ns));
                connection.reassign(Reassigned { sender, exchange, from, to });
            }
        }
        let of_servers = report.endpoints.iter_mut().map(|endpoint| &mut endpoint.ledger);
        for ledger in of_servers.chain([&mut report.ledger]) {
            let mut unknown = Ledger::default();
            unknown.add(Owner::Unknown, ledger.total_ns());
            *ledger = unknown;
        }
        let (id, facts) = if is_written {
            report.observations.retain(|it| CONTAINED.contains(&it.id));
            report.totals.vantage = Vantage::Unknown;
            (PACKETS, Vec::new())
        } else {
            // No interface joined segments that a program wrote.
            report.observations.retain(|it| it.id != "super_packets");
            let apart = (distance_ns > 0).then_some(("distance_ns", Fact::Ns(distance_ns)));
            (TIMES, apart.into_iter().collect())
        };
        report.observations.push(Observation { id, facts, frames: Vec::new() });
    }
}

/// Returns whether the times of the capture were made up.
pub fn are_made_up(report: &Report) -> bool {
    report.observations.iter().any(says_made_up)
}

/// Returns whether the observation says so.
pub fn says_made_up(observation: &Observation) -> bool {
    [TIMES, PACKETS].contains(&observation.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up_ns(times_ns: impl Iterator<Item = u64>) -> Option<u64> {
        let mut stamps = Stamps::default();
        stamps.take(times_ns);
        stamps.made_up_ns()
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn equal_distances_are_made_up() {
        assert_eq!(made_up_ns((0..9).map(|at| at * 1_000 * MS)), Some(1_000 * MS));
        assert_eq!(made_up_ns((0..8).map(|at| at * 1_000 * MS)), None);
        assert_eq!(made_up_ns((0..25).map(|at| at * 1_000)), Some(1_000));
        assert_eq!(made_up_ns((0..9).map(|_| 7)), Some(0));
    }

    /// A burst at the rate of a link has nearly equal distances, and few frames.
    #[test]
    fn a_burst_and_a_timer_are_measured() {
        assert_eq!(made_up_ns((0..20).map(|at| at * 12_000)), None);
        let late = |at: u64| at * 1_000 * MS + at * at % 7 * 20_000;
        assert_eq!(made_up_ns((0..40).map(late)), None);
        let pairs = |at: u64| at / 2 * 1_000 * MS + at % 2 * 20 * MS;
        assert_eq!(made_up_ns((0..40).map(pairs)), None);
    }

    #[test]
    fn one_exception_is_a_joint() {
        let joined = |at: u64| if at == 0 { 41 * MS } else { at * MS };
        assert_eq!(made_up_ns((0..40).map(joined)), Some(MS));
        let twice = |at: u64| joined(at) + if at > 20 { 3 * MS } else { 0 };
        assert_eq!(made_up_ns((0..40).map(twice)), None);
        assert_eq!(made_up_ns((0..40).map(|at| if at > 20 { 9 } else { 7 })), None);
        let pieces = |at: u64| at * 10 * MS + at / 100 * 7 * MS;
        assert_eq!(made_up_ns((0..900_u64).map(pieces)), Some(10 * MS), "eight joints in 900");
        assert_eq!(made_up_ns((0..900).map(|at| at * 10 * MS + at / 20 * 7 * MS)), None);
    }
}
