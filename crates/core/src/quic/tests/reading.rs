//! Reading of Initial packets: any cut, any order, any split.

use super::*;
use crate::wire::Side::Client;
use proptest::prelude::*;

/// The hello in pieces that begin at `cuts`, in an order, `per` pieces to a packet, and two packets to
/// a datagram if they are coalesced.
fn divided(cuts: &[usize], order: &[usize], per: usize, is_coalesced: bool) -> Talk {
    let mut talk = Talk::new();
    let hello = client_hello();
    let mut edges: Vec<usize> = cuts.iter().map(|cut| cut % hello.len()).collect();
    edges.extend([0, hello.len()]);
    edges.sort_unstable();
    edges.dedup();
    let mut pieces: Vec<Vec<u8>> =
        edges.windows(2).map(|pair| crypto(pair[0], &hello[pair[0]..pair[1]])).collect();
    let count = pieces.len();
    order.iter().for_each(|place| pieces.swap(place % count, count - 1));
    let packets: Vec<Vec<u8>> = pieces
        .chunks(per)
        .enumerate()
        .map(|(number, all)| talk.initial(Client, number as u8, &all.concat(), 1200))
        .collect();
    for datagram in packets.chunks(if is_coalesced { 2 } else { 1 }) {
        talk.send(Client, 0, datagram);
    }
    talk
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_hello_is_read_however_it_is_divided(
        cuts in prop::collection::vec(0_usize..1000, 0..12),
        order in prop::collection::vec(0_usize..16, 0..8),
        per in 1_usize..4,
        is_coalesced: bool,
    ) {
        let handshake = divided(&cuts, &order, per, is_coalesced).result();
        prop_assert_eq!(handshake.server_name.as_deref(), Some("example.org"));
        prop_assert_eq!(handshake.alpn, ["h3"]);
        prop_assert_eq!(handshake.repetitions, 0);
    }
}

#[test]
fn two_connections_between_the_same_ports_are_two() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    (talk.key_id, talk.to_server) = (vec![4; 8], vec![4; 8]);
    talk.hello(MS, 0);
    assert_eq!(talk.handshakes().len(), 2);
}

#[test]
fn a_connection_that_was_idle_for_half_a_minute_has_ended() {
    for (idle_s, connections) in [(20, 1), (31, 2)] {
        let mut talk = Talk::new();
        talk.hello(0, 0);
        talk.hello(idle_s * 1000 * MS, 1);
        assert_eq!(talk.handshakes().len(), connections, "{idle_s} s");
    }
}

#[test]
fn a_packet_that_does_not_open_begins_no_connection() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    let payload = &mut talk.datagrams[0].payload;
    payload[100] ^= 1;
    assert_eq!(talk.handshakes().len(), 0);
}

#[test]
fn a_datagram_that_the_capture_cut_is_recognised_by_its_header() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    let whole = talk.datagrams[0].payload.clone();
    talk.datagrams[0].payload = whole[..60].into();
    let handshake = talk.result();
    assert_eq!((handshake.version, handshake.server_name), (1, None));
    talk.datagrams[0].payload_bytes = 600;
    assert_eq!(talk.handshakes().len(), 0, "a client pads its first datagram to 1,200 bytes");
}

#[test]
fn protocols_that_are_not_registered_and_names_of_servers_are_values() {
    let mut talk = Talk::new();
    let hello = client_hello();
    let place = hello.windows(3).position(|it| it == b"\x02h3").expect("h3");
    for (with, shown) in [(*b"h3", "h3"), (*b"qx", "other")] {
        let mut changed = hello.clone();
        changed[place + 1..place + 3].copy_from_slice(&with);
        let packet = talk.initial(Client, 0, &crypto(0, &changed), 1200);
        talk.datagrams.clear();
        talk.send(Client, 0, &[packet]);
        let mut tracker = Tracker::new(false);
        tracker.datagram(&talk.datagrams[0]);
        let [handshake] = &tracker.take_all()[..] else { panic!("not one connection") };
        assert_eq!((&handshake.server_name, &handshake.alpn[..]), (&None, &[shown.to_owned()][..]));
    }
}
