//! The accept queue of listening sockets: `listen` called again on a duplicate of the descriptor
//! sets its length (listen(2)), which `net.core.somaxconn` bounds.

use std::io;
use std::os::fd::AsFd;

use super::error::TreatError;
use super::host::Restored;
use super::reach;
use super::record::ListenerChange;
use crate::diag::State;
use crate::netns::Netns;

/// Listeners at a port whose queue is shorter than `backlog`.
pub(super) fn plan(
    netns: &Netns,
    port: u16,
    backlog: u32,
) -> Result<Vec<ListenerChange>, TreatError> {
    let look = reach::look_for_all(netns)?;
    let at_port = |found: &&reach::Found| {
        found.entry.state == State::Listen && found.entry.local.port() == port
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
            netns: netns.inode,
            pid: process.pid,
            command: process.command.clone(),
            before: found.entry.send_queue,
            set: backlog,
        })
    });
    changes.collect()
}

pub(super) fn make(change: &ListenerChange) -> Result<(), TreatError> {
    set(change, change.set)
        .map(|_| ())
        .map_err(|source| TreatError::Listener { local: change.local.to_string(), source })
}

pub(super) fn restore(change: &ListenerChange) -> io::Result<Restored> {
    set(change, change.before)
}

fn set(change: &ListenerChange, backlog: u32) -> io::Result<Restored> {
    let Some(netns) = Netns::with_inode(change.netns) else { return Ok(Restored::Gone) };
    let mut look = reach::look_for_all(&netns).map_err(io::Error::other)?;
    let found = look.found.iter().find(|found| found.entry.cookie == change.cookie);
    let Some((now, Some(holder))) = found.map(|it| (it.entry.send_queue, it.holder)) else {
        return Ok(Restored::Gone);
    };
    if now == backlog {
        return Ok(Restored::Done);
    }
    if now != change.before && now != change.set {
        return Ok(Restored::ChangedMeanwhile);
    }
    let socket = look.open(holder, change.cookie)?;
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    socket2::SockRef::from(&socket.as_fd()).listen(backlog)?;
    Ok(Restored::Done)
}
