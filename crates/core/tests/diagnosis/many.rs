//! Findings of many connections together: scans, foreign servers, a flood of which one direction
//! was captured, and successive requests on separate connections.

use crate::diagnosis::diagnose;
use crate::frames::pcap;
use crate::language::{Place, parse};
use crate::network::packets;
use tcpwhy_core::model::{Cause, Class, Fact, Report};
use tcpwhy_core::report::{Look, text};

/// The report on all `traces` in one capture.
fn report(traces: &[String], place: Place) -> Report {
    let mut all: Vec<_> = traces.iter().flat_map(|text| packets(&parse(text), place)).collect();
    all.sort_by_key(|(at_ns, _)| *at_ns);
    diagnose(&pcap(&all, 262_144))
}

/// A trace of `lines` between these two.
fn between(client: &str, server: &str, lines: &str) -> String {
    format!("client {client}\nserver {server}\n{lines}")
}

fn observed(report: &Report, id: &str, name: &str) -> Option<Fact> {
    let observation = report.observations.iter().find(|it| it.id == id)?;
    observation.facts.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact.clone())
}

fn faults(report: &Report) -> Vec<Cause> {
    let causes = report.findings.iter().map(|finding| finding.cause);
    causes.filter(|cause| cause.class() == Class::Fault).collect()
}

/// One client that tries `ports` of a host: every fifth is refused, every tenth answered, the others silent.
fn scan(ports: u16, client: impl Fn(u16) -> u8) -> Vec<String> {
    let trace = |number: u16| {
        let at_ms = 10 * number;
        let answer = match number % 10 {
            5 | 1 => "\n+0.06 < R.",
            2 => "\n+0.06 < S.\n+0.06 > R",
            _ => "",
        };
        let (host, port) = (client(number), 1_000 + number);
        let lines = format!("{at_ms} > S{answer}");
        between(&format!("10.0.3.{host}:40000"), &format!("10.0.0.2:{port}"), &lines)
    };
    (0..ports).map(trace).collect()
}

#[test]
fn one_client_that_tries_many_ports_scans_them() {
    for place in [Place::Client, Place::Server] {
        let report = report(&scan(40, |_| 9), place);
        assert_eq!(faults(&report), []);
        let counts = ["ports", "answered", "refused", "silent"]
            .map(|name| observed(&report, "port_scan", name).expect("a scan"));
        assert_eq!(counts, [40, 4, 8, 28].map(Fact::Count));
    }
}

#[test]
fn few_ports_or_ports_that_many_clients_try_are_no_scan() {
    for traces in [scan(15, |_| 9), scan(40, |number| number as u8)] {
        let report = report(&traces, Place::Server);
        assert!(observed(&report, "port_scan", "ports").is_none());
        assert_eq!(faults(&report), [Cause::Refused]);
    }
}

const EXCHANGE: &str = r#"0 > S
+0.06 < S.
+0.06 > .
+1    > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
+0.2  < P. "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
+0.06 > ."#;

/// A client that is served, and a client at `address` that is refused at another port, `times`
/// times.
fn refused(address: &str, times: u16) -> Vec<String> {
    let attempt = |number: u16| {
        let lines = format!("{} > S\n+0.06 < R.", 50 + 500 * number);
        between(&format!("{address}:{}", 50_000 + number), "10.0.0.2:22", &lines)
    };
    let served = between("10.0.0.1:40000", "10.0.0.2:80", EXCHANGE);
    (0..times).map(attempt).chain([served]).collect()
}

#[test]
fn one_refused_attempt_of_a_stranger_is_an_observation() {
    let once = report(&refused("192.0.2.7", 1), Place::Server);
    assert_eq!(faults(&once), []);
    assert_eq!(observed(&once, "refused_strangers", "count"), Some(Fact::Count(1)));
}

#[test]
fn a_known_client_or_one_that_tries_again_or_all_there_is_was_refused() {
    let alone = vec![refused("192.0.2.7", 1).remove(0)];
    for traces in [refused("10.0.0.1", 1), refused("192.0.2.7", 2), alone] {
        let report = report(&traces, Place::Server);
        assert_eq!(faults(&report), [Cause::Refused]);
        assert!(observed(&report, "refused_strangers", "count").is_none());
    }
}

/// A client that is served, and one attempt of another client at each of `hosts`, which a router
/// refuses with an ICMP error of this `kind`.
fn refused_by_a_router(hosts: u16, kind: &str) -> Vec<String> {
    let served = between(
        "10.0.0.1:40000",
        "10.0.0.2:80",
        "0 > S\n+1 < S.\n+1 > .\n+1 > P. \"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"\n\
         +1 < P. \"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello\"\n+1 > .",
    );
    let attempt = |host: u16| {
        let lines = format!("{} > S\n+2 < icmp {kind} by 10.9.9.9", 100 + 10 * host);
        between(
            &format!("10.0.7.1:{}", 50_000 + host),
            &format!("203.0.113.{}:80", 1 + host),
            &lines,
        )
    };
    std::iter::once(served).chain((0..hosts).map(attempt)).collect()
}

#[test]
fn attempts_of_one_client_that_one_router_refuses_are_one_finding() {
    let report = report(&refused_by_a_router(7, "host"), Place::Client);
    assert_eq!(faults(&report), [Cause::Refused]);
    assert_eq!(report.findings[0].affected.exchanges, 7);
    assert!(observed(&report, "refused_strangers", "count").is_none());
}

