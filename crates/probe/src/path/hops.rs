//! Finds the hops of a path by probes with a hop limit, which expire at one router after the other
//! (RFC 1812 §4.3.2.4 has routers report that). All probes have the same addresses and ports.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::connecting::Connecting;
use super::rtt::{refused, spread};
use super::sender::{Arrival, Sender, What};
use super::{Method, PathMeasurement, Report, steps};

/// The search ends after this many consecutive hops that do not answer.
const SILENT_MAX: u8 = 8;
/// Least time between the probes of two hops. Later answers still count.
const GAP_MIN: Duration = Duration::from_millis(50);
/// Time between two probes of one round.
const SPACING: Duration = Duration::from_millis(2);

/// An address that answered for a hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HopAddress {
    /// The address.
    pub address: IpAddr,
    /// Number of answers.
    pub answers: u64,
}

/// One hop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Distance in hops; 1 is the first router.
    pub hop: u8,
    /// Addresses that answered, the most frequent first; more than one if a router balances by
    /// packet.
    pub addresses: Vec<HopAddress>,
    /// `true` if the hop is the target.
    pub is_target: bool,
    /// Number of probes.
    pub sent: u64,
    /// Number of answers.
    pub received: u64,
    /// Round trip of each answer, ns.
    pub samples_ns: Vec<u64>,
    /// Least round trip, ns.
    pub min_ns: Option<u64>,
    /// Median round trip, ns.
    pub p50_ns: Option<u64>,
    /// Greatest round trip, ns.
    pub max_ns: Option<u64>,
}

/// How the search for hops ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum PathEnd {
    /// The target answered.
    Reached,
    /// The last hops probed did not answer.
    #[default]
    Silent,
    /// A router refuses to forward the probes.
    Unreachable {
        /// The router.
        by: Option<IpAddr>,
        /// Code of its ICMP error.
        code: u8,
    },
}

/// The path to the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Kind of the probes.
    pub method: Option<Method>,
    /// The source port of all probes.
    pub source_port: u16,
    /// The hops, up to the last one that answered.
    pub hops: Vec<Hop>,
    /// How the search for hops ended.
    #[serde(flatten)]
    pub end: PathEnd,
    /// The first hop that loses probes and after which every answering hop, including the target,
    /// loses probes too. If a loss does not continue at the following hops, that router limits its
    /// ICMP messages, and the path loses nothing.
    pub loses_from: Option<u8>,
}

/// Sends the probes of a path.
pub(super) trait Probes {
    /// Sends a probe with the hop limit `hops`, and returns the time of sending by
    /// `CLOCK_REALTIME`, ns.
    fn send(&mut self, number: u16, hops: u8) -> std::io::Result<u64>;
    /// Waits at most `timeout` for an answer.
    fn wait(&self, timeout: Duration);
    /// Returns all answers that have arrived.
    fn arrivals(&mut self) -> Vec<Arrival>;
    /// Returns the source port of the probes.
    fn source_port(&self) -> u16;
    /// Returns whether only one probe can be in flight.
    fn is_sequential(&self) -> bool;
}

impl Probes for Sender {
    fn send(&mut self, number: u16, hops: u8) -> std::io::Result<u64> {
        self.probe(number, Some(hops))
    }

    fn wait(&self, timeout: Duration) {
        Sender::wait(self, timeout);
    }

    fn arrivals(&mut self) -> Vec<Arrival> {
        Sender::arrivals(self)
    }

    fn source_port(&self) -> u16 {
        self.source().port()
    }

    fn is_sequential(&self) -> bool {
        false
    }
}

/// Finds the hops and measures each of them; writes the result into the report.
pub(super) fn find(
    asked: &PathMeasurement<'_>,
    report: &mut Report,
    tell: &mut dyn FnMut(&Report),
) {
    if !asked.plan.hops {
        return;
    }
    let (method, probes) = match open(asked) {
        Ok(opened) => opened,
        Err(why) => return report.skip("hops", why),
    };
    let mut search = Search {
        asked,
        probes,
        sent: Vec::new(),
        path: Path { method: Some(method), ..Path::default() },
        reached: None,
        refused_at: None,
        rtt_max: Duration::ZERO,
    };
    search.path.source_port = search.probes.source_port();
    if let Err(error) = search.run(report, tell) {
        report.skip("hops", format!("probes cannot be sent: {error}"));
    }
    report.packets_sent += search.sent.len() as u64;
    search.show(report);
    report.step = report.path.as_ref().and_then(steps::added);
}

