//! Assigns queries to look-ups.

mod again;
mod fragments;
mod late;
mod names;

use super::lookup::{Lookup, LookupOutcome, Query, chain_end_ns};
use crate::capture::FrameId;
use crate::dns::thresholds::{
    QUERY_RETRY_MIN_NS, RESOLVER_TIMEOUT_MIN_NS, SEQUEL_MAX_NS, SILENCE_MAX_NS,
};
use crate::judge::thresholds::ALIKE_PART;
use crate::wire::Endpoint;
use crate::wire::dns_message::{Answer, Message, qtype};
use fragments::{FirstFragment, LaterFragment};
use names::{is_extended, is_next_name};
use std::hash::{DefaultHasher, Hasher};

const QUERIES_MAX: usize = 64;
const ADDRESSES_MAX: usize = 16;

/// A query not yet assigned to a look-up.
pub(super) struct NewQuery<'a> {
    pub query: Query,
    pub id: u16,
    pub name: &'a str,
}

/// A look-up in progress.
#[derive(Clone)]
pub(super) struct Open {
    pub lookup: Lookup,
    /// The name queried last.
    name: String,
    /// Identifier of each query of the look-up.
    ids: Vec<u16>,
    /// Answers whose first fragment was captured and whose rest is missing.
    first_fragments: Vec<FirstFragment>,
    /// Later IP fragments of datagrams whose first fragment is missing.
    later_fragments: Vec<LaterFragment>,
    last_activity_ns: u64,
    /// Time at which the client queried the same name and type in another look-up, although its
    /// timeout for this one is unknown.
    pub superseded_ns: Option<u64>,
    /// Time at which the client next began another look-up, ns.
    pub next_lookup_ns: Option<u64>,
}

/// The relation of a query to a look-up that it continues; earlier values take precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// The same packet, captured twice.
    Duplicate,
    /// A query from the same socket as earlier ones.
    SameSocket,
    /// The other type or a repetition, from another socket.
    SameName,
    /// The next name of a search list.
    NextName,
}

/// Returns whether the name belongs to a private or local address (RFC 1918, RFC 3927, RFC 4193,
/// RFC 4291), whose reverse zone no public server has.
fn is_private(name: &str) -> bool {
    let mut labels = name.trim_end_matches('.').rsplit('.').skip(1);
    let family = labels.next().unwrap_or_default();
    let first = labels.next().unwrap_or_default();
    let second = labels.next().unwrap_or_default();
    match (family, first) {
        ("in-addr", "10" | "127") => true,
        ("in-addr", "172") => second.parse().is_ok_and(|byte: u8| (16..32).contains(&byte)),
        ("in-addr", "192") => second == "168",
        ("in-addr", "169") => second == "254",
        ("ip6", "f") => matches!(second, "c" | "d") || second == "e" && labels.next() == Some("8"),
        _ => false,
    }
}

/// Returns whether the name is one under which the domains are found in which services are browsed or
/// registered (RFC 6763 §11).
fn is_browse_domain(name: &str) -> bool {
    let mut labels = name.split('.');
    let is = |label: Option<&str>, names: &[&str]| {
        label.is_some_and(|label| names.iter().any(|name| label.eq_ignore_ascii_case(name)))
    };
    is(labels.next(), &["b", "db", "lb", "r", "dr"])
        && is(labels.next(), &["_dns-sd"])
        && is(labels.next(), &["_udp"])
}

