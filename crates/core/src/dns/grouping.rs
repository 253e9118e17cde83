//! Assigns queries to look-ups.

mod again;
mod fragments;
mod late;

use super::lookup::{Lookup, Outcome, Query, chain_end_ns};
use crate::dns::thresholds::{
    QUERY_RETRY_MIN_NS, RESOLVER_TIMEOUT_MIN_NS, SEQUEL_MAX_NS, SILENCE_MAX_NS,
};
use crate::judge::thresholds::ALIKE_PART;
use crate::wire::Endpoint;
use crate::wire::dns_message::{Answer, Message, qtype};
use fragments::{FirstFragment, LaterFragment};
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
            outcome: Outcome::Timeout,
            addresses: Vec::new(),
            is_reverse,
            search_steps: 0,
            by_resolver: false,
            unseen_ns: 0,
            is_abandoned: false,
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

    fn attempts(&self, qtype: u16) -> Vec<&Query> {
        self.lookup.attempts(self.step(), qtype).collect()
    }

    /// Returns whether every query type of the last step has its answer.
    fn is_settled(&self) -> bool {
        self.lookup.qtypes.iter().all(|&qtype| {
            let attempts = self.attempts(qtype);
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
            && self.attempts(qtype).last().is_some_and(|query| query.answered_ns.is_none())
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
            // name that only begins alike is another one.
            let missing = self.lookup.is_missing(self.step());
            let fits = self.has_no_records() && (missing || is_extended(asked.name, &self.name));
            return (fits && self.lookup.qtypes.contains(&query.qtype)).then_some(Fit::NextName);
        }
        let attempts = self.attempts(query.qtype);
        let same_socket = self.lookup.queries.iter().any(|q| q.client_port == query.client_port);
        let fit = if same_socket { Fit::SameSocket } else { Fit::SameName };
        let Some(last) = attempts.last() else {
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
        self.attempts(query.qtype).iter().any(|earlier| {
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

    /// Returns whether the last step had conclusive answers, none of which had a record.
    fn has_no_records(&self) -> bool {
        let step = self.step();
        let mut queries = self.lookup.queries.iter().filter(|query| query.step == step);
        queries.clone().any(|query| query.is_conclusive()) && !queries.any(|q| q.is_positive())
    }

    pub fn add(&mut self, asked: NewQuery<'_>) {
        if let Some(at) = self.repeated_by(&asked).filter(|_| self.is_done(asked.query.sent_ns)) {
            self.lookup.queries[at].flags.asked_again = true;
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

    /// Returns the query answered by `message` from `server` to `client_port` at `time_ns`; see
    /// [`late::answered`] for identical attempts.
    pub fn answered_by(
        &mut self,
        server: &Endpoint,
        client_port: u16,
        message: &Message,
        time_ns: u64,
    ) -> Option<&mut Query> {
        let question = message.question.as_ref();
        if question.is_some_and(|question| question.name != self.name) {
            return None;
        }
        let queries = self.lookup.queries.iter_mut().zip(&self.ids);
        let alike = queries.filter(|(query, id)| {
            **id == message.id
                && query.client_port == client_port
                && query.server == *server
                && question.is_none_or(|question| question.qtype == query.qtype)
        });
        late::answered(alike.map(|(query, _)| query).collect(), time_ns)
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

/// Returns whether one name is the other with a suffix.
fn is_extended(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|suffix| suffix.starts_with('.'))
}

/// Returns whether a resolver with a search list (resolv.conf(5) `search`) may query `next` after
/// `last`: the same first labels with another suffix, or with none.
fn is_next_name(last: &str, next: &str) -> bool {
    if is_extended(last, next) {
        return true;
    }
    // Hosts of different domains are called `www`, so names that share only that label are
    // unrelated.
    let labels = if last.starts_with("www.") { 2 } else { 1 };
    let head = |name| str::split(name, '.').take(labels);
    last != "www" && !last.starts_with('.') && head(last).eq(head(next))
}
