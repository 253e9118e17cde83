//! Latency of the treated connections from a live capture, before and after the change.

use crate::error::Error;
use crate::watch::budget::Meter;
use std::time::{Duration, Instant};
use tcpwhy_core::capture::Block;
use tcpwhy_core::filter::{Ends, Filter, Values};
use tcpwhy_core::model::{Report, units};
use tcpwhy_core::pipeline::{Options, Sliding};
use tcpwhy_live::capture::{ANY, Capture, SNAP_BYTES, Wanted};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::process::Ports;
use tcpwhy_live::sys::process;

/// Size of the capture ring, bytes.
const RING_BYTES: u32 = 16 << 20;
/// Share of one CPU that measuring may use.
const BUDGET: f64 = 0.2;
/// Packets of before the change come at most so long after it: the kernel hands them over within a
/// tenth of that, if it is not busy. Later ones are not compared with the time of the change, since
/// the clock may be set back.
const LATE_MAX: Duration = Duration::from_secs(1);
/// The connections that are measured.
pub struct MeasuredConnections {
    /// Network namespace.
    pub netns: Netns,
    /// Port at either end.
    pub port: Option<u16>,
    /// Address of the other end.
    pub peer: Option<tcpwhy_live::sockets::Peer>,
    /// Process, with its children.
    pub pid: Option<u32>,
}

/// A measurement in progress.
pub struct Meters {
    capture: Capture,
    sliding: Sliding,
    block: Block,
    meter: Meter,
    began: Instant,
    intervals: usize,
    /// Moment at which the change had been made.
    changed: Option<Instant>,
    /// The same by the clock of the packets, ns.
    changed_ns: u64,
}

impl Meters {
    /// Begins to capture.
    ///
    /// # Errors `CAP_NET_RAW` is missing, or the process no longer exists.
    pub fn open(place: &MeasuredConnections, measure: Duration) -> Result<Self, Error> {
        let mut words = Vec::new();
        words.extend(place.port.map(|port| format!("port {port}")));
        if let Some(peer) = place.peer {
            words.push(format!("host {}", peer.ip));
            words.extend(peer.port.map(|port| format!("port {port}")));
        }
        let filter = Filter::parse(&words.join(" and ")).unwrap_or_default();
        let mut ends = filter.ends().to_vec();
        if let (Some(pid), None) = (place.pid, place.port) {
            let ports = Ports::open(pid, &place.netns)?.ranges();
            ends.push(Ends { wanted: true, any: Values::Ports(ports) });
        }
        let capture = Capture::open(&Wanted {
            interface: ANY.to_owned(),
            netns: place.netns.clone(),
            ends,
            snap_bytes: SNAP_BYTES,
            ring_bytes: RING_BYTES,
            packet_socket: false,
        })?;
        let second = Duration::from_secs(1);
        let meter = Meter::new(Some(BUDGET), second, Duration::ZERO, process::cpu_time());
        let intervals = measure.as_secs().max(1) as usize;
        Ok(Self {
            capture,
            sliding: sliding(intervals),
            block: Block::default(),
            meter,
            began: Instant::now(),
            intervals,
            changed: None,
            changed_ns: 0,
        })
    }

    /// Takes packets for up to `wait`; a signal ends it.
    ///
    /// # Errors The kernel refuses.
    pub fn take(&mut self, wait: Duration) -> Result<(), Error> {
        self.capture.read(&mut self.block, wait.max(Duration::from_millis(1)))?;
        if self.changed.is_some_and(|changed| changed.elapsed() < LATE_MAX) {
            self.block.entries.retain(|frame| frame.time_ns >= self.changed_ns);
        }
        if !self.block.entries.is_empty() {
            self.sliding.take(&self.block);
        }
        let (now, captured) = (self.began.elapsed(), self.capture.share());
        if let Some(share) = self.meter.look(now, process::cpu_time(), captured) {
            self.capture.set_share(share)?;
            if share.value() < captured.value() {
                let selection = self.capture.selection();
                self.sliding.keep_only(|flow| selection.sample.has(flow));
            }
        }
        Ok(())
    }

    /// Ends an interval of one second.
    pub fn cut(&mut self) {
        self.sliding.cut();
    }

