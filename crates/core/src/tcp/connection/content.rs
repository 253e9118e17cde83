//! Reads the content of segments: passes in-order bytes to the framer and keeps its marks, which are
//! applied to the timeline once the silence before them is judged.

use crate::app::{Framer, KnownHeaders, Mark, Protocol};
use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::connection::place::is_beside_sender;
use crate::tcp::early::EarlyBytes;
use crate::tcp::reassembly::Reassembly;
use crate::tcp::shared::{Names, Shared, Software};
use crate::tcp::timeline::{At, Marks, OverlappingMessage};
use crate::wire::{Segment, Side};
use std::sync::Arc;

impl Connection {
    /// Returns the context of a mark that is completed by `segment`, which `side` sends.
    pub(super) fn at(&self, side: Side, segment: &Segment) -> At {
        At {
            time_ns: segment.time_ns,
            seen: Sighting::of(side, segment),
            position: 0,
            rtt_client_ns: self.path.known_rtt_ns(Side::Client),
            rtt_server_ns: self.path.known_rtt_ns(Side::Server),
            open_ended: self.timeline.open_ended,
            has_events: false,
            may_greet: self.framer.protocol() != Protocol::Http1
                || self.senders[Side::Client].volume.unique_bytes > 0,
            overlap: OverlappingMessage::None,
            rests: false,
            positions: self.senders.each_ref().map(|sender| sender.space.nxt),
            recording: self.cold.recording(),
            queued_ns: match is_beside_sender(&self.setup, &self.path, side) {
                true => 0,
                false => self.senders[side].clock.queued_ns(),
            },
            server_closed: self.senders[Side::Server].has_told_its_end(),
            client_closed: self.cold.ended().is_some_and(|it| it.fin_ns[Side::Client].is_some()),
        }
    }

    /// Begins an exchange with `side`, which sends `segment`, in the middle of a message, at
    /// `since_ns`.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_mid_message(&mut self, side: Side, segment: &Segment, since_ns: u64) {
        let at = At { time_ns: since_ns, ..self.at(side, segment) };
        self.framer.begin_mid_message(side);
        self.timeline.begin_mid_message(side, &at, &mut self.setup);
        self.timeline.active = Some(side);
    }

    /// Opens an exchange if `segment` of the client, at position `start`, is the first of a message of
    /// which later segments have passed, so that the client has waited since then.
    #[cold]
    #[inline(never)]
    pub(super) fn anticipate_request(&mut self, segment: &Segment, start: u64) {
        let client = &self.senders[Side::Client];
        let noticed_ns = client.history().holes.noticed_ns(start);
        let Some(time_ns) = noticed_ns.filter(|_| client.in_order() == start) else { return };
        if !self.timeline.exchanges.accrues() {
            let at = At { time_ns, ..self.at(Side::Client, segment) };
            self.timeline.anticipate(&at, &mut self.setup);
        }
    }

    /// Reads what `pass` passes of the stream of `side`. The marks are in `shared` then.
    #[inline]
    pub(super) fn read(
        &mut self,
        side: Side,
        shared: &mut Shared,
        pass: impl FnOnce(&mut Reassembly, &mut EarlyBytes, &mut Reader<'_>),
    ) {
        let Self { streams, framer, software, .. } = self;
        let Shared { known, names, early, marks, .. } = shared;
        marks.clear();
        let mut reader = Reader { framer, software, known, names, marks };
        pass(&mut streams[side], early, &mut reader);
    }
}

/// Consumer of in-order bytes: it passes them to the framer, and keeps the marks.
pub(super) struct Reader<'a> {
    framer: &'a mut Framer,
    software: &'a mut Option<Arc<Software>>,
    known: &'a mut KnownHeaders,
    names: &'a mut Names,
    marks: &'a mut Marks,
}

impl Reader<'_> {
    /// Processes in-order `bytes` of `side`, which end at position `end`, with `missing` bytes
    /// behind them that are not in the capture.
    pub fn push(&mut self, side: Side, bytes: &[u8], missing: u32, end: u64) {
        let begin = end - bytes.len() as u64 - u64::from(missing);
        let Self { framer, software, known, names, marks } = self;
        let (mut open_ended, has_events) = (framer.ends_exchanges(), framer.has_events());
        if let Some(mark) = framer.known(side, bytes, missing, known) {
            if let Mark::Request { software: Some(stated), .. }
            | Mark::Response { software: Some(stated), .. } = mark
            {
                names.add(software, side, &stated.name);
            }
            return marks.add(mark, begin, (open_ended, has_events));
        }
        framer.parse(side, bytes, missing, known, &mut |offset, mark| {
            if let Mark::Software(name) = mark {
                names.add(software, side, name);
            }
            // For data in the segment of its sender, the position of the mark is known to the byte.
            marks.add(mark, begin + u64::from(offset), (open_ended, has_events));
            // The next request of this push is pipelined (rule 10 of `app`).
            open_ended &= mark != Mark::RequestStart;
        });
    }
}
