//! One look-up as seen by its application, and the division of its waiting time.

mod spans;

use crate::capture::FrameId;
use crate::dns::at_once;
use crate::dns::thresholds::{
    BASELINE_MAX_NS, NEARBY_CACHE_NS, QUERY_RETRY_MIN_NS, RESOLVER_TIMEOUT_MIN_NS, SEQUEL_MAX_NS,
    SLOW_FACTOR, SLOW_MIN_NS,
};
use crate::model::Cause;
use crate::wire::Endpoint;
use crate::wire::dns_message::{qtype, rcode};
pub(super) use spans::chain_end_ns;
use spans::{
    Span, attribute_to_missing_answer, attribute_to_search, chain_spans, healthy_times,
    needed_until_ns,
};

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum LookupOutcome {
    /// It was answered; without addresses if the name has no record of the requested types.
    Answered,
    /// The name does not exist.
    NxDomain,
    /// Every server failed or refused.
    Failure {
        /// The last response code; `None` if the port was closed.
        rcode: Option<u8>,
    },
    /// No answer came.
    Timeout,
}

/// Properties of a [`Query`] besides its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct QueryFlags {
    /// The answer to the query, or that to the other query of its pair, was too large for a
    /// datagram (TC), so that the query is repeated over TCP.
    pub is_truncated: bool,
    /// An ICMP error came in place of an answer: the server's host reported that its port is closed, or
    /// [`Query::router`] that it does not pass the query on.
    pub is_unreachable: bool,
    /// The answer contains at least one record.
    pub has_answers: bool,
    /// The query was sent over TCP.
    pub over_tcp: bool,
    /// The client repeated the query although its answer was captured: the answer did not arrive.
    pub asked_again: bool,
    /// The answer came when the client had closed the port of the query (its ICMP error).
    pub is_too_late: bool,
    /// The answer came sooner than any resolver stops waiting, and the client had closed the port of the
    /// query all the same (its ICMP error): it had no use for the answer.
    pub is_unread: bool,
    /// It does not ask for recursion (RFC 1035 §4.1.1: RD is not set).
    pub is_iterative: bool,
    /// The answer offers no recursion (RFC 1035 §4.1.1: RA is not set): its server is no resolver.
    pub lacks_recursion: bool,
    /// Its TTL is one that only Windows' initial 128 leaves: other systems begin with 64 or 255.
    pub is_from_windows: bool,
}

/// An answer from another address than its query went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Foreign {
    /// That address.
    pub address: [u8; 16],
    /// The client's host did not take the answer.
    pub is_refused: bool,
}

/// One query of a look-up.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Query {
    /// The name server.
    pub server: Endpoint,
    /// The client's port.
    pub client_port: u16,
    /// The query type, see [`qtype`].
    pub qtype: u16,
    /// Index of the name in the look-up's search series, from 0.
    pub step: u16,
    /// Time at which the query was captured, ns.
    pub sent_ns: u64,
    /// Time at which the answer, or an ICMP error in its place, was captured, ns.
    pub answered_ns: Option<u64>,
    /// RCODE of the answer.
    pub rcode: Option<u8>,
    /// Time of the fastest earlier answer of this server, ns, if there was one.
    pub baseline_ns: Option<u64>,
    /// Frame of the query.
    pub query_frame: FrameId,
    /// Payload of that frame, bytes.
    pub query_bytes: u32,
    /// Frame of the answer.
    pub answer_frame: Option<FrameId>,
    /// Payload of that frame, bytes; 0 for an ICMP error.
    pub answer_bytes: u32,
    /// How long a cache may keep the answer, s, as far as it says so.
    pub ttl_s: Option<u32>,
    /// Time and frame of a later IP fragment of the answer, whose first fragment never came.
    pub later_fragment: Option<(u64, FrameId)>,
    /// Time, frame and payload of the first IP fragment of the answer, whose rest never came.
    pub first_fragment: Option<(u64, FrameId, u32)>,
    /// Time and frame of the segment or the ICMP error by which the client closed its end without
    /// the answer: the TCP connection before an answer came, or the port when it came too late.
    pub closed: Option<(u64, FrameId)>,
    /// An answer from another address than the query went to.
    pub foreign: Option<Box<Foreign>>,
    /// The host on the way that did not pass the query on, as its ICMP error says (RFC 1812 §5.2.7.1).
    pub router: Option<Box<Endpoint>>,
    /// Further properties.
    pub flags: QueryFlags,
}

