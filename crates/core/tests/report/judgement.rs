//! The verdict at the top of a report, and statements that are left out because they would be
//! untrue.

use super::{fixtures, look};
use tcpwhy_core::findings::arrange;
use tcpwhy_core::model::{Cause, Fact, Observation, Owner, Report, Role};
use tcpwhy_core::report::{json, text};

/// A fault that costs almost nothing compared with the server's own time.
fn slight() -> Report {
    let mut report = fixtures::nagle();
    let mut cost = report.findings[0].clone();
    (cost.cause, cost.share) = (Cause::ServerThink, 0.96);
    let fault = &mut report.findings[0];
    (fault.share, fault.lost_ns, fault.affected.exchanges) = (0.000_4, 1_000, 3);
    fault.affected.connections = 0;
    report.findings.push(cost);
    arrange(&mut report.findings, &report.totals);
    report
}

/// The text of a report without the ends of its lines.
fn unwrapped(report: &Report) -> String {
    let text = text::render(report, &look(100));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_slight_fault_does_not_stand_before_what_takes_nearly_all() {
    let report = slight();
    assert_eq!(report.findings[0].cause, Cause::ServerThink);
    let text = unwrapped(&report);
    assert!(text.contains("Also a fault, which takes less: Nagle's algorithm"), "{text}");
}

/// A fault that makes many requests fail is serious, however little time it takes.
#[test]
fn a_fault_of_many_requests_comes_first() {
    let mut report = slight();
    let fault = report.findings.iter_mut().find(|it| it.cause == Cause::NagleDelayedAck);
    let fault = fault.expect("the fault");
    (fault.cause, fault.affected.exchanges) = (Cause::Refused, 300);
    arrange(&mut report.findings, &report.totals);
    assert_eq!(report.findings[0].cause, Cause::Refused);
    let text = text::render(&report, &look(100));
    assert!(!text.contains("would be"), "nobody was answered: {text}");
}

/// Returns a report in which the server's work has this share of the time, without a fault.
fn slow_server(share: f64) -> Report {
    let mut report = fixtures::nagle();
    report.ledger.transfer(Owner::NagleDelayedAck, Owner::Server, u64::MAX);
    let cost = &mut report.findings[0];
    (cost.cause, cost.share) = (Cause::ServerThink, share);
    cost.lost_ns = (share * report.totals.wall_ns as f64) as u64;
    cost.ruled_out.clear();
    report
}

#[test]
fn a_slow_server_is_an_answer_with_something_to_do() {
    let said = unwrapped(&slow_server(0.95));
    let answer = "Not the network: the server's own work at 10.200.0.2:8080 takes 95 % of response \
                  time (940 exchanges: p50 43.9 ms, p99 48.2 ms). do nginx: log";
    assert!(said.contains(answer), "{said}");
    assert!(!said.contains("No fault"), "{said}");
}

#[test]
fn a_server_with_less_than_half_of_the_time_does_not_rule_out_the_network() {
    let said = unwrapped(&slow_server(0.4));
    assert!(said.contains("No fault in 940 exchanges"), "{said}");
    assert!(said.contains("takes 40 % of response time. do nginx: log"), "{said}");
    let mut either = slow_server(0.95);
    either.findings[0].facts.push(("distance_max_ns", Fact::Ns(1_000_000)));
    assert!(!unwrapped(&either).contains("Not the network"), "it may be the distance");
}

#[test]
fn a_wait_in_a_protocol_that_is_not_read_rules_nothing_out() {
    let mut unread = slow_server(0.95);
    let why = Fact::Text("tcpwhy does not read its protocol".into());
    unread.findings[0].facts.push(("unread", why));
    let said = unwrapped(&unread);
    assert!(said.contains("The longest waits at 10.200.0.2:8080 end when it sends"), "{said}");
    assert!(said.contains("whether an answer was due is not known"), "{said}");
    assert!(!said.contains("Not the network") && !said.contains("own work at"), "{said}");
}

#[test]
fn exchanges_beside_a_cost_are_those_that_have_the_stated_part_of_it() {
    let mut report = slow_server(0.95);
    let cost = &mut report.findings[0];
    (cost.lost_ns, cost.affected.exchanges) = (148_000_000, 1);
    assert!(!unwrapped(&report).contains("of it in"));
    report.findings[0].facts.push(("counted_ns", Fact::Ns(141_000_000)));
    let said = unwrapped(&report);
    assert!(said.contains("cost 148 ms of") && said.contains("141 ms of it in 1 of"), "{said}");
}

#[test]
fn a_cost_larger_than_the_fault_is_shown_with_its_own_advice() {
    let mut report = fixtures::nagle();
    let mut cost = report.findings[0].clone();
    (cost.cause, cost.share, cost.lost_ns) = (Cause::PathRtt, 0.7, 27_000_000_000);
    cost.culprit.role = Role::Network;
    let fault = &mut report.findings[0];
    (fault.share, fault.lost_ns) = (0.28, 11_000_000_000);
    report.findings.push(cost);
    arrange(&mut report.findings, &report.totals);
    assert_eq!(report.findings[0].cause, Cause::NagleDelayedAck);
    let text = text::render(&report, &look(100));
    assert!(text.contains("Also: distance to 10.200.0.2:8080 takes 70 %"), "{text}");
    let head = text.split("FAULT").next().expect("a head");
    assert_eq!(head.matches("\n  do ").count(), 2, "{text}");
    report.findings[1].lost_ns = 1_000_000;
    let text = text::render(&report, &look(100));
    assert!(!text.contains("Also"), "{text}");
}

#[test]
fn the_figures_of_findings_follow_from_those_of_the_bar() {
    let mut report = fixtures::nagle();
    report.ledger.transfer(Owner::NagleDelayedAck, Owner::Connect, u64::MAX);
    let whole_ns = report.ledger.total_ns();
    let finding = &mut report.findings[0];
    finding.cause = Cause::AcceptQueueOverflow;
    (finding.share, finding.lost_ns) = (0.52, whole_ns / 100 * 52);
    let line = "connect 98 % = accept_queue_overflow 52 % + 46 % outside the findings";
    let text = text::render(&report, &look(100));
    assert!(text.contains(line), "{text}");
    report.findings[0].lost_ns = report.ledger.of(Owner::Connect);
    let text = text::render(&report, &look(100));
    assert!(text.contains("connect 98 % = accept_queue_overflow 98 %\n"), "{text}");
    // The line is left out if name and figures are the same.
    assert!(!text::render(&fixtures::nagle(), &look(100)).contains(" = "), "one vocabulary");
    assert!(!text::render(&slow_server(0.999), &look(100)).contains(" = "), "one word for it");
}

#[test]
fn a_scan_is_said_first() {
    let mut report = fixtures::healthy();
    let text = |text: &str| Fact::Text(text.into());
    let facts = vec![
        ("scanner", text("192.0.2.9")),
        ("host", text("10.0.0.2")),
        ("ports", Fact::Count(40)),
        ("answered", Fact::Count(4)),
        ("refused", Fact::Count(8)),
        ("silent", Fact::Count(28)),
    ];
    report.observations.push(Observation { id: "port_scan", facts, frames: Vec::new() });
    let said = unwrapped(&report);
    assert!(said.contains("192.0.2.9 scans the ports of 10.0.0.2. No fault in 300"), "{said}");
    assert!(said.contains("4 answered, 8 refused, 28 stayed silent"), "{said}");
}

#[test]
fn a_prediction_is_shown_with_its_exchanges() {
    let mut report = fixtures::nagle();
    assert!(text::render(&report, &look(80)).contains("without nagle"));
    report.totals.exchanges = 2_000;
    report.endpoints.push(report.endpoints[0].clone());
    report.endpoints[1].endpoint = fixtures::endpoint("10.200.0.3", 8080);
    let said = unwrapped(&report);
    assert!(said.contains("Of 940 exchanges there, p50 43.9 ms would be"), "{said}");
    let text = text::render(&report, &look(100));
    let all = text.lines().skip_while(|line| !line.starts_with("  all "));
    assert_eq!(all.filter(|line| line.contains("without")).count(), 0, "{text}");
    report.findings[0].affected.of_exchanges = 1_200;
    let text = text::render(&report, &look(100));
    assert!(!text.contains("without nagle"), "neither one's nor all: {text}");
}

#[test]
fn long_times_stand_apart() {
    let mut report = fixtures::nagle();
    report.endpoints[0].latency.p90_ns = 3_599_000_000_000;
    report.endpoints[0].latency.p99_ns = 3_599_000_000_000;
    for width in [60, 80, 100] {
        let text = text::render(&report, &look(width));
        let row = text.lines().find(|line| line.starts_with("  10.200.0.2:8080"));
        let row = row.expect("the endpoint");
        assert!(row.contains(" 59 min 59 s") && !row.contains("s59"), "{row}");
    }
}

#[test]
fn nothing_of_what_was_asked_for_is_not_nothing_at_all() {
    let mut report = fixtures::nagle();
    report.findings.clear();
    report.only = vec![Cause::ZeroWindow];
    let text = text::render(&report, &look(80));
    assert!(text.contains("No zero_window in 940 exchanges"), "{text}");
    assert!(!text.contains("No fault"), "{text}");
}

/// Only one direction was captured, so the absence of faults cannot be shown.
#[test]
fn without_evidence_no_health_is_claimed() {
    let mut report = fixtures::nagle();
    report.findings.clear();
    report.ledger.transfer(Owner::NagleDelayedAck, Owner::Unknown, u64::MAX);
    let text = text::render(&report, &look(80));
    assert!(text.contains("It is not known which side waited in 98 % of the time"), "{text}");
    assert!(!text.contains("No fault"), "{text}");
}

/// A look-up asks several servers, from several ports, over UDP and TCP.
#[test]
fn the_filter_of_a_look_up_names_only_its_client() {
    let mut report = fixtures::nagle();
    report.findings[0].cause = Cause::DnsTimeout;
    let text = json::render(&report, "0.1.0").expect("JSON");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let filter = &value["findings"][0]["evidence"][0]["wireshark_filter"];
    assert_eq!(*filter, "ip.addr == 10.200.0.1 && frame.number in {219, 241, 242}");
}
