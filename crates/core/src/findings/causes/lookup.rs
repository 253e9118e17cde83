//! Rules and evidence that the causes of slow and failed look-ups share: queries and answers, and
//! the facts that every one of them states.
//!
//! The causes are recognised in `dns/lookup.rs` when a look-up ends; `findings/lookups.rs` joins it
//! with the exchanges that waited for it.

use super::rules;
use crate::app::Protocol;
use crate::dns::thresholds::{RESOLVER_TIMEOUT_MIN_NS, UNCACHED_NS};
use crate::dns::{Lookup, LookupOutcome, Query};
use crate::findings::by_name::ByName;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::tally::Instance;
use crate::findings::thresholds::DOMINANT_FACTOR;
use crate::judge::thresholds::ALIKE_PART;
use crate::model::{Cause, Fact, LookupMessage, LookupReport, LookupStep, Role, Sighting, Vantage};
use crate::wire::dns_message::{qtype, rcode};
use crate::wire::{Endpoint, Side};

/// How a cause is recognised in a look-up and its queries.
pub(in crate::findings) struct LookupRules {
    /// Returns whether a query shows the cause.
    pub shows: fn(&Query) -> bool,
    /// Returns how many times the cause occurred in a look-up that a query shows best.
    pub count: fn(&Lookup, &Query) -> u64,
    /// Returns the role that has to change something if `query` shows the cause.
    pub role: fn(&Query, ServerBehaviour) -> Role,
    /// `true` if the client waits for the server. If this server waited for another one meanwhile,
    /// the other one is the culprit.
    pub is_wait: bool,
    /// `true` if the server sends nothing. If the client receives nothing from any host, its
    /// connection to the network is the culprit.
    pub is_silence: bool,
    /// Adds the evidence for a look-up with the cause.
    pub prove: fn(&LookupScene<'_>, &mut Proof),
}

/// Facts about the server of a query, from other queries.
#[derive(Clone, Copy)]
pub(in crate::findings) struct ServerBehaviour {
    /// `true` if the server is a program on the client's host, so that no packet can be lost on the
    /// path.
    pub is_local: bool,
    /// `true` if the server answers other queries of the same type.
    pub answers: bool,
}

impl LookupRules {
    /// The rules of a cause that names none of its own.
    pub(super) const PLAIN: Self = Self {
        shows: |query| query.rcode.is_some_and(|rcode| rcode != 0),
        count: |_, _| 1,
        role: |_, _| Role::Resolver,
        is_wait: false,
        is_silence: false,
        prove: |scene, proof| scene.add_frames(["query", "answer"], proof),
    };
}

/// Returns the number of unanswered queries of `lookup`.
pub(super) fn unanswered_queries(lookup: &Lookup, _: &Query) -> u64 {
    lookup.queries.iter().filter(|query| query.lacks_answer()).count() as u64
}

/// Name of the number of look-ups that failed, among those with the cause.
pub(in crate::findings) const FAILED: &str = "failed";

/// Name of the number of look-ups that had an answer all the same, among those with the cause.
pub(in crate::findings) const RESOLVED: &str = "resolved";

/// Name of the number of look-ups whose server had to ask another one.
pub(in crate::findings) const FORWARDED: &str = "forwarded";

/// Name of the number of look-ups whose question their server had answered before, so lately that a cache may
/// have kept the answer.
pub(in crate::findings) const ASKED_AGAIN: &str = "asked_again";

/// Name of the number of look-ups whose question their server had answered before, longer ago than a cache
/// may keep the answer.
pub(in crate::findings) const EXPIRED: &str = "expired";

/// Name of the number of answers that came late because the server had to ask others.
pub(in crate::findings) const CACHE_MISSES: &str = "cache_misses";

/// Name of the number of look-ups whose question the same client had had answered before, so lately that a
/// cache may have kept the answer.
pub(in crate::findings) const ASKED_AGAIN_BY_CLIENT: &str = "asked_again_by_client";

/// Adds up how long answers took, and how often the server of `clearest` sent none. A server that
/// answers other types and none of this one (`is_type_silent`) drops no half of a pair by a race.
pub(in crate::findings) fn add_up(
    cause: Cause,
    lookup: &Lookup,
    clearest: &Query,
    is_type_silent: bool,
    shown: &mut Shown,
) {
    if lookup.conntrack_race_suspected && !is_type_silent {
        shown.add("pairs", 1);
    }
    shown.add("unended", u64::from(lookup.unseen_ns > 0));
    let is_estimated = lookup.unseen_ns == 0 && lookup.estimated_end_ns == Some(lookup.end_ns);
    shown.add("estimated", u64::from(is_estimated));
    // A client that looks up the name of an address continues without one.
    if matches!(lookup.outcome, LookupOutcome::Failure { .. }) && !lookup.is_reverse {
        shown.add(FAILED, 1);
    }
    if matches!(lookup.outcome, LookupOutcome::Answered | LookupOutcome::NxDomain) {
        shown.add(RESOLVED, 1);
    }
    for query in &lookup.queries {
        let silent = query.server == clearest.server && query.is_silent();
        shown.add("silent", u64::from(silent));
        let cut_short = query.server == clearest.server && query.is_cut_short();
        let begun = cut_short && query.first_fragment.is_some();
        shown.add("begun", u64::from(begun));
        shown.add("cut_short", u64::from(cut_short && !begun));
        let late = cause == Cause::DnsSlow && query.flags.is_too_late;
        shown.add("too_late", u64::from(late));
        let failed_with = |code| {
            let is_shown = cause == Cause::DnsFailure && query.server == clearest.server;
            u64::from(is_shown && query.is_failure() && query.rcode == Some(code))
        };
        shown.add("servfail", failed_with(rcode::SERVFAIL));
        shown.add("not_allowed", failed_with(rcode::REFUSED));
        // The time of answers is that of those which the sentence names: the failures of the
        // server, the one late answer of the look-up, or the answers of the next server.
        let is_same = query.server == clearest.server;
        let counts = match cause {
            Cause::DnsFailure => is_same && query.is_failure(),
            Cause::DnsSlow => std::ptr::eq(query, clearest),
            Cause::DnsTimeout => !is_same,
            _ => true,
        };
        if let Some(answered_ns) = query.answered_ns.filter(|_| counts) {
            shown.measure("answer_p50_ns", answered_ns.saturating_sub(query.sent_ns));
        }
    }
}

/// Returns whether the look-ups take most of the time. A resolver's own work is expected at a first
/// visit, and one late answer for which no connection is seen to wait is only that of an uncached
/// name.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    // If a cache had to ask another server for a name once, the name was not in the cache yet.
    let kept = case.cause.shown.count(FORWARDED) > 0;
    let seen = case.key.server != case.key.culprit.endpoint && !kept;
    let waited_for = seen || case.cause.exchanges >= 2;
    let lost_ns = case.cause.lost_ns;
    let dominates =
        case.is_broad() && case.share_of(lost_ns) >= DOMINANT_FACTOR * case.floors.fault_share;
    dominates && (waited_for || lost_ns >= UNCACHED_NS)
}

