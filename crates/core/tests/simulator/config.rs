//! The configuration of a run, and which of its properties may cost time.

use std::fmt;
use tcpwhy_core::model::{Cause, Role};

/// Buffers that hold back nothing in these runs.
pub const AMPLE_BYTES: usize = 1 << 20;

/// Requests per connection.
pub const REQUESTS: usize = 5;

/// The longest packet of an Ethernet; 1460 bytes of it are payload.
const ETHERNET_BYTES: usize = 1_500;

/// The segment that the link loses; its repetition passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No segment.
    None,
    /// One in the middle of a response; more follow it.
    Middle,
    /// The last one of a response.
    Tail,
    /// The client's SYN.
    Syn,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Nagle's algorithm at the server (at the client, if the request leaves in two writes).
    pub nagle: bool,
    /// For how long both ends hold back ACKs, ms; 0 is not at all.
    pub ack_delay_ms: u64,
    /// Round trip of the link, µs.
    pub rtt_us: u64,
    /// The lost segment.
    pub loss: Loss,
    /// The server's send buffer.
    pub send_bytes: usize,
    /// The client's receive buffer.
    pub receive_bytes: usize,
    /// Header and body of the response are written separately.
    pub two_writes: bool,
    /// `true` if the request is sent in two writes.
    pub request_in_two: bool,
    /// Body of the response.
    pub body_bytes: usize,
    /// The server's work per request, ms.
    pub think_ms: u64,
    /// Rate of the link, Mbit/s.
    pub rate_mbps: u64,
    /// Longest packet of the link.
    pub mtu_bytes: usize,
    /// The request whose response is hit by a loss.
    pub hit_request: usize,
    /// Position in the response of [`Loss::Middle`], hundredths of it.
    pub hit_percent: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            nagle: false,
            ack_delay_ms: 0,
            rtt_us: 2_000,
            loss: Loss::None,
            send_bytes: AMPLE_BYTES,
            receive_bytes: AMPLE_BYTES,
            two_writes: false,
            request_in_two: false,
            body_bytes: SMALL_BYTES,
            think_ms: 0,
            rate_mbps: 1_000,
            mtu_bytes: ETHERNET_BYTES,
            hit_request: 2,
            hit_percent: 50,
        }
    }
}

/// A response of one segment.
pub const SMALL_BYTES: usize = 600;

/// A response of many.
pub const LARGE_BYTES: usize = 200_000;

/// One of a run's faults, and how to be rid of it.
#[derive(Clone, Copy, Debug)]
pub struct Injected {
    /// The cause.
    pub cause: Cause,
    /// Role of the culprit.
    pub role: Role,
    /// Returns the configuration without the fault.
    pub remove: fn(Config) -> Config,
}

impl Config {
    /// Time for which another sender would have had to open its congestion window if its buffer
    /// were not limited, ns: a window doubles each round trip (RFC 5681 §3.1). This stack has no
    /// congestion window, but no capture shows that, and time that a window needs to open is not
    /// lost to a buffer.
    pub fn opening_ns(&self) -> u64 {
        let ceiling_bytes = self.send_bytes.min(self.receive_bytes);
        let flights = self.body_bytes.div_ceil(ceiling_bytes) as u64;
        let doublings = u64::from(flights.next_power_of_two().ilog2());
        // The window continues to open in the next exchange from where it was acknowledged, and the
        // host's own buffer is once a little smaller than the window.
        (2 * doublings + 1) * self.rtt_us * 1_000
    }

    /// Every fault this run may suffer from, the one to name first where removing either helps.
    pub fn injected(self) -> Vec<Injected> {
        let mut all = Vec::new();
        let mut add = |cause, role, remove| all.push(Injected { cause, role, remove });
        if self.nagle {
            let role = if self.request_in_two { Role::Client } else { Role::Server };
            add(Cause::NagleDelayedAck, role, |it| Self { nagle: false, ..it });
        }
        if self.send_bytes < AMPLE_BYTES {
            add(Cause::SendBuffer, Role::Server, |it| Self { send_bytes: AMPLE_BYTES, ..it });
        }
        if self.receive_bytes < AMPLE_BYTES {
            let remove = |it| Self { receive_bytes: AMPLE_BYTES, ..it };
            add(Cause::ReceiveWindow, Role::Client, remove);
        }
        let lossless = |it| Self { loss: Loss::None, ..it };
        match self.loss {
            Loss::None => {}
            Loss::Middle => add(Cause::FastRecovery, Role::Network, lossless),
            Loss::Tail => add(Cause::RetransmissionTimeout, Role::Network, lossless),
            Loss::Syn => add(Cause::SynRetransmit, Role::Network, lossless),
        }
        if self.ack_delay_ms > 0 {
            add(Cause::DelayedAck, Role::Server, |it| Self { ack_delay_ms: 0, ..it });
        }
        all
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nagle = if self.nagle { "nagle  " } else { "nodelay" };
        let writes = match (self.request_in_two, self.two_writes) {
            (true, _) => "r2",
            (_, true) => "w2",
            _ => "w1",
        };
        let buffer = match (self.send_bytes, self.receive_bytes) {
            (AMPLE_BYTES, AMPLE_BYTES) => String::new(),
            (AMPLE_BYTES, bytes) => format!("rcv{}K", bytes >> 10),
            (bytes, _) => format!("snd{}K", bytes >> 10),
        };
        write!(
            f,
            "rtt {:>5} {nagle} ack {:>3} {writes} {:>6} B think {:>2} loss {:<6} {:<6} {:>4}M",
            format!("{}", self.rtt_us as f64 / 1e3),
            self.ack_delay_ms,
            self.body_bytes,
            self.think_ms,
            format!("{:?}", self.loss).to_lowercase(),
            buffer,
            self.rate_mbps,
        )?;
        match self.mtu_bytes {
            ETHERNET_BYTES => Ok(()),
            bytes => write!(f, " mtu {bytes:>4}"),
        }
    }
}
