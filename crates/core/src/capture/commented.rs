//! Copies a capture with comments at its frames, in the form that Wireshark shows and stores.
//!
//! A pcapng file is copied block by block: everything stays as it is, byte for byte, except for the
//! added options. A file of another format, which has no place for comments, becomes pcapng.

use super::each::each_frame;
use super::encoder::{COMMENT, OPTION_BYTES_MAX};
use super::input::Input;
use super::order::ByteOrder;
use super::pcapng::{
    self, BLOCK_BYTES_MAX, ENHANCED_DATA_AT, ENHANCED_PACKET, HEAD_BYTES, OPTION_END, PACKET,
    Pcapng, SECTION_HEADER, TAIL_BYTES,
};
use super::reader::Halt;
use super::{Encoder, Problem};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Write};

/// Offsets in the block of a section header: the options, and the section's length.
const SECTION_OPTIONS_AT: usize = 24;
const SECTION_LENGTH_AT: usize = 16;
/// Offset of the captured length in the body of a packet's block.
const CAPTURED_LENGTH_AT: usize = 12;
/// Bytes of an option's code and length.
const OPTION_HEAD_BYTES: usize = 4;

/// The result of adding comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commented {
    /// Number of frames with comments.
    pub frames: u64,
    /// Number of frames whose comments were lost because their blocks have no options (Simple
    /// Packet Blocks) or are damaged.
    pub without_room: u64,
    /// The reason why the file could not be read to its end; the rest is copied unchanged.
    pub problem: Option<Problem>,
}

/// Copies a capture, plain or compressed, to `out`; each call of `open` opens it at its start.
/// `comments` are by frame number; `about` is a comment on the whole capture.
///
/// # Errors
/// The system's error if a file cannot be read or written. Problems of the capture itself are in
/// the result.
pub fn copy_with_comments(
    open: &dyn Fn() -> io::Result<Box<dyn Read + Send>>,
    comments: &BTreeMap<u64, Vec<String>>,
    about: &str,
    out: &mut dyn Write,
) -> io::Result<Commented> {
    let (input, head) = Input::open(open()?)?;
    if Pcapng::recognises(&head) {
        let read = Cursor::new(head).chain(Decompressed(input));
        let mut copy = Copy { read, comments, about, out, number: 0, done: Commented::default() };
        copy.run()?;
        return Ok(copy.done);
    }
    encode(open()?, comments, about, out)
}

/// Writes the frames of a file that is not pcapng, all of which have one link type.
fn encode(
    stored: Box<dyn Read + Send>,
    comments: &BTreeMap<u64, Vec<String>>,
    about: &str,
    out: &mut dyn Write,
) -> io::Result<Commented> {
    let (mut encoder, mut done) = (Encoder::default(), Commented::default());
    let mut has_header = false;
    done.problem = each_frame(stored, &mut |frame| {
        if !std::mem::replace(&mut has_header, true) {
            encoder.header(frame.link, "", about);
        }
        let said = comments.get(&frame.id.number());
        done.frames += u64::from(said.is_some());
        encoder.frame(frame, said.map_or(&[], Vec::as_slice));
        out.write_all(&encoder.bytes)?;
        encoder.bytes.clear();
        Ok(())
    })?;
    Ok(done)
}

/// Copies the blocks of a pcapng file.
struct Copy<'c, R> {
    read: R,
    comments: &'c BTreeMap<u64, Vec<String>>,
    about: &'c str,
    out: &'c mut dyn Write,
    /// Number of the last frame.
    number: u64,
    done: Commented,
}

