//! The treating process: its identity, its start, and whether it is still running.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, io};

use super::record::{By, Process, Since};
pub(super) use tcpwhy_live::process::start_ticks;
use tcpwhy_live::sys;

/// The capability to look into other processes (capabilities(7)).
const CAP_SYS_PTRACE: u32 = 19;

/// This process and its user.
pub(super) fn by() -> By {
    let pid = std::process::id();
    let uid = fs::metadata("/proc/self").map_or(u32::MAX, |metadata| metadata.uid());
    let user = env::var("SUDO_USER").ok().filter(|_| uid == 0).or_else(|| name_of(uid));
    By { uid, user, process: Process { pid, pid_start_ticks: start_ticks(pid).unwrap_or(0) } }
}

/// Returns the present time in this boot.
pub(super) fn since() -> Since {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Since { boot_id: boot_id(), unix_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX) }
}

/// Returns the kernel's identifier of this boot.
pub(super) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim_end().to_owned()
}

/// Returns a descriptor of a process; `None` if it has ended.
pub(super) fn running(process: &Process) -> Option<OwnedFd> {
    tcpwhy_live::process::running(process.pid, process.pid_start_ticks)
}

/// Asks a process to end; `false` where it has ended already.
pub(super) fn terminate(process: &Process) -> io::Result<bool> {
    match running(process) {
        Some(process) => sys::options::terminate(process.as_fd()).map(|()| true),
        None => Ok(false),
    }
}

/// Returns whether this process may inspect processes of other users.
pub(super) fn may_look_into_others() -> bool {
    sys::process::effective_capabilities().is_ok_and(|bits| bits & 1 << CAP_SYS_PTRACE != 0)
}

fn name_of(uid: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_running_and_one_that_ended_is_not() {
        let own = by().process;
        assert!(running(&own).is_some());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let ended = Process { pid, pid_start_ticks: start_ticks(pid).unwrap_or(1) };
        child.wait().unwrap();
        assert!(running(&ended).is_none());
        assert!(running(&Process { pid_start_ticks: 1, ..own }).is_none());
    }
}
