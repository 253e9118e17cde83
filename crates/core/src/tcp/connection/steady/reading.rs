//! Parsing of messages on the fast path that do not repeat known bytes: the connection stays on the
//! fast path while each segment is one whole message.

use crate::app::{ErrorCode, Extent, Framer, Label, Mark, Side};
use crate::judge::Gap;
use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::shared::Shared;
use crate::wire::Segment;

/// The parts of a segment parsed so far; the segment should be one whole message.
#[derive(Clone, Default)]
struct Reading {
    /// Position of the first byte of the segment.
    start: u64,
    /// A message begins at the first byte.
    begun: bool,
    /// Kind of the request, if known.
    kind: Label,
    /// The message ends with the last byte.
    ended: bool,
}

impl Reading {
    /// Processes a mark of `side` at `offset` of `len` bytes. Returns whether the mark is
    /// consistent with one whole message.
    fn accepts(&mut self, side: Side, offset: u32, mark: &Mark<'_>, len: u32) -> bool {
        let is_within = self.begun && !self.ended;
        match (side, mark) {
            (Side::Client, Mark::RequestStart) | (Side::Server, Mark::ResponseStart) => {
                let is_first = offset == 0 && !self.begun;
                self.begun |= is_first;
                is_first
            }
            (Side::Client, Mark::Kind(kind)) if is_within => {
                self.kind = **kind;
                true
            }
            (Side::Client, Mark::RequestHeaderEnd { expects_continue: false }) => is_within,
            (Side::Server, Mark::ResponseHeaderEnd { status }) => {
                is_within && ErrorCode::of_http(*status).is_none()
            }
            (Side::Client, Mark::RequestEnd) | (Side::Server, Mark::ResponseEnd) => {
                let is_last = is_within && offset == len;
                self.ended |= is_last;
                is_last
            }
            _ => false,
        }
    }
}

impl Connection {
    /// Parses an expected segment that does not repeat known bytes. The connection stays on the
    /// fast path if the segment is one whole message.
    #[inline(never)]
    pub(super) fn parse_message(
        &mut self,
        side: Side,
        start: u64,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
    ) {
        let Shared { known, names, silence, .. } = shared;
        let mut framer = std::mem::replace(&mut self.framer, Framer::new(0, false));
        let mut reading = Reading { start, ..Reading::default() };
        framer.parse(side, payload, 0, known, &mut |offset, mark| {
            if let Mark::Software(name) = mark {
                return names.add(&mut self.software, side, name);
            }
            if self.steady.is_some() {
                if reading.accepts(side, offset, &mark, segment.payload_len) {
                    return;
                }
                self.leave_within(side, segment, &reading, silence);
            }
            self.mark(side, start + u64::from(offset), segment, mark);
        });
        self.framer = framer;
        match &mut self.steady {
            Some(steady) if reading.ended => {
                if side == Side::Client {
                    steady.kind = reading.kind;
                }
                if self.framer.is_open_ended() {
                    self.replay(true, silence);
                    self.steady = None;
                }
                return;
            }
            Some(_) => self.leave_within(side, segment, &reading, silence),
            None => {}
        }
        self.streams[side as usize].pass(start + u64::from(segment.payload_len));
        self.timeline.touch(Sighting::of(side, segment));
    }

    /// Leaves the fast path with a response of `status` and `extent` that reports an error: simple
    /// exchanges report none.
    #[cold]
    pub(super) fn leave_with_error(
        &mut self,
        start: u64,
        segment: &Segment,
        (status, extent): (u16, Extent),
        gap: &mut Gap,
    ) {
        self.replay(false, gap);
        self.steady = None;
        let response = Mark::Response { status, extent, software: None };
        self.mark(Side::Server, start, segment, response);
        self.streams[Side::Server as usize].pass(start + u64::from(segment.payload_len));
        self.timeline.touch(Sighting::of(Side::Server, segment));
    }

    /// Leaves the fast path: `segment`, which `side` sends, turned out not to be one whole message.
    #[cold]
    fn leave_within(&mut self, side: Side, segment: &Segment, reading: &Reading, gap: &mut Gap) {
        self.replay(false, gap);
        self.steady = None;
        let &Reading { start, begun, ref kind, ended } = reading;
        let (first, last) = match side {
            Side::Client => (Mark::RequestStart, Mark::RequestEnd),
            Side::Server => (Mark::ResponseStart, Mark::ResponseEnd),
        };
        if begun {
            self.mark(side, start, segment, first);
        }
        if !kind.is_empty() {
            self.mark(side, start, segment, Mark::Kind(kind));
        }
        if ended {
            let end = start + u64::from(segment.payload_len);
            self.mark(side, end, segment, last);
        }
    }

    /// Passes `mark`, at `position` of the stream of `side`, to the timeline.
    fn mark(&mut self, side: Side, position: u64, segment: &Segment, mark: Mark<'_>) {
        let mut at = self.at(side, segment);
        at.open_ended = false;
        (at.position, at.positions[side as usize]) = (position, position);
        self.timeline.mark(mark, &at, &mut self.setup);
    }
}
