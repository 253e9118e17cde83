//! Common parts of the causes of slow and failed look-ups: the frames of queries and answers, and
//! the values that all of them show.
//!
//! The causes are recognised in `dns/lookup.rs` when a look-up ends; `findings/lookups.rs` joins it
//! with the exchanges that waited for it.

use super::rules;
use crate::app::{Protocol, Side};
use crate::dns::thresholds::UNCACHED_NS;
use crate::dns::{Lookup, Outcome, Query};
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::tally::Instance;
use crate::findings::thresholds::DOMINANT_FACTOR;
use crate::model::{Cause, Fact, LookupMessage, LookupReport, Role, Sighting, Vantage};
use crate::wire::Endpoint;
use crate::wire::dns_message::qtype;

/// Rules for recognising a cause in a look-up and its queries.
pub(in crate::findings) struct LookupRules {
    /// Returns whether a query shows the cause.
    pub shows: fn(&Query) -> bool,
    /// Returns the number of its cases in a look-up.
    pub count: fn(&Lookup) -> u64,
    /// The role that has to change something, where `query` shows the cause.
    pub role: fn(&Query, Heard) -> Role,
    /// The client waits for the server: another one that this server asked itself is to blame.
    pub is_wait: bool,
    /// The server says nothing: the way out of a client to which nothing comes is to blame.
    pub is_silence: bool,
    /// Proves a look-up with the cause to the reader.
    pub prove: fn(&LookupScene<'_>, &mut Proof),
}

/// Other knowledge about the server of a query.
#[derive(Clone, Copy)]
pub(in crate::findings) struct Heard {
    /// The server is a program on the client's host, so no packet is lost on the path.
    pub is_local: bool,
    /// The server answers other queries of the same type.
    pub answers: bool,
}

impl LookupRules {
    /// The values that a row does not state.
    pub(super) const PLAIN: Self = Self {
        shows: |query| query.rcode.is_some_and(|rcode| rcode != 0),
        count: |_| 1,
        role: |_, _| Role::Resolver,
        is_wait: false,
        is_silence: false,
        prove: |scene, proof| scene.see(["query", "answer"], proof),
    };
}

/// The number of queries of `lookup` that were not heard.
pub(super) fn unheard(lookup: &Lookup) -> u64 {
    lookup.queries.iter().filter(|query| query.lacks_answer()).count() as u64
}

/// Look-ups that came to nothing, of all that a cause had a part in.
pub(in crate::findings) const FAILED: &str = "failed";

/// Look-ups for which the server asked had to ask another one.
pub(in crate::findings) const FORWARDED: &str = "forwarded";

/// Adds up how long answers took, and how often the server of `guilty` gave none.
pub(in crate::findings) fn add_up(lookup: &Lookup, guilty: &Query, shown: &mut Shown) {
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

/// Returns whether a resolver's own work dominates: it is part of a first visit. One late answer
/// that nobody is seen to wait for is a name that was not cached.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    // A name that a cache had to ask for once, it had not kept yet.
    let kept = case.cause.shown.count(FORWARDED) > 0;
    let seen = case.key.server != case.key.culprit.endpoint && !kept;
    let waited_for = seen || case.cause.exchanges >= 2;
    let lost_ns = case.cause.lost_ns;
    let dominates =
        case.is_broad() && case.share_of(lost_ns) >= DOMINANT_FACTOR * case.floors.fault_share;
    dominates && (waited_for || lost_ns >= UNCACHED_NS)
}

/// Other queries that corroborate the one in question.
pub(in crate::findings) struct Others<'a> {
    /// Number of queries of the same type that its server answered.
    pub answered: u64,
    /// Number of queries of other types that it answered.
    pub others: u64,
    /// Query that its server was waiting for itself.
    pub upstream: Option<&'a Query>,
    /// Number of resolvers that the client asked, if none answered and the client received nothing
    /// else either.
    pub cut_off: Option<u64>,
}

/// A query that shows a cause, with its look-up and what other queries say.
pub(in crate::findings) struct LookupScene<'a> {
    /// The look-up.
    pub lookup: &'a Lookup,
    /// The query.
    pub query: &'a Query,
    /// Knowledge from other queries.
    pub known: &'a Others<'a>,
}

