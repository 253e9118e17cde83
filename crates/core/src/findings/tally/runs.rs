//! Exchanges that are alike: of one kind with one server, each of which only its server kept
//! waiting. Most are, so they are counted together before they are added to the sums of their
//! server. So are the connections on which nothing else happened.

use crate::app::Label;
use crate::capture::FrameId;
use crate::findings::scene::Scene;
use crate::findings::tally::Tally;
use crate::findings::tally::culprits::{CauseTally, Key, Rank};
use crate::findings::tally::endpoint::Group;
use crate::findings::tally::waits::Waits;
use crate::model::{Cause, CauseSet, Culprit, Outcome, Owner, Role, Sighting};
use crate::tcp::{Chain, Connection, Exchange, SimpleExchange};
use crate::wire::{BySide, Endpoint, Side};
use std::cmp::Reverse;

/// Kinds that are counted so at a time.
const RUNS: usize = 64;

/// Sums of simple exchanges of one kind.
#[derive(Clone)]
struct Run {
    server: Endpoint,
    kind: Label,
    group: Group,
    /// Number of these exchanges that include a connection set-up.
    connects: u64,
    think: CauseTally,
    waits: Waits,
    /// Rank of the clearest instance kept of its server's time, and of the samples kept of the
    /// path's and its client's. Exchanges that do not exceed them are only counted.
    clearest: Rank,
    longest_way: Part,
    longest_pause: Part,
}

/// Order of samples: the time of a part, ns, and the first of equals.
type Part = (u64, Reverse<(u64, FrameId)>);

/// Buckets by a few bits of a hash; on a collision the exchange is counted individually.
#[derive(Clone)]
pub struct Runs {
    kinds: [Option<Box<Run>>; RUNS],
    /// A server, and the number of connections to it without any cause except the server's time.
    quiet: (Endpoint, u64),
}

/// The owners that such exchanges may have.
const OWNERS: [Owner; 4] = [Owner::Path, Owner::Server, Owner::Connect, Owner::Client];

impl Default for Runs {
    fn default() -> Self {
        Self { kinds: std::array::from_fn(|_| None), quiet: Default::default() }
    }
}

/// Returns the bucket for the run of `kind` with `server`.
#[inline]
fn bucket_of(server: &Endpoint, kind: &Label) -> usize {
    let bits = usize::from(server.address[15]) ^ usize::from(server.port) ^ kind.mixed() as usize;
    bits % RUNS
}

/// Returns whether one of the exchanges of `connection` has met a queue.
#[inline]
fn has_queued(connection: &Connection) -> bool {
    connection.totals.causes.iter().any(|causes| causes.contains(Cause::Bufferbloat))
}

/// The wait of an exchange that only its server, by one silence, and the path had a part in.
#[inline]
fn only_wait<'a>(connection: &Connection, exchange: &'a Exchange) -> Option<&'a Chain> {
    let [chain] = exchange.chains.as_slice() else { return None };
    let plain = chain.cause == Cause::ServerThink
        && chain.sender == Side::Server
        && chain.count == 1
        && exchange.handshake.is_none()
        && exchange.outcome == Outcome::Answered
        && exchange.response_seen
        && exchange.path_waits == 0
        && exchange.set_up_late_ns(connection.path.base_rtt_ns()) == 0
        && !has_queued(connection)
        && exchange.ledger.is_of(OWNERS);
    plain.then_some(chain)
}

#[inline]
fn rank(chain: &Chain) -> Rank {
    (chain.clarity(), Reverse((chain.gap.end_ns, chain.gap.next.frame)))
}

/// Returns the time of `exchange` that the owners of one cost took (see `causes`).
#[inline]
fn part<const N: usize>(exchange: &Exchange, owners: [Owner; N]) -> Part {
    let Sighting { time_ns, frame, .. } = exchange.first;
    let ns = owners.into_iter().map(|owner| exchange.ledger.of(owner)).sum();
    (ns, Reverse((time_ns, frame)))
}

#[inline]
fn way(exchange: &Exchange) -> Part {
    part(exchange, [Owner::Path, Owner::Connect])
}

#[inline]
fn pause(exchange: &Exchange) -> Part {
    part(exchange, [Owner::Client])
}

