//! The same traffic captured at both ends: it is counted once, on one clock, and the report is no
//! worse than that of a single capture.

use crate::diagnosis::{diagnose, joined, sited};
use crate::frames::{Packet, pcap};
use crate::language::{Place, Trace, parse};
use crate::network::packets;
use crate::traces::traces;
use tcpwhy_core::capture::Source;
use tcpwhy_core::model::{Fact, Join, Owner, Report, Role};
use tcpwhy_core::report::json;
use tcpwhy_core::survey::{JoinError, survey};

/// A captured frame.
type Stamped = (u64, Packet);

/// Offset of the server's clock, ns.
const AHEAD_NS: i64 = 3_700_000_000;

fn file(packets: &[Stamped]) -> Vec<u8> {
    pcap(packets, 262_144)
}

/// Returns the server's capture, on a clock that is `ahead_ns` ahead.
fn at_server(trace: &Trace, ahead_ns: i64) -> Vec<Stamped> {
    let ahead = |(at_ns, packet): Stamped| (at_ns.saturating_add_signed(ahead_ns), packet);
    packets(trace, Place::Server).into_iter().map(ahead).collect()
}

fn at_client(trace: &Trace) -> Vec<Stamped> {
    packets(trace, Place::Client)
}

fn both_ends(trace: &Trace, ahead_ns: i64) -> Report {
    let (client, server) = (file(&at_client(trace)), file(&at_server(trace, ahead_ns)));
    joined(&[("client.pcap", &client), ("server.pcap", &server)])
}

fn join(report: &Report) -> &Join {
    report.join.as_ref().expect("a joined report")
}

fn held_bodies() -> Trace {
    parse(
        r#"
        one_way 10
        0      > S
        +10    < S.
        +10    > .
        repeat 12 {
        +1     > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        +12    < P. "HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n"
        +50    > .
        +10.05 < P. len 600
        +10.05 > .
        }
        "#,
    )
}

fn lost_tail() -> Trace {
    let mut text = "one_way 10\n0 > S\n+10 < S.\n+10 > .\n".to_owned();
    for exchange in 0..3 {
        // Sequence number at which the second half of the response begins.
        let seq = 1490 + 3041 * exchange;
        text += &format!(
            r#"
            +1    > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            +11   < P. "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n"
            +0.02 < . len 1448
            +0.01 < P. len 1552 lost
            +10.1 > .
            +230  < P. seq {seq} len 1552
            +10.1 > .
            "#
        );
    }
    parse(&text)
}

#[test]
fn what_a_trace_expects_holds_for_both_ends_together() {
    let (mut unmet, mut count) = (Vec::new(), 0);
    for (name, trace) in traces() {
        let ends = [Place::Client, Place::Server];
        if trace.only.is_some() || ends.iter().any(|end| !trace.vantages.contains(end)) {
            continue;
        }
        let report = both_ends(&trace, AHEAD_NS);
        let Some(join) = &report.join else { continue };
        count += 1;
        let place = ends[join.told_by];
        let wrong = trace.expectations.iter().filter_map(|one| one.unmet(place, &report));
        unmet.extend(wrong.map(|wrong| format!("{name} {wrong}")));
        let alone = diagnose(&file(&at_client(&trace)));
        if report.totals.exchanges != alone.totals.exchanges {
            let (both, one) = (report.totals.exchanges, alone.totals.exchanges);
            unmet.push(format!("{name}: {both} exchanges at both ends, {one} at the client"));
        }
    }
    assert!(count >= 90, "{count} traces were joined");
    assert!(unmet.is_empty(), "{}", unmet.join("\n"));
}

