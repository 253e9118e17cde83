//! The common loop of protocols whose messages begin with their length.

use super::exchanges::{Feed, Lost};
use super::framer::Next;
use crate::wire::{BySide, Side};

/// Maximum length of a header before the length is known.
pub(super) const HEADER_MAX: usize = 16;

/// The values of a message's header.
pub(super) struct Shape {
    /// Bytes that follow the header.
    pub length: u64,
    /// Maximum number of these bytes that the protocol reads.
    pub peek: usize,
}

/// The rules of one protocol. The methods are called in this order for each message.
pub(super) trait Rules {
    /// Returns the number of bytes up to the length of the message of this side that begins with
    /// `header`, as far as these bytes show it; 1 to [`HEADER_MAX`].
    fn header_bytes(&self, from: Side, header: &[u8]) -> usize;
    /// Is called when the first byte of a message has arrived, and is not yet consumed.
    fn begin(&mut self, from: Side, first: u8, feed: &mut Feed<'_>);
    /// Is called when the header is complete.
    fn header(&mut self, from: Side, header: &[u8], feed: &mut Feed<'_>) -> Result<Shape, Lost>;
    /// Is called when the bytes to be read are complete; there are fewer than requested if the
    /// capture truncated them. It is not called if there are none to be read.
    fn head(&mut self, from: Side, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost>;
    /// Is called when the message has passed.
    fn end(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost>;
}

/// Parsers of both directions of a connection with such a protocol.
#[derive(Clone, Default)]
pub(super) struct Packets<R> {
    readers: BySide<PacketReader>,
    rules: R,
}

#[derive(Clone, Default)]
struct PacketReader {
    state: PacketState,
    header: [u8; HEADER_MAX],
    have: u8,
    /// Bytes of the message not yet consumed.
    left: u64,
    /// Number of bytes to be read.
    want: usize,
    head: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
enum PacketState {
    #[default]
    Header,
    Head,
    /// The end of the message, whose rest the framer skips.
    Rest,
}

impl<R: Rules> Packets<R> {
    pub fn new(rules: R) -> Self {
        Self { readers: Default::default(), rules }
    }

    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// Parses the bytes of `feed` from one side.
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let reader = &mut self.readers[from];
        loop {
            match reader.state {
                PacketState::Header => {
                    let Some(&byte) = feed.rest().first() else {
                        return Ok(Next::More);
                    };
                    if reader.have == 0 {
                        self.rules.begin(from, byte, feed);
                    }
                    feed.pos += 1;
                    reader.header[usize::from(reader.have)] = byte;
                    reader.have += 1;
                    let header = &reader.header[..usize::from(reader.have)];
                    if header.len() == self.rules.header_bytes(from, header) {
                        let shape = self.rules.header(from, header, feed)?;
                        reader.left = shape.length;
                        let length = usize::try_from(shape.length).unwrap_or(usize::MAX);
                        reader.want = shape.peek.min(length);
                        reader.have = 0;
                        reader.state = PacketState::Head;
                    }
                }
                PacketState::Head => {
                    let missing = reader.want - reader.head.len();
                    let piece = feed.rest();
                    let piece = &piece[..piece.len().min(missing)];
                    reader.head.extend_from_slice(piece);
                    reader.left -= piece.len() as u64;
                    feed.pos += piece.len();
                    if piece.len() < missing {
                        return Ok(Next::More);
                    }
                    if let Next::Skip(left) = reader.head_end(&mut self.rules, from, feed)? {
                        return Ok(Next::Skip(left));
                    }
                }
                PacketState::Rest => {
                    reader.state = PacketState::Header;
                    let next = self.rules.end(from, feed)?;
                    if !matches!(next, Next::More) {
                        return Ok(next);
                    }
                }
            }
        }
    }

    /// Returns whether the next byte of `from` is one that the protocol reads after the header.
    pub fn is_in_head(&self, from: Side) -> bool {
        matches!(self.readers[from].state, PacketState::Head)
    }

    /// Returns whether the next byte of `from` begins a message.
    pub fn is_between(&self, from: Side) -> bool {
        let reader = &self.readers[from];
        reader.have == 0 && matches!(reader.state, PacketState::Header)
    }

    /// Processes missing bytes, which are harmless if the length of the message is known.
    pub fn gap(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let reader = &mut self.readers[from];
        match reader.state {
            PacketState::Head => reader.head_end(&mut self.rules, from, feed),
            _ => Err(Lost),
        }
    }
}

impl PacketReader {
    fn head_end<R: Rules>(
        &mut self,
        rules: &mut R,
        from: Side,
        feed: &mut Feed<'_>,
    ) -> Result<Next, Lost> {
        self.state = PacketState::Rest;
        if self.want > 0 {
            rules.head(from, &self.head, feed)?;
        }
        self.head.clear();
        Ok(if self.left > 0 { Next::Skip(self.left) } else { Next::More })
    }
}
