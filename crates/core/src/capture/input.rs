//! Decompresses captures: gzip (RFC 1952) and zstd (RFC 8878) are recognised by their first bytes,
//! whatever the file's name, and all members or frames of a file are read.

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufReader, Cursor, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes read at a time from a compressed file.
const COMPRESSED_READ_BYTES: usize = 32 << 10;

/// Maximum window of zstd, as a power of two, bytes: 8 MiB, which RFC 8878 §3.1.1.1.2 recommends,
/// and which levels up to 19 do not exceed.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Largest supported zstd window, bytes.
pub(super) const ZSTD_WINDOW_MAX: u64 = 1 << ZSTD_WINDOW_LOG_MAX;

/// Enough bytes of a file to recognise its format; a pcap header has 24 bytes, the rest serves to
/// describe files that are not captures.
const HEAD_BYTES: usize = 64;

/// The decompressed bytes of one source.
pub(super) struct Input {
    read: Box<dyn Read + Send>,
    consumed: Arc<AtomicU64>,
}

impl Input {
    /// Opens a stream of stored bytes; returns it with the first bytes of the capture in it (fewer
    /// than [`HEAD_BYTES`] only if the capture has no more).
    pub(super) fn open(stored: Box<dyn Read + Send>) -> io::Result<(Self, Vec<u8>)> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut stored = Counted { read: stored, consumed: Arc::clone(&consumed) };
        let stored_head = read_head(&mut stored)?;
        let compression = Compression::of(&stored_head);
        if compression == Compression::None {
            return Ok((Self { read: Box::new(stored), consumed }, stored_head));
        }
        let whole = Cursor::new(stored_head).chain(stored);
        let buffered = BufReader::with_capacity(COMPRESSED_READ_BYTES, whole);
        let mut read: Box<dyn Read + Send> = if compression == Compression::Gzip {
            Box::new(MultiGzDecoder::new(buffered))
        } else {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        };
        let head = read_head(&mut read)?;
        Ok((Self { read, consumed }, head))
    }

    /// Returns the number of bytes read from the source so far, as stored.
    pub(super) fn consumed_bytes(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    /// Reads once; 0 means the end. Interrupted reads are repeated.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A reader that reports more bytes than the buffer holds must not break the parser.
                result => return result.map(|bytes| bytes.min(buffer.len())),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, 0x08, ..] => Self::Gzip,
            // A zstd frame, or a skippable frame before it (RFC 8878 §3.1), as written by pzstd.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Reads the first bytes of a stream. An error after some bytes is left for the next read.
fn read_head(read: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < HEAD_BYTES {
        match read.read(&mut head[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled = (filled + bytes).min(HEAD_BYTES),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) if filled > 0 => break,
            Err(error) => return Err(error),
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// Counts the bytes read from the source.
struct Counted {
    read: Box<dyn Read + Send>,
    consumed: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.read.read(buffer)?;
        self.consumed.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}
