//! Captures that begin in the middle, like those of a running system: less is known, so the report
//! may claim less.

use crate::edit::{captures, report};
use tcpwhy_core::model::{Class, Report};

/// Into how many parts each capture is divided: it is cut at the end of each but the last.
const PARTS: usize = 16;

/// Frames of all cuts of one capture together: what bounds the time that the test takes.
const FRAMES_MAX: usize = 40_000;

/// The cause that remains of another one if its beginning was cut off.
const WEAKER: &[(&str, &str)] = &[
    // Of the handshakes that were ignored only the repeated requests are left.
    ("accept_queue_overflow", "retransmission_timeout"),
    // Before the cut, no full segment was seen to pass or to be rejected.
    ("mtu_black_hole", "retransmission_timeout"),
];

/// Known differences; the test fails when one of them disappears.
const KNOWN: &[&str] = &[];

fn faults(report: &Report) -> Vec<&'static str> {
    let faults = report.findings.iter().filter(|one| one.cause.class() == Class::Fault);
    faults.map(|fault| fault.cause.id()).collect()
}

/// Frame numbers at which a capture with this number of frames is cut.
fn cuts(frames: usize) -> Vec<usize> {
    // The mean cut leaves half of the frames.
    let parts = PARTS.min(2 * FRAMES_MAX / frames.max(1)).max(2);
    (1..parts).map(|part| frames * part / parts).collect()
}

#[test]
fn a_capture_cut_in_the_middle_names_no_fault_that_the_whole_does_not() {
    let mut invented = Vec::new();
    for (name, frames) in captures() {
        let whole = faults(&report(&frames));
        let is_part =
            |fault: &str| whole.iter().any(|of| *of == fault || WEAKER.contains(&(*of, fault)));
        for cut in cuts(frames.len()) {
            let found = faults(&report(&frames[cut..]));
            let more = found.into_iter().filter(|fault| !is_part(fault));
            invented.extend(more.map(|fault| format!("{name} from frame {}: {fault}", cut + 1)));
        }
    }
    let new: Vec<_> = invented.iter().filter(|it| !KNOWN.contains(&it.as_str())).collect();
    assert!(new.is_empty(), "{}:\n{new:#?}", new.len());
    let gone: Vec<_> = KNOWN.iter().filter(|it| !invented.iter().any(|one| one == *it)).collect();
    assert!(gone.is_empty(), "no longer differ: {gone:?}");
}
