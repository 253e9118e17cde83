//! Writes captures as pcapng (draft-ietf-opsawg-pcapng): one section, one interface, frames with
//! nanoseconds, in the byte order of this machine.

use super::{Frame, FrameId, LinkType};

/// Block types (§11.1).
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Options: end, comment, name of the interface, resolution of times.
const END: u16 = 0;
pub(super) const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Maximum length of a value that is written, bytes; the format has 16 bits for it.
pub(super) const OPTION_BYTES_MAX: usize = 4096;
/// Times are in units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
/// Bytes of type and length before a block's body, and of the length after it.
const FRAMING_BYTES: u32 = 12;
/// Bytes before the data of a frame: interface, time, captured and original length.
const PACKET_HEADER_BYTES: usize = 20;

/// The bytes of a file that are not written yet.
#[derive(Default)]
pub struct Encoder {
    /// Complete blocks.
    pub bytes: Vec<u8>,
}

impl Encoder {
    /// Begins a file of frames of `link` from `interface`, whose name may be empty; `comment` is on
    /// the section.
    pub fn header(&mut self, link: LinkType, interface: &str, comment: &str) {
        let start = self.begin(SECTION);
        self.word(BYTE_ORDER);
        // Version 1.0, and a section of unspecified length.
        self.bytes.extend([1u16.to_ne_bytes(), 0u16.to_ne_bytes()].concat());
        self.bytes.extend(u64::MAX.to_ne_bytes());
        self.option(COMMENT, comment.as_bytes());
        self.option(END, &[]);
        self.end(start);
        let start = self.begin(INTERFACE);
        self.bytes.extend(link.0.to_ne_bytes());
        self.bytes.extend([0; 6]);
        if !interface.is_empty() {
            self.option(IF_NAME, interface.as_bytes());
        }
        self.option(IF_TSRESOL, &[NANOSECONDS]);
        self.option(END, &[]);
        self.end(start);
    }

    /// Adds a frame with its comments, if any.
    pub fn frame(&mut self, frame: &Frame<'_>, comments: &[String]) {
        let start = self.begin(ENHANCED_PACKET);
        self.word(0);
        self.word((frame.time_ns >> 32) as u32);
        self.word(frame.time_ns as u32);
        self.word(frame.bytes.len() as u32);
        self.word(frame.original_len);
        self.bytes.extend_from_slice(frame.bytes);
        self.pad();
        comments.iter().for_each(|it| self.option(COMMENT, it.as_bytes()));
        if !comments.is_empty() {
            self.option(END, &[]);
        }
        self.end(start);
    }

    fn begin(&mut self, kind: u32) -> usize {
        let start = self.bytes.len();
        self.word(kind);
        self.word(0);
        start
    }

    /// Writes the length of the block that began at `start` to both of its ends.
    fn end(&mut self, start: usize) {
        let length = ((self.bytes.len() - start + 4) as u32).to_ne_bytes();
        self.bytes.extend(length);
        self.bytes[start + 4..start + 8].copy_from_slice(&length);
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_ne_bytes());
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(OPTION_BYTES_MAX)];
        self.bytes.extend(code.to_ne_bytes());
        self.bytes.extend((value.len() as u16).to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
    }
}

/// Returns the frames in `bytes`, a part of a file written by an [`Encoder`] that begins with a
/// block. The first frame has this `number`.
pub fn frames(bytes: &[u8], link: LinkType, number: u64) -> impl Iterator<Item = Frame<'_>> {
    let (mut rest, mut number) = (bytes, number);
    std::iter::from_fn(move || {
        loop {
            let (kind, length) = (word(rest, 0)?, word(rest, 4)?);
            let body = rest.get(8..(length.max(FRAMING_BYTES) - 4) as usize)?;
            rest = rest.get(length.max(FRAMING_BYTES) as usize..)?;
            if kind != ENHANCED_PACKET {
                continue;
            }
            let time_ns = u64::from(word(body, 4)?) << 32 | u64::from(word(body, 8)?);
            let captured = word(body, 12)? as usize;
            let bytes = body.get(PACKET_HEADER_BYTES..PACKET_HEADER_BYTES + captured)?;
            let (id, original_len) = (FrameId::new(0, number), word(body, 16)?);
            number += 1;
            return Some(Frame { id, time_ns, original_len, link, bytes });
        }
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Block, CaptureSet, Source};

    const START_NS: u64 = 1_700_000_000_123_456_789;

    fn written() -> Vec<u8> {
        let mut encoder = Encoder::default();
        encoder.header(LinkType::LINUX_SLL2, "any", "frames 7–9");
        let comments = ["the ACK".to_owned()];
        for (number, bytes, comments) in
            [(7, &[1, 2, 3][..], &comments[..]), (8, &[], &[]), (9, &[4; 8], &[])]
        {
            let frame = Frame {
                id: FrameId::new(0, number),
                time_ns: START_NS + number,
                original_len: 99,
                link: LinkType::LINUX_SLL2,
                bytes,
            };
            encoder.frame(&frame, comments);
        }
        encoder.bytes
    }

    #[test]
    fn what_is_written_is_read_by_the_core() {
        let mut set = CaptureSet::new(vec![Source::memory("written", written())]).unwrap();
        let (mut block, mut frames) = (Block::default(), Vec::new());
        while set.next_block(&mut block).unwrap() {
            frames.extend(block.frames().map(|it| (it.time_ns, it.bytes.len(), it.original_len)));
        }
        assert_eq!(frames, [(START_NS + 7, 3, 99), (START_NS + 8, 0, 99), (START_NS + 9, 8, 99)]);
        assert_eq!(set.inputs()[0].problems, []);
        assert_eq!(set.inputs()[0].link_types, [LinkType::LINUX_SLL2]);
    }

    #[test]
    fn frames_are_found_again_and_a_cut_file_is_survived() {
        let bytes = written();
        let found = frames(&bytes, LinkType::LINUX_SLL2, 7);
        let found: Vec<_> = found.map(|it| (it.id.number(), it.time_ns, it.bytes.len())).collect();
        assert_eq!(found, [(7, START_NS + 7, 3), (8, START_NS + 8, 0), (9, START_NS + 9, 8)]);
        for length in 0..bytes.len() {
            assert!(frames(&bytes[..length], LinkType::LINUX_SLL2, 1).count() < 3);
        }
    }
}
