//! Live capture: a packet socket with a ring that the kernel fills (TPACKET_V3). Read first:
//! packet(7), Documentation/networking/packet_mmap.rst.
//!
//! ```text
//! selection (classic BPF) ─► ring (cooked frames) ─► order ─► Block
//! in the kernel              shared with it          by time
//! ```
//!
//! The capture is not promiscuous, and packets keep the form in which the kernel has them:
//! super-packets of segmentation offload are one frame. What a loopback interface sends is seen
//! once, as it arrives.

mod bpf;
mod order;
mod ring;
mod selection;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tcpwhy_core::capture::{Block, InputSummary, LinkType, Problem};
use tcpwhy_core::filter::Ends;

use crate::error::LiveError;
use crate::netns::Netns;
use crate::sys::packet;
use order::Order;
pub use selection::{Selection, Share};

/// The name that stands for all interfaces.
pub const ANY: &str = "any";

/// Bytes of a segment that are kept, from its IP header on, unless asked otherwise: headers of TCP
/// and IP and those of most requests and answers.
pub const SNAP_BYTES: u32 = 512;

/// Instructions that the kernel takes (`BPF_MAXINSNS`).
const INSTRUCTIONS_MAX: usize = 4096;
/// Bytes of a block of the ring.
const BLOCK_BYTES: u32 = 256 << 10;
/// The kernel hands over a block after this time even if it is not full, ms.
const RETIRE_MS: u32 = 64;
/// Blocks of the ring taken in one round: what is handed over stays in a core's cache.
const ROUND_BLOCKS: usize = 4;
/// Without a new block for so long nothing earlier can come any more.
const IDLE: Duration = Duration::from_millis(2 * RETIRE_MS as u64);

/// What is captured.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The interface, or [`ANY`].
    pub interface: String,
    /// The network namespace.
    pub netns: Netns,
    /// Terms on addresses and ports.
    pub ends: Vec<Ends>,
    /// Bytes kept of a segment.
    pub snap_bytes: u32,
    /// Size of the ring, bytes.
    pub ring_bytes: u32,
}

/// What the interface is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Packets can pass.
    Up,
    /// It is switched off, and may come back.
    Down,
    /// There is no such interface any more.
    Gone,
}

/// A capture under way.
pub struct Capture {
    socket: OwnedFd,
    ring: packet::Ring,
    /// The block of the ring that the kernel hands over next.
    next: usize,
    order: Order,
    selection: Selection,
    interface: String,
    link: Link,
    summary: InputSummary,
    drops: u64,
}

impl Capture {
    /// Begins.
    ///
    /// # Errors
    /// `CAP_NET_RAW` is missing, or there is no such interface or namespace.
    pub fn open(wanted: &Wanted) -> Result<Self, LiveError> {
        wanted.netns.inside(|| Self::open_here(wanted))?
    }

