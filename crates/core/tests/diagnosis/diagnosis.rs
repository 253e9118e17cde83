//! Runs a diagnosis in memory and puts it into words that a snapshot can keep.

use std::fmt::Write;
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::check::Packets;
use tcpwhy_core::findings::words;
use tcpwhy_core::join::Sites;
use tcpwhy_core::model::{DirectionReport, Fact, Finding, Ledger, Report};
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::survey::survey;

/// The report on one capture file.
pub fn diagnose(file: &[u8]) -> Report {
    diagnose_files(&[("capture", file)])
}

/// The report on several files of one place.
pub fn diagnose_files(files: &[(&str, &[u8])]) -> Report {
    analyse(sources(files), Options::default())
}

/// The report on several files, of one place or two, as they show.
pub fn joined(files: &[(&str, &[u8])]) -> Report {
    let survey = survey(sources(files), false, &|| true).expect("two places at most");
    let options = Options { is_translated: survey.is_translated, ..Options::default() };
    analyse(survey.assign_sites(sources(files)), options)
}

/// Returns whether several files are recognised as those of two vantages.
pub fn sited(files: &[(&str, &[u8])]) -> bool {
    !survey(sources(files), false, &|| true).expect("two places at most").sites.is_empty()
}

fn sources(files: &[(&str, &[u8])]) -> Vec<Source> {
    files.iter().map(|(name, bytes)| Source::memory(*name, bytes.to_vec())).collect()
}

fn analyse(sources: Vec<Source>, options: Options) -> Report {
    let mut capture = CaptureSet::new(sources).expect("a readable capture");
    let mut analysis = Analysis::new(Options { sites: Sites::of(&capture), ..options });
    analysis.run(&mut capture, &mut |_| true).expect("a readable capture");
    analysis.finish(capture.inputs())
}

/// Milliseconds, three decimals.
pub fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// The report in words.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    let totals = &report.totals;
    let _ = writeln!(
        text,
        "{} segments, {} connections, {} exchanges, wall {} ms, vantage {:?}",
        totals.segments,
        totals.connections,
        totals.exchanges,
        ms(totals.wall_ns),
        totals.vantage,
    );
    let _ = writeln!(text, "ledger {}", ledger(&report.ledger));
    for one in &report.findings {
        finding(&mut text, one);
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
        let _ = writeln!(
            text,
            "connection base rtt {} ms\n  > {}\n  < {}",
            ms(connection.rtt_min_ns),
            direction(&connection.client_to_server),
            direction(&connection.server_to_client),
        );
    }
    text
}

fn ledger(ledger: &Ledger) -> String {
    let owners: Vec<_> =
        ledger.iter().map(|(owner, ns)| format!("{} {}", owner.id(), ms(ns))).collect();
    owners.join(", ")
}

fn finding(text: &mut String, finding: &Finding) {
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
    let words = words(finding.cause);
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

fn direction(direction: &DirectionReport) -> String {
    let mut text = format!(
        "{} packets {} B mss {}",
        direction.packets, direction.unique_bytes, direction.mss_bytes
    );
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

/// The packets that the claims of `report` on `file` are checked against.
pub fn packets_of(report: &Report, file: &[u8]) -> Packets {
    let mut capture = CaptureSet::new(sources(&[("capture", file)])).expect("a readable capture");
    let (mut packets, mut block) = (Packets::of(report), Block::default());
    while capture.next_block(&mut block).expect("a readable capture") {
        packets.take(&block);
    }
    packets
}
