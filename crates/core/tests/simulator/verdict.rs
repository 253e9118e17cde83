//! Holds what tcpwhy says at both ends against the truth.

use crate::config::{Config, Injected, Loss, SMALL_BYTES};
use crate::diagnosis::diagnose;
use crate::frames::pcap_with_link;
use crate::link::{CLIENT, IP_HEADER_BYTES, SERVER};
use crate::world::run;
use etherparse::TcpSlice;
use std::collections::HashSet;
use std::fmt::Write;
use tcpwhy_core::model::{Cause, Class, Finding, Owner, Report, Role};

/// Raw IP.
const LINK_RAW: u32 = 101;

/// Longest packet, bytes.
const SNAP_BYTES: usize = 65_535;

/// Offset of the last byte of an IPv4 packet's source address, and the server's value of it.
const SOURCE_LAST_BYTE: usize = 15;
const SERVER_LAST: u8 = 2;

/// One run, its truth, and the reports at both ends.
pub struct Verdict {
    config: Config,
    /// Sum of the client's waits, ns.
    wall_ns: u64,
    requests: usize,
    /// Segments that the server sent again though nothing was lost: the stack's timer runs on
    /// from the first segment of a flight and is not restarted by ACKs.
    needless_repeats: usize,
    /// Costs of the injected faults, largest first.
    costs: Vec<Cost>,
    reports: [Report; 2],
}

/// The cost of an injected fault.
#[derive(Clone, Copy)]
struct Cost {
    injected: Injected,
    /// Time by which all exchanges would end earlier without it, ns.
    ns: u64,
    /// Least and greatest time that may be reported as lost to it, ns. A fault costs more or less
    /// in the presence of others that would delay the sender anyway; see also
    /// [`Config::opening_ns`].
    bounds_ns: (u64, u64),
}

impl Cost {
    fn of(config: Config, wall_ns: u64, injected: Injected) -> Self {
        let cost_ns = |it: &Config, wall_ns: u64| {
            wall_ns.saturating_sub(run(&(injected.remove)(*it)).wall_ns())
        };
        let ns = cost_ns(&config, wall_ns);
        let others: Vec<_> =
            config.injected().into_iter().filter(|it| it.cause != injected.cause).collect();
        // Beside each choice of the others.
        let (mut least_ns, mut most_ns) = (ns, ns);
        for choice in 1..1_u32 << others.len() {
            let chosen = others.iter().enumerate().filter(|(index, _)| choice >> index & 1 == 1);
            let beside = chosen.fold(config, |it, (_, other)| (other.remove)(it));
            let beside_ns = cost_ns(&beside, run(&beside).wall_ns());
            (least_ns, most_ns) = (least_ns.min(beside_ns), most_ns.max(beside_ns));
        }
        let buffer = matches!(injected.cause, Cause::SendBuffer | Cause::ReceiveWindow);
        let opening_ns = if buffer { config.opening_ns().min(least_ns / 2) } else { 0 };
        Self { injected, ns, bounds_ns: (least_ns - opening_ns, most_ns) }
    }

    /// Returns whether `lost_ns` is within the bounds, with a tolerance of a tenth.
    fn fits(&self, lost_ns: u64, slack_ns: u64) -> bool {
        let (least_ns, most_ns) = self.bounds_ns;
        lost_ns + least_ns / 10 + slack_ns >= least_ns
            && lost_ns <= most_ns + most_ns / 10 + slack_ns
    }
}

/// Runs `config`, and again without each of its faults.
pub fn judge(config: Config) -> Verdict {
    let truth = run(&config);
    let wall_ns = truth.wall_ns();
    let mut costs: Vec<_> =
        config.injected().into_iter().map(|injected| Cost::of(config, wall_ns, injected)).collect();
    costs.sort_by_key(|cost| std::cmp::Reverse(cost.ns));
    let needless_repeats =
        if config.loss == Loss::None { repeats(&truth.captures[SERVER]) } else { 0 };
    let requests = truth.walls_ns.len();
    let reports =
        truth.captures.map(|frames| diagnose(&pcap_with_link(&frames, SNAP_BYTES, LINK_RAW)));
    Verdict { config, wall_ns, requests, needless_repeats, costs, reports }
}

