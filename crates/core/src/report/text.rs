//! The report for a terminal: the findings and what to do first, then the evidence.

mod answer;
mod checked;
mod effect;
mod finding;
mod join;
mod sums;
mod timing;
mod unread;

use super::json::link_type;
use super::layout::{Page, columns_of, cut, left, right};
use super::phrases::{self, Phrases};
use super::style::{Look, Paint};
use crate::findings;
use crate::model::units::counted;
use crate::model::{Finding, Report, Vantage, units};
use crate::wire::DecodeError;
use finding::{class, culprit};

/// Findings shown in full, and in the overview, unless all are requested.
const FINDINGS_MAX: usize = 5;
const OVERVIEW_MAX: usize = 15;
/// Connections listed, unless all are requested.
const CONNECTIONS_MAX: usize = 3;

/// A finding with its texts.
type Said<'a> = (&'a Finding, Phrases);

/// Renders the whole report as text.
pub fn render(report: &Report, look: &Look) -> String {
    let mut page = Page::new(look);
    inputs(&mut page, report);
    join::render(&mut page, report);
    if report.interrupted {
        page.warning("interrupted: the report covers what was read until then");
    }
    limits(&mut page, report);
    page.gap();
    let findings = phrased(report);
    answer::render(&mut page, report, &findings);
    overview(&mut page, &findings);
    let shown = if look.all { findings.len() } else { FINDINGS_MAX };
    for (finding, phrases) in findings.iter().take(shown) {
        page.gap();
        finding::render(&mut page, report, finding, phrases);
    }
    if findings.len() > shown {
        page.gap();
        let more = counted((findings.len() - shown) as u64, "more finding", "more findings");
        page.paragraph(None, &format!("{more}: --all shows them"), 0);
    }
    page.gap();
    if !findings::are_made_up(report) {
        timing::where_the_time_went(&mut page, report);
        timing::latency(&mut page, report);
    }
    connections(&mut page, report);
    observations(&mut page, report);
    checked::render(&mut page, report);
    page.finish()
}

/// Renders the answer and its evidence: the headline, one line for each finding, and the first
/// `findings_max` findings in full. It is for callers that write the rest themselves.
pub fn diagnosis(report: &Report, look: &Look, findings_max: usize) -> String {
    let mut page = Page::new(look);
    let findings = phrased(report);
    answer::render(&mut page, report, &findings);
    overview(&mut page, &findings);
    for (finding, phrases) in findings.iter().take(findings_max) {
        page.gap();
        finding::render(&mut page, report, finding, phrases);
    }
    page.finish()
}

/// Returns the answer, which is the first that [`render`] writes below the names of the inputs: one
/// text for each part.
pub fn answer(report: &Report) -> Vec<String> {
    answer::texts(report)
}

/// Renders one finding in full.
pub fn finding(report: &Report, finding: &Finding, look: &Look) -> String {
    let mut page = Page::new(look);
    write_finding(&mut page, report, finding);
    page.finish()
}

/// Writes one finding in full.
pub(super) fn write_finding(page: &mut Page<'_>, report: &Report, finding: &Finding) {
    finding::render(page, report, finding, &Phrases::of(finding));
}

/// Returns the findings with their texts.
fn phrased(report: &Report) -> Vec<Said<'_>> {
    report.findings.iter().map(|it| (it, Phrases::of(it))).collect()
}

/// Writes the names of the inputs, and where they were captured.
fn inputs(page: &mut Page<'_>, report: &Report) {
    let totals = &report.totals;
    let packets: u64 = report.inputs.iter().map(|input| input.packets).sum();
    let name = match report.inputs.as_slice() {
        [one] if one.path == "-" => "standard input".into(),
        [one] => units::printable(&one.path),
        many => format!("{} files", units::count(many.len() as u64)),
    };
    let since_first = |at_ns: u64| units::duration(at_ns.saturating_sub(totals.first_ns));
    let within = totals.window.map_or_else(String::new, |window| {
        format!("from +{} to +{}: ", since_first(window.from_ns), since_first(window.until_ns))
    });
    let connections = counted(totals.connections, "connection", "connections");
    let mut facts = vec![
        since_first(totals.last_ns),
        counted(packets, "packet", "packets"),
        format!("{within}{connections}"),
        counted(totals.exchanges, "exchange", "exchanges"),
    ];
    if totals.lookups > 0 {
        facts.push(counted(totals.lookups, "name look-up", "name look-ups"));
    }
    if report.join.is_none() {
        let place = captured_at(totals.vantage);
        let why =
            if totals.vantage_from_padding { " (its short frames are not padded yet)" } else { "" };
        facts.extend(place.map(|place| format!("{place}{why}")));
    }
    let facts = facts.join(" · ");
    if columns_of(&name) + columns_of(&facts) + 3 <= page.look.width {
        let name = page.look.paint(Paint::Bold, &name);
        page.line(&format!("{name}   {facts}"));
    } else {
        page.paragraph(Some(Paint::Bold), &name, 0);
        page.paragraph(None, &facts, 2);
    }
}

