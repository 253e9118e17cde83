//! The TCP sockets of a namespace during a sample: the longest queues of listeners, the ports that
//! each destination uses, and the connections that are held back.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use tcpwhy_live::diag::{Entry, Memory, TcpState};
use tcpwhy_live::options::Options;
use tcpwhy_live::process::{Holders, Process};
use tcpwhy_live::tcp_info::TcpInfo;

/// Sockets of the sample.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    /// Listeners.
    pub listeners: Vec<Listener>,
    /// Connections of clients by destination, the one with the most ports first; at the end of the
    /// sample, then at moments during it.
    pub destinations: Vec<Destination>,
    /// Connections that were held back during the sample.
    pub held: Vec<Connection>,
    /// Number of sockets in each state at the end of the sample.
    pub states: HashMap<TcpState, u64>,
    /// Listening addresses that each process serves, by the process's number: it holds the
    /// listener, or a connection that was made to it.
    pub served: BTreeMap<u32, BTreeSet<SocketAddr>>,
    /// Connection attempts of the sample that were not answered at once, by destination.
    pub attempts: Vec<Attempts>,
}

/// Attempts to connect to one destination, seen during the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempts {
    /// The other end.
    pub peer: SocketAddr,
    /// Number of attempts.
    pub attempts: u64,
    /// How often a SYN was sent again in the attempt with most of them.
    pub syn_retransmits_max: u64,
    /// `true` if a connection to this destination was there as well.
    pub has_connection: bool,
    /// A process that tries; `None` if it has ended or may not be looked into.
    pub process: Option<Process>,
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Local address.
    pub local: SocketAddr,
    /// The process that holds it.
    pub process: Option<Process>,
    /// Largest accept queue that it allows.
    pub backlog: u64,
    /// The longest accept queue seen.
    pub queue_max: u64,
    /// SYNs and connections that it dropped during the sample.
    pub drops: u64,
    /// Half-open connections at the end.
    pub half_open: u64,
}

/// Connections from one local address to one destination: each needs a local port of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The local address.
    pub local: IpAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Local ports of open connections.
    pub ports: Vec<u16>,
    /// Local ports of connections that this side has closed and the peer has not.
    pub closing: Vec<u16>,
    /// Local ports in TIME-WAIT, with the time since the connection was closed, ms.
    pub time_wait: Vec<(u16, u64)>,
    /// A process that holds one of the connections.
    pub process: Option<Process>,
}

/// A connection that was there at both ends of the sample, or is stuck at its end.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Local address.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// `true` if the connection was made to a listener of this namespace.
    pub is_server: bool,
    /// State at the end.
    pub state: TcpState,
    /// The process that holds it.
    pub process: Option<Process>,
    /// `TCP_INFO` at the begin; zeros where the connection is younger.
    pub before: TcpInfo,
    /// `TCP_INFO` at the end.
    pub after: TcpInfo,
    /// Buffers at the end.
    pub memory: Memory,
    /// Received bytes that the application has not read at the end.
    pub unread_bytes: u64,
    /// Looks at which a small segment was held though the windows had room.
    pub holds: u64,
    /// Number of observations.
    pub looks: u64,
    /// Options; all `None` where they could not be read.
    pub options: Options,
    /// The socket's inode.
    pub inode: u32,
    /// The kernel's number for it.
    pub cookie: u64,
}

/// Duration of TIME-WAIT, ms (`TCP_TIMEWAIT_LEN`).
const TIME_WAIT_MS: u64 = 60_000;

/// Shorter limited times in the sample are ignored: ten jiffies of 4 ms, µs.
const LIMITED_MIN_US: u64 = 40_000;

impl Connection {
    /// Returns the time for which the peer's window held data back during the sample, µs.
    pub fn rwnd_limited_us(&self) -> u64 {
        self.grew(|info| info.tcpi_rwnd_limited_us)
    }

    /// Returns the time for which the send buffer held data back during the sample, µs.
    pub fn sndbuf_limited_us(&self) -> u64 {
        self.grew(|info| info.tcpi_sndbuf_limited_us)
    }

