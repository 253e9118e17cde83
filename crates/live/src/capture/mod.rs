//! Live capture of frames, by one of two means:
//!
//! ```text
//! selection (classic BPF) ─► ring (TPACKET_V3) ─┐
//! terms, hash (eBPF, TCX) ─► ring of records   ─┴─► cooked frames ─► order ─► Block
//! in the kernel              shared with it                          by time
//! ```
//!
//! - `packet`: a packet socket with a ring that the kernel fills. Read first: packet(7),
//!   Documentation/networking/packet_mmap.rst. It works everywhere, and sees what is sent when the
//!   device takes it; the kernel shows it a copy of each packet, whether it is kept or not.
//! - `programs`: programs at the ingress and egress of one interface (TCX, Linux 6.6), which copy
//!   what is kept and nothing else. They see what is sent before its queueing discipline: they are
//!   used where that does not hold packets back on purpose.
//!
//! The capture is not promiscuous, and packets keep the form in which the kernel has them:
//! super-packets of segmentation offload are one frame. What a loopback interface sends is seen
//! once, as it arrives.

mod bpf;
mod cooked;
mod order;
mod packet;
mod programs;
mod ring;
mod selection;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tcpwhy_core::capture::{Block, InputSummary, LinkType, Problem};
use tcpwhy_core::filter::Ends;

use crate::error::LiveError;
use crate::netns::Netns;
use crate::sample::{Sample, Share};
use crate::sys::packet as device;
use order::Order;
use packet::PacketSocket;
pub use packet::packet_socket;
pub use programs::Fallback;
use programs::Programs;
pub use selection::Selection;

/// Interface name that means all interfaces.
pub const ANY: &str = "any";

/// Bytes of a segment that are kept, from its IP header on, unless asked otherwise: headers of TCP
/// and IP and those of most requests and answers.
pub const SNAP_BYTES: u32 = 512;

/// Longest time for which the kernel keeps a block of frames back, ms.
const RETIRE_MS: u32 = 64;
/// After this time without a new frame no earlier frame can arrive any more.
const IDLE: Duration = Duration::from_millis(2 * RETIRE_MS as u64);

/// Options of a capture.
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
    /// `true` to use a packet socket even where programs at the interface are possible.
    pub packet_socket: bool,
}

/// Kernel mechanism that delivers the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// A packet socket.
    PacketSocket,
    /// Programs at the interface (TCX).
    Programs,
}

/// Frames as the kernel hands them over, not in order yet.
trait Source: Send {
    /// Adds frames to `to`; `false` where there are none now.
    fn fill(&mut self, to: &mut Block) -> bool;

    /// Waits until there may be frames, or `timeout` is over. A signal may end it.
    fn wait(&mut self, timeout: Duration) -> Result<(), LiveError>;

    /// Captures only the packets of `selection` from now on.
    fn select(&mut self, selection: &Selection) -> Result<(), LiveError>;

    /// Returns the number of frames lost since the capture began because the ring was full.
    fn lost(&mut self) -> u64;
}

/// State of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Packets can pass.
    Up,
    /// The interface is down and may come back.
    Down,
    /// The interface does not exist any more.
    Gone,
}

