//! Both distributions side by side, as bars over times that double.

use super::label_columns;
use crate::compare::{Comparison, Sample};
use crate::report::layout::{Page, left, right};
use crate::report::style::Paint;
use crate::report::units;

/// Rows, at most.
const ROWS_MAX: u32 = 14;

/// A row per span of time, from the shortest to the longest, with the shares of both runs in it.
pub(super) fn render(page: &mut Page<'_>, comparison: &Comparison) {
    let samples = comparison.before.sample.as_ref().zip(comparison.after.sample.as_ref());
    let Some((before, after)) = samples else { return };
    let spans = spans(&before.pooled(after));
    let labels: Vec<String> = spans.iter().map(|&[low, _]| units::duration(low)).collect();
    let columns = label_columns(&labels);
    let bar = page.look.width.saturating_sub(columns + 6 + 2 * 8).clamp(16, 100) / 2;
    page.gap();
    let title = left("from", columns + 4);
    let head = |name: &str| left(name, bar + 8);
    let heads = page.look.paint(Paint::Dim, &format!("{title}{}{}", head("before"), head("after")));
    page.line(&heads);
    for ([low, high], label) in spans.into_iter().zip(&labels) {
        let side = |run: &Sample, rank| {
            let within = run.at_least(low) - run.at_least(high);
            let share = within as f64 / run.count().max(1) as f64;
            let filled = (share * bar as f64).round() as usize;
            let filled = if within > 0 { filled.max(1) } else { 0 };
            let text = page.look.segment(rank).to_string().repeat(filled);
            let shown = if within > 0 { units::share(share) } else { String::new() };
            let painted = page.look.paint(Paint::Segment(rank), &text);
            format!("{painted}{}", left(&format!(" {shown}"), bar + 8 - filled))
        };
        let row = format!("  {}  {}{}", right(label, columns), side(before, 0), side(after, 1));
        page.line(&row);
    }
}

/// From and past-the-end times of the rows, ns: powers of two, or of four, eight, … where
/// doubling would need too many.
fn spans(pooled: &Sample) -> Vec<[u64; 2]> {
    let ends = pooled.points().first().zip(pooled.points().last());
    let Some((&(least, _), &(most, _))) = ends else { return Vec::new() };
    let (first, last) = (least.max(1).ilog2(), most.max(1).ilog2());
    let step = (last - first + 1).div_ceil(ROWS_MAX);
    let power = |exponent: u32| 1u64.checked_shl(exponent).unwrap_or(u64::MAX);
    let rows = (first..=last).step_by(step as usize);
    rows.map(|from| {
        let low = if from == first { least.min(power(from)) } else { power(from) };
        [low, power(from + step)]
    })
    .collect()
}
