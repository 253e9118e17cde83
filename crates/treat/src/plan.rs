//! Selects the sockets that a treatment changes, with the old and the new value of each.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::error::TreatError;
use super::namespace::Namespace;
use super::record::{Scope, Side, SocketChange};
use super::setting::Setting;
use super::{reach, system};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sockets::Peer;
use tcpwhy_live::sys;

/// The sockets to treat and the setting.
#[derive(Debug, Clone)]
pub struct TreatmentRequest {
    /// The option and its value.
    pub setting: Setting,
    /// Port at either end.
    pub port: Option<u16>,
    /// A process; its children count as well.
    pub pid: Option<u32>,
    /// The other end.
    pub peer: Option<Peer>,
    /// The control group of the processes.
    pub cgroup: Option<String>,
    /// Side of the connection.
    pub side: Side,
    /// Network namespace by name, or by the number of a process in it.
    pub netns: Option<String>,
}

/// Counts of the sockets found and changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of sockets that were changed.
    pub changed: u64,
    /// Sockets among these that were set as they opened, after the treatment began.
    pub changed_new: u64,
    /// Sockets that had the value before.
    pub had_it: u64,
    /// Sockets that no process holds yet: they wait to be accepted.
    pub unreached: u64,
    /// Sockets of processes that this one may not look into.
    pub denied: u64,
    /// Sockets at which the kernel refused the value.
    pub refused: u64,
    /// Sockets that the application changed between the look and the change; left alone.
    pub changed_meanwhile: u64,
}

/// Treatment of connections that open later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Newcomers {
    /// A program of the kernel sets the option as they are established.
    Hook,
    /// The sockets are listed again every 100 ms, for this reason.
    Listing(String),
}

/// Looks without a change: the effect that a treatment would have now.
///
/// # Errors
/// Sockets cannot be read.
pub fn plan(asked: &TreatmentRequest) -> Result<(Vec<SocketChange>, Counts), TreatError> {
    let (netns, scope) = scope(asked)?;
    check(&asked.setting)?;
    let mut look = reach::look(&netns, &scope, asked.peer)?;
    require_any(&look, &netns, &scope)?;
    let mut counts = Counts::default();
    let planned = planned(&mut look, &asked.setting, &mut HashSet::new(), &mut counts)?;
    require_rights(&counts, planned.len())?;
    counts.changed = planned.len() as u64;
    Ok((planned.into_iter().map(|planned| planned.change).collect(), counts))
}

/// Finds the namespace that `asked` names.
pub(super) fn scope(asked: &TreatmentRequest) -> Result<(Netns, Scope), TreatError> {
    let netns = match (&asked.netns, asked.pid) {
        (Some(name), _) => Netns::find(name)?,
        (None, Some(pid)) => Netns::of_process(pid)?,
        (None, None) => Netns::own(),
    };
    let own = Netns::own();
    let netns = if netns.inode == own.inode { own } else { netns };
    if let Some(path) = &asked.cgroup {
        reach::cgroup_directory(path)?;
    }
    // A namespace that gets its name later is another one.
    let netns = netns.held()?;
    let scope = Scope {
        namespace: Namespace::of(&netns)?,
        port: asked.port,
        pid: asked.pid,
        cgroup: asked.cgroup.clone(),
        peer: asked.peer.map(|peer| peer.to_string()),
        side: asked.side,
    };
    Ok((netns, scope))
}

/// Checks that the setting is possible before anything is changed.
pub(super) fn check(setting: &Setting) -> Result<(), TreatError> {
    // A sandbox answers ENOSYS or EPERM, also for descriptors of the process itself.
    let own = sys::pidfd_open(std::process::id());
    if own.and_then(|own| sys::pidfd_getfd(own.as_fd(), own.as_raw_fd() as u32)).is_err() {
        return Err(TreatError::NotSupported);
    }
    let Setting::CongestionControl { name } = setting else { return Ok(()) };
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(path).unwrap_or_default();
    let available = available.trim_end();
    if available.is_empty() || available.split(' ').any(|known| known == name) {
        return Ok(());
    }
    let (name, available) = (name.clone(), available.replace(' ', ", "));
    Err(TreatError::NoCongestionControl { name, available })
}

pub(super) struct Planned {
    pub(super) change: SocketChange,
    pub(super) holder: tcpwhy_live::process::Holder,
}

/// Reads the value of each socket that is not `known`.
pub(super) fn planned(
    look: &mut reach::Look,
    setting: &Setting,
    known: &mut HashSet<u64>,
    counts: &mut Counts,
) -> Result<Vec<Planned>, TreatError> {
    let mut planned = Vec::new();
    (counts.unreached, counts.denied) = (0, 0);
    for found in std::mem::take(&mut look.found) {
        let cookie = found.entry.cookie;
        if known.contains(&cookie) {
            continue;
        }
        let Some(holder) = found.holder else {
            counts.unreached += 1;
            continue;
        };
        let read = look.open(holder, cookie).and_then(|socket| setting.read(socket.as_fd()));
        let before = match read {
            Ok(before) => before,
            Err(error) if is_gone(&error) => continue,
            Err(_) => {
                counts.denied += 1;
                continue;
            }
        };
        known.insert(cookie);
        let set = setting.wanted(&before);
        if before.is_still(&set) {
            counts.had_it += 1;
            continue;
        }
        let process = &look.holders.processes[holder.process];
        let change = SocketChange {
            cookie,
            local: found.entry.local,
            peer: found.entry.peer,
            pid: Some(process.pid),
            fd: Some(holder.fd),
            command: Some(process.command.clone()),
            before,
            set,
        };
        planned.push(Planned { change, holder });
    }
    Ok(planned)
}

/// Returns whether the process, the descriptor, or the socket no longer exists.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::EBADF | libc::ESRCH | libc::ENOTSOCK))
}

/// Refuses a scope that has no connection and no listener: most likely it is a mistake.
fn require_any(look: &reach::Look, netns: &Netns, scope: &Scope) -> Result<(), TreatError> {
    if !look.found.is_empty() || reach::listens(netns, scope)? {
        return Ok(());
    }
    let ports = reach::listeners(netns)?;
    let listening = match ports.as_slice() {
        [] => "nothing listens in this network namespace".into(),
        some => format!("what listens is {}", some.join(", ")),
    };
    Err(TreatError::NoConnection { scope: scope.words(), listening })
}

/// Refuses to begin if no socket may be reached: the changes of the hook could not be restored.
pub(super) fn require_one(look: &mut reach::Look) -> Result<(), TreatError> {
    let mut counts = Counts::default();
    for found in std::mem::take(&mut look.found) {
        let Some(holder) = found.holder else {
            counts.unreached += 1;
            continue;
        };
        match look.open(holder, found.entry.cookie) {
            Ok(_) => return Ok(()),
            Err(error) => counts.denied += u64::from(!is_gone(&error)),
        }
    }
    require_rights(&counts, 0)
}

/// Fails if no socket can be reached for lack of a privilege. A capability alone is not enough: the
/// kernel may forbid the access to all (Yama's `ptrace_scope` 3), or in another user namespace.
pub(super) fn require_rights(counts: &Counts, planned: usize) -> Result<(), TreatError> {
    let is_denied = counts.denied > 0 || !system::may_look_into_others();
    if planned > 0 || counts.had_it > 0 || !is_denied {
        return Ok(());
    }
    // If the owner of a socket may not be read, the socket looks like one that waits to be
    // accepted.
    let sockets = match counts.denied + counts.unreached {
        0 => "sockets".into(),
        number => super::sockets(number),
    };
    Err(TreatError::NoPermission { sockets })
}
