//! The drawing of a connection agrees with its ledger.

use crate::diagnosis::{diagnose, ms};
use crate::network::capture;
use crate::traces::{trace, traces};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tcpwhy_core::capture::{Block, CaptureSet, FrameId, Source};
use tcpwhy_core::drill::{Drill, DrillError};
use tcpwhy_core::model::{ConnectionReport, Ledger, Owner, Report};
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::report::{self, Beyond, Ladder, Step};

/// Tolerance of the place of a label, ns.
const SLACK_NS: u64 = 2_000_000;

/// `connection` of a capture, drawn in full.
pub fn draw(file: &[u8], connection: &ConnectionReport) -> Ladder {
    followed(file, connection).finish(None, true).expect("a connection")
}

/// A second pass over a capture that follows `connection`.
fn followed(file: &[u8], connection: &ConnectionReport) -> Drill {
    let mut capture = CaptureSet::new(vec![Source::memory("capture", file)]).expect("a capture");
    let mut drill = Drill::new(&Options::default(), connection);
    let mut block = Block::default();
    while capture.next_block(&mut block).expect("readable") && drill.take(&block) {}
    drill
}

/// Time that is drawn as belonging to `owner`, ns.
fn drawn_ns(ladder: &Ladder, owner: Owner) -> u64 {
    let gaps = ladder.steps.iter().filter_map(|it| match it.step {
        Step::Gap { duration_ns, owner: of, .. } if of == owner => Some(duration_ns),
        _ => None,
    });
    gaps.sum()
}

/// Returns the connections of `file` for which the slices of an exchange do not sum to its ledger, or
/// those of all exchanges to the ledger of the connection; and adds their number to `seen`.
fn unequal(file: &[u8], seen: &mut usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for connection in diagnose(file).connections {
        let exchanges = followed(file, &connection).slices();
        *seen += exchanges.len();
        let mut all = Ledger::default();
        for (number, (ledger, slices)) in (1..).zip(&exchanges) {
            let mut drawn = Ledger::default();
            slices.iter().for_each(|slice| drawn.add(slice.owner, slice.ns));
            slices.iter().for_each(|slice| all.add(slice.owner, slice.ns));
            if drawn != *ledger {
                wrong.push(format!("exchange {number}: {drawn:?} of {ledger:?}"));
            }
        }
        if all != connection.ledger {
            wrong.push(format!("{}: {all:?} of {:?}", connection.client, connection.ledger));
        }
    }
    wrong
}

#[test]
fn the_slices_of_a_drawing_sum_to_the_ledger_by_owner() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let mut look = |name: String, file: &[u8]| {
        wrong.extend(unequal(file, &mut seen).into_iter().map(|it| format!("{name} {it}")));
    };
    for (name, trace) in traces() {
        for &place in &trace.vantages {
            look(format!("{name} {}", place.word()), &capture(&trace, place));
        }
    }
    for path in stored() {
        look(path.display().to_string(), &std::fs::read(&path).expect("a capture"));
    }
    assert!(wrong.is_empty() && seen > 2_000, "{seen} exchanges\n{}", wrong.join("\n"));
}

/// The stored captures.
fn stored() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let all = std::fs::read_dir(folder).expect("a folder").map(|it| it.expect("a file").path());
    all.filter(|path| path.extension().is_some_and(|it| it == "pcap")).collect()
}

