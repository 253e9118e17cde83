//! The section with the diagnosis and the truth.

use super::section;
use crate::lab::outcome::CaseOutcome;
use tcpwhy_core::model::units;
use tcpwhy_core::report::{Look, Page, text};
use tcpwhy_lab::{Cause, Labels};

/// Number of findings shown in full.
const FINDINGS_MAX: usize = 3;

/// Renders tcpwhy's diagnosis, then the truth, the kernel's statistics, and the diagnosis at the
/// other end.
pub fn diagnosis(outcome: &CaseOutcome<'_>, look: &Look) -> String {
    let Some(diagnosis) = outcome.diagnosis() else { return String::new() };
    let at =
        format!("from the capture at the {}, which knows nothing of the above", diagnosis.vantage);
    let page = section(look, "diagnosis", &at);
    let causes = outcome.causes();
    let mut text = page.finish();
    text += &text::diagnosis(&diagnosis.report, look, causes.len().clamp(1, FINDINGS_MAX));
    if causes.is_empty() {
        return text;
    }
    let mut page = Page::new(look);
    for cause in causes {
        page.labelled("truth", &truth(cause));
    }
    if let Some(kernel) = kernel(outcome.labels()) {
        page.labelled("kernel", &kernel);
    }
    if let Some(alike) = alike(outcome) {
        page.labelled("alike", &alike);
    }
    for other in outcome.before.iter().filter(|it| it.vantage != diagnosis.vantage) {
        let found: Vec<String> = causes
            .iter()
            .flat_map(|cause| other.naming(cause).take(1))
            .map(|finding| {
                format!("{}, cost {}", finding.cause.id(), units::duration(finding.lost_ns))
            })
            .collect();
        let found = match found.as_slice() {
            [] if other.sees_none(causes) => "no packet shows it".to_owned(),
            [] => "not named".to_owned(),
            found => found.join("; "),
        };
        page.labelled("other end", &format!("captured at the {}: {found}", other.vantage));
    }
    text + "\n" + &page.finish()
}

/// Says which other cause would produce the same packets.
fn alike(outcome: &CaseOutcome<'_>) -> Option<String> {
    let (truth, found) = (outcome.causes().first()?.cause, outcome.finding()?.cause.id());
    let verdicts = outcome.causes().iter().flat_map(|cause| &cause.from_capture.verdicts);
    let is_alike = outcome.causes().iter().all(|cause| cause.cause != found)
        && verdicts.into_iter().any(|verdict| verdict.cause == found);
    is_alike.then(|| format!("{found} is right too: packets alone do not tell it from {truth}"))
}

fn truth(cause: &Cause) -> String {
    let at = cause.culprit_endpoint.as_deref().map(|at| format!(" at {at}")).unwrap_or_default();
    let lost = cause.lost_ns.filter(|&ns| ns > 0);
    let lost = lost.map(|ns| format!(", cost {}", units::duration(ns)));
    format!("{}{at}{} ({})", cause.cause, lost.unwrap_or_default(), cause.lost_ns_how)
}

/// Describes the `TCP_INFO` of the sending sockets.
fn kernel(labels: &Labels) -> Option<String> {
    let ends = ["client", "server"].into_iter().filter_map(|end| {
        let sockets = labels.stage.sockets.iter().filter(|socket| socket.vantage == end);
        let mut sum = tcpwhy_lab::sys::TcpInfo::default();
        sockets.for_each(|socket| sum.add(&socket.tcp_info));
        let time = |us: u64| units::duration(us * 1_000);
        let parts = [
            (sum.tcpi_rwnd_limited_us > 0).then(|| {
                format!("{} limited by the peer's window", time(sum.tcpi_rwnd_limited_us))
            }),
            (sum.tcpi_sndbuf_limited_us > 0)
                .then(|| format!("{} by the send buffer", time(sum.tcpi_sndbuf_limited_us))),
            (sum.tcpi_total_retrans > 0)
                .then(|| format!("{} segments sent again", sum.tcpi_total_retrans)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let busy = time(sum.tcpi_busy_time_us);
        (!parts.is_empty()).then(|| format!("{end} busy for {busy}: {}", parts.join(", ")))
    });
    let ends: Vec<String> = ends.collect();
    (!ends.is_empty()).then(|| ends.join("; "))
}
