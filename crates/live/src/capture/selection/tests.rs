//! Programs run on packets, by an interpreter that works like the kernel's.

use super::*;
use crate::capture::bpf::machine::{Packet, run};
use crate::sample::Share;
use std::net::{IpAddr, SocketAddr};
use tcpwhy_core::filter::Filter;
use tcpwhy_core::wire::{Endpoint, FlowKey};

const SNAP: u32 = 96;

/// An IP packet from one end to the other, with the ports where the transport header has them.
fn packet(protocol: u32, source: &str, destination: &str) -> Vec<u8> {
    let (source, destination): (SocketAddr, SocketAddr) =
        (source.parse().expect("an end"), destination.parse().expect("an end"));
    let mut bytes = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut ip = vec![0x46, 0, 0, 99, 0, 0, 0x40, 0, 64, protocol as u8, 0, 0];
            ip.extend(source.octets());
            ip.extend(destination.octets());
            // An option: the header is longer than usual.
            ip.extend([1, 1, 1, 0]);
            ip
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut ip = vec![0x60, 0, 0, 0, 0, 60, protocol as u8, 64];
            ip.extend(source.octets());
            ip.extend(destination.octets());
            ip
        }
        _ => panic!("ends of one IP version"),
    };
    bytes.extend(source.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    bytes.extend([0; 16]);
    bytes
}

fn flow(source: &str, destination: &str) -> FlowKey {
    let end = |text: &str| {
        let end: SocketAddr = text.parse().expect("an end");
        let address = match end.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        Endpoint { address, port: end.port() }
    };
    FlowKey::new(end(source), end(destination)).0
}

fn protocol_of(bytes: &[u8]) -> u32 {
    if bytes[0] >> 4 == 4 { IPV4 } else { IPV6 }
}

fn kept_of(selection: &Selection, bytes: &[u8], protocol: u32) -> u32 {
    let packet = Packet { bytes, protocol, packet_type: 0, hardware_type: 1 };
    run(&program(selection), &packet)
}

fn kept(filter: &str, bytes: &[u8]) -> u32 {
    let filter = Filter::parse(filter).expect("a filter");
    kept_of(&Selection::new(filter.ends(), SNAP), bytes, protocol_of(bytes))
}

#[test]
fn tcp_is_cut_and_lookups_are_kept_whole_and_the_rest_is_dropped() {
    let ends = [("10.0.0.1:1234", "10.0.0.2:53"), ("[2001:db8::1]:1234", "[2001:db8::2]:53")];
    for (client, server) in ends {
        assert_eq!(kept("", &packet(TCP, client, server)), SNAP);
        assert_eq!(kept("", &packet(UDP, client, server)), WHOLE);
        assert_eq!(kept("", &packet(UDP, server, client)), WHOLE);
        assert_eq!(kept("", &packet(132, client, server)), 0);
    }
    assert_eq!(kept("", &packet(UDP, "10.0.0.1:1", "10.0.0.2:443")), 0);
    let arp = [0, 1, 8, 0, 6, 4, 0, 1];
    assert_eq!(kept_of(&Selection::new(&[], SNAP), &arp, 0x0806), 0);
}

#[test]
fn icmp_errors_are_kept_and_echoes_are_not() {
    // The ICMP type is in the place of a port.
    assert_eq!(kept("", &packet(ICMP, "10.0.0.1:768", "10.0.0.2:0")), WHOLE);
    assert_eq!(kept("", &packet(ICMP, "10.0.0.1:2048", "10.0.0.2:0")), 0);
    assert_eq!(kept("", &packet(ICMPV6, "[::1]:512", "[::1]:0")), WHOLE);
    assert_eq!(kept("", &packet(ICMPV6, "[::1]:32768", "[::1]:0")), 0);
}

#[test]
fn later_fragments_are_kept_without_their_ports() {
    for (protocol, offset) in [(TCP, 0x2000), (TCP, 3u16), (UDP, 3)] {
        let mut fragment = packet(protocol, "10.0.0.1:9", "10.0.0.2:9");
        fragment[6..8].copy_from_slice(&offset.to_be_bytes());
        assert_eq!(kept("port 80", &fragment), WHOLE);
        assert_eq!(kept("host 10.0.0.3", &fragment), 0);
    }
    assert_eq!(kept("", &packet(44, "[2001:db8::1]:0", "[2001:db8::2]:0")), WHOLE);
}

