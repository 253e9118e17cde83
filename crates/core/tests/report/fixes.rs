//! Which fixes a finding lists, by the facts that it has.

use super::fixtures;
use tcpwhy_core::model::{Cause, Fact, Role};
use tcpwhy_core::report::Phrases;

/// A cause and its culprit, a fact, advice that this fact contradicts, and advice that needs it.
const CONTRADICTED: &[(Cause, Role, &str, &str, &str)] = &[
    (
        Cause::SlowStart,
        Role::Server,
        "restarts",
        "keep and reuse connections",
        "net.ipv4.tcp_slow_start_after_idle=0",
    ),
    (Cause::ReceiveWindow, Role::Server, "unscaled", "`SO_RCVBUF`", "tcp_window_scaling=0"),
    (
        Cause::RetransmissionTimeout,
        Role::Network,
        "unrepaired",
        "rto_min",
        "of what was sent again arrived",
    ),
    (
        Cause::TlsHandshake,
        Role::Server,
        "older",
        "session tickets that the server issues",
        "TLS 1.3 with session tickets",
    ),
    (
        Cause::RetransmissionTimeout,
        Role::Network,
        "sender_not_linux",
        "net.ipv4.tcp_recovery",
        "find the drops",
    ),
    (
        Cause::ReceiveWindow,
        Role::Server,
        "receiver_not_linux",
        "net.ipv4.tcp_rmem",
        "do not set `SO_RCVBUF`",
    ),
    (Cause::Refused, Role::Server, "prohibited", "start the service", "check host and port"),
    (Cause::SynRetransmit, Role::Network, "reporter", "conntrack -S", "add a route"),
    (Cause::SynRetransmit, Role::Network, "queue_open", "ListenOverflows", "connect timeout"),
    (Cause::ReverseDnsTimeout, Role::Resolver, "private", "+trace", "RFC 6303"),
    (Cause::DnsTimeout, Role::Network, "windows", "resolv.conf", "at both ends"),
];

fn fixes(cause: Cause, role: Role, facts: &[&'static str]) -> String {
    let mut finding = fixtures::mixture().findings.remove(2);
    (finding.cause, finding.culprit.role, finding.software) = (cause, role, None);
    let text = |name: &&'static str| (*name, Fact::Text("a word".into()));
    finding.facts = facts.iter().map(text).collect();
    let fixes = Phrases::of(&finding).fixes;
    fixes.iter().map(|fix| format!("{}: {} → {}\n", fix.place, fix.change, fix.effect)).collect()
}

#[test]
fn a_fix_that_the_evidence_contradicts_is_absent() {
    for &(cause, role, fact, contradicted, instead) in CONTRADICTED {
        // The fix for idleness needs to know that there was some, and those for new connections that
        // a client made several.
        let facts = [fact, "after_idle", "reconnects"];
        let with = fixes(cause, role, &facts);
        assert!(!with.contains(contradicted), "{fact}: {with}");
        assert!(with.contains(instead), "{fact}: {with}");
        assert!(fixes(cause, role, &facts[1..]).contains(contradicted), "{fact}");
    }
}

#[test]
fn a_pair_of_queries_from_one_port_needs_both_types() {
    let option = "single-request-reopen";
    assert!(!fixes(Cause::DnsTimeout, Role::Network, &[]).contains(option));
    assert!(fixes(Cause::DnsTimeout, Role::Network, &["both_types"]).contains(option));
}

#[test]
fn connections_are_to_be_kept_only_where_a_client_made_several() {
    for cause in [Cause::PathRtt, Cause::TlsHandshake, Cause::SlowStart, Cause::SynRetransmit] {
        let once = ["several", "older"];
        for facts in [&[][..], &once] {
            let listed = fixes(cause, Role::Network, facts);
            for word in ["reuse", "pool", "ticket", "resumption"] {
                assert!(!listed.contains(word), "{cause:?}: {listed}");
            }
        }
        let several = fixes(cause, Role::Network, &["reconnects", "older"]);
        assert!(several.contains("reuse"), "{cause:?}: {several}");
    }
}

#[test]
fn requests_are_to_be_sent_together_only_where_there_were_several() {
    let together = "in parallel or in batches";
    assert!(!fixes(Cause::PathRtt, Role::Network, &[]).contains(together));
    assert!(fixes(Cause::PathRtt, Role::Network, &["several"]).contains(together));
}
