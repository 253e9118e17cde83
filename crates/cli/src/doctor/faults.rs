//! Faults that answers, redirects and addresses show from the outside, and no packet of the requests
//! that were measured.

use super::asked::RequestResults;
use super::loads::Loaded;
use super::redirects::Redirects;
use serde::Serialize;
use tcpwhy_core::model::units::{count, counted, share};
use tcpwhy_core::model::{Cause, Class, Report};
use tcpwhy_probe::addresses::Addresses;
use tcpwhy_probe::experiment::{ExchangeError, Subject};
use tcpwhy_probe::http::{Health, ResponseError};
use tcpwhy_probe::target::Ask;

/// The kind of a fault of which answers with an error status are the evidence.
pub const STATUS: &str = "status";

/// A fault: docs/report.schema.json, `doctor.faults`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OutsideFault {
    /// The kind of the fault.
    #[cfg_attr(test, schemars(extend("enum" = ["redirect", "address", "limit", "status", "upgrade", "health", "close", "failure", "http2_flow_control", "http2_go_away", "http2_reset"])))]
    pub kind: &'static str,
    /// The fault in one sentence.
    pub headline: String,
    /// The place of the recommended change, and the change.
    pub fix: String,
}

/// Returns the faults that the findings of `report` do not state, the one that prevents most first.
pub fn of(
    report: &Report,
    subject: &Subject,
    asked: &RequestResults,
    redirects: &Redirects,
    addresses: &Addresses,
    loads: &[Loaded],
) -> Vec<OutsideFault> {
    let states = |cause: Cause| report.findings.iter().any(|it| it.cause == cause);
    let redirect = redirects.fault.as_ref().map(|fault| OutsideFault {
        kind: "redirect",
        headline: format!("{} {fault}.", subject.target.endpoint()),
        fix: "the server's configuration: where its redirects lead".to_owned(),
    });
    let limit = subject.answers.limited().filter(|it| it.answered > 0).map(|it| OutsideFault {
        kind: "limit",
        headline: format!("{} asks for fewer requests: {}.", subject.server, it.words()),
        fix: "the client: fewer requests at a time, and the wait that the answer asks for; the \
              server: its rate limit, if clients need more"
            .to_owned(),
    });
    let status = (limit.is_none() && !states(Cause::ErrorResponses))
        .then(|| error_statuses(subject))
        .flatten();
    let is_websocket = subject.target.ask == Ask::WebSocket;
    let upgrade = match (asked.unsuccessful, &asked.error) {
        (Some(status @ ..400), _) if is_websocket => Some(format!(
            "{} answers the handshake of a WebSocket with status {status}, and not with 101.",
            subject.server
        )),
        (_, Some(ExchangeError::Response(error @ ResponseError::Upgrade(_)))) => {
            Some(format!("{}: {error}.", subject.server))
        }
        _ => None,
    };
    let upgrade = upgrade.map(|headline| OutsideFault {
        kind: "upgrade",
        headline,
        fix: "the server, or the proxy in front of it: the path of its WebSocket; a proxy has to pass \
              the fields Upgrade and Connection on (RFC 6455 §4.2)"
            .to_owned(),
    });
    let health = asked.unhealthy.map(|health| unhealthy(health, subject));
    let closed = (asked.closed_unannounced > 0).then(|| OutsideFault {
        kind: "close",
        headline: format!(
            "{} closes {} after an answer and does not announce it: a request that a client sends at \
             that moment is lost.",
            subject.server,
            counted(asked.closed_unannounced, "connection", "connections")
        ),
        fix: "the server's application, or the proxy in front of it: keep connections open for \
              further requests, or send `Connection: close` with the last answer (RFC 9112 §9.6)"
            .to_owned(),
    });
    let is_stated = limit.is_some()
        || status.is_some()
        || closed.is_some()
        || health.is_some()
        || report.findings.iter().any(|it| it.cause.class() == Class::Fault);
    let failure = if is_stated { None } else { loads.iter().find_map(|it| failed(it, subject)) };
    let address = addresses.words().filter(|_| addresses.has_fault()).map(|words| OutsideFault {
        kind: "address",
        headline: format!("{words}."),
        fix: "the server: listen at all addresses of the name; or the name's records: without the \
              addresses that do not accept connections"
            .to_owned(),
    });
    [redirect, limit, status, upgrade, health, closed, failure, address]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the fault of a health check whose answer is not `SERVING`.
fn unhealthy(health: Health, subject: &Subject) -> OutsideFault {
    let of = match subject.target.service() {
        "" => "of the server".to_owned(),
        service => format!("of the service {service}"),
    };
    let fix = match health {
        Health::UNIMPLEMENTED => {
            "the server: add the health service of its gRPC library (grpc.health.v1.Health); it does \
             answer calls, and the times here are those of such an answer"
        }
        Health::NOT_FOUND => {
            "the server: set the status of this service in its health service, or name another one in \
             the path of the URL; without a path the whole server is asked"
        }
        Health::NotGrpc => "the client: the port of the gRPC server; or the proxy in front of it",
        _ => "the server: its log, and what it waits for before it sets its status to SERVING",
    };
    OutsideFault {
        kind: "health",
        headline: format!(
            "{} answers the health check {of} with {health}, and not with SERVING.",
            subject.server
        ),
        fix: fix.to_owned(),
    }
}

/// Returns the fault of answers that state an error.
fn error_statuses(subject: &Subject) -> Option<OutsideFault> {
    let statuses = subject.answers.statuses();
    let all: u64 = statuses.values().sum();
    let errors = statuses.range(400..);
    let number: u64 = errors.clone().map(|(_, number)| number).sum();
    let parts: Vec<String> =
        errors.map(|(status, number)| format!("{status} × {}", count(*number))).collect();
    (number > 0).then(|| OutsideFault {
        kind: STATUS,
        headline: format!(
            "{} answers {} of {} with an error ({}): {}.",
            subject.server,
            count(number),
            counted(all, "request", "requests"),
            share(number as f64 / all.max(1) as f64),
            parts.join(", ")
        ),
        fix: "the server's application or proxy: its error log for these requests".to_owned(),
    })
}

/// Returns the fault of a load whose requests failed.
fn failed(load: &Loaded, subject: &Subject) -> Option<OutsideFault> {
    let stopped = load.stopped.as_ref().map_or("", |it| &it.why);
    (load.errors > 0).then(|| OutsideFault {
        kind: "failure",
        headline: format!(
            "With {} at a time {} of {} at {} failed: {stopped}.",
            counted(load.connections as u64, "connection", "connections"),
            count(load.errors),
            counted(load.requests + load.errors, "request", "requests"),
            subject.server
        ),
        fix: "the server: its error log and its limits of connections".to_owned(),
    })
}