/// Opens a sender for the requested kind of probes; if none was requested, SYNs if a raw socket is
/// permitted, and otherwise datagrams.
fn open(asked: &PathMeasurement<'_>) -> Result<(Method, Box<dyn Probes>), String> {
    let sender =
        |method| Sender::open(method, asked).map(|it| (method, Box::new(it) as Box<dyn Probes>));
    let connecting = || {
        Connecting::open(asked.address, &asked.plan.budget)
            .map(|it| (Method::Tcp, Box::new(it) as Box<dyn Probes>))
    };
    let opened = match asked.plan.method {
        None => sender(Method::Tcp).or_else(|_| sender(Method::Udp)),
        Some(Method::Tcp) => sender(Method::Tcp).or_else(|_| connecting()),
        Some(method) => sender(method),
    };
    opened.map_err(|error| refused(&error, "a probe", "name another --method, or run as root"))
}

/// A probe that was sent.
struct Sent {
    hop: u8,
    at_ns: u64,
    is_answered: bool,
}

struct Search<'a> {
    asked: &'a PathMeasurement<'a>,
    probes: Box<dyn Probes>,
    /// The probes, by number.
    sent: Vec<Sent>,
    path: Path,
    /// The least distance at which the target answered.
    reached: Option<u8>,
    /// The least distance at which a router refused.
    refused_at: Option<u8>,
    rtt_max: Duration,
}

