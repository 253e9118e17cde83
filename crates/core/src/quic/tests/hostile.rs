//! Hostile input: whatever the bytes, nothing panics, the parts sum up, and memory is bounded.

use super::*;
use crate::quic::tracker::{CONNECTIONS_MAX, HANDSHAKES_MAX};
use crate::wire::Side::{Client, Server};
use proptest::prelude::*;

/// A conversation with a Retry that is none, a lost hello and an answer.
fn conversation() -> Vec<Carried> {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    talk.hello(300 * MS, 1);
    let retry = [&talk.header(Server, 3)[..], &[7; 30]].concat();
    talk.send(Server, 310 * MS, &[retry]);
    talk.answer(340 * MS, 0, 1, 1200);
    let more = talk.handshake(Server, 1200);
    talk.send(Server, 341 * MS, &[more]);
    talk.finish(350 * MS);
    for at in 0..6 {
        let packet = talk.short(if at % 2 == 0 { Server } else { Client }, 60);
        talk.send(if at % 2 == 0 { Server } else { Client }, (360 + at) * MS, &[packet]);
    }
    talk.datagrams
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn changed_cut_and_shuffled_datagrams_do_no_harm(
        changes in prop::collection::vec((0_usize..12, 0_usize..1300, any::<u8>()), 0..6),
        cuts in prop::collection::vec((0_usize..12, 0_usize..1300), 0..3),
        swaps in prop::collection::vec((0_usize..12, 0_usize..12), 0..6),
    ) {
        let mut datagrams = conversation();
        for (one, at, byte) in changes {
            if let Some(place) = datagrams[one].payload.get_mut(at) {
                *place = byte;
            }
        }
        for (one, length) in cuts {
            let payload = &datagrams[one].payload;
            let cut = payload[..length.min(payload.len())].into();
            datagrams[one].payload = cut;
        }
        swaps.into_iter().for_each(|(one, other)| datagrams.swap(one, other));
        let mut tracker = Tracker::new(true);
        datagrams.iter().for_each(|it| tracker.datagram(it));
        for handshake in tracker.take_all() {
            // Times go back where datagrams were shuffled; silences do not.
            prop_assert!(handshake.parts.total_ns() <= 8 * 400 * MS);
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(
        datagrams in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..80)), 1..40),
    ) {
        let mut tracker = Tracker::new(true);
        for (at, (from_client, bytes)) in datagrams.into_iter().enumerate() {
            let ends = if from_client { [client(), server()] } else { [server(), client()] };
            tracker.datagram(&Carried {
                time_ns: at as u64,
                frame: FrameId::new(0, at as u64 + 1),
                source: ends[0],
                destination: ends[1],
                payload_bytes: 1200,
                payload: bytes.into(),
            });
        }
        tracker.take_all();
    }
}

#[test]
fn more_connections_than_there_is_room_for_end_the_oldest() {
    let mut talk = Talk::new();
    talk.hello(0, 0);
    let first = talk.datagrams[0].clone();
    let mut tracker = Tracker::new(false);
    let all = CONNECTIONS_MAX as u64 + 10;
    for at in 0..all {
        let source = endpoint((at >> 8) as u8, 40_000 + (at & 0xff) as u16);
        tracker.datagram(&Carried { source, time_ns: at, ..first.clone() });
    }
    assert_eq!(tracker.take_finished().len(), 10);
    assert!(tracker.take_all().len() <= CONNECTIONS_MAX && CONNECTIONS_MAX < HANDSHAKES_MAX);
}
