//! Proxies that answer with an error because a server behind them fails: while the request to the
//! proxy waits, the proxy's host tries in vain to connect there, or its request fails. Where that server
//! answers with the same error, the proxy passes it on, and is no second failure.

use crate::app::ErrorCode;
use crate::findings::tally::{First, Tally};
use crate::model::{Cause, Fact, Finding, Role};
use crate::tcp::{Connection, Exchange};
use crate::wire::Endpoint;
use std::collections::BTreeMap;

/// Number of errors kept of a shard. These are the earliest.
const SHARD_KEPT_MAX: usize = 1 << 8;
/// Number of errors kept of all.
pub(super) const KEPT_MAX: usize = 1 << 12;

/// An error by which a server says that it failed (RFC 9110 §15.6), or a proxy that another server did.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
pub struct ServerError {
    /// Time at which the request passed, ns.
    asked_ns: u64,
    /// Time at which its answer had passed, ns.
    answered_ns: u64,
    /// The server that answered.
    server: Endpoint,
    /// Address of its client.
    client: [u8; 16],
    /// HTTP status.
    status: u16,
}

impl ServerError {
    fn of(connection: &Connection, exchange: &Exchange, status: u16) -> Self {
        let (asked_ns, answered_ns) = (exchange.first.time_ns, exchange.last.time_ns);
        let (server, client) = (connection.server(), connection.client().address);
        Self { asked_ns, answered_ns, server, client, status }
    }

    /// Returns whether a proxy says by it that another server did not answer (RFC 9110 §15.6.3 to
    /// §15.6.5).
    fn is_of_gateway(&self) -> bool {
        matches!(self.status, 502..=504)
    }

    /// Returns whether `inner` is the same error, with which another server answered the proxy's host
    /// within the request.
    fn passes_on(&self, inner: &Self) -> bool {
        inner.client == self.server.address
            && inner.server != self.server
            && inner.status == self.status
            && self.asked_ns <= inner.asked_ns
            && inner.answered_ns <= self.answered_ns
    }

    /// Returns whether `first` is an attempt of the proxy's host, within the request, that had no answer.
    fn contains(&self, first: &First) -> bool {
        first.client == self.server.address
            && first.server != self.server
            && !first.answered
            && (self.asked_ns..=self.answered_ns).contains(&first.start_ns)
    }
}

/// Keeps the error that `exchange` ended with, if it is one of a server.
pub(super) fn keep(
    kept: &mut Vec<ServerError>,
    connection: &Connection,
    exchange: &Exchange,
    code: ErrorCode,
) {
    if let ErrorCode::Http(status @ 500..) = code {
        kept.push(ServerError::of(connection, exchange, status));
        bound(kept, SHARD_KEPT_MAX);
    }
}

/// Keeps the earliest of `errors`, once there are many more.
pub(super) fn bound(errors: &mut Vec<ServerError>, room: usize) {
    if errors.len() >= room + room / 4 {
        errors.select_nth_unstable(room);
        errors.truncate(room);
    }
}

/// Returns the server that fails for each of the requests to a proxy that it answers with an error.
fn upstream(errors: &[ServerError], firsts: &[First]) -> Option<Endpoint> {
    let mut failed: BTreeMap<Endpoint, usize> = BTreeMap::new();
    for error in errors {
        let mut servers: Vec<_> =
            firsts.iter().filter(|it| error.contains(it)).map(|it| it.server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers.into_iter().for_each(|server| *failed.entry(server).or_default() += 1);
    }
    failed.into_iter().find(|(_, count)| *count == errors.len()).map(|(server, _)| server)
}

/// Returns what a server does whose failures have this cause; `None` for what is no failure.
fn failure(cause: Cause) -> Option<&'static str> {
    Some(match cause {
        Cause::Refused => "refuses connections",
        Cause::SynRetransmit | Cause::AcceptQueueOverflow => "is not reached",
        Cause::Reset | Cause::IdleReset => "resets them",
        Cause::NoAnswer => "gives no answer",
        _ => return None,
    })
}

/// Names in the finding about the errors of a proxy the server that fails behind it, and in the finding
/// about that server the proxy.
pub(super) fn settle(findings: &mut Vec<Finding>, tally: &Tally) {
    let mut errors: BTreeMap<Endpoint, Vec<ServerError>> = BTreeMap::new();
    for error in &tally.server_errors {
        errors.entry(error.server).or_default().push(*error);
    }
    pass_on(findings, &errors);
    for (proxy, errors) in errors {
        if !errors.iter().all(ServerError::is_of_gateway) {
            continue;
        }
        let Some(server) = upstream(&errors, &tally.firsts) else { continue };
        let is_of_server = |it: &Finding| {
            it.evidence_flow.is_some_and(|(_, of)| of == server)
                || it.culprit.role == Role::Server && it.culprit.endpoint == server
        };
        let about = findings.iter().position(|it| failure(it.cause).is_some() && is_of_server(it));
        let of_errors = findings
            .iter()
            .position(|it| it.cause == Cause::ErrorResponses && it.culprit.endpoint == proxy);
        let Some((about, of_errors)) = about.zip(of_errors) else { continue };
        let how = failure(findings[about].cause).unwrap_or_default();
        findings[about].facts.push(("asked_by", Fact::Text(proxy.to_string())));
        let facts = &mut findings[of_errors].facts;
        facts.push(("failed_upstream", Fact::Text(server.to_string())));
        facts.push(("failed_how", Fact::Text(how.into())));
        // The server behind the proxy has to be repaired, not the proxy.
        facts.retain(|(name, _)| *name != "of_proxy");
    }
}

