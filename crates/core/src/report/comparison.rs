//! A comparison for a terminal: the verdict first, then the figures behind it.

mod distribution;
mod json;
mod sentence;

pub use json::{sentences, to_json};
pub use sentence::sentence;

use super::layout::{Page, columns_of, left, right};
use super::style::{Look, Paint};
use crate::compare::{Comparison, ComparisonOutcome, Found, Measured, Ranks, Tail, Verdict};
use crate::findings::term;
use crate::model::{Language, units};
use crate::say;

/// Owners with a smaller share of the mean exchange, both before and after, are left out unless all
/// are requested.
const OWNER_SHARE_MIN: f64 = 0.001;

/// Renders the whole comparison as text.
pub fn render(comparison: &Comparison, look: &Look) -> String {
    let mut page = Page::new(look);
    runs(&mut page, comparison);
    page.gap();
    let paint = match comparison.verdict {
        _ if comparison.is_worse() => Paint::Fault,
        Verdict::Faster if comparison.outcome() == ComparisonOutcome::NotWorse => Paint::Good,
        _ => Paint::Bold,
    };
    page.paragraph(Some(paint), &sentence(comparison, look.language), 0);
    page.gap();
    latency(&mut page, comparison);
    distribution::render(&mut page, comparison);
    causes(&mut page, comparison);
    owners(&mut page, comparison);
    tests(&mut page, comparison);
    page.finish()
}

/// Renders the tables of latency and causes, and the significance of the change, for callers that
/// write the rest themselves.
pub fn tables(comparison: &Comparison, look: &Look) -> String {
    let mut page = Page::new(look);
    latency(&mut page, comparison);
    causes(&mut page, comparison);
    if let Some(ranks) = &comparison.ranks {
        page.labelled("shift", &shift(ranks, look.language));
    }
    page.finish()
}

/// Writes what is compared, and what makes the comparison unfair.
fn runs(page: &mut Page<'_>, comparison: &Comparison) {
    let (before, after) = (&comparison.before, &comparison.after);
    let language = page.look.language;
    for (label, run) in [("before", before), ("after", after)] {
        page.labelled(label, &say!(language, "run", name = &run.name, count = run.exchanges));
    }
    let places = [&before.vantage, &after.vantage];
    let are_known = places.iter().all(|place| !place.is_empty() && *place != "unknown");
    if are_known && places[0] != places[1] {
        let [before, after] = places.map(|place| term(language, place));
        page.warning(&say!(language, "other_places", before, after));
    }
    if !comparison.only_in.is_empty() && comparison.verdict != Verdict::OtherLoad {
        let what = sentence::differences(&comparison.only_in, language);
        page.warning(&say!(language, "slight_difference", what));
    }
    if comparison.ranks.is_none() {
        page.warning(&say!(language, "percentiles_only"));
    }
}

/// A table of three columns of numbers.
struct Table<'p, 'l> {
    page: &'p mut Page<'l>,
    label_columns: usize,
}

impl<'p, 'l> Table<'p, 'l> {
    fn new(page: &'p mut Page<'l>, title: &str) -> Self {
        page.gap();
        let label_columns = page.look.width.saturating_sub(3 * 12 + 2).clamp(20, 44);
        let language = page.look.language;
        let title = left(term(language, title), label_columns + 2);
        let title = page.look.paint(Paint::Bold, &title);
        let heads = ["before", "after", "change"].map(|head| right(term(language, head), 12));
        let heads: String = heads.concat();
        let heads = page.look.paint(Paint::Dim, &heads);
        page.line(&format!("{title}{heads}"));
        Self { page, label_columns }
    }

    fn row(&mut self, label: &str, cells: [String; 3]) {
        let cells: String = cells.map(|cell| right(&cell, 12)).concat();
        let label = left(label, self.label_columns);
        self.page.line(&format!("  {label}{cells}"));
    }

    fn times(&mut self, label: &str, before_ns: u64, after_ns: u64) {
        let change = change(before_ns, after_ns, self.page.look.language);
        self.row(label, [units::duration(before_ns), units::duration(after_ns), change]);
    }
}

/// Formats a change as a percentage of the value before.
fn change(before_ns: u64, after_ns: u64, language: Language) -> String {
    if before_ns == 0 {
        let word = if after_ns == 0 { "" } else { term(language, "new") };
        return word.to_owned();
    }
    let percent = (after_ns as f64 / before_ns as f64 - 1.0) * 100.0;
    let sign = if percent < 0.0 { '−' } else { '+' };
    match percent.abs() {
        _ if after_ns == 0 => "−100 %".into(),
        0.0..0.05 => "0 %".into(),
        size @ ..9.95 => format!("{sign}{size:.1} %"),
        size @ 900.0.. => format!("× {:.0}", size / 100.0 + 1.0),
        size if percent < -99.5 => format!("{sign}{:.1} %", size.min(99.9)),
        size => format!("{sign}{size:.0} %"),
    }
}