#[test]
fn no_owner_is_drawn_with_more_time_than_counted() {
    let mut wrong = Vec::new();
    for (name, trace) in traces() {
        for &place in &trace.vantages {
            let file = capture(&trace, place);
            for connection in diagnose(&file).connections.iter().filter(|it| it.exchanges > 0) {
                let ladder = draw(&file, connection);
                for &owner in Owner::ALL {
                    let (drawn, counted) = (drawn_ns(&ladder, owner), connection.ledger.of(owner));
                    if drawn > counted {
                        let (place, drawn, counted) = (place.word(), ms(drawn), ms(counted));
                        wrong.push(format!("{name} {place} {owner:?}: {drawn} of {counted} ms"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the frames that the command drawing `finding` shows.
fn commanded(file: &[u8], report: &Report, command: &str) -> Result<BTreeSet<FrameId>, DrillError> {
    let words: Vec<_> = command.split([' ', '\'']).filter(|it| !it.is_empty()).collect();
    let value = |name| words.iter().position(|it| *it == name).and_then(|at| words.get(at + 1));
    let pick = value("--connection").expect("a connection");
    let connection = match pick.parse::<usize>() {
        Ok(number) => report.connections.get(number - 1),
        Err(_) => report.connections.iter().find(|it| it.client.to_string() == **pick),
    };
    let connection = connection.expect("a connection of the report");
    let exchange = value("--exchange").map(|it| it.parse().expect("a number"));
    let mut capture = CaptureSet::new(vec![Source::memory("capture", file)]).expect("a capture");
    let mut drill = Drill::new(&Options::default(), connection);
    drill = drill.naming(&Options::default(), report::named(report, connection, exchange));
    let mut block = Block::default();
    while capture.next_block(&mut block).expect("readable") && drill.take(&block) {}
    let ladder = drill.finish(exchange, false)?;
    let frames = ladder.steps.iter().filter_map(|it| match it.step {
        Step::Segment { frame, .. } => Some(frame),
        _ => None,
    });
    Ok(frames.collect())
}

#[test]
fn drawings_of_findings_show_all_frames_of_their_evidence() {
    let (mut wrong, mut drawn) = (Vec::new(), 0);
    let all = traces().into_iter().flat_map(|(name, trace)| {
        let places = trace.vantages.clone();
        places.into_iter().map(move |place| (name.clone(), place.word(), capture(&trace, place)))
    });
    for (name, place, file) in all {
        let report = diagnose(&file);
        for finding in &report.findings {
            let Some(command) = report::draw(&report, finding) else { continue };
            drawn += 1;
            let frames = match commanded(&file, &report, &command) {
                Ok(frames) => frames,
                Err(error) => {
                    wrong.push(format!("{name} {place}: `{command}`: {error}"));
                    continue;
                }
            };
            let missing = finding.evidence.iter().find(|it| !frames.contains(&it.frame));
            if let Some(link) = missing {
                let (cause, frame) = (finding.cause.id(), link.frame.number());
                wrong.push(format!("{name} {place} {cause}: `{command}` lacks #{frame}"));
            }
        }
    }
    assert!(wrong.is_empty() && drawn > 100, "of {drawn}:\n{}", wrong.join("\n"));
}

/// Returns gaps that are drawn longer than the time between the two segments around them. If
/// several sides wait at the same time, the time is drawn more than once, except for a client's
/// pause, in which no other side waits.
fn misplaced(ladder: &Ladder) -> Vec<String> {
    let (mut wrong, mut labels, mut since_ns) = (Vec::new(), Vec::new(), 0);
    for step in &ladder.steps {
        match &step.step {
            // A gap that is marked as extending beyond the drawing may be longer.
            Step::Gap { duration_ns, owner, beyond, .. } if *beyond == Beyond::default() => {
                labels.push((*owner, *duration_ns));
            }
            Step::Segment { frame, .. } => {
                let between_ns = step.time_ns.saturating_sub(since_ns);
                let most_ns = between_ns + SLACK_NS + between_ns / 8;
                let pauses = labels.iter().any(|(owner, _)| *owner == Owner::Client);
                let lengths = labels.drain(..).map(|(_, ns)| ns);
                let named_ns = if pauses { lengths.sum() } else { lengths.max().unwrap_or(0) };
                if named_ns > most_ns {
                    let (named, between) = (ms(named_ns), ms(between_ns));
                    wrong.push(format!("#{}: {named} of {between} ms", frame.number()));
                }
                since_ns = step.time_ns;
            }
            _ => {}
        }
    }
    wrong
}

#[test]
fn a_label_stands_in_the_gap_that_it_names() {
    let mut wrong = Vec::new();
    let mut look = |name: String, file: &[u8]| {
        for connection in diagnose(file).connections.iter().filter(|it| it.exchanges > 0).take(8) {
            let said = misplaced(&draw(file, connection)).into_iter();
            wrong.extend(said.map(|it| format!("{name} {it}")));
        }
    };
    for (name, trace) in traces() {
        for &place in &trace.vantages {
            look(format!("{name} {}", place.word()), &capture(&trace, place));
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    for name in ["tls_handshakes.pcap", "dns_slow.pcap", "dns_timeout.pcap"] {
        look(name.into(), &std::fs::read(folder.join(name)).expect("a capture"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_look_up_that_a_request_waited_for_is_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let file = std::fs::read(folder.join("dns_timeout.pcap")).expect("a capture");
    let report = diagnose(&file);
    let waited = report.connections.iter().filter(|it| it.lookup.is_some());
    let drawn: Vec<_> = waited.map(|it| drawn_ns(&draw(&file, it), Owner::Dns)).collect();
    assert_eq!(drawn.len(), 3);
    assert!(drawn.iter().all(|&ns| ns > 1_000_000_000), "{drawn:?}");
    // No name is drawn for a client that looked up none.
    let trace = trace("healthy_keep_alive_connection");
    let file = capture(&trace, trace.vantages[0]);
    assert!(diagnose(&file).connections.iter().all(|it| it.lookup.is_none()));
}

#[test]
fn waits_that_no_segment_of_their_sender_ends_are_drawn() {
    for (name, least_ns) in [
        // The client sends data meanwhile.
        ("http2_ping_while_the_server_works", 180_000_000),
        ("server_greets_after_two_seconds", 1_990_000_000),
        ("request_line_without_an_answer", 890_000_000),
    ] {
        let trace = trace(name);
        for &place in &trace.vantages {
            let file = capture(&trace, place);
            let drawn = drawn_ns(&draw(&file, &diagnose(&file).connections[0]), Owner::Server);
            assert!(drawn >= least_ns, "{name} at the {}: {} ms", place.word(), ms(drawn));
        }
    }
}
