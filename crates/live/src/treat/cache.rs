//! A caching resolver in front of the configured ones for the duration of a treatment: dnsmasq(8).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::error::TreatError;
use super::host::Restored;
use super::record::CacheChange;
use crate::netns::Netns;
use crate::sys;

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
        netns: netns.inode,
        netns_name: netns.name.clone(),
        pid_file: format!("/run/tcpwhy-cache-{}-{last}.pid", netns.inode),
    })
}

/// Starts the cache; it answers queries when this returns.
pub(super) fn make(change: &CacheChange) -> Result<(), TreatError> {
    let Some(netns) = Netns::with_inode(change.netns) else {
        return Err(TreatError::Cache { said: "its network namespace is gone".into() });
    };
    let mut command = Command::new("dnsmasq");
    command.args(["--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces"]);
    command.args(["--all-servers", "--log-facility=/dev/null"]);
    command.arg(format!("--listen-address={}", change.address));
    command.arg(format!("--pid-file={}", change.pid_file));
    command.arg(format!("--cache-size={NAMES_MAX}")).arg(format!("--neg-ttl={MISSING_S}"));
    command.args(change.upstream.iter().map(|server| format!("--server={server}")));
    let output = netns.inside(|| command.output())?.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TreatError::NoDnsmasq,
        _ => TreatError::Cache { said: error.to_string() },
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(TreatError::Cache { said });
    }
    Ok(())
}

/// Ends the cache.
pub(super) fn restore(change: &CacheChange) -> io::Result<Restored> {
    let Some(pid) = running(change) else { return Ok(Restored::Gone) };
    let process = sys::pidfd_open(pid)?;
    // Another process may have the id by now, so it is checked while the descriptor is held.
    if running(change) != Some(pid) {
        return Ok(Restored::Gone);
    }
    sys::options::terminate(std::os::fd::AsFd::as_fd(&process))?;
    for _ in 0..PATIENCE {
        if running(change).is_none() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = fs::remove_file(&change.pid_file);
    Ok(Restored::Done)
}

/// Returns the number of the cache's process; its command line names the file with the number.
fn running(change: &CacheChange) -> Option<u32> {
    let pid: u32 = fs::read_to_string(&change.pid_file).ok()?.trim().parse().ok()?;
    let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).ok()?;
    String::from_utf8_lossy(&line).contains(&change.pid_file).then_some(pid)
}
