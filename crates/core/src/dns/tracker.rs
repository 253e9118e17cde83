//! Follows DNS messages in time order and groups them into look-ups.

use super::early::{self, Early};
use super::grouping::{Fit, NewQuery, Open, has_answers};
use super::lookup::{Foreign, Lookup, LookupContext, Query, QueryFlags};
use super::open::OpenLookups;
use super::unasked::Unasked;
use crate::capture::FrameId;
use crate::dns::thresholds::{RESOLVER_TIMEOUT_MIN_NS, RESOLVER_TIMEOUT_NS};
use crate::wire::Endpoint;
use crate::wire::dns_message::Message;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The port of name servers.
pub const DNS_PORT: u16 = 53;
/// Maximum number of look-ups kept open. Beyond it the oldest are closed as they are.
const OPEN_MAX: usize = 8192;
const OPEN_PER_CLIENT_MAX: usize = 512;
/// Maximum number of look-ups of one client whose names begin with the same label, since a query is
/// compared with each of them.
const OPEN_PER_LABEL_MAX: usize = 32;
/// Maximum number of servers, and of clients, whose times are remembered.
const SERVERS_MAX: usize = 1 << 13;
/// Interval at which look-ups without an answer are closed, ns of capture time.
const SWEEP_NS: u64 = 1_000_000_000;

/// Groups DNS queries into [`Lookup`]s.
///
/// The tracker is sequential: it has to receive the messages of all clients in time order. Its
/// memory is bounded by the look-ups open at a time; finished ones wait for
/// [`take_finished`](Self::take_finished). Multicast DNS (port 5353) is not handled.
#[derive(Clone, Default)]
pub struct Tracker {
    keep_names: bool,
    pub(super) open: OpenLookups,
    /// Time of the fastest answer of each server, ns.
    baselines_ns: BTreeMap<[u8; 16], u64>,
    /// Timeout of each client: its shortest wait before a repeated query, ns.
    timeouts_ns: BTreeMap<[u8; 16], u64>,
    finished: Vec<Lookup>,
    early: Early,
    unasked: Unasked,
    swept_ns: u64,
}

/// Context of a DNS message.
#[derive(Clone, Copy, Debug)]
pub struct MessageContext<'a> {
    /// Time at which the message was complete, ns.
    pub time_ns: u64,
    /// Frame that completed the message.
    pub frame: FrameId,
    /// Length of the payload of that frame, bytes.
    pub payload_bytes: u32,
    /// Endpoint that sent the message.
    pub source: &'a Endpoint,
    /// Endpoint to which the message was sent.
    pub destination: &'a Endpoint,
    /// The transport.
    pub carrier: Transport,
    /// TTL of that frame; 0 if it is unknown.
    pub ttl: u8,
}

/// The transport of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A UDP datagram.
    Datagram,
    /// The first IP fragment of a datagram; the complete datagram may follow. A capture filter for
    /// ports matches no other fragment.
    Beginning {
        /// IP identification of the packet.
        id: u32,
    },
    /// A later IP fragment of a datagram whose first fragment is missing: ports and message are
    /// unknown.
    LaterFragment {
        /// IP identification of the packet.
        id: u32,
    },
    /// A TCP connection.
    Stream {
        /// Time at which the client opened the connection, if it did so for this message, ns.
        opened_ns: Option<u64>,
    },
}

impl MessageContext<'_> {
    fn is_beginning(&self) -> bool {
        matches!(self.carrier, Transport::Beginning { .. })
    }
}

impl Transport {
    fn is_tcp(self) -> bool {
        matches!(self, Self::Stream { .. })
    }
}

impl Tracker {
    /// Creates a tracker. With `keep_names`, queried names are kept for display; they are values,
    /// so the default is off.
    pub fn new(keep_names: bool) -> Self {
        Self { keep_names, ..Self::default() }
    }

