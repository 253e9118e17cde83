//! Framing of complete conversations.

use super::{Framer, KnownHeaders, Mark, Protocol, Stated};

use crate::wire::Side;

mod asides_of_calls;
mod brokers;
mod calls;
mod databases;
mod dialogues;
mod frames;
mod http;
mod order;
mod own;
mod tls;
mod unasked;

/// One push of a conversation: side, captured bytes, missing bytes.
pub(super) type Push<'a> = (Side, &'a [u8], u32);

pub(super) const C: Side = Side::Client;
pub(super) const S: Side = Side::Server;

/// Returns the marks of a conversation, one a line: `side offset-in-side's-stream mark`.
pub(super) fn marks_with(framer: &mut Framer, pushes: &[Push<'_>]) -> Vec<String> {
    marks_knowing(&mut KnownHeaders::default(), framer, pushes)
}

/// Like [`marks_with`], with headers seen before.
pub(super) fn marks_knowing(
    known: &mut KnownHeaders,
    framer: &mut Framer,
    pushes: &[Push<'_>],
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut offsets = [0u64; 2];
    for &(from, bytes, missing) in pushes {
        let base = offsets[from];
        let side = if from == C { 'C' } else { 'S' };
        framer.push(from, bytes, missing, known, &mut |at, mark| {
            for (at, mark) in parts(at, mark) {
                assert!(u64::from(at) <= bytes.len() as u64 + u64::from(missing));
                lines.push(format!("{side}{} {}", base + u64::from(at), show(mark)));
            }
        });
        offsets[from] += bytes.len() as u64 + u64::from(missing);
    }
    lines
}

/// Expands a mark into the marks that it replaces, in order and with their positions.
pub(super) fn parts<'a>(at: u32, mark: Mark<'a>) -> Vec<(u32, Mark<'a>)> {
    let named =
        |software: Option<&'a Stated>| software.map(|it| (at + it.end, Mark::Software(&it.name)));
    match mark {
        Mark::Request { kind, extent, software } => {
            let begins = [(at, Mark::RequestStart), (at + extent.start_line, Mark::Kind(kind))];
            let ends = [
                (at + extent.header, Mark::RequestHeaderEnd { expects_continue: false }),
                (at + extent.message, Mark::RequestEnd),
            ];
            begins.into_iter().chain(named(software)).chain(ends).collect()
        }
        Mark::Response { status, extent, software } => {
            let ends = [
                (at + extent.header, Mark::ResponseHeaderEnd { status }),
                (at + extent.message, Mark::ResponseEnd),
            ];
            std::iter::once((at, Mark::ResponseStart)).chain(named(software)).chain(ends).collect()
        }
        part => vec![(at, part)],
    }
}

pub(super) fn marks(port: u16, pushes: &[Push<'_>]) -> Vec<String> {
    marks_with(&mut Framer::new(port, false), pushes)
}

/// Returns the marks of a conversation without positions, in one line.
pub(super) fn story(port: u16, pushes: &[Push<'_>]) -> String {
    let places = marks(port, pushes);
    let words: Vec<_> = places.iter().filter_map(|line| line.split_once(' ')).collect();
    words.iter().map(|(_, mark)| *mark).collect::<Vec<_>>().join(", ")
}

fn show(mark: Mark<'_>) -> String {
    match mark {
        Mark::Kind(kind) => format!("[{kind}]"),
        Mark::Software(software) => format!("({software})"),
        Mark::RequestStart => "request".into(),
        Mark::NotDue => "not due".into(),
        Mark::LastResponse => "last".into(),
        Mark::RequestEnd => "/request".into(),
        Mark::ResponseStart => "response".into(),
        Mark::ResponseEnd => "/response".into(),
        Mark::RequestHeaderEnd { expects_continue: true } => "header+continue".into(),
        Mark::RequestHeaderEnd { .. } => "header".into(),
        Mark::ResponseHeaderEnd { status } => format!("header {status}"),
        Mark::Error(code) => format!("error {code}"),
        Mark::RetryAfter { seconds } => format!("retry after {seconds}"),
        Mark::Interim { status } => format!("interim {status}"),
        Mark::HandshakeStart => "handshake".into(),
        Mark::HelloAgain => "hello again".into(),
        Mark::HandshakeEnd { resumed, certificate_bytes, .. } => {
            format!("/handshake {} {certificate_bytes}", if resumed { "resumed" } else { "full" })
        }
        Mark::Desync => "desync".into(),
        Mark::Proceeds => "proceeds".into(),
        Mark::Overtaken => "overtaken".into(),
        Mark::Request { .. } | Mark::Response { .. } => "a whole message".into(),
    }
}

#[test]
fn turns_are_changes_of_direction() {
    let pushes: &[Push] = &[
        (C, b"\x01hello", 0),
        (C, b"more", 0),
        (S, b"\x02answer", 0),
        (S, b"", 100),
        (C, b"again", 0),
        (S, b"!", 0),
    ];
    let places = marks(9999, pushes);
    let expected = [
        "C0 request",
        "S0 /request",
        "S0 response",
        "C10 request",
        "S107 /request",
        "S107 response",
    ];
    assert_eq!(places, expected);
}

#[test]
fn a_server_that_greets_answers_no_request() {
    let pushes: &[Push] = &[(S, b"220 ready\r\n", 0), (C, b"EHLO x\r\n", 0), (S, b"250 x\r\n", 0)];
    assert_eq!(story(25, pushes), "response, request, [EHLO], /request, response");
}
