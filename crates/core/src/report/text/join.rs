//! Two places in the text: where they are, the difference between their clocks, and the packets
//! lost between them.

use crate::model::{Clocks, Crossing, Finding, Report, Vantage, units};
use crate::report::layout::Page;

/// Writes the lines about two places, below the inputs.
pub(super) fn render(page: &mut Page<'_>, report: &Report) {
    let Some(join) = &report.join else { return };
    let at_ends = join.vantages == [Vantage::Client, Vantage::Server];
    let connections = super::counted(join.connections, "connection", "connections");
    let mut text = match at_ends {
        true => format!("captured at both ends ({connections}): "),
        false => format!("captured at two places ({connections}): "),
    };
    text += &match &join.clocks {
        Some(clocks) => clocks_differ(clocks, at_ends),
        None => "the difference of their clocks is not known".into(),
    };
    page.paragraph(None, &text, 2);
    let lost = |crossing: &Crossing, from: &str| {
        let of = crossing.packets + crossing.lost_packets;
        let (lost, of) = (units::count(crossing.lost_packets), units::count(of));
        (crossing.lost_packets > 0).then(|| format!("{lost} of {of} packets from the {from}"))
    };
    let [client, server] = &join.crossings;
    let all: Vec<_> = lost(client, "client").into_iter().chain(lost(server, "server")).collect();
    if !all.is_empty() {
        page.paragraph(None, &format!("lost between them: {}", all.join(", ")), 2);
    }
}

/// Describes the difference between the clocks, and its uncertainty.
fn clocks_differ(clocks: &Clocks, at_ends: bool) -> String {
    let uncertainty_ns = clocks.rtt_min_ns / 2;
    let within = units::duration(uncertainty_ns);
    let offset_ns = clocks.offset_ns.unsigned_abs();
    let drift = clocks.drift_ppm.map(|ppm| format!(", drifting by {ppm:+.1} ppm"));
    let drift = drift.unwrap_or_default();
    if offset_ns <= uncertainty_ns {
        return format!(
            "their clocks agree to within {within}, half the shortest round trip{drift}"
        );
    }
    let (second, first) =
        if at_ends { ("server", "client") } else { ("place nearer the server", "other") };
    let ahead = if clocks.offset_ns < 0 { "behind" } else { "ahead of" };
    let offset = to_precision(offset_ns, uncertainty_ns);
    format!(
        "the {second}'s clock is {offset} {ahead} the {first}'s, give or take {within}, half the \
         shortest round trip{drift}"
    )
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
    let seen = finding.sights.iter().map(|sight| {
        let lost = match sight.lost_ns {
            0 => String::new(),
            lost_ns => format!(" (cost {})", units::duration(lost_ns)),
        };
        format!("{}{lost}", join.words(sight.place))
    });
    let seen: Vec<String> = seen.collect();
    match seen.as_slice() {
        [] => {}
        [one] => page.labelled("seen", &format!("{one} only")),
        both => page.labelled("seen", &both.join(" and ")),
    }
}