#[test]
fn clocks_are_set_by_the_fastest_packets_of_both_directions() {
    for ahead_ns in [0, AHEAD_NS, -120_000_000, 86_400_000_000_000] {
        let report = both_ends(&held_bodies(), ahead_ns);
        let clocks = join(&report).clocks.expect("packets went both ways");
        assert_eq!(clocks.offset_ns, ahead_ns);
        assert_eq!(clocks.rtt_min_ns, 20_000_000);
        assert_eq!(report.totals.connections, 1);
        assert_eq!(report.totals.exchanges, 12);
        let alone = diagnose(&file(&at_client(&held_bodies())));
        assert_eq!(report.totals.wall_ns, alone.totals.wall_ns);
        assert_eq!(report.ledger, alone.ledger);
    }
}

#[test]
fn the_proof_is_that_of_the_end_where_the_silence_was() {
    let report = both_ends(&held_bodies(), AHEAD_NS);
    let finding = &report.findings[0];
    assert_eq!(finding.cause.id(), "nagle_delayed_ack");
    assert_eq!(finding.sights.len(), 2);
    let file = finding.evidence[0].frame.file() as usize;
    assert_eq!(report.inputs[file].path, "server.pcap");
    let alone = diagnose(&file_of_client());
    assert!(finding.confidence >= alone.findings[0].confidence);
    assert_eq!(finding.lost_ns, alone.findings[0].lost_ns);
}

fn file_of_client() -> Vec<u8> {
    file(&at_client(&held_bodies()))
}

#[test]
fn what_one_end_sent_and_the_other_never_saw_was_lost_between_them() {
    let report = both_ends(&lost_tail(), AHEAD_NS);
    let [from_client, from_server] = join(&report).crossings;
    assert_eq!((from_client.lost_packets, from_client.appeared_packets), (0, 0));
    assert_eq!((from_server.lost_packets, from_server.lost_bytes), (3, 3 * 1552));
    let finding = &report.findings[0];
    assert_eq!(finding.cause.id(), "retransmission_timeout");
    let place = finding.facts.iter().find(|(name, _)| *name == "place").map(|(_, fact)| fact);
    assert_eq!(place, Some(&Fact::Text("between the two captures".into())));
}

#[test]
fn what_both_ends_saw_was_lost_behind_the_second() {
    // The client's capture is complete, so the client's host dropped the repeated segments.
    let trace = lost_tail();
    let mut seen = Vec::new();
    for (at_ns, packet) in packets(&trace, Place::Server) {
        let late_ns = if packet.source == trace.server { 10_000_000 } else { 0 };
        let early_ns = 10_000_000 - late_ns;
        seen.push((at_ns + late_ns - early_ns, packet));
    }
    seen.sort_by_key(|(at_ns, _)| *at_ns);
    let (client, server) = (file(&seen), file(&at_server(&trace, AHEAD_NS)));
    let report = joined(&[("client.pcap", &client), ("server.pcap", &server)]);
    assert_eq!(join(&report).crossings.map(|it| it.lost_packets), [0, 0]);
    let finding = &report.findings[0];
    assert_eq!(finding.cause.id(), "retransmission_timeout");
    let place = finding.facts.iter().find(|(name, _)| *name == "place").map(|(_, fact)| fact);
    let Some(Fact::Text(place)) = place else { panic!("no place: {finding:?}") };
    assert!(place.starts_with("beyond the capture at the client"), "{place}");
}

