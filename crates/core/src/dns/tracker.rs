//! Follows DNS messages in time order and puts look-ups together.

use super::early::{self, Early};
use super::grouping::{Asked, Fit, Open, has_answers};
use super::lookup::{Known, Lookup, Query, QueryFlags};
use crate::capture::FrameId;
use crate::dns::thresholds::{RESOLVER_TIMEOUT_MIN_NS, RESOLVER_TIMEOUT_NS};
use crate::wire::Endpoint;
use crate::wire::dns_message::Message;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Where name servers listen.
pub const DNS_PORT: u16 = 53;
/// More look-ups than this are not kept open: the oldest are closed as they stand.
const OPEN_MAX: usize = 8192;
const OPEN_PER_CLIENT_MAX: usize = 512;
const SERVERS_MAX: usize = 65_536;
/// How often look-ups that ended in silence are closed, nanoseconds of capture time.
const SWEEP_NS: u64 = 1_000_000_000;

/// Groups DNS queries into [`Lookup`]s.
///
/// Sequential: feed it the messages of all clients in time order. Memory is bounded by the
/// look-ups open at a time; finished ones wait for [`take_finished`](Self::take_finished).
/// Multicast DNS (port 5353) is none of its business.
#[derive(Clone, Default)]
pub struct Tracker {
    keep_names: bool,
    open: BTreeMap<[u8; 16], Vec<Open>>,
    pub(super) open_count: usize,
    /// The fastest answer of each server, nanoseconds.
    baselines_ns: BTreeMap<[u8; 16], u64>,
    /// After how long each client asks again: its shortest wait, nanoseconds.
    timeouts_ns: BTreeMap<[u8; 16], u64>,
    finished: Vec<Lookup>,
    early: Early,
    swept_ns: u64,
}

/// A DNS message's way.
#[derive(Clone, Copy, Debug)]
pub struct Carried<'a> {
    /// When it was complete, ns.
    pub time_ns: u64,
    /// The frame that completed it.
    pub frame: FrameId,
    /// Payload of that frame, bytes.
    pub payload_bytes: u32,
    /// Who sent it.
    pub source: &'a Endpoint,
    /// To whom.
    pub destination: &'a Endpoint,
    /// What carried it.
    pub carrier: Carrier,
}

/// What carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A UDP datagram.
    Datagram,
    /// The first of the IP fragments of one; the whole of it may follow. A capture filter that knows
    /// ports sees no other fragment.
    Beginning {
        /// The packet's identification.
        id: u32,
    },
    /// A later IP fragment of one, without the first before it: ports and message are not known.
    Rest {
        /// The packet's identification.
        id: u32,
    },
    /// A TCP connection.
    Stream {
        /// When its client opened it, if that was for this message, ns.
        opened_ns: Option<u64>,
    },
}

impl Carried<'_> {
    fn is_beginning(&self) -> bool {
        matches!(self.carrier, Carrier::Beginning { .. })
    }
}

impl Carrier {
    fn is_tcp(self) -> bool {
        matches!(self, Self::Stream { .. })
    }
}

impl Tracker {
    /// `keep_names`: keep the names asked for, for display. They are values: off unless asked.
    pub fn new(keep_names: bool) -> Self {
        Self { keep_names, ..Self::default() }
    }

