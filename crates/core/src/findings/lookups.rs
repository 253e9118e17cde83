//! Name look-ups (RFC 1035) and the exchanges that had to wait for them.
//!
//! Look-ups are captured on other flows than the exchanges that they delay, so they are joined when
//! everything is known. A look-up belongs to the connections that its client opened, right after
//! the look-up ended, to an address in the answer. A look-up that no connection followed is a
//! separate exchange with the resolver.

mod held;
mod served;
mod unwaited;

use crate::app::Protocol;
use crate::dns::thresholds::{SEQUEL_MAX_NS, SLOW_MIN_NS};
use crate::dns::{DNS_PORT, Lookup, LookupOutcome, Query};
use crate::findings::asked::FirstAnswers;
use crate::findings::by_name::{self, ByName};
use crate::findings::causes::lookup::{
    self, LookupRules, LookupScene, OtherQueries, ServerBehaviour,
};
use crate::findings::causes::rules;
use crate::findings::causes::syn_retransmit::UDP_ANSWERS;
use crate::findings::distance::Distances;
use crate::findings::forwarded::Forwarded;
use crate::findings::loaded_line::Lines;
use crate::findings::tally::{CauseTally, First, Instance, Key, Tally, Wait};
use crate::findings::thresholds::COST_MIN_NS;
use crate::findings::{fallback, retries};
use crate::judge::thresholds::ALIKE_PART;
use crate::model::{Cause, Culprit, Ledger, Outcome as Ended, Owner, Role, Window};
use crate::wire::{Endpoint, Side};
use held::{Held, held_up_answer, held_up_server, servers_by_host};
use served::Served;
use std::collections::{HashMap, HashSet};
use unwaited::Unwaited;