    /// Takes the packets that the kernel has not handed over yet.
    pub fn drain(&mut self) {
        self.capture.drain(&mut self.block);
        self.sliding.take(&self.block);
    }

    /// Begins the measurement after the change, which had been made at `at_ns` by the clock of the
    /// packets. Packets that were captured while the change was made, which may take seconds on a
    /// busy host, count on neither side, also if the kernel hands them over later.
    pub fn changed(&mut self, at_ns: u64) {
        self.changed_ns = at_ns;
        self.changed = Some(Instant::now());
        self.capture.drain(&mut self.block);
        self.sliding = sliding(self.intervals);
    }

    /// Returns the report on all since the beginning or the change.
    pub fn whole(&mut self) -> Report {
        self.sliding.whole(&[])
    }

    /// Returns the report on the last seconds.
    pub fn last(&mut self) -> Report {
        self.sliding.report(&[])
    }

    /// Returns the limits of the measurement that the reader has to know.
    pub fn limits(&mut self) -> Vec<String> {
        let mut limits = Vec::new();
        let share = self.capture.share();
        if share.is_part() {
            let share = units::share(share.value());
            limits.push(format!("{share} of the connections were measured, to save CPU time"));
        }
        self.capture.summary();
        if self.capture.drops() > 0 {
            let packets = units::counted(self.capture.drops(), "packet", "packets");
            limits.push(format!("{packets} lost by the measurement itself"));
        }
        limits
    }
}

fn sliding(intervals: usize) -> Sliding {
    Sliding::new(Options::default(), intervals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::thread;
    use tcpwhy_core::compare::Measured;
    use tcpwhy_live::sys::clock;

    /// Time that the server takes for each answer to a request of `/slow`.
    const SLOW: Duration = Duration::from_millis(300);

    /// Answers requests, one connection after the other.
    fn serve() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 4096];
                while let Ok(bytes @ 1..) = stream.read(&mut request) {
                    if request[..bytes].starts_with(b"GET /slow") {
                        thread::sleep(SLOW);
                    }
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            }
        });
        at
    }

    /// Sends requests on a connection of their own, and waits for their answers.
    fn ask(at: SocketAddr, path: &str, requests: usize) {
        let mut stream = TcpStream::connect(at).expect("a connection");
        for _ in 0..requests {
            let request = format!("GET {path} HTTP/1.1\r\nHost: lab\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("a request is sent");
            assert!(stream.read(&mut [0; 4096]).expect("an answer") > 0);
        }
    }

    /// Takes packets until this number of exchanges is measured: the kernel hands packets over late
    /// on a busy machine.
    fn until_measured(meters: &mut Meters, exchanges: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while meters.sliding.whole(&[]).totals.exchanges < exchanges && Instant::now() < until {
            meters.take(Duration::from_millis(50)).expect("packets");
        }
    }

    #[test]
    fn exchanges_during_a_change_that_takes_long_count_neither_before_nor_after_it() {
        if !tcpwhy_testing::privileged("capturing packets") {
            return;
        }
        let at = serve();
        let place = MeasuredConnections {
            netns: Netns::own(),
            port: Some(at.port()),
            peer: None,
            pid: None,
        };
        let mut meters = Meters::open(&place, Duration::from_secs(1)).expect("a capture");
        // Other tests of this process use its CPU time too.
        meters.meter = Meter::new(None, Duration::from_secs(1), Duration::ZERO, Duration::ZERO);
        ask(at, "/quick", 20);
        until_measured(&mut meters, 20);
        meters.drain();
        let before = Measured::of("before", &meters.whole());
        ask(at, "/slow", 3);
        // The kernel hands these over after those before.
        ask(at, "/quick", 10);
        meters.changed(clock::realtime_ns());
        ask(at, "/quick", 15);
        until_measured(&mut meters, 15);
        let after = Measured::of("after", &meters.whole());
        assert_eq!((before.exchanges, after.exchanges), (20, 15));
        let most_ns = before.latency.max_ns.max(after.latency.max_ns);
        assert!(u128::from(most_ns) < SLOW.as_nanos(), "{most_ns} ns");
    }
}