impl Query {
    /// Returns whether the query has a conclusive answer: the name exists or does not exist.
    pub fn is_conclusive(&self) -> bool {
        let decides = matches!(self.rcode, Some(rcode::NOERROR | rcode::NXDOMAIN));
        decides && !self.flags.is_truncated && !self.flags.asked_again
    }

    /// Returns whether the server failed, refused, or was unreachable.
    pub fn is_failure(&self) -> bool {
        let QueryFlags { is_truncated, asked_again, .. } = self.flags;
        self.answered_ns.is_some() && !self.is_conclusive() && !is_truncated && !asked_again
    }

    /// Returns whether an answer to the query was captured.
    pub fn is_answered(&self) -> bool {
        self.answered_ns.is_some() && !self.flags.is_unreachable
    }

    /// Takes the answer back: it came from another address than the query went to, and the client's host
    /// refused it, since a program takes answers of the server that it asked only (RFC 5452 §9.1).
    pub(super) fn take_back(&mut self) {
        self.foreign.iter_mut().for_each(|foreign| foreign.is_refused = true);
        (self.answered_ns, self.answer_frame, self.rcode) = (None, None, None);
        (self.answer_bytes, self.ttl_s) = (0, None);
        (self.flags.has_answers, self.flags.is_truncated) = (false, false);
    }

    /// Returns the other address from which an answer came that the client's host refused.
    pub fn refused(&self) -> Option<[u8; 16]> {
        self.foreign.as_ref().filter(|foreign| foreign.is_refused).map(|foreign| foreign.address)
    }

    /// Returns whether the client never received an answer to the query.
    pub fn lacks_answer(&self) -> bool {
        self.answered_ns.is_none() || self.flags.asked_again
    }

    /// Returns whether not even a part of an answer was captured.
    pub fn is_silent(&self) -> bool {
        self.lacks_answer() && !self.is_answered() && !self.is_cut_short()
    }

    /// Returns whether only a part of the answer was captured, because IP fragments of it were
    /// lost.
    pub fn is_cut_short(&self) -> bool {
        let has_part = self.later_fragment.is_some() || self.first_fragment.is_some();
        has_part && self.answered_ns.is_none()
    }

    /// Returns whether the answer contains at least one record.
    pub(super) fn is_positive(&self) -> bool {
        self.is_conclusive() && self.flags.has_answers
    }

    /// Returns the time that the answer should have taken, ns, if it took too long: the server's
    /// baseline, or `fair_ns` if there is no valid one.
    fn exceeded_baseline_ns(&self, fair_ns: u64) -> Option<u64> {
        let taken_ns = self.answered_ns?.saturating_sub(self.sent_ns);
        let shown_ns = self.baseline_ns.filter(|&fastest_ns| fastest_ns <= BASELINE_MAX_NS);
        let baseline_ns = shown_ns.unwrap_or(fair_ns);
        let is_slow = taken_ns >= SLOW_MIN_NS && taken_ns >= SLOW_FACTOR * baseline_ns;
        is_slow.then_some(baseline_ns)
    }
}