    /// Returns the time with data to send during the sample, µs.
    pub fn busy_us(&self) -> u64 {
        self.grew(|info| info.tcpi_busy_time_us)
    }

    /// Bytes received during the sample.
    pub fn received_bytes(&self) -> u64 {
        self.grew(|info| info.tcpi_bytes_received)
    }

    /// Segments sent again during the sample.
    pub fn retransmitted(&self) -> u64 {
        self.grew(|info| info.tcpi_total_retrans)
    }

    fn grew(&self, of: impl Fn(&TcpInfo) -> u64) -> u64 {
        of(&self.after).saturating_sub(of(&self.before))
    }

    /// Returns whether Nagle's algorithm held a segment at a tenth of the looks or more, and at
    /// three or more.
    pub fn is_held_by_nagle(&self) -> bool {
        self.holds >= 3 && self.holds * 10 >= self.looks && self.options.nodelay == Some(false)
    }

    /// Returns the largest window that was offered to the peer, bytes; 0 if it is unknown.
    pub fn window_bytes(&self) -> u64 {
        let windows = [self.before, self.after].map(|info| info.tcpi_rcv_wnd_bytes);
        windows.into_iter().flatten().max().unwrap_or(0)
    }

    /// Returns whether the peer sent about one offered window a round trip, over this time: at least
    /// seven tenths of it. The least round trip counts, because a queue on the path makes others
    /// longer until they fit any window.
    pub fn fills_window(&self, over_us: u64) -> bool {
        let (window, rtt_us) = (self.window_bytes(), self.after.tcpi_min_rtt_us);
        let received = self.received_bytes();
        let most = u128::from(window) * u128::from(over_us) / u128::from(rtt_us.max(1));
        let is_known = window > 0 && rtt_us > 0;
        is_known && received >= 4 * window && u128::from(received) * 10 >= most * 7
    }

    /// Returns whether the peer has not acknowledged data that was sent three times or more.
    pub fn is_unanswered(&self) -> bool {
        self.after.tcpi_retransmits >= 2
            && self.after.tcpi_unacked > 0
            && self.state != TcpState::SynSent
    }

    /// Returns whether the local application leaves so much data unread that the peer may not send.
    pub fn is_unread(&self) -> bool {
        let window = self.after.tcpi_rcv_wnd_bytes.unwrap_or(u64::MAX);
        self.unread_bytes > 0
            && window < self.after.tcpi_rcv_mss_bytes.max(1)
            && self.state == TcpState::Established
    }

    /// Returns whether a window, a full buffer, a loss or unread data held it back.
    pub fn is_held(&self) -> bool {
        let limited = self.rwnd_limited_us().max(self.sndbuf_limited_us());
        limited >= LIMITED_MIN_US && limited * 20 >= self.busy_us()
            || self.retransmitted() > 0
            || self.after.tcpi_retransmits > 0 && self.after.tcpi_unacked > 0
            || self.is_unread()
            || self.holds >= 3
    }

    /// Returns the local end of a server, the peer of a client.
    pub fn service(&self) -> SocketAddr {
        if self.is_server { self.local } else { self.peer }
    }

    /// Returns `PROGRAM (pid N)`.
    pub fn program(&self) -> String {
        program(self.process.as_ref())
    }
}

impl Attempts {
    /// Returns whether the destination does not answer: a SYN was sent again, which takes a second
    /// (RFC 6298 §2.1), or many attempts were begun and none made a connection.
    pub fn is_unanswered(&self) -> bool {
        self.syn_retransmits_max > 0 || self.attempts >= ATTEMPTS_MIN && !self.has_connection
    }
}

/// Attempts without a connection from which on a destination does not answer.
const ATTEMPTS_MIN: u64 = 5;

impl Sockets {
    /// Returns the addresses of peers that were waited for.
    pub(super) fn awaited_peers(&self) -> BTreeSet<IpAddr> {
        let attempts = self.attempts.iter();
        let held = self.held.iter().filter(|it| it.is_unanswered());
        let all = attempts.map(|it| it.peer).chain(held.map(|it| it.peer));
        all.map(|peer| peer.ip().to_canonical()).collect()
    }
}

