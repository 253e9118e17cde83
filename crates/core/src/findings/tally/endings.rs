//! Exchanges that ended with their connection, and the cost of a RST, or of a FIN that came too
//! early.

use crate::app::{CANCEL, Protocol};
use crate::findings::retries::{self, FailedRequest};
use crate::findings::tally::{Key, Tally};
use crate::findings::thresholds::IDLE_MIN_NS;
use crate::judge::thresholds::{APPLICATION_TIMEOUT_MIN_NS, INITIAL_WINDOW_BYTES};
use crate::model::{Cause, Outcome, Owner, Sighting};
use crate::tcp::thresholds::{HTTP2_CONTROL_BYTES, STREAM_PAUSE_MIN_NS};
use crate::tcp::{Chain, Connection, Exchange};
use crate::wire::Side;

/// Returns whether the connection was idle before the request that the server answered with a RST:
/// before the request, or before the server closed.
fn was_idle(connection: &Connection, exchange: &Exchange) -> bool {
    let since_ns = quiet_since_ns(connection, exchange);
    let closed_ns = connection.cold.ending().fin_ns[Side::Server];
    if closed_ns.is_none() && was_taken(connection, exchange) {
        return false;
    }
    // The last thing that a server says on a stream that cannot be read may be the reason for which
    // it closes: a login that it refuses, or the end of a session.
    if closed_ns.is_some() && connection.framer.protocol().is_in_turns() {
        return false;
    }
    // The last data was sent before the capture. Without the server's FIN nothing shows that the
    // connection was idle, or that it ever existed.
    if connection.mid_stream
        && connection.totals.exchanges <= 1
        && exchange.idle_ns == 0
        && let Some(at_ns) = closed_ns
    {
        return at_ns <= exchange.start_ns || closed_before_request(connection, exchange);
    }
    // A server that never sent anything, and closed nothing, has no idle time that ran out, unless
    // its RST says that there is no connection.
    let has_worked = connection.senders[Side::Server].counts().actual_data_bytes > 0;
    let was_open = has_worked || closed_ns.is_some() || connection.cold.ending().unknown;
    let quiet_ns = closed_ns.unwrap_or(exchange.start_ns).min(exchange.start_ns);
    was_open && quiet_ns.saturating_sub(since_ns) >= IDLE_MIN_NS
}

/// Returns whether the server's host acknowledged the request, if only by its RST: the connection
/// still existed then, since the RST of a connection that does not exist has no ACK (RFC 9293
/// §3.10.7.1).
pub(in crate::findings) fn was_taken(connection: &Connection, exchange: &Exchange) -> bool {
    let asked_at = exchange.began_at[Side::Client];
    !connection.cold.ending().was_reset_on_path()
        && connection.senders[Side::Client].space.una_seen() > asked_at
}

/// Returns whether the server, which sent no data in the capture, closed before the request reached
/// it: otherwise its FIN would have acknowledged the request (RFC 9293 §3.10.7.4).
fn closed_before_request(connection: &Connection, exchange: &Exchange) -> bool {
    let [client, server] = &connection.senders;
    server.counts().actual_data_bytes == 0
        && client.space.una_seen() <= exchange.began_at[Side::Client]
}

/// Time since which no data had been sent before the request, ns.
pub(in crate::findings) fn quiet_since_ns(connection: &Connection, exchange: &Exchange) -> u64 {
    match exchange.idle_ns {
        0 if connection.totals.exchanges <= 1 => {
            connection.setup.established_ns().unwrap_or(exchange.start_ns)
        }
        idle_ns => exchange.start_ns.saturating_sub(idle_ns),
    }
}

/// Returns whether nothing is missing in the capture on which the framing of the connection
/// depends.
fn is_whole(connection: &Connection) -> bool {
    let faults = connection.cold.faults();
    faults.truncated + faults.missing_bytes == 0
}

/// Returns whether the capture contains all packets of both sides, perhaps not with all their
/// bytes: a snap length truncates packets, but removes none.
pub(super) fn has_no_hole(connection: &Connection) -> bool {
    connection.cold.faults().missing_bytes == 0
}

/// Returns whether the data is known to be a request, and not a closing message.
fn is_http(connection: &Connection, exchange: &Exchange) -> bool {
    connection.framer.protocol() == Protocol::Http1 && !exchange.kind.is_empty()
}

