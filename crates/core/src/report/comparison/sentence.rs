//! The verdict in one sentence.

use super::signed;
use crate::compare::{Comparison, Found, Look, OnlyIn, Ranks, Tail, Verdict};
use crate::findings::term;
use crate::model::{Language, units};
use crate::say;

/// Returns the verdict: how the latency changed, and which faults are gone, remain or are new.
pub fn sentence(comparison: &Comparison, language: Language) -> String {
    let mut clauses = vec![latency(comparison, language)];
    clauses.extend(unshown(comparison, language));
    let remaining: Vec<Found> = comparison
        .after
        .findings
        .iter()
        .filter(|found| found.class == "fault" && !comparison.new_faults.contains(found))
        .cloned()
        .collect();
    let about = [
        ("faults_gone", &comparison.gone_faults),
        ("faults_remain", &remaining),
        ("faults_new", &comparison.new_faults),
    ];
    for (id, found) in about.into_iter().filter(|(_, found)| !found.is_empty()) {
        clauses.push(say!(language, id, names = names(found, language), one = found.len() == 1));
    }
    let glue = language.glue();
    clauses.join(glue.semicolon) + glue.stop
}

fn latency(comparison: &Comparison, language: Language) -> String {
    let (before, after) = (&comparison.before.latency, &comparison.after.latency);
    let p50 = format!("p50 {} → {}", units::duration(before.p50_ns), units::duration(after.p50_ns));
    match (comparison.verdict, &comparison.ranks) {
        (Verdict::Faster | Verdict::Slower | Verdict::Mixed, None) => {
            let (before, after) = (units::duration(before.p99_ns), units::duration(after.p99_ns));
            let word = word(comparison, language);
            say!(language, "by_percentiles", word, p50, before, after)
        }
        (Verdict::Equal, None) => say!(language, "no_change_percentiles", p50),
        (Verdict::Faster | Verdict::Slower, Some(ranks)) => {
            changed(comparison, ranks, p50, language)
        }
        (Verdict::Mixed, Some(ranks)) => {
            let slow_end = slow_end(comparison, language);
            say!(language, "mixed", by = by(ranks, language), p50, slow_end)
        }
        (Verdict::Equal, Some(ranks)) => {
            let bounds = ranks.shift_interval_ns.unwrap_or_default();
            let most = bounds[0].unsigned_abs().max(bounds[1].unsigned_abs());
            say!(language, "no_change", p50, most = units::duration(most))
        }
        (Verdict::NoDifferenceShown, _) => nothing_shown(comparison, p50, language),
        (Verdict::OtherLoad, _) => {
            let differences = differences(&comparison.only_in, language);
            say!(language, "not_comparable", differences, p50)
        }
    }
}

fn word(comparison: &Comparison, language: Language) -> &'static str {
    let word = match comparison.verdict {
        Verdict::Faster => "Faster",
        Verdict::Slower => "Slower",
        _ => "Mixed",
    };
    term(language, word)
}

/// Describes the shift if it agrees with the verdict; otherwise only the slow end.
fn changed(comparison: &Comparison, ranks: &Ranks, p50: String, language: Language) -> String {
    let slower = comparison.verdict == Verdict::Slower;
    let word = word(comparison, language);
    let least = comparison.options.min_change * comparison.before.latency.p50_ns as f64;
    let agrees = (ranks.shift_ns > 0) == slower && ranks.shift_ns as f64 != 0.0;
    if agrees && ranks.shift_ns.unsigned_abs() as f64 >= least {
        let low = ranks.shift_interval_ns.map(|[low, _]| signed(low));
        let high = ranks.shift_interval_ns.map(|[_, high]| signed(high));
        say!(language, "changed", word, p50, by = by(ranks, language), low, high)
    } else {
        let slow_end = slow_end(comparison, language);
        say!(language, "changed_at_slow_end", word, slow_end, p50)
    }
}

fn by(ranks: &Ranks, language: Language) -> String {
    let time = units::duration(ranks.shift_ns.unsigned_abs());
    say!(language, if ranks.shift_ns > 0 { "longer" } else { "shorter" }, time)
}