    /// Processes an ICMP error about a datagram that `client` sent to `server`: of the server's host, whose
    /// port is closed, or of a `router` on the way there.
    pub fn unreachable(
        &mut self,
        (time_ns, frame): (u64, FrameId),
        client: &Endpoint,
        server: &Endpoint,
        router: Option<Endpoint>,
    ) {
        let lookups = self.open.of(client.address);
        let mut lookups = lookups.map(|open| open.refuse(time_ns, client.port, server));
        if let Some(query) = lookups.find_map(|query| query) {
            query.answered_ns = Some(time_ns);
            query.answer_frame = Some(frame);
            query.flags.is_unreachable = true;
            query.router = router.map(Box::new);
        } else if server.port == DNS_PORT {
            let (server, client) = (*server, *client);
            let (payload_bytes, message) = (0, None);
            self.early.add(early::Answer {
                time_ns,
                frame,
                payload_bytes,
                server,
                client,
                message,
                router,
            });
        }
    }

    /// Records that `client` closed its TCP connection to `server`: it waits no longer for answers
    /// on it.
    pub fn closed(&mut self, time_ns: u64, frame: FrameId, client: &Endpoint, server: &Endpoint) {
        let lookups = self.open.of(client.address);
        lookups.for_each(|open| open.close((time_ns, frame), client.port, server));
    }

    /// Processes an ICMP port unreachable of `client` about a datagram that `server` sent to it.
    pub fn rejected(&mut self, time_ns: u64, frame: FrameId, client: &Endpoint, server: &Endpoint) {
        let mut latest = self.open.of(client.address).rev();
        latest.any(|open| open.reject((time_ns, frame), client.port, server));
    }

    /// Records that a message from `server` to `client` over TCP could not be read: earlier queries
    /// on this connection may have been answered, so they are removed.
    pub fn missed(&mut self, client: &Endpoint, server: &Endpoint) {
        self.open.retain(client.address, |open| open.forget(client.port, server));
    }

    /// Assigns an answer that was captured just before the query `carried` to it.
    fn answer_early(&mut self, carried: &MessageContext<'_>) {
        let MessageContext { time_ns, source: client, destination: server, .. } = *carried;
        let Some(early) = self.early.take(time_ns, server, client) else { return };
        self.unasked.take_back([client.address, server.address]);
        let (frame, payload_bytes) = (early.frame, early.payload_bytes);
        match early.message {
            None => self.unreachable((time_ns, frame), client, server, early.router),
            Some(payload) => {
                let (source, destination) = (server, client);
                let answer =
                    MessageContext { frame, payload_bytes, source, destination, ..*carried };
                self.message(&answer, &payload);
            }
        }
    }

    /// Returns the look-ups that have ended since the last call, ordered by start.
    pub fn take_finished(&mut self) -> Vec<Lookup> {
        let mut finished = std::mem::take(&mut self.finished);
        finished.sort_by_key(order);
        finished
    }

    /// Marks those of `lookups`, which were taken, between whose client and server the capture lacks
    /// packets.
    pub fn mark_partial(&self, lookups: &mut [Lookup]) {
        self.unasked.mark(lookups);
    }

    /// Returns the look-ups not yet taken; those still open end with the capture at `end_ns`.
    pub fn finish(mut self, end_ns: u64) -> Vec<Lookup> {
        self.close_where(end_ns, |_| true);
        let mut finished = self.take_finished();
        self.mark_partial(&mut finished);
        finished
    }

    /// Processes one message. Anything but a DNS query or answer is ignored, and so is a query to a
    /// group or to all hosts of the link: it looks for whoever knows a name, and nobody has to answer.
    pub fn message(&mut self, carried: &MessageContext<'_>, payload: &[u8]) {
        let MessageContext { time_ns, source, destination, .. } = *carried;
        if let Transport::Beginning { id } | Transport::LaterFragment { id } = carried.carrier {
            let lookups = self.open.of(destination.address);
            let is_later = !carried.is_beginning();
            let seen = (time_ns, carried.frame);
            lookups.for_each(|open| open.note_fragment(seen, source, id, is_later));
        }
        let Ok(message) = Message::parse(payload) else {
            return;
        };
        if message.opcode != 0 || carried.is_beginning() && source.port != DNS_PORT {
            return;
        }
        if time_ns.saturating_sub(self.swept_ns) > SWEEP_NS {
            self.swept_ns = time_ns;
            self.close_where(time_ns, |open| open.is_over(time_ns));
        }
        self.unasked.begin(time_ns);
        if message.is_response && source.port == DNS_PORT {
            if !self.answer(carried, &message) && carried.carrier == Transport::Datagram {
                self.note_unasked(carried, &message);
                let MessageContext { frame, payload_bytes, .. } = *carried;
                let (server, client, message) = (*source, *destination, Some(payload.to_vec()));
                let early = early::Answer {
                    time_ns,
                    frame,
                    payload_bytes,
                    server,
                    client,
                    message,
                    router: None,
                };
                self.early.add(early);
            }
        } else if !message.is_response && destination.port == DNS_PORT && !destination.is_group() {
            self.query(carried, &message);
            self.answer_early(carried);
        }
    }

