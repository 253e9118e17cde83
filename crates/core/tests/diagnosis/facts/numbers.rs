//! The numbers in the reasons for which a look-alike is ruled out: round trips, sizes and counts, taken back to
//! the packets.

use super::look_alikes::{Answer, holds};
use super::wire::{Flow, Seg};
use super::{Case, fact_ns, fact_number};
use tcpwhy_core::app::Side;
use tcpwhy_core::model::RuledOut;

/// Tolerance of a quoted round trip against the least one measured here, between a segment and its
/// first ACK. Connections of the same hosts share estimates, so a connection with few samples may
/// quote another's.
const LOOSE_NS: u64 = 1_000_000;

/// Checks a number that the reason `one` quotes and returns what is untrue in it.
pub fn segment(case: &Case<'_>, flow: &Flow, one: &RuledOut) -> Answer {
    let finding = case.finding;
    let ends = finding.evidence.iter().rev().filter_map(|it| flow.index(it.frame));
    let Some(end) = ends.max() else { return Ok(()) };
    let sender = flow.segs[end].from;
    match one.why {
        "held_small" => {
            let Some(mss) = fact_number(finding, "mss_bytes") else { return Ok(()) };
            let most = flow.mss(sender);
            holds(mss <= most, &format!("mss_bytes={mss}, and {most} were announced"))
        }
        "base_rtt" => {
            let Some(said_ns) = fact_ns(finding, "base_rtt_ns") else { return Ok(()) };
            let legs = flow.leg_ns(Side::Client).zip(flow.leg_ns(Side::Server));
            let Some((client_ns, server_ns)) = legs else { return Ok(()) };
            let least_ns = client_ns + server_ns;
            let most_ns = least_ns + least_ns / 8 + LOOSE_NS;
            holds(said_ns <= most_ns, &format!("base_rtt_ns={said_ns}, and it took {least_ns}"))
        }
        "acked_early" => {
            let Some(said_ns) = fact_ns(finding, "rtt_ns") else { return Ok(()) };
            let early = acks_of_requests(flow).any(|ns| ns <= said_ns + LOOSE_NS);
            holds(early, &format!("rtt_ns={said_ns}, and no request was acknowledged as soon"))
        }
        "follows_ack" => {
            let numbers = fact_number(finding, "count").zip(fact_number(finding, "waits"));
            let Some((count, waits)) = numbers else { return Ok(()) };
            let data = |it: &&Seg| it.len > 0;
            let all = case.wire.flows.values().flatten().flat_map(|flow| &flow.segs);
            let segments = all.filter(data).count() as i64;
            let within = 0 < count && count <= waits && waits <= segments;
            holds(within, &format!("{count} of {waits} cases, and {segments} segments carry data"))
        }
        _ => Ok(()),
    }
}

/// Time from each segment of the client with data to its first ACK, ns.
fn acks_of_requests(flow: &Flow) -> impl Iterator<Item = u64> + '_ {
    let asked = flow.segs.iter().enumerate();
    let asked = asked.filter(|(_, it)| it.from == Side::Client && it.len > 0);
    asked.filter_map(|(at, it)| {
        let mut after = flow.segs[at + 1..].iter();
        let ack = after.find(|ack| ack.from == Side::Server && ack.ack >= Some(it.end()))?;
        Some(ack.time_ns.saturating_sub(it.time_ns))
    })
}