/// Returns whether the data is known to be a request: it can be read, or is longer than a closing
/// message.
pub(super) fn is_request(connection: &Connection, exchange: &Exchange) -> bool {
    match connection.framer.protocol() {
        it if it.is_in_turns() => false,
        Protocol::Tls => u64::from(exchange.first.payload_bytes) > HTTP2_CONTROL_BYTES,
        _ => {
            let closing = ["QUIT", CANCEL];
            let is_closing = closing.iter().any(|it| exchange.kind.eq_ignore_ascii_case(it));
            !exchange.kind.is_empty() && !is_closing
        }
    }
}

/// Returns whether the response ended before its announced end. If the length was announced, no
/// byte of the body is needed.
fn is_cut_short(connection: &Connection, exchange: &Exchange) -> bool {
    let begun = exchange.response_seen && !exchange.is_complete();
    let counted = has_no_hole(connection) && connection.framer.owes(Side::Server);
    begun && (is_whole(connection) || counted) && connection.framer.announces_end()
}

/// Returns whether an orderly FIN was a fault for the client: it ended the response too early, or
/// answered a request on an idle connection. (Other data to which a server responds by closing may
/// be a closing message.)
pub(super) fn closed_on(connection: &Connection, exchange: &Exchange) -> bool {
    let http = is_http(connection, exchange) && has_no_hole(connection);
    let unanswered = http && exchange.request_seen && !exchange.response_seen;
    // A server that had received the request did not close for idleness.
    let acked = connection.cold.ending().fin_acks[Side::Server];
    let unanswered = unanswered && acked <= exchange.began_at[Side::Client];
    unanswered && was_idle(connection, exchange) || is_cut_short(connection, exchange)
}

/// Returns whether the receiver of a transfer without an announced length stopped it with a RST
/// while data arrived. Programs that measure a path end their stream in this way, as does a reader
/// that has read enough: neither waited for more.
fn is_stopped(connection: &Connection, exchange: &Exchange, by: Side) -> bool {
    let sender = by.peer();
    let half = &connection.senders[sender];
    let reset_ns = connection.cold.ending().reset.map_or(0, |reset| reset.time_ns);
    let flows = half.last.time_ns + connection.path.base_rtt_ns() + STREAM_PAUSE_MIN_NS >= reset_ns;
    let sent_bytes = half.space.nxt.saturating_sub(exchange.began_at[sender]);
    connection.framer.protocol().is_in_turns()
        && !connection.cold.ending().was_reset_on_path()
        && sent_bytes > INITIAL_WINDOW_BYTES
        && flows
}

/// Returns whether the client ended the connection by its own RST while it waited for nothing: the
/// client or the server had only just sent data, and nothing shows that more was to come. Some
/// clients close with unread data (RFC 2525 §2.17), or with a last message.
fn is_left(connection: &Connection, by: Side) -> bool {
    let senders = &connection.senders;
    let reset_ns = connection.cold.ending().reset.map_or(0, |reset| reset.time_ns);
    let spoken_ns = senders.iter().map(|sender| sender.last.time_ns).max().unwrap_or(0);
    by == Side::Client
        && !connection.cold.ending().was_reset_on_path()
        && connection.framer.is_open_ended()
        && !connection.framer.owes(Side::Server)
        && !senders.iter().any(|it| it.history().losses.is_repairing(it.space.una()))
        && reset_ns < spoken_ns + APPLICATION_TIMEOUT_MIN_NS
}

/// Returns the last data before the client ended the connection in the middle of a response, and how.
pub(super) fn left(connection: &Connection, exchange: &Exchange) -> Option<[Sighting; 2]> {
    let ending = connection.cold.ending();
    match exchange.outcome {
        Outcome::Reset { by: Side::Client } => Some([ending.last_data?, ending.reset?]),
        Outcome::CutShort { by: Side::Client } => {
            let fin = ending.fin[Side::Client]?;
            Some([connection.view().last_data(fin.frame)?, fin])
        }
        _ => None,
    }
}

/// Time from the last data until the client ended the connection in the middle of a response, ns; `None`
/// if it did not.
fn silent_until_left_ns(connection: &Connection, exchange: &Exchange) -> Option<u64> {
    let [last, end] =
        left(connection, exchange).filter(|_| exchange.request_seen && exchange.response_seen)?;
    Some(end.time_ns.saturating_sub(last.time_ns))
}

