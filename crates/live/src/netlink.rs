//! Requests to the kernel's routing tables and interfaces by netlink. Read first: rtnetlink(7),
//! linux/netlink.h.

use std::io::{self, Read, Write};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// The request is answered by an acknowledgment or an error.
const NLM_F_REQUEST_ACK: u16 = 0x5;
/// The request is answered by a series of messages.
pub const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// The kernel fills datagrams up to 32 KiB where the reader's buffer has the room.
const BUFFER_BYTES: usize = 128 << 10;

/// A connection to the routing tables of the namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens the connection in the calling thread's network namespace.
    ///
    /// # Errors
    /// A sandbox forbids it.
    pub fn open() -> io::Result<Self> {
        let protocol = Some(Protocol::from(libc::NETLINK_ROUTE));
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, protocol)?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Self { socket, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Asks for all objects of a kind and passes the body of each message on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn dump(&mut self, kind: u16, body: &[u8], take: impl FnMut(&[u8])) -> io::Result<()> {
        self.exchange(kind, NLM_F_REQUEST_DUMP, body, take)
    }

    /// Makes one request, and passes the body of each message of the answer on; `flags` says what
    /// to do where the object exists.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        take: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.exchange(kind, NLM_F_REQUEST_ACK | flags, body, take)
    }

    fn exchange(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut request = vec![0; HEADER_BYTES];
        request[..4].copy_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&kind.to_ne_bytes());
        request[6..8].copy_from_slice(&flags.to_ne_bytes());
        request.extend(body);
        self.socket.write_all(&request)?;
        loop {
            let length = match self.socket.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            let mut bytes = &self.buffer[..length];
            while let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
                let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
                let length = length as usize;
                let Some(body) = bytes.get(HEADER_BYTES..length) else {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                };
                match u16::from_ne_bytes([header[4], header[5]]) {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => match word(body, 0) as i32 {
                        0 => return Ok(()),
                        code => return Err(io::Error::from_raw_os_error(-code)),
                    },
                    _ => take(body),
                }
                bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// Returns the word at `at`; 0 where there is none.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    let octets = bytes.get(at..at + 4).and_then(|octets| octets.try_into().ok());
    octets.map_or(0, u32::from_ne_bytes)
}

/// Parses consecutive `struct nlattr`s.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([head[2], head[3]]) & 0x3fff, value))
    })
}

/// Appends a `struct nlattr`.
pub fn put(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_put_and_a_cut_is_survived() {
        let mut body = Vec::new();
        put(&mut body, 3, b"lo\0");
        put(&mut body, 4, &7u32.to_ne_bytes());
        let read: Vec<_> = attributes(&body).collect();
        assert_eq!(read, [(3, &b"lo\0"[..]), (4, &7u32.to_ne_bytes()[..])]);
        for length in 0..body.len() {
            let _ = attributes(&body[..length]).count();
        }
    }
}