/// A capture under way.
pub struct Capture {
    /// Socket for queries about the interface.
    control: OwnedFd,
    source: Box<dyn Source>,
    /// Reason for the packet socket, if it is the source.
    fallback: Option<Fallback>,
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
        wanted.netns.inside(|| Self::open_here(wanted, packet_socket))?
    }

    /// Begins with a packet socket that was opened before, by whoever has the right, in the calling
    /// thread's namespace.
    ///
    /// # Errors
    /// There is no such interface, or the kernel gives no memory.
    pub fn on(socket: OwnedFd, wanted: &Wanted) -> Result<Self, LiveError> {
        Self::open_here(wanted, || Ok(socket))
    }

    fn open_here(
        wanted: &Wanted,
        socket: impl FnOnce() -> Result<OwnedFd, LiveError>,
    ) -> Result<Self, LiveError> {
        let control = Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(LiveError::Packet)?;
        let control = OwnedFd::from(control);
        let unknown = || LiveError::NoInterface { name: wanted.interface.clone() };
        let index = match wanted.interface.as_str() {
            ANY => 0,
            name => device::interface_index(control.as_fd(), name).ok_or_else(unknown)?,
        };
        let selection = Selection::new(&wanted.ends, wanted.snap_bytes);
        let (source, fallback): (Box<dyn Source>, _) =
            match Programs::attach(control.as_fd(), wanted, &selection) {
                Ok(programs) => (Box::new(programs), None),
                Err(fallback) => {
                    let control = control.as_fd();
                    let socket = PacketSocket::open(socket()?, control, index, wanted, &selection)?;
                    (Box::new(socket), Some(fallback))
                }
            };
        let summary = InputSummary {
            path: wanted.interface.clone(),
            link_types: vec![LinkType::LINUX_SLL2],
            ..InputSummary::default()
        };
        let interface = wanted.interface.clone();
        let (order, drops, link) = (Order::default(), 0, Link::Up);
        Ok(Self { control, source, fallback, order, selection, interface, link, summary, drops })
    }

    /// Returns the mechanism that delivers the frames.
    pub fn means(&self) -> Means {
        match self.fallback {
            None => Means::Programs,
            Some(_) => Means::PacketSocket,
        }
    }

    /// Returns the reason why frames come from a packet socket and not from programs at the
    /// interface.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref().filter(|why| **why != Fallback::NotAsked)
    }

    /// Waits up to `timeout` for frames and fills `block` with those that are due, in order of time
    /// and numbered from 1. A signal ends the wait.
    ///
    /// # Errors
    /// The kernel refuses; that an interface is down or gone is no error, [`link_change`](Self::link_change)
    /// says so.
    pub fn read(&mut self, block: &mut Block, timeout: Duration) -> Result<(), LiveError> {
        let mut is_idle = false;
        if !self.source.fill(self.order.waiting()) {
            // Frames that are held back become due even if no frame follows them.
            let holds = !self.order.waiting().entries.is_empty();
            self.source.wait(if holds { timeout.min(IDLE) } else { timeout })?;
            is_idle = !self.source.fill(self.order.waiting());
        }
        self.hand_over(block, is_idle);
        Ok(())
    }

    /// Fills `block` with all remaining frames, in the same way, at the end.
    pub fn drain(&mut self, block: &mut Block) {
        let _ = self.source.wait(IDLE);
        while self.source.fill(self.order.waiting()) {}
        self.hand_over(block, true);
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

    /// Returns the numbers of the capture so far, with frames that the kernel dropped as a problem.
    pub fn summary(&mut self) -> &InputSummary {
        self.drops = self.source.lost();
        self.summary.problems.clear();
        if self.drops > 0 {
            self.summary.problems.push(Problem::CaptureDrops { frames: self.drops });
        }
        &self.summary
    }

    /// Returns the number of frames that the kernel dropped because the ring was full, until the
    /// last call of [`summary`](Self::summary).
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Frames handed over later than others with a later time.
    pub fn late(&self) -> u64 {
        self.order.late()
    }

    /// Returns the share of the connections that is captured.
    pub fn share(&self) -> Share {
        self.selection.sample.share
    }

    /// Returns the present selection of packets.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Changes the share of the connections that is captured.
    ///
    /// # Errors
    /// The kernel refuses the filter.
    pub fn set_share(&mut self, share: Share) -> Result<(), LiveError> {
        let sample = Sample { share, ..self.selection.sample };
        let selection = Selection { sample, ..self.selection.clone() };
        self.source.select(&selection)?;
        self.selection = selection;
        Ok(())
    }

    /// Captures only the packets that match `ends` from now on.
    ///
    /// # Errors
    /// The kernel refuses the filter.
    pub fn set_ends(&mut self, ends: Vec<Ends>) -> Result<(), LiveError> {
        let selection = Selection { ends, ..self.selection.clone() };
        self.source.select(&selection)?;
        self.selection = selection;
        Ok(())
    }

    /// Checks the state of the interface and returns it if it has changed. The kernel captures
    /// again at an interface that comes back after it was down.
    pub fn link_change(&mut self) -> Option<Link> {
        if self.interface == ANY {
            return None;
        }
        let link = match device::interface_is_up(self.control.as_fd(), &self.interface) {
            Some(true) => Link::Up,
            Some(false) => Link::Down,
            None => Link::Gone,
        };
        let has_changed = link != self.link;
        self.link = link;
        has_changed.then_some(link)
    }
}
