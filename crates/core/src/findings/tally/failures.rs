//! Exchanges that failed without a RST: their server reported an error or closed without an answer,
//! or the request was never answered or not even acknowledged.

use crate::app::{ErrorCode, Protocol};
use crate::findings::causes::no_answer::{AT_ONCE, BEHIND_FIN, CLOSED};
use crate::findings::failed_upstream;
use crate::findings::left_waiting::{self, Ended, HELLOS, LeftWaiting};
use crate::findings::scene::Scene;
use crate::findings::tally::endings::{closed_on, is_request, is_stalled, left, silent_ns};
use crate::findings::tally::{Instance, Key, Tally};
use crate::findings::unheard::{self, Unheard};
use crate::judge::Gap;
use crate::judge::thresholds::APPLICATION_TIMEOUT_MIN_NS;
use crate::model::{Cause, Ledger, Outcome, Owner, Sighting};
use crate::tcp::{Chain, Connection, Exchange};
use crate::wire::Side;
use std::cmp::Reverse;

/// Returns whether the server closed without an answer to a request that it had received: its FIN
/// acknowledges a part of the request. Handshake messages answer as well. In TLS only the first
/// data of a connection is known to be a request; in protocols that cannot be read nothing is, unless its
/// client goes on after the FIN. A server that waited in vain for the rest of a request owed nothing.
pub(super) fn is_closed_unanswered(connection: &Connection, exchange: &Exchange) -> bool {
    let acked = connection.cold.ending().fin_acks[Side::Server];
    let is_readable = match connection.framer.protocol() {
        Protocol::Tls => {
            let is_first = connection.totals.exchanges <= 1 && !connection.mid_stream;
            is_first && !has_answered(connection, exchange)
        }
        _ => !connection.framer.is_open_ended(),
    };
    exchange.outcome == Outcome::Closed { by: Side::Server }
        && exchange.asks()
        && connection.cold.ending().amid_request_ns.is_none()
        && (is_readable && is_request(connection, exchange) || goes_on_after_fin(connection))
        && connection.at_end().shows_silence()
        && !client_closed_first(connection)
        && acked > exchange.began_at[Side::Client]
}

/// Returns whether the client went on with its dialogue, in a protocol that cannot be read, after the
/// server's FIN. In TLS that may be its goodbye.
fn goes_on_after_fin(connection: &Connection) -> bool {
    let is_unreadable = connection.framer.protocol().is_in_turns();
    is_unreadable && connection.view().used_after_close_ns().is_some()
}

/// Returns whether the client of `exchange` waited in vain for the response to a request that
/// arrived, until it left or the capture ended.
fn is_left_waiting(connection: &Connection, exchange: &Exchange) -> bool {
    matches!(exchange.outcome, Outcome::Closed { by: Side::Client } | Outcome::Open)
        && exchange.is_awaiting()
        && !connection.framer.is_open_ended()
        && is_request(connection, exchange)
        && connection.at_end().shows_silence()
}

/// Returns whether the client of `exchange` left after it had waited in vain for the answer to its
/// ClientHello. Unlike a request, which may be a long poll, a ClientHello is answered at once.
fn is_hello_unanswered(connection: &Connection, exchange: &Exchange) -> bool {
    exchange.outcome.by() == Some(Side::Client)
        && connection.at_end().awaits_server_hello(exchange)
        && !connection.cold.ending().was_reset_on_path()
        && exchange.ledger.of(Owner::Server) >= APPLICATION_TIMEOUT_MIN_NS
}

/// Returns whether the server has sent data since the exchange began.
fn has_answered(connection: &Connection, exchange: &Exchange) -> bool {
    connection.senders[Side::Server].space.nxt > exchange.began_at[Side::Server]
}

/// Returns whether the client's FIN passed before the server's, which may only answer it.
fn client_closed_first(connection: &Connection) -> bool {
    let [client_fin_ns, server_fin_ns] = connection.cold.ending().fin_ns;
    client_fin_ns.is_some_and(|at_ns| server_fin_ns.is_none_or(|it| at_ns < it))
}

/// Returns the cause and sender of the time of `exchange` that [`Tally::failure`] counts under
/// another cause: there is no answer that a server worked on, and what drops each copy of a request
/// is no loss that a timer repairs.
#[inline]
pub(super) fn replaced(connection: &Connection, exchange: &Exchange) -> Option<(Cause, Side)> {
    match exchange.outcome {
        Outcome::Answered | Outcome::Error(_) => None,
        Outcome::Unacknowledged if exchange.behind_fin => {
            Some((Cause::RetransmissionTimeout, Side::Client))
        }
        Outcome::Unacknowledged => unheard::provisional(connection, exchange)
            .map(|_| (Cause::RetransmissionTimeout, Side::Client)),
        _ => {
            let is_failed = is_closed_unanswered(connection, exchange)
                || is_hello_unanswered(connection, exchange);
            is_failed.then_some((Cause::ServerThink, Side::Server))
        }
    }
}

impl Tally {
    /// Counts an exchange without a complete answer, or with an error.
    #[inline]
    pub(super) fn failure(&mut self, connection: &Connection, exchange: &Exchange) {
        if exchange.outcome != Outcome::Answered {
            self.failed(connection, exchange);
        }
    }

