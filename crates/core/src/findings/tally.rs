//! Sums of one shard: per endpoint, per cause and culprit, and the worst connections.

mod acts;
mod affected_clients;
mod causes;
mod culprits;
pub(super) mod endings;
mod endpoint;
mod failures;
mod firsts;
mod flows;
mod history;
mod hosts;
mod messages;
pub(in crate::findings) mod moves;
mod queues;
mod receiving_hosts;
mod rows;
mod runs;
mod slowest;
mod tails;
mod vantages;
mod waits;

pub use acts::{Act, Acts};
pub use affected_clients::AffectedClients;
pub use causes::Causes;
pub use culprits::{CauseTally, Instance, Key, Part};
pub use endpoint::{
    EndpointTally, Group, Handshakes, Holds, KIND_OTHER, RoundTrips, Sample, SenderTally,
};
use firsts::FIRSTS_MAX;
pub use firsts::First;
pub use flows::{Flow, Flows};
pub use hosts::Hosts;
pub use messages::{LOST_SECOND, Losses, Messages, has_lost_second};
pub use queues::{CleanHandshake, Queues, SmallExchange, Transfer};
pub use receiving_hosts::ReceivingHosts;
pub use rows::Rows;
use runs::Runs;
pub use slowest::Slowest;
pub use tails::{Tails, slow_ns};
pub use vantages::Vantages;
pub use waits::{Wait, Waits};

use crate::app::{Label, Protocol};
use crate::capture::FrameId;
use crate::dns::{DNS_PORT, Lookup};
use crate::findings::announced::{self, Announcement};
use crate::findings::answers::Answers;
use crate::findings::attempts::Syns;
use crate::findings::causes::{error_responses, rules};
use crate::findings::failed_upstream::{self, ServerError};
use crate::findings::fallback::Unanswered;
use crate::findings::left_waiting::LeftWaiting;
use crate::findings::legs::Legs;
use crate::findings::listeners::Guessed;
use crate::findings::notes::Notes;
use crate::findings::quic::Attempt;
use crate::findings::retries::FailedRequest;
use crate::findings::scene::Scene;
use crate::findings::thresholds::COST_MIN_NS;
use crate::findings::unheard::Unheard;
use crate::findings::worst::Worst;
use crate::findings::{fallback, left_waiting, lookups, quic, retries, unheard};
use crate::model::quic::Sums;
use crate::model::{Cause, Owner, Shares, Window};
use crate::tcp::{Chain, Connection, Exchange, Series, SimpleExchange, Sink};
use crate::wire::{Endpoint, Side};
use hashbrown::HashMap;
use std::cmp::Reverse;

/// An exchange with a name server over TCP. It is a look-up if its messages were also processed as
/// one.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct TcpLookup {
    /// The client.
    pub client: Endpoint,
    /// The name server.
    pub server: Endpoint,
    /// The kind of request.
    pub kind: Label,
    /// Wall time of the exchange by owner.
    pub ledger: Shares,
    /// It is counted as an exchange, since a fault took time in it.
    pub is_counted: bool,
}

/// Number of such exchanges kept per shard. Any more are treated as look-ups.
const TCP_LOOKUPS_MAX: usize = 1 << 8;

/// Number of servers with their own sums, per shard.
const ENDPOINTS_MAX: usize = 1 << 8;

/// Number of endpoints, including hosts whose other ports share a row.
const PLACES_MAX: usize = ENDPOINTS_MAX + ENDPOINTS_MAX / 4;

/// Number of server hosts per shard of which it is known when they were last heard.
const HEARD_MAX: usize = 1 << 10;

/// Returns whether `connection` carries name look-ups.
#[inline]
fn is_lookup(connection: &Connection) -> bool {
    connection.framer.protocol() == Protocol::Dns && connection.server().port == DNS_PORT
}