impl Runs {
    /// Counts `exchange` with those like it, if one of them is a clearer instance. Answers
    /// whether it was counted.
    #[inline]
    pub fn take(&mut self, connection: &Connection, exchange: &Exchange) -> bool {
        let server = connection.server();
        let bucket = bucket_of(&server, &exchange.kind);
        let Some(run) = &mut self.kinds[bucket] else { return false };
        if run.server != server || run.kind != exchange.kind {
            return false;
        }
        let Some(chain) = only_wait(connection, exchange) else { return false };
        let pause = pause(exchange);
        let shows_more = rank(chain) > run.clearest
            || way(exchange) > run.longest_way
            || pause.0 > 0 && pause > run.longest_pause;
        if shows_more {
            return false;
        }
        run.group.add(exchange);
        run.waits.exchange(connection, exchange);
        run.connects += u64::from(exchange.connects);
        run.think.add(exchange, chain);
        Scene { connection, exchange, chain }.add_to(&mut run.think.shown);
        true
    }

    /// Adds an exchange with its server in which only the path and the server, by one silence at
    /// most, took time.
    #[inline]
    pub fn take_simple(&mut self, connection: &Connection, plain: &SimpleExchange<'_>) -> bool {
        let server = connection.server();
        let bucket = bucket_of(&server, plain.kind);
        let Some(run) = &mut self.kinds[bucket] else { return false };
        let rank = ((false, false, plain.server_ns), Reverse(plain.answered));
        let worked = plain.server_ns > 0;
        let way = (plain.path_ns, Reverse(plain.asked));
        if run.server != server
            || run.kind != *plain.kind
            || has_queued(connection)
            || worked && rank > run.clearest
            || way > run.longest_way
        {
            return false;
        }
        run.group.add_plain(plain);
        if worked {
            run.think.add_one(plain.wall_ns(), plain.server_ns);
            run.waits.simple_exchange(connection, plain);
        }
        true
    }

    /// `exchange` was counted by itself: those that show no more than it need not be.
    #[inline]
    pub fn begin(&mut self, connection: &Connection, exchange: &Exchange) {
        let Some(chain) = only_wait(connection, exchange) else { return };
        let server = connection.server();
        let clearest = rank(chain);
        let (longest_way, longest_pause) = (way(exchange), pause(exchange));
        match &mut self.kinds[bucket_of(&server, &exchange.kind)] {
            Some(run) if run.server == server && run.kind == exchange.kind => {
                run.clearest = run.clearest.max(clearest);
                run.longest_way = run.longest_way.max(longest_way);
                run.longest_pause = run.longest_pause.max(longest_pause);
            }
            Some(_) => {}
            room => {
                *room = Some(Box::new(Run {
                    server,
                    kind: exchange.kind,
                    group: Group::default(),
                    connects: 0,
                    think: CauseTally::default(),
                    waits: Waits::default(),
                    clearest,
                    longest_way,
                    longest_pause,
                }));
            }
        }
    }
}

/// Causes of a connection on which only its server took time.
const QUIET: BySide<CauseSet> = [CauseSet::EMPTY, CauseSet::of(&[Cause::ServerThink])];

fn think_of(server: Endpoint) -> Key {
    let culprit = Culprit { role: Role::Server, endpoint: server };
    Key { server, cause: Cause::ServerThink, sender: Side::Server, culprit }
}

impl Tally {
    /// Returns whether `connection` has no other cause than its server's time, and counts it if so.
    #[inline]
    pub(super) fn count_quiet(&mut self, connection: &Connection) -> bool {
        let is_quiet = connection.totals.causes == QUIET;
        if is_quiet {
            let server = connection.server();
            if self.runs.quiet.0 != server {
                self.settle_quiet();
                self.runs.quiet.0 = server;
            }
            self.runs.quiet.1 += 1;
        }
        is_quiet
    }

    fn settle_quiet(&mut self) {
        let (server, connections) = std::mem::take(&mut self.runs.quiet);
        if connections > 0 {
            let key = think_of(server).within(self.row_of(server));
            self.causes.at(&key).connections += connections;
        }
    }

    /// Adds what was counted together to what it belongs to.
    pub(crate) fn settle(&mut self) {
        self.settle_quiet();
        for run in std::mem::take(&mut self.runs).kinds.into_iter().flatten() {
            let Run { server, kind, group, connects, think, waits, .. } = *run;
            let place = self.row_of(server);
            let endpoint = self.endpoints.entry_ref(&place).or_default();
            endpoint.set_ups.exchanges += connects;
            endpoint.waits.merge(&waits);
            endpoint.kind(&kind).merge(&group);
            self.causes.at(&think_of(server).within(place)).merge(&think);
        }
    }
}