/// Joins look-ups with the exchanges that they delayed, and adds up their cost in `window`.
pub fn link(mut lookups: Vec<Lookup>, window: &Window, tally: &mut Tally) {
    tally.answers.add(&lookups, &tried(tally));
    fallback::settle(tally, &lookups);
    retries::settle(tally);
    let counted = counted(tally);
    count_unmatched(&lookups, tally);
    let (answering, forwarded) = (answering(&lookups), Forwarded::of(&lookups));
    let (asked, served) = (FirstAnswers::of(&lookups), Served::of(&lookups));
    note_udp_answers(&lookups, tally);
    let by_name = by_name::of(&lookups);
    asked.compare_first_with_first(&mut lookups);
    let iterative = lookups.iter().filter(|it| it.is_of_tool()).flat_map(|it| &it.queries);
    tally.notes.iterative += iterative.count() as u64;
    let is_waited_for = |it: &Lookup| !it.by_resolver && !it.is_of_tool();
    lookups.retain(|lookup| is_waited_for(lookup) && !lookup.queries.is_empty());
    lookups.retain_mut(|lookup| !lookup.drop_unread());
    let all = lookups.len();
    lookups.retain(|lookup| !lookup.is_background);
    tally.notes.background_lookups += (all - lookups.len()) as u64;
    let in_window = |lookup: &Lookup| window.overlaps(lookup.start_ns, lookup.end_ns);
    let missing = |it: &&Lookup| it.outcome == LookupOutcome::NxDomain && in_window(it);
    let missing = lookups.iter().filter(missing).count();
    tally.notes.nxdomain += missing as u64;
    lookups.sort_by_key(|lookup| (lookup.client, lookup.start_ns, lookup.queries[0].query_frame));
    if tally.one_way() && answering.values().all(|&answers| answers == 0) {
        // The answers were in the direction that was not captured.
        return;
    }
    if lookups.is_empty() {
        tally.drop_late_firsts();
        return;
    }
    let firsts = tally.take_firsts();
    let isolated = isolated(&lookups, &firsts, tally);
    let (distances, lines) = (Distances::of(&firsts), Lines::of(&tally.queues.handshakes));
    let over_tcp = lookups.iter().flat_map(|it| &it.queries).filter(|it| it.flags.over_tcp);
    let reached = over_tcp.map(|query| query.server).collect();
    let heard = heard(&lookups);
    let known = ResolverBehaviour {
        answering,
        heard,
        forwarded,
        asked,
        reached,
        distances,
        lines,
        isolated,
        unwaited: Unwaited::of(&lookups),
        served,
        by_name,
    };
    lookups.retain(|lookup| {
        let is_chance = !lookup.is_abandoned && known.unwaited.has(lookup);
        if is_chance && in_window(lookup) {
            match is_unheard(lookup, &known, tally) {
                true => tally.notes.count_unanswered(),
                false => tally.notes.count_unanswered_lookup(),
            }
        }
        !is_chance
    });
    lookups.iter_mut().filter(|it| it.is_abandoned).for_each(|it| end_with_next(it, &firsts));
    let links = links(&lookups, &firsts);
    let mut followed = vec![false; lookups.len()];
    for (first, index) in firsts.iter().zip(links) {
        if let Some(index) = index {
            followed[index] = true;
            // The client waited for a query without an answer until it continued without one.
            let lookup = &mut lookups[index];
            if first.start_ns < lookup.end_ns && lookup.was_left_at(first.start_ns, first.server) {
                lookup.leave_at(first.start_ns);
            }
            lookup.end_ns = lookup.end_ns.min(first.start_ns).max(lookup.start_ns);
            lookup.estimated_end_ns = None;
            let lookup = &lookups[index];
            add_to_first(lookup, first, &known, tally);
            let opened = (first.client, first.server, first.start_ns);
            tally.worst.wait_for(opened, || lookup::report(lookup));
        }
    }
    let shown: Vec<_> = lookups.iter().map(|it| goes_on(it, &lookups, &firsts)).collect();
    for (lookup, _) in lookups.iter_mut().zip(shown).filter(|(_, shown)| *shown) {
        lookup.estimated_end_ns = None;
    }
    let by_host = servers_by_host(tally);
    for (lookup, _) in lookups.iter().zip(followed).filter(|(_, followed)| !followed) {
        let held = held_up_server(lookup, &firsts).map(Held::of_first);
        match held.or_else(|| held_up_answer(lookup, &by_host, tally)) {
            Some(held) => attribute_within(lookup, &held, &known, tally),
            // It had to be repeated over TCP: the failed attempt to connect has the time.
            None if waits_for_tcp(lookup, tally) => {}
            None if is_counted(lookup, &counted) => {}
            None if in_window(lookup) => add_as_exchange(lookup, &known, tally),
            None => {}
        }
    }
    tally.firsts = firsts;
}

/// A connection to a name server: the client's address and port, and the server.
type OverTcp = ([u8; 16], u16, Endpoint);

/// Returns the connections whose exchanges with a name server are counted as exchanges.
fn counted(tally: &Tally) -> HashSet<OverTcp> {
    let counted = tally.tcp_lookups.iter().filter(|it| it.is_counted);
    counted.map(|it| (it.client.address, it.client.port, it.server)).collect()
}

/// Returns whether the look-up is an exchange over TCP that is counted already, and was answered.
fn is_counted(lookup: &Lookup, counted: &HashSet<OverTcp>) -> bool {
    let of = |query: &Query| (lookup.client, query.client_port, query.server);
    let is_exchange = |it: &Query| it.flags.over_tcp && counted.contains(&of(it));
    lookup.outcome == LookupOutcome::Answered && lookup.queries.iter().all(is_exchange)
}

/// Counts exchanges with a name server over TCP as ordinary exchanges if they belong to no look-up,
/// for example because the question was not captured.
fn count_unmatched(lookups: &[Lookup], tally: &mut Tally) {
    let of_lookup = |lookup: &Lookup| {
        let client = lookup.client;
        let over_tcp = lookup.queries.iter().filter(|query| query.flags.over_tcp);
        over_tcp.map(move |it| (client, it.client_port, it.server)).collect::<Vec<_>>()
    };
    let known: HashSet<_> = lookups.iter().flat_map(of_lookup).collect();
    for tcp_lookup in std::mem::take(&mut tally.tcp_lookups) {
        let of = (tcp_lookup.client.address, tcp_lookup.client.port, tcp_lookup.server);
        if !tcp_lookup.is_counted && !known.contains(&of) {
            let endpoint = tally.endpoints.entry(tcp_lookup.server).or_default();
            endpoint.identity.protocol = Protocol::Dns;
            let answered = Ended::Answered;
            endpoint.add(&tcp_lookup.kind, &tcp_lookup.ledger.ledger(), answered);
        }
    }
}

