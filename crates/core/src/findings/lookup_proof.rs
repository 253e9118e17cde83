//! Proof of a failed or slow look-up: query, repetition, answer.

use crate::app::{Protocol, Side};
use crate::dns::thresholds::SLOW_MIN_NS;
use crate::dns::{Lookup, Outcome, Query};
use crate::findings::scene::{Proof, Shown};
use crate::findings::tally::Instance;
use crate::model::{Cause, Fact, LookupMessage, LookupReport, Sighting, Vantage};
use crate::wire::Endpoint;
use crate::wire::dns_message::qtype;

/// Look-ups that came to nothing, of all that a cause had a part in.
pub(super) const FAILED: &str = "failed";

/// Look-ups for which the server asked had to ask another one.
pub(super) const FORWARDED: &str = "forwarded";

/// Adds up how long answers took, and how often the server of `guilty` gave none.
pub(super) fn add_up(lookup: &Lookup, guilty: &Query, shown: &mut Shown) {
    if lookup.conntrack_race_suspected {
        shown.add("pairs", 1);
    }
    shown.add("unended", u64::from(lookup.unseen_ns > 0));
    // Whoever asks for the name of an address goes on without one.
    if matches!(lookup.outcome, Outcome::Failure { .. }) && !lookup.is_reverse {
        shown.add(FAILED, 1);
    }
    for query in &lookup.queries {
        let silent = query.server == guilty.server && query.is_silent();
        shown.add("silent", u64::from(silent));
        let cut_short = query.server == guilty.server && query.is_cut_short();
        shown.add("cut_short", u64::from(cut_short));
        if let Some(answered_ns) = query.answered_ns {
            shown.measure("answer_p50_ns", answered_ns.saturating_sub(query.sent_ns));
        }
    }
}

/// Messages of a look-up that are drawn.
const MESSAGES_MAX: usize = 32;

/// The look-up as it is drawn before the connection that waited for it.
pub(super) fn report(lookup: &Lookup) -> LookupReport {
    let mut messages = Vec::new();
    for query in lookup.queries.iter().take(MESSAGES_MAX / 2) {
        let (kind, server) = (type_name(query.qtype), query.server.ip());
        messages.push(LookupMessage {
            time_ns: query.sent_ns,
            frame: query.query_frame,
            from: Side::Client,
            label: format!("{kind} query to {server}"),
        });
        if let (Some(frame), Some(time_ns)) = (query.answer_frame, query.answered_ns) {
            let what = if query.flags.is_unreachable { "ICMP error from" } else { "answer from" };
            let label = format!("{kind} {what} {server}");
            messages.push(LookupMessage { time_ns, frame, from: Side::Server, label });
        }
    }
    messages.retain(|message| (lookup.start_ns..=lookup.end_ns).contains(&message.time_ns));
    messages.sort_by_key(|message| (message.time_ns, message.frame));
    LookupReport { start_ns: lookup.start_ns, end_ns: lookup.end_ns, messages }
}

/// Other queries that corroborate the one in question.
pub(super) struct Others<'a> {
    /// Number of queries of the same type that its server answered.
    pub answered: u64,
    /// Number of queries of other types that it answered.
    pub others: u64,
    /// Query that its server was waiting for itself.
    pub upstream: Option<&'a Query>,
    /// How many resolvers its client asked, where none answered and nothing else came to it either.
    pub cut_off: Option<u64>,
}

/// The look-up as an instance of a cause that cost it time, ns.
pub(super) fn instance(
    lookup: &Lookup,
    query: &Query,
    (cause, ns): (Cause, u64),
    known: &Others<'_>,
) -> Instance {
    let mut proof = Proof::default();
    see(lookup, query, cause, &mut proof);
    if let Some(upstream) = known.upstream {
        see_query(upstream, "forwarded", &mut proof);
        see_answer(upstream, "forwarded_answer", &mut proof);
        proof.fact("forwarder", Fact::Text(query.server.ip().to_string()));
        proof.fact("upstream", Fact::Text(upstream.server.ip().to_string()));
    }
    tell(lookup, query, (cause, known), &mut proof);
    rule_out(lookup, query, (cause, known.answered), &mut proof);
    Instance {
        rank: ((false, false, ns), std::cmp::Reverse((query.sent_ns, query.query_frame))),
        proof,
        client: Endpoint { address: lookup.client, port: query.client_port },
        server: query.server,
        exchange: 0,
        vantage: Vantage::Client,
        software: None,
        protocol: Protocol::Dns,
    }
}

