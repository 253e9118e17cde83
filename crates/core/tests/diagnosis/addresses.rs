//! IPv4 addresses for which two MAC addresses answer (RFC 5227).

use crate::diagnosis::diagnose;
use crate::frames::pcap_of;
use crate::names::{MS, Traffic};
use tcpwhy_core::model::{Fact, Observation, Report};

const ASKING: ([u8; 6], [u8; 4]) = ([2, 0, 0, 0, 0, 1], [10, 0, 0, 1]);
const ONE: [u8; 6] = [2, 0, 0, 0, 0, 0x11];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 0x22];

/// An ARP packet: the operation, and the addresses of its sender and its target.
fn arp(operation: u8, sender: ([u8; 6], [u8; 4]), target: ([u8; 6], [u8; 4])) -> Vec<u8> {
    let to = if operation == 1 { [0xff; 6] } else { target.0 };
    let mut frame = [&to[..], &sender.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
    for (mac, ip) in [sender, target] {
        frame.extend_from_slice(&mac);
        frame.extend_from_slice(&ip);
    }
    frame
}

/// Requests for `addresses`, 5 s apart, each answered by these MAC addresses within a millisecond.
fn asked(rounds: &[(u8, &[[u8; 6]])]) -> Report {
    let mut traffic = Traffic::default();
    for &(host, answering) in rounds {
        let about = [10, 0, 0, host];
        traffic.put(5_000 * MS, arp(1, ASKING, ([0; 6], about)));
        for &mac in answering {
            traffic.put(MS / 2, arp(2, (mac, about), ASKING));
        }
    }
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

fn doubles(report: &Report) -> Vec<&Observation> {
    report.observations.iter().filter(|it| it.id == "duplicate_address").collect()
}

#[test]
fn two_hosts_answer_for_one_address() {
    let report = asked(&[(7, &[ONE, OTHER]), (7, &[OTHER, ONE])]);
    let [double] = doubles(&report)[..] else { panic!("{:?}", report.observations) };
    let fact = |name| double.facts.iter().find(|(known, _)| *known == name).map(|(_, it)| it);
    assert_eq!(fact("address"), Some(&Fact::Text("10.0.0.7".into())));
    assert_eq!(fact("one"), Some(&Fact::Text("02:00:00:00:00:11".into())));
    assert_eq!(fact("other"), Some(&Fact::Text("02:00:00:00:00:22".into())));
    assert_eq!(fact("count"), Some(&Fact::Count(2)));
    assert_eq!(double.frames.len(), 2);
}

/// Negative twins: an address that moves, as in a failover, and back; a reply that is repeated; a
/// router that answers for others.
#[test]
fn an_address_that_moves_and_a_router_that_answers_for_others_are_no_duplicates() {
    for rounds in [
        &[(7, &[ONE][..]), (7, &[OTHER]), (7, &[ONE]), (7, &[OTHER])][..],
        &[(7, &[ONE, ONE])],
        &[(7, &[ONE, OTHER]), (8, &[OTHER]), (9, &[OTHER])],
    ] {
        let report = asked(rounds);
        assert!(doubles(&report).is_empty(), "{rounds:?}: {:?}", report.observations);
    }
}