/// Ends a look-up that was given up at an unknown time: at the latest when its client turned to
/// something else.
fn end_with_next(lookup: &mut Lookup, firsts: &[First]) {
    let asked_ns = lookup.queries.last().map_or(lookup.start_ns, |query| query.sent_ns);
    let from = firsts.partition_point(|first| first.start_ns < asked_ns);
    let soon = firsts[from..].iter().take_while(|first| first.start_ns < lookup.end_ns);
    let next_ns = soon.filter(|it| it.client == lookup.client).map(|it| it.start_ns).min();
    let end_ns = next_ns.map_or(lookup.end_ns, |at_ns| at_ns.min(lookup.end_ns));
    // If the clock stepped back, later frames may have earlier times.
    lookup.end_ns = end_ns.max(lookup.start_ns);
}

/// Returns, for each of `firsts`, the look-up for which it had to wait, if there is one. A host may
/// query from another address than it connects from, for example of the other family. That is
/// considered for addresses that query nothing themselves, and for look-ups that no connection from
/// their own address followed.
fn links(lookups: &[Lookup], firsts: &[First]) -> Vec<Option<usize>> {
    let mut links: Vec<_> = firsts.iter().map(|first| waited_for(lookups, first)).collect();
    let own: HashSet<_> = links.iter().flatten().copied().collect();
    let asking: HashSet<_> = lookups.iter().map(|lookup| lookup.client).collect();
    let mut others: Vec<_> = (0..lookups.len()).filter(|index| !own.contains(index)).collect();
    others.sort_by_key(|&index| (lookups[index].end_ns, index));
    for (first, link) in firsts.iter().zip(&mut links) {
        if link.is_some() || asking.contains(&first.client) || !first.was_seen_at_client() {
            continue;
        }
        let until_ns = first.start_ns.saturating_add(SEQUEL_MAX_NS);
        let end = others.partition_point(|&index| lookups[index].end_ns <= until_ns);
        let recent = others[..end].iter().rev().take(64);
        *link = recent.copied().find(|&index| leads_to(&lookups[index], first));
    }
    keep_first_of_each(firsts, &mut links);
    links
}

/// Keeps, for each look-up, only the link of the connection that was opened first after it: the others
/// went to an address that was known by then.
fn keep_first_of_each(firsts: &[First], links: &mut [Option<usize>]) {
    let mut order: Vec<_> = (0..firsts.len()).collect();
    order.sort_by_key(|&place| firsts[place].start_ns);
    let mut taken = HashSet::new();
    for place in order {
        links[place] = links[place].filter(|&index| taken.insert(index));
    }
}

/// Returns the last look-up of the same client that had this server's address in an answer just
/// before.
fn waited_for(lookups: &[Lookup], first: &First) -> Option<usize> {
    let end = lookups.partition_point(|lookup| {
        (lookup.client, lookup.start_ns) <= (first.client, first.start_ns)
    });
    let candidates = lookups[..end].iter().enumerate().rev();
    candidates
        .take_while(|(_, lookup)| lookup.client == first.client)
        .take(64)
        .find(|(_, lookup)| leads_to(lookup, first))
        .map(|(index, _)| index)
}

/// Returns whether `first` went to an address that `lookup` had in an answer just before.
fn leads_to(lookup: &Lookup, first: &First) -> bool {
    let follows = match first.start_ns.checked_sub(lookup.end_ns) {
        Some(pause_ns) => pause_ns <= SEQUEL_MAX_NS,
        None => {
            given_up(lookup, first.start_ns) || lookup.was_left_at(first.start_ns, first.server)
        }
    };
    follows && lookup.addresses.contains(&first.server.address)
}

