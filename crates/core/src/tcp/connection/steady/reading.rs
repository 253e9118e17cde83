//! What is said on a steady connection, where it is none of the messages known to the byte: it stays steady
//! if each segment is a message by itself.

use super::*;

/// What was read of a segment that is to be a message by itself.
#[derive(Clone, Default)]
struct Reading {
    /// Position of its beginning.
    start: u64,
    /// The message begins with it.
    begun: bool,
    /// What is asked, if that was told.
    kind: Label,
    /// The message ends with it.
    ended: bool,
}

impl Reading {
    /// Takes a mark of what `side` sent, with `offset` of `len` bytes before it, if it is one of those that
    /// a message by itself has.
    fn takes(&mut self, side: Side, offset: u32, mark: &Mark<'_>, len: u32) -> bool {
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
            (Side::Client, Mark::RequestHeaderEnd { expects_continue: false })
            | (Side::Server, Mark::ResponseHeaderEnd { .. }) => is_within,
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
    /// Reads what was expected, and is no known message: the connection stays steady if it is a message by
    /// itself.
    #[inline(never)]
    pub(super) fn read(
        &mut self,
        side: Side,
        start: u64,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
    ) {
        let Shared { known, spare, names, answered, .. } = shared;
        let mut framer = std::mem::replace(&mut self.framer, Framer::new(0, false));
        let mut reading = Reading { start, ..Reading::default() };
        framer.parse(side, payload, 0, known, &mut |offset, mark| {
            if let Mark::Software(name) = mark {
                return names.add(&mut self.software, side, name);
            }
            if self.steady.is_some() {
                if reading.takes(side, offset, &mark, segment.payload_len) {
                    return;
                }
                self.leave(side, segment, &reading, (spare, answered));
            }
            self.mark(side, start + u64::from(offset), segment, mark, spare);
        });
        self.framer = framer;
        match &mut self.steady {
            Some(steady) if reading.ended => {
                if side == Side::Client {
                    steady.kind = reading.kind;
                }
                if self.framer.is_open_ended() {
                    self.replay(true, spare, answered);
                    self.steady = None;
                }
                return;
            }
            Some(_) => self.leave(side, segment, &reading, (spare, answered)),
            None => {}
        }
        self.streams[side as usize].pass(start + u64::from(segment.payload_len));
        self.timeline.touch(Sighting::of(side, segment));
    }

    /// `segment` of `side` is not a message by itself, as far as it has been read: the connection is steady
    /// no more.
    #[cold]
    fn leave(
        &mut self,
        side: Side,
        segment: &Segment,
        reading: &Reading,
        (spare, gap): (&mut Spare, &mut Gap),
    ) {
        self.replay(false, spare, gap);
        self.steady = None;
        let &Reading { start, begun, ref kind, ended } = reading;
        let (first, last) = match side {
            Side::Client => (Mark::RequestStart, Mark::RequestEnd),
            Side::Server => (Mark::ResponseStart, Mark::ResponseEnd),
        };
        if begun {
            self.mark(side, start, segment, first, spare);
        }
        if !kind.is_empty() {
            self.mark(side, start, segment, Mark::Kind(kind), spare);
        }
        if ended {
            let end = start + u64::from(segment.payload_len);
            self.mark(side, end, segment, last, spare);
        }
    }

    /// Reads `mark` at `position` of the stream of `side`.
    fn mark(
        &mut self,
        side: Side,
        position: u64,
        segment: &Segment,
        mark: Mark<'_>,
        spare: &mut Spare,
    ) {
        let mut at = self.at(side, segment);
        at.open_ended = false;
        (at.position, at.positions[side as usize]) = (position, position);
        self.timeline.mark(mark, &at, &mut self.setup, spare);
    }
}