/// Returns the server whose errors are all the errors of a proxy; `None` if one is its own.
fn origin(
    errors: &[ServerError],
    others: &BTreeMap<Endpoint, Vec<ServerError>>,
) -> Option<Endpoint> {
    let mut origins = errors.iter().map(|error| {
        let inner = others.values().flatten().find(|inner| error.passes_on(inner));
        inner.map(|inner| inner.server)
    });
    let origin = origins.next()??;
    origins.all(|other| other == Some(origin)).then_some(origin)
}

/// Leaves out the finding about a proxy that only passes on the errors of a server behind it, and names
/// the proxy in the finding about that server.
fn pass_on(findings: &mut Vec<Finding>, errors: &BTreeMap<Endpoint, Vec<ServerError>>) {
    let place_of = |findings: &[Finding], server: Endpoint| {
        let is_of =
            |it: &Finding| it.cause == Cause::ErrorResponses && it.culprit.endpoint == server;
        findings.iter().position(is_of)
    };
    for (proxy, of_proxy) in errors {
        let Some(server) = origin(of_proxy, errors) else { continue };
        let Some(place) = place_of(findings, *proxy) else { continue };
        // All of its errors are kept.
        if findings[place].affected.exchanges != of_proxy.len() as u64 {
            continue;
        }
        if let Some(inner) = place_of(findings, server) {
            findings[inner].facts.push(("passed_by", Fact::Text(proxy.to_string())));
            findings.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FrameId;
    use crate::model::Vantage;

    const MS: u64 = 1_000_000;

    fn at(host: u8, port: u16) -> Endpoint {
        Endpoint { address: [host; 16], port }
    }

    fn error(asked_ms: u64) -> ServerError {
        let (asked_ns, answered_ns) = (asked_ms * MS, (asked_ms + 3) * MS);
        ServerError { asked_ns, answered_ns, server: at(2, 80), client: [1; 16], status: 502 }
    }

    fn attempt(client: u8, at_ms: u64) -> First {
        First {
            client: [client; 16],
            server: at(3, 9090),
            start_ns: at_ms * MS,
            kind: 0,
            wall_ns: MS,
            rested_ns: 0,
            rtt_base_ns: 0,
            rtt_server_ns: 0,
            vantage: Vantage::Server,
            set_up_again_ns: 0,
            ignored_ns: 0,
            answered: false,
            answered_ns: 0,
            established: false,
            is_syn_answered_late: false,
            frame: FrameId::default(),
        }
    }

    #[test]
    fn a_proxy_passes_on_the_errors_of_a_server_behind_it() {
        let inner = |asked_ms: u64, status| ServerError {
            asked_ns: asked_ms * MS,
            answered_ns: (asked_ms + 1) * MS,
            server: at(3, 9090),
            client: [2; 16],
            status,
        };
        let errors = [error(0), error(100)];
        let others = |of: &[ServerError]| BTreeMap::from([(at(3, 9090), of.to_vec())]);
        assert_eq!(origin(&errors, &others(&[inner(1, 502), inner(101, 502)])), Some(at(3, 9090)));
        assert_eq!(origin(&errors, &others(&[inner(1, 502)])), None, "one is its own");
        assert_eq!(origin(&errors, &others(&[inner(1, 502), inner(101, 500)])), None, "another");
        assert_eq!(origin(&errors, &others(&[inner(1, 502), inner(103, 502)])), None, "later");
    }

    #[test]
    fn each_error_contains_an_attempt_of_the_proxy_that_failed() {
        let errors = [error(0), error(100)];
        let both = [attempt(2, 1), attempt(2, 101)];
        assert_eq!(upstream(&errors, &both), Some(at(3, 9090)));
        assert_eq!(upstream(&errors, &both[..1]), None, "one error has another reason");
        assert_eq!(upstream(&errors, &[attempt(2, 1), attempt(4, 101)]), None, "another host");
        let answered = First { answered: true, ..attempt(2, 101) };
        assert_eq!(upstream(&errors, &[attempt(2, 1), answered]), None, "it was answered");
    }
}
