//! Derives causes of the core from the measurements of the path.

use tcpwhy_core::model::units::{counted, duration};
use tcpwhy_core::model::{Cause, Culprit, Fact, Finding, Role, RuledOut};

use super::{MtuEnd, Report};
use crate::dns::{Evidence, Judged};

/// Initial retransmission timeout of TCP, after which a lost SYN is sent again (RFC 6298 §2), ns.
const SYN_TIMER_NS: u64 = 1_000_000_000;

/// Returns the faults that the measurements prove: a port that refuses connections, SYNs without an
/// answer, large packets that are lost.
pub fn judge(report: &Report) -> Vec<Judged> {
    [refused(report), unanswered(report), black_hole(report)].into_iter().flatten().collect()
}

fn new(report: &Report, cause: Cause, role: Role) -> Option<Finding> {
    let endpoint = report.address?.into();
    let mut finding = Finding::of_cause(cause, Culprit { role, endpoint });
    finding.confidence = 0.95;
    Some(finding)
}

fn not(finding: &mut Finding, cause: Cause, why: &'static str) {
    finding.ruled_out.push(RuledOut { cause, why });
}

fn measured(what: String, trials: u64) -> Evidence {
    Evidence { kind: "measurement", agrees: true, what, trials }
}

fn refused(report: &Report) -> Option<Judged> {
    let connect = report.connect.as_ref()?;
    if !connect.is_refused || connect.established > 0 {
        return None;
    }
    let mut finding = new(report, Cause::Refused, Role::Server)?;
    finding.facts.push(("count", Fact::Count(connect.sent)));
    let refusal = report.syn.as_ref().and_then(|syn| Some((syn.refusal.as_ref()?, syn.min_ns)));
    let mut evidence =
        vec![measured(format!("connect(2): {}", words(connect.error.as_ref())), connect.sent)];
    if let Some((refusal, rtt_ns)) = refusal {
        finding.facts.extend(rtt_ns.map(|rtt_ns| ("rtt_ns", Fact::Ns(rtt_ns))));
        let by = refusal.by.map(|it| format!(" by {it}")).unwrap_or_default();
        let how = refusal.how.replace('_', " ");
        let after = rtt_ns.map(|it| format!(" after {}", duration(it))).unwrap_or_default();
        evidence.push(measured(format!("SYN: {how}{by}{after}"), 1));
    }
    if let Some(echo) = report.echo.as_ref().filter(|it| it.received > 0 && it.refusal.is_none()) {
        let answered =
            format!("the host is up: it answers {} of {} echo requests", echo.received, echo.sent);
        evidence.push(measured(answered, echo.sent));
    }
    not(&mut finding, Cause::SynRetransmit, "answered");
    Some(Judged { finding, evidence })
}

fn words(error: Option<&String>) -> &str {
    error.map_or("failed", String::as_str)
}

fn unanswered(report: &Report) -> Option<Judged> {
    let by_syn = report.syn.as_ref().map(|it| (it.sent, it.received));
    let connect = report.connect.as_ref()?;
    if connect.is_refused {
        return None;
    }
    let (sent, received) = by_syn.unwrap_or((connect.sent, connect.established));
    let lost = sent - received;
    // A single SYN can always be lost.
    let is_cut_off = received == 0 && connect.established == 0;
    if !is_cut_off && lost < 2 {
        return None;
    }
    let mut finding = new(report, Cause::SynRetransmit, Role::Network)?;
    finding.facts.push(("count", Fact::Count(lost)));
    finding.facts.push(("unanswered", Fact::Count(lost)));
    finding.lost_ns = if is_cut_off { 0 } else { lost * SYN_TIMER_NS };
    finding.confidence = if is_cut_off { 0.9 } else { 0.8 };
    let syns = counted(sent, "SYN was", "SYNs were");
    let mut evidence = vec![measured(format!("{received} of {syns} answered"), sent)];
    if let Some(echo) = &report.echo {
        let says = format!("{} of {} echo requests were answered", echo.received, echo.sent);
        evidence.push(measured(says, echo.sent));
    }
    let last = report.path.as_ref().and_then(|path| path.hops.iter().rfind(|it| it.received > 0));
    if let Some((hop, address)) = last.and_then(|hop| Some((hop.hop, hop.addresses.first()?))) {
        let what = format!("the last hop that answers is {hop}, {}", address.address);
        evidence.push(measured(what, 1));
    }
    not(&mut finding, Cause::Refused, "no_rst");
    Some(Judged { finding, evidence })
}

fn black_hole(report: &Report) -> Option<Judged> {
    let mtu = report.mtu.as_ref().filter(|it| it.end == MtuEnd::BlackHole)?;
    let (passed, lost) = (mtu.path_mtu_bytes?, mtu.lost_bytes?);
    let mut finding = new(report, Cause::MtuBlackHole, Role::Network)?;
    finding.facts.push(("lost_bytes", Fact::Bytes(lost)));
    finding.facts.push(("passed_bytes", Fact::Bytes(passed)));
    let what = format!(
        "{} probes of other sizes: up to {passed} bytes answered, from {lost} bytes none, and no \
         router says why; the first link carries {}",
        mtu.method.name(),
        mtu.link_mtu_bytes
    );
    let evidence = vec![Evidence { kind: "experiment", agrees: true, what, trials: mtu.sent }];
    not(&mut finding, Cause::RetransmissionTimeout, "by_size");
    Some(Judged { finding, evidence })
}
