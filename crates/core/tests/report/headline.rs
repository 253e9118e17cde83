//! The figure that a headline states: the one in which the cost shows.

use super::{fixtures, look};
use tcpwhy_core::findings::prediction;
use tcpwhy_core::model::{Culprit, Finding, Latency, Report, Role};
use tcpwhy_core::report::text;

const MS: u64 = 1_000_000;

/// Returns the first paragraph for `count` exchanges with these latencies, as they are and as they
/// would be, of which the cause takes `share`.
fn answer(count: u64, now: [u64; 4], then: [u64; 4], share: f64) -> String {
    let latency = |ms: [u64; 4]| {
        let [p50_ns, p90_ns, p99_ns, max_ns] = ms.map(|ms| ms * MS);
        Latency { p50_ns, p90_ns, p99_ns, max_ns }
    };
    let mut report = fixtures::nagle();
    report.totals.exchanges = count;
    let wall_ns = report.totals.wall_ns;
    let finding = &mut report.findings[0];
    finding.affected.of_exchanges = count;
    (finding.lost_ns, finding.share) = ((share * wall_ns as f64) as u64, share);
    (finding.latency, finding.counterfactual) =
        (latency(now), prediction::of_each(&latency(now), latency(then), 0));
    shown(&report)
}

fn shown(report: &Report) -> String {
    let text = text::render(report, &look(400));
    text.lines().find(|line| line.starts_with("Nagle")).unwrap_or_default().to_owned()
}

#[test]
fn a_cost_of_all_exchanges_shows_at_the_median() {
    let said = answer(500, [40, 41, 42, 43], [1, 2, 3, 4], 0.9);
    assert!(said.ends_with(" p50 40 ms would be about 1 ms, at most 1.5 ms."), "{said}");
}

#[test]
fn a_cost_of_a_third_shows_at_the_ninetieth_percentile() {
    let said = answer(500, [21, 400, 900, 999], [20, 24, 30, 30], 0.94);
    assert!(said.ends_with(" p90 400 ms would be about 24 ms, at most 27 ms."), "{said}");
}

#[test]
fn a_cost_of_few_of_many_shows_at_the_99th_percentile() {
    let said = answer(500, [21, 22, 900, 999], [21, 22, 30, 30], 0.6);
    assert!(said.ends_with(" p99 900 ms would be about 30 ms, at most 34 ms."), "{said}");
}

#[test]
fn a_cost_of_one_of_few_shows_in_the_longest() {
    let said = answer(20, [21, 22, 9_000, 9_000], [21, 22, 30, 30], 0.9);
    assert!(
        said.ends_with(
            " The longest took 9 s; without it the longest would take about 30 ms, at most 34 ms."
        ),
        "{said}"
    );
}

/// The longest exchange waits for something else.
#[test]
fn a_cost_that_no_percentile_shows_is_that_of_the_mean() {
    let said = answer(33, [21, 350, 1_340, 1_340], [21, 350, 1_340, 1_340], 0.3);
    assert!(said.ends_with(" The mean of 1.20 s would be about 840 ms, at most 950 ms."), "{said}");
}

/// Another run of the same exchanges may differ by more.
#[test]
fn an_effect_within_the_noise_is_not_stated() {
    let said = answer(500, [40, 41, 42, 43], [38, 39, 40, 41], 0.05);
    assert!(!said.contains("would"), "{said}");
}

/// One of 770 ms waits for nothing, and one of 782 ms would take 383: the median is the former's
/// now, and would be the latter's.
#[test]
fn two_exchanges_have_no_median() {
    let said = answer(2, [770, 782, 782, 782], [383, 770, 770, 770], 0.5);
    assert!(said.contains(" The mean of "), "{said}");
}

#[test]
fn one_exchange_has_no_percentile() {
    let said = answer(1, [900; 4], [30; 4], 0.96);
    assert!(
        said.ends_with(" The exchange took 900 ms and would take about 30 ms, at most 34 ms."),
        "{said}"
    );
}

#[test]
fn percentiles_that_are_the_longest_are_called_that() {
    let described = |count| {
        let mut report = fixtures::healthy();
        report.totals.exchanges = count;
        text::render(&report, &look(400))
    };
    let [one, few, many] = [1, 99, 100].map(described);
    assert!(one.contains("No fault in 1 exchange: "), "{one}");
    assert!(!one.lines().any(|line| line.contains("No fault") && line.contains("p50")), "{one}");
    assert!(
        few.lines().any(|line| line.contains(": p50 ") && line.contains(", longest ")),
        "{few}"
    );
    assert!(many.lines().any(|line| line.contains(": p50 ") && line.contains(", p99 ")), "{many}");
}

/// The lines of the latency table of two findings of one cause, whose culprits are these.
fn rows_without(culprits: [(Role, &str); 2]) -> Vec<String> {
    let mut report = fixtures::nagle();
    let finding = report.findings[0].clone();
    report.findings = Vec::from(culprits.map(|(role, address)| {
        let culprit = Culprit { role, endpoint: fixtures::endpoint(address, 0) };
        Finding { culprit, ..finding.clone() }
    }));
    let text = text::render(&report, &look(100));
    let rows = text.lines().filter(|line| line.trim_start().starts_with("without"));
    rows.map(|row| row.split("  ").find(|cell| !cell.is_empty()).unwrap_or_default().into())
        .collect()
}

#[test]
fn rows_of_one_cause_name_their_culprits() {
    let sides = rows_without([(Role::Client, "10.0.0.1"), (Role::Server, "10.0.0.2")]);
    let named = ["without nagle_delayed_ack (client)", "without nagle_delayed_ack (server)"];
    assert!(named.iter().all(|row| sides.iter().any(|it| it == row)), "{sides:?}");
    let clients = rows_without([(Role::Client, "10.0.0.1"), (Role::Client, "10.0.0.3")]);
    assert!(clients.iter().any(|it| it == "without nagle_delayed_ack (10.0.0.3)"), "{clients:?}");
}

#[test]
fn a_row_of_a_cause_alone_names_no_culprit() {
    let text = text::render(&fixtures::nagle(), &look(100));
    assert!(text.contains("  without nagle_delayed_ack   "), "{text}");
}

#[test]
fn a_fault_at_several_places_is_headlined_with_what_all_of_them_cost() {
    let mut report = fixtures::nagle();
    let finding = report.findings[0].clone();
    let at = |address, share| {
        let culprit = Culprit { role: Role::Server, endpoint: fixtures::endpoint(address, 0) };
        Finding { culprit, share, ..finding.clone() }
    };
    report.findings = vec![at("10.0.0.1", 0.08), at("10.0.0.2", 0.23)];
    let said = shown(&report);
    assert!(said.ends_with(" The same at 1 other place: 31 % in all."), "{said}");
    report.findings.truncate(1);
    let said = shown(&report);
    assert!(!said.contains("The same at"), "{said}");
}
