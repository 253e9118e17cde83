//! A listener under a SYN flood, and one that is only busy, in traces that are too long to write by
//! hand.

use crate::diagnosis::diagnose;
use crate::language::{Place, parse};
use crate::network::capture;
use tcpwhy_core::model::{Cause, Report};

/// Returns the report at a server on two clients whose second or third SYN is answered, while
/// `half_open` others begin a handshake each, `every_ms`, and never complete it, and `completed`
/// others do.
fn report(half_open: usize, every_ms: f64, completed: usize) -> Report {
    let mut lines: Vec<(f64, String)> = Vec::new();
    for number in 0..half_open {
        let (at, connection) = (10.0 + every_ms * number as f64, 10 + number);
        lines.push((at, format!(">{connection} S")));
        lines.push((at + 0.1, format!("<{connection} S.")));
    }
    for number in 0..completed {
        let (at, connection) = (13.0 + 8.0 * number as f64, 1_000 + number);
        let handshake =
            [format!(">{connection} S"), format!("<{connection} S."), format!(">{connection} .")];
        lines.extend((0..).zip(handshake).map(|(step, line)| (at + 0.1 * f64::from(step), line)));
    }
    for (connection, answered) in [(1, 1_000.0), (2, 3_000.0)] {
        lines.extend([0.0, 1_000.0, answered].map(|at| (at, format!(">{connection} S"))));
        let exchange = [
            "< S.",
            "> .",
            r#"> P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n""#,
            r#"< P. "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok""#,
            "> .",
        ];
        for (step, line) in (1..).zip(exchange) {
            let (side, rest) = line.split_at(1);
            lines.push((answered + 0.1 * f64::from(step), format!("{side}{connection}{rest}")));
        }
    }
    lines.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    // A client that was answered the second time sends no third SYN.
    lines.dedup();
    let text: Vec<_> = lines.iter().map(|(at, line)| format!("{at:.2} {line}")).collect();
    diagnose(&capture(&parse(&text.join("\n")), Place::Server))
}

#[test]
fn waits_for_a_flooded_listener_are_caused_by_the_flood() {
    let report = report(120, 8.0, 0);
    let flood = report.findings.first().expect("a finding");
    assert_eq!(flood.cause, Cause::SynFlood);
    assert_eq!(flood.affected.exchanges, 2);
    assert!((3_990..4_010).contains(&(flood.lost_ns / 1_000_000)), "{} ns", flood.lost_ns);
    let share = flood.lost_ns as f64 / report.totals.wall_ns as f64;
    assert!((flood.share - share).abs() < 1e-9, "{} of {share}", flood.share);
    let others: Vec<_> = report.findings[1..].iter().map(|finding| finding.cause.id()).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn a_listener_that_drops_a_few_is_neither_flooded_nor_full() {
    // Between the dropped SYNs it answers others: there is room in its queues.
    let report = report(70, 8.0, 0);
    let ids: Vec<_> = report.findings.iter().map(|finding| finding.cause).collect();
    assert_eq!(ids, [Cause::SynRetransmit]);
}

#[test]
fn a_flood_is_faster_than_clients_and_few_of_its_handshakes_are_completed() {
    let is_flood = |every_ms, completed| {
        let report = report(120, every_ms, completed);
        report.findings.iter().any(|finding| finding.cause == Cause::SynFlood)
    };
    assert!(is_flood(33.0, 0) && !is_flood(70.0, 0));
    assert!(is_flood(8.0, 20) && !is_flood(8.0, 40));
}
