//! Which fixes a finding lists, by the facts that it has.

use super::fixtures;
use tcpwhy_core::app::Protocol;
use tcpwhy_core::model::{Cause, Fact, Language, Role};
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
    (Cause::DnsTimeout, Role::Resolver, "reached", "let UDP and TCP port 53 to it pass", "its log"),
    (Cause::DnsTimeout, Role::Network, "other_source", "at both ends", "name a word"),
    (Cause::DnsTimeout, Role::Resolver, "authoritative", "rotate", "with fragments"),
    (Cause::DnsTimeout, Role::Resolver, "silent_names", "with fragments", "response policy zone"),
    (
        Cause::DnsFailure,
        Role::Network,
        "router",
        "a working resolver first",
        "an uplink that works",
    ),
    (Cause::Bandwidth, Role::Network, "loopback", "a faster link", "compress"),
    (Cause::Refused, Role::Server, "loopback", "load balancer", "before its clients"),
    (Cause::Http2FlowControl, Role::Server, "unread", "twice the bandwidth", "read without pause"),
    (Cause::DnsSlow, Role::Resolver, "public_resolver", "check its load", "authoritative"),
    (
        Cause::Bufferbloat,
        Role::Network,
        "interface_wait_ns",
        "bbr",
        "the interface of the server's host",
    ),
    (
        Cause::IdleReset,
        Role::Server,
        "not_closed",
        "keep idle connections open",
        "sends the connection to another host",
    ),
    (Cause::TlsHandshake, Role::Server, "all_resumed", "session tickets that", "reuse connections"),
];

/// A cause and its culprit, a protocol, a fact, and advice that needs it.
const NEEDED: &[(Cause, Role, Protocol, &str, &str)] = &[
    (Cause::DnsFailure, Role::Resolver, Protocol::Dns, "servfail", "DNSSEC"),
    (Cause::DnsFailure, Role::Resolver, Protocol::Dns, "not_allowed", "allow-recursion"),
    (Cause::DnsFailure, Role::Resolver, Protocol::Dns, "closed_port", "let it listen"),
    (Cause::DnsFailure, Role::Network, Protocol::Dns, "router", "an uplink that works"),
    (Cause::DnsFailure, Role::Resolver, Protocol::Dns, "misread", "accepts EDNS"),
    (Cause::DnsTimeout, Role::Resolver, Protocol::Dns, "long_type", "dig +tcp"),
    (Cause::DnsSlow, Role::Resolver, Protocol::Dns, "asked_again_by_client", "`dnsmasq`"),
    (Cause::DnsSlow, Role::Resolver, Protocol::Dns, "expired", "a longer TTL"),
    (Cause::PathRtt, Role::Network, Protocol::Http2, "granted", "SETTINGS_INITIAL_WINDOW_SIZE"),
    (Cause::PathRtt, Role::Network, Protocol::Postgres, "fetches", "a larger fetch size"),
    (Cause::PathRtt, Role::Network, Protocol::Mysql, "fetches", "a larger fetch size"),
    (Cause::PathRtt, Role::Network, Protocol::Redis, "several", "pipeline commands"),
    (Cause::SlowStart, Role::Server, Protocol::Http1, "saved", "initcwnd 30"),
    (Cause::TlsHandshake, Role::Server, Protocol::Tls, "unused", "without a request"),
];

