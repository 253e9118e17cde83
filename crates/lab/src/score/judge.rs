//! Judges the answer about one capture by its truth.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::answer::{Answer, Culprit, Named};
use super::truth::{TrueCause, TrueRequest, Truth};
use super::{INTERVAL_NS_MAX, INTERVAL_SHARE_MAX, KERNEL_FOUND, KERNEL_SHARE};
use crate::labels::{Class, Role, Variant};
use crate::sys::TcpInfo;

/// The result for one capture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// Path of the capture, relative to the directory of the data set.
    pub capture: String,
    /// Name of its case.
    pub case: String,
    /// The variant that was run.
    pub variant: Variant,
    /// Where the capture was taken.
    pub vantage: String,
    /// The class of the right finding.
    pub class: Class,
    /// `true` if the host or the link did not keep time, so that the answer does not count.
    pub late: bool,
    /// `true` if there was an answer.
    pub answered: bool,
    /// The result for each labelled cause.
    pub causes: Vec<JudgedCause>,
    /// Faults that were named but are not present, and costs ranked before the labelled cause.
    pub false_findings: Vec<String>,
    /// Claims of the report that the packets contradict.
    pub false_claims: Vec<String>,
    /// Findings that are right.
    pub right_findings: Vec<String>,
    /// Stated confidence of each finding that was judged.
    pub stated: Vec<Stated>,
    /// Latency without the cause, predicted and measured.
    pub counterfactual: Option<Counterfactual>,
    /// The kernel's account of what limited the senders.
    pub kernel: Option<Kernel>,
    /// Share of the time that the tool attributes to no owner.
    pub unknown_share: Option<f64>,
    /// Relative error of the sum of all times.
    pub wall_error: Option<f64>,
}

/// The result for one labelled cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedCause {
    /// The id of the cause.
    pub cause: String,
    /// `true` if no packet at this vantage shows the cause, so that it does not count.
    pub hidden: bool,
    /// `true` if the cause, or one that is right instead of it, was named.
    pub found: bool,
    /// `true` if the right culprit was named; `None` if the cause was not found.
    pub culprit_right: Option<bool>,
    /// True cost, ns, if known.
    pub true_lost_ns: Option<u64>,
    /// Part of the true cost that is beside the cause, ns.
    #[serde(skip)]
    pub beside_ns: u64,
    /// Cost according to the tool, ns.
    pub lost_ns: Option<u64>,
}

impl JudgedCause {
    /// Relative error of the lost time, with its sign.
    pub fn lost_error(&self) -> Option<f64> {
        let (truth, said) = (self.true_lost_ns.filter(|ns| *ns > 0)?, self.lost_ns?);
        Some(said as f64 / truth as f64 - 1.0)
    }
}

/// The confidence of a finding, and whether it was right.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stated {
    /// The id of the cause.
    pub cause: String,
    /// Number of exchanges that the finding is of; of connections if it is of no exchange.
    pub cases: u64,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// `true` if the finding is labelled.
    pub right: bool,
}

/// A predicted latency and the measured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counterfactual {
    /// Predicted median latency without the cause: the likely value, ns.
    pub predicted_p50_ns: u64,
    /// Lower end of the predicted interval, ns.
    pub least_p50_ns: u64,
    /// Upper end of the predicted interval, ns.
    pub most_p50_ns: u64,
    /// Median latency measured in the run with the fix, from first to last packet, ns.
    pub measured_p50_ns: u64,
}

impl Counterfactual {
    /// Relative error of the likely value, without its sign.
    pub fn error(&self) -> f64 {
        let off = self.predicted_p50_ns.abs_diff(self.measured_p50_ns);
        off as f64 / self.measured_p50_ns.max(1) as f64
    }

    /// Returns whether the measured value lies in the interval, and the interval is narrow enough.
    pub fn is_right(&self) -> bool {
        let within = self.least_p50_ns..=self.most_p50_ns;
        within.contains(&self.measured_p50_ns) && self.is_narrow()
    }

