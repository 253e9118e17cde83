//! Reads the sockets of the calling thread's namespace, over the time of a sample.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::sockets::{
    Attempts, Connection, Destination, Listener, Sockets, destinations, holds, ports_listened,
    served,
};
use tcpwhy_live::diag::{Diag, Entry, TcpState};
use tcpwhy_live::error::LiveError;
use tcpwhy_live::options::{InspectedProcess, Options};
use tcpwhy_live::process::{Holders, Process};
use tcpwhy_live::tcp_info::TcpInfo;

/// Time between two looks during the sample.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Number of connections above which only listeners are listed during the sample.
const CONNECTIONS_LOOKED_AT_MAX: usize = 2_000;
/// Time between two lists of all sockets, and how long one may take.
const LIST_EVERY: Duration = Duration::from_millis(150);
const LIST_MAX: Duration = Duration::from_millis(20);
/// Lists in what is left of the sample, about, and destinations kept of each.
const MOMENTS: u32 = 32;
const DESTINATIONS_EACH: usize = 16;
/// Connections that were held back, kept at most.
const HELD_MAX: usize = 256;
/// Destinations with unanswered attempts, and attempts of each, kept at most.
const ATTEMPTED_MAX: usize = 256;
const ATTEMPTS_MAX: usize = 4_096;

const CONNECTED: [TcpState; 4] =
    [TcpState::Established, TcpState::CloseWait, TcpState::FinWait1, TcpState::SynSent];

/// State of the sample: its begin and its looks.
#[derive(Debug)]
pub struct Watched {
    diag: Diag,
    /// `TCP_INFO` at the begin, by cookie.
    before: HashMap<u64, TcpInfo>,
    /// Drops at the begin and longest queue, by listener's cookie.
    listeners: HashMap<u64, (u64, u64)>,
    /// Looks at which Nagle's algorithm held a segment, by cookie.
    holds: HashMap<u64, u64>,
    looks: u64,
    is_small: bool,
    /// Destinations at moments of the sample: ports come and go.
    destinations: Vec<Destination>,
    /// Time of the next list of all sockets; `None` if there are too many sockets.
    next_list: Option<Instant>,
    attempted: Attempted,
    began: Instant,
}

/// Connection attempts seen in SYN-SENT, by destination.
#[derive(Debug, Default)]
struct Attempted(HashMap<SocketAddr, Tried>);

/// Attempts to connect to one destination.
#[derive(Debug, Default)]
struct Tried {
    cookies: HashSet<u64>,
    syn_retransmits_max: u64,
    inodes: HashSet<u32>,
    has_connection: bool,
}

impl Attempted {
    /// Adds what a list of sockets shows.
    fn add(&mut self, entries: &[Entry]) {
        let is_trying = |entry: &&Entry| entry.state == TcpState::SynSent;
        for entry in entries.iter().filter(is_trying) {
            if self.0.len() >= ATTEMPTED_MAX && !self.0.contains_key(&entry.peer) {
                continue;
            }
            let tried = self.0.entry(entry.peer).or_default();
            if tried.cookies.len() < ATTEMPTS_MAX {
                tried.cookies.insert(entry.cookie);
                tried.inodes.insert(entry.inode);
            }
            let again = entry.tcp_info.map_or(0, |info| info.tcpi_retransmits);
            tried.syn_retransmits_max = tried.syn_retransmits_max.max(again);
        }
        let was_made = |state| {
            !matches!(state, TcpState::SynSent | TcpState::SynReceived | TcpState::Listen)
                && state != TcpState::Close
        };
        for entry in entries.iter().filter(|entry| was_made(entry.state)) {
            if let Some(tried) = self.0.get_mut(&entry.peer) {
                tried.has_connection = true;
            }
        }
    }

    /// Names the processes, of which some have ended meanwhile.
    fn named(self, holders: [&Holders; 2]) -> Vec<Attempts> {
        let mut found: Vec<_> = self
            .0
            .into_iter()
            .map(|(peer, tried)| {
                let process = |inode: &u32| holders.iter().find_map(|it| process(it, *inode));
                Attempts {
                    peer,
                    attempts: tried.cookies.len() as u64,
                    syn_retransmits_max: tried.syn_retransmits_max,
                    has_connection: tried.has_connection,
                    process: tried.inodes.iter().find_map(process),
                }
            })
            .collect();
        found.sort_by_key(|it| it.peer);
        found
    }
}

impl Watched {
    /// Looks for the first time.
    ///
    /// # Errors
    /// The kernel refuses to list sockets.
    pub fn begin() -> Result<Self, LiveError> {
        let mut watched = Self {
            diag: Diag::open()?,
            before: HashMap::new(),
            listeners: HashMap::new(),
            holds: HashMap::new(),
            looks: 0,
            is_small: true,
            destinations: Vec::new(),
            next_list: Some(Instant::now()),
            attempted: Attempted::default(),
            began: Instant::now(),
        };
        let before = &mut watched.before;
        watched.diag.dump(&CONNECTED, |entry| {
            before.insert(entry.cookie, entry.tcp_info.unwrap_or_default());
        })?;
        watched.is_small = watched.before.len() <= CONNECTIONS_LOOKED_AT_MAX;
        watched.look_at_listeners()?;
        Ok(watched)
    }