/// Returns `PROGRAM (pid N)`.
pub fn program(process: Option<&Process>) -> String {
    match process {
        Some(process) => format!("{} (pid {})", process.command, process.pid),
        None => "a program that may not be looked into".to_owned(),
    }
}

/// Returns whether less than a segment waits, data are in flight, and both windows have room: then
/// Nagle's algorithm (or a cork) holds it if `TCP_NODELAY` is off.
pub(super) fn holds(entry: &Entry) -> bool {
    let Some(info) = entry.tcp_info else { return false };
    let waits = info.tcpi_notsent_bytes;
    let in_flight = u64::from(entry.send_queue).saturating_sub(waits);
    (1..info.tcpi_snd_mss_bytes).contains(&waits)
        && info.tcpi_unacked > 0
        && info.tcpi_retransmits == 0
        && info.tcpi_snd_wnd_bytes.is_some_and(|window| window >= in_flight + waits)
        && info.tcpi_unacked < info.tcpi_snd_cwnd
}

/// Returns the ports with a listener.
pub(super) fn ports_listened(entries: &[Entry]) -> HashSet<u16> {
    let listeners = entries.iter().filter(|entry| entry.state == TcpState::Listen);
    listeners.map(|entry| entry.local.port()).collect()
}

/// Clients' connections by destination, the one with the most ports first. `holder` names the
/// process of a socket by its inode.
pub(super) fn destinations(
    entries: &[Entry],
    listened: &HashSet<u16>,
    holder: impl Fn(u32) -> Option<Process>,
) -> Vec<Destination> {
    let mut found: HashMap<(IpAddr, SocketAddr), Destination> = HashMap::new();
    for entry in entries {
        let is_open =
            !matches!(entry.state, TcpState::Listen | TcpState::Close | TcpState::SynReceived);
        if !is_open || listened.contains(&entry.local.port()) {
            continue;
        }
        let key = (entry.local.ip(), entry.peer);
        let destination = found.entry(key).or_insert_with(|| Destination {
            local: key.0,
            peer: key.1,
            ports: Vec::new(),
            closing: Vec::new(),
            time_wait: Vec::new(),
            process: None,
        });
        let port = entry.local.port();
        match entry.state {
            TcpState::TimeWait => {
                let age_ms = TIME_WAIT_MS.saturating_sub(u64::from(entry.timer_ms));
                destination.time_wait.push((port, age_ms));
            }
            TcpState::FinWait1 | TcpState::FinWait2 | TcpState::Closing => {
                destination.closing.push(port)
            }
            _ => destination.ports.push(port),
        }
        if destination.process.is_none() && entry.inode != 0 {
            destination.process = holder(entry.inode);
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|it| {
        let taken = it.ports.len() + it.closing.len() + it.time_wait.len();
        (std::cmp::Reverse(taken), it.peer, it.local)
    });
    found.truncate(DESTINATIONS_MAX);
    found
}

/// Listening addresses that each process serves.
pub(super) fn served(entries: &[Entry], holders: &Holders) -> BTreeMap<u32, BTreeSet<SocketAddr>> {
    let listeners = entries.iter().filter(|entry| entry.state == TcpState::Listen);
    let mut by_port: HashMap<u16, Vec<SocketAddr>> = HashMap::new();
    for listener in listeners {
        by_port.entry(listener.local.port()).or_default().push(listener.local);
    }
    let mut served: BTreeMap<u32, BTreeSet<SocketAddr>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.inode != 0) {
        let Some(locals) = by_port.get(&entry.local.port()) else { continue };
        let local = match entry.state {
            TcpState::Listen => entry.local,
            // With several listeners of the port, that of the address, or else the one for all.
            _ => match locals.iter().find(|it| it.ip() == entry.local.ip()) {
                Some(own) => *own,
                None => locals[0],
            },
        };
        for process in holders.all_of(entry.inode) {
            served.entry(process.pid).or_default().insert(local);
        }
    }
    served
}

/// Greatest number of destinations that are kept.
const DESTINATIONS_MAX: usize = 64;
