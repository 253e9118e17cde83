//! Captures and diagnoses the packets of tcpwhy's own connections while it sends requests.

use crate::keylog::await_secrets;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tcpwhy_core::capture::{Block, Encoder, InputSummary, LinkType};
use tcpwhy_core::filter::{Ends, Filter, Values};
use tcpwhy_core::keys::{GrowingKeys, Keyring};
use tcpwhy_core::model::Report;
use tcpwhy_core::pipeline::{Options, Sliding};
use tcpwhy_live::LiveError;
use tcpwhy_live::capture::{ANY, Capture, SNAP_BYTES, Wanted};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sys::process;

/// Size of the capture ring, bytes.
const RING_BYTES: u32 = 16 << 20;
/// CPU time that capturing may take: an initial allowance, and a share of one CPU.
const AT_ONCE: Duration = Duration::from_millis(150);
const BUDGET: f64 = 0.03;
/// Interval at which the CPU time is checked.
const LOOK: Duration = Duration::from_millis(50);
/// The capture keeps at least this number of connections, if there are as many: fewer would not
/// represent the load.
const CONNECTIONS_MIN: f64 = 4.0;
/// The kernel hands packets over after 64 ms at the latest; the rest allows for packets of other
/// processors.
const UNDER_WAY: Duration = Duration::from_millis(150);
/// Bytes kept of a packet that is to be opened: all of the largest.
const WHOLE_BYTES: u32 = 65_536;
/// Memory for packets that are kept, bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A capture in progress, on its own thread.
pub struct Tap {
    done: Arc<AtomicBool>,
    thread: JoinHandle<Tapped>,
}

/// The result of a capture.
pub struct Tapped {
    /// The report on the packets.
    pub report: Report,
    /// The packets as pcapng, if they were to be kept.
    pub packets: Option<Vec<u8>>,
    /// Number of packets that the capture lost.
    pub dropped_packets: u64,
    /// The error with which the kernel ended the capture early.
    pub refused: Option<LiveError>,
}

impl Tap {
    /// Captures all packets between this host and `server` from now on with this packet socket,
    /// whatever CPU time that takes. TLS is opened with `secrets`, which the connections hand over while
    /// they are captured. The packets are kept, unopened, if `keeper` gives the name of the program that
    /// writes them.
    ///
    /// # Errors The kernel refuses.
    pub fn whole(
        socket: OwnedFd,
        server: SocketAddr,
        secrets: Option<&GrowingKeys>,
        keeper: Option<&str>,
    ) -> Result<Tap, LiveError> {
        let watch = Watch::open(socket, &[server], false, secrets)?;
        Ok(Self::run(Watch { kept: keeper.map(encoder), ..watch }))
    }

    /// Captures a load on `addresses` with this packet socket, within a budget of CPU time; of a
    /// large load, only part of the connections. TLS is opened with `secrets`, as in [`Tap::whole`].
    ///
    /// # Errors The kernel refuses.
    pub fn of_load(
        socket: OwnedFd,
        addresses: &[SocketAddr],
        secrets: Option<&GrowingKeys>,
    ) -> Result<Tap, LiveError> {
        Ok(Self::run(Watch::open(socket, addresses, true, secrets)?))
    }

    fn run(watch: Watch) -> Tap {
        let done = Arc::new(AtomicBool::new(false));
        let until = done.clone();
        Tap { done, thread: thread::spawn(move || watch.run(&until)) }
    }