    /// Notes an answer whose query was not captured. One that comes twice answers a query that is known.
    fn note_unasked(&mut self, carried: &MessageContext<'_>, message: &Message) {
        let MessageContext { time_ns, source: server, destination: client, .. } = *carried;
        let Some(question) = &message.question else { return };
        let mut alike = self.open.named(client.address, &question.name);
        if !alike.any(|(_, open)| open.knows(message.id)) {
            self.unasked.add(time_ns, [client.address, server.address]);
        }
    }

    fn query(&mut self, carried: &MessageContext<'_>, message: &Message) {
        let Some(question) = &message.question else {
            return;
        };
        let asked = NewQuery {
            query: query_of(carried, question.qtype, message),
            id: message.id,
            name: &question.name,
        };
        let by_resolver = self.is_resolver(carried.source, &asked);
        let client = carried.source.address;
        let fits = self.open.named(client, asked.name);
        // Of several look-ups that fit equally, the one with this identifier is taken, otherwise
        // the last.
        let rank = |at, open: &Open| Some((open.fit(&asked)?, !open.knows(asked.id), Reverse(at)));
        match fits.filter_map(|(at, open)| rank(at, open)).min() {
            Some((Fit::Duplicate, ..)) => {}
            Some((_, _, Reverse(at))) => {
                let Some(open) = self.open.get_mut(client, at) else { return };
                if let Some(waited_ns) = open.waited_ns(&asked)
                    && self.timeouts_ns.len() < SERVERS_MAX
                {
                    let least_ns = self.timeouts_ns.entry(client).or_insert(waited_ns);
                    *least_ns = waited_ns.min(*least_ns);
                }
                open.add(asked);
            }
            None => {
                if let Some([first, later]) = self.repeated(client, &asked) {
                    self.open.join(client, first, later);
                    if let Some(open) = self.open.get_mut(client, first) {
                        open.add(asked);
                    }
                } else {
                    self.open(carried, asked, by_resolver);
                }
            }
        }
    }

    /// Begins a look-up with its first query, and closes the oldest ones if there are too many.
    fn open(&mut self, carried: &MessageContext<'_>, asked: NewQuery<'_>, by_resolver: bool) {
        let client = carried.source.address;
        let alike = self.open.named(client, asked.name).map(|(number, _)| number);
        let alike: Vec<_> = alike.collect();
        for &number in &alike {
            if let Some(open) = self.open.get_mut(client, number) {
                open.supersede(&asked);
            }
        }
        let start_ns = asked.query.sent_ns;
        let mut open = Open::new(carried.source, asked, self.keep_names);
        if let Transport::Stream { opened_ns: Some(opened_ns) } = carried.carrier {
            open.lookup.start_ns = opened_ns;
        }
        open.lookup.by_resolver = by_resolver;
        self.open.begin(client, open, start_ns);
        // Answered look-ups are the least likely to continue.
        let is_answered =
            |number: &&u64| self.open.get(client, **number).is_some_and(Open::is_settled);
        let oldest = if alike.len() >= OPEN_PER_LABEL_MAX {
            alike.iter().find(is_answered).or(alike.first()).copied()
        } else if self.open.count(client) > OPEN_PER_CLIENT_MAX {
            self.open.numbers(client).next()
        } else {
            None
        };
        if let Some(oldest) = oldest.and_then(|oldest| self.open.remove(client, oldest)) {
            self.close(oldest, carried.time_ns);
        }
        if self.open.len() > OPEN_MAX {
            self.close_older_half(carried.time_ns);
        }
    }

