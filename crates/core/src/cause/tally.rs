//! What one shard adds up: per endpoint, per cause and culprit, and the worst connections.

use super::costs::COSTS;
use super::culprit::culprit;
use super::notes::Notes;
use super::scene::{Proof, Scene, Shown};
use super::syn_flood::Flood;
use super::worst::Worst;
use super::{Cause, Class, Owner, Role};
use crate::app::{Protocol, Side};
use crate::capture::FrameId;
use crate::histogram::Histogram;
use crate::report::{Culprit, Ledger, Vantage};
use crate::tcp::{Chain, Connection, Exchange, Outcome, Sighting, Sink};
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// Request kinds kept per endpoint; more are counted together.
const KINDS_MAX: usize = 32;

/// A client that gives up earlier than this did not give up for want of an answer.
const PATIENCE_NS: u64 = 1_000_000_000;

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
    fn add(&mut self, exchange: &Exchange) {
        self.exchanges += 1;
        self.ledger.merge(&exchange.ledger);
        self.latency.record(exchange.wall_ns());
    }

    fn merge(&mut self, other: &Self) {
        self.exchanges += other.exchanges;
        self.ledger.merge(&other.ledger);
        self.latency.merge(&other.latency);
    }
}

/// What is known of one server endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointTally {
    /// All its exchanges.
    pub all: Group,
    /// By kind of request.
    pub kinds: HashMap<String, Group>,
    /// Connections to it.
    pub connections: u64,
    /// SYNs that were never followed by a completed handshake.
    pub flood: Flood,
    /// Connections set up.
    pub established: u64,
    /// What it says it is.
    pub software: Option<Box<str>>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Base RTTs of its connections.
    pub rtts: Histogram,
    /// Bottleneck rates of its connections by who sends, bytes per second.
    pub rates: [Histogram; 2],
    /// Time its TLS handshakes took.
    pub tls: Histogram,
    /// Greatest certificate flight, bytes.
    pub certificate_bytes: u32,
    /// The exchanges that costs mattered most to, see [`Sample::place`].
    pub samples: [Option<Sample>; 3],
    /// Exchanges that included a set-up.
    pub connects: u64,
    /// Exchanges that included a TLS handshake, and of them with a resumed session.
    pub handshakes: [u64; 2],
    /// Sides on which a sender broke Nagle's rule, in connections.
    pub nagle_refuted: [u64; 2],
    /// Silences that looked like Nagle's algorithm but did not end with the ACK.
    pub nagle_missed: [u64; 2],
    /// How often in a row one height of the offered window stood in the way, by who sends.
    pub window_levels: [u32; 2],
}

/// The first exchange of a connection: what a look-up before it would have held up.
#[derive(Clone, Copy, Debug)]
pub struct First {
    /// The client's address.
    pub client: [u8; 16],
    /// The server.
    pub server: Endpoint,
    /// When its SYN was seen, ns.
    pub start_ns: u64,
    /// Its wall time, ns.
    pub wall_ns: u64,
    /// Base round trip to the server, ns.
    pub rtt_base_ns: u64,
    /// Its first frame.
    pub frame: FrameId,
}

/// First exchanges kept per shard for linking; later ones stand without their look-up.
const FIRSTS_MAX: usize = 1 << 16;

/// A cause at one culprit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The cause.
    pub cause: Cause,
    /// Who was silent.
    pub sender: Side,
    /// Server endpoint of the exchanges.
    pub server: Endpoint,
    /// Who has to change something.
    pub culprit: Culprit,
}

/// What one cause cost at one culprit.
#[derive(Clone, Debug, Default)]
pub struct CauseTally {
    /// Exchanges with it.
    pub exchanges: u64,
    /// Connections with it.
    pub connections: u64,
    /// Silences.
    pub count: u64,
    /// What it cost, ns.
    pub lost_ns: u64,
    /// Wall time of the exchanges with it.
    pub now: Histogram,
    /// The same without it.
    pub without: Histogram,
    /// The longest silence of each exchange.
    pub waits: Histogram,
    /// The clearest instance.
    pub worst: Option<Instance>,
    /// Most of one exchange's wall time that it cost, as a share, and that time, ns.
    pub share_max: f64,
    /// See `share_max`.
    pub share_max_ns: u64,
    /// Exchanges in which it held back a request rather than a response.
    pub requests: u64,
    /// What its instances have in common.
    pub shown: Shown,
    /// Time of owners that it explains, where costs are told from the same owners.
    pub covers: Ledger,
}

/// One instance of a cause.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The longest silence, ns, and the frame that ended it: what makes it the clearest.
    pub rank: Rank,
    /// What it shows.
    pub proof: Proof,
    /// The connection's client.
    pub client: Endpoint,
    /// The connection's server.
    pub server: Endpoint,
    /// Where it was captured.
    pub vantage: Vantage,
    /// What the culprit's side says it is.
    pub software: Option<Box<str>>,
    /// What is spoken.
    pub protocol: Protocol,
}

