//! The report for a terminal: the findings and what to do first, then the evidence.

mod answer;
mod checked;
mod effect;
mod finding;
mod join;
mod quic;
mod sums;
mod timing;
mod unread;

use super::json::link_type;
use super::layout::{Page, columns_of, cut, left, right};
use super::phrases::{self, Phrases};
use super::style::{Look, Paint};
use crate::findings;
use crate::findings::term;
use crate::model::{Finding, Language, Observation, Report, Vantage, units};
use crate::say;
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
        page.warning(&say!(look.language, "interrupted"));
    }
    limits(&mut page, report);
    page.gap();
    let findings = phrased(report, look.language);
    answer::render(&mut page, report, &findings);
    overview(&mut page, &findings);
    let shown = if look.all { findings.len() } else { FINDINGS_MAX };
    for (finding, phrases) in findings.iter().take(shown) {
        page.gap();
        finding::render(&mut page, report, finding, phrases);
    }
    if findings.len() > shown {
        page.gap();
        let more = (findings.len() - shown) as u64;
        page.paragraph(None, &say!(look.language, "more_findings", count = more), 0);
    }
    page.gap();
    if !findings::are_made_up(report) {
        timing::where_the_time_went(&mut page, report);
        timing::latency(&mut page, report);
    }
    connections(&mut page, report);
    quic::render(&mut page, report);
    observations(&mut page, report);
    checked::render(&mut page, report);
    page.finish()
}

/// Renders the answer and its evidence: the headline, one line for each finding, and the first
/// `findings_max` findings in full. It is for callers that write the rest themselves.
pub fn diagnosis(report: &Report, look: &Look, findings_max: usize) -> String {
    let mut page = Page::new(look);
    let findings = phrased(report, look.language);
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
pub fn answer(report: &Report, language: Language) -> Vec<String> {
    answer::texts(report, language)
}

/// Renders one finding in full.
pub fn finding(report: &Report, finding: &Finding, look: &Look) -> String {
    let mut page = Page::new(look);
    write_finding(&mut page, report, finding);
    page.finish()
}

/// Writes one finding in full.
pub(super) fn write_finding(page: &mut Page<'_>, report: &Report, finding: &Finding) {
    finding::render(page, report, finding, &Phrases::of(finding, page.look.language));
}

/// Returns the findings with their texts.
fn phrased(report: &Report, language: Language) -> Vec<Said<'_>> {
    report.findings.iter().map(|it| (it, Phrases::of(it, language))).collect()
}

/// Writes the names of the inputs, and where they were captured.
fn inputs(page: &mut Page<'_>, report: &Report) {
    let (totals, language) = (&report.totals, page.look.language);
    let packets: u64 = report.inputs.iter().map(|input| input.packets).sum();
    let name = match report.inputs.as_slice() {
        [one] if one.path == "-" => term(language, "standard input").to_owned(),
        [one] => units::printable(&one.path),
        many => say!(language, "files", count = many.len() as u64),
    };
    let since_first = |at_ns: u64| units::duration(at_ns.saturating_sub(totals.first_ns));
    let (from, until) = (
        totals.window.map(|window| since_first(window.from_ns)),
        totals.window.map(|window| since_first(window.until_ns)),
    );
    let mut facts = vec![
        since_first(totals.last_ns),
        say!(language, "packets", count = packets),
        say!(language, "connections_within", from, until, count = totals.connections),
        say!(language, "exchanges", count = totals.exchanges),
    ];
    if totals.lookups > 0 {
        facts.push(say!(language, "lookups", count = totals.lookups));
    }
    if let (None, Some(place)) = (&report.join, captured_at(totals.vantage)) {
        facts.push(say!(language, place, unpadded = totals.vantage_from_padding));
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

/// Returns the id of the sentence about a vantage.
fn captured_at(vantage: Vantage) -> Option<&'static str> {
    match vantage {
        Vantage::Unknown => None,
        Vantage::Client => Some("captured_at_client"),
        Vantage::Server => Some("captured_at_server"),
        Vantage::Middle => Some("captured_between"),
        Vantage::Local => Some("captured_at_both"),
        Vantage::Mixed => Some("captured_mixed"),
    }
}

/// Writes the limits of the report, before its findings.
fn limits(page: &mut Page<'_>, report: &Report) {
    let language = page.look.language;
    // It comes first: where a program wrote the packets, the other warnings matter little.
    let (made_up, others): (Vec<_>, Vec<_>) =
        report.observations.iter().partition(|it| findings::says_made_up(it));
    let warn = |page: &mut Page<'_>, observations: &[&Observation]| {
        for observation in observations {
            if let (true, text) = phrases::observation(observation, language) {
                page.warning(&text);
            }
        }
    };
    warn(page, &made_up);
    for input in &report.inputs {
        for problem in &input.problems {
            let problem = findings::error_in(language, &problem.to_string());
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
        let kinds = kinds.join(language.glue().comma);
        page.warning(&say!(language, "malformed", count = errors, kinds));
    }
    warn(page, &others);
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
        page.line(&format!(
            "{}{row}{}",
            class(page.look, finding),
            cut(&culprit(finding, page.look.language), room)
        ));
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
    let language = page.look.language;
    // Connections of a running system are in no file.
    let is_drawn = report.watched.is_none();
    let hint = if is_drawn { say!(language, "draws_one") } else { String::new() };
    page.title(if all { "connections" } else { "worst connections" }, &hint);
    for (number, connection) in shown {
        let ends = format!("{} → {}", connection.client, connection.server);
        let wall = units::duration(connection.ledger.total_ns());
        let lost = (connection.lost_ns > 0).then(|| units::duration(connection.lost_ns));
        let exchanges = (page.look.width >= 80).then_some(connection.exchanges);
        let facts = say!(language, "connection_cost", lost, wall, exchanges);
        let room = page.look.width.saturating_sub(columns_of(&facts) + 9).max(16);
        page.line(&format!("  {number:>3}  {}  {facts}", left(&cut(&ends, room), room.min(44))));
    }
}

fn observations(page: &mut Page<'_>, report: &Report) {
    let language = page.look.language;
    let phrased = report.observations.iter().map(|it| phrases::observation(it, language));
    let noted: Vec<String> = phrased.filter(|(limits, _)| !limits).map(|(_, text)| text).collect();
    if noted.is_empty() {
        return;
    }
    page.gap();
    let has_exchanges = report.totals.exchanges > 0;
    let beside = if has_exchanges { String::new() } else { say!(language, "observations_cost") };
    page.title("minor observations", &beside);
    for text in &noted {
        page.item(text);
    }
}