/// One look-up of an application, such as a call of `getaddrinfo`, for which the application
/// waited.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Lookup {
    /// The client's address, IPv4-mapped for IPv4.
    pub client: [u8; 16],
    /// The last name queried, if names are kept.
    pub name: Option<String>,
    /// Hash of that name, which is recorded even if names are not kept: look-ups of one name have
    /// the same hash.
    pub digest: u64,
    /// The query types, in order.
    pub qtypes: Vec<u16>,
    /// Time of the first query, ns.
    pub start_ns: u64,
    /// Time at which the last part was answered or given up, ns.
    pub end_ns: u64,
    /// The result.
    pub outcome: LookupOutcome,
    /// The first 16 addresses in the answers.
    pub addresses: Vec<[u8; 16]>,
    /// All queries, in the order sent.
    pub queries: Vec<Query>,
    /// `true` if it queries the name of an address.
    pub is_reverse: bool,
    /// `true` if that address is a private or local one.
    pub is_private: bool,
    /// It asks for a domain to browse or to register services in (RFC 6763 §11): an operating system does that
    /// by itself, and nothing waits for it.
    pub is_background: bool,
    /// Number of names tried without success before the last one.
    pub search_steps: u16,
    /// `true` if it was sent by a name server for its clients: no application waits for it
    /// directly.
    pub by_resolver: bool,
    /// Part of the last wait that lies after the end of the capture, ns, estimated from the wait
    /// before.
    pub unseen_ns: u64,
    /// End of the last wait if no packet shows it, ns: it is as long as the wait before, or as the
    /// client's timeout.
    pub estimated_end_ns: Option<u64>,
    /// Time until which the capture was searched for answers, ns.
    pub watched_until_ns: u64,
    /// The client was seen neither to repeat its query nor to wait before it began something else:
    /// it gave up, was terminated, or the capture ended before that.
    pub is_abandoned: bool,
    /// The capture ended before any client would have repeated the last query.
    pub ends_with_capture: bool,
    /// Packets between the client and a server of the look-up are missing in the capture: answers came whose
    /// queries it does not have.
    pub lacks_packets: bool,
    /// Exactly one of an A and an AAAA query that were sent together from one port was answered:
    /// the sign of two packets racing in connection tracking.
    pub conntrack_race_suspected: bool,
}

/// Facts from outside a look-up that decide how long its client waited for answers that did not
/// come.
#[derive(Clone)]
pub(super) struct LookupContext {
    /// End of the time that the capture covers, ns.
    pub seen_ns: u64,
    /// Time at which the client began something else, if that was captured, ns.
    pub next_lookup_ns: Option<u64>,
    /// The client's timeout, ns.
    pub timeout_ns: u64,
    /// No server that the client queried has ever answered any client.
    pub is_silent: bool,
}

impl Lookup {
    /// Returns whether no query asks for recursion (RFC 1035 §4.1.1: RD is not set), so that it is of a
    /// resolver or a tool, and nothing shows that anybody waited: a query without an answer that was repeated
    /// and answered then was waited for.
    pub fn is_of_tool(&self) -> bool {
        let is_answered = |it: &Query| it.answered_ns.is_some();
        let waited = self.queries.first().is_some_and(|it| !is_answered(it))
            && self.queries.iter().any(is_answered);
        self.queries.iter().all(|it| it.flags.is_iterative) && !waited
    }