impl Search<'_> {
    fn run(&mut self, report: &mut Report, tell: &mut dyn FnMut(&Report)) -> std::io::Result<()> {
        let found = self.first_round(report, tell);
        for _ in 1..self.asked.plan.count {
            if self.asked.is_stopped() || found.is_err() {
                break;
            }
            let began = Instant::now();
            self.round()?;
            self.show(report);
            tell(report);
            self.asked.pause(began);
        }
        self.settle();
        found
    }

    /// Returns the last hop that is probed.
    fn last(&self) -> u8 {
        let ends = [self.reached, self.refused_at];
        let end = ends.into_iter().flatten().min();
        end.unwrap_or(self.path.hops.len() as u8)
    }

    /// Probes hop by hop until the target answers, a router refuses to forward, or [`SILENT_MAX`]
    /// consecutive hops do not answer.
    fn first_round(
        &mut self,
        report: &mut Report,
        tell: &mut dyn FnMut(&Report),
    ) -> std::io::Result<()> {
        for hop in 1..=self.asked.plan.hops_max {
            let answered = self.path.hops.iter().rfind(|it| it.received > 0).map_or(0, |it| it.hop);
            let is_over = self.reached.or(self.refused_at).is_some();
            if is_over || hop > answered + SILENT_MAX || self.asked.is_stopped() {
                break;
            }
            self.path.hops.push(Hop { hop, ..Hop::default() });
            self.send(hop)?;
            self.collect(self.gap());
            self.show(report);
            tell(report);
        }
        self.settle();
        self.path.hops.truncate(usize::from(self.last()));
        Ok(())
    }

    fn round(&mut self) -> std::io::Result<()> {
        for hop in 1..=self.last() {
            // A hop that did not answer two probes probably does not answer another one, and each
            // probe costs the whole timeout.
            let state = &self.path.hops[usize::from(hop) - 1];
            let silent = state.received == 0 && state.sent >= 2;
            if self.asked.is_stopped() || (silent && self.probes.is_sequential()) {
                continue;
            }
            self.send(hop)?;
            self.collect(if self.probes.is_sequential() { self.gap() } else { SPACING });
        }
        Ok(())
    }

    /// Returns the time between the probes of two hops.
    fn gap(&self) -> Duration {
        let wait = self.asked.plan.wait;
        if self.probes.is_sequential() { wait } else { (self.rtt_max * 3).max(GAP_MIN).min(wait) }
    }

    fn send(&mut self, hop: u8) -> std::io::Result<()> {
        let number = self.sent.len() as u16;
        let at_ns = self.probes.send(number, hop)?;
        self.sent.push(Sent { hop, at_ns, is_answered: false });
        self.path.hops[usize::from(hop) - 1].sent += 1;
        Ok(())
    }

    /// Processes answers until the latest probe is answered, at most for `timeout`.
    fn collect(&mut self, timeout: Duration) {
        let until = Instant::now() + timeout;
        loop {
            for arrival in self.probes.arrivals() {
                self.take(&arrival);
            }
            let left = until.saturating_duration_since(Instant::now());
            let is_answered = self.sent.last().is_none_or(|it| it.is_answered);
            if left.is_zero() || is_answered || self.asked.is_stopped() {
                return;
            }
            self.probes.wait(left);
        }
    }

    /// Waits for the answers that are still missing.
    fn settle(&mut self) {
        let until = Instant::now() + self.asked.plan.wait;
        let last = self.last();
        while self.sent.iter().any(|it| !it.is_answered && it.hop <= last) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.asked.is_stopped() || self.probes.is_sequential() {
                return;
            }
            self.probes.wait(left);
            for arrival in self.probes.arrivals() {
                self.take(&arrival);
            }
        }
    }

    fn take(&mut self, arrival: &Arrival) {
        // The answer of a router that quotes no payload is attributed to the oldest probe without
        // one.
        let oldest = || self.sent.iter().position(|it| !it.is_answered);
        let Some(index) = arrival.number.map(usize::from).or_else(oldest) else { return };
        let Some(sent) = self.sent.get_mut(index).filter(|it| !it.is_answered) else { return };
        sent.is_answered = true;
        let (number, rtt_ns) = (sent.hop, arrival.at_ns.saturating_sub(sent.at_ns));
        self.rtt_max = self.rtt_max.max(Duration::from_nanos(rtt_ns)).min(self.asked.plan.wait);
        let Some(hop) = self.path.hops.get_mut(usize::from(number) - 1) else { return };
        hop.received += 1;
        hop.samples_ns.push(rtt_ns);
        let is_targets = arrival.from == Some(self.asked.address.ip());
        match arrival.what {
            What::Accepted | What::Refused | What::Echo => hop.is_target = true,
            What::PortClosed if is_targets => hop.is_target = true,
            What::Unreachable { code } => {
                self.refused_at = self.refused_at.into_iter().chain([number]).min();
                self.path.end = PathEnd::Unreachable { by: arrival.from, code };
            }
            _ => {}
        }
        if hop.is_target {
            self.reached = self.reached.into_iter().chain([number]).min();
        }
        if let Some(address) = arrival.from {
            match hop.addresses.iter_mut().find(|it| it.address == address) {
                Some(known) => known.answers += 1,
                None => hop.addresses.push(HopAddress { address, answers: 1 }),
            }
            hop.addresses.sort_by_key(|it| std::cmp::Reverse(it.answers));
        }
    }

    /// Copies the results so far into the report.
    fn show(&mut self, report: &mut Report) {
        let mut path = self.path.clone();
        if self.reached.is_some() {
            path.end = PathEnd::Reached;
        }
        let last = path.hops.iter().rfind(|it| it.received > 0).map_or(0, |it| it.hop);
        path.hops.truncate(usize::from(last.min(self.last())));
        for hop in &mut path.hops {
            if let Some((min, p50, max)) = spread(hop.samples_ns.iter().copied()) {
                (hop.min_ns, hop.p50_ns, hop.max_ns) = (Some(min), Some(p50), Some(max));
            }
        }
        path.loses_from = loses_from(&path.hops).filter(|_| self.reached.is_some());
        report.path = Some(path);
    }
}

/// Returns the first hop from which on all answering hops lose probes. Silent hops are ignored.
fn loses_from(hops: &[Hop]) -> Option<u8> {
    let answering = hops.iter().rev().filter(|it| it.received > 0);
    answering.take_while(|it| it.received < it.sent).last().map(|it| it.hop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loss_that_continues_to_the_target_is_loss_of_the_path() {
        let hops = |answers: &[(u64, u64)]| -> Vec<Hop> {
            let hop = |(index, &(sent, received)): (usize, &(u64, u64))| Hop {
                hop: index as u8 + 1,
                sent,
                received,
                ..Hop::default()
            };
            answers.iter().enumerate().map(hop).collect()
        };
        assert_eq!(loses_from(&hops(&[(5, 5), (5, 3), (5, 5)])), None, "a limit on ICMP");
        assert_eq!(loses_from(&hops(&[(5, 5), (5, 4), (5, 0), (5, 4)])), Some(2));
        assert_eq!(loses_from(&hops(&[(5, 0), (5, 5)])), None);
        assert_eq!(loses_from(&[]), None);
    }
}