/// Describes the tail whose difference is most significant.
fn slow_end(comparison: &Comparison, language: Language) -> String {
    let surest = |one: &&Tail, other: &&Tail| one.p_value.total_cmp(&other.p_value);
    let Some(tail) = comparison.tails.iter().min_by(surest) else { return String::new() };
    say!(
        language,
        "slow_end",
        threshold = units::duration(tail.threshold_ns),
        after = units::share(tail.after_share),
        before = units::share(tail.before_share),
    )
}

fn nothing_shown(comparison: &Comparison, p50: String, language: Language) -> String {
    let (before, after) = (comparison.before.exchanges, comparison.after.exchanges);
    let bounds = comparison.ranks.as_ref().and_then(|ranks| ranks.shift_interval_ns);
    let bounds = bounds.filter(|bounds| *bounds != [0, 0]);
    let low = bounds.map(|[low, _]| signed(low));
    let high = bounds.map(|[_, high]| signed(high));
    say!(language, "not_shown", before, after, p50, low, high)
}

/// Describes how the figures look if no difference is significant, and how many exchanges would
/// show one.
fn unshown(comparison: &Comparison, language: Language) -> Vec<String> {
    let looks = match comparison.looks.first() {
        Some(look) => {
            let difference = difference(look, language);
            Some(say!(language, "looks", name = name(look), difference))
        }
        None if comparison.verdict == Verdict::NoDifferenceShown => {
            Some(say!(language, "no_percentile_differs"))
        }
        None => None,
    };
    let needed = comparison.exchanges_needed.map(rounded);
    let needed = needed.map(|count| say!(language, "settle_it", count));
    looks.into_iter().chain(needed).collect()
}

fn name(look: &Look) -> String {
    format!("p{:.0}", look.quantile * 100.0)
}

/// Formats a difference: `10 times slower (1.20 ms → 12.0 ms)`.
fn difference(look: &Look, language: Language) -> String {
    let factor = look.factor();
    let (in_times, factor) = match factor {
        ..1.95 => (false, format!("{:.0}", (factor - 1.0) * 100.0)),
        ..9.95 => (true, format!("{factor:.1}")),
        _ => (true, format!("{factor:.0}")),
    };
    let id = match (look.is_slower(), in_times) {
        (true, false) => "slower_per_cent",
        (true, true) => "slower_times",
        (false, false) => "faster_per_cent",
        (false, true) => "faster_times",
    };
    let (before, after) = (units::duration(look.before_ns), units::duration(look.after_ns));
    say!(language, id, factor, before, after)
}

/// Rounds up to two significant digits.
fn rounded(count: u64) -> u64 {
    let digits = count.checked_ilog10().unwrap_or(0).saturating_sub(1);
    let unit = 10u64.saturating_pow(digits);
    count.div_ceil(unit).saturating_mul(unit)
}

/// Maximum number of differences in load that are named.
const ONLY_NAMED: usize = 3;

/// Lists the requests that only one of the runs has.
pub(super) fn differences(only_in: &[OnlyIn], language: Language) -> String {
    let named = |it: &OnlyIn| {
        let kind = it.kind.as_ref().map(|kind| format!("`{kind}`"));
        let port = it.port.to_string();
        say!(language, "load_part", kind, port, some = it.exchanges, all = it.of_exchanges)
    };
    let of = |run: &str, id: &str| {
        let here: Vec<_> = only_in.iter().filter(|it| it.run == run).collect();
        let mut listed: Vec<_> = here.iter().take(ONLY_NAMED).map(|it| named(it)).collect();
        let more = here.len().saturating_sub(ONLY_NAMED) as u64;
        if more > 0 {
            listed.push(say!(language, "more", count = more));
        }
        let listed = listed.join(language.glue().comma);
        (!here.is_empty()).then(|| say!(language, id, listed))
    };
    let both = [of("after", "only_after"), of("before", "only_before")];
    both.into_iter().flatten().collect::<Vec<_>>().join(language.glue().semicolon)
}

/// Lists the names of the causes.
fn names(found: &[Found], language: Language) -> String {
    let mut names: Vec<&str> = found.iter().map(|found| found.cause.as_str()).collect();
    names.dedup();
    language.list(&names)
}
