//! Exchanges that wait for a connection attempt of one of their ends to somewhere else.
//!
//! A mail server that asks the client's host for its user (RFC 1413), or a client that asks whether
//! a certificate is revoked (RFC 6960), connects to another port before it goes on. If nothing
//! answers there, the attempt costs what the exchange waits, once, and neither end works meanwhile.

use crate::findings::Floors;
use crate::findings::attempts::Unanswered;
use crate::findings::costs::scaled;
use crate::findings::nested::Nested;
use crate::findings::prediction;
use crate::findings::tally::{First, Tally};
use crate::findings::thresholds::COST_MIN_NS;
use crate::judge::thresholds::AT_ONCE_PART;
use crate::model::{Cause, Fact, Finding, Owner, Role};
use crate::wire::Endpoint;
use std::collections::HashSet;

/// The end of a connection that makes the attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

/// An exchange that may wait for an attempt.
struct Held {
    client: [u8; 16],
    server: Endpoint,
    /// Time of the request, or of the SYN before it, ns.
    start_ns: u64,
    answered_ns: u64,
}

impl Held {
    fn of_first(first: &First) -> Self {
        let &First { client, server, start_ns, answered_ns, .. } = first;
        Self { client, server, start_ns, answered_ns }
    }

    /// Returns the time from its start to its answer, ns.
    fn len_ns(&self) -> u64 {
        self.answered_ns.saturating_sub(self.start_ns)
    }
}

/// Returns the time for which `first` waits for those of `attempts` that its `end` makes to
/// `target`, ns; `None` if they do not explain the wait. The first attempt begins at the start of
/// the wait, all end within it, and they take most of it.
fn waited_ns(first: &Held, end: End, target: Endpoint, attempts: &[Unanswered]) -> Option<u64> {
    let maker = if end == End::Client { first.client } else { first.server.address };
    let wait_ns = first.len_ns();
    if wait_ns < COST_MIN_NS || target == first.server {
        return None;
    }
    let within = |it: &&Unanswered| {
        (it.client, it.server) == (maker, target)
            && (first.start_ns..=first.answered_ns).contains(&it.first_ns)
            && it.until_ns <= first.answered_ns
    };
    let own = || attempts.iter().filter(within);
    let began_ns = own().map(|it| it.first_ns).min()?;
    let lengths_ns = own().map(|it| it.until_ns.saturating_sub(it.first_ns));
    let taken_ns = lengths_ns.fold(0, u64::saturating_add);
    let at_once = began_ns - first.start_ns <= wait_ns / AT_ONCE_PART;
    // After the last SYN, the attempt goes on for up to as long as before (RFC 6298 §5.5).
    (at_once && taken_ns >= wait_ns / 2).then(|| first.answered_ns - began_ns)
}

/// Waits of the exchanges with a server.
#[derive(Clone, Copy, Default)]
struct Waits {
    /// Number of exchanges that waited for attempts, and their time, ns.
    held: (u64, u64),
    /// Time of the others, ns.
    other_ns: u64,
}

/// Returns the waits of exchanges with `server` for attempts of their `end` to `target`. A client's
/// attempt precedes the first exchange of a connection; a server may make one for each.
fn waits(tally: &Tally, server: Endpoint, (end, target): (End, Endpoint)) -> Waits {
    let attempts = tally.syns.unanswered_to(target);
    let mut held: Vec<_> = tally.firsts.iter().filter(|it| it.server == server).collect();
    held.retain(|it| it.answered_ns > 0);
    let mut held: Vec<_> = held.into_iter().map(Held::of_first).collect();
    if end == End::Server {
        let firsts: HashSet<_> = held.iter().map(|it| (it.client, it.start_ns)).collect();
        let waits = tally.endpoints.get(&server).map_or(&[][..], |it| it.waits.all());
        let later = waits.iter().map(|wait| Held {
            client: wait.client,
            server,
            start_ns: wait.began_ns,
            answered_ns: wait.answered_ns,
        });
        held.extend(later.filter(|it| !firsts.contains(&(it.client, it.start_ns))));
    }
    let mut waits = Waits::default();
    for it in held {
        match waited_ns(&it, end, target, &attempts) {
            Some(ns) => waits.held = (waits.held.0 + 1, waits.held.1.saturating_add(ns)),
            None => waits.other_ns = waits.other_ns.saturating_add(it.len_ns()),
        }
    }
    waits
}

