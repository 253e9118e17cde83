//! Both distributions side by side, as bars over increasing times.

use super::label_columns;
use crate::compare::{Comparison, Sample};
use crate::findings::term;
use crate::model::units;
use crate::report::layout::{Page, left, right};
use crate::report::style::Paint;
use crate::say;

/// Maximum number of rows with fine steps.
const ROWS_MAX: usize = 14;

/// Writes a row for each span of time, in ascending order, with the shares of both runs in it.
pub(super) fn render(page: &mut Page<'_>, comparison: &Comparison) {
    let samples = comparison.before.sample.as_ref().zip(comparison.after.sample.as_ref());
    let Some((before, after)) = samples else { return };
    let spans = spans(&before.pooled(after));
    let labels: Vec<String> = spans.iter().map(|&[low, _]| units::duration(low)).collect();
    let columns = label_columns(&labels);
    let bar = page.look.width.saturating_sub(columns + 6 + 2 * 8).clamp(16, 100) / 2;
    page.gap();
    let language = page.look.language;
    let title = left(&say!(language, "bars_from"), columns + 4);
    let head = |name: &str| left(term(language, name), bar + 8);
    let heads = page.look.paint(Paint::Dim, &format!("{title}{}{}", head("before"), head("after")));
    page.line(&heads);
    for ([low, high], label) in spans.into_iter().zip(&labels) {
        let side = |run: &Sample, rank| {
            let within = run.at_least(low).saturating_sub(run.at_least(high));
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

/// Returns the start and end (exclusive) of each row, ns: 1, 2, 5, 10, …, or 1, 10, … if those are
/// too many.
fn spans(pooled: &Sample) -> Vec<[u64; 2]> {
    let ends = pooled.points().first().zip(pooled.points().last());
    let Some((&(least, _), &(most, _))) = ends else { return Vec::new() };
    let spans = |steps: &[u64]| -> Vec<[u64; 2]> {
        let decades = (0..=19).map(|exponent| 10u64.pow(exponent));
        let bounds =
            decades.flat_map(|ten| steps.iter().map(move |step| ten.saturating_mul(*step)));
        let bounds: Vec<u64> = std::iter::once(0).chain(bounds).chain([u64::MAX]).collect();
        let pairs = bounds.windows(2).map(|pair| [pair[0], pair[1]]);
        pairs.filter(|&[low, high]| low <= most && high > least && low < high).collect()
    };
    let fine = spans(&[1, 2, 5]);
    if fine.len() <= ROWS_MAX { fine } else { spans(&[1]) }
}