impl CauseTally {
    fn add(&mut self, exchange: &Exchange, chain: &Chain) {
        let wall_ns = exchange.wall_ns();
        self.exchanges += 1;
        self.count += u64::from(chain.count);
        self.lost_ns += chain.ns;
        self.now.record(wall_ns);
        self.without.record(wall_ns.saturating_sub(chain.ns));
        self.waits.record(chain.longest_ns);
        self.requests += u64::from(chain.sender == Side::Client);
        match chain.cause {
            Cause::AcceptQueueOverflow => self.covers.add(Owner::Connect, chain.ns),
            Cause::Bufferbloat => self.covers.add(Owner::Queueing, chain.ns),
            _ => {}
        }
        self.note_share(chain.ns, wall_ns);
    }

    pub(super) fn note_share(&mut self, ns: u64, wall_ns: u64) {
        if ns > self.share_max_ns {
            self.share_max = ns as f64 / wall_ns.max(1) as f64;
            self.share_max_ns = ns;
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.exchanges += other.exchanges;
        self.connections += other.connections;
        self.count += other.count;
        self.lost_ns += other.lost_ns;
        self.now.merge(&other.now);
        self.without.merge(&other.without);
        self.waits.merge(&other.waits);
        self.requests += other.requests;
        self.shown.merge(&other.shown);
        self.covers.merge(&other.covers);
        if other.share_max_ns > self.share_max_ns {
            self.share_max = other.share_max;
            self.share_max_ns = other.share_max_ns;
        }
        if let Some(instance) = &other.worst {
            self.offer(instance.clone());
        }
    }

    /// Keeps the instance with the longest silence.
    pub(super) fn offer(&mut self, instance: Instance) {
        if self.wants(instance.rank) {
            self.worst = Some(instance);
        }
    }

    /// Whether an instance of that rank is clearer than what is known.
    fn wants(&self, rank: Rank) -> bool {
        self.worst.as_ref().is_none_or(|worst| rank > worst.rank)
    }
}

/// What makes an instance the clearest: the longest silence, and the first of equals.
pub type Rank = ((bool, bool, u64), std::cmp::Reverse<(u64, FrameId)>);

/// An exchange as evidence of a cost.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time of it that the cost owns, ns.
    ns: u64,
    /// The connection's client.
    pub client: Endpoint,
    /// The connection's server.
    pub server: Endpoint,
    /// The SYN, if it waited for the set-up.
    pub syn: Option<Sighting>,
    /// The SYN-ACK, if it waited for the set-up.
    pub syn_ack: Option<Sighting>,
    /// Its first frame with data.
    pub first_frame: FrameId,
    /// When that passed, ns.
    pub first_ns: u64,
    /// Its last frame.
    pub last_frame: FrameId,
    /// When that passed, ns.
    pub end_ns: u64,
}

impl Sample {
    /// Where the sample of a cost stands among an endpoint's.
    pub fn place(cause: Cause) -> Option<usize> {
        [Cause::PathRtt, Cause::TlsHandshake, Cause::Bandwidth].iter().position(|it| *it == cause)
    }

    fn of(connection: &Connection, exchange: &Exchange, ns: u64) -> Self {
        let frames = connection.setup.frames;
        let set_up = |frame: Option<Sighting>| frame.filter(|_| exchange.connects);
        Self {
            ns,
            client: connection.client(),
            server: connection.server(),
            syn: set_up(frames.syn),
            syn_ack: set_up(frames.syn_ack),
            first_frame: exchange.first_frame,
            first_ns: exchange.first_ns,
            last_frame: exchange.last_frame,
            end_ns: exchange.end_ns,
        }
    }

    /// The one to which it mattered more; the first of equals.
    fn keep(mine: &mut Option<Self>, theirs: Self) {
        let rank =
            |sample: &Self| (sample.ns, std::cmp::Reverse((sample.first_ns, sample.first_frame)));
        if mine.as_ref().is_none_or(|mine| rank(&theirs) > rank(mine)) {
            *mine = Some(theirs);
        }
    }
}

/// Everything one shard adds up.
#[derive(Default)]
pub struct Tally {
    /// Per server endpoint.
    pub endpoints: HashMap<Endpoint, EndpointTally>,
    /// Per cause and culprit.
    pub causes: HashMap<Key, CauseTally>,
    /// Connections.
    pub connections: u64,
    /// By vantage.
    pub vantages: HashMap<u8, u64>,
    /// First exchanges of connections, for the look-ups before them.
    pub firsts: Vec<First>,
    /// The connections that lost most.
    pub worst: Worst,
    /// What is wrong with the trace, or was noticed and cost nobody anything.
    pub notes: Notes,
}