fn latency(page: &mut Page<'_>, comparison: &Comparison) {
    let (before, after) = (&comparison.before, &comparison.after);
    let mut table = Table::new(page, "latency");
    let (one, other) = (&before.latency, &after.latency);
    table.times("p50", one.p50_ns, other.p50_ns);
    table.times("p90", one.p90_ns, other.p90_ns);
    table.times("p99", one.p99_ns, other.p99_ns);
    let language = table.page.look.language;
    table.times(term(language, "max"), one.max_ns, other.max_ns);
    table.times(term(language, "mean"), before.mean_ns(), after.mean_ns());
    if let Some(outlook) = comparison.outlook() {
        let both = [("predicted", "p50", &outlook.p50), ("", "p99", &outlook.p99)];
        for (label, name, it) in both {
            let interval = units::range(it.least_ns, it.most_ns);
            let measured = units::duration(it.measured_ns);
            let (cause, outside) = (&outlook.cause, !it.holds);
            let line = say!(language, "predicted_row", name, interval, cause, measured, outside);
            page.labelled(label, &line);
        }
    }
}

/// Writes the cost of each cause per mean exchange, or a dash where it is not a finding.
fn causes(page: &mut Page<'_>, comparison: &Comparison) {
    let (before, after) = (&comparison.before, &comparison.after);
    let new = after.findings.iter().filter(|found| before.found(found).is_none());
    let all: Vec<&Found> = before.findings.iter().chain(new).collect();
    if all.is_empty() {
        return;
    }
    let language = page.look.language;
    let mut table = Table::new(page, "cost per exchange, by cause");
    for found in all {
        let lost_ns =
            |run: &Measured| run.found(found).map(|found| found.lost_ns / run.exchanges.max(1));
        let cell = |lost_ns: Option<u64>| lost_ns.map_or("–".into(), units::duration);
        let lost = [lost_ns(before), lost_ns(after)];
        let change = match lost {
            [Some(before_ns), Some(after_ns)] => change(before_ns, after_ns, language),
            [Some(_), None] => term(language, "gone").to_owned(),
            _ => term(language, "new").to_owned(),
        };
        let (class, role) = (term(language, &found.class), term(language, &found.role));
        let label = format!("{class} {} ({role})", found.cause);
        table.row(&label, [cell(lost[0]), cell(lost[1]), change]);
    }
}

/// Writes the mean exchange by owner: the rows sum to the mean.
fn owners(page: &mut Page<'_>, comparison: &Comparison) {
    let (before, after) = (&comparison.before, &comparison.after);
    let owners = comparison.owners();
    if owners.is_empty() {
        return;
    }
    let (all, language) = (page.look.all, page.look.language);
    let mut table = Table::new(page, "time per exchange, by owner");
    for owner in owners {
        let share =
            |run: &Measured| run.ledger_per_exchange_ns(owner) as f64 / run.mean_ns().max(1) as f64;
        if all || share(before).max(share(after)) >= OWNER_SHARE_MIN {
            let of = |run: &Measured| run.ledger_per_exchange_ns(owner);
            let name = say!(language, &format!("owner_{owner}"));
            table.times(&name, of(before), of(after));
        }
    }
}

/// Writes the figures behind the verdict.
fn tests(page: &mut Page<'_>, comparison: &Comparison) {
    let Some(ranks) = &comparison.ranks else { return };
    page.gap();
    let language = page.look.language;
    page.title("how sure", "");
    page.labelled("shift", &shift(ranks, language));
    page.labelled("dominance", &dominance(ranks, language));
    for tail in &comparison.tails {
        page.labelled(&slow_end(tail, language), &shares(tail, language));
    }
}

fn slow_end(tail: &Tail, language: Language) -> String {
    let share = format!("{:.0}", (1.0 - tail.quantile) * 100.0);
    say!(language, "slow_end_label", share)
}

fn shift(ranks: &Ranks, language: Language) -> String {
    let low = ranks.shift_interval_ns.map(|[low, _]| signed(low));
    let high = ranks.shift_interval_ns.map(|[_, high]| signed(high));
    let p_value = p_value(ranks.p_value);
    say!(language, "shift", shift = signed(ranks.shift_ns), low, high, p_value)
}

fn dominance(ranks: &Ranks, language: Language) -> String {
    let low = ranks.cliffs_delta_interval.map(|[low, _]| delta(low));
    let high = ranks.cliffs_delta_interval.map(|[_, high]| delta(high));
    say!(language, "dominance", delta = delta(ranks.cliffs_delta), low, high)
}

fn shares(tail: &Tail, language: Language) -> String {
    say!(
        language,
        "tail_shares",
        threshold = units::duration(tail.threshold_ns),
        before = units::share(tail.before_share),
        after = units::share(tail.after_share),
        p_value = p_value(tail.p_value),
    )
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.3}") }
}

fn delta(delta: f64) -> String {
    format!("{delta:+.2}").replace('-', "−")
}

/// Formats a difference with its sign.
fn signed(ns: i64) -> String {
    let sign = match ns {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", units::duration(ns.unsigned_abs()))
}

/// Returns the width of the widest label of the distribution's bars.
fn label_columns(labels: &[String]) -> usize {
    labels.iter().map(|label| columns_of(label)).max().unwrap_or(0)
}