    #[cold]
    #[inline(never)]
    fn failed(&mut self, connection: &Connection, exchange: &Exchange) {
        match exchange.outcome {
            _ if is_hello_unanswered(connection, exchange) => {
                self.hello_unanswered(connection, exchange);
            }
            Outcome::Closed { by: Side::Server }
                if connection.view().closed_at_once().is_some() =>
            {
                let end = connection.view().closed_at_once().unwrap_or(exchange.last);
                let covered = exchange.ledger.ledger();
                self.unanswered(connection, exchange, end, (cost_ns(exchange), &covered), AT_ONCE);
            }
            // A client may drop a handshake that it needs no more, or that a loss held up.
            Outcome::Reset { by: Side::Client } if exchange.in_handshake => {}
            Outcome::Reset { .. } | Outcome::CutShort { by: Side::Client }
                if is_stalled(connection, exchange) =>
            {
                self.stalled(connection, exchange);
            }
            Outcome::Reset { by } if exchange.asks() => self.reset(connection, exchange, by),
            Outcome::CutShort { by: Side::Server } | Outcome::Closed { by: Side::Server }
                if closed_on(connection, exchange) =>
            {
                self.reset(connection, exchange, Side::Server);
            }
            Outcome::Closed { .. } if is_closed_unanswered(connection, exchange) => {
                self.closed_unanswered(connection, exchange);
            }
            Outcome::Error(code) if is_offer(connection, exchange, code) => {}
            Outcome::Error(code) => {
                failed_upstream::keep(&mut self.server_errors, connection, exchange, code);
                // A response that asks for credentials is counted by itself: the client may have them.
                let sender = if code.is_challenge() { Side::Client } else { Side::Server };
                let chain =
                    Chain::of(Cause::ErrorResponses, sender, cost_ns(exchange), gap(exchange));
                self.cause(connection, exchange, &chain);
            }
            Outcome::Unacknowledged if exchange.behind_fin => {
                let (wall_ns, covered) = (exchange.wall_ns(), exchange.ledger.ledger());
                self.unanswered(
                    connection,
                    exchange,
                    exchange.last,
                    (wall_ns, &covered),
                    BEHIND_FIN,
                );
            }
            Outcome::Unacknowledged => self.unacknowledged(connection, exchange),
            Outcome::Unclear => self.half_closed(connection, exchange, true),
            _ => self.waiting(connection, exchange, true),
        }
    }

    fn closed_unanswered(&mut self, connection: &Connection, exchange: &Exchange) {
        let fin = connection.cold.ending().fin[Side::Server].unwrap_or(exchange.last);
        let covered = exchange.ledger.ledger();
        self.unanswered(connection, exchange, fin, (cost_ns(exchange), &covered), CLOSED);
    }

    fn hello_unanswered(&mut self, connection: &Connection, exchange: &Exchange) {
        let ([left, _], reset) = (connection.cold.ending().fin, connection.cold.ending().reset);
        let left = left.or(reset).unwrap_or(exchange.last);
        let covered = exchange.ledger.ledger();
        self.unanswered(connection, exchange, left, (cost_ns(exchange), &covered), HELLOS);
    }

    /// Counts a response that stopped until its client gave up. The client waited in vain from the
    /// last data on; the time before that is the time of what came.
    fn stalled(&mut self, connection: &Connection, exchange: &Exchange) {
        let end = left(connection, exchange).map_or(exchange.last, |[_, end]| end);
        let lost_ns = silent_ns(connection, exchange);
        let mut covered = Ledger::default();
        covered.add(Owner::Server, lost_ns);
        self.unanswered(connection, exchange, end, (lost_ns, &covered), "stalled");
    }

    /// Counts under the name `shown` an exchange without a complete response, which `end` ended: it
    /// lost this time, ns, that these owners have.
    fn unanswered(
        &mut self,
        connection: &Connection,
        exchange: &Exchange,
        end: Sighting,
        (lost_ns, covered): (u64, &Ledger),
        shown: &'static str,
    ) {
        let gap = Gap::between(Side::Server, exchange.start_ns, end.time_ns, exchange.first, end);
        let chain = Chain::of(Cause::NoAnswer, Side::Server, lost_ns, gap);
        self.cause(connection, exchange, &chain);
        let key = Key::of(Cause::NoAnswer, Side::Server, connection);
        let tally = self.causes.at(&key.within(self.row_of(connection.server())));
        tally.count_connection(connection);
        tally.covers.merge(covered);
        tally.shown.add(shown, 1);
    }

