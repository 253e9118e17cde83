//! A capture whose clock was set, or that holds frames of a wrong time. How much time passed across such a
//! step is unknown: it is no cause's, and no exchange took longer for it.

use crate::edit::{Frame, captures, report};
use std::ops::Range;
use tcpwhy_core::model::{Class, Owner, Report};

const S: i64 = 1_000_000_000;

/// Steps of a clock, ns: a little more than the delay with which frames may be written, the length
/// of a timer, a day, and half a century (a clock that begins in 1970).
const STEPS_NS: [i64; 4] = [-5 * S / 4, -7 * S, -86_400 * S, -50 * 365 * 86_400 * S];

/// An interval smaller than any step of the clock, ns.
const LESS_NS: u64 = 100_000_000;

fn moved(frames: &[Frame], range: Range<usize>, by_ns: i64) -> Vec<Frame> {
    let mut frames = frames.to_vec();
    for frame in &mut frames[range] {
        frame.time_ns = frame.time_ns.saturating_add_signed(by_ns);
    }
    frames
}

/// Returns the capture after each step of the clock.
fn stepped(frames: &[Frame]) -> Vec<(String, Vec<Frame>)> {
    let (count, mut edits) = (frames.len(), Vec::new());
    for part in 1..4 {
        let at = count * part / 4;
        for by_ns in STEPS_NS {
            let mut edit = |what: &str, range: Range<usize>, by_ns| {
                let name = format!("frame {at} {what} by {by_ns} ns");
                edits.push((name, moved(frames, range, by_ns)));
            };
            edit("set", at..count, by_ns);
            for frames in [1, 9] {
                let range = at..(at + frames).min(count - 1);
                edit(&format!("and {frames} aside"), range.clone(), by_ns);
                edit(&format!("and {frames} ahead"), range, -by_ns);
            }
        }
    }
    edits
}

/// Returns findings of the edited capture that the original one does not have.
fn invented(was: &Report, is: &Report) -> Vec<String> {
    let mut invented = Vec::new();
    let mut grows = |what: &str, was_ns: u64, is_ns: u64| {
        if is_ns > was_ns + LESS_NS {
            invented.push(format!("{what} {} ms, not {}", is_ns / 1_000_000, was_ns / 1_000_000));
        }
    };
    let owned_ns = |report: &Report| -> u64 {
        let owned = report.ledger.iter().filter(|(owner, _)| *owner != Owner::Unknown);
        owned.map(|(_, ns)| ns).sum()
    };
    grows("all owners", owned_ns(was), owned_ns(is));
    let lost_ns = |report: &Report, fault: bool| -> u64 {
        let of_class = |class| (class == Class::Fault) == fault;
        let counted = report.findings.iter().filter(|it| of_class(it.cause.class()));
        counted.map(|it| it.lost_ns).sum()
    };
    grows("faults", lost_ns(was, true), lost_ns(is, true));
    grows("p50", was.latency.p50_ns, is.latency.p50_ns);
    grows("p99", was.latency.p99_ns, is.latency.p99_ns);
    grows("the longest", was.latency.max_ns, is.latency.max_ns);
    grows("the capture", span_ns(was), span_ns(is));
    for finding in is.findings.iter().filter(|it| it.cause.class() == Class::Fault) {
        if !was.findings.iter().any(|it| it.cause == finding.cause) {
            invented.push(finding.cause.id().to_owned());
        }
    }
    invented
}

fn span_ns(report: &Report) -> u64 {
    report.totals.last_ns - report.totals.first_ns
}

#[test]
fn a_step_of_the_clock_has_no_owner() {
    let mut wrong = Vec::new();
    for (name, frames) in captures() {
        let was = report(&frames);
        for (step, edited) in stepped(&frames) {
            let is = report(&edited);
            let invented = invented(&was, &is);
            if !invented.is_empty() {
                wrong.push(format!("{name} {step}: {}", invented.join("; ")));
            }
            let kinds = is.inputs.iter().flat_map(|input| &input.problems);
            assert!(kinds.into_iter().any(|it| it.kind() == "clock_step"), "{name} {step}");
        }
    }
    assert!(wrong.is_empty(), "{}:\n{wrong:#?}", wrong.len());
}
