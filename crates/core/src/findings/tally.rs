//! Sums of one shard: per endpoint, per cause and culprit, and the worst connections.

mod callers;
mod causes;
mod culprits;
mod endings;
mod endpoint;
mod flows;
mod heard;
mod history;
mod hosts;
mod queues;
mod rows;
mod runs;
mod slowest;
mod tails;
mod waits;

pub use callers::Callers;
pub use causes::Causes;
pub use culprits::{CauseTally, Instance, Key};
use endings::closed_on;
pub use endpoint::{EndpointTally, Group, Handshakes, KIND_OTHER, Sample};
pub use flows::{Flow, Flows};
pub use heard::Heard;
pub use hosts::Hosts;
pub use queues::{Queues, Small, Transfer};
pub use rows::Rows;
use runs::Runs;
pub use slowest::Slowest;
pub use tails::{Tails, slow_ns};
pub use waits::{Wait, Waits};

use crate::app::{Label, Protocol, Side};
use crate::capture::FrameId;
use crate::dns::DNS_PORT;
use crate::findings::causes::rules;
use crate::findings::fallback::Unanswered;
use crate::findings::legs::Legs;
use crate::findings::notes::Notes;
use crate::findings::retries::InVain;
use crate::findings::scene::Scene;
use crate::findings::thresholds::{SEQUENCE_MIN, WAIT_MIN_NS};
use crate::findings::worst::Worst;
use crate::findings::{fallback, retries};
use crate::model::{Cause, Owner, Shares, Vantage};
use crate::tcp::{Chain, Connection, Exchange, Outcome, SimpleExchange, Sink};
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// The first exchange of a connection: what a look-up before it would have held up.
#[derive(Clone, Copy, Debug)]
pub struct First {
    /// The client's address.
    pub client: [u8; 16],
    /// The server.
    pub server: Endpoint,
    /// Time of its SYN, ns.
    pub start_ns: u64,
    /// Digest of the kind of request, see [`crate::app::Label::digest`].
    pub kind: u64,
    /// Its wall time, ns.
    pub wall_ns: u64,
    /// Base round trip to the server, ns.
    pub rtt_base_ns: u64,
    /// Least round trip from the vantage to the server, ns; 0 if unknown.
    pub rtt_server_ns: u64,
    /// Its vantage.
    pub vantage: Vantage,
    /// Part of it that repetitions of the set-up took, ns.
    pub set_up_again_ns: u64,
    /// Part of it that repetitions of a request to a server took that had sent nothing yet, ns.
    pub unheard_ns: u64,
    /// `true` if it was answered.
    pub answered: bool,
    /// Time at which its response began to pass the vantage, ns; 0 if it did not.
    pub answered_ns: u64,
    /// The server answered its SYN.
    pub established: bool,
    /// `true` if its SYN was answered only when repeated.
    pub is_syn_answered_late: bool,
    /// Its first frame.
    pub frame: FrameId,
}

impl First {
    /// Order in which first exchanges are kept where there is no room for all.
    fn rank(&self) -> (u64, FrameId) {
        (self.start_ns, self.frame)
    }

    /// Time of its end, ns.
    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.wall_ns
    }

    /// Returns whether it was captured at its client: other connections and look-ups that were seen
    /// there may be the same host's, whatever their address.
    pub fn was_seen_at_client(&self) -> bool {
        matches!(self.vantage, Vantage::Client | Vantage::Local)
    }
}

/// An exchange with a name server over TCP: a look-up, if that was heard as well.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// The client.
    pub client: Endpoint,
    /// The name server.
    pub server: Endpoint,
    /// The kind of request.
    pub kind: Label,
    /// Its wall time by owner.
    pub ledger: Shares,
}

/// Such exchanges kept per shard; more are taken to have been heard.
const SPOKEN_MAX: usize = 1 << 12;

/// Number of servers with their own sums, per shard.
const ENDPOINTS_MAX: usize = 1 << 10;

/// Number of endpoints, including hosts whose other ports share a row.
const PLACES_MAX: usize = ENDPOINTS_MAX + ENDPOINTS_MAX / 4;

/// First exchanges kept per shard for linking, the earliest; later ones stand without their
/// look-up.
const FIRSTS_MAX: usize = 1 << 14;

/// First exchanges kept of an interval at least, however many intervals there are.
const INTERVAL_FIRSTS_MIN: usize = 1 << 9;

/// Returns whether what is asked on `connection` are names.
#[inline]
fn is_lookup(connection: &Connection) -> bool {
    connection.protocol() == Protocol::Dns && connection.server().port == DNS_PORT
}