    /// Divides `end_ns - start_ns` exactly into the time lost to each cause and, with `None`, the
    /// time of a healthy look-up. The latter is at least the round trip from the vantage to the
    /// server, `rtt_ns` if known, and from the client to the vantage, `unseen_ns`. Causes without
    /// time are included with 0.
    pub fn split(&self, rtt_ns: Option<u64>, unseen_ns: u64) -> [(Option<Cause>, u64); 5] {
        let fair = |rtt_ns: u64| rtt_ns.min(self.quickest_ns()) + unseen_ns;
        let fair_ns = rtt_ns.map_or(NEARBY_CACHE_NS, fair);
        let timeout = if self.is_reverse { Cause::ReverseDnsTimeout } else { Cause::DnsTimeout };
        let mut split = [
            (None, 0),
            (Some(timeout), 0),
            (Some(Cause::DnsSearch), 0),
            (Some(Cause::DnsFailure), 0),
            (Some(Cause::DnsSlow), 0),
        ];
        let mut rest_ns = self.end_ns - self.start_ns;
        for (from_ns, to_ns, cause) in self.spans(timeout, fair_ns) {
            let slot = split.iter_mut().find(|(slot, _)| *slot == cause);
            let taken_ns = to_ns.saturating_sub(from_ns).min(rest_ns);
            if let Some((_, sum_ns)) = slot {
                *sum_ns += taken_ns;
                rest_ns -= taken_ns;
            }
        }
        split[0].1 += rest_ns;
        let [(_, healthy_ns), lost @ ..] = &mut split;
        if let Some((_, most_ns)) = lost.iter_mut().max_by_key(|(_, ns)| *ns) {
            let missing_ns = fair_ns.saturating_sub(*healthy_ns).min(*most_ns);
            *healthy_ns += missing_ns;
            *most_ns -= missing_ns;
        }
        split
    }

    /// Releases memory that it does not need any more.
    pub(super) fn release_spare(&mut self) {
        self.qtypes.shrink_to_fit();
        self.addresses.shrink_to_fit();
        self.queries.shrink_to_fit();
    }

    /// Returns the time of the quickest answer, ns. It is an upper bound of the round trip to this
    /// server, since `rtt_ns` may be that of another host in the server's network.
    fn quickest_ns(&self) -> u64 {
        let answered = self.queries.iter().filter_map(|it| Some((it.answered_ns?, it.sent_ns)));
        answered.map(|(to_ns, from_ns)| to_ns.saturating_sub(from_ns)).min().unwrap_or(u64::MAX)
    }

    /// Returns the spans, without overlap, of the chain of queries that was waited for.
    fn spans(&self, timeout: Cause, fair_ns: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        let last = self.queries.last().map_or(0, |query| query.step);
        let is_search = self.hit().is_some();
        for step in 0..=last {
            let of_step = |query: &&Query| query.step == step;
            let Some(first) = self.queries.iter().find(of_step) else {
                continue;
            };
            let next = self.queries.iter().find(|query| query.step > step);
            let end_ns = next.map_or(self.end_ns, |query| query.sent_ns).min(self.end_ns);
            let mut inner = self.step_spans(step, end_ns, timeout, fair_ns);
            if next.is_some() {
                inner
                    .iter_mut()
                    .for_each(|span| attribute_to_missing_answer(span, end_ns, timeout));
            }
            if is_search && next.is_some() && self.is_missing(step) {
                attribute_to_search(&mut inner, first.sent_ns, end_ns);
            }
            spans.append(&mut inner);
        }
        spans
    }

    /// Returns whether the client went on at `at_ns` by the address of `server`, which an answer had just
    /// brought, while another answer was still to come: nobody waited for that (RFC 8305 §3).
    pub fn was_left_at(&self, at_ns: u64, server: Endpoint) -> bool {
        let family = if server.ip().is_ipv4() { qtype::A } else { qtype::AAAA };
        let brings = |query: &Query| {
            let pause_ns = query.answered_ns.and_then(|it| at_ns.checked_sub(it));
            let is_just_now = pause_ns.is_some_and(|ns| ns <= SEQUEL_MAX_NS);
            query.qtype == family && query.is_positive() && is_just_now
        };
        self.queries.iter().any(brings) && self.queries.iter().all(|it| it.sent_ns < at_ns)
    }

    /// Ends the look-up with the last answer until `at_ns`, when its client went on.
    pub fn leave_at(&mut self, at_ns: u64) {
        self.queries.retain(|query| query.answered_ns.is_none_or(|it| it <= at_ns));
        let answers_ns = self.queries.iter().filter_map(|query| query.answered_ns);
        self.end_ns = answers_ns.max().unwrap_or(at_ns).max(self.start_ns);
        self.estimated_end_ns = None;
    }

