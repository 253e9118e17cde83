//! What is added up about one server endpoint.

use crate::app::{Label, Protocol, Side};
use crate::findings::causes::COSTS;
use crate::findings::causes::syn_flood::Flood;
use crate::findings::notes::Noticed;
use crate::findings::tally::history::are_too_many;
use crate::findings::tally::{Rows, Tails, Waits};
use crate::model::{Cause, Histogram, Ledger, Owner, Sighting};
use crate::tcp::{Connection, Exchange, OneShot, SimpleExchange};
use crate::wire::Endpoint;
use hashbrown::HashMap;
use std::cmp::Reverse;

/// Request kinds kept per endpoint and shard; more are counted together. Far more than a report
/// shows, so that which ones it shows does not depend on the shard they were in.
const KINDS_MAX: usize = 256;

/// The label under which kinds too many to tell apart are counted.
pub const KIND_OTHER: &str = "(other)";

/// Exchanges of one endpoint (or one kind of them).
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// How many.
    pub exchanges: u64,
    /// Their wall time by owner.
    pub ledger: Ledger,
    /// Their latency.
    pub latency: Histogram,
}

impl Group {
    #[inline]
    pub(super) fn add(&mut self, exchange: &Exchange) {
        self.exchanges += 1;
        self.ledger.take(&exchange.ledger);
        self.latency.record(exchange.wall_ns());
    }

    #[inline]
    pub(super) fn add_plain(&mut self, plain: &SimpleExchange<'_>) {
        self.exchanges += 1;
        self.ledger.add(Owner::Path, plain.path_ns);
        self.ledger.add(Owner::Server, plain.server_ns);
        self.latency.record(plain.wall_ns());
    }

    #[inline]
    pub(super) fn add_one_shot(&mut self, one_shot: &OneShot<'_>) {
        self.exchanges += 1;
        self.ledger.add(Owner::Connect, one_shot.connect_ns);
        self.ledger.add(Owner::Client, one_shot.client_ns);
        self.ledger.add(Owner::Path, one_shot.path_ns);
        self.ledger.add(Owner::Server, one_shot.server_ns);
        self.latency.record(one_shot.wall_ns());
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.exchanges += other.exchanges;
        self.ledger.merge(&other.ledger);
        self.latency.merge(&other.latency);
    }
}

/// What is known of one server endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointTally {
    /// All its exchanges. Of a shard, these are its `kinds` taken together, and nothing here.
    pub all: Group,
    /// By kind of request.
    pub kinds: HashMap<Label, Group>,
    /// Connections to it.
    pub connections: u64,
    /// SYNs that were never followed by a completed handshake.
    pub flood: Flood,
    /// Connections set up.
    pub established: u64,
    /// Time to live of what its server sent, other than RSTs; 0 if that was nothing.
    pub ttl: u8,
    /// What it says it is.
    pub software: Option<Box<str>>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Base RTTs of its connections.
    pub rtts: Histogram,
    /// The way from the capture to the server was measured on some connection.
    pub server_leg_known: bool,
    /// That way is no longer than this, ns, as far as connections bound it.
    pub server_leg_max_ns: Option<u64>,
    /// Bottleneck rates of its connections by who sends, bytes per second.
    pub rates: [Histogram; 2],
    /// By how much the path became longer than its base for good: in all exchanges, and in the
    /// middle one of them, ns.
    pub longer_ns: [u64; 2],
    /// Time its TLS handshakes took.
    pub tls: Histogram,
    /// Greatest certificate flight, bytes.
    pub certificate_bytes: u32,
    /// The exchanges that each of [`COSTS`] mattered most to.
    samples: [Option<Box<Sample>>; COSTS.len()],
    /// Exchanges that included a set-up.
    pub connects: u64,
    /// By how much set-ups took longer than the round trip, ns: that is no distance.
    pub set_up_late_ns: u64,
    /// Exchanges of which no answer was seen.
    pub unanswered: u64,
    /// Waits for a round trip of the path in the midst of messages.
    pub path_waits: u64,
    /// Exchanges that included a TLS handshake, and of them with a resumed session.
    pub handshakes: [u64; 2],
    /// Sides on which a sender broke Nagle's rule, in connections.
    pub nagle_refuted: [u64; 2],
    /// Silences that looked like Nagle's algorithm but did not end with the ACK.
    pub nagle_missed: [u64; 2],
    /// Connections on which waits for late ACKs turned out to be chance, by who sends.
    pub late_acks_refuted: [u64; 2],
    /// Times senders whose flight stood at a ceiling went on by their own clock, by who sends.
    pub buffer_missed: [u64; 2],
    /// Segments sent again, and of them those that had arrived (RFC 2883), by who sends.
    pub repeats: [[u64; 2]; 2],
    /// Exchanges that met no queue after another on their connection that did.
    pub drained: u64,
    /// What senders met that a finding may tell of, by who sends.
    pub noticed: [Noticed; 2],
    /// How often senders whose flight had ended went on as words of the peer had come, and how
    /// often with an ACK, by who sends.
    pub went_on: [[u64; 2]; 2],
    /// Of what looked like a small buffer, how often it was the peer's application that granted no
    /// more.
    pub granted: u64,
    /// Connections on which a sender's flight stood at a ceiling to the end, by who sends.
    pub ceilings: [u64; 2],
    /// Of them those whose sender went on by a clock of its own.
    pub clocked: [u64; 2],
    /// How often in a row one height of the offered window stood in the way, and how often any did
    /// without having opened meanwhile, by who sends.
    pub window_stands: [[u32; 2]; 2],
    /// When exchanges with it took their time.
    pub waits: Waits,
    /// Exchanges that costs made slow.
    pub tails: Tails,
    /// Exchanges that followed each other back to back.
    pub rows: Rows,
}

