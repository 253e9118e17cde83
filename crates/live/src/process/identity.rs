//! Which process it is: numbers of processes are reused, but not together with the time of their
//! start.

use std::fs;
use std::os::fd::OwnedFd;

use crate::sys;

/// Returns the start of a running process, clock ticks after boot (proc_pid_stat(5), field 22).
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may have blanks and brackets in it: the last bracket ends field 2.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_alive = !matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| is_alive)
}

/// Returns a descriptor of the process `pid` that was started then; `None` if it has ended.
pub fn running(pid: u32, started_ticks: u64) -> Option<OwnedFd> {
    let process = sys::pidfd_open(pid).ok()?;
    // Another process may have the number by now. It is looked at while the descriptor holds it.
    (start_ticks(pid)? == started_ticks).then_some(process)
}
