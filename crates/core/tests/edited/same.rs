//! Edits that must not change the findings: other numbers, other names, coarser times, another
//! order of simultaneous events, options removed by a middlebox.

use crate::edit::{Edit, Frame, captures, report};
use std::collections::HashMap;
use tcpwhy_core::model::{Class, Report};

/// Known differences; the test fails when one of them disappears.
const KNOWN: &[&str] = &[
    // The overtaken segment comes after the ACK of its repetition.
    "reordering exchanged: invents fast_recovery by network",
    "reordering exchanged: misses reordering by network",
    // Frames are taken in the order in which a file has them.
    "both_ends-client written_late: misses retransmission_timeout by network",
    "reordering written_late: invents fast_recovery by network",
    "reordering written_late: misses reordering by network",
    "zero_window-healthy written_late: invents reordering by network",
];

/// One end's address and port, as they are in the headers.
type End = (Vec<u8>, [u8; 2]);

/// A TCP segment of a frame: the offset of its header, and its addresses.
struct Tcp {
    at: usize,
    ends: [End; 2],
    payload_len: u32,
}

impl Tcp {
    fn of(frame: &Frame) -> Option<Self> {
        let (ip, at) = (frame.ip_at()?, frame.transport_at()?);
        let bytes = &frame.bytes;
        let is_v4 = bytes[ip] >> 4 == 4;
        let (protocol, addresses, len) = if is_v4 { (9, 12, 4) } else { (6, 8, 16) };
        if bytes[ip + protocol] != 6 || bytes.len() < at + 20 {
            return None;
        }
        let end = |side: usize| {
            let address = bytes[ip + addresses + side * len..][..len].to_vec();
            (address, [bytes[at + 2 * side], bytes[at + 2 * side + 1]])
        };
        let header = usize::from(bytes[at + 12] >> 4) * 4;
        let payload_len = frame.original_len.saturating_sub(at + header) as u32;
        Some(Self { at, ends: [end(0), end(1)], payload_len })
    }

