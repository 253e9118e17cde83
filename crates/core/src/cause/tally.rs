//! What one shard adds up: per endpoint, per cause and culprit, and the worst connections.

mod causes;
mod culprits;
mod endpoint;
mod queues;

pub use causes::Causes;
pub use culprits::{CauseTally, Instance, Key};
pub use endpoint::{EndpointTally, Group, KIND_OTHER, Sample};
pub use queues::{Queues, Small, Transfer};

use super::fallback::{self, Unanswered};
use super::notes::Notes;
use super::scene::Scene;
use super::worst::Worst;
use super::{Cause, Owner, Role};
use crate::app::{Label, Protocol, Side};
use crate::capture::FrameId;
use crate::dns::DNS_PORT;
use crate::report::{Shares, Vantage};
use crate::tcp::{Chain, Connection, Exchange, Outcome, Sink};
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// A client that gives up earlier than this did not give up for want of an answer.
const PATIENCE_NS: u64 = 1_000_000_000;

/// The first exchange of a connection: what a look-up before it would have held up.
#[derive(Clone, Copy, Debug)]
pub struct First {
    /// The client's address.
    pub client: [u8; 16],
    /// The server.
    pub server: Endpoint,
    /// When its SYN was seen, ns.
    pub start_ns: u64,
    /// What was asked, see [`crate::app::Label::digest`].
    pub kind: u64,
    /// Its wall time, ns.
    pub wall_ns: u64,
    /// Base round trip to the server, ns.
    pub rtt_base_ns: u64,
    /// Least round trip from the vantage to the server, ns; 0 if unknown.
    pub rtt_server_ns: u64,
    /// Where it was captured.
    pub vantage: Vantage,
    /// What of it went to repeating the set-up, ns.
    pub set_up_again_ns: u64,
    /// What of it went to repeating a request to a server that had not said anything yet, ns.
    pub unheard_ns: u64,
    /// It was answered.
    pub answered: bool,
    /// When its response began to pass the vantage, ns; 0 if it did not.
    pub answered_ns: u64,
    /// The server answered its SYN.
    pub established: bool,
    /// Its SYN was answered only when it came again.
    pub syn_unheard: bool,
    /// Its first frame.
    pub frame: FrameId,
}

impl First {
    /// When it was over, ns.
    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.wall_ns
    }

    /// Whether it was captured at its client: other connections and look-ups that were seen there may
    /// be the same host's, whatever their address.
    pub fn was_seen_at_client(&self) -> bool {
        matches!(self.vantage, Vantage::Client | Vantage::Local)
    }
}

/// An exchange with a name server over TCP: a look-up, if that was heard as well.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// Who asked.
    pub client: Endpoint,
    /// The name server.
    pub server: Endpoint,
    /// What was asked.
    pub kind: Label,
    /// Its wall time by owner.
    pub ledger: Shares,
}

/// Such exchanges kept per shard; more are taken to have been heard.
const SPOKEN_MAX: usize = 1 << 12;

/// Servers told apart per shard.
const ENDPOINTS_MAX: usize = 1 << 10;

/// First exchanges kept per shard for linking, the earliest; later ones stand without their look-up.
const FIRSTS_MAX: usize = 1 << 14;

/// Everything one shard adds up.
#[derive(Default)]
pub struct Tally {
    /// Per server endpoint.
    pub endpoints: HashMap<Endpoint, Box<EndpointTally>>,
    /// Per cause and culprit.
    pub causes: Causes,
    /// Connections.
    pub connections: u64,
    /// By vantage.
    pub vantages: HashMap<u8, u64>,
    /// First exchanges of connections, for the look-ups before them.
    pub firsts: Vec<First>,
    /// SYNs that came to nothing, for the connections after them.
    pub(super) unanswered: Vec<Unanswered>,
    /// Exchanges that are look-ups.
    pub spoken: Vec<Spoken>,
    /// Who may have stood in a queue, and who kept it filled.
    pub queues: Queues,
    /// The connections that lost most.
    pub worst: Worst,
    /// What is wrong with the trace, or was noticed and cost nobody anything.
    pub notes: Notes,
}

impl Sink for Tally {
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let server = connection.server();
        let is_lookup = connection.protocol() == Protocol::Dns && server.port == DNS_PORT;
        if is_lookup && exchange.fault_ns() == 0 {
            // It is counted with what waited for it, or else as a look-up.
            if self.spoken.len() < SPOKEN_MAX {
                let client = connection.client();
                let (kind, ledger) = (exchange.kind, exchange.ledger.clone());
                self.spoken.push(Spoken { client, server, kind, ledger });
            }
            return;
        }
        let place = self.place(server);
        self.endpoints.entry_ref(&place).or_default().exchange(connection, exchange);
        for chain in &exchange.chains {
            self.cause(connection, exchange, chain);
        }
        self.queues.exchange(connection, exchange);
        if exchange.connects {
            self.firsts.push(First {
                client: connection.client().address,
                server,
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
                syn_unheard: connection.setup.syn_unheard() && exchange.set_up_again_ns() > 0,
                frame: exchange.first.frame,
            });
            self.bound_firsts();
        }
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
        if let Some(unanswered) = Unanswered::of(connection) {
            self.unanswered.push(unanswered);
            fallback::bound(&mut self.unanswered);
        }
        *self.vantages.entry(connection.vantage() as u8).or_default() += 1;
        self.notes.connection(connection);
        self.worst.connection(connection);
        self.queues.connection(connection);
        let place = self.place(connection.server());
        self.notes.crowded += u64::from(place != connection.server());
        self.endpoints.entry(place).or_default().connection(connection);
        for side in Side::ALL {
            for &cause in Cause::ALL {
                if connection.totals.causes[side as usize] & 1 << cause as u64 != 0 {
                    let key = Key::of(cause, side, connection).within(place);
                    self.causes.at(&key).connections += 1;
                }
            }
        }
    }
}

