//! Lines across pushes, with bounded memory.

use super::exchanges::Lost;
use memchr::memchr;

/// Maximum length of a header, bytes; longer ones are not parsed.
const HEADER_MAX: u16 = 16 * 1024;

/// Splits the bytes of a direction into lines. Only a line that spans pushes is copied.
#[derive(Clone, Default)]
pub(super) struct Lines {
    /// A line that began in an earlier push.
    partial: Option<Box<Partial>>,
    /// Bytes of the header so far.
    header_bytes: u16,
}

/// The part seen so far of a line that spans pushes.
#[derive(Clone, Default)]
struct Partial {
    bytes: Vec<u8>,
    /// The line was returned and has to be dropped.
    taken: bool,
}

impl Lines {
    /// Begins a new header with the full size limit.
    pub fn begin(&mut self) {
        self.header_bytes = 0;
    }

    /// Returns whether a line began in an earlier push.
    #[inline]
    pub fn is_in_pieces(&self) -> bool {
        self.partial.is_some()
    }

    /// Returns how much longer the header may become, bytes.
    #[inline]
    pub fn room(&self) -> usize {
        usize::from(HEADER_MAX - self.header_bytes)
    }

    /// Counts lines of `bytes` bytes, within the [`room`](Self::room), that the caller parsed.
    pub fn pass(&mut self, bytes: usize) {
        self.header_bytes += bytes as u16;
    }

    /// Returns the next line of `rest` without its end (CRLF or bare LF, RFC 9112 §2.2); `None` if
    /// it is not complete yet. Advances `pos` by the bytes consumed.
    ///
    /// # Errors
    /// [`Lost`] if the header exceeds 16 KiB.
    #[inline]
    pub fn next<'s>(
        &'s mut self,
        rest: &'s [u8],
        pos: &mut usize,
    ) -> Result<Option<&'s [u8]>, Lost> {
        // Nearly every line is complete in one push.
        if self.partial.is_none()
            && let Some(at) = line_feed(rest)
            && at < self.room()
        {
            *pos += at + 1;
            self.pass(at + 1);
            return Ok(Some(without_return(&rest[..at])));
        }
        self.next_in_pieces(rest, pos)
    }

    #[inline(never)]
    fn next_in_pieces<'s>(
        &'s mut self,
        rest: &'s [u8],
        pos: &mut usize,
    ) -> Result<Option<&'s [u8]>, Lost> {
        if self.partial.as_ref().is_some_and(|partial| partial.taken) {
            self.partial = None;
        }
        let room = self.room();
        let window = &rest[..rest.len().min(room)];
        let found = memchr(b'\n', window);
        let used = found.map_or(window.len(), |at| at + 1);
        *pos += used;
        self.pass(used);
        let piece = &window[..used];
        if found.is_none() {
            if !piece.is_empty() {
                self.partial.get_or_insert_default().bytes.extend_from_slice(piece);
            }
            return if self.header_bytes == HEADER_MAX { Err(Lost) } else { Ok(None) };
        }
        let Some(partial) = &mut self.partial else { return Ok(Some(without_end(piece))) };
        partial.bytes.extend_from_slice(piece);
        partial.taken = true;
        Ok(Some(without_end(&partial.bytes)))
    }
}

/// Returns the place of the first line feed in `rest`. The lines before counted values are so short
/// that it takes less time to look at each byte than to call `memchr`.
#[inline]
fn line_feed(rest: &[u8]) -> Option<usize> {
    const SHORT_BYTES: usize = 8;
    let (short, long) = rest.split_at(rest.len().min(SHORT_BYTES));
    let within = short.iter().position(|&byte| byte == b'\n');
    within.or_else(|| Some(short.len() + memchr(b'\n', long)?))
}

fn without_end(line: &[u8]) -> &[u8] {
    without_return(line.strip_suffix(b"\n").unwrap_or(line))
}

/// Returns a line, which ended with a line feed, without the carriage return before that.
#[inline]
pub(super) fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