/// All sums of one shard.
#[derive(Clone, Default, serde::Deserialize, serde::Serialize)]
pub struct Tally {
    /// Sums per server endpoint.
    pub endpoints: HashMap<Endpoint, Box<EndpointTally>>,
    /// Sums per cause and culprit.
    pub causes: Causes,
    /// Number of connections.
    pub connections: u64,
    /// Where they were captured.
    pub vantages: Vantages,
    /// First exchanges of connections, for the look-ups before them.
    pub firsts: Vec<First>,
    /// Rank of the last of `firsts`, once later ones were dropped.
    last_first: Option<(u64, FrameId)>,
    /// Number of kinds of requests of all endpoints.
    kinds: usize,
    /// SYNs with their results.
    pub(super) syns: Syns,
    /// SYNs that were never answered, for the connections after them.
    pub(super) unanswered: Vec<Unanswered>,
    /// Servers that did not answer a client, and those to which it went then.
    pub(super) led_to: Vec<(Endpoint, Endpoint)>,
    /// Requests that failed on a connection closed for idleness, for their retries.
    pub(super) failed_requests: Vec<FailedRequest>,
    /// Requests that were never acknowledged.
    pub(super) unheard: Vec<Unheard>,
    /// Requests whose client waited in vain.
    pub(super) left_waiting: Vec<LeftWaiting>,
    /// Addresses that were announced for data connections.
    pub(super) announcements: Vec<Announcement>,
    /// Errors of proxies about the servers behind them.
    pub(super) server_errors: Vec<ServerError>,
    /// Time at which a server's host was last heard, ns.
    pub(super) heard: HashMap<[u8; 16], u64>,
    /// Exchanges that are look-ups.
    pub tcp_lookups: Vec<TcpLookup>,
    /// Hosts whose names were looked up, and times of answers.
    #[serde(skip)]
    pub(super) answers: Answers,
    /// Hosts that received something.
    pub receiving_hosts: ReceivingHosts,
    /// Hosts that received answers which the capture lacks.
    pub unseen_receivers: ReceivingHosts,
    /// Exchanges that may have waited in a queue, and transfers that filled it.
    pub queues: Queues,
    /// Large transfers.
    pub flows: Flows,
    /// Hosts of connections that were set up.
    pub hosts: Hosts,
    /// Servers of connections whose roles nothing shows.
    pub(super) guessed: Guessed,
    /// Round trips between hosts, for connections that do not show them.
    pub(super) legs: Legs,
    /// Exchanges that are counted together, see [`Tally::settle`].
    #[serde(skip)]
    runs: Runs,
    /// The connections that lost most time.
    pub worst: Worst,
    /// The exchanges that took longest.
    pub slowest: Slowest,
    /// Defects of the capture, and events that cost no time.
    pub notes: Notes,
    /// Requests after idleness, and ends of idle connections.
    pub acts: Acts,
    /// Losses by message.
    pub messages: Messages,
    /// Connections of QUIC.
    pub quic: Sums,
    /// Those that were never answered, for the connections after them.
    pub(super) quic_attempts: Vec<Attempt>,
}

