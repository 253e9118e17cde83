//! Forward proxies, whose requests name the server to ask (RFC 9112 §3.2.2, §3.2.3; SOCKS, RFC 1928 §4). What a response
//! states about its software may be about that server, and the time before it may be the way to it.

use crate::findings::tally::{EndpointTally, Tally};
use crate::model::{Cause, Fact, Finding, Report};

/// Port of a server whose own URLs name none (RFC 9110 §4.2.1).
const HTTP_PORT: u16 = 80;

/// Facts about the work of a server in handshakes, which behind a proxy is not its own.
const OF_SERVER: [&str; 2] = ["server_own_ns", "slow_ns"];

/// Returns whether a kind of request to `port` names another server: CONNECT with a host, or a complete
/// URL. Some clients send complete URLs to the server itself, at the port of such a URL.
fn names_server(kind: &str, port: u16) -> bool {
    let Some((method, target)) = kind.split_once(' ') else { return false };
    let scheme = target.split_once("://").map(|(scheme, _)| scheme);
    let is_url = target.starts_with("{host}") || scheme.is_some_and(|it| !it.contains('/'));
    method == "CONNECT" || is_url && port != HTTP_PORT
}

/// Returns the number of requests that name the server to ask, if `endpoint` is a forward proxy: most
/// of its requests do, or its connections begin with CONNECT or are of SOCKS.
fn forwarded(endpoint: &EndpointTally, port: u16) -> Option<u64> {
    if endpoint.socks > 0 && 2 * endpoint.socks >= endpoint.connections {
        return Some(endpoint.socks);
    }
    let naming = endpoint.kinds.iter().filter(|(kind, _)| names_server(kind, port));
    let count: u64 = naming.map(|(_, group)| group.exchanges).sum();
    let of = endpoint.all.exchanges.min(endpoint.connections);
    (count > 0 && 2 * count >= of).then_some(count)
}

/// Removes the software that servers behind a proxy state from what is reported about the proxy, and
/// says that its time may be theirs.
pub(super) fn settle(findings: &mut [Finding], tally: &Tally, report: &mut Report) {
    for (&server, endpoint) in &tally.endpoints {
        let Some(count) = forwarded(endpoint, server.port) else { continue };
        let is_of_server = |it: &&mut Finding| it.evidence_flow.is_some_and(|(_, of)| of == server);
        for finding in findings.iter_mut().filter(is_of_server) {
            finding.software = None;
            if matches!(finding.cause, Cause::ServerThink | Cause::TlsHandshake) {
                finding.facts.retain(|(name, _)| !OF_SERVER.contains(name));
                finding.facts.push(("forwards", Fact::Count(count)));
            }
        }
        for row in report.endpoints.iter_mut().filter(|row| row.endpoint == server) {
            row.software = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names_server;

    #[test]
    fn a_request_to_a_proxy_names_the_server() {
        let is_of_proxy = |kind: &str| names_server(kind, 3128);
        assert!(is_of_proxy("CONNECT {host}") && is_of_proxy("GET {host}/a/{id}"));
        assert!(is_of_proxy("GET http://b/c"));
        assert!(!is_of_proxy("GET /a?to=http://b") && !is_of_proxy("GET /http://b/c"));
        assert!(!is_of_proxy("CONNECT"), "a request of MQTT");
        assert!(names_server("CONNECT {host}", 80) && !names_server("GET {host}/a", 80));
    }
}
