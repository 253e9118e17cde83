//! The doctor's own traffic, captured while it asks.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcpwhy_core::capture::{Block, LinkType};
use tcpwhy_core::filter::{Ends, Values};
use tcpwhy_core::pipeline::{Options, Sliding};
use tcpwhy_core::report::Report;
use tcpwhy_live::LiveError;
use tcpwhy_live::capture::{ANY, Capture, SNAP_BYTES, Wanted};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::pcapng::Encoder;

/// The kernel's ring, bytes: the doctor asks little.
const RING_BYTES: u32 = 8 << 20;

/// The kernel hands packets over after 64 ms at the latest; those of other processors are waited
/// for.
const UNDER_WAY: Duration = Duration::from_millis(150);

/// Packets that a bundle keeps, bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A capture under way.
pub struct Tap {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Tapped, LiveError>>,
}

/// What was captured.
pub struct Tapped {
    /// The diagnosis.
    pub report: Report,
    /// The packets as pcapng, where they were to be kept.
    pub packets: Option<Vec<u8>>,
}

impl Tap {
    /// Captures what passes between this host and `server` from now on.
    ///
    /// # Errors
    /// `CAP_NET_RAW` is missing, or the kernel refuses.
    pub fn open(server: SocketAddr, keeps: bool) -> Result<Self, LiveError> {
        let mut capture = Capture::open(&Wanted {
            interface: ANY.into(),
            netns: Netns::own(),
            ends: ends(server),
            snap_bytes: SNAP_BYTES,
            ring_bytes: RING_BYTES,
            packet_socket: false,
        })?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let seed = RandomState::new().hash_one(0);
            let mut sliding = Sliding::new(Options { seed, ..Options::default() }, 1);
            let mut encoder = Encoder::default();
            if keeps {
                encoder.header(LinkType::LINUX_SLL2, ANY, "tcpwhy doctor");
            }
            let mut block = Block::default();
            let mut take = |block: &Block| {
                sliding.take(block);
                if keeps && encoder.bytes.len() < KEPT_BYTES_MAX {
                    block.frames().for_each(|frame| encoder.frame(&frame, None));
                }
            };
            while !ends.load(Ordering::Relaxed) {
                capture.read(&mut block, Duration::from_millis(20))?;
                take(&block);
            }
            capture.drain(&mut block);
            take(&block);
            sliding.cut();
            let inputs = [capture.summary().clone()];
            Ok(Tapped { report: sliding.whole(&inputs), packets: keeps.then_some(encoder.bytes) })
        });
        Ok(Self { is_over, thread })
    }

    /// Ends the capture; what it shows.
    ///
    /// # Errors
    /// The kernel refused to go on.
    pub fn finish(self) -> Result<Tapped, LiveError> {
        thread::sleep(UNDER_WAY);
        self.is_over.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(tapped) => tapped,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Terms that packets to and from `server` match.
fn ends(server: SocketAddr) -> Vec<Ends> {
    let address = u128::from_be_bytes(tcpwhy_core::wire::Endpoint::from(server).address);
    let port = server.port();
    vec![
        Ends { wanted: true, any: Values::Hosts(vec![(address, 128)]) },
        Ends { wanted: true, any: Values::Ports(vec![(port, port)]) },
    ]
}