/// All sums of one shard.
#[derive(Clone, Default)]
pub struct Tally {
    /// Per server endpoint.
    pub endpoints: HashMap<Endpoint, Box<EndpointTally>>,
    /// Per cause and culprit.
    pub causes: Causes,
    /// Connections.
    pub connections: u64,
    /// Connections by [`Vantage`].
    pub vantages: [u64; Vantage::ALL.len()],
    /// First exchanges of connections, for the look-ups before them.
    pub firsts: Vec<First>,
    /// Rank of the last of them, once later ones were dropped.
    last_first: Option<(u64, FrameId)>,
    /// SYNs that came to nothing, for the connections after them.
    pub(super) unanswered: Vec<Unanswered>,
    /// Requests that met a connection closed for idleness, for those that ask the same again.
    pub(super) in_vain: Vec<InVain>,
    /// Exchanges that are look-ups.
    pub spoken: Vec<Spoken>,
    /// Hosts to which something came in.
    pub heard: Heard,
    /// Exchanges that may have waited in a queue, and transfers that filled it.
    pub queues: Queues,
    /// Senders of large amounts.
    pub flows: Flows,
    /// Hosts of connections that were set up.
    pub hosts: Hosts,
    /// Ways between hosts, for connections that do not show them.
    pub(super) legs: Legs,
    /// Exchanges that are counted together, see [`Tally::settle`].
    runs: Runs,
    /// The connections that lost most.
    pub worst: Worst,
    /// The exchanges that took longest.
    pub slowest: Slowest,
    /// Defects of the capture, and events that cost no time.
    pub notes: Notes,
}

impl Sink for Tally {
    fn simple_exchange(&mut self, connection: &Connection, plain: &SimpleExchange<'_>) -> bool {
        let taken = !is_lookup(connection)
            && !Legs::is_open(connection)
            && !Queues::tells_of(plain)
            && self.runs.take_simple(connection, plain);
        if taken {
            self.slowest.simple_exchange(connection, plain);
        }
        let is_slow = plain.server_ns >= const { slow_ns(Cause::ServerThink) }
            || plain.path_ns >= const { slow_ns(Cause::PathRtt) };
        if taken && is_slow {
            self.at(connection.server()).tails.simple_exchange(plain);
        }
        if taken && plain.row.count >= SEQUENCE_MIN {
            self.at(connection.server()).rows.add(&plain.row, plain.path_ns);
        }
        taken
    }

    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        if is_lookup(connection) && exchange.fault_ns() == 0 {
            // The exchange is counted with the exchange that waited for it, or as a look-up.
            self.spoken(connection, exchange);
            return;
        }
        if exchange.wall_ns() >= WAIT_MIN_NS {
            self.at(connection.server()).tails.exchange(exchange);
        }
        let row = connection.totals.row();
        if row.count >= SEQUENCE_MIN {
            let path_ns = exchange.ledger.of(Owner::Path);
            self.at(connection.server()).rows.add(&row, path_ns);
        }
        self.slowest.exchange(connection, exchange);
        self.queues.exchange(connection, exchange);
        self.flows.exchange(connection, exchange);
        if exchange.connects {
            self.first(connection, exchange);
        }
        if Legs::is_open(connection) {
            let place = self.row_of(connection.server());
            self.legs.exchange(connection, exchange, place);
        }
        if self.runs.take(connection, exchange) {
            return;
        }
        let place = self.row_of(connection.server());
        self.endpoints.entry_ref(&place).or_default().exchange(connection, exchange);
        for chain in &exchange.chains {
            self.cause(connection, exchange, chain);
        }
        self.runs.begin(connection, exchange);
        if let Outcome::Reset { by } = exchange.outcome
            && exchange.request_seen
        {
            self.reset(connection, exchange, by);
        }
        if exchange.outcome == Outcome::Closed && closed_on(connection, exchange) {
            self.reset(connection, exchange, Side::Server);
        }
    }

    fn connection(&mut self, connection: &Connection) {
        self.connections += 1;
        for side in Side::ALL {
            if connection.senders[side as usize].counts().packets > 0 {
                let [client, server] = [connection.client(), connection.server()];
                self.heard.add(if side == Side::Server { client } else { server }.address);
            }
        }
        if let Some(unanswered) = Unanswered::of(connection) {
            self.unanswered.push(unanswered);
            fallback::bound(&mut self.unanswered);
        }
        self.vantages[connection.vantage() as usize] += 1;
        if connection.setup.is_established() || connection.setup.confirmed && connection.mid_stream
        {
            self.hosts.add([connection.client().address, connection.server().address]);
        }
        self.notes.connection(connection);
        self.worst.connection(connection);
        self.legs.connection(connection);
        self.queues.connection(connection);
        let place = self.row_of(connection.server());
        self.notes.crowded += u64::from(place != connection.server());
        self.endpoints.entry(place).or_default().connection(connection);
        if self.count_quiet(connection) {
            return;
        }
        for side in Side::ALL {
            let mut left = connection.totals.causes[side as usize];
            while let Some(&cause) = Cause::ALL.get(left.trailing_zeros() as usize) {
                let key = Key::of(cause, side, connection).within(place);
                self.causes.at(&key).connections += 1;
                left &= left - 1;
            }
        }
    }
}