impl Sink for Tally {
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let server = connection.server();
        let endpoint = self.endpoints.entry(server).or_default();
        endpoint.all.add(exchange);
        endpoint.connects += u64::from(exchange.connects);
        endpoint.sample(connection, exchange);
        if let Some(handshake) = exchange.handshake {
            endpoint.handshakes[usize::from(handshake.resumed)] += 1;
            endpoint.tls.record(exchange.ledger.of(Owner::Tls));
            endpoint.certificate_bytes =
                endpoint.certificate_bytes.max(handshake.certificate_bytes);
        }
        endpoint.kind(&exchange.kind).add(exchange);
        for chain in &exchange.chains {
            self.cause(connection, exchange, chain);
        }
        if exchange.connects && self.firsts.len() < FIRSTS_MAX {
            self.firsts.push(First {
                client: connection.client().address,
                server,
                start_ns: exchange.start_ns,
                wall_ns: exchange.wall_ns(),
                rtt_base_ns: connection.path.base_rtt_ns(),
                frame: exchange.first_frame,
            });
        }
        if let Outcome::Reset { by } = exchange.outcome
            && exchange.request_seen
        {
            self.reset(connection, exchange, by);
        }
    }

    fn connection(&mut self, connection: &Connection) {
        self.connections += 1;
        *self.vantages.entry(connection.vantage() as u8).or_default() += 1;
        self.notes.connection(connection);
        self.worst.connection(connection);
        let server = connection.server();
        let endpoint = self.endpoints.entry(server).or_default();
        endpoint.connections += 1;
        if connection.setup.half_open() && !connection.setup.refused {
            endpoint.flood.add(connection);
        }
        endpoint.established += u64::from(connection.setup.established_ns.is_some());
        if connection.path.base_rtt_ns() > 0 {
            endpoint.rtts.record(connection.path.base_rtt_ns());
        }
        endpoint.protocol = endpoint.protocol.max(connection.protocol());
        if let Some(software) = &connection.software[Side::Server as usize] {
            endpoint.software.get_or_insert_with(|| software.clone());
        }
        for side in Side::ALL {
            let refuted = connection.halves[side as usize].nagle_refuted > 0;
            endpoint.nagle_refuted[side as usize] += u64::from(refuted);
            let bulk = connection.halves[side as usize].bulk.as_ref();
            if let Some(rate) = bulk.and_then(|bulk| bulk.pipe.rate_known()) {
                endpoint.rates[side as usize].record(rate);
            }
            let levels = connection.halves[side as usize].window_level_max;
            let most = &mut endpoint.window_levels[side as usize];
            *most = (*most).max(levels);
            endpoint.nagle_missed[side as usize] +=
                u64::from(connection.halves[side as usize].nagle_missed);
            for &cause in Cause::ALL {
                if connection.totals.causes[side as usize] & 1 << cause as u64 != 0 {
                    let key = key(cause, side, connection);
                    self.causes.entry(key).or_default().connections += 1;
                }
            }
        }
    }
}

fn key(cause: Cause, sender: Side, connection: &Connection) -> Key {
    let (client, server) = (connection.client(), connection.server());
    Key { cause, sender, server, culprit: culprit(cause, sender, client, server) }
}

impl Tally {
    /// What `cause` cost at `server`, ns.
    pub(super) fn cost_of(&self, cause: Cause, server: Endpoint) -> u64 {
        let of_server = |(key, _): &(&Key, &CauseTally)| key.cause == cause && key.server == server;
        self.causes.iter().filter(of_server).map(|(_, tally)| tally.lost_ns).sum()
    }

    fn cause(&mut self, connection: &Connection, exchange: &Exchange, chain: &Chain) {
        let key = key(chain.cause, chain.sender, connection);
        let blame = key.culprit;
        let tally = self.causes.entry(key).or_default();
        tally.add(exchange, chain);
        let scene = Scene { connection, exchange, chain };
        scene.add_to(&mut tally.shown);
        let gap = &chain.gap;
        let rank = (chain.clarity(), std::cmp::Reverse((gap.end_ns, gap.next_frame)));
        if tally.wants(rank) && (chain.cause.class() == Class::Fault || tally.worst.is_none()) {
            let side = if blame.role == Role::Client { Side::Client } else { Side::Server };
            tally.worst = Some(Instance {
                rank,
                proof: scene.proof(),
                client: connection.client(),
                server: connection.server(),
                vantage: connection.vantage(),
                software: connection.software[side as usize].clone(),
                protocol: connection.protocol(),
            });
        }
    }

