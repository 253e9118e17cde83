//! A packet socket with a ring that the kernel fills (TPACKET_V3).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tcpwhy_core::capture::Block;

use super::selection::{self, Selection};
use super::{RETIRE_MS, Source, Wanted, ring};
use crate::error::LiveError;
use crate::sys::packet;

/// Instructions that the kernel takes (`BPF_MAXINSNS`).
const INSTRUCTIONS_MAX: usize = 4096;
/// Bytes of a block of the ring.
const BLOCK_BYTES: u32 = 256 << 10;
/// Blocks of the ring taken in one round: what is handed over stays in a core's cache.
const ROUND_BLOCKS: usize = 4;

/// The socket, and its ring.
pub struct PacketSocket {
    socket: OwnedFd,
    ring: packet::Ring,
    /// The block of the ring that the kernel hands over next.
    next: usize,
    lost: u64,
}

impl PacketSocket {
    /// Captures interface `index` (0: all) of the socket's namespace.
    ///
    /// # Errors
    /// The kernel gives no memory, or refuses the filter.
    pub fn open(
        socket: OwnedFd,
        control: BorrowedFd<'_>,
        index: u32,
        wanted: &Wanted,
        selection: &Selection,
    ) -> Result<Self, LiveError> {
        let fd = socket.as_fd();
        if packet::interface_is_loopback(control, &wanted.interface) {
            // The filter drops what it sends, too; so the kernel need not show it (since Linux 4.20).
            let _ = packet::set_int(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
        }
        attach(&socket, selection)?;
        let blocks = (wanted.ring_bytes / BLOCK_BYTES).max(2);
        let ring = packet::ring(fd, (blocks, BLOCK_BYTES), RETIRE_MS).map_err(LiveError::Ring)?;
        packet::bind(fd, index).map_err(LiveError::Packet)?;
        Ok(Self { socket, ring, next: 0, lost: 0 })
    }
}

impl Source for PacketSocket {
    fn fill(&mut self, to: &mut Block) -> bool {
        let mut found = false;
        for _ in 0..ROUND_BLOCKS {
            if self.ring.take(self.next, |bytes| ring::read(bytes, to)).is_none() {
                break;
            }
            found = true;
            self.next = (self.next + 1) % self.ring.blocks();
        }
        found
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LiveError> {
        match packet::wait(self.socket.as_fd(), timeout) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => Ok(()),
            Err(error) => Err(LiveError::Packet(error)),
        }
    }

    fn select(&mut self, selection: &Selection) -> Result<(), LiveError> {
        attach(&self.socket, selection)
    }

    fn lost(&mut self) -> u64 {
        if let Ok((_, drops)) = packet::statistics(self.socket.as_fd()) {
            self.lost += u64::from(drops);
        }
        self.lost
    }
}

/// Opens a packet socket in the calling thread's namespace, which receives nothing yet. It is the only
/// part of a capture that needs a right.
///
/// # Errors
/// `CAP_NET_RAW` is missing.
pub fn packet_socket() -> Result<OwnedFd, LiveError> {
    packet::packet_socket().map_err(LiveError::of_packet_socket)
}

fn attach(socket: &OwnedFd, selection: &Selection) -> Result<(), LiveError> {
    let mut program = selection::program(selection);
    if program.len() > INSTRUCTIONS_MAX {
        // The core checks the addresses and ports of the kept packets as well.
        program = selection::program(&Selection { ends: Vec::new(), ..selection.clone() });
    }
    packet::attach_filter(socket.as_fd(), &program).map_err(LiveError::Filter)
}
