//! A response that reports an error, by the code that its protocol has for that
//! ([`crate::app::ErrorCode`]).
//!
//! Counted in `findings/tally/failures.rs`, where an exchange ends.

use crate::app::{ErrorCode, LOGINS, Protocol, Refused, STARTUP, Service, Subject};
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Group, Key, Tally};
use crate::findings::thresholds::TAIL_SHARE;
use crate::judge::thresholds::{ALIKE_PART, APPLICATION_TIMEOUT_MIN_NS, HABIT_MIN};
use crate::model::{Cause, Fact, Family, OutcomeKind, Owner, Sighting};
use crate::wire::Side;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Greatest number of responses that ask for credentials before those of one request are accepted:
/// Negotiate and NTLM take a second round trip (RFC 4559 §4.1). A request that meets another
/// error afterwards was not refused for its credentials.
const CHALLENGES_MAX: u64 = 2;

/// Name of the fact: number of requests that a service which works would have answered.
const FAILURES: &str = "failures";

/// Number of codes that a report names.
const CODES_MAX: usize = 3;

/// Proves an error by the request and the end of its answer, or a TLS handshake that failed by the
/// ClientHello and the alert. An alert of the client is no answer.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let exchange = scene.exchange;
    let error = exchange.outcome.error();
    let refuser = error.and_then(ErrorCode::refuser);
    // A greeting that refuses the session answers nothing.
    let is_greeting = exchange.first.from == Side::Server;
    let is_answer = !is_greeting && refuser != Some(Side::Client);
    proof.rule_out(Cause::NoAnswer, "answered", is_answer);
    if let Some(refuser) = refuser {
        let is_data = |seen: &Sighting, from| seen.from == from && seen.payload_bytes > 0;
        if is_data(&exchange.first, Side::Client) {
            proof.add_frame("client_hello", exchange.first);
        }
        if is_data(&exchange.last, refuser) {
            proof.add_frame("alert", exchange.last);
        }
    } else {
        proof.add_request(exchange.first);
        proof.add_response(exchange.last);
        // A stream may end in the midst of its answer.
        let is_whole = exchange.is_complete() && is_answer && !error.is_some_and(ends_stream);
        proof.rule_out(Cause::Reset, "complete", is_whole);
    }
    if let Some(seconds) = exchange.retry_after_s {
        proof.add_fact("retry_after", Fact::Text(format!("{seconds} s")));
    }
    let is_loss = |cause: Cause| cause.family() == Family::Loss;
    let lost = exchange.chains.iter().any(|chain| is_loss(chain.cause));
    proof.rule_out(Cause::RetransmissionTimeout, "none_lost", !lost);
}

/// Returns whether the error is that of a frame which ends a stream of HTTP/2.
fn ends_stream(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Http2(_))
}

/// Name of the number of errors that answer a login.
const LOGIN_ERRORS: &str = "login_errors";

/// Name of the number of sessions that an error refused as a whole.
const SESSIONS: &str = "refused_sessions";

/// Name of the number of transfers of FTP for which the client had prepared no connection.
const WITHOUT_PORT: &str = "without_port";

/// Name of the number of errors about credentials.
const CREDENTIALS: &str = "credentials";

/// Name of the number of sessions of which no mail was accepted.
const MAILS: &str = "refused_mails";

/// Name of the number of those whose client did not log in, though the server offers that.
const WITHOUT_LOGIN: &str = "mails_without_login";

/// Name of the number of errors that answer a login which the client could send.
const REFUSED: &str = "refused_by_answer";

/// Name of the time that the server took for them, ns.
const REFUSED_NS: &str = "refused_ns";

/// Counts the errors for which the server states that they are its own, those that answer a login,
/// and those that state when to try again.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let code = scene.exchange.outcome.error();
    // A limit of requests is the server's, and a client does not ask for it.
    let is_limit = |code: ErrorCode| code.is_of_server() || code.subject() == Subject::Rate;
    shown.add("of_server", code.is_some_and(is_limit).into());
    shown.add(FAILURES, code.is_some_and(ErrorCode::is_failure).into());
    shown.add(LOGIN_ERRORS, is_login(scene).into());
    shown.add(SESSIONS, ends_session(scene).into());
    let is_of_data = code.is_some_and(|code| code.subject() == Subject::DataConnection);
    let without_port = is_of_data && scene.connection.framer.lacks_data_port();
    shown.add(WITHOUT_PORT, without_port.into());
    let is_about_credentials = |code: ErrorCode| code.subject() == Subject::Credentials;
    shown.add(CREDENTIALS, code.is_some_and(is_about_credentials).into());
    if is_login(scene) && &*scene.exchange.kind != GREETING {
        shown.add(REFUSED, 1);
        shown.add(REFUSED_NS, scene.exchange.ledger.of(Owner::Server));
    }
    let is_begun = scene.exchange.request_seen && !scene.exchange.asked;
    let is_early = scene.connection.framer.protocol() == Protocol::Http1 && is_begun;
    let left_ns = scene.connection.cold.ending().fin_ns[Side::Client];
    let is_left = left_ns.is_some_and(|left_ns| left_ns <= scene.exchange.answered_ns);
    shown.add("early", (is_early && !is_left).into());
    shown.add("left_amid", (is_early && is_left).into());
    shown.add("later", scene.exchange.retry_after_s.is_some().into());
}

