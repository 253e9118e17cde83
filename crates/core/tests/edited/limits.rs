//! Captures that lack something or are damaged.

use crate::edit::{Edit, Frame, captures, report};
use tcpwhy_core::capture::Problem;
use tcpwhy_core::model::{Class, Report};

/// Known differences; the test fails when one of them disappears.
const KNOWN: &[&str] = &[
    // Cut off: TCP headers below a longer link or IP header, names, header fields of HTTP.
    "any_c snap_54: misses nagle_delayed_ack",
    "error_responses snap_54: misses error_responses",
    "error_responses snap_68: misses error_responses",
    "error_responses snap_96: misses error_responses",
    "no_answer snap_54: misses no_answer",
    "no_answer snap_68: misses no_answer",
    "no_answer snap_96: misses no_answer",
    "no_answer snap_128: misses no_answer",
    "dns_slow snap_54: misses dns_slow",
    "dns_timeout snap_54: misses dns_timeout",
    "http_100_continue snap_54: misses http_100_continue",
    "http_100_continue snap_68: misses http_100_continue",
    "http_100_continue snap_96: misses http_100_continue",
    "http_100_continue snap_128: misses http_100_continue",
    "ipv6_python snap_54: misses nagle_delayed_ack",
    "vlan snap_54: misses nagle_delayed_ack",
    // Without D-SACKs a needless repetition looks like a needed one.
    "reordering snap_54: invents fast_recovery",
    "reordering snap_54: misses reordering",
    // A query, a SYN-ACK or an ACK that was not captured may as well have been lost.
    "accept_queue drops: invents retransmission_timeout",
];

/// Every frame again after `delay_ns`.
fn twice(frames: &[Frame], delay_ns: u64) -> Vec<Frame> {
    let copy = |frame: &Frame| Frame { time_ns: frame.time_ns + delay_ns, ..frame.clone() };
    in_order(frames.iter().flat_map(|frame| [frame.clone(), copy(frame)]).collect())
}

fn in_order(mut frames: Vec<Frame>) -> Vec<Frame> {
    frames.sort_by_key(|frame| frame.time_ns);
    frames
}

/// Every frame before and after a router: another TTL, another MAC address.
fn routed_twice(frames: &[Frame], delay_ns: u64) -> Vec<Frame> {
    let copy = |frame: &Frame| {
        let mut copy = Frame { time_ns: frame.time_ns + delay_ns, ..frame.clone() };
        if let Some(at) = frame.ip_at() {
            let ttl = if frame.bytes[at] >> 4 == 4 { at + 8 } else { at + 7 };
            copy.bytes[ttl] -= 1;
        }
        copy
    };
    in_order(frames.iter().flat_map(|frame| [frame.clone(), copy(frame)]).collect())
}

fn stepped(frames: &[Frame], step_ns: i64) -> Vec<Frame> {
    let step = |(index, frame): (usize, &Frame)| {
        let late = if index > frames.len() / 2 { step_ns } else { 0 };
        Frame { time_ns: frame.time_ns.saturating_add_signed(late), ..frame.clone() }
    };
    frames.iter().enumerate().map(step).collect()
}

/// A clock that is set back and forth in turn, every 20 frames.
fn back_and_forth(frames: &[Frame]) -> Vec<Frame> {
    let step = |(index, frame): (usize, &Frame)| {
        let late = if index / 20 % 2 == 1 { -50_000_000 } else { 0 };
        Frame { time_ns: frame.time_ns.saturating_add_signed(late), ..frame.clone() }
    };
    frames.iter().enumerate().map(step).collect()
}

/// Returns whether the frame's TCP or UDP source port is the lower one, which is usually a
/// server's.
fn from_server(frame: &Frame) -> Option<bool> {
    let at = frame.transport_at()?;
    let ports = frame.bytes.get(at..at + 4)?;
    Some(ports[..2] < ports[2..])
}

fn one_direction(frames: &[Frame], client: bool) -> Vec<Frame> {
    let kept = |frame: &&Frame| from_server(frame) != Some(client);
    frames.iter().filter(kept).cloned().collect()
}

/// One frame in `of` is missing.
fn without(frames: &[Frame], of: u64) -> Vec<Frame> {
    let mut state = 7_u64;
    let kept = |_: &&Frame| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        !(state >> 33).is_multiple_of(of)
    };
    frames.iter().filter(kept).cloned().collect()
}