impl Sink for Tally {
    fn simple_exchange(&mut self, connection: &Connection, plain: &SimpleExchange<'_>) -> bool {
        let taken = !is_lookup(connection)
            && !Legs::is_open(connection)
            && !Queues::may_be_queued(plain)
            && !announced::announces(connection, plain.kind)
            && self.runs.take_simple(connection, plain);
        if taken {
            self.slowest.simple_exchange(connection, plain);
        }
        let is_slow = plain.server_ns >= const { slow_ns(Cause::ServerThink) }
            || plain.path_ns >= const { slow_ns(Cause::PathRtt) };
        if taken && is_slow {
            let endpoint = self.at(connection.server());
            endpoint.tails.simple_exchange(plain);
            endpoint.under_way.simple_exchange(connection, plain);
        }
        if taken && Rows::takes(&plain.row) {
            self.at(connection.server()).rows.add(&plain.row, plain.path_ns);
        }
        taken
    }

    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        if is_lookup(connection) {
            self.tcp_lookups(connection, exchange);
            if exchange.fault_ns() == 0 {
                // It is counted with the exchange that waited for it, or as a look-up.
                return;
            }
        }
        if announced::announces(connection, &exchange.kind) {
            announced::keep(&mut self.announcements, connection, exchange);
        }
        if connection.at_end().answers_half_closed(exchange) {
            self.at(connection.server()).half_closed += 1;
        }
        if exchange.wall_ns() >= COST_MIN_NS {
            let endpoint = self.at(connection.server());
            endpoint.tails.exchange(exchange);
            endpoint.under_way.exchange(connection, exchange);
        }
        let row = connection.totals.row();
        if Rows::takes(&row) {
            let path_ns = exchange.ledger.of(Owner::Path);
            self.at(connection.server()).rows.add(&row, path_ns);
        }
        self.slowest.exchange(connection, exchange);
        self.notes.first_requests.exchange(connection, exchange);
        self.queues.exchange(connection, exchange);
        self.flows.exchange(connection, exchange);
        if exchange.connects {
            self.first(connection, exchange);
        }
        if Legs::is_open(connection) {
            let place = self.row_of(connection.server());
            self.legs.exchange(connection, exchange, place);
        }
        if Acts::has_rested(exchange) {
            self.acts.exchange(connection, exchange);
        }
        if self.runs.take(connection, exchange) {
            return;
        }
        let place = self.row_of(connection.server());
        let endpoint = self.endpoints.entry_ref(&place).or_default();
        let kinds = endpoint.kinds.len();
        endpoint.exchange(connection, exchange);
        self.kinds += endpoint.kinds.len() - kinds;
        let replaced = failures::replaced(connection, exchange);
        for chain in &exchange.chains {
            if replaced != Some((chain.cause, chain.sender)) {
                self.vantages.add_loss(connection, chain);
                self.cause(connection, exchange, chain);
            }
        }
        self.runs.begin(connection, exchange);
        self.failure(connection, exchange);
    }

    fn series(&mut self, connection: &Connection, series: &Series) {
        if series.busy_ns >= COST_MIN_NS {
            self.at(connection.server()).waits.add_series(connection, series);
        }
    }

    fn unanswered(&mut self, connection: &Connection, exchange: &Exchange) {
        self.waiting(connection, exchange, false);
    }

    fn unseen(&mut self, _: &Connection, exchange: &Exchange) {
        self.notes.count_unseen(exchange);
    }

    fn unclear(&mut self, connection: &Connection, exchange: &Exchange) {
        let endpoint = self.at(connection.server());
        let kinds = endpoint.kinds.len();
        endpoint.unclear(exchange);
        let more = endpoint.kinds.len() - kinds;
        self.kinds += more;
        self.half_closed(connection, exchange, false);
    }

    fn connection(&mut self, connection: &Connection) {
        self.connections += 1;
        for side in Side::ALL {
            if connection.senders[side].counts().packets > 0 {
                let [client, server] = [connection.client(), connection.server()];
                self.receiving_hosts
                    .add(if side == Side::Server { client } else { server }.address);
            }
        }
        if connection.setup.has_heard_answer() && connection.setup.syn_acks == 0 {
            self.unseen_receivers.add(connection.client().address);
        }
        self.syns.connection(connection);
        if let Some(unanswered) = Unanswered::of(connection) {
            self.unanswered.push(unanswered);
            fallback::bound(&mut self.unanswered);
        }
        // Which of its ends is near is not known of a connection whose client is not.
        if !connection.is_undirected() {
            self.vantages.add(&connection.path, connection.view().is_acknowledged_nearer());
        }
        if connection.setup.is_established() || connection.setup.confirmed && connection.mid_stream
        {
            self.hosts.add([connection.client().address, connection.server().address]);
        }
        self.hear(connection);
        self.notes.connection(connection);
        self.guessed.connection(connection);
        self.acts.connection(connection);
        self.messages.connection(connection);
        self.worst.connection(connection);
        self.legs.connection(connection);
        self.queues.connection(connection);
        let place = self.row_of(connection.server());
        self.notes.crowded += u64::from(place != connection.server());
        self.endpoints.entry(place).or_default().connection(connection);
        if self.count_quiet(connection) {
            return;
        }
        self.bound_shard();
        for side in Side::ALL {
            for cause in connection.totals.causes[side].iter() {
                let key = Key::of(cause, side, connection).within(place);
                let tally = self.causes.at(&key);
                tally.connections += 1;
                if cause == Cause::ErrorResponses
                    && let Some(refused) = connection.framer.refused()
                {
                    error_responses::add_refused(refused, &mut tally.shown);
                }
            }
        }
    }
}

