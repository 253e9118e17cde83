//! Exchanges that ended with their connection: what a RST, or a FIN too early, cost.

use crate::app::{Protocol, Side};
use crate::findings::retries::{self, InVain};
use crate::findings::tally::{Key, Tally};
use crate::findings::thresholds::{GIVE_UP_MIN_NS, IDLE_CLOSE_MIN_NS, SENDER_STOPPED_NS};
use crate::judge::thresholds::INITIAL_WINDOW_BYTES;
use crate::model::{Cause, Owner};
use crate::tcp::thresholds::HTTP2_CONTROL_BYTES;
use crate::tcp::{Chain, Connection, Exchange, Sender};

/// Returns whether the server had waited for the request that it answered with a RST, before it
/// closed if it did.
fn was_idle(connection: &Connection, exchange: &Exchange) -> bool {
    let since_ns = quiet_since_ns(connection, exchange);
    let closed_ns = connection.ending().fin_ns[Side::Server as usize];
    if connection.mid_stream && connection.totals.exchanges <= 1 && exchange.idle_ns == 0 {
        // What was said last lies before the capture, and its server had closed, or forgotten the
        // connection, since.
        return match closed_ns {
            Some(at_ns) => at_ns <= exchange.start_ns || closed_unheard(connection, exchange),
            None => connection.ending().unknown,
        };
    }
    closed_ns.unwrap_or(exchange.start_ns).min(exchange.start_ns).saturating_sub(since_ns)
        >= IDLE_CLOSE_MIN_NS
}

/// Returns whether the server, which sent no data in the capture, closed before the request reached
/// it: its FIN would have acknowledged what it had received (RFC 9293 §3.10.7.4).
fn closed_unheard(connection: &Connection, exchange: &Exchange) -> bool {
    let [client, server] = &connection.senders;
    server.counts().actual_data_bytes == 0
        && client.una_seen() <= exchange.began_at[Side::Client as usize]
}

/// Since when nothing had been said before the request, ns.
fn quiet_since_ns(connection: &Connection, exchange: &Exchange) -> u64 {
    match exchange.idle_ns {
        0 if connection.totals.exchanges <= 1 => {
            connection.setup.established_ns().unwrap_or(exchange.start_ns)
        }
        idle_ns => exchange.start_ns.saturating_sub(idle_ns),
    }
}

/// Returns whether the capture misses nothing of the connection that its framing rests on.
fn is_whole(connection: &Connection) -> bool {
    let faults = connection.faults();
    faults.truncated + faults.missing_bytes == 0
}

/// Returns whether the capture has the whole of what each side sent, if not every byte of it: a
/// snap length cuts packets and hides none.
fn has_no_hole(connection: &Connection) -> bool {
    connection.faults().missing_bytes == 0
}

/// Returns whether what was asked is known to be a request, and no goodbye.
fn is_http(connection: &Connection, exchange: &Exchange) -> bool {
    connection.protocol() == Protocol::Http1 && !exchange.kind.is_empty()
}

/// Returns whether what was asked is known to be a request: it can be read, or is longer than a
/// goodbye.
fn is_request(connection: &Connection, exchange: &Exchange) -> bool {
    match connection.protocol() {
        Protocol::Turns => false,
        Protocol::Tls => u64::from(exchange.first.payload_bytes) > HTTP2_CONTROL_BYTES,
        _ => !exchange.kind.is_empty() && !exchange.kind.eq_ignore_ascii_case("QUIT"),
    }
}

/// Returns whether the response had told where it ends, and ended before that. Of a body that is
/// counted no byte has to be read.
fn is_cut_short(connection: &Connection, exchange: &Exchange) -> bool {
    let begun = exchange.response_seen && !exchange.is_complete();
    let counted = has_no_hole(connection) && connection.owes(Side::Server);
    begun && (is_whole(connection) || counted) && connection.announces_end()
}

/// Returns whether an orderly FIN was none for the client: it cut the response short, or was the
/// answer to a request on a connection that had lain idle. (What a server closes for without an
/// answer otherwise may be a goodbye.)
pub(super) fn closed_on(connection: &Connection, exchange: &Exchange) -> bool {
    let http = is_http(connection, exchange) && has_no_hole(connection);
    let unanswered = http && exchange.request_seen && !exchange.response_seen;
    unanswered && was_idle(connection, exchange) || is_cut_short(connection, exchange)
}

/// Returns whether the receiver of a transfer has stopped it in full flow, by a RST of its own
/// accord, where nothing tells how far it should have gone. So programs that measure a path end
/// their stream, and who has read as much as he wanted: nobody has waited for more.
fn is_stopped(connection: &Connection, exchange: &Exchange, by: Side) -> bool {
    let sender = by.peer();
    let half = &connection.senders[sender as usize];
    let reset_ns = connection.ending().reset.map_or(0, |reset| reset.time_ns);
    let flows = half.last.time_ns + connection.path.base_rtt_ns() + SENDER_STOPPED_NS >= reset_ns;
    let sent_bytes = half.nxt.saturating_sub(exchange.began_at[sender as usize]);
    connection.protocol() == Protocol::Turns
        && !connection.was_cut()
        && sent_bytes > INITIAL_WINDOW_BYTES
        && flows
}