/// Counts a session whose replies show that it did not get what it was begun for: it may have tried
/// several times.
pub fn add_refused(refused: Refused, shown: &mut Shown) {
    shown.add(SESSIONS, 1);
    let is_mail = matches!(refused, Refused::Mail | Refused::MailWithoutLogin);
    shown.add(MAILS, is_mail.into());
    shown.add(WITHOUT_LOGIN, (refused == Refused::MailWithoutLogin).into());
}

/// Returns whether the exchange is a login, or a greeting that refuses one.
fn is_login(scene: &Scene<'_>) -> bool {
    let kind = &*scene.exchange.kind;
    match scene.exchange.outcome.error() {
        Some(ErrorCode::Reply(Service::Smtp, ..)) => kind == "AUTH",
        Some(ErrorCode::Reply(..)) => LOGINS.contains(&kind) || kind == GREETING,
        _ => ends_session(scene),
    }
}

/// Kind of the exchange in which the server speaks first.
const GREETING: &str = "greeting";

/// Returns whether an error in the exchange ends the session: a login of a database or a broker
/// (PostgreSQL, "Message Flow"; MySQL, "Connection Phase"; MQTT 3.1.1 §3.2.2.3; AMQP 0-9-1 §2.2.4), or a
/// greeting.
fn ends_session(scene: &Scene<'_>) -> bool {
    let kind = &*scene.exchange.kind;
    let error = scene.exchange.outcome.error();
    match scene.connection.framer.protocol() {
        // Whatever the client has sent by then.
        Protocol::Redis | Protocol::Ssh => {
            error.is_some_and(|code| code.subject() == Subject::Connections)
        }
        Protocol::Postgres => kind == STARTUP,
        Protocol::Mysql => matches!(kind, "connect" | GREETING),
        Protocol::Mqtt => kind == "CONNECT",
        Protocol::Amqp => {
            matches!(kind, "connection.start-ok" | "connection.secure-ok" | "connection.open")
        }
        it if it.is_in_turns() => kind == GREETING,
        _ => false,
    }
}

/// Returns whether so many requests met errors that someone has to change something: failures of the
/// service that are no slight part of all, a few other errors of its own, or most of all; or most
/// sessions, by a refused login or mail; or nobody was accepted. A client may ask for what does not
/// exist. A request without credentials that is repeated with them has not failed, nor has a client
/// that logs in on another connection.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let Some(endpoint) = case.endpoint() else { return false };
    let (all, errors) = (endpoint.all.exchanges, case.cause.exchanges);
    if case.key.sender == Side::Client {
        let accepted = all.saturating_sub(errors);
        let refused = errors > CHALLENGES_MAX * accepted;
        let none = endpoint.all.outcomes.of(OutcomeKind::Answered) == 0;
        return dominate(errors, all) && none && refused;
    }
    let of_server = case.cause.shown.count("of_server");
    let most_of_kind = |(_, group): (_, &Group)| {
        let of_kind = count(group, ErrorCode::is_of_server);
        dominate(of_kind, group.exchanges)
    };
    let none_is_accepted = case.cause.shown.count(CREDENTIALS) > 0
        && endpoint.all.outcomes.of(OutcomeKind::Answered) == 0;
    let are_refused = 2 * case.cause.shown.count(SESSIONS) > endpoint.connections;
    let failures = case.cause.shown.count(FAILURES);
    are_many(errors, [of_server, failures], all)
        || are_refused
        || none_is_accepted
        || endpoint.kinds.iter().any(most_of_kind)
}