/// Returns whether a part of the look-up was never answered and nothing was queried after `at_ns`.
fn given_up(lookup: &Lookup, at_ns: u64) -> bool {
    lookup.queries.iter().any(|query| query.answered_ns.is_none())
        && lookup.queries.iter().all(|query| query.sent_ns < at_ns)
}

/// Behaviour of resolvers over all look-ups and connections.
struct ResolverBehaviour {
    answering: Answering,
    forwarded: Forwarded,
    asked: FirstAnswers,
    /// Clients to which an answer came.
    heard: HashSet<[u8; 16]>,
    /// Servers that accepted a TCP connection.
    reached: HashSet<Endpoint>,
    distances: Distances,
    lines: Lines,
    /// Clients to which nothing came at all, with the number of resolvers that they queried.
    isolated: HashMap<[u8; 16], u64>,
    unwaited: Unwaited,
    served: Served,
    /// Servers whose answers the names decide.
    by_name: HashMap<Endpoint, ByName>,
}

/// Returns the clients that queried several resolvers, none of which answered (nor did its host by
/// ICMP), and to which nothing came on connections either: what their queries have in common is
/// their own network.
fn isolated(lookups: &[Lookup], firsts: &[First], tally: &Tally) -> HashMap<[u8; 16], u64> {
    let mut asked: HashMap<[u8; 16], (HashSet<[u8; 16]>, bool)> = HashMap::new();
    for lookup in lookups {
        let (resolvers, received) = asked.entry(lookup.client).or_default();
        for query in &lookup.queries {
            // A server on the host itself is reached without the network.
            let local = query.server.ip().is_loopback() || query.server.address == lookup.client;
            *received |= local || query.answered_ns.is_some() || query.is_cut_short();
            resolvers.insert(query.server.address);
        }
    }
    for first in firsts.iter().filter(|first| first.established || first.answered) {
        if let Some((_, received)) = asked.get_mut(&first.client) {
            *received = true;
        }
    }
    let silent = asked.into_iter().filter(|(client, (resolvers, received))| {
        resolvers.len() > 1 && !received && !tally.receiving_hosts.may_have_received(client)
    });
    silent.map(|(client, (resolvers, _))| (client, resolvers.len() as u64)).collect()
}

/// Returns the clients to which an answer came, or a part of one.
fn heard(lookups: &[Lookup]) -> HashSet<[u8; 16]> {
    let is_heard = |it: &Query| it.answered_ns.is_some() || it.is_cut_short();
    let heard = lookups.iter().filter(|it| it.queries.iter().any(is_heard));
    heard.map(|it| it.client).collect()
}

/// Returns whether the answer to a look-up may just be in a direction that was not captured: its client was
/// not seen to wait for it, and nothing at all to that client was captured.
fn may_lack_answers(lookup: &Lookup, known: &ResolverBehaviour, tally: &Tally) -> bool {
    lookup.is_abandoned && is_unheard(lookup, known, tally)
}

/// Returns whether nothing at all to the client of the look-up was captured.
fn is_unheard(lookup: &Lookup, known: &ResolverBehaviour, tally: &Tally) -> bool {
    !known.heard.contains(&lookup.client)
        && !tally.receiving_hosts.may_have_received(&lookup.client)
}

/// Returns whether the client neither repeated the only query of the look-up nor did anything else when its
/// wait could end, or did so by chance: what it began does not depend on an answer that never came.
fn is_end_unknown(lookup: &Lookup, known: &ResolverBehaviour) -> bool {
    let is_estimated = lookup.estimated_end_ns == Some(lookup.end_ns) || lookup.unseen_ns > 0;
    lookup.is_abandoned && (is_estimated || known.unwaited.has(lookup))
}

/// Number of queries of a type that each server answered.
type Answering = HashMap<(Endpoint, u16), u64>;

fn answering(lookups: &[Lookup]) -> Answering {
    let mut answering = HashMap::new();
    for query in lookups.iter().flat_map(|lookup| &lookup.queries) {
        let answered = answering.entry((query.server, query.qtype)).or_insert(0);
        *answered += u64::from(query.is_answered());
    }
    answering
}