impl Open {
    pub fn new(client: &Endpoint, asked: NewQuery<'_>, keep_name: bool) -> Self {
        let query = asked.query;
        let is_reverse = query.qtype == qtype::PTR && asked.name.ends_with(".arpa");
        let lookup = Lookup {
            client: client.address,
            name: keep_name.then(|| asked.name.to_owned()),
            digest: digest(asked.name),
            qtypes: vec![query.qtype],
            start_ns: query.sent_ns,
            end_ns: query.sent_ns,
            outcome: LookupOutcome::Timeout,
            addresses: Vec::new(),
            is_reverse,
            is_private: is_reverse && is_private(asked.name),
            is_background: query.qtype == qtype::PTR && is_browse_domain(asked.name),
            search_steps: 0,
            by_resolver: false,
            unseen_ns: 0,
            estimated_end_ns: None,
            watched_until_ns: 0,
            is_abandoned: false,
            ends_with_capture: false,
            lacks_packets: false,
            conntrack_race_suspected: false,
            queries: Vec::new(),
        };
        let last_activity_ns = query.sent_ns;
        let (name, ids, first_fragments) = (asked.name.to_owned(), Vec::new(), Vec::new());
        let mut open = Self {
            lookup,
            name,
            ids,
            first_fragments,
            later_fragments: Vec::new(),
            last_activity_ns,
            superseded_ns: None,
            next_lookup_ns: None,
        };
        open.ids.push(asked.id);
        open.lookup.queries.push(query);
        open
    }

    fn step(&self) -> u16 {
        self.lookup.queries.last().map_or(0, |query| query.step)
    }

