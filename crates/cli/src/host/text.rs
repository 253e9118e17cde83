//! Text output of the audit: entries that explain a present symptom, with what to do; the others in
//! one line.

use super::Host;
use tcpwhy_core::model::units::{count, counted, duration, printable};
use tcpwhy_core::report::{Look, Page, Paint, cut};
use tcpwhy_host::{Audit, AuditedNamespace, Entry, Evidence, Finding, Layer, Whose};

/// Renders the whole audit.
pub fn render(asked: &Host, audit: &Audit, look: &Look) -> String {
    let mut page = Page::new(look);
    let loud: Vec<&Entry> = audit.entries.iter().filter(|entry| entry.is_loud()).collect();
    let quiet: Vec<&Entry> = audit.entries.iter().filter(|entry| !entry.is_loud()).collect();
    let paint = if loud.is_empty() { Paint::Good } else { Paint::Fault };
    for (index, line) in headline(asked, audit, &loud).into_iter().enumerate() {
        let paint = if index == 0 { paint } else { Paint::Dim };
        page.paragraph(Some(paint), &line, 0);
    }
    for finding in audit.findings.iter().filter(|finding| !finding.is_explained) {
        page.warning(&unexplained(finding));
    }
    for unread in &audit.unread {
        page.warning(&printable(&format!("not read: {} ({})", unread.what, unread.needs)));
    }
    for (index, entry) in loud.iter().enumerate() {
        page.gap();
        explained(index + 1, entry, look, &mut page);
    }
    page.gap();
    rest(&quiet, look, &mut page);
    page.finish()
}

fn headline(asked: &Host, audit: &Audit, loud: &[&Entry]) -> Vec<String> {
    let place = match asked.place() {
        AuditedNamespace::Here => "on this host".to_owned(),
        AuditedNamespace::Named(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("in the network namespace of process {name}")
        }
        AuditedNamespace::Named(name) => format!("in network namespace {}", printable(&name)),
        AuditedNamespace::Process(pid) => format!("in the network namespace of process {pid}"),
    };
    let against = match audit.findings.len() as u64 {
        0 if asked.for_report.is_none() => String::new(),
        0 => "; the report has no finding".to_owned(),
        findings => {
            format!("; compared with {} of the report", counted(findings, "finding", "findings"))
        }
    };
    let sample = duration(audit.sample_ns);
    let measured =
        format!("Measured {place} over {sample}: counters that grow, queues, tables{against}.");
    let Some(first) = loud.first() else {
        return vec![format!("Nothing {place} explains a symptom now."), measured];
    };
    let causes: Vec<_> = first.explains.iter().map(|cause| cause.id()).collect();
    let what = printable(&first.what);
    let first = match &causes[..] {
        [] if first.evidence.iter().any(|it| matches!(it, Evidence::Counter { .. })) => {
            format!("Packets are lost now: {what}.")
        }
        [] => format!("A limit is reached now: {what}."),
        causes => format!("Explains {}: {what}.", causes.join(", ")),
    };
    let more = match loud.len() as u64 - 1 {
        0 => String::new(),
        more => format!(" {} below.", counted(more, "further entry", "further entries")),
    };
    vec![first + &more, measured]
}

fn unexplained(finding: &Finding) -> String {
    let start = format!("finding {} of the report ({})", finding.finding, finding.cause.id());
    let end = printable(&finding.endpoint);
    match finding.whose {
        Whose::Elsewhere => format!(
            "{start}: the culprit is the {} {end}, which is not this host: run `tcpwhy host \
             --for-report` there",
            finding.role
        ),
        Whose::Here => format!(
            "{start}: the culprit is the {} {end} on this host, and nothing read here explains it",
            finding.role
        ),
        Whose::Beside => {
            format!(
                "{start}: the culprit is the {} {end}, and nothing here explains it",
                finding.role
            )
        }
    }
}

/// Writes an entry that explains a symptom: its evidence, and what to do.
pub fn explained(number: usize, entry: &Entry, look: &Look, page: &mut Page) {
    let causes: Vec<_> = entry.explains.iter().map(|cause| cause.id()).collect();
    let causes =
        if causes.is_empty() { "what it says itself".to_owned() } else { causes.join(", ") };
    let title = format!("{number}  {}", printable(&entry.what));
    page.line(&look.paint(Paint::Bold, &title));
    let explains = format!("{} ({} layer)", look.paint(Paint::Fault, &causes), entry.layer.name());
    page.line(&format!("  {}{explains}", look.paint(Paint::Dim, "explains   ")));
    page.labelled("value", &printable(&entry.value));
    for (index, evidence) in evidence(&entry.evidence).iter().enumerate() {
        page.labelled(if index == 0 { "evidence" } else { "" }, &printable(evidence));
    }
    page.labelled("why", &entry.why);
    if let Some(change) = &entry.change {
        page.labelled("do", &printable(&change.what));
        if let Some(command) = &change.command {
            page.command("", &printable(command));
        }
        // A command that only inspects changes nothing, so there is neither risk nor undo.
        if change.changes_nothing() {
            return;
        }
        if change.risk != "none" {
            page.labelled("risk", &change.risk);
        }
        match change.command {
            Some(_) => page.command("undo", &printable(&change.undo)),
            None => page.labelled("undo", &printable(&change.undo)),
        }
    }
}

/// Returns the evidence in sentences; all counters share one sentence.
fn evidence(all: &[Evidence]) -> Vec<String> {
    let mut sentences = Vec::new();
    let counters = all.iter().filter_map(|evidence| match evidence {
        Evidence::Counter { counter, grew_by, .. } => {
            Some(format!("{counter} by {}", count(*grew_by)))
        }
        _ => None,
    });
    let counters: Vec<_> = counters.collect();
    let over = all.iter().find_map(|evidence| match evidence {
        Evidence::Counter { over_ns, .. } => Some(*over_ns),
        _ => None,
    });
    if let Some(over_ns) = over {
        sentences.push(format!("grew in {}: {}", duration(over_ns), counters.join(", ")));
    }
    for evidence in all {
        match evidence {
            Evidence::Counter { .. } => {}
            Evidence::State { sentence } => sentences.push(sentence.clone()),
            Evidence::Report { finding, cause, headline } => sentences
                .push(format!("finding {finding} of the report ({}): {headline}", cause.id())),
        }
    }
    sentences
}

/// Writes the entries that explain nothing: their names, or all of each if everything is asked for.
fn rest(quiet: &[&Entry], look: &Look, page: &mut Page) {
    if !look.all {
        let mut names: Vec<&str> = quiet.iter().map(|entry| &*entry.check).collect();
        names.dedup();
        let number = counted(quiet.len() as u64, "thing", "things");
        let text = format!("{number} looked at explain nothing now (--all shows them):");
        page.paragraph(Some(Paint::Dim), &text, 0);
        let names = cut(&names.join(", "), look.width.saturating_sub(2));
        page.line(&look.paint(Paint::Dim, &format!("  {names}")));
        return;
    }
    for layer in Layer::ALL {
        let here: Vec<_> = quiet.iter().filter(|entry| entry.layer == layer).collect();
        if here.is_empty() {
            continue;
        }
        page.gap();
        let title = format!("{} layer: explains nothing now", layer.name());
        page.line(&look.paint(Paint::Bold, &title));
        for entry in here {
            page.item(&printable(&format!("{}: {}", entry.what, entry.value)));
            page.paragraph(Some(Paint::Dim), &entry.why, 6);
        }
    }
}