impl Tally {
    /// The sums of `server`.
    #[inline(never)]
    fn at(&mut self, server: Endpoint) -> &mut EndpointTally {
        let place = self.row_of(server);
        self.endpoints.entry(place).or_default()
    }

    /// Keeps an exchange that is a look-up.
    #[cold]
    #[inline(never)]
    fn spoken(&mut self, connection: &Connection, exchange: &Exchange) {
        if self.spoken.len() < SPOKEN_MAX {
            let (client, server) = (connection.client(), connection.server());
            let (kind, ledger) = (exchange.kind, exchange.ledger.clone());
            self.spoken.push(Spoken { client, server, kind, ledger });
        }
    }

    /// Keeps the first exchange of a connection.
    #[inline(never)]
    fn first(&mut self, connection: &Connection, exchange: &Exchange) {
        self.keep_first(First {
            client: connection.client().address,
            server: connection.server(),
            start_ns: exchange.start_ns,
            kind: exchange.kind.digest(),
            wall_ns: exchange.wall_ns(),
            rtt_base_ns: connection.path.base_rtt_ns(),
            rtt_server_ns: connection.path.rtt_ns(Side::Server),
            vantage: connection.vantage(),
            set_up_again_ns: exchange.set_up_again_ns(),
            unheard_ns: match connection.setup.ignored_data() {
                0 => 0,
                _ => exchange.timed_out_ns(Side::Client),
            },
            established: connection.setup.established_ns().is_some(),
            answered: exchange.response_seen || exchange.is_complete(),
            answered_ns: exchange.answered_ns,
            is_syn_answered_late: connection.setup.is_syn_answered_late()
                && exchange.set_up_again_ns() > 0,
            frame: exchange.first.frame,
        });
    }

    #[inline]
    fn keep_first(&mut self, first: First) {
        if self.last_first.is_none_or(|last| first.rank() <= last) {
            self.firsts.push(first);
            self.bound_firsts();
        }
    }

    /// Returns the endpoint under which `server` is added up. A capture may name more servers than
    /// memory has room for. Those that come last are added up together: by host, under port 0, and
    /// once there are too many hosts as well, all of them.
    pub(super) fn row_of(&self, server: Endpoint) -> Endpoint {
        let known = self.endpoints.len();
        if known < ENDPOINTS_MAX || self.endpoints.contains_key(&server) {
            return server;
        }
        let host = Endpoint { port: 0, ..server };
        let room = known < PLACES_MAX || self.endpoints.contains_key(&host);
        if room { host } else { Endpoint::default() }
    }

    /// Drops the first exchanges that are too many, once there are a quarter more: so that is
    /// rarely done.
    fn bound_firsts(&mut self) {
        if self.firsts.len() >= FIRSTS_MAX + FIRSTS_MAX / 4 {
            self.drop_late_firsts();
        }
    }

    /// Drops the first exchanges that are too many, the latest: the same ones, whatever shard they
    /// were in.
    pub(super) fn drop_late_firsts(&mut self) {
        if self.firsts.len() > FIRSTS_MAX {
            let (_, last, _) = self.firsts.select_nth_unstable_by_key(FIRSTS_MAX - 1, First::rank);
            self.last_first = Some(last.rank());
            self.firsts.truncate(FIRSTS_MAX);
        }
    }

    /// The first exchanges that are kept, earliest first.
    pub(super) fn take_firsts(&mut self) -> Vec<First> {
        self.drop_late_firsts();
        let mut firsts = std::mem::take(&mut self.firsts);
        firsts.sort_by_cached_key(First::rank);
        firsts
    }

