//! The report for a terminal: the findings and what to do first, then the evidence.

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
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::units::counted;
use crate::model::{
    Cause, Finding, Observation, OutcomeKind, Owner, Report, Totals, Vantage, template, units,
};
use crate::wire::DecodeError;
use effect::{described, prediction};
use finding::{class, culprit, is_fault};
use std::cmp::Reverse;

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
    headline(&mut page, report, &findings);
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
    headline(&mut page, report, &findings);
    overview(&mut page, &findings);
    for (finding, phrases) in findings.iter().take(findings_max) {
        page.gap();
        finding::render(&mut page, report, finding, phrases);
    }
    page.finish()
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
        facts.extend(captured_at(totals.vantage).map(str::to_owned));
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

/// Writes the answer in one sentence, and the first recommended change.
fn headline(page: &mut Page<'_>, report: &Report, findings: &[Said<'_>]) {
    let fault = findings.iter().find(|(finding, _)| is_fault(finding));
    let cost = findings.iter().find(|(finding, _)| !is_fault(finding));
    let Some((fault, of_fault)) = fault else { return healthy(page, report, cost) };
    let about_fault = format!("{}.{}", of_fault.headline, prediction(report, fault));
    let leads = findings.first().is_some_and(|(first, _)| is_fault(first));
    let outweighs = |(cost, _): &&Said<'_>| !leads || cost.lost_ns > fault.lost_ns;
    match cost.filter(outweighs) {
        Some((_, of_cost)) if leads => {
            answer(page, Paint::Bold, &about_fault, of_fault);
            let also = format!("Also: {}.", continued(&of_cost.headline));
            answer(page, Paint::Bold, &also, of_cost);
        }
        Some((_, of_cost)) => {
            answer(page, Paint::Bold, &format!("{}.", of_cost.headline), of_cost);
            let also = format!("Also a fault, which takes less: {}", continued(&about_fault));
            answer(page, Paint::Bold, &also, of_fault);
        }
        None => {
            answer(page, Paint::Bold, &about_fault, of_fault);
            most_of_the_time(page, report, fault, findings);
        }
    }
}

/// Names what takes the greatest part of the time, if that is more than the `fault` of the headline
/// takes and not its own: a cost may be too short to be a finding. What a host takes in any case is
/// not worth a word.
fn most_of_the_time(page: &mut Page<'_>, report: &Report, fault: &Finding, findings: &[Said<'_>]) {
    // A failure, and another connection that was waited for, explain time of these owners.
    let explains = |finding: &Finding| {
        let is_waited_for = finding.facts.iter().any(|(name, _)| *name == "waiting_ns");
        is_fault(finding) && (finding.cause.makes_exchanges_fail() || is_waited_for)
    };
    if findings.iter().any(|(finding, _)| explains(finding)) {
        return;
    }
    let greatest = report.ledger.iter().max_by_key(|&(owner, ns)| (ns, Reverse(owner)));
    let least_ns = report.totals.exchanges.saturating_mul(HOST_DELAY_MAX_NS).max(fault.lost_ns);
    let Some((owner, ns)) = greatest.filter(|&(_, ns)| ns > least_ns) else { return };
    let owns = |cause: Cause| cause.owners().contains(&owner);
    let is_told = owns(fault.cause) || !report.only.is_empty();
    if let Some(what) = owner_words(owner).filter(|_| !is_told) {
        // One server has not all of the time.
        let has_most = |finding: &Finding| owns(finding.cause) && finding.lost_ns > ns / 2;
        let others = findings.iter().find(|(finding, _)| has_most(finding));
        if let Some((_, phrases)) = others {
            let also = format!("Also: {}.", continued(&phrases.headline));
            return answer(page, Paint::Bold, &also, phrases);
        }
        let share = phrases::share_of(ns, report.ledger.total_ns());
        let text = format!("Also: the greatest part of the time, {share}, is {what}.");
        page.paragraph(Some(Paint::Bold), &text, 0);
    }
}

/// Describes the time of an owner that is no fault's.
fn owner_words(owner: Owner) -> Option<&'static str> {
    Some(match owner {
        Owner::Dns => "name look-ups",
        Owner::Connect => "the set-up of connections",
        Owner::Tls => "TLS handshakes",
        Owner::Path => "the way between client and server",
        Owner::Bandwidth => "the rate of the link",
        Owner::Server => "the server's own work",
        Owner::Client => "the client's own work",
        _ => return None,
    })
}

/// Writes a part of the answer, and the first recommended change for it.
fn answer(page: &mut Page<'_>, paint: Paint, text: &str, phrases: &Phrases) {
    page.paragraph(Some(paint), text, 0);
    if let Some(fix) = phrases.fixes.first() {
        page.labelled("do", &format!("{}: {}", fix.place, fix.change));
    }
}

