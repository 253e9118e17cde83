//! Handshakes of QUIC (`testdata/quic`), compared with what the client's qlog says.

use super::{diagnose, testdata};
use tcpwhy_core::model::Fact;
use tcpwhy_core::model::quic::{Handshake, Outcome, Part};

/// The qlog rounds times to a tenth of a millisecond, and a packet is logged before it is sent.
const TOLERANCE_MS: u64 = 1;

/// What the qlog of a capture says.
struct Truth {
    name: &'static str,
    version: u32,
    version_first: Option<u32>,
    /// Time between the first Initial packet and the first 1-RTT packet that the client sent, ms.
    wall_ms: u64,
    /// Time until the client repeated its first packet, which was lost or unanswered, ms; 0 if it did not.
    repeated_ms: u64,
    /// The part that the repetition belongs to.
    part: Part,
    has_retry: bool,
}

const PLAIN: Truth = Truth {
    name: "plain",
    version: 1,
    version_first: None,
    wall_ms: 140,
    repeated_ms: 0,
    part: Part::LostInitial,
    has_retry: false,
};

const TRUTHS: [Truth; 7] = [
    PLAIN,
    Truth { name: "longchain", wall_ms: 136, ..PLAIN },
    Truth { name: "retry", wall_ms: 160, has_retry: true, ..PLAIN },
    Truth { name: "v2", wall_ms: 161, version: 0x6b33_43cf, ..PLAIN },
    Truth { name: "vn", wall_ms: 204, version_first: Some(0x6b33_43cf), ..PLAIN },
    Truth { name: "lost", wall_ms: 304, repeated_ms: 206, ..PLAIN },
    Truth { name: "lostflight", wall_ms: 174, repeated_ms: 95, part: Part::LostFlight, ..PLAIN },
];

fn handshake(name: &str) -> Handshake {
    let report = diagnose(&testdata().join("quic").join(name).with_extension("pcap"));
    let [handshake] = &report.quic.longest[..] else { panic!("{name}: not one connection") };
    handshake.clone()
}

#[test]
fn handshakes_agree_with_the_clients_log() {
    for truth in TRUTHS {
        let (name, found) = (truth.name, handshake(truth.name));
        assert_eq!(found.outcome, Outcome::Completed, "{name}");
        assert_eq!((found.version, found.version_first), (truth.version, truth.version_first));
        assert_eq!(found.has_retry, truth.has_retry, "{name}");
        assert_eq!(found.is_negotiated, truth.version_first.is_some(), "{name}");
        assert_eq!(found.alpn, ["hq-interop"], "{name}");
        assert_eq!(found.parts.total_ns(), found.wall_ns(), "{name}");
        // The server sent 3,600 bytes for the 1,200 of the client's first datagram, then nothing for 28 ms.
        let stopped_at = found.amplification.map(|it| (it.received_bytes, it.sent_bytes));
        assert_eq!(stopped_at, (name == "longchain").then_some((1200, 3600)), "{name}");
        let wall_ms = found.wall_ns() / 1_000_000;
        assert!(wall_ms.abs_diff(truth.wall_ms) <= TOLERANCE_MS, "{name}: {wall_ms} ms");
        assert_eq!(found.repetitions > 0, truth.repeated_ms > 0, "{name}");
        let repeated_ns = found.repeated.map_or(0, |(at_ns, _)| at_ns - found.start_ns);
        let repeated_ms = repeated_ns / 1_000_000;
        assert!(
            repeated_ms.abs_diff(truth.repeated_ms) <= TOLERANCE_MS,
            "{name}: {repeated_ms} ms"
        );
        assert_eq!(found.parts.of(truth.part) > 0, truth.repeated_ms > 0, "{name}: {found:?}");
    }
}

#[test]
fn names_of_servers_are_values() {
    let found = handshake("plain");
    assert_eq!(found.server_name, None);
    assert!(found.name_digest.is_some());
}

#[test]
fn quic_without_an_answer_before_tcp_is_observed_and_a_refusal_is_not() {
    let observed = |name: &str| {
        let report = diagnose(&testdata().join("quic").join(name).with_extension("pcap"));
        let [found] = &report.quic.longest[..] else { panic!("{name}: not one connection") };
        let observation = report.observations.into_iter().find(|it| it.id == "quic_fallback");
        (found.outcome, observation)
    };
    let (outcome, observation) = observed("blocked");
    let observation = observation.expect("an observation");
    assert_eq!(outcome, Outcome::Unanswered);
    assert_eq!(observation.frames.iter().map(|it| it.number()).collect::<Vec<_>>(), [1, 5]);
    let waited = observation.facts.iter().find(|(name, _)| *name == "waited_ns");
    assert!(matches!(waited, Some((_, Fact::Ns(1_622_114_000)))), "{waited:?}");
    let (outcome, observation) = observed("refused");
    assert_eq!((outcome, observation), (Outcome::Refused, None));
}