    /// Keeps the earliest first exchanges, of one of `intervals` intervals that have to share the
    /// room for them.
    pub(crate) fn keep_firsts_of_interval(&mut self, intervals: usize) {
        let kept = (FIRSTS_MAX / intervals.max(1)).max(INTERVAL_FIRSTS_MIN);
        if self.firsts.len() > kept {
            self.firsts.select_nth_unstable_by_key(kept, First::rank);
            self.firsts.truncate(kept);
        }
        self.firsts.shrink_to_fit();
        self.last_first = None;
    }

    /// Removes causes of connections in the report that occurred outside its time window.
    pub(crate) fn leave_out_past_causes(&mut self) {
        self.settle();
        self.causes.take_all(|_, cause| cause.count == 0);
    }

    /// Cost of `cause` at `server`, ns.
    pub(super) fn cost_of(&self, cause: Cause, server: Endpoint) -> u64 {
        let of_server = self.causes.of(server).filter(|(key, _)| key.cause == cause);
        of_server.map(|(_, tally)| tally.lost_ns).sum()
    }

    /// Returns whether the capture shows one direction only, of most connections.
    pub(crate) fn one_way(&self) -> bool {
        2 * self.notes.one_sided() > self.connections
    }

    /// Returns whether the capture does not show every frame just once.
    pub(crate) fn is_flawed(&self) -> bool {
        self.one_way() || self.notes.has_copies()
    }

    fn cause(&mut self, connection: &Connection, exchange: &Exchange, chain: &Chain) {
        let place = self.row_of(connection.server());
        let key = Key::of(chain.cause, chain.sender, connection).within(place);
        let tally = self.causes.at(&key);
        tally.add(exchange, chain);
        if rules(chain.cause).counts_clients {
            tally.callers.add(connection.client().address, 1);
        }
        let scene = Scene { connection, exchange, chain };
        scene.add_to(&mut tally.shown);
        let gap = &chain.gap;
        let rank = (chain.clarity(), std::cmp::Reverse((gap.end_ns, gap.next.frame)));
        if tally.wants(rank) {
            tally.worst = Some(scene.instance(&key, rank));
        }
    }

    /// Moves `ns` of the time that `from` owned at the server of `key` to `into`, which is an owner
    /// of a fault or not. The key is no longer among the causes.
    pub(super) fn shift(
        &mut self,
        key: &Key,
        (from, into): (Owner, Owner),
        ns: u64,
        is_fault: bool,
    ) {
        if let Some(endpoint) = self.endpoints.get_mut(&key.server) {
            endpoint.all.ledger.transfer(from, into, ns);
            let is_last = !self.causes.of(key.server).any(|(other, _)| other.cause == key.cause);
            self.worst.reassign(key, (from, into), is_fault, is_last);
        }
    }

    /// Removes `key` from the causes and returns its sums. Its time goes from `from` to `into`;
    /// with the last key of its cause also the time of `from` that belongs to no cause.
    pub(super) fn revise_spurious(
        &mut self,
        key: &Key,
        (from, into): (Owner, Owner),
    ) -> Option<CauseTally> {
        let cause = self.causes.remove(key)?;
        let is_last = !self.causes.of(key.server).any(|(other, _)| other.cause == key.cause);
        let held = self.endpoints.get(&key.server).map_or(0, |it| it.all.ledger.of(from));
        self.shift(key, (from, into), if is_last { held } else { cause.lost_ns }, false);
        Some(cause)
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, mut other: Self) {
        self.settle();
        other.settle();
        for (endpoint, theirs) in other.endpoints {
            self.endpoints.entry(endpoint).or_default().merge(*theirs);
        }
        self.causes.merge(other.causes);
        let is_late = |first: &First| self.last_first.is_some_and(|last| first.rank() > last);
        self.firsts.extend(other.firsts.into_iter().filter(|first| !is_late(first)));
        self.bound_firsts();
        self.unanswered.extend(other.unanswered);
        fallback::bound(&mut self.unanswered);
        self.in_vain.extend(other.in_vain);
        retries::bound(&mut self.in_vain);
        self.spoken.extend(other.spoken);
        self.heard.merge(other.heard);
        self.notes.merge(&other.notes);
        self.worst.merge(other.worst);
        self.slowest.merge(other.slowest);
        self.queues.merge(other.queues);
        self.flows.merge(other.flows);
        self.hosts.merge(&other.hosts);
        self.legs.merge(other.legs);
        self.connections += other.connections;
        for (mine, theirs) in self.vantages.iter_mut().zip(other.vantages) {
            *mine += theirs;
        }
    }
}