#[test]
fn a_missing_route_and_a_missing_rule_have_fixes_of_their_own() {
    let said = |kind| {
        let report = report(&refused_by_a_router(7, kind), Place::Client);
        text::render(&report, &Look { all: true, ..Look::default() })
    };
    let [route, rule] = ["host", "prohibited"].map(said);
    assert!(route.contains("add a route") && !route.contains("allows the port"), "{route}");
    assert!(rule.contains("allows the port") && !rule.contains("add a route"), "{rule}");
}

/// Negative twin: it is one attempt of a client that has nothing else to do here.
#[test]
fn one_attempt_of_a_stranger_that_a_router_refuses_is_an_observation() {
    let report = report(&refused_by_a_router(1, "host"), Place::Client);
    assert_eq!(faults(&report), []);
    assert_eq!(observed(&report, "refused_strangers", "count"), Some(Fact::Count(1)));
}

/// One client that tries `hosts` hosts, one each second, each with four SYNs. Two of them refuse it if it
/// `is_heard`.
fn sweep(hosts: u16, is_heard: bool, port: impl Fn(u16) -> u16) -> Vec<String> {
    let trace = |number: u16| {
        let at_ms = 1_000 * u32::from(number);
        let lines = match number {
            20 | 40 if is_heard => format!("{at_ms} > S\n+90 < R."),
            _ => format!("{at_ms} > S\n+1000 > S seq 0\n+2000 > S seq 0\n+4000 > S seq 0"),
        };
        let server = format!("198.51.100.{}:{}", 1 + number, port(number));
        between(&format!("10.0.3.9:{}", 40_000 + number), &server, &lines)
    };
    (0..hosts).map(trace).collect()
}

#[test]
fn one_client_that_tries_many_silent_hosts_on_few_ports_scans_them() {
    let ports = |number| [23, 2_323][usize::from(number % 2)];
    let report = report(&sweep(100, true, ports), Place::Client);
    assert_eq!(faults(&report), []);
    let counts = ["hosts", "ports", "refused", "silent"]
        .map(|name| observed(&report, "network_scan", name).expect("a scan"));
    assert_eq!(counts, [100, 2, 2, 98].map(Fact::Count));
    assert_eq!(observed(&report, "network_scan", "every_ns"), Some(Fact::Ns(1_000_000_000)));
    assert_eq!((report.totals.exchanges, report.totals.wall_ns), (0, 0), "nobody waited");
    let said = text::render(&report, &Look { all: true, ..Look::default() });
    assert!(said.contains("10.0.3.9 scans the network"), "{said}");
}

/// Negative twins: a client to which nothing comes may be cut off, peers are known by their ports, and a client
/// with connections to the same port of other hosts knows its servers by their addresses.
#[test]
fn a_client_that_is_cut_off_or_has_peers_does_not_scan() {
    let connected = between("10.0.3.9:39999", "203.0.113.7:23", EXCHANGE);
    let with_peer = sweep(100, true, |_| 23).into_iter().chain([connected]).collect();
    let many = [sweep(100, false, |_| 23), sweep(100, true, |number| 1_000 + number), with_peer];
    for traces in many {
        let report = report(&traces, Place::Client);
        assert!(observed(&report, "network_scan", "hosts").is_none());
        assert!(faults(&report).contains(&Cause::SynRetransmit));
    }
}

/// The server's half of `count` connections, each with its SYN-ACK and then `rest`.
fn answers(count: u16, rest: &str) -> Vec<String> {
    let trace = |number: u16| {
        let client = format!("10.{}.{}.1:40000", 1 + number / 200, number % 200);
        let lines = format!("only <\n{} > S\n+0.06 < S.{rest}", 10 * number);
        between(&client, "10.0.0.2:80", &lines)
    };
    (0..count).map(trace).collect()
}

#[test]
fn a_flood_is_recognised_by_unconfirmed_answers() {
    let report = report(&answers(150, "\n+1000 < S. seq 0"), Place::Server);
    assert_eq!(faults(&report), [Cause::SynFlood]);
    let facts = &report.findings[0].facts;
    assert!(facts.contains(&("answers", Fact::Count(150))), "{facts:?}");
}

#[test]
fn answers_of_which_the_server_goes_on_with_most_are_no_flood() {
    let goes_on = "\n+0.06 > .\n+1 > P. len 50\n+1 < P. len 100\n+1 < F.";
    let report = report(&answers(150, goes_on), Place::Server);
    assert_eq!(faults(&report), []);
}

/// `count` requests of one client, each on a separate connection over 10 ms, `pause_ms` apart.
fn short_connections(count: u16, pause_ms: f64) -> Vec<String> {
    let connection = |number: u16| {
        let at_ms = f64::from(number) * (21.0 + pause_ms);
        let lines = format!(
            "one_way 5\n{at_ms} > S\n+5 < S.\n+5 > .\n\
             +0 > P. \"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"\n\
             +5.2 < P. \"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello\"\n\
             +5 > .\n+0.1 > F.\n+5 < F.\n+5 > ."
        );
        between(&format!("10.0.0.1:{}", 40_000 + number), "10.0.0.2:80", &lines)
    };
    (0..count).map(connection).collect()
}

#[test]
fn requests_on_connections_of_their_own_add_up_where_they_follow_each_other() {
    let in_row = |pause_ms, place| {
        let report = report(&short_connections(30, pause_ms), place);
        assert_eq!(faults(&report), []);
        let mut facts = report.findings.iter().flat_map(|finding| &finding.facts);
        facts.find(|(name, _)| *name == "in_row").map(|(_, fact)| fact.clone())
    };
    for place in [Place::Client, Place::Server] {
        assert_eq!(in_row(1.0, place), Some(Fact::Count(30)));
        assert_eq!(in_row(80.0, place), None);
    }
}