    /// Returns two look-ups of `client`, the earlier first, that together with `asked` are one
    /// look-up repeated by a timer.
    fn repeated(&self, client: [u8; 16], asked: &NewQuery<'_>) -> Option<[u64; 2]> {
        let alike = self.open.named(client, asked.name).rev();
        let mut awaiting = alike.filter(|(_, open)| open.awaits(asked.name, asked.query.qtype));
        let (later, first) = (awaiting.next()?, awaiting.next()?);
        first.1.is_repeated_by(later.1, asked).then_some([first.0, later.0])
    }

    /// Returns whether the client queries on behalf of others: it answers queries itself, or the
    /// same query waits at a resolver on the loopback interface. A resolver does not query itself:
    /// a client with the server's own address is another program on that host.
    fn is_resolver(&self, client: &Endpoint, asked: &NewQuery<'_>) -> bool {
        if self.baselines_ns.contains_key(&client.address) {
            return client.address != asked.query.server.address;
        }
        let asks_loopback =
            |open: &Open| open.lookup.queries.iter().any(|query| query.server.ip().is_loopback());
        !client.ip().is_loopback()
            && self.open.at_loopback(asked.name).any(|(address, open)| {
                address != client.address
                    && asks_loopback(open)
                    && open.awaits(asked.name, asked.query.qtype)
            })
    }

    /// Assigns `message` to the query that it answers; returns whether there is one.
    fn answer(&mut self, carried: &MessageContext<'_>, message: &Message) -> bool {
        let MessageContext { time_ns, source: server, destination: client, .. } = *carried;
        let baseline_ns = self.baselines_ns.get(&server.address).copied();
        if carried.is_beginning() {
            let seen = (time_ns, carried.frame, carried.payload_bytes);
            let mut latest = self.open.of(client.address).rev();
            let port = client.port;
            return latest.any(|open| open.begin_answer(seen, server, port, message, baseline_ns));
        }
        let at = (time_ns, baseline_ns);
        for number in self.asked_for(client.address, message) {
            let Some(open) = self.open.get_mut(client.address, number) else { continue };
            let Some(query) = open.answered_by(server, client.port, message, at) else {
                continue;
            };
            query.answered_ns = Some(time_ns);
            query.answer_frame = Some(carried.frame);
            if query.server.address != server.address {
                let (address, is_refused) = (server.address, false);
                query.foreign = Some(Box::new(Foreign { address, is_refused }));
            }
            query.answer_bytes = carried.payload_bytes;
            query.rcode = Some(message.rcode);
            query.ttl_s = message.ttl_s;
            query.baseline_ns = baseline_ns;
            query.flags.is_truncated = message.is_truncated && !carried.carrier.is_tcp();
            query.flags.has_answers = has_answers(message);
            query.flags.lacks_recursion = !message.is_recursion_available;
            let taken_ns = time_ns.saturating_sub(query.sent_ns);
            open.note_answer(time_ns, message);
            if self.baselines_ns.len() < SERVERS_MAX || baseline_ns.is_some() {
                let fastest_ns = self.baselines_ns.entry(server.address).or_insert(taken_ns);
                *fastest_ns = taken_ns.min(*fastest_ns);
            }
            return true;
        }
        false
    }

    /// Returns the look-ups of `client` that `message` may answer, the last first.
    fn asked_for(&self, client: [u8; 16], message: &Message) -> Vec<u64> {
        match &message.question {
            Some(question) => {
                self.open.named(client, &question.name).rev().map(|(number, _)| number).collect()
            }
            None => self.open.numbers(client).rev().collect(),
        }
    }