#[test]
fn neither_the_order_of_files_nor_their_cutting_matters() {
    for trace in [held_bodies(), lost_tail()] {
        let (client, server) = (at_client(&trace), at_server(&trace, AHEAD_NS));
        let told = |report: &Report| {
            let value = json::render(report, "").expect("JSON");
            let mut value: serde_json::Value = serde_json::from_str(&value).expect("JSON");
            value.as_object_mut().map(|top| top.remove("inputs"));
            value
        };
        let whole = both_ends(&trace, AHEAD_NS);
        let (c, s) = (file(&client), file(&server));
        let turned = joined(&[("server.pcap", &s), ("client.pcap", &c)]);
        assert_eq!(told(&whole), told(&turned));
        // Sets that were rotated at different times; numbers of frames differ.
        let cut = |packets: &[Stamped], at: &[usize]| {
            let mut from = 0;
            let ends = at.iter().copied().chain([packets.len()]);
            let part = |to| file(&packets[std::mem::replace(&mut from, to)..to]);
            ends.map(part).collect::<Vec<_>>()
        };
        let (c, s) = (cut(&client, &[9, 14]), cut(&server, &[11]));
        let names = ["c1", "c2", "c3", "s1", "s2"];
        let mut files: Vec<_> =
            names.into_iter().zip(c.iter().chain(&s).map(Vec::as_slice)).collect();
        for _ in 0..files.len() {
            files.rotate_left(1);
            let rotated = joined(&files);
            assert_eq!(join(&rotated), join(&whole));
            assert_eq!(rotated.ledger, whole.ledger);
            assert_eq!(rotated.totals.exchanges, whole.totals.exchanges);
            let findings = |report: &Report| {
                let all = report.findings.iter();
                all.map(|it| (it.cause, it.lost_ns, it.sights.clone())).collect::<Vec<_>>()
            };
            assert_eq!(findings(&rotated), findings(&whole));
        }
    }
}

#[test]
fn one_place_is_not_taken_for_two() {
    let client = at_client(&held_bodies());
    let (whole, half) = (file(&client), client.len() / 2);
    let (begin, end) = (file(&client[..half]), file(&client[half..]));
    assert!(!sited(&[("1", &begin), ("2", &end)]), "a rotated set");
    assert!(!sited(&[("1", &whole), ("2", &whole)]), "the same capture twice");
    let overlap = file(&client[..half + 4]);
    assert!(!sited(&[("1", &overlap), ("2", &end)]), "parts that overlap");
    let twice = client
        .iter()
        .flat_map(|(at_ns, packet)| [(*at_ns, packet.clone()), (at_ns + 4_000, packet.clone())]);
    let twice = file(&twice.collect::<Vec<_>>());
    assert!(!sited(&[("1", &twice)]), "copies in one capture");
    let other = parse("0 > S\n+1 < S.\n+1 > .\n+1 > P. \"GET / HTTP/1.1\\r\\n\\r\\n\"");
    let other = Trace { client: "10.0.0.9:40009".parse().expect("an address"), ..other };
    let other = Trace { isn: [77, 78], ..other };
    assert!(!sited(&[("1", &whole), ("2", &file(&at_server(&other, 0)))]), "others' traffic");
}

#[test]
fn a_copy_with_coarser_times_is_no_second_place() {
    let fine: Vec<_> = at_client(&held_bodies())
        .into_iter()
        .enumerate()
        .map(|(index, (at_ns, packet))| (at_ns + 491 * (index as u64 % 3), packet))
        .collect();
    let coarse: Vec<_> =
        fine.iter().map(|(at_ns, packet)| (at_ns - at_ns % 1_000, packet.clone())).collect();
    assert!(!sited(&[("ns", &file(&fine)), ("us", &file(&coarse))]), "a copy");
    // Elsewhere, each packet is seen a little later or earlier.
    let other: Vec<_> = at_server(&held_bodies(), 0)
        .into_iter()
        .map(|(at_ns, packet)| (at_ns - at_ns % 1_000, packet))
        .collect();
    assert!(sited(&[("ns", &file(&fine)), ("us", &file(&other))]), "another place");
}

#[test]
fn a_router_that_has_each_packet_twice_is_a_place() {
    let trace = held_bodies();
    let twice = |packets: Vec<Stamped>| {
        let copies = |(at_ns, packet): Stamped| [(at_ns, packet.clone()), (at_ns + 4_000, packet)];
        file(&packets.into_iter().flat_map(copies).collect::<Vec<_>>())
    };
    let (client, server) = (file(&at_client(&trace)), twice(at_server(&trace, AHEAD_NS)));
    let report = joined(&[("client", &client), ("router", &server)]);
    assert_eq!(join(&report).connections, 1);
    assert_eq!(join(&report).clocks.expect("both ways").rtt_min_ns, 20_000_000);
    assert_eq!(report.totals.exchanges, 12);
    let both = [("client", twice(at_client(&trace))), ("router", server)];
    assert!(sited(&both.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))));
}