/// Returns a sentence for use after a colon: its first word begins in lower case, unless it is a
/// name (`Nagle's`, `TLS`, an address).
fn continued(sentence: &str) -> String {
    let first = sentence.split(' ').next().unwrap_or_default();
    let mut letters = first.chars();
    let begins = letters.next().is_some_and(|letter| letter.is_ascii_uppercase());
    if begins && letters.all(|letter| letter.is_ascii_lowercase()) {
        let rest = sentence.get(first.len()..).unwrap_or_default();
        return first.to_ascii_lowercase() + rest;
    }
    sentence.to_owned()
}

fn healthy(page: &mut Page<'_>, report: &Report, cost: Option<&Said<'_>>) {
    let totals = &report.totals;
    if totals.exchanges == 0 {
        let connections = counted(totals.connections, "connection", "connections");
        let text = match totals.connections + totals.lookups {
            0 => unread::nothing_read(report),
            _ => format!("No fault found, but no complete exchange either in {connections}."),
        };
        return page.paragraph(Some(Paint::Bold), &format!("{}{text}", scans(report)), 0);
    }
    let exchanges = counted(totals.exchanges, "exchange", "exchanges");
    let latency = described(&report.latency, totals.exchanges);
    let unknown_ns = report.ledger.of(Owner::Unknown);
    let unclear = totals.outcomes.of(OutcomeKind::Unclear);
    // With `--only`, failures were not asked for.
    let errors = timing::errors(&totals.outcomes, totals.exchanges);
    let errors = errors.filter(|_| report.only.is_empty());
    let text = if let Some((finding, phrases)) = cost
        && let Some(not) = ruled_out(finding)
        && report.only.is_empty()
    {
        let headline = continued(&phrases.headline);
        format!("{not}: {headline} ({exchanges}: {latency}).")
    } else if !report.only.is_empty() {
        let asked: Vec<_> = report.only.iter().map(|cause| cause.id()).collect();
        match cost {
            Some(_) => format!("{exchanges}: {latency}."),
            None => format!("No {} in {exchanges}: {latency}.", asked.join(", ")),
        }
    } else if unclear > 0 && unclear == totals.outcomes.total() {
        format!("It is not known whether an answer was due in {exchanges}: {latency}.")
    } else if findings::are_made_up(report) {
        let without = without_answer(totals);
        format!("No fault in {exchanges}{without}. How long they took was not measured.")
    } else if unknown_ns > totals.wall_ns / 2 {
        let unknown = phrases::share_of(unknown_ns, totals.wall_ns);
        format!("It is not known which side waited in {unknown} of the time of {exchanges}.")
    } else {
        // An error is a failure, if not a slow one.
        let that = if errors.is_some() { " that costs time" } else { "" };
        format!("No fault{that} in {exchanges}: {latency}{}.", without_answer(totals))
    };
    let paint = if errors.is_some() { Paint::Bold } else { Paint::Good };
    let errors = errors.map_or_else(String::new, |errors| format!(" {errors}."));
    let text = format!("{}{text}{errors}", scans(report));
    let Some((finding, phrases)) = cost else {
        return page.paragraph(Some(paint), &text, 0);
    };
    let named = report.only.is_empty() && ruled_out(finding).is_some();
    let text = if named { text } else { format!("{text} {}.", phrases.headline) };
    answer(page, paint, &text, phrases);
}

/// Returns how many exchanges had no complete answer, and how many may have had to have one.
fn without_answer(totals: &Totals) -> String {
    let mut text = String::new();
    let incomplete = totals.outcomes.incomplete();
    if incomplete > 0 {
        text += &format!("; {} without a complete answer", units::count(incomplete));
    }
    let unclear = totals.outcomes.of(OutcomeKind::Unclear);
    if unclear > 0 {
        let unclear = units::count(unclear);
        text +=
            &format!("; {unclear} closed without an answer, and whether one was due is unknown");
    }
    text
}

/// Names the delay that a cost excludes, if the cost has most of the time and there is no fault.
fn ruled_out(cost: &Finding) -> Option<&'static str> {
    let either_or = ["distance_max_ns", "typed_ns"];
    let is_either_or = cost.facts.iter().any(|(name, _)| either_or.contains(name));
    match cost.cause {
        _ if cost.share < 0.5 || is_either_or => None,
        Cause::ServerThink => Some("Not the network"),
        Cause::ClientThink => Some("Neither the network nor the server"),
        _ => None,
    }
}

/// Describes the scans in a capture, which come before the rest of the answer.
fn scans(report: &Report) -> String {
    let is_scan = |it: &&Observation| matches!(it.id, "port_scan" | "network_scan");
    let Some(scan) = report.observations.iter().find(is_scan) else { return String::new() };
    let fact = |name: &str| {
        let known = scan.facts.iter().find(|(of, _)| *of == name);
        known.map_or_else(String::new, |(_, fact)| template::show(fact))
    };
    match scan.id {
        "port_scan" => format!("{} scans the ports of {}. ", fact("scanner"), fact("host")),
        _ => format!("{} scans the network. ", fact("scanner")),
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