/// Moves the time that exchanges waited for attempts from the finding about these exchanges to that
/// about the attempts, and adds it to `nested`, which has servers whose waits are explained. Each wait
/// has to have its attempt: work that only happens at the same time leaves others without one.
pub(super) fn settle(
    findings: &mut Vec<Finding>,
    tally: &Tally,
    floors: &Floors,
    nested: &mut Vec<Nested>,
) {
    let targets: Vec<_> = findings.iter().filter(|it| it.cause == Cause::SynRetransmit).collect();
    let targets: Vec<_> =
        targets.into_iter().filter_map(|it| it.evidence_flow.map(|flow| flow.1)).collect();
    for target in targets {
        let held = findings.iter().enumerate().find_map(|(place, finding)| {
            let (end, name) = match finding.cause {
                Cause::ServerThink => (End::Server, "waiting_server"),
                Cause::TlsHandshake => (End::Client, "waiting_handshakes"),
                _ => return None,
            };
            let server = match finding.culprit.role {
                Role::Client => finding.evidence_flow?.1,
                _ => finding.culprit.endpoint,
            };
            let Waits { held: (count, held_ns), other_ns } = waits(tally, server, (end, target));
            let is_explained = nested.iter().any(|it| it.server == server);
            let is_link = !is_explained && held_ns > 0 && other_ns <= held_ns / AT_ONCE_PART;
            is_link.then_some((place, name, server, (count, held_ns.min(finding.lost_ns))))
        });
        let Some((place, name, server, (count, held_ns))) = held else { continue };
        let owner = match findings[place].cause {
            Cause::TlsHandshake => Owner::Tls,
            _ => Owner::Server,
        };
        let finding = &mut findings[place];
        let share = finding.share * held_ns as f64 / finding.lost_ns.max(1) as f64;
        finding.lost_ns -= held_ns;
        finding.share -= share;
        let all_ns = tally.endpoints.get(&server).map_or(0, |it| it.all.ledger.total_ns());
        let is_small = (finding.lost_ns as f64) < floors.cost_share * all_ns as f64;
        let about = |it: &&mut Finding| {
            it.cause == Cause::SynRetransmit && it.evidence_flow.is_some_and(|it| it.1 == target)
        };
        if let Some(attempt) = findings.iter_mut().find(about) {
            let ns = attempt.lost_ns.min(held_ns);
            let shown = (Owner::SynRetransmit, held_ns - ns);
            nested.push(Nested { server, owner, ns, shown: Some(shown) });
            attempt.facts.push((name, Fact::Text(server.to_string())));
            attempt.facts.push(("waiting_ns", Fact::Ns(held_ns)));
            (attempt.lost_ns, attempt.share) = (held_ns, share);
            // The cost is that of the exchanges that waited.
            if let Some(waiting) = tally.endpoints.get(&server) {
                attempt.affected.exchanges = count.min(waiting.all.exchanges);
                attempt.affected.of_exchanges = waiting.all.exchanges;
                attempt.latency = waiting.all.latency.latency();
                let left = 1.0 - held_ns as f64 / all_ns.max(held_ns).max(1) as f64;
                let likely = scaled(&attempt.latency, left);
                let needed_ns = waiting.round_trips.needed_ns();
                attempt.counterfactual = prediction::of_each(&attempt.latency, likely, needed_ns);
            }
        }
        if is_small {
            findings.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const CLIENT: [u8; 16] = [1; 16];
    const SERVER: Endpoint = Endpoint { address: [2; 16], port: 25 };
    const IDENT: Endpoint = Endpoint { address: CLIENT, port: 113 };
    const RESPONDER: Endpoint = Endpoint { address: [3; 16], port: 80 };

    /// A connection from 0 s, answered after `answered_s`.
    fn first(answered_s: u64) -> Held {
        Held { client: CLIENT, server: SERVER, start_ns: 0, answered_ns: answered_s * S }
    }

    fn attempt(client: [u8; 16], server: Endpoint, (from_s, to_s): (u64, u64)) -> Unanswered {
        Unanswered { client, server, first_ns: from_s * S, until_ns: to_s * S }
    }

    #[test]
    fn greeting_waits_for_the_servers_own_attempt() {
        let ident = [attempt(SERVER.address, IDENT, (0, 4))];
        assert_eq!(waited_ns(&first(5), End::Server, IDENT, &ident), Some(5 * S));
    }

    #[test]
    fn handshake_waits_for_two_attempts_of_its_client_one_after_the_other() {
        let asked = [attempt(CLIENT, RESPONDER, (0, 4)), attempt(CLIENT, RESPONDER, (5, 9))];
        assert_eq!(waited_ns(&first(10), End::Client, RESPONDER, &asked), Some(10 * S));
    }

    /// Negative twins.
    #[test]
    fn attempts_that_do_not_explain_the_wait() {
        let waited = |(from_s, to_s), answered_s| {
            let ident = [attempt(SERVER.address, IDENT, (from_s, to_s))];
            waited_ns(&first(answered_s), End::Server, IDENT, &ident)
        };
        assert_eq!(waited((0, 4), 3), None, "it goes on after the answer");
        assert_eq!(waited((2, 5), 5), None, "it begins in the midst of the wait");
        assert_eq!(waited((0, 1), 5), None, "it takes a small part of the wait");
        let of_client = [attempt(CLIENT, RESPONDER, (0, 4))];
        assert_eq!(waited_ns(&first(5), End::Server, RESPONDER, &of_client), None);
        let same = [attempt(CLIENT, SERVER, (0, 4))];
        assert_eq!(waited_ns(&first(5), End::Client, SERVER, &same), None, "its own server");
    }
}
