//! Values that the sentences of a finding quote from the frames of its evidence.

use super::wire::{Flow, Wire};
use super::{Case, fact_ns, fact_number};
use tcpwhy_core::model::{Cause, Fact};

/// Values that are read off the evidence of a connection, and are not what the frames have.
pub fn untrue(case: &Case<'_>, flow: &Flow) -> Vec<String> {
    let finding = case.finding;
    let mut wrong = Vec::new();
    let mut say = |condition: bool, what: String| {
        if !condition {
            wrong.push(what);
        }
    };
    let link = |parts: &[&str]| {
        let mut links = finding.evidence.iter().filter(|it| parts.contains(&it.part));
        links.next().and_then(|it| flow.index(it.frame)).map(|at| (at, &flow.segs[at]))
    };
    let next = link(&["next", "next_later", "tail_probe"]);
    if let (Some(bytes), Some((_, next))) = (fact_number(finding, "held_bytes"), next) {
        say(bytes == next.len, format!("held_bytes={bytes}, and it has {}", next.len));
    }
    let ends = ["flight_end", "said_before", "flight_rest", "full_flight_end"];
    let held = matches!(finding.cause, Cause::NagleDelayedAck | Cause::DelayedAck);
    if let (Some(bytes), Some((at, last)), true) =
        (fact_number(finding, "flight_bytes"), link(&ends), held)
    {
        // What had reached the sender when its silence began.
        let leg_ns = case.leg_ns(flow, last.from);
        let then_ns = last.time_ns.saturating_sub(leg_ns);
        let heard = flow.heard(then_ns, 0).min(at + 1);
        let flight = flow.sent(last.from, at + 1) - flow.acked(last.from, heard);
        say(bytes <= flight.max(last.len), format!("flight_bytes={bytes}, of {flight}"));
    }
    let (lost, again) = (link(&["lost", "flight_end"]), link(&["retransmission"]));
    if let (Some(rto_ns), Some((_, lost)), Some((_, again)), Cause::RetransmissionTimeout) =
        (fact_ns(finding, "rto_ns"), lost, again, finding.cause)
    {
        let ns = again.time_ns.saturating_sub(lost.time_ns);
        say(rto_ns == ns, format!("rto_ns={rto_ns}, of {ns}"));
    }
    let syns = link(&["syn"]).zip(link(&["syn_again"]));
    if let (Some(rto_ns), Some((first, again))) = (fact_ns(finding, "rto_ns"), syns) {
        let ns = again.1.time_ns.saturating_sub(first.1.time_ns);
        say(rto_ns == ns, format!("rto_ns={rto_ns}, of {ns}"));
    }
    if finding.cause == Cause::Refused
        && let (Some(rtt_ns), Some((_, syn)), Some((_, reset))) =
            (fact_ns(finding, "rtt_ns"), link(&["syn"]), link(&["reset"]))
    {
        let ns = reset.time_ns.saturating_sub(syn.time_ns);
        say(rtt_ns == ns, format!("rtt_ns={rtt_ns}, of {ns}"));
    }
    if let (Some(ttl), Some((_, reset))) = (fact_number(finding, "rst_ttl"), link(&["reset"])) {
        say(ttl == i64::from(reset.ttl), format!("rst_ttl={ttl}, of {}", reset.ttl));
    }
    if finding.cause == Cause::Reset
        && let (Some(bytes), Some((at, reset))) =
            (fact_number(finding, "unread_bytes"), link(&["reset"]))
    {
        let peer = reset.from.peer();
        let unread = flow.sent(peer, at) - flow.acked(peer, at + 1);
        say(bytes <= unread + 1, format!("unread_bytes={bytes}, of {unread}"));
    }
    if finding.cause == Cause::IdleReset
        && let (Some(ns), Some((at, fin))) = (fact_ns(finding, "server_timeout_ns"), link(&["fin"]))
    {
        // The request that crossed it, or a good-bye, may have passed since.
        let mut before = flow.segs[..at].iter().filter(|it| it.len > 0);
        let idle =
            before.any(|it| fin.time_ns.saturating_sub(it.time_ns).abs_diff(ns) <= 1_000_000);
        say(idle, format!("server_timeout_ns={ns}, and nothing was said then"));
    }
    wrong
}

/// Checks the values of a look-up's finding.
pub fn of_lookups(case: &Case<'_>) -> Vec<String> {
    let finding = case.finding;
    let mut wrong = Vec::new();
    let text = |name: &str| {
        finding.facts.iter().find_map(|(of, fact)| match fact {
            Fact::Text(text) if *of == name => Some(text.as_str()),
            _ => None,
        })
    };
    let of_timeouts = matches!(finding.cause, Cause::DnsTimeout | Cause::ReverseDnsTimeout);
    let silent = fact_number(finding, "silent").filter(|_| of_timeouts);
    if let (Some(silent), Some(resolver)) = (silent, text("resolver")) {
        let unanswered = unanswered(case.wire, resolver);
        if silent > unanswered {
            wrong.push(format!("silent={silent} by {resolver}, which did not answer {unanswered}"));
        }
    }
    let parts = |names: &[&str]| {
        let mut links = finding.evidence.iter().filter(|it| names.contains(&it.part));
        links.next().and_then(|it| case.wire.times.get(&it.frame))
    };
    let waited = parts(&["query", "asked"]).zip(parts(&["again", "next"]));
    if let (Some(timeout_ns), Some((first, again))) = (fact_ns(finding, "timeout_ns"), waited) {
        let ns = again.saturating_sub(*first);
        if timeout_ns != ns {
            wrong.push(format!("timeout_ns={timeout_ns}, of {ns}"));
        }
    }
    wrong
}

fn unanswered(wire: &Wire, resolver: &str) -> i64 {
    let asked =
        wire.messages().filter(|it| !it.is_answer && it.destination.ip().to_string() == resolver);
    asked.filter(|it| wire.answer(it).is_none()).count() as i64
}
