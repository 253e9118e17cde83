//! What heads a report, and what is left unsaid because it would not be true.

use super::{fixtures, look};
use tcpwhy_core::cause::{Cause, Owner, arrange};
use tcpwhy_core::report::{Report, json, text};

/// A fault that is next to nothing beside what the server takes.
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
    assert!(text.contains("A fault that takes little beside it: Nagle's algorithm"), "{text}");
}

/// Many who get nothing are no slight fault, however little time that takes.
#[test]
fn a_fault_that_meets_many_stands_first() {
    let mut report = slight();
    let fault = report.findings.iter_mut().find(|it| it.cause == Cause::NagleDelayedAck);
    let fault = fault.expect("the fault");
    (fault.cause, fault.affected.exchanges) = (Cause::Refused, 300);
    arrange(&mut report.findings, &report.totals);
    assert_eq!(report.findings[0].cause, Cause::Refused);
    let text = text::render(&report, &look(100));
    assert!(!text.contains("would be"), "nobody was answered: {text}");
}

#[test]
fn a_prediction_stands_with_the_exchanges_that_it_is_of() {
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

/// One direction only was captured: nobody can say that nothing was wrong.
#[test]
fn where_nothing_can_be_told_no_health_is_claimed() {
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