/// Returns whether the client has ended it by a RST of its own accord, while it waited for nothing:
/// it, or its server, had only just spoken, and nothing tells that more was to come. Some close
/// with what they have not read (RFC 2525 §2.17), or their last words behind them.
fn is_left(connection: &Connection, by: Side) -> bool {
    let senders = &connection.senders;
    let reset_ns = connection.ending().reset.map_or(0, |reset| reset.time_ns);
    let spoken_ns = senders.iter().map(|sender| sender.last.time_ns).max().unwrap_or(0);
    by == Side::Client
        && !connection.was_cut()
        && !connection.tells_ends()
        && !connection.owes(Side::Server)
        && !senders.iter().any(Sender::in_recovery)
        && reset_ns < spoken_ns + GIVE_UP_MIN_NS
}

/// How long the server of an exchange was silent before a RST or a FIN ended the connection, ns.
fn silent_ns(connection: &Connection, exchange: &Exchange) -> u64 {
    let spoken_ns = connection.senders.iter().map(|sender| sender.last.time_ns).max().unwrap_or(0);
    let [_, fin_ns] = connection.ending().fin_ns;
    let ended_ns = connection.ending().reset.map(|reset| reset.time_ns).or(fin_ns).unwrap_or(0);
    exchange.ledger.of(Owner::Server).min(ended_ns.saturating_sub(spoken_ns))
}

impl Tally {
    /// An exchange that a RST ended: refused, cut off, or sent into a connection that had been
    /// closed for idleness.
    pub(super) fn reset(&mut self, connection: &Connection, exchange: &Exchange, by: Side) {
        let fin_before = connection.ending().fin_ns[by as usize].is_some();
        // A client that says goodbye without waiting for an answer has lost nothing.
        let impatient = exchange.wall_ns() >= GIVE_UP_MIN_NS && !fin_before;
        // One that does not take the end of a response that was announced has broken off, unless it
        // had given up before any of it came.
        let client_fin_ns = connection.ending().fin_ns[Side::Client as usize];
        let begun_ns = exchange.answered_ns + connection.path.rtt_ns(Side::Client);
        let server_una = connection.senders[Side::Server as usize].una_seen();
        let came = server_una > exchange.began_at[Side::Server as usize];
        let heard = client_fin_ns.is_none_or(|at_ns| came && at_ns >= begun_ns);
        let broken_off = heard && is_cut_short(connection, exchange);
        let content = fin_before && !broken_off || !exchange.response_seen;
        if by == Side::Client && !impatient && content {
            return;
        }
        // Nor has one that had closed of its own accord when the RST came.
        let [client_fin_ns, server_fin_ns] = connection.ending().fin_ns;
        // What was sent before a FIN and not captured whole may have been a goodbye, too.
        let is_known =
            is_whole(connection) || has_no_hole(connection) && is_http(connection, exchange);
        if !is_known && client_fin_ns.is_some() && !exchange.response_seen {
            return;
        }
        let left = client_fin_ns.is_some_and(|at_ns| server_fin_ns.is_none_or(|it| at_ns < it));
        // But one that gave up on a server that had forgotten it had waited in vain.
        let in_vain = by == Side::Server
            && connection.ending().forgotten
            && exchange.wall_ns() >= GIVE_UP_MIN_NS
            && is_cut_short(connection, exchange);
        if left && !(by == Side::Client && broken_off) && !in_vain {
            return;
        }
        // Nor one that answered its server's goodbye, which had reached it, with its own.
        let rtt_client_ns = connection.path.rtt_ns(Side::Client);
        let knew = server_fin_ns.is_some_and(|at_ns| at_ns + rtt_client_ns <= exchange.start_ns);
        let readable = is_request(connection, exchange);
        if knew && client_fin_ns.is_some() && !exchange.response_seen && !readable {
            return;
        }
        // What is not a request that can be read, sent to a server that had closed behind its
        // answer before it came there, is a goodbye.
        let unread = matches!(connection.protocol(), Protocol::Turns | Protocol::Tls);
        let heard_ns = exchange.start_ns + connection.path.rtt_ns(Side::Server);
        let unheard = server_fin_ns.is_some_and(|at_ns| at_ns <= heard_ns);
        if unheard && unread && !exchange.response_seen && !was_idle(connection, exchange) {
            return;
        }
        if is_stopped(connection, exchange, by) {
            self.notes.stopped += 1;
            return;
        }
        if exchange.response_seen && is_left(connection, by) {
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
        let gap = crate::judge::Gap::between(by, from_ns, at_ns, exchange.first, reset);
        // What was waited for was for nothing: it has to be asked again. But a server that said
        // nothing was silent for as long as if an answer had come in place of the end.
        let silent_ns = match cause {
            Cause::Reset if !exchange.response_seen => silent_ns(connection, exchange),
            _ => 0,
        };
        let ns = exchange.wall_ns().saturating_sub(exchange.fault_ns() + silent_ns);
        let chain = Chain::of(cause, by, ns, gap);
        self.cause(connection, exchange, &chain);
        let key = Key::of(cause, by, connection).within(self.row_of(connection.server()));
        let tally = self.causes.at(&key);
        tally.connections += 1;
        for (owner, ns) in exchange.ledger.ledger().iter() {
            let others_ns = if owner == Owner::Server { silent_ns } else { 0 };
            tally.covers.add(owner, ns - others_ns);
        }
        if cause == Cause::IdleReset {
            let since_ns = quiet_since_ns(connection, exchange);
            self.in_vain.push(InVain {
                key,
                client: connection.client().address,
                server: connection.server(),
                kind: exchange.kind.digest(),
                start_ns: exchange.start_ns,
                wall_ns: exchange.wall_ns(),
                idle_ns: exchange.start_ns.saturating_sub(since_ns),
                end: reset,
            });
            retries::bound(&mut self.in_vain);
        }
    }
}