/// Counts the answers over UDP of name servers to which attempts to connect had to be repeated: a host
/// that answers them is up, and the path to it works.
fn note_udp_answers(lookups: &[Lookup], tally: &mut Tally) {
    let is_to_resolver =
        |key: &&Key| key.cause == Cause::SynRetransmit && key.server.port == DNS_PORT;
    let keys: Vec<_> = tally.causes.keys().filter(is_to_resolver).cloned().collect();
    let mut answers: HashMap<Endpoint, u64> = keys.iter().map(|key| (key.server, 0)).collect();
    for query in lookups.iter().flat_map(|lookup| &lookup.queries) {
        if let Some(count) = answers.get_mut(&query.server) {
            *count += u64::from(query.answered_ns.is_some() && !query.flags.over_tcp);
        }
    }
    for key in keys {
        if let Some(&count) = answers.get(&key.server).filter(|count| **count > 0) {
            tally.causes.at(&key).shown.add(UDP_ANSWERS, count);
        }
    }
}

/// Returns the hosts to which somebody tried to connect.
fn tried(tally: &Tally) -> HashSet<[u8; 16]> {
    let hosts = tally.causes.keys().map(|key| key.server.address);
    hosts.chain(tally.firsts.iter().map(|first| first.server.address)).collect()
}

/// Returns whether the client, or the server whose exchange waited for it, goes on right after the
/// estimated end of the look-up: then packets show that it was the end.
fn goes_on(lookup: &Lookup, lookups: &[Lookup], firsts: &[First]) -> bool {
    let Some(from_ns) = lookup.estimated_end_ns else { return false };
    let to_ns = from_ns.saturating_add(SEQUEL_MAX_NS);
    let begin = firsts.partition_point(|first| first.start_ns < from_ns);
    let mut soon = firsts[begin..].iter().take_while(|first| first.start_ns <= to_ns);
    let of_client = |it: &Lookup| it.client == lookup.client;
    let next = lookups.partition_point(|it| (it.client, it.start_ns) < (lookup.client, from_ns));
    soon.any(|first| first.client == lookup.client)
        || lookups.get(next).is_some_and(|it| of_client(it) && it.start_ns <= to_ns)
        || held_up_server(lookup, firsts).is_some_and(|first| first.end_ns() <= to_ns)
}

/// Returns whether the answer was truncated, so that the client had to ask over TCP (RFC 7766 §5),
/// and no connection to the server was ever established.
fn waits_for_tcp(lookup: &Lookup, tally: &Tally) -> bool {
    let truncated = lookup.queries.iter().find(|query| query.flags.is_truncated);
    let Some(query) = truncated.filter(|_| lookup.queries.iter().all(|it| !it.flags.over_tcp))
    else {
        return false;
    };
    let endpoint = tally.endpoints.get(&query.server);
    endpoint.is_some_and(|it| it.set_ups.established == 0 && it.all.exchanges > 0)
}

/// Adds the look-up to the exchange that waited for it. The pause between both is its client's, and no latency.
fn add_to_first(lookup: &Lookup, first: &First, known: &ResolverBehaviour, tally: &mut Tally) {
    let mut ledger = Ledger::default();
    ledger.add(Owner::Dns, lookup.end_ns - lookup.start_ns);
    let wall_ns = first.wall_ns + ledger.total_ns();
    let server = tally.row_of(first.server);
    let endpoint = tally.endpoints.entry(server).or_default();
    endpoint.prepend(first.kind, first.wall_ns, &ledger);
    endpoint.waits.begin_earlier(first, lookup.start_ns);
    // Where the vantage is not at the client, a part of the pause is the way to it and back.
    let unseen_ns = first.rtt_base_ns.saturating_sub(first.rtt_server_ns);
    let unseen_ns = unseen_ns.saturating_sub(first.start_ns.saturating_sub(lookup.end_ns));
    attribute(lookup, server, (wall_ns, unseen_ns), first.rtt_base_ns, known, tally);
}

/// Attributes to the look-up the time that seemed to be the server's own.
fn attribute_within(lookup: &Lookup, held: &Held, known: &ResolverBehaviour, tally: &mut Tally) {
    let server = tally.row_of(held.server);
    let endpoint = tally.endpoints.entry(server).or_default();
    let looked_up_ns = lookup.end_ns - lookup.start_ns;
    endpoint.transfer(held.kind, Owner::Server, Owner::Dns, looked_up_ns);
    attribute(lookup, server, (held.wall_ns, 0), 0, known, tally);
}