/// A server that closes sooner after it spoke has not waited for another request.
const IDLE_NS: u64 = 250_000_000;

/// Whether the server had waited for the request that it answered with a RST, before it closed if it
/// did.
fn was_idle(connection: &Connection, exchange: &Exchange) -> bool {
    let since_ns = match exchange.idle_ns {
        0 if connection.totals.exchanges <= 1 => {
            connection.setup.established_ns().unwrap_or(exchange.start_ns)
        }
        idle_ns => exchange.start_ns.saturating_sub(idle_ns),
    };
    let closed_ns = connection.ending().fin_ns[Side::Server as usize];
    closed_ns.unwrap_or(exchange.start_ns).min(exchange.start_ns).saturating_sub(since_ns)
        >= IDLE_NS
}

/// Whether the capture misses nothing of the connection that its framing rests on.
fn is_whole(connection: &Connection) -> bool {
    let faults = connection.faults();
    faults.truncated + faults.missing_bytes == 0
}

/// Whether what was asked is known to be a request, and no goodbye.
fn is_http(connection: &Connection, exchange: &Exchange) -> bool {
    connection.protocol() == Protocol::Http1 && !exchange.kind.is_empty()
}

/// Whether the response had told where it ends, and ended before that.
fn is_cut_short(connection: &Connection, exchange: &Exchange) -> bool {
    let begun = exchange.response_seen && !exchange.is_complete();
    begun && is_whole(connection) && connection.announces_end()
}

/// Whether an orderly FIN was none for the client: it cut the response short, or was the answer to a
/// request on a connection that had lain idle. (What a server closes for without an answer
/// otherwise may be a goodbye.)
fn closed_on(connection: &Connection, exchange: &Exchange) -> bool {
    let http = is_http(connection, exchange) && is_whole(connection);
    let unanswered = http && exchange.request_seen && !exchange.response_seen;
    unanswered && was_idle(connection, exchange) || is_cut_short(connection, exchange)
}

impl Tally {
    /// Where what concerns `server` is added up: a capture may name more servers than memory has room
    /// for, and those that come last are told together.
    pub(super) fn place(&self, server: Endpoint) -> Endpoint {
        let full = self.endpoints.len() >= ENDPOINTS_MAX && !self.endpoints.contains_key(&server);
        if full { Endpoint::default() } else { server }
    }

    /// Drops the first exchanges that are too many, once there are a quarter more: so they are
    /// rarely sorted.
    fn bound_firsts(&mut self) {
        if self.firsts.len() >= FIRSTS_MAX + FIRSTS_MAX / 4 {
            self.firsts.sort_unstable_by_key(|first| (first.start_ns, first.frame));
            self.firsts.truncate(FIRSTS_MAX);
        }
    }

    /// The first exchanges that are kept, earliest first: the same ones, whatever shard they were
    /// in.
    pub(super) fn take_firsts(&mut self) -> Vec<First> {
        let mut firsts = std::mem::take(&mut self.firsts);
        firsts.sort_unstable_by_key(|first| (first.start_ns, first.frame));
        firsts.truncate(FIRSTS_MAX);
        firsts
    }

    /// What `cause` cost at `server`, ns.
    pub(super) fn cost_of(&self, cause: Cause, server: Endpoint) -> u64 {
        let of_server = self.causes.of(server).filter(|(key, _)| key.cause == cause);
        of_server.map(|(_, tally)| tally.lost_ns).sum()
    }

    /// Whether the capture shows one direction only, of most connections.
    pub(crate) fn one_way(&self) -> bool {
        2 * self.notes.one_sided() > self.connections
    }

    fn cause(&mut self, connection: &Connection, exchange: &Exchange, chain: &Chain) {
        let place = self.place(connection.server());
        let key = Key::of(chain.cause, chain.sender, connection).within(place);
        let tally = self.causes.at(&key);
        tally.add(exchange, chain);
        let scene = Scene { connection, exchange, chain };
        scene.add_to(&mut tally.shown);
        let gap = &chain.gap;
        let rank = (chain.clarity(), std::cmp::Reverse((gap.end_ns, gap.next.frame)));
        if tally.wants(rank) {
            let side = if key.culprit.role == Role::Client { Side::Client } else { Side::Server };
            tally.worst = Some(Instance {
                rank,
                proof: scene.proof(),
                client: connection.client(),
                server: connection.server(),
                vantage: connection.vantage(),
                software: connection.software(side).map(Box::from),
                protocol: connection.protocol(),
            });
        }
    }

