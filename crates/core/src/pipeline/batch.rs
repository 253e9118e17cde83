//! The result of decoding one block.

use super::SHARDS;
use crate::capture::{Block, FrameEntry, FrameId};
use crate::dns::{MessageContext, Transport};
use crate::quic::Carried;
use crate::wire::{
    DecodeCounts, Endpoint, FlowHasher, FlowKey, IcmpError, Reassembled, Segment, SegmentFlags,
};

/// A packet that concerns more than one connection, kept for processing in order.
pub(super) enum Aside {
    Datagram {
        time_ns: u64,
        frame: FrameId,
        source: Endpoint,
        destination: Endpoint,
        payload: Box<[u8]>,
        /// Length of the payload on the wire, bytes.
        payload_bytes: u32,
        carrier: Transport,
        ttl: u8,
    },
    /// A datagram that is QUIC, or may be.
    Quic(Carried),
    /// Index of a segment from or to a name server.
    Segment(u32),
    /// An ICMP error about a datagram.
    Error(IcmpError),
    /// The frame of an IP fragment, to be reassembled in order.
    Fragment(FrameEntry),
}

/// An event of one connection.
pub(crate) enum Event<'a> {
    Segment(&'a Segment),
    /// An ICMP error about one of its packets.
    Error(&'a IcmpError),
    /// The connection is a copy of another with other addresses; with its hash.
    Copy(&'a FlowKey, u64),
}

impl Event<'_> {
    /// Returns the payload of a segment of `batch`, which was decoded from `block`.
    #[inline(always)]
    pub fn payload<'a>(&self, batch: &'a Batch, block: &'a Block) -> &'a [u8] {
        match self {
            Self::Segment(segment) => batch.payload(segment, block),
            Self::Error(_) | Self::Copy(..) => &[],
        }
    }
}

/// An event of one connection other than a segment.
enum Note {
    Error(IcmpError),
    Copy(FlowKey, u64),
}

/// The segments of one block in frame order, and their assignment to shards. Reused for the next
/// block without allocations.
#[derive(Default)]
pub struct Batch {
    /// Valid up to `filled`; the rest is from earlier blocks, and space for the next segment.
    segments: Vec<Segment>,
    filled: usize,
    /// Indices of the segments of each shard in `segments`.
    shards: [Vec<u32>; SHARDS],
    /// Notes about the connections of each shard, each with the index of the segment that follows.
    notes: [Vec<(u32, Note)>; SHARDS],
    pub(super) asides: Vec<Aside>,
    /// Indices of segments that can show whether their connection is a copy of another.
    pub(super) samples: Vec<u32>,
    /// Payloads of segments reassembled from fragments.
    joined: Vec<u8>,
    pub(super) counts: DecodeCounts,
    pub(super) first_ns: Option<u64>,
    pub(super) last_ns: u64,
}

impl Batch {
    /// Returns all segments, shard by shard; those of one connection are in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.shards.iter().flatten().filter_map(|&place| self.at(place))
    }

    /// Returns the DNS datagrams that were not fragmented, with their payload.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (MessageContext<'_>, &[u8])> {
        self.asides.iter().filter_map(|aside| match aside {
            Aside::Datagram {
                time_ns,
                frame,
                source,
                destination,
                payload,
                payload_bytes,
                carrier,
                ttl,
            } if *carrier == Transport::Datagram => {
                let (time_ns, frame, carrier) = (*time_ns, *frame, *carrier);
                let (payload_bytes, ttl) = (*payload_bytes, *ttl);
                let carried = MessageContext {
                    time_ns,
                    frame,
                    payload_bytes,
                    source,
                    destination,
                    carrier,
                    ttl,
                };
                Some((carried, &**payload))
            }
            _ => None,
        })
    }

    /// Returns the index of the segment in the [`slot`](Self::slot).
    pub(super) fn index(&self) -> u32 {
        self.filled as u32
    }

    /// Returns the segment with an index from [`index`](Self::index).
    pub(super) fn at(&self, index: u32) -> Option<&Segment> {
        self.segments.get(index as usize)
    }

    /// Returns the segments before the one with this index, the last first.
    pub(super) fn before(&self, index: u32) -> impl Iterator<Item = &Segment> {
        self.segments[..index as usize].iter().rev()
    }

    /// Returns the frame of a packet that is kept.
    pub(super) fn frame_of(&self, aside: &Aside) -> Option<FrameId> {
        match aside {
            Aside::Datagram { frame, .. } => Some(*frame),
            Aside::Quic(carried) => Some(carried.frame),
            Aside::Segment(place) => self.at(*place).map(|segment| segment.frame),
            Aside::Error(error) => Some(error.frame),
            Aside::Fragment(entry) => Some(entry.id),
        }
    }

    /// Returns the captured payload of a segment; `block` is the block that it was decoded from.
    #[inline]
    pub fn payload<'a>(&'a self, segment: &Segment, block: &'a Block) -> &'a [u8] {
        let joined = segment.facts.has(SegmentFlags::REASSEMBLED);
        let bytes = if joined { &self.joined } else { &block.bytes };
        let start = segment.payload_offset as usize;
        bytes.get(start..start + segment.captured_len as usize).unwrap_or(&[])
    }

    /// Returns the events of the connections of one shard, in order.
    #[inline]
    pub(crate) fn events(&self, shard: usize) -> impl Iterator<Item = Event<'_>> {
        let (mut places, mut notes) = (self.shards[shard].iter(), self.notes[shard].iter());
        std::iter::from_fn(move || {
            // Notes are rare.
            if let Some((next, note)) = notes.as_slice().first()
                && *next <= places.as_slice().first().copied().unwrap_or(u32::MAX)
            {
                notes.next();
                return Some(match note {
                    Note::Error(error) => Event::Error(error),
                    Note::Copy(flow, hash) => Event::Copy(flow, *hash),
                });
            }
            self.at(*places.next()?).map(Event::Segment)
        })
    }

    /// Returns the events of the connection with this flow, in order.
    pub(crate) fn events_of(&self, flow: &FlowKey) -> impl Iterator<Item = Event<'_>> {
        (0..SHARDS).flat_map(|shard| self.events(shard)).filter(move |event| match event {
            Event::Segment(segment) => segment.flow == *flow,
            Event::Error(error) => error.flow == *flow,
            Event::Copy(..) => false,
        })
    }

    /// Returns whether there are frames without IP.
    pub(crate) fn has_non_ip(&self) -> bool {
        self.counts.non_ip > 0
    }

    /// Returns the segments that were decoded, in frame order.
    pub(crate) fn decoded(&self) -> &[Segment] {
        &self.segments[..self.filled]
    }

    /// Returns the frames that concern more than one connection, in order; those of
    /// [samples](Self::sampled_frames) aside.
    pub(crate) fn frames_aside(&self) -> impl Iterator<Item = FrameId> {
        self.asides.iter().filter_map(|aside| self.frame_of(aside))
    }

    /// Returns the frames of the segments that can show whether their connection is a copy, in order.
    pub(crate) fn sampled_frames(&self) -> impl Iterator<Item = FrameId> {
        self.samples.iter().filter_map(|&place| self.at(place)).map(|segment| segment.frame)
    }

    /// Returns the ICMP errors about connections, shard by shard.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &IcmpError> {
        self.notes.iter().flatten().filter_map(|(_, note)| match note {
            Note::Error(error) => Some(error),
            Note::Copy(..) => None,
        })
    }

    /// Returns the connections that were found to be copies, each with its hash and the frame that
    /// showed it.
    pub(crate) fn copies(&self) -> impl Iterator<Item = (FrameId, FlowKey, u64)> {
        self.notes.iter().flatten().filter_map(|(next, note)| match note {
            Note::Error(_) => None,
            Note::Copy(flow, hash) => Some((self.at(next.checked_sub(1)?)?.frame, *flow, *hash)),
        })
    }

    /// Returns the segments reassembled from fragments, each with its payload.
    pub(crate) fn reassembled<'a>(
        &'a self,
        block: &'a Block,
    ) -> impl Iterator<Item = (&'a Segment, &'a [u8])> {
        let all = self.decoded().iter();
        let reassembled = all.filter(|it| it.facts.has(SegmentFlags::REASSEMBLED));
        reassembled.map(|segment| (segment, self.payload(segment, block)))
    }

    /// Adds an ICMP error about a connection.
    pub(super) fn take_error(&mut self, error: IcmpError) {
        let shard = FlowHasher::shard(error.flow_hash, SHARDS);
        self.notes[shard].push((self.filled as u32, Note::Error(error)));
    }

    /// Records that the segment with this index showed that a connection is a copy.
    pub(super) fn take_copy(&mut self, place: u32, flow: FlowKey, flow_hash: u64) {
        let notes = &mut self.notes[FlowHasher::shard(flow_hash, SHARDS)];
        let at = notes.partition_point(|(next, _)| *next <= place + 1);
        notes.insert(at, (place + 1, Note::Copy(flow, flow_hash)));
    }

    /// Empties the batch for another block.
    pub(super) fn clear(&mut self) {
        self.filled = 0;
        self.shards.iter_mut().for_each(Vec::clear);
        self.notes.iter_mut().for_each(Vec::clear);
        self.asides.clear();
        self.samples.clear();
        self.joined.clear();
        self.counts = DecodeCounts::default();
        self.first_ns = None;
    }

    /// Makes room for this number of segments.
    pub(super) fn make_room(&mut self, segments: usize) {
        let segments = self.filled + segments;
        if self.segments.len() < segments {
            self.segments.resize_with(segments, Segment::default);
        }
    }

    /// Returns the slot for the next segment, which is decoded in place to avoid a copy. There must
    /// be [room](Self::make_room) for it.
    #[inline(always)]
    pub(super) fn slot(&mut self) -> &mut Segment {
        &mut self.segments[self.filled]
    }

    /// Adds the segment that was written to the [`slot`](Self::slot), with its flow hash.
    #[inline(always)]
    pub(super) fn take_slot(&mut self, flow_hash: u64) {
        self.shards[FlowHasher::shard(flow_hash, SHARDS)].push(self.filled as u32);
        self.filled += 1;
    }

    /// Adds segments reassembled from fragments, each with its payload and the offset of the frame
    /// that completed it, in the order of these frames.
    pub(super) fn join(&mut self, joined: Vec<(u32, Segment, Reassembled)>) {
        let mut places: [Vec<(u32, u32)>; SHARDS] = Default::default();
        self.make_room(joined.len());
        for (offset, segment, whole) in joined {
            let segment = self.keep(segment, &whole);
            *self.slot() = segment;
            let shard = FlowHasher::shard(segment.flow_hash, SHARDS);
            places[shard].push((offset, self.filled as u32));
            self.filled += 1;
        }
        for (shard, places) in places.into_iter().enumerate().filter(|it| !it.1.is_empty()) {
            let mut places = places.into_iter().peekable();
            for place in std::mem::take(&mut self.shards[shard]) {
                let payload_offset = self.segments[place as usize].payload_offset;
                while let Some((_, earlier)) = places.next_if(|(at, _)| *at < payload_offset) {
                    self.shards[shard].push(earlier);
                }
                self.shards[shard].push(place);
            }
            self.shards[shard].extend(places.map(|(_, place)| place));
        }
    }

    /// Keeps the payload of a `segment` decoded from `whole`; returns the segment with its new
    /// position.
    fn keep(&mut self, mut segment: Segment, whole: &Reassembled) -> Segment {
        let start = segment.payload_offset as usize;
        let payload = whole.bytes.get(start..start + segment.captured_len as usize);
        segment.payload_offset = self.joined.len() as u32;
        self.joined.extend_from_slice(payload.unwrap_or(&[]));
        segment
    }
}