/// Returns whether `exchange` met no queue, and one before it on its connection did.
fn has_drained(connection: &Connection, exchange: &Exchange) -> bool {
    let [of_client, of_server] = connection.totals.causes;
    let met = (of_client | of_server) & 1 << Cause::Bufferbloat as u64 != 0;
    met && exchange.chains.iter().all(|chain| chain.cause != Cause::Bufferbloat)
}

impl EndpointTally {
    /// Counts an exchange with the endpoint.
    pub(super) fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        self.connects += u64::from(exchange.connects);
        self.set_up_late_ns += exchange.set_up_late_ns(connection.path.base_rtt_ns());
        self.unanswered += u64::from(!exchange.response_seen);
        self.path_waits += u64::from(exchange.path_waits);
        self.drained += u64::from(has_drained(connection, exchange));
        self.keep_samples(connection, exchange);
        if let Some(handshake) = exchange.handshake {
            self.handshakes[usize::from(handshake.resumed)] += 1;
            self.tls.record(exchange.ledger.of(Owner::Tls));
            self.certificate_bytes = self.certificate_bytes.max(handshake.certificate_bytes);
        }
        self.waits.exchange(connection, exchange);
        self.kind(&exchange.kind).add(exchange);
    }

    /// Counts a connection to the endpoint.
    pub(super) fn connection(&mut self, connection: &Connection) {
        self.connections += 1;
        let setup = &connection.setup;
        if setup.half_open() && !setup.refused || setup.answers_alone() {
            self.flood.add(connection);
        }
        self.established += u64::from(connection.setup.established_ns().is_some());
        self.ttl = self.ttl.max(connection.senders[Side::Server as usize].ttl());
        self.server_leg_known |= connection.path.is_settled(Side::Server);
        if connection.path.knows(Side::Server) {
            self.bound_server_leg(connection.path.rtt_ns(Side::Server));
        }
        if connection.path.base_way_ns() > 0 {
            self.rtts.record(connection.path.base_way_ns());
        }
        self.protocol = self.protocol.max(connection.protocol());
        self.name(connection.software(Side::Server));
        for side in Side::ALL {
            let sender = &connection.senders[side as usize];
            if !sender.is_troubled() && sender.bulk.is_none() {
                // Nothing of what follows was ever met.
                continue;
            }
            let refuted = connection.nagle(side).is_refuted();
            self.nagle_refuted[side as usize] += u64::from(refuted);
            let bulk = connection.senders[side as usize].bulk.as_ref();
            if let Some(rate) = bulk.and_then(|bulk| bulk.pipe.rate_known()) {
                self.rates[side as usize].record(rate);
            }
            let history = sender.history();
            for (sum, count) in self.repeats[side as usize].iter_mut().zip(history.repetitions()) {
                *sum += count;
            }
            self.late_acks_refuted[side as usize] += u64::from(history.nagle.waits.are_chance());
            let went_on = bulk.map_or([0; 2], |bulk| bulk.went_on);
            for (sum, count) in self.went_on[side as usize].iter_mut().zip(went_on) {
                *sum += u64::from(count);
            }
            self.noticed[side as usize].merge(&Noticed::of(sender));
            if sender.stood_at_ceiling() {
                self.ceilings[side as usize] += 1;
                self.clocked[side as usize] += u64::from(bulk.is_some_and(|it| it.is_clocked()));
                self.buffer_missed[side as usize] += u64::from(history.nagle.own_pauses);
            }
            let most = self.window_stands[side as usize].iter_mut();
            most.zip(sender.window_stands()).for_each(|(most, times)| *most = (*most).max(times));
            self.nagle_missed[side as usize] +=
                u64::from(connection.senders[side as usize].history().nagle.evidence.missed);
        }
    }

    /// The way to the server takes at most `rtt_ns`.
    fn bound_server_leg(&mut self, rtt_ns: u64) {
        let known_ns = self.server_leg_max_ns.get_or_insert(rtt_ns);
        *known_ns = rtt_ns.min(*known_ns);
    }

    /// Counts a one-shot connection to it.
    pub(super) fn one_shot(&mut self, one_shot: &OneShot<'_>) {
        self.connections += 1;
        self.established += 1;
        self.ttl = self.ttl.max(one_shot.ttl);
        self.server_leg_known |= one_shot.path.is_settled(Side::Server);
        if one_shot.path.base_rtt_ns() > 0 {
            self.rtts.record(one_shot.path.base_rtt_ns());
        }
        self.protocol = self.protocol.max(one_shot.protocol);
        self.name(one_shot.software);
    }

    /// Its server says it is `software`: of several names the least counts, so that their order
    /// does not.
    #[inline]
    fn name(&mut self, software: Option<&str>) {
        if let Some(software) = software
            && self.software.as_deref().is_none_or(|known| software < known)
        {
            self.software = Some(software.into());
        }
    }

    /// Returns the exchange that a cost mattered most to.
    pub(in crate::findings) fn sample(&self, cause: Cause) -> Option<&Sample> {
        let place = COSTS.iter().position(|cost| cost.cause == cause)?;
        self.samples[place].as_deref()
    }

    /// Keeps the exchange as evidence of the costs that mattered more to it than to others.
    fn keep_samples(&mut self, connection: &Connection, exchange: &Exchange) {
        for (place, cost) in COSTS.iter().enumerate().filter(|(_, cost)| cost.is_sampled) {
            let ns = cost.owners.iter().map(|&owner| exchange.ledger.of(owner)).sum();
            if ns > 0 && self.samples[place].as_ref().is_none_or(|sample| ns >= sample.ns) {
                self.keep_sample(place, connection, exchange, ns);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_sample(&mut self, place: usize, connection: &Connection, exchange: &Exchange, ns: u64) {
        Sample::keep(&mut self.samples[place], Sample::of(connection, exchange, ns));
    }

    /// The group of a kind of request.
    pub(super) fn kind(&mut self, kind: &Label) -> &mut Group {
        let full = self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(kind);
        let other;
        let kind = if full {
            other = KIND_OTHER.into();
            &other
        } else {
            kind
        };
        self.kinds.entry_ref(kind).or_default()
    }

    /// Counts kinds that are too many together: those that took the least time.
    pub(super) fn bound_kinds(&mut self) {
        if !are_too_many(self.kinds.len(), KINDS_MAX) {
            return;
        }
        let other = Label::from(KIND_OTHER);
        let ranked = self.kinds.iter().filter(|(kind, _)| **kind != other);
        let mut ranked: Vec<_> =
            ranked.map(|(kind, group)| (Reverse(group.ledger.total_ns()), *kind)).collect();
        ranked.sort_unstable();
        for (_, kind) in ranked.into_iter().skip(KINDS_MAX) {
            if let Some(group) = self.kinds.remove(&kind) {
                self.kinds.entry(other).or_default().merge(&group);
            }
        }
        self.kinds.shrink_to_fit();
    }

    /// All exchanges, and those of the kind with this digest ([`Label::digest`]).
    fn all_and_kind(&mut self, digest: u64) -> impl Iterator<Item = &mut Group> {
        let known = self.kinds.keys().any(|kind| kind.digest() == digest);
        let digest = if known { digest } else { Label::from(KIND_OTHER).digest() };
        let kind = self.kinds.iter_mut().find(|(kind, _)| kind.digest() == digest);
        std::iter::once(&mut self.all).chain(kind.map(|(_, group)| group))
    }

    /// Adds `before`, which an exchange of `kind` and `wall_ns` had to wait for.
    pub(in crate::findings) fn prepend(&mut self, kind: u64, wall_ns: u64, before: &Ledger) {
        for group in self.all_and_kind(kind) {
            group.ledger.merge(before);
            group.latency.replace(wall_ns, wall_ns + before.total_ns());
        }
    }

    /// Moves time of an exchange of `kind` from one owner to another.
    pub(in crate::findings) fn transfer(&mut self, kind: u64, from: Owner, to: Owner, ns: u64) {
        for group in self.all_and_kind(kind) {
            group.ledger.transfer(from, to, ns);
        }
    }

    /// Counts an exchange that is not one of a connection.
    pub(in crate::findings) fn add(&mut self, kind: &str, ledger: &Ledger) {
        for group in [&mut self.all, self.kinds.entry(kind.into()).or_default()] {
            group.exchanges += 1;
            group.ledger.merge(ledger);
            group.latency.record(ledger.total_ns());
        }
    }

    /// Adds all that a shard found.
    pub(super) fn merge(&mut self, other: Self) {
        for (kind, group) in other.kinds {
            self.all.merge(&group);
            self.kinds.entry(kind).or_default().merge(&group);
        }
        self.connections += other.connections;
        self.flood.merge(&other.flood);
        self.established += other.established;
        self.ttl = self.ttl.max(other.ttl);
        self.server_leg_known |= other.server_leg_known;
        other.server_leg_max_ns.into_iter().for_each(|rtt_ns| self.bound_server_leg(rtt_ns));
        self.rtts.merge(&other.rtts);
        self.tls.merge(&other.tls);
        self.certificate_bytes = self.certificate_bytes.max(other.certificate_bytes);
        for (mine, theirs) in self.samples.iter_mut().zip(other.samples) {
            if let Some(theirs) = theirs {
                Sample::keep(mine, *theirs);
            }
        }
        self.connects += other.connects;
        self.set_up_late_ns += other.set_up_late_ns;
        self.unanswered += other.unanswered;
        self.path_waits += other.path_waits;
        self.drained += other.drained;
        self.granted += other.granted;
        self.protocol = self.protocol.max(other.protocol);
        self.waits.merge(&other.waits);
        self.tails.merge(other.tails);
        self.rows.merge(&other.rows);
        for index in 0..2 {
            self.handshakes[index] += other.handshakes[index];
            self.rates[index].merge(&other.rates[index]);
            for (mine, theirs) in self.repeats[index].iter_mut().zip(other.repeats[index]) {
                *mine += theirs;
            }
            for (mine, theirs) in self.went_on[index].iter_mut().zip(other.went_on[index]) {
                *mine += theirs;
            }
            self.noticed[index].merge(&other.noticed[index]);
            self.nagle_refuted[index] += other.nagle_refuted[index];
            self.nagle_missed[index] += other.nagle_missed[index];
            self.late_acks_refuted[index] += other.late_acks_refuted[index];
            self.buffer_missed[index] += other.buffer_missed[index];
            self.ceilings[index] += other.ceilings[index];
            self.clocked[index] += other.clocked[index];
            let most = self.window_stands[index].iter_mut();
            most.zip(other.window_stands[index])
                .for_each(|(most, times)| *most = (*most).max(times));
        }
        // The least name, so that neither order nor shards matter.
        self.software = match (self.software.take(), other.software) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }
}

/// An exchange as evidence of a cost.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time of it that the cost owns, ns.
    ns: u64,
    /// The connection's client.
    pub client: Endpoint,
    /// The connection's server.
    pub server: Endpoint,
    /// Its number among the connection's exchanges, from 1.
    pub exchange: u64,
    /// The SYN, if it waited for the set-up.
    pub syn: Option<Sighting>,
    /// The SYN-ACK, if it waited for the set-up.
    pub syn_ack: Option<Sighting>,
    /// The client's ACK of that, if it waited for the set-up.
    pub ack: Option<Sighting>,
    /// Its first frame with data.
    pub first: Sighting,
    /// Its last frame.
    pub last: Sighting,
}

impl Sample {
    fn of(connection: &Connection, exchange: &Exchange, ns: u64) -> Self {
        let frames = connection.setup.frames();
        let set_up = |frame: Option<Sighting>| frame.filter(|_| exchange.connects);
        Self {
            ns,
            client: connection.client(),
            server: connection.server(),
            exchange: connection.totals.exchanges,
            syn: set_up(frames.syn),
            syn_ack: set_up(frames.syn_ack),
            ack: set_up(frames.ack),
            first: exchange.first,
            last: exchange.last,
        }
    }

    /// The one to which it mattered more; the first of equals.
    fn keep(mine: &mut Option<Box<Self>>, theirs: Self) {
        let rank = |sample: &Self| {
            (sample.ns, std::cmp::Reverse((sample.first.time_ns, sample.first.frame)))
        };
        match mine {
            Some(mine) if rank(&theirs) > rank(mine) => **mine = theirs,
            Some(_) => {}
            None => *mine = Some(Box::new(theirs)),
        }
    }
}