/// A server that answers at once, and a RST from somewhere before it.
fn cut_off() -> Trace {
    parse(
        r#"
        one_way 10
        0     > S
        +10   < S.
        +10   > .
        +1    > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        +10.5 < P. "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n"
        +0.02 < . len 1448
        +20   < R.
        +500  >2 S
        +10   <2 S.
        +10   >2 .
        +1    >2 P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        +10.5 <2 P. "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        +10.5 >2 .
        "#,
    )
}

#[test]
fn a_reset_that_its_sender_s_place_never_saw_is_the_network_s() {
    let trace = cut_off();
    let culprit = |server: Vec<Stamped>| {
        let (client, server) = (file(&at_client(&trace)), file(&server));
        let report = joined(&[("client", &client), ("server", &server)]);
        assert_eq!(report.findings[0].cause.id(), "reset");
        report.findings[0].culprit.role
    };
    let server = at_server(&trace, AHEAD_NS);
    assert_eq!(culprit(server.clone()), Role::Server, "sent where it is said to be from");
    let is_reset = |(_, packet): &Stamped| packet.flags.contains('R');
    let without = server.into_iter().filter(|it| !is_reset(it)).collect();
    assert_eq!(culprit(without), Role::Network, "sent by something between");
}

#[test]
fn lost_time_is_in_the_ledger_of_the_same_place() {
    let text = r#"
        one_way 10
        0     > S
        +10   < S.
        +10   > .
        +1    > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        +160  < P. "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" lost
        +230  < P. seq 1 "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        +10   > .
    "#;
    let trace = parse(text);
    let alone = [file(&at_client(&trace)), file(&at_server(&trace, 0))].map(|it| diagnose(&it));
    let both = both_ends(&trace, AHEAD_NS);
    assert_eq!(both.ledger, alone[join(&both).told_by].ledger);
    assert_eq!(both.findings[0].lost_ns, both.ledger.of(Owner::RetransmissionTimeout));
}

#[test]
fn three_places_are_too_many() {
    let trace = held_bodies();
    let middle = file(&packets(&trace, Place::Middle));
    let (client, server) = (file(&at_client(&trace)), file(&at_server(&trace, 0)));
    let files = [("client", client), ("middle", middle), ("server", server)];
    let sources = files.map(|(name, bytes)| Source::memory(name, bytes)).into();
    assert!(matches!(survey(sources, false, &|| true), Err(JoinError::MorePlaces { .. })));
}

#[test]
fn translated_addresses_are_reported_and_not_joined() {
    let trace = held_bodies();
    let client = file(&at_client(&trace));
    let mut beyond = at_server(&trace, 0);
    for (_, packet) in &mut beyond {
        for end in [&mut packet.source, &mut packet.destination] {
            if *end == trace.client {
                *end = "192.0.2.7:61000".parse().expect("an address");
            }
        }
    }
    let report = joined(&[("client", &client), ("beyond", &file(&beyond))]);
    assert!(report.join.is_none());
    assert!(report.observations.iter().any(|it| it.id == "address_translation"));
}

