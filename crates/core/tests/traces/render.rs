//! Puts a report into words that a snapshot can keep.

use crate::diagnosis::ms;
use std::fmt::Write;
use tcpwhy_core::findings::words;
use tcpwhy_core::model::{Cause, DirectionReport, Fact, Finding, Language, Ledger, Report};

/// The report in words. The proof and the facts are those of findings with a cause of `about` only, and a
/// direction shows what was counted in it beside its packets and bytes, if anything was.
pub fn render(report: &Report, about: &[Cause]) -> String {
    let mut text = String::new();
    let totals = &report.totals;
    let _ = writeln!(
        text,
        "{} segments, {} connections, {} exchanges, wall {} ms",
        totals.segments,
        totals.connections,
        totals.exchanges,
        ms(totals.wall_ns),
    );
    let _ = writeln!(text, "ledger {}", ledger(&report.ledger));
    for one in &report.findings {
        finding(&mut text, one, about.contains(&one.cause));
    }
    for observation in &report.observations {
        let frames: Vec<_> =
            observation.frames.iter().map(|frame| format!("#{}", frame.number())).collect();
        let _ = writeln!(
            text,
            "observed {} {} {}",
            observation.id,
            facts(&observation.facts),
            frames.join(" ")
        );
    }
    for endpoint in &report.endpoints {
        let kinds: Vec<_> = endpoint
            .kinds
            .iter()
            .map(|kind| {
                format!("{} x{} p50 {}", kind.kind, kind.exchanges, ms(kind.latency.p50_ns))
            })
            .collect();
        let _ = writeln!(text, "{:?} {}", endpoint.protocol, kinds.join("; "));
    }
    for connection in &report.connections {
        let _ = writeln!(text, "connection base rtt {} ms", ms(connection.rtt_min_ns));
        let directions =
            [("  >", &connection.client_to_server), ("  <", &connection.server_to_client)];
        for (arrow, counted) in directions {
            let counts = counts(counted);
            if !counts.is_empty() {
                let _ = writeln!(text, "{arrow}{counts}");
            }
        }
    }
    text
}

fn ledger(ledger: &Ledger) -> String {
    let owners: Vec<_> =
        ledger.iter().map(|(owner, ns)| format!("{} {}", owner.id(), ms(ns))).collect();
    owners.join(", ")
}

fn finding(text: &mut String, finding: &Finding, in_full: bool) {
    let _ = writeln!(
        text,
        "{} {} by {}: lost {} ms in {} of {} exchanges, {} connections",
        finding.cause.class().id(),
        finding.cause.id(),
        finding.culprit.role.id(),
        ms(finding.lost_ns),
        finding.affected.exchanges,
        finding.affected.of_exchanges,
        finding.affected.connections,
    );
    let _ = writeln!(
        text,
        "  p50 {} ms -> {} ms",
        ms(finding.latency.p50_ns),
        ms(finding.counterfactual.likely.p50_ns)
    );
    if !in_full {
        return;
    }
    let words = words(finding.cause, Language::English);
    for link in &finding.evidence {
        let (cause, part) = (finding.cause.id(), link.part);
        assert!(words.part(part).is_some(), "{cause}.md has no words for the frame {part}");
        let _ = writeln!(
            text,
            "  #{} {} {:?} {} B +{} ms",
            link.frame.number(),
            link.part,
            link.from,
            link.payload_bytes,
            ms(link.after_ns)
        );
    }
    let _ = writeln!(text, "  {}", facts(&finding.facts));
}

fn facts(facts: &[(&'static str, Fact)]) -> String {
    let words: Vec<_> = facts
        .iter()
        .map(|(name, fact)| match fact {
            Fact::Ns(ns) => format!("{name}={}", ms(*ns)),
            Fact::Bytes(value) | Fact::BitsPerSecond(value) | Fact::Count(value) => {
                format!("{name}={value}")
            }
            Fact::Share(share) => format!("{name}={share:.3}"),
            Fact::Text(text) => format!("{name}={text}"),
        })
        .collect();
    words.join(" ")
}

/// The counts of a direction that are not zero.
fn counts(direction: &DirectionReport) -> String {
    let mut text = String::new();
    let counts = [
        ("rexmt", direction.rexmt_data_packets),
        ("rto", direction.rto_count),
        ("fast", direction.fast_retransmissions),
        ("spurious", direction.spurious_retransmissions),
        ("out_of_order", direction.out_of_order_packets),
        ("duplicate_acks", direction.duplicate_acks),
        ("zero_windows", direction.zero_window_advertisements),
        ("probes", direction.zero_window_probes),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        let _ = write!(text, " {name} {count}");
    }
    text
}
