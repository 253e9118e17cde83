//! Servers that look up the name of their client's address before they answer.

use crate::attempts::Talk;
use crate::diagnosis::diagnose;
use crate::frames::pcap_of;
use crate::names::{CLIENT, MS, REQUEST, RESOLVER, RESPONSE, SERVER, Traffic};
use tcpwhy_core::model::{Cause, Owner, Report};

/// A message about the name of the client's address: a question, or that there is no such name.
fn reverse(flags: u16) -> Vec<u8> {
    let header = [7, flags, 1, 0, 0, 0];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word: &u16| word.to_be_bytes()).collect();
    bytes.extend_from_slice(b"\x011\x010\x010\x0210\x07in-addr\x04arpa\0\0\x0c\0\x01");
    bytes
}

/// Two requests on one connection. After the second the server looks up the client's address for 300 ms,
/// and answers `rest_ns` later.
fn second_waits(rest_ns: u64) -> Report {
    let mut traffic = Traffic::default();
    let mut talk = Talk::new((CLIENT, 40_002), (SERVER, 80));
    talk.say(&mut traffic, MS, true, "S", &[]);
    talk.say(&mut traffic, MS / 20, false, "S.", &[]);
    talk.say(&mut traffic, MS / 2, true, ".", &[]);
    talk.say(&mut traffic, MS, true, "P.", REQUEST);
    talk.say(&mut traffic, MS, false, "P.", RESPONSE);
    talk.say(&mut traffic, 50 * MS, true, "P.", REQUEST);
    traffic.datagram(6 * MS, (SERVER, RESOLVER), &reverse(0x0100));
    traffic.datagram(300 * MS, (RESOLVER, SERVER), &reverse(0x8183));
    talk.say(&mut traffic, rest_ns, false, "P.", RESPONSE);
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

#[test]
fn a_server_that_looks_its_client_up_before_a_later_answer_waits_for_that() {
    let report = second_waits(3 * MS);
    assert_eq!(report.totals.exchanges, 2, "the look-up is a part of the second");
    assert!(report.ledger.of(Owner::Dns) >= 300 * MS, "{:?}", report.ledger);
    assert!(report.ledger.of(Owner::Server) < 20 * MS, "{:?}", report.ledger);
    let thinks = report.findings.iter().any(|it| it.cause == Cause::ServerThink);
    assert!(!thinks, "{:#?}", report.findings);
}

/// Negative twin: the answer comes long after the look-up, so the server did not wait for that.
#[test]
fn a_look_up_amid_longer_work_of_its_server_is_not_waited_for() {
    let report = second_waits(400 * MS);
    assert!(report.ledger.of(Owner::Server) > 600 * MS, "{:?}", report.ledger);
    assert!(report.findings.iter().any(|it| it.cause == Cause::ServerThink));
}