    /// An exchange that a RST ended: refused, cut off, or sent into a connection that had been
    /// closed for idleness.
    fn reset(&mut self, connection: &Connection, exchange: &Exchange, by: Side) {
        let fin_before = connection.ending().fin_ns[by as usize].is_some();
        // A client that says goodbye without waiting for an answer has lost nothing.
        let impatient = exchange.wall_ns() >= PATIENCE_NS && !fin_before;
        // One that does not take the end of a response that was announced has broken off, unless it had
        // given up before any of it came.
        let client_fin_ns = connection.ending().fin_ns[Side::Client as usize];
        let begun_ns = exchange.answered_ns + connection.path.rtt_ns(Side::Client);
        let heard = client_fin_ns.is_none_or(|at_ns| at_ns >= begun_ns);
        let broken_off = heard && is_cut_short(connection, exchange);
        let content = fin_before && !broken_off || !exchange.response_seen;
        if by == Side::Client && !impatient && content {
            return;
        }
        // Nor has one that had closed of its own accord when the RST came.
        let [client_fin_ns, server_fin_ns] = connection.ending().fin_ns;
        // What was sent before a FIN and not captured whole may have been a goodbye, too.
        if !is_whole(connection) && client_fin_ns.is_some() && !exchange.response_seen {
            return;
        }
        let left = client_fin_ns.is_some_and(|at_ns| server_fin_ns.is_none_or(|it| at_ns < it));
        if left && !(by == Side::Client && broken_off) {
            return;
        }
        // Nor one that answered its server's goodbye, which had reached it, with its own.
        let rtt_client_ns = connection.path.rtt_ns(Side::Client);
        let knew = server_fin_ns.is_some_and(|at_ns| at_ns + rtt_client_ns <= exchange.start_ns);
        let readable = is_http(connection, exchange);
        if knew && client_fin_ns.is_some() && !exchange.response_seen && !readable {
            return;
        }
        // What is not a request that can be read, sent to a server that had closed behind its answer
        // before it came there, is a goodbye.
        let unread = matches!(connection.protocol(), Protocol::Turns | Protocol::Tls);
        let heard_ns = exchange.start_ns + connection.path.rtt_ns(Side::Server);
        let unheard = server_fin_ns.is_some_and(|at_ns| at_ns <= heard_ns);
        if unheard && unread && !exchange.response_seen && !was_idle(connection, exchange) {
            return;
        }
        let cause = match () {
            () if connection.setup.refused => Cause::Refused,
            () if by == Side::Server
                && !exchange.response_seen
                && was_idle(connection, exchange) =>
            {
                Cause::IdleReset
            }
            () => Cause::Reset,
        };
        let reset = connection.ending().reset.unwrap_or(exchange.last);
        let at_ns = reset.time_ns;
        let from_ns = exchange.end_ns.min(at_ns);
        let gap = crate::tcp::Gap::between(by, from_ns, at_ns, exchange.first, reset);
        // What was waited for was for nothing: it has to be asked again.
        let ns = exchange.wall_ns().saturating_sub(exchange.fault_ns());
        let chain = Chain { cause, sender: by, ns, count: 1, longest_ns: ns, tails: 0, gap };
        self.cause(connection, exchange, &chain);
        let key = Key::of(cause, by, connection).within(self.place(connection.server()));
        let tally = self.causes.at(&key);
        tally.connections += 1;
        tally.covers.take(&exchange.ledger);
    }

    /// `ns` of the time that `from` owned at the server of `key`, which is no longer among the causes,
    /// turned out to be of `into`, which is a fault's or not.
    pub(super) fn shift(
        &mut self,
        key: &Key,
        (from, into): (Owner, Owner),
        ns: u64,
        is_fault: bool,
    ) {
        if let Some(endpoint) = self.endpoints.get_mut(&key.server) {
            endpoint.all.ledger.transfer(from, into, ns);
            if !self.causes.of(key.server).any(|(other, _)| other.cause == key.cause) {
                self.worst.reassign(key.server, from, into, is_fault);
            }
        }
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        for (endpoint, theirs) in other.endpoints {
            self.endpoints.entry(endpoint).or_default().merge(*theirs);
        }
        self.causes.merge(other.causes);
        self.firsts.extend(other.firsts);
        self.bound_firsts();
        self.unanswered.extend(other.unanswered);
        fallback::bound(&mut self.unanswered);
        self.spoken.extend(other.spoken);
        self.notes.merge(&other.notes);
        self.worst.merge(other.worst);
        self.queues.merge(other.queues);
        self.connections += other.connections;
        for (vantage, count) in other.vantages {
            *self.vantages.entry(vantage).or_default() += count;
        }
    }
}
