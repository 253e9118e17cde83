//! Connection attempts without an answer: where their SYNs were captured, and what their client does
//! next.

use crate::diagnosis::diagnose;
use crate::frames::{Packet, pcap_of, pcap_with_link};
use crate::names::{ANSWER, CLIENT, MS, QUERY, REQUEST, RESOLVER, RESPONSE, SERVER, Traffic};
use etherparse::PacketBuilder;
use std::net::SocketAddr;
use tcpwhy_core::model::{Cause, Fact, Finding, Report, Role};

/// Another address of the server's name.
const DEAD: [u8; 4] = [10, 0, 0, 79];

/// A segment without payload.
pub fn packet((source, destination): (SocketAddr, SocketAddr), flags: &str, seq: u32) -> Packet {
    Packet {
        source,
        destination,
        vlan: false,
        padded: false,
        ip_id: 0,
        ttl: 64,
        marked: false,
        checksum: 0,
        flags: flags.to_owned(),
        seq,
        ack: 0,
        window: 64_000,
        mss: Some(1460),
        window_scale: None,
        sack_permitted: false,
        sack: Vec::new(),
        timestamps: None,
        payload: Vec::new(),
        total_len: None,
        without_payload: false,
        icmp: None,
    }
}

/// Both ends of a connection, and the next sequence number of each.
pub struct Talk {
    ends: [SocketAddr; 2],
    next: [u32; 2],
}

impl Talk {
    /// Begins a connection of `client` to `server`.
    pub fn new(client: impl Into<SocketAddr>, server: impl Into<SocketAddr>) -> Self {
        Self { ends: [client.into(), server.into()], next: [500, 9_000] }
    }

    /// Adds a segment to `traffic`, `after_ns` behind what is there, which acknowledges all before it.
    pub fn say(
        &mut self,
        traffic: &mut Traffic,
        after_ns: u64,
        is_client: bool,
        flags: &str,
        payload: &[u8],
    ) {
        let own = usize::from(!is_client);
        let ack = if flags == "S" { 0 } else { self.next[1 - own] };
        let packet = packet((self.ends[own], self.ends[1 - own]), flags, self.next[own]);
        let control = flags.chars().filter(|flag| "SF".contains(*flag)).count();
        self.next[own] += (payload.len() + control) as u32;
        traffic.put(after_ns, Packet { ack, payload: payload.to_vec(), ..packet }.frame());
    }
}

/// A DNS answer with these addresses.
fn answer(addresses: &[[u8; 4]]) -> Vec<u8> {
    let header = [7, ANSWER, 1, addresses.len() as u16, 0, 0];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.extend_from_slice(b"\x03www\x07example\x03com\0\0\x01\0\x01");
    for address in addresses {
        bytes.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
        bytes.extend_from_slice(address);
    }
    bytes
}

/// A client that tries `DEAD` three times, and `SERVER` 1.5 s after that; both are `addresses` of the
/// name that it has looked up.
fn after_a_dead_address(addresses: &[[u8; 4]]) -> Report {
    let mut traffic = Traffic::default();
    traffic.datagram(MS, (CLIENT, RESOLVER), &crate::names::message(QUERY, None));
    traffic.datagram(MS, (RESOLVER, CLIENT), &answer(addresses));
    let dead = ((CLIENT, 40_001).into(), (DEAD, 80).into());
    for after_ns in [MS, 1_000 * MS, 2_000 * MS] {
        traffic.put(after_ns, packet(dead, "S", 100).frame());
    }
    traffic.wait(1_500 * MS);
    let mut talk = Talk::new((CLIENT, 40_002), (SERVER, 80));
    let mut say = |after_ns, is_client: bool, flags: &str, payload: &[u8]| {
        talk.say(&mut traffic, after_ns, is_client, flags, payload);
    };
    say(0, true, "S", &[]);
    say(10 * MS, false, "S.", &[]);
    say(MS / 50, true, ".", &[]);
    say(MS / 100, true, "P.", REQUEST);
    say(10 * MS, false, "P.", RESPONSE);
    say(MS / 50, true, ".", &[]);
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

/// The finding about connection attempts.
fn of_attempts(report: &Report) -> &Finding {
    let mut of_attempts = report.findings.iter().filter(|it| it.cause == Cause::SynRetransmit);
    of_attempts.next().unwrap_or_else(|| panic!("{:#?}", report.findings))
}

fn fact<'a>(finding: &'a Finding, name: &str) -> Option<&'a Fact> {
    finding.facts.iter().find(|(known, _)| *known == name).map(|(_, fact)| fact)
}

