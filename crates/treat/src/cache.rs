//! A caching resolver in front of the configured ones for the duration of a treatment: dnsmasq(8).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use super::error::TreatError;
use super::host::Restored;
use super::namespace::Namespace;
use super::record::{CacheChange, Process};
use super::{helper, system};
use tcpwhy_live::netns::Netns;

/// Greatest number of names in the cache.
const NAMES_MAX: u32 = 10_000;
/// TTL of a negative answer if its server gives none, s.
const MISSING_S: u32 = 30;
/// Number of times that its end is waited for.
const PATIENCE: u32 = 100;

/// Plans a cache at a free loopback address.
pub(super) fn plan(netns: &Netns, upstream: &[IpAddr]) -> Result<CacheChange, TreatError> {
    if upstream.is_empty() {
        return Err(TreatError::NoNameserver);
    }
    let free = |last: &u8| UdpSocket::bind((Ipv4Addr::new(127, 0, 53, *last), 53)).is_ok();
    let found = netns.inside(|| (1..=250u8).find(free))?;
    let last = found.ok_or(TreatError::NoCacheAddress)?;
    let address = Ipv4Addr::new(127, 0, 53, last).into();
    Ok(CacheChange {
        address,
        upstream: upstream.to_vec(),
        namespace: Namespace::of(netns)?,
        pid_file: format!("/run/tcpwhy-cache-{}-{last}.pid", netns.inode),
        process: None,
    })
}

/// Starts the cache, and returns the change with its process; it answers queries when this returns.
pub(super) fn make(change: &CacheChange) -> Result<CacheChange, TreatError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => TreatError::NoDnsmasq,
        _ => TreatError::Cache { said: error.to_string() },
    };
    let netns = change.namespace.open().map_err(failed)?;
    let mut command = helper::command("dnsmasq");
    // It logs to syslog: dnsmasq gives a file that it logs to, also a device, to its own user.
    command.args(["--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces"]);
    command.args(["--all-servers"]);
    command.arg(format!("--listen-address={}", change.address));
    command.arg(pid_argument(change));
    command.arg(format!("--cache-size={NAMES_MAX}")).arg(format!("--neg-ttl={MISSING_S}"));
    command.args(change.upstream.iter().map(|server| format!("--server={server}")));
    let output = netns.inside(|| command.output())?.map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(TreatError::Cache { said });
    }
    Ok(CacheChange { process: running(change, &netns), ..change.clone() })
}

/// Ends the cache.
pub(super) fn restore(change: &CacheChange) -> io::Result<Restored> {
    let Some(netns) = change.namespace.find()? else { return Ok(Restored::Gone) };
    let process = change.process.clone().or_else(|| running(change, &netns));
    let ended = process.map_or(Ok(false), |process| end(&process))?;
    let _ = fs::remove_file(&change.pid_file);
    Ok(if ended { Restored::Done } else { Restored::Gone })
}

/// Ends a process and waits for that; `false` if it has ended already.
fn end(process: &Process) -> io::Result<bool> {
    if !system::terminate(process)? {
        return Ok(false);
    }
    for _ in 0..PATIENCE {
        if system::running(process).is_none() {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::other(format!("process {} does not end", process.pid)))
}

fn pid_argument(change: &CacheChange) -> String {
    format!("--pid-file={}", change.pid_file)
}

/// Returns the process of the cache: in its namespace, with its file in the command line. The file
/// is not needed, which another program may have removed.
fn running(change: &CacheChange, netns: &Netns) -> Option<Process> {
    let wanted = pid_argument(change);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        words.any(|word| word == wanted.as_bytes())
            && Netns::of_process(*pid).is_ok_and(|its| its.inode == netns.inode)
    })?;
    Some(Process { pid, pid_start_ticks: system::start_ticks(pid)? })
}
