//! Checks the excluded look-alikes of a look-up's finding: each reason is a fact of DNS messages.

use super::Case;
use super::wire::{Datagram, Wire};
use tcpwhy_core::model::{Cause, RuledOut};

/// Type PTR (RFC 1035 §3.2.2), the last two bytes of a question.
const PTR: [u8; 2] = [0, 12];

/// An answer within this is never slow, ns.
const SLOW_MIN_NS: u64 = 60_000_000;

fn holds(condition: bool, what: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Checks the reason `one` and returns what is untrue in it.
pub fn reason(case: &Case<'_>, one: &RuledOut) -> Result<(), String> {
    let (finding, wire) = (case.finding, case.wire);
    let shown = finding.evidence.iter().filter_map(|it| wire.datagrams.get(&it.frame));
    let Some(asked) = shown.clone().find(|it| !it.is_answer) else { return Ok(()) };
    let answer = wire.answer(asked);
    let code = answer.map(|it| it.rcode);
    match (finding.cause, one.why) {
        (Cause::DnsTimeout, "never") => holds(answer.is_none(), "the query was answered"),
        (Cause::DnsTimeout, "forward") => {
            holds(!asked.question.ends_with(&PTR), "it asks for the name of an address")
        }
        (Cause::DnsTimeout, "whole") => {
            let lone = halves(wire, asked).any(|it| wire.answer(it).is_some() != answer.is_some());
            holds(!lone, "one half of a pair was answered")
        }
        (Cause::DnsTimeout, "alone") => {
            let alike = wire.messages().filter(|it| {
                !it.is_answer
                    && (&it.question, it.destination) == (&asked.question, asked.destination)
            });
            let mut unanswered = alike.filter(|it| wire.answer(it).is_none());
            holds(unanswered.any(|it| halves(wire, it).next().is_none()), "none was sent alone")
        }
        (Cause::DnsSlow | Cause::DnsFailure, "answered") => {
            holds(answer.is_some(), "the query was not answered")
        }
        (Cause::DnsFailure, "not_nxdomain") => {
            holds(code.is_some_and(|code| code != 3 && code != 0), "the answer is no failure")
        }
        (Cause::DnsSearch, "nxdomain") => holds(code == Some(3), "the name exists"),
        (Cause::DnsSearch, "each_fast") => {
            let ns = answer.map(|it| it.time_ns.saturating_sub(asked.time_ns));
            holds(ns.is_some_and(|ns| ns < SLOW_MIN_NS), "an answer took long")
        }
        (Cause::DnsSlow, "first_name") => {
            let mut denied = shown.filter(|it| it.is_answer && it.rcode == 3);
            holds(denied.next().is_none(), "a name was denied")
        }
        (Cause::ReverseDnsTimeout, "ptr_only") => {
            holds(asked.question.ends_with(&PTR), "it asks for no address's name")
        }
        (_, why) => Err(format!("is ruled out by `{why}`, of which this test knows nothing")),
    }
}

/// The name that a question is about.
fn name(asked: &Datagram) -> &[u8] {
    &asked.question[..asked.question.len().saturating_sub(PTR.len())]
}

/// Queries of another type that left together with `asked`, from the same port to the same server.
fn halves<'a>(wire: &'a Wire, asked: &'a Datagram) -> impl Iterator<Item = &'a Datagram> {
    wire.messages().filter(|it| {
        !it.is_answer
            && (it.source, it.destination) == (asked.source, asked.destination)
            && it.question != asked.question
            && name(it) == name(asked)
            && it.time_ns.abs_diff(asked.time_ns) < 1_000_000
    })
}
