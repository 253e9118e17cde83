//! A capture without what is private in it, and with the same diagnosis.
//!
//! Addresses and names become pseudonyms of the same length and class ([`Names`]). Payload becomes filler, but for
//! what the framer looks at (see [`crate::app`]): that keeps its shape and loses its values. Lengths, times, ports, sequence
//! numbers and all else that the diagnosis rests on stay. Two passes: the first learns from streams in order what each position
//! is to carry ([`Plan`](plan::Plan)), the second changes the frames one by one, so that what was sent twice is the same twice.
//!
//! Ports stay: a server's names the service, a client's names nobody, and their order and reuse are evidence.

mod dns;
mod frame;
mod mask;
mod masker;
mod names;
mod plan;
mod streams;
#[cfg(test)]
mod tests;

pub use mask::is_known_software;
pub use names::Names;

use crate::capture::Frame;
use crate::wire::{Content, FlowHasher, Packet, Segment, SegmentFlags, decode, layout};
use streams::Streams;

/// Payload that says nothing. It begins no message of any protocol.
const FILLER: u8 = b'.';

/// What was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that were changed.
    pub frames: u64,
    /// Those of an unknown link type or protocol, or damaged: of them nothing behind the known headers is left.
    pub not_understood: u64,
    /// Headers of HTTP/2 that say no more what they announce: gRPC and streams of events look like plain responses.
    pub filled_headers: u64,
}

/// Changes the frames of one capture.
pub struct Anonymizer {
    names: Names,
    streams: Streams,
    hasher: FlowHasher,
    counts: Counts,
}

impl Anonymizer {
    /// One that gives these pseudonyms.
    pub fn new(names: Names) -> Self {
        Self {
            names,
            streams: Streams::default(),
            hasher: FlowHasher::new(0),
            counts: Counts::default(),
        }
    }

    /// Takes each frame a first time.
    pub fn learn(&mut self, frame: &Frame<'_>) {
        let mut segment = Segment::default();
        if matches!(decode(frame, &self.hasher, &mut segment), Packet::Tcp) {
            let payload = payload(&segment, frame.bytes.len());
            self.streams.learn(&segment, &frame.bytes[payload], &self.names);
        }
    }

    /// All frames were [learned from](Self::learn): they come again, to be [changed](Self::change).
    pub fn rewind(&mut self) {
        self.counts.filled_headers = self.streams.rewind();
    }

    /// Writes what is to stand in place of `frame` to `bytes`.
    pub fn change(&mut self, frame: &Frame<'_>, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        let layout = layout(frame);
        frame::change_headers(&layout, bytes, &self.names);
        let content = &mut bytes[layout.begin..layout.end];
        let mut segment = Segment::default();
        match layout.content {
            Content::Tcp => {
                let is_segment = matches!(decode(frame, &self.hasher, &mut segment), Packet::Tcp)
                    && !segment.facts.has(SegmentFlags::REASSEMBLED);
                content.fill(if is_segment { 0 } else { FILLER });
                if is_segment {
                    let payload = payload(&segment, frame.bytes.len());
                    self.streams.write(&segment, &mut bytes[payload]);
                }
            }
            Content::Dns => dns::mask(content, &self.names),
            Content::Other => content.fill(FILLER),
            Content::Unknown => {
                content.fill(0);
                self.counts.not_understood += 1;
            }
        }
        bytes[layout.end..].fill(0);
        frame::set_checksums(frame, &layout, bytes);
        self.counts.frames += 1;
    }

    /// What was changed so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Where a segment's payload stands in its frame.
fn payload(segment: &Segment, captured: usize) -> std::ops::Range<usize> {
    let begin = (segment.payload_offset as usize).min(captured);
    let length = segment.captured_len.min(segment.payload_len) as usize;
    begin..(begin + length).min(captured)
}
