//! The beginnings of lines, across pushes.

use memchr::memchr;

/// Number of bytes at the beginning of a line that are read: a tag and a command, or a reply's code.
pub const LINE_BYTES: usize = 40;

/// The beginning of the current line of a side.
#[derive(Clone, Copy)]
pub struct Line {
    bytes: [u8; LINE_BYTES],
    pub len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; LINE_BYTES], len: 0 }
    }
}

impl Line {
    /// Takes bytes up to the end of the line, and returns its beginning if it is complete.
    pub fn take(&mut self, bytes: &[u8], pos: &mut usize) -> Option<Self> {
        let rest = bytes.get(*pos..).unwrap_or_default();
        let end = memchr(b'\n', rest);
        let taken = &rest[..end.unwrap_or(rest.len())];
        for (slot, byte) in self.bytes[self.len..].iter_mut().zip(taken) {
            *slot = *byte;
            self.len += 1;
        }
        *pos += taken.len() + usize::from(end.is_some());
        end.map(|_| std::mem::take(self))
    }

    pub fn text(&self) -> &[u8] {
        self.bytes[..self.len].trim_ascii_end()
    }
}