    /// The name queried last.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn attempts(&self, qtype: u16) -> impl DoubleEndedIterator<Item = &Query> {
        self.lookup.attempts(self.step(), qtype)
    }

    /// Returns whether every query type of the last step has its answer.
    pub fn is_settled(&self) -> bool {
        self.lookup.qtypes.iter().all(|&qtype| {
            let attempts: Vec<_> = self.attempts(qtype).collect();
            attempts.is_empty() || chain_end_ns(&attempts).is_some()
        })
    }

    /// Returns whether the look-up is over at `now_ns`: not even a repeated query is expected.
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_activity_ns) > SILENCE_MAX_NS
    }

    /// Returns whether the client has its answers, as captured, and does not continue the look-up.
    fn is_done(&self, now_ns: u64) -> bool {
        let silence_ns = now_ns.saturating_sub(self.last_activity_ns);
        silence_ns > SEQUEL_MAX_NS && self.is_settled()
    }

    /// Returns the query that `asked` repeats with the same identifier and socket after a timeout.
    /// A client that has received the answer does not do that.
    fn repeated_by(&self, asked: &NewQuery<'_>) -> Option<usize> {
        let query = &asked.query;
        let same = |(earlier, id): (&Query, &u16)| {
            *id == asked.id
                && earlier.client_port == query.client_port
                && earlier.server == query.server
                && earlier.qtype == query.qtype
                && earlier.flags.over_tcp == query.flags.over_tcp
        };
        let at = self.lookup.queries.iter().zip(&self.ids).rposition(same)?;
        let waited_ns = query.sent_ns.saturating_sub(self.lookup.queries[at].sent_ns);
        (self.name == asked.name && is_timeout(waited_ns)).then_some(at)
    }

    /// Returns whether a query for this name and type waits for its answer.
    pub fn awaits(&self, name: &str, qtype: u16) -> bool {
        self.name == name
            && self.attempts(qtype).next_back().is_some_and(|query| query.answered_ns.is_none())
    }

    /// Returns how `asked` continues this look-up; `None` if it does not.
    pub fn fit(&self, asked: &NewQuery<'_>) -> Option<Fit> {
        let query = &asked.query;
        let is_other = self.name != asked.name;
        if is_other && !is_next_name(&self.name, asked.name)
            || self.is_over(query.sent_ns)
            || self.lookup.queries.len() >= QUERIES_MAX
        {
            return None;
        }
        if self.is_done(query.sent_ns) {
            return self.repeated_by(asked).map(|_| Fit::SameSocket);
        }
        if is_other {
            // The search does not continue if the name exists without the requested type, and a
            // name that only begins alike is another one. It does continue after a failure.
            let step = self.step();
            let missing = self.lookup.is_missing(step) || step > 0 && self.has_failed();
            let fits = self.has_no_records() && (missing || is_extended(asked.name, &self.name));
            return (fits && self.lookup.qtypes.contains(&query.qtype)).then_some(Fit::NextName);
        }
        let same_socket = self.lookup.queries.iter().any(|q| q.client_port == query.client_port);
        let fit = if same_socket { Fit::SameSocket } else { Fit::SameName };
        let Some(last) = self.attempts(query.qtype).next_back() else {
            let pairs = |qtype| matches!(qtype, qtype::A | qtype::AAAA | qtype::HTTPS);
            let is_part = pairs(query.qtype) && self.lookup.qtypes.iter().all(|&q| pairs(q));
            return is_part.then_some(fit);
        };
        let waited_ns = query.sent_ns.saturating_sub(last.sent_ns);
        let same_query = last.client_port == query.client_port
            && self.ids_of(query.qtype).any(|id| id == asked.id)
            && last.flags.over_tcp == query.flags.over_tcp;
        let is_quick = waited_ns < QUERY_RETRY_MIN_NS;
        match last.answered_ns {
            // The same query to another server is no second capture of the packet.
            None if is_quick && same_query && !self.was_sent_before(query) => Some(fit),
            None if waited_ns >= QUERY_RETRY_MIN_NS => self.asks_again(asked, last).then_some(fit),
            _ if same_query && is_quick && !last.is_failure() => Some(Fit::Duplicate),
            None => None,
            Some(_) if last.is_failure() => self.asks_again(asked, last).then_some(fit),
            Some(_) if last.flags.is_truncated => Some(fit),
            // If one answer was truncated, the query for the other type is repeated over TCP as
            // well.
            Some(_) if query.flags.over_tcp && !last.flags.over_tcp && self.is_truncated() => {
                Some(fit)
            }
            // Libraries repeat both queries of a pair when one of them remains unanswered.
            Some(_) => {
                let repeats =
                    same_socket && waited_ns >= QUERY_RETRY_MIN_NS || is_timeout(waited_ns);
                let goes_on = !self.is_settled() && self.asks_again(asked, last);
                (repeats && (same_query || goes_on)).then_some(fit)
            }
        }
    }

    /// Returns whether the same query was sent to the server of `query` just before.
    fn was_sent_before(&self, query: &Query) -> bool {
        self.attempts(query.qtype).any(|earlier| {
            earlier.server == query.server
                && query.sent_ns.saturating_sub(earlier.sent_ns) < QUERY_RETRY_MIN_NS
        })
    }

    /// Returns whether an answer was truncated.
    fn is_truncated(&self) -> bool {
        self.lookup.queries.iter().any(|query| query.flags.is_truncated)
    }

    /// Returns whether one of its queries has this identifier.
    pub fn knows(&self, id: u16) -> bool {
        self.ids.contains(&id)
    }

    fn ids_of(&self, qtype: u16) -> impl Iterator<Item = u16> {
        let queries = self.lookup.queries.iter().zip(&self.ids);
        queries.filter(move |(query, _)| query.qtype == qtype).map(|(_, &id)| id)
    }

    /// Returns whether the last step had conclusive answers, none of which had a record, or only
    /// failures.
    fn has_no_records(&self) -> bool {
        let step = self.step();
        let mut queries = self.lookup.queries.iter().filter(|query| query.step == step);
        let is_known = queries.clone().any(|query| query.is_conclusive()) || self.has_failed();
        is_known && !queries.any(|q| q.is_positive())
    }

    /// Returns whether every query of the last step was answered with a failure.
    fn has_failed(&self) -> bool {
        let step = self.step();
        let mut queries = self.lookup.queries.iter().filter(|query| query.step == step);
        queries.all(Query::is_failure)
    }

    pub fn add(&mut self, asked: NewQuery<'_>) {
        if let Some(at) = self.repeated_by(&asked).filter(|_| self.is_done(asked.query.sent_ns)) {
            // An answer that was truncated, and an ICMP error, make the client ask again as well.
            let flags = &mut self.lookup.queries[at].flags;
            flags.asked_again = !flags.is_truncated && !flags.is_unreachable;
        }
        let mut query = asked.query;
        query.step = self.step();
        if self.name != asked.name {
            query.step = query.step.saturating_add(1);
            self.name.replace_range(.., asked.name);
            self.lookup.digest = digest(asked.name);
            if let Some(name) = &mut self.lookup.name {
                name.replace_range(.., asked.name);
            }
        }
        if !self.lookup.qtypes.contains(&query.qtype) {
            self.lookup.qtypes.push(query.qtype);
        }
        if query.flags.over_tcp && self.is_truncated() {
            let mut earlier = self.lookup.queries.iter_mut();
            let in_vain = earlier.rfind(|it| it.qtype == query.qtype && !it.flags.over_tcp);
            in_vain.into_iter().for_each(|it| it.flags.is_truncated = true);
        }
        self.last_activity_ns = query.sent_ns;
        self.ids.push(asked.id);
        self.lookup.queries.push(query);
    }

    /// Returns the query answered by `message` from `server` to `client_port` at `time_ns`, where
    /// `fastest_ns` is the time of the server's fastest answer so far; see [`late::answered`] for
    /// identical attempts.
    pub fn answered_by(
        &mut self,
        server: &Endpoint,
        client_port: u16,
        message: &Message,
        (time_ns, fastest_ns): (u64, Option<u64>),
    ) -> Option<&mut Query> {
        let question = message.question.as_ref();
        if question.is_some_and(|question| question.name != self.name) {
            return None;
        }
        let is_alike = |(query, id): &(&mut Query, &u16)| {
            **id == message.id
                && query.client_port == client_port
                && question.is_none_or(|question| question.qtype == query.qtype)
        };
        let alike = self.lookup.queries.iter_mut().zip(&self.ids).filter(is_alike);
        let alike: Vec<_> = alike.map(|(query, _)| query).collect();
        // A server with several addresses, or behind a translation, may answer from another one.
        let is_asked = |query: &Query| query.server == *server;
        let is_known = question.is_none() || alike.iter().any(|query| is_asked(query));
        let open = |query: &&mut Query| {
            if is_known { is_asked(query) } else { query.answered_ns.is_none() }
        };
        late::answered(alike.into_iter().filter(open).collect(), time_ns, fastest_ns)
    }

    /// Records the time and the addresses of an answer to a query of this look-up.
    pub fn note_answer(&mut self, time_ns: u64, message: &Message) {
        self.last_activity_ns = self.last_activity_ns.max(time_ns);
        let room = ADDRESSES_MAX.saturating_sub(self.lookup.addresses.len());
        self.lookup.addresses.extend(message.addresses().take(room));
    }

    /// Removes the unanswered queries sent from `client_port` to `server` over TCP. Returns whether
    /// other queries remain.
    pub fn forget(&mut self, client_port: u16, server: &Endpoint) -> bool {
        let is_left = |query: &Query| {
            !query.flags.over_tcp
                || query.client_port != client_port
                || query.server != *server
                || query.answered_ns.is_some()
        };
        if !self.first_fragments.is_empty() {
            return true;
        }
        let ids = std::mem::take(&mut self.ids);
        let kept = ids.into_iter().zip(&self.lookup.queries).filter(|(_, query)| is_left(query));
        self.ids = kept.map(|(id, _)| id).collect();
        self.lookup.queries.retain(is_left);
        !self.lookup.queries.is_empty()
    }

    /// Records that the client closed its TCP connection from `client_port` to `server` while it
    /// waited for an answer.
    pub fn close(&mut self, closed: (u64, FrameId), client_port: u16, server: &Endpoint) {
        let waits = |query: &&mut Query| {
            query.flags.over_tcp
                && query.client_port == client_port
                && query.server == *server
                && query.answered_ns.is_none()
        };
        for query in self.lookup.queries.iter_mut().filter(waits) {
            query.closed.get_or_insert(closed);
        }
    }

    /// Records that the client's host refused an answer of `server` to `client_port`. If the query went to
    /// another address, it was not answered. Otherwise the client had closed the port when the answer
    /// came. That shows its timeout if it had waited for one, and if no other answer had come before.
    pub fn reject(
        &mut self,
        rejected: (u64, FrameId),
        client_port: u16,
        server: &Endpoint,
    ) -> bool {
        let (time_ns, _) = rejected;
        let is_of_other = |query: &&mut Query| {
            let is_new = |at_ns: u64| time_ns.saturating_sub(at_ns) < RESOLVER_TIMEOUT_MIN_NS;
            query.client_port == client_port
                && query.foreign.as_ref().is_some_and(|it| it.address == server.address)
                && query.answered_ns.is_some_and(is_new)
        };
        if let Some(query) = self.lookup.queries.iter_mut().rev().find(is_of_other) {
            query.take_back();
            self.lookup.addresses.clear();
            return true;
        }
        let is_rejected = |query: &&Query| {
            let just_now = |at_ns: u64| time_ns.saturating_sub(at_ns) < RESOLVER_TIMEOUT_MIN_NS;
            query.client_port == client_port
                && query.server == *server
                && query.answered_ns.is_some_and(just_now)
                && !query.flags.over_tcp
        };
        let queries = &self.lookup.queries;
        let Some(late) = queries.iter().rev().find(is_rejected) else { return false };
        let (frame, step, qtype) = (late.query_frame, late.step, late.qtype);
        let mut others = queries.iter().filter(|it| it.query_frame != frame);
        if others.any(|it| (it.step, it.qtype) == (step, qtype) && it.is_conclusive()) {
            return true;
        }
        for query in self.lookup.queries.iter_mut().filter(|it| it.query_frame == frame) {
            let answered_ns = query.answered_ns.unwrap_or(query.sent_ns);
            let taken_ns = answered_ns.saturating_sub(query.sent_ns);
            if taken_ns < RESOLVER_TIMEOUT_MIN_NS {
                query.flags.is_unread = true;
            } else {
                query.flags.is_too_late = true;
                query.closed = Some(rejected);
            }
        }
        true
    }

    /// Records that the server's port is closed; returns the query concerned.
    pub fn refuse(
        &mut self,
        time_ns: u64,
        client_port: u16,
        server: &Endpoint,
    ) -> Option<&mut Query> {
        let mut queries = self.lookup.queries.iter_mut().rev();
        let query = queries.find(|query| {
            query.client_port == client_port
                && query.server == *server
                && query.answered_ns.is_none()
        })?;
        self.last_activity_ns = self.last_activity_ns.max(time_ns);
        Some(query)
    }
}