    /// Removes the queries for whose answers the client had no use: it did not repeat them either. Returns
    /// whether nothing is left.
    pub fn drop_unread(&mut self) -> bool {
        let all = self.queries.len();
        let question = |query: &Query| (query.step, query.qtype);
        let asked: Vec<_> = self.queries.iter().map(question).collect();
        self.queries.retain(|query| {
            let times = asked.iter().filter(|it| **it == question(query)).count();
            !(query.flags.is_unread && times == 1)
        });
        if self.queries.len() < all
            && let Some(end_ns) = self.queries.iter().filter_map(|it| it.answered_ns).max()
        {
            self.end_ns = end_ns.min(self.end_ns);
        }
        self.queries.is_empty()
    }

    /// Returns the first query for the last name that was answered with a record: names tried before
    /// it were tried without need. `None` if no name has a record.
    pub fn hit(&self) -> Option<&Query> {
        self.last_step().find(|query| query.is_positive())
    }

    /// Returns the queries for the last name.
    pub fn last_step(&self) -> impl Iterator<Item = &Query> {
        let last = self.queries.last().map_or(0, |query| query.step);
        self.queries.iter().filter(move |query| query.step == last)
    }

    /// Returns whether the name of a step does not exist, according to an answer.
    pub fn is_missing(&self, step: u16) -> bool {
        let mut queries = self.queries.iter();
        queries.any(|query| query.step == step && query.rcode == Some(rcode::NXDOMAIN))
    }

    /// Returns the spans of one step, latest first: each moment belongs to the query type whose
    /// answer was outstanding, the one answered last first.
    fn step_spans(&self, step: u16, end_ns: u64, timeout: Cause, fair_ns: u64) -> Vec<Span> {
        let mut chains: Vec<(u64, Vec<&Query>)> = Vec::new();
        for &qtype in &self.qtypes {
            let attempts: Vec<_> = self.attempts(step, qtype).collect();
            if !attempts.is_empty() {
                chains.push((chain_end_ns(&attempts).unwrap_or(end_ns).min(end_ns), attempts));
            }
        }
        chains.sort_by_key(|(chain_end_ns, _)| std::cmp::Reverse(*chain_end_ns));
        let healthy = healthy_times(&chains, timeout, fair_ns);
        let mut spans = Vec::new();
        let mut open_until_ns = end_ns;
        for (chain_end_ns, attempts) in chains {
            let limit_ns = open_until_ns.min(chain_end_ns);
            let own = chain_spans(&attempts, chain_end_ns, timeout, fair_ns);
            let needed_ns = needed_until_ns(&own, &healthy);
            for (from_ns, to_ns, cause) in own {
                let to_ns = to_ns.min(limit_ns);
                let lost_from_ns = match cause {
                    Some(_) => needed_ns.clamp(from_ns, to_ns.max(from_ns)),
                    None => from_ns,
                };
                spans.push((from_ns, lost_from_ns, None));
                spans.push((lost_from_ns, to_ns, cause));
            }
            open_until_ns = open_until_ns.min(attempts[0].sent_ns);
        }
        spans.retain(|(from_ns, to_ns, _)| from_ns < to_ns);
        spans
    }

    pub(super) fn attempts(
        &self,
        step: u16,
        qtype: u16,
    ) -> impl DoubleEndedIterator<Item = &Query> {
        self.queries.iter().filter(move |query| query.step == step && query.qtype == qtype)
    }

