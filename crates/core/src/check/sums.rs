//! Checks totals, costs and latencies of a report: whatever its causes are, these numbers have
//! bounds.

use super::packets::Packets;
use super::{Answer, holds, undecided, verdict};
use crate::model::{Checked, Family, Finding, Latency, Prediction, Report};

/// A histogram states a percentile with this error at most, as a part of it.
const BUCKET_PART: u64 = 64;

/// Checks the numbers of the report as a whole.
pub(super) fn report(report: &Report, packets: &Packets) -> Vec<Checked> {
    let claims = [
        ("the owners' times sum to the wall time".to_owned(), ledger(report)),
        ("percentiles of latency are in order".to_owned(), in_order(&report.latency)),
        ("the capture's length".to_owned(), length(report, packets)),
    ];
    let of_endpoint = report.endpoints.iter().map(|it| {
        (format!("percentiles of latency at {} are in order", it.endpoint), in_order(&it.latency))
    });
    let named = report.observations.iter().flat_map(|it| it.frames.iter().map(|id| (it.id, *id)));
    let observed = named.map(|(id, frame)| {
        let is_there = packets.times.contains_key(&frame);
        let claim = format!("observation {id}: frame #{}", frame.number());
        (claim, holds(is_there, "there is no such frame"))
    });
    let all = claims.into_iter().chain(of_endpoint).chain(observed);
    all.map(|(claim, answer)| Checked { finding: None, claim, verdict: verdict(answer) }).collect()
}

/// Checks the cost and the latencies of a finding.
pub(super) fn finding(
    report: &Report,
    finding: &Finding,
    packets: &Packets,
) -> Vec<(String, Answer)> {
    let (now, then) = (&finding.latency, &finding.counterfactual);
    vec![
        (format!("cost of {} ns", finding.lost_ns), cost(report, finding, packets)),
        ("the prediction is not slower than today".into(), faster(now, &then.most)),
        ("percentiles of latency are in order".into(), in_order(now)),
        ("percentiles of the prediction are in order".into(), prediction_in_order(then)),
        ("the prediction lies between its ends".into(), between_its_ends(then)),
        ("exchanges affected".into(), affected(finding)),
    ]
}

fn ledger(report: &Report) -> Answer {
    let (sum, wall) = (report.ledger.total_ns(), report.totals.wall_ns);
    holds(sum == wall, format!("{sum} of {wall} ns"))
}

fn in_order(latency: &Latency) -> Answer {
    let Latency { p50_ns, p90_ns, p99_ns, max_ns } = *latency;
    let is_ordered = p50_ns <= p90_ns && p90_ns <= p99_ns && p99_ns <= max_ns;
    holds(is_ordered, format!("{p50_ns}, {p90_ns}, {p99_ns}, {max_ns} ns"))
}

fn length(report: &Report, packets: &Packets) -> Answer {
    if report.totals.window.is_some() || packets.is_stepped {
        return undecided("a part of the capture, or a clock that was set");
    }
    let stated = report.totals.last_ns.saturating_sub(report.totals.first_ns);
    let seen = packets.length_ns();
    holds(stated <= seen, format!("{stated} ns, and the frames span {seen} ns"))
}

/// No cause costs more than the exchanges took, nor an exchange more than its latency.
fn cost(report: &Report, finding: &Finding, packets: &Packets) -> Answer {
    let lost_ns = finding.lost_ns;
    if finding.load.is_some() || finding.is_unseen {
        return undecided("an experiment shows it");
    }
    let wall_ns = report.totals.wall_ns;
    holds(lost_ns <= wall_ns, format!("all exchanges took {wall_ns} ns"))?;
    let exchanges = finding.affected.of_exchanges;
    let most_ns = finding.latency.max_ns.saturating_mul(exchanges);
    let slack_ns = most_ns / BUCKET_PART;
    let what = format!("{exchanges} exchanges of at most {} ns", finding.latency.max_ns);
    holds(exchanges == 0 || lost_ns <= most_ns + slack_ns, what)?;
    let connections = finding.affected.connections.max(1);
    let longest_ns = packets.length_ns().saturating_add(finding.latency.max_ns);
    let most_ns = connections.saturating_mul(longest_ns);
    let what = format!("{connections} connections of at most {longest_ns} ns");
    // Look-ups overlap, and belong to no connection. Pipelined requests wait at the same time: the
    // exchanges take longer together than the connections.
    let is_pipelined = wall_ns > report.totals.connections.saturating_mul(longest_ns);
    let of_lookup = finding.cause.family() == Family::Lookup;
    let overlaps = of_lookup || is_pipelined || packets.is_stepped;
    holds(lost_ns <= most_ns || overlaps, what)?;
    let share = if wall_ns == 0 { 0.0 } else { lost_ns as f64 / wall_ns as f64 };
    let what = format!("its share is {share}, not {}", finding.share);
    holds((share - finding.share).abs() < 1e-6, what)
}

fn faster(now: &Latency, then: &Latency) -> Answer {
    let pairs = [
        (now.p50_ns, then.p50_ns),
        (now.p90_ns, then.p90_ns),
        (now.p99_ns, then.p99_ns),
        (now.max_ns, then.max_ns),
    ];
    let slower = pairs.iter().find(|(now, then)| then > now);
    holds(slower.is_none(), format!("{slower:?} ns"))
}

fn prediction_in_order(then: &Prediction) -> Answer {
    [&then.least, &then.likely, &then.most].into_iter().try_for_each(in_order)
}

fn between_its_ends(then: &Prediction) -> Answer {
    let Prediction { likely, least, most } = then;
    faster(most, likely).and_then(|()| faster(likely, least))
}

fn affected(finding: &Finding) -> Answer {
    let (exchanges, of) = (finding.affected.exchanges, finding.affected.of_exchanges);
    holds(exchanges <= of, format!("{exchanges} of {of}"))
}
