//! From bytes in order to the marks of a protocol, and from marks to exchanges.

use super::*;
use crate::app::KnownHeaders;
use crate::tcp::early::EarlyBytes;
use crate::tcp::shared::{Names, Spare};

impl Connection {
    /// Gives the data of `segment`, which begins at `start` of its stream, to the framer as far as
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
        let (stream, stretch) = (&mut streams[side as usize], (start, segment.payload_len));
        stream.push(side, stretch, payload, early, &mut |side, bytes, missing, end| {
            feed.push(side, bytes, missing, end);
        });
    }

    /// What lies before `position` of a stream and was not seen will not come.
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

    /// What is known where `segment` of `side` is read.
    pub(super) fn at(&self, side: Side, segment: &Segment) -> At {
        At {
            time_ns: segment.time_ns,
            seen: Sighting::of(side, segment),
            position: 0,
            rtt_client_ns: self.path.way_ns(Side::Client),
            rtt_server_ns: self.path.way_ns(Side::Server),
            open_ended: self.timeline.open_ended,
            positions: self.senders.each_ref().map(|sender| sender.nxt),
            client_left: self.ended().is_some_and(|it| it.fin_ns[Side::Client as usize].is_some()),
        }
    }

    /// The streams are over: what waits for its turn in them gives its room to others.
    pub(super) fn let_go_of_early(&mut self, shared: &mut Shared) {
        self.streams.iter_mut().for_each(|stream| stream.let_go(&mut shared.early));
    }

    /// The streams, the room for what waits for its turn, and where their bytes go when `segment` completes
    /// them.
    pub(super) fn feed<'a>(
        &'a mut self,
        side: Side,
        segment: &Segment,
        shared: &'a mut Shared,
    ) -> (&'a mut [Reassembly; 2], &'a mut EarlyBytes, Feed<'a>) {
        let at = self.at(side, segment);
        let Self { streams, framer, timeline, setup, software, .. } = self;
        let Shared { known, spare, names, early, .. } = shared;
        (streams, early, Feed { framer, timeline, setup, software, known, spare, names, at })
    }
}

/// The way of bytes in order to the exchanges.
pub(super) struct Feed<'a> {
    pub(super) framer: &'a mut Framer,
    pub(super) timeline: &'a mut Timeline,
    pub(super) setup: &'a mut Setup,
    software: &'a mut Option<Arc<Software>>,
    known: &'a mut KnownHeaders,
    pub(super) spare: &'a mut Spare,
    names: &'a mut Names,
    pub(super) at: At,
}

impl Feed<'_> {
    fn push(&mut self, side: Side, bytes: &[u8], missing: u32, end: u64) {
        let begin = end - bytes.len() as u64 - u64::from(missing);
        let Self { framer, timeline, setup, software, known, spare, names, at } = self;
        at.open_ended = framer.is_open_ended();
        if let Some(mark) = framer.known(side, bytes, missing, known) {
            if let Mark::Request { software: Some(stated), .. }
            | Mark::Response { software: Some(stated), .. } = mark
            {
                names.add(software, side, &stated.name);
            }
            (at.position, at.positions[side as usize]) = (begin, begin);
            return timeline.mark(mark, at, setup, spare);
        }
        framer.parse(side, bytes, missing, known, &mut |offset, mark| {
            if let Mark::Software(name) = mark {
                names.add(software, side, name);
            }
            at.position = begin + u64::from(offset);
            // Of what its own segment brought, the mark stands at a byte.
            at.positions[side as usize] = at.position;
            timeline.mark(mark, at, setup, spare);
        });
    }
}
