//! Removes private data from a capture while preserving its diagnosis.
//!
//! Addresses and names become pseudonyms of the same length and class ([`Names`]). Payload becomes
//! filler, except for the bytes that the framer reads (see [`crate::app`]): these keep their form
//! and lose their values. Lengths, times, ports, sequence numbers and everything else on which the
//! diagnosis depends are kept. There are two passes: the first determines from the ordered streams
//! the replacement at each position ([`Plan`](plan::Plan)), the second changes the frames one by
//! one, so that retransmitted data remains identical.
//!
//! Ports are kept: a server's port names the service, a client's port identifies nobody, and their
//! order and reuse are evidence.

mod dns;
mod frame;
mod http;
mod mask;
mod masker;
mod mysql;
mod names;
mod plan;
mod redis;
mod streams;
#[cfg(test)]
mod tests;

pub use names::Names;

use crate::capture::Frame;
use crate::wire::{Content, FlowHasher, Packet, Segment, SegmentFlags, decode, layout};
use streams::Streams;

/// Filler for payload. No message of any protocol begins with it.
const FILLER: u8 = b'.';

/// Counts of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of frames changed.
    pub frames: u64,
    /// Number of frames that are damaged, or of unknown link type or protocol: everything after
    /// their known headers was removed.
    pub not_understood: u64,
    /// Number of HTTP/2 header blocks that were replaced: gRPC and event streams then look like
    /// ordinary responses, and requests have no kind.
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
    /// Creates an anonymizer with these pseudonyms.
    pub fn new(names: Names) -> Self {
        Self {
            names,
            streams: Streams::default(),
            hasher: FlowHasher::new(0),
            counts: Counts::default(),
        }
    }

    /// Processes a frame in the first pass.
    pub fn learn(&mut self, frame: &Frame<'_>) {
        let mut segment = Segment::default();
        if matches!(decode(frame, &self.hasher, &mut segment), Packet::Tcp) {
            let payload = payload(&segment, frame.bytes.len());
            self.streams.learn(&segment, &frame.bytes[payload], &self.names);
        }
    }

    /// Ends the first pass: all frames follow again, to be [changed](Self::change).
    pub fn rewind(&mut self) {
        self.counts.filled_headers = self.streams.rewind();
    }

    /// Writes the replacement of `frame` to `bytes`.
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

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Returns the range of a segment's payload in its frame.
fn payload(segment: &Segment, captured: usize) -> std::ops::Range<usize> {
    let begin = (segment.payload_offset as usize).min(captured);
    let length = segment.captured_len.min(segment.payload_len) as usize;
    begin..(begin + length).min(captured)
}