fn captured_at(vantage: Vantage) -> Option<&'static str> {
    match vantage {
        Vantage::Unknown => None,
        Vantage::Client => Some("captured at the client"),
        Vantage::Server => Some("captured at the server"),
        Vantage::Middle => Some("captured between client and server"),
        Vantage::Local => Some("captured where client and server are on the same machine or link"),
        Vantage::Mixed => {
            Some("captured nearer to the client for some connections than for others")
        }
    }
}

/// Writes the limits of the report, before its findings.
fn limits(page: &mut Page<'_>, report: &Report) {
    for input in &report.inputs {
        for problem in &input.problems {
            let text = format!("{} {problem}", input.path);
            page.warning(&units::printable(&text));
        }
    }
    unread::warn_of_links(page, report);
    unread::warn_of_tunnels(page, report);
    // Observations report missing fragments and damaged packets.
    let elsewhere = [
        DecodeError::FragmentIncomplete,
        DecodeError::LinkTypeUnsupported,
        DecodeError::TunnelUnsupported,
    ];
    let malformed = |(kind, _): &(DecodeError, u64)| !elsewhere.contains(kind) && !kind.is_damage();
    let kinds = || report.totals.decode_errors.errors().filter(malformed);
    let errors: u64 = kinds().map(|(_, count)| count).sum();
    if errors > 0 {
        let kinds = kinds();
        let kinds = kinds.map(|(kind, count)| format!("{} {}", units::count(count), kind.name()));
        let kinds: Vec<String> = kinds.collect();
        let frames = counted(errors, "frame was", "frames were");
        page.warning(&format!("{frames} malformed and left out: {}", kinds.join(", ")));
    }
    for observation in &report.observations {
        if let (true, text) = phrases::observation(observation) {
            page.warning(&text);
        }
    }
}

/// Writes one line per finding before the details, if there are several.
fn overview(page: &mut Page<'_>, findings: &[Said<'_>]) {
    if findings.len() < 2 {
        return;
    }
    page.gap();
    let ids = findings.iter().map(|(finding, _)| finding.cause.id().len());
    let id_columns = ids.max().unwrap_or(0);
    let lost = |finding: &Finding| match finding.lost_ns {
        0 => "–".into(),
        lost_ns => units::duration(lost_ns),
    };
    let shown = if page.look.all { findings.len() } else { OVERVIEW_MAX };
    let lengths = findings.iter().take(shown).map(|(finding, _)| columns_of(&lost(finding)));
    let lost_columns = lengths.max().unwrap_or(0);
    for (finding, _) in findings.iter().take(shown) {
        let share = if finding.lost_ns > 0 { units::share(finding.share) } else { String::new() };
        let id = left(finding.cause.id(), id_columns);
        let lost = right(&lost(finding), lost_columns);
        let row = format!("{lost} {}  {id}  ", right(&share, 7));
        let room = page.look.width.saturating_sub(columns_of(&row) + 7).max(8);
        page.line(&format!("{}{row}{}", class(page.look, finding), cut(&culprit(finding), room)));
    }
}

/// Writes the connections that lost most time, with the numbers used to draw them; with `--all` the
/// others as well.
fn connections(page: &mut Page<'_>, report: &Report) {
    let all = page.look.all;
    let numbered = (1..).zip(&report.connections);
    let shown: Vec<(u64, _)> = match all {
        true => numbered.collect(),
        false => numbered.filter(|(_, it)| it.lost_ns > 0).take(CONNECTIONS_MAX).collect(),
    };
    if shown.is_empty() || report.totals.connections < 2 {
        return;
    }
    page.gap();
    let title = if all { "connections" } else { "worst connections" };
    let title = page.look.paint(Paint::Bold, title);
    // Connections of a running system are in no file.
    let hint = if report.watched.is_some() { "" } else { "   --connection N draws one" };
    page.line(&format!("{title}{hint}"));
    for (number, connection) in shown {
        let ends = format!("{} → {}", connection.client, connection.server);
        let wall = units::duration(connection.ledger.total_ns());
        let exchanges = counted(connection.exchanges, "exchange", "exchanges");
        let mut facts = match connection.lost_ns {
            0 => wall,
            lost_ns => format!("cost {} of {wall}", units::duration(lost_ns)),
        };
        if page.look.width >= 80 {
            facts += &format!(" in {exchanges}");
        }
        let room = page.look.width.saturating_sub(columns_of(&facts) + 9).max(16);
        page.line(&format!("  {number:>3}  {}  {facts}", left(&cut(&ends, room), room.min(44))));
    }
}

fn observations(page: &mut Page<'_>, report: &Report) {
    let phrased = report.observations.iter().map(phrases::observation);
    let noted: Vec<String> = phrased.filter(|(limits, _)| !limits).map(|(_, text)| text).collect();
    if noted.is_empty() {
        return;
    }
    page.gap();
    let title = page.look.paint(Paint::Bold, "minor observations");
    match report.totals.exchanges {
        0 => page.line(&format!("{title}   no exchange is complete, so their cost is unknown")),
        _ => page.line(&title),
    }
    for text in &noted {
        page.item(text);
    }
}
