//! The verdict in one sentence.

use super::signed;
use crate::compare::{Comparison, Found, Ranks, Tail, Verdict};
use crate::report::units;

/// What became of the latency and of the faults.
pub fn sentence(comparison: &Comparison) -> String {
    let mut clauses = vec![latency(comparison)];
    let gone = names(&comparison.gone_faults);
    if !gone.is_empty() {
        clauses.push(format!("{gone} {} gone", is(&comparison.gone_faults)));
    }
    let remaining: Vec<Found> = comparison
        .after
        .findings
        .iter()
        .filter(|found| found.class == "fault" && !comparison.new_faults.contains(found))
        .cloned()
        .collect();
    if !remaining.is_empty() {
        let verb = if remaining.len() == 1 { "remains" } else { "remain" };
        clauses.push(format!("{} {verb}", names(&remaining)));
    }
    let new = names(&comparison.new_faults);
    if !new.is_empty() {
        clauses.push(format!("{new} {} new", is(&comparison.new_faults)));
    }
    format!("{}.", clauses.join("; "))
}

fn latency(comparison: &Comparison) -> String {
    let (before, after) = (&comparison.before.latency, &comparison.after.latency);
    let p50 = format!("p50 {} → {}", units::duration(before.p50_ns), units::duration(after.p50_ns));
    match (comparison.verdict, &comparison.ranks) {
        (Verdict::Faster | Verdict::Slower | Verdict::Mixed, None) => {
            let (one, other) = (units::duration(before.p99_ns), units::duration(after.p99_ns));
            format!("{} by its percentiles, untested: {p50}, p99 {one} → {other}", word(comparison))
        }
        (Verdict::Equal, None) => format!("No change that matters, by its percentiles: {p50}"),
        (Verdict::Faster | Verdict::Slower, Some(ranks)) => changed(comparison, ranks, &p50),
        (Verdict::Mixed, Some(ranks)) => {
            format!("Mixed: {} in the middle ({p50}), but {}", by(ranks), slow_end(comparison))
        }
        (Verdict::Equal, Some(ranks)) => {
            let bounds = ranks.shift_interval_ns.unwrap_or_default();
            let most = bounds[0].unsigned_abs().max(bounds[1].unsigned_abs());
            format!(
                "No change that matters: {p50}, a typical exchange differs by less than {}",
                units::duration(most)
            )
        }
        (Verdict::NoDifferenceShown, _) => nothing_shown(comparison, &p50),
    }
}

fn word(comparison: &Comparison) -> &'static str {
    match comparison.verdict {
        Verdict::Faster => "Faster",
        Verdict::Slower => "Slower",
        _ => "Mixed",
    }
}

/// Where the middle says it, the shift; else the slow end alone.
fn changed(comparison: &Comparison, ranks: &Ranks, p50: &str) -> String {
    let slower = comparison.verdict == Verdict::Slower;
    let word = word(comparison);
    let least = comparison.options.min_change * comparison.before.latency.p50_ns as f64;
    let agrees = (ranks.shift_ns > 0) == slower && ranks.shift_ns as f64 != 0.0;
    if agrees && ranks.shift_ns.unsigned_abs() as f64 >= least {
        let bounds = match ranks.shift_interval_ns {
            Some([low, high]) => format!(" (95 % between {} and {})", signed(low), signed(high)),
            None => String::new(),
        };
        format!("{word}: {p50}, a typical exchange {}{bounds}", by(ranks))
    } else {
        format!("{word} at the slow end: {} ({p50})", slow_end(comparison))
    }
}

fn by(ranks: &Ranks) -> String {
    let ns = units::duration(ranks.shift_ns.unsigned_abs());
    let word = if ranks.shift_ns > 0 { "longer" } else { "shorter" };
    format!("{ns} {word}")
}

/// The tail that differs most surely.
fn slow_end(comparison: &Comparison) -> String {
    let surest = |one: &&Tail, other: &&Tail| one.p_value.total_cmp(&other.p_value);
    let Some(tail) = comparison.tails.iter().min_by(surest) else { return String::new() };
    format!(
        "{} or longer take {} after, {} before",
        units::duration(tail.threshold_ns),
        units::share(tail.after_share),
        units::share(tail.before_share)
    )
}

fn nothing_shown(comparison: &Comparison, p50: &str) -> String {
    let (before, after) =
        (units::count(comparison.before.exchanges), units::count(comparison.after.exchanges));
    let bounds = comparison.ranks.as_ref().and_then(|ranks| ranks.shift_interval_ns);
    let within = match bounds {
        Some([low, high]) => {
            format!("; it is between {} and {}, if any (95 %)", signed(low), signed(high))
        }
        None => String::new(),
    };
    format!("No difference that {before} and {after} exchanges could show ({p50}){within}")
}

/// `a`, `a and b`, `a, b and c`.
fn names(found: &[Found]) -> String {
    let mut names: Vec<&str> = found.iter().map(|found| found.cause.as_str()).collect();
    names.dedup();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

fn is(found: &[Found]) -> &'static str {
    if found.len() == 1 { "is" } else { "are" }
}
