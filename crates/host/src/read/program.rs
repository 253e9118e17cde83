//! Programs that hold sockets in the audited namespace: descriptors, limits, command line.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use tcpwhy_live::process::{Holders, Process, start_ticks};

/// A program that holds a socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// The process of the program.
    pub process: Process,
    /// The command line.
    pub arguments: Vec<String>,
    /// Open descriptors; `None` where they may not be counted.
    pub descriptors: Option<u64>,
    /// Number of descriptors that the program may open: the soft and the hard limit
    /// (`RLIMIT_NOFILE`); `None` if unlimited.
    pub descriptors_max: Option<(u64, u64)>,
    /// Variables of the environment that add flags to a JVM.
    pub environment: Vec<(String, String)>,
}

/// Variables by which JVMs take flags.
const JVM_VARIABLES: [&str; 3] = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// Returns the processes of `holders` in the network namespace with this inode number.
pub fn read(holders: &Holders, netns: u64) -> Vec<Program> {
    holders.processes.iter().filter(|it| is_inside(it.pid, netns)).map(program).collect()
}

/// Returns whether a process is in the network namespace with this inode number.
pub fn is_inside(pid: u32, netns: u64) -> bool {
    fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|it| it.ino() == netns)
}

fn program(process: &Process) -> Program {
    let pid = process.pid;
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let lines = |bytes: Vec<u8>| {
        let parts = bytes.split(|&byte| byte == 0).filter(|part| !part.is_empty());
        parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>()
    };
    let arguments = lines(read("cmdline"));
    let is_java = process.command == "java";
    let environment = if is_java { lines(read("environ")) } else { Vec::new() };
    let environment = environment.into_iter().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        JVM_VARIABLES.contains(&name).then(|| (name.to_owned(), value.to_owned()))
    });
    Program {
        process: process.clone(),
        arguments,
        descriptors: descriptors(pid),
        descriptors_max: limit(&String::from_utf8_lossy(&read("limits"))),
        environment: environment.collect(),
    }
}

/// Returns the number of open descriptors.
fn descriptors(pid: u32) -> Option<u64> {
    let folder = format!("/proc/{pid}/fd");
    // Linux 6.2 gives the number as the folder's size.
    let size = fs::metadata(&folder).ok()?.size();
    if size > 0 { Some(size) } else { Some(fs::read_dir(folder).ok()?.count() as u64) }
}

/// Parses `Max open files` of `/proc/PID/limits`: the soft and the hard limit.
fn limit(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut words = line.split_whitespace();
    let soft = words.next()?.parse().ok()?;
    Some((soft, words.next()?.parse().unwrap_or(u64::MAX)))
}

/// Returns the start time of a process.
pub fn started(pid: u32) -> Option<SystemTime> {
    let ticks = start_ticks(pid)?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    // User space counts in hundredths of a second on all architectures that this runs on.
    let age = uptime - ticks as f64 / 100.0;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age.max(0.0)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_descriptors_is_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max open files            1024                 524288               files\n";
        assert_eq!(limit(text), Some((1_024, 524_288)));
        assert_eq!(limit(""), None);
    }

    #[test]
    fn a_process_was_started_before_now() {
        let at = started(std::process::id()).unwrap();
        assert!(at <= SystemTime::now());
        assert!(at.elapsed().unwrap_or_default() < Duration::from_secs(3_600));
    }
}