    /// Returns whether the last queries were not repeated within `wait_ns` although they were not
    /// answered.
    pub(super) fn was_asked_once(&self, wait_ns: u64, now_ns: u64) -> bool {
        let step = self.queries.last().map_or(0, |query| query.step);
        let last_ns = self.queries.last().map_or(0, |query| query.sent_ns);
        let times =
            |qtype| at_once::attempts(&self.attempts(step, qtype).collect::<Vec<_>>()).len();
        let once = self.qtypes.iter().all(|&qtype| times(qtype) <= 1);
        let silent = self.queries.iter().any(|it| it.step == step && it.answered_ns.is_none());
        once && silent && now_ns.saturating_sub(last_ns) > wait_ns
    }

    /// Sets the end, the outcome and the suspected race once the look-up is over.
    pub(super) fn conclude(&mut self, known: &LookupContext) {
        let last = self.queries.last().map_or(0, |query| query.step);
        self.search_steps = last;
        let mut ends_ns = Vec::new();
        let mut given_up = false;
        for &qtype in &self.qtypes {
            let attempts: Vec<_> = self.attempts(last, qtype).collect();
            if attempts.is_empty() {
                continue;
            }
            match chain_end_ns(&attempts) {
                Some(end_ns) => ends_ns.push(end_ns),
                // A single query that was not repeated was not waited for if another type was
                // answered.
                None => given_up |= at_once::attempts(&attempts).len() > 1,
            }
        }
        let answered_ns = ends_ns.iter().max().copied();
        self.end_ns = match answered_ns {
            Some(end_ns) if !given_up => end_ns,
            _ => {
                let next_lookup_ns = known.next_lookup_ns.unwrap_or(u64::MAX);
                let waits_on = known.is_silent && self.is_last_query_a_repetition();
                let seen_ns = if waits_on { u64::MAX } else { known.seen_ns };
                let shown_ns = self.closed_ns(last).unwrap_or(u64::MAX);
                let shown_ns = shown_ns.min(next_lookup_ns).min(seen_ns);
                let estimated_ns = self.given_up_ns(last, known.timeout_ns);
                self.estimated_end_ns = Some(estimated_ns).filter(|&ns| ns < shown_ns);
                estimated_ns.min(shown_ns)
            }
        };
        self.end_ns = self.end_ns.max(answered_ns.unwrap_or(0)).max(self.start_ns);
        self.watched_until_ns = known.seen_ns;
        self.unseen_ns = self.end_ns.saturating_sub(known.seen_ns.max(self.start_ns));
        self.outcome = self.final_outcome(last);
        self.conntrack_race_suspected = self.has_lone_half();
    }

    /// Returns the time at which the client gave up: one more retry interval after its last query.
    fn given_up_ns(&self, step: u16, timeout_ns: u64) -> u64 {
        let times_ns: Vec<_> =
            self.queries.iter().filter(|q| q.step == step).map(|q| q.sent_ns).collect();
        let (first, last) = (times_ns.first(), times_ns.last());
        let waits_ns = times_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        // The other query of a pair is not a retry.
        let interval_ns = waits_ns.rev().find(|&wait_ns| wait_ns >= SLOW_MIN_NS);
        let base_ns = last.or(first).copied().unwrap_or(self.start_ns);
        base_ns.saturating_add(interval_ns.unwrap_or(timeout_ns))
    }

