//! What made requests slow, from the load's own packets; without the right to capture them, what the kernel
//! says of the load's sockets.

use super::Explained;
use super::own_sockets::OwnSockets;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tcpwhy_core::capture::{Block, InputSummary};
use tcpwhy_core::filter::{Ends, Filter, Values};
use tcpwhy_core::pipeline::{Options, Sliding};
use tcpwhy_live::capture::{ANY, Capture, SNAP_BYTES, Wanted};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sys::process;
use tcpwhy_live::{LiveError, privileges};

/// The ring that is captured into, bytes.
const RING_BYTES: u32 = 16 << 20;
/// CPU time that capturing may take: this much at once, and this share of one CPU.
const AT_ONCE: Duration = Duration::from_millis(150);
const BUDGET: f64 = 0.03;
/// How often it is looked what that is.
const LOOK: Duration = Duration::from_millis(50);
/// How often sockets are read where packets are not captured.
const SOCKETS: Duration = Duration::from_millis(200);
/// So many connections are captured where there are as many: fewer would not stand for all.
const CONNECTIONS_MIN: f64 = 4.0;

/// A look at a load under way, on a thread of its own.
pub struct Explainer {
    done: Arc<AtomicBool>,
    thread: JoinHandle<Explained>,
}

impl Explainer {
    /// Begins to look at connections to `addresses`; beside it, what cannot be told and why.
    pub fn begin(addresses: &[SocketAddr]) -> (Explainer, Option<String>) {
        let done = Arc::new(AtomicBool::new(false));
        let until = done.clone();
        let (thread, note) = match Watch::open(addresses) {
            Ok(watch) => (thread::spawn(move || watch.run(&until)), None),
            Err(error) => (thread::spawn(move || read_sockets(&until)), Some(note(&error))),
        };
        (Explainer { done, thread }, note)
    }

    /// The load is over: what was found.
    pub fn end(self) -> Explained {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn note(error: &LiveError) -> String {
    match error {
        LiveError::NetRaw(_) => {
            "what made slow requests slow cannot be told without capturing their \
            packets: run it with sudo, or once: sudo setcap cap_net_raw+ep $(command -v tcpwhy)"
                .to_owned()
        }
        other => format!("what made slow requests slow cannot be told: {other}"),
    }
}

fn read_sockets(done: &AtomicBool) -> Explained {
    let mut sockets = OwnSockets::default();
    while !done.load(Ordering::Relaxed) {
        thread::sleep(SOCKETS);
        sockets.read();
    }
    Explained { sockets: sockets.sum(), ..Explained::default() }
}

/// A capture of the load's connections.
struct Watch {
    capture: Capture,
    sliding: Sliding,
    ends: Vec<Ends>,
    block: Block,
    began: Instant,
    /// Nothing is captured for now.
    is_paused: bool,
    looked: Instant,
    /// Time since it began, weighted by the share of connections that were captured in it, s.
    captured_s: f64,
}

impl Watch {
    fn open(addresses: &[SocketAddr]) -> Result<Watch, LiveError> {
        let hosts: Vec<String> = addresses.iter().map(|it| it.ip().to_string()).collect();
        let port = addresses.first().map_or(0, SocketAddr::port);
        let words = format!("host {} and port {port}", hosts.join(","));
        let ends = Filter::parse(&words).unwrap_or_default().ends().to_vec();
        let capture = Capture::open(&Wanted {
            interface: ANY.to_owned(),
            netns: Netns::own(),
            ends: ends.clone(),
            snap_bytes: SNAP_BYTES,
            ring_bytes: RING_BYTES,
            packet_socket: false,
        })?;
        let now = Instant::now();
        Ok(Watch {
            capture,
            sliding: Sliding::new(Options::default(), 1),
            ends,
            block: Block::default(),
            began: now,
            is_paused: false,
            looked: now,
            captured_s: 0.0,
        })
    }

    fn run(mut self, done: &AtomicBool) -> Explained {
        let looked = self.until(done);
        let share = self.captured_s / self.began.elapsed().as_secs_f64().max(1e-9);
        // Packets of what is over are still in the ring.
        thread::sleep(Duration::from_millis(80));
        self.capture.drain(&mut self.block);
        self.sliding.take(&self.block);
        self.sliding.cut();
        let summary = self.capture.summary();
        let inputs = [InputSummary { path: format!("live:{}", summary.path), ..summary.clone() }];
        let mut report = self.sliding.whole(&inputs);
        // Cut on purpose.
        report.observations.retain(|it| it.id != "truncated_payload");
        if let Some(watched) = &mut report.watched {
            watched.sampled_share = share.clamp(f64::MIN_POSITIVE, 1.0);
        }
        Explained {
            report: Some(report),
            dropped_packets: self.capture.drops(),
            sockets: None,
            note: looked.err().map(|error| note(&error)),
        }
    }

    fn until(&mut self, done: &AtomicBool) -> Result<(), LiveError> {
        // The thread that parses packets needs no rights for it.
        privileges::keep_only(&[])?;
        while !done.load(Ordering::Relaxed) {
            self.capture.read(&mut self.block, LOOK)?;
            if !self.block.entries.is_empty() {
                self.sliding.take(&self.block);
            }
            if self.looked.elapsed() >= LOOK {
                self.look()?;
            }
        }
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        let passed_s = self.looked.elapsed().as_secs_f64();
        self.looked = Instant::now();
        if !self.is_paused {
            self.captured_s += passed_s * self.capture.share().value();
        }
    }

    /// Keeps within the budget: by fewer connections where there are many, by pauses where there are few.
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
            self.sliding.keep_only(|flow| selection.has(flow));
        } else {
            self.is_paused = true;
            // No packet has port 0.
            let nothing = Ends { wanted: true, any: Values::Ports(vec![(0, 0)]) };
            self.capture.set_ends(vec![nothing])?;
            self.sliding.keep_only(|_| false);
        }
        Ok(())
    }
}