/// Returns whether `errors` of `all` requests are so many that someone has to change something;
/// `of_server` of them are the server's own, and `failures` those of a service that does not work
/// ([`ErrorCode::is_failure`]). A few of these are told if they are not lost among errors of other
/// kinds.
pub fn are_many(errors: u64, [of_server, failures]: [u64; 2], all: u64) -> bool {
    let is_tail = |count: u64| count > 0 && count as f64 >= TAIL_SHARE * all as f64;
    dominate(errors, all)
        || is_most(of_server, all)
        || is_tail(failures) && is_most(failures, errors)
        || of_server >= u64::from(HABIT_MIN) && is_tail(of_server)
}

/// Returns whether `errors` are not a coincidence, and most of all.
fn dominate(errors: u64, all: u64) -> bool {
    errors >= u64::from(HABIT_MIN) && is_most(errors, all)
}

fn is_most(count: u64, all: u64) -> bool {
    count > 0 && 2 * count >= all
}

/// Returns the number of errors of `group` whose code satisfies `is`.
fn count(group: &Group, is: impl Fn(ErrorCode) -> bool) -> u64 {
    let codes = group.outcomes.codes().into_iter();
    codes.filter(|(code, _)| is(*code)).map(|(_, count)| count).sum()
}

/// Returns the facts of `errors` among `all` requests, whose codes are these, the most frequent first.
pub fn facts_of(codes: &[(ErrorCode, u64)], errors: u64, all: u64) -> Vec<(&'static str, Fact)> {
    let mut text = String::new();
    for (code, count) in codes.iter().take(CODES_MAX) {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}{code} × {count}");
    }
    text += if codes.len() > CODES_MAX { ", …" } else { "" };
    let share = errors as f64 / all as f64;
    let mut facts = vec![("codes", Fact::Text(text)), ("share_of_requests", Fact::Share(share))];
    facts.extend(codes.first().map(|(most, _)| {
        let class = match most {
            ErrorCode::Http(502..=504) => "of_proxy",
            ErrorCode::Http(413) => "of_size",
            ErrorCode::Http(405 | 501) => "of_method",
            ErrorCode::Http(505) => "of_version",
            ErrorCode::TlsAlert { .. } => "tls",
            ErrorCode::NoTls => "no_tls",
            code => match code.subject() {
                Subject::Credentials => "of_credentials",
                Subject::Connections => "of_connections",
                Subject::Rate => "of_rate",
                Subject::Streams => "of_streams",
                Subject::Quota => "of_quota",
                Subject::RedisState => "of_state",
                Subject::Unavailable => "of_unavailable",
                Subject::DataConnection => "of_transfer",
                Subject::TakeOver => "of_take_over",
                Subject::MailForNow => "of_mail_later",
                Subject::Cancelled => "of_cancel",
                Subject::Mail => "of_mail",
                Subject::Command => "of_command",
                Subject::Mailbox => "of_mailbox",
                Subject::MailSystem => "of_mail_system",
                Subject::MailRoute => "of_mail_route",
                Subject::MailContent => "of_mail_content",
                Subject::MailPolicy => "of_mail_policy",
                Subject::Other if code.is_of_server() => "of_application",
                Subject::Other => "of_request",
            },
        };
        (class, Fact::Text(most.to_string()))
    }));
    let explained = codes.first().filter(|(most, _)| most.subject() != Subject::Other);
    facts.extend(explained.map(|(most, _)| ("explained", Fact::Text(most.to_string()))));
    let limit = |code: ErrorCode| match code.subject() {
        Subject::Connections => Some("limit of connections"),
        Subject::Rate => Some("rate limit"),
        Subject::Streams => Some("limit of concurrent streams"),
        _ => None,
    };
    let limits: BTreeSet<_> = codes.iter().map(|(code, _)| limit(*code)).collect();
    if let &[Some(limit)] = limits.into_iter().collect::<Vec<_>>().as_slice() {
        facts.push(("limit", Fact::Text(limit.into())));
    }
    let refusers: BTreeSet<_> = codes.iter().map(|(code, _)| code.refuser()).collect();
    match refusers.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(refuser)] => facts.extend(of_alerts(codes, *refuser)),
        [None] if codes.iter().all(|(code, _)| ends_stream(*code)) => {
            facts.push(("streams", Fact::Text("streams".into())));
        }
        [None] if !codes.iter().any(|(code, _)| ends_stream(*code)) => {
            facts.push(("replies", Fact::Text("answers".into())));
        }
        _ => {}
    }
    facts
}