    /// Returns the time at which the client had closed every TCP connection on which a query of a
    /// step was not answered; `None` if it still could wait.
    fn closed_ns(&self, step: u16) -> Option<u64> {
        let waited_for = self.queries.iter().filter(|it| it.step == step && it.lacks_answer());
        let closed_ns = waited_for.map(|it| it.closed.map(|(time_ns, _)| time_ns));
        closed_ns.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Returns whether the client closed its TCP connections sooner than any timeout ends, so that
    /// their server had no time to answer.
    pub fn is_cut_off(&self) -> bool {
        let is_early = |query: &Query| {
            query.closed.is_some_and(|(closed_ns, _)| {
                closed_ns.saturating_sub(query.sent_ns) < RESOLVER_TIMEOUT_MIN_NS
            })
        };
        self.outcome == LookupOutcome::Timeout && self.queries.iter().all(is_early)
    }

    /// Returns whether the last query had been sent to the same server before and not been answered
    /// for a whole wait. The client then waits at least as long again (the `timeout` of
    /// resolv.conf(5) applies to each attempt; other libraries wait longer each time).
    fn is_last_query_a_repetition(&self) -> bool {
        let Some(last) = self.queries.last() else { return false };
        let mut before = self.attempts(last.step, last.qtype).filter(|it| it.server == last.server);
        before.any(|it| it.lacks_answer() && last.sent_ns.saturating_sub(it.sent_ns) >= SLOW_MIN_NS)
    }

    fn final_outcome(&self, step: u16) -> LookupOutcome {
        let of_step = || self.queries.iter().filter(|query| query.step == step);
        let failure = of_step().rev().find(|query| query.is_failure());
        if of_step().any(|query| query.rcode == Some(rcode::NOERROR)) {
            LookupOutcome::Answered
        } else if of_step().any(|query| query.rcode == Some(rcode::NXDOMAIN)) {
            LookupOutcome::NxDomain
        } else if let Some(failure) = failure {
            LookupOutcome::Failure { rcode: failure.rcode }
        } else {
            LookupOutcome::Timeout
        }
    }

    /// Returns whether no answer came, but one may still come after the capture: its server has
    /// taken `slowest_ns` for another answer, and the first query is not older than that.
    pub fn may_still_be_answered(&self, slowest_ns: impl Fn(Endpoint) -> Option<u64>) -> bool {
        let first = self.queries.iter().find(|query| query.is_silent());
        self.outcome == LookupOutcome::Timeout
            && first.is_some_and(|query| {
                let age_ns = self.watched_until_ns.saturating_sub(query.sent_ns);
                slowest_ns(query.server).is_some_and(|slowest_ns| age_ns <= slowest_ns)
            })
    }

    fn has_lone_half(&self) -> bool {
        // musl sends both queries to every server at the same time: a server that is down is no
        // race.
        let only_two = |one: &Query| {
            let together = |it: &&Query| it.sent_ns.abs_diff(one.sent_ns) < QUERY_RETRY_MIN_NS;
            self.queries.iter().filter(together).count() == 2
        };
        let is_pair = |one: &Query, other: &Query| {
            one.qtype == qtype::A
                && other.qtype == qtype::AAAA
                && one.client_port == other.client_port
                && (one.server == other.server || only_two(one))
                && one.step == other.step
                && one.sent_ns.abs_diff(other.sent_ns) < QUERY_RETRY_MIN_NS
                && one.answered_ns.is_some() != other.answered_ns.is_some()
        };
        let races = |one: &Query, other: &Query| {
            is_pair(one, other)
                && !self.leaves_lone_queries_unanswered(if one.is_answered() { other } else { one })
        };
        self.queries.iter().any(|one| self.queries.iter().any(|other| races(one, other)))
    }

    /// Returns whether the server of `query` left a query of this type unanswered that was sent
    /// alone, and so could not take part in a race: no query of another type was under way at that
    /// time, and none was sent right behind it.
    pub fn leaves_lone_queries_unanswered(&self, query: &Query) -> bool {
        let is_beside = |other: &Query, it: &Query| match other.sent_ns.checked_sub(it.sent_ns) {
            Some(behind_ns) if behind_ns > 0 => behind_ns < QUERY_RETRY_MIN_NS,
            _ => other.answered_ns.is_none_or(|answer_ns| answer_ns > it.sent_ns),
        };
        let is_alone = |it: &Query| {
            let mut others = self.queries.iter().filter(|other| other.qtype != it.qtype);
            !others.any(|other| is_beside(other, it))
        };
        let alike = self.attempts(query.step, query.qtype).filter(|it| it.server == query.server);
        alike.filter(|it| it.answered_ns.is_none()).any(is_alone)
    }
}