/// Returns a hash of the name that is the same in every run.
fn digest(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// Returns whether a wait has the length of a timeout of resolv.conf(5), which is a whole number of
/// seconds. A program may be woken late.
fn is_timeout(waited_ns: u64) -> bool {
    let late_ns = waited_ns % RESOLVER_TIMEOUT_MIN_NS;
    waited_ns >= RESOLVER_TIMEOUT_MIN_NS && late_ns <= RESOLVER_TIMEOUT_MIN_NS / ALIKE_PART
}

/// Returns whether the answer contains a requested record: a CNAME alone does not count.
pub(super) fn has_answers(message: &Message) -> bool {
    let leads = |answer: &Answer| !matches!(answer, Answer::Cname(_));
    // If the answers were cut off by the snap length, the header's count decides.
    message.answers.iter().any(leads) || message.answers.len() < usize::from(message.answer_count)
}

#[cfg(test)]
mod tests {
    use super::{is_browse_domain, is_private};

    #[test]
    fn names_of_domains_to_browse_are_told_from_services() {
        let of = ["b._dns-sd._udp.example", "LB._dns-sd._udp.0.168.192.in-addr.arpa"];
        let others = ["_services._dns-sd._udp.local", "b._tcp.example", "b.example"];
        assert!(of.iter().all(|name| is_browse_domain(name)));
        assert!(!others.iter().any(|name| is_browse_domain(name)));
    }

    #[test]
    fn reverse_zones_of_private_addresses_are_told_from_public_ones() {
        let private = [
            "4.3.2.10.in-addr.arpa",
            "1.1.31.172.in-addr.arpa",
            "1.0.168.192.in-addr.arpa.",
            "1.0.254.169.in-addr.arpa",
            "1.0.0.0.8.e.f.ip6.arpa",
            "1.0.0.d.f.ip6.arpa",
        ];
        let public =
            ["10.3.2.1.in-addr.arpa", "1.1.32.172.in-addr.arpa", "1.0.0.2.ip6.arpa", "a.example"];
        assert!(private.iter().all(|name| is_private(name)));
        assert!(!public.iter().any(|name| is_private(name)));
    }
}
