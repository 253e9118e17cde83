//! Protocols whose messages begin with their length: one loop for all of them.

use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::mark::Side;

/// No protocol has a longer header before the length is known.
const HEADER_MAX: usize = 8;

/// What a header says about its message.
pub(super) struct Shape {
    /// Bytes that follow the header.
    pub length: u64,
    /// How many of them the protocol wants to see, at most.
    pub peek: usize,
}

/// What one protocol knows about its messages. The calls come in this order per message.
pub(super) trait Rules {
    /// Bytes that tell the length of the next message of this side; 1 to 8.
    fn header_bytes(&self, from: Side) -> usize;
    /// The first byte of a message is there, not yet consumed.
    fn begin(&mut self, from: Side, first: u8, feed: &mut Feed<'_>);
    /// The header is there.
    fn header(&mut self, from: Side, header: &[u8], feed: &mut Feed<'_>) -> Result<Shape, Lost>;
    /// The bytes to see are there, fewer than wanted if the capture cut them. Not called where
    /// there are none to see.
    fn head(&mut self, from: Side, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost>;
    /// The message has passed.
    fn end(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost>;
}

/// Both directions of a connection that speaks such a protocol.
#[derive(Clone, Default)]
pub(super) struct Packets<R> {
    readers: [PacketReader; 2],
    rules: R,
}

#[derive(Clone, Default)]
struct PacketReader {
    state: State,
    header: [u8; HEADER_MAX],
    have: u8,
    /// Bytes of the message not yet consumed.
    left: u64,
    /// How many of them are to be seen.
    want: usize,
    head: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Header,
    Head,
    /// The rest of the message, which the framer skips, has passed.
    Rest,
}

impl<R: Rules> Packets<R> {
    pub fn new(rules: R) -> Self {
        Self { readers: Default::default(), rules }
    }

    /// Takes what `feed` has from one side.
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let reader = &mut self.readers[from as usize];
        loop {
            match reader.state {
                State::Header => {
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
                    if header.len() == self.rules.header_bytes(from) {
                        let shape = self.rules.header(from, header, feed)?;
                        reader.left = shape.length;
                        let length = usize::try_from(shape.length).unwrap_or(usize::MAX);
                        reader.want = shape.peek.min(length);
                        reader.have = 0;
                        reader.state = State::Head;
                    }
                }
                State::Head => {
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
                State::Rest => {
                    reader.state = State::Header;
                    let next = self.rules.end(from, feed)?;
                    if !matches!(next, Next::More) {
                        return Ok(next);
                    }
                }
            }
        }
    }

    /// Whether the next byte of `from` is one that the protocol wants to see, behind the header.
    pub fn is_in_head(&self, from: Side) -> bool {
        matches!(self.readers[from as usize].state, State::Head)
    }

    /// Bytes are missing here: harmless if the message's length is known.
    pub fn gap(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let reader = &mut self.readers[from as usize];
        match reader.state {
            State::Head => reader.head_end(&mut self.rules, from, feed),
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
        self.state = State::Rest;
        if self.want > 0 {
            rules.head(from, &self.head, feed)?;
        }
        self.head.clear();
        Ok(if self.left > 0 { Next::Skip(self.left) } else { Next::More })
    }
}