    /// Looks again and again until `end`, each time also by `look`.
    ///
    /// # Errors
    /// The kernel's list breaks off.
    pub fn until(&mut self, end: Instant, mut look: impl FnMut()) -> Result<(), LiveError> {
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(LOOK_EVERY));
            look();
            self.look_at_listeners()?;
            self.look_at_ports(end)?;
            if self.is_small {
                self.looks += 1;
                let counts = &mut self.holds;
                self.diag.dump(&[TcpState::Established], |entry| {
                    if holds(&entry) {
                        *counts.entry(entry.cookie).or_default() += 1;
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Lists all sockets repeatedly, unless that takes too long.
    fn look_at_ports(&mut self, end: Instant) -> Result<(), LiveError> {
        let began = Instant::now();
        if self.next_list.is_none_or(|next| began < next) {
            return Ok(());
        }
        let entries = tcpwhy_live::sockets::list()?;
        self.attempted.add(&entries);
        let found = destinations(&entries, &ports_listened(&entries), |_| None);
        self.destinations.extend(found.into_iter().take(DESTINATIONS_EACH));
        let is_quick = began.elapsed() < LIST_MAX;
        let pause = (end.saturating_duration_since(began) / MOMENTS).max(LIST_EVERY);
        self.next_list = is_quick.then(|| began + pause);
        Ok(())
    }

    fn look_at_listeners(&mut self) -> Result<(), LiveError> {
        let listeners = &mut self.listeners;
        self.diag.dump(&[TcpState::Listen], |entry| {
            let drops = entry.memory.map_or(0, |memory| memory.drops);
            let place = listeners.entry(entry.cookie).or_insert((drops, 0));
            place.1 = place.1.max(u64::from(entry.recv_queue));
        })
    }

    /// Looks for the last time. `before` has the processes at the begin of the sample, of which
    /// some have closed their sockets since.
    ///
    /// # Errors
    /// The kernel's list breaks off.
    pub fn end(mut self, before: &Holders, holders: &Holders) -> Result<Sockets, LiveError> {
        self.look_at_listeners()?;
        let entries = tcpwhy_live::sockets::list()?;
        self.attempted.add(&entries);
        let holder = |inode: u32| process(holders, inode);
        let listened = ports_listened(&entries);
        let mut sockets = Sockets {
            destinations: destinations(&entries, &listened, holder),
            served: served(&entries, holders),
            attempts: std::mem::take(&mut self.attempted).named([before, holders]),
            ..Sockets::default()
        };
        sockets.destinations.append(&mut self.destinations);
        let half_open = tcpwhy_live::sockets::half_open(&entries);
        for entry in &entries {
            *sockets.states.entry(entry.state).or_default() += 1;
            match entry.state {
                TcpState::Listen => {
                    sockets.listeners.push(self.listener(entry, holders, &half_open))
                }
                state if CONNECTED.contains(&state) => {
                    let is_server = listened.contains(&entry.local.port());
                    let connection = self.connection(entry, is_server);
                    let over_us = u64::try_from(self.began.elapsed().as_micros());
                    let is_filled = connection.fills_window(over_us.unwrap_or(u64::MAX));
                    if (connection.is_held() || is_filled) && sockets.held.len() < HELD_MAX {
                        sockets.held.push(connection);
                    }
                }
                _ => {}
            }
        }
        ask(&mut sockets.held, holders);
        sockets.listeners.sort_by_key(|listener| listener.local);
        Ok(sockets)
    }

    fn listener(
        &self,
        entry: &Entry,
        holders: &Holders,
        half_open: &HashMap<SocketAddr, u64>,
    ) -> Listener {
        let (drops_before, queue_max) =
            self.listeners.get(&entry.cookie).copied().unwrap_or((0, 0));
        let drops = entry.memory.map_or(0, |memory| memory.drops);
        Listener {
            local: entry.local,
            process: process(holders, entry.inode),
            backlog: u64::from(entry.send_queue),
            queue_max: queue_max.max(u64::from(entry.recv_queue)),
            drops: drops.saturating_sub(drops_before),
            half_open: half_open.get(&entry.local).copied().unwrap_or(0),
        }
    }

    fn connection(&self, entry: &Entry, is_server: bool) -> Connection {
        Connection {
            local: entry.local,
            peer: entry.peer,
            is_server,
            state: entry.state,
            process: None,
            before: self.before.get(&entry.cookie).copied().unwrap_or_default(),
            after: entry.tcp_info.unwrap_or_default(),
            memory: entry.memory.unwrap_or_default(),
            unread_bytes: u64::from(entry.recv_queue),
            holds: self.holds.get(&entry.cookie).copied().unwrap_or(0),
            looks: self.looks,
            options: Options::default(),
            inode: entry.inode,
            cookie: entry.cookie,
        }
    }
}

fn process(holders: &Holders, inode: u32) -> Option<Process> {
    let holder = holders.by_inode.get(&inode).filter(|_| inode != 0)?;
    holders.processes.get(holder.process).cloned()
}

/// Reads the process and the options of each connection.
fn ask(connections: &mut [Connection], holders: &Holders) {
    let mut asked: HashMap<usize, Option<InspectedProcess>> = HashMap::new();
    for connection in connections {
        let Some(holder) = holders.by_inode.get(&connection.inode) else { continue };
        if connection.inode == 0 {
            continue;
        }
        connection.process = holders.processes.get(holder.process).cloned();
        let Some(pid) = connection.process.as_ref().map(|process| process.pid) else { continue };
        let process =
            asked.entry(holder.process).or_insert_with(|| InspectedProcess::open(pid).ok());
        if let Some(Ok(options)) =
            process.as_ref().map(|it| it.options(holder.fd, connection.cookie))
        {
            connection.options = options;
        }
    }
}