/// Adds the client's reaction to the proof.
fn next<'a>(lookup: &'a Lookup, query: &Query) -> Option<&'a Query> {
    let later = lookup.queries.iter().filter(|other| other.sent_ns > query.sent_ns);
    let same = |other: &&Query| other.qtype == query.qtype;
    later.clone().find(same).or(later.clone().next())
}

/// It was answered after its client had asked for the same again.
fn is_late(lookup: &Lookup, query: &Query) -> bool {
    let again = |other: &&Query| other.qtype == query.qtype && other.sent_ns > query.sent_ns;
    let next = lookup.queries.iter().find(again);
    next.is_some_and(|next| query.answered_ns > Some(next.sent_ns))
}

fn see(lookup: &Lookup, query: &Query, cause: Cause, proof: &mut Proof) {
    let heard = cause == Cause::DnsTimeout && query.is_answered();
    see_query(query, if heard { "asked" } else { "query" }, proof);
    let in_vain = if cause == Cause::DnsSearch { "nxdomain" } else { "answer" };
    see_answer(query, in_vain, proof);
    if let Some((time_ns, frame)) = query.rest.filter(|_| query.is_cut_short()) {
        let from = Side::Server;
        proof.see("fragment", Sighting { frame, time_ns, payload_bytes: 0, from });
    }
    let hit = match cause {
        // The name that exists is asked for last.
        Cause::DnsSearch => lookup.queries.iter().rev().find(|it| it.qtype == query.qtype),
        _ if query.answered_ns.is_none() || query.rcode.is_some_and(|rcode| rcode != 0) => {
            next(lookup, query)
        }
        _ => None,
    };
    let Some(hit) = hit else { return };
    let same = (hit.qtype, hit.step) == (query.qtype, query.step);
    let part = match cause {
        Cause::DnsSearch => "hit",
        _ if !same => "other",
        Cause::DnsTimeout if hit.server != query.server => "next",
        _ => "again",
    };
    see_query(hit, part, proof);
    see_answer(hit, "answer", proof);
}

fn see_query(query: &Query, part: &'static str, proof: &mut Proof) {
    let Query { query_frame: frame, sent_ns: time_ns, query_bytes: payload_bytes, .. } = *query;
    proof.see(part, Sighting { frame, time_ns, payload_bytes, from: Side::Client });
}

fn see_answer(query: &Query, part: &'static str, proof: &mut Proof) {
    if let (Some(frame), Some(at_ns)) = (query.answer_frame, query.answered_ns) {
        let part = if query.flags.is_unreachable { "icmp" } else { part };
        let (payload_bytes, from) = (query.answer_bytes, Side::Server);
        proof.see(part, Sighting { frame, time_ns: at_ns, payload_bytes, from });
    }
}

