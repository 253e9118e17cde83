//! Whose time a handshake took. The capture is at the client, 40 ms from the server.

use super::*;
use crate::model::quic::Outcome;
use crate::wire::Side::{Client, Server};

#[test]
fn a_handshake_of_one_round_trip_is_path() {
    for version in [QuicVersion::V1, QuicVersion::V2] {
        let mut talk = Talk { version, ..Talk::new() };
        talk.hello(0, 0);
        talk.answer(40 * MS, 0, 0, 1200);
        talk.finish(41 * MS);
        let handshake = talk.result();
        assert_eq!(handshake.outcome, Outcome::Completed);
        assert_eq!(parts(&handshake), [(Part::Path, 41)]);
        assert_eq!(handshake.server_name.as_deref(), Some("example.org"));
        assert_eq!((handshake.alpn, handshake.tls_versions), (vec!["h3".into()], vec![0x304]));
        assert_eq!(handshake.is_resumed, Some(false));
        assert_eq!(handshake.rtt_min_ns, Some(41 * MS));
    }
}

#[test]
fn a_server_that_acknowledged_and_sends_its_flight_later_worked_meanwhile() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    let acks = talk.initial(Server, 0, &ack(0, 0), 0);
    talk.send(Server, 40 * MS, &[acks]);
    talk.answer(340 * MS, 1, 0, 1200);
    talk.finish(341 * MS);
    assert_eq!(parts(&talk.result()), [(Part::Path, 41), (Part::Server, 300)]);
}

#[test]
fn a_lost_hello_is_one_whose_number_is_never_acknowledged() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    talk.hello(1000 * MS, 1);
    talk.answer(1040 * MS, 0, 1, 1200);
    talk.finish(1041 * MS);
    let handshake = talk.result();
    assert_eq!(parts(&handshake), [(Part::Path, 41), (Part::LostInitial, 1000)]);
    assert_eq!(
        (handshake.repetitions, handshake.repeated),
        (1, Some((1000 * MS, FrameId::new(0, 2))))
    );
}

#[test]
fn a_probe_beside_a_slow_answer_is_no_loss() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    talk.hello(200 * MS, 1);
    // The first packet had arrived: the ACK is of both.
    let frames = [ack(0, 1), crypto(0, &server_hello())].concat();
    let initial = talk.initial(Server, 0, &frames, 0);
    let handshake = talk.handshake(Server, 900);
    talk.send(Server, 240 * MS, &[initial, handshake]);
    talk.finish(241 * MS);
    let handshake = talk.result();
    assert_eq!(handshake.parts.of(Part::LostInitial), 0);
    assert_eq!(handshake.repetitions, 1);
}

#[test]
fn an_answer_that_is_not_the_servers_first_packet_repeats_a_lost_one() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    talk.hello(300 * MS, 1);
    let frames = [ack(0, 1), crypto(0, &server_hello())].concat();
    let initial = talk.initial(Server, 1, &frames, 0);
    let rest = talk.handshake(Server, 900);
    talk.send(Server, 340 * MS, &[initial, rest]);
    talk.finish(341 * MS);
    let handshake = talk.result();
    let lost = handshake.parts.of(Part::LostFlight);
    assert_eq!((lost / MS, handshake.parts.of(Part::LostInitial)), (300, 0));
}

#[test]
fn a_part_of_the_hello_that_is_lost_is_not_the_servers_time() {
    let mut talk = Talk::new();
    let hello = client_hello();
    let (one, two) = hello.split_at(30);
    let first = talk.initial(Client, 0, &crypto(0, one), 1200);
    talk.send(Client, 0, &[first]);
    let second = talk.initial(Client, 1, &crypto(30, two), 1200);
    talk.send(Client, 0, &[second]);
    let acks = talk.initial(Server, 0, &ack(0, 0), 0);
    talk.send(Server, 40 * MS, &[acks]);
    let again = talk.initial(Client, 2, &crypto(30, two), 1200);
    talk.send(Client, 500 * MS, &[again]);
    talk.answer(540 * MS, 1, 2, 1200);
    talk.finish(541 * MS);
    assert_eq!(parts(&talk.result()), [(Part::Path, 41), (Part::LostInitial, 500)]);
}

