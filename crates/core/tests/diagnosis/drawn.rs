//! What is drawn of a connection does not contradict what the ledger has of it.

use crate::diagnosis::{diagnose, ms};
use crate::network::capture;
use crate::traces::traces;
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::cause::Owner;
use tcpwhy_core::drill::Drill;
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::report::{ConnectionReport, Ladder, Step};

/// What is drawn beside may differ by so much, ns, and by so small a part of all.
const SLACK_NS: u64 = 2_000_000;
const SLACK_PART: u64 = 50;

/// `connection` of a capture, drawn in full.
fn draw(file: &[u8], connection: &ConnectionReport) -> Ladder {
    let mut capture = CaptureSet::new(vec![Source::memory("capture", file)]).expect("a capture");
    let mut drill = Drill::new(&Options::default(), connection);
    let mut block = Block::default();
    while capture.next_block(&mut block).expect("readable") && drill.take(&block) {}
    drill.finish(None, true).expect("a connection")
}

/// What is drawn as `owner`'s, ns.
fn drawn_ns(ladder: &Ladder, owner: Owner) -> u64 {
    let gaps = ladder.steps.iter().filter_map(|it| match it.step {
        Step::Gap { duration_ns, owner: of, .. } if of == owner => Some(duration_ns),
        _ => None,
    });
    gaps.sum()
}

#[test]
fn nobody_is_drawn_to_have_more_than_is_counted() {
    let mut wrong = Vec::new();
    for (name, trace) in traces() {
        for &place in &trace.vantages {
            let file = capture(&trace, place);
            for connection in diagnose(&file).connections.iter().filter(|it| it.exchanges > 0) {
                let ladder = draw(&file, connection);
                let slack_ns = SLACK_NS + connection.ledger.total_ns() / SLACK_PART;
                for &owner in Owner::ALL {
                    let (drawn, counted) = (drawn_ns(&ladder, owner), connection.ledger.of(owner));
                    if drawn > counted + slack_ns {
                        let (place, drawn, counted) = (place.word(), ms(drawn), ms(counted));
                        wrong.push(format!("{name} {place} {owner:?}: {drawn} of {counted} ms"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn waits_that_no_segment_of_their_sender_ends_are_drawn() {
    let traces = traces();
    for (name, least_ns) in [
        // Its client says more meanwhile.
        ("http2_ping_while_the_server_works", 180_000_000),
        ("server_greets_after_two_seconds", 1_990_000_000),
        ("line_that_is_never_answered", 890_000_000),
    ] {
        let (_, trace) = traces.iter().find(|it| it.0 == name).expect("the trace");
        for &place in &trace.vantages {
            let file = capture(trace, place);
            let drawn = drawn_ns(&draw(&file, &diagnose(&file).connections[0]), Owner::Server);
            assert!(drawn >= least_ns, "{name} at the {}: {} ms", place.word(), ms(drawn));
        }
    }
}