/// Facts about a query and its server, from other queries.
pub(in crate::findings) struct OtherQueries<'a> {
    /// Number of queries of the same type that its server answered.
    pub answered: u64,
    /// Number of queries of other types that its server answered.
    pub other_types: u64,
    /// The query of the server itself for whose answer it was waiting.
    pub upstream: Option<&'a Query>,
    /// Number of resolvers that the client asked, if none of them answered and the client received
    /// nothing else either.
    pub resolvers_if_isolated: Option<u64>,
    /// A quick answer of its server, or a round trip to it, was captured.
    pub is_measured: bool,
    /// Its server accepted a TCP connection.
    pub is_reached: bool,
    /// Its server answers each query for some names and none for others.
    pub by_name: Option<ByName>,
    /// Its answers offer no recursion: it is no resolver.
    pub is_authoritative: bool,
    /// Greatest length of its answers over UDP, bytes; 0 if there are none.
    pub longest_bytes: u32,
}

/// A query that shows a cause, its look-up, and facts from other queries.
pub(in crate::findings) struct LookupScene<'a> {
    /// The look-up.
    pub lookup: &'a Lookup,
    /// The query.
    pub query: &'a Query,
    /// Facts from other queries.
    pub known: &'a OtherQueries<'a>,
}

/// Returns the look-up as an instance of a cause, with the time that the cause cost it, ns.
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
        add_query(upstream, "forwarded", &mut proof);
        add_answer(upstream, "forwarded_answer", &mut proof);
        proof.add_fact("forwarder", Fact::Text(query.server.ip().to_string()));
        proof.add_fact("upstream", Fact::Text(upstream.server.ip().to_string()));
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
    /// Returns the next query of the same type, or else the next query of the look-up.
    pub(super) fn next(&self) -> Option<&'a Query> {
        let (lookup, query) = (self.lookup, self.query);
        let later = lookup.queries.iter().filter(|other| other.sent_ns > query.sent_ns);
        let same = |other: &&Query| other.qtype == query.qtype;
        later.clone().find(same).or(later.clone().next())
    }

    /// Returns whether the query was answered without a failure.
    pub(super) fn is_done(&self) -> bool {
        self.query.answered_ns.is_some() && self.query.rcode.is_none_or(|rcode| rcode == 0)
    }

    /// Adds the query and its answer, the client's next query if there was no answer, and the facts
    /// that all causes state. `parts` are the names of the frames of the query and of the answer.
    pub(super) fn add_frames(&self, parts: [&'static str; 2], proof: &mut Proof) {
        self.add_frames_with_next(
            parts,
            |next| if self.is_same(next) { "again" } else { "other" },
            proof,
        );
    }

    /// Adds the same as [`Self::add_frames`]; `part` returns the name of the frame of the client's
    /// next query.
    pub(super) fn add_frames_with_next(
        &self,
        parts: [&'static str; 2],
        part: impl Fn(&Query) -> &'static str,
        proof: &mut Proof,
    ) {
        self.add_query_and_answer(parts, proof);
        if let Some(next) = self.next().filter(|_| !self.is_done()) {
            add_query(next, part(next), proof);
            add_answer(next, "answer", proof);
        }
        self.add_common_facts(proof);
    }

    /// Returns whether `other` asks for the same name and type.
    pub(super) fn is_same(&self, other: &Query) -> bool {
        (other.qtype, other.step) == (self.query.qtype, self.query.step)
    }

    /// Adds the query and its answer under these names.
    pub(super) fn add_query_and_answer(
        &self,
        [question, answer]: [&'static str; 2],
        proof: &mut Proof,
    ) {
        let query = self.query;
        add_query(query, question, proof);
        add_answer(query, answer, proof);
        add_fragment(query, proof);
    }

    /// Adds the facts that all causes state.
    pub(super) fn add_common_facts(&self, proof: &mut Proof) {
        let query = self.query;
        let text = |endpoint: &Endpoint| Fact::Text(endpoint.ip().to_string());
        proof.add_fact("resolver", text(&query.server));
        if query.flags.is_from_windows {
            proof.add_fact("windows", Fact::Text("Windows".into()));
        }
        if query.is_cut_short() {
            proof.add_fact("fragments_of", text(&query.server));
        }
        if let Some(resolvers) = self.known.resolvers_if_isolated {
            let caller = Endpoint { address: self.lookup.client, port: 0 };
            proof.add_fact("caller", text(&caller));
            proof.add_fact("resolvers", Fact::Count(resolvers));
        }
        let repeated = self.next().filter(|next| query.lacks_answer() && self.is_same(next));
        if let Some(again) = repeated {
            let waited_ns = again.sent_ns - query.sent_ns;
            proof.add_fact("timeout_ns", Fact::Ns(waited_ns));
            if waited_ns <= RESOLVER_TIMEOUT_MIN_NS + RESOLVER_TIMEOUT_MIN_NS / ALIKE_PART {
                proof.add_fact("least_timeout", Fact::Text("the shortest timeout".into()));
            }
            if again.server != query.server && again.answered_ns.is_some() {
                proof.add_fact("next_resolver", text(&again.server));
            }
        }
    }

    /// Adds the other servers that did not answer either.
    pub(super) fn add_silent_servers(&self, proof: &mut Proof) {
        let silent = |other: &&Query| other.server != self.query.server && other.is_silent();
        let servers: std::collections::BTreeSet<_> =
            self.lookup.queries.iter().filter(silent).map(|other| other.server).collect();
        let servers: Vec<_> = servers.iter().map(|server| server.ip().to_string()).collect();
        if !servers.is_empty() {
            proof.add_fact("silent_others", Fact::Text(servers.join(", ")));
        }
    }
}

pub(super) fn add_query(query: &Query, part: &'static str, proof: &mut Proof) {
    let Query { query_frame: frame, sent_ns: time_ns, query_bytes: payload_bytes, .. } = *query;
    proof.add_frame(part, Sighting { frame, time_ns, payload_bytes, from: Side::Client });
}

/// Adds the answer to a query, or the ICMP error that came instead of one.
pub(super) fn add_answer(query: &Query, part: &'static str, proof: &mut Proof) {
    if let (Some(frame), Some(at_ns)) = (query.answer_frame, query.answered_ns) {
        let part = if query.flags.is_unreachable { "icmp" } else { part };
        let (payload_bytes, from) = (query.answer_bytes, Side::Server);
        proof.add_frame(part, Sighting { frame, time_ns: at_ns, payload_bytes, from });
    }
}

/// Adds the client's ICMP error about an answer that came when it had closed the port.
pub(super) fn add_closed_port(query: &Query, proof: &mut Proof) {
    if let Some((time_ns, frame)) = query.closed.filter(|_| query.flags.is_too_late) {
        let from = Side::Client;
        proof.add_frame("icmp", Sighting { frame, time_ns, payload_bytes: 0, from });
    }
}

/// Adds the fragment of an answer whose other fragments never came.
fn add_fragment(query: &Query, proof: &mut Proof) {
    let from = Side::Server;
    let seen = |part: &'static str, (time_ns, frame, payload_bytes)| {
        (part, Sighting { frame, time_ns, payload_bytes, from })
    };
    let later = query.later_fragment.map(|(time_ns, frame)| (time_ns, frame, 0));
    let first = query.first_fragment.map(|it| seen("beginning", it));
    let fragment = first.or(later.map(|it| seen("fragment", it)));
    if let Some((part, sighting)) = fragment.filter(|_| query.is_cut_short()) {
        proof.add_frame(part, sighting);
    }
}

/// Greatest number of messages of a look-up that are drawn.
const MESSAGES_MAX: usize = 32;

/// Returns the look-up as it is drawn before the connection that waited for it.
pub(in crate::findings) fn report(lookup: &Lookup) -> LookupReport {
    let mut messages = Vec::new();
    for query in lookup.queries.iter().take(MESSAGES_MAX / 2) {
        let (record, server) = (type_name(query.qtype), query.server.ip());
        messages.push(LookupMessage {
            time_ns: query.sent_ns,
            frame: query.query_frame,
            from: Side::Client,
            record: record.clone(),
            step: LookupStep::Query,
            server,
        });
        if let (Some(frame), Some(time_ns)) = (query.answer_frame, query.answered_ns) {
            let step = match query.flags.is_unreachable {
                true => LookupStep::Unreachable,
                false => LookupStep::Answer,
            };
            messages.push(LookupMessage {
                time_ns,
                frame,
                from: Side::Server,
                record,
                step,
                server,
            });
        }
    }
    messages.retain(|message| (lookup.start_ns..=lookup.end_ns).contains(&message.time_ns));
    messages.sort_by_key(|message| (message.time_ns, message.frame));
    LookupReport { start_ns: lookup.start_ns, end_ns: lookup.end_ns, messages }
}

/// Types without a meaning for look-ups, with their mnemonics (IANA, "Resource Record (RR) TYPEs").
const TYPES: &[(u16, &str)] = &[
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (13, "HINFO"),
    (15, "MX"),
    (16, "TXT"),
    (29, "LOC"),
    (33, "SRV"),
    (35, "NAPTR"),
    (37, "CERT"),
    (39, "DNAME"),
    (43, "DS"),
    (44, "SSHFP"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (50, "NSEC3"),
    (52, "TLSA"),
    (53, "SMIMEA"),
    (61, "OPENPGPKEY"),
    (64, "SVCB"),
    (99, "SPF"),
    (251, "IXFR"),
    (252, "AXFR"),
    (255, "ANY"),
    (256, "URI"),
    (257, "CAA"),
];

/// Types whose records are often longer than a packet carries: TXT, and keys and signatures (RFC 4034 §2, §3).
/// ANY asks for all of them.
const LONG_TYPES: [u16; 4] = [16, 46, 48, 255];

/// Returns whether answers of this type are often longer than a packet carries.
pub(super) fn is_long_type(qtype: u16) -> bool {
    LONG_TYPES.contains(&qtype)
}

/// Returns the mnemonic of a query type, or its form in RFC 3597 §5 if it has none.
pub(crate) fn type_name(qtype: u16) -> String {
    match qtype {
        qtype::A => "A".into(),
        qtype::AAAA => "AAAA".into(),
        qtype::PTR => "PTR".into(),
        qtype::HTTPS => "HTTPS".into(),
        other => TYPES
            .iter()
            .find(|(number, _)| *number == other)
            .map_or_else(|| format!("TYPE{other}"), |(_, name)| (*name).into()),
    }
}

/// Returns the mnemonic of a response code (RFC 1035 §4.1.1).
pub(crate) fn rcode_name(rcode: u8) -> String {
    match rcode {
        rcode::FORMERR => "FORMERR".into(),
        rcode::SERVFAIL => "SERVFAIL".into(),
        4 => "NOTIMP".into(),
        rcode::REFUSED => "REFUSED".into(),
        other => format!("RCODE {other}"),
    }
}