    fn open_here(wanted: &Wanted) -> Result<Self, LiveError> {
        let socket = packet::packet_socket().map_err(refused)?;
        let fd = socket.as_fd();
        let unknown = || LiveError::NoInterface { name: wanted.interface.clone() };
        let index = match wanted.interface.as_str() {
            ANY => 0,
            name => packet::interface_index(fd, name).ok_or_else(unknown)?,
        };
        if packet::interface_is_loopback(fd, &wanted.interface) {
            // The filter drops what it sends, too; so the kernel need not show it (since Linux 4.20).
            let _ = packet::set_int(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
        }
        let selection = Selection::new(&wanted.ends, wanted.snap_bytes);
        attach(&socket, &selection)?;
        let blocks = (wanted.ring_bytes / BLOCK_BYTES).max(2);
        let ring = packet::ring(fd, (blocks, BLOCK_BYTES), RETIRE_MS).map_err(LiveError::Ring)?;
        packet::bind(fd, index).map_err(LiveError::Packet)?;
        let summary = InputSummary {
            path: wanted.interface.clone(),
            link_types: vec![LinkType::LINUX_SLL2],
            ..InputSummary::default()
        };
        let interface = wanted.interface.clone();
        let (order, next, drops, link) = (Order::default(), 0, 0, Link::Up);
        Ok(Self { socket, ring, next, order, selection, interface, link, summary, drops })
    }

    /// Waits up to `timeout` for frames and fills `block` with those whose turn it is, in the order
    /// of time and numbered from 1. A signal ends the wait.
    ///
    /// # Errors
    /// The kernel refuses; that an interface is down or gone is no error, [`link_change`](Self::link_change)
    /// says so.
    pub fn read(&mut self, block: &mut Block, timeout: Duration) -> Result<(), LiveError> {
        let mut is_idle = false;
        if !self.fill() {
            // What is held back is due even if nothing follows it.
            let holds = !self.order.waiting().entries.is_empty();
            let timeout = if holds { timeout.min(IDLE) } else { timeout };
            match packet::wait(self.socket.as_fd(), timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => {}
                Err(error) => return Err(LiveError::Packet(error)),
            }
            is_idle = !self.fill();
        }
        self.hand_over(block, is_idle);
        Ok(())
    }

    /// Fills `block` with all that is left, in the same way; for the end.
    pub fn drain(&mut self, block: &mut Block) {
        while self.fill() {}
        self.hand_over(block, true);
    }

    /// Takes blocks from the ring; `false` where none is there.
    fn fill(&mut self) -> bool {
        let mut found = false;
        for _ in 0..ROUND_BLOCKS {
            let waiting = self.order.waiting();
            let read = self.ring.take(self.next, |bytes| ring::read(bytes, waiting));
            if read.is_none() {
                break;
            }
            found = true;
            self.next = (self.next + 1) % self.ring.blocks();
        }
        found
    }

    fn hand_over(&mut self, block: &mut Block, all: bool) {
        self.order.hand_over(block, all);
        let (Some(first), Some(last)) = (block.entries.first(), block.entries.last()) else {
            return;
        };
        let bytes = block.entries.iter().map(|entry| u64::from(entry.captured_len)).sum::<u64>();
        self.summary.packets += block.entries.len() as u64;
        self.summary.bytes += bytes;
        self.summary.first_ns.get_or_insert(first.time_ns);
        self.summary.last_ns = Some(last.time_ns);
    }

    /// What was captured so far; frames that the kernel dropped are its problem.
    pub fn summary(&mut self) -> &InputSummary {
        if let Ok((_, drops)) = packet::statistics(self.socket.as_fd()) {
            self.drops += u64::from(drops);
        }
        self.summary.problems.clear();
        if self.drops > 0 {
            self.summary.problems.push(Problem::CaptureDrops { frames: self.drops });
        }
        &self.summary
    }

    /// Frames that the kernel dropped for want of room in the ring, as far as
    /// [`summary`](Self::summary) has asked.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Frames handed over later than others with a later time.
    pub fn late(&self) -> u64 {
        self.order.late()
    }

    /// The share of the connections that is captured.
    pub fn share(&self) -> Share {
        self.selection.share
    }

    /// What is captured at present.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// From now on captures this share of the connections.
    ///
    /// # Errors
    /// The kernel refuses the filter.
    pub fn set_share(&mut self, share: Share) -> Result<(), LiveError> {
        let selection = Selection { share, ..self.selection.clone() };
        attach(&self.socket, &selection)?;
        self.selection = selection;
        Ok(())
    }

    /// From now on captures what matches `ends`.
    ///
    /// # Errors
    /// The kernel refuses the filter.
    pub fn set_ends(&mut self, ends: Vec<Ends>) -> Result<(), LiveError> {
        let selection = Selection { ends, ..self.selection.clone() };
        attach(&self.socket, &selection)?;
        self.selection = selection;
        Ok(())
    }

    /// Looks whether the interface is still there, and answers what it is doing where that has
    /// changed. One that comes back after it was down is captured again by the kernel.
    pub fn link_change(&mut self) -> Option<Link> {
        if self.interface == ANY {
            return None;
        }
        let link = match packet::interface_is_up(self.socket.as_fd(), &self.interface) {
            Some(true) => Link::Up,
            Some(false) => Link::Down,
            None => Link::Gone,
        };
        let has_changed = link != self.link;
        self.link = link;
        has_changed.then_some(link)
    }
}

fn refused(error: io::Error) -> LiveError {
    match error.raw_os_error() {
        Some(libc::EPERM) => LiveError::NetRaw(error),
        _ => LiveError::Packet(error),
    }
}

fn attach(socket: &OwnedFd, selection: &Selection) -> Result<(), LiveError> {
    let mut program = selection::program(selection);
    if program.len() > INSTRUCTIONS_MAX {
        // The core looks at the ends of what the kernel keeps, too.
        program = selection::program(&Selection { ends: Vec::new(), ..selection.clone() });
    }
    packet::attach_filter(socket.as_fd(), &program).map_err(LiveError::Filter)
}