/// A Retry that answers the first packets, with the right tag.
fn retry(talk: &Talk) -> Vec<u8> {
    let packet = [&talk.header(Server, 3)[..], b"token"].concat();
    let tag = talk.version.retry_tag(&FIRST_ID, &packet).expect("a tag");
    [&packet[..], &tag].concat()
}

#[test]
fn a_retry_costs_a_round_trip_and_changes_the_keys() {
    for is_genuine in [true, false] {
        let mut talk = Talk::new();
        talk.hello(0, 0);
        let mut packet = retry(&talk);
        *packet.last_mut().expect("a tag") ^= u8::from(!is_genuine);
        talk.send(Server, 40 * MS, &[packet]);
        if is_genuine {
            (talk.key_id, talk.to_server) = (SERVER_ID.to_vec(), SERVER_ID.to_vec());
            talk.token = b"token".to_vec();
        }
        talk.hello(41 * MS, 1);
        talk.answer(81 * MS, 0, 1, 1200);
        talk.finish(82 * MS);
        let handshake = talk.result();
        assert_eq!(handshake.has_retry, is_genuine);
        assert_eq!(handshake.parts.of(Part::Retry) / MS, if is_genuine { 41 } else { 0 });
        assert_eq!(handshake.outcome, Outcome::Completed);
    }
}

#[test]
fn a_version_negotiation_costs_a_round_trip() {
    let mut talk = Talk { version: QuicVersion::V2, ..Talk::new() };
    talk.hello(0, 0);
    let mut packet = vec![0x80, 0, 0, 0, 0, 4];
    packet.extend(CLIENT_ID);
    packet.push(8);
    packet.extend(FIRST_ID);
    packet.extend([0, 0, 0, 1]);
    talk.send(Server, 40 * MS, &[packet]);
    talk.version = QuicVersion::V1;
    talk.hello(41 * MS, 0);
    talk.answer(81 * MS, 0, 0, 1200);
    talk.finish(82 * MS);
    let handshake = talk.result();
    assert!(handshake.is_negotiated);
    assert_eq!((handshake.version, handshake.version_first), (1, Some(0x6b33_43cf)));
    assert_eq!(parts(&handshake), [(Part::Path, 41), (Part::VersionNegotiation, 41)]);
}

/// A server whose flight has 5 datagrams; 3 fit into the limit of what the client sent.
fn long_flight(talk: &mut Talk, pause_ns: u64, before_ns: u64) {
    talk.hello(0, 0);
    talk.answer(40 * MS, 0, 0, 1200);
    for _ in 0..2 {
        let more = talk.handshake(Server, 1200);
        talk.send(Server, 40 * MS, &[more]);
    }
    talk.to_server = SERVER_ID.to_vec();
    let acks = talk.initial(Client, 1, &ack(0, 0), 1200);
    talk.send(Client, before_ns, &[acks]);
    for _ in 0..2 {
        let more = talk.handshake(Server, 1200);
        talk.send(Server, before_ns + pause_ns, &[more]);
    }
    talk.finish(before_ns + pause_ns + MS);
}

#[test]
fn a_flight_beyond_three_times_the_hello_waits_for_the_client() {
    let mut talk = Talk::new();
    long_flight(&mut talk, 40 * MS, 41 * MS);
    let handshake = talk.result();
    assert_eq!(parts(&handshake), [(Part::Path, 41), (Part::Amplification, 41)]);
    let found = handshake.amplification.expect("a stall");
    assert_eq!((found.received_bytes, found.sent_bytes, found.flight_bytes), (1200, 3600, 6000));
    assert_eq!((found.stopped.number(), found.went_on.number()), (4, 6));
}

