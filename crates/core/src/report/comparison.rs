//! A comparison for a terminal: the verdict first, then the figures behind it.

mod distribution;
mod json;
mod sentence;

pub use json::to_json;
pub use sentence::sentence;

use super::layout::{Page, columns_of, left, right};
use super::style::{Look, Paint};
use crate::compare::{Comparison, ComparisonOutcome, Found, Measured, Ranks, Tail, Verdict};
use crate::model::units::{self, counted};

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
    page.paragraph(Some(paint), &sentence(comparison), 0);
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
        page.labelled("shift", &shift(ranks));
    }
    page.finish()
}

/// Writes what is compared, and what makes the comparison unfair.
fn runs(page: &mut Page<'_>, comparison: &Comparison) {
    let (before, after) = (&comparison.before, &comparison.after);
    for (label, run) in [("before", before), ("after", after)] {
        let exchanges = counted(run.exchanges, "exchange", "exchanges");
        page.labelled(label, &format!("{} · {exchanges}", units::printable(&run.name)));
    }
    let places = [&before.vantage, &after.vantage];
    let are_known = places.iter().all(|place| !place.is_empty() && *place != "unknown");
    if are_known && places[0] != places[1] {
        page.warning(&format!(
            "captured at different places ({} and {}): what one of them cannot see differs too",
            before.vantage, after.vantage
        ));
    }
    if !comparison.only_in.is_empty() && comparison.verdict != Verdict::OtherLoad {
        let what = sentence::differences(&comparison.only_in);
        page.warning(&format!("{what}: less than 1 % of the exchanges, which are compared too"));
    }
    if comparison.ranks.is_none() {
        page.warning(
            "a report without `latency_histogram` has percentiles only: they are compared, and \
             chance is not excluded",
        );
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
        let title = page.look.paint(Paint::Bold, &left(title, label_columns + 2));
        let heads: String = ["before", "after", "change"].map(|head| right(head, 12)).concat();
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
        let change = change(before_ns, after_ns);
        self.row(label, [units::duration(before_ns), units::duration(after_ns), change]);
    }
}

/// Formats a change as a percentage of the value before.
fn change(before_ns: u64, after_ns: u64) -> String {
    if before_ns == 0 {
        return if after_ns == 0 { String::new() } else { "new".into() };
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
    table.times("max", one.max_ns, other.max_ns);
    table.times("mean", before.mean_ns(), after.mean_ns());
    if let Some(outlook) = comparison.outlook() {
        let both = [("predicted", "p50", &outlook.p50), ("", "p99", &outlook.p99)];
        for (label, name, it) in both {
            let interval = units::range(it.least_ns, it.most_ns);
            let measured = units::duration(it.measured_ns);
            let outside = if it.holds { "" } else { ", which is outside" };
            let cause = &outlook.cause;
            let line = format!("{name} {interval} without {cause}; {measured} measured{outside}");
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
    let mut table = Table::new(page, "cost per exchange, by cause");
    for found in all {
        let lost_ns =
            |run: &Measured| run.found(found).map(|found| found.lost_ns / run.exchanges.max(1));
        let cell = |lost_ns: Option<u64>| lost_ns.map_or("–".into(), units::duration);
        let lost = [lost_ns(before), lost_ns(after)];
        let change = match lost {
            [Some(before_ns), Some(after_ns)] => change(before_ns, after_ns),
            [Some(_), None] => "gone".into(),
            _ => "new".into(),
        };
        let label = format!("{} {} ({})", found.class, found.cause, found.role);
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
    let all = page.look.all;
    let mut table = Table::new(page, "time per exchange, by owner");
    for owner in owners {
        let share =
            |run: &Measured| run.ledger_per_exchange_ns(owner) as f64 / run.mean_ns().max(1) as f64;
        if all || share(before).max(share(after)) >= OWNER_SHARE_MIN {
            let of = |run: &Measured| run.ledger_per_exchange_ns(owner);
            table.times(owner, of(before), of(after));
        }
    }
}

/// Writes the figures behind the verdict.
fn tests(page: &mut Page<'_>, comparison: &Comparison) {
    let Some(ranks) = &comparison.ranks else { return };
    page.gap();
    page.line(&page.look.paint(Paint::Bold, "how sure"));
    page.labelled("shift", &shift(ranks));
    page.labelled("dominance", &dominance(ranks));
    for tail in &comparison.tails {
        page.labelled(&slow_end(tail), &shares(tail));
    }
}

fn slow_end(tail: &Tail) -> String {
    format!("slow {:.0} %", (1.0 - tail.quantile) * 100.0)
}

fn shift(ranks: &Ranks) -> String {
    let interval = match ranks.shift_interval_ns {
        Some([low, high]) => {
            format!("95 % between {} and {}", signed(low), signed(high))
        }
        None => "too few exchanges to bound it".into(),
    };
    let p_value = p_value(ranks.p_value);
    format!(
        "{} ({interval}), the median of all differences (Hodges–Lehmann); Mann–Whitney {p_value}",
        signed(ranks.shift_ns)
    )
}

fn dominance(ranks: &Ranks) -> String {
    let interval = match ranks.cliffs_delta_interval {
        Some([low, high]) => format!(" (95 % between {} and {})", delta(low), delta(high)),
        None => String::new(),
    };
    format!(
        "Cliff's delta {}{interval}: −1 if every exchange is faster, +1 if every one is slower",
        delta(ranks.cliffs_delta)
    )
}

fn shares(tail: &Tail) -> String {
    format!(
        "{} or longer take {} before, {} after; Fisher {}",
        units::duration(tail.threshold_ns),
        units::share(tail.before_share),
        units::share(tail.after_share),
        p_value(tail.p_value)
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