    /// An ICMP port unreachable about a datagram that `client` sent to `server`.
    pub fn unreachable(
        &mut self,
        time_ns: u64,
        frame: FrameId,
        client: &Endpoint,
        server: &Endpoint,
    ) {
        let lookups = self.open.get_mut(&client.address).into_iter().flatten();
        let mut lookups = lookups.map(|open| open.refuse(time_ns, client.port, server));
        if let Some(query) = lookups.find_map(|query| query) {
            query.answered_ns = Some(time_ns);
            query.answer_frame = Some(frame);
            query.flags.is_unreachable = true;
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
            });
        }
    }

    /// What `server` said to `client` over TCP could not be read: questions asked there before may have been
    /// answered, and nothing is known of them.
    pub fn missed(&mut self, client: &Endpoint, server: &Endpoint) {
        let Some(lookups) = self.open.get_mut(&client.address) else { return };
        let before = lookups.len();
        lookups.retain_mut(|open| open.forget(client.port, server));
        self.open_count -= before - lookups.len();
    }

    /// Lets `carried`, a query, have the answer that passed just before it.
    fn answer_early(&mut self, carried: &Carried<'_>) {
        let Carried { time_ns, source: client, destination: server, .. } = *carried;
        let Some(early) = self.early.take(time_ns, server, client) else { return };
        let (frame, payload_bytes) = (early.frame, early.payload_bytes);
        match early.message {
            None => self.unreachable(time_ns, frame, client, server),
            Some(payload) => {
                let (source, destination) = (server, client);
                let answer = Carried { frame, payload_bytes, source, destination, ..*carried };
                self.message(&answer, &payload);
            }
        }
    }

    /// The look-ups that have ended since the last call, by start.
    pub fn take_finished(&mut self) -> Vec<Lookup> {
        let mut finished = std::mem::take(&mut self.finished);
        finished.sort_by_key(order);
        finished
    }

    /// The look-ups not yet taken; those still open end with the capture at `end_ns`.
    pub fn finish(mut self, end_ns: u64) -> Vec<Lookup> {
        self.close_where(end_ns, |_| true);
        self.take_finished()
    }

    /// Takes one message. Anything but a DNS query or answer is ignored.
    pub fn message(&mut self, carried: &Carried<'_>, payload: &[u8]) {
        let Carried { time_ns, source, destination, .. } = *carried;
        if let Carrier::Beginning { id } | Carrier::Rest { id } = carried.carrier {
            let lookups = self.open.get_mut(&destination.address).into_iter().flatten();
            let is_rest = !carried.is_beginning();
            let seen = (time_ns, carried.frame);
            lookups.for_each(|open| open.note_fragment(seen, source, id, is_rest));
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
        if message.is_response && source.port == DNS_PORT {
            if !self.answer(carried, &message) && carried.carrier == Carrier::Datagram {
                let Carried { frame, payload_bytes, .. } = *carried;
                let (server, client, message) = (*source, *destination, Some(payload.to_vec()));
                let early =
                    early::Answer { time_ns, frame, payload_bytes, server, client, message };
                self.early.add(early);
            }
        } else if !message.is_response && destination.port == DNS_PORT {
            self.query(carried, &message);
            self.answer_early(carried);
        }
    }

    fn query(&mut self, carried: &Carried<'_>, message: &Message) {
        let Some(question) = &message.question else {
            return;
        };
        let client = carried.source;
        let asked = Asked {
            query: Query {
                server: *carried.destination,
                client_port: client.port,
                qtype: question.qtype,
                step: 0,
                sent_ns: carried.time_ns,
                answered_ns: None,
                rcode: None,
                baseline_ns: None,
                query_frame: carried.frame,
                query_bytes: carried.payload_bytes,
                answer_frame: None,
                answer_bytes: 0,
                rest: None,
                flags: QueryFlags { over_tcp: carried.carrier.is_tcp(), ..QueryFlags::default() },
            },
            id: message.id,
            name: &question.name,
        };
        let by_resolver = self.is_resolver(client, &asked);
        let lookups = self.open.entry(client.address).or_default();
        let fits = lookups.iter().enumerate();
        // Of look-ups that it fits alike, the one with its identifier, or else the last.
        let rank = |at, open: &Open| Some((open.fit(&asked)?, !open.knows(asked.id), Reverse(at)));
        match fits.filter_map(|(at, open)| rank(at, open)).min() {
            Some((Fit::Duplicate, ..)) => {}
            Some((_, _, Reverse(at))) => {
                if let Some(waited_ns) = lookups[at].waited_ns(&asked)
                    && self.timeouts_ns.len() < SERVERS_MAX
                {
                    let least_ns = self.timeouts_ns.entry(client.address).or_insert(waited_ns);
                    *least_ns = waited_ns.min(*least_ns);
                }
                lookups[at].add(asked);
            }
            None => {
                if let Some([first, later]) = repeated(lookups, &asked) {
                    let later = lookups.remove(later);
                    self.open_count -= 1;
                    lookups[first].absorb(later);
                    lookups[first].add(asked);
                    return;
                }
                lookups.iter_mut().for_each(|open| open.supersede(&asked));
                let mut open = Open::new(client, asked, self.keep_names);
                if let Carrier::Stream { opened_ns: Some(opened_ns) } = carried.carrier {
                    open.lookup.start_ns = opened_ns;
                }
                open.lookup.by_resolver = by_resolver;
                lookups.push(open);
                self.open_count += 1;
                if lookups.len() > OPEN_PER_CLIENT_MAX {
                    let oldest = lookups.remove(0);
                    self.open_count -= 1;
                    self.close(oldest, carried.time_ns);
                }
                if self.open_count > OPEN_MAX {
                    self.close_older_half(carried.time_ns);
                }
            }
        }
    }

    /// Whether the client asks on behalf of others: it answers queries itself, or a query for
    /// the same is waiting at a resolver on the loopback interface. A resolver does not ask itself:
    /// who asks the address that he has is another program on its host.
    fn is_resolver(&self, client: &Endpoint, asked: &Asked<'_>) -> bool {
        if self.baselines_ns.contains_key(&client.address) {
            return client.address != asked.query.server.address;
        }
        let asks_loopback =
            |open: &Open| open.lookup.queries.iter().any(|query| query.server.ip().is_loopback());
        let mut locals = self.open.iter().filter(|(address, _)| **address != client.address);
        !client.ip().is_loopback()
            && locals.any(|(address, lookups)| {
                Endpoint { address: *address, port: 0 }.ip().is_loopback()
                    && lookups.iter().any(|open| {
                        asks_loopback(open) && open.awaits(asked.name, asked.query.qtype)
                    })
            })
    }

    /// Gives `message` to the query that it answers; answers whether there is one.
    fn answer(&mut self, carried: &Carried<'_>, message: &Message) -> bool {
        let Carried { time_ns, source: server, destination: client, .. } = *carried;
        let Some(lookups) = self.open.get_mut(&client.address) else {
            return false;
        };
        if carried.is_beginning() {
            let seen = (time_ns, carried.frame, carried.payload_bytes);
            let mut latest = lookups.iter_mut().rev();
            return latest.any(|open| open.begin_answer(seen, server, client.port, message));
        }
        let baseline_ns = self.baselines_ns.get(&server.address).copied();
        for open in lookups.iter_mut().rev() {
            let Some(query) = open.answered_by(server, client.port, message, time_ns) else {
                continue;
            };
            query.answered_ns = Some(time_ns);
            query.answer_frame = Some(carried.frame);
            query.answer_bytes = carried.payload_bytes;
            query.rcode = Some(message.rcode);
            query.baseline_ns = baseline_ns;
            query.flags.is_truncated = message.is_truncated && !carried.carrier.is_tcp();
            query.flags.has_answers = has_answers(message);
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

    fn close(&mut self, mut open: Open, now_ns: u64) {
        open.settle_begun();
        open.settle_rests();
        let mut lookup = open.lookup;
        let asks_others = lookup.queries.iter().any(|it| it.server.address != lookup.client);
        lookup.by_resolver |= asks_others && self.baselines_ns.contains_key(&lookup.client);
        let timeout_ns = self.timeouts_ns.get(&lookup.client).copied();
        let unrepeated = timeout_ns.is_some_and(|wait_ns| lookup.was_asked_once(wait_ns, now_ns));
        // What was not asked again was given up before, at the latest for something else.
        let went_on_ns = open.went_on_ns.filter(|_| unrepeated);
        let superseded_ns = open.superseded_ns.filter(|_| lookup.was_asked_once(0, now_ns));
        let too_early =
            |at_ns: u64| at_ns.saturating_sub(lookup.start_ns) < RESOLVER_TIMEOUT_MIN_NS;
        // Where the capture ends before the client would have asked again, no timeout was seen.
        let asked_ns = lookup.queries.last().map_or(lookup.start_ns, |query| query.sent_ns);
        let cut_short = lookup.was_asked_once(0, now_ns)
            && now_ns.saturating_sub(asked_ns) < timeout_ns.unwrap_or(RESOLVER_TIMEOUT_NS);
        lookup.is_abandoned = unrepeated || cut_short || superseded_ns.is_some_and(too_early);
        let is_silent = |query: &Query| !self.baselines_ns.contains_key(&query.server.address);
        lookup.conclude(&Known {
            seen_ns: now_ns,
            left_ns: [superseded_ns, went_on_ns].into_iter().flatten().min(),
            timeout_ns: timeout_ns.unwrap_or(RESOLVER_TIMEOUT_NS),
            is_silent: lookup.queries.iter().all(is_silent),
        });
        self.finished.push(lookup);
    }

    fn close_where(&mut self, now_ns: u64, is_over: impl Fn(&Open) -> bool) {
        let mut over = Vec::new();
        self.open.retain(|_, lookups| {
            let (closing, kept): (Vec<_>, _) = lookups.drain(..).partition(&is_over);
            over.extend(closing);
            *lookups = kept;
            !lookups.is_empty()
        });
        self.open_count -= over.len();
        for open in over {
            self.close(open, now_ns);
        }
    }

    fn close_older_half(&mut self, now_ns: u64) {
        let lookups = self.open.values().flatten();
        let mut starts_ns: Vec<_> = lookups.map(|open| open.lookup.start_ns).collect();
        let middle = starts_ns.len() / 2;
        let (_, median_ns, _) = starts_ns.select_nth_unstable(middle);
        let median_ns = *median_ns;
        self.close_where(now_ns, |open| open.lookup.start_ns <= median_ns);
    }
}

/// Two look-ups, the earlier first, that turn out with `asked` to be one that a timer repeats.
fn repeated(lookups: &[Open], asked: &Asked<'_>) -> Option<[usize; 2]> {
    let later = lookups.iter().rposition(|open| open.awaits(asked.name, asked.query.qtype))?;
    let mut first = lookups[..later].iter();
    let first = first.rposition(|open| open.awaits(asked.name, asked.query.qtype))?;
    lookups[first].is_repeated_by(&lookups[later], asked).then_some([first, later])
}

/// Look-ups in the order in which they began.
fn order(lookup: &Lookup) -> (u64, FrameId) {
    let first = lookup.queries.first();
    (lookup.start_ns, first.map_or_else(FrameId::default, |query| query.query_frame))
}