    /// An exchange that a RST ended: refused, cut off, or sent into a connection that had been
    /// closed for idleness.
    fn reset(&mut self, connection: &Connection, exchange: &Exchange, by: Side) {
        let fin_before = connection.ending.fin_ns[by as usize].is_some();
        // A client that says goodbye without waiting for an answer has lost nothing.
        let impatient = exchange.wall_ns() >= PATIENCE_NS && !fin_before;
        if by == Side::Client && !impatient && (fin_before || !exchange.response_seen) {
            return;
        }
        // Nor has one that had closed of its own accord when the RST came.
        let [client_fin_ns, server_fin_ns] = connection.ending.fin_ns;
        if client_fin_ns.is_some_and(|at_ns| server_fin_ns.is_none_or(|server| at_ns < server)) {
            return;
        }
        let cause = match () {
            () if connection.setup.refused => Cause::Refused,
            () if by == Side::Server
                && !exchange.response_seen
                && (fin_before || connection.totals.exchanges > 0) =>
            {
                Cause::IdleReset
            }
            () => Cause::Reset,
        };
        let (frame, at_ns) = connection
            .ending
            .reset
            .map_or((exchange.last_frame, exchange.end_ns), |(_, f, t)| (f, t));
        let gap = crate::tcp::Gap::between(
            by,
            exchange.end_ns.min(at_ns),
            at_ns,
            exchange.first_frame,
            frame,
        );
        // What was waited for was for nothing: it has to be asked again.
        let ns = exchange.wall_ns().saturating_sub(exchange.fault_ns());
        let chain = Chain { cause, sender: by, ns, count: 1, longest_ns: ns, tails: 0, gap };
        self.cause(connection, exchange, &chain);
        let key = key(cause, by, connection);
        let tally = self.causes.entry(key).or_default();
        tally.connections += 1;
        tally.covers.merge(&exchange.ledger);
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        for (endpoint, theirs) in other.endpoints {
            self.endpoints.entry(endpoint).or_default().merge(theirs);
        }
        for (key, theirs) in other.causes {
            self.causes.entry(key).or_default().merge(&theirs);
        }
        self.firsts.extend(other.firsts);
        self.notes.merge(&other.notes);
        self.worst.merge(other.worst);
        self.connections += other.connections;
        for (vantage, count) in other.vantages {
            *self.vantages.entry(vantage).or_default() += count;
        }
    }
}

impl EndpointTally {
    /// Keeps the exchange as evidence of the costs that mattered more to it than to others.
    fn sample(&mut self, connection: &Connection, exchange: &Exchange) {
        for &(cause, owners) in COSTS {
            let ns = owners.iter().map(|&owner| exchange.ledger.of(owner)).sum();
            let Some(place) = Sample::place(cause).filter(|_| ns > 0) else { continue };
            if self.samples[place].as_ref().is_none_or(|sample| ns >= sample.ns) {
                Sample::keep(&mut self.samples[place], Sample::of(connection, exchange, ns));
            }
        }
    }

    /// The group of a kind of request.
    fn kind(&mut self, kind: &str) -> &mut Group {
        let known = self.kinds.len() < KINDS_MAX || self.kinds.contains_key(kind);
        self.kinds.entry_ref(if known { kind } else { "(other)" }).or_default()
    }

    /// Counts an exchange that is not one of a connection.
    pub(super) fn add(&mut self, kind: &str, ledger: &Ledger) {
        for group in [&mut self.all, self.kinds.entry(kind.into()).or_default()] {
            group.exchanges += 1;
            group.ledger.merge(ledger);
            group.latency.record(ledger.total_ns());
        }
    }

    fn merge(&mut self, other: Self) {
        self.all.merge(&other.all);
        for (kind, group) in other.kinds {
            self.kinds.entry(kind).or_default().merge(&group);
        }
        self.connections += other.connections;
        self.flood.merge(&other.flood);
        self.established += other.established;
        self.rtts.merge(&other.rtts);
        self.tls.merge(&other.tls);
        self.certificate_bytes = self.certificate_bytes.max(other.certificate_bytes);
        for (mine, theirs) in self.samples.iter_mut().zip(other.samples) {
            if let Some(theirs) = theirs {
                Sample::keep(mine, theirs);
            }
        }
        self.connects += other.connects;
        self.protocol = self.protocol.max(other.protocol);
        for index in 0..2 {
            self.handshakes[index] += other.handshakes[index];
            self.rates[index].merge(&other.rates[index]);
            self.nagle_refuted[index] += other.nagle_refuted[index];
            self.nagle_missed[index] += other.nagle_missed[index];
            self.window_levels[index] = self.window_levels[index].max(other.window_levels[index]);
        }
        // The lesser name, so that the order of shards does not matter.
        self.software = match (self.software.take(), other.software) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }
}
