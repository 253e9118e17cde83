//! Two processes, and the pair of sockets between them: short messages, each with at most one descriptor (unix(7):
//! `SOCK_SEQPACKET`, `SCM_RIGHTS`), and documents of any length, which are files in memory.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    recvmsg, sendmsg, shutdown, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tcpwhy_live::sys::fork;

/// Length of a message, bytes. The longest has 32 ranges of ports.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Length of a document, bytes.
const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

/// How long the end of the other process is waited for.
const END_WAIT: Duration = Duration::from_secs(2);

/// Starts a process with a copy of this one, which does `work` with its end of a channel, and
/// ignores the signals of a terminal. Comes before the first thread. Returns the other
/// end and the number of the process.
///
/// # Errors
/// The kernel has no room, or this process has threads.
pub fn part(work: impl FnOnce(&Channel)) -> io::Result<(Channel, u32)> {
    let (own, other) = Channel::pair()?;
    let pid = fork::start(|| {
        if fork::detach(other.0.as_fd()).is_ok() {
            work(&other);
        }
    })?;
    Ok((own, pid))
}

/// One end of a channel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A message that was received, with its descriptor.
#[derive(Debug)]
pub struct Received<T> {
    /// The message.
    pub message: T,
    /// Its descriptor.
    pub descriptor: Option<OwnedFd>,
}

impl Channel {
    /// Returns both ends.
    ///
    /// # Errors
    /// The kernel has no room.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end is closed, or the message is too long.
    pub fn send(&self, message: &impl Serialize, descriptor: Option<&OwnedFd>) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(AsFd::as_fd);
        if descriptors.is_some() {
            beside.push(SendAncillaryMessage::ScmRights(descriptors.as_slice()));
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the next message. `None` once the other end is closed.
    ///
    /// # Errors
    /// It is no such message.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<Received<T>>> {
        let mut text = [0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut text)];
            match recvmsg(&self.0, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        };
        let mut descriptor = None;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                descriptor = descriptors.next();
            }
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let message = serde_json::from_slice(&text[..received.bytes])?;
        Ok(Some(Received { message, descriptor }))
    }

    /// Waits until there is a message or the other end is closed, for up to `timeout`; returns
    /// whether that is so. A signal ends the wait.
    ///
    /// # Errors
    /// Not expected.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut polled, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends no more messages, and waits for the end of the other process, so that nothing outlives
    /// the command; answers of type `T` that nobody has taken come before that.
    pub fn end<T: DeserializeOwned>(&self) {
        // If that fails, the other process has ended.
        let _ = shutdown(&self.0, Shutdown::Write);
        while self.wait(END_WAIT).unwrap_or(false) && matches!(self.receive::<T>(), Ok(Some(_))) {}
    }
}

/// Makes a document that nobody can change any more.
///
/// # Errors
/// The system has no memory.
pub fn document(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("tcpwhy", flags)?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(file.into())
}

/// Reads a document.
///
/// # Errors
/// It is no sealed file in memory, or too long.
pub fn read(document: OwnedFd) -> io::Result<Vec<u8>> {
    // Of any other file a read may never end.
    let seals = fcntl_get_seals(&document)?;
    let file = File::from(document);
    let length = file.metadata()?.len();
    if !seals.contains(SealFlags::WRITE | SealFlags::SHRINK) || length > DOCUMENT_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::with_capacity(length as usize);
    From0(&file, 0).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file from its beginning, wherever its offset is.
struct From0<'a>(&'a File, u64);

impl Read for From0<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(to, self.1)?;
        self.1 += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_message_arrives_with_its_descriptor_and_the_end_is_seen() {
        let (one, other) = Channel::pair().unwrap();
        one.send(&(1, "x"), Some(&document(b"long").unwrap())).unwrap();
        one.send(&(2, "y"), None).unwrap();
        let first = other.receive::<(u32, String)>().unwrap().unwrap();
        assert_eq!(first.message, (1, "x".to_owned()));
        assert_eq!(read(first.descriptor.unwrap()).unwrap(), b"long");
        let second = other.receive::<(u32, String)>().unwrap().unwrap();
        assert!(second.message.0 == 2 && second.descriptor.is_none());
        assert!(!other.wait(Duration::ZERO).unwrap());
        drop(one);
        assert!(other.wait(Duration::from_secs(5)).unwrap());
        assert!(other.receive::<(u32, String)>().unwrap().is_none());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let (one, other) = Channel::pair().unwrap();
        assert!(one.send(&"x".repeat(MESSAGE_BYTES_MAX), None).is_err());
        for bytes in [&b"{"[..], &[b' '; MESSAGE_BYTES_MAX + 1]] {
            rustix::net::send(&one.0, bytes, SendFlags::empty()).unwrap();
            assert!(other.receive::<u32>().is_err());
        }
    }

    #[test]
    fn a_document_that_can_change_or_never_ends_is_refused() {
        let unsealed = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(read(unsealed).is_err());
        assert!(read(UnixDatagram::unbound().unwrap().into()).is_err());
        assert!(read(File::open("/dev/zero").unwrap().into()).is_err());
    }
}
