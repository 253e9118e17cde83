//! The bytes between the library and a socket: the library reads and writes here, and whoever owns the
//! socket moves the bytes. So the library needs no runtime.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::Observer;

/// Bytes that wait to be sent from which on the library writes no more.
const UNSENT_BYTES_MAX: usize = 256 << 10;

/// The two directions, which the library and the owner of the socket share.
#[derive(Clone, Debug)]
pub(super) struct Pipe(Arc<Mutex<Bytes>>);

#[derive(Debug)]
pub(super) struct Bytes {
    /// Bytes that were received, from `read` on not yet read by the library.
    received: Vec<u8>,
    read: usize,
    /// Bytes that the library has written, from `sent` on not yet sent.
    unsent: Vec<u8>,
    sent: usize,
    /// The peer has closed.
    has_ended: bool,
    pub observer: Observer,
}

impl Pipe {
    pub fn new() -> Pipe {
        Pipe(Arc::new(Mutex::new(Bytes {
            received: Vec::new(),
            read: 0,
            unsent: Vec::new(),
            sent: 0,
            has_ended: false,
            observer: Observer::new(),
        })))
    }

    pub fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bytes {
    /// Adds bytes that were received.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.observer.receives(bytes);
        if self.read == self.received.len() {
            self.received.clear();
            self.read = 0;
        }
        self.received.extend_from_slice(bytes);
    }

    /// Notes that the peer has closed.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns whether the library has bytes to read.
    pub fn is_readable(&self) -> bool {
        self.read < self.received.len()
    }

    /// Returns the bytes that are to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// Notes that so many bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent = self.unsent.len().min(self.sent + bytes);
        if self.sent == self.unsent.len() || self.sent >= UNSENT_BYTES_MAX {
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = self.bytes();
        let rest = &bytes.received[bytes.read..];
        let taken = rest.len().min(to.remaining());
        if taken == 0 && !bytes.has_ended {
            // The session polls again when bytes have come, and needs no waker for it.
            return Poll::Pending;
        }
        to.put_slice(&rest[..taken]);
        bytes.read += taken;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut bytes = self.bytes();
        let room = UNSENT_BYTES_MAX.saturating_sub(bytes.unsent().len());
        let taken = from.len().min(room);
        if taken == 0 && !from.is_empty() {
            return Poll::Pending;
        }
        bytes.observer.sends(&from[..taken]);
        bytes.unsent.extend_from_slice(&from[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
