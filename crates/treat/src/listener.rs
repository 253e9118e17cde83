//! The accept queue of listening sockets: `listen` called again on a duplicate of the descriptor
//! sets its length (listen(2)), which `net.core.somaxconn` bounds.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use super::error::TreatError;
use super::host::Restored;
use super::namespace::Namespace;
use super::record::ListenerChange;
use super::{plan, reach};
use tcpwhy_live::diag::TcpState;
use tcpwhy_live::netns::Netns;

/// A holder is looked for this often, at this interval.
const TRIES: u32 = 10;
const AGAIN: Duration = Duration::from_millis(50);

/// Listeners at a port whose queue is shorter than `backlog`.
pub(super) fn plan(
    netns: &Netns,
    port: u16,
    backlog: u32,
) -> Result<Vec<ListenerChange>, TreatError> {
    let namespace = Namespace::of(netns)?;
    let look = reach::look_for_all(netns)?;
    let at_port = |found: &&reach::Found| {
        found.entry.state == TcpState::Listen && found.entry.local.port() == port
    };
    let listeners: Vec<_> = look.found.iter().filter(at_port).collect();
    if listeners.is_empty() {
        return Err(TreatError::NoListener { port });
    }
    let short = listeners.into_iter().filter(|found| found.entry.send_queue < backlog);
    let changes = short.map(|found| {
        let denied = || TreatError::Listener {
            local: found.entry.local.to_string(),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        let holder = found.holder.ok_or_else(denied)?;
        let process = &look.holders.processes[holder.process];
        Ok(ListenerChange {
            cookie: found.entry.cookie,
            local: found.entry.local,
            namespace: namespace.clone(),
            pid: process.pid,
            command: process.command.clone(),
            before: found.entry.send_queue,
            set: backlog,
        })
    });
    changes.collect()
}

/// Sets the length, and returns the change with the length that the kernel made of it.
pub(super) fn make(change: &ListenerChange) -> Result<ListenerChange, TreatError> {
    let refused = |source| TreatError::Listener { local: change.local.to_string(), source };
    match set(change, change.set).map_err(refused)? {
        Set::Length(set) => Ok(ListenerChange { set, ..change.clone() }),
        Set::Gone => Err(refused(io::ErrorKind::NotFound.into())),
        Set::Other(now) => Err(refused(io::Error::other(format!("its length is {now} by now")))),
    }
}

pub(super) fn restore(change: &ListenerChange) -> io::Result<Restored> {
    Ok(match set(change, change.before)? {
        Set::Gone => Restored::Gone,
        Set::Length(now) if now == change.before => Restored::Done,
        Set::Length(now) => {
            let why = format!("the kernel made it {now}: net.core.somaxconn bounds it");
            return Err(io::Error::other(why));
        }
        Set::Other(now) => Restored::ChangedMeanwhile { now: now.to_string() },
    })
}

/// Result of setting a length.
enum Set {
    /// The length that it has now.
    Length(u32),
    /// The socket is closed.
    Gone,
    /// Another program has set this length.
    Other(u32),
}

/// Sets the length. A process that holds the socket for a moment, as a child before it runs its
/// program, may end while the descriptor is asked for: then another holder is looked for.
fn set(change: &ListenerChange, backlog: u32) -> io::Result<Set> {
    let Some(netns) = change.namespace.find()? else { return Ok(Set::Gone) };
    for _ in 0..TRIES {
        match try_set(&netns, change, backlog) {
            Err(error) if plan::is_gone(&error) => thread::sleep(AGAIN),
            other => return other,
        }
    }
    Err(io::Error::other("the process that holds it cannot be looked into"))
}

fn try_set(netns: &Netns, change: &ListenerChange, backlog: u32) -> io::Result<Set> {
    let Some((now, socket)) = open(netns, change)? else { return Ok(Set::Gone) };
    if now == backlog {
        return Ok(Set::Length(now));
    }
    if now != change.before && now != change.set {
        return Ok(Set::Other(now));
    }
    let wanted = i32::try_from(backlog).unwrap_or(i32::MAX);
    socket2::SockRef::from(&socket.as_fd()).listen(wanted)?;
    let now = length(netns, change)?.map(|(now, _)| now);
    Ok(now.map_or(Set::Gone, Set::Length))
}

/// Returns the length now and a duplicate of the descriptor; `None` if the socket is closed.
fn open(netns: &Netns, change: &ListenerChange) -> io::Result<Option<(u32, OwnedFd)>> {
    let Some((now, mut look)) = length(netns, change)? else { return Ok(None) };
    let found = look.found.iter().find(|found| found.entry.cookie == change.cookie);
    let holder = found.and_then(|found| found.holder).ok_or(io::ErrorKind::NotFound)?;
    look.open(holder, change.cookie).map(|socket| Some((now, socket)))
}

fn length(netns: &Netns, change: &ListenerChange) -> io::Result<Option<(u32, reach::Look)>> {
    let look = reach::look_for_all(netns).map_err(io::Error::other)?;
    let found = look.found.iter().find(|found| found.entry.cookie == change.cookie);
    Ok(found.map(|found| found.entry.send_queue).map(|now| (now, look)))
}