/// Number of segments that the server sent more than once.
fn repeats(frames: &[(u64, Vec<u8>)]) -> usize {
    let mut seen = HashSet::new();
    let sent = frames.iter().filter(|(_, packet)| packet[SOURCE_LAST_BYTE] == SERVER_LAST);
    sent.filter_map(|(_, packet)| {
        let tcp = TcpSlice::from_slice(&packet[IP_HEADER_BYTES..]).ok()?;
        (!tcp.payload().is_empty()).then(|| tcp.sequence_number())
    })
    .filter(|seq| !seen.insert(*seq))
    .count()
}

fn faults(report: &Report) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|finding| finding.cause.class() == Class::Fault)
}

/// Nobody but the client knows how long it waited, but every vantage should come near.
fn wall(report: &Report, truth_ns: u64) -> Option<String> {
    let said_ns = report.totals.wall_ns;
    (said_ns.abs_diff(truth_ns) > truth_ns / 50 + 100_000)
        .then(|| format!("wall {} of {}", ms(said_ns), ms(truth_ns)))
}

fn ms(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

impl Verdict {
    /// Returns whether the run shows needless repetitions by the stack, which were not injected.
    pub fn has_spurious_retransmission(&self) -> bool {
        self.needless_repeats > 0
    }

    /// Returns all untrue statements of the report.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (place, end) in [("client", CLIENT), ("server", SERVER)] {
            let report = &self.reports[end];
            let (wall_ns, costs) = self.observable(end);
            let said = [
                self.sums(report),
                wall(report, wall_ns),
                self.cause(report, wall_ns, &costs),
                self.unnamed(report),
            ];
            wrong.extend(said.into_iter().flatten().map(|what| format!("at {place}: {what}")));
        }
        wrong
    }

    /// The wall time and the costs of faults that a capture at `end` can know of.
    fn observable(&self, end: usize) -> (u64, Vec<Cost>) {
        let mut wall_ns = self.wall_ns;
        let mut costs = self.costs.clone();
        costs.retain(|cost| match cost.injected.cause {
            // A SYN that was lost before this end is not in its capture.
            Cause::SynRetransmit if end == SERVER => {
                wall_ns -= cost.ns;
                false
            }
            // A whole write that did not come here may as well have been written late.
            Cause::RetransmissionTimeout => end == SERVER || self.config.body_bytes > SMALL_BYTES,
            // One quick repair is an observation, see `unnamed`.
            Cause::FastRecovery => false,
            _ => true,
        });
        (wall_ns, costs)
    }

    fn sums(&self, report: &Report) -> Option<String> {
        let (sum_ns, wall_ns) = (report.ledger.total_ns(), report.totals.wall_ns);
        if sum_ns != wall_ns || report.totals.exchanges != self.requests as u64 {
            let exchanges = report.totals.exchanges;
            return Some(format!("{exchanges} exchanges, ledger {sum_ns} of {wall_ns} ns"));
        }
        let unknown_ns = report.ledger.of(Owner::Unknown);
        (unknown_ns > wall_ns / 50).then(|| format!("{} ms of unknown", ms(unknown_ns)))
    }

    /// The first fault is the costliest; none is named where none costs anything.
    fn cause(&self, report: &Report, wall_ns: u64, costs: &[Cost]) -> Option<String> {
        let slack_ns = 200_000 * self.requests as u64;
        // A quick repair is named where it takes much of its exchange, and else observed.
        let repair = |finding: &&Finding| {
            let injected = self.costs.iter().filter(|cost| cost.injected.cause == finding.cause);
            finding.cause == Cause::FastRecovery
                && injected.into_iter().any(|cost| cost.fits(finding.lost_ns, slack_ns))
        };
        let first = faults(report).find(|finding| !repair(finding));
        if costs.iter().all(|cost| cost.ns == 0) {
            let lost = self.config.loss != Loss::None;
            let real = |finding: &&Finding| !(lost && finding.culprit.role == Role::Network);
            return first.filter(real).map(|finding| format!("{}, unsolicited", said(finding)));
        }
        // A buffer shows where its round trips are long.
        let buffer = |cause| matches!(cause, Cause::SendBuffer | Cause::ReceiveWindow);
        let shows = |cost: &&Cost| !buffer(cost.injected.cause) || self.config.rtt_us > 2_000;
        let cost = costs.iter().find(shows).unwrap_or(&costs[0]);
        let (cause, role) = (cost.injected.cause, cost.injected.role.id());
        // Near the floors of what is worth a finding, either answer is right.
        let each_ns = cost.ns / self.requests as u64;
        let worth = shows(&&costs[0]) && cost.ns >= wall_ns / 8 && each_ns >= 2_000_000;
        let Some(finding) = first else {
            return worth.then(|| format!("no fault, but {} costs {} ms", cause.id(), ms(cost.ns)));
        };
        // Any fault that may cost as much as any other costs at least is as good an answer.
        let least_ns = |cost: &Cost| cost.bounds_ns.0;
        let least_ns = costs.iter().filter(shows).map(least_ns).max().unwrap_or(0);
        let fits = |one: &&Cost| {
            one.injected.cause == finding.cause
                && one.injected.role == finding.culprit.role
                && one.bounds_ns.1 >= least_ns - least_ns / 10
                && one.fits(finding.lost_ns, slack_ns)
        };
        costs.iter().find(fits).is_none().then(|| {
            format!("{}, but {} by {role} costs {} ms", said(finding), cause.id(), ms(cost.ns))
        })
    }

    /// A single quick repair need not be a finding, but its time must have its owner.
    fn unnamed(&self, report: &Report) -> Option<String> {
        let quick = |cost: &&Cost| cost.injected.cause == Cause::FastRecovery;
        let cost_ns = self.costs.iter().find(quick)?.ns;
        let owned_ns = report.ledger.of(Owner::FastRecovery);
        (owned_ns.abs_diff(cost_ns) > cost_ns / 10 + 1_000_000)
            .then(|| format!("fast_recovery owns {} of {} ms", ms(owned_ns), ms(cost_ns)))
    }

    /// A row of the table.
    pub fn row(&self) -> String {
        let mut row = format!("{} | {:>7}", self.config, ms(self.wall_ns));
        let truth: Vec<_> = self
            .costs
            .iter()
            .filter(|cost| cost.ns > 0)
            .map(|cost| format!("{} {}", cost.injected.cause.id(), ms(cost.ns)))
            .collect();
        let _ = write!(row, " {:<28}", truth.join(", "));
        if self.has_spurious_retransmission() {
            let _ = write!(row, " ({} repeats)", self.needless_repeats);
        }
        let [client, server] = self.reports.each_ref().map(|report| {
            let findings: Vec<_> = faults(report).map(said).collect();
            format!("{:>7} {}", ms(report.totals.wall_ns), findings.join(", "))
        });
        let _ = write!(row, " | {client:<36} | {server}");
        let wrong = if self.wrong().is_empty() { "" } else { " WRONG" };
        row.truncate(row.trim_end().len());
        row + wrong
    }

    /// The configuration with what is wrong about its reports.
    pub fn complaint(&self) -> Option<String> {
        let wrong = self.wrong();
        (!wrong.is_empty()).then(|| format!("{}\n    {}", self.row(), wrong.join("\n    ")))
    }
}

fn said(finding: &Finding) -> String {
    let (cause, role) = (finding.cause.id(), finding.culprit.role.id());
    format!("{cause} by {role} {}", ms(finding.lost_ns))
}
