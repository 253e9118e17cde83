//! Hosts with several addresses: they ask for names from one and connect from another, and go on to
//! the other family where one does not answer (RFC 8305).

use crate::attempts::{Talk, packet};
use crate::diagnosis::diagnose;
use crate::frames::{Packet, pcap_of};
use crate::names::{
    ANSWER, CLIENT, MS, QUERY, REQUEST, RESOLVER, RESPONSE, SERVER, Traffic, message,
};
use std::net::SocketAddr;
use tcpwhy_core::model::{Cause, Owner, Report, Role};
use tcpwhy_core::report::{Look, text};

const ASKING: [u8; 4] = [10, 9, 0, 1];
const LOCAL: [u8; 4] = [127, 0, 0, 1];
const CLIENT_6: &str = "[fd00::1]:40005";
const SERVER_6: &str = "[fd00::80]:80";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A request on a separate connection, 10 ms from the vantage; its client is `leg_ns` from the
/// vantage.
fn request(traffic: &mut Traffic, (client, server): (SocketAddr, SocketAddr), leg_ns: u64) {
    let mut talk = Talk::new(client, server);
    let mut say = |after_ns, is_client: bool, flags: &str, payload: &[u8]| {
        talk.say(traffic, after_ns, is_client, flags, payload);
    };
    say(MS / 5, true, "S", &[]);
    say(10 * MS, false, "S.", &[]);
    say(leg_ns, true, ".", &[]);
    say(MS / 100, true, "P.", REQUEST);
    say(10 * MS, false, "P.", RESPONSE);
    say(leg_ns, true, "F.", &[]);
    say(10 * MS, false, "F.", &[]);
    say(leg_ns, true, ".", &[]);
}

fn flow(port: u16) -> (SocketAddr, SocketAddr) {
    ((CLIENT, port).into(), (SERVER, 80).into())
}

fn diagnosis(traffic: &Traffic) -> Report {
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

/// Three requests, each after a look-up of 300 ms that comes from another address than the request.
fn asked_elsewhere(leg_ns: u64) -> Report {
    let mut traffic = Traffic::default();
    for port in 40_001..40_004 {
        traffic.datagram(5_000 * MS, (ASKING, RESOLVER), &message(QUERY, None));
        traffic.datagram(300 * MS, (RESOLVER, ASKING), &message(ANSWER, Some(SERVER)));
        request(&mut traffic, flow(port), leg_ns);
    }
    diagnosis(&traffic)
}

#[test]
fn a_request_waits_for_a_look_up_from_another_address_of_its_host() {
    let report = asked_elsewhere(MS / 50);
    assert_eq!(report.totals.exchanges, 3);
    let [slow] = &report.findings[..] else { panic!("{:#?}", report.findings) };
    assert_eq!((slow.cause, slow.affected.of_exchanges), (Cause::DnsSlow, 3));
}

#[test]
fn in_mid_path_look_ups_of_other_addresses_are_not_joined() {
    assert_eq!(asked_elsewhere(10 * MS).totals.exchanges, 6);
}

#[test]
fn a_client_with_its_own_look_up_waits_for_no_other() {
    let mut traffic = Traffic::default();
    for port in 40_001..40_004 {
        traffic.datagram(5_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
        traffic.datagram(MS, (RESOLVER, CLIENT), &message(ANSWER, Some([10, 0, 0, 81])));
        traffic.datagram(MS, (ASKING, RESOLVER), &message(QUERY, None));
        traffic.datagram(200 * MS, (RESOLVER, ASKING), &message(ANSWER, Some(SERVER)));
        request(&mut traffic, flow(port), MS / 50);
    }
    assert_eq!(diagnosis(&traffic).totals.exchanges, 9);
}

/// Look-ups at a server on the client's host, each of which has to ask `RESOLVER`.
fn by_local_server(times: u16, answered_ns: Option<u64>) -> Report {
    let mut traffic = Traffic::default();
    for port in 40_001..40_001 + times {
        traffic.datagram(5_000 * MS, (LOCAL, LOCAL), &message(QUERY, None));
        traffic.datagram(MS, (CLIENT, RESOLVER), &message(QUERY, None));
        match answered_ns {
            Some(ns) => traffic.datagram(ns, (RESOLVER, CLIENT), &message(ANSWER, Some(SERVER))),
            None => traffic.datagram(5_000 * MS, (LOCAL, LOCAL), &message(QUERY, None)),
        }
        traffic.datagram(MS / 10, (LOCAL, LOCAL), &message(ANSWER, Some(SERVER)));
        request(&mut traffic, flow(port), MS / 50);
    }
    diagnosis(&traffic)
}

#[test]
fn a_local_server_that_waits_for_another_one_is_not_to_blame() {
    for (answered_ns, cause) in [(Some(300 * MS), Cause::DnsSlow), (None, Cause::DnsTimeout)] {
        let report = by_local_server(3, answered_ns);
        assert_eq!(report.totals.exchanges, 3);
        let [found] = &report.findings[..] else { panic!("{:#?}", report.findings) };
        assert_eq!((found.cause, found.culprit.role), (cause, Role::Resolver));
        assert_eq!(found.culprit.endpoint.to_string(), "10.0.0.53:53");
    }
}

#[test]
fn a_name_that_a_local_server_had_not_kept_yet_is_no_slow_resolver() {
    assert!(
        by_local_server(1, Some(300 * MS)).findings.iter().all(|it| it.cause != Cause::DnsSlow)
    );
}

/// Three requests over IPv4, each 250 ms after a SYN over IPv6 that is answered by `answer`.
fn six_before_four(answer: Option<&str>) -> Report {
    let mut traffic = Traffic::default();
    for port in 40_001..40_004 {
        let (client, server) = (address(CLIENT_6), address(SERVER_6));
        let client = SocketAddr::new(client.ip(), port);
        traffic.put(5_000 * MS, packet((client, server), "S", 100).frame());
        if let Some(flags) = answer {
            let said = Packet { ack: 101, ..packet((server, client), flags, 7) };
            traffic.put(MS, said.frame());
        }
        traffic.wait(250 * MS);
        request(&mut traffic, flow(port), MS / 50);
    }
    diagnosis(&traffic)
}

#[test]
fn a_family_that_does_not_answer_keeps_the_request_over_the_other_one_waiting() {
    let report = six_before_four(None);
    let [silent] = &report.findings[..] else { panic!("{:#?}", report.findings) };
    assert_eq!((silent.cause, silent.culprit.role), (Cause::SynRetransmit, Role::Network));
    assert_eq!(silent.culprit.endpoint.to_string(), SERVER_6);
    assert_eq!(silent.affected.exchanges, 3);
    assert!((750 * MS..752 * MS).contains(&silent.lost_ns), "{} ns", silent.lost_ns);
    assert_eq!(report.ledger.of(Owner::SynRetransmit), silent.lost_ns);
    let text = text::render(&report, &Look::default());
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("and the client tried 10.0.0.80:80 after 250 ms"), "{text}");
    assert!(words.contains("the client tries the other address"), "{text}");
}

#[test]
fn an_address_family_that_answers_delays_nothing() {
    let report = six_before_four(Some("S."));
    assert_eq!(report.ledger.of(Owner::SynRetransmit), 0, "{:#?}", report.findings);
}