#[test]
fn a_datagram_of_the_client_that_crosses_the_flight_releases_it_after_a_round_trip() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    talk.answer(40 * MS, 0, 0, 1200);
    talk.to_server = SERVER_ID.to_vec();
    let validates = [talk.initial(Client, 1, &ack(0, 0), 1100), talk.handshake(Client, 100)];
    talk.send(Client, 41 * MS, &validates);
    for _ in 0..2 {
        let more = talk.handshake(Server, 1200);
        talk.send(Server, 42 * MS, &[more]);
    }
    let more = talk.handshake(Server, 1200);
    talk.send(Server, 81 * MS, &[more]);
    talk.finish(82 * MS);
    let handshake = talk.result();
    assert_eq!(handshake.parts.of(Part::Amplification), 39 * MS);
    assert_eq!(handshake.amplification.map(|it| it.sent_bytes), Some(3600));
}

#[test]
fn an_acknowledgment_behind_a_full_flight_is_no_rest_of_it() {
    for (bytes, is_rest) in [(250, false), (500, true)] {
        let mut talk = Talk::new();
        talk.hello(0, 0);
        talk.answer(40 * MS, 0, 0, 1200);
        for _ in 0..2 {
            let more = talk.handshake(Server, 1200);
            talk.send(Server, 40 * MS, &[more]);
        }
        talk.to_server = SERVER_ID.to_vec();
        let acks = talk.initial(Client, 1, &ack(0, 0), 1200);
        talk.send(Client, 41 * MS, &[acks]);
        let last = talk.handshake(Server, bytes);
        talk.send(Server, 81 * MS, &[last]);
        talk.finish(82 * MS);
        assert_eq!(talk.result().amplification.is_some(), is_rest, "{bytes} bytes");
    }
}

#[test]
fn a_client_that_is_validated_by_a_token_holds_no_flight_back() {
    let mut talk = Talk { token: b"of an earlier connection".to_vec(), ..Talk::new() };
    long_flight(&mut talk, 40 * MS, 41 * MS);
    let handshake = talk.result();
    assert_eq!((handshake.amplification, handshake.parts.of(Part::Amplification)), (None, 0));
}

#[test]
fn a_server_below_the_limit_that_pauses_works_itself() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    talk.answer(40 * MS, 0, 0, 1200);
    let more = talk.handshake(Server, 1200);
    talk.send(Server, 60 * MS, &[more]);
    talk.finish(61 * MS);
    let handshake = talk.result();
    assert_eq!(handshake.amplification, None);
    assert_eq!(parts(&handshake), [(Part::Path, 41), (Part::Server, 20)]);
}

#[test]
fn attempts_without_an_answer_and_with_a_refusal_are_told_apart() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    talk.hello(1000 * MS, 1);
    let close = talk.initial(Client, 2, &[0x1c, 0, 0, 0], 1200);
    talk.send(Client, 2000 * MS, &[close]);
    assert_eq!(talk.result().outcome, Outcome::Unanswered);
    let mut tracker = Tracker::new(false);
    talk.datagrams.iter().for_each(|it| tracker.datagram(it));
    tracker.rejected(&client(), &server());
    let [refused] = &tracker.take_all()[..] else { panic!("not one connection") };
    assert_eq!((refused.outcome, &refused.server_name), (Outcome::Refused, &None));
    assert!(refused.name_digest.is_some());
}

#[test]
fn an_answer_that_was_not_captured_is_not_said_to_be_missing() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    assert_eq!(talk.result().outcome, Outcome::Unfinished, "the capture ends too early");
    talk.hello(1000 * MS, 1);
    assert_eq!(talk.result().outcome, Outcome::Unanswered);
    talk.finish(1040 * MS);
    assert_eq!(talk.result().outcome, Outcome::Unfinished, "only the client was captured");
}

#[test]
fn an_error_in_an_initial_packet_is_named() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    let close = [ack(0, 0), vec![0x1c, 2, 0, 0]].concat();
    let packet = talk.initial(Server, 0, &close, 0);
    talk.send(Server, 40 * MS, &[packet]);
    let handshake = talk.result();
    let (close, by_client) = handshake.close.expect("an error");
    assert_eq!((handshake.outcome, close.code, by_client), (Outcome::Closed, 2, false));
}