/// Returns whether the client gave up on a server that had sent no more of a response, as far as its
/// capture shows.
pub(in crate::findings) fn is_stalled(connection: &Connection, exchange: &Exchange) -> bool {
    silent_until_left_ns(connection, exchange)
        .is_some_and(|silent_ns| connection.at_end().is_stalled(silent_ns))
}

/// Returns whether the client gave up on data of a response that was lost before the vantage: the
/// finding is that of the loss.
fn lacks_repair(connection: &Connection, exchange: &Exchange) -> bool {
    let server = &connection.senders[Side::Server];
    let lost = exchange.causes().contains(Cause::RetransmissionTimeout);
    let given_up = silent_until_left_ns(connection, exchange)
        .is_some_and(|silent_ns| connection.at_end().is_given_up(silent_ns));
    given_up && server.history().holes.bytes() > 0 && lost
}

/// Time for which the server of an exchange was silent before a RST or a FIN ended the connection,
/// ns.
pub(super) fn silent_ns(connection: &Connection, exchange: &Exchange) -> u64 {
    let spoken_ns = connection.senders.iter().map(|sender| sender.last.time_ns).max().unwrap_or(0);
    let [_, fin_ns] = connection.cold.ending().fin_ns;
    let ended_ns =
        connection.cold.ending().reset.map(|reset| reset.time_ns).or(fin_ns).unwrap_or(0);
    let silent_ns = match (exchange.outcome, left(connection, exchange)) {
        (Outcome::CutShort { .. }, Some([last, end])) => end.time_ns.saturating_sub(last.time_ns),
        _ => ended_ns.saturating_sub(spoken_ns),
    };
    exchange.ledger.of(Owner::Server).min(silent_ns)
}

/// The end of an exchange by a RST or FIN of one side.
struct End<'a> {
    connection: &'a Connection,
    exchange: &'a Exchange,
    by: Side,
}

impl End<'_> {
    /// Returns whether a client that did not wait has lost nothing: it sent a closing message, or
    /// has its response.
    fn lost_nothing(&self) -> bool {
        let fin_before = self.connection.cold.ending().fin_ns[self.by].is_some();
        let impatient = self.exchange.wall_ns() >= APPLICATION_TIMEOUT_MIN_NS && !fin_before;
        let content = fin_before && !self.aborted_response() || !self.exchange.response_seen;
        self.by == Side::Client && !impatient && content
    }

    /// Returns whether the client aborted a response with an announced end. A client that gave up
    /// before any of it came has not aborted it.
    fn aborted_response(&self) -> bool {
        let (connection, exchange) = (self.connection, self.exchange);
        let client_fin_ns = connection.cold.ending().fin_ns[Side::Client];
        let begun_ns = exchange.answered_ns + connection.path.rtt_ns(Side::Client);
        let server_una = connection.senders[Side::Server].space.una_seen();
        let came = server_una > exchange.began_at[Side::Server];
        let request_arrived = client_fin_ns.is_none_or(|at_ns| came && at_ns >= begun_ns);
        request_arrived && is_cut_short(connection, exchange)
    }

    /// Returns whether data before a FIN that was not captured completely may have been a closing
    /// message.
    fn may_be_closing_message(&self) -> bool {
        let (connection, exchange) = (self.connection, self.exchange);
        let is_known =
            is_whole(connection) || has_no_hole(connection) && is_http(connection, exchange);
        let closed = connection.cold.ending().fin_ns[Side::Client].is_some();
        !is_known && closed && !exchange.response_seen
    }

    /// Returns whether the client had closed of its own accord when the RST came. A client that
    /// gave up on a server which had forgotten the connection does not count, since it had waited.
    fn had_closed(&self) -> bool {
        let (connection, exchange) = (self.connection, self.exchange);
        let [client_fin_ns, server_fin_ns] = connection.cold.ending().fin_ns;
        let left = client_fin_ns.is_some_and(|at_ns| server_fin_ns.is_none_or(|it| at_ns < it));
        let gave_up = self.by == Side::Server
            && connection.cold.ending().forgotten
            && exchange.wall_ns() >= APPLICATION_TIMEOUT_MIN_NS
            && is_cut_short(connection, exchange);
        left && !(self.by == Side::Client && self.aborted_response()) && !gave_up
    }

    /// Returns whether the client answered the server's closing message, which it had received,
    /// with a closing message.
    fn answers_closing_message(&self) -> bool {
        let (connection, exchange) = (self.connection, self.exchange);
        let [client_fin_ns, server_fin_ns] = connection.cold.ending().fin_ns;
        let rtt_client_ns = connection.path.rtt_ns(Side::Client);
        let knew = server_fin_ns.is_some_and(|at_ns| at_ns + rtt_client_ns <= exchange.start_ns);
        let readable = is_request(connection, exchange);
        knew && client_fin_ns.is_some() && !exchange.response_seen && !readable
    }

    /// Returns whether the data is no readable request and came to a server that had closed after
    /// its response: then it is a closing message.
    fn crosses_close(&self) -> bool {
        let (connection, exchange) = (self.connection, self.exchange);
        let [_, server_fin_ns] = connection.cold.ending().fin_ns;
        let protocol = connection.framer.protocol();
        let unread = protocol.is_in_turns() || protocol == Protocol::Tls;
        let heard_ns = exchange.start_ns + connection.path.rtt_ns(Side::Server);
        let unheard = server_fin_ns.is_some_and(|at_ns| at_ns <= heard_ns);
        unheard && unread && !exchange.response_seen && !was_idle(connection, exchange)
    }

    /// Returns whether the end cost neither side anything.
    fn is_harmless(&self) -> bool {
        self.lost_nothing()
            || self.may_be_closing_message()
            || self.had_closed()
            || self.answers_closing_message()
            || self.crosses_close()
    }

    fn cause(&self) -> Cause {
        let (connection, exchange) = (self.connection, self.exchange);
        if connection.setup.refused {
            return Cause::Refused;
        }
        let unanswered = self.by == Side::Server && !exchange.response_seen;
        if unanswered && was_idle(connection, exchange) { Cause::IdleReset } else { Cause::Reset }
    }
}

