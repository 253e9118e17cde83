//! Requests that waited for a name whose answer came over TCP (RFC 7766): it had not fitted into a
//! datagram (RFC 2181 §9).

use crate::attempts::Talk;
use crate::diagnosis::diagnose;
use crate::frames::pcap_of;
use crate::network::EPOCH_NS;
use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{Icmpv4Type, PacketBuilder};
use proptest::prelude::*;
use std::net::SocketAddr;
use tcpwhy_core::model::{Cause, Fact, Finding, Owner, Report, Role};
use tcpwhy_core::report::{Look, text};

pub const CLIENT: [u8; 4] = [10, 0, 0, 1];
pub const RESOLVER: [u8; 4] = [10, 0, 0, 53];
pub const SERVER: [u8; 4] = [10, 0, 0, 80];
pub const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
pub const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
pub const MS: u64 = 1_000_000;

/// A DNS message about one name: `flags`, and an address where it is an answer with one.
pub fn message(flags: u16, address: Option<[u8; 4]>) -> Vec<u8> {
    let counts = [1, u16::from(address.is_some()), 0, 0];
    let header = [[7, flags].as_slice(), &counts].concat();
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.extend_from_slice(b"\x03www\x07example\x03com\0\0\x01\0\x01");
    if let Some(address) = address {
        bytes.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
        bytes.extend_from_slice(&address);
    }
    bytes
}

pub const QUERY: u16 = 0x0100;
pub const ANSWER: u16 = 0x8180;
const TRUNCATED: u16 = 0x8380;

/// Frames, each some time after the one before.
#[derive(Default)]
pub struct Traffic {
    at_ns: u64,
    /// TTL of datagrams; 0 stands for 64.
    ttl: u8,
    pub frames: Vec<(u64, Vec<u8>)>,
}

impl Traffic {
    /// Returns traffic whose datagrams will have this TTL.
    pub fn with_ttl(ttl: u8) -> Self {
        Self { ttl, ..Self::default() }
    }

    /// A message to or from a name server.
    pub fn datagram(&mut self, after_ns: u64, (from, to): ([u8; 4], [u8; 4]), bytes: &[u8]) {
        let ttl = if self.ttl == 0 { 64 } else { self.ttl };
        let is_query = bytes[2] & 0x80 == 0;
        let (source, destination) = if is_query { (40_000, 53) } else { (53, 40_000) };
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from, to, ttl).udp(source, destination);
        let mut frame = Vec::new();
        builder.write(&mut frame, bytes).expect("room");
        self.put(after_ns, frame);
    }

    /// A separate connection: set-up, one request, its answer in `parts` after a while, the end.
    fn connection(
        &mut self,
        (port, to): (u16, SocketAddr),
        request: &[u8],
        after_ns: u64,
        parts: &[&[u8]],
    ) {
        let mut talk = Talk::new((CLIENT, port), to);
        let mut say = |after_ns, is_client: bool, flags: &str, payload: &[u8]| {
            talk.say(self, after_ns, is_client, flags, payload);
        };
        say(MS / 5, true, "S", &[]);
        say(MS / 2, false, "S.", &[]);
        say(MS / 10, true, ".", &[]);
        say(MS / 10, true, "P.", request);
        for (index, part) in parts.iter().enumerate() {
            say(if index == 0 { after_ns } else { MS / 100 }, false, "P.", part);
        }
        say(MS / 10, true, "F.", &[]);
        say(MS / 2, false, "F.", &[]);
        say(MS / 10, true, ".", &[]);
    }

    /// Advances the time without packets.
    pub fn wait(&mut self, ns: u64) {
        self.at_ns += ns;
    }

    /// A frame.
    pub fn put(&mut self, after_ns: u64, frame: Vec<u8>) {
        self.at_ns += after_ns;
        self.frames.push((EPOCH_NS + self.at_ns, frame));
    }
}

/// A truncated answer, the same question over TCP, whose answer takes `answered_ns` and comes cut
/// at `cuts`, and then the request.
fn report(answered_ns: u64, cuts: [usize; 2]) -> Report {
    diagnose(&pcap_of(&traffic(answered_ns, cuts), 65_535))
}

