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
    /// Passes the payload of `segment`, which begins at position `start`, to the framer as far as
    /// it is in order.
    pub(super) fn stream(
        &mut self,
        side: Side,
        start: u64,
        segment: &Segment,
        payload: &[u8],
        shared: &mut Shared,
    ) {
        let (streams, early, mut feed) = self.feed(side, segment, shared);
        let (stream, range) = (&mut streams[side as usize], (start, segment.payload_len));
        stream.push(side, range, payload, early, &mut |side, bytes, missing, end| {
            feed.push(side, bytes, missing, end);
        });
    }

    /// Gives up the unseen data of a stream before `position`.
    pub(super) fn skip(
        &mut self,
        side: Side,
        position: u64,
        segment: &Segment,
        shared: &mut Shared,
    ) {
        let (streams, early, mut feed) = self.feed(side, segment, shared);
        let stream = &mut streams[side as usize];
        stream.skip_to(side, position, early, &mut |side, bytes, missing, end| {
            feed.push(side, bytes, missing, end);
        });
    }

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
            logs_revisions: self.trace().is_some_and(|trace| trace.decided.is_some()),
            client_closed: self
                .ended()
                .is_some_and(|it| it.fin_ns[Side::Client as usize].is_some()),
        }
    }

    /// Ends the streams and releases the memory of out-of-order data.
    pub(super) fn discard_early_bytes(&mut self, shared: &mut Shared) {
        self.streams.iter_mut().for_each(|stream| stream.discard_waiting(&mut shared.early));
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
    pub(super) framer: &'a mut Framer,
    pub(super) timeline: &'a mut Timeline,
    pub(super) setup: &'a mut Setup,
    software: &'a mut Option<Arc<Software>>,
    known: &'a mut KnownHeaders,
    names: &'a mut Names,
    pub(super) at: At,
}

impl Feed<'_> {
    fn push(&mut self, side: Side, bytes: &[u8], missing: u32, end: u64) {
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
