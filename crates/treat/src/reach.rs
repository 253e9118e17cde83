//! The sockets of a scope, each with the process and descriptor through which it is reached.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::error::TreatError;
use super::record::{Scope, Side};
use crate::hooks::established::cgroup_root;
use tcpwhy_live::diag::{Diag, Entry, TcpState};
use tcpwhy_live::error::LiveError;
use tcpwhy_live::netns::Netns;
use tcpwhy_live::process::{Holder, Holders, ports::family};
use tcpwhy_live::sockets::listeners::Listening;
use tcpwhy_live::sockets::{Peer, Selection};
use tcpwhy_live::sys;

/// States of connections that can still carry data of this side, and listeners.
const STATES: [TcpState; 4] =
    [TcpState::Established, TcpState::SynSent, TcpState::CloseWait, TcpState::Listen];

/// A socket of a scope.
pub(super) struct Found {
    pub(super) entry: Entry,
    /// Process that holds it; `None` while it waits to be accepted, or if that may not be read.
    pub(super) holder: Option<Holder>,
}

/// Result of one look at the sockets.
pub(super) struct Look {
    pub(super) found: Vec<Found>,
    pub(super) holders: Holders,
    /// Cookies of all connections of the namespace, also of those that are not in the scope, or whose
    /// process is not known yet.
    pub(super) open: HashSet<u64>,
    pidfds: HashMap<u32, OwnedFd>,
}

/// Lists the connections of a scope.
pub(super) fn look(netns: &Netns, scope: &Scope, peer: Option<Peer>) -> Result<Look, TreatError> {
    let members = members(scope)?;
    let entries = netns.inside(|| list(&STATES))??;
    let listening = Listening::of(&entries);
    let holders = Holders::read(members.as_deref());
    let selection = Selection { port: scope.port, peer, ..Selection::default() };
    let open = entries.iter().map(|entry| entry.cookie).collect();
    let mut found = Vec::new();
    for entry in entries {
        let side = if listening.took(entry.local) { Side::Server } else { Side::Client };
        let is_side = scope.side == Side::Both || scope.side == side;
        if entry.state == TcpState::Listen || !is_side || !selection.takes(&entry) {
            continue;
        }
        let holder = holders.by_inode.get(&entry.inode).copied().filter(|_| entry.inode != 0);
        if holder.is_some() || members.is_none() {
            found.push(Found { entry, holder });
        }
    }
    Ok(Look { found, holders, open, pidfds: HashMap::new() })
}

/// Lists all connections of a namespace that a process can hold.
pub(super) fn look_for_all(netns: &Netns) -> Result<Look, TreatError> {
    let entries = netns.inside(|| list(&STATES))??;
    let open = entries.iter().map(|entry| entry.cookie).collect();
    let holders = Holders::read(None);
    let found = entries.into_iter().map(|entry| {
        let holder = holders.by_inode.get(&entry.inode).copied().filter(|_| entry.inode != 0);
        Found { entry, holder }
    });
    let found = found.collect();
    Ok(Look { found, holders, open, pidfds: HashMap::new() })
}

/// Ports at which the processes of a scope listen.
pub(super) fn listening_ports(netns: &Netns, scope: &Scope) -> Result<Vec<u16>, TreatError> {
    let members = members(scope)?;
    let entries = netns.inside(|| list(&[TcpState::Listen]))??;
    let holders = Holders::read(members.as_deref());
    let held = entries.iter().filter(|entry| holders.by_inode.contains_key(&entry.inode));
    let mut ports: Vec<u16> = held.map(|entry| entry.local.port()).collect();
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

/// Returns whether a process of the scope listens where connections of the scope come in.
pub(super) fn listens(netns: &Netns, scope: &Scope) -> Result<bool, TreatError> {
    let members = members(scope)?;
    let entries = netns.inside(|| list(&[TcpState::Listen]))??;
    let holders = members.is_some().then(|| Holders::read(members.as_deref()));
    let is_held = |entry: &Entry| {
        holders.as_ref().is_none_or(|holders| holders.by_inode.contains_key(&entry.inode))
    };
    let is_port = |entry: &Entry| scope.port.is_none_or(|port| entry.local.port() == port);
    Ok(scope.side != Side::Client && entries.iter().any(|entry| is_held(entry) && is_port(entry)))
}

/// Returns the ports that are listened at in a namespace, each with its process, in words.
pub(super) fn listeners(netns: &Netns) -> Result<Vec<String>, TreatError> {
    let entries = netns.inside(|| list(&[TcpState::Listen]))??;
    let holders = Holders::read(None);
    let mut ports: Vec<(u16, Option<String>)> = entries
        .iter()
        .map(|entry| {
            let holder = holders.by_inode.get(&entry.inode);
            let command = holder.map(|holder| holders.processes[holder.process].command.clone());
            (entry.local.port(), command)
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    let words = |(port, command): (u16, Option<String>)| match command {
        Some(command) => format!("port {port} ({command})"),
        None => format!("port {port}"),
    };
    Ok(ports.into_iter().map(words).collect())
}

fn list(states: &[TcpState]) -> Result<Vec<Entry>, LiveError> {
    let mut entries = Vec::new();
    Diag::open()?.dump(states, |entry| entries.push(entry))?;
    Ok(entries)
}

/// Returns the processes of a scope; `None` means all.
fn members(scope: &Scope) -> Result<Option<Vec<u32>>, TreatError> {
    if let Some(pid) = scope.pid {
        return Ok(Some(family(pid)));
    }
    let Some(path) = &scope.cgroup else { return Ok(None) };
    let mut members = Vec::new();
    let mut folders = vec![cgroup_directory(path)?];
    while let Some(folder) = folders.pop() {
        let procs = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        members.extend(procs.lines().filter_map(|line| line.parse::<u32>().ok()));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let children = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(children.map(|entry| entry.path()));
    }
    Ok(Some(members))
}

/// Returns the directory of a control group, which `path` names as `/proc/PID/cgroup` does, or by
/// its directory.
pub(super) fn cgroup_directory(path: &str) -> Result<PathBuf, TreatError> {
    let none = || TreatError::NoCgroup { path: path.to_owned() };
    let root = cgroup_root().ok_or(TreatError::NoCgroups)?;
    let inside = Path::new(path).strip_prefix(&root).ok().map(Path::to_owned);
    let inside = inside.unwrap_or_else(|| path.trim_start_matches('/').into());
    let directory = root.join(inside);
    if directory.join("cgroup.procs").exists() { Ok(directory) } else { Err(none()) }
}

impl Look {
    /// Returns a duplicate of the descriptor of a socket. It has to be closed soon: while it is
    /// open, a connection that its process closes does not end.
    ///
    /// # Errors
    /// No permission; or the process has closed it (`NotFound`).
    pub(super) fn open(&mut self, holder: Holder, cookie: u64) -> io::Result<OwnedFd> {
        let pid = self.holders.processes[holder.process].pid;
        let process = match self.pidfds.entry(pid) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => place.insert(sys::pidfd_open(pid)?),
        };
        let socket = sys::pidfd_getfd(process.as_fd(), holder.fd)?;
        // The number of a descriptor is used again.
        if sys::cookie(socket.as_fd())? == cookie {
            return Ok(socket);
        }
        Err(io::ErrorKind::NotFound.into())
    }
}