impl Tally {
    /// Records when the server of `connection` was last heard on it.
    fn hear(&mut self, connection: &Connection) {
        let heard_ns = self.heard.entry(connection.server().address).or_default();
        *heard_ns = connection.at_end().heard_ns(Side::Server).max(*heard_ns);
        self.bound_heard();
    }

    /// Forgets the hosts beyond the maximum that were heard least recently, once there are twice as
    /// many.
    fn bound_heard(&mut self) {
        if self.heard.len() > 2 * HEARD_MAX {
            let mut all: Vec<_> = self.heard.drain().collect();
            let rank = |(host, heard_ns): &([u8; 16], u64)| (Reverse(*heard_ns), *host);
            all.select_nth_unstable_by_key(HEARD_MAX, rank);
            self.heard.extend(all.into_iter().take(HEARD_MAX));
        }
    }

    /// Returns the sums of `server`.
    #[inline(never)]
    fn at(&mut self, server: Endpoint) -> &mut EndpointTally {
        let place = self.row_of(server);
        self.endpoints.entry(place).or_default()
    }

    /// Keeps an exchange that is a look-up.
    #[cold]
    #[inline(never)]
    fn tcp_lookups(&mut self, connection: &Connection, exchange: &Exchange) {
        if self.tcp_lookups.len() < TCP_LOOKUPS_MAX {
            let (client, server) = (connection.client(), connection.server());
            let (kind, ledger) = (exchange.kind, exchange.ledger.shares().clone());
            let is_counted = exchange.fault_ns() > 0;
            self.tcp_lookups.push(TcpLookup { client, server, kind, ledger, is_counted });
        }
    }

    /// Returns the endpoint under which the sums of `server` are kept. A capture may contain more
    /// servers than memory has room for. The last ones are added up together: by host, under port
    /// 0, and once there are too many hosts as well, all of them.
    pub(super) fn row_of(&self, server: Endpoint) -> Endpoint {
        let known = self.endpoints.len();
        if known < ENDPOINTS_MAX || self.endpoints.contains_key(&server) {
            return server;
        }
        let host = Endpoint { port: 0, ..server };
        let room = known < PLACES_MAX || self.endpoints.contains_key(&host);
        if room { host } else { Endpoint::default() }
    }

    /// Adds up a part of the look-ups of this tally; others follow.
    pub(crate) fn link_part(&mut self, lookups: Vec<Lookup>, window: &Window) {
        let tcp_lookups = std::mem::take(&mut self.tcp_lookups);
        lookups::link(lookups, window, self);
        self.tcp_lookups = tcp_lookups;
    }

    /// Removes causes of connections in the report that occurred outside its time window.
    pub(crate) fn remove_past_causes(&mut self) {
        self.settle();
        self.causes.take_all(|_, cause| cause.count == 0);
    }

    /// Cost of `cause` at `server`, ns.
    pub(super) fn cost_of(&self, cause: Cause, server: Endpoint) -> u64 {
        let of_server = self.causes.of(server).filter(|(key, _)| key.cause == cause);
        of_server.map(|(_, tally)| tally.lost_ns).sum()
    }

    /// Returns whether the capture lacks what came to `host`: some of it is known to have arrived, and
    /// none of it was captured. That an answer is not there shows nothing then.
    pub(super) fn lacks_answers_to(&self, host: &[u8; 16]) -> bool {
        self.unseen_receivers.have(host) && !self.receiving_hosts.may_have_received(host)
    }

    /// Returns whether the capture contains only one direction of most connections.
    pub(crate) fn one_way(&self) -> bool {
        2 * self.notes.one_sided() > self.connections
    }

    /// Returns whether the capture contains frames twice, or only one direction of most
    /// connections.
    pub(crate) fn is_flawed(&self) -> bool {
        self.one_way() || self.notes.has_copies()
    }

