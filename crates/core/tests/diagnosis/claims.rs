//! The claims of reports hold: each is checked against the packets, apart from the analysis. Those about
//! traces are checked with each trace (`tests/traces/main.rs`).

use crate::diagnosis::{diagnose, false_claims};
use crate::network::capture;
use crate::traces::trace;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tcpwhy_core::check;
use tcpwhy_core::findings::words;
use tcpwhy_core::model::{Cause, Evidence, Fact, Language, Latency, Prediction, Report};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of captures");
    let mut files: Vec<_> = entries.map(|it| it.expect("an entry").path()).collect();
    files.sort();
    files
}

pub fn stored() -> impl Iterator<Item = (String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    files(&folder).into_iter().map(|path| named(&path))
}

fn named(path: &Path) -> (String, Vec<u8>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (name, std::fs::read(path).expect("a capture"))
}

fn assert_true(captures: impl Iterator<Item = (String, Vec<u8>)>) {
    let mut wrong = Vec::new();
    for (name, bytes) in captures {
        let claims = false_claims(&diagnose(&bytes), &bytes);
        wrong.extend(claims.into_iter().map(|it| format!("{name}: {it}")));
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn claims_about_stored_captures_hold() {
    assert_true(stored());
}

/// Captures of others, one path a line in the file that `TCPWHY_CAPTURES` names.
#[test]
fn claims_about_captures_of_others_hold() {
    let Some(list) = std::env::var_os("TCPWHY_CAPTURES") else { return };
    let list = std::fs::read_to_string(list).expect("a list of paths");
    assert_true(list.lines().map(|path| named(Path::new(path))));
}

/// A change that makes one claim of a report false.
type Spoil = fn(&mut Report) -> Option<()>;

fn first_evidence(report: &mut Report) -> Option<&mut Vec<Evidence>> {
    let known = report.findings.iter_mut().filter(|it| it.evidence.len() > 1);
    known.map(|it| &mut it.evidence).next()
}

fn change_number(report: &mut Report, name: &str, by: u64) -> Option<()> {
    let facts = report.findings.iter_mut().flat_map(|it| it.facts.iter_mut());
    let fact = facts.filter(|(of, _)| *of == name).map(|(_, fact)| fact).next()?;
    match fact {
        Fact::Count(number) | Fact::Bytes(number) | Fact::Ns(number) => *number += by,
        _ => return None,
    }
    Some(())
}

/// Changes a duration of the first finding of `cause` that states it.
fn change_time(
    report: &mut Report,
    cause: Cause,
    name: &str,
    to: fn(u64, u64) -> u64,
) -> Option<()> {
    let finding = report.findings.iter_mut().find(|it| it.cause == cause)?;
    let lost_ns = finding.lost_ns;
    match finding.facts.iter_mut().find(|(of, _)| *of == name)? {
        (_, Fact::Ns(ns)) => *ns = to(*ns, lost_ns),
        _ => return None,
    }
    Some(())
}

/// Changes to reports, each of which a checker has to notice in every capture that it applies to.
const SPOILS: &[(&str, Spoil)] = &[
    ("a median of several waits that is longer than all of them together", |report| {
        let think = report.findings.iter().find(|it| it.cause == Cause::ServerThink)?;
        let cases = think.facts.iter().find(|(name, _)| *name == "cases")?;
        let is_several = matches!(cases.1, Fact::Count(cases) if cases > 1);
        is_several.then_some(())?;
        change_time(report, Cause::ServerThink, "p50_ns", |_, lost_ns| 2 * lost_ns)
    }),
    ("round trips that take more than the cost", |report| {
        change_number(report, "round_trips", 1_000)
    }),
    ("a later time", |report| {
        first_evidence(report)?.last_mut()?.after_ns += 1_000;
        Some(())
    }),
    ("another length", |report| {
        first_evidence(report)?.first_mut()?.payload_bytes += 1;
        Some(())
    }),
    ("the other side", |report| {
        let link = first_evidence(report)?.first_mut()?;
        link.from = link.from.peer();
        Some(())
    }),
    ("a cost above the wall time", |report| {
        report.findings.first_mut()?.lost_ns = report.totals.wall_ns + 1;
        Some(())
    }),
    ("percentiles out of order", |report| {
        let latency = &mut report.findings.first_mut()?.latency;
        (latency.max_ns > 0).then_some(())?;
        latency.p50_ns = latency.max_ns + 1;
        Some(())
    }),
    ("a slower prediction", |report| {
        let finding = report.findings.first_mut()?;
        finding.counterfactual.most.max_ns = finding.latency.max_ns + 1;
        Some(())
    }),
    ("a prediction above its upper end", |report| {
        let then = &mut report.findings.first_mut()?.counterfactual;
        (then.least.max_ns > 0).then_some(())?;
        then.most.max_ns = then.least.max_ns - 1;
        Some(())
    }),
    ("a prediction below the round trip", |report| {
        // One connection over a path, captured from its SYN on.
        let [connection] = report.connections.as_slice() else { return None };
        let is_far = connection.rtt_min_ns > 5_000_000 && connection.first_frame.number() == 1;
        let finding = report.findings.first_mut()?;
        let limits = [Cause::SendBuffer, Cause::ReceiveWindow, Cause::NagleDelayedAck];
        (is_far && limits.contains(&finding.cause) && finding.evidence_exchange > 0)
            .then_some(())?;
        finding.counterfactual =
            Prediction::exactly(Latency { max_ns: 1_000, ..Latency::default() });
        Some(())
    }),
    ("more exchanges than there are", |report| {
        let affected = &mut report.findings.first_mut()?.affected;
        affected.exchanges = affected.of_exchanges + 1;
        Some(())
    }),
    ("another timer", |report| {
        let finding = report
            .findings
            .iter()
            .position(|it| it.cause == Cause::RetransmissionTimeout && it.evidence.len() > 1)?;
        let facts = &mut report.findings[finding].facts;
        match facts.iter_mut().find(|(of, _)| *of == "rto_ns")? {
            (_, Fact::Ns(ns)) => *ns += 1,
            _ => return None,
        }
        Some(())
    }),
    ("more bytes held", |report| change_number(report, "held_bytes", 1)),
    ("a time longer than the capture", |report| {
        change_number(report, "ack_delay_p50_ns", u64::from(u32::MAX) << 10)
    }),
];

/// The parts of an evidence chain change places.
fn rotated(report: &Report) -> Option<Report> {
    let mut report = report.clone();
    let evidence = first_evidence(&mut report)?;
    let parts: Vec<_> = evidence.iter().map(|it| it.part).collect();
    (parts.iter().collect::<BTreeSet<_>>().len() > 1).then_some(())?;
    for (link, part) in evidence.iter_mut().zip(parts.iter().cycle().skip(1)) {
        link.part = part;
    }
    Some(report)
}

#[test]
fn a_false_number_is_noticed_in_every_capture() {
    let mut applied = vec![0; SPOILS.len()];
    for (name, bytes) in stored() {
        let report = diagnose(&bytes);
        for (at, (what, spoil)) in SPOILS.iter().enumerate() {
            let mut spoiled = report.clone();
            if spoil(&mut spoiled).is_some() {
                applied[at] += 1;
                assert!(!false_claims(&spoiled, &bytes).is_empty(), "{name}: {what}");
            }
        }
    }
    for ((what, _), count) in SPOILS.iter().zip(applied) {
        assert!(count > 0, "no capture has {what}");
    }
}

/// Half of the pauses cannot take longer than all of them together.
#[test]
fn a_false_time_of_pauses_is_noticed() {
    let name = "client_pauses_inside_its_request";
    let trace = trace(name);
    let bytes = capture(&trace, trace.vantages[0]);
    let mut report = diagnose(&bytes);
    assert_eq!(false_claims(&report, &bytes), [""; 0]);
    let longer =
        change_time(&mut report, Cause::ClientThink, "longest_ns", |_, cost_ns| cost_ns + 1);
    assert!(longer.is_some() && !false_claims(&report, &bytes).is_empty());
}

#[test]
fn a_frame_with_the_part_of_another_is_noticed() {
    let (mut noticed, mut all) = (0, 0);
    for (_, bytes) in stored() {
        if let Some(report) = rotated(&diagnose(&bytes)) {
            all += 1;
            noticed += usize::from(!false_claims(&report, &bytes).is_empty());
        }
    }
    // `flight_end` and `request` may both be true of either frame of a chain.
    assert!(4 * noticed >= 3 * all, "{noticed} of {all}");
}

#[test]
fn every_sentence_of_a_manual_has_a_checker() {
    let mut missing = Vec::new();
    for &cause in Cause::ALL {
        let (words, id) = (words(cause, Language::English), cause.id());
        let parts = words.evidence.iter().map(|(part, _)| *part);
        missing.extend(
            parts
                .filter(|part| !check::knows_part(cause, part))
                .map(|it| format!("{id}: part {it}")),
        );
        for (other, why, _) in &words.ruled_out {
            let other = Cause::from_id(other).expect("a cause");
            if !check::knows_reason(cause, other, why) {
                missing.push(format!("{id}: not {} ({why})", other.id()));
            }
        }
        let terms = words.fixes.iter().flat_map(|fix| fix.applies.split('+'));
        let conditions = terms.filter_map(|it| it.strip_prefix(['?', '!']));
        missing.extend(
            conditions
                .filter(|name| !check::knows_value(cause, name))
                .map(|name| format!("{id}: condition {name} of a fix")),
        );
        let reasons = words.ruled_out.iter().map(|(_, _, sentence)| *sentence);
        let captions = words.evidence.iter().map(|(_, sentence)| *sentence);
        let texts = words.headline.iter().chain(&words.message).copied();
        for template in texts.chain(captions).chain(reasons) {
            let unknown = places(template).filter(|name| !check::knows_value(cause, name));
            missing.extend(unknown.map(|name| format!("{id}: value {name} in `{template}`")));
        }
    }
    assert!(missing.is_empty(), "{}:\n{}", missing.len(), missing.join("\n"));
}

/// Names of the facts that a template shows.
fn places(template: &str) -> impl Iterator<Item = &str> {
    let opened = template.split('{').skip(1);
    opened.filter_map(|it| it.split(['}', ':', '|']).next())
}