fn traffic(answered_ns: u64, cuts: [usize; 2]) -> Vec<(u64, Vec<u8>)> {
    let mut traffic = Traffic::default();
    traffic.datagram(MS, (CLIENT, RESOLVER), &message(QUERY, None));
    traffic.datagram(MS, (RESOLVER, CLIENT), &message(TRUNCATED, None));
    let stream =
        |message: Vec<u8>| [(message.len() as u16).to_be_bytes().to_vec(), message].concat();
    let (question, answer) = (stream(message(QUERY, None)), stream(message(ANSWER, Some(SERVER))));
    let (first, rest) = answer.split_at(cuts[0].clamp(1, answer.len() - 2));
    let (second, third) = rest.split_at(cuts[1].clamp(1, rest.len() - 1));
    let resolver = SocketAddr::from((RESOLVER, 53));
    traffic.connection((40_001, resolver), &question, answered_ns, &[first, second, third]);
    traffic.connection((40_002, (SERVER, 80).into()), REQUEST, 3 * MS, &[RESPONSE]);
    traffic.frames
}

#[test]
fn a_slow_answer_over_tcp_is_the_resolvers_and_the_request_has_waited_for_it() {
    let report = report(800 * MS, [20, 20]);
    let [slow] = &report.findings[..] else { panic!("{:#?}", report.findings) };
    assert_eq!((slow.cause, slow.culprit.role), (Cause::DnsSlow, Role::Resolver));
    assert_eq!((slow.affected.exchanges, slow.affected.of_exchanges), (1, 1));
    assert!((780 * MS..801 * MS).contains(&slow.lost_ns), "{} ns", slow.lost_ns);
    assert!(report.ledger.of(Owner::Dns) > 800 * MS, "{:?}", report.ledger);
}

#[test]
fn an_answer_over_tcp_that_comes_soon_is_a_part_of_its_request_and_nothing_more() {
    let report = report(MS, [20, 20]);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!((report.totals.exchanges, report.totals.lookups), (1, 1));
    // The datagrams, the set-up, the question, the answer.
    assert!((2 * MS..4 * MS).contains(&report.ledger.of(Owner::Dns)), "{:?}", report.ledger);
}

