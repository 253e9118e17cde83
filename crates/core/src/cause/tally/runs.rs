//! Exchanges one like the other: of one kind with one server, each of which only its server kept waiting.
//! Most are such, and they are counted together before they are added to what is kept of their
//! server.

use super::culprits::Rank;
use super::*;
use crate::cause::Role;
use crate::report::Culprit;
use crate::tcp::Sighting;

/// Kinds that are counted so at a time.
const RUNS: usize = 64;

/// What such exchanges of one kind add up to.
struct Run {
    server: Endpoint,
    kind: Label,
    group: Group,
    think: CauseTally,
    /// Of the clearest instance that is kept of its server's time, and of the sample of the path's: what
    /// does not exceed them is counted, and no more.
    clearest: Rank,
    longest_way: Way,
}

/// How long the path took, ns, and the first of equals.
type Way = (u64, std::cmp::Reverse<(u64, FrameId)>);

/// By a few bits of what they are of: who meets an occupied place goes without.
pub struct Runs([Option<Box<Run>>; RUNS]);

impl Default for Runs {
    fn default() -> Self {
        Self(std::array::from_fn(|_| None))
    }
}

/// Where the run of `kind` with `server` has its place.
#[inline]
fn place(server: &Endpoint, kind: &Label) -> usize {
    let bits = usize::from(server.address[15]) ^ usize::from(server.port) ^ kind.mixed() as usize;
    bits % RUNS
}

/// Whether one of the exchanges of `connection` has met a queue.
#[inline]
fn has_queued(connection: &Connection) -> bool {
    let [of_client, of_server] = connection.totals.causes;
    (of_client | of_server) & 1 << Cause::Bufferbloat as u64 != 0
}

/// The wait of an exchange that only its server, by one silence, and the path had a part in.
#[inline]
fn only_wait<'a>(connection: &Connection, exchange: &'a Exchange) -> Option<&'a Chain> {
    let [chain] = exchange.chains.as_slice() else { return None };
    let plain = chain.cause == Cause::ServerThink
        && chain.sender == Side::Server
        && chain.count == 1
        && !exchange.connects
        && exchange.handshake.is_none()
        && exchange.outcome == Outcome::Complete
        && !has_queued(connection)
        && exchange.ledger.is_of(Owner::Path, Owner::Server);
    plain.then_some(chain)
}

#[inline]
fn rank(chain: &Chain) -> Rank {
    (chain.clarity(), std::cmp::Reverse((chain.gap.end_ns, chain.gap.next.frame)))
}

#[inline]
fn way(exchange: &Exchange) -> Way {
    let Sighting { time_ns, frame, .. } = exchange.first;
    (exchange.ledger.of(Owner::Path), std::cmp::Reverse((time_ns, frame)))
}

impl Runs {
    /// Counts `exchange` with those like it, if one of them is a clearer instance. Answers
    /// whether it was counted.
    #[inline]
    pub fn take(&mut self, connection: &Connection, exchange: &Exchange) -> bool {
        let server = connection.server();
        let Some(run) = &mut self.0[place(&server, &exchange.kind)] else { return false };
        if run.server != server || run.kind != exchange.kind {
            return false;
        }
        let Some(chain) = only_wait(connection, exchange) else { return false };
        if rank(chain) > run.clearest || way(exchange) > run.longest_way {
            return false;
        }
        run.group.add(exchange);
        run.think.add(exchange, chain);
        Scene { connection, exchange, chain }.add_to(&mut run.think.shown);
        true
    }

    /// The same of one that nothing but the path had a part in, and its server, by one silence at most.
    #[inline]
    pub fn take_plain(&mut self, connection: &Connection, plain: &Plain<'_>) -> bool {
        let server = connection.server();
        let Some(run) = &mut self.0[place(&server, plain.kind)] else { return false };
        let rank = ((false, false, plain.server_ns), std::cmp::Reverse(plain.answered));
        let worked = plain.server_ns > 0;
        let way = (plain.path_ns, std::cmp::Reverse(plain.asked));
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
            run.think.add_plain(plain);
        }
        true
    }

    /// `exchange` was counted by itself: those that show no more than it need not be.
    #[inline]
    pub fn begin(&mut self, connection: &Connection, exchange: &Exchange) {
        let Some(chain) = only_wait(connection, exchange) else { return };
        let server = connection.server();
        let (clearest, longest_way) = (rank(chain), way(exchange));
        match &mut self.0[place(&server, &exchange.kind)] {
            Some(run) if run.server == server && run.kind == exchange.kind => {
                run.clearest = run.clearest.max(clearest);
                run.longest_way = run.longest_way.max(longest_way);
            }
            Some(_) => {}
            room => {
                let (kind, group) = (exchange.kind, Group::default());
                let think = CauseTally::default();
                let run = Run { server, kind, group, think, clearest, longest_way };
                *room = Some(Box::new(run));
            }
        }
    }
}

impl Tally {
    /// Adds what was counted together to what it belongs to.
    pub(in crate::cause) fn settle(&mut self) {
        for run in std::mem::take(&mut self.runs).0.into_iter().flatten() {
            let Run { server, kind, group, think, .. } = *run;
            let place = self.place(server);
            self.endpoints.entry_ref(&place).or_default().kind(&kind).merge(&group);
            let culprit = Culprit { role: Role::Server, endpoint: server };
            let (cause, sender) = (Cause::ServerThink, Side::Server);
            let key = Key { server, cause, sender, culprit }.within(place);
            self.causes.at(&key).merge(&think);
        }
    }
}
