//! A response that reports an error, by the code that its protocol has for that
//! ([`crate::app::ErrorCode`]).
//!
//! Counted in `findings/tally/failures.rs`, where an exchange ends.

use crate::app::{ErrorCode, Protocol, Side};
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Group, Key};
use crate::findings::thresholds::TAIL_SHARE;
use crate::judge::thresholds::HABIT_MIN;
use crate::model::{Cause, Fact, Family, OutcomeKind, Sighting};
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
    let refuser = exchange.outcome.error().and_then(ErrorCode::refuser);
    proof.rule_out(Cause::NoAnswer, "answered", refuser != Some(Side::Client));
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
        proof.add_frame("response", exchange.last);
        proof.rule_out(Cause::Reset, "complete", exchange.is_complete());
    }
    let is_loss = |cause: Cause| cause.family() == Family::Loss;
    let lost = exchange.chains.iter().any(|chain| is_loss(chain.cause));
    proof.rule_out(Cause::RetransmissionTimeout, "none_lost", !lost);
}

/// Name of the number of logins that an error answered.
const LOGINS: &str = "logins";

/// Counts the errors for which the server states that they are its own, and those that answer a
/// login.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let code = scene.exchange.outcome.error();
    shown.add("of_server", code.is_some_and(ErrorCode::is_of_server).into());
    shown.add(FAILURES, code.is_some_and(ErrorCode::is_failure).into());
    shown.add(LOGINS, is_login(scene).into());
}

/// Returns whether the exchange is a login of a database, whose error ends the connection
/// (PostgreSQL, "Message Flow"; MySQL, "Connection Phase").
fn is_login(scene: &Scene<'_>) -> bool {
    match scene.connection.protocol() {
        Protocol::Postgres => &*scene.exchange.kind == "startup",
        Protocol::Mysql => &*scene.exchange.kind == "connect",
        _ => false,
    }
}

/// Returns whether so many requests met errors that someone has to change something: failures of the
/// service that are no slight part of all, a few other errors of its own, or most of all; or most
/// logins, each of which ends a connection. A client may ask for what does not exist. A request without credentials that is repeated with them has not
/// failed, nor has a client that logs in on another connection.
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
    let are_refused = 2 * case.cause.shown.count(LOGINS) > endpoint.connections;
    let failures = case.cause.shown.count(FAILURES);
    are_many(errors, [of_server, failures], all)
        || are_refused
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
            ErrorCode::TlsAlert { .. } => "tls",
            ErrorCode::NoTls => "no_tls",
            code if code.is_of_server() => "of_application",
            _ => "of_request",
        };
        (class, Fact::Text(most.to_string()))
    }));
    let refusers: BTreeSet<_> = codes.iter().map(|(code, _)| code.refuser()).collect();
    match refusers.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(refuser)] => facts.extend(of_alerts(codes, *refuser)),
        [None] => facts.push(("replies", Fact::Text("answers".into()))),
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

/// Returns the codes, and the kind of request that met most of them.
pub(super) fn facts(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let challenges = key.sender == Side::Client;
    let is_of_key = |code: ErrorCode| code.is_challenge() == challenges;
    let mut codes = endpoint.all.outcomes.codes();
    codes.retain(|(code, _)| is_of_key(*code));
    let all = endpoint.all.exchanges.max(1);
    let mut facts = Facts::from_iter(facts_of(&codes, cause.exchanges, all));
    let logins = cause.shown.count(LOGINS);
    if logins > 0 && logins == cause.exchanges {
        facts.insert("refused_logins", Fact::Count(logins));
        facts.insert("opened", Fact::Count(endpoint.connections));
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