fn add_as_exchange(lookup: &Lookup, known: &ResolverBehaviour, tally: &mut Tally) {
    let wall_ns = lookup.end_ns - lookup.start_ns;
    let outcome = match lookup.outcome {
        // The capture ends before anybody would have waited for an answer in vain.
        LookupOutcome::Timeout if wall_ns == 0 || lookup.ends_with_capture => {
            tally.notes.count_unanswered();
            return;
        }
        LookupOutcome::Timeout if may_lack_answers(lookup, known, tally) => {
            tally.notes.count_unanswered();
            return;
        }
        // Nothing shows how long anybody waited.
        LookupOutcome::Timeout if is_end_unknown(lookup, known) => {
            // A request over TCP is counted with its connection.
            if !lookup.queries[0].flags.over_tcp {
                tally.notes.count_unanswered_lookup();
            }
            return;
        }
        LookupOutcome::Timeout => Ended::Unacknowledged,
        LookupOutcome::Answered | LookupOutcome::NxDomain | LookupOutcome::Failure { .. } => {
            Ended::Answered
        }
    };
    let resolver = lookup.queries[0].server;
    let endpoint = tally.endpoints.entry(resolver).or_default();
    endpoint.identity.protocol = Protocol::Dns;
    let kind = if lookup.is_reverse { "reverse look-up" } else { "look-up" };
    let mut ledger = Ledger::default();
    ledger.add(Owner::Dns, wall_ns);
    endpoint.add(kind, &ledger, outcome);
    if wall_ns >= COST_MIN_NS {
        endpoint.waits.insert(Wait::of_lookup(lookup.client, lookup.start_ns, lookup.end_ns));
    }
    attribute(lookup, resolver, (wall_ns, 0), 0, known, tally);
}