/// Returns the look-up as an instance of a cause that cost it time, ns.
pub(in crate::findings) fn instance(
    scene: &LookupScene<'_>,
    (cause, ns): (Cause, u64),
) -> Instance {
    let (lookup, query) = (scene.lookup, scene.query);
    let mut proof = Proof::default();
    if let Some(of_lookup) = rules(cause).lookup {
        (of_lookup.prove)(scene, &mut proof);
    }
    if let Some(upstream) = scene.known.upstream {
        see_query(upstream, "forwarded", &mut proof);
        see_answer(upstream, "forwarded_answer", &mut proof);
        proof.fact("forwarder", Fact::Text(query.server.ip().to_string()));
        proof.fact("upstream", Fact::Text(upstream.server.ip().to_string()));
    }
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

impl<'a> LookupScene<'a> {
    /// The next query for the same, or else the next one at all.
    pub(super) fn next(&self) -> Option<&'a Query> {
        let (lookup, query) = (self.lookup, self.query);
        let later = lookup.queries.iter().filter(|other| other.sent_ns > query.sent_ns);
        let same = |other: &&Query| other.qtype == query.qtype;
        later.clone().find(same).or(later.clone().next())
    }

    /// Returns whether the query was answered without a failure.
    fn is_done(&self) -> bool {
        self.query.answered_ns.is_some() && self.query.rcode.is_none_or(|rcode| rcode == 0)
    }

    /// Adds the query and its answer, or what the client asked next where there was none, and the
    /// values that all causes show; `parts` names the query and its answer.
    pub(super) fn see(&self, parts: [&'static str; 2], proof: &mut Proof) {
        self.see_with_next(parts, |next| if self.is_same(next) { "again" } else { "other" }, proof);
    }

    /// Adds the same as [`Self::see`]; `part` names what the client asked next.
    pub(super) fn see_with_next(
        &self,
        parts: [&'static str; 2],
        part: impl Fn(&Query) -> &'static str,
        proof: &mut Proof,
    ) {
        self.see_own(parts, proof);
        if let Some(next) = self.next().filter(|_| !self.is_done()) {
            see_query(next, part(next), proof);
            see_answer(next, "answer", proof);
        }
        self.tell(proof);
    }

    /// Returns whether `other` asks for the same name and type.
    pub(super) fn is_same(&self, other: &Query) -> bool {
        (other.qtype, other.step) == (self.query.qtype, self.query.step)
    }

    /// Adds the query and its answer.
    pub(super) fn see_own(&self, [asked, answer]: [&'static str; 2], proof: &mut Proof) {
        let query = self.query;
        see_query(query, asked, proof);
        see_answer(query, answer, proof);
        if let Some((time_ns, frame)) = query.later_fragment.filter(|_| query.is_cut_short()) {
            let from = Side::Server;
            proof.see("fragment", Sighting { frame, time_ns, payload_bytes: 0, from });
        }
    }

    /// Adds the values that all causes show.
    pub(super) fn tell(&self, proof: &mut Proof) {
        let query = self.query;
        let text = |endpoint: &Endpoint| Fact::Text(endpoint.ip().to_string());
        proof.fact("resolver", text(&query.server));
        if query.is_cut_short() {
            proof.fact("fragments_of", text(&query.server));
        }
        if let Some(resolvers) = self.known.cut_off {
            let caller = Endpoint { address: self.lookup.client, port: 0 };
            proof.fact("caller", text(&caller));
            proof.fact("resolvers", Fact::Count(resolvers));
        }
        let repeated = self.next().filter(|_| query.answered_ns.is_none());
        if let Some(again) = repeated {
            proof.fact("timeout_ns", Fact::Ns(again.sent_ns - query.sent_ns));
            if again.server != query.server && again.answered_ns.is_some() {
                proof.fact("next_resolver", text(&again.server));
            }
        }
    }

    /// Adds the other servers that did not answer either.
    pub(super) fn tell_silent_others(&self, proof: &mut Proof) {
        let silent = |other: &&Query| other.server != self.query.server && other.is_silent();
        let others: std::collections::BTreeSet<_> =
            self.lookup.queries.iter().filter(silent).map(|other| other.server).collect();
        let others: Vec<_> = others.iter().map(|server| server.ip().to_string()).collect();
        if !others.is_empty() {
            proof.fact("silent_others", Fact::Text(others.join(", ")));
        }
    }
}

/// Adds a query.
pub(super) fn see_query(query: &Query, part: &'static str, proof: &mut Proof) {
    let Query { query_frame: frame, sent_ns: time_ns, query_bytes: payload_bytes, .. } = *query;
    proof.see(part, Sighting { frame, time_ns, payload_bytes, from: Side::Client });
}

/// Adds the answer to a query, or the ICMP error that came instead.
pub(super) fn see_answer(query: &Query, part: &'static str, proof: &mut Proof) {
    if let (Some(frame), Some(at_ns)) = (query.answer_frame, query.answered_ns) {
        let part = if query.flags.is_unreachable { "icmp" } else { part };
        let (payload_bytes, from) = (query.answer_bytes, Side::Server);
        proof.see(part, Sighting { frame, time_ns: at_ns, payload_bytes, from });
    }
}

/// Messages of a look-up that are drawn.
const MESSAGES_MAX: usize = 32;

/// Returns the look-up as it is drawn before the connection that waited for it.
pub(in crate::findings) fn report(lookup: &Lookup) -> LookupReport {
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
