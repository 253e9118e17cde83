//! Each fix has a precondition that findings test, or helps in each case of its cause.

use crate::diagnosis::diagnose;
use crate::network::capture;
use crate::traces::traces;
use std::collections::{BTreeMap, BTreeSet};
use tcpwhy_core::app::Protocol;
use tcpwhy_core::findings::{FixRow, words};
use tcpwhy_core::model::{Cause, Finding, Language, Role};

/// Fixes that no trace withholds, by a part of their precondition: facts of a host's system, which traces do not
/// have, of look-ups, which are no traces, and of protocols that one of them speaks alone. `tests/report/fixes.rs`
/// withholds them.
const SHOWN_ELSEWHERE: &[&str] = &[
    "!sender_not_linux",
    "!receiver_not_linux",
    "!windows",
    "!public_resolver",
    "?asked_again_by_client",
    "!other_source",
    "!authoritative",
    "silent_names",
    "?reached",
    "?closed_port",
    "router",
    "?misread",
    "servfail",
    "?not_allowed",
    "private",
    "!loopback",
    "!upload",
    "!unread",
    "?granted",
    "?several",
    "?fetches",
    "!workers",
    "!interface_wait_ns",
];

/// Returns whether `finding` has what `term` of a precondition asks for. Names of software are not looked
/// at: they only choose the words.
fn holds(term: &str, finding: &Finding) -> bool {
    let knows = |name: &str| finding.facts.iter().any(|(known, _)| *known == name);
    match (term.strip_prefix('?'), term.strip_prefix('!')) {
        (Some(name), _) => knows(name),
        (_, Some(name)) => !knows(name),
        _ => match (Role::from_id(term), Protocol::from_id(term)) {
            (Some(role), _) => role == finding.culprit.role,
            (_, Some(protocol)) => protocol == finding.protocol,
            _ => true,
        },
    }
}

/// Returns whether a term asks for something that a finding states.
fn is_fact(term: &str) -> bool {
    term.starts_with(['?', '!'])
}

/// Returns the fixes that depend on facts, with their cause.
fn conditional() -> impl Iterator<Item = (Cause, FixRow)> {
    let of = |&cause: &Cause| {
        words(cause, Language::English).fixes.into_iter().map(move |row| (cause, row))
    };
    Cause::ALL.iter().flat_map(of).filter(|(_, row)| row.applies.split('+').any(is_fact))
}

#[test]
fn each_fix_with_a_precondition_is_withheld_where_a_trace_contradicts_it() {
    let mut findings: BTreeMap<Cause, Vec<Finding>> = BTreeMap::new();
    for (_, trace) in traces() {
        for &place in &trace.vantages {
            for finding in diagnose(&capture(&trace, place)).findings {
                findings.entry(finding.cause).or_default().push(finding);
            }
        }
    }
    let mut unshown = BTreeSet::new();
    for (cause, row) in conditional() {
        let terms = || row.applies.split('+');
        let is_contradicted = |finding: &Finding| {
            terms().filter(|term| !is_fact(term)).all(|term| holds(term, finding))
                && !terms().filter(|term| is_fact(term)).all(|term| holds(term, finding))
        };
        let of_cause = findings.get(&cause).map(Vec::as_slice).unwrap_or_default();
        if !of_cause.iter().any(is_contradicted) {
            unshown.insert(format!("{}: {}", cause.id(), row.applies));
        }
    }
    let elsewhere = |row: &String| SHOWN_ELSEWHERE.iter().any(|part| row.contains(part));
    let missing: Vec<_> = unshown.iter().filter(|row| !elsewhere(row)).collect();
    assert!(missing.is_empty(), "no trace withholds these: {missing:#?}");
    let text = include_str!("../report/fixes.rs");
    for part in SHOWN_ELSEWHERE {
        assert!(unshown.iter().any(|row| row.contains(part)), "a trace withholds {part}");
        let name = part.trim_start_matches(['?', '!']);
        assert!(text.contains(&format!("\"{name}\"")), "tests/report/fixes.rs lacks {name}");
    }
}

/// Number of the fixes without a precondition of each cause, and why they help in each case of it. Those of a
/// role, a protocol or a software alone have that as their precondition.
const ALWAYS: &[(Cause, usize, &str)] = &[
    (Cause::AcceptQueueOverflow, 2, "a full queue is emptied sooner, or is longer"),
    (Cause::Bandwidth, 1, "fewer bytes take less time at any rate"),
    (Cause::ClientThink, 1, "the pause is the client's"),
    (Cause::CongestionWindow, 2, "the window was cut by losses, and recovers once each round trip"),
    (Cause::ConntrackFull, 4, "the table's limit was read from the host"),
    (Cause::ConntrackRace, 3, "an A and an AAAA query from one port were seen"),
    (Cause::CpuSaturation, 1, "the kernel counted the wait for a CPU"),
    (Cause::CpuThrottled, 1, "the kernel counted the throttled time"),
    (Cause::DiskWait, 1, "the kernel counted the wait for the disk"),
    (Cause::DnsSearch, 2, "names of the search list were tried in vain"),
    (Cause::DnsSlow, 1, "the answer was late at the resolver, which has to ask the zone's servers"),
    (Cause::EventLoopBlocked, 1, "the hooks saw one thread work while requests waited"),
    (Cause::FastRecovery, 2, "segments were dropped: shorter bursts overflow fewer queues"),
    (Cause::GcPause, 2, "the virtual machine was seen to stop its threads"),
    (Cause::Http100Continue, 1, "the header was seen to ask"),
    (Cause::IdleFlowDropped, 5, "the flow was idle, and then its packets were dropped"),
    (Cause::IdleReset, 2, "the connection was idle, and then reset"),
    (Cause::LockWait, 1, "the kernel counted the wait for locks"),
    (Cause::MemoryPressure, 1, "the kernel counted the wait for memory"),
    (Cause::MtuBlackHole, 2, "long segments are lost and short ones pass"),
    (Cause::PathRtt, 1, "the time is that of distance"),
    (Cause::PortExhaustion, 3, "the ports in use were counted on the host"),
    (Cause::Refused, 1, "what the client asked for is not there"),
    (Cause::Reordering, 2, "packets were seen out of order"),
    (Cause::Reset, 1, "the request failed on a connection that broke"),
    (Cause::ReverseDnsTimeout, 3, "the name of an address was asked for in vain"),
    (Cause::SendBuffer, 1, "the flight never exceeded one size"),
    (Cause::SlowStart, 1, "fewer bytes need fewer flights"),
    (Cause::SpuriousRetransmission, 1, "the ACKs were late, not lost"),
    (Cause::SynFlood, 4, "the sentences of the last two state their own conditions"),
    (Cause::UpstreamWait, 2, "the other server was seen to be asked and to take that long"),
    (Cause::WorkersExhausted, 1, "the hooks saw all workers busy"),
    (Cause::ZeroWindow, 1, "the sender had to wait for an unknown time"),
];

#[test]
fn each_fix_without_a_precondition_has_a_reason() {
    for &cause in Cause::ALL {
        let plain =
            words(cause, Language::English).fixes.iter().filter(|row| row.applies == "any").count();
        let listed = ALWAYS.iter().find(|(of, ..)| *of == cause).map_or(0, |(_, count, _)| *count);
        assert_eq!(plain, listed, "{}", cause.id());
    }
}
