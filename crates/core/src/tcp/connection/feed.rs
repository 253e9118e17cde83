//! Passes in-order bytes to the framer, and the framer's marks to the timeline.

use crate::app::{Framer, KnownHeaders, Mark, Side};
use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::early::EarlyBytes;
use crate::tcp::reassembly::Reassembly;
use crate::tcp::setup::Setup;
use crate::tcp::shared::{Names, Shared, Software};
use crate::tcp::timeline::{At, Timeline};
use crate::wire::Segment;
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
            positions: self.senders.each_ref().map(|sender| sender.space.nxt),
            logs_revisions: self.cold.trace().is_some_and(|trace| trace.decided.is_some()),
            client_closed: self
                .cold
                .ended()
                .is_some_and(|it| it.fin_ns[Side::Client as usize].is_some()),
        }
    }

    /// Returns the streams, the memory for out-of-order data, and the consumer of the bytes that
    /// `segment` completes.
    pub(super) fn feed<'a>(
        &'a mut self,
        side: Side,
        segment: &Segment,
        shared: &'a mut Shared,
    ) -> (&'a mut [Reassembly; 2], &'a mut EarlyBytes, Feed<'a>) {
        let at = self.at(side, segment);
        let Self { streams, framer, timeline, setup, software, .. } = self;
        let Shared { known, names, early, .. } = shared;
        (streams, early, Feed { framer, timeline, setup, software, known, names, at })
    }
}

/// Consumer of in-order bytes: it passes them to the framer, and the marks to the timeline.
pub(super) struct Feed<'a> {
    framer: &'a mut Framer,
    timeline: &'a mut Timeline,
    setup: &'a mut Setup,
    software: &'a mut Option<Arc<Software>>,
    known: &'a mut KnownHeaders,
    names: &'a mut Names,
    at: At,
}

impl Feed<'_> {
    /// Begins an exchange with `side` in the middle of a message, at `since_ns`.
    #[cold]
    pub(super) fn begin_mid_message(self, side: Side, since_ns: u64) {
        let Self { framer, timeline, setup, at, .. } = self;
        framer.begin_mid_message(side);
        timeline.begin_mid_message(side, &At { time_ns: since_ns, ..at }, setup);
        timeline.active = Some(side);
    }

    /// Processes an ACK of the client which shows that the server sent the first data, from position
    /// `begins` on, and that this was not captured.
    #[inline(never)]
    pub(super) fn await_greeting(self, begins: u64) {
        let Self { timeline, setup, mut at, .. } = self;
        at.positions[Side::Server as usize] = begins;
        timeline.await_greeting(&at, setup);
    }

    /// Processes in-order `bytes` of `side`, which end at position `end`, with `missing` bytes
    /// behind them that are not in the capture.
    pub(super) fn push(&mut self, side: Side, bytes: &[u8], missing: u32, end: u64) {
        let begin = end - bytes.len() as u64 - u64::from(missing);
        let Self { framer, timeline, setup, software, known, names, at } = self;
        (at.open_ended, at.has_events) = (framer.ends_exchanges(), framer.has_events());
        if let Some(mark) = framer.known(side, bytes, missing, known) {
            if let Mark::Request { software: Some(stated), .. }
            | Mark::Response { software: Some(stated), .. } = mark
            {
                names.add(software, side, &stated.name);
            }
            (at.position, at.positions[side as usize]) = (begin, begin);
            return timeline.mark(mark, at, setup);
        }
        framer.parse(side, bytes, missing, known, &mut |offset, mark| {
            if let Mark::Software(name) = mark {
                names.add(software, side, name);
            }
            at.position = begin + u64::from(offset);
            // For data in the segment of its sender, the position of the mark is known to the byte.
            at.positions[side as usize] = at.position;
            timeline.mark(mark, at, setup);
            // The next request of this push is pipelined (rule 9 of `app`).
            at.open_ended &= mark != Mark::RequestStart;
        });
    }
}