/// Attributes to its causes the time that the look-up lost, in an exchange of `wall_ns` that
/// includes `unseen_ns` for the leg beyond the vantage.
fn attribute(
    lookup: &Lookup,
    server: Endpoint,
    (wall_ns, unseen_ns): (u64, u64),
    rtt_base_ns: u64,
    known: &ResolverBehaviour,
    tally: &mut Tally,
) {
    let answering = &known.answering;
    let server_asked = &lookup.queries[0].server;
    // Answers of the server itself are a better prediction than the distance of its network. What
    // is in its cache does not show how soon it answers what is not.
    let first_ns = known.asked.first_ns(lookup, &lookup.queries[0]);
    let shown_ns = known.served.fastest_ns(*server_asked).filter(|&ns| ns < SLOW_MIN_NS);
    let fair_ns = first_ns.or(shown_ns).or_else(|| known.distances.to(server_asked));
    let parts = lookup.split(fair_ns, unseen_ns);
    // The look-up of an exchange may have lasted longer than what the vantage shows of that.
    let parts = parts.into_iter().map(|(cause, ns)| (cause, ns.min(wall_ns)));
    for (cause, ns) in parts.filter_map(|(cause, ns)| Some((cause?, ns))) {
        // A failure is reported however quickly it came.
        let failed = cause == Cause::DnsFailure
            && matches!(lookup.outcome, LookupOutcome::Failure { .. })
            && !lookup.is_reverse;
        if ns == 0 && !failed {
            continue;
        }
        let Some(rules) = rules(cause).lookup else { continue };
        let slowest_ns = |server| known.served.slowest_ns(server);
        if rules.is_silence && (lookup.may_still_be_answered(slowest_ns) || lookup.is_cut_off()) {
            continue;
        }
        let Some(query) = clearest_query(lookup, rules) else { continue };
        let in_time =
            query.answered_ns.is_none() && known.served.fastest_ns(query.server).is_some();
        if lookup.is_abandoned && in_time {
            // The client continued although its server answers: the answer was not captured.
            continue;
        }
        let taken_ns =
            query.answered_ns.map_or(0, |answered_ns| answered_ns.saturating_sub(query.sent_ns));
        if cause == Cause::DnsSlow && taken_ns <= rtt_base_ns + rtt_base_ns / ALIKE_PART {
            // The look-up took no longer than the path to the server: the cause is distance, not
            // the resolver.
            continue;
        }
        if cause == Cause::DnsSlow && taken_ns < SLOW_MIN_NS + known.lines.queue_of(lookup, query) {
            continue;
        }
        let upstream = known.forwarded.waited_for(lookup, query).filter(|_| rules.is_wait);
        let isolated = known.isolated.get(&lookup.client).copied().filter(|_| rules.is_silence);
        let culprit = match isolated {
            Some(_) => {
                let endpoint = Endpoint { address: lookup.client, port: 0 };
                Culprit { role: Role::Network, endpoint }
            }
            None => culprit(rules, lookup, upstream.unwrap_or(query), known),
        };
        let key = Key { cause, sender: Side::Client, server, culprit };
        let cost = tally.causes.at(&key);
        cost.shown.add(lookup::FORWARDED, u64::from(upstream.is_some()));
        known.asked.add_up(lookup, query, &mut cost.shown);
        let answered = answers(query, answering);
        let of_server = answering.iter().filter(|((server, _), _)| *server == query.server);
        let other_types = of_server.map(|(_, answers)| answers).sum::<u64>() - answered;
        let is_type_silent = answered == 0 && other_types > 0;
        lookup::add_up(cause, lookup, query, is_type_silent, &mut cost.shown);
        let resolvers_if_isolated = isolated;
        let known = OtherQueries {
            answered,
            other_types,
            upstream,
            resolvers_if_isolated,
            is_measured: fair_ns.is_some(),
            is_reached: known.reached.contains(&query.server),
            by_name: known.by_name.get(&query.server).copied(),
            is_authoritative: known.served.is_authoritative(query.server),
            longest_bytes: known.served.longest_bytes(query.server),
        };
        let scene = LookupScene { lookup, query, known: &known };
        let instance = lookup::instance(&scene, (cause, ns));
        cost.add_part(wall_ns, ns, (rules.count)(lookup, query), instance);
    }
}

/// Returns the query that shows the cause best.
fn clearest_query<'a>(lookup: &'a Lookup, rules: &LookupRules) -> Option<&'a Query> {
    let taken_ns =
        |query: &&Query| query.answered_ns.map_or(u64::MAX, |at| at.saturating_sub(query.sent_ns));
    // A part of an answer shows more than none.
    let rank = |query: &&Query| (taken_ns(query), query.is_cut_short());
    let shows = |query: &&Query| (rules.shows)(query);
    lookup.queries.iter().filter(shows).max_by_key(rank).or(lookup.queries.first())
}

/// Returns the number of queries of the same type that the server of `query` answered.
fn answers(query: &Query, answering: &Answering) -> u64 {
    answering.get(&(query.server, query.qtype)).copied().unwrap_or(0)
}

/// Returns the party that has to change something if `query` shows the cause.
fn culprit(
    rules: &LookupRules,
    lookup: &Lookup,
    query: &Query,
    known: &ResolverBehaviour,
) -> Culprit {
    let is_local = query.server.ip().is_loopback() || query.server.address == lookup.client;
    let answers = answers(query, &known.answering) > 0;
    let has_chosen = query.is_silent() && known.by_name.contains_key(&query.server);
    let server = ServerBehaviour { is_local, answers: answers && !has_chosen };
    let role = (rules.role)(query, server);
    let client = Endpoint { address: lookup.client, port: 0 };
    Culprit { role, endpoint: if role == Role::Client { client } else { query.server } }
}

impl CauseTally {
    pub(super) fn add_part(&mut self, wall_ns: u64, ns: u64, count: u64, instance: Instance) {
        self.exchanges += 1;
        self.count += count;
        self.lost_ns = self.lost_ns.saturating_add(ns);
        self.now.record(wall_ns);
        self.without.record(wall_ns.saturating_sub(ns));
        self.waits.record(ns);
        self.note_share(ns, wall_ns);
        self.offer(instance);
    }
}