fn tell(lookup: &Lookup, query: &Query, (cause, known): (Cause, &Others<'_>), proof: &mut Proof) {
    let text = |endpoint: &Endpoint| Fact::Text(endpoint.ip().to_string());
    proof.fact("resolver", text(&query.server));
    if matches!(cause, Cause::DnsTimeout | Cause::ReverseDnsTimeout) {
        let silent = |other: &&Query| other.server != query.server && other.is_silent();
        let others: std::collections::BTreeSet<_> =
            lookup.queries.iter().filter(silent).map(|other| other.server).collect();
        let others: Vec<_> = others.iter().map(|server| server.ip().to_string()).collect();
        if !others.is_empty() {
            proof.fact("silent_others", Fact::Text(others.join(", ")));
        }
    }
    if query.is_cut_short() {
        proof.fact("fragments_of", text(&query.server));
    }
    if let Some(resolvers) = known.cut_off {
        let caller = Endpoint { address: lookup.client, port: 0 };
        proof.fact("caller", text(&caller));
        proof.fact("resolvers", Fact::Count(resolvers));
    }
    let repeated = next(lookup, query).filter(|_| query.answered_ns.is_none());
    if let Some(again) = repeated {
        proof.fact("timeout_ns", Fact::Ns(again.sent_ns - query.sent_ns));
        if again.server != query.server && again.answered_ns.is_some() {
            proof.fact("next_resolver", text(&again.server));
        }
    }
    match cause {
        Cause::DnsTimeout if known.cut_off.is_some() || query.is_cut_short() => {}
        Cause::DnsTimeout if known.answered == 0 && known.others == 0 => {
            proof.fact("answered", Fact::Count(0));
        }
        Cause::DnsTimeout if known.answered == 0 => {
            proof.fact("others", Fact::Count(known.others));
            proof.fact("silent_type", Fact::Text(type_name(query.qtype)));
        }
        Cause::DnsSearch => {
            proof.fact("tries_per_name", Fact::Count(lookup.search_steps.into()));
            let first_ns = lookup.start_ns;
            let last = lookup.queries.iter().max_by_key(|query| query.step);
            let start_ns = lookup
                .queries
                .iter()
                .filter(|query| last.is_some_and(|last| last.step == query.step))
                .map(|query| query.sent_ns)
                .min();
            if let Some(start_ns) = start_ns {
                proof.fact("extra_ns", Fact::Ns(start_ns.saturating_sub(first_ns)));
            }
        }
        Cause::DnsFailure => {
            if let Some(rcode) = query.rcode {
                proof.fact("rcode", Fact::Text(rcode_name(rcode)));
            }
            let servers: std::collections::BTreeSet<_> =
                lookup.queries.iter().map(|query| query.server).collect();
            if servers.len() > 1 {
                proof.fact("tries", Fact::Count(servers.len() as u64));
            }
        }
        _ => {}
    }
}

/// The mnemonics of query types, and RFC 3597 §5's for the others.
pub(crate) fn type_name(qtype: u16) -> String {
    match qtype {
        qtype::A => "A".into(),
        qtype::AAAA => "AAAA".into(),
        qtype::PTR => "PTR".into(),
        qtype::HTTPS => "HTTPS".into(),
        other => format!("TYPE{other}"),
    }
}

/// The mnemonics of RFC 1035 §4.1.1.
fn rcode_name(rcode: u8) -> String {
    match rcode {
        1 => "FORMERR".into(),
        2 => "SERVFAIL".into(),
        4 => "NOTIMP".into(),
        5 => "REFUSED".into(),
        other => format!("RCODE {other}"),
    }
}

fn rule_out(lookup: &Lookup, query: &Query, (cause, answered): (Cause, u64), proof: &mut Proof) {
    let silent = query.answered_ns.is_none();
    match cause {
        Cause::DnsTimeout => {
            let whole = lookup.queries.iter().all(|query| !query.is_cut_short());
            let never =
                silent && whole && !lookup.queries.iter().any(|query| is_late(lookup, query));
            proof.not(Cause::DnsSlow, "never", never);
            let pair = lookup.conntrack_race_suspected;
            let alone = silent && whole && lookup.is_ignored(query);
            let why = if alone { "alone" } else { "whole" };
            proof.not(Cause::ConntrackRace, why, !pair);
            proof.not(Cause::ReverseDnsTimeout, "forward", !lookup.is_reverse);
        }
        Cause::DnsSlow => {
            let asked_once = next(lookup, query).is_none_or(|next| next.qtype != query.qtype);
            proof.not(Cause::DnsTimeout, "answered", !silent && asked_once);
            let first = lookup.search_steps == 0 && !lookup.is_missing(0);
            proof.not(Cause::DnsSearch, "first_name", first);
        }
        Cause::DnsFailure => {
            proof.not(Cause::DnsTimeout, "answered", query.is_answered());
            let failed = query.rcode.is_some_and(|rcode| rcode != 3);
            proof.not(Cause::DnsSearch, "not_nxdomain", failed);
        }
        Cause::DnsSearch => {
            proof.not(Cause::DnsFailure, "nxdomain", query.rcode == Some(3));
            let slowest_ns = lookup.queries.iter().map(|query| {
                query.answered_ns.map_or(u64::MAX, |at_ns| at_ns.saturating_sub(query.sent_ns))
            });
            let fast = slowest_ns.max().is_some_and(|ns| ns < SLOW_MIN_NS);
            proof.not(Cause::DnsSlow, "each_fast", fast);
        }
        Cause::ReverseDnsTimeout => {
            proof.not(Cause::DnsTimeout, "ptr_only", answered == 0 && silent);
        }
        _ => {}
    }
}
