//! The link emulator: forwards packets between two TUN devices in user space, because not every
//! kernel has netem, and because the relay's own log is part of the truth.
//!
//! A packet passes, in this order: an outage, the table of connections, the drop rules, the MTU,
//! random loss, the queue and rate of the bottleneck, the delay. All randomness comes from the
//! seed.

mod forgetful;
pub(crate) mod packet;
mod path;
mod rules;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde::Serialize;

pub use path::{DropReason, PathParams};
pub use rules::{Direction, DropRule, Kind};

use crate::error::LabError;
use crate::sys;
use crate::timekeeping::{Lateness, Timekeeping};
use forgetful::FlowTable;
use packet::{Header, Transport};
use path::Path;
use rules::Rules;

/// A link with separate properties for each direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RelayParams {
    /// From the client to the server.
    pub client_to_server: PathParams,
    /// From the server to the client.
    pub server_to_client: PathParams,
    /// Rules for selected drops.
    pub rules: Vec<DropRule>,
    /// Idle time after which the link forgets a connection and drops its packets, ns; 0 never does.
    #[serde(skip_serializing_if = "is_zero")]
    pub forgets_ns: u64,
    /// Seed of the link's randomness.
    pub seed: u64,
}

impl RelayParams {
    /// Creates a link with the same delay and rate (bit/s, 0 = unlimited) in both directions.
    pub fn symmetric(rtt_ns: u64, rate_bps: u64, seed: u64) -> RelayParams {
        let path = PathParams { delay_ns: rtt_ns / 2, rate_bps, ..Default::default() };
        RelayParams {
            client_to_server: path.clone(),
            server_to_client: path,
            rules: Vec::new(),
            forgets_ns: 0,
            seed,
        }
    }

    /// Adds a rule.
    pub fn dropping(mut self, rule: DropRule) -> RelayParams {
        self.rules.push(rule);
        self
    }

    /// Changes both directions in the same way.
    pub fn both(mut self, change: impl Fn(&mut PathParams)) -> RelayParams {
        change(&mut self.client_to_server);
        change(&mut self.server_to_client);
        self
    }
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// A packet that the relay dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DroppedPacket {
    /// Time of arrival at the relay, on the captures' clock.
    pub time_ns: u64,
    /// Direction of the packet.
    pub direction: Direction,
    /// Reason for the drop.
    pub reason: DropReason,
    /// Length of the IP packet.
    pub ip_bytes: u64,
    /// Source address and port.
    pub source: String,
    /// Destination address and port.
    pub destination: String,
    /// TCP sequence number, as on the wire.
    pub seq: Option<u32>,
    /// TCP flag bits.
    pub flags: Option<u8>,
    /// Length of the TCP payload.
    pub payload_bytes: Option<u32>,
}

/// Counts of one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MessageContext {
    /// Number of packets that came in.
    pub packets: u64,
    /// Number of bytes that came in.
    pub bytes: u64,
    /// Number of drops by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Number of packets held back on purpose.
    pub reordered: u64,
    /// Number of packets sent twice.
    pub duplicated: u64,
    /// Largest number of bytes in the queue of the bottleneck.
    pub queue_max_bytes: u64,
}

/// The report of the relay, which is part of the truth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RelayReport {
    /// From the client to the server.
    pub client_to_server: MessageContext,
    /// From the server to the client.
    pub server_to_client: MessageContext,
    /// Lateness of its deliveries.
    pub timekeeping: Timekeeping,
    /// The first 10,000 dropped packets.
    pub drops: Vec<DroppedPacket>,
}

impl RelayReport {
    /// Number of drops in both directions.
    pub fn dropped(&self) -> u64 {
        let ways = [&self.client_to_server, &self.server_to_client];
        ways.iter().flat_map(|w| w.dropped.values()).sum()
    }
}

const DROPS_LOGGED: usize = 10_000;
/// Number of packets read in one go before packets that are due are sent; it bounds the lateness.
const BATCH: usize = 32;
/// Time that a sleeping thread may need to wake up.
const WAKING_NS: u64 = 80_000;
/// Interval at which an idle relay checks whether it should stop.
const TICK_NS: u64 = 50_000_000;

/// Switches with which a case interrupts the link while it is in use.
#[derive(Debug, Default)]
pub struct Outage {
    /// Drops all packets from the client to the server.
    pub client_to_server: AtomicBool,
    /// Drops all packets from the server to the client.
    pub server_to_client: AtomicBool,
}

/// A running relay; stops when dropped.
#[derive(Debug)]
pub struct Relay {
    stop: Arc<AtomicBool>,
    outage: Arc<Outage>,
    thread: Option<JoinHandle<RelayReport>>,
}

