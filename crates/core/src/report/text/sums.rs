//! Relates the costs of the findings to the owners' shares in the bar.

use crate::judge::thresholds::ALIKE_PART;
use crate::model::{Cause, Finding, Language, Owner, Report};
use crate::report::phrases::{owner_name, share_of};
use crate::say;

/// Returns whether `ns`, the time of so many exchanges, is longer than the whole capture on each of so
/// many connections: then some of it passed at the same time. Up to an eighth more may be the estimated
/// way between the capture and the clients.
pub(super) fn overlap(report: &Report, ns: u64, (exchanges, connections): (u64, u64)) -> bool {
    let totals = &report.totals;
    let span_ns = totals.last_ns.saturating_sub(totals.first_ns);
    let most_ns = span_ns.saturating_mul(connections.max(1));
    span_ns > 0 && exchanges > 1 && ns > most_ns.saturating_add(most_ns / ALIKE_PART)
}

/// Owners whose time is shared by the same findings, and the time of each of these causes, ns.
#[derive(Debug, Default)]
struct Sum {
    owners: Vec<Owner>,
    causes: Vec<(Cause, u64)>,
}

impl Sum {
    fn add(&mut self, cause: Cause, ns: u64) {
        match self.causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, sum_ns)) => *sum_ns += ns,
            None => self.causes.push((cause, ns)),
        }
    }
}

/// Returns a line for each owner of the bar whose findings have another name or another share:
/// `connect 87 % = accept_queue_overflow 52 % + 35 % outside the findings`.
pub(super) fn lines(report: &Report, language: Language) -> Vec<String> {
    let whole_ns = report.ledger.total_ns();
    sums(&report.findings).iter().filter_map(|sum| line(sum, report, whole_ns, language)).collect()
}

/// Groups the findings by the owners of their time.
fn sums(findings: &[Finding]) -> Vec<Sum> {
    let mut sums: Vec<Sum> = Vec::new();
    let counted = findings.iter().filter(|it| it.lost_ns > 0 && !it.cause.owners().is_empty());
    for finding in counted {
        let owners = finding.cause.owners();
        let shared = |sum: &Sum| sum.owners.iter().any(|owner| owners.contains(owner));
        let mut joined = Sum { owners: owners.to_vec(), causes: Vec::new() };
        for sum in sums.extract_if(.., |sum| shared(sum)) {
            joined.owners.extend(sum.owners);
            sum.causes.into_iter().for_each(|(cause, ns)| joined.add(cause, ns));
        }
        joined.add(finding.cause, finding.lost_ns);
        joined.owners.sort_unstable();
        joined.owners.dedup();
        sums.push(joined);
    }
    sums
}

fn line(sum: &Sum, report: &Report, whole_ns: u64, language: Language) -> Option<String> {
    let owners: Vec<_> = sum.owners.iter().filter(|it| report.ledger.of(**it) > 0).collect();
    let owned_ns: u64 = owners.iter().map(|owner| report.ledger.of(**owner)).sum();
    let told_ns: u64 = sum.causes.iter().map(|(_, ns)| ns).sum();
    let names: Vec<_> = owners.iter().map(|owner| owner.id()).collect();
    let shown: Vec<_> = owners.iter().map(|owner| owner_name(**owner, language)).collect();
    let mut left = format!("{} {}", shown.join(" + "), share_of(owned_ns, whole_ns));
    let shown = |(cause, ns): &(Cause, u64)| format!("{} {}", cause.id(), share_of(*ns, whole_ns));
    let mut right: Vec<String> = sum.causes.iter().map(shown).collect();
    // Differences that round to nothing are left out.
    let differs = |ns: u64| ns as f64 >= DIFFERENCE_MIN * whole_ns as f64;
    let (rest_ns, more_ns) = (owned_ns.saturating_sub(told_ns), told_ns.saturating_sub(owned_ns));
    if differs(rest_ns) {
        let share = share_of(rest_ns, whole_ns);
        let failures = failures(&report.findings);
        right.push(match failures.is_empty() {
            true => say!(language, "outside_findings", share),
            false => say!(language, "outside_or_within", share, failures),
        });
    }
    if differs(more_ns) {
        let more = say!(language, "of_others", share = share_of(more_ns, whole_ns));
        left += &format!(" + {more}");
    }
    // `server` and `server_think`, `tls` and `tls_handshake` mean the same time.
    let alike = match (names.as_slice(), sum.causes.as_slice()) {
        ([name], [(cause, _)]) => cause.id().starts_with(name),
        _ => false,
    };
    let same = alike && !differs(rest_ns) && !differs(more_ns);
    (!names.is_empty() && !same).then(|| format!("{left} = {}", right.join(" + ")))
}

/// Returns the causes of findings whose exchanges failed, which have time of any owner.
fn failures(findings: &[Finding]) -> String {
    let failing = findings.iter().filter(|it| it.lost_ns > 0 && it.cause.owners().is_empty());
    let mut names: Vec<_> = failing.map(|it| it.cause.id()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Smallest difference that is shown: half a per cent.
const DIFFERENCE_MIN: f64 = 0.005;
