//! The connections of QUIC: how their handshakes went, and what cannot be said.

use super::{Language, Page, Report};
use crate::model::Fact;
use crate::model::quic::{Handshake, Outcome, Part, Sums, error_name};
use crate::say;

/// Says how many connections there are, how many of them failed, and that their content was not judged; nothing
/// without any.
pub(super) fn encrypted(report: &Report, language: Language) -> String {
    let count = report.quic.connections();
    if count == 0 || !report.only.is_empty() {
        return String::new();
    }
    let of = |outcome| Some(report.quic.of(outcome)).filter(|&count| count > 0);
    let (unanswered, refused) = (of(Outcome::Unanswered), of(Outcome::Refused));
    say!(language, "quic_encrypted", count, unanswered, refused)
}

/// Writes how the handshakes went.
pub(super) fn render(page: &mut Page<'_>, report: &Report) {
    let (sums, language) = (&report.quic, page.look.language);
    if sums.connections() == 0 || !report.only.is_empty() {
        return;
    }
    page.gap();
    page.title("QUIC", "");
    let items = [
        time(sums, language),
        failed(sums, language),
        detours(sums, language),
        amplified(sums, language),
        turned(sums, language),
    ];
    items.iter().flatten().for_each(|text| page.item(text));
}

/// Where the time of completed handshakes went.
fn time(sums: &Sums, language: Language) -> Option<String> {
    let count = sums.of(Outcome::Completed);
    let latency = sums.time.latency();
    let of = |part: &Part| {
        let ns = Fact::Ns(sums.parts.of(*part));
        say!(language, part_words(*part), ns)
    };
    let parts = Part::ALL.iter().filter(|part| sums.parts.of(**part) > 0).map(of);
    let parts = parts.collect::<Vec<_>>().join(language.glue().comma);
    let p50 = (count > 1).then_some(Fact::Ns(latency.p50_ns));
    let max = Fact::Ns(latency.max_ns);
    (count > 0).then(|| say!(language, "quic_time", count, p50, max, parts))
}

fn part_words(part: Part) -> &'static str {
    match part {
        Part::Path => "quic_path",
        Part::Server => "quic_server",
        Part::Client => "quic_client",
        Part::LostInitial => "quic_lost_initial",
        Part::LostFlight => "quic_lost_flight",
        Part::Retry => "quic_retry",
        Part::VersionNegotiation => "quic_negotiation",
        Part::Amplification => "quic_amplification",
        Part::Unknown => "quic_unknown",
    }
}

/// Connections without a completed handshake.
fn failed(sums: &Sums, language: Language) -> Option<String> {
    let some = |outcome| Some(sums.of(outcome)).filter(|count| *count > 0);
    let unanswered = some(Outcome::Unanswered);
    let refused = some(Outcome::Refused);
    let closed = some(Outcome::Closed);
    let unfinished = some(Outcome::Unfinished);
    let error = sums.longest.iter().find_map(error);
    let all = [
        unanswered.map(|count| say!(language, "quic_unanswered", count)),
        refused.map(|count| say!(language, "quic_refused", count)),
        closed.map(|count| say!(language, "quic_closed", count, error)),
        unfinished.map(|count| say!(language, "quic_unfinished", count)),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(language.glue().comma))
}

/// Returns the error with which a side closed the connection, by name and number.
fn error(handshake: &Handshake) -> Option<String> {
    let (close, _) = handshake.close.filter(|_| handshake.outcome == Outcome::Closed)?;
    let name = error_name(close.code).filter(|_| !close.is_application).unwrap_or_default();
    Some(format!("{name} {:#x}", close.code).trim_start().to_owned())
}

/// Round trips that not every handshake needs.
fn detours(sums: &Sums, language: Language) -> Option<String> {
    let some = |count: u64| Some(count).filter(|count| *count > 0);
    let all = [
        some(sums.repeated).map(|count| say!(language, "quic_repeated", count)),
        some(sums.retries).map(|count| say!(language, "quic_retries", count)),
        some(sums.negotiations).map(|count| say!(language, "quic_negotiations", count)),
        some(sums.hello_retries).map(|count| say!(language, "quic_hello_retries", count)),
        some(sums.resumed).map(|count| say!(language, "quic_resumed", count)),
        some(sums.early).map(|count| say!(language, "quic_early", count)),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(language.glue().comma))
}

/// The amplification limit, with the case that waited longest.
fn amplified(sums: &Sums, language: Language) -> Option<String> {
    let waited = |it: &&Handshake| it.parts.of(Part::Amplification);
    let cases = sums.longest.iter().filter(|it| it.amplification.is_some());
    let case = cases.max_by_key(waited)?;
    let found = case.amplification?;
    let bytes = |bytes: u32| Fact::Bytes(u64::from(bytes));
    Some(say!(
        language,
        "quic_amplified",
        count = sums.amplified,
        server = case.server.to_string(),
        waited = Fact::Ns(case.parts.of(Part::Amplification)),
        received = bytes(found.received_bytes),
        sent = bytes(found.sent_bytes),
        flight = bytes(found.flight_bytes),
    ))
}

/// Round trips by the spin bit.
fn turned(sums: &Sums, language: Language) -> Option<String> {
    let all = sums.longest.iter().filter_map(|it| it.spin);
    let (least, most) = (all.clone().map(|it| it.min_ns).min()?, all.map(|it| it.median_ns).max()?);
    let (least, most) = (Fact::Ns(least), Fact::Ns(most));
    Some(say!(language, "quic_spin", count = sums.spinning, least, most))
}
