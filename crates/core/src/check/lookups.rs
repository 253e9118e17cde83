//! Checks the reasons for which look-alikes of a look-up's finding are ruled out.

use super::message::Message;
use super::packets::Packets;
use super::{Answer, Case, Doubt, holds, undecided};
use crate::model::Cause;
use crate::wire::dns_message::rcode;

/// Checks one reason.
pub(super) type Checker = fn(&Case<'_>) -> Answer;

/// An answer within this is never slow, ns.
const SLOW_MIN_NS: u64 = 60_000_000;

/// Two queries that left within this left together, ns.
const TOGETHER_NS: u64 = 1_000_000;

/// Returns the checker of the reason `why` in a finding of `cause`.
pub(super) fn of(cause: Cause, why: &str) -> Option<Checker> {
    Some(match (cause, why) {
        (Cause::DnsTimeout, "never" | "silent") => |case| {
            let asked = asked(case)?;
            let answer = case.packets.answer(asked);
            holds(answer.is_none(), "the query was answered")?;
            was_waited_for(case.packets, asked)
        },
        (Cause::DnsTimeout, "forward") => {
            |case| holds(!asked(case)?.is_reverse(), "it asks for the name of an address")
        }
        (Cause::DnsTimeout, "whole") => |case| {
            let asked = asked(case)?;
            let is_answered = |it: &Message| case.packets.answer(it).is_some();
            let lone = halves(case.packets, asked).any(|it| is_answered(it) != is_answered(asked));
            holds(!lone, "one half of a pair was answered")
        },
        (Cause::DnsTimeout, "alone") => |case| {
            let asked = asked(case)?;
            let alike = case.packets.messages().iter().filter(|it| {
                !it.is_answer
                    && (&it.question, it.destination) == (&asked.question, asked.destination)
            });
            let mut unanswered = alike.filter(|it| case.packets.answer(it).is_none());
            let alone = unanswered.any(|it| halves(case.packets, it).next().is_none());
            holds(alone, "none was sent alone")
        },
        (Cause::DnsSlow | Cause::DnsFailure, "answered") => {
            |case| holds(answer(case)?.is_some(), "the query was not answered")
        }
        (Cause::DnsFailure, "not_nxdomain") => |case| {
            let code = answer(case)?.map(|it| it.rcode);
            let failed = code.is_some_and(|it| it != rcode::NXDOMAIN && it != 0);
            holds(failed, "the answer is no failure")
        },
        (Cause::DnsSearch, "nxdomain") => |case| {
            let code = case.packets.answer(asked(case)?).map(|it| it.rcode);
            holds(code == Some(rcode::NXDOMAIN), "the name exists")
        },
        (Cause::DnsSearch, "each_fast") => |case| {
            let asked = asked(case)?;
            let answer = case.packets.answer(asked);
            let ns = answer.map(|it| it.time_ns.saturating_sub(asked.time_ns));
            holds(ns.is_some_and(|ns| ns < SLOW_MIN_NS), "an answer took long")
        },
        (Cause::DnsSlow, "first_name") => |case| {
            let mut denied = shown(case).filter(|it| it.is_answer && it.rcode == rcode::NXDOMAIN);
            holds(denied.next().is_none(), "a name was denied")
        },
        (Cause::ReverseDnsTimeout, "ptr_only") => {
            |case| holds(asked(case)?.is_reverse(), "it asks for no address's name")
        }
        (Cause::DnsSlow, "before_connect")
        | (Cause::ReverseDnsTimeout, "path_fast")
        | (Cause::ConntrackRace, _) => |_| undecided("other packets show it"),
        _ => return None,
    })
}

/// Returns the messages that the evidence names.
fn shown<'a>(case: &'a Case<'_>) -> impl Iterator<Item = &'a Message> {
    case.finding.evidence.iter().filter_map(|it| case.packets.datagram(it.frame))
}

/// Returns the first query that the evidence names.
fn asked<'a>(case: &'a Case<'_>) -> Result<&'a Message, Doubt> {
    if case.packets.messages_are_cut {
        return undecided("too many DNS messages to keep");
    }
    let mut queries = shown(case).filter(|it| !it.is_answer);
    queries.next().ok_or(Doubt::Undecided("no query over UDP is named"))
}

/// The capture shows the wait of `asked`, or of a query before it for the same, for longer than its
/// server ever took for an answer.
fn was_waited_for(packets: &Packets, asked: &Message) -> Answer {
    let all = packets.messages();
    let to_server = all.iter().filter(|it| !it.is_answer && it.destination == asked.destination);
    let taken_ns =
        |it: &Message| packets.answer(it).map(|answer| answer.time_ns.saturating_sub(it.time_ns));
    let slowest_ns = to_server.clone().filter_map(taken_ns).max().unwrap_or(0);
    let mut alike = to_server.filter(|it| it.question == asked.question);
    let first_ns =
        alike.find(|it| packets.answer(it).is_none()).map_or(asked.time_ns, |it| it.time_ns);
    let waited_ns = packets.sums.last_ns.saturating_sub(first_ns);
    let what = format!("the capture ends after {waited_ns} ns, and an answer took {slowest_ns} ns");
    holds(waited_ns > slowest_ns || slowest_ns == 0, what)
}

/// Returns the answer to the first query that the evidence names, or to a repetition of it: one answer
/// is for all.
fn answer<'a>(case: &'a Case<'_>) -> Result<Option<&'a Message>, Doubt> {
    let asked = asked(case)?;
    let again = case.packets.messages().iter().filter(|it| it.repeats(asked));
    let mut all = std::iter::once(asked).chain(again);
    Ok(all.find_map(|it| case.packets.answer(it)))
}

/// Returns queries of another type that left together with `asked`, from the same port to the same
/// server.
fn halves<'a>(packets: &'a Packets, asked: &'a Message) -> impl Iterator<Item = &'a Message> {
    packets.messages().iter().filter(|it| {
        !it.is_answer
            && (it.source, it.destination) == (asked.source, asked.destination)
            && it.question != asked.question
            && it.name() == asked.name()
            && it.time_ns.abs_diff(asked.time_ns) < TOGETHER_NS
    })
}
