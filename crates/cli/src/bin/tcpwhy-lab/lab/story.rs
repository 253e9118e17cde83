//! Text output of a case, from its set-up to the effect of the fix.

mod diagnosis;
mod set_up;

use super::outcome::{CaseOutcome, failed};
use super::treated;
use crate::lab::error::Error;
use std::collections::BTreeSet;
use tcpwhy_core::findings::prediction;
use tcpwhy_core::model::units;
use tcpwhy_core::report::{Look, Page, Paint, columns_of, comparison, cut};
use tcpwhy_lab::describe::fill;
use tcpwhy_lab::{Class, Labels};

/// Renders the whole text. `again` is the command that repeats the run.
///
/// # Errors A capture cannot be read again.
pub fn tell(outcome: &CaseOutcome<'_>, again: &str, look: &Look) -> Result<String, Error> {
    let mut story = title(outcome, look);
    story += &set_up::set_up(outcome, again, look);
    story += &user(outcome.labels(), look);
    story += &wire(outcome, look)?;
    story += &diagnosis::diagnosis(outcome, look);
    story += &fix(outcome, look);
    story += &verdict(outcome, look);
    Ok(story)
}

fn title(outcome: &CaseOutcome<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    let case = outcome.case;
    let name = look.paint(Paint::Bold, case.name);
    let class = match case.class {
        Class::Fault => "fault",
        Class::Cost => "cost",
        Class::None => "look-alike",
    };
    page.line(&format!("{name}   {} · {class} · seed {}", case.layer.id(), outcome.labels().seed));
    page.paragraph(None, case.summary, 2);
    page.finish()
}

/// Begins a section: an empty line and a heading.
fn section<'l>(look: &'l Look, title: &str, facts: &str) -> Page<'l> {
    let mut page = Page::new(look);
    let heading = look.paint(Paint::Bold, title);
    page.line("");
    if columns_of(title) + 3 + columns_of(facts) <= look.width {
        page.line(&format!("{heading}   {facts}"));
    } else {
        page.line(&heading);
        page.paragraph(None, facts, 2);
    }
    page
}

/// Renders the measurements by the client's own clock.
fn user(labels: &Labels, look: &Look) -> String {
    let connections: BTreeSet<_> = labels.requests.iter().map(|r| &r.client_endpoint).collect();
    let facts = format!(
        "{} on {}, by the client's own clock",
        counted(labels.exchanges, "request", "requests"),
        counted(connections.len() as u64, "connection", "connections")
    );
    let mut page = section(look, "what a user sees", &facts);
    let at = &labels.latency_ns;
    let times = [
        ("mean", at.mean_ns),
        ("p50", at.p50_ns),
        ("p90", at.p90_ns),
        ("p99", at.p99_ns),
        ("max", at.max_ns),
    ];
    let times = times.map(|(name, ns)| format!("{name} {}", units::duration(ns)));
    page.listed("latency", &times);
    if failed(labels) < labels.exchanges {
        page.labelled("throughput", &throughput(labels));
    }
    let first = labels.requests.iter().find_map(|request| request.error.as_deref());
    if let Some(error) = first {
        let all = format!("{} of {} requests: {error}", failed(labels), labels.exchanges);
        page.labelled("failed", &units::printable(&all));
    }
    page.finish()
}

fn throughput(labels: &Labels) -> String {
    let per_second = per_second(labels);
    let bytes: u64 = labels.requests.iter().map(|r| r.request_bytes + r.response_bytes).sum();
    let rate = bytes as f64 * 8.0 * per_second / labels.exchanges.max(1) as f64;
    format!("{per_second:.1} requests/s · {}", units::rate(rate as u64))
}

fn per_second(labels: &Labels) -> f64 {
    let first_ns = labels.requests.iter().map(|request| request.start_ns).min().unwrap_or(0);
    let last_ns = labels.requests.iter().map(|request| request.end_ns).max().unwrap_or(0);
    labels.exchanges as f64 * 1e9 / last_ns.saturating_sub(first_ns).max(1) as f64
}

/// Draws the exchange that shows the cause best.
fn wire(outcome: &CaseOutcome<'_>, look: &Look) -> Result<String, Error> {
    let (Some(diagnosis), Some(finding)) = (outcome.diagnosis(), outcome.finding()) else {
        return Ok(String::new());
    };
    let Some(ladder) = diagnosis.ladder(finding)? else { return Ok(String::new()) };
    let facts = format!("the clearest exchange, captured at the {}", diagnosis.vantage);
    let page = section(look, "what the wire shows", &facts);
    Ok(page.finish() + &ladder.render(look))
}

fn fix(outcome: &CaseOutcome<'_>, look: &Look) -> String {
    let Some(knob) = outcome.case.knob else { return String::new() };
    let labels = outcome.labels();
    let page = if outcome.is_treated {
        let mut page = section(look, "the treatment", "applied while the load ran, no restart");
        for command in treated::commands(outcome.case) {
            page.command("command", &command);
        }
        page
    } else {
        let mut page = section(look, "the fix", "applied, and the same load run again");
        page.labelled("where", knob.at);
        page.labelled("before", &fill(knob.faulty, &labels.params));
        page.labelled("after", &fill(knob.healthy, &labels.params));
        page
    };
    let mut text = page.finish();
    if let Some(compared) = &outcome.comparison {
        text += "\n";
        text += &comparison::tables(compared, look);
    }
    let mut page = Page::new(look);
    let healthy = &outcome.result.healthy;
    if outcome.comparison.is_some() {
        let rates = [labels, healthy].map(|labels| format!("{:.1}", per_second(labels)));
        page.labelled("requests/s", &rates.join(" → "));
    }
    if failed(labels) + failed(healthy) > 0 {
        page.labelled("failed", &format!("{} → {} requests", failed(labels), failed(healthy)));
    }
    predicted(&mut page, outcome);
    text + &page.finish()
}

/// Compares the latency that the capture with the fault predicted with the latency after the fix.
fn predicted(page: &mut Page<'_>, outcome: &CaseOutcome<'_>) {
    let Some(finding) = outcome.finding() else { return };
    let then = prediction::in_another_run(&finding.counterfactual);
    // Each of several causes is predicted as if it alone were removed, and at its own server.
    let is_alone = outcome.causes().len() == 1;
    let is_of_all = finding.affected.of_exchanges == outcome.labels().exchanges;
    if then.most.max_ns == 0 || !is_alone || !is_of_all || !outcome.is_all_gone() {
        return;
    }
    let now = &outcome.result.healthy.latency_ns;
    let pairs = [
        ("p50", then.least.p50_ns, then.most.p50_ns, now.p50_ns),
        ("p99", then.least.p99_ns, then.most.p99_ns, now.p99_ns),
    ];
    let lines = pairs.map(|(name, least_ns, most_ns, measured_ns)| {
        let (predicted, measured) = (units::range(least_ns, most_ns), units::duration(measured_ns));
        format!("{name} {predicted} predicted, {measured} measured")
    });
    page.listed("prediction", &lines);
}

fn verdict(outcome: &CaseOutcome<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    page.line("");
    let paint = if outcome.is_good() { Paint::Good } else { Paint::Fault };
    page.paragraph(Some(paint), &outcome.sentence(), 0);
    page.finish()
}

/// Says where the captures are, if they are kept.
pub fn captures(outcome: &CaseOutcome<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    let dir = outcome.result.dir.display().to_string();
    page.labelled("captures", &cut(&units::printable(&dir), look.width));
    page.finish()
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", units::count(number), if number == 1 { one } else { many })
}
