//! The verdict in one sentence.

use super::signed;
use crate::compare::{Comparison, Found, Look, OnlyIn, Ranks, Tail, Verdict};
use crate::model::units;

/// Returns the verdict: how the latency changed, and which faults are gone, remain or are new.
pub fn sentence(comparison: &Comparison) -> String {
    let mut clauses = vec![latency(comparison)];
    clauses.extend(unshown(comparison));
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
        (Verdict::OtherLoad, _) => other_load(comparison, &p50),
    }
}

fn word(comparison: &Comparison) -> &'static str {
    match comparison.verdict {
        Verdict::Faster => "Faster",
        Verdict::Slower => "Slower",
        _ => "Mixed",
    }
}

/// Describes the shift if it agrees with the verdict; otherwise only the slow end.
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

/// Describes the tail whose difference is most significant.
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
        Some([0, 0]) | None => String::new(),
        Some([low, high]) => {
            format!("; the typical difference is between {} and {}", signed(low), signed(high))
        }
    };
    format!(
        "Not shown: {before} and {after} exchanges are too few to tell whether it is faster, slower or \
         equal ({p50}{within})"
    )
}

/// Describes how the figures look if no difference is significant, and how many exchanges would
/// show one.
fn unshown(comparison: &Comparison) -> Vec<String> {
    let looks = match comparison.looks.first() {
        Some(look) => Some(format!("{} looks {}", name(look), difference(look))),
        None if comparison.verdict == Verdict::NoDifferenceShown => {
            Some("no percentile looks different".into())
        }
        None => None,
    };
    let needed = comparison.exchanges_needed.map(|needed| {
        let count = units::count(rounded(needed));
        format!("capture about {count} exchanges in each run to settle it")
    });
    looks.into_iter().chain(needed).collect()
}

fn name(look: &Look) -> String {
    format!("p{:.0}", look.quantile * 100.0)
}

/// Formats a difference: `10 times slower (1.20 ms → 12.0 ms)`.
fn difference(look: &Look) -> String {
    let word = if look.is_slower() { "slower" } else { "faster" };
    let factor = look.factor();
    let by = match factor {
        ..1.95 => format!("{:.0} % {word}", (factor - 1.0) * 100.0),
        ..9.95 => format!("{factor:.1} times {word}"),
        _ => format!("{factor:.0} times {word}"),
    };
    let (before, after) = (units::duration(look.before_ns), units::duration(look.after_ns));
    format!("{by} ({before} → {after})")
}

/// Rounds up to two significant digits.
fn rounded(count: u64) -> u64 {
    let digits = count.checked_ilog10().unwrap_or(0).saturating_sub(1);
    let unit = 10u64.saturating_pow(digits);
    count.div_ceil(unit).saturating_mul(unit)
}

/// Maximum number of differences in load that are named.
const ONLY_NAMED: usize = 3;

fn other_load(comparison: &Comparison, p50: &str) -> String {
    format!(
        "Not comparable: {}, so the latencies ({p50}) are those of different requests",
        differences(&comparison.only_in)
    )
}

/// Lists the requests that only one of the runs has.
pub(super) fn differences(only_in: &[OnlyIn]) -> String {
    let named = |it: &OnlyIn| {
        let what = match &it.kind {
            Some(kind) => format!("`{}` on port {}", units::printable(kind), it.port),
            None => format!("port {}", it.port),
        };
        let (some, all) = (units::count(it.exchanges), units::count(it.of_exchanges));
        format!("{what} ({some} of {all} exchanges)")
    };
    let of = |run: &str, words: &str| {
        let here: Vec<_> = only_in.iter().filter(|it| it.run == run).collect();
        let mut listed: Vec<_> = here.iter().take(ONLY_NAMED).map(|it| named(it)).collect();
        let more = here.len().saturating_sub(ONLY_NAMED);
        if more > 0 {
            listed.push(format!("{more} more"));
        }
        (!here.is_empty()).then(|| format!("only {words} has {}", listed.join(", ")))
    };
    let both = [of("after", "AFTER"), of("before", "BEFORE")];
    both.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Lists the names: `a`, `a and b`, `a, b and c`.
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
