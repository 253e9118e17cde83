//! Reads and writes the bytes of a connection, plain or over TLS.

use std::io::{self, BufRead, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use rustls::{ClientConnection, HandshakeKind};

use super::failure::{Failure, FailureKind};
use crate::budget::{Budget, Exceeded, Metered};
use crate::tls::sentence;

/// A socket, with TLS if the target uses it.
pub(super) struct Stream {
    socket: Metered<TcpStream>,
    tls: Option<Box<ClientConnection>>,
}

/// The result of a read.
pub(super) enum Found {
    /// More bytes may be available.
    More,
    /// All bytes that had arrived were read.
    Drained,
    /// The peer has closed.
    Closed,
}

impl Stream {
    /// Begins to connect.
    pub fn connect(
        address: SocketAddr,
        tls: Option<ClientConnection>,
        budget: &Budget,
    ) -> io::Result<Stream> {
        let socket = budget.connect(Duration::ZERO, || TcpStream::connect(address))?;
        // If the platform does not support the option, small segments are sent later; the load
        // continues.
        let _ = socket.socket().set_nodelay(true);
        Ok(Stream { socket, tls: tls.map(Box::new) })
    }

    /// Returns the socket, for its state.
    pub fn socket(&self) -> &TcpStream {
        self.socket.socket()
    }

    /// Returns the socket, for its registration in an event loop.
    pub fn socket_mut(&mut self) -> &mut TcpStream {
        self.socket.socket_mut()
    }

    /// Takes a request of this length from the budget.
    pub fn request(&self, bytes: usize) -> Result<(), Exceeded> {
        self.socket.request(bytes)
    }

    /// Returns whether the TLS handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Returns whether the stream uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the protocol that ALPN has chosen.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(|tls| tls.alpn_protocol())
    }

    /// Returns whether the handshake resumed a session.
    pub fn is_resumed(&self) -> bool {
        let kind = self.tls.as_ref().and_then(|tls| tls.handshake_kind());
        kind == Some(HandshakeKind::Resumed)
    }

    /// Writes as much of `bytes` as possible. Returns the number of bytes written.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return match self.socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                written => written,
            };
        };
        let taken = tls.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    /// Writes the pending bytes of TLS; returns `false` if the socket accepts no more at present.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(true)
    }

    /// Reads once from the socket and passes the decrypted bytes to `take`, in pieces.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<Found, Failure> {
        let length = match self.socket.read(buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Found::Drained),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Found::More),
            Err(error) => return Err(Failure::io(FailureKind::Read, &error)),
        };
        if length == 0 {
            return Ok(Found::Closed);
        }
        // A short read has emptied the socket; for later bytes there is a new event (epoll(7),
        // question 9).
        let found = if length < buffer.len() { Found::Drained } else { Found::More };
        match &mut self.tls {
            None => take(&buffer[..length])?,
            Some(tls) => {
                decrypt(tls, &buffer[..length], take)?;
                // TLS may have to send alerts, and answers to key updates.
                self.flush().map_err(|error| Failure::io(FailureKind::Write, &error))?;
            }
        }
        Ok(found)
    }
}

fn decrypt(
    tls: &mut ClientConnection,
    mut wire: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(FailureKind::Tls, error);
    while !wire.is_empty() {
        tls.read_tls(&mut wire).map_err(|error| failed(&error))?;
        let state = match tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => return Err(failed(&sentence(&error))),
        };
        let mut left = state.plaintext_bytes_to_read();
        while left > 0 {
            let mut reader = tls.reader();
            let chunk = reader.fill_buf().map_err(|error| failed(&error))?;
            let length = chunk.len();
            take(chunk)?;
            reader.consume(length);
            left = left.saturating_sub(length.max(1));
        }
    }
    Ok(())
}