impl Tally {
    /// Counts an exchange that a RST ended: it was refused, cut off, or sent into a connection that
    /// had been closed for idleness.
    pub(super) fn reset(&mut self, connection: &Connection, exchange: &Exchange, by: Side) {
        let end = End { connection, exchange, by };
        if end.is_harmless() || lacks_repair(connection, exchange) {
            return;
        }
        if is_stopped(connection, exchange, by) {
            self.notes.stopped += 1;
            return;
        }
        if !(exchange.response_seen && is_left(connection, by)) {
            self.add_cost(&end, end.cause());
        }
    }

    /// Adds the cost of the end: the whole time was lost, since the request has to be repeated.
    fn add_cost(&mut self, end: &End<'_>, cause: Cause) {
        let &End { connection, exchange, by } = end;
        let reset = connection.cold.ending().reset.unwrap_or(exchange.last);
        let at_ns = reset.time_ns;
        let from_ns = exchange.end_ns.min(at_ns);
        let gap = crate::judge::Gap::between(by, from_ns, at_ns, exchange.first, reset);
        // A server that sent nothing was silent for as long as it might have been before a
        // response.
        let silent_ns = match cause {
            Cause::Reset if !exchange.response_seen => silent_ns(connection, exchange),
            _ => 0,
        };
        let ns = exchange.wall_ns().saturating_sub(exchange.fault_ns() + silent_ns);
        let chain = Chain::of(cause, by, ns, gap);
        self.cause(connection, exchange, &chain);
        let key = Key::of(cause, by, connection).within(self.row_of(connection.server()));
        let tally = self.causes.at(&key);
        tally.count_connection(connection);
        for (owner, ns) in exchange.ledger.ledger().iter() {
            let others_ns = if owner == Owner::Server { silent_ns } else { 0 };
            tally.covers.add(owner, ns - others_ns);
        }
        if cause == Cause::IdleReset {
            let since_ns = quiet_since_ns(connection, exchange);
            self.failed_requests.push(FailedRequest {
                key,
                client: connection.client().address,
                server: connection.server(),
                kind: exchange.kind.digest(),
                start_ns: exchange.start_ns,
                wall_ns: exchange.wall_ns(),
                idle_ns: exchange.start_ns.saturating_sub(since_ns),
                end: reset,
            });
            retries::bound(&mut self.failed_requests);
        }
    }
}
