//! Findings of active measurements in text and JSON, in the format of the capture report.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tcpwhy_core::model::units::{duration, printable};
use tcpwhy_core::model::{Class, Fact, Finding, Language, Role};
use tcpwhy_core::report::{Page, Paint, Phrases};
use tcpwhy_probe::dns::Judged;

/// Number of fixes shown for each finding; the manual lists all of them.
const FIXES_MAX: usize = 3;

/// Returns whether any finding is a fault.
pub fn any_fault(findings: &[Judged]) -> bool {
    findings.iter().any(|it| it.finding.cause.class() == Class::Fault)
}

/// Writes a finding in full. `verify` is the command that shows whether a fix helped.
pub fn render(judged: &Judged, verify: &str, page: &mut Page<'_>) {
    let (finding, phrases) = (&judged.finding, Phrases::of(&judged.finding, page.look.language));
    let class = match finding.cause.class() {
        Class::Fault => page.look.paint(Paint::Fault, "FAULT  "),
        Class::Cost => page.look.paint(Paint::Cost, "COST   "),
    };
    let mut facts = vec![culprit(finding)];
    if finding.lost_ns > 0 {
        facts.push(format!("cost {}", duration(finding.lost_ns)));
    }
    facts.push(format!("confidence {:.2}", finding.confidence));
    let title = page.look.paint(Paint::Bold, finding.cause.id());
    page.line(&format!("{class}{title}   {}", facts.join("   ")));
    page.labelled("what", &printable(&phrases.what));
    for (index, evidence) in judged.evidence.iter().enumerate() {
        let sign = if evidence.agrees { "" } else { "against it: " };
        let text = format!("{sign}{}", printable(&evidence.what));
        page.labelled(if index == 0 { "evidence" } else { "" }, &text);
    }
    for (index, (cause, why)) in phrases.ruled_out.iter().enumerate() {
        page.labelled(if index == 0 { "ruled out" } else { "" }, &format!("{}: {why}", cause.id()));
    }
    for (index, fix) in phrases.fixes.iter().take(FIXES_MAX).enumerate() {
        let text = format!("{}: {} → {}", fix.place, fix.change, fix.effect);
        page.labelled(if index == 0 { "fix" } else { "" }, &printable(&text));
    }
    page.command("manual", &format!("tcpwhy explain {}", finding.cause.id()));
    page.command("verify", &printable(verify));
}

/// Returns the culprit's role and endpoint: who has to change something.
fn culprit(finding: &Finding) -> String {
    let at = endpoint_of(finding);
    match finding.culprit.role {
        Role::Network => format!("network to {at}"),
        role => format!("{} {at}", role.id()),
    }
}

/// Formats the finding's endpoint; port 0 means any port and is left out.
fn endpoint_of(finding: &Finding) -> String {
    let endpoint = &finding.culprit.endpoint;
    if endpoint.port == 0 { endpoint.ip().to_string() } else { endpoint.to_string() }
}

/// Returns a finding as JSON in the format of the report.
pub fn document(judged: &Judged, verify: &str) -> Value {
    let (finding, phrases) = (&judged.finding, Phrases::of(&judged.finding, Language::English));
    let kinds = |agrees: bool| {
        let kinds = judged.evidence.iter().filter(|it| it.agrees == agrees).map(|it| it.kind);
        kinds.collect::<BTreeSet<_>>()
    };
    let facts = finding.facts.iter().map(|(name, fact)| (*name, value(fact)));
    let ruled_out = phrases.ruled_out.iter();
    let ruled_out = ruled_out.map(|(of, why)| json!({ "cause": of.id(), "why": why }));
    json!({
        "cause": finding.cause.id(),
        "class": finding.cause.class().id(),
        "headline": phrases.headline,
        "culprit": { "role": finding.culprit.role.id(), "endpoint": endpoint_of(finding) },
        "owners": finding.cause.owners().iter().map(|it| it.id()).collect::<Vec<_>>(),
        "lost_ns": finding.lost_ns,
        "share": finding.share,
        "confidence": finding.confidence,
        "what": phrases.what,
        "facts": facts.collect::<BTreeMap<_, _>>(),
        "evidence": judged.evidence,
        "evidence_kinds": { "agree": kinds(true), "disagree": kinds(false) },
        "ruled_out": ruled_out.collect::<Vec<_>>(),
        "fixes": phrases.fixes,
        "verify": verify,
    })
}

fn value(fact: &Fact) -> Value {
    match fact {
        Fact::Ns(number)
        | Fact::Bytes(number)
        | Fact::BitsPerSecond(number)
        | Fact::Count(number) => json!(number),
        Fact::Share(share) => json!(share),
        Fact::Text(text) => json!(text),
    }
}
