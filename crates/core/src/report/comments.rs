//! Comments on single frames of a capture, shown by Wireshark.

use super::ladder::{Beyond, Ladder, Step};
use super::{Phrases, phrases};
use crate::capture::FrameId;
use crate::findings::words;
use crate::model::{Cause, Finding, Language, Report, units};
use std::collections::BTreeMap;

/// Maximum number of commented frames of one observation, which may have as many as the capture.
const OBSERVED_MAX: usize = 8;

/// Returns the comments by frame number: the role of each frame of the evidence, the length of the
/// silences of `ladders` for which a finding accounts, and the observations. It is for reports of
/// one file.
pub fn comments(report: &Report, ladders: &[Ladder]) -> BTreeMap<u64, Vec<String>> {
    let mut comments: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut say = |frame: FrameId, text: String| {
        let said = comments.entry(frame.number()).or_default();
        let text = units::printable(&format!("tcpwhy: {text}"));
        if !said.contains(&text) {
            said.push(text);
        }
    };
    for ladder in ladders {
        silences(report, ladder, &mut say);
    }
    for finding in &report.findings {
        let about = about(finding);
        for (evidence, part) in
            finding.evidence.iter().zip(Phrases::of(finding, Language::English).evidence)
        {
            say(evidence.frame, format!("{about}: {part}"));
        }
    }
    for observation in &report.observations {
        let (_, text) = phrases::observation(observation, Language::English);
        let frames = observation.frames.iter().take(OBSERVED_MAX);
        frames.for_each(|&frame| say(frame, text.clone()));
    }
    comments
}

/// Returns the comment on the whole capture: its findings.
pub fn summary(report: &Report) -> String {
    let findings = report
        .findings
        .iter()
        .map(|it| format!("{}: {}.", about(it), Phrases::of(it, Language::English).headline));
    let findings = findings.collect::<Vec<_>>().join(" ");
    units::printable(&format!(
        "tcpwhy: {}",
        if findings.is_empty() { "no finding." } else { &findings }
    ))
}

/// Names a finding by its cause and culprit.
fn about(finding: &Finding) -> String {
    let (role, at) =
        (finding.culprit.role.id(), units::endpoint_or_others(&finding.culprit.endpoint));
    format!("{} ({role} {at})", finding.cause.id())
}

/// Comments on each frame that ends a silence with the length of the silence and its cause.
fn silences(report: &Report, ladder: &Ladder, say: &mut impl FnMut(FrameId, String)) {
    let is_found = |cause: &Cause| report.findings.iter().any(|it| it.cause == *cause);
    let mut previous = None;
    let mut waiting: Vec<(Option<FrameId>, String)> = Vec::new();
    for rung in &ladder.steps {
        match &rung.step {
            Step::Gap { duration_ns, cause: Some(cause), beyond, .. } if is_found(cause) => {
                let since = match (previous, beyond.since_ns) {
                    (Some(frame), None) => format!(" since frame {}", FrameId::number(frame)),
                    _ => String::new(),
                };
                let (length, cause) = (units::duration(*duration_ns), *cause);
                let text = format!(
                    "waited {length}{since}: {} ({})",
                    cause.id(),
                    words(cause, Language::English).title
                );
                let Beyond { until, .. } = *beyond;
                waiting.push((until, text));
            }
            Step::Segment { frame, .. } => {
                for (until, text) in waiting.drain(..) {
                    say(until.unwrap_or(*frame), text);
                }
                previous = Some(*frame);
            }
            Step::Gap { .. } | Step::Mark(_) => {}
        }
    }
}