    /// Returns whether the interval says enough: an interval of any width would always be right.
    pub fn is_narrow(&self) -> bool {
        let width_ns = self.most_p50_ns.saturating_sub(self.least_p50_ns);
        let middle_ns = self.least_p50_ns as f64 + width_ns as f64 / 2.0;
        width_ns <= INTERVAL_NS_MAX || width_ns as f64 <= INTERVAL_SHARE_MAX * middle_ns
    }
}

/// The kernel's account of a limit, compared with the tool's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// `receive_window` (with `zero_window`) or `send_buffer`.
    pub limit: &'static str,
    /// Time in the limit by `tcpi_rwnd_limited` or `tcpi_sndbuf_limited`, ns.
    pub kernel_ns: u64,
    /// Time in the limit by the tool's ledger, ns.
    pub ledger_ns: u64,
}

impl Kernel {
    /// Returns whether the tool finds what the kernel counted. The reverse does not hold: the
    /// kernel misses what ends with the socket, and most of the cost of a small send buffer.
    pub fn is_consistent(&self) -> bool {
        self.ledger_ns as f64 >= KERNEL_FOUND * self.kernel_ns as f64
    }
}

/// Judges the `answer` about the capture at `vantage`.
pub fn judge(truth: &Truth, capture: &str, vantage: &str, answer: Option<&Answer>) -> Judged {
    let nothing = Answer::default();
    let said = answer.unwrap_or(&nothing);
    let mut judged = Judged {
        capture: capture.to_owned(),
        case: truth.case.clone(),
        variant: truth.variant,
        vantage: vantage.to_owned(),
        class: truth.class,
        late: truth.is_late(),
        answered: answer.is_some(),
        causes: truth.causes.iter().map(|cause| judge_cause(cause, vantage, said)).collect(),
        false_findings: Vec::new(),
        false_claims: said.false_claims().collect(),
        right_findings: Vec::new(),
        stated: Vec::new(),
        counterfactual: counterfactual(truth, vantage, said),
        kernel: kernel(truth, said),
        unknown_share: said.unknown_share(),
        wall_error: said.wall_ns().map(|ns| ns as f64 / truth.wall_ns.max(1) as f64 - 1.0),
    };
    for (rank, named) in said.findings.iter().enumerate() {
        let Some(right) = judge_named(truth, said, rank, named) else { continue };
        let findings = if right { &mut judged.right_findings } else { &mut judged.false_findings };
        findings.push(named.cause.clone());
        let (cause, cases) = (named.cause.clone(), named.affected.cases());
        let stated = |confidence| Stated { cause, cases, confidence, right };
        judged.stated.extend(named.confidence.map(stated));
    }
    judged
}

fn judge_cause(truth: &TrueCause, vantage: &str, said: &Answer) -> JudgedCause {
    let own: Vec<&Named> = said.findings.iter().filter(|named| truth.is(&named.cause)).collect();
    let alike = |named: &&Named| truth.looks_like(&named.cause, named.culprit.role);
    let alike: Vec<&Named> = said.findings.iter().filter(alike).collect();
    let found = !own.is_empty() || !alike.is_empty();
    // If the same cause is named at several endpoints, the right one counts; the others are false
    // findings.
    let named: Vec<&&Named> = own.iter().filter(|named| named.cause == truth.cause).collect();
    let who: Vec<&&Named> = if named.is_empty() { own.iter().collect() } else { named };
    let right = !alike.is_empty() || who.iter().any(|named| is_culprit(truth, &named.culprit));
    // Findings with an id of the cause itself add up; of the alternatives, any one counts.
    let lost_ns = match own.as_slice() {
        [] => alike.iter().map(|named| named.lost_ns).max(),
        own => Some(own.iter().map(|named| named.lost_ns).sum()),
    };
    JudgedCause {
        cause: truth.cause.clone(),
        hidden: truth.is_unseen_at(vantage),
        found,
        culprit_right: found.then_some(right),
        true_lost_ns: truth.lost_ns,
        beside_ns: truth.beside_ns,
        lost_ns,
    }
}