    /// Counts a request that was never acknowledged by itself, until the other connections of its
    /// hosts show the reason.
    fn unacknowledged(&mut self, connection: &Connection, exchange: &Exchange) {
        let lost = |chain: &&Chain| {
            chain.cause == Cause::RetransmissionTimeout && chain.sender == Side::Client
        };
        let Some(chain) = exchange.chains.iter().find(lost) else { return };
        let Some(cause) = unheard::provisional(connection, exchange) else {
            return;
        };
        let client = &connection.senders[Side::Client];
        let Some(tail) = client.history().losses.tail_from(client.space.una_seen()) else {
            return;
        };
        let Gap { start_ns, end_ns, last, next, next_len, repair, .. } =
            tail.gap(tail.first.time_ns, exchange.end_ns);
        let gap = Gap { start_ns, end_ns, last, next, next_len, repair, ..chain.gap };
        let chain = Chain { cause, gap, ..chain.clone() };
        self.cause(connection, exchange, &chain);
        let key = Key::of(cause, Side::Client, connection);
        let key = key.within(self.row_of(connection.server()));
        self.causes.at(&key).count_connection(connection);
        self.unheard.push(Unheard {
            key,
            client: connection.client().address,
            server: connection.server(),
            sent: tail.first,
            last: tail.last.frame,
            until_ns: exchange.end_ns,
            rtt_ns: connection.path.base_rtt_ns(),
            kind: exchange.kind.digest(),
            wall_ns: exchange.wall_ns(),
        });
        unheard::bound(&mut self.unheard, unheard::SHARD_KEPT_MAX);
    }

    /// Keeps a request whose client waited in vain: whether that is a failure depends on how soon
    /// others of its kind are answered. `is_counted` if it is contained in the sums.
    pub(super) fn waiting(
        &mut self,
        connection: &Connection,
        exchange: &Exchange,
        is_counted: bool,
    ) {
        let ended = match exchange.outcome {
            Outcome::Open if connection.at_end().awaits_server_hello(exchange) => Ended::OpenHello,
            _ if !is_left_waiting(connection, exchange) => return,
            // A request that nothing acknowledged is not known to have arrived.
            Outcome::Open if !connection.senders[Side::Client as usize].space.is_acked() => return,
            Outcome::Open => Ended::Open,
            _ => Ended::Left,
        };
        let chain = Chain::of(Cause::NoAnswer, Side::Server, cost_ns(exchange), gap(exchange));
        self.keep_waiting(connection, exchange, &chain, is_counted, ended);
    }

    /// Keeps a message of an unknown protocol behind which its client closed its side, and its server
    /// closed without an answer: whether that is a failure depends on whether the server answers
    /// others like it. `is_counted` if it is contained in the sums.
    pub(super) fn half_closed(
        &mut self,
        connection: &Connection,
        exchange: &Exchange,
        is_counted: bool,
    ) {
        let fin = connection.cold.ending().fin[Side::Server];
        let Some(fin) = fin.filter(|_| connection.at_end().shows_silence()) else { return };
        let Exchange { start_ns, first, .. } = *exchange;
        let gap = Gap::between(Side::Server, start_ns, fin.time_ns, first, fin);
        let until_ns = fin.time_ns + connection.path.known_rtt_ns(Side::Client);
        let waited_ns = until_ns.saturating_sub(start_ns);
        let chain = Chain::of(Cause::NoAnswer, Side::Server, waited_ns, gap);
        self.keep_waiting(
            connection,
            exchange,
            &chain,
            is_counted,
            Ended::HalfClosed { waited_ns },
        );
    }

    fn keep_waiting(
        &mut self,
        connection: &Connection,
        exchange: &Exchange,
        chain: &Chain,
        is_counted: bool,
        ended: Ended,
    ) {
        let key = Key::of(Cause::NoAnswer, Side::Server, connection);
        let key = key.within(self.row_of(connection.server()));
        let rank = (chain.clarity(), Reverse((chain.gap.end_ns, exchange.last.frame)));
        let scene = Scene { connection, exchange, chain };
        let instance: Instance = scene.instance(&key, rank);
        self.left_waiting.push(LeftWaiting {
            key,
            kind: exchange.kind.digest(),
            start_ns: exchange.start_ns,
            frame: exchange.first.frame,
            host: connection.server().address,
            is_counted,
            ended,
            wall_ns: exchange.wall_ns(),
            server_ns: exchange.ledger.of(Owner::Server),
            instance,
        });
        left_waiting::bound(&mut self.left_waiting, left_waiting::SHARD_KEPT_MAX);
    }
}

/// Returns whether the client only offered what an older server does not know (redis.io, "CLIENT
/// SETINFO", "HELLO"): its library goes on without it. A server that is full, cannot serve or does not
/// accept the password of HELLO has refused the session.
fn is_offer(connection: &Connection, exchange: &Exchange, code: ErrorCode) -> bool {
    let offers = ["CLIENT SETINFO", "HELLO"];
    connection.framer.protocol() == Protocol::Redis
        && !code.is_of_server()
        && !code.is_redis(b"WRONGPASS")
        && offers.iter().any(|it| exchange.kind.eq_ignore_ascii_case(it))
}

/// Returns the time of a failed exchange, which was in vain, without that of other faults, ns.
fn cost_ns(exchange: &Exchange) -> u64 {
    exchange.wall_ns().saturating_sub(exchange.fault_ns())
}

fn gap(exchange: &Exchange) -> Gap {
    let Exchange { start_ns, end_ns, first, last, .. } = *exchange;
    Gap::between(Side::Server, start_ns, end_ns, first, last)
}