#[test]
fn holes_at_one_place_leave_the_telling_to_the_other() {
    let trace = held_bodies();
    let misses_data = |packets: Vec<Stamped>| {
        let all = packets.into_iter().enumerate();
        let kept = all.filter(|(index, (_, packet))| packet.payload.is_empty() || index % 4 != 1);
        file(&kept.map(|(_, packet)| packet).collect::<Vec<_>>())
    };
    let whole = both_ends(&trace, AHEAD_NS);
    let (client, server) = (file(&at_client(&trace)), file(&at_server(&trace, AHEAD_NS)));
    let holed_server = misses_data(at_server(&trace, AHEAD_NS));
    let report = joined(&[("client", &client), ("server", &holed_server)]);
    assert_eq!(join(&report).told_by, 0);
    assert_eq!(report.ledger, whole.ledger);
    assert!(report.observations.iter().any(|it| it.id == "join_holes"));
    let report = joined(&[("client", &misses_data(at_client(&trace))), ("server", &server)]);
    assert_eq!(join(&report).told_by, 1);
    assert_eq!(report.totals.exchanges, whole.totals.exchanges);
}

#[test]
fn connections_seen_at_one_place_only_are_counted_too() {
    let trace = held_bodies();
    let mut server = at_server(&trace, AHEAD_NS);
    for (at_ns, mut packet) in at_server(&trace, AHEAD_NS) {
        for end in [&mut packet.source, &mut packet.destination] {
            if *end == trace.client {
                *end = "10.0.0.77:41000".parse().expect("an address");
            }
        }
        packet.seq = packet.seq.wrapping_add(500_000);
        packet.ack = packet.ack.wrapping_add(500_000);
        server.push((at_ns + 700_000, packet));
    }
    server.sort_by_key(|(at_ns, _)| *at_ns);
    let client = file(&at_client(&trace));
    let report = joined(&[("client", &client), ("server", &file(&server))]);
    assert_eq!(join(&report).connections, 1);
    assert_eq!((report.totals.connections, report.totals.exchanges), (2, 24));
}

#[test]
fn a_syn_that_both_ends_saw_was_dropped_behind_the_server_s_capture() {
    // The first connection goes well, so that both captures have begun.
    let text = |lost: &str| {
        format!(
            r#"
            one_way 10
            0     > S
            +10   < S.
            +10   > .
            +1    > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            +10.5 < P. "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            +10.5 > .
            +100  >2 S {lost}
            +1000 >2 S
            +10   <2 S.
            +10   >2 .
            +1    >2 P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            +10.5 <2 P. "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            +10.5 >2 .
            "#
        )
    };
    let lost = both_ends(&parse(&text("lost")), AHEAD_NS);
    assert_eq!(lost.findings[0].cause.id(), "syn_retransmit");
    assert_eq!(join(&lost).crossings[0].lost_packets, 1);
    let seen = both_ends(&parse(&text("")), AHEAD_NS);
    // The SYN was dropped on the server's host. That the listener was full does not show, since no
    // connection waits in its queue.
    assert_eq!(seen.findings[0].cause.id(), "syn_retransmit");
    assert_eq!(join(&seen).crossings[0].lost_packets, 0);
}

/// Packets missing at random from both captures, and a few captured twice.
#[test]
fn holes_and_copies_at_both_ends_are_survived() {
    let mut state = 1_u64;
    let mut dice = |faces: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % faces
    };
    for (name, trace) in traces() {
        for _ in 0..3 {
            let mut spoilt = |packets: Vec<Stamped>| {
                let mut kept = Vec::new();
                for (at_ns, packet) in packets {
                    let copies = [0, 1, 1, 1, 1, 1, 1, 2][dice(8) as usize];
                    kept.extend((0..copies).map(|copy| (at_ns + copy * 3_000, packet.clone())));
                }
                kept.sort_by_key(|(at_ns, _)| *at_ns);
                file(&kept)
            };
            let (client, server) =
                (spoilt(at_client(&trace)), spoilt(at_server(&trace, -AHEAD_NS)));
            let report = joined(&[("client", &client), ("server", &server)]);
            assert_eq!(report.ledger.total_ns(), report.totals.wall_ns, "{name}");
            let turned = joined(&[("server", &server), ("client", &client)]);
            assert_eq!(turned.ledger, report.ledger, "{name}");
            assert_eq!(turned.join, report.join, "{name}");
        }
    }
}
