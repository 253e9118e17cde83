//! Parsing of messages on the fast path that do not repeat known bytes: the connection stays on the
//! fast path while each segment is one whole message.

use crate::app::{ErrorCode, Label, Mark};
use crate::judge::Gap;
use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::setup::Setup;
use crate::tcp::shared::Shared;
use crate::tcp::timeline::{At, Timeline};
use crate::wire::{Segment, Side};

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

impl Reading {
    /// Returns the marks so far of the segment of `side`, which has `len` bytes, with their positions
    /// in the stream.
    fn marks(&self, side: Side, len: u32) -> [Option<(u64, Mark<'_>)>; 3] {
        let (first, last) = match side {
            Side::Client => (Mark::RequestStart, Mark::RequestEnd),
            Side::Server => (Mark::ResponseStart, Mark::ResponseEnd),
        };
        [
            self.begun.then_some((self.start, first)),
            (!self.kind.is_empty()).then_some((self.start, Mark::Kind(&self.kind))),
            self.ended.then_some((self.start + u64::from(len), last)),
        ]
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
        let Shared { known, names, silence, marks, .. } = shared;
        let Self { framer, software, .. } = self;
        let mut reading = Reading { start, ..Reading::default() };
        marks.clear();
        framer.parse(side, payload, 0, known, &mut |offset, mark| match mark {
            Mark::Software(name) => names.add(software, side, name),
            mark if marks.is_empty()
                && reading.accepts(side, offset, &mark, segment.payload_len) => {}
            mark => marks.add(mark, start + u64::from(offset), (false, false)),
        });
        if marks.is_empty()
            && reading.ended
            && let Some(steady) = &mut self.steady
        {
            if side == Side::Client {
                steady.kind = reading.kind;
            }
            if self.framer.is_open_ended() {
                self.replay(true, silence);
                self.steady = None;
            }
            return;
        }
        self.leave_with(side, segment, reading.marks(side, segment.payload_len), silence);
        let at = self.at(side, segment);
        self.timeline.apply(marks, side, at, &mut self.setup);
        self.streams[side].pass(start + u64::from(segment.payload_len));
        self.timeline.exchanges.touch(Sighting::of(side, segment));
    }

    /// Leaves the fast path: `segment`, which `side` sends, turned out not to be one whole message
    /// without an error. `marks` of it are known, with their positions in the stream.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_with(
        &mut self,
        side: Side,
        segment: &Segment,
        marks: [Option<(u64, Mark<'_>)>; 3],
        gap: &mut Gap,
    ) {
        self.replay(false, gap);
        self.steady = None;
        let at = self.at(side, segment);
        for (position, mark) in marks.into_iter().flatten() {
            pass(&mut self.timeline, &mut self.setup, (side, position, at), mark);
        }
    }
}

/// Passes `mark`, at `position` of the stream of `side`, to the timeline.
fn pass(
    timeline: &mut Timeline,
    setup: &mut Setup,
    (side, position, mut at): (Side, u64, At),
    mark: Mark<'_>,
) {
    at.open_ended = false;
    (at.position, at.positions[side]) = (position, position);
    timeline.mark(mark, &at, setup);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u32 = 80;

    fn accepts(side: Side, marks: &[(u32, Mark<'_>)]) -> (bool, Reading) {
        let mut reading = Reading { start: 1_000, ..Reading::default() };
        let all = marks.iter().all(|(offset, mark)| reading.accepts(side, *offset, mark, LEN));
        (all, reading)
    }

    #[test]
    fn one_whole_request_is_accepted() {
        let kind = Label::from("GET /");
        let whole = [(0, Mark::RequestStart), (5, Mark::Kind(&kind)), (LEN, Mark::RequestEnd)];
        let (all, reading) = accepts(Side::Client, &whole);
        assert!(all && reading.ended);
        let positions = reading.marks(Side::Client, LEN).map(|mark| mark.map(|(at, _)| at));
        assert_eq!(positions, [Some(1_000), Some(1_000), Some(1_080)]);
    }

    #[test]
    fn a_message_that_ends_early_is_not() {
        let early = [(0, Mark::ResponseStart), (LEN - 1, Mark::ResponseEnd)];
        let (all, reading) = accepts(Side::Server, &early);
        assert!(!all && reading.begun && !reading.ended);
    }

    #[test]
    fn a_second_message_in_the_segment_is_not() {
        let second = [(0, Mark::ResponseStart), (40, Mark::ResponseStart)];
        assert!(!accepts(Side::Server, &second).0);
    }
}