impl<R: Read> Copy<'_, R> {
    fn run(&mut self) -> io::Result<()> {
        let (mut walk, mut offset) = (Pcapng::new(), 0);
        let mut block = Vec::new();
        loop {
            block.clear();
            let (kind, length) = match self.head(&mut walk, &mut block, offset)? {
                Ok(head) => head,
                Err(problem) => {
                    self.done.problem = problem;
                    // The part that cannot be read is copied, too.
                    self.out.write_all(&block)?;
                    io::copy(&mut self.read, self.out)?;
                    return Ok(());
                }
            };
            offset += u64::from(length);
            self.number += u64::from(pcapng::is_packet(kind) || pcapng::is_numbered(kind));
            let said = self.comments.get(&self.number).filter(|_| pcapng::is_packet(kind));
            let is_changed = said.is_some() || kind == SECTION_HEADER;
            let rest = u64::from(length) - block.len() as u64;
            if !is_changed || length as usize > BLOCK_BYTES_MAX {
                self.done.without_room += u64::from(said.is_some());
                self.out.write_all(&block)?;
                if io::copy(&mut (&mut self.read).take(rest), self.out)? < rest {
                    self.done.problem = Some(Problem::Cut { offset: offset - u64::from(length) });
                    return Ok(());
                }
                continue;
            }
            if ((&mut self.read).take(rest).read_to_end(&mut block)? as u64) < rest {
                self.done.problem = Some(Problem::Cut { offset: offset - u64::from(length) });
                return self.out.write_all(&block);
            }
            self.comment(walk.order, kind, said, &mut block)?;
        }
    }

    /// Reads type and length of the next block into `block`. The inner error is `None` at the end
    /// of the file, and a problem if no block can begin here.
    fn head(
        &mut self,
        walk: &mut Pcapng,
        block: &mut Vec<u8>,
        offset: u64,
    ) -> io::Result<Result<(u32, u32), Option<Problem>>> {
        let mut needed = HEAD_BYTES;
        loop {
            let missing = (needed - block.len()) as u64;
            (&mut self.read).take(missing).read_to_end(block)?;
            if block.len() < needed {
                return Ok(Err((!block.is_empty()).then_some(Problem::Cut { offset })));
            }
            return Ok(match walk.block_head(block, offset) {
                Ok(head) => Ok(head),
                Err(Halt::Needs(more)) if more > needed => {
                    needed = more;
                    continue;
                }
                Err(Halt::Ended(problem)) => Err(Some(problem)),
                Err(_) => Err(Some(Problem::Cut { offset })),
            });
        }
    }

    /// Writes a complete `block` with its comments.
    fn comment(
        &mut self,
        order: ByteOrder,
        kind: u32,
        said: Option<&Vec<String>>,
        block: &mut Vec<u8>,
    ) -> io::Result<()> {
        let options_at = match kind {
            SECTION_HEADER => Some(SECTION_OPTIONS_AT),
            ENHANCED_PACKET | PACKET => order
                .u32(block, HEAD_BYTES + CAPTURED_LENGTH_AT)
                .map(|bytes| HEAD_BYTES + ENHANCED_DATA_AT + (bytes as usize).next_multiple_of(4)),
            _ => None,
        };
        let about = [self.about.to_owned()];
        let comments = said.map_or(&about[..], Vec::as_slice);
        let has_room = options_at.is_some_and(|at| insert(order, block, at, comments));
        if said.is_some() {
            self.done.frames += u64::from(has_room);
            self.done.without_room += u64::from(!has_room);
        }
        if kind == SECTION_HEADER
            && let Some(length) = block.get_mut(SECTION_LENGTH_AT..SECTION_OPTIONS_AT)
        {
            // The section becomes longer than stated: -1 means an unspecified length (§4.1).
            length.fill(u8::MAX);
        }
        self.out.write_all(block)
    }
}

/// Adds comments after the options of `block`, which begin at `at`; returns `false` if these are
/// damaged, or no comment fits.
fn insert(order: ByteOrder, block: &mut Vec<u8>, at: usize, comments: &[String]) -> bool {
    let body_end = block.len() - TAIL_BYTES;
    let mut end = at;
    while end < body_end {
        let (Some(code), Some(length)) = (order.u16(block, end), order.u16(block, end + 2)) else {
            return false;
        };
        if code == OPTION_END {
            break;
        }
        end += OPTION_HEAD_BYTES + usize::from(length).next_multiple_of(4);
    }
    if end > body_end {
        return false;
    }
    let mut added = Vec::new();
    for comment in comments {
        let mut length = comment.len().min(OPTION_BYTES_MAX);
        while !comment.is_char_boundary(length) {
            length -= 1;
        }
        let bytes = &comment.as_bytes()[..length];
        added.extend(order.half_bytes(COMMENT));
        added.extend(order.half_bytes(bytes.len() as u16));
        added.extend_from_slice(bytes);
        added.resize(added.len().next_multiple_of(4), 0);
    }
    added.extend([0; OPTION_HEAD_BYTES]);
    block.splice(end..body_end, added);
    let length = order.word_bytes(block.len() as u32);
    block[4..HEAD_BYTES].copy_from_slice(&length);
    let tail = block.len() - TAIL_BYTES;
    block[tail..].copy_from_slice(&length);
    true
}

/// Reads an input after decompression.
struct Decompressed(Input);

impl Read for Decompressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