/// Returns which side refuses TLS handshakes, all with one of these alerts, and what it refuses.
fn of_alerts(codes: &[(ErrorCode, u64)], refuser: Side) -> Vec<(&'static str, Fact)> {
    let text = |text: &str| Fact::Text(text.to_owned());
    let mut facts = vec![("refuser", text(refuser.name()))];
    let meaning = codes.first().and_then(|(most, _)| most.alert_meaning());
    facts.extend(meaning.map(|meaning| ("meaning", text(meaning))));
    if codes.iter().all(|(code, _)| code.is_about_certificate()) {
        facts.push(match refuser {
            Side::Client => ("server_certificate", text("the server's certificate")),
            Side::Server => ("client_certificate", text("the client's certificate")),
        });
    }
    facts
}

/// Returns the time after which the server refuses logins, ns, if it delays them: they all take as
/// long as a timer of an application, and nothing else at that server does. So does no work on a
/// password, which takes as long if it is right.
fn login_delay_ns(cause: &CauseTally, endpoint: &EndpointTally) -> Option<u64> {
    let refused = cause.shown.count(REFUSED);
    let (least_ns, _) = cause.waits.points().next()?;
    let long_ns = least_ns - least_ns / ALIKE_PART;
    let slow = endpoint.all.latency.points().filter(|(ns, _)| *ns >= long_ns);
    let slow: u64 = slow.map(|(_, count)| count).sum();
    let is_only = refused == cause.exchanges && slow == refused && endpoint.all.exchanges > refused;
    let is_delay = refused >= HABIT_MIN.into() && least_ns >= APPLICATION_TIMEOUT_MIN_NS;
    (is_only && is_delay).then(|| cause.waits.quantile_ns(0.5))
}

/// Lets the delay of refused logins be told with the refusals only: it is no work of the server.
pub(in crate::findings) fn settle(tally: &mut Tally) {
    let delays = |(key, cause): &(&Key, &CauseTally)| {
        let endpoint = tally.endpoints.get(&key.server);
        key.cause == Cause::ErrorResponses
            && endpoint.is_some_and(|it| login_delay_ns(cause, it).is_some())
    };
    let delayed: Vec<_> = tally.causes.iter().filter(delays).map(|(key, _)| key.clone()).collect();
    for key in delayed {
        let cause = tally.causes.at(&key);
        let server_ns = cause.shown.count(REFUSED_NS);
        cause.covers.add(Owner::Server, server_ns);
    }
}

/// Returns the codes, and the kind of request that met most of them.
pub(super) fn facts(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let challenges = key.sender == Side::Client;
    let is_of_key = |code: ErrorCode| code.is_challenge() == challenges;
    let mut codes = endpoint.all.outcomes.codes();
    codes.retain(|(code, _)| is_of_key(*code));
    let all = endpoint.all.exchanges.max(1);
    let mut facts = Facts::from_iter(facts_of(&codes, cause.exchanges, all));
    // A CancelRequest is an exchange of its own; MySQL's code is that of `KILL QUERY`.
    let is_asked = endpoint.kinds.iter().any(|(kind, _)| &**kind == "cancel")
        || codes.first().is_some_and(|(most, _)| matches!(most, ErrorCode::Mysql(_)));
    if is_asked && facts.contains_key("of_cancel") {
        facts.insert("cancels", Fact::Text("requests to cancel".into()));
    }
    let without_port = cause.shown.count(WITHOUT_PORT) > 0;
    if let Some(code) = facts.remove("of_transfer") {
        facts.insert(if without_port { "of_order" } else { "of_transfer" }, code);
    }
    let logins = cause.shown.count(LOGIN_ERRORS);
    if logins > 0 && logins == cause.exchanges {
        facts.insert("refused_logins", Fact::Count(logins));
        facts.insert("opened", Fact::Count(endpoint.connections));
        let delay_ns = login_delay_ns(cause, endpoint);
        facts.extend(delay_ns.map(|ns| ("login_delay_ns", Fact::Ns(ns))));
    }
    let without_login = cause.shown.count(WITHOUT_LOGIN);
    if without_login > 0 && without_login == cause.shown.count(MAILS) {
        facts.insert("without_login", Fact::Count(without_login));
    }
    let of_kind = |(kind, group)| (count(group, is_of_key), kind, group.exchanges);
    let kinds = endpoint.kinds.iter().filter(|(kind, _)| !kind.is_empty());
    let worst =
        kinds.map(of_kind).max_by_key(|&(errors, kind, _)| (errors, std::cmp::Reverse(kind)));
    let apart = worst.filter(|&(errors, _, of)| of < all && is_most(errors, cause.exchanges));
    if let Some((errors, kind, of)) = apart {
        facts.insert("kind", Fact::Text(kind.to_string()));
        facts.insert("kind_errors", Fact::Count(errors));
        facts.insert("kind_all", Fact::Count(of));
    }
    facts
}
