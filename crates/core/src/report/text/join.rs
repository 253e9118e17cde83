//! Two places in the text: where they are, the difference between their clocks, and the packets
//! lost between them.

use crate::findings::term;
use crate::model::{Clocks, Crossing, Finding, Language, Report, Vantage, units};
use crate::report::layout::Page;
use crate::say;

/// Writes the lines about two places, below the inputs.
pub(super) fn render(page: &mut Page<'_>, report: &Report) {
    let Some(join) = &report.join else { return };
    let at_ends = join.vantages == [Vantage::Client, Vantage::Server];
    let language = page.look.language;
    let clocks = match &join.clocks {
        Some(clocks) => clocks_differ(clocks, at_ends, language),
        None => say!(language, "clocks_unknown"),
    };
    let id = if at_ends { "both_ends" } else { "two_places" };
    page.paragraph(None, &say!(language, id, connections = join.connections, clocks), 2);
    let lost = |crossing: &Crossing, id: &str| {
        let (lost, of) = (crossing.lost_packets, crossing.packets + crossing.lost_packets);
        (lost > 0).then(|| say!(language, id, lost, of))
    };
    let [client, server] = &join.crossings;
    let from = [lost(client, "lost_from_client"), lost(server, "lost_from_server")];
    let all: Vec<_> = from.into_iter().flatten().collect();
    if !all.is_empty() {
        let lost = all.join(language.glue().comma);
        page.paragraph(None, &say!(language, "lost_between", lost), 2);
    }
}

/// Describes the difference between the clocks, and its uncertainty.
fn clocks_differ(clocks: &Clocks, at_ends: bool, language: Language) -> String {
    let uncertainty_ns = clocks.rtt_min_ns / 2;
    let within = units::duration(uncertainty_ns);
    let offset_ns = clocks.offset_ns.unsigned_abs();
    let drift = clocks.drift_ppm.map(|ppm| format!("{ppm:+.1}"));
    if offset_ns <= uncertainty_ns {
        return say!(language, "clocks_agree", within, drift);
    }
    let id = match (at_ends, clocks.offset_ns < 0) {
        (true, false) => "server_ahead",
        (true, true) => "server_behind",
        (false, false) => "second_ahead",
        (false, true) => "second_behind",
    };
    let offset = to_precision(offset_ns, uncertainty_ns);
    say!(language, id, offset, within, drift)
}

/// Formats a duration with the digits that `uncertainty_ns` allows.
fn to_precision(ns: u64, uncertainty_ns: u64) -> String {
    if ns < 1_000_000_000 {
        return units::duration(ns);
    }
    let known = (1_000_000_000 / uncertainty_ns.max(1)).checked_ilog10().map_or(0, |it| it + 1);
    format!("{:.*} s", known.min(6) as usize, ns as f64 / 1e9)
}

/// Writes the places at which a finding was seen.
pub(super) fn sights(page: &mut Page<'_>, report: &Report, finding: &Finding) {
    let Some(join) = &report.join else { return };
    let language = page.look.language;
    let seen = finding.sights.iter().map(|sight| {
        let lost = (sight.lost_ns > 0).then(|| units::duration(sight.lost_ns));
        say!(language, "seen_at", place = term(language, join.words(sight.place)), lost)
    });
    let seen: Vec<String> = seen.collect();
    match seen.as_slice() {
        [] => {}
        [one] => page.labelled("seen", &say!(language, "seen_only", place = one)),
        both => page.labelled("seen", &language.list(both)),
    }
}