    fn cause(&mut self, connection: &Connection, exchange: &Exchange, chain: &Chain) {
        let place = self.row_of(connection.server());
        let key = Key::of(chain.cause, chain.sender, connection).within(place);
        let tally = self.causes.at(&key);
        tally.add(exchange, chain);
        if rules(chain.cause).counts_clients {
            tally.affected_clients.add(connection.client().address, 1);
        }
        let scene = Scene { connection, exchange, chain };
        scene.add_to(&mut tally.shown);
        let gap = &chain.gap;
        let rank = (chain.clarity(), std::cmp::Reverse((gap.end_ns, gap.next.frame)));
        if tally.wants(rank) {
            tally.worst = Some(scene.instance(&key, rank));
        }
    }

    /// Moves `ns` of the time that `from` owned at the server of `key` to `into`, which has it by the
    /// cause `to` if there is one. The key is no longer among the causes.
    pub(super) fn shift(
        &mut self,
        key: &Key,
        (from, into): (Owner, Owner),
        ns: u64,
        to: Option<Cause>,
    ) {
        if let Some(endpoint) = self.endpoints.get_mut(&key.server) {
            endpoint.all.ledger.transfer(from, into, ns);
            let is_last = !self.causes.of(key.server).any(|(other, _)| other.cause == key.cause);
            self.worst.reassign(key, (from, into), to, is_last);
        }
    }

    /// Removes `key` from the causes and returns its sums. Its time goes from `from` to `into`;
    /// with the last key of its cause, also the time of `from` that belongs to no cause does.
    pub(super) fn remove_cause(
        &mut self,
        key: &Key,
        (from, into): (Owner, Owner),
    ) -> Option<CauseTally> {
        let cause = self.causes.remove(key)?;
        let is_last = !self.causes.of(key.server).any(|(other, _)| other.cause == key.cause);
        let held = self.endpoints.get(&key.server).map_or(0, |it| it.all.ledger.of(from));
        self.shift(key, (from, into), if is_last { held } else { cause.lost_ns }, None);
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
        self.kinds += other.kinds;
        let is_late = |first: &First| self.last_first.is_some_and(|last| first.rank() > last);
        self.firsts.extend(other.firsts.into_iter().filter(|first| !is_late(first)));
        self.bound_firsts(FIRSTS_MAX);
        self.syns.merge(other.syns);
        self.unanswered.extend(other.unanswered);
        fallback::bound(&mut self.unanswered);
        self.failed_requests.extend(other.failed_requests);
        retries::bound(&mut self.failed_requests);
        self.unheard.extend(other.unheard);
        unheard::bound(&mut self.unheard, unheard::KEPT_MAX);
        self.left_waiting.extend(other.left_waiting);
        left_waiting::bound(&mut self.left_waiting, left_waiting::KEPT_MAX);
        self.announcements.extend(other.announcements);
        announced::bound(&mut self.announcements, announced::KEPT_MAX);
        self.server_errors.extend(other.server_errors);
        failed_upstream::bound(&mut self.server_errors, failed_upstream::KEPT_MAX);
        for (host, heard_ns) in other.heard {
            let mine = self.heard.entry(host).or_default();
            *mine = heard_ns.max(*mine);
        }
        self.bound_heard();
        self.tcp_lookups.extend(other.tcp_lookups);
        self.answers.merge(other.answers);
        self.receiving_hosts.merge(other.receiving_hosts);
        self.unseen_receivers.merge(other.unseen_receivers);
        self.notes.merge(&other.notes);
        self.acts.merge(other.acts);
        self.messages.merge(&other.messages);
        self.quic.merge(other.quic);
        self.quic_attempts.extend(other.quic_attempts);
        quic::bound(&mut self.quic_attempts);
        self.worst.merge(other.worst);
        self.slowest.merge(other.slowest);
        self.queues.merge(other.queues);
        self.flows.merge(other.flows);
        self.hosts.merge(&other.hosts);
        self.legs.merge(other.legs);
        self.guessed.merge(other.guessed);
        self.connections += other.connections;
        self.vantages.merge(&other.vantages);
    }
}