fn fixes(cause: Cause, role: Role, facts: &[&'static str]) -> String {
    fixes_of(cause, role, None, facts)
}

fn fixes_of(
    cause: Cause,
    role: Role,
    protocol: Option<Protocol>,
    facts: &[&'static str],
) -> String {
    let mut finding = fixtures::mixture().findings.remove(2);
    (finding.cause, finding.culprit.role, finding.software) = (cause, role, None);
    finding.protocol = protocol.unwrap_or(finding.protocol);
    let text = |name: &&'static str| (*name, Fact::Text("a word".into()));
    finding.facts = facts.iter().map(text).collect();
    let fixes = Phrases::of(&finding, Language::English).fixes;
    fixes.iter().map(|fix| format!("{}: {} → {}\n", fix.place, fix.change, fix.effect)).collect()
}

#[test]
fn a_fix_that_the_evidence_contradicts_is_absent() {
    for &(cause, role, fact, contradicted, instead) in CONTRADICTED {
        // The fix for idleness needs to know that there was some, and those for new connections that
        // a client made several.
        // Those for timers need to know that one was the least, and that more was sent above a hole.
        let facts = [fact, "after_idle", "reconnects", "near_rtt_ns", "sent_above"];
        let with = fixes(cause, role, &facts);
        assert!(!with.contains(contradicted), "{fact}: {with}");
        assert!(with.contains(instead), "{fact}: {with}");
        assert!(fixes(cause, role, &facts[1..]).contains(contradicted), "{fact}");
    }
}

#[test]
fn a_fix_that_needs_a_fact_is_absent_without_it() {
    for &(cause, role, protocol, fact, advice) in NEEDED {
        let listed = |facts: &[&'static str]| fixes_of(cause, role, Some(protocol), facts);
        assert!(!listed(&[]).contains(advice), "{fact}: {}", listed(&[]));
        assert!(listed(&[fact]).contains(advice), "{fact}: {}", listed(&[fact]));
    }
}

#[test]
fn a_server_of_few_workers_needs_more_of_them_and_no_profile() {
    for (protocol, advice) in [
        (Protocol::Postgres, "pg_stat_statements"),
        (Protocol::Mysql, "slow query log"),
        (Protocol::Redis, "LATENCY DOCTOR"),
    ] {
        let of = |facts| fixes_of(Cause::ServerThink, Role::Server, Some(protocol), facts);
        assert!(of(&["recorded"]).contains(advice), "{advice}");
        assert!(!of(&["recorded", "workers"]).contains(advice), "{advice}");
    }
}

#[test]
fn a_compressing_server_does_not_shorten_uploads() {
    let mut finding = fixtures::mixture().findings.remove(2);
    (finding.cause, finding.culprit.role) = (Cause::Bandwidth, Role::Network);
    finding.software = Some("nginx/1.22.1".into());
    for (facts, is_listed) in [(&[][..], true), (&["upload"], false)] {
        finding.facts = facts.iter().map(|name| (*name, Fact::Bytes(1))).collect();
        let fixes = Phrases::of(&finding, Language::English).fixes;
        assert_eq!(fixes.iter().any(|fix| fix.change.contains("gzip on")), is_listed);
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
fn a_product_is_its_whole_token() {
    let fixes = |software: &str| {
        let mut finding = fixtures::mixture().findings.remove(2);
        (finding.cause, finding.culprit.role) = (Cause::ServerThink, Role::Server);
        (finding.software, finding.facts) = (Some(software.into()), Vec::new());
        let fixes = Phrases::of(&finding, Language::English).fixes;
        fixes.iter().map(|fix| format!("{}\n", fix.change)).collect::<String>()
    };
    let (apache, tomcat) = (fixes("Apache/2.4.57"), fixes("Apache-Coyote/1.1"));
    assert!(apache.contains("mod_status") && !apache.contains("AccessLogValve"), "{apache}");
    assert!(tomcat.contains("AccessLogValve") && !tomcat.contains("mod_status"), "{tomcat}");
    assert!(fixes("BaseHTTP/0.6 Python/3.11.2").contains("profile"), "other software");
}

#[test]
fn requests_that_are_under_way_together_are_not_to_be_sent_in_parallel() {
    for facts in [&["several"][..], &["several", "reconnects"]] {
        let with = [facts, &["at_once"]].concat();
        assert!(fixes(Cause::PathRtt, Role::Network, facts).contains("in parallel"));
        assert!(!fixes(Cause::PathRtt, Role::Network, &with).contains("in parallel"));
    }
    let of = |fact| fixes(Cause::PathRtt, Role::Network, &["in_row", fact]);
    assert!(of("starts").contains("ask for all") && !of("upload").contains("ask for all"));
    assert!(of("upload").contains("larger requests") && !of("at_once").contains("in parallel"));
}

#[test]
fn requests_are_to_be_sent_together_only_where_there_were_several() {
    let together = "in parallel or in batches";
    assert!(!fixes(Cause::PathRtt, Role::Network, &[]).contains(together));
    assert!(fixes(Cause::PathRtt, Role::Network, &["several"]).contains(together));
}