/// A tenth of the capture is missing in the middle, as when the disk was busy.
fn hole(frames: &[Frame]) -> Vec<Frame> {
    let (from, to) = (frames.len() * 5 / 10, frames.len() * 6 / 10);
    [&frames[..from], &frames[to..]].concat()
}

fn cut(frames: &[Frame], snap: usize) -> Vec<Frame> {
    let cut = |frame: &Frame| {
        let mut cut = frame.clone();
        cut.bytes.truncate(snap);
        cut
    };
    frames.iter().map(cut).collect()
}

/// Edits of a capture, and the observation that the report has to make.
const SAID: &[(&str, Edit, &str)] = &[
    ("twice", |frames| twice(frames, 3_000), "capture_duplicates"),
    ("mirror", |frames| routed_twice(frames, 60_000), "capture_duplicates"),
    ("client_only", |frames| one_direction(frames, true), "asymmetric_capture"),
    ("server_only", |frames| one_direction(frames, false), "asymmetric_capture"),
    ("hole", hole, ""),
    ("drops", |frames| without(frames, 20), ""),
    ("clock_step", |frames| stepped(frames, -400_000_000), ""),
    ("clock_steps", back_and_forth, ""),
    ("snap_54", |frames| cut(frames, 54), "truncated_headers"),
    ("snap_68", |frames| cut(frames, 68), "truncated_payload"),
    ("snap_96", |frames| cut(frames, 96), "truncated_payload"),
    ("snap_128", |frames| cut(frames, 128), ""),
];

fn faults(report: &Report) -> Vec<&'static str> {
    let faults = report.findings.iter().filter(|one| one.cause.class() == Class::Fault);
    faults.map(|fault| fault.cause.id()).collect()
}

fn differences(edit: &str, said: &str, whole: &Report, edited: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    let known = faults(whole);
    let found = faults(edited);
    wrong.extend(found.iter().filter(|it| !known.contains(it)).map(|it| format!("invents {it}")));
    let one_way = edit.ends_with("only");
    if let Some(first) = known.first()
        && !found.contains(first)
        && !one_way
    {
        wrong.push(format!("misses {first}"));
    }
    let ids: Vec<_> = edited.observations.iter().map(|one| one.id).collect();
    let undecoded = edited.totals.decode_errors.errors().next().is_some();
    if !said.is_empty() && !ids.contains(&said) && !undecoded {
        wrong.push(format!("does not say {said}"));
    }
    wrong
}

#[test]
fn the_limits_of_a_capture_are_said_and_invent_no_fault() {
    let (mut wrong, mut known) = (Vec::new(), Vec::new());
    for (name, frames) in captures() {
        let whole = report(&frames);
        for &(edit, apply, said) in SAID {
            for difference in differences(edit, said, &whole, &report(&apply(&frames))) {
                let what = format!("{name} {edit}: {difference}");
                if KNOWN.contains(&what.as_str()) {
                    known.push(what);
                } else {
                    wrong.push(what);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    let agree: Vec<_> = KNOWN.iter().filter(|it| !known.iter().any(|known| known == *it)).collect();
    assert!(agree.is_empty(), "no longer differ: {agree:?}");
}

/// The limit of a transfer shows in any part of it.
#[test]
fn a_capture_that_begins_in_the_middle_names_the_same() {
    let lasting = ["receive_window", "send_buffer", "nginx_nodelay_off", "jdk_httpserver"];
    let lasts = |name: &str| lasting.iter().any(|one| name.split(['.', '-']).next() == Some(*one));
    for (name, frames) in captures().into_iter().filter(|(name, _)| lasts(name)) {
        let middle = report(&frames[frames.len() / 3..frames.len() * 9 / 10]);
        assert_eq!(faults(&middle), faults(&report(&frames)), "{name}");
    }
}

#[test]
fn packets_captured_twice_change_nothing() {
    for (name, frames) in captures() {
        let whole = report(&frames);
        for edited in [twice(&frames, 3_000), routed_twice(&frames, 60_000)] {
            let found = report(&edited);
            assert_eq!(found.totals.exchanges, whole.totals.exchanges, "{name}");
            assert_eq!(faults(&found), faults(&whole), "{name}");
        }
    }
}

#[test]
fn a_step_of_the_clock_is_said() {
    for (name, frames) in captures() {
        let edited = stepped(&frames, -400_000_000);
        let goes_back = edited.windows(2).any(|pair| pair[1].time_ns < pair[0].time_ns);
        let said = report(&edited).inputs[0]
            .problems
            .iter()
            .any(|problem| matches!(problem, Problem::ClockStep { .. }));
        assert_eq!(said, goes_back, "{name}");
    }
}