impl Relay {
    /// Starts to forward packets between the client's device and the server's.
    ///
    /// # Errors No thread can be started.
    pub fn start(client: OwnedFd, server: OwnedFd, params: RelayParams) -> Result<Relay, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let outage = Arc::new(Outage::default());
        let mut worker = Worker::new([client, server], params, Arc::clone(&outage));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || worker.run(&flag))
            .map_err(|source| LabError::Io { what: "start the relay".to_owned(), source })?;
        Ok(Relay { stop, outage, thread: Some(thread) })
    }

    /// Returns the switches for an outage.
    pub fn outage(&self) -> &Outage {
        &self.outage
    }

    /// Stops and returns the report.
    pub fn stop(&mut self) -> RelayReport {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Worker {
    /// Device, path that leads out of it, and its counters, client first.
    devices: [OwnedFd; 2],
    paths: [Path; 2],
    carried: [MessageContext; 2],
    rules: Rules,
    flows: FlowTable,
    outage: Arc<Outage>,
    lateness: Lateness,
    drops: Vec<DroppedPacket>,
}

impl Worker {
    fn new(devices: [OwnedFd; 2], params: RelayParams, outage: Arc<Outage>) -> Worker {
        Worker {
            devices,
            paths: [
                Path::new(params.client_to_server, params.seed ^ 0x0c25),
                Path::new(params.server_to_client, params.seed ^ 0x52c0),
            ],
            carried: Default::default(),
            rules: Rules::new(params.rules),
            flows: FlowTable::new(params.forgets_ns),
            outage,
            lateness: Lateness::default(),
            drops: Vec::new(),
        }
    }

    fn run(&mut self, stop: &AtomicBool) -> RelayReport {
        let realtime = sys::become_punctual(sys::RELAY_PRIORITY);
        let mut buf = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            for way in 0..2 {
                self.ingest(way, &mut buf);
                self.deliver(0);
                self.deliver(1);
            }
            let now_ns = sys::monotonic_ns();
            let next = self.paths.iter().filter_map(Path::next_due_ns).min();
            let wait_ns = next.map_or(TICK_NS, |due| due.saturating_sub(now_ns).min(TICK_NS));
            // The rest of the wait is spent polling, since the thread could wake up too late.
            let wait_ns = wait_ns.saturating_sub(WAKING_NS);
            sys::wait_readable([&self.devices[0], &self.devices[1]], wait_ns);
        }
        self.report(realtime)
    }

    fn ingest(&mut self, way: usize, buf: &mut [u8]) {
        for _ in 0..BATCH {
            // An error means that the device was removed because the run ends.
            let Ok(Some(len)) = sys::read_packet(&self.devices[way], buf) else {
                return;
            };
            let packet = &buf[..len];
            self.carried[way].packets += 1;
            self.carried[way].bytes += len as u64;
            let direction = direction_of(way);
            let dropped = if self.is_out(direction) {
                Err(DropReason::Outage)
            } else if self.flows.has_forgotten(sys::monotonic_ns(), packet) {
                Err(DropReason::Forgotten)
            } else if self.rules.drops(direction, packet).is_some() {
                Err(DropReason::Rule)
            } else {
                self.paths[way].take(sys::monotonic_ns(), packet)
            };
            if let Err(reason) = dropped {
                *self.carried[way].dropped.entry(reason).or_insert(0) += 1;
                if self.drops.len() < DROPS_LOGGED {
                    self.drops.push(describe(direction, reason, packet));
                }
            }
        }
    }

    fn is_out(&self, direction: Direction) -> bool {
        match direction {
            Direction::ClientToServer => self.outage.client_to_server.load(Ordering::Relaxed),
            Direction::ServerToClient => self.outage.server_to_client.load(Ordering::Relaxed),
        }
    }

    fn deliver(&mut self, way: usize) {
        let mut now_ns = sys::monotonic_ns();
        while let Some((due_ns, packet)) = self.paths[way].pop_due(now_ns) {
            // A packet that the device rejects (malformed, device down) is lost, as on any link.
            let _ = sys::write_packet(&self.devices[1 - way], &packet);
            // The receiver's stack runs inside the write; its time is not the relay's.
            self.lateness.record(now_ns - due_ns);
            now_ns = sys::monotonic_ns();
        }
    }

    fn report(&mut self, realtime: bool) -> RelayReport {
        let [mut client_to_server, mut server_to_client] = std::mem::take(&mut self.carried);
        for (carried, path) in
            [&mut client_to_server, &mut server_to_client].into_iter().zip(&self.paths)
        {
            carried.reordered = path.reordered;
            carried.duplicated = path.duplicated;
            carried.queue_max_bytes = path.queue_max_bytes;
        }
        RelayReport {
            client_to_server,
            server_to_client,
            timekeeping: self.lateness.report(realtime),
            drops: std::mem::take(&mut self.drops),
        }
    }
}

fn direction_of(way: usize) -> Direction {
    if way == 0 { Direction::ClientToServer } else { Direction::ServerToClient }
}

fn describe(direction: Direction, reason: DropReason, packet: &[u8]) -> DroppedPacket {
    let mut dropped = DroppedPacket {
        time_ns: sys::realtime_ns(),
        direction,
        reason,
        ip_bytes: packet.len() as u64,
        source: String::new(),
        destination: String::new(),
        seq: None,
        flags: None,
        payload_bytes: None,
    };
    let Some(header) = Header::parse(packet) else {
        return dropped;
    };
    let ports = match header.transport {
        Transport::Tcp(segment) => {
            dropped.seq = Some(segment.seq);
            dropped.flags = Some(segment.flags);
            dropped.payload_bytes = Some(segment.payload_bytes);
            (segment.source_port, segment.destination_port)
        }
        Transport::Udp { source_port, destination_port, .. } => (source_port, destination_port),
        Transport::Other(_) => (0, 0),
    };
    dropped.source = std::net::SocketAddr::new(header.source, ports.0).to_string();
    dropped.destination = std::net::SocketAddr::new(header.destination, ports.1).to_string();
    dropped
}
