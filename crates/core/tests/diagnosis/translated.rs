//! Hosts that translate addresses, captured before and behind the translation: each packet is
//! captured twice and counted once.

use crate::diagnosis::diagnose;
use crate::frames::{Packet, pcap};
use crate::language::{Place, Trace, parse};
use crate::network::packets;
use std::net::SocketAddr;
use tcpwhy_core::model::Report;

/// A captured frame.
type Stamped = (u64, Packet);

/// Time that a host takes to forward a packet, ns.
const PASSED_ON_NS: u64 = 20_000;

fn held_bodies() -> Trace {
    parse(
        r#"
        one_way 10
        timestamps
        0      > S
        +10    < S.
        +10    > .
        repeat 40 {
        +1     > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        +12    < P. "HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n"
        +50    > .
        +10.05 < P. len 600
        +10.05 > .
        }
        "#,
    )
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The packet with `from` in place of `to`'s address behind a translation.
fn behind(packet: &Packet, from: SocketAddr, to: SocketAddr) -> Packet {
    let mut copy = packet.clone();
    for end in [&mut copy.source, &mut copy.destination] {
        if *end == from {
            *end = to;
        }
    }
    copy
}

/// Returns each packet of `outer`, and the packet as it is behind a translation on the way to the
/// server.
fn twice(outer: &[Stamped], trace: &Trace, translate: impl Fn(&Packet) -> Packet) -> Vec<Stamped> {
    let pair = |(at_ns, packet): &Stamped| {
        let inner = translate(packet);
        let later_ns = at_ns + PASSED_ON_NS;
        if packet.source == trace.client {
            [(*at_ns, packet.clone()), (later_ns, inner)]
        } else {
            [(*at_ns, inner), (later_ns, packet.clone())]
        }
    };
    let mut all: Vec<_> = outer.iter().flat_map(pair).collect();
    all.sort_by_key(|(at_ns, _)| *at_ns);
    all
}

fn file(packets: &[Stamped]) -> Vec<u8> {
    pcap(packets, 262_144)
}

fn tells_of_copies(report: &Report) -> bool {
    report.observations.iter().any(|it| it.id == "translated_copies")
}

/// Checks that the report on `copied` equals that on `alone`, apart from the time that the host
/// takes to forward.
fn assert_counted_once(alone: &Report, copied: &Report) {
    assert!(tells_of_copies(copied) && !tells_of_copies(alone));
    assert_eq!(copied.totals.exchanges, alone.totals.exchanges);
    assert_eq!(copied.totals.connections, alone.totals.connections);
    let [culprits, copied_culprits] = [alone, copied].map(|report| {
        let of = report.findings.iter().map(|it| (it.cause, it.culprit.endpoint, it.affected));
        of.map(|(cause, endpoint, affected)| (cause, endpoint, affected.exchanges))
            .collect::<Vec<_>>()
    });
    assert_eq!(copied_culprits, culprits);
    for (one, other) in alone.findings.iter().zip(&copied.findings) {
        assert!(one.lost_ns.abs_diff(other.lost_ns) < alone.totals.exchanges * 2 * PASSED_ON_NS);
    }
}

#[test]
fn server_behind_a_translation_is_reported_by_its_public_address() {
    let trace = held_bodies();
    let outer = packets(&trace, Place::Server);
    let container = address("172.17.0.2:3000");
    let copied = twice(&outer, &trace, |packet| behind(packet, trace.server, container));
    assert_counted_once(&diagnose(&file(&outer)), &diagnose(&file(&copied)));
}

#[test]
fn client_behind_a_translation_is_reported_with_its_own_address() {
    let trace = held_bodies();
    let inner = packets(&trace, Place::Client);
    let host = address("203.0.113.7:61000");
    let copied = twice(&inner, &trace, |packet| behind(packet, trace.client, host));
    assert_counted_once(&diagnose(&file(&inner)), &diagnose(&file(&copied)));
}

#[test]
fn packets_translated_twice_are_counted_once() {
    let trace = held_bodies();
    let outer = packets(&trace, Place::Server);
    let [container, bridge] = ["172.17.0.2:3000", "172.17.0.1:41464"].map(address);
    let inner =
        |packet: &Packet| behind(&behind(packet, trace.server, container), trace.client, bridge);
    let mut copied = twice(&outer, &trace, inner);
    // On the bridge the client's address is itself again, and the server's not yet.
    for (at_ns, packet) in outer.iter().filter(|(_, packet)| packet.source == trace.server) {
        copied.push((at_ns + PASSED_ON_NS / 2, behind(packet, trace.server, container)));
    }
    copied.sort_by_key(|(at_ns, _)| *at_ns);
    assert_counted_once(&diagnose(&file(&outer)), &diagnose(&file(&copied)));
}

/// Some exchanges may have been counted before the copy was recognised.
#[test]
fn copies_of_a_connection_that_was_under_way_are_found() {
    let trace = Trace { vlan: true, ..held_bodies() };
    let outer = &packets(&trace, Place::Server)[3..];
    let container = address("172.17.0.2:3000");
    let copied = twice(outer, &trace, |packet| behind(packet, trace.server, container));
    let (alone, copied) = (diagnose(&file(outer)), diagnose(&file(&copied)));
    assert!(tells_of_copies(&copied));
    let more = copied.totals.exchanges - alone.totals.exchanges;
    assert!(more < alone.totals.exchanges / 2, "{more} exchanges told twice");
}

/// After a copy is recognised, none of its later exchanges is counted, even on the fast path.
#[test]
fn copies_of_a_steady_connection_that_was_under_way_are_found() {
    let trace = Trace {
        vlan: true,
        ..parse(
            r#"
        one_way 1
        timestamps
        0      > S
        +1     < S.
        +1     > .
        repeat 200 {
        +1     > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        +3     < P. "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        }
        "#,
        )
    };
    let outer = &packets(&trace, Place::Server)[3..];
    let container = address("172.17.0.2:3000");
    let copied = twice(outer, &trace, |packet| behind(packet, trace.server, container));
    let (alone, copied) = (diagnose(&file(outer)), diagnose(&file(&copied)));
    let more = copied.totals.exchanges - alone.totals.exchanges;
    assert!(more < alone.totals.exchanges / 4, "{more} exchanges told twice");
}

/// A recognised copy does not affect later connections with the same addresses.
#[test]
fn connections_after_a_copy_are_counted() {
    let trace = parse(
        r#"
        one_way 10
        timestamps
        0      > S
        +10    < S.
        +10    > .
        +1     > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        +12    < P. "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        +0.1   < F.
        +20    > F.
        +20    < .
        "#,
    );
    let outer = packets(&trace, Place::Server);
    let container = address("172.17.0.2:3000");
    let mut all = twice(&outer, &trace, |packet| behind(packet, trace.server, container));
    let others = 200;
    for other in 1..=others {
        // After the copy is forgotten, and with all copies at once.
        let later_ns = 10_000_000_000 + u64::from(other) * 1_000_000;
        let client = SocketAddr::new(trace.client.ip(), 20_000 + other);
        let another = |(at_ns, packet): &Stamped| {
            let mut own = behind(packet, trace.client, client);
            (own.seq, own.ack) = (own.seq + u32::from(other), own.ack + u32::from(other));
            (at_ns + later_ns, own)
        };
        all.extend(outer.iter().map(another));
    }
    all.sort_by_key(|(at_ns, _)| *at_ns);
    let report = diagnose(&file(&all));
    assert!(tells_of_copies(&report));
    assert_eq!(report.totals.exchanges, 1 + u64::from(others));
}

/// A proxy sends the same bytes to its backend, on a connection with other sequence numbers.
#[test]
fn connections_that_say_the_same_are_no_copies() {
    let trace = held_bodies();
    let outer = packets(&trace, Place::Server);
    let backend = address("172.17.0.2:3000");
    let passed_on = |packet: &Packet| {
        let mut own = behind(packet, trace.server, backend);
        let number = if packet.source == trace.server { &mut own.seq } else { &mut own.ack };
        *number = number.wrapping_add(77_777);
        own
    };
    let report = diagnose(&file(&twice(&outer, &trace, passed_on)));
    assert!(!tells_of_copies(&report));
    assert_eq!(report.totals.exchanges, 2 * diagnose(&file(&outer)).totals.exchanges);
}

/// Some stacks begin each connection with the same numbers.
#[test]
fn connections_that_begin_with_the_same_numbers_one_after_the_other_are_no_copies() {
    let trace = held_bodies();
    let first = packets(&trace, Place::Server);
    let other = address("10.0.0.9:8080");
    let later_ns = 10_000_000_000;
    let mut both = first.clone();
    both.extend(
        first.iter().map(|(at_ns, packet)| (at_ns + later_ns, behind(packet, trace.server, other))),
    );
    let report = diagnose(&file(&both));
    assert!(!tells_of_copies(&report));
    assert_eq!(report.totals.connections, 2);
}

/// A host passes a packet on before its receiver can answer: a packet that comes with the same numbers
/// after the answer is another.
#[test]
fn connections_that_begin_alike_after_the_first_was_answered_are_no_copies() {
    let trace = held_bodies();
    let first = packets(&trace, Place::Server);
    let other = address("10.0.0.9:8080");
    let later_ns = 500_000_000;
    let mut both = first.clone();
    both.extend(
        first.iter().map(|(at_ns, packet)| (at_ns + later_ns, behind(packet, trace.server, other))),
    );
    both.sort_by_key(|(at_ns, _)| *at_ns);
    let report = diagnose(&file(&both));
    assert!(!tells_of_copies(&report));
    assert_eq!(report.totals.connections, 2);
}

/// Packets made for a test often have the same numbers, and the same identification, both ways.
#[test]
fn ends_that_number_alike_are_no_copies_of_each_other() {
    let trace = Trace {
        vlan: true,
        ..parse(
            r#"
        timestamps off
        0      > S
        repeat 20 {
        +0.1   > P. seq 1 ack 1 len 9
        +0.1   < P. seq 1 ack 1 len 9
        }
        "#,
        )
    };
    let mut alike = packets(&trace, Place::Server);
    for (_, packet) in &mut alike {
        (packet.seq, packet.ack, packet.ip_id) = (7, 7, 1);
    }
    assert!(!tells_of_copies(&diagnose(&file(&alike))));
}