/// Returns whether a finding is right; `None` if the labels do not decide it: a cost is nobody's
/// fault, and may be named in addition to the labelled cause.
fn judge_named(truth: &Truth, said: &Answer, rank: usize, named: &Named) -> Option<bool> {
    if truth.causes.iter().any(|cause| cause.looks_like(&named.cause, named.culprit.role)) {
        return Some(true);
    }
    if let Some(cause) = truth.causes.iter().find(|cause| cause.is(&named.cause)) {
        let same = |other: &&Named| other.cause == named.cause && is_culprit(cause, &other.culprit);
        let other_is_right = said.findings.iter().any(|other| same(&other));
        let second =
            named.cause == cause.cause && !is_culprit(cause, &named.culprit) && other_is_right;
        return Some(!second);
    }
    if truth.not_judged.contains(&named.cause) {
        return None;
    }
    match named.class {
        Some(Class::Cost) => (rank == 0 && truth.class == Class::Cost).then_some(false),
        _ => Some(false),
    }
}

/// A client is identified by its address, since its port differs for each connection; the network
/// has no endpoint.
fn is_culprit(truth: &TrueCause, said: &Culprit) -> bool {
    if truth.culprit_role != said.role {
        return false;
    }
    let (Some(label), Some(named)) = (
        truth.culprit_endpoint.as_deref().and_then(parse),
        said.endpoint.as_deref().and_then(parse),
    ) else {
        return true;
    };
    match said.role {
        Role::Network => true,
        Role::Client => label.0 == named.0,
        _ => label.0 == named.0 && (label.1 == named.1 || label.1 == 0 || named.1 == 0),
    }
}

/// Parses address and port; port 0 if there is none.
fn parse(endpoint: &str) -> Option<(IpAddr, u16)> {
    let socket = endpoint.parse::<SocketAddr>().map(|socket| (socket.ip(), socket.port()));
    socket.ok().or_else(|| endpoint.parse::<IpAddr>().ok().map(|address| (address, 0)))
}

/// Returns the comparison for a single fault, in truth and in the answer, that is visible at this
/// vantage and only makes requests slow. A cost has no run with a fix. The time that a failed
/// request would have taken is in no packet, and a request without a connection is no exchange of a
/// report.
fn counterfactual(truth: &Truth, vantage: &str, said: &Answer) -> Option<Counterfactual> {
    let tells = |asked: &TrueRequest| asked.error.is_none() && !asked.client_endpoint.is_empty();
    if truth.class != Class::Fault || !truth.requests.iter().all(tells) {
        return None;
    }
    let after = truth.on_wire_after_fix_ns.or(truth.latency_after_fix_ns);
    let ([cause], Some(after)) = (truth.causes.as_slice(), after) else {
        return None;
    };
    if cause.is_unseen_at(vantage) {
        return None;
    }
    let mut hits = said.findings.iter().filter(|named| cause.is(&named.cause));
    let (Some(named), None) = (hits.next(), hits.next()) else { return None };
    let predicted = named.counterfactual?;
    let (least_p50_ns, most_p50_ns) = predicted.ends_ns();
    let told = most_p50_ns > 0 && after.p50_ns > 0;
    told.then_some(Counterfactual {
        predicted_p50_ns: predicted.p50_ns,
        least_p50_ns,
        most_p50_ns,
        measured_p50_ns: after.p50_ns,
    })
}

/// Returns the comparison for the labelled limits only: the kernel also counts a window that is no
/// narrower than the link.
fn kernel(truth: &Truth, said: &Answer) -> Option<Kernel> {
    let labelled = |ids: &[&str]| truth.causes.iter().any(|cause| ids.contains(&&*cause.cause));
    let owned = |ids: &[&str]| -> u64 { ids.iter().filter_map(|id| said.ledger.get(*id)).sum() };
    let kernel = |limit, ids: &[&str], limited_us: fn(&TcpInfo) -> u64| {
        let kernel_ns = truth.over_sockets(limited_us) * 1_000;
        let matters = kernel_ns as f64 >= KERNEL_SHARE * truth.wall_ns as f64 && kernel_ns > 0;
        (matters && labelled(ids)).then(|| Kernel { limit, kernel_ns, ledger_ns: owned(ids) })
    };
    said.wall_ns()?;
    kernel("receive_window", &["receive_window", "zero_window"], |it| it.tcpi_rwnd_limited_us)
        .or_else(|| kernel("send_buffer", &["send_buffer"], |it| it.tcpi_sndbuf_limited_us))
}

#[cfg(test)]
mod tests;