    /// Ends the capture and returns its result.
    pub fn finish(self) -> Tapped {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Begins a new capture file in memory.
fn encoder(keeper: &str) -> Encoder {
    let mut encoder = Encoder::default();
    encoder.header(LinkType::LINUX_SLL2, ANY, keeper);
    encoder
}

/// The thread's state of a capture of own connections.
struct Watch {
    capture: Capture,
    sliding: Sliding,
    ends: Vec<Ends>,
    block: Block,
    /// The packets as pcapng, if they are kept.
    kept: Option<Encoder>,
    /// The connections hand over secrets.
    awaits_secrets: bool,
    /// `true` if the capture keeps within a budget.
    is_bounded: bool,
    began: Instant,
    /// `true` while nothing is captured.
    is_paused: bool,
    looked: Instant,
    /// Captured time: each second weighted by the share of connections captured in it, s.
    captured_s: f64,
}

impl Watch {
    fn open(
        socket: OwnedFd,
        addresses: &[SocketAddr],
        is_bounded: bool,
        secrets: Option<&GrowingKeys>,
    ) -> Result<Watch, LiveError> {
        let hosts: Vec<String> = addresses.iter().map(|it| it.ip().to_string()).collect();
        let port = addresses.first().map_or(0, SocketAddr::port);
        let words = format!("host {} and port {port}", hosts.join(","));
        let ends = Filter::parse(&words).unwrap_or_default().ends().to_vec();
        let wanted = Wanted {
            interface: ANY.to_owned(),
            netns: Netns::own(),
            ends: ends.clone(),
            // A record opens only as a whole.
            snap_bytes: if secrets.is_some() { WHOLE_BYTES } else { SNAP_BYTES },
            ring_bytes: RING_BYTES,
            packet_socket: true,
        };
        let capture = Capture::on(socket, &wanted)?;
        let seed = RandomState::new().hash_one(0);
        let keys = secrets.cloned().map(Keyring::Growing);
        let now = Instant::now();
        Ok(Watch {
            capture,
            sliding: Sliding::new(Options { seed, keys, ..Options::default() }, 1),
            awaits_secrets: secrets.is_some(),
            ends,
            block: Block::default(),
            kept: None,
            is_bounded,
            began: now,
            is_paused: false,
            looked: now,
            captured_s: 0.0,
        })
    }

    fn run(mut self, done: &AtomicBool) -> Tapped {
        let looked = self.until(done);
        let share = self.captured_s / self.began.elapsed().as_secs_f64().max(1e-9);
        thread::sleep(UNDER_WAY);
        self.capture.drain(&mut self.block);
        self.take();
        self.sliding.cut();
        let summary = self.capture.summary();
        let inputs = [InputSummary { path: format!("live:{}", summary.path), ..summary.clone() }];
        let mut report = self.sliding.whole(&inputs);
        // Payload is cut off on purpose, so the observation would only distract.
        report.observations.retain(|it| it.id != "truncated_payload");
        if let Some(watched) = &mut report.watched {
            watched.sampled_share = share.clamp(f64::MIN_POSITIVE, 1.0);
        }
        Tapped {
            report,
            packets: self.kept.map(|it| it.bytes),
            dropped_packets: self.capture.drops(),
            refused: looked.err(),
        }
    }

    fn until(&mut self, done: &AtomicBool) -> Result<(), LiveError> {
        while !done.load(Ordering::Relaxed) {
            self.capture.read(&mut self.block, LOOK)?;
            if !self.block.entries.is_empty() {
                if self.awaits_secrets {
                    await_secrets(&self.block);
                }
                self.take();
            }
            if self.is_bounded && self.looked.elapsed() >= LOOK {
                self.look()?;
            }
        }
        self.count();
        Ok(())
    }

    /// Takes the packets that were read last.
    fn take(&mut self) {
        self.sliding.take(&self.block);
        if let Some(kept) = self.kept.as_mut().filter(|it| it.bytes.len() < KEPT_BYTES_MAX) {
            self.block.frames().for_each(|frame| kept.frame(&frame, &[]));
        }
    }

    fn count(&mut self) {
        let passed_s = self.looked.elapsed().as_secs_f64();
        self.looked = Instant::now();
        if !self.is_paused {
            self.captured_s += passed_s * self.capture.share().value();
        }
    }

    /// Keeps within the budget: by capturing fewer connections if there are many, by pauses if
    /// there are few.
    fn look(&mut self) -> Result<(), LiveError> {
        self.count();
        let allowed = AT_ONCE + self.began.elapsed().mul_f64(BUDGET);
        let spent = process::thread_cpu_time();
        let share = self.capture.share();
        if spent <= allowed {
            if self.is_paused && spent + AT_ONCE / 10 <= allowed {
                self.is_paused = false;
                self.capture.set_ends(self.ends.clone())?;
            }
            return Ok(());
        }
        if self.is_paused {
            return Ok(());
        }
        if self.sliding.open_connections() as f64 >= 2.0 * CONNECTIONS_MIN {
            self.capture.set_share(share.halved())?;
            let selection = self.capture.selection();
            self.sliding.keep_only(|flow| selection.sample.has(flow));
        } else {
            self.is_paused = true;
            // A filter that matches nothing, since no packet has port 0.
            let nothing = Ends { wanted: true, any: Values::Ports(vec![(0, 0)]) };
            self.capture.set_ends(vec![nothing])?;
            self.sliding.keep_only(|_| false);
        }
        Ok(())
    }
}