#[test]
fn a_client_goes_on_from_a_dead_address_of_a_name_to_another() {
    let report = after_a_dead_address(&[DEAD, SERVER]);
    let found = of_attempts(&report);
    assert_eq!(found.culprit.endpoint.to_string(), "10.0.0.79:80");
    assert_eq!(fact(found, "fell_back"), Some(&Fact::Text("10.0.0.80:80".into())));
    assert_eq!(found.lost_ns, 4_500 * MS);
}

#[test]
fn another_connection_after_a_dead_address_of_another_name_is_not_joined() {
    let report = after_a_dead_address(&[SERVER]);
    let found = of_attempts(&report);
    assert_eq!(fact(found, "fell_back"), None);
    assert_eq!(found.lost_ns, 3_000 * MS);
}

/// Two attempts of three SYNs each, captured on all interfaces of a host; each SYN has these packet
/// types (0 came to the host, 4 was sent by it).
fn on_any(types: &[u8]) -> Report {
    let mut frames = Vec::new();
    for (at, port) in [(0, 40_001), (20_000, 40_002)] {
        let way = ((CLIENT, port).into(), (SERVER, 80).into());
        for (number, at_ms) in [0, 1_000, 3_000].into_iter().enumerate() {
            let syn = Packet { ip_id: port + number as u16, ..packet(way, "S", port.into()) };
            for (copy, &kind) in types.iter().enumerate() {
                let mut bytes = vec![8, 0, 0, 0, 0, 0, 0, 2, 0, 1, kind, 6];
                bytes.extend_from_slice(&[2; 8]);
                bytes.extend_from_slice(&syn.frame()[14..]);
                frames.push(((at + at_ms) * MS + copy as u64 * MS / 50, bytes));
            }
        }
    }
    diagnose(&pcap_with_link(&frames, 65_535, 276))
}

#[test]
fn syns_that_came_to_a_host_and_have_no_answer_are_its_doing() {
    let report = on_any(&[0]);
    let found = of_attempts(&report);
    assert_eq!((found.culprit.role, fact(found, "arrived")), (Role::Server, Some(&Fact::Count(6))));
}

#[test]
fn syns_that_a_host_sends_or_forwards_may_be_lost_on_the_path() {
    for types in [&[4][..], &[0, 4]] {
        let report = on_any(types);
        assert_eq!(of_attempts(&report).culprit.role, Role::Network, "{types:?}");
    }
}

/// Four attempts in a VXLAN tunnel: each first SYN has the first of these UDP checksums, and has no
/// answer; the rest has the second.
fn in_a_tunnel(checksums: [u16; 2]) -> Report {
    let mut frames = Vec::new();
    let mut put = |at_ms: u64, packet: &Packet, checksum: u16| {
        let mut within = vec![8, 0, 0, 0, 0, 0, 1, 0];
        within.extend_from_slice(&packet.frame());
        let mut bytes = Vec::new();
        let tunnel = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [3; 4], 64);
        tunnel.udp(50_000, 4_789).write(&mut bytes, &within).expect("room");
        bytes[14 + 20 + 6..][..2].copy_from_slice(&checksum.to_be_bytes());
        frames.push((at_ms * MS, bytes));
    };
    for (at, port) in [(0, 40_001), (2_000, 40_002), (4_000, 40_003), (6_000, 40_004)] {
        let (client, server) = ((CLIENT, port).into(), (SERVER, 80).into());
        let syn = |ip_id| Packet { ip_id, ..packet((client, server), "S", 100) };
        put(at, &syn(1), checksums[0]);
        put(at + 1_000, &syn(2), checksums[1]);
        let answer = Packet { ack: 101, ..packet((server, client), "S.", 9_000) };
        put(at + 1_010, &answer, 0);
        let ack = Packet { ack: 9_001, ip_id: 3, ..packet((client, server), ".", 101) };
        put(at + 1_020, &ack, 0);
    }
    diagnose(&pcap_of(&frames, 65_535))
}

#[test]
fn syns_in_a_tunnel_with_wrong_checksums_are_told_from_those_without() {
    let report = in_a_tunnel([0x1234, 0]);
    assert_eq!(fact(of_attempts(&report), "wrong_tunnel_checksums"), Some(&Fact::Count(4)));
}

#[test]
fn a_tunnel_whose_wrong_checksums_are_accepted_drops_nothing_for_them() {
    let report = in_a_tunnel([0x1234, 0x1234]);
    let mut told = report.findings.iter().map(|it| fact(it, "wrong_tunnel_checksums"));
    assert!(told.all(|it| it.is_none()), "{:#?}", report.findings);
}