/// The kernel keeps what the core's filter does.
#[test]
fn terms_match_as_they_do_in_files() {
    let ends = [
        ("10.0.0.1:40000", "10.0.0.2:80"),
        ("10.0.0.2:80", "10.0.0.1:40000"),
        ("192.0.2.7:8080", "10.0.0.1:443"),
        ("[2001:db8::7]:40000", "[2001:db9::2]:8099"),
        ("[fe80::1]:22", "[fe80::2]:40000"),
    ];
    let filters = [
        "host 10.0.0.1",
        "host 10.0.0.0/30 and port 80,443",
        "not host 10.0.0.2",
        "not host 10.0.0.0/8 and not port 22",
        "port 8000-8099",
        "port 1-79,444-65535",
        "not port 80-90",
        "host 2001:db8::/32",
        "host 2001:db8::7,192.0.2.0/24",
        "host 0.0.0.0/0",
        "host ::/0",
        "not host fe80::/10",
        "host 10.0.0.1 and host 10.0.0.2",
    ];
    for text in filters {
        let filter = Filter::parse(text).expect("a filter");
        for (source, destination) in ends {
            let wanted = filter.matches_flow(&flow(source, destination));
            let bytes = packet(TCP, source, destination);
            assert_eq!(kept(text, &bytes) > 0, wanted, "{text}: {source} {destination}");
        }
    }
}

#[test]
fn many_values_make_a_program_that_the_kernel_takes() {
    let ports: Vec<String> = (0..600).map(|number| (20_000 + 2 * number).to_string()).collect();
    let filter = format!("port {}", ports.join(","));
    assert_eq!(kept(&filter, &packet(TCP, "10.0.0.1:21198", "10.0.0.2:1")), SNAP);
    assert_eq!(kept(&filter, &packet(TCP, "10.0.0.1:21199", "10.0.0.2:1")), 0);
}

#[test]
fn both_directions_and_every_packet_of_a_connection_share_its_fate() {
    let mut selection = Selection::new(&[], SNAP);
    selection.sample.share = Share::ALL.halved();
    for seed in [0, 1, 0xdead_beef] {
        selection.sample.seed = seed;
        for server in ["10.0.0.2:80", "127.0.0.1:80", "[2001:db8::2]:80"] {
            let mut chosen = 0;
            for port in 32_768..33_792 {
                let client = match server.split_once("0.") {
                    Some(_) => format!("127.0.0.1:{port}"),
                    None => format!("[2001:db8::1]:{port}"),
                };
                let there = packet(TCP, &client, server);
                let back = packet(TCP, server, &client);
                let kept = kept_of(&selection, &there, protocol_of(&there));
                assert_eq!(kept, kept_of(&selection, &back, protocol_of(&back)));
                // A tag before the packet, or kernels that announce one before a packet without.
                let tagged = [&[0x20, 0x64][..], &protocol_of(&there).to_be_bytes()[2..], &there];
                assert_eq!(kept, kept_of(&selection, &tagged.concat(), VLANS[0]));
                assert_eq!(kept, kept_of(&selection, &there, VLANS[0]));
                assert_eq!(
                    kept > 0,
                    selection.sample.has(&flow(&client, server)),
                    "{client} {server}"
                );
                chosen += u32::from(kept > 0);
            }
            assert!((450..=574).contains(&chosen), "{server}: {chosen} of 1024");
        }
    }
}

#[test]
fn a_smaller_share_is_part_of_a_larger_one() {
    let (mut kept, all) = (Vec::new(), Selection::new(&[], SNAP));
    let mut share = Share::ALL;
    for _ in 0..4 {
        let sample = Sample { share, ..all.sample };
        let selection = Selection { sample, ..all.clone() };
        let is_kept = |port: &u16| {
            kept_of(&selection, &packet(TCP, &format!("10.0.0.1:{port}"), "10.0.0.2:80"), IPV4) > 0
        };
        let now: Vec<u16> = (1..2_000).filter(is_kept).collect();
        assert!(kept.is_empty() || now.iter().all(|port| kept.contains(port)));
        assert!((now.len() as f64 / 2_000.0 - share.value()).abs() < 0.05, "{}", now.len());
        kept = now;
        share = share.halved();
    }
    assert_eq!(share.doubled().doubled().doubled().doubled().doubled(), Share::ALL);
}

#[test]
fn what_a_loopback_interface_sends_is_seen_as_it_arrives() {
    let program = program(&Selection::new(&[], SNAP));
    let bytes = packet(TCP, "127.0.0.1:1", "127.0.0.1:2");
    let seen = |packet_type: u8, hardware_type: u16| {
        let (packet_type, hardware_type) = (packet_type.into(), hardware_type.into());
        run(&program, &Packet { bytes: &bytes, protocol: IPV4, packet_type, hardware_type }) > 0
    };
    assert!(seen(libc::PACKET_HOST, libc::ARPHRD_LOOPBACK));
    assert!(!seen(libc::PACKET_OUTGOING, libc::ARPHRD_LOOPBACK));
    assert!(seen(libc::PACKET_OUTGOING, 1) && seen(libc::PACKET_HOST, 1));
}