    fn close(&mut self, mut open: Open, now_ns: u64) {
        open.settle_first_fragments();
        open.settle_later_fragments();
        let mut lookup = open.lookup;
        let asks_others = lookup.queries.iter().any(|it| it.server.address != lookup.client);
        lookup.by_resolver |= asks_others && self.baselines_ns.contains_key(&lookup.client);
        let timeout_ns = self.timeouts_ns.get(&lookup.client).copied();
        let unrepeated = timeout_ns.is_some_and(|wait_ns| lookup.was_asked_once(wait_ns, now_ns));
        // A look-up that was not repeated was given up, at the latest when the client began
        // another.
        let was_asked_once = lookup.was_asked_once(0, now_ns);
        let next_lookup_ns = open.next_lookup_ns.filter(|_| was_asked_once);
        let superseded_ns = open.superseded_ns.filter(|_| was_asked_once);
        let is_repeatable = |at_ns: u64| now_ns.saturating_sub(at_ns) >= RESOLVER_TIMEOUT_MIN_NS;
        let too_early =
            |at_ns: u64| at_ns.saturating_sub(lookup.start_ns) < RESOLVER_TIMEOUT_MIN_NS;
        // If the capture ends before the client would have repeated the query, no timeout was seen.
        let asked_ns = lookup.queries.last().map_or(lookup.start_ns, |query| query.sent_ns);
        let cut_short = was_asked_once
            && now_ns.saturating_sub(asked_ns) < timeout_ns.unwrap_or(RESOLVER_TIMEOUT_NS);
        let is_udp = lookup.queries.iter().all(|query| !query.flags.over_tcp);
        lookup.ends_with_capture = was_asked_once && !is_repeatable(asked_ns) && is_udp;
        // A client that begins nothing else when its wait could end was not seen to wait.
        let goes_on_ns = [superseded_ns, next_lookup_ns].into_iter().flatten().min();
        let too_late = |at_ns: u64| at_ns.saturating_sub(asked_ns) > RESOLVER_TIMEOUT_NS;
        let waited = goes_on_ns.is_some_and(|at_ns| !too_early(at_ns) && !too_late(at_ns));
        let is_refused = lookup.queries.iter().any(|query| query.refused().is_some());
        lookup.is_abandoned = !is_refused && (unrepeated || cut_short || was_asked_once && !waited);
        let is_silent = |query: &Query| !self.baselines_ns.contains_key(&query.server.address);
        lookup.conclude(&LookupContext {
            seen_ns: now_ns,
            next_lookup_ns: goes_on_ns,
            timeout_ns: timeout_ns.unwrap_or(RESOLVER_TIMEOUT_NS),
            is_silent: lookup.queries.iter().all(is_silent),
        });
        lookup.release_spare();
        self.finished.push(lookup);
    }

    fn close_where(&mut self, now_ns: u64, is_over: impl Fn(&Open) -> bool) {
        for open in self.open.extract(is_over) {
            self.close(open, now_ns);
        }
    }

    fn close_older_half(&mut self, now_ns: u64) {
        let mut starts_ns: Vec<_> = self.open.iter().map(|open| open.lookup.start_ns).collect();
        let middle = starts_ns.len() / 2;
        let (_, median_ns, _) = starts_ns.select_nth_unstable(middle);
        let median_ns = *median_ns;
        self.close_where(now_ns, |open| open.lookup.start_ns <= median_ns);
    }
}

/// Sort key of look-ups: the order in which they began.
fn order(lookup: &Lookup) -> (u64, FrameId) {
    let first = lookup.queries.first();
    (lookup.start_ns, first.map_or_else(FrameId::default, |query| query.query_frame))
}

/// Returns the query in `carried`, in its state before any answer to it.
fn query_of(carried: &MessageContext<'_>, qtype: u16, message: &Message) -> Query {
    Query {
        server: *carried.destination,
        client_port: carried.source.port,
        qtype,
        step: 0,
        sent_ns: carried.time_ns,
        answered_ns: None,
        rcode: None,
        baseline_ns: None,
        query_frame: carried.frame,
        query_bytes: carried.payload_bytes,
        answer_frame: None,
        answer_bytes: 0,
        ttl_s: None,
        later_fragment: None,
        first_fragment: None,
        foreign: None,
        router: None,
        closed: None,
        flags: QueryFlags {
            over_tcp: carried.carrier.is_tcp(),
            is_iterative: !message.is_recursion_desired,
            is_from_windows: (65..=128).contains(&carried.ttl),
            ..QueryFlags::default()
        },
    }
}
