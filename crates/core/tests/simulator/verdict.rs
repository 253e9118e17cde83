//! Holds what tcpwhy says at both ends against the truth.

use crate::config::{Config, Injected};
use crate::diagnosis::diagnose;
use crate::frames::pcap_with_link;
use crate::link::{CLIENT, SERVER};
use crate::world::run;
use std::fmt::Write;
use tcpwhy_core::cause::{Class, Owner};
use tcpwhy_core::report::{Finding, Report};

/// Raw IP.
const LINK_RAW: u32 = 101;

/// Longest packet, bytes.
const SNAP_BYTES: usize = 65_535;

/// One run, its truth, and the reports at both ends.
pub struct Verdict {
    config: Config,
    /// What the client waited in all, ns.
    wall_ns: u64,
    requests: usize,
    /// What each injected fault cost, ns; the costliest first.
    costs: Vec<(Injected, u64)>,
    reports: [Report; 2],
}

/// Runs `config`, and again without each of its faults.
pub fn judge(config: Config) -> Verdict {
    let truth = run(&config);
    let wall_ns = truth.wall_ns();
    let mut costs: Vec<_> = config
        .injected()
        .into_iter()
        .map(|injected| (injected, wall_ns.saturating_sub(run(&injected.without).wall_ns())))
        .collect();
    costs.sort_by_key(|(_, cost_ns)| std::cmp::Reverse(*cost_ns));
    let reports =
        truth.captures.map(|frames| diagnose(&pcap_with_link(&frames, SNAP_BYTES, LINK_RAW)));
    Verdict { config, wall_ns, requests: truth.walls_ns.len(), costs, reports }
}

fn faults(report: &Report) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|finding| finding.cause.class() == Class::Fault)
}

fn ms(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

impl Verdict {
    /// Everything that tcpwhy says and that is not so.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (place, end) in [("client", CLIENT), ("server", SERVER)] {
            let report = &self.reports[end];
            let said = [self.sums(report), self.wall(report), self.cause(report)];
            wrong.extend(said.into_iter().flatten().map(|what| format!("at {place}: {what}")));
        }
        wrong
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

    /// Nobody else than the client knows how long it waited, but every vantage should come near.
    fn wall(&self, report: &Report) -> Option<String> {
        let off_ns = report.totals.wall_ns.abs_diff(self.wall_ns);
        (off_ns > self.wall_ns / 50 + 100_000)
            .then(|| format!("wall {} of {}", ms(report.totals.wall_ns), ms(self.wall_ns)))
    }

    fn cause(&self, report: &Report) -> Option<String> {
        let first = faults(report).next();
        let dominant = self.costs.first().filter(|(_, cost_ns)| *cost_ns > 0);
        let Some((injected, cost_ns)) = dominant else {
            return first.map(|finding| format!("{} on a healthy run", said(finding)));
        };
        // Near the floors of what is worth a finding, either answer is right.
        let worth = *cost_ns >= self.wall_ns / 20 && *cost_ns >= 2_000_000 * self.requests as u64;
        let Some(finding) = first else {
            return worth.then(|| {
                format!("no fault, but {} costs {} ms", injected.cause.id(), ms(*cost_ns))
            });
        };
        // Any fault that costs as much as the dominant one is as good an answer.
        let fits = |(one, one_ns): &&(Injected, u64)| {
            one.cause == finding.cause && one.role == finding.culprit.role && {
                let off_ns = one_ns.abs_diff(finding.lost_ns);
                *one_ns >= cost_ns - cost_ns / 10
                    && (off_ns <= one_ns / 10 + 200_000 * self.requests as u64)
            }
        };
        self.costs.iter().find(fits).is_none().then(|| {
            let (cause, role) = (injected.cause.id(), injected.role.id());
            format!("{}, but {cause} by {role} costs {} ms", said(finding), ms(*cost_ns))
        })
    }

    /// A row of the table.
    pub fn row(&self) -> String {
        let mut row = format!("{} | {:>7}", self.config, ms(self.wall_ns));
        let truth: Vec<_> = self
            .costs
            .iter()
            .filter(|(_, cost_ns)| *cost_ns > 0)
            .map(|(injected, cost_ns)| format!("{} {}", injected.cause.id(), ms(*cost_ns)))
            .collect();
        let _ = write!(row, " {:<28}", truth.join(", "));
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