    /// Its options: kind, and the offsets of the value.
    fn options(&self, bytes: &[u8]) -> Vec<(u8, std::ops::Range<usize>)> {
        let end = (self.at + usize::from(bytes[self.at + 12] >> 4) * 4).min(bytes.len());
        let (mut at, mut options) = (self.at + 20, Vec::new());
        while at + 1 < end && bytes[at] != 0 {
            let len = if bytes[at] == 1 { 1 } else { usize::from(bytes[at + 1]).max(2) };
            if bytes[at] != 1 && at + len <= end {
                options.push((bytes[at], at..at + len));
            }
            at += len;
        }
        options
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

fn add(bytes: &mut [u8], at: usize, by: u32) {
    put(bytes, at, word(bytes, at).wrapping_add(by));
}

fn each(frames: &[Frame], edit: impl Fn(&mut Frame, &Tcp)) -> Vec<Frame> {
    let edited = |frame: &Frame| {
        let mut frame = frame.clone();
        if let Some(tcp) = Tcp::of(&frame) {
            edit(&mut frame, &tcp);
        }
        frame
    };
    frames.iter().map(edited).collect()
}

/// Sequence numbers begin so that they go through zero in the middle of what each side sends.
fn wrapping(frames: &[Frame]) -> Vec<Frame> {
    let mut seqs: HashMap<[End; 2], Vec<u32>> = HashMap::new();
    for frame in frames {
        if let Some(tcp) = Tcp::of(frame).filter(|tcp| tcp.payload_len > 0) {
            let seq = word(&frame.bytes, tcp.at + 4);
            seqs.entry(tcp.ends).or_default().push(seq);
        }
    }
    let later = |from: &End, to: &End| {
        let seqs = seqs.get(&[from.clone(), to.clone()]);
        seqs.map_or(0, |seqs| 0_u32.wrapping_sub(seqs[seqs.len() / 2] + 7))
    };
    each(frames, |frame, tcp| {
        let [from, to] = &tcp.ends;
        let (own, peers) = (later(from, to), later(to, from));
        let bytes = &mut frame.bytes;
        add(bytes, tcp.at + 4, own);
        if bytes[tcp.at + 13] & 0x10 != 0 {
            add(bytes, tcp.at + 8, peers);
        }
        for (_, sack) in tcp.options(bytes).into_iter().filter(|(kind, _)| *kind == 5) {
            for at in (sack.start + 2..sack.end - 3).step_by(4) {
                add(bytes, at, peers);
            }
        }
    })
}

/// A middlebox overwrites timestamps, in SYNs too (RFC 9293 §3.1: an option of no operation).
fn without_timestamps(frames: &[Frame]) -> Vec<Frame> {
    each(frames, |frame, tcp| {
        for (_, stamps) in tcp.options(&frame.bytes).into_iter().filter(|(kind, _)| *kind == 8) {
            frame.bytes[stamps].fill(1);
        }
    })
}

/// Keeps the timestamp option and clears its echo.
fn without_echoes(frames: &[Frame]) -> Vec<Frame> {
    each(frames, |frame, tcp| {
        for (_, stamps) in tcp.options(&frame.bytes).into_iter().filter(|(kind, _)| *kind == 8) {
            put(&mut frame.bytes, stamps.start + 6, 0);
        }
    })
}

/// Servers use high ports and clients low ones, so that only SYNs show which end is the client.
fn ports_turned(frames: &[Frame]) -> Vec<Frame> {
    each(frames, |frame, tcp| {
        for at in [tcp.at, tcp.at + 2] {
            let port = u16::from_be_bytes([frame.bytes[at], frame.bytes[at + 1]]);
            frame.bytes[at..at + 2].copy_from_slice(&(!port).to_be_bytes());
        }
    })
}

fn rounded(frames: &[Frame], to_ns: u64) -> Vec<Frame> {
    let round = |frame: &Frame| Frame { time_ns: frame.time_ns / to_ns * to_ns, ..frame.clone() };
    frames.iter().map(round).collect()
}

/// Of what passes in opposite directions within 20 us, half is stamped in the other order: by two
/// interfaces that do not interrupt at once.
fn exchanged(frames: &[Frame]) -> Vec<Frame> {
    let mut frames = frames.to_vec();
    let (mut index, mut state) = (1, 7_u64);
    while index < frames.len() {
        let (before, after) = (&frames[index - 1], &frames[index]);
        let near = after.time_ns.saturating_sub(before.time_ns) < 20_000;
        let ends = [before, after].map(|frame| Tcp::of(frame).map(|tcp| tcp.ends));
        let opposite = matches!(&ends, [Some([a, b]), Some([c, d])] if a == d && b == c);
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if near && opposite && state >> 63 == 0 {
            let (first_ns, second_ns) = (before.time_ns, after.time_ns);
            frames.swap(index - 1, index);
            (frames[index - 1].time_ns, frames[index].time_ns) = (first_ns, second_ns);
            index += 1;
        }
        index += 1;
    }
    frames
}

/// Reorders frames as a host does that writes from several rings into one file, with a delay of up
/// to a millisecond.
fn written_late(frames: &[Frame]) -> Vec<Frame> {
    let mut state = 7_u64;
    let mut wait_ns = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % 1_000_000
    };
    let mut written: Vec<_> =
        frames.iter().map(|frame| (frame.time_ns + wait_ns(), frame.clone())).collect();
    written.sort_by_key(|(written_ns, _)| *written_ns);
    written.into_iter().map(|(_, frame)| frame).collect()
}

const EDITS: &[(&str, Edit)] = &[
    ("wrapping", wrapping),
    ("without_timestamps", without_timestamps),
    ("without_echoes", without_echoes),
    ("ports_turned", ports_turned),
    ("in_10us", |frames| rounded(frames, 10_000)),
    ("in_100us", |frames| rounded(frames, 100_000)),
    ("in_1ms", |frames| rounded(frames, 1_000_000)),
    ("exchanged", exchanged),
    ("written_late", written_late),
];

fn faults(report: &Report) -> Vec<(&'static str, &'static str)> {
    let faults = report.findings.iter().filter(|one| one.cause.class() == Class::Fault);
    faults.map(|fault| (fault.cause.id(), fault.culprit.role.id())).collect()
}

#[test]
fn edits_without_evidence_change_no_cause() {
    let mut differ = Vec::new();
    for (name, frames) in captures() {
        let known = faults(&report(&frames));
        for (edit, apply) in EDITS {
            let found = faults(&report(&apply(&frames)));
            let invented = found.iter().filter(|it| !known.contains(it)).map(|it| ("invents", it));
            let missed = known.first().filter(|it| !found.contains(it)).map(|it| ("misses", it));
            differ.extend(
                invented.chain(missed).map(|(what, (cause, role))| {
                    format!("{name} {edit}: {what} {cause} by {role}")
                }),
            );
        }
    }
    let wrong: Vec<_> = differ.iter().filter(|it| !KNOWN.contains(&it.as_str())).collect();
    assert!(wrong.is_empty(), "{}:\n{wrong:#?}", wrong.len());
    let agree: Vec<_> = KNOWN.iter().filter(|it| !differ.iter().any(|one| one == *it)).collect();
    assert!(agree.is_empty(), "no longer differ: {agree:?}");
}