/// Look-ups that nothing follows, each answered after 200 ms.
fn look_ups(count: usize) -> Report {
    let mut traffic = Traffic::default();
    for _ in 0..count {
        traffic.datagram(7_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
        traffic.datagram(200 * MS, (RESOLVER, CLIENT), &message(ANSWER, Some(SERVER)));
    }
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

#[test]
fn one_late_answer_without_a_waiting_exchange_is_an_uncached_name() {
    assert!(look_ups(1).findings.is_empty(), "{:#?}", look_ups(1).findings);
}

#[test]
fn a_resolver_that_is_late_again_is_slow() {
    let causes: Vec<_> = look_ups(3).findings.iter().map(|finding| finding.cause).collect();
    assert_eq!(causes, [Cause::DnsSlow]);
}

/// A client that asks for both families at once. The A answer comes after 40 ms, the AAAA answer after
/// 169 ms, and it connects `connects_ms` after it asked.
fn both_families(connects_ms: u64) -> Report {
    let of_family = |flags, address| {
        let mut bytes = message(flags, address);
        (bytes[1], bytes[30]) = (8, 28);
        bytes
    };
    let mut traffic = Traffic::default();
    traffic.datagram(MS, (CLIENT, RESOLVER), &message(QUERY, None));
    traffic.datagram(0, (CLIENT, RESOLVER), &of_family(QUERY, None));
    let mut late = Traffic { at_ns: traffic.at_ns, ..Traffic::default() };
    late.datagram(169 * MS, (RESOLVER, CLIENT), &of_family(ANSWER, None));
    traffic.datagram(40 * MS, (RESOLVER, CLIENT), &message(ANSWER, Some(SERVER)));
    traffic.wait((connects_ms - 40) * MS);
    traffic.connection((40_001, (SERVER, 80).into()), REQUEST, 200 * MS, &[RESPONSE]);
    traffic.frames.append(&mut late.frames);
    traffic.frames.sort_by_key(|(at_ns, _)| *at_ns);
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

#[test]
fn an_answer_behind_the_connection_to_the_other_family_is_not_waited_for() {
    for (connects_ms, waited_ms) in [(42, 40..43), (171, 169..172)] {
        let report = both_families(connects_ms);
        assert_eq!(report.totals.exchanges, 1);
        let dns_ms = report.ledger.of(Owner::Dns) / MS;
        assert!(waited_ms.contains(&dns_ms), "{dns_ms} ms");
    }
}

/// Answers after 200 ms, each of which the client's host refuses, since the port is closed.
#[test]
fn answers_at_closed_ports_sooner_than_a_timer_are_not_waited_for() {
    let mut traffic = Traffic::default();
    for _ in 0..3 {
        traffic.datagram(7_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
        traffic.datagram(200 * MS, (RESOLVER, CLIENT), &message(ANSWER, Some(SERVER)));
        let quoted = traffic.frames.last().map(|(_, frame)| frame[14..].to_vec());
        let kind = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Port);
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(CLIENT, RESOLVER, 64).icmpv4(kind);
        let mut frame = Vec::new();
        builder.write(&mut frame, &quoted.expect("an answer")).expect("room");
        traffic.put(MS / 10, frame);
    }
    let report = diagnose(&pcap_of(&traffic.frames, 65_535));
    assert_eq!((report.findings.len(), report.totals.exchanges), (0, 0), "{:#?}", report.findings);
}

/// A query that stays without an answer, with `copies` after 5 s; 6 s later another name is looked up.
fn unanswered(copies: usize) -> Report {
    let mut traffic = Traffic::default();
    let other = |flags, address| {
        let mut bytes = message(flags, address);
        bytes[13..16].copy_from_slice(b"ftp");
        bytes
    };
    traffic.datagram(MS, (CLIENT, RESOLVER), &other(QUERY, None));
    for _ in 0..copies {
        traffic.datagram(5_000 * MS, (CLIENT, RESOLVER), &other(QUERY, None));
    }
    traffic.datagram(6_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
    traffic.datagram(20 * MS, (RESOLVER, CLIENT), &message(ANSWER, Some(SERVER)));
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

/// The report as text, on one line.
fn said(report: &Report) -> String {
    let text = text::render(report, &Look::default());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Queries for different names, each so long after the one before, ms, that nobody repeats or answers; and one
/// 20 s later, which is answered if `ends_well`.
fn unrepeated(pauses_ms: &[u64], ends_well: bool) -> Report {
    let mut traffic = Traffic::default();
    for (number, pause_ms) in pauses_ms.iter().enumerate() {
        let mut bytes = message(QUERY, None);
        bytes[13] = b'a' + number as u8;
        traffic.datagram(pause_ms * MS, (CLIENT, RESOLVER), &bytes);
    }
    traffic.datagram(20_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
    if ends_well {
        traffic.datagram(20 * MS, (RESOLVER, CLIENT), &message(ANSWER, Some(SERVER)));
    }
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

/// Of several queries that nobody repeats, one is followed by another look-up within the time of a resolver's
/// timer, or just when that ends.
#[test]
fn a_look_up_that_follows_one_of_several_unanswered_queries_ends_no_wait() {
    for pause_ms in [2_000, 5_000] {
        let report = unrepeated(&[20_000, pause_ms, 20_000, 20_000, 20_000], true);
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        assert_eq!(report.totals.wall_ns, 20 * MS);
        let said = said(&report);
        assert!(said.contains("5 DNS queries have no answer"), "{said}");
    }
}

/// Negative twin: at this server clients mostly go on within that time, so that they waited.
#[test]
fn look_ups_that_mostly_follow_unanswered_queries_end_the_waits_for_them() {
    let report = unrepeated(&[4_000; 5], true);
    let cost = report.findings.iter().find(|it| it.cause == Cause::DnsTimeout);
    let cost_ns = cost.map_or(0, |it| it.lost_ns);
    assert!((12_000 * MS..20_000 * MS).contains(&cost_ns), "{:#?}", report.findings);
}

#[test]
fn queries_without_an_answer_are_named_where_no_exchange_is_complete() {
    let mut traffic = Traffic::default();
    let mut talk = Talk::new((CLIENT, 40_001), (SERVER, 80));
    talk.say(&mut traffic, MS, true, "S", &[]);
    talk.say(&mut traffic, MS, false, "S.", &[]);
    talk.say(&mut traffic, MS, true, ".", &[]);
    for _ in 0..2 {
        traffic.datagram(20_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
    }
    let report = diagnose(&pcap_of(&traffic.frames, 65_535));
    assert_eq!(report.totals.exchanges, 0);
    let said = said(&report);
    assert!(said.contains("1 DNS query has no answer"), "the capture ends with the other: {said}");
}

/// Where nothing at all comes to a client, the capture may lack one direction.
#[test]
fn queries_of_a_client_that_is_never_answered_may_have_answers() {
    let report = unrepeated(&[20_000; 3], false);
    let said = said(&report);
    assert!(said.contains("4 requests were still without a response"), "{said}");
    assert!(!said.contains("no answer"), "{said}");
}

#[test]
fn a_query_without_an_answer_and_a_repeat_has_no_duration() {
    let report = unanswered(0);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!((report.totals.exchanges, report.totals.wall_ns), (1, 20 * MS));
    let said = said(&report);
    assert!(said.contains("1 DNS query has no answer"), "{said}");
    let waited = unanswered(1);
    assert_eq!(waited.totals.exchanges, 2, "it was repeated: somebody waited");
    assert!(waited.totals.wall_ns > 5_000 * MS);
}

/// Requests to two servers, each after a look-up by a different resolver that takes 200 ms.
fn two_servers(resolvers: [[u8; 4]; 2]) -> Vec<Finding> {
    let mut traffic = Traffic::default();
    for (port, resolver) in (40_001..).zip(resolvers) {
        let server = [10, 0, 0, port as u8];
        traffic.datagram(7_000 * MS, (CLIENT, resolver), &message(QUERY, None));
        traffic.datagram(200 * MS, (resolver, CLIENT), &message(ANSWER, Some(server)));
        traffic.connection((port, (server, 80).into()), REQUEST, 3 * MS, &[RESPONSE]);
    }
    diagnose(&pcap_of(&traffic.frames, 65_535)).findings
}

#[test]
fn a_resolver_that_holds_up_the_requests_to_two_servers_is_one_finding() {
    let findings = two_servers([RESOLVER; 2]);
    let [slow] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!((slow.cause, slow.affected.exchanges), (Cause::DnsSlow, 2));
    assert_eq!(slow.affected.of_exchanges, 2);
    assert!((360 * MS..401 * MS).contains(&slow.lost_ns), "{} ns", slow.lost_ns);
}

#[test]
fn two_slow_resolvers_are_two_findings() {
    let findings = two_servers([RESOLVER, [10, 0, 0, 54]]);
    let culprits: Vec<_> = findings.iter().map(|finding| finding.culprit.endpoint).collect();
    assert_eq!(culprits.len(), 2, "{findings:#?}");
    assert_ne!(culprits[0], culprits[1]);
    assert!(findings.iter().all(|finding| finding.cause == Cause::DnsSlow));
}

#[test]
fn only_the_first_connection_to_an_address_has_waited_for_its_name() {
    let mut traffic = Traffic::default();
    traffic.datagram(7_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
    traffic.datagram(100 * MS, (RESOLVER, CLIENT), &message(ANSWER, Some(SERVER)));
    for port in 40_001..40_004 {
        traffic.connection((port, (SERVER, 80).into()), REQUEST, 3 * MS, &[RESPONSE]);
        traffic.wait(20 * MS);
    }
    let report = diagnose(&pcap_of(&traffic.frames, 65_535));
    assert_eq!(report.totals.exchanges, 3);
    let dns_ns = report.ledger.of(Owner::Dns);
    assert!((100 * MS..102 * MS).contains(&dns_ns), "{dns_ns} ns");
    assert!(report.ledger.of(Owner::Client) < 2 * MS, "{:?}", report.ledger);
}

#[test]
fn what_is_asked_over_tcp_and_not_captured_whole_is_still_an_exchange() {
    // The packets of the set-up are without timestamps: headers, the length and half of a name.
    let report = diagnose(&pcap_of(&traffic(800 * MS, [20, 20]), 14 + 20 + 20 + 2 + 12 + 6));
    assert_eq!(report.totals.lookups, 0);
    assert_eq!(report.totals.exchanges, 2);
    assert!(report.ledger.of(Owner::Server) > 800 * MS, "{:?}", report.ledger);
}

#[test]
fn name_servers_that_end_their_connections_make_room_for_others() {
    let mut traffic = Traffic::default();
    let stream =
        |message: Vec<u8>| [(message.len() as u16).to_be_bytes().to_vec(), message].concat();
    let (question, answer) = (stream(message(QUERY, None)), stream(message(ANSWER, Some(SERVER))));
    for port in 10_000..15_000 {
        traffic.connection((port, (RESOLVER, 53).into()), &question, MS, &[&answer]);
    }
    let report = diagnose(&pcap_of(&traffic.frames, 65_535));
    assert_eq!(report.totals.lookups, 5_000);
}

proptest! {
    #[test]
    fn it_does_not_matter_how_a_stream_is_cut_into_segments(cuts in any::<[u8; 2]>()) {
        let report = report(800 * MS, cuts.map(usize::from));
        prop_assert_eq!(report.findings.len(), 1);
        prop_assert_eq!(report.findings[0].cause, Cause::DnsSlow);
        prop_assert_eq!(report.totals.exchanges, 1);
    }
}

/// Two resolvers asked one after the other, twice each: whether the second one answers, and whether the
/// client has a connection meanwhile.
fn asked_in_vain(answers: bool, connects: bool) -> Finding {
    let other = [10, 0, 0, 54];
    let mut traffic = Traffic::default();
    for _ in 0..2 {
        traffic.datagram(MS, (CLIENT, RESOLVER), &message(QUERY, None));
        traffic.datagram(1_000 * MS, (CLIENT, other), &message(QUERY, None));
        if answers {
            traffic.datagram(2 * MS, (other, CLIENT), &message(ANSWER, Some(SERVER)));
        }
        traffic.wait(8_000 * MS);
    }
    if connects {
        let server = SocketAddr::from(([10, 0, 0, 99], 80));
        traffic.connection((40_001, server), REQUEST, MS, &[RESPONSE]);
    }
    let report = diagnose(&pcap_of(&traffic.frames, 65_535));
    let found = report.findings.into_iter().find(|it| it.cause == Cause::DnsTimeout);
    found.expect("queries that nobody answers")
}

#[test]
fn a_client_without_any_answer_is_isolated() {
    let has = |finding: &Finding, fact: &str| finding.facts.iter().any(|(name, _)| *name == fact);
    let alone = asked_in_vain(false, false);
    assert_eq!(alone.culprit.role, Role::Network);
    assert_eq!(alone.culprit.endpoint.ip().to_string(), "10.0.0.1");
    assert!(has(&alone, "caller"));
    // One resolver that answers, or a connection, shows that there is a way.
    for (answers, connects) in [(true, false), (false, true)] {
        let reached = asked_in_vain(answers, connects);
        assert_eq!(reached.culprit.role, Role::Resolver, "{answers} {connects}");
        assert!(!has(&reached, "caller"));
    }
}

#[test]
fn unanswered_queries_are_counted_for_the_resolver_that_is_named() {
    for answers in [true, false] {
        let finding = asked_in_vain(answers, true);
        let silent = finding.facts.iter().find(|(name, _)| *name == "silent").map(|it| &it.1);
        assert_eq!(silent, Some(&Fact::Count(2)), "{answers}");
    }
}

/// Returns the culprit of two queries without an answer, after one that the resolver answered with
/// `reply`.
fn unanswered_behind(reply: impl FnOnce(&mut Traffic)) -> Role {
    let mut traffic = Traffic::default();
    traffic.datagram(0, (CLIENT, RESOLVER), &message(QUERY, None));
    reply(&mut traffic);
    traffic.wait(20_000 * MS);
    for _ in 0..2 {
        traffic.datagram(5_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
    }
    traffic.wait(5_000 * MS);
    let server = SocketAddr::from(([10, 0, 0, 99], 80));
    traffic.connection((40_001, server), REQUEST, MS, &[RESPONSE]);
    let report = diagnose(&pcap_of(&traffic.frames, 65_535));
    let found = report.findings.into_iter().find(|it| it.cause == Cause::DnsTimeout);
    found.expect("queries that nobody answers").culprit.role
}

#[test]
fn a_host_that_says_that_its_port_is_closed_has_answered_no_query() {
    let refused = unanswered_behind(|traffic| {
        let asked = traffic.frames[0].1[14..14 + 28].to_vec();
        let kind = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Port);
        let builder = PacketBuilder::ethernet2([4; 6], [2; 6]).ipv4(RESOLVER, CLIENT, 64);
        let mut frame = Vec::new();
        builder.icmpv4(kind).write(&mut frame, &asked).expect("room");
        traffic.put(MS, frame);
    });
    assert_eq!(refused, Role::Resolver);
    // The twin: the resolver answers, so queries that it does not answer later were lost on the
    // path.
    let answered = unanswered_behind(|traffic| {
        traffic.datagram(MS, (RESOLVER, CLIENT), &message(ANSWER, Some(SERVER)));
    });
    assert_eq!(answered, Role::Network);
}

/// Four names that are each asked four times in vain, and others in between that are answered at once; the last
/// repeat of the last name is answered if `recovers`.
fn asked_by_name(recovers: bool) -> Report {
    let mut traffic = Traffic::default();
    let named = |flags, address, letter: u8| {
        let mut bytes = message(flags, address);
        bytes[13] = letter;
        bytes
    };
    for name in b'a'..b'e' {
        for again in 0..4 {
            traffic.datagram(2_000 * MS, (CLIENT, RESOLVER), &named(QUERY, None, name));
            if recovers && (name, again) == (b'd', 3) {
                let answer = named(ANSWER, Some(SERVER), name);
                traffic.datagram(20 * MS, (RESOLVER, CLIENT), &answer);
            }
            let other = b'f' + (name - b'a') * 4 + again;
            traffic.datagram(100 * MS, (CLIENT, RESOLVER), &named(QUERY, None, other));
            let answer = named(ANSWER, Some(SERVER), other);
            traffic.datagram(20 * MS, (RESOLVER, CLIENT), &answer);
        }
    }
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

#[test]
fn names_that_never_have_an_answer_while_others_do_are_left_out_by_the_server() {
    let report = asked_by_name(false);
    let finding = report.findings.iter().find(|it| it.cause == Cause::DnsTimeout);
    let finding = finding.expect("unanswered queries");
    assert_eq!(finding.culprit.role, Role::Resolver);
    assert!(finding.facts.contains(&("silent_names", Fact::Count(4))), "{:#?}", finding.facts);
    let said = said(&report);
    assert!(said.contains("the name decides") && said.contains("response policy zone"), "{said}");
    assert!(!said.contains("with fragments") && !said.contains("insert_failed"), "{said}");
}

/// Negative twin: one of the names is answered in the end, so that no name decides.
#[test]
fn a_name_that_is_answered_in_the_end_shows_that_packets_were_lost() {
    let report = asked_by_name(true);
    let finding = report.findings.iter().find(|it| it.cause == Cause::DnsTimeout);
    assert_eq!(finding.map(|it| it.culprit.role), Some(Role::Network), "{:#?}", report.findings);
    assert!(!said(&report).contains("the name decides"));
}
